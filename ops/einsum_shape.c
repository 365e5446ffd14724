/* ops/einsum_shape.c - the shape of what an Einsum gives. */
#include "ops/einsum.h"
#include "ops/infer.h"

/* Ranks of the operands; where one is not known, as many dimensions as its term has letters. Returns whether
 * such a term has an ellipsis, too, so that the ranks are a guess. */
static bool ranks_of(const weft_shape_ctx_t *c, weft_str_t equation, int *ranks) {
  int letters[WEFT_EINSUM_OPERANDS + 1] = {0}, operand = 0;
  bool has_ellipsis[WEFT_EINSUM_OPERANDS + 1] = {false}, is_guess = false;
  for (size_t i = 0; i < equation.length && equation.data[i] != '-' && operand < WEFT_EINSUM_OPERANDS; i++) {
    if (equation.data[i] == ',') operand++;
    if (equation.data[i] == '.') has_ellipsis[operand] = true;
    if (weft_einsum_label(equation.data[i]) >= 0) letters[operand]++;
  }
  for (int i = 0; i < c->num_inputs && i < WEFT_EINSUM_OPERANDS; i++) {
    bool is_known = c->inputs[i].rank >= 0;
    ranks[i] = is_known ? c->inputs[i].rank : letters[i];
    is_guess = is_guess || (!is_known && has_ellipsis[i]);
  }
  return is_guess;
}

/* Has the result an ellipsis? */
static bool has_dot(weft_str_t equation) {
  for (size_t i = equation.length; i > 0 && equation.data[i - 1] != '>'; i--) {
    if (equation.data[i - 1] == '.') return true;
  }
  return false;
}

/* Dims of the ellipsis broadcast; those of a letter are equal. */
static weft_status_t *join_dim(int label, int64_t mine, int64_t *dim) {
  if (label < WEFT_EINSUM_ELLIPSIS) return weft_shape_merge_dim(*dim, mine, dim);
  if (mine == 1) return NULL;
  if (*dim == 1 || (*dim == WEFT_UNKNOWN_DIM && mine != 1)) {
    *dim = mine;
    return NULL;
  }
  return mine == WEFT_UNKNOWN_DIM ? NULL : weft_infer_dim_is(mine, *dim);
}

weft_status_t *weft_infer_einsum(weft_shape_ctx_t *c) {
  int ranks[WEFT_EINSUM_OPERANDS] = {0};
  int64_t dims[WEFT_EINSUM_LABELS];
  weft_einsum_t e;
  weft_str_t equation = weft_infer_str(c, "equation");
  bool is_guess = ranks_of(c, equation, ranks);
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(equation, ranks, c->num_inputs, &e));
  for (int i = 0; i < WEFT_EINSUM_LABELS; i++) dims[i] = i < WEFT_EINSUM_ELLIPSIS ? WEFT_UNKNOWN_DIM : 1;
  for (int k = 0; k < c->num_inputs; k++) {
    for (int i = 0; i < e.in[k].n && c->inputs[k].rank >= 0; i++) {
      int label = e.in[k].labels[i];
      WEFT_RETURN_IF_ERROR(join_dim(label, c->inputs[k].dims[i], &dims[label]));
    }
  }
  if (is_guess && has_dot(equation)) return NULL;
  weft_shape_t out = WEFT_SCALAR;
  for (int i = 0; i < e.out.n; i++) WEFT_RETURN_IF_ERROR(weft_infer_push(&out, dims[e.out.labels[i]]));
  c->outputs[0] = out;
  return NULL;
}
