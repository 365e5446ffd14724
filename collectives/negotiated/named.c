/* collectives/negotiated/named.c - requests as bytes: a length, then protobuf fields. */
#include "collectives/negotiated/named.h"

#include "protos/wire.h"

enum {
  KIND = 1,
  NAME,
  PROCESS_SET,
  DTYPE,
  DIM,
  REDUCTION,
  IS_MEAN,
  ROOT,
  PRESCALE,
  POSTSCALE,
  GROUP,
  GROUP_MEMBERS
};

const char *weft_named_kind_text(weft_named_kind_t k) {
  static const char *const texts[] = {"all-reduce", "Adasum", "all-gather", "broadcast", "join"};
  return texts[k];
}

uint64_t weft_named_hash(const weft_named_request_t *r) {
  return weft_str_hash64(r->name) ^ ((uint64_t)r->process_set * UINT64_C(0x9e3779b97f4a7c15)) ^
         (r->kind == WEFT_NAMED_JOIN ? 1 : 0);
}

static double scale_of(double given) { return given == 0 ? 1 : given; }

static bool same_but_shape(const weft_named_request_t *a, const weft_named_request_t *b) {
  return a->kind == b->kind && a->process_set == b->process_set && a->dtype == b->dtype &&
         a->reduction == b->reduction && a->is_mean == b->is_mean && a->root == b->root &&
         scale_of(a->prescale) == scale_of(b->prescale) && scale_of(a->postscale) == scale_of(b->postscale);
}

bool weft_named_same(const weft_named_request_t *a, const weft_named_request_t *b) {
  return same_but_shape(a, b) && weft_shape_eq(&a->shape, &b->shape) && weft_str_eq(a->group, b->group) &&
         a->group_members == b->group_members;
}

bool weft_named_fuses(const weft_named_request_t *a, const weft_named_request_t *b) {
  return a->kind == WEFT_NAMED_ALL_REDUCE && same_but_shape(a, b);
}

static void put_double(weft_strbuf_t *out, uint32_t field, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  weft_wire_put_i64(out, field,
                    (int64_t)bits); /* a varint does for the one value in a thousand that is not 1 */
}

void weft_named_encode(const weft_named_request_t *r, weft_strbuf_t *out) {
  size_t message = weft_wire_begin(out, 1);
  weft_wire_put_i64(out, KIND, (int64_t)r->kind);
  weft_wire_put_bytes(out, NAME, r->name);
  weft_wire_put_i64(out, PROCESS_SET, r->process_set);
  weft_wire_put_i64(out, DTYPE, (int64_t)r->dtype);
  for (int i = 0; i < r->shape.rank; i++)
    weft_wire_put_i64(out, DIM, r->shape.dims[i] + 1); /* so that none is left out */
  weft_wire_put_i64(out, REDUCTION, (int64_t)r->reduction);
  weft_wire_put_i64(out, IS_MEAN, r->is_mean);
  weft_wire_put_i64(out, ROOT, r->root);
  if (scale_of(r->prescale) != 1) put_double(out, PRESCALE, r->prescale);
  if (scale_of(r->postscale) != 1) put_double(out, POSTSCALE, r->postscale);
  if (r->group.length > 0) weft_wire_put_bytes(out, GROUP, r->group);
  weft_wire_put_i64(out, GROUP_MEMBERS, r->group_members);
  weft_wire_end(out, message);
}

static weft_status_t *bad(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "a member sent a list of requests that is none");
}

static bool read_number(const weft_wire_field_t *f, weft_named_request_t *r) {
  int64_t v = weft_wire_i64(f->value);
  switch (weft_wire_number(f)) {
    case KIND: r->kind = (weft_named_kind_t)v; return v >= 0 && v <= WEFT_NAMED_JOIN;
    case PROCESS_SET: r->process_set = (int)v; return v >= 0 && v <= INT32_MAX;
    case DTYPE: r->dtype = (weft_dtype_t)v; return v >= 0 && v < WEFT_DTYPE_COUNT;
    case DIM:
      if (r->shape.rank >= WEFT_MAX_DIMS || v < 1) return false;
      r->shape.dims[r->shape.rank++] = v - 1;
      return true;
    case REDUCTION: r->reduction = (weft_reduction_t)v; return v >= 0 && v <= WEFT_REDUCE_MAX;
    case IS_MEAN: r->is_mean = v != 0; return true;
    case ROOT: r->root = (int)v; return v >= 0 && v <= INT32_MAX;
    case PRESCALE: r->prescale = weft_wire_double(f->value); return true;
    case POSTSCALE: r->postscale = weft_wire_double(f->value); return true;
    case GROUP_MEMBERS: r->group_members = (int)v; return v >= 0 && v <= INT32_MAX;
    default: return true;
  }
}

weft_status_t *weft_named_decode(weft_str_t *list, weft_named_request_t *out, bool *out_is_there) {
  weft_wire_reader_t all = weft_wire_reader(*list);
  weft_wire_field_t f;
  *out_is_there = weft_wire_next(&all, &f);
  if (all.failed) return bad();
  if (!*out_is_there) return NULL;
  if (weft_wire_number(&f) != 1 || weft_wire_type(&f) != WEFT_WIRE_BYTES) return bad();
  *list = weft_str_of((const char *)all.p, (size_t)(all.end - all.p));
  weft_named_request_t r = {
      .name = WEFT_STR(""), .group = WEFT_STR(""), .shape = WEFT_SCALAR, .prescale = 1, .postscale = 1};
  weft_wire_reader_t one = weft_wire_reader(f.bytes);
  while (weft_wire_next(&one, &f)) {
    bool is_bytes = weft_wire_type(&f) == WEFT_WIRE_BYTES;
    if (is_bytes && weft_wire_number(&f) == NAME) r.name = f.bytes;
    if (is_bytes && weft_wire_number(&f) == GROUP) r.group = f.bytes;
    if (weft_wire_type(&f) == WEFT_WIRE_VARINT && !read_number(&f, &r)) return bad();
  }
  if (one.failed || weft_shape_count(&r.shape) < 0) return bad();
  *out = r;
  return NULL;
}
