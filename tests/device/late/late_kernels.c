/* tests/device/late/late_kernels.c - ops on a LATE device: what the CPU's kernels do, later, behind the
 * pointers.
 *
 * Most rows are one function. While the node runs it works out the outputs' shapes by the op's shape
 * function, which sees the values of the inputs that lie in the host's memory, and allocates them; the CPU's
 * kernel runs on the queue, on tensors that wrap the bytes behind the pointers. Rows that look at no element
 * are the CPU's own.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/host/host_kernels.h"
#include "kernels/state.h"
#include "ops/shape_inference.h"
#include "tests/device/late/late.h"

enum { MAX_ARGS = 16 };

/* The CPU's kernel for the same node. */
typedef struct late_state {
  const weft_kernel_t *kernel;
  void *state;
  const weft_named_attr_t *attrs; /* the plan's */
  int num_attrs;
} late_state_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  const weft_kernel_node_t *n = &setup->node;
  const weft_kernel_t *k = weft_kernel_find("CPU", n->op_name, setup->attrs, setup->num_attrs);
  if (k == NULL || n->num_inputs > MAX_ARGS || n->num_outputs > MAX_ARGS) {
    return WEFT_ERROR(UNIMPLEMENTED, "%.*s is too much for a late device", WEFT_STR_ARGS(n->op_name));
  }
  late_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a late kernel");
  s->kernel = k;
  s->attrs = setup->attrs;
  s->num_attrs = setup->num_attrs;
  weft_kernel_setup_t own = *setup;
  own.node.param = k->param;
  own.reads = k->reads;
  weft_status_t *status = k->prepare != NULL ? k->prepare(&own, &s->state) : NULL;
  if (status != NULL) {
    weft_free(s);
    return status;
  }
  *out = s;
  return NULL;
}

static void destroy(void *state) {
  late_state_t *s = state;
  if (s->state != NULL && s->kernel->destroy != NULL) s->kernel->destroy(s->state);
  weft_free(s);
}

/* ---- shapes ---- */

/* Of a reference: the variable's, whose lock the caller holds. */
static weft_tensor_t *value_of(const weft_value_t *v) { return v->ref != NULL ? v->ref->value : v->tensor; }

static weft_status_t *infer(const weft_kernel_ctx_t *c, weft_shape_t *outputs) {
  const weft_kernel_node_t *n = c->node;
  const late_state_t *state = c->state;
  weft_shape_t inputs[MAX_ARGS];
  weft_handle_data_t handles[MAX_ARGS], out_handles[MAX_ARGS];
  const weft_tensor_t *values[MAX_ARGS];
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_tensor_t *t = value_of(&c->inputs[i]);
    inputs[i] = t->shape;
    values[i] = t->space == NULL ? t : NULL;
    handles[i] = WEFT_NO_HANDLE_DATA;
    if (c->inputs[i].ref != NULL) handles[i].shape = t->shape;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    outputs[i] = WEFT_UNKNOWN_SHAPE;
    out_handles[i] = WEFT_NO_HANDLE_DATA;
  }
  weft_shape_ctx_t s = {.op = n->op,
                        .node_name = n->name,
                        .attrs = state->attrs,
                        .num_attrs = state->num_attrs,
                        .num_inputs = n->num_inputs,
                        .num_outputs = n->num_outputs,
                        .input_types = n->input_types,
                        .output_types = n->output_types,
                        .inputs = inputs,
                        .values = values,
                        .outputs = outputs,
                        .handles = handles,
                        .out_handles = out_handles};
  weft_status_t *status = n->op->infer_shapes(&s);
  if (status != NULL && n->num_inputs == 2 &&
      (n->op->flags & WEFT_OP_ELEMENTWISE) != 0) { /* in TensorFlow's words */
    weft_status_free(status);
    status = WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&inputs[0]),
                        WEFT_SHAPE_TEXT(&inputs[1]));
  }
  return status;
}

/* ---- on the queue ---- */

typedef struct late_run {
  weft_kernel_ctx_t ctx; /* of the CPU's kernel */
  weft_kernel_node_t node;
  weft_value_t inputs[MAX_ARGS], outputs[MAX_ARGS];
  struct {
    void *at;
    size_t bytes;
  } to[MAX_ARGS];
  const weft_kernel_t *kernel;
} late_run_t;

static void keep(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  (void)arg;
}

