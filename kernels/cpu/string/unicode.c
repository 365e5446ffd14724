/* kernels/cpu/string/unicode.c - strings in any encoding to code points, and code points to UTF-8, UTF-16 and
 * UTF-32, by ICU's converters. */
#include <inttypes.h>
#include <unicode/ucnv.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"

enum { LAST_CODE = 0x10ffff, LAST_CONTROL = 0x1f };

typedef enum unicode_form { FORM_UTF8, FORM_UTF16_BE, FORM_UTF32_BE } unicode_form_t;

/* What the attributes say. */
typedef struct unicode_plan {
  char *input_encoding; /* owned; NULL for UnicodeEncode */
  unicode_form_t form;  /* of the output */
  bool is_strict, skips_bad, replaces_control;
  UChar32 replacement;
} unicode_plan_t;

static void unicode_plan_free(void *state) {
  unicode_plan_t *p = state;
  if (p == NULL) return;
  weft_free(p->input_encoding);
  weft_free(p);
}

static weft_status_t *open_converter(const char *encoding, UConverter **out) {
  UErrorCode error = U_ZERO_ERROR;
  *out = ucnv_open(encoding, &error);
  if (U_SUCCESS(error)) return NULL;
  if (error == U_MEMORY_ALLOCATION_ERROR) return WEFT_NO_MEMORY("a converter for %s", encoding);
  return WEFT_ERROR(INVALID_ARGUMENT, "Could not create converter for input encoding: %s", encoding);
}

static weft_status_t *read_plan(const weft_kernel_setup_t *setup, unicode_plan_t *p) {
  const weft_attr_t *input = weft_knode_attr(setup, "input_encoding"),
                    *output = weft_knode_attr(setup, "output_encoding"),
                    *control = weft_knode_attr(setup, "replace_control_characters");
  weft_str_t errors = weft_knode_string(setup, "errors");
  int64_t replacement = weft_knode_int(setup, "replacement_char");
  if (replacement < 0 || replacement > LAST_CODE) {
    return WEFT_ERROR(INVALID_ARGUMENT, "replacement_char out of unicode codepoint range");
  }
  p->replacement = (UChar32)replacement;
  p->is_strict = weft_str_is(errors, "strict");
  p->skips_bad = weft_str_is(errors, "ignore");
  p->replaces_control = control != NULL && control->b;
  if (output != NULL && weft_str_is(output->s, "UTF-16-BE")) p->form = FORM_UTF16_BE;
  if (output != NULL && weft_str_is(output->s, "UTF-32-BE")) p->form = FORM_UTF32_BE;
  if (input == NULL) return NULL;
  UConverter *converter = NULL;
  p->input_encoding = weft_strndup(input->s.data == NULL ? "" : input->s.data, input->s.length);
  if (p->input_encoding == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  WEFT_RETURN_IF_ERROR(open_converter(p->input_encoding, &converter));
  ucnv_close(converter);
  return NULL;
}

static weft_status_t *unicode_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  unicode_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = read_plan(setup, p);
  if (s != NULL) {
    unicode_plan_free(p);
    return s;
  }
  *out_state = p;
  return NULL;
}

/* ---- reading ---- */

/* Notes that bytes could not be read, and lets ICU put U+FFFD in their place. */
static void note_bad_bytes(const void *context, UConverterToUnicodeArgs *args, const char *units, int32_t n,
                           UConverterCallbackReason reason, UErrorCode *error) {
  bool *is_bad;
  memcpy(&is_bad, &context, sizeof is_bad); /* ICU's contexts are const, ours is written */
  if (reason == UCNV_UNASSIGNED || reason == UCNV_ILLEGAL || reason == UCNV_IRREGULAR) *is_bad = true;
  UCNV_TO_U_CALLBACK_SUBSTITUTE(NULL, args, units, n, reason, error);
}

/* A string that is read one code point at a time. */
typedef struct code_reader {
  UConverter *converter;
  const char *begin, *at, *end;
  bool is_bad; /* the last one stands for bytes that could not be read */
} code_reader_t;

static weft_status_t *begin_reading(const unicode_plan_t *p, code_reader_t *r) {
  UErrorCode error = U_ZERO_ERROR;
  WEFT_RETURN_IF_ERROR(open_converter(p->input_encoding, &r->converter));
  ucnv_setToUCallBack(r->converter, note_bad_bytes, &r->is_bad, NULL, NULL, &error);
  return NULL;
}

static void read_string(code_reader_t *r, weft_str_t s) {
  ucnv_reset(r->converter);
  r->begin = r->at = s.data;
  r->end = s.length == 0 ? s.data : s.data + s.length;
}

static bool next_code(code_reader_t *r, UChar32 *out) {
  UErrorCode error = U_ZERO_ERROR;
  if (r->at == r->end) return false;
  r->is_bad = false;
  *out = ucnv_getNextUChar(r->converter, &r->at, r->end, &error);
  if (error == U_INDEX_OUTOFBOUNDS_ERROR)
    return false; /* what was left, say a byte-order mark, is no character */
  if (U_FAILURE(error)) r->at = r->end;
  return true;
}

