/* kernels/cpu/summary/summary.c - Summary messages for TensorBoard: scalars, tensors, and the union of
 * several. */
#include "kernels/cpu/summary/summary_common.h"

#include "base/hash_map.h"
#include "io/summary_check.h"

enum {
  TENSOR_DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_CONTENT = 4,
  TENSOR_STRINGS = 8,
  SHAPE_DIM = 2,
  DIM_SIZE = 1,
};

double weft_summary_number(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_F32: return (double)((const float *)t->data)[i];
    case WEFT_F64: return ((const double *)t->data)[i];
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_U64: return (double)((const uint64_t *)t->data)[i];
    case WEFT_BOOL: return (double)((const uint8_t *)t->data)[i];
    default: return (double)weft_cpu_int_at(t, i);
  }
}

weft_status_t *weft_summary_finish(weft_kernel_ctx_t *c, weft_status_t *s, weft_strbuf_t *b) {
  if (s == NULL && b->failed) s = WEFT_NO_MEMORY("writing a summary");
  if (s == NULL) s = weft_tensor_string(weft_str_of(b->data, b->length), &c->outputs[0].tensor);
  weft_strbuf_deinit(b);
  return s;
}

weft_status_t *weft_summary_tag(const weft_kernel_ctx_t *c, const char *complaint, weft_str_t *out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s", complaint);
  *out = weft_tensor_str_at(t, 0);
  return NULL;
}

/* ---- scalars ---- */

/* Rounded once: a detour by double would round large integers twice. */
static float number_f32(const weft_tensor_t *t, int64_t i) {
  if (t->dtype == WEFT_F32)
    return ((const float *)t->data)[i]; /* also a denormal, which arithmetic may flush */
  if (t->dtype == WEFT_U64) return (float)((const uint64_t *)t->data)[i];
  return weft_dtype_is_integer(t->dtype) ? (float)weft_cpu_int_at(t, i) : (float)weft_summary_number(t, i);
}

void weft_summary_put_scalar(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *values, int64_t i) {
  size_t mark = weft_wire_begin(b, WEFT_SUMMARY_VALUE);
  weft_wire_put_bytes(b, WEFT_VALUE_TAG, tag);
  weft_wire_add_fixed32(b, WEFT_VALUE_SIMPLE, (uint32_t)weft_wire_float_bits(number_f32(values, i)));
  weft_wire_end(b, mark);
}

static weft_status_t *scalar_summary(weft_kernel_ctx_t *c) {
  const weft_tensor_t *tags = weft_in(c, 0), *values = weft_in(c, 1);
  if (!weft_shape_eq(&tags->shape, &values->shape)) {
    bool one_tag = tags->count == 1;
    return WEFT_ERROR(INVALID_ARGUMENT, "tags and values are not the same shape: %s != %s%s%.*s%s",
                      WEFT_SHAPE_TEXT(&tags->shape), WEFT_SHAPE_TEXT(&values->shape),
                      one_tag ? " (tag '" : "", one_tag ? (int)weft_tensor_str_at(tags, 0).length : 0,
                      one_tag ? weft_tensor_str_at(tags, 0).data : "", one_tag ? "')" : "");
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  for (int64_t i = 0; i < tags->count; i++) {
    weft_summary_put_scalar(&b, weft_tensor_str_at(tags, i), values, i);
  }
  return weft_summary_finish(c, NULL, &b);
}

/* ---- tensors ---- */

static void put_tensor(const weft_tensor_t *t, uint32_t field, weft_strbuf_t *b) {
  size_t mark = weft_wire_begin(b, field);
  weft_wire_put_i64(b, TENSOR_DTYPE, t->dtype);
  size_t shape = weft_wire_begin(b, TENSOR_SHAPE);
  for (int d = 0; d < t->shape.rank; d++) {
    size_t dim = weft_wire_begin(b, SHAPE_DIM);
    weft_wire_put_i64(b, DIM_SIZE, t->shape.dims[d]);
    weft_wire_end(b, dim);
  }
  weft_wire_end(b, shape);
  if (t->dtype == WEFT_STRING) {
    for (int64_t i = 0; i < t->count; i++) weft_wire_add_bytes(b, TENSOR_STRINGS, weft_tensor_str_at(t, i));
  } else {
    weft_wire_put_bytes(b, TENSOR_CONTENT, weft_str_of(t->data, t->bytes));
  }
  weft_wire_end(b, mark);
}

static weft_status_t *check_plain(const weft_tensor_t *t) {
  if (weft_dtype_is_plain(t->dtype) || t->dtype == WEFT_STRING) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "a tensor of type %s cannot be put into a summary",
                    weft_dtype_name(t->dtype));
}

