/* ops/cost.c - the list, and a formula for each kind.
 *
 * Numbers are doubles: a product of shapes may pass 2^63, and below 2^53 they are exact.
 *
 * Source: the statistics "flops" of TensorFlow 2.21's python/profiler/internal/flops_registry.py and
 * python/ops/nn_ops.py, restated; except that BatchMatMul's adj_x is seen, which TensorFlow looks for under
 * the name transpose_a.
 */
#include "ops/cost.h"

#include <stdlib.h>

#include "ops/chain.h"
#include "ops/einsum.h"
#include "ops/op_functions.h"

typedef struct cost_row {
  const char *op;
  weft_cost_kind_t kind;
  int a, b;
} cost_row_t;

static const cost_row_t rows[] = {
#define WEFT_COST(op, kind, a, b) {op, WEFT_COST_##kind, a, b},
#include "ops/cost.def"
#undef WEFT_COST
};

static int compare(const void *name, const void *row) { return strcmp(name, ((const cost_row_t *)row)->op); }

static const cost_row_t *find(const weft_op_def_t *op) {
  return bsearch(op->name.data, rows, sizeof rows / sizeof rows[0], sizeof rows[0], compare);
}

static bool is_elementwise(const weft_op_def_t *op) { return (op->flags & WEFT_OP_ELEMENTWISE) != 0; }
static bool is_chain(const weft_op_def_t *op) { return op->infer_shapes == weft_infer_chain; }

bool weft_op_has_cost(const weft_op_def_t *op) {
  const cost_row_t *row = find(op);
  return row != NULL ? row->kind != WEFT_COST_NONE : is_elementwise(op) || is_chain(op);
}

/* ---- shapes and attributes ---- */

static double product(const weft_shape_t *s, int begin, int end) {
  double n = 1;
  for (int i = begin; i < end; i++) n *= (double)s->dims[i];
  return n;
}

static double elements(const weft_shape_t *s) { return s == NULL ? 0 : product(s, 0, s->rank); }

/* NULL: it has no tensor, or one of fewer dimensions. */
static const weft_shape_t *shape_of(const weft_cost_inputs_t *in, int i, int min_rank) {
  const weft_shape_t *s = i < in->num_shapes && i < WEFT_COST_MAX_SHAPES ? in->shapes[i] : NULL;
  return s != NULL && s->rank >= min_rank ? s : NULL;
}

static const weft_attr_t *attr_of(const weft_cost_inputs_t *in, const char *name) {
  for (int i = 0; i < in->num_attrs; i++) {
    if (weft_str_is(in->attrs[i].name, name)) return &in->attrs[i].value;
  }
  return NULL;
}

static bool flag_of(const weft_cost_inputs_t *in, const char *name) {
  const weft_attr_t *a = attr_of(in, name);
  return a != NULL && a->kind == WEFT_ATTR_BOOL && !a->is_list && a->b;
}

/* The product of a list of numbers; 0 without it. */
static double product_of(const weft_cost_inputs_t *in, const char *name) {
  const weft_attr_t *a = attr_of(in, name);
  if (a == NULL || a->kind != WEFT_ATTR_INT || !a->is_list) return 0;
  double n = 1;
  for (int32_t i = 0; i < a->n; i++) n *= (double)a->list.ints[i];
  return n;
}

static double channels_of(const weft_cost_inputs_t *in, const weft_shape_t *image) {
  const weft_attr_t *a = attr_of(in, "data_format");
  bool is_first = a != NULL && a->kind == WEFT_ATTR_STRING && weft_str_starts_with(a->s, "NC");
  return (double)image->dims[is_first ? 1 : image->rank - 1];
}

/* ---- formulas ---- */

static weft_op_cost_t fixed(double n) { return (weft_op_cost_t){.is_known = true, .fixed = n}; }
static weft_op_cost_t per_output(double n) { return (weft_op_cost_t){.is_known = true, .per_output = n}; }
static weft_op_cost_t not_known(void) { return (weft_op_cost_t){.is_known = false}; }

static weft_op_cost_t matmul(const weft_cost_inputs_t *in, const char *transposed) {
  const weft_shape_t *a = shape_of(in, 0, 2);
  if (a == NULL) return not_known();
  return per_output(2 * (double)a->dims[a->rank - (flag_of(in, transposed) ? 2 : 1)]);
}

