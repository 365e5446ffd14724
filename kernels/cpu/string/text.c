/* kernels/cpu/string/text.c - the length, case, blanks and parts of strings, and base64. */
#include <inttypes.h>
#include <unicode/ustring.h>

#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"
#include "kernels/cpu/string/utf8.h"

enum { TEXT_GRAIN = 512, REPLACEMENT = 0xfffd };

/* A string for each string. */
typedef struct text_run {
  const weft_tensor_t *in;
  weft_tensor_t *out;
  bool is_upper, is_utf8, has_padding;
} text_run_t;

static weft_status_t *run_text(weft_kernel_ctx_t *c, weft_each_row_fn *fn, text_run_t *r) {
  r->in = weft_in(c, 0);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &r->in->shape, &r->out));
  return weft_each_row(c, r->in->count, TEXT_GRAIN, fn, r);
}

/* ---- length ---- */

WEFT_ATTRS(string_length, (STRING, unit))
static weft_status_t *string_length(weft_kernel_ctx_t *c, const string_length_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0);
  bool is_utf8 = weft_str_is(attrs->unit, "UTF8_CHAR");
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_I32, &in->shape, &out));
  for (int64_t i = 0; i < in->count; i++) {
    weft_str_t s = weft_tensor_str_at(in, i);
    size_t n = s.length;
    for (size_t k = 0; is_utf8 && k < s.length; k++) n -= weft_utf8_is_trail(s.data[k]);
    ((int32_t *)out->data)[i] = (int32_t)n;
  }
  return NULL;
}

/* ---- strip ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static weft_status_t *strip_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const text_run_t *r = arg;
  weft_str_t s = weft_tensor_str_at(r->in, i);
  (void)text;
  while (s.length > 0 && is_blank(s.data[0])) s = weft_str_of(s.data + 1, s.length - 1);
  while (s.length > 0 && is_blank(s.data[s.length - 1])) s.length--;
  return weft_tensor_set_str(r->out, i, s);
}

static weft_status_t *string_strip(weft_kernel_ctx_t *c) { return run_text(c, strip_row, &(text_run_t){0}); }

/* ---- case ---- */

/* By Unicode's full mappings, without a language, on UTF-16: bytes that are no UTF-8 become U+FFFD, and a
 * zero byte ends the text, both as in TensorFlow. */
static weft_status_t *utf8_case(weft_str_t s, bool is_upper, weft_strbuf_t *text) {
  UErrorCode error = U_ZERO_ERROR;
  int32_t n = 0, changed_n = 0, bytes = 0;
  const char *zero = s.length == 0 ? NULL : memchr(s.data, '\0', s.length);
  if (zero != NULL) s.length = (size_t)(zero - s.data);
  if (s.length == 0) return NULL;
  if (s.length > INT32_MAX / 12)
    return WEFT_ERROR(INVALID_ARGUMENT, "a string of %zu bytes is too long", s.length);
  size_t room = s.length * 3 + 1; /* one character becomes three at most */
  UChar *wide = weft_calloc(room + s.length + 1, sizeof *wide);
  char *to = weft_strbuf_reserve(text, room * 3);
  if (wide == NULL || to == NULL) {
    weft_free(wide);
    return WEFT_NO_MEMORY("changing the case of a string");
  }
  UChar *changed = wide + s.length + 1;
  u_strFromUTF8WithSub(wide, (int32_t)s.length + 1, &n, s.data, (int32_t)s.length, REPLACEMENT, NULL, &error);
  changed_n = is_upper ? u_strToUpper(changed, (int32_t)room, wide, n, "", &error)
                       : u_strToLower(changed, (int32_t)room, wide, n, "", &error);
  u_strToUTF8(to, (int32_t)(room * 3), &bytes, changed, changed_n, &error);
  weft_free(wide);
  if (U_FAILURE(error)) return WEFT_ERROR(INTERNAL, "changing the case of a string: %s", u_errorName(error));
  text->length += (size_t)bytes;
  return NULL;
}

static weft_status_t *case_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const text_run_t *r = arg;
  weft_str_t s = weft_tensor_str_at(r->in, i);
  if (r->is_utf8) {
    WEFT_RETURN_IF_ERROR(utf8_case(s, r->is_upper, text));
    return weft_set_text(r->out, i, text);
  }
  const uint8_t first = r->is_upper ? 'a' : 'A';
  char *to = weft_strbuf_reserve(text, s.length);
  for (size_t k = 0; to != NULL && k < s.length; k++) {
    const bool changes = (uint8_t)((uint8_t)s.data[k] - first) < 26;
    to[k] = (char)(s.data[k] ^ (changes ? 0x20 : 0));
  }
  if (to != NULL) text->length += s.length;
  return weft_set_text(r->out, i, text);
}

