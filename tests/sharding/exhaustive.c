/* tests/sharding/exhaustive.c - the axes of a mesh are a recursion: the first splits the inputs, and joins
 * what the second computes of the parts. */
#include "tests/sharding/exhaustive.h"

#include <math.h>
#include <stdio.h>

#include "sharding/rule.h"
#include "tests/sharding/parts.h"

enum { MAX_TENSORS = 20, MAX_AXES = 2, PARTS = 2 };

typedef struct tensors {
  weft_tensor_t *t[MAX_TENSORS];
  int n;
} tensors_t;

typedef struct level {
  weft_rule_choice_t choice;
  bool is_uneven;
} level_t;

typedef struct computation {
  weft_harness_t *h;
  const tensors_t *whole; /* the inputs, not split */
  weft_rule_t rule;
  level_t levels[MAX_AXES];
  int num_levels;
  const char *wrong; /* why parts cannot be joined; NULL: they can */
} computation_t;

static void release(tensors_t *x) {
  for (int i = 0; i < x->n; i++) weft_tensor_release(x->t[i]);
  *x = (tensors_t){0};
}

/* Two terms of a sum. */
static void split_terms(const weft_tensor_t *x, weft_tensor_t *out[PARTS]) {
  out[0] = weft_parts_copy(x);
  out[1] = weft_parts_copy(x);
  for (int64_t i = 0; i < x->count; i++) {
    bool is_complex = x->dtype == WEFT_C64 || x->dtype == WEFT_C128;
    double re = weft_tensor_number(x, i, false), im = is_complex ? weft_tensor_number(x, i, true) : 0;
    double a = weft_parts_has_fractions(x->dtype) ? weft_parts_random() * 4 - 2
                                                  : floor(weft_parts_random() * 4),
           b = weft_parts_random();
    weft_parts_set(out[0], i, a, b);
    weft_parts_set(out[1], i, re - a, im - b);
  }
}

/* ---- one choice ---- */

static int64_t extent_of(const weft_factor_operand_t *operand, const weft_tensor_t *t, int dim) {
  return operand->is_sizes ? (int64_t)weft_tensor_number(t, dim, false) : t->shape.dims[dim];
}

/* How many units the factor has in these inputs, which may be parts: an input that is k times as long as its
 * factor has k elements for each. */
static int64_t units_of(const computation_t *c, const tensors_t *in, int factor) {
  for (int i = 0; i < in->n; i++) {
    const weft_factor_operand_t *operand = &c->rule.factors.inputs[i];
    int dim = weft_factor_dim(operand, factor);
    if (dim < 0 || extent_of(operand, c->whole->t[i], dim) < 0) continue;
    int64_t multiple = extent_of(operand, c->whole->t[i], dim) / c->rule.factors.factors[factor].size;
    return extent_of(operand, in->t[i], dim) / multiple;
  }
  return 0;
}

/* The part [begin, end) of `units` of one input. */
static weft_tensor_t *input_part(const computation_t *c, const tensors_t *in, int i, int factor,
                                 int64_t units, int64_t begin, int64_t end) {
  const weft_factor_operand_t *operand = &c->rule.factors.inputs[i];
  int dim = weft_factor_dim(operand, factor);
  if (dim < 0) return weft_tensor_retain(in->t[i]);
  if (operand->is_sizes) {
    weft_tensor_t *sizes = weft_parts_copy(in->t[i]);
    double size = weft_tensor_number(sizes, dim, false);
    if (size >= 0) weft_parts_set(sizes, dim, size / (double)units * (double)(end - begin), 0);
    return sizes;
  }
  int64_t multiple = in->t[i]->shape.dims[dim] / units;
  return weft_parts_slice(in->t[i], dim, begin * multiple, end * multiple);
}

static weft_status_t *compute(computation_t *c, int depth, const tensors_t *in, tensors_t *out);

