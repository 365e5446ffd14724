/* kernels/formulas/ctc_labels.h - what is wrong with the indices of CTCLoss's labels, for every type of
 * device. */
#ifndef WEFT_KERNELS_FORMULAS_CTC_LABELS_H_
#define WEFT_KERNELS_FORMULAS_CTC_LABELS_H_

#include <stddef.h>
#include <stdint.h>

/* `at` has a pair (batch, place) for each label, of which i is looked at after those before it. NULL: it lies
 * in [batch, longest] and behind the one before. */
static inline const char *weft_ctc_label_problem(const int64_t *at, int64_t i, int64_t batch,
                                                 int64_t longest) {
  const int64_t b = at[2 * i], k = at[2 * i + 1];
  if (b < 0 || b >= batch || k < 0 || k >= longest) return "is out of bounds";
  if (i == 0) return NULL;
  const int64_t b_before = at[2 * i - 2], k_before = at[2 * i - 1];
  if (b < b_before || (b == b_before && k < k_before)) return "is out of order";
  return b == b_before && k == k_before ? "is repeated" : NULL;
}

#endif /* WEFT_KERNELS_FORMULAS_CTC_LABELS_H_ */
