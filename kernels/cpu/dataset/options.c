/* kernels/cpu/dataset/options.c - options of pipelines, and the data sets that only carry them: what those
 * ask for is done without them, or changes nothing that can be seen. */
#include "kernels/cpu/dataset/options.h"

#include "base/alloc.h"
#include "kernels/cpu/dataset/sequence.h"
#include "kernels/cpu/dataset/traversal.h"
#include "kernels/state.h"
#include "protos/wire.h"

weft_status_t *weft_order_read(const weft_kernel_setup_t *setup, weft_order_t *out) {
  const weft_attr_t *word = weft_knode_attr(setup, "deterministic");
  if (word == NULL) {
    *out = weft_knode_bool_or(setup, "sloppy", false) ? WEFT_ORDER_ANY : WEFT_ORDER_OF_OPTIONS;
  } else if (weft_str_is(word->s, "true")) {
    *out = WEFT_ORDER_KEPT;
  } else if (weft_str_is(word->s, "false")) {
    *out = WEFT_ORDER_ANY;
  } else if (weft_str_is(word->s, "default")) {
    *out = WEFT_ORDER_OF_OPTIONS;
  } else {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unrecognized value for DeterminismPolicy: %.*s",
                      WEFT_STR_ARGS(word->s));
  }
  return NULL;
}

bool weft_order_is_any(weft_order_t o, const weft_traversal_t *n) {
  return o == WEFT_ORDER_ANY || (o == WEFT_ORDER_OF_OPTIONS && !n->is_deterministic);
}

weft_status_t *weft_parallel_in(const weft_kernel_ctx_t *c, int i, int64_t *out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, i, "num_parallel_calls", out));
  if (*out < 1 && *out != WEFT_AUTOTUNE)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_parallel_calls must be greater than zero.");
  if (*out > WEFT_MAX_PARALLEL) *out = WEFT_MAX_PARALLEL;
  return NULL;
}

void weft_parallel_limit(const weft_iterator_t *it, int64_t num_parallel, weft_ahead_options_t *o) {
  enum { BUFFERED = 16 }; /* elements that have ended and were not taken yet */
  const weft_thread_pool_t *pool = it->traversal->device->pool;
  const int threads = pool != NULL ? weft_thread_pool_size(pool) : 1;
  o->max_calls = num_parallel != WEFT_AUTOTUNE ? (int)num_parallel : threads;
  o->num_threads = o->max_calls < threads ? o->max_calls : threads;
  o->limit = o->max_calls + BUFFERED;
}

/* ---- OptionsDataset ---- */

/* Field numbers of the message Options (tensorflow/core/framework/dataset_options.proto). */
enum {
  OPTIONS_DETERMINISTIC = 1,
  OPTIONS_DISTRIBUTE = 2,
  DISTRIBUTE_AUTO_SHARD_POLICY = 1,
  OPTIONS_AUTOTUNE = 7,
  AUTOTUNE_RAM_BUDGET = 3
};

typedef struct options {
  weft_dataset_params_t base;
  bool has_order, is_deterministic, has_policy;
  int64_t policy;  /* of sharing the data among workers */
  int64_t budget;  /* bytes of elements that are made ahead; 0: not said */
  weft_str_t lent; /* the message, as the attribute has it */
  char *message;   /* a copy of it */
} options_t;

static void options_deinit(void *params) { weft_free(((options_t *)params)->message); }

static weft_status_t *options_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  options_t *p = params;
  (void)c, (void)at, (void)d;
  p->message = weft_strndup(p->lent.data != NULL ? p->lent.data : "", p->lent.length);
  return p->message != NULL ? NULL : WEFT_NO_MEMORY("the options of a data set");
}

/* Sets *to to the integer in a field of a message; false: it is not there. */
static bool find_int(weft_str_t message, uint32_t field, int64_t *to) {
  weft_wire_reader_t r = weft_wire_reader(message);
  bool is_there = false;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(field, WEFT_WIRE_VARINT)) continue;
    *to = weft_wire_i64(f.value);
    is_there = true;
  }
  return is_there;
}

static weft_status_t *options_read(const weft_kernel_setup_t *setup, void *params) {
  options_t *p = params;
  p->lent = weft_knode_string(setup, "serialized_options");
  weft_wire_reader_t w = weft_wire_reader(p->lent);
  for (weft_wire_field_t f; weft_wire_next(&w, &f);) {
    if (f.tag == WEFT_WIRE_TAG(OPTIONS_AUTOTUNE, WEFT_WIRE_BYTES))
      (void)find_int(f.bytes, AUTOTUNE_RAM_BUDGET, &p->budget);
    if (f.tag == WEFT_WIRE_TAG(OPTIONS_DISTRIBUTE, WEFT_WIRE_BYTES))
      p->has_policy = find_int(f.bytes, DISTRIBUTE_AUTO_SHARD_POLICY, &p->policy);
    if (f.tag != WEFT_WIRE_TAG(OPTIONS_DETERMINISTIC, WEFT_WIRE_VARINT)) continue;
    p->has_order = true;
    p->is_deterministic = f.value != 0;
  }
  return w.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Could not parse serialized options as valid Options.")
                  : NULL;
}

static weft_status_t *options_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  return weft_iterator_next(it->input, out, is_end);
}

