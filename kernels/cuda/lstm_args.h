/* kernels/cuda/lstm_args.h - a step of a layer of long short-term memory, and of its gradient. */
#ifndef WEFT_KERNELS_CUDA_LSTM_ARGS_H_
#define WEFT_KERNELS_CUDA_LSTM_ARGS_H_

#include "kernels/cuda/args.h"

enum { WEFT_CUDA_LSTM_I, WEFT_CUDA_LSTM_C, WEFT_CUDA_LSTM_F, WEFT_CUDA_LSTM_O, WEFT_CUDA_LSTM_GATES };

/* A step. All pointers are to elements of the layer's type in the device's memory; those that a kernel does
 * not name may be NULL. */
typedef struct weft_cuda_lstm {
  int64_t batch, cell;
  int64_t gate_at[WEFT_CUDA_LSTM_GATES]; /* the first of a gate's columns, of which there are 4 cell */
  int32_t use_peephole;
  float forget_bias, cell_clip;
  const void *b, *peep[WEFT_CUDA_LSTM_GATES]; /* [4 cell], [cell]; there is no peephole of gate C */
  const void *from_x, *from_h;                /* [batch, 4 cell], the products with the weights */
  const void *cs_prev;                        /* [batch, cell], and so are these: */
  void *i, *cs, *f, *o, *ci, *co, *h;         /* of the gradient: operands, all but h */
  const void *cs_grad, *h_grad;
  const void *cs_next, *h_next; /* what the step behind gives; NULL: nothing */
  void *cs_prev_grad;           /* may be cs_next */
  void *gates;                  /* [batch, 4 cell], the gradients of what goes into the gates */
} weft_cuda_lstm_t;

/* What all steps give the bias and the peepholes: sums over `rows`, which are the batches of all steps. */
typedef struct weft_cuda_lstm_sums {
  int64_t rows, batch, cell;
  int32_t gate_of[WEFT_CUDA_LSTM_GATES]; /* the gates in the order of their columns */
  const void *gates, *cs_prev, *cs; /* [rows, 4 cell]; [batch, cell], before the first step; [rows, cell] */
  void *b_grad, *peep_grad[WEFT_CUDA_LSTM_GATES]; /* NULL: not wanted */
} weft_cuda_lstm_sums_t;

#ifdef WEFT_CUDA_ON_HOST
template <class F>
void weft_visit_pointers(weft_cuda_lstm_t &s, F f) {
  f(s.b);
  for (int g = 0; g < WEFT_CUDA_LSTM_GATES; g++) f(s.peep[g]);
  f(s.from_x);
  f(s.from_h);
  f(s.cs_prev);
  f(s.i);
  f(s.cs);
  f(s.f);
  f(s.o);
  f(s.ci);
  f(s.co);
  f(s.h);
  f(s.cs_grad);
  f(s.h_grad);
  f(s.cs_next);
  f(s.h_next);
  f(s.cs_prev_grad);
  f(s.gates);
}
template <class F>
void weft_visit_pointers(weft_cuda_lstm_sums_t &s, F f) {
  f(s.gates);
  f(s.cs_prev);
  f(s.cs);
  f(s.b_grad);
  for (int g = 0; g < WEFT_CUDA_LSTM_GATES; g++) f(s.peep_grad[g]);
}
#endif

#endif /* WEFT_KERNELS_CUDA_LSTM_ARGS_H_ */