static void free_run(late_run_t *r) {
  for (int i = 0; i < MAX_ARGS; i++) {
    weft_tensor_release(r->inputs[i].tensor);
    weft_tensor_release(r->outputs[i].tensor);
    if (r->inputs[i].ref != NULL) weft_object_release(&r->inputs[i].ref->object);
    if (r->outputs[i].ref != NULL) weft_object_release(&r->outputs[i].ref->object);
  }
  weft_free(r);
}

static weft_status_t *run(void *arg, const weft_status_t *poison) {
  late_run_t *r = arg;
  weft_status_t *s = poison == NULL ? r->kernel->compute(&r->ctx) : NULL;
  for (int i = 0; poison == NULL && s == NULL && i < r->ctx.node->num_outputs; i++) {
    const weft_tensor_t *t = r->outputs[i].tensor;
    if (r->outputs[i].ref != NULL) continue; /* was written in place */
    if (t->bytes != r->to[i].bytes) {
      s = WEFT_ERROR(INTERNAL,
                     "output %d of {{node %.*s}} has %zu bytes, not the %zu that its shape function says", i,
                     WEFT_STR_ARGS(r->ctx.node->name), t->bytes, r->to[i].bytes);
    } else if (t->bytes > 0) {
      memcpy(r->to[i].at, t->data, t->bytes);
    }
  }
  if (s != NULL) s = weft_status_annotate(s, "{{node %.*s}}", WEFT_STR_ARGS(r->ctx.node->name));
  free_run(r);
  return s;
}

/* ---- while the node runs ---- */

/* What the CPU's kernel gets for an input: the bytes behind a tensor, or a variable that holds them. */
static weft_status_t *wrap_input(weft_kernel_ctx_t *c, int i, weft_value_t *out) {
  weft_variable_t *v = c->inputs[i].ref;
  weft_tensor_t *t = value_of(&c->inputs[i]), *wrapped = NULL;
  if (t->space == NULL) {
    wrapped = weft_tensor_retain(t);
  } else {
    WEFT_RETURN_IF_ERROR(weft_tensor_wrap(t->dtype, &t->shape, weft_late_bytes(c->device, t->data), t->bytes,
                                          keep, NULL, &wrapped));
  }
  if (v == NULL) {
    out->tensor = wrapped;
    return NULL;
  }
  weft_status_t *s = weft_variable_create(v->name, v->dtype, &v->shape, &out->ref);
  if (s != NULL) {
    weft_tensor_release(wrapped);
    return s;
  }
  out->ref->is_shared = true;
  out->ref->value = wrapped;
  return NULL;
}

static weft_status_t *make_run(weft_kernel_ctx_t *c, late_run_t **out) {
  const late_state_t *state = c->state;
  late_run_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("a late kernel");
  r->kernel = state->kernel;
  r->node = *c->node;
  r->node.device = weft_late_host(c->device);
  r->node.allocator = NULL;
  r->node.param = state->kernel->param;
  r->node.host_outputs = 0;
  r->ctx = (weft_kernel_ctx_t){.node = &r->node,
                               .device = r->node.device,
                               .state = state->state,
                               .inputs = r->inputs,
                               .outputs = r->outputs,
                               .step = c->step};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < c->node->num_inputs; i++) s = wrap_input(c, i, &r->inputs[i]);
  if (s != NULL) {
    free_run(r);
    return s;
  }
  *out = r;
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *c) {
  weft_shape_t shapes[MAX_ARGS];
  late_run_t *r = NULL;
  WEFT_RETURN_IF_ERROR(infer(c, shapes));
  WEFT_RETURN_IF_ERROR(make_run(c, &r));
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < c->node->num_outputs; i++) {
    weft_tensor_t *t = NULL;
    const weft_dtype_t dtype = weft_dtype_base(c->node->output_types[i]);
    const bool in_place =
        i == 0 && (c->node->op->flags & WEFT_OP_ELEMENTWISE) != 0 && c->inputs[0].tensor->space != NULL;
    s = in_place ? weft_out_forward(c, 0, 0, dtype, &shapes[0], &t)
                 : weft_out_new(c, i, dtype, &shapes[i], &t);
    if (s != NULL) break;
    r->to[i].at = weft_late_bytes(c->device, t->data);
    r->to[i].bytes = t->bytes;
  }
  if (s == NULL) s = weft_late_enqueue(c->queue, run, r);
  if (s != NULL) free_run(r);
  return s;
}

