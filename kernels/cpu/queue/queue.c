/* kernels/cpu/queue/queue.c - the kernels of queues: making one, and its operations, by handle or by
 * old-style reference. */
#include "resources/tensor_queue.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

/* ---- the nodes that make queues ---- */

typedef struct queue_node {
  weft_tensor_queue_config_t config;
  weft_str_t op_name; /* static: of the op table */
} queue_node_t;

/* The param of a row. */
typedef struct queue_form {
  weft_state_maker_t maker; /* first */
  weft_tensor_queue_kind_t kind;
} queue_form_t;

static void deinit(void *node) { weft_tensor_queue_config_deinit(&((queue_node_t *)node)->config); }

static void print_types(const weft_dtype_t *dtypes, int n, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "%s%s", i == 0 ? "" : ", ", weft_dtype_name(dtypes[i]));
}

static void print_shapes(const weft_shape_t *shapes, int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "[");
  for (int i = 0; shapes != NULL && i < n; i++) {
    weft_strbuf_printf(out, "%s%s", i == 0 ? "" : ", ", WEFT_SHAPE_TEXT(&shapes[i]));
  }
  weft_strbuf_puts(out, "]");
}

static const char *text(const weft_strbuf_t *b) { return b->data == NULL ? "" : b->data; }

/* Copies the lists of types and shapes; a priority queue has its int64 in front of them. */
static weft_status_t *read_components(const weft_kernel_setup_t *setup, weft_tensor_queue_config_t *config) {
  const weft_attr_t *types = weft_knode_attr(setup, "component_types"),
                    *shapes = weft_knode_attr(setup, "shapes");
  int num_types = types == NULL ? 0 : types->n, num_shapes = shapes == NULL ? 0 : shapes->n;
  int extra = config->kind == WEFT_QUEUE_PRIORITY ? 1 : 0;
  config->num_components = num_types + extra;
  config->dtypes = weft_calloc((size_t)config->num_components + 1, sizeof config->dtypes[0]);
  bool has_shapes = num_shapes > 0 || extra > 0;
  if (has_shapes) config->shapes = weft_calloc((size_t)(num_shapes + extra) + 1, sizeof config->shapes[0]);
  if (config->dtypes == NULL || (has_shapes && config->shapes == NULL)) {
    return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  }
  if (extra > 0) {
    config->dtypes[0] = WEFT_I64;
    config->shapes[0] = WEFT_SCALAR;
  }
  for (int i = 0; i < num_types; i++) config->dtypes[i + extra] = (weft_dtype_t)types->list.types[i];
  for (int i = 0; i < num_shapes; i++) config->shapes[i + extra] = shapes->list.shapes[i];
  if (config->num_components == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "a queue needs at least one component");
  if (has_shapes && num_shapes != num_types) {
    weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
    print_types(config->dtypes, config->num_components, &a);
    print_shapes(config->shapes, num_shapes + extra, &b);
    weft_status_t *s = WEFT_ERROR(
        INVALID_ARGUMENT, "Different number of component types.  Types: %s, Shapes: %s", text(&a), text(&b));
    weft_strbuf_deinit(&a);
    weft_strbuf_deinit(&b);
    return s;
  }
  for (int i = 0; has_shapes && config->kind != WEFT_QUEUE_PADDING && i < config->num_components; i++) {
    if (weft_shape_is_known(&config->shapes[i])) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "the shape of component %d of a %s must be fully known, but is %s", i,
                      weft_tensor_queue_kind_name(config->kind), WEFT_SHAPE_TEXT(&config->shapes[i]));
  }
  return NULL;
}

static weft_status_t *create(weft_kernel_ctx_t *ctx, const char *name, const void *node,
                             weft_object_t **out) {
  (void)ctx;
  const queue_node_t *st = node;
  weft_tensor_queue_config_t config = st->config;
  size_t n = (size_t)config.num_components;
  config.dtypes = weft_calloc(n, sizeof config.dtypes[0]);
  config.shapes = st->config.shapes == NULL ? NULL : weft_calloc(n, sizeof config.shapes[0]);
  weft_status_t *s = NULL;
  if (config.dtypes == NULL || (config.shapes == NULL) != (st->config.shapes == NULL)) {
    s = WEFT_NO_MEMORY("creating a queue");
  } else {
    memcpy(config.dtypes, st->config.dtypes, n * sizeof config.dtypes[0]);
    if (config.shapes != NULL) memcpy(config.shapes, st->config.shapes, n * sizeof config.shapes[0]);
    s = weft_tensor_queue_create(name, &config, out);
  }
  if (s != NULL) weft_tensor_queue_config_deinit(&config);
  return s;
}

