/* sharding/rule.c - from factor notation to shardings of inputs and outputs. */
#include "sharding/rule.h"

#include <math.h>

/* What an elementwise op without notation of its own has: "...,...->...". */
static void elementwise_text(const weft_op_def_t *op, weft_strbuf_t *out) {
  for (int i = 0; i < op->num_inputs; i++) {
    weft_arg_kind_t kind = op->inputs[i].kind;
    bool repeats = kind == WEFT_ARG_REPEATED || kind == WEFT_ARG_TYPE_LIST;
    weft_strbuf_printf(out, "%s...%s", i > 0 ? "," : "", repeats ? "*" : "");
  }
  for (int i = 0; i < op->num_outputs; i++) weft_strbuf_puts(out, i > 0 ? ",..." : "->...");
}

weft_status_t *weft_rule_text(const weft_shape_ctx_t *c, weft_arena_t *arena, const char **out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  bool has = true;
  if (c->op->sharding != NULL)
    weft_strbuf_puts(&text, c->op->sharding);
  else if (c->op->shard != NULL)
    has = c->op->shard(c, &text);
  else if ((c->op->flags & WEFT_OP_ELEMENTWISE) != 0)
    elementwise_text(c->op, &text);
  weft_str_t copy = weft_arena_str(arena, has ? weft_str_of(text.data, text.length) : WEFT_STR(""));
  bool failed = text.failed || copy.data == NULL;
  weft_strbuf_deinit(&text);
  if (failed) return WEFT_NO_MEMORY("a sharding rule");
  *out = copy.data;
  return NULL;
}

/* By flat input: is it part of linear_together, whose bits are arguments of the signature? */
static weft_status_t *find_together(const weft_shape_ctx_t *c, weft_arena_t *arena, bool **out) {
  int mask = c->op->linear_together;
  if (mask == 0) return NULL;
  bool *is_together = weft_arena_calloc(arena, (size_t)c->num_inputs + 1, sizeof *is_together);
  if (is_together == NULL) return WEFT_NO_MEMORY("a sharding rule");
  int extra = c->num_inputs - c->op->num_inputs, flat = 0;
  for (int i = 0; i < c->op->num_inputs; i++) {
    weft_arg_kind_t kind = c->op->inputs[i].kind;
    int n = kind == WEFT_ARG_REPEATED || kind == WEFT_ARG_TYPE_LIST ? 1 + extra : 1;
    for (int k = 0; k < n && flat < c->num_inputs; k++) is_together[flat++] = (mask >> i & 1) != 0;
  }
  *out = is_together;
  return NULL;
}

/* 0: the dtype is not known. */
static size_t element_bytes(int dtype) {
  size_t bytes = weft_dtype_size(weft_dtype_base(dtype));
  return bytes == 0 ? sizeof(float) : bytes;
}

static weft_status_t *find_operands(const weft_shape_ctx_t *c, weft_arena_t *arena, weft_rule_t *rule) {
  rule->inputs = weft_arena_calloc(arena, (size_t)c->num_inputs + 1, sizeof *rule->inputs);
  rule->outputs = weft_arena_calloc(arena, (size_t)c->num_outputs + 1, sizeof *rule->outputs);
  if (rule->inputs == NULL || rule->outputs == NULL) return WEFT_NO_MEMORY("a sharding rule");
  for (int i = 0; i < c->num_inputs; i++) {
    bool is_handle = c->input_types[i] == WEFT_RESOURCE && c->handles != NULL;
    rule->inputs[i].shape = is_handle ? c->handles[i].shape : c->inputs[i];
    rule->inputs[i].element_bytes = element_bytes(is_handle ? c->handles[i].dtype : c->input_types[i]);
  }
  for (int i = 0; i < c->num_outputs; i++) {
    rule->outputs[i] =
        (weft_rule_operand_t){c->outputs[i], element_bytes(c->output_types == NULL ? 0 : c->output_types[i])};
  }
  return NULL;
}

