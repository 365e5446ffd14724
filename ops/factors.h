/* ops/factors.h - factor notation: along which dimensions an op may be split, in one line.
 *
 *   MatMul          "mk,kn->mn"             m, n: parts of the operands give parts of the result; k is in no
 *                                           result: its parts give terms of a sum
 *   Softmax         "..._->..._"            _ is a dimension that must be whole
 *   Max over dim 1  "akb->ab|max"           what the parts of k give is reduced by max, mean, min or prod
 *   elementwise     "...,...->..."          ... is all other dimensions, counted from the last one
 *   AddN            "...*->..."             * is the operand for all tensors of a repeated argument
 *   Pad             "_b,->_b"               an operand without dimensions is always whole, whatever its rank
 *   Fill            "[ab],->ab"             [ab] is not a tensor of dimensions a and b, but the sizes of
 *                                           a and b: a part needs those of its part
 *   an embedding    "v:_,i->i_"             v: is cut as well, if each part looks up only the indices within
 *                                           it and gives zeros for others: terms of a sum
 *   inference norm  "bc,c->bc,=c"           =: a result that is the same whichever part of a factor it lacks
 *
 * A letter is a factor: dimensions that have it are split together. It has the size of the smallest of them;
 * a dimension that is k times as long is split at multiples of k (the pixels of DepthToSpace, the first
 * dimension of what Reshape merges). This is the notation of einsum, and of OpenXLA Shardy's op sharding
 * rules.
 *
 * Where dimensions depend on attributes, ranks or the values of constant operands, an op's record names a
 * function that writes such a string for the node.
 */
#ifndef WEFT_OPS_FACTORS_H_
#define WEFT_OPS_FACTORS_H_

#include "base/arena.h"
#include "ops/op.h"

/* A factor is a number: letters a to z, A to Z are 0 to 51; then dimensions of "...", counted from the end.
 */
enum { WEFT_FACTORS_ELLIPSIS = 52, WEFT_FACTORS = WEFT_FACTORS_ELLIPSIS + WEFT_MAX_DIMS };
enum { WEFT_FACTOR_WHOLE = -1 };

typedef enum weft_factor_reduction {
  WEFT_FACTOR_SUM,
  WEFT_FACTOR_MIN,
  WEFT_FACTOR_MAX,
  WEFT_FACTOR_MEAN, /* of parts of equal length */
  WEFT_FACTOR_PROD,
} weft_factor_reduction_t;

typedef struct weft_factor_operand {
  int rank;                /* 0 for an operand without dimensions in the notation */
  int dims[WEFT_MAX_DIMS]; /* a factor or WEFT_FACTOR_WHOLE */
  bool is_same;            /* "=" */
  bool is_sizes;           /* "[]": dims are of what its elements are the sizes of */
} weft_factor_operand_t;

typedef struct weft_factor {
  bool is_used;
  bool is_masked; /* "v:" */
  bool is_unsure; /* an operand may broadcast along it or not: its size is not known */
  int64_t size;   /* WEFT_UNKNOWN_DIM if no dimension's is known */
} weft_factor_t;

/* A string made fit for the operands of one node. */
typedef struct weft_factors {
  int num_inputs, num_outputs;             /* flat */
  weft_factor_operand_t *inputs, *outputs; /* in the arena */
  weft_factor_t factors[WEFT_FACTORS];
  weft_factor_reduction_t reduction; /* of what results lack */
} weft_factors_t;

/* Does the string read well, and fit the op's signature: as many operands and results, "*" for repeated ones
 * only? Errors: INVALID_ARGUMENT with the op and the string. */
WEFT_MUST_CHECK weft_status_t *weft_factors_check(const weft_op_def_t *op, const char *text);

typedef struct weft_factor_shapes {
  const weft_shape_t *inputs, *outputs; /* flat */
  int num_inputs, num_outputs;
  bool broadcasts; /* dimensions of "..." follow NumPy's rules; else they are equal */
} weft_factor_shapes_t;

/* Errors: INVALID_ARGUMENT: the string does not fit the shapes: a rank, a dimension that is no multiple of
 * its factor; FAILED_PRECONDITION: an input with "..." has no known rank; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_factors_make(const char *text, const weft_factor_shapes_t *shapes,
                                                 weft_arena_t *arena, weft_factors_t *out);

/* Which dimension of an operand has the factor, or which element of an operand of sizes; -1: none. No operand
 * has one twice. */
int weft_factor_dim(const weft_factor_operand_t *operand, int factor);
/* Must parts be of equal length? Where a mean is taken of them. */
bool weft_factor_is_even(const weft_factors_t *f, int factor);
/* May the factor be split at all: some input has it, and its extent is sure. */
bool weft_factor_splits(const weft_factors_t *f, int factor);

#endif /* WEFT_OPS_FACTORS_H_ */