/* What is made of a code point: false for one that is left out. */
static weft_status_t *judge(const unicode_plan_t *p, bool is_bad, UChar32 *code, bool *out_is_kept) {
  *out_is_kept = true;
  if (is_bad && p->is_strict) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid formatting on input string");
  if (!is_bad && !(p->replaces_control && *code <= LAST_CONTROL)) return NULL;
  *out_is_kept = !p->skips_bad;
  *code = p->replacement;
  return NULL;
}

/* ---- writing ---- */

static void put_code(unicode_form_t form, UChar32 code, weft_strbuf_t *text) {
  uint32_t c = U_IS_SURROGATE(code) && form != FORM_UTF16_BE ? 0xfffd : (uint32_t)code;
  uint8_t bytes[U8_MAX_LENGTH] = {0};
  int n = 0;
  if (form == FORM_UTF8) {
    U8_APPEND_UNSAFE(bytes, n, c);
  } else if (form == FORM_UTF32_BE) {
    for (; n < 4; n++) bytes[n] = (uint8_t)(c >> (24 - 8 * n));
  } else {
    uint32_t units[2] = {c <= 0xffff ? c : U16_LEAD(c), U16_TRAIL(c)};
    for (; n < (c <= 0xffff ? 2 : 4); n++) bytes[n] = (uint8_t)(units[n / 2] >> (n % 2 == 0 ? 8 : 0));
  }
  weft_strbuf_append(text, weft_str_of((const char *)bytes, (size_t)n));
}

/* Unlike UnicodeDecode it takes control characters that are to be replaced for bad ones. */
static weft_status_t *transcode_one(const unicode_plan_t *p, code_reader_t *r, weft_strbuf_t *text) {
  UChar32 code = 0;
  bool is_kept = false;
  while (next_code(r, &code)) {
    bool is_bad = r->is_bad || (p->replaces_control && code <= LAST_CONTROL);
    WEFT_RETURN_IF_ERROR(judge(p, is_bad, &code, &is_kept));
    if (is_kept) put_code(p->form, code, text);
  }
  return NULL;
}

static weft_status_t *transcode_all(const weft_tensor_t *in, const unicode_plan_t *p, code_reader_t *r,
                                    weft_strbuf_t *text, weft_tensor_t *out) {
  for (int64_t i = 0; i < in->count; i++) {
    text->length = 0;
    read_string(r, weft_tensor_str_at(in, i));
    WEFT_RETURN_IF_ERROR(transcode_one(p, r, text));
    WEFT_RETURN_IF_ERROR(weft_set_text(out, i, text));
  }
  return NULL;
}

static weft_status_t *unicode_transcode(weft_kernel_ctx_t *c) {
  const weft_tensor_t *in = weft_in(c, 0);
  const unicode_plan_t *p = c->state;
  weft_tensor_t *out = NULL;
  code_reader_t r = {0};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &in->shape, &out));
  WEFT_RETURN_IF_ERROR(begin_reading(p, &r));
  weft_status_t *s = transcode_all(in, p, &r, &text, out);
  weft_strbuf_deinit(&text);
  ucnv_close(r.converter);
  return s;
}

/* ---- UnicodeDecode ---- */

/* Code points and where each begins in its string. */
typedef struct decoded_codes {
  int32_t *codes;   /* owned */
  int64_t *offsets; /* owned */
  int64_t n, capacity;
} decoded_codes_t;

static weft_status_t *add_code(decoded_codes_t *d, UChar32 code, int64_t offset) {
  if (d->n == d->capacity) {
    int64_t more = d->capacity == 0 ? 256 : 2 * d->capacity;
    int32_t *codes = weft_realloc(d->codes, (size_t)more, sizeof *codes);
    if (codes != NULL) d->codes = codes;
    int64_t *offsets = weft_realloc(d->offsets, (size_t)more, sizeof *offsets);
    if (offsets != NULL) d->offsets = offsets;
    if (codes == NULL || offsets == NULL) return WEFT_NO_MEMORY("the code points of strings");
    d->capacity = more;
  }
  d->codes[d->n] = code;
  d->offsets[d->n++] = offset;
  return NULL;
}

static weft_status_t *decode_one(const unicode_plan_t *p, code_reader_t *r, decoded_codes_t *d) {
  UChar32 code = 0;
  bool is_kept = false;
  for (int64_t offset = 0; next_code(r, &code); offset = r->at - r->begin) {
    WEFT_RETURN_IF_ERROR(judge(p, r->is_bad, &code, &is_kept));
    if (is_kept) WEFT_RETURN_IF_ERROR(add_code(d, code, offset));
  }
  return NULL;
}

static void set_split(weft_tensor_t *t, int64_t i, int64_t value) {
  if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)value;
  if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = value;
}