weft_status_t *weft_rule_make(const weft_shape_ctx_t *c, const char *text, weft_arena_t *arena,
                              weft_rule_t *out) {
  weft_rule_t rule = {.op = c->op, .text = text, .num_inputs = c->num_inputs, .num_outputs = c->num_outputs};
  WEFT_RETURN_IF_ERROR(find_operands(c, arena, &rule));
  if (text[0] != '\0') {
    weft_shape_t *inputs = weft_arena_calloc(arena, (size_t)c->num_inputs + 1, sizeof *inputs);
    if (inputs == NULL) return WEFT_NO_MEMORY("a sharding rule");
    for (int i = 0; i < c->num_inputs; i++) inputs[i] = rule.inputs[i].shape;
    weft_factor_shapes_t shapes = {inputs, c->outputs, c->num_inputs, c->num_outputs, .broadcasts = true};
    WEFT_RETURN_IF_ERROR(weft_factors_make(text, &shapes, arena, &rule.factors));
  }
  for (int i = 0; i < WEFT_OP_MAX_LINEAR && i < c->num_inputs; i++) {
    if ((c->op->flags & WEFT_OP_LINEAR_IN(i)) != 0) rule.linear |= 1 << i;
  }
  WEFT_RETURN_IF_ERROR(find_together(c, arena, &rule.is_together));
  *out = rule;
  return NULL;
}

int weft_rule_choices(const weft_rule_t *rule, int size, weft_rule_choice_t out[WEFT_RULE_CHOICES]) {
  int n = 0;
  out[n++] = (weft_rule_choice_t){WEFT_RULE_REPLICATE, 0};
  for (int f = 0; f < WEFT_FACTORS; f++) {
    int64_t extent = rule->factors.factors[f].size;
    if (!weft_factor_splits(&rule->factors, f) || extent <= 0 || extent % size != 0) continue;
    out[n++] = (weft_rule_choice_t){WEFT_RULE_FACTOR, f};
  }
  for (int i = 0; i < WEFT_OP_MAX_LINEAR; i++) {
    if ((rule->linear >> i & 1) != 0) out[n++] = (weft_rule_choice_t){WEFT_RULE_LINEAR, i};
  }
  if (rule->is_together != NULL) out[n++] = (weft_rule_choice_t){WEFT_RULE_TOGETHER, 0};
  return n;
}

static weft_partial_kind_t partial_of(weft_factor_reduction_t reduction) {
  switch (reduction) {
    case WEFT_FACTOR_MIN: return WEFT_PARTIAL_MIN;
    case WEFT_FACTOR_MAX: return WEFT_PARTIAL_MAX;
    case WEFT_FACTOR_MEAN: return WEFT_PARTIAL_MEAN;
    case WEFT_FACTOR_PROD: return WEFT_PARTIAL_PROD;
    default: return WEFT_PARTIAL_SUM;
  }
}

static weft_axis_sharding_t of_factor(const weft_factor_operand_t *operand, int factor) {
  int dim = operand->is_sizes ? -1 : weft_factor_dim(operand, factor);
  return dim < 0 ? weft_sharding_replicate(0) : weft_sharding_shard(dim, 0);
}

void weft_rule_apply(const weft_rule_t *rule, weft_rule_choice_t choice, weft_axis_sharding_t *inputs,
                     weft_axis_sharding_t *outputs) {
  const weft_factors_t *f = &rule->factors;
  bool is_factor = choice.kind == WEFT_RULE_FACTOR;
  for (int i = 0; i < rule->num_inputs; i++) {
    bool is_partial = (choice.kind == WEFT_RULE_LINEAR && i == choice.index) ||
                      (choice.kind == WEFT_RULE_TOGETHER && rule->is_together[i]);
    inputs[i] = is_factor    ? of_factor(&f->inputs[i], choice.index)
                : is_partial ? weft_sharding_partial(0)
                             : weft_sharding_replicate(0);
  }
  for (int i = 0; i < rule->num_outputs; i++) {
    bool is_partial = choice.kind == WEFT_RULE_LINEAR || choice.kind == WEFT_RULE_TOGETHER;
    outputs[i] = is_partial ? weft_sharding_partial(0) : weft_sharding_replicate(0);
    if (!is_factor) continue;
    outputs[i] = of_factor(&f->outputs[i], choice.index);
    if (outputs[i].kind == WEFT_SHARDING_SHARD || f->outputs[i].is_same) continue;
    outputs[i] = weft_sharding_partial(0);
    if (!f->factors[choice.index].is_masked) outputs[i].partial = partial_of(f->reduction);
  }
}

