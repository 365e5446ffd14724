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

weft_status_t *weft_infer_einsum(weft_shape_ctx_t *c) {
  int ranks[WEFT_EINSUM_OPERANDS] = {0};
  int64_t dims[WEFT_EINSUM_LABELS];
  weft_einsum_t e;
  int n = c->num_inputs;
  for (int i = 0; i < n && i < WEFT_EINSUM_OPERANDS; i++) {
    ranks[i] = c->inputs[i].rank;
    if (ranks[i] < 0) return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(weft_infer_str(c, "equation"), ranks, n, &e));
  for (int i = 0; i < WEFT_EINSUM_LABELS; i++) dims[i] = 1;
  for (int k = 0; k < n; k++) {
    for (int i = 0; i < e.in[k].n; i++) {
      int64_t *dim = &dims[e.in[k].labels[i]], mine = c->inputs[k].dims[i];
      if (*dim == 1 || (*dim == WEFT_UNKNOWN_DIM && mine != 1)) *dim = mine;
    }
  }
  weft_shape_t out = WEFT_SCALAR;
  for (int i = 0; i < e.out.n; i++) WEFT_RETURN_IF_ERROR(weft_infer_push(&out, dims[e.out.labels[i]]));
  c->outputs[0] = out;
  return NULL;
}
