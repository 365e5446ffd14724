/* kernels/cpu/parsing/json_example.c - DecodeJSONExample.
 *
 * One walk over the text writes the message. What is JSON is protobuf's parser's notion of it: texts may
 * stand between single quotes, names without any, a comma may end a list. Names are those of the fields or
 * their lowerCamelCase forms, null is a field that is not there, one value is a list of one.
 */
#include "kernels/cpu/parsing/json_example.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"
#include "protos/wire.h"

typedef struct json {
  const char *p, *end, *begin;
  weft_strbuf_t text; /* of the last string or name */
  weft_strbuf_t *out;
} json_t;

static weft_status_t *fail(const json_t *j, const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Error while parsing JSON: %s, at byte %td", what, j->p - j->begin);
}

static void skip_space(json_t *j) {
  while (j->p < j->end && (*j->p == ' ' || (*j->p >= '\t' && *j->p <= '\r'))) j->p++;
}

/* The next character that is no space; '\0' at the end. */
static char peek(json_t *j) {
  skip_space(j);
  return j->p < j->end ? *j->p : '\0';
}

static bool take(json_t *j, char c) {
  if (peek(j) != c || c == '\0') return false;
  j->p++;
  return true;
}

static bool take_word(json_t *j, const char *word) {
  size_t n = strlen(word);
  skip_space(j);
  if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0) return false;
  j->p += n;
  return true;
}

/* ---- texts ---- */

static bool hex4(json_t *j, uint32_t *out) {
  uint32_t v = 0;
  if (j->end - j->p < 4) return false;
  for (int i = 0; i < 4; i++) {
    char c = *j->p++;
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : 16;
    if (digit == 16) return false;
    v = v << 4 | digit;
  }
  *out = v;
  return true;
}

