/* kernels/cuda/ctc_args.h - the loss of label sequences under unaligned predictions. */
#ifndef WEFT_KERNELS_CUDA_CTC_ARGS_H_
#define WEFT_KERNELS_CUDA_CTC_ARGS_H_

#include "kernels/cuda/args.h"

/* A sequence of the batch. */
typedef struct weft_cuda_ctc_sequence {
  int64_t path_at;  /* of its positions in `path` */
  int64_t state_at; /* of its variables: that of position u at time t is number t * num_path + u */
  int32_t length;   /* 0: it has no loss and no gradient */
  int32_t num_path; /* its labels with a blank before each and one at the end */
} weft_cuda_ctc_sequence_t;

/* A position of a path. */
typedef struct weft_cuda_ctc_position {
  int32_t class_;   /* that is seen there */
  int32_t next;     /* the next position of that class; -1: none */
  int32_t is_first; /* no position before it is of that class */
} weft_cuda_ctc_position_t;

/* All pointers are to the device's memory. */
typedef struct weft_cuda_ctc {
  int64_t time, batch, classes;
  int32_t merges;                            /* ctc_merge_repeated */
  const weft_cuda_ctc_sequence_t *sequences; /* batch of them */
  const weft_cuda_ctc_position_t *path;
  const void *y;         /* [time, batch, classes], probabilities */
  void *alpha, *beta;    /* the variables, as logarithms */
  void *loss, *gradient; /* [batch], like y */
} weft_cuda_ctc_t;

#ifdef WEFT_CUDA_ON_HOST
template <class F>
void weft_visit_pointers(weft_cuda_ctc_t &c, F f) {
  f(c.sequences);
  f(c.path);
  f(c.y);
  f(c.alpha);
  f(c.beta);
  f(c.loss);
  f(c.gradient);
}
#endif

#endif /* WEFT_KERNELS_CUDA_CTC_ARGS_H_ */
