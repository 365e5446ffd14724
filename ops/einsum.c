/* ops/einsum.c - parsing the equation of an Einsum, and the shape of what comes out. */
#include "ops/einsum.h"

#include "ops/infer.h"

static weft_status_t *malformed(weft_str_t equation, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Einsum equation '%.*s': %s", WEFT_STR_ARGS(equation), why);
}

static int label_of(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  return c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* Letters of `text`, and where its ellipsis is (-1: it has none). */
static weft_status_t *read_term(weft_str_t equation, weft_str_t text, weft_einsum_term_t *t, int *ellipsis) {
  *t = (weft_einsum_term_t){0};
  *ellipsis = -1;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] == ' ') continue;
    if (text.data[i] == '.') {
      bool is_one =
          i + 2 < text.length && text.data[i + 1] == '.' && text.data[i + 2] == '.' && *ellipsis < 0;
      if (!is_one) return malformed(equation, "an ellipsis is '...', once in each term");
      *ellipsis = t->n;
      i += 2;
      continue;
    }
    int label = label_of(text.data[i]);
    if (label < 0) return malformed(equation, "labels are letters");
    if (t->n == WEFT_MAX_DIMS) return malformed(equation, "too many dimensions");
    t->labels[t->n++] = label;
  }
  return NULL;
}

/* Puts `n` dimensions for the ellipsis. */
static weft_status_t *expand(weft_str_t equation, weft_einsum_term_t *t, int at, int n) {
  if (n < 0) return malformed(equation, "a term has more labels than its operand has dimensions");
  if (t->n + n > WEFT_MAX_DIMS) return malformed(equation, "too many dimensions");
  memmove(t->labels + at + n, t->labels + at, (size_t)(t->n - at) * sizeof t->labels[0]);
  for (int i = 0; i < n; i++) t->labels[at + i] = WEFT_EINSUM_ELLIPSIS + n - 1 - i;
  t->n += n;
  return NULL;
}

static bool has_label(const weft_einsum_term_t *t, int label) {
  for (int i = 0; i < t->n; i++) {
    if (t->labels[i] == label) return true;
  }
  return false;
}

weft_status_t *weft_einsum_parse(weft_str_t equation, const int *ranks, int num_operands,
                                 weft_einsum_t *out) {
  *out = (weft_einsum_t){.num_operands = num_operands};
  weft_str_t rest = equation, term, result;
  int at, most = 0;
  size_t arrow = 0;
  while (arrow + 1 < equation.length && !(equation.data[arrow] == '-' && equation.data[arrow + 1] == '>'))
    arrow++;
  if (arrow + 1 >= equation.length) return malformed(equation, "there is no '->'");
  result = weft_str_of(equation.data + arrow + 2, equation.length - arrow - 2);
  rest = weft_str_of(equation.data, arrow);
  if (num_operands < 1 || num_operands > WEFT_EINSUM_OPERANDS)
    return malformed(equation, "it takes one or two operands");
  for (int i = 0; i < num_operands; i++) {
    bool is_last = !weft_str_split(rest, ',', &term, &rest);
    if (is_last) term = rest;
    if (is_last != (i == num_operands - 1))
      return malformed(equation, "the number of terms is not that of the operands");
    WEFT_RETURN_IF_ERROR(read_term(equation, term, &out->in[i], &at));
    int more = ranks[i] - out->in[i].n;
    if (at < 0 && more != 0)
      return malformed(equation, "a term has not as many labels as its operand has dimensions");
    if (at >= 0) WEFT_RETURN_IF_ERROR(expand(equation, &out->in[i], at, more));
    if (at >= 0 && more > most) most = more;
  }
  WEFT_RETURN_IF_ERROR(read_term(equation, result, &out->out, &at));
  if (at >= 0) WEFT_RETURN_IF_ERROR(expand(equation, &out->out, at, most));
  for (int i = 0; i < out->out.n; i++) {
    bool is_known = false;
    for (int k = 0; k < num_operands; k++) is_known = is_known || has_label(&out->in[k], out->out.labels[i]);
    if (!is_known) return malformed(equation, "a label of the output is in no operand");
  }
  return NULL;
}

/* Ranks of the operands; where one is not known, as many dimensions as its term has letters. Returns whether
 * such a term has an ellipsis, too, so that the ranks are a guess. */
static bool ranks_of(const weft_shape_ctx_t *c, weft_str_t equation, int *ranks) {
  int letters[WEFT_EINSUM_OPERANDS + 1] = {0}, operand = 0;
  bool has_ellipsis[WEFT_EINSUM_OPERANDS + 1] = {false}, is_guess = false;
  for (size_t i = 0; i < equation.length && equation.data[i] != '-' && operand < WEFT_EINSUM_OPERANDS; i++) {
    if (equation.data[i] == ',') operand++;
    if (equation.data[i] == '.') has_ellipsis[operand] = true;
    if (label_of(equation.data[i]) >= 0) letters[operand]++;
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
