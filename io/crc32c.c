/* io/crc32c.c - CRC-32C by ISA-L, which knows the processor's instructions for it. */
#include "io/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>

enum { PIECE = 1 << 30 }; /* the library counts in int */

uint32_t weft_crc32c_extend(uint32_t crc, const void *data, size_t n) {
  const unsigned char *p = data;
  crc = ~crc; /* the library neither inverts at the start nor at the end */
  while (n > 0) {
    int piece = n > PIECE ? PIECE : (int)n;
    crc = crc32_iscsi((unsigned char *)p, piece, crc);
    p += piece;
    n -= (size_t)piece;
  }
  return ~crc;
}