static bool same_types(const weft_tensor_queue_config_t *a, const weft_tensor_queue_config_t *b) {
  if (a->num_components != b->num_components) return false;
  for (int i = 0; i < a->num_components; i++) {
    if (a->dtypes[i] != b->dtypes[i]) return false;
  }
  return true;
}

static bool same_shapes(const weft_tensor_queue_config_t *a, const weft_tensor_queue_config_t *b) {
  if ((a->shapes == NULL) != (b->shapes == NULL)) return false;
  for (int i = 0; a->shapes != NULL && i < a->num_components; i++) {
    if (!weft_shape_eq(&a->shapes[i], &b->shapes[i])) return false;
  }
  return true;
}

static weft_status_t *other_types(const char *name, const weft_tensor_queue_config_t *has,
                                  const weft_tensor_queue_config_t *wants) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  print_types(has->dtypes, has->num_components, &a);
  print_types(wants->dtypes, wants->num_components, &b);
  weft_status_t *s = WEFT_ERROR(
      INVALID_ARGUMENT, "Shared queue '%s' has component types %s but requested component types were %s",
      name, text(&a), text(&b));
  weft_strbuf_deinit(&a);
  weft_strbuf_deinit(&b);
  return s;
}

static weft_status_t *other_shapes(const char *name, const weft_tensor_queue_config_t *has,
                                   const weft_tensor_queue_config_t *wants) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  print_shapes(has->shapes, has->num_components, &a);
  print_shapes(wants->shapes, wants->num_components, &b);
  weft_status_t *s = WEFT_ERROR(
      INVALID_ARGUMENT, "Shared queue '%s' has component shapes %s but requested component shapes were %s",
      name, text(&a), text(&b));
  weft_strbuf_deinit(&a);
  weft_strbuf_deinit(&b);
  return s;
}

/* Nodes that share a queue must mean the same one. */
static weft_status_t *check(const char *name, const void *node, weft_object_t *o) {
  const queue_node_t *st = node;
  const weft_tensor_queue_config_t *has = weft_tensor_queue_config((weft_tensor_queue_t *)o),
                                   *wants = &st->config;
  if (has->kind != wants->kind) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected %s, found %.*s", weft_tensor_queue_kind_name(has->kind),
                      WEFT_STR_ARGS(st->op_name));
  }
  if (has->capacity != wants->capacity) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Shared queue '%s' has capacity %" PRId64 " but requested capacity was %" PRId64, name,
                      has->capacity, wants->capacity);
  }
  if (has->min_after_dequeue != wants->min_after_dequeue) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Shared queue '%s' has min_after_dequeue %" PRId64
                      " but requested min_after_dequeue was %" PRId64 ".",
                      name, has->min_after_dequeue, wants->min_after_dequeue);
  }
  bool same_seeds = has->seed == wants->seed && has->seed2 == wants->seed2;
  if (!same_seeds && (wants->seed != 0 || wants->seed2 != 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Shared queue '%s' has random seeds (%" PRId64 ", %" PRId64
                      ") but requested seeds are (%" PRId64 ", %" PRId64 ").",
                      name, has->seed, has->seed2, wants->seed, wants->seed2);
  }
  if (!same_types(has, wants)) return other_types(name, has, wants);
  if (!same_shapes(has, wants)) return other_shapes(name, has, wants);
  return NULL;
}

static weft_status_t *read_shuffle(const weft_kernel_setup_t *setup, weft_tensor_queue_config_t *config) {
  config->min_after_dequeue = weft_knode_int(setup, "min_after_dequeue");
  config->seed = weft_knode_int(setup, "seed");
  config->seed2 = weft_knode_int(setup, "seed2");
  if (config->min_after_dequeue < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "min_after_dequeue %" PRId64 " must be >= 0",
                      config->min_after_dequeue);
  }
  if (config->min_after_dequeue >= config->capacity) {
    return WEFT_ERROR(INVALID_ARGUMENT, "min_after_dequeue %" PRId64 " must be < capacity %" PRId64,
                      config->min_after_dequeue, config->capacity);
  }
  return NULL;
}

