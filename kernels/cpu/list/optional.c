/* kernels/cpu/list/optional.c - kernels of optionals. */
#include "resources/optional.h"

#include "kernels/cpu/loops/common.h"
#include "kernels/kernel.h"

/* Of all inputs; of none it is nothing. */
static weft_status_t *optional_make(weft_kernel_ctx_t *c) {
  weft_optional_t *o = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t));
  weft_status_t *s = weft_optional_create(c->node->num_inputs, &o);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  for (int i = 0; i < o->count; i++) o->items[i] = weft_tensor_retain(weft_in(c, i));
  ((weft_variant_t **)t->data)[0] = &o->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *in_optional(const weft_kernel_ctx_t *c, const weft_optional_t **out) {
  const weft_tensor_t *t = weft_in(c, 0);
  const char *op = c->node->op_name.data;
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input to %s must be a scalar tensor containing an OptionalVariant object.", op);
  }
  const weft_variant_t *v = ((weft_variant_t *const *)t->data)[0];
  if (v == NULL || v->type != &weft_optional_type) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input to %s must be an OptionalVariant object.", op);
  }
  *out = (const weft_optional_t *)v;
  return NULL;
}

static weft_status_t *optional_has(weft_kernel_ctx_t *c) {
  const weft_optional_t *o = NULL;
  WEFT_RETURN_IF_ERROR(in_optional(c, &o));
  uint8_t has = o->count > 0;
  return weft_tensor_scalar(WEFT_BOOL, &has, &c->outputs[0].tensor);
}

static weft_status_t *check_item(const weft_kernel_ctx_t *c, const weft_attr_t *shapes,
                                 const weft_tensor_t *t, int i) {
  int wanted = weft_dtype_base(c->node->output_types[i]);
  if ((int)t->dtype != wanted) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "The given optional does not match the expected type for component %d. Expected: %s. Actual: %s.", i,
        weft_dtype_name((weft_dtype_t)wanted), weft_dtype_name(t->dtype));
  }
  if (i >= shapes->n || weft_shape_compatible(&shapes->list.shapes[i], &t->shape)) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "The given optional does not match the expected shape for component %d. Expected: %s. Actual: %s.", i,
      WEFT_SHAPE_TEXT(&shapes->list.shapes[i]), WEFT_SHAPE_TEXT(&t->shape));
}

WEFT_ATTRS(optional_get, (SHAPES, output_shapes))
static weft_status_t *optional_get(weft_kernel_ctx_t *c, const optional_get_attrs_t *attrs) {
  const weft_optional_t *o = NULL;
  WEFT_RETURN_IF_ERROR(in_optional(c, &o));
  if (o->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "The given optional does not have a value.");
  if (o->count != c->node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The given optional has %d components, expected %d", o->count,
                      c->node->num_outputs);
  }
  for (int i = 0; i < o->count; i++)
    WEFT_RETURN_IF_ERROR(check_item(c, attrs->output_shapes, o->items[i], i));
  for (int i = 0; i < o->count; i++) weft_out_set(c, i, weft_tensor_retain(o->items[i]));
  return NULL;
}

const weft_kernel_t weft_cpu_optional_kernels[] = {
    {.op = "OptionalFromValue", .compute = optional_make},
    {.op = "OptionalGetValue", WEFT_COMPUTE(optional_get)},
    {.op = "OptionalHasValue", .compute = optional_has},
    {.op = "OptionalNone", .compute = optional_make},
    {0},
};
