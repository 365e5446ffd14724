/* graph/gradient_loops.c - the gradient of a loop.
 *
 * It counts down from the number of iterations. Its variables are the gradients of
 * the loop's variables, which start as those of its results, and the sums of those
 * of what the loop only reads.
 */
#include "base/alloc.h"
#include "graph/gradient_build.h"

enum { MAX_DEPTH = 64 }; /* of loops in loops */

/* ---- the loop itself ---- */

/* Enters, and of variables the Merge behind, with its way back. */
static weft_status_t *find_entries(weft_gradient_build_t *b, weft_gradient_loop_t *loop) {
  const weft_gradient_level_t *level = &b->levels[loop->frame];
  loop->vars = weft_arena_calloc(&b->scratch, (size_t)level->num_structure + 1, sizeof *loop->vars);
  if (loop->vars == NULL) return weft_gradient_no_memory();
  for (int i = 0; i < level->num_structure; i++) {
    weft_node_t *n = level->structure[i];
    if ((n->flags & WEFT_OP_ENTER) == 0) continue;
    weft_gradient_var_t *var = &loop->vars[loop->num_vars++];
    var->enter = n;
    b->facts[n->id].var = var;
  }
  for (int i = 0; i < level->num_structure; i++) {
    weft_node_t *n = level->structure[i];
    if ((n->flags & WEFT_OP_MERGE) == 0 || n->num_inputs != 2) continue;
    int back = (n->inputs[1].node->flags & WEFT_OP_NEXT_ITERATION) != 0;
    weft_gradient_var_t *var = b->facts[n->inputs[1 - back].node->id].var;
    if (var == NULL || var->merge != NULL) continue;
    b->facts[n->id].var = var;
    var->merge = n;
    var->next = n->inputs[back].node;
  }
  return NULL;
}

/* The Switch and the Exit behind each Merge. */
static weft_status_t *find_exits(weft_gradient_build_t *b, weft_gradient_loop_t *loop) {
  const weft_gradient_level_t *level = &b->levels[loop->frame];
  for (int i = 0; i < level->num_structure; i++) {
    weft_node_t *n = level->structure[i];
    if ((n->flags & WEFT_OP_SWITCH) == 0) continue;
    weft_gradient_var_t *var = b->facts[n->inputs[0].node->id].var;
    if (var != NULL && var->merge == n->inputs[0].node && var->split == NULL) {
      b->facts[n->id].var = var;
      var->split = n;
    } else if (b->from_x[n->id] != 0 && b->to_y[n->id] != 0) {
      return WEFT_ERROR(UNIMPLEMENTED,
                        "node '%s' switches on a loop's condition, but no variable of the loop",
                        n->name.data);
    }
  }
  for (int i = 0; i < level->num_structure; i++) {
    weft_node_t *n = level->structure[i];
    weft_gradient_var_t *var = (n->flags & WEFT_OP_EXIT) == 0 ? NULL : b->facts[n->inputs[0].node->id].var;
    if (var != NULL && var->exit == NULL) var->exit = n;
  }
  return NULL;
}

static bool hands_on(const weft_gradient_var_t *var) {
  weft_output_t o = var->next->inputs[0];
  while ((o.node->flags & WEFT_OP_IDENTITY) != 0 ||
         ((o.node->flags & WEFT_OP_BUNDLE) != 0 && o.index < o.node->num_inputs)) {
    o = o.node->inputs[o.index];
  }
  return (o.node == var->split && o.index == 1) || (o.node == var->merge && o.index == 0);
}

static bool has_gradient(const weft_gradient_build_t *b, const weft_gradient_var_t *var) {
  int dtype = weft_gradient_dtype((weft_output_t){var->enter, 0});
  const weft_node_t *n = var->merge == NULL ? var->enter : var->split;
  bool may_have = weft_dtype_is_floating(dtype) || weft_dtype_is_complex(dtype) || dtype == WEFT_VARIANT ||
                  (dtype == WEFT_RESOURCE && var->is_same);
  return may_have && n->id < b->num_old && b->from_x[n->id] != 0 && b->to_y[n->id] != 0;
}