WEFT_ATTRS_STRUCT(case_change, (STRING, encoding))
WEFT_ATTRS_OF(string_lower, case_change)
static weft_status_t *string_lower(weft_kernel_ctx_t *c, const case_change_attrs_t *attrs) {
  return run_text(c, case_row, &(text_run_t){.is_utf8 = attrs->encoding.length > 0});
}

WEFT_ATTRS_OF(string_upper, case_change)
static weft_status_t *string_upper(weft_kernel_ctx_t *c, const case_change_attrs_t *attrs) {
  return run_text(c, case_row, &(text_run_t){.is_upper = true, .is_utf8 = attrs->encoding.length > 0});
}

static weft_status_t *case_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t encoding = weft_knode_string(setup, "encoding");
  if (encoding.length > 0 && !weft_str_is(encoding, "utf-8")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "only utf-8 or '' (no encoding) is supported, received %.*s",
                      WEFT_STR_ARGS(encoding));
  }
  return weft_attrs_prepare(setup, out_state);
}

/* ---- base64, of RFC 4648's alphabet for names of files and addresses ---- */

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static weft_status_t *encode_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const text_run_t *r = arg;
  weft_str_t s = weft_tensor_str_at(r->in, i);
  const uint8_t *from = (const uint8_t *)s.data;
  const size_t whole = s.length / 3, rest = s.length % 3;
  char *to = weft_strbuf_reserve(text, (whole + 1) * 4);
  if (to == NULL) return weft_set_text(r->out, i, text);
  for (size_t k = 0; k < whole; k++, from += 3, to += 4) {
    const uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
    for (int d = 0; d < 4; d++) to[d] = base64_digits[bits >> (18 - 6 * d) & 63];
  }
  text->length += whole * 4;
  if (rest > 0) {
    const uint32_t bits = (uint32_t)from[0] << 16 | (rest > 1 ? (uint32_t)from[1] << 8 : 0);
    for (size_t d = 0; d < 4; d++) to[d] = d <= rest ? base64_digits[bits >> (18 - 6 * d) & 63] : '=';
    text->length += r->has_padding ? 4 : rest + 1;
  }
  return weft_set_text(r->out, i, text);
}

WEFT_ATTRS(encode_base64, (BOOL, pad))
static weft_status_t *encode_base64(weft_kernel_ctx_t *c, const encode_base64_attrs_t *attrs) {
  return run_text(c, encode_row, &(text_run_t){.has_padding = attrs->pad});
}

/* The value of a digit, or -1. */
static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

static weft_status_t *decode_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const text_run_t *r = arg;
  weft_str_t s = weft_tensor_str_at(r->in, i);
  if (s.length % 4 == 0 && s.length > 0 && s.data[s.length - 1] == '=') {
    s.length -= s.data[s.length - 2] == '=' ? 2 : 1;
  }
  uint32_t bits = 0;
  char *to = weft_strbuf_reserve(text, s.length);
  for (size_t k = 0; to != NULL && k < s.length; k++) {
    if (k % 4 == 0 && k + 1 == s.length)
      return WEFT_ERROR(INVALID_ARGUMENT, "Base64 string length cannot be 1 modulo 4.");
    int value = base64_value(s.data[k]);
    if (value < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid character found in base64.");
    bits = bits << 6 | (uint32_t)value;
    if (k % 4 == 0) continue;
    *to++ = (char)(bits >> (6 - 2 * (k % 4)));
    text->length++;
  }
  return weft_set_text(r->out, i, text);
}

static weft_status_t *decode_base64(weft_kernel_ctx_t *c) {
  return run_text(c, decode_row, &(text_run_t){0});
}

/* ---- Substr ---- */

typedef struct substr_run {
  const weft_tensor_t *in, *pos, *len;
  weft_tensor_t *out;
  int64_t columns; /* of a matrix that broadcasting made; 0: any other output */
  bool is_utf8;
  weft_status_t *status;
} substr_run_t;

/* A negative length takes the rest. */
static bool byte_part(weft_str_t *s, int64_t pos, int64_t len) {
  if (pos < 0) pos = pos < -(int64_t)s->length ? -1 : pos + (int64_t)s->length;
  if (pos < 0 || pos > (int64_t)s->length) return false;
  size_t rest = s->length - (size_t)pos;
  *s = weft_str_of(s->data + pos, len < 0 || (uint64_t)len > rest ? rest : (size_t)len);
  return true;
}

