/* ops/einsum.h - the equation of an Einsum: which label each dimension has.
 *
 * "ab...,bc->ac..." names dimensions by letters; "..." stands for as many dimensions as the operands have
 * more, which broadcast. A label is a number here: 0 to 51 are letters, those from WEFT_EINSUM_ELLIPSIS on
 * are dimensions of the ellipsis, counted from its end.
 */
#ifndef WEFT_OPS_EINSUM_H_
#define WEFT_OPS_EINSUM_H_

#include "base/status.h"
#include "base/str.h"
#include "tensor/shape.h"

enum {
  WEFT_EINSUM_OPERANDS = 2,
  WEFT_EINSUM_ELLIPSIS = 52,
  WEFT_EINSUM_LABELS = WEFT_EINSUM_ELLIPSIS + WEFT_MAX_DIMS
};

typedef struct weft_einsum_term {
  int n;
  int labels[WEFT_MAX_DIMS]; /* by dimension */
} weft_einsum_term_t;

typedef struct weft_einsum {
  int num_operands;
  weft_einsum_term_t in[WEFT_EINSUM_OPERANDS], out;
} weft_einsum_t;

/* `ranks`: of the operands. Errors: INVALID_ARGUMENT: not of one or two operands, a label that is no letter,
 * more or less labels than dimensions, an output label that no operand has, more than WEFT_MAX_DIMS
 * dimensions. */
WEFT_MUST_CHECK weft_status_t *weft_einsum_parse(weft_str_t equation, const int *ranks, int num_operands,
                                                 weft_einsum_t *out);

int weft_einsum_label(char c); /* -1: it is none */
bool weft_einsum_has(const weft_einsum_term_t *t, int label);

/* The dimension of each label, for operands of these shapes, which are known and of the ranks that `e` was
 * parsed for; 1 where no operand has more. Errors: INVALID_ARGUMENT: dimensions of one label differ. */
WEFT_MUST_CHECK weft_status_t *weft_einsum_dims(const weft_einsum_t *e, const weft_shape_t *const *shapes,
                                                int64_t out[WEFT_EINSUM_LABELS]);

/* What operands of these shapes, which are known, give: the shape of the result, and how many products are
 * summed in each element of it. Errors: those of the two above. */
WEFT_MUST_CHECK weft_status_t *weft_einsum_result(weft_str_t equation, const weft_shape_t *const *shapes,
                                                  int num_operands, weft_shape_t *out_shape,
                                                  double *out_summed);

#endif /* WEFT_OPS_EINSUM_H_ */
