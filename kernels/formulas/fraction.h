/* kernels/formulas/fraction.h - windows of fractional pooling, for C and for CUDA's C++: `out` of them over a
 * line of `in` cells, which differ in size, in a random order. Window i goes from starts[i] to starts[i + 1].
 *
 * The includer has <stdint.h> and, where it makes windows, <math.h>, and gives, before this header,
 * WEFT_FORMULA: how a function is declared.
 *
 * Source: Graham, "Fractional Max-Pooling" (2014).
 */
#ifndef WEFT_KERNELS_FORMULAS_FRACTION_H_
#define WEFT_KERNELS_FORMULAS_FRACTION_H_

/* The cells of window i: from *first up to and with *last. Overlapping windows have the next one's first
 * cell, too. */
WEFT_FORMULA void weft_fraction_cells(const int64_t *starts, int64_t in, int is_overlapping, int64_t i,
                                      int64_t *first, int64_t *last) {
  const int64_t next = starts[i + 1], end = is_overlapping || next == INT64_MIN ? next : next - 1;
  *first = starts[i];
  *last = end < in ? end : in - 1;
}

/* Pseudo-random: window i > 0 begins at ceil(alpha (i + u)), for one u in all, which `uniform` in [0, 1)
 * chooses. */
WEFT_FORMULA void weft_fraction_regular(int64_t in, int64_t out, double uniform, int64_t *starts) {
  const double alpha = (double)in / (double)out;
  const int64_t k = in / out;
  const double left = (double)(k + 2) / alpha - 1, right = (double)(in + 1 - k) / alpha - (double)(out - 1);
  const double u = uniform * (left < right ? left : right);
  starts[0] = 0;
  for (int64_t i = 1; i < out; i++) starts[i] = (int64_t)ceil(alpha * ((double)i + u)) - 1;
  starts[out] = in;
}

/* Random: as many windows of the longer size as there are cells left over, in an order that out - 1 random
 * words choose, which word(arg) gives. */
WEFT_FORMULA void weft_fraction_random(int64_t in, int64_t out, uint32_t (*word)(void *arg), void *arg,
                                       int64_t *starts) {
  const int64_t k = in / out;
  int64_t *sizes = starts + 1;
  for (int64_t i = 0; i < out; i++) sizes[i] = k + (i < in % out);
  for (int64_t i = 0; i + 1 < out; i++) {
    const int64_t other = i + word(arg) % (uint32_t)(out - i), size = sizes[i];
    sizes[i] = sizes[other];
    sizes[other] = size;
  }
  starts[0] = 0;
  for (int64_t i = 0; i < out; i++) starts[i + 1] += starts[i];
}

#endif /* WEFT_KERNELS_FORMULAS_FRACTION_H_ */