/* ---- the cheapest choice ---- */

static double whole_elements(const weft_factor_operand_t *operand, const weft_rule_operand_t *of) {
  double n = 1;
  for (int i = 0; i < of->shape.rank && i < operand->rank; i++) {
    if (operand->dims[i] == WEFT_FACTOR_WHOLE) n *= fmax(1, (double)of->shape.dims[i]);
  }
  return n;
}

double weft_rule_flops(const weft_rule_t *rule) {
  double factors = 2, whole = 1;
  for (int f = 0; f < WEFT_FACTORS; f++) {
    if (rule->factors.factors[f].is_used) factors *= fmax(1, (double)rule->factors.factors[f].size);
  }
  for (int i = 0; i < rule->factors.num_inputs; i++) {
    if (!rule->factors.inputs[i].is_sizes) {
      whole = fmax(whole, whole_elements(&rule->factors.inputs[i], &rule->inputs[i]));
    }
  }
  for (int i = 0; i < rule->factors.num_outputs; i++) {
    whole = fmax(whole, whole_elements(&rule->factors.outputs[i], &rule->outputs[i]));
  }
  return factors * whole;
}

double weft_rule_work(weft_rule_choice_t choice, int size) {
  return choice.kind == WEFT_RULE_FACTOR ? 1.0 / size : 1.0;
}

/* `s` with `along` on one axis, and Replicate where it is open. */
static weft_sharding_t closed(const weft_mesh_t *mesh, const weft_sharding_t *s, int axis,
                              const weft_axis_sharding_t *along) {
  weft_sharding_t out = *s;
  if (along != NULL) out.axes[axis] = *along;
  for (int i = 0; i < mesh->num_axes; i++) {
    if (out.axes[i].kind == WEFT_SHARDING_NONE) out.axes[i] = weft_sharding_replicate(0);
  }
  return out;
}

/* What it costs that `has` becomes `wants`; infinite where a value cannot have one of them. Each step takes a
 * microsecond beside what goes over the wire, so that of two ways the shorter wins. */
static weft_status_t *reshard_seconds(const weft_rule_use_t *use, const weft_rule_operand_t *of,
                                      const weft_sharding_t *has, const weft_sharding_t *wants, double *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_reshard_plan_t plan = {.num_steps = 0};
  weft_status_t *s =
      weft_reshard_plan(use->mesh, has, wants, &of->shape, of->element_bytes, use->link, &arena, &plan);
  weft_arena_deinit(&arena);
  *out = plan.cost.seconds + 1e-6 * plan.num_steps;
  if (weft_status_code(s) == WEFT_INVALID_ARGUMENT) {
    weft_status_free(s);
    *out = INFINITY;
    return NULL;
  }
  return s;
}

static weft_status_t *input_seconds(const weft_rule_t *rule, const weft_rule_use_t *use, int axis, int i,
                                    const weft_axis_sharding_t *required, double *out) {
  const weft_sharding_t *has = &use->inputs[i];
  *out = 0;
  if (weft_axis_sharding_eq(&has->axes[axis], required)) return NULL;
  if (has->axes[axis].kind == WEFT_SHARDING_NONE || has->axes[axis].kind == WEFT_SHARDING_REPLICATE) {
    weft_sharding_t wants = closed(use->mesh, has, axis, required);
    int64_t begin[WEFT_MAX_DIMS];
    weft_shape_t size;
    weft_status_t *s = weft_mesh_block(use->mesh, &wants, &rule->inputs[i].shape, 0, begin, &size);
    if (s != NULL) *out = INFINITY; /* what is not divided by all axes together */
    weft_status_free(s);
    return NULL; /* a slice or a mask */
  }
  weft_sharding_t from = closed(use->mesh, has, axis, NULL), to = closed(use->mesh, has, axis, required);
  return reshard_seconds(use, &rule->inputs[i], &from, &to, out);
}