static int label_index(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  return c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* One multiplication, and one addition where something is summed over, for each combination of labels. */
static weft_op_cost_t einsum(const weft_cost_inputs_t *in) {
  const weft_attr_t *a = attr_of(in, "equation");
  double size[52] = {0};
  int input = 0, at = 0;
  if (a == NULL || a->kind != WEFT_ATTR_STRING) return not_known();
  for (size_t i = 0; i < a->s.length && a->s.data[i] != '-'; i++) {
    char c = a->s.data[i];
    int label = label_index(c);
    const weft_shape_t *s = shape_of(in, input, at + (label >= 0));
    if (c == ',') {
      input++;
      at = 0;
    } else if (label >= 0 && s != NULL) {
      size[label] = (double)s->dims[at++];
    } else if (c != ' ') {
      return not_known();
    }
  }
  double n = input == 0 ? 1 : 2;
  bool has_any = false;
  for (int i = 0; i < 52; i++) {
    if (size[i] > 0) n *= size[i];
    has_any = has_any || size[i] > 0;
  }
  return has_any ? fixed(n) : not_known();
}

static weft_op_cost_t conv(const weft_cost_inputs_t *in) {
  const weft_shape_t *filter = shape_of(in, 1, 3);
  return filter == NULL ? not_known() : per_output(2 * product(filter, 0, filter->rank - 1));
}

static weft_op_cost_t depthwise(const weft_cost_inputs_t *in) {
  const weft_shape_t *filter = shape_of(in, 1, 3);
  return filter == NULL ? not_known() : per_output(2 * product(filter, 0, 2));
}

static weft_op_cost_t conv_input_grad(const weft_cost_inputs_t *in) {
  const weft_shape_t *filter = shape_of(in, 1, 3);
  double strides = product_of(in, "strides");
  double depth = filter == NULL ? 0 : (double)filter->dims[filter->rank - 2];
  return strides <= 0 || depth <= 0 ? not_known() : per_output(2 * elements(filter) / (depth * strides));
}

static weft_op_cost_t conv_filter_grad(const weft_cost_inputs_t *in) {
  const weft_shape_t *image = shape_of(in, 0, 3);
  double strides = product_of(in, "strides"), depth = image == NULL ? 0 : channels_of(in, image);
  return strides <= 0 || depth <= 0 ? not_known() : per_output(2 * elements(image) / (depth * strides));
}

static weft_op_cost_t depthwise_in_grad(const weft_cost_inputs_t *in) {
  const weft_shape_t *filter = shape_of(in, 1, 2), *gradient = shape_of(in, 2, 0);
  if (filter == NULL || gradient == NULL) return not_known();
  return fixed(2 * elements(gradient) * product(filter, 0, 2));
}

static weft_op_cost_t depthwise_filter_grad(const weft_cost_inputs_t *in) {
  const weft_shape_t *gradient = shape_of(in, 2, 0);
  if (gradient == NULL) return not_known();
  return (weft_op_cost_t){.is_known = true, .is_by_window = true, .fixed = 2 * elements(gradient)};
}

static weft_op_cost_t pool(const weft_cost_inputs_t *in) {
  double window = product_of(in, "ksize");
  return window <= 0 ? not_known() : per_output(window);
}

static weft_op_cost_t pool_grad(const weft_cost_inputs_t *in, const cost_row_t *row) {
  double window = product_of(in, "ksize");
  const weft_shape_t *pooled = shape_of(in, 1, 0);
  return window <= 0 || pooled == NULL ? not_known() : fixed((row->a * window + row->b) * elements(pooled));
}

static weft_op_cost_t rows_cost(const weft_cost_inputs_t *in, const cost_row_t *row, int matrices,
                                double times) {
  const weft_shape_t *x = shape_of(in, row->a, 1);
  double n = 0;
  for (int i = 0; i < matrices; i++) {
    const weft_shape_t *w = shape_of(in, row->b + i, 2);
    if (w == NULL) return not_known();
    n += elements(w);
  }
  return x == NULL ? not_known() : fixed(2 * times * n * product(x, 0, x->rank - 1));
}

static weft_op_cost_t of_input(const weft_cost_inputs_t *in, int i, double each, double more) {
  const weft_shape_t *s = shape_of(in, i, 0);
  return s == NULL ? not_known() : fixed(each * elements(s) + more);
}

static weft_op_cost_t reduce(const weft_cost_inputs_t *in, const cost_row_t *row) {
  weft_op_cost_t c = of_input(in, 0, 1, 0);
  c.per_output = row->b - 1;
  return c;
}

/* The sum over the links; not known if that is so of one of them. */
static weft_op_cost_t chain(const weft_cost_inputs_t *in) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_chain_t c;
  weft_shape_t *values = NULL;
  double flops = 0;
  weft_status_t *s = weft_chain_read(&arena, in->attrs, in->num_attrs, &c);
  bool is_known = s == NULL && c.num_inputs <= in->num_shapes && c.num_inputs <= WEFT_COST_MAX_SHAPES;
  if (is_known) values = weft_arena_calloc(&arena, (size_t)weft_chain_num_values(&c), sizeof *values);
  is_known = values != NULL;
  for (int i = 0; is_known && i < c.num_inputs; i++) {
    is_known = in->shapes[i] != NULL;
    if (is_known) values[i] = *in->shapes[i];
  }
  if (is_known) {
    s = weft_chain_infer(&c, &arena, in->values, values);
    is_known = s == NULL;
  }
  for (int i = 0; is_known && i < c.num_links; i++) {
    const weft_chain_link_t *l = &c.links[i];
    const weft_shape_t *operands[WEFT_COST_MAX_SHAPES];
    const int n = l->num_operands < WEFT_COST_MAX_SHAPES ? l->num_operands : WEFT_COST_MAX_SHAPES;
    for (int k = 0; k < n; k++) operands[k] = &values[l->operands[k]];
    const weft_cost_inputs_t of = {.shapes = operands, .num_shapes = n, .num_inputs = l->num_operands};
    const weft_op_cost_t cost = weft_op_cost_begin(l->op, &of); /* a link is no chain */
    const int64_t link = weft_op_cost_end(&cost, &values[c.num_inputs + i]);
    is_known = link >= 0;
    flops += (double)link;
  }
  weft_status_free(s);
  weft_arena_deinit(&arena);
  return is_known ? fixed(flops) : not_known();
}

