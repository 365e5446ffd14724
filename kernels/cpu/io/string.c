/* kernels/cpu/io/string.c - strings: joining, formatting, reducing, parsing. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/io/summarize.h"
#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/number_text.h"

static weft_status_t *set_text(weft_tensor_t *t, int64_t i, const weft_strbuf_t *text) {
  if (text->failed) return WEFT_NO_MEMORY("building a string");
  return weft_tensor_set_str(t, i, weft_str_of(text->data, text->length));
}

/* ---- StringJoin ---- */

WEFT_ATTRS(string_join, (STRING, separator))
static weft_status_t *string_join(weft_kernel_ctx_t *c, const string_join_attrs_t *attrs) {
  weft_shape_t shape = WEFT_SCALAR;
  bool has_shape = false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    const weft_shape_t *s = &weft_in(c, i)->shape;
    if (s->rank == 0) continue;
    if (has_shape && !weft_shape_eq(&shape, s)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Input shapes do not match: %s vs. %s", WEFT_SHAPE_TEXT(&shape),
                        WEFT_SHAPE_TEXT(s));
    }
    shape = *s;
    has_shape = true;
  }
  weft_tensor_t *out = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_out_new(c, 0, WEFT_STRING, &shape, &out);
  for (int64_t k = 0; s == NULL && k < out->count; k++) {
    text.length = 0;
    for (int i = 0; i < c->node->num_inputs; i++) {
      const weft_tensor_t *t = weft_in(c, i);
      if (i > 0) weft_strbuf_append(&text, attrs->separator);
      weft_strbuf_append(&text, weft_tensor_str_at(t, t->shape.rank == 0 ? 0 : k));
    }
    s = set_text(out, k, &text);
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- AsString ---- */

/* How a number is to look: what stands between '%' and the letter, and the letter. */
typedef struct as_string_state {
  char flags[64];
  char letter;   /* of floating-point numbers */
  int width;     /* 0: none */
  int precision; /* < 0: none */
  bool is_left;
  bool is_bare; /* no width and no fill */
} as_string_state_t;

enum {
  MOST_PLACES = 9,       /* behind the point, of a number that is printed here */
  USUAL_PLACES = 6,      /* of %f */
  NUMBER_BYTES = 48,     /* of such a number's text */
  MANTISSA_BITS = 53,    /* of a double */
  PRODUCT_BITS = 53 + 30 /* of a mantissa times 10^MOST_PLACES */
};
__extension__ typedef unsigned __int128 product_t; /* a mantissa times a power of ten */

static weft_status_t *as_string_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t fill = weft_knode_string(setup, "fill");
  int64_t width = weft_knode_int(setup, "width"), precision = weft_knode_int(setup, "precision");
  bool scientific = weft_knode_bool(setup, "scientific"), shortest = weft_knode_bool(setup, "shortest");
  weft_dtype_t dtype = (weft_dtype_t)weft_knode_type(setup, "T");
  bool is_float = weft_dtype_is_floating(dtype) || weft_dtype_is_complex(dtype);
  if (!is_float && precision >= 0 && dtype != WEFT_STRING && dtype != WEFT_VARIANT) {
    return WEFT_ERROR(INVALID_ARGUMENT, "precision not supported for datatype %s", weft_dtype_name(dtype));
  }
  if (!is_float && (scientific || shortest) && dtype != WEFT_STRING && dtype != WEFT_VARIANT) {
    return WEFT_ERROR(INVALID_ARGUMENT, "scientific and shortest format not supported for datatype %s",
                      weft_dtype_name(dtype));
  }
  if (scientific && shortest)
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot select both scientific and shortest notation");
  if (fill.length > 1 || (fill.length == 1 && strchr(" +-0#", fill.data[0]) == NULL)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Fill argument not supported: \"%.*s\"", WEFT_STR_ARGS(fill));
  }
  if (width > 4096 || precision > 4096) { /* a string of this many digits has no use */
    return WEFT_ERROR(INVALID_ARGUMENT, "width %" PRId64 " or precision %" PRId64 " is too large", width,
                      precision);
  }
  as_string_state_t *st = weft_calloc(1, sizeof *st);
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_strbuf_append(&b, fill);
  if (width > -1) weft_strbuf_printf(&b, "%" PRId64, width);
  if (precision > -1) weft_strbuf_printf(&b, ".%" PRId64, precision);
  if (b.length > 0)
    memcpy(st->flags, b.data, b.length + 1 < sizeof st->flags ? b.length + 1 : sizeof st->flags - 1);
  weft_strbuf_deinit(&b);
  st->width = width > 0 ? (int)width : 0;
  st->precision = precision < 0 ? -1 : (int)precision;
  st->is_left = weft_str_is(fill, "-");
  st->is_bare = width < 0 && fill.length == 0;
  st->letter = shortest ? 'g' : scientific ? 'e' : 'f';
  *out_state = st;
  return NULL;
}