/* The CPU's kernel at once: it looks at no element of what lies in the device's memory. */
static weft_status_t *pass(weft_kernel_ctx_t *c) {
  const late_state_t *state = c->state;
  weft_kernel_node_t node = *c->node;
  weft_kernel_ctx_t own = *c;
  node.param = state->kernel->param;
  own.node = &node;
  own.state = state->state;
  return state->kernel->compute(&own);
}

/* ---- variables ----
 *
 * Behind a reference the buffer is the variable (docs/decisions/0003): work on the compute queue writes it in
 * place, in the order in which nodes run. Behind a handle others that hold the value keep it. A tensor's
 * fence does not change, so what is written gets a new tensor of the same bytes, with the fence behind the
 * write.
 */

typedef struct late_copy {
  void *to;
  const void *from;
  size_t bytes;
} late_copy_t;

static weft_status_t *copy(void *arg, const weft_status_t *poison) {
  const late_copy_t *x = arg;
  if (poison == NULL) memcpy(x->to, x->from, x->bytes);
  weft_free(arg);
  return NULL;
}

static weft_status_t *enqueue_copy(weft_kernel_ctx_t *c, const weft_tensor_t *from, weft_tensor_t *to) {
  late_copy_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("a late kernel");
  weft_queue_wait(c->queue, to->fence);
  *x = (late_copy_t){weft_late_bytes(c->device, to->data), weft_late_bytes(c->device, from->data),
                     from->bytes};
  weft_status_t *s = weft_late_enqueue(c->queue, copy, x);
  if (s != NULL) weft_free(x);
  return s;
}

static weft_status_t *make_writable_locked(weft_kernel_ctx_t *c, weft_variable_t *v) WEFT_REQUIRES(v->mu) {
  weft_tensor_t *old = v->value, *t = NULL;
  if (old == NULL) return weft_variable_uninitialized(v);
  weft_queue_wait(c->queue, old->fence);
  if (v->is_shared || weft_tensor_is_exclusive(old)) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(old->dtype, &old->shape, c->device->allocator, &t));
  weft_status_t *s = enqueue_copy(c, old, t);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  v->value = t;
  weft_tensor_release(old);
  return NULL;
}

static void pass_reference(weft_kernel_ctx_t *c) {
  c->outputs[0].ref = (weft_variable_t *)weft_object_retain(&c->inputs[0].ref->object);
}

static void set_value_locked(weft_variable_t *v, weft_tensor_t *t, weft_fence_t f) WEFT_REQUIRES(v->mu) {
  t->fence = f;
  weft_tensor_release(v->value);
  v->value = t;
}

/* Enqueues the CPU's kernel; the variables' locks are held. */
static weft_status_t *update_in_place(weft_kernel_ctx_t *c, weft_variable_t *const *v,
                                      int n) WEFT_HOLDS_LOCKS_OF_ARRAY {
  weft_shape_t shapes[MAX_ARGS];
  weft_tensor_t *written[MAX_ARGS] = {NULL};
  late_run_t *r = NULL;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) s = make_writable_locked(c, v[i]);
  if (s == NULL) s = infer(c, shapes);
  for (int i = 0; s == NULL && i < n; i++)
    s = weft_tensor_view(v[i]->value, v[i]->dtype, &v[i]->value->shape, &written[i]);
  if (s == NULL) s = make_run(c, &r);
  if (s == NULL) s = weft_late_enqueue(c->queue, run, r);
  if (s != NULL && r != NULL) free_run(r);
  const weft_fence_t f = weft_queue_mark(c->queue);
  for (int i = 0; i < n; i++) {
    if (s != NULL) {
      weft_tensor_release(written[i]);
    } else {
      set_value_locked(v[i], written[i], f);
    }
  }
  return s;
}

/* An op whose first inputs are variables that it changes: references or handles. The CPU's kernel gets a
 * reference for either. */
