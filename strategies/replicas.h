/* strategies/replicas.h - what synchronous strategies have in common: devices of replicas, options.
 */
#ifndef WEFT_STRATEGIES_REPLICAS_H_
#define WEFT_STRATEGIES_REPLICAS_H_

#include "strategies/options.h"
#include "strategies/replicate.h"
#include "strategies/strategy.h"

/* Options of strategies within one task, and of all strategies that split batches. */
#define WEFT_TASK_OPTIONS(OPTION)                                                                          \
  OPTION(                                                                                                  \
      replicas, COUNT, "N", "0",                                                                           \
      "how many replicas; 0: as many as the task has devices of the type, 2 CPUs in a process of its own") \
  OPTION(devices, TEXT, "CPU:0+CPU:1", "", "the devices of replicas")                                      \
  WEFT_DEVICE_TYPE_OPTION(OPTION)
#define WEFT_DEVICE_TYPE_OPTION(OPTION)                                                                      \
  OPTION(device_type, TEXT, "TYPE", "",                                                                      \
         "the type of the replicas' devices; default: GPU or another accelerator where there are any, else " \
         "CPU")
#define WEFT_BATCH_OPTION(OPTION)      \
  OPTION(batch, TEXT, "NAME+NAME", "", \
         "the feeds that are split by rows; default: those with an unknown first dimension")
#define WEFT_INPUT_OPTION(OPTION)                                                                           \
  OPTION(input, CHOICE, "auto|sharded|split", "auto",                                                       \
         "iterators are read by each task, its part (sharded) or by one for all (split); default: by each " \
         "where the results are those of one device")
/* Options of strategies that reduce gradients. A strategy's own options stand before them; `replicas` comes
 * first.
 */
#define WEFT_SUM_OPTIONS(OPTION)                                                                         \
  WEFT_BATCH_OPTION(OPTION)                                                                              \
  OPTION(fusion, CHOICE, "ddp|horovod|pack|none", "ddp", "which gradients travel together")              \
  OPTION(bucket_bytes, BYTES, "BYTES", "25M", "how much one all-reduce carries")                         \
  OPTION(first_bucket_bytes, BYTES, "BYTES", "1M", "the same for the first bucket of each type (ddp)")   \
  OPTION(bytes_per_pack, BYTES, "BYTES", "", "TensorFlow's rule: packs of so many bytes; 0: all in one") \
  OPTION(order, CHOICE, "ready|static", "ready",                                                         \
         "all-reduces start when they are full, or one after the other")                                 \
  OPTION(ready, TEXT, "T+T+...", "",                                                                     \
         "when each summed value was ready, from step statistics: buckets follow that order")            \
  OPTION(reduce, CHOICE, "collective|one", "collective",                                                 \
         "sums are all-reduced, or made on the first replica")                                           \
  OPTION(algorithm, CHOICE, "auto|ring|tree|halving_doubling|hierarchical|direct", "auto",               \
         "how all-reduces move data")                                                                    \
  OPTION(timeout, NUMBER, "SECONDS", "0",                                                                \
         "how long an all-reduce may take; 0: for ever, with a client per worker ten minutes")           \
  OPTION(batch_norm, CHOICE, "global|replica", "global",                                                 \
         "fused batch normalisation: statistics of the batch, or of a replica")                          \
  OPTION(accumulate, COUNT, "STEPS", "1", "gradients are added up over so many steps before they are applied")

/* From values[first..], in the order of WEFT_SUM_OPTIONS. Arrays are in `arena`. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_replicas_sum_options(const char *strategy,
                                                         const weft_option_value_t *values,
                                                         weft_arena_t *arena, weft_replicate_options_t *o);
/* Whether they go together. Errors: the same. */
WEFT_MUST_CHECK weft_status_t *weft_replicas_check_sums(const char *strategy,
                                                        const weft_option_value_t *values);
/* The `batch` option alone. */
WEFT_MUST_CHECK weft_status_t *weft_replicas_batch_option(const weft_option_value_t *value,
                                                          weft_arena_t *arena, weft_names_t *out);

/* A device as an option names it: "CPU:1" is one of `task`. */
weft_str_t weft_replicas_named_device(weft_arena_t *arena, weft_str_t task, weft_str_t name);

typedef struct weft_replicas {
  weft_str_t *devices; /* in the arena */
  int n;
  int num_local_cpus; /* 0: the tasks have all that is needed */
} weft_replicas_t;

/* `per_task` (0: all) devices of `type` ("": the accelerators that all these tasks have, else CPUs) of each
 * of `tasks` (0: all) tasks that work, the chief first. One task that is no part of a cluster plays all of
 * them.
 */
WEFT_MUST_CHECK weft_status_t *weft_replicas_on_tasks(const char *strategy,
                                                      const weft_cluster_view_t *cluster, int tasks,
                                                      int per_task, weft_str_t type, weft_arena_t *arena,
                                                      weft_replicas_t *out);
/* Copies the devices into the engine's options and into the rewrite. */
void weft_replicas_use(const weft_replicas_t *replicas, weft_replicate_options_t *o, weft_rewrite_t *out);
/* num_local_cpus, so that `device` is there, too. */
int weft_replicas_count_local(const weft_cluster_view_t *cluster, int num_local_cpus, weft_str_t device);
/* What strategies within one task begin with: options, of which WEFT_TASK_OPTIONS come first, to `values`;
 * the name and the devices of replicas to `o` and `out`. The task is the only one, else the first that works
 * (chief, worker). Errors: INVALID_ARGUMENT naming the option, or "...: 4 replicas, but the task has 2 CPU
 * devices". */
WEFT_MUST_CHECK weft_status_t *weft_replicas_begin(const weft_strategy_t *self,
                                                   const weft_strategy_request_t *r,
                                                   const weft_option_def_t *defs, int num_options,
                                                   weft_option_value_t *values, weft_rewrite_t *out,
                                                   weft_replicate_options_t *o);
/* The task that replicas live in, or where the first one does. */
weft_str_t weft_replicas_task(const weft_cluster_view_t *cluster);

#endif /* WEFT_STRATEGIES_REPLICAS_H_ */
