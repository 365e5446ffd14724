/* kernels/cuda/args.h - structs that kernels take as arguments: of the C that launches them and the C++ of
 * their source. */
#ifndef WEFT_KERNELS_CUDA_ARGS_H_
#define WEFT_KERNELS_CUDA_ARGS_H_

#include "kernels/cuda/integers.h"

enum {
  WEFT_CUDA_BLOCK = 256, /* threads of a block, at most */
  WEFT_CUDA_DIMS = 16,   /* of a tensor: Weft's limit */
  WEFT_CUDA_LIST = 8,    /* tensors that one launch adds up */
  WEFT_CUDA_VARS = 4,    /* variables and scalars of an optimizer, at most */
  WEFT_CUDA_SCALARS = 6,
  WEFT_CUDA_UPDATES = 64, /* variables that one launch updates, and sets of scalars that they have */
  WEFT_CUDA_SCALAR_SETS = 8,
  WEFT_CUDA_PIECE = 4096,     /* elements that a block updates at a time */
  WEFT_CUDA_CHAIN_INPUTS = 12 /* of a chain: Weft's limit */
};

/* n elements in row-major order of `dims`, read from up to three tensors and written to one. Element i lies
 * at the sum of index times step; a step of 0 repeats. */
typedef struct weft_cuda_walk {
  int64_t n;
  int32_t rank;
  int32_t is_flat; /* every step of every tensor is the one of a dense tensor */
  int64_t dims[WEFT_CUDA_DIMS];
  int64_t steps[4][WEFT_CUDA_DIMS]; /* in elements */
} weft_cuda_walk_t;

/* A reduction: outputs are numbered by the kept dimensions, what each is made of by the reduced ones.
 *
 * `sharers` threads of a block, a power of two, share an output; the block has WEFT_CUDA_BLOCK / sharers
 * outputs at a time. by_column: neighbours among the threads have neighbouring outputs, else neighbouring
 * elements of one. */
typedef struct weft_cuda_reduction {
  int64_t num_kept, num_reduced;
  int64_t part; /* block y takes the reduced elements from y times part on, part of them */
  int32_t sharers, by_column;
  int32_t kept_rank, reduced_rank;
  int64_t kept_dims[WEFT_CUDA_DIMS], kept_steps[WEFT_CUDA_DIMS];
  int64_t reduced_dims[WEFT_CUDA_DIMS], reduced_steps[WEFT_CUDA_DIMS];
} weft_cuda_reduction_t;

typedef struct weft_cuda_list {
  const void *at[WEFT_CUDA_LIST];
  int32_t n;
} weft_cuda_list_t;

/* What all of an optimizer's elements have in common. */
typedef struct weft_cuda_scalars {
  const void *at[WEFT_CUDA_SCALARS]; /* in the device's memory */
} weft_cuda_scalars_t;
typedef struct weft_cuda_rule_flags {
  int32_t use_nesterov, update_slots, multiply_linear_by_lr;
} weft_cuda_rule_flags_t;

/* A step of an optimizer on n elements, which are the pieces from first_piece on. */
typedef struct weft_cuda_update {
  void *vars[WEFT_CUDA_VARS];
  const void *gradient;
  int64_t n;
  int32_t first_piece;
  int32_t scalars; /* which set */
} weft_cuda_update_t;

/* Steps of one rule on several variables: at most 4096 bytes, which is what a launch may have. */
typedef struct weft_cuda_updates {
  weft_cuda_update_t updates[WEFT_CUDA_UPDATES]; /* num of them, none of which is empty */
  weft_cuda_scalars_t scalars[WEFT_CUDA_SCALAR_SETS];
  int32_t num, num_sets, num_pieces, num_vars, num_scalars;
  weft_cuda_rule_flags_t flags;
} weft_cuda_updates_t;

