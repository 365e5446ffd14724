/* resources/kv_slice.h - which of n servers has a key. */
#ifndef WEFT_RESOURCES_KV_SLICE_H_
#define WEFT_RESOURCES_KV_SLICE_H_

#include <stdint.h>

/* key in [0, max_key), cut into n ranges whose lengths differ by one at most. */
static inline int weft_kv_server_by_range(int64_t key, int64_t max_key, int n) {
  int64_t each = max_key / n,
          more = max_key % n; /* the first `more` servers have one key more: no overflow */
  int64_t limit = (each + 1) * more;
  return (int)(key < limit ? key / (each + 1) : more + (key - limit) / (each > 0 ? each : 1));
}

/* By the mixed bits of the key: Steele et al. (2014), the finalizer of SplitMix64. */
static inline int weft_kv_server_by_hash(int64_t key, int n) {
  uint64_t x = (uint64_t)key + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (int)((x ^ (x >> 31)) % (uint64_t)n);
}

#endif /* WEFT_RESOURCES_KV_SLICE_H_ */
