/* kernels/cpu/parsing/encode_proto.c - EncodeProto: messages made of tensors of their fields. */
#include <inttypes.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/each_row.h"
#include "kernels/cpu/parsing/proto_source.h"
#include "protos/wire.h"

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  weft_proto_fields_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("a kernel");
  weft_status_t *s = weft_proto_fields_init(p, setup, false);
  if (s == NULL && p->n != setup->node.num_inputs - 1)
    s = WEFT_ERROR(INVALID_ARGUMENT, "Length of inputs list must match field_names");
  *out = p;
  if (s == NULL) return NULL;
  weft_proto_fields_deinit(p);
  weft_free(p);
  *out = NULL;
  return s;
}

static void destroy(void *state) {
  if (state == NULL) return;
  weft_proto_fields_deinit(state);
  weft_free(state);
}

/* ---- values ---- */

/* The bits of a number as its field has them on the wire. */
static uint64_t bits_of(weft_descriptor_type_t type, const weft_tensor_t *t, int64_t i) {
  double real = 0;
  int64_t whole = 0;
  if (type == WEFT_FIELD_DOUBLE || type == WEFT_FIELD_FLOAT) {
    weft_cpu_cast_loop(t->dtype, WEFT_F64)(1, (const char *)t->data + (size_t)i * weft_dtype_size(t->dtype),
                                           &real);
    return type == WEFT_FIELD_DOUBLE ? weft_wire_double_bits(real) : weft_wire_float_bits((float)real);
  }
  if (t->dtype == WEFT_BOOL) return ((const uint8_t *)t->data)[i] != 0;
  whole = weft_cpu_int_at(t, i);
  switch (type) {
    case WEFT_FIELD_INT32:
    case WEFT_FIELD_ENUM: return (uint64_t)(int64_t)(int32_t)whole;
    case WEFT_FIELD_UINT32: return (uint32_t)whole;
    case WEFT_FIELD_SINT32: return (uint32_t)((uint32_t)whole << 1) ^ ((int32_t)whole < 0 ? UINT32_MAX : 0);
    case WEFT_FIELD_SINT64: return (uint64_t)whole << 1 ^ (whole < 0 ? UINT64_MAX : 0);
    default: return (uint64_t)whole;
  }
}

static void put_raw(weft_strbuf_t *out, uint32_t wire_type, uint64_t bits) {
  uint8_t *to = weft_wire_room(out, WEFT_WIRE_MAX_VARINT);
  if (to == NULL) return;
  weft_wire_advance(out, wire_type == WEFT_WIRE_VARINT    ? weft_wire_store_varint(to, bits)
                         : wire_type == WEFT_WIRE_FIXED32 ? weft_wire_store32(to, (uint32_t)bits)
                                                          : weft_wire_store64(to, bits));
}

static void put_tag(weft_strbuf_t *out, uint32_t number, uint32_t wire_type) {
  weft_wire_add_raw_varint(out, WEFT_WIRE_TAG(number, wire_type));
}

/* Elements begin to begin + n of `t`; n > 0. */
static void put_field(weft_strbuf_t *out, const weft_descriptor_field_t *f, const weft_tensor_t *t,
                      int64_t begin, int64_t n) {
  uint32_t wire_type = weft_descriptor_wire_type(f->type);
  bool is_text = t->dtype == WEFT_STRING, is_packed = f->is_packed && !is_text;
  size_t mark = is_packed ? weft_wire_begin(out, f->number) : 0;
  for (int64_t i = begin; i < begin + n; i++) {
    if (f->type == WEFT_FIELD_GROUP) {
      put_tag(out, f->number, WEFT_WIRE_GROUP);
      weft_strbuf_append(out, weft_tensor_str_at(t, i));
      put_tag(out, f->number, WEFT_WIRE_END_GROUP);
    } else if (is_text) {
      weft_wire_add_bytes(out, f->number, weft_tensor_str_at(t, i));
    } else {
      if (!is_packed) put_tag(out, f->number, wire_type);
      put_raw(out, wire_type, bits_of(f->type, t, i));
    }
  }
  if (is_packed) weft_wire_end(out, mark);
}

