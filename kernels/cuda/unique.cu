/* kernels/cuda/unique.cu - equal rows of a tensor, numbered in the order in which they first occur.
 *
 * A hash table of row numbers with open addressing, at most half full, as the CPU's kernel has it
 * (kernels/cpu/array/unique.c). A row takes an empty slot by a compare-and-swap; a row that equals the one in
 * a slot lowers the slot's number to its own. A slot never becomes empty again and always holds equal rows,
 * so that each ends with the first of its rows, in whatever order threads run.
 *
 * Values compare as numbers: 0 and -0 are equal, a NaN equals nothing. Elements that are no floating-point
 * numbers compare by their bits, complex numbers as two real ones.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/unique_args.h"

namespace weft {

typedef unsigned long long slot_t;
const slot_t EMPTY = ~(slot_t)0;

WEFT_FN uint64_t mixed(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}
template <class C>
WEFT_FN uint64_t key_of(C v) {
  if constexpr (number<C>::is_float) {
    return v == 0 ? 0 : (uint64_t)bits_of(v);
  } else {
    return (uint64_t)v;
  }
}

/* *is_alone: the row has a NaN. Those are spread by their numbers. */
template <class T>
WEFT_FN uint64_t hash_of(const T *x, const weft_cuda_unique_t &u, int64_t row, bool *is_alone) {
  uint64_t h = 0x8445D61A4E774912u;
  for (int64_t o = 0; o < u.outer; o++) {
    const T *at = x + (o * u.n + row) * u.inner;
    for (int64_t k = 0; k < u.inner; k++) {
      const comp_t<T> v = load(at[k]);
      if constexpr (number<T>::is_float) *is_alone = *is_alone || v != v;
      h = mixed(h, key_of(v));
    }
  }
  return *is_alone ? mixed(h, (uint64_t)row) : h;
}

template <class T>
WEFT_FN bool are_equal(const T *x, const weft_cuda_unique_t &u, int64_t a, int64_t b) {
  for (int64_t o = 0; o < u.outer; o++) {
    const T *at = x + o * u.n * u.inner;
    for (int64_t k = 0; k < u.inner; k++) {
      if (!(load(at[a * u.inner + k]) == load(at[b * u.inner + k]))) return false;
    }
  }
  return true;
}

/* at[i]: the slot of row i. */
template <class T>
WEFT_FN void insert(const T *x, slot_t *slots, int64_t *at, const weft_cuda_unique_t &u) {
  for (int64_t i = first_index(); i < u.n; i += index_step()) {
    bool is_alone = false;
    uint64_t slot = hash_of(x, u, i, &is_alone) & u.mask;
    for (;; slot = (slot + 1) & u.mask) {
      slot_t seen =
          slots[slot]; /* may be an earlier value: then the swap fails, or the row is an equal one */
      if (seen == EMPTY) seen = atomicCAS(&slots[slot], EMPTY, (slot_t)i);
      if (seen == EMPTY) break;
      if (is_alone || !are_equal(x, u, (int64_t)seen, i)) continue;
      if ((slot_t)i < seen) atomicMin(&slots[slot], (slot_t)i);
      break;
    }
    at[i] = (int64_t)slot;
  }
}

template <class I>
WEFT_FN void give_numbers(const slot_t *slots, const int64_t *at, I *which, I *counts, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const slot_t place = slots[at[i]];
    which[i] = (I)place;
    if (counts != nullptr) atomicAdd(&counts[place], (I)1);
  }
}

}  // namespace weft

using namespace weft;

#define INSERT(f, type)                                                                                    \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, slot_t *slots, int64_t *at, weft_cuda_unique_t u)) { \
    insert(x, slots, at, u);                                                                               \
  }
WEFT_CUDA_FLOAT(INSERT, unique_insert)
WEFT_CUDA_WORDS(INSERT, unique_insert)

/* is_first[i], a boolean: no row in front of row i equals it. */
WEFT_CUDA_KERNEL(weft_unique_mark, (const slot_t *slots, const int64_t *at, uint8_t *is_first, int64_t n)) {
  for (int64_t i = first_index(); i < n; i += index_step()) is_first[i] = slots[at[i]] == (slot_t)i;
}
/* The slot of row first[k] gets k. */
WEFT_CUDA_KERNEL(weft_unique_rank, (const int64_t *first, const int64_t *at, slot_t *slots, int64_t n)) {
  for (int64_t k = first_index(); k < n; k += index_step()) slots[at[first[k]]] = (slot_t)k;
}
/* which[i]: what is in the slot of row i; counts, if it is there: how many rows have each number. */
WEFT_CUDA_KERNEL(weft_unique_number_i32,
                 (const slot_t *slots, const int64_t *at, unsigned *which, unsigned *counts, int64_t n)) {
  give_numbers(slots, at, which, counts, n);
}
WEFT_CUDA_KERNEL(weft_unique_number_i64,
                 (const slot_t *slots, const int64_t *at, slot_t *which, slot_t *counts, int64_t n)) {
  give_numbers(slots, at, which, counts, n);
}
