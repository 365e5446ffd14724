/* kernels/cpu/parsing/feature.c - the features of a serialized Example. */
#include "kernels/cpu/parsing/feature.h"

#include "base/alloc.h"
#include "protos/wire.h"

enum {
  FIELD_1 = WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES),
  FIELD_2 = WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES),
  FIELD_3 = WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES),
};

/* ---- the cursor ---- */

bool weft_example_expect(weft_example_cursor_t *c, uint8_t tag) {
  if (c->p == c->end || *c->p != tag) return false;
  c->p++;
  return true;
}

static bool varint64(weft_example_cursor_t *c, uint64_t *out) {
  const uint8_t *p = weft_wire_get_varint(c->p, c->end, out);
  if (p == NULL) return false;
  c->p = p;
  return true;
}

bool weft_example_varint(weft_example_cursor_t *c, uint32_t *out) {
  uint64_t value = 0;
  if (!varint64(c, &value)) return false;
  *out = (uint32_t)value;
  return true;
}

bool weft_example_limit(weft_example_cursor_t *c, weft_example_cursor_t *out) {
  uint32_t length = 0;
  if (!weft_example_varint(c, &length)) return false;
  *out = *c;
  if (length < (size_t)(c->end - c->p) && length <= INT32_MAX) out->end = c->p + length;
  return true;
}

bool weft_example_bytes(weft_example_cursor_t *c, weft_str_t *out) {
  uint32_t length = 0;
  if (!weft_example_varint(c, &length) || length > (size_t)(c->end - c->p)) return false;
  *out = weft_str_of((const char *)c->p, length);
  c->p += length;
  return true;
}

bool weft_example_skip(weft_example_cursor_t *c, uint32_t tag) {
  uint64_t value = 0;
  weft_str_t bytes;
  size_t fixed = 0;
  switch (tag & 7) {
    case WEFT_WIRE_VARINT: return varint64(c, &value);
    case WEFT_WIRE_BYTES: return weft_example_bytes(c, &bytes);
    case WEFT_WIRE_FIXED32: fixed = 4; break;
    case WEFT_WIRE_FIXED64: fixed = 8; break;
    default: return false;
  }
  if ((size_t)(c->end - c->p) < fixed) return false;
  c->p += fixed;
  return true;
}

/* ---- Example ---- */

void weft_feature_entries_deinit(weft_feature_entries_t *e) { weft_free(e->entries); }

/* Room for one more of `size` bytes each; NULL is also the answer of an overflow. */
static bool grow(void **data, int64_t *capacity, int64_t wanted, size_t size) {
  if (wanted <= *capacity) return true;
  int64_t more = *capacity * 2 > wanted ? *capacity * 2 : wanted;
  if (more < 16) more = 16;
  void *p = weft_realloc(*data, (size_t)more, size);
  if (p == NULL) return false;
  *data = p;
  *capacity = more;
  return true;
}

/* An entry has two fields, in any order; one that is there twice counts twice. */
static bool read_entry(weft_example_cursor_t *c, weft_feature_entry_t *out) {
  weft_example_cursor_t in;
  *out = (weft_feature_entry_t){{0}, {0}};
  if (!weft_example_limit(c, &in)) return false;
  for (int i = 0; i < 2; i++) {
    uint32_t tag = 0;
    if (in.p == in.end || !weft_example_varint(&in, &tag)) return false;
    if (tag != FIELD_1 && tag != FIELD_2) return false;
    if (!weft_example_bytes(&in, tag == FIELD_1 ? &out->key : &out->feature)) return false;
  }
  c->p = in.p;
  return in.p == in.end;
}

static weft_status_t *malformed(weft_str_t whole) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Could not parse example input, value: '%.*s'", WEFT_STR_ARGS(whole));
}

static weft_status_t *read_features(weft_example_cursor_t *c, weft_str_t whole, weft_feature_entries_t *out) {
  weft_example_cursor_t in;
  if (!weft_example_limit(c, &in)) return malformed(whole);
  while (in.p < in.end) {
    if (!grow((void **)&out->entries, &out->capacity, out->n + 1, sizeof *out->entries)) {
      return WEFT_NO_MEMORY("the features of an example");
    }
    if (!weft_example_expect(&in, FIELD_1) || !read_entry(&in, &out->entries[out->n]))
      return malformed(whole);
    out->n++;
  }
  c->p = in.p;
  return NULL;
}

weft_status_t *weft_example_read(weft_str_t bytes, weft_feature_entries_t *out) {
  weft_example_cursor_t c = weft_example_cursor(bytes);
  out->n = 0;
  while (c.p < c.end) {
    uint32_t tag = 0;
    if (weft_example_expect(&c, FIELD_1)) {
      WEFT_RETURN_IF_ERROR(read_features(&c, bytes, out));
    } else if (!weft_example_varint(&c, &tag) || !weft_example_skip(&c, tag)) {
      return malformed(bytes);
    }
  }
  return NULL;
}