/* What device `part` of this axis computes. */
static weft_status_t *compute_part(computation_t *c, int depth, const tensors_t *in,
                                   weft_tensor_t *terms[MAX_TENSORS][PARTS], int part, tensors_t *out) {
  const level_t *level = &c->levels[depth];
  bool is_factor = level->choice.kind == WEFT_RULE_FACTOR;
  int factor = level->choice.index;
  int64_t units = is_factor ? units_of(c, in, factor) : 0;
  int64_t cut = level->is_uneven ? (2 * units + 2) / 3 : units / 2;
  int64_t begin = part == 0 ? 0 : cut, end = part == 0 ? cut : units;
  bool is_masked = is_factor && c->rule.factors.factors[factor].is_masked;
  tensors_t mine = {.n = in->n};
  for (int i = 0; i < in->n; i++) {
    if (terms[i][part] != NULL)
      mine.t[i] = weft_tensor_retain(terms[i][part]);
    else if (is_masked && i == 1)
      mine.t[i] = weft_parts_shift_indices(in->t[i], begin, end);
    else if (is_factor)
      mine.t[i] = input_part(c, in, i, factor, units, begin, end);
    else
      mine.t[i] = weft_tensor_retain(in->t[i]);
  }
  weft_status_t *s = compute(c, depth + 1, &mine, out);
  if (s == NULL && is_masked) {
    weft_parts_mask(&c->rule.factors.inputs[1], &c->rule.factors.outputs[0], in->t[1], begin, end, out->t[0]);
  }
  release(&mine);
  return s;
}

static weft_tensor_t *join(computation_t *c, const weft_axis_sharding_t *how, weft_tensor_t *const *parts) {
  weft_tensor_t *whole = NULL;
  if (how->kind == WEFT_SHARDING_SHARD) {
    whole = weft_parts_join(parts, PARTS, how->dim);
  } else if (how->kind == WEFT_SHARDING_PARTIAL) {
    whole = weft_parts_reduce(parts, PARTS, how->partial);
  } else {
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    bool are_same = weft_tensor_close(parts[0], parts[1], 1e-9, &why);
    weft_strbuf_deinit(&why);
    if (!are_same) c->wrong = "copies differ";
    return weft_tensor_retain(parts[0]);
  }
  if (whole == NULL) c->wrong = "parts do not fit";
  return whole == NULL ? weft_tensor_retain(parts[0]) : whole;
}

static weft_status_t *compute(computation_t *c, int depth, const tensors_t *in, tensors_t *out) {
  if (depth == c->num_levels) {
    out->n = weft_harness_num_outputs(c->h);
    weft_status_t *s = weft_harness_run(c->h, in->t, out->t);
    if (s != NULL) *out = (tensors_t){0};
    return s;
  }
  weft_axis_sharding_t inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  weft_tensor_t *terms[MAX_TENSORS][PARTS] = {{NULL}};
  tensors_t parts[PARTS] = {{.n = 0}};
  weft_status_t *s = NULL;
  weft_rule_apply(&c->rule, c->levels[depth].choice, inputs, outputs);
  for (int i = 0; i < in->n; i++) {
    if (inputs[i].kind == WEFT_SHARDING_PARTIAL) split_terms(in->t[i], terms[i]);
  }
  for (int part = 0; s == NULL && part < PARTS; part++)
    s = compute_part(c, depth, in, terms, part, &parts[part]);
  for (int i = 0; s == NULL && i < parts[0].n; i++) {
    weft_tensor_t *pair[PARTS] = {parts[0].t[i], parts[1].t[i]};
    out->t[out->n++] = join(c, &outputs[i], pair);
  }
  for (int i = 0; i < MAX_TENSORS * PARTS; i++) weft_tensor_release(terms[i / PARTS][i % PARTS]);
  for (int part = 0; part < PARTS; part++) release(&parts[part]);
  return s;
}

/* ---- all choices of a case ---- */

static double tolerance_of(const weft_tensor_t *t) {
  return t->dtype == WEFT_F32 || t->dtype == WEFT_C64 ? 2e-4 : 1e-9;
}

static void describe(const computation_t *c, const char *attrs, const char *why) {
  fprintf(stderr, "%.*s (%s) by \"%s\":", WEFT_STR_ARGS(c->rule.op->name), attrs == NULL ? "" : attrs,
          c->rule.text);
  for (int i = 0; i < c->num_levels; i++) {
    static const char *const kinds[] = {"replicate", "factor", "linear in", "linear together"};
    weft_rule_choice_t choice = c->levels[i].choice;
    fprintf(stderr, " %s %d%s", kinds[choice.kind], choice.index, c->levels[i].is_uneven ? " (uneven)" : "");
  }
  fprintf(stderr, ": %s\n", why);
}