static void put_utf8(weft_strbuf_t *out, uint32_t c) {
  if (c < 0x80) {
    weft_strbuf_putc(out, (char)c);
    return;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
  weft_strbuf_putc(out, (char)(first[more] | c >> (6 * more)));
  while (more-- > 0) weft_strbuf_putc(out, (char)(0x80 | (c >> (6 * more) & 0x3f)));
}

/* Behind a backslash. */
static weft_status_t *read_escape(json_t *j) {
  static const char names[] = "bfnrtv", meanings[] = "\b\f\n\r\t\v";
  uint32_t high = 0, low = 0;
  if (j->p == j->end) return fail(j, "a text ends in an escape");
  char c = *j->p++;
  if (c != 'u') {
    const char *at = c == '\0' ? NULL : strchr(names, c);
    weft_strbuf_putc(&j->text, at == NULL ? c : meanings[at - names]);
    return NULL;
  }
  if (!hex4(j, &high)) return fail(j, "invalid escape sequence");
  if (high >= 0xd800 && high < 0xdc00) {
    if (j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u') return fail(j, "missing low surrogate");
    j->p += 2;
    if (!hex4(j, &low) || low < 0xdc00 || low > 0xdfff) return fail(j, "invalid low surrogate");
    high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  } else if (high >= 0xdc00 && high < 0xe000) {
    return fail(j, "a low surrogate alone");
  }
  put_utf8(&j->text, high);
  return NULL;
}

/* A text in quotes, into j->text. */
static weft_status_t *read_text(json_t *j) {
  char quote = *j->p++;
  j->text.length = 0;
  while (j->p < j->end && *j->p != quote) {
    char c = *j->p++;
    if (c != '\\') {
      weft_strbuf_putc(&j->text, c);
    } else {
      WEFT_RETURN_IF_ERROR(read_escape(j));
    }
  }
  if (j->p == j->end) return fail(j, "closing quote expected in string");
  j->p++;
  return j->text.failed ? WEFT_NO_MEMORY("a text in JSON") : NULL;
}

static weft_str_t text_of(const json_t *j) {
  return weft_str_of(j->text.data == NULL ? "" : j->text.data, j->text.length);
}

static bool is_name_char(char c, bool is_first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         (!is_first && c >= '0' && c <= '9');
}

/* A name and its colon. */
static weft_status_t *read_name(json_t *j) {
  char c = peek(j);
  if (c == '"' || c == '\'') {
    WEFT_RETURN_IF_ERROR(read_text(j));
  } else {
    j->text.length = 0;
    if (!is_name_char(c, true)) return fail(j, "Expected an object key or }.");
    while (j->p < j->end && is_name_char(*j->p, false)) weft_strbuf_putc(&j->text, *j->p++);
  }
  return take(j, ':') ? NULL : fail(j, "Expected : between key:value pair.");
}

static bool name_is(const json_t *j, const char *name, const char *camel) {
  return weft_str_is(text_of(j), name) || weft_str_is(text_of(j), camel);
}

/* ---- numbers ---- */

enum { MAX_NUMBER = 400 }; /* characters */

/* A number as it stands, '\0'-ended; false if there is none or it is too long. */
static bool number_text(json_t *j, char *out) {
  size_t n = 0;
  skip_space(j);
  while (j->p < j->end && *j->p != '\0' && strchr("0123456789+-.eE", *j->p) != NULL && n < MAX_NUMBER - 1)
    out[n++] = *j->p++;
  out[n] = '\0';
  const char *digits = out[0] == '-' ? out + 1 : out;
  bool is_octal = digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
  return digits[0] >= '0' && digits[0] <= '9' && !is_octal && (j->p == j->end || !is_name_char(*j->p, true));
}

/* The whole of a text as a number: an integer if *is_whole. */
static bool parse_number(const char *text, bool *is_whole, int64_t *whole, double *real) {
  char *end = NULL;
  *is_whole = strpbrk(text, ".eE") == NULL;
  errno = 0;
  if (*is_whole) {
    *whole = strtoll(text, &end, 10);
    if (errno == 0 && *end == '\0' && end != text) {
      *real = (double)*whole;
      return true;
    }
    *is_whole = false;
  }
  errno = 0;
  *real = strtod(text, &end);
  return end != text && *end == '\0' && isfinite(*real);
}

static weft_status_t *read_int(json_t *j) {
  char text[MAX_NUMBER], quote = peek(j);
  bool is_text = quote == '"' || quote == '\'', is_whole = false;
  int64_t whole = 0;
  double real = 0;
  if (is_text) {
    WEFT_RETURN_IF_ERROR(read_text(j));
    if (!weft_str_to_i64(text_of(j), &whole)) return fail(j, "invalid value for type TYPE_INT64");
  } else {
    if (!number_text(j, text) || !parse_number(text, &is_whole, &whole, &real))
      return fail(j, "Invalid number");
    if (!is_whole) {
      if (real != floor(real) || real < -0x1p63 || real >= 0x1p63)
        return fail(j, "invalid value for type TYPE_INT64");
      whole = (int64_t)real;
    }
  }
  weft_wire_add_varint(j->out, 1, (uint64_t)whole);
  return NULL;
}

static weft_status_t *read_float(json_t *j) {
  char text[MAX_NUMBER], quote = peek(j);
  bool is_text = quote == '"' || quote == '\'', is_whole = false;
  int64_t whole = 0;
  double real = 0;
  if (is_text) {
    WEFT_RETURN_IF_ERROR(read_text(j));
    weft_str_t s = text_of(j);
    if (weft_str_is(s, "NaN")) {
      real = NAN;
    } else if (weft_str_is(s, "Infinity") || weft_str_is(s, "-Infinity")) {
      real = s.data[0] == '-' ? -INFINITY : INFINITY;
    } else if (s.length == 0 || s.length >= MAX_NUMBER || strspn(s.data, "0123456789+-.eE") != s.length ||
               !parse_number(s.data, &is_whole, &whole, &real)) {
      return fail(j, "invalid value for type TYPE_FLOAT");
    }
  } else if (!number_text(j, text) || !parse_number(text, &is_whole, &whole, &real)) {
    return fail(j, "Invalid number");
  }
  if (isfinite(real) && fabs(real) > (double)FLT_MAX) return fail(j, "invalid value for type TYPE_FLOAT");
  weft_wire_add_fixed32(j->out, 1, (uint32_t)weft_wire_float_bits((float)real));
  return NULL;
}

/* ---- bytes ---- */

/* The six bits of a digit; 64: none. Of both alphabets; *kinds gets 1 for + and /, 2 for - and _. */
static uint32_t base64_digit(char c, int *kinds) {
  if (c >= 'A' && c <= 'Z') return (uint32_t)(c - 'A');
  if (c >= 'a' && c <= 'z') return (uint32_t)(c - 'a' + 26);
  if (c >= '0' && c <= '9') return (uint32_t)(c - '0' + 52);
  if (c == '+' || c == '/') *kinds |= 1;
  if (c == '-' || c == '_') *kinds |= 2;
  return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : 64;
}

/* False unless `s` is what a writer of base64 makes, with all padding or none. */
static bool from_base64(weft_str_t s, weft_strbuf_t *out) {
  size_t n = s.length;
  uint32_t bits = 0;
  int have = 0, kinds = 0;
  while (n > 0 && s.data[n - 1] == '=') n--;
  size_t padding = s.length - n;
  if (n % 4 == 1 || (padding != 0 && padding != (4 - n % 4) % 4)) return false;
  for (size_t i = 0; i < n; i++) {
    uint32_t digit = base64_digit(s.data[i], &kinds);
    if (digit == 64) return false;
    bits = bits << 6 | digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    weft_strbuf_putc(out, (char)(bits >> have));
    bits &= (1u << have) - 1;
  }
  return bits == 0 && kinds != 3;
}

static weft_status_t *read_bytes(json_t *j) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  char c = peek(j);
  if (c != '"' && c != '\'') return fail(j, "invalid value for type TYPE_BYTES");
  WEFT_RETURN_IF_ERROR(read_text(j));
  bool is_good = from_base64(text_of(j), &bytes);
  if (is_good) weft_wire_add_bytes(j->out, 1, weft_str_of(bytes.data, bytes.length));
  bool has_failed = bytes.failed;
  weft_strbuf_deinit(&bytes);
  if (has_failed) return WEFT_NO_MEMORY("bytes in JSON");
  return is_good ? NULL : fail(j, "invalid value for type TYPE_BYTES");
}

/* ---- messages ---- */

typedef weft_status_t *read_fn(json_t *j);
/* A field, whose name stands in j->text, and its value. */
typedef weft_status_t *field_fn(json_t *j, void *arg);

static weft_status_t *read_object(json_t *j, field_fn *field, void *arg) {
  if (!take(j, '{')) return fail(j, "invalid value, or a message expected");
  while (!take(j, '}')) {
    WEFT_RETURN_IF_ERROR(read_name(j));
    WEFT_RETURN_IF_ERROR(field(j, arg));
    if (peek(j) != '}' && !take(j, ',')) return fail(j, "Expected , or } after key:value pair.");
  }
  return NULL;
}

static weft_status_t *read_list(json_t *j, read_fn *read) {
  if (take_word(j, "null")) return NULL;
  if (!take(j, '[')) return read(j);
  while (!take(j, ']')) {
    if (!take_word(j, "null")) WEFT_RETURN_IF_ERROR(read(j));
    if (peek(j) != ']' && !take(j, ',')) return fail(j, "Expected , or ] after array value.");
  }
  return NULL;
}

static weft_status_t *unknown_field(const json_t *j) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Error while parsing JSON: %.*s: Cannot find field.",
                    WEFT_STR_ARGS(text_of(j)));
}

