/* strategies/multi_worker_mirrored.c - replicas on all workers, a copy of every variable on each.
 *
 * One client drives all workers: the initial values are those that the first
 * worker computes, sent to all others. With option `task` the rewrite is for one
 * worker and a client of its own, as TensorFlow has it: feeds and fetched rows are
 * the worker's, and values common to all workers are exchanged by collectives. Source: reference
 * strategies 3.26 (tf.distribute.MultiWorkerMirroredStrategy).
 */
#include "strategies/replicas.h"
#include "strategies/strategy.h"

#define NAME "multi_worker_mirrored"
#define OPTIONS(OPTION)                                                                                   \
  OPTION(workers, COUNT, "N", "0", "how many tasks, the chief first; 0: all of job chief and job worker") \
  OPTION(per_worker, COUNT, "N", "0", "how many devices of each; 0: all")                                 \
  WEFT_DEVICE_TYPE_OPTION(OPTION)                                                                         \
  OPTION(task, COUNT, "I", "", "the rewrite for worker I (chief first) and a client of its own")          \
  WEFT_INPUT_OPTION(OPTION)                                                                               \
  WEFT_SUM_OPTIONS(OPTION)

enum { OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {OPTIONS(WEFT_OPTION_DEF)};

enum { CLIENTS_TIMEOUT_S = 600 }; /* the default timeout of collectives between workers with a client each */

/* "/job:worker/replica:0/task:1" of a device. */
static weft_str_t task_of(weft_str_t device) {
  ptrdiff_t at = weft_str_rfind(device, '/');
  return weft_str_of(device.data, at < 0 ? 0 : (size_t)at);
}

/* Leaves the replicas of the `number`-th task; all must be on tasks of a cluster, in runs. */
static weft_status_t *narrow(const weft_replicas_t *all, int64_t number, weft_replicate_options_t *o) {
  int begin = 0, end = 0;
  for (int64_t task = 0; end < all->n; task++) {
    begin = end;
    while (end < all->n && weft_str_eq(task_of(all->devices[end]), task_of(all->devices[begin]))) end++;
    if (task < number) continue;
    if (end - begin == all->n) return NULL; /* there is no other worker */
    if (o->accumulate > 1)
      return WEFT_ERROR(INVALID_ARGUMENT,
                        NAME ": option 'accumulate' is for one client that drives all workers");
    if (o->sum != WEFT_SUM_BY_COLLECTIVES)
      return WEFT_ERROR(INVALID_ARGUMENT, NAME ": option 'task' is for reduce=collective");
    o->devices = all->devices + begin;
    o->num_replicas = end - begin;
    o->all_devices = all->devices;
    o->num_all_devices = all->n;
    o->first_replica = begin;
    /* Another worker's client may have failed, which its peers cannot see while its task is alive. */
    if (o->timeout_seconds <= 0) o->timeout_seconds = CLIENTS_TIMEOUT_S;
    return NULL;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, NAME ": there is no worker %d", (int)number);
}

/* A hash that is equal for all clients of the same graph on the same devices. Never 0. */
static int64_t key_of(const weft_replicas_t *all, const weft_graph_t *g) {
  uint64_t key = (uint64_t)g->num_live;
  for (int i = 0; i < all->n; i++) key = key * 0x100000001b3u ^ weft_str_hash64(all->devices[i]);
  return (int64_t)(key >> 2) + 1;
}

static weft_status_t *check(const weft_strategy_t *self, weft_str_t options) {
  weft_option_value_t values[NUM_OPTIONS];
  WEFT_RETURN_IF_ERROR(weft_options_parse(self->name, defs, NUM_OPTIONS, options, values));
  return weft_replicas_check_sums(self->name, &values[OPTION_batch]);
}

static weft_status_t *rewrite(const weft_strategy_t *self, const weft_strategy_request_t *r,
                              weft_rewrite_t *out) {
  weft_option_value_t values[NUM_OPTIONS];
  weft_replicas_t replicas = {0};
  weft_replicate_options_t o = {.strategy = self->name, .variables = WEFT_VARIABLES_MIRRORED};
  WEFT_RETURN_IF_ERROR(weft_options_parse(self->name, defs, NUM_OPTIONS, r->options, values));
  WEFT_RETURN_IF_ERROR(weft_replicas_sum_options(self->name, &values[OPTION_batch], &out->arena, &o));
  WEFT_RETURN_IF_ERROR(weft_replicas_on_tasks(self->name, r->cluster, (int)values[OPTION_workers].i,
                                              (int)values[OPTION_per_worker].i,
                                              values[OPTION_device_type].text, &out->arena, &replicas));
  weft_replicas_use(&replicas, &o, out);
  o.input = (weft_input_policy_t)values[OPTION_input].i;
  if (values[OPTION_task].is_given && o.input == WEFT_INPUT_SHARDED)
    return WEFT_ERROR(INVALID_ARGUMENT, NAME ": option 'input' is for one client that drives all workers");
  if (values[OPTION_task].is_given) WEFT_RETURN_IF_ERROR(narrow(&replicas, values[OPTION_task].i, &o));
  WEFT_RETURN_IF_ERROR(weft_replicate(r, &o, out));
  if (values[OPTION_task].is_given) {
    out->loops[0].task = task_of(o.devices[0]);
    out->collective_graph_key = key_of(&replicas, r->graph);
  }
  return NULL;
}

const weft_strategy_t weft_multi_worker_mirrored_strategy = {
    .name = NAME,
    .about = "replicas on the devices of all workers, variables copied to each, gradients all-reduced",
    .usage = NAME "[:N][,option=value...]\n" OPTIONS(WEFT_OPTION_USAGE),
    .check = check,
    .probe = weft_strategy_probe_by_trial,
    .rewrite = rewrite,
    .explain = weft_strategy_explain_rewrite,
};
