/* tensor/tstring.h - one element of a string tensor.
 *
 * The layout is that of TensorFlow's TF_TString (since 2.4), little-endian: 24
 * bytes, the two lowest bits of the first byte tell the kind. So a string tensor
 * can cross the C API without a copy. All zero bytes are a valid empty string.
 *   small (0): byte 0 = length << 2, then up to 22 bytes and '\0'
 *   large (1): uint64 length << 2 | 1, uint64 capacity, char *data (malloc)
 *   offset (2): uint32 length << 2 | 2, uint32 offset from this element, uint32 count
 *   view (3): uint64 length << 2 | 3, const char *data (borrowed)
 */
#ifndef WEFT_TENSOR_TSTRING_H_
#define WEFT_TENSOR_TSTRING_H_

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef union weft_tstring {
  uint8_t bytes[24];
  uint64_t words[3];
} weft_tstring_t;

enum { WEFT_TSTRING_SMALL_MAX = 22 };

weft_str_t weft_tstring_get(const weft_tstring_t *s); /* lent until `s` changes */
/* Replaces the contents by a copy of `text`. Errors: RESOURCE_EXHAUSTED, *s is then unchanged. */
WEFT_MUST_CHECK weft_status_t *weft_tstring_set(weft_tstring_t *s, weft_str_t text);
void weft_tstring_clear(weft_tstring_t *s); /* frees; leaves an empty string */

#endif /* WEFT_TENSOR_TSTRING_H_ */