/* The decimal digits of `value`, at least `least` of them, ending in front of `end`; where they begin. */
static char *digits_before(char *end, uint64_t value, int least) {
  for (; value > 0 || least > 0; value /= 10, least--) *--end = (char)('0' + value % 10);
  return end;
}

/* What %.<places>f prints of a number below 2^63 / 10^places: the product of its mantissa and 10^places is a
 * whole number, which is rounded to nearest, ties to even. False for other numbers. */
static bool put_fixed(double value, int places, weft_strbuf_t *out) {
  static const uint64_t powers[MOST_PLACES + 1] = {1,      10,      100,      1000,      10000,
                                                   100000, 1000000, 10000000, 100000000, 1000000000};
  if (places > MOST_PLACES || !(fabs(value) < 0x1p63 / (double)powers[places])) return false;
  int exponent = 0;
  const double mantissa = frexp(fabs(value), &exponent) * 0x1p53;
  product_t product = (product_t)(uint64_t)mantissa * powers[places];
  const int shift = MANTISSA_BITS - exponent;
  if (shift > PRODUCT_BITS) {
    product = 0;
  } else if (shift > 0) {
    const product_t half = (product_t)1 << (shift - 1), rest = product & (2 * half - 1);
    product >>= shift;
    product += rest > half || (rest == half && (product & 1) != 0);
  } else {
    product <<= -shift;
  }
  const uint64_t whole = (uint64_t)product;
  char text[NUMBER_BYTES], *end = text + sizeof text, *at = end;
  if (places > 0) {
    at = digits_before(end, whole % powers[places], places);
    *--at = '.';
  }
  at = digits_before(at, whole / powers[places], 1);
  if (signbit(value)) *--at = '-';
  weft_strbuf_append(out, weft_str_of(at, (size_t)(end - at)));
  return true;
}

/* The one place where a format is not a literal: it was built from a checked fill, width and precision. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
static void put_double(const as_string_state_t *st, double value, weft_strbuf_t *out) {
  if (st->is_bare && st->letter == 'f' &&
      put_fixed(value, st->precision < 0 ? USUAL_PLACES : st->precision, out))
    return;
  char format[80];
  size_t n = strlen(st->flags);
  format[0] = '%';
  memcpy(format + 1, st->flags, n);
  format[n + 1] = st->letter;
  format[n + 2] = '\0';
  weft_strbuf_printf(out, format, value);
}

static void put_integer(const as_string_state_t *st, bool is_signed, int64_t value, weft_strbuf_t *out) {
  if (st->is_bare) {
    const bool is_negative = is_signed && value < 0;
    char digits[NUMBER_BYTES], *end = digits + sizeof digits;
    char *at = digits_before(end, is_negative ? 0 - (uint64_t)value : (uint64_t)value, 1);
    if (is_negative) *--at = '-';
    weft_strbuf_append(out, weft_str_of(at, (size_t)(end - at)));
    return;
  }
  char format[80];
  size_t n = strlen(st->flags);
  format[0] = '%';
  memcpy(format + 1, st->flags, n);
  memcpy(format + n + 1, is_signed ? PRId64 : PRIu64, sizeof PRId64);
  weft_strbuf_printf(out, format, value);
}
#pragma GCC diagnostic pop

/* As TensorFlow's: with a width, a string ends at its first NUL and at the precision. */
static void put_text(const as_string_state_t *st, weft_str_t s, weft_strbuf_t *out) {
  if (st->width > 0) {
    size_t most = st->precision < 0 || s.length < (size_t)st->precision ? s.length : (size_t)st->precision;
    const char *nul = most == 0 ? NULL : memchr(s.data, '\0', most);
    s.length = nul == NULL ? most : (size_t)(nul - s.data);
  }
  size_t pad = s.length < (size_t)st->width ? (size_t)st->width - s.length : 0;
  for (size_t i = 0; !st->is_left && i < pad; i++) weft_strbuf_putc(out, ' ');
  weft_strbuf_append(out, s);
  for (size_t i = 0; st->is_left && i < pad; i++) weft_strbuf_putc(out, ' ');
}

