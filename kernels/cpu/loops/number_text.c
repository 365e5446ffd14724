/* kernels/cpu/loops/number_text.c - numbers from text. */
#include "kernels/cpu/loops/number_text.h"

#include <float.h>
#include <stdlib.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* digits * 10^exponent */
typedef struct decimal {
  uint64_t digits;
  int exponent;
  bool is_negative;
} decimal_t;

enum {
  MOST_DIGITS = 19, /* that any uint64 has room for */
  MOST_POWER = 27,  /* 5^27 is the largest power of 5 below 2^64, so that 10^27 is a long double */
};

/* Digits from *at on, into d; how many. More than MOST_DIGITS in all, without leading zeros: *is_long. */
static int read_digits(weft_str_t s, size_t *at, decimal_t *d, int *used, bool *is_long) {
  const size_t begin = *at;
  for (; *at < s.length && is_digit(s.data[*at]); ++*at) {
    if (*used > 0 || s.data[*at] != '0') ++*used;
    *is_long |= *used > MOST_DIGITS;
    d->digits = d->digits * 10 + (uint64_t)(s.data[*at] - '0');
  }
  return (int)(*at - begin);
}

/* The usual forms: a sign, digits with a point or without, an exponent. False for others. */
static bool read_decimal(weft_str_t s, decimal_t *out) {
  size_t at = 0;
  int used = 0, exponent = 0;
  bool is_long = false;
  *out = (decimal_t){.is_negative = s.length > 0 && s.data[0] == '-'};
  if (s.length > 64) return false;
  if (s.length > 0 && (s.data[0] == '-' || s.data[0] == '+')) at++;
  int whole = read_digits(s, &at, out, &used, &is_long), behind = 0;
  if (at < s.length && s.data[at] == '.') {
    at++;
    behind = read_digits(s, &at, out, &used, &is_long);
  }
  if (whole + behind == 0 || is_long) return false;
  if (at < s.length && (s.data[at] == 'e' || s.data[at] == 'E')) {
    at++;
    const bool is_down = at < s.length && s.data[at] == '-';
    if (at < s.length && (s.data[at] == '-' || s.data[at] == '+')) at++;
    const size_t first = at;
    for (; at < s.length && at < first + 4 && is_digit(s.data[at]); at++)
      exponent = exponent * 10 + (s.data[at] - '0');
    if (at == first) return false;
    if (is_down) exponent = -exponent;
  }
  out->exponent = exponent - behind;
  return at == s.length;
}

/* Two numbers around d that are at most one step of a long double away from it: where both round to the same
 * float (or double), so does d. False if it is out of range. D. A. Eisel and M. Lemire, "Number parsing at a
 * gigabyte per second" (2021), decide in the same way whether the short computation will do. */
static bool bracket_decimal(const decimal_t *d, long double *low, long double *high) {
  static const long double powers[MOST_POWER + 1] = {
      1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
      1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
  if (d->exponent < -MOST_POWER || d->exponent > MOST_POWER) return false;
  long double v = (long double)d->digits;
  v = d->exponent < 0 ? v / powers[-d->exponent] : v * powers[d->exponent];
  if (d->is_negative) v = -v;
  *low = v * (1 - LDBL_EPSILON); /* of 0 the sign stays */
  *high = v * (1 + LDBL_EPSILON);
  return true;
}

/* Whatever else strtod reads: infinities, NaN, hexadecimal numbers, more digits. */
static bool read_other(weft_str_t s, double *out, float *out_single) {
  char text[400], *end = NULL;
  if (s.length == 0 || s.length >= sizeof text || memchr(s.data, '\0', s.length) != NULL) return false;
  memcpy(text, s.data, s.length);
  text[s.length] = '\0';
  if (is_space(text[0])) return false;
  *out = strtod(text, &end);
  *out_single = strtof(text, NULL); /* rounded once */
  return *end == '\0';
}

static bool read_float(weft_str_t s, float *out) {
  decimal_t d;
  long double low, high;
  double unused;
  if (read_decimal(s, &d) && bracket_decimal(&d, &low, &high) && (float)low == (float)high) {
    *out = (float)low;
    return true;
  }
  return read_other(s, &unused, out);
}

static bool read_double(weft_str_t s, double *out) {
  decimal_t d;
  long double low, high;
  float unused;
  if (read_decimal(s, &d) && bracket_decimal(&d, &low, &high) && (double)low == (double)high) {
    *out = (double)low;
    return true;
  }
  return read_other(s, out, &unused);
}

bool weft_number_from_text(weft_str_t s, weft_tensor_t *out, int64_t i) {
  int64_t whole = 0;
  uint64_t natural = 0;
  double real = 0;
  float single = 0;
  while (s.length > 0 && is_space(s.data[0])) s = weft_str_of(s.data + 1, s.length - 1);
  while (s.length > 0 && is_space(s.data[s.length - 1])) s.length--;
  bool has_plus = s.length > 1 && s.data[0] == '+' && is_digit(s.data[1]);
  if (has_plus) s = weft_str_of(s.data + 1, s.length - 1);
  switch (out->dtype) {
    case WEFT_I32:
      if (!weft_str_to_i64(s, &whole) || whole < INT32_MIN || whole > INT32_MAX) return false;
      ((int32_t *)out->data)[i] = (int32_t)whole;
      return true;
    case WEFT_I64:
      if (!weft_str_to_i64(s, &whole)) return false;
      ((int64_t *)out->data)[i] = whole;
      return true;
    case WEFT_U32:
      if (!weft_str_to_u64(s, &natural) || natural > UINT32_MAX) return false;
      ((uint32_t *)out->data)[i] = (uint32_t)natural;
      return true;
    case WEFT_U64:
      if (!weft_str_to_u64(s, &natural)) return false;
      ((uint64_t *)out->data)[i] = natural;
      return true;
    case WEFT_F32:
      if (!read_float(s, &single)) return false;
      ((float *)out->data)[i] = single;
      return true;
    default:
      if (!read_double(s, &real)) return false;
      if (out->dtype == WEFT_F64) ((double *)out->data)[i] = real;
      return true;
  }
}
