/* tests/kernels/harness_text.c - tensors as text: parsed, printed, compared. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"

static void put_number(weft_tensor_t *t, int64_t i, const char *text, double re, double im) {
  switch (t->dtype) {
    case WEFT_F32: ((float *)t->data)[i] = strtof(text, NULL); break;
    case WEFT_F64: ((double *)t->data)[i] = re; break;
    case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)re); break;
    case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)re); break;
    case WEFT_C64: ((weft_c64_t *)t->data)[i] = (weft_c64_t){(float)re, (float)im}; break;
    case WEFT_C128: ((weft_c128_t *)t->data)[i] = (weft_c128_t){re, im}; break;
    case WEFT_BOOL:
    case WEFT_U8:
    case WEFT_QUINT8: ((uint8_t *)t->data)[i] = (uint8_t)strtoul(text, NULL, 10); break;
    case WEFT_I8:
    case WEFT_QINT8: ((int8_t *)t->data)[i] = (int8_t)strtol(text, NULL, 10); break;
    case WEFT_U16:
    case WEFT_QUINT16: ((uint16_t *)t->data)[i] = (uint16_t)strtoul(text, NULL, 10); break;
    case WEFT_I16:
    case WEFT_QINT16: ((int16_t *)t->data)[i] = (int16_t)strtol(text, NULL, 10); break;
    case WEFT_I32:
    case WEFT_QINT32: ((int32_t *)t->data)[i] = (int32_t)strtol(text, NULL, 10); break;
    case WEFT_U32: ((uint32_t *)t->data)[i] = (uint32_t)strtoul(text, NULL, 10); break;
    case WEFT_I64: ((int64_t *)t->data)[i] = strtoll(text, NULL, 10); break;
    case WEFT_U64: ((uint64_t *)t->data)[i] = strtoull(text, NULL, 10); break;
    default: break;
  }
}

double weft_tensor_number(const weft_tensor_t *t, int64_t i, bool imaginary) {
  switch (t->dtype) {
    case WEFT_F32: return imaginary ? 0 : (double)((const float *)t->data)[i];
    case WEFT_F64: return imaginary ? 0 : ((const double *)t->data)[i];
    case WEFT_F16: return imaginary ? 0 : (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return imaginary ? 0 : (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_C64: {
      weft_c64_t v = ((const weft_c64_t *)t->data)[i];
      return imaginary ? (double)v.im : (double)v.re;
    }
    case WEFT_C128: {
      weft_c128_t v = ((const weft_c128_t *)t->data)[i];
      return imaginary ? v.im : v.re;
    }
    default: break;
  }
  if (imaginary) return 0;
  switch (t->dtype) {
    case WEFT_BOOL:
    case WEFT_U8:
    case WEFT_QUINT8: return ((const uint8_t *)t->data)[i];
    case WEFT_I8:
    case WEFT_QINT8: return ((const int8_t *)t->data)[i];
    case WEFT_U16:
    case WEFT_QUINT16: return ((const uint16_t *)t->data)[i];
    case WEFT_I16:
    case WEFT_QINT16: return ((const int16_t *)t->data)[i];
    case WEFT_I32:
    case WEFT_QINT32: return ((const int32_t *)t->data)[i];
    case WEFT_U32: return ((const uint32_t *)t->data)[i];
    case WEFT_I64: return (double)((const int64_t *)t->data)[i];
    case WEFT_U64: return (double)((const uint64_t *)t->data)[i];
    default: return 0;
  }
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/* 'text' with \xNN for bytes that would not be themselves. */
static weft_status_t *parse_quoted(const char **text, weft_tensor_t *t, int64_t i) {
  const char *p = *text;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (*p != '\'') return WEFT_ERROR(INVALID_ARGUMENT, "a quote is missing at \"%.20s\"", p);
  for (p++; *p != '\'' && *p != '\0'; p++) {
    if (p[0] == '\\' && p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
      weft_strbuf_putc(&b, (char)(hex_digit(p[2]) * 16 + hex_digit(p[3])));
      p += 3;
    } else {
      weft_strbuf_putc(&b, *p);
    }
  }
  if (*p != '\'') s = WEFT_ERROR(INVALID_ARGUMENT, "a string does not end");
  if (s == NULL) s = weft_tensor_set_str(t, i, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  *text = p + 1;
  return s;
}

weft_status_t *weft_tensor_parse(const char **text, weft_tensor_t **out) {
  const char *p = *text, *open = strchr(p, '[');
  if (open == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "no '[' in tensor \"%.30s\"", p);
  int dtype = weft_dtype_from_name(weft_str_of(p, (size_t)(open - p)));
  if (dtype == 0) return WEFT_ERROR(INVALID_ARGUMENT, "no such type: \"%.30s\"", p);
  weft_shape_t shape = WEFT_SCALAR;
  for (p = open + 1; *p != ']';) {
    char *end = NULL;
    shape.dims[shape.rank++] = strtoll(p, &end, 10);
    if (end == p || shape.rank == WEFT_MAX_DIMS)
      return WEFT_ERROR(INVALID_ARGUMENT, "bad shape at \"%.30s\"", p);
    p = *end == ',' ? end + 1 : end;
  }
  p++;
  if (*p == ':') p++;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)dtype, &shape, NULL, &t));
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < t->count; i++) {
    if (i > 0 && *p == ',') p++;
    if (dtype == WEFT_STRING) {
      s = parse_quoted(&p, t, i);
    } else {
      char *end = NULL;
      double re = strtod(p, &end), im = 0;
      const char *begin = p;
      if (end == p) s = WEFT_ERROR(INVALID_ARGUMENT, "a number is missing at \"%.30s\"", p);
      if (s == NULL && *end == ':') im = strtod(end + 1, &end);
      if (s == NULL) put_number(t, i, begin, re, im);
      p = end;
    }
  }
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *text = p;
  *out = t;
  return NULL;
}

