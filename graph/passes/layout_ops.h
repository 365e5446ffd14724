/* graph/passes/layout_ops.h - what of a node depends on the order of its tensors' dimensions; for layout.c.
 *
 * A permutation p of R dimensions: dimension i of a tensor is dimension p[i] of the same tensor in its other
 * order, as Transpose has it (the tensor is Transpose of the other one by p).
 */
#ifndef WEFT_GRAPH_PASSES_LAYOUT_OPS_H_
#define WEFT_GRAPH_PASSES_LAYOUT_OPS_H_

#include "graph/passes/round.h"

typedef struct weft_permutation {
  int rank;
  int of[WEFT_MAX_DIMS];
} weft_permutation_t;

weft_permutation_t weft_permutation_inverse(const weft_permutation_t *p);
bool weft_permutation_eq(const weft_permutation_t *a, const weft_permutation_t *b);
/* The value of a constant vector that is one, not the identity; rank 0: it is not. */
weft_permutation_t weft_permutation_of(weft_output_t of);
/* Do the dimensions that are not known to be 1 keep their order when a tensor of `shape` is permuted? */
bool weft_permutation_only_reshapes(const weft_permutation_t *p, const weft_shape_t *shape);
/* `shape` with ones in front, in the order that `p` describes. Its rank is known, and at most that of `p`. */
weft_shape_t weft_permutation_apply(const weft_permutation_t *p, const weft_shape_t *shape);

enum { WEFT_LAYOUT_NO_AXES = -1 };

/* Bit i of a set is input or output i. */
typedef struct weft_layout_node {
  int rank;
  uint64_t images;  /* inputs whose dimensions are permuted; of elementwise ops also those of a lower rank */
  uint64_t vectors; /* inputs with a number or a row for each dimension */
  uint64_t outputs; /* outputs whose dimensions are permuted */
  int axes;         /* the input with numbers of dimensions, a constant; or NO_AXES */
  bool has_format;  /* attribute data_format is NCHW, attributes of windows have that order, too */
  bool sums;        /* adds floats up, in an order that depends on that of dimensions */
  bool drops_axes;  /* the output lacks the dimensions of `axes` */
  int num_transposes; /* that its kernel does itself because the channels come first */
} weft_layout_node_t;

/* The ops of the table, found once. */
typedef struct weft_layout_ops weft_layout_ops_t;
WEFT_MUST_CHECK weft_status_t *weft_layout_ops_create(weft_arena_t *arena, const weft_layout_ops_t **out);
/* Is it a node of the table, of a kernel for which channels come last, with channels first? */
bool weft_layout_has_channels_first(const weft_layout_ops_t *ops, const weft_node_t *n);
/* After weft_pass_round_infer. False: its tensors have to stay in the order that they have. */
bool weft_layout_describe(const weft_layout_ops_t *ops, const weft_node_t *n, weft_layout_node_t *out);
/* Can tensors of the node be permuted by `p`, which is of its rank? */
bool weft_layout_fits(const weft_node_t *n, const weft_layout_node_t *described, const weft_permutation_t *p);
/* Numbers of dimensions, 0 to rank - 1, out of a constant; how many, or -1. `out`: WEFT_MAX_DIMS. */
int weft_layout_axes(weft_output_t of, int rank, int *out);

#endif /* WEFT_GRAPH_PASSES_LAYOUT_OPS_H_ */