static weft_status_t *decode_all(weft_kernel_ctx_t *c, code_reader_t *r, decoded_codes_t *d) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_shape_t rows = weft_shape_vector(in->count + 1);
  weft_tensor_t *splits = NULL, *codes = NULL, *offsets = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, (weft_dtype_t)c->node->output_types[0], &rows, &splits));
  set_split(splits, 0, 0);
  for (int64_t i = 0; i < in->count; i++) {
    read_string(r, weft_tensor_str_at(in, i));
    WEFT_RETURN_IF_ERROR(decode_one(c->state, r, d));
    set_split(splits, i + 1, d->n);
  }
  if (splits->dtype == WEFT_I32 && d->n > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " code points do not fit splits of int32", d->n);
  }
  weft_shape_t shape = weft_shape_vector(d->n);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_I32, &shape, &codes));
  if (d->n > 0) memcpy(codes->data, d->codes, codes->bytes);
  if (c->node->num_outputs < 3) return NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 2, WEFT_I64, &shape, &offsets));
  if (d->n > 0) memcpy(offsets->data, d->offsets, offsets->bytes);
  return NULL;
}

static weft_status_t *unicode_decode(weft_kernel_ctx_t *c) {
  code_reader_t r = {0};
  decoded_codes_t d = {0};
  WEFT_RETURN_IF_ERROR(begin_reading(c->state, &r));
  weft_status_t *s = decode_all(c, &r, &d);
  weft_free(d.codes);
  weft_free(d.offsets);
  ucnv_close(r.converter);
  return s;
}

/* ---- UnicodeEncode ---- */

static weft_status_t *check_splits(const weft_tensor_t *values, const weft_tensor_t *splits) {
  int64_t before = 0;
  if (values->shape.rank != 1 || splits->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Both the input_tensor and input_splits should be of rank 1.");
  }
  if (splits->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input_splits should contain elements, but was given 0");
  }
  for (int64_t i = 0; i < splits->count; i++) {
    int64_t split = weft_cpu_int_at(splits, i);
    if (i == 0 && split != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "First value in input_splits must be zero, got %" PRId64, split);
    }
    if (split < before) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Values in input_splits must be equal or in ascending order.");
    }
    if (split > values->count) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Values in input_splits must be less than or equal to input_tensor length.");
    }
    before = split;
  }
  if (before == values->count) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Last value in input_splits must be equal to input_tensor size. Got %" PRId64
                    ", expected %" PRId64,
                    before, values->count);
}

typedef struct encode_run {
  const unicode_plan_t *plan;
  const weft_tensor_t *values, *splits;
  weft_tensor_t *out;
} encode_run_t;

static weft_status_t *encode_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const encode_run_t *r = arg;
  const int32_t *codes = r->values->data;
  for (int64_t k = weft_cpu_int_at(r->splits, i); k < weft_cpu_int_at(r->splits, i + 1); k++) {
    UChar32 code = codes[k];
    if (!U_IS_UNICODE_CHAR(code)) {
      if (r->plan->is_strict) {
        return WEFT_ERROR(INVALID_ARGUMENT, "Code point is out of range for Unicode, or a noncharacter.");
      }
      if (!r->plan->skips_bad) code = r->plan->replacement;
    }
    if (code >= 0 && code <= LAST_CODE)
      put_code(r->plan->form, code, text); /* "ignore" keeps noncharacters */
  }
  return weft_set_text(r->out, i, text);
}

static weft_status_t *unicode_encode(weft_kernel_ctx_t *c) {
  encode_run_t r = {.plan = c->state, .values = weft_in(c, 0), .splits = weft_in(c, 1)};
  WEFT_RETURN_IF_ERROR(check_splits(r.values, r.splits));
  weft_shape_t shape = weft_shape_vector(r.splits->count - 1);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &shape, &r.out));
  return weft_each_row(c, r.splits->count - 1, 64, encode_row, &r);
}

/* ---- UnicodeScript ---- */

static weft_status_t *unicode_script(weft_kernel_ctx_t *c) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, WEFT_I32, &in->shape, &out));
  for (int64_t i = 0; i < out->count; i++) {
    UErrorCode error = U_ZERO_ERROR;
    UScriptCode script = uscript_getScript(((const int32_t *)in->data)[i], &error);
    ((int32_t *)out->data)[i] = U_SUCCESS(error) ? (int32_t)script : USCRIPT_INVALID_CODE;
  }
  return NULL;
}

#define UNICODE(op_, compute_) \
  { .op = op_, .prepare = unicode_prepare, .compute = compute_, .destroy = unicode_plan_free }

const weft_kernel_t weft_cpu_unicode_kernels[] = {
    UNICODE("UnicodeDecode", unicode_decode),       UNICODE("UnicodeDecodeWithOffsets", unicode_decode),
    UNICODE("UnicodeEncode", unicode_encode),       {.op = "UnicodeScript", .compute = unicode_script},
    UNICODE("UnicodeTranscode", unicode_transcode), {0},
};