void weft_tensor_print(const weft_tensor_t *t, weft_strbuf_t *out) {
  weft_strbuf_puts(out, weft_dtype_name(t->dtype));
  weft_strbuf_puts(out, WEFT_SHAPE_TEXT(&t->shape));
  weft_strbuf_putc(out, ':');
  for (int64_t i = 0; i < t->count && i < 64; i++) {
    if (i > 0) weft_strbuf_putc(out, ',');
    if (t->dtype == WEFT_STRING) {
      weft_str_t text = weft_tensor_str_at(t, i);
      weft_strbuf_printf(out, "'%.*s'", WEFT_STR_ARGS(text));
    } else if (t->dtype == WEFT_I64 || t->dtype == WEFT_U64) {
      weft_strbuf_printf(out, "%" PRId64, ((const int64_t *)t->data)[i]);
    } else {
      weft_strbuf_printf(out, "%.9g", weft_tensor_number(t, i, false));
      if (weft_dtype_is_complex(t->dtype)) weft_strbuf_printf(out, ":%.9g", weft_tensor_number(t, i, true));
    }
  }
}

static bool near(double got, double want, double tolerance) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got)) return want == got;
  return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

bool weft_tensor_close(const weft_tensor_t *got, const weft_tensor_t *want, double tolerance,
                       weft_strbuf_t *why) {
  if (got == NULL || want == NULL) {
    weft_strbuf_puts(why, "one is missing");
    return got == want;
  }
  if (got->dtype != want->dtype || !weft_shape_eq(&got->shape, &want->shape)) {
    weft_strbuf_printf(why, "got %s%s, want %s%s", weft_dtype_name(got->dtype), WEFT_SHAPE_TEXT(&got->shape),
                       weft_dtype_name(want->dtype), WEFT_SHAPE_TEXT(&want->shape));
    return false;
  }
  for (int64_t i = 0; i < want->count; i++) {
    bool same = false;
    if (want->dtype == WEFT_STRING) {
      same = weft_str_eq(weft_tensor_str_at(got, i), weft_tensor_str_at(want, i));
    } else if (want->dtype == WEFT_I64 || want->dtype == WEFT_U64) {
      same = ((const int64_t *)got->data)[i] == ((const int64_t *)want->data)[i];
    } else {
      same = near(weft_tensor_number(got, i, false), weft_tensor_number(want, i, false), tolerance) &&
             near(weft_tensor_number(got, i, true), weft_tensor_number(want, i, true), tolerance);
    }
    if (same) continue;
    weft_strbuf_printf(why, "element %" PRId64 " differs: got ", i);
    weft_tensor_print(got, why);
    weft_strbuf_puts(why, " want ");
    weft_tensor_print(want, why);
    return false;
  }
  return true;
}
