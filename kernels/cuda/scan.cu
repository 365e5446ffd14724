/* kernels/cuda/scan.cu - along one dimension: running sums and products, the largest elements, and whether an
 * element is among them; and the n-th smallest one. */
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* What a scan joins, as scan.c numbers it. A NaN stays in a sum of exponentials; the CPU leaves out those
 * before the first number. */
enum { SUM, PRODUCT, LOG_SUM_EXP };

template <class C>
WEFT_FN C fold(C a, C b, int how) {
  if constexpr (number<C>::is_float) {
    if (how == LOG_SUM_EXP) {
      if (a != a || b != b) return a + b; /* whichever comes first */
      const C low = a < b ? a : b, high = a < b ? b : a;
      if (high == -(C)INFINITY) return high; /* else infinity would be taken from infinity */
      return log1p(exp(low - high)) + high;
    }
  }
  return how == PRODUCT ? wrap_mul(a, b) : wrap_add(a, b);
}

template <class C>
WEFT_FN C fold_start(int how) {
  if constexpr (number<C>::is_float) {
    if (how == LOG_SUM_EXP) return -(C)INFINITY;
  }
  return how == PRODUCT ? (C)1 : (C)0;
}

/* x: [outer, n, inner]. A thread takes lines as they are, in order. */
template <class T>
WEFT_FN void scan_lines(const T *x, T *y, int64_t lines, int64_t n, int64_t inner, int how, bool is_exclusive,
                        bool is_reverse) {
  typedef comp_t<T> C;
  for (int64_t line = first_index(); line < lines; line += index_step()) {
    const int64_t base = line / inner * n * inner + line % inner;
    C sum = fold_start<C>(how);
    for (int64_t i = 0; i < n; i++) {
      const int64_t at = base + (is_reverse ? n - 1 - i : i) * inner;
      const C v = load(x[at]), after = fold(sum, v, how);
      store(&y[at], is_exclusive ? sum : after);
      sum = after;
    }
  }
}

/* A block has a line, WEFT_CUDA_BLOCK elements at a time (Hillis and Steele, "Data Parallel Algorithms",
 * 1986). */
template <class T>
WEFT_FN void scan_blocks(const T *x, T *y, int64_t lines, int64_t n, int64_t inner, int how,
                         bool is_exclusive, bool is_reverse) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(C, all, 2 * WEFT_CUDA_BLOCK);
  const C one = fold_start<C>(how);
  const int own = (int)threadIdx.x;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    const int64_t base = line / inner * n * inner + line % inner;
    C before = one;
    for (int64_t from = 0; from < n; from += WEFT_CUDA_BLOCK) {
      const int64_t i = from + own, at = base + (is_reverse ? n - 1 - i : i) * inner;
      const C v = i < n ? load(x[at]) : one;
      int half = 0;
      all[own] = v;
      __syncthreads();
      for (int step = 1; step < WEFT_CUDA_BLOCK; step *= 2) {
        C *to = all + (half ^ 1) * WEFT_CUDA_BLOCK;
        const C *seen = all + half * WEFT_CUDA_BLOCK;
        to[own] = own >= step ? fold(seen[own - step], seen[own], how) : seen[own];
        half ^= 1;
        __syncthreads();
      }
      const C *sums = all + half * WEFT_CUDA_BLOCK;
      const C exclusive = own > 0 ? sums[own - 1] : one;
      if (i < n) store(&y[at], fold(before, is_exclusive ? exclusive : sums[own], how));
      before = fold(before, sums[WEFT_CUDA_BLOCK - 1], how);
      __syncthreads();
    }
  }
}

/* ---- the k largest of a row ---- */

template <class C>
struct ranked {
  C value;
  int32_t at; /* -1: none */
};
template <class C>
WEFT_FN bool is_before(const ranked<C> &a, const ranked<C> &b) {
  return a.at >= 0 && (b.at < 0 || a.value > b.value || (!(b.value > a.value) && a.at < b.at));
}

/* x: [rows, n]. The next one each time is the first of those behind the last one, larger ones first, the
 * lower index first among equals. NaN comes as the smallest. */
template <class T>
WEFT_FN void top_k(const T *x, T *values, void *indices, int index_bytes, int64_t rows, int64_t n,
                   int64_t k) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(ranked<C>, all, WEFT_CUDA_BLOCK);
  const int own = (int)threadIdx.x;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    ranked<C> last = {0, -1};
    bool nans = false; /* numbers are used up */
    for (int64_t done = 0; done < k; done++) {
      ranked<C> best = {0, -1};
      for (int64_t i = own; i < n; i += WEFT_CUDA_BLOCK) {
        const C v = load(x[r * n + i]);
        if ((v != v) != nans) continue;
        const ranked<C> one = {nans ? (C)0 : v, (int32_t)i};
        if ((last.at < 0 || is_before(last, one)) && is_before(one, best)) best = one;
      }
      all[own] = best;
      __syncthreads();
      for (int step = WEFT_CUDA_BLOCK / 2; step > 0; step /= 2) {
        if (own < step && is_before(all[own + step], all[own])) all[own] = all[own + step];
        __syncthreads();
      }
      last = all[0];
      __syncthreads();
      if (last.at < 0) { /* the rest of the row is NaN: once more */
        nans = true;
        done--;
        continue;
      }
      if (own != 0) continue;
      values[r * k + done] = x[r * n + last.at];
      if (index_bytes == 8) {
        ((int64_t *)indices)[r * k + done] = last.at;
      } else if (index_bytes == 2) {
        ((int16_t *)indices)[r * k + done] = (int16_t)last.at;
      } else {
        ((int32_t *)indices)[r * k + done] = last.at;
      }
    }
  }
}

