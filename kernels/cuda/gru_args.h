/* kernels/cuda/gru_args.h - a step of a gated recurrent unit and of its gradient. */
#ifndef WEFT_KERNELS_CUDA_GRU_ARGS_H_
#define WEFT_KERNELS_CUDA_GRU_ARGS_H_

#include "kernels/cuda/args.h"

/* All pointers are to float in the device's memory; those that a kernel does not name may be NULL. */
typedef struct weft_cuda_gru {
  int64_t batch, input, cell;
  const float *x, *h_prev, *b_ru, *b_c; /* [batch, input], [batch, cell], [2 cell], [cell] */
  float *r, *u, *c, *h;                 /* [batch, cell]; of the gradient: operands, all but h */
  const float *d_h;
  float *d_x, *d_h_prev, *d_c_bar, *d_ru_bar; /* shapes of x, h_prev, h_prev; [batch, 2 cell] */
  float *xh, *ru, *xh2;                       /* [batch, input + cell], [batch, 2 cell], like xh */
} weft_cuda_gru_t;

#ifdef WEFT_CUDA_ON_HOST
template <class F>
void weft_visit_pointers(weft_cuda_gru_t &g, F f) {
  f(g.x);
  f(g.h_prev);
  f(g.b_ru);
  f(g.b_c);
  f(g.r);
  f(g.u);
  f(g.c);
  f(g.h);
  f(g.d_h);
  f(g.d_x);
  f(g.d_h_prev);
  f(g.d_c_bar);
  f(g.d_ru_bar);
  f(g.xh);
  f(g.ru);
  f(g.xh2);
}
#endif

#endif /* WEFT_KERNELS_CUDA_GRU_ARGS_H_ */
