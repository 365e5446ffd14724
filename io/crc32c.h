/* io/crc32c.h - the checksum of TensorFlow's files: CRC-32C (Castagnoli), and the masked form in which it is
 * stored. */
#ifndef WEFT_IO_CRC32C_H_
#define WEFT_IO_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of, followed by `n` bytes; of nothing it is 0. */
uint32_t weft_crc32c_extend(uint32_t crc, const void *data, size_t n);
static inline uint32_t weft_crc32c(const void *data, size_t n) { return weft_crc32c_extend(0, data, n); }

/* A checksum of data that hold checksums is weak: stored ones are turned and moved. */
static inline uint32_t weft_crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
static inline uint32_t weft_crc32c_unmask(uint32_t masked) {
  uint32_t turned = masked - 0xa282ead8u;
  return (turned >> 17) | (turned << 15);
}

#endif /* WEFT_IO_CRC32C_H_ */
