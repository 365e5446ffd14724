/* kernels/cpu/string/utf8.h - counting the characters of UTF-8, as far as TensorFlow looks at it: a character
 * is a byte and the trail bytes behind it, whether or not these belong together. */
#ifndef WEFT_KERNELS_CPU_STRING_UTF8_H_
#define WEFT_KERNELS_CPU_STRING_UTF8_H_

#include "base/str.h"

static inline bool weft_utf8_is_trail(char c) { return ((uint8_t)c & 0xc0) == 0x80; }

/* Moves *at forward over n characters; false if the text ends before. */
static inline bool weft_utf8_forward(weft_str_t s, int64_t n, size_t *at) {
  for (; n > 0 && *at < s.length; n--) {
    do {
      ++*at;
    } while (*at < s.length && weft_utf8_is_trail(s.data[*at]));
  }
  return n == 0;
}

/* Moves *at back over n characters; false if the text begins before. */
static inline bool weft_utf8_back(weft_str_t s, int64_t n, size_t *at) {
  for (; n > 0 && *at > 0; n--) {
    do {
      --*at;
    } while (*at > 0 && weft_utf8_is_trail(s.data[*at]));
  }
  return n == 0;
}

#endif /* WEFT_KERNELS_CPU_STRING_UTF8_H_ */
