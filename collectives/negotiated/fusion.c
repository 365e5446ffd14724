/* collectives/negotiated/fusion.c - the plan, item by item. */
#include "collectives/negotiated/fusion.h"

#include "base/alloc.h"

weft_status_t *weft_fusion_plan(const int64_t *bytes, int n, int64_t limit_bytes,
                                weft_fusion_kind_fn *same_kind, const void *arg, int *order, bool *ends) {
  bool *is_taken = weft_calloc((size_t)n + 1, sizeof *is_taken);
  if (is_taken == NULL) return WEFT_NO_MEMORY("planning the fusion of %d tensors", n);
  int count = 0;
  for (int first = 0; first < n; first++) {
    if (is_taken[first]) continue;
    int64_t fused = bytes[first], passed_over = 0;
    is_taken[first] = true;
    order[count++] = first;
    for (int i = first + 1; i < n; i++) {
      if (is_taken[i]) continue;
      if (same_kind(arg, first, i) && bytes[i] <= limit_bytes - fused) {
        fused += bytes[i];
        is_taken[i] = true;
        ends[count - 1] = false;
        order[count++] = i;
        continue;
      }
      if (bytes[i] > limit_bytes - fused - passed_over) break;
      passed_over += bytes[i];
    }
    ends[count - 1] = true;
  }
  weft_free(is_taken);
  return NULL;
}