static void put_element(const as_string_state_t *st, const weft_tensor_t *t, int64_t i, weft_strbuf_t *out) {
  const void *d = t->data;
  switch (t->dtype) {
    case WEFT_F32: put_double(st, (double)((const float *)d)[i], out); break;
    case WEFT_F64: put_double(st, ((const double *)d)[i], out); break;
    case WEFT_F16: put_double(st, (double)weft_f16_to_f32(((const uint16_t *)d)[i]), out); break;
    case WEFT_BF16: put_double(st, (double)weft_bf16_to_f32(((const uint16_t *)d)[i]), out); break;
    case WEFT_U64: put_integer(st, false, ((const int64_t *)d)[i], out); break;
    case WEFT_STRING: put_text(st, weft_tensor_str_at(t, i), out); break;
    case WEFT_C64:
    case WEFT_C128: {
      double re =
          t->dtype == WEFT_C64 ? (double)((const weft_c64_t *)d)[i].re : ((const weft_c128_t *)d)[i].re;
      double im =
          t->dtype == WEFT_C64 ? (double)((const weft_c64_t *)d)[i].im : ((const weft_c128_t *)d)[i].im;
      weft_strbuf_putc(out, '(');
      put_double(st, re, out);
      weft_strbuf_putc(out, ',');
      put_double(st, im, out);
      weft_strbuf_putc(out, ')');
      break;
    }
    case WEFT_VARIANT: weft_strbuf_puts(out, "<Variant>"); break;
    case WEFT_U8:
    case WEFT_U16:
    case WEFT_U32: put_integer(st, false, weft_cpu_int_at(t, i), out); break;
    default: put_integer(st, true, weft_cpu_int_at(t, i), out); break;
  }
}