/* Of an open output, only a Partial costs: it must be reduced some time. */
static weft_status_t *output_seconds(const weft_rule_t *rule, const weft_rule_use_t *use, int axis, int i,
                                     const weft_axis_sharding_t *made, double *out) {
  const weft_sharding_t *wants = &use->outputs[i];
  bool is_open = wants->axes[axis].kind == WEFT_SHARDING_NONE;
  *out = 0;
  if (is_open && made->kind == WEFT_SHARDING_REPLICATE) return NULL;
  weft_sharding_t from = closed(use->mesh, wants, axis, made);
  weft_axis_sharding_t replicate = weft_sharding_replicate(0);
  bool is_free = is_open && made->kind == WEFT_SHARDING_SHARD; /* if it is possible */
  weft_sharding_t to = is_free ? from : closed(use->mesh, wants, axis, is_open ? &replicate : NULL);
  return reshard_seconds(use, &rule->outputs[i], &from, &to, out);
}

/* Axes that split one factor must divide it together. */
static bool divides(const weft_rule_t *rule, const weft_rule_use_t *use, int axis,
                    weft_rule_choice_t choice) {
  if (choice.kind != WEFT_RULE_FACTOR) return true;
  int64_t parts = 1;
  for (int i = 0; i < use->mesh->num_axes; i++) {
    const weft_rule_choice_t *c = i == axis ? &choice : &use->choices[i];
    if (c->kind == WEFT_RULE_FACTOR && c->index == choice.index) parts *= use->mesh->axes[i].size;
  }
  return rule->factors.factors[choice.index].size % parts == 0;
}

static weft_status_t *price(const weft_rule_t *rule, const weft_rule_use_t *use, int axis,
                            weft_rule_choice_t choice, weft_axis_sharding_t *shardings, double *out) {
  weft_axis_sharding_t *inputs = shardings, *outputs = shardings + rule->num_inputs;
  double seconds = 0;
  weft_rule_apply(rule, choice, inputs, outputs);
  *out = weft_rule_flops(rule) * weft_rule_work(choice, use->mesh->axes[axis].size) /
         (WEFT_RULE_GIGAFLOPS * 1e9);
  if (!divides(rule, use, axis, choice)) *out = INFINITY;
  for (int i = 0; i < rule->num_inputs && isfinite(*out); i++) {
    WEFT_RETURN_IF_ERROR(input_seconds(rule, use, axis, i, &inputs[i], &seconds));
    *out += seconds;
  }
  for (int i = 0; i < rule->num_outputs && isfinite(*out); i++) {
    WEFT_RETURN_IF_ERROR(output_seconds(rule, use, axis, i, &outputs[i], &seconds));
    *out += seconds;
  }
  return NULL;
}

weft_status_t *weft_rule_choose(const weft_rule_t *rule, const weft_rule_use_t *use, int axis,
                                weft_rule_pick_t *out) {
  weft_rule_choice_t choices[WEFT_RULE_CHOICES];
  weft_rule_pick_t pick = {.seconds = INFINITY, .second_seconds = INFINITY};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_axis_sharding_t *shardings =
      weft_arena_calloc(&arena, (size_t)(rule->num_inputs + rule->num_outputs) + 1, sizeof *shardings);
  weft_status_t *s = shardings == NULL ? WEFT_NO_MEMORY("a sharding rule") : NULL;
  int n = weft_rule_choices(rule, use->mesh->axes[axis].size, choices);
  for (int i = 0; i < n && s == NULL; i++) {
    double seconds = 0;
    s = price(rule, use, axis, choices[i], shardings, &seconds);
    if (seconds < pick.seconds) {
      pick.second = pick.choice;
      pick.second_seconds = pick.seconds;
      pick.choice = choices[i];
      pick.seconds = seconds;
    } else if (seconds < pick.second_seconds) {
      pick.second = choices[i];
      pick.second_seconds = seconds;
    }
  }
  weft_arena_deinit(&arena);
  if (s == NULL) *out = pick;
  return s;
}