typedef struct value_kind {
  const char *name, *camel;
  read_fn *read;
} value_kind_t;
static const value_kind_t kinds[] = {{"bytes_list", "bytesList", read_bytes},
                                     {"float_list", "floatList", read_float},
                                     {"int64_list", "int64List", read_int}};

static weft_status_t *list_field(json_t *j, void *arg) {
  const value_kind_t *kind = arg;
  return name_is(j, "value", "value") ? read_list(j, kind->read) : unknown_field(j);
}

/* bytes_list, float_list or int64_list, of which there is one. */
static weft_status_t *feature_field(json_t *j, void *arg) {
  bool *has_value = arg;
  for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!name_is(j, kinds[i].name, kinds[i].camel)) continue;
    if (take_word(j, "null")) return NULL;
    if (*has_value) return fail(j, "oneof field 'kind' is already set");
    *has_value = true;
    size_t mark = weft_wire_begin(j->out, i + 1);
    WEFT_RETURN_IF_ERROR(read_object(j, list_field, (void *)&kinds[i]));
    weft_wire_end(j->out, mark);
    return NULL;
  }
  return unknown_field(j);
}

/* Keys that a map has had are in `keys`, which owns them. */
static weft_status_t *note_key(json_t *j, weft_map_t *keys) {
  weft_str_t key = text_of(j);
  if (weft_map_get(keys, key) != NULL) return fail(j, "a key of a map is repeated");
  char *copy = weft_strndup(key.data, key.length);
  weft_status_t *s = copy == NULL ? WEFT_NO_MEMORY("a key in JSON")
                                  : weft_map_put(keys, weft_str_of(copy, key.length), copy, NULL);
  if (s != NULL) weft_free(copy);
  return s;
}