/* The chain reads the first product's scores in the place of its left operand. */
/* The scores of an attention whose products are BatchMatMuls, whose batches may be broadcast. */
static void scores_of(const weft_shape_t *q, bool turns_q, const weft_shape_t *k, bool turns_k,
                      weft_shape_t *out_scores, double *out_depth) {
  weft_shape_t scores = q->rank >= k->rank ? *q : *k;
  for (int d = 1; d <= scores.rank - 2; d++) {
    const int at = scores.rank - 2 - d;
    const int64_t a = d <= q->rank - 2 ? q->dims[q->rank - 2 - d] : 1,
                  b = d <= k->rank - 2 ? k->dims[k->rank - 2 - d] : 1;
    scores.dims[at] = a == 1 ? b : a;
  }
  scores.dims[scores.rank - 2] = q->dims[q->rank - (turns_q ? 1 : 2)];
  scores.dims[scores.rank - 1] = k->dims[k->rank - (turns_k ? 2 : 1)];
  *out_scores = scores;
  *out_depth = (double)q->dims[q->rank - (turns_q ? 2 : 1)];
}

/* An Einsum of two operands: whether its equation and shapes fit. */
static bool einsum_result(weft_str_t equation, const weft_shape_t *a, const weft_shape_t *b,
                          weft_shape_t *out, double *out_summed) {
  const weft_shape_t *const operands[2] = {a, b};
  weft_status_t *s = weft_einsum_result(equation, operands, 2, out, out_summed);
  const bool fits = s == NULL;
  weft_status_free(s);
  return fits;
}