/* ---- the n-th smallest of a row ---- */

/* Numbers that are in the order of the values: a number of the type's size, NaN behind all others. */
WEFT_FN uint64_t key_of(float v) {
  const uint32_t bits = v == 0 ? 0 : bits_of(v);
  return v != v ? 0xffffffffu : bits >> 31 != 0 ? (uint32_t)~bits : bits | 0x80000000u;
}
WEFT_FN uint64_t key_of(double v) {
  const uint64_t bits = v == 0 ? 0 : bits_of(v);
  return v != v ? ~(uint64_t)0 : bits >> 63 != 0 ? ~bits : bits | (uint64_t)1 << 63;
}
template <class C>
WEFT_FN uint64_t key_of(C v) {
  return ((uint64_t)v - (uint64_t)lowest_of<C>()) & (~(uint64_t)0 >> (64 - 8 * sizeof(C)));
}

/* A block a row: byte by byte, from the highest on, the keys that may still be the one are counted by their
 * next byte. (Radix selection: Alabi, Blanchard, Gordon and Steinbach, "Fast k-Selection Algorithms for
 * Graphics Processing Units", 2012.) One of the elements whose key it is, is the result. */
template <class T>
WEFT_FN void nth_element(const T *x, T *y, int64_t rows, int64_t n, int64_t nth) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(int32_t, counts, 256);
  WEFT_CUDA_SHARED(uint64_t, found, 1); /* the bytes that are known */
  WEFT_CUDA_SHARED(int64_t, rest, 1);   /* which one of those that have these */
  const int own = (int)threadIdx.x, threads = (int)blockDim.x;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *row = x + r * n;
    if (own == 0) {
      *found = 0;
      *rest = nth;
    }
    for (int shift = 8 * (int)sizeof(C) - 8; shift >= 0; shift -= 8) {
      for (int i = own; i < 256; i += threads) counts[i] = 0;
      __syncthreads();
      const uint64_t known = *found;
      for (int64_t i = own; i < n; i += threads) {
        const uint64_t key = key_of((C)load(row[i]));
        if (key >> shift >> 8 == known) atomicAdd(&counts[key >> shift & 255], 1);
      }
      __syncthreads();
      if (own == 0) {
        int byte = 0;
        int64_t left = *rest;
        while (left >= counts[byte]) left -= counts[byte++];
        *found = known << 8 | (uint64_t)byte;
        *rest = left;
      }
      __syncthreads();
    }
    for (int64_t i = own; i < n; i += threads) {
      const C v = load(row[i]);
      if (key_of(v) == *found) y[r] = row[i];
    }
    __syncthreads();
  }
}

WEFT_FN bool is_finite(float v) { return (bits_of(v) & 0x7f800000u) != 0x7f800000u; }

}  // namespace weft

using namespace weft;

#define SCAN(f, type)                                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_lines_##type,                                                             \
                   (const type *x, type *y, int64_t lines, int64_t n, int64_t inner, int32_t how,       \
                    int32_t is_exclusive, int32_t is_reverse)) {                                        \
    scan_lines(x, y, lines, n, inner, how, is_exclusive != 0, is_reverse != 0);                         \
  }                                                                                                     \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_blocks_##type,                                                      \
                         (const type *x, type *y, int64_t lines, int64_t n, int64_t inner, int32_t how, \
                          int32_t is_exclusive, int32_t is_reverse)) {                                  \
    scan_blocks(x, y, lines, n, inner, how, is_exclusive != 0, is_reverse != 0);                        \
  }
WEFT_CUDA_FLOAT_I64(SCAN, scan)

#define TOP_K(f, type)                                                                                   \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, type *values, void *indices,                 \
                                             int32_t index_bytes, int64_t rows, int64_t n, int64_t k)) { \
    top_k(x, values, indices, index_bytes, rows, n, k);                                                  \
  }
WEFT_CUDA_FLOAT_I64(TOP_K, top_k)

/* Are fewer than k predictions larger than the target's? Not if any of them is no finite number. */
WEFT_CUDA_BLOCK_KERNEL(weft_in_top_k, (const float *x, const void *targets, int32_t index_bytes, uint8_t *y,
                                       int64_t rows, int64_t n, int64_t k)) {
  WEFT_CUDA_SHARED(int64_t, all, WEFT_CUDA_BLOCK);
  const int own = (int)threadIdx.x;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const int64_t target = index_at(targets, index_bytes, r);
    const bool is_there = target >= 0 && target < n;
    const float wanted = is_there ? x[r * n + target] : 0;
    int64_t larger = 0;
    for (int64_t i = own; i < n; i += WEFT_CUDA_BLOCK) {
      const float v = x[r * n + i];
      larger += !is_finite(v) ? n + 1 : v > wanted; /* n + 1: it cannot be said */
    }
    all[own] = larger;
    __syncthreads();
    for (int step = WEFT_CUDA_BLOCK / 2; step > 0; step /= 2) {
      if (own < step) all[own] += all[own + step];
      __syncthreads();
    }
    if (own == 0) y[r] = is_there && all[0] <= n && all[0] < k;
    __syncthreads();
  }
}

#define NTH(f, type)                                                                       \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type,                                                \
                         (const type *x, type *y, int64_t rows, int64_t n, int64_t nth)) { \
    nth_element(x, y, rows, n, nth);                                                       \
  }
WEFT_CUDA_REAL(NTH, nth_element)