static weft_status_t *update(weft_kernel_ctx_t *c) {
  weft_value_t inputs[MAX_ARGS];
  weft_variable_t *v[MAX_ARGS];
  weft_kernel_ctx_t own = *c;
  int n = 0;
  weft_status_t *s = NULL;
  memcpy(inputs, c->inputs, (size_t)c->node->num_inputs * sizeof *inputs);
  own.inputs = inputs;
  while (s == NULL && n < c->node->num_inputs &&
         (c->inputs[n].ref != NULL || c->node->input_types[n] == WEFT_RESOURCE)) {
    s = weft_state_in_variable(c, n, &v[n]);
    if (s == NULL) inputs[n] = (weft_value_t){.ref = v[n]};
    n += s == NULL;
  }
  weft_variables_lock(v, n);
  if (s == NULL) s = update_in_place(&own, v, n);
  weft_variables_unlock(v, n);
  for (int i = 0; i < n; i++) weft_object_release(&v[i]->object);
  if (s == NULL && c->inputs[0].ref != NULL) pass_reference(c);
  return s;
}

static weft_status_t *assign_locked(weft_kernel_ctx_t *c, weft_variable_t *v, const weft_tensor_t *value,
                                    bool validate_shape) WEFT_REQUIRES(v->mu) {
  weft_tensor_t *to = NULL, *old = v->value;
  const weft_shape_t *shape = old == NULL ? &v->shape : &old->shape;
  if (validate_shape && !weft_shape_compatible(shape, &value->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                      WEFT_SHAPE_TEXT(shape), WEFT_SHAPE_TEXT(&value->shape));
  }
  if (old != NULL && old->bytes == value->bytes) {
    WEFT_RETURN_IF_ERROR(weft_tensor_view(old, value->dtype, &value->shape, &to));
    to->fence = old->fence;
  } else {
    WEFT_RETURN_IF_ERROR(weft_tensor_new(value->dtype, &value->shape, c->device->allocator, &to));
    weft_memory_becomes_variable(to);
  }
  weft_status_t *s = enqueue_copy(c, value, to);
  if (s == NULL) {
    set_value_locked(v, to, weft_queue_mark(c->queue));
  } else {
    weft_tensor_release(to);
  }
  return s;
}

WEFT_ATTRS(assign_reference, (BOOL, validate_shape))
static weft_status_t *assign_reference(weft_kernel_ctx_t *c, const assign_reference_attrs_t *attrs) {
  weft_variable_t *v = c->inputs[0].ref;
  weft_mutex_lock(&v->mu);
  weft_status_t *s = assign_locked(c, v, weft_in(c, 1), attrs->validate_shape);
  weft_mutex_unlock(&v->mu);
  if (s == NULL) pass_reference(c);
  return s;
}

/* ---- the table ---- */

#define FLOAT .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32)
#define NUMBER                                                                     \
  .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) | \
                             WEFT_DTYPE_BIT(WEFT_I32) | WEFT_DTYPE_BIT(WEFT_I64)
#define LATE .prepare = prepare, .compute = compute, .destroy = destroy
#define PASS .prepare = prepare, .compute = pass, .destroy = destroy
#define UPDATE .prepare = prepare, .compute = update, .destroy = destroy
#define VALUE .type_attr = "dtype", .types = WEFT_DTYPE_BIT(WEFT_F32)
enum { FIRST = 1, SECOND = 2, THIRD = 4, FIFTH = 16, FOURTH_TO_NINTH = 0x1f8, ALL = ~0 };

