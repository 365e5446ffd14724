/* kernels/loaded/updates.c - variables in a device's memory.
 *
 * Behind a reference the buffer is the variable (docs/decisions/0003): work on the compute queue writes it in
 * place, in the order in which nodes run. Behind a handle others that hold the value keep it. A tensor's
 * fence does not change, so what is written gets a new tensor of the same bytes, with the fence behind the
 * write.
 */
#include "device/queue.h"
#include "kernels/attrs.h"
#include "kernels/loaded/context.h"
#include "kernels/state.h"
#include "tensor/memory_holders.h"

enum { MAX_VARIABLES = 8 }; /* what weft_variables_lock() takes */

static weft_status_t *enqueue_copy(weft_kernel_ctx_t *c, const weft_tensor_t *from, weft_tensor_t *to) {
  weft_queue_wait(c->queue, to->fence);
  return weft_loaded_copy(c->device, from, to);
}

/* Memory for a value of `v`. */
static weft_status_t *new_value(const weft_kernel_ctx_t *c, weft_variable_t *v, weft_dtype_t dtype,
                                const weft_shape_t *shape, weft_tensor_t **out) WEFT_REQUIRES(v->mu) {
  const weft_tensor_t *old = v->value != NULL && v->value->owner != NULL ? v->value->owner : v->value;
  weft_allocator_t *account =
      old == NULL ? NULL : weft_memory_account_of(old); /* an optimizer's state stays one */
  if (account == NULL) account = weft_memory_account(c->device->memory, v->tag);
  const weft_memory_holder_t before =
      weft_memory_hold_for((weft_memory_holder_t){WEFT_HELD_BY_VARIABLE, v->name});
  weft_status_t *s = weft_tensor_new(dtype, shape, account, out);
  (void)weft_memory_hold_for(before);
  return s;
}

weft_status_t *weft_loaded_make_writable_locked(weft_kernel_ctx_t *c, weft_variable_t *v) {
  weft_tensor_t *old = v->value, *t = NULL;
  if (old == NULL) return weft_variable_uninitialized(v);
  if (old->space != c->device->space && old->bytes > 0) {
    return WEFT_ERROR(INTERNAL, "the value of variable %.*s is not in the memory of %.*s",
                      WEFT_STR_ARGS(v->name), WEFT_STR_ARGS(c->device->name));
  }
  weft_queue_wait(c->queue, old->fence);
  if (v->is_shared || weft_tensor_is_exclusive(old)) return NULL;
  WEFT_RETURN_IF_ERROR(new_value(c, v, old->dtype, &old->shape, &t));
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

void weft_loaded_set_value_locked(weft_variable_t *v, weft_tensor_t *t, weft_fence_t f) {
  t->fence = f;
  weft_tensor_release(v->value);
  v->value = t;
}

/* Calls the library with the values of the variables, whose locks are held, as first inputs. */
static weft_status_t *compute_on(weft_kernel_ctx_t *ctx, weft_tensor_t *const *values, int n) {
  weft_value_t own[MAX_VARIABLES];
  WEFT_KernelContext c = {.ctx = ctx, .state = ctx->state, .num_variables = n};
  for (int i = 0; i < n; i++) {
    own[i] = ctx->inputs[i];
    ctx->inputs[i] = (weft_value_t){.tensor = values[i]};
  }
  weft_status_t *s = weft_loaded_infer(&c); /* checks the shapes */
  if (s == NULL) s = weft_status_of_failure(c.state->row->compute(&c));
  for (int i = 0; i < n; i++) ctx->inputs[i] = own[i];
  weft_loaded_context_deinit(&c);
  return s;
}

/* Enqueues the work. The variables' locks are held. */
static weft_status_t *update_in_place(weft_kernel_ctx_t *c, weft_variable_t *const *v,
                                      int n) WEFT_HOLDS_LOCKS_OF_ARRAY {
  weft_tensor_t *written[MAX_VARIABLES] = {NULL};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) s = weft_loaded_make_writable_locked(c, v[i]);
  for (int i = 1; s == NULL && i < n; i++)
    weft_variable_is_slot_locked(v[i]); /* only optimizers take several */
  for (int i = 0; s == NULL && i < n; i++)
    s = weft_tensor_view(v[i]->value, v[i]->value->dtype, &v[i]->value->shape, &written[i]);
  if (s != NULL) {
    for (int i = 0; i < n; i++) weft_tensor_release(written[i]);
    return s;
  }
  s = compute_on(c, written, n);
  const weft_fence_t f = weft_queue_mark(c->queue); /* a kernel that fails may have enqueued something */
  for (int i = 0; i < n; i++) weft_loaded_set_value_locked(v[i], written[i], f);
  return s;
}

weft_status_t *weft_loaded_update(weft_kernel_ctx_t *c) {
  weft_variable_t *v[MAX_VARIABLES];
  int n = 0;
  weft_status_t *s = NULL;
  while (s == NULL && n < c->node->num_inputs &&
         (c->inputs[n].ref != NULL || c->node->input_types[n] == WEFT_RESOURCE)) {
    s = n == MAX_VARIABLES ? WEFT_ERROR(UNIMPLEMENTED, "an update of more than %d variables", n)
                           : weft_state_in_variable(c, n, &v[n]);
    n += s == NULL;
  }
  weft_variables_lock(v, n);
  if (s == NULL) s = update_in_place(c, v, n);
  weft_variables_unlock(v, n);
  for (int i = 0; i < n; i++) weft_object_release(&v[i]->object);
  const bool has_reference = c->node->num_outputs > 0 && weft_dtype_is_ref(c->node->output_types[0]);
  if (s == NULL && has_reference && c->inputs[0].ref != NULL) pass_reference(c);
  return s;
}

/* ---- reads ---- */

static weft_status_t *read_locked(weft_kernel_ctx_t *c, weft_variable_t *v) WEFT_REQUIRES(v->mu) {
  if (v->value == NULL) return weft_variable_uninitialized(v);
  const weft_dtype_t dtype = weft_dtype_base(c->node->output_types[0]);
  if (v->value->dtype != dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Trying to read variable with wrong dtype. Expected %s got %s",
                      weft_dtype_name(dtype), weft_dtype_name(v->value->dtype));
  }
  if (v->value->space != c->device->space && v->value->bytes > 0) {
    return WEFT_ERROR(INTERNAL, "the value of variable %.*s is not in the memory of %.*s",
                      WEFT_STR_ARGS(v->name), WEFT_STR_ARGS(c->device->name));
  }
  weft_queue_wait(c->queue, v->value->fence);
  return compute_on(c, &v->value, 1);
}

/* The value is not held longer than the lock: later updates of it are later on the queue, and need no copy.
 */
weft_status_t *weft_loaded_read(weft_kernel_ctx_t *c) {
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_mutex_lock(&v->mu);
  weft_status_t *s = read_locked(c, v);
  weft_mutex_unlock(&v->mu);
  weft_object_release(&v->object);
  return s;
}

/* ---- Assign ---- */

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
    WEFT_RETURN_IF_ERROR(new_value(c, v, value->dtype, &value->shape, &to));
  }
  weft_status_t *s = enqueue_copy(c, value, to);
  if (s == NULL) {
    weft_loaded_set_value_locked(v, to, weft_queue_mark(c->queue));
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

const weft_kernel_t weft_loaded_assign_kernel = {
    .op = "Assign", .type_attr = "T", WEFT_COMPUTE(assign_reference)};