const weft_dataset_class_t weft_options_class = {.name = "Options",
                                                 .keeps_batches = true,
                                                 .shards_by_input = true,
                                                 .iterator_size = sizeof(weft_iterator_t),
                                                 .opens_inputs = true,
                                                 .next = options_next};

void weft_options_apply(const weft_dataset_t *d, weft_traversal_t *n) {
  bool has_order = false, has_budget = false;
  for (; d != NULL; d = d->num_inputs > 0 ? d->inputs[0] : NULL) {
    if (d->class != &weft_options_class) continue;
    const options_t *p = (const options_t *)d->params;
    if (p->has_order && !has_order) n->is_deterministic = p->is_deterministic;
    if (p->budget > 0 && !has_budget) n->budget = p->budget;
    has_order |= p->has_order;
    has_budget |= p->budget > 0;
  }
}

int64_t weft_options_shard_policy(const weft_dataset_t *d) {
  for (; d != NULL; d = d->num_inputs > 0 ? d->inputs[0] : NULL) {
    const options_t *p = d->class == &weft_options_class ? (const options_t *)d->params : NULL;
    if (p != NULL && p->has_policy) return p->policy;
  }
  return 0;
}

/* The options of the outermost data set that has any; "" if none has. */
static weft_status_t *get_options(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  weft_tensor_t *t = NULL;
  weft_str_t text = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  while (d->class != &weft_options_class && d->num_inputs > 0) d = d->inputs[0];
  if (d->class == &weft_options_class) {
    const options_t *p = (const options_t *)d->params;
    text = weft_str_of(p->message, p->lent.length);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_string(text, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

/* ---- those that pass their input on ---- */

static weft_status_t *pass_on(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, 0)));
  return NULL;
}

/* The same data set, which from here on is not written as a graph. */
static weft_status_t *without_graph(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL, *made = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  WEFT_RETURN_IF_ERROR(weft_dataset_create(d, d->inputs, d->num_inputs, &made));
  WEFT_RETURN_IF_ERROR(weft_dataset_tensor(made, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

/* A handle of the type that is the row's param, with nothing behind it: a pool of threads that a data set is
 * to run on (it runs on the task's), or what gathers its statistics (traces and metrics have them). */
static weft_status_t *empty_handle(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_handle(c->device, "localhost", c->node->name.data, c->node->param, NULL,
                                         WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

static const weft_resource_type_t pool_type = {.name = "N10tensorflow4data18ThreadPoolResourceE",
                                               .text = "ThreadPool"};
static const weft_resource_type_t statistics_type = {.name = "N10tensorflow4data23StatsAggregatorResourceE",
                                                     .text = "StatsAggregator"};

static const weft_dataset_op_t options_op = {.class = &weft_options_class,
                                             .num_inputs = 1,
                                             .params_size = sizeof(options_t),
                                             .read = options_read,
                                             .make = options_make,
                                             .deinit = options_deinit};

const weft_kernel_t weft_cpu_dataset_options_kernels[] = {
    {.op = "BytesProducedStatsDataset", .compute = pass_on},
    {.op = "ExperimentalBytesProducedStatsDataset", .compute = pass_on},
    {.op = "ExperimentalLatencyStatsDataset", .compute = pass_on},
    {.op = "ExperimentalMaxIntraOpParallelismDataset", .compute = pass_on},
    {.op = "ExperimentalNonSerializableDataset", .compute = without_graph},
    {.op = "ExperimentalPrivateThreadPoolDataset", .compute = pass_on},
    {.op = "ExperimentalSetStatsAggregatorDataset", .compute = pass_on},
    {.op = "ExperimentalStatsAggregatorHandle", .compute = empty_handle, .param = &statistics_type},
    {.op = "ExperimentalThreadPoolDataset", .compute = pass_on},
    {.op = "ExperimentalThreadPoolHandle", .compute = empty_handle, .param = &pool_type},
    {.op = "FinalizeDataset", .compute = pass_on},
    {.op = "GetOptions", .compute = get_options},
    {.op = "LatencyStatsDataset", .compute = pass_on},
    {.op = "MaxIntraOpParallelismDataset", .compute = pass_on},
    {.op = "ModelDataset", .compute = pass_on},
    {.op = "NonSerializableDataset", .compute = without_graph},
    {.op = "OptimizeDataset", .compute = pass_on},
    {.op = "OptimizeDatasetV2", .compute = pass_on},
    WEFT_DATASET_ROW("OptionsDataset", options_op),
    {.op = "PrivateThreadPoolDataset", .compute = pass_on},
    {.op = "RewriteDataset", .compute = pass_on},
    {.op = "SetStatsAggregatorDataset", .compute = pass_on},
    {.op = "StatsAggregatorHandle", .compute = empty_handle, .param = &statistics_type},
    {.op = "StatsAggregatorHandleV2", .compute = empty_handle, .param = &statistics_type},
    {.op = "ThreadPoolDataset", .compute = pass_on},
    {.op = "ThreadPoolHandle", .compute = empty_handle, .param = &pool_type},
    {.op = "UnwrapDatasetVariant", .compute = pass_on},
    {.op = "WrapDatasetVariant", .compute = pass_on},
    {0},
};