static weft_op_cost_t attention(const weft_cost_inputs_t *in) {
  const weft_attr_t *input = attr_of(in, "scores"), *turns_q = attr_of(in, "adj_q"),
                    *turns_k = attr_of(in, "adj_k"), *equations = attr_of(in, "equations");
  const int n = in->num_inputs;
  if (input == NULL || turns_q == NULL || turns_k == NULL || n > in->num_shapes || n < 3 || input->i < 0 ||
      input->i >= n - 2)
    return not_known();
  const bool has_equations =
      equations != NULL && equations->is_list && equations->kind == WEFT_ATTR_STRING && equations->n == 2;
  const weft_str_t first = has_equations ? equations->list.strings[0] : WEFT_STR(""),
                   second = has_equations ? equations->list.strings[1] : WEFT_STR("");
  const weft_shape_t *q = shape_of(in, (int)input->i, 2), *k = shape_of(in, n - 2, 2),
                     *v = shape_of(in, n - 1, 2);
  weft_shape_t scores, result;
  double depth = 0, keys = 0;
  if (q == NULL || k == NULL) return not_known();
  if (first.length > 0) {
    if (!einsum_result(first, q, k, &scores, &depth)) return not_known();
  } else {
    scores_of(q, turns_q->b, k, turns_k->b, &scores, &depth);
  }
  keys = (double)scores.dims[scores.rank > 0 ? scores.rank - 1 : 0];
  if (second.length > 0 && (v == NULL || !einsum_result(second, &scores, v, &result, &keys)))
    return not_known();
  const weft_shape_t *shapes[WEFT_COST_MAX_SHAPES];
  for (int i = 0; i < n; i++) shapes[i] = i == input->i ? &scores : in->shapes[i];
  weft_cost_inputs_t between = *in;
  between.shapes = shapes;
  weft_op_cost_t cost = chain(&between);
  cost.fixed += 2 * depth * elements(&scores);
  cost.per_output = 2 * keys;
  return cost;
}

weft_op_cost_t weft_op_cost_begin(const weft_op_def_t *op, const weft_cost_inputs_t *in) {
  const cost_row_t *row = find(op);
  if (row == NULL) return is_chain(op) ? chain(in) : is_elementwise(op) ? per_output(1) : not_known();
  switch (row->kind) {
    case WEFT_COST_NONE: return fixed(0);
    case WEFT_COST_INPUT: return of_input(in, row->a, row->b, 0);
    case WEFT_COST_OUTPUT: return per_output(row->b);
    case WEFT_COST_REDUCE: return reduce(in, row);
    case WEFT_COST_SUM: return of_input(in, 0, in->num_inputs - 1, 0);
    case WEFT_COST_L2_LOSS: return of_input(in, 0, 3, -1);
    case WEFT_COST_MATMUL: return matmul(in, "transpose_a");
    case WEFT_COST_ATTENTION: return attention(in);
    case WEFT_COST_BATCH_MATMUL: return matmul(in, "adj_x");
    case WEFT_COST_EINSUM: return einsum(in);
    case WEFT_COST_ROWS: return rows_cost(in, row, 1, 1);
    case WEFT_COST_ROWS_PAIR: return rows_cost(in, row, 2, 1);
    case WEFT_COST_ROWS_TWICE: return rows_cost(in, row, 1, 2);
    case WEFT_COST_CONV: return conv(in);
    case WEFT_COST_DEPTHWISE: return depthwise(in);
    case WEFT_COST_CONV_INPUT_GRAD: return conv_input_grad(in);
    case WEFT_COST_CONV_FILTER_GRAD: return conv_filter_grad(in);
    case WEFT_COST_DEPTHWISE_IN_GRAD: return depthwise_in_grad(in);
    case WEFT_COST_DEPTHWISE_FILTER_GRAD: return depthwise_filter_grad(in);
    case WEFT_COST_POOL: return pool(in);
    case WEFT_COST_POOL_GRAD: return pool_grad(in, row);
  }
  return not_known();
}

int64_t weft_op_cost_end(const weft_op_cost_t *c, const weft_shape_t *output) {
  if (!c->is_known || (output == NULL && c->per_output != 0)) return -1;
  double n = c->fixed + c->per_output * elements(output);
  if (c->is_by_window) {
    if (output == NULL || output->rank < 2) return -1;
    n = c->fixed * product(output, 0, 2);
  }
  if (n < 0) n = 0; /* a sum of nothing */
  return n < 9e18 ? (int64_t)n : -1;
}