/* A step on rows: n elements of the gradient, each row for the row of the variables that its index names. */
typedef struct weft_cuda_sparse_update {
  void *vars[WEFT_CUDA_VARS];
  weft_cuda_scalars_t scalars;
  const void *gradient;
  int64_t n;
  int32_t num_vars, num_scalars;
  weft_cuda_rule_flags_t flags;
  const void *indices;
  /* Of each row of the variables the first row of the gradient that is for it; of each row of the gradient
   * the next one for the same, or -1. */
  const int32_t *first, *next;
  int64_t row, num_rows; /* elements of a row; rows of the variables */
  int32_t index_bytes;
} weft_cuda_sparse_update_t;

/* A chain: n units from unit `first` on, in row-major order of `dims`. A unit is an element or, of a chain
 * with links that compute rows, a row of `width` elements. Unit i of input k begins at its start, which may
 * be negative, and the sum of index times step; the result of the first unit at `out`. */
typedef struct weft_cuda_chain {
  int64_t first, n;
  int32_t rank, num_inputs;
  void *out;
  const void *inputs[WEFT_CUDA_CHAIN_INPUTS];
  int64_t dims[WEFT_CUDA_DIMS];
  int64_t steps[WEFT_CUDA_CHAIN_INPUTS][WEFT_CUDA_DIMS]; /* in elements */
  int64_t starts[WEFT_CUDA_CHAIN_INPUTS];
  int64_t width;
  int64_t row_steps[WEFT_CUDA_CHAIN_INPUTS]; /* within a row */
  uint64_t singles; /* bit i: link i computes rows of one element, which the result's rows repeat */
  int32_t sharers;  /* of a row (rows.cuh) */
} weft_cuda_chain_t;

/* What follows a convolution or a product on each of its n elements. */
typedef enum weft_cuda_activation {
  WEFT_CUDA_NO_ACTIVATION,
  WEFT_CUDA_RELU,
  WEFT_CUDA_RELU6,
  WEFT_CUDA_ELU,
  WEFT_CUDA_LEAKY_RELU,
  WEFT_CUDA_TANH,
  WEFT_CUDA_SIGMOID,
  WEFT_CUDA_GELU_APPROXIMATE,
  WEFT_CUDA_GELU_EXACT
} weft_cuda_activation_t;
typedef struct weft_cuda_fused {
  int64_t n, channels, inner; /* inner: elements of one channel that lie together */
  void *y;
  /* Those that are there; of each channel, but for the last one. */
  const void *bias, *scale, *offset, *mean, *variance, *addend;
  float epsilon, alpha;
  int32_t activation;
} weft_cuda_fused_t;

#ifdef WEFT_CUDA_ON_HOST
/* Calls f(pointer by reference) for each pointer to device memory in a struct: for the emulator. */
template <class F>
void weft_visit_pointers(weft_cuda_walk_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_reduction_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_list_t &list, F f) {
  for (int i = 0; i < list.n; i++) f(list.at[i]);
}
template <class F>
void weft_visit_pointers(weft_cuda_chain_t &c, F f) {
  f(c.out);
  for (int i = 0; i < c.num_inputs; i++) f(c.inputs[i]);
}
template <class F>
void weft_visit_pointers(weft_cuda_updates_t &u, F f) {
  for (int k = 0; k < u.num; k++) {
    for (int i = 0; i < u.num_vars; i++) f(u.updates[k].vars[i]);
    f(u.updates[k].gradient);
  }
  for (int k = 0; k < u.num_sets; k++) {
    for (int i = 0; i < u.num_scalars; i++) f(u.scalars[k].at[i]);
  }
}
template <class F>
void weft_visit_pointers(weft_cuda_fused_t &j, F f) {
  f(j.y);
  f(j.bias);
  f(j.scale);
  f(j.offset);
  f(j.mean);
  f(j.variance);
  f(j.addend);
}
template <class F>
void weft_visit_pointers(weft_cuda_sparse_update_t &u, F f) {
  for (int i = 0; i < u.num_vars; i++) f(u.vars[i]);
  for (int i = 0; i < u.num_scalars; i++) f(u.scalars.at[i]);
  f(u.gradient);
  f(u.indices);
  f(u.first);
  f(u.next);
}
#endif

#endif /* WEFT_KERNELS_CUDA_ARGS_H_ */