static weft_status_t *find_vars(weft_gradient_build_t *b, weft_gradient_loop_t *loop) {
  WEFT_RETURN_IF_ERROR(find_entries(b, loop));
  WEFT_RETURN_IF_ERROR(find_exits(b, loop));
  for (int i = 0; i < loop->num_vars; i++) {
    weft_gradient_var_t *var = &loop->vars[i];
    bool is_constant = weft_node_attr_bool(var->enter, "is_constant", false) && var->merge == NULL;
    if (!is_constant && (var->split == NULL || b->facts[var->next->id].frame != loop->frame)) {
      return WEFT_ERROR(
          UNIMPLEMENTED,
          "the loop variable that node '%s' enters has no Merge, Switch and NextIteration of its own",
          var->enter->name.data);
    }
    var->is_same = is_constant || hands_on(var);
    var->is_active = has_gradient(b, var);
  }
  return NULL;
}

static weft_status_t *add(weft_gradient_build_t *b, int frame, const char *op, weft_output_t x,
                          const weft_output_t *y, weft_output_t *out) {
  const weft_output_t inputs[2] = {x, y == NULL ? x : *y};
  const weft_gradient_node_t spec = {.op = op, .inputs = inputs, .num_inputs = y == NULL ? 1 : 2};
  return weft_gradient_add_forward(b, frame, &spec, out);
}

/* A variable that counts the loop's iterations; *out is their number, in the frame around it. */
static weft_status_t *count_forward(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                                    weft_output_t *out) {
  int frame = loop->frame, around = loop->outer == NULL ? 0 : loop->outer->frame;
  int32_t numbers[2] = {0, 1};
  weft_output_t gate, zero, one, next;
  weft_gradient_ring_t ring;
  const weft_gradient_frame_t *f = &loop->forward;
  WEFT_RETURN_IF_ERROR(add(b, around, "Identity", loop->vars[0].enter->inputs[0], NULL, &gate));
  loop->gate = gate.node;
  WEFT_RETURN_IF_ERROR(weft_gradient_int32s(b, &numbers[0], -1, around, gate.node, &zero));
  WEFT_RETURN_IF_ERROR(weft_gradient_int32s(b, &numbers[1], -1, around, gate.node, &one));
  WEFT_RETURN_IF_ERROR(weft_gradient_enter(b, f, frame, one, true, &one));
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, f, frame, zero, &WEFT_SCALAR, &ring));
  WEFT_RETURN_IF_ERROR(weft_gradient_split(b, f, frame, &ring));
  WEFT_RETURN_IF_ERROR(add(b, frame, "Identity", (weft_output_t){ring.split, 1}, NULL, &next));
  loop->body = next.node;
  WEFT_RETURN_IF_ERROR(add(b, frame, "AddV2", next, &one, &next));
  WEFT_RETURN_IF_ERROR(weft_gradient_close(b, frame, next, &ring));
  *out = (weft_output_t){ring.exit, 0};
  return NULL;
}

/* ---- its gradient ---- */

/* The variable that counts down, and the condition. */
static weft_status_t *count_backward(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                                     weft_output_t count) {
  weft_output_t n, zero, one, cond, next;
  weft_gradient_ring_t ring;
  weft_gradient_frame_t *f = &loop->backward;
  WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop->outer, count, &n));
  WEFT_RETURN_IF_ERROR(add(b, -1, "ZerosLike", n, NULL, &zero));
  WEFT_RETURN_IF_ERROR(add(b, -1, "OnesLike", n, NULL, &one));
  WEFT_RETURN_IF_ERROR(weft_gradient_enter(b, f, -1, zero, true, &zero));
  WEFT_RETURN_IF_ERROR(weft_gradient_enter(b, f, -1, one, true, &one));
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, f, -1, n, &WEFT_SCALAR, &ring));
  WEFT_RETURN_IF_ERROR(add(b, -1, "Greater", (weft_output_t){ring.merge, 0}, &zero, &cond));
  WEFT_RETURN_IF_ERROR(add(b, -1, "LoopCond", cond, NULL, &f->cond));
  WEFT_RETURN_IF_ERROR(weft_gradient_split(b, f, -1, &ring));
  WEFT_RETURN_IF_ERROR(add(b, -1, "Identity", (weft_output_t){ring.split, 1}, NULL, &next));
  loop->pivot = next.node;
  WEFT_RETURN_IF_ERROR(add(b, -1, "Sub", next, &one, &next));
  return weft_gradient_close(b, -1, next, &ring);
}

static weft_status_t *find_names(weft_gradient_build_t *b, weft_gradient_loop_t *loop) {
  const weft_node_t *enter = loop->vars[0].enter;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  loop->forward.name = weft_node_attr_string(enter, "frame_name");
  loop->forward.parallel_iterations = weft_node_attr_int(enter, "parallel_iterations", 10);
  loop->forward.cond = (weft_output_t){b->frames.loop_cond[loop->frame], 0};
  loop->backward = loop->forward;
  weft_strbuf_printf(&text, "%.*s/", WEFT_STR_ARGS(b->prefix));
  weft_strbuf_append(&text, loop->forward.name);
  loop->backward.name =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&b->scratch, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return loop->backward.name.data == NULL ? weft_gradient_no_memory() : NULL;
}