weft_status_t *weft_summary_put_tensor(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *t,
                                       const weft_str_t *metadata) {
  WEFT_RETURN_IF_ERROR(check_plain(t));
  size_t mark = weft_wire_begin(b, WEFT_SUMMARY_VALUE);
  weft_wire_put_bytes(b, WEFT_VALUE_TAG, tag);
  put_tensor(t, WEFT_VALUE_TENSOR, b);
  if (metadata != NULL) weft_wire_add_bytes(b, WEFT_VALUE_METADATA, weft_summary_metadata_prefix(*metadata));
  weft_wire_end(b, mark);
  return NULL;
}

static weft_status_t *tensor_summary_v2(weft_kernel_ctx_t *c) {
  const weft_tensor_t *metadata = weft_in(c, 2);
  weft_str_t tag = WEFT_STR("");
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, "tag must be scalar", &tag));
  if (metadata->shape.rank != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "serialized_summary_metadata must be scalar");
  weft_str_t bytes = weft_tensor_str_at(metadata, 0);
  return weft_summary_finish(c, weft_summary_put_tensor(&b, tag, weft_in(c, 1), &bytes), &b);
}

static weft_status_t *tensor_summary(weft_kernel_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_plain(weft_in(c, 0)));
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  size_t mark = weft_wire_begin(&b, WEFT_SUMMARY_VALUE);
  weft_wire_put_bytes(&b, WEFT_VALUE_NODE_NAME, c->node->name);
  put_tensor(weft_in(c, 0), WEFT_VALUE_TENSOR, &b);
  weft_wire_end(&b, mark);
  return weft_summary_finish(c, NULL, &b);
}

/* ---- the union ---- */

/* Appends the values of one summary; their tags, views into it, go to `seen`. */
static weft_status_t *merge(weft_map_t *seen, weft_str_t summary, weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(summary);
  weft_wire_field_t f, g;
  static char mark;
  if (!weft_summary_is_valid(summary)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Could not parse one of the summary inputs");
  }
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(WEFT_SUMMARY_VALUE, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t v = weft_wire_reader(f.bytes);
    weft_str_t tag = WEFT_STR("");
    while (weft_wire_next(&v, &g)) {
      if (g.tag == WEFT_WIRE_TAG(WEFT_VALUE_TAG, WEFT_WIRE_BYTES)) tag = g.bytes;
    }
    weft_wire_add_bytes(out, WEFT_SUMMARY_VALUE, f.bytes);
    if (tag.length == 0) continue;
    if (weft_map_get(seen, tag) != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate tag %.*s found in summary inputs ", WEFT_STR_ARGS(tag));
    }
    WEFT_RETURN_IF_ERROR(weft_map_put(seen, tag, &mark, NULL));
  }
  return NULL;
}

static weft_status_t *merge_summary(weft_kernel_ctx_t *c) {
  weft_map_t seen = WEFT_MAP_INIT;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < c->node->num_inputs; i++) {
    const weft_tensor_t *t = weft_in(c, i);
    for (int64_t k = 0; s == NULL && k < t->count; k++) s = merge(&seen, weft_tensor_str_at(t, k), &b);
  }
  weft_map_deinit(&seen);
  return weft_summary_finish(c, s, &b);
}

const weft_kernel_t weft_cpu_summary_kernels[] = {
    {.op = "MergeSummary", .compute = merge_summary},
    {.op = "ScalarSummary", .type_attr = "T", .types = WEFT_SET_REAL, .compute = scalar_summary},
    {.op = "TensorSummary", .compute = tensor_summary},
    {.op = "TensorSummaryV2", .compute = tensor_summary_v2},
    {0},
};
