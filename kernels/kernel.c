/* kernels/kernel.c - what compute and prepare functions of all families use. */
#include "kernels/kernel.h"

#include <assert.h>

#include "device/queue.h"
#include "kernels/function_call.h"

weft_allocator_t *weft_out_allocator(const weft_kernel_ctx_t *c, bool is_host) {
  if (is_host) return c->device->host_allocator;
  if (c->node != NULL && c->node->allocator != NULL) return c->node->allocator;
  return c->device != NULL ? c->device->allocator : NULL;
}

static weft_allocator_t *allocator_of(const weft_kernel_ctx_t *c, int i, weft_dtype_t dtype) {
  return weft_out_allocator(
      c, c->queue != NULL && (!weft_dtype_is_plain(dtype) || weft_kernel_is_host(c->node->host_outputs, i)));
}

weft_status_t *weft_out_new(weft_kernel_ctx_t *c, int i, weft_dtype_t dtype, const weft_shape_t *shape,
                            weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, shape, allocator_of(c, i, dtype), &t));
  if (t->space != NULL) {
    weft_queue_wait(c->queue, t->fence); /* the last use of its memory */
    t->fence = (weft_fence_t){c->queue, WEFT_FENCE_PENDING};
  }
  c->outputs[i].tensor = t;
  *out = t;
  return NULL;
}

weft_status_t *weft_out_forward(weft_kernel_ctx_t *c, int in, int i, weft_dtype_t dtype,
                                const weft_shape_t *shape, weft_tensor_t **out) {
  weft_tensor_t *t = c->inputs[in].tensor;
  int64_t count = weft_shape_count(shape);
  bool fits = t != NULL && c->inputs[in].ref == NULL && t->dtype == dtype && t->count == count &&
              weft_tensor_is_exclusive(t);
  if (fits && c->queue != NULL) fits = (t->space == NULL) == weft_kernel_is_host(c->node->host_outputs, i);
  if (!fits) return weft_out_new(c, i, dtype, shape, out);
  if (t->space != NULL) t->fence = (weft_fence_t){c->queue, WEFT_FENCE_PENDING};
  if (weft_shape_eq(&t->shape, shape)) {
    c->inputs[in].tensor = NULL;
    c->outputs[i].tensor = t;
    *out = t;
    return NULL;
  }
  /* The view holds the only other reference once the input's is dropped. */
  weft_tensor_t *view = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_view(t, dtype, shape, &view));
  c->inputs[in].tensor = NULL;
  weft_tensor_release(t);
  c->outputs[i].tensor = view;
  *out = view;
  return NULL;
}

weft_status_t *weft_read_ints(const weft_tensor_t *t, const char *what, int max, int64_t *out, int *out_n) {
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be int32 or int64, but is %s", what,
                      weft_dtype_name(t->dtype));
  }
  if (t->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar or a vector, but has shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->count > max) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s has %lld elements, at most %d are allowed", what,
                      (long long)t->count, max);
  }
  for (int i = 0; i < (int)t->count; i++) {
    out[i] = t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
  }
  *out_n = (int)t->count;
  return NULL;
}

static const weft_attr_t *find(const weft_kernel_setup_t *setup, const char *name, weft_attr_kind_t kind,
                               bool is_required) {
  if (setup->watch != NULL) setup->watch->read(setup->watch->arg, name, kind, is_required);
  return weft_attr_find(setup->attrs, setup->num_attrs, name);
}

/* The attribute, which is one value of that kind. NULL, for a table that is being checked. */
static const weft_attr_t *of_kind(const weft_kernel_setup_t *setup, const char *name, weft_attr_kind_t kind) {
  const weft_attr_t *a = find(setup, name, kind, true);
  bool fits = a != NULL && !a->is_list && a->kind == kind;
  assert(fits || setup->watch != NULL);
  return fits ? a : NULL;
}

const weft_attr_t *weft_knode_attr(const weft_kernel_setup_t *setup, const char *name) {
  return find(setup, name, WEFT_ATTR_NONE, false);
}

int64_t weft_knode_int_or(const weft_kernel_setup_t *setup, const char *name, int64_t absent) {
  const weft_attr_t *a = find(setup, name, WEFT_ATTR_INT, false);
  return a == NULL ? absent : a->i;
}

bool weft_knode_bool_or(const weft_kernel_setup_t *setup, const char *name, bool absent) {
  const weft_attr_t *a = find(setup, name, WEFT_ATTR_BOOL, false);
  return a == NULL ? absent : a->b;
}

int64_t weft_knode_int(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_INT);
  return a == NULL ? 0 : a->i;
}

bool weft_knode_bool(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_BOOL);
  return a != NULL && a->b;
}

float weft_knode_float(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_FLOAT);
  return a == NULL ? 0.0f : a->f;
}

int weft_knode_type(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_TYPE);
  return a == NULL ? 0 : a->type;
}

weft_str_t weft_knode_string(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_STRING);
  return a == NULL ? WEFT_STR("") : a->s;
}

weft_status_t *weft_knode_callee(const weft_kernel_setup_t *setup, const char *name, weft_callee_t **out) {
  const weft_attr_t *a = of_kind(setup, name, WEFT_ATTR_FUNC);
  if (a == NULL || setup->functions == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' calls a function, but has no graph that it is in",
                      WEFT_STR_ARGS(setup->node.name));
  }
  return setup->functions->find(setup->functions, a->func, setup->node.device, out);
}