static weft_status_t *map_entry(json_t *j, void *arg) {
  bool has_value = false;
  WEFT_RETURN_IF_ERROR(note_key(j, arg));
  size_t entry = weft_wire_begin(j->out, 1);
  weft_wire_add_bytes(j->out, 1, text_of(j));
  if (!take_word(j, "null")) {
    size_t feature = weft_wire_begin(j->out, 2);
    WEFT_RETURN_IF_ERROR(read_object(j, feature_field, &has_value));
    weft_wire_end(j->out, feature);
  }
  weft_wire_end(j->out, entry);
  return NULL;
}

static weft_status_t *features_field(json_t *j, void *arg) {
  weft_map_t keys = WEFT_MAP_INIT;
  weft_map_entry_t entry;
  size_t at = 0;
  (void)arg;
  if (!name_is(j, "feature", "feature")) return unknown_field(j);
  if (take_word(j, "null")) return NULL;
  weft_status_t *s = read_object(j, map_entry, &keys);
  while (weft_map_next(&keys, &at, &entry)) weft_free(entry.value);
  weft_map_deinit(&keys);
  return s;
}

static weft_status_t *example_field(json_t *j, void *arg) {
  (void)arg;
  if (!name_is(j, "features", "features")) return unknown_field(j);
  if (take_word(j, "null")) return NULL;
  size_t mark = weft_wire_begin(j->out, 1);
  WEFT_RETURN_IF_ERROR(read_object(j, features_field, NULL));
  weft_wire_end(j->out, mark);
  return NULL;
}

weft_status_t *weft_example_from_json(weft_str_t json, weft_strbuf_t *out) {
  json_t j = {.p = json.data, .begin = json.data, .text = WEFT_STRBUF_INIT, .out = out};
  j.end = json.length == 0 ? json.data : json.data + json.length;
  if (!weft_wire_is_utf8(json)) return fail(&j, "Encountered non UTF-8 code points.");
  weft_status_t *s = read_object(&j, example_field, NULL);
  if (s == NULL && peek(&j) != '\0') s = fail(&j, "Parsing terminated before end of input.");
  if (s == NULL && j.p != j.end) s = fail(&j, "Parsing terminated before end of input.");
  if (s == NULL && (out->failed || j.text.failed)) s = WEFT_NO_MEMORY("an Example from JSON");
  weft_strbuf_deinit(&j.text);
  return s;
}

/* ---- the op ---- */

typedef struct json_run {
  const weft_tensor_t *in;
  weft_tensor_t *out;
} json_run_t;

static weft_status_t *convert(void *arg, int64_t i, weft_strbuf_t *text) {
  const json_run_t *r = arg;
  WEFT_RETURN_IF_ERROR(weft_example_from_json(weft_tensor_str_at(r->in, i), text));
  return weft_set_text(r->out, i, text);
}

static weft_status_t *json_compute(weft_kernel_ctx_t *ctx) {
  enum { GRAIN = 16 };
  json_run_t r = {.in = weft_in(ctx, 0)};
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_STRING, &r.in->shape, &r.out));
  return weft_each_row(ctx, r.in->count, GRAIN, convert, &r);
}

const weft_kernel_t weft_cpu_json_example_kernels[] = {
    {.op = "DecodeJSONExample", .compute = json_compute},
    {0},
};