/* ---- messages ---- */

static weft_status_t *check(const weft_kernel_ctx_t *ctx, const weft_proto_fields_t *p, weft_shape_t *out) {
  for (int i = 0; i < p->n; i++) {
    const weft_tensor_t *v = weft_in(ctx, i + 1);
    weft_shape_t prefix = v->shape;
    if (!weft_descriptor_fits(p->fields[i].type, (int)v->dtype)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible type for field %.*s.  Saw dtype: %s",
                        WEFT_STR_ARGS(p->fields[i].name), weft_dtype_name(v->dtype));
    }
    if (v->shape.rank < 2) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid shape for field %.*s.  Saw shape %s but it should be at least a matrix.",
                        WEFT_STR_ARGS(p->fields[i].name), WEFT_SHAPE_TEXT(&v->shape));
    }
    prefix.rank--;
    if (i == 0) *out = prefix;
    if (!weft_shape_eq(out, &prefix))
      return WEFT_ERROR(INVALID_ARGUMENT, "Values must match up to the last dimension");
  }
  return NULL;
}

static weft_status_t *check_sizes(const weft_kernel_ctx_t *ctx, const weft_proto_fields_t *p,
                                  const weft_shape_t *prefix) {
  const weft_tensor_t *sizes = weft_in(ctx, 0);
  bool fits = sizes->shape.rank == prefix->rank + 1 && sizes->shape.dims[prefix->rank] == p->n;
  for (int d = 0; fits && d < prefix->rank; d++) fits = sizes->shape.dims[d] == prefix->dims[d];
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "sizes should be batch_size + [len(field_names)].  Saw: %s but expected: %s and %d",
                      WEFT_SHAPE_TEXT(&sizes->shape), WEFT_SHAPE_TEXT(prefix), p->n);
  }
  for (int64_t i = 0; i < sizes->count; i++) {
    const weft_shape_t *of_value = &weft_in(ctx, 1 + (int)(i % p->n))->shape;
    int64_t size = ((const int32_t *)sizes->data)[i], most = of_value->dims[of_value->rank - 1];
    if (size > most) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Size to write must not be larger than value tensor; but saw: %" PRId64 " > %" PRId64,
                        size, most);
    }
  }
  return NULL;
}

typedef struct encode_proto_run {
  const weft_kernel_ctx_t *ctx;
  weft_tensor_t *out;
} encode_proto_run_t;

static weft_status_t *put_message(void *arg, int64_t m, weft_strbuf_t *text) {
  const encode_proto_run_t *r = arg;
  const weft_proto_fields_t *p = r->ctx->state;
  const int32_t *sizes = (const int32_t *)weft_in(r->ctx, 0)->data + m * p->n;
  for (int k = 0; k < p->n; k++) {
    int i = p->order[k];
    const weft_tensor_t *v = weft_in(r->ctx, i + 1);
    if (sizes[i] > 0) put_field(text, &p->fields[i], v, m * v->shape.dims[v->shape.rank - 1], sizes[i]);
  }
  return weft_set_text(r->out, m, text);
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  enum { GRAIN = 64 };
  encode_proto_run_t r = {.ctx = ctx};
  weft_shape_t prefix = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(check(ctx, ctx->state, &prefix));
  WEFT_RETURN_IF_ERROR(check_sizes(ctx, ctx->state, &prefix));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_STRING, &prefix, &r.out));
  return weft_each_row(ctx, r.out->count, GRAIN, put_message, &r);
}

const weft_kernel_t weft_cpu_encode_proto_kernels[] = {
    {.op = "EncodeProto", .prepare = prepare, .compute = compute, .destroy = destroy},
    {0},
};