static void check(computation_t *c, const char *attrs, const tensors_t *in, const tensors_t *whole,
                  bool is_silent, weft_rule_count_t *count) {
  tensors_t out = {.n = 0};
  weft_strbuf_t why = WEFT_STRBUF_INIT;
  c->wrong = NULL;
  weft_status_t *s = compute(c, 0, in, &out);
  bool ok = s == NULL && c->wrong == NULL && out.n == whole->n;
  for (int i = 0; ok && i < whole->n; i++) {
    ok = weft_tensor_close(out.t[i], whole->t[i], tolerance_of(whole->t[i]), &why);
  }
  count->choices++;
  for (int i = 0; i < c->num_levels; i++) count->factors += c->levels[i].choice.kind == WEFT_RULE_FACTOR;
  count->failures += !ok;
  if (!ok && !is_silent) {
    describe(c, attrs, s != NULL ? weft_status_message(s) : c->wrong != NULL ? c->wrong : why.data);
  }
  weft_strbuf_deinit(&why);
  weft_status_free(s);
  release(&out);
}

/* May this choice be taken of these inputs: terms need numbers; integer quotients are linear in nothing. */
static bool is_testable(const computation_t *c, weft_rule_choice_t choice, const tensors_t *in) {
  if (choice.kind == WEFT_RULE_FACTOR) return true;
  weft_axis_sharding_t inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  weft_rule_apply(&c->rule, choice, inputs, outputs);
  for (int i = 0; i < in->n; i++) {
    if (inputs[i].kind == WEFT_SHARDING_PARTIAL && !weft_parts_has_fractions(in->t[i]->dtype)) return false;
  }
  return choice.kind != WEFT_RULE_REPLICATE;
}

static void check_all(computation_t *c, const char *attrs, const tensors_t *in, const tensors_t *whole,
                      bool is_silent, weft_rule_count_t *count) {
  weft_rule_choice_t choices[WEFT_RULE_CHOICES];
  int n = weft_rule_choices(&c->rule, 1, choices); /* any size; each axis then sees to it */
  for (int i = 0; i < n; i++) {
    if (!is_testable(c, choices[i], in)) continue;
    bool is_factor = choices[i].kind == WEFT_RULE_FACTOR;
    int64_t extent = is_factor ? c->rule.factors.factors[choices[i].index].size : 4;
    c->num_levels = 1;
    c->levels[0] = (level_t){choices[i], false};
    count->dims += is_factor && extent % PARTS == 0;
    if (extent % PARTS == 0) check(c, attrs, in, whole, is_silent, count);
    c->levels[0].is_uneven = true;
    bool can_be = is_factor && extent >= 3 && !weft_factor_is_even(&c->rule.factors, choices[i].index);
    if (can_be) check(c, attrs, in, whole, is_silent, count);
    for (int k = 0; k < n; k++) {
      if (!is_testable(c, choices[k], in)) continue;
      bool is_second = choices[k].kind == WEFT_RULE_FACTOR;
      int64_t second = is_second ? c->rule.factors.factors[choices[k].index].size : 4;
      bool is_one = is_factor && is_second && choices[i].index == choices[k].index;
      if (extent % PARTS != 0 || second % PARTS != 0 || (is_one && second % (PARTS * PARTS) != 0)) continue;
      c->num_levels = 2;
      c->levels[0] = (level_t){choices[i], false};
      c->levels[1] = (level_t){choices[k], false};
      check(c, attrs, in, whole, is_silent, count);
    }
  }
}

static weft_status_t *parse_inputs(const char *text, tensors_t *out) {
  weft_str_t rest = weft_str(text), word;
  for (bool more = rest.length > 0; more && out->n < MAX_TENSORS;) {
    word = rest;
    more = weft_str_split(rest, ' ', &word, &rest);
    WEFT_RETURN_IF_ERROR(weft_parts_draw(word, &out->t[out->n]));
    out->n++;
  }
  return NULL;
}

/* The rule for these inputs; outputs are those of the whole. */
static weft_status_t *make_rule(const weft_harness_t *h, const tensors_t *in, const tensors_t *whole,
                                const weft_rule_mutation_t *mutation, weft_op_def_t *op, weft_arena_t *arena,
                                weft_rule_t *out) {
  const weft_kernel_setup_t *setup = weft_harness_setup(h);
  const weft_kernel_node_t *node = &setup->node;
  weft_shape_t shapes[2][MAX_TENSORS];
  const weft_tensor_t *values[MAX_TENSORS];
  for (int i = 0; i < in->n; i++) {
    shapes[0][i] = in->t[i]->shape;
    values[i] = in->t[i];
  }
  for (int i = 0; i < whole->n; i++) shapes[1][i] = whole->t[i]->shape;
  *op = *node->op;
  if (mutation != NULL) op->flags |= mutation->flags;
  weft_shape_ctx_t c = {.op = op,
                        .node_name = node->name,
                        .attrs = setup->attrs,
                        .num_attrs = setup->num_attrs,
                        .num_inputs = in->n,
                        .num_outputs = whole->n,
                        .input_types = node->input_types,
                        .output_types = node->output_types,
                        .inputs = shapes[0],
                        .values = values,
                        .outputs = shapes[1]};
  const char *text = mutation == NULL ? NULL : mutation->text;
  if (text == NULL) WEFT_RETURN_IF_ERROR(weft_rule_text(&c, arena, &text));
  return weft_rule_make(&c, text, arena, out);
}