/* ---- Feature ---- */

void weft_feature_values_deinit(weft_feature_values_t *v) { weft_free(v->data); }

weft_status_t *weft_feature_dtype(weft_str_t feature, int *out_dtype, weft_str_t *rest) {
  *out_dtype = 0;
  *rest = feature;
  if (feature.length == 0) return NULL;
  switch ((uint8_t)feature.data[0]) {
    case FIELD_1: *out_dtype = WEFT_STRING; break;
    case FIELD_2: *out_dtype = WEFT_F32; break;
    case FIELD_3: *out_dtype = WEFT_I64; break;
    default: return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported datatype.");
  }
  *rest = weft_str_of(feature.data + 1, feature.length - 1);
  return NULL;
}

static bool more_values(weft_feature_values_t *v, int64_t n, weft_status_t **out_status) {
  size_t size = v->dtype == WEFT_I64   ? sizeof *v->ints
                : v->dtype == WEFT_F32 ? sizeof *v->floats
                                       : sizeof *v->texts;
  if (grow(&v->data, &v->capacity, v->n + n, size)) return true;
  *out_status = WEFT_NO_MEMORY("the values of a feature");
  return false;
}

static bool read_texts(weft_example_cursor_t *c, weft_feature_values_t *out, weft_status_t **out_status) {
  while (c->p < c->end) {
    if (!weft_example_expect(c, FIELD_1) || !more_values(out, 1, out_status)) return false;
    if (!weft_example_bytes(c, &out->texts[out->n])) return false;
    out->n++;
  }
  return true;
}

static bool read_packed_floats(weft_example_cursor_t *c, weft_feature_values_t *out,
                               weft_status_t **out_status) {
  weft_str_t bytes;
  if (!weft_example_bytes(c, &bytes)) return false;
  int64_t n = (int64_t)(bytes.length / sizeof(float));
  if (!more_values(out, n, out_status)) return false;
  if (n > 0) memcpy(out->floats + out->n, bytes.data, (size_t)n * sizeof(float));
  out->n += n;
  return true;
}

static bool read_floats(weft_example_cursor_t *c, weft_feature_values_t *out, weft_status_t **out_status) {
  if (c->p == c->end) return true;
  if (weft_example_expect(c, FIELD_1)) return read_packed_floats(c, out, out_status);
  while (c->p < c->end) {
    if (!weft_example_expect(c, WEFT_WIRE_TAG(1, WEFT_WIRE_FIXED32)) || c->end - c->p < 4) return false;
    if (!more_values(out, 1, out_status)) return false;
    memcpy(&out->floats[out->n++], c->p, sizeof(float));
    c->p += sizeof(float);
  }
  return true;
}

static bool read_int(weft_example_cursor_t *c, weft_feature_values_t *out, weft_status_t **out_status) {
  uint64_t value = 0;
  if (!varint64(c, &value) || !more_values(out, 1, out_status)) return false;
  out->ints[out->n++] = (int64_t)value;
  return true;
}

static bool read_ints(weft_example_cursor_t *c, weft_feature_values_t *out, weft_status_t **out_status) {
  weft_example_cursor_t packed;
  if (c->p == c->end) return true;
  if (weft_example_expect(c, FIELD_1)) {
    if (!weft_example_limit(c, &packed)) return false;
    while (packed.p < packed.end) {
      if (!read_int(&packed, out, out_status)) return false;
    }
    return true;
  }
  while (c->p < c->end) {
    if (!weft_example_expect(c, WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) || !read_int(c, out, out_status))
      return false;
  }
  return true;
}

bool weft_feature_read(weft_str_t rest, weft_feature_values_t *out, weft_status_t **out_status) {
  weft_example_cursor_t c = weft_example_cursor(rest), list;
  *out_status = NULL;
  if (!weft_example_limit(&c, &list)) return false;
  switch (out->dtype) {
    case WEFT_STRING: return read_texts(&list, out, out_status);
    case WEFT_F32: return read_floats(&list, out, out_status);
    default: return read_ints(&list, out, out_status);
  }
}

weft_status_t *weft_feature_copy(const weft_feature_values_t *v, int64_t from, int64_t n, weft_tensor_t *t,
                                 int64_t at) {
  if (n == 0) return NULL;
  switch (v->dtype) {
    case WEFT_I64: memcpy((int64_t *)t->data + at, v->ints + from, (size_t)n * sizeof(int64_t)); break;
    case WEFT_F32: memcpy((float *)t->data + at, v->floats + from, (size_t)n * sizeof(float)); break;
    default:
      for (int64_t i = 0; i < n; i++)
        WEFT_RETURN_IF_ERROR(weft_tensor_set_str(t, at + i, v->texts[from + i]));
  }
  return NULL;
}