/* Zeros like `t`, a tensor of the graph, of the type that its gradient has: that of a handle is one of what
 * it refers to. */
static weft_status_t *add_zeros(weft_gradient_build_t *b, weft_output_t t, int dtype, weft_output_t *out) {
  weft_shape_t shape = weft_gradient_shape(t);
  bool is_handle = weft_gradient_dtype(t) == WEFT_RESOURCE;
  if (!is_handle && (b->loop == NULL || shape.rank == 0 || dtype == WEFT_VARIANT))
    return weft_gradient_node(b, "ZerosLike", &t, 1, NULL, 0, out);
  weft_tensor_t *zero = NULL;
  weft_output_t parts[2];
  WEFT_RETURN_IF_ERROR(
      weft_gradient_node(b, is_handle ? "VariableShape" : "Shape", &t, 1, NULL, 0, &parts[0]));
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)dtype, &WEFT_SCALAR, NULL, &zero));
  memset(zero->data, 0, weft_dtype_size(dtype));
  weft_node_t *control = b->loop == NULL ? NULL : b->loop->pivot;
  weft_status_t *s = weft_gradient_constant(b, zero, -1, control, &parts[1]);
  weft_tensor_release(zero);
  return s != NULL ? s : weft_gradient_node(b, "Fill", parts, 2, NULL, 0, out);
}

/* What flowed into the results of the loop, or zeros. */
static weft_status_t *open_var(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                               weft_gradient_var_t *var) {
  weft_output_t start = {NULL, 0};
  if (var->exit == NULL) {
    WEFT_RETURN_IF_ERROR(add(b, loop->frame, "Exit", (weft_output_t){var->split, 0}, NULL, &start));
    var->exit = start.node;
    start.node = NULL;
  } else {
    WEFT_RETURN_IF_ERROR(weft_gradient_total(b, (weft_output_t){var->exit, 0}, &start));
  }
  weft_output_t exit = {var->exit, 0};
  if (start.node == NULL) WEFT_RETURN_IF_ERROR(add_zeros(b, exit, weft_gradient_dtype(exit), &start));
  weft_shape_t shape = weft_gradient_shape((weft_output_t){var->split, 1});
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, &loop->backward, -1, start, &shape, &var->ring));
  return weft_gradient_split(b, &loop->backward, -1, &var->ring);
}

/* What flowed in the body into the variable, which it sees at the Switch or at the Merge. */
static weft_status_t *body_total(weft_gradient_build_t *b, const weft_gradient_var_t *var,
                                 weft_output_t *out) {
  weft_output_t both[2];
  if (var->merge == NULL) return weft_gradient_total(b, (weft_output_t){var->enter, 0}, out);
  WEFT_RETURN_IF_ERROR(weft_gradient_total(b, (weft_output_t){var->split, 1}, &both[0]));
  WEFT_RETURN_IF_ERROR(weft_gradient_total(b, (weft_output_t){var->merge, 0}, &both[1]));
  *out = both[0].node != NULL ? both[0] : both[1];
  if (both[0].node == NULL || both[1].node == NULL) return NULL;
  return weft_gradient_node(b, "AddN", both, 2, NULL, 0, out);
}

static weft_status_t *flow_outside(weft_gradient_build_t *b, const weft_gradient_var_t *var,
                                   weft_output_t gradient) {
  weft_output_t from = var->enter->inputs[0];
  if (gradient.node == NULL || !weft_gradient_comes_from_x(b, from)) return NULL;
  return weft_gradient_flow_into(b, from, gradient);
}

static weft_status_t *close_var(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                                weft_gradient_var_t *var) {
  weft_output_t before = {var->split, 1}, gradient;
  WEFT_RETURN_IF_ERROR(body_total(b, var, &gradient));
  if (gradient.node == NULL)
    WEFT_RETURN_IF_ERROR(add_zeros(b, before, weft_gradient_dtype(before), &gradient));
  WEFT_RETURN_IF_ERROR(weft_gradient_close(b, -1, gradient, &var->ring));
  b->loop = loop->outer;
  WEFT_RETURN_IF_ERROR(flow_outside(b, var, (weft_output_t){var->ring.exit, 0}));
  b->loop = loop;
  return NULL;
}