/* A case, its inputs drawn, its outputs computed, and its rule. */
typedef struct setting {
  computation_t c;
  tensors_t in, whole;
  weft_arena_t arena;
  weft_op_def_t op;
} setting_t;

static weft_status_t *set_up(weft_bench_t *b, const char *op, const char *attrs, const char *inputs,
                             const weft_rule_mutation_t *mutation, setting_t *s) {
  int types[MAX_TENSORS];
  s->c.whole = &s->in;
  WEFT_RETURN_IF_ERROR(parse_inputs(inputs, &s->in));
  for (int i = 0; i < s->in.n; i++) types[i] = s->in.t[i]->dtype;
  WEFT_RETURN_IF_ERROR(weft_harness_create(b, op, attrs, types, s->in.n, &s->c.h));
  WEFT_RETURN_IF_ERROR(weft_harness_run(s->c.h, s->in.t, s->whole.t));
  s->whole.n = weft_harness_num_outputs(s->c.h);
  return make_rule(s->c.h, &s->in, &s->whole, mutation, &s->op, &s->arena, &s->c.rule);
}

static void tear_down(setting_t *s) {
  release(&s->in);
  release(&s->whole);
  weft_harness_destroy(s->c.h);
  weft_arena_deinit(&s->arena);
}

weft_status_t *weft_rule_compute(weft_bench_t *b, const char *op, const char *attrs, const char *inputs,
                                 const weft_rule_mutation_t *mutation, weft_rule_count_t *count) {
  setting_t setting = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = set_up(b, op, attrs, inputs, mutation, &setting);
  if (s == NULL) check_all(&setting.c, attrs, &setting.in, &setting.whole, mutation != NULL, count);
  tear_down(&setting);
  return weft_status_annotate(s, "%s (%s) of %s", op, attrs == NULL ? "" : attrs, inputs);
}

static void print_signature(const weft_axis_sharding_t *s, int n, weft_strbuf_t *out) {
  static const char partials[] = {[WEFT_PARTIAL_SUM] = 'P',
                                  [WEFT_PARTIAL_MIN] = 'N',
                                  [WEFT_PARTIAL_MAX] = 'X',
                                  [WEFT_PARTIAL_MEAN] = 'M',
                                  [WEFT_PARTIAL_PROD] = 'R'};
  for (int i = 0; i < n; i++) {
    bool is_shard = s[i].kind == WEFT_SHARDING_SHARD, is_partial = s[i].kind == WEFT_SHARDING_PARTIAL;
    weft_strbuf_putc(out, is_shard ? (char)('0' + s[i].dim) : is_partial ? partials[s[i].partial] : '.');
  }
}

weft_status_t *weft_rule_signatures(weft_bench_t *b, const char *op, const char *attrs, const char *inputs,
                                    weft_strbuf_t *notation, weft_strbuf_t *out) {
  setting_t setting = {.arena = WEFT_ARENA_INIT};
  weft_rule_choice_t choices[WEFT_RULE_CHOICES];
  weft_status_t *s = set_up(b, op, attrs, inputs, NULL, &setting);
  int n = s == NULL ? weft_rule_choices(&setting.c.rule, PARTS, choices) : 0;
  if (s == NULL) weft_strbuf_puts(notation, setting.c.rule.text);
  for (int i = 0; i < n; i++) {
    weft_axis_sharding_t in[MAX_TENSORS], made[MAX_TENSORS];
    if (choices[i].kind == WEFT_RULE_REPLICATE) continue;
    weft_rule_apply(&setting.c.rule, choices[i], in, made);
    if (i > 1) weft_strbuf_putc(out, ' ');
    print_signature(in, setting.in.n, out);
    weft_strbuf_putc(out, '>');
    print_signature(made, setting.whole.n, out);
  }
  tear_down(&setting);
  return s;
}
