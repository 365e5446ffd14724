/* ops/einsum.c - parsing the equation of an Einsum, and the groups of its labels. */
#include "ops/einsum.h"

#include <string.h>

static weft_status_t *malformed(weft_str_t equation, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Einsum equation '%.*s': %s", WEFT_STR_ARGS(equation), why);
}

int weft_einsum_label(char c) {
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
    int label = weft_einsum_label(text.data[i]);
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

bool weft_einsum_has(const weft_einsum_term_t *t, int label) {
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
    for (int k = 0; k < num_operands; k++)
      is_known = is_known || weft_einsum_has(&out->in[k], out->out.labels[i]);
    if (!is_known) return malformed(equation, "a label of the output is in no operand");
  }
  return NULL;
}

weft_status_t *weft_einsum_dims(const weft_einsum_t *e, const weft_shape_t *const *shapes,
                                int64_t out[WEFT_EINSUM_LABELS]) {
  for (int l = 0; l < WEFT_EINSUM_LABELS; l++) out[l] = 1;
  for (int k = 0; k < e->num_operands; k++) {
    for (int i = 0; i < e->in[k].n; i++) {
      const int label = e->in[k].labels[i];
      const int64_t mine = shapes[k]->dims[i];
      const bool broadcasts = label >= WEFT_EINSUM_ELLIPSIS && (mine == 1 || out[label] == 1);
      bool is_first = true;
      for (int j = 0; j < k; j++) is_first = is_first && !weft_einsum_has(&e->in[j], label);
      for (int j = 0; j < i; j++) is_first = is_first && e->in[k].labels[j] != label;
      if (!is_first && !broadcasts && mine != out[label]) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Expected dimension %lld at axis %d of the input shaped %s but got dimension %lld",
                          (long long)out[label], i, WEFT_SHAPE_TEXT(shapes[k]), (long long)mine);
      }
      if (is_first || mine != 1) out[label] = mine;
    }
  }
  return NULL;
}

weft_status_t *weft_einsum_result(weft_str_t equation, const weft_shape_t *const *shapes, int num_operands,
                                  weft_shape_t *out_shape, double *out_summed) {
  weft_einsum_t e;
  int ranks[WEFT_EINSUM_OPERANDS] = {0};
  int64_t dims[WEFT_EINSUM_LABELS];
  for (int i = 0; i < num_operands && i < WEFT_EINSUM_OPERANDS; i++) ranks[i] = shapes[i]->rank;
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(equation, ranks, num_operands, &e));
  WEFT_RETURN_IF_ERROR(weft_einsum_dims(&e, shapes, dims));
  *out_shape = (weft_shape_t){.rank = e.out.n};
  *out_summed = 1;
  for (int i = 0; i < e.out.n; i++) out_shape->dims[i] = dims[e.out.labels[i]];
  for (int l = 0; l < WEFT_EINSUM_LABELS; l++) {
    const bool is_in = weft_einsum_has(&e.in[0], l) || (num_operands > 1 && weft_einsum_has(&e.in[1], l));
    if (is_in && !weft_einsum_has(&e.out, l)) *out_summed *= (double)dims[l];
  }
  return NULL;
}
