/* kernels/cpu/ragged/ragged.c - see the header. */
#include "kernels/cpu/ragged/ragged.h"

#include <inttypes.h>

weft_status_t *weft_ragged_open(const weft_tensor_t *t, weft_ragged_ints_t *out) {
  *out = (weft_ragged_ints_t){.at = t->data, .n = t->count};
  if (t->dtype == WEFT_I64) return NULL;
  out->copy = weft_malloc(((size_t)t->count + 1) * sizeof *out->copy);
  if (out->copy == NULL) return WEFT_NO_MEMORY("%" PRId64 " row splits", t->count);
  for (int64_t i = 0; i < t->count; i++) out->copy[i] = ((const int32_t *)t->data)[i];
  out->at = out->copy;
  return NULL;
}

void weft_ragged_close(weft_ragged_ints_t *x) {
  weft_free(x->copy);
  x->copy = NULL;
}

weft_status_t *weft_ragged_open_all(const weft_kernel_ctx_t *ctx, int first, int n,
                                    weft_ragged_ints_t **out) {
  *out = weft_calloc((size_t)n + 1, sizeof **out);
  if (*out == NULL) return WEFT_NO_MEMORY("%d tensors of row splits", n);
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_ragged_open(weft_in(ctx, first + i), *out + i));
  return NULL;
}

void weft_ragged_close_all(weft_ragged_ints_t *x, int n) {
  for (int i = 0; x != NULL && i < n; i++) weft_ragged_close(&x[i]);
  weft_free(x);
}
