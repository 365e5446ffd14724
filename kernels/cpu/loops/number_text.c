/* kernels/cpu/loops/number_text.c - numbers from text. */
#include "kernels/cpu/loops/number_text.h"

#include <ctype.h>
#include <stdlib.h>

static bool parse_float(const char *text, double *out) {
  char *end = NULL;
  if (*text == '\0' || isspace((unsigned char)*text)) return false;
  *out = strtod(text, &end);
  return *end == '\0';
}

bool weft_number_from_text(weft_str_t s, weft_tensor_t *out, int64_t i) {
  int64_t whole = 0;
  uint64_t natural = 0;
  double real = 0;
  char text[400];
  while (s.length > 0 && isspace((unsigned char)s.data[0])) s = weft_str_of(s.data + 1, s.length - 1);
  while (s.length > 0 && isspace((unsigned char)s.data[s.length - 1])) s.length--;
  bool has_plus = s.length > 1 && s.data[0] == '+' && isdigit((unsigned char)s.data[1]);
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
    default: break;
  }
  if (s.length >= sizeof text || (s.length > 0 && memchr(s.data, '\0', s.length) != NULL)) return false;
  if (s.length > 0) memcpy(text, s.data, s.length);
  text[s.length] = '\0';
  if (!parse_float(text, &real)) return false;
  if (out->dtype == WEFT_F32) ((float *)out->data)[i] = strtof(text, NULL); /* rounded once */
  if (out->dtype == WEFT_F64) ((double *)out->data)[i] = real;
  return true;
}