static const weft_kernel_t kernels[] = {
    {.op = "Add", NUMBER, LATE},
    {.op = "AddN", NUMBER, LATE},
    {.op = "AddV2", NUMBER, LATE},
    {.op = "ApplyAdam", FLOAT, UPDATE, .host_inputs = FOURTH_TO_NINTH},
    {.op = "ApplyGradientDescent", FLOAT, UPDATE, .host_inputs = SECOND},
    {.op = "ApplyMomentum", FLOAT, UPDATE, .host_inputs = THIRD | FIFTH},
    {.op = "Assign", FLOAT, WEFT_COMPUTE(assign_reference)},
    {.op = "AssignAdd", FLOAT, UPDATE},
    {.op = "AssignAddVariableOp", VALUE, UPDATE, .host_inputs = FIRST},
    {.op = "AssignSub", FLOAT, UPDATE},
    {.op = "AssignSubVariableOp", VALUE, UPDATE, .host_inputs = FIRST},
    {.op = "AssignVariableOp", VALUE, PASS, .host_inputs = FIRST},
    {.op = "BiasAdd", FLOAT, LATE},
    {.op = "BiasAddGrad", FLOAT, LATE},
    {.op = "BroadcastGradientArgs",
     .type_attr = "T",
     .types = WEFT_SET_INDEX,
     PASS,
     .host_inputs = ALL,
     .host_outputs = ALL},
    {.op = "DestroyResourceOp", PASS, .host_inputs = ALL},
    {.op = "Exp", FLOAT, LATE},
    {.op = "Fill", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32), LATE, .host_inputs = ALL},
    {.op = "Identity", .type_attr = "T", .types = WEFT_SET_ALL, .compute = NULL, .forwards = true},
    {.op = "IsVariableInitialized", VALUE, PASS, .host_outputs = ALL},
    {.op = "LogSoftmax", FLOAT, LATE},
    {.op = "MatMul", FLOAT, LATE},
    {.op = "Maximum", NUMBER, LATE},
    {.op = "Mean", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "Minimum", NUMBER, LATE},
    {.op = "Mul", NUMBER, LATE},
    {.op = "Neg", NUMBER, LATE},
    {.op = "ReadVariableOp", VALUE, PASS, .host_inputs = FIRST},
    {.op = "RealDiv", FLOAT, LATE},
    {.op = "Relu", FLOAT, LATE},
    {.op = "ReluGrad", FLOAT, LATE},
    {.op = "Reshape", NUMBER, PASS, .host_inputs = SECOND},
    {.op = "ResourceApplyAdam", FLOAT, UPDATE, .host_inputs = FIRST | SECOND | THIRD | FOURTH_TO_NINTH},
    {.op = "ResourceApplyGradientDescent", FLOAT, UPDATE, .host_inputs = FIRST | SECOND},
    {.op = "ResourceApplyMomentum", FLOAT, UPDATE, .host_inputs = FIRST | SECOND | THIRD | FIFTH},
    {.op = "Shape", NUMBER, PASS, .host_outputs = ALL},
    {.op = "Sigmoid", FLOAT, LATE},
    {.op = "SigmoidGrad", FLOAT, LATE},
    {.op = "Size", NUMBER, PASS, .host_outputs = ALL},
    {.op = "Softmax", FLOAT, LATE},
    {.op = "SparseSoftmaxCrossEntropyWithLogits", FLOAT, LATE},
    {.op = "Square", NUMBER, LATE},
    {.op = "StopGradient", .type_attr = "T", .types = WEFT_SET_ALL, .compute = NULL, .forwards = true},
    {.op = "Sub", NUMBER, LATE},
    {.op = "Sum", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "Tanh", FLOAT, LATE},
    {.op = "TanhGrad", FLOAT, LATE},
    {.op = "Tile", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32), LATE, .host_inputs = SECOND},
    {.op = "Transpose", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_F32), LATE, .host_inputs = SECOND},
    {.op = "VarHandleOp", VALUE, PASS, .host_outputs = ALL},
    {.op = "VarIsInitializedOp", PASS, .host_inputs = ALL, .host_outputs = ALL},
    {.op = "Variable", VALUE, PASS},
    {.op = "VariableShape", PASS, .host_inputs = ALL, .host_outputs = ALL},
    {.op = "VariableV2", VALUE, PASS},
    {.op = "ZerosLike", NUMBER, LATE},
    {0},
};

/* Collectives are the CPU's, on values in the host's memory. */
enum { MAX_HOSTED = 32 };
static weft_kernel_t hosted[MAX_HOSTED + 1];

static void fill_hosted(void) {
  const weft_kernel_table_t *cpu = weft_kernel_table_at(0);
  for (int f = 0, n = 0; cpu->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = cpu->families[f]; k->op != NULL && n < MAX_HOSTED; k++) {
      if (strncmp(k->op, "Collective", strlen("Collective")) != 0) continue;
      hosted[n] = *k;
      hosted[n].host_inputs = hosted[n].host_outputs = ALL;
      n++;
    }
  }
}

const weft_kernel_table_t *weft_late_kernels(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static const weft_kernel_t *const families[] = {
      weft_control_flow_kernels,
      weft_graph_kernels,
      weft_sendrecv_kernels,
      weft_args_kernels,
      weft_memory_copy_kernels,
      kernels,
      hosted,
      NULL,
  };
  static const weft_kernel_table_t table = {.device_type = "LATE", .families = families};
  pthread_once(&once, fill_hosted);
  return &table;
}
