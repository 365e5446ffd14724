/* kernels/cpu/list/composite.c - composite tensors to variants and back. */
#include "resources/composite.h"

#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/kernel.h"
#include "protos/wire.h"

/* State: the number of the class in the attribute metadata, a CompositeTensorVariantMetadata; the rest of it
 * says nothing that a kernel needs. */
typedef struct composite_state {
  int64_t type_class;
} composite_state_t;

enum { METADATA_SPEC = 1, SPEC_CLASS = 1 };

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t metadata = weft_knode_string(setup, "metadata"), spec = WEFT_STR("");
  weft_wire_reader_t r = weft_wire_reader(metadata);
  weft_wire_field_t f;
  int64_t type_class = 0;
  bool is_bad = false;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) == METADATA_SPEC && weft_wire_type(&f) == WEFT_WIRE_BYTES) spec = f.bytes;
  }
  is_bad = r.failed;
  r = weft_wire_reader(spec);
  while (!is_bad && weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) == SPEC_CLASS && weft_wire_type(&f) == WEFT_WIRE_VARINT)
      type_class = weft_wire_i64(f.value);
  }
  if (is_bad || r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Error parsing metadata");
  composite_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->type_class = type_class;
  *out_state = st;
  return NULL;
}

static weft_status_t *from_components(weft_kernel_ctx_t *c) {
  const composite_state_t *st = c->state;
  weft_composite_t *made = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t));
  weft_status_t *s = weft_composite_create(st->type_class, c->node->num_inputs, &made);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  for (int i = 0; i < made->count; i++) made->items[i] = weft_tensor_retain(weft_in(c, i));
  ((weft_variant_t **)t->data)[0] = &made->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *to_components(weft_kernel_ctx_t *c) {
  const composite_state_t *st = c->state;
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input `encoded` must not be an empty variant tensor, but got %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  const weft_variant_t *v = ((weft_variant_t *const *)t->data)[0];
  if (v == NULL || v->type != &weft_composite_type) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The input `encoded` is not a valid CompositeTensorVariant tensor, got '%s'",
                      v == NULL ? "nothing" : v->type->name);
  }
  const weft_composite_t *from = (const weft_composite_t *)v;
  if (from->type_class != st->type_class) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected a type of class %" PRId64
                      " (based on `type_spec`), but `encoded` contains one of class %" PRId64,
                      st->type_class, from->type_class);
  }
  if (from->count != c->node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Encoded value has %d tensor components; expected %d components based on type_spec",
                      from->count, c->node->num_outputs);
  }
  for (int i = 0; i < from->count; i++) {
    if ((int)from->items[i]->dtype == (int)weft_dtype_base(c->node->output_types[i])) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor component %d had dtype %s; expected dtype %s", i,
                      weft_dtype_name(from->items[i]->dtype), weft_dtype_name(c->node->output_types[i]));
  }
  for (int i = 0; i < from->count; i++) weft_out_set(c, i, weft_tensor_retain(from->items[i]));
  return NULL;
}

const weft_kernel_t weft_cpu_composite_kernels[] = {
    {.op = "CompositeTensorVariantFromComponents",
     .prepare = prepare,
     .compute = from_components,
     .destroy = weft_free},
    {.op = "CompositeTensorVariantToComponents",
     .prepare = prepare,
     .compute = to_components,
     .destroy = weft_free},
    {0},
};