static weft_status_t *read_node(const weft_kernel_setup_t *setup, void *node) {
  queue_node_t *st = node;
  int64_t capacity = weft_knode_int(setup, "capacity");
  st->op_name = setup->node.op->name;
  st->config.kind = ((const queue_form_t *)setup->node.param)->kind;
  st->config.capacity = capacity < 0 ? INT32_MAX : capacity;
  if (st->config.kind == WEFT_QUEUE_SHUFFLE) WEFT_RETURN_IF_ERROR(read_shuffle(setup, &st->config));
  return read_components(setup, &st->config);
}

/* ---- operations ---- */

static weft_status_t *in_queue(weft_kernel_ctx_t *c, weft_tensor_queue_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_tensor_queue_type, &o));
  *out = (weft_tensor_queue_t *)o;
  return NULL;
}

static void release(weft_tensor_queue_t *q) { weft_object_release((weft_object_t *)q); }

static weft_status_t *no_timeout(const weft_kernel_setup_t *setup, void **out_state) {
  *out_state = NULL;
  if (weft_knode_int_or(setup, "timeout_ms", -1) == -1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Timeout not supported.");
}

/* The node's components must be the queue's: "have: resource, int32-> expected: resource, float->". */
static weft_status_t *check_signature(weft_kernel_ctx_t *c, const weft_tensor_queue_t *q, int fixed_inputs) {
  const weft_tensor_queue_config_t *config = weft_tensor_queue_config(q);
  const weft_kernel_node_t *n = c->node;
  bool puts = n->num_outputs == 0;
  const int *have = puts ? n->input_types + fixed_inputs : n->output_types;
  int num_have = puts ? n->num_inputs - fixed_inputs : n->num_outputs;
  bool same = num_have == config->num_components;
  for (int i = 0; same && i < num_have; i++) same = weft_dtype_base(have[i]) == config->dtypes[i];
  if (same) return NULL;
  weft_strbuf_t fixed = WEFT_STRBUF_INIT, a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  for (int i = 0; i < fixed_inputs; i++) {
    weft_strbuf_printf(&fixed, "%s%s", i == 0 ? "" : ", ", weft_dtype_name(n->input_types[i]));
  }
  for (int i = 0; i < num_have; i++)
    weft_strbuf_printf(&a, "%s%s", i == 0 ? "" : ", ", weft_dtype_name(have[i]));
  print_types(config->dtypes, config->num_components, &b);
  weft_status_t *s =
      puts ? WEFT_ERROR(INVALID_ARGUMENT, "Signature mismatch, have: %s%s%s-> expected: %s, %s->",
                        text(&fixed), num_have == 0 ? "" : ", ", text(&a), text(&fixed), text(&b))
           : WEFT_ERROR(INVALID_ARGUMENT, "Signature mismatch, have: %s->%s expected: %s->%s", text(&fixed),
                        text(&a), text(&fixed), text(&b));
  weft_strbuf_deinit(&fixed);
  weft_strbuf_deinit(&a);
  weft_strbuf_deinit(&b);
  return s;
}

static void enqueue(weft_kernel_ctx_t *c, bool is_many) {
  weft_tensor_queue_t *q = NULL;
  weft_status_t *s = in_queue(c, &q);
  if (s == NULL) s = check_signature(c, q, 1);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_tensor_queue_enqueue(q, &call, c->inputs + 1, c->node->num_inputs - 1, is_many);
  }
  release(q);
}

static void enqueue_one(weft_kernel_ctx_t *c) { enqueue(c, false); }
static void enqueue_many(weft_kernel_ctx_t *c) { enqueue(c, true); }

static void dequeue_one(weft_kernel_ctx_t *c) {
  weft_tensor_queue_t *q = NULL;
  weft_status_t *s = in_queue(c, &q);
  if (s == NULL) s = check_signature(c, q, 1);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_tensor_queue_dequeue(q, &call);
  }
  release(q);
}

