/* strategies/multi_worker_mirrored.c - replicas on all workers, a copy of every variable on each.
 *
 * One client drives all workers: the initial values are those that the first
 * worker computes, sent to all others. Source: reference strategies 3.26
 * (tf.distribute.MultiWorkerMirroredStrategy), whose clients are one per worker.
 */
#include "strategies/replicas.h"

#define NAME "multi_worker_mirrored"
#define OPTIONS(OPTION)                                                                                 \
  OPTION(workers, COUNT, "N", "0", "how many tasks, the chief first; 0: all of job chief and job worker") \
  OPTION(per_worker, COUNT, "N", "0", "how many CPU devices of each; 0: all")                           \
  WEFT_SUM_OPTIONS(OPTION)

enum { OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {OPTIONS(WEFT_OPTION_DEF)};

static weft_status_t *run(const weft_strategy_request_t *r, weft_rewrite_t *out, weft_cost_t *cost) {
  weft_option_value_t values[NUM_OPTIONS];
  weft_replicas_t replicas = {0};
  weft_replicate_options_t o = {.strategy = NAME, .variables = WEFT_VARIABLES_MIRRORED};
  WEFT_RETURN_IF_ERROR(weft_options_parse(NAME, defs, NUM_OPTIONS, r->options, values));
  WEFT_RETURN_IF_ERROR(weft_replicas_sum_options(NAME, &values[OPTION_batch], &out->arena, &o));
  WEFT_RETURN_IF_ERROR(weft_replicas_on_tasks(NAME, r->cluster, (int)values[OPTION_workers].i, (int)values[OPTION_per_worker].i,
                                              &out->arena, &replicas));
  o.devices = replicas.devices;
  o.num_replicas = replicas.n;
  out->num_local_cpus = replicas.num_local_cpus;
  return weft_replicate(r, &o, out, cost);
}

static weft_status_t *probe(const weft_strategy_request_t *r, weft_cost_t *out) {
  weft_rewrite_t trial = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = run(r, &trial, out);
  weft_rewrite_deinit(&trial);
  return s;
}

static weft_status_t *rewrite(const weft_strategy_request_t *r, weft_rewrite_t *out) { return run(r, out, NULL); }

const weft_strategy_t weft_multi_worker_mirrored_strategy = {
    .name = NAME,
    .about = "replicas on the devices of all workers, variables copied to each, gradients all-reduced",
    .usage = NAME "[:N][,option=value...]\n" OPTIONS(WEFT_OPTION_USAGE),
    .probe = probe,
    .rewrite = rewrite,
};