/* A negative position counts from the end; a negative length takes nothing. */
static bool utf8_part(weft_str_t *s, int64_t pos, int64_t len) {
  size_t begin = 0, end = 0;
  if (pos >= 0) {
    if (!weft_utf8_forward(*s, pos, &begin)) return false;
    end = begin;
    weft_utf8_forward(*s, len, &end);
  } else {
    int64_t from_end = pos == INT64_MIN ? INT64_MAX : -pos, behind = len < 0 ? from_end : from_end - len;
    end = s->length;
    if (behind > 0) weft_utf8_back(*s, behind, &end);
    begin = end;
    if (!weft_utf8_back(*s, behind > 0 ? from_end - behind : from_end, &begin)) return false;
  }
  *s = weft_str_of(s->data + begin, end - begin);
  return true;
}

/* TensorFlow tells the string only where positions are bytes. In a matrix that broadcasting made it counts
 * rows and columns, of characters rows alone. */
static weft_status_t *out_of_range(const substr_run_t *r, int64_t out_at, weft_str_t s, int64_t pos) {
  const int64_t columns = r->columns;
  if (r->is_utf8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "pos %" PRId64 " out of range for string at index %" PRId64, pos,
                      columns > 0 ? out_at / columns : out_at);
  }
  if (columns > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "pos %" PRId64 " out of range for string b'%.*s' at index (%" PRId64 ", %" PRId64 ")",
                      pos, WEFT_STR_ARGS(s), out_at / columns, out_at % columns);
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "pos %" PRId64 " out of range for string b'%.*s' at index %" PRId64,
                    pos, WEFT_STR_ARGS(s), out_at);
}

static weft_status_t *put_part(const substr_run_t *r, int64_t out_at, int64_t in_at, int64_t at) {
  weft_str_t s = weft_tensor_str_at(r->in, in_at);
  int64_t pos = weft_cpu_int_at(r->pos, at), len = weft_cpu_int_at(r->len, at);
  if (!(r->is_utf8 ? utf8_part(&s, pos, len) : byte_part(&s, pos, len))) {
    return out_of_range(r, out_at, s, pos);
  }
  return weft_tensor_set_str(r->out, out_at, s);
}

static void part_range(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  substr_run_t *r = arg;
  for (int64_t i = 0; i < n && r->status == NULL; i++) {
    r->status = put_part(r, out_at + i, at[0] + i * step[0], at[1] + i * step[1]);
  }
}

WEFT_ATTRS(substr, (STRING, unit))
static weft_status_t *substr(weft_kernel_ctx_t *c, const substr_attrs_t *attrs) {
  substr_run_t r = {.in = weft_in(c, 0),
                    .pos = weft_in(c, 1),
                    .len = weft_in(c, 2),
                    .is_utf8 = weft_str_is(attrs->unit, "UTF8_CHAR")};
  weft_broadcast_t b;
  if (!weft_shape_eq(&r.pos->shape, &r.len->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "pos and len should have the same shape, got: %s vs. %s",
                      WEFT_SHAPE_TEXT(&r.pos->shape), WEFT_SHAPE_TEXT(&r.len->shape));
  }
  if (!weft_broadcast_init(&b, (const weft_shape_t *const[]){&r.in->shape, &r.pos->shape}, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&r.in->shape),
                      WEFT_SHAPE_TEXT(&r.pos->shape));
  }
  const bool is_each = r.pos->shape.rank == 0 || weft_shape_eq(&r.in->shape, &r.pos->shape);
  r.columns = !is_each && b.shape.rank == 2 ? b.shape.dims[1] : 0;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &b.shape, &r.out));
  weft_broadcast_walk(&b, 0, b.count, part_range, &r);
  return r.status;
}

const weft_kernel_t weft_cpu_string_text_kernels[] = {
    {.op = "DecodeBase64", .compute = decode_base64},
    {.op = "EncodeBase64", WEFT_COMPUTE(encode_base64)},
    {.op = "StringLength", WEFT_COMPUTE(string_length)},
    {.op = "StringLower", WEFT_COMPUTE_CHECKED(string_lower, case_prepare)},
    {.op = "StringStrip", .compute = string_strip},
    {.op = "StringUpper", WEFT_COMPUTE_CHECKED(string_upper, case_prepare)},
    {.op = "Substr", WEFT_COMPUTE(substr)},
    {0},
};