static void dequeue_batch(weft_kernel_ctx_t *c, bool is_up_to) {
  weft_tensor_queue_t *q = NULL;
  int64_t n = 0;
  int count = 0;
  weft_status_t *s = in_queue(c, &q);
  if (s == NULL) s = weft_read_ints(weft_in(c, 1), "n", 1, &n, &count);
  if (s == NULL && n < 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Dequeue%sOp requested %" PRId64 " < 0 elements",
                   is_up_to ? "UpTo" : "Many", n);
  }
  if (s == NULL) s = check_signature(c, q, 2);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_tensor_queue_dequeue_many(q, &call, n, is_up_to);
  }
  release(q);
}

static void dequeue_many(weft_kernel_ctx_t *c) { dequeue_batch(c, false); }
static void dequeue_up_to(weft_kernel_ctx_t *c) { dequeue_batch(c, true); }

WEFT_ATTRS_ASYNC(queue_close, (BOOL, cancel_pending_enqueues))
static void queue_close(weft_kernel_ctx_t *c, const queue_close_attrs_t *attrs) {
  weft_tensor_queue_t *q = NULL;
  weft_status_t *s = in_queue(c, &q);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_tensor_queue_close(q, &call, attrs->cancel_pending_enqueues);
  }
  release(q);
}

static weft_status_t *queue_size(weft_kernel_ctx_t *c) {
  weft_tensor_queue_t *q = NULL;
  WEFT_RETURN_IF_ERROR(in_queue(c, &q));
  int32_t n = (int32_t)weft_tensor_queue_size(q);
  release(q);
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *queue_is_closed(weft_kernel_ctx_t *c) {
  weft_tensor_queue_t *q = NULL;
  WEFT_RETURN_IF_ERROR(in_queue(c, &q));
  uint8_t is_closed = weft_tensor_queue_is_closed(q);
  release(q);
  return weft_tensor_scalar(WEFT_BOOL, &is_closed, &c->outputs[0].tensor);
}

/* The old-style reference to the queue of a handle. */
static weft_status_t *queue_reference(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  char *container = weft_strndup(h->container.data, h->container.length),
       *name = weft_strndup(h->name.data, h->name.length);
  weft_status_t *s = container == NULL || name == NULL
                         ? WEFT_NO_MEMORY("a reference to a queue")
                         : weft_state_reference(container, name, &c->outputs[0].ref);
  weft_free(container);
  weft_free(name);
  return s;
}

#define MAKER(name, kind)                                                                                  \
  {                                                                                                        \
    .op = name, WEFT_STATE_MAKER, .param = &(const queue_form_t) {                                         \
      {&weft_tensor_queue_type, sizeof(queue_node_t), read_node, create, check, deinit}, WEFT_QUEUE_##kind \
    }                                                                                                      \
  }
#define MAKERS(name, kind) MAKER(name, kind), MAKER(name "V2", kind)
/* An operation with the handle of either kind. */
#define ASYNC(name, check, fn)                             \
  {.op = name, .prepare = check, .compute_async = fn}, {   \
    .op = name "V2", .prepare = check, .compute_async = fn \
  }
#define SYNC(name, fn) \
  {.op = name, .compute = fn}, { .op = name "V2", .compute = fn }

const weft_kernel_t weft_cpu_queue_kernels[] = {
    MAKERS("FIFOQueue", FIFO),
    {.op = "FakeQueue", .compute = queue_reference},
    MAKERS("PaddingFIFOQueue", PADDING),
    MAKERS("PriorityQueue", PRIORITY),
    {.op = "QueueClose", WEFT_COMPUTE_ASYNC(queue_close)},
    {.op = "QueueCloseV2", WEFT_COMPUTE_ASYNC(queue_close)},
    ASYNC("QueueDequeue", no_timeout, dequeue_one),
    ASYNC("QueueDequeueMany", no_timeout, dequeue_many),
    ASYNC("QueueDequeueUpTo", no_timeout, dequeue_up_to),
    ASYNC("QueueEnqueue", no_timeout, enqueue_one),
    ASYNC("QueueEnqueueMany", no_timeout, enqueue_many),
    SYNC("QueueIsClosed", queue_is_closed),
    SYNC("QueueSize", queue_size),
    MAKERS("RandomShuffleQueue", SHUFFLE),
    {0},
};
