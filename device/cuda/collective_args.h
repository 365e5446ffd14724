/* device/cuda/collective_args.h - structs that the kernels of collectives take (kernels/cuda/collective.cu):
 * of the C that launches them and the C++ of their source. */
#ifndef WEFT_DEVICE_CUDA_COLLECTIVE_ARGS_H_
#define WEFT_DEVICE_CUDA_COLLECTIVE_ARGS_H_

#include <stdint.h>

enum {
  WEFT_CUDA_RANKS = 64,  /* of a collective on one card */
  WEFT_CUDA_MOVES = 128, /* of one launch */
};

/* What is reduced is cut in as many pieces as there are ranks: piece p has the elements from bounds[p] on,
 * and is joined in the order of ranks that begins at p + shift. It goes to all ranks, or (shift 1) to rank p
 * alone. */
typedef struct weft_cuda_ranks {
  const void *in[WEFT_CUDA_RANKS];
  void *out[WEFT_CUDA_RANKS];
  int64_t bounds[WEFT_CUDA_RANKS + 1];
  int32_t n, shift;
  int32_t reduction; /* WEFT_CollectiveReduction */
  int32_t is_divided;
} weft_cuda_ranks_t;

typedef struct weft_cuda_moves {
  const void *from[WEFT_CUDA_MOVES];
  void *to[WEFT_CUDA_MOVES];
  int64_t bytes[WEFT_CUDA_MOVES];
  int32_t n;
} weft_cuda_moves_t;

#ifdef __cplusplus
/* Calls f(pointer by reference) for each pointer to device memory in a struct: for the emulator. */
template <class F>
void weft_visit_pointers(weft_cuda_ranks_t &r, F f) {
  for (int i = 0; i < r.n; i++) f(r.in[i]);
  for (int i = 0; i < r.n; i++) f(r.out[i]);
}
template <class F>
void weft_visit_pointers(weft_cuda_moves_t &m, F f) {
  for (int i = 0; i < m.n; i++) f(m.from[i]);
  for (int i = 0; i < m.n; i++) f(m.to[i]);
}
#endif

#endif /* WEFT_DEVICE_CUDA_COLLECTIVE_ARGS_H_ */