/* Of what an iteration only reads, the gradients are added up. */
static weft_status_t *sum_var(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                              weft_gradient_var_t *var) {
  weft_output_t gradient, terms[2], start = {NULL, 0}, outside = var->enter->inputs[0];
  WEFT_RETURN_IF_ERROR(body_total(b, var, &gradient));
  b->loop = loop->outer;
  if (var->exit != NULL) WEFT_RETURN_IF_ERROR(weft_gradient_total(b, (weft_output_t){var->exit, 0}, &start));
  if (gradient.node == NULL) {
    WEFT_RETURN_IF_ERROR(flow_outside(b, var, start));
    b->loop = loop;
    return NULL;
  }
  if (start.node == NULL) WEFT_RETURN_IF_ERROR(add_zeros(b, outside, weft_gradient_dtype(gradient), &start));
  b->loop = loop;
  weft_shape_t shape = weft_gradient_shape(start);
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, &loop->backward, -1, start, &shape, &var->ring));
  WEFT_RETURN_IF_ERROR(weft_gradient_split(b, &loop->backward, -1, &var->ring));
  terms[0] = (weft_output_t){var->ring.split, 1};
  terms[1] = gradient;
  WEFT_RETURN_IF_ERROR(weft_gradient_node(b, "AddN", terms, 2, NULL, 0, &gradient));
  WEFT_RETURN_IF_ERROR(weft_gradient_close(b, -1, gradient, &var->ring));
  b->loop = loop->outer;
  WEFT_RETURN_IF_ERROR(flow_outside(b, var, (weft_output_t){var->ring.exit, 0}));
  b->loop = loop;
  return NULL;
}

static bool has_flow(const weft_gradient_build_t *b, const weft_gradient_loop_t *loop) {
  for (int i = 0; i < loop->num_vars; i++) {
    const weft_gradient_var_t *var = &loop->vars[i];
    if (var->is_active && var->exit != NULL && b->facts[var->exit->id].flows != NULL) return true;
  }
  return false;
}

static weft_status_t *differentiate(weft_gradient_build_t *b, weft_gradient_loop_t *loop) {
  weft_output_t count;
  WEFT_RETURN_IF_ERROR(count_forward(b, loop, &count));
  WEFT_RETURN_IF_ERROR(count_backward(b, loop, count));
  for (int i = 0; i < loop->num_vars; i++) {
    weft_gradient_var_t *var = &loop->vars[i];
    if (var->is_active && !var->is_same) WEFT_RETURN_IF_ERROR(open_var(b, loop, var));
  }
  b->loop = loop;
  for (int i = 0; i < loop->num_vars; i++) {
    const weft_gradient_var_t *var = &loop->vars[i];
    if (!var->is_active || var->is_same || !weft_gradient_comes_from_x(b, var->next->inputs[0])) continue;
    WEFT_RETURN_IF_ERROR(
        weft_gradient_flow_into(b, var->next->inputs[0], (weft_output_t){var->ring.split, 1}));
  }
  WEFT_RETURN_IF_ERROR(weft_gradient_run_level(b, loop->frame));
  for (int i = 0; i < loop->num_vars; i++) {
    weft_gradient_var_t *var = &loop->vars[i];
    if (!var->is_active) continue;
    WEFT_RETURN_IF_ERROR(var->is_same ? sum_var(b, loop, var) : close_var(b, loop, var));
  }
  return NULL;
}

weft_status_t *weft_gradient_of_loop(weft_gradient_build_t *b, int frame) {
  weft_gradient_loop_t *outer = b->loop, *loop = weft_arena_calloc(&b->scratch, 1, sizeof *loop);
  if (loop == NULL) return weft_gradient_no_memory();
  loop->outer = outer;
  loop->frame = frame;
  loop->depth = outer == NULL ? 1 : outer->depth + 1;
  if (loop->depth > MAX_DEPTH)
    return WEFT_ERROR(UNIMPLEMENTED, "gradients of more than %d loops in one another", MAX_DEPTH);
  WEFT_RETURN_IF_ERROR(find_vars(b, loop));
  if (!has_flow(b, loop)) return NULL;
  if (b->frames.loop_cond[frame] == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the loop '%.*s' has no condition",
                      WEFT_STR_ARGS(b->frames.name[frame]));
  }
  b->device = loop->vars[0].enter->requested_device;
  WEFT_RETURN_IF_ERROR(find_names(b, loop));
  WEFT_RETURN_IF_ERROR(differentiate(b, loop));
  b->loop = outer;
  return NULL;
}