static weft_status_t *as_string(weft_kernel_ctx_t *c) {
  const weft_tensor_t *t = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_out_new(c, 0, WEFT_STRING, &t->shape, &out);
  for (int64_t i = 0; s == NULL && i < t->count; i++) {
    if (t->dtype == WEFT_BOOL) {
      s = weft_tensor_set_str(out, i, weft_str(((const uint8_t *)t->data)[i] != 0 ? "true" : "false"));
      continue;
    }
    text.length = 0;
    put_element(c->state, t, i, &text);
    s = set_text(out, i, &text);
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- StringFormat ---- */

WEFT_ATTRS(string_format, (STRING, template), (STRING, placeholder), (INT, summarize))
static weft_status_t *string_format(weft_kernel_ctx_t *c, const string_format_attrs_t *attrs) {
  weft_str_t rest = attrs->template, mark = attrs->placeholder;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  int used = 0;
  while (rest.length > 0) {
    bool is_mark =
        mark.length > 0 && rest.length >= mark.length && memcmp(rest.data, mark.data, mark.length) == 0;
    size_t n = is_mark ? mark.length : 1;
    if (!is_mark) weft_strbuf_putc(&text, rest.data[0]);
    if (is_mark && used < c->node->num_inputs) weft_summarize_v2(weft_in(c, used), attrs->summarize, &text);
    used += is_mark;
    rest = weft_str_of(rest.data + n, rest.length - n);
  }
  weft_status_t *s = NULL;
  if (used != c->node->num_inputs) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "num placeholders in template and num inputs must match: %d vs. %d",
                   used, c->node->num_inputs);
  } else if (text.failed) {
    s = WEFT_NO_MEMORY("building a string");
  } else {
    s = weft_tensor_string(weft_str_of(text.data, text.length), &c->outputs[0].tensor);
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- ReduceJoin ---- */

typedef struct string_reduction {
  int num_dims, dims[WEFT_MAX_DIMS]; /* the reduced ones, in the order in which they are joined */
  bool is_reduced[WEFT_MAX_DIMS];
  weft_shape_t shape; /* of the output */
} string_reduction_t;

static weft_status_t *plan_reduction(const weft_shape_t *in, const weft_tensor_t *axes, bool keep_dims,
                                     string_reduction_t *out) {
  *out = (string_reduction_t){0};
  for (int64_t i = 0; i < axes->count; i++) {
    int64_t axis = weft_cpu_int_at(axes, i);
    int d = 0;
    if (!weft_cpu_wrap_axis(axis, in->rank, &d)) {
      return WEFT_ERROR(OUT_OF_RANGE,
                        "Invalid reduction dimension %" PRId64 " for input with %d dimension(s)", axis,
                        in->rank);
    }
    if (out->is_reduced[d])
      return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate reduction dimension %" PRId64, axis);
    out->is_reduced[d] = true;
    out->dims[out->num_dims++] = d;
  }
  for (int d = 0; d < in->rank; d++) {
    if (out->is_reduced[d] && !keep_dims) continue;
    out->shape.dims[out->shape.rank++] = out->is_reduced[d] ? 1 : in->dims[d];
  }
  return NULL;
}

/* The flat position of output `k`'s j-th piece: the first axis in the list moves fastest. */
static int64_t piece_at(const weft_shape_t *in, const string_reduction_t *r, int64_t k, int64_t j) {
  int64_t at[WEFT_MAX_DIMS] = {0}, flat = 0;
  for (int d = in->rank - 1; d >= 0; d--) {
    if (r->is_reduced[d]) continue;
    at[d] = k % in->dims[d];
    k /= in->dims[d];
  }
  for (int i = 0; i < r->num_dims; i++) {
    at[r->dims[i]] = j % in->dims[r->dims[i]];
    j /= in->dims[r->dims[i]];
  }
  for (int d = 0; d < in->rank; d++) flat = flat * in->dims[d] + at[d];
  return flat;
}

WEFT_ATTRS(reduce_join, (BOOL, keep_dims), (STRING, separator))
static weft_status_t *reduce_join(weft_kernel_ctx_t *c, const reduce_join_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  string_reduction_t r;
  WEFT_RETURN_IF_ERROR(plan_reduction(&in->shape, weft_in(c, 1), attrs->keep_dims, &r));
  int64_t pieces = 1;
  for (int i = 0; i < r.num_dims; i++) pieces *= in->shape.dims[r.dims[i]];
  weft_status_t *s = weft_out_new(c, 0, WEFT_STRING, &r.shape, &out);
  for (int64_t k = 0; s == NULL && k < out->count; k++) {
    text.length = 0;
    for (int64_t j = 0; j < pieces; j++) {
      if (j > 0) weft_strbuf_append(&text, attrs->separator);
      weft_strbuf_append(&text, weft_tensor_str_at(in, piece_at(&in->shape, &r, k, j)));
    }
    s = set_text(out, k, &text);
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- StringToNumber ---- */

static weft_status_t *string_to_number(weft_kernel_ctx_t *c) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &in->shape, &out));
  for (int64_t i = 0; i < in->count; i++) {
    if (weft_number_from_text(weft_tensor_str_at(in, i), out, i)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "StringToNumberOp could not correctly convert string: %.*s",
                      WEFT_STR_ARGS(weft_tensor_str_at(in, i)));
  }
  return NULL;
}

/* ---- Add of strings: each of the first followed by the one of the second, broadcast ---- */

typedef struct add_job {
  const weft_tensor_t *x, *y;
  weft_tensor_t *z;
  weft_strbuf_t text;
  weft_status_t *status;
} add_job_t;

static void add_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  add_job_t *j = arg;
  for (int64_t i = 0; i < n && j->status == NULL; i++) {
    j->text.length = 0;
    weft_strbuf_append(&j->text, weft_tensor_str_at(j->x, at[0] + i * step[0]));
    weft_strbuf_append(&j->text, weft_tensor_str_at(j->y, at[1] + i * step[1]));
    j->status = j->text.failed
                    ? WEFT_NO_MEMORY("joining strings")
                    : weft_tensor_set_str(j->z, out_at + i, weft_str_of(j->text.data, j->text.length));
  }
}

static weft_status_t *string_add(weft_kernel_ctx_t *c) {
  add_job_t j = {.x = weft_in(c, 0), .y = weft_in(c, 1), .text = WEFT_STRBUF_INIT};
  weft_broadcast_t b;
  if (!weft_broadcast_init(&b, (const weft_shape_t *const[]){&j.x->shape, &j.y->shape}, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&j.x->shape),
                      WEFT_SHAPE_TEXT(&j.y->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &b.shape, &j.z));
  weft_broadcast_walk(&b, 0, b.count, add_run, &j);
  weft_strbuf_deinit(&j.text);
  return j.status;
}

const weft_kernel_t weft_cpu_string_kernels[] = {
    {.op = "Add", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_STRING), .compute = string_add},
    {.op = "AsString", .prepare = as_string_prepare, .compute = as_string, .destroy = weft_free},
    {.op = "ReduceJoin", WEFT_COMPUTE(reduce_join)},
    {.op = "StringFormat", WEFT_COMPUTE(string_format)},
    {.op = "StringJoin", WEFT_COMPUTE(string_join)},
    {.op = "StringToNumber", .compute = string_to_number},
    {0},
};
