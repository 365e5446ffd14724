/* graph/lower_while.c - While becomes a frame of Enter, Merge, Switch, NextIteration and Exit.
 *
 *   input -> Enter -> Merge -> Switch -(false)-> Exit -> result
 *                      ^  \       |(true)
 *                      |   cond -> LoopCond (steers all Switches)
 *        NextIteration <- body <-'
 *
 * Resources do not change in a loop: they enter as constants, and the result is
 * the input. A loop that has nothing else gets a variable of its own to turn on.
 *
 * For is such a loop on its first input, the counter, with two constants, limit and
 * delta, whose condition and step are nodes instead of functions.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/lower.h"
#include "graph/node_build.h"

/* The inputs of For that its body does not return. */
enum { COUNTER, LIMIT, DELTA, FOR_INPUTS };

typedef struct loop {
  weft_lowering_t *l;
  weft_node_t *n;
  bool is_for;
  int num_inputs;      /* of n */
  int num_vars;        /* num_inputs, or one more with a variable of our own */
  weft_output_t *in;   /* num_vars; owned. What enters */
  weft_node_t **enter; /* num_vars; owned */
  weft_node_t **merge; /* num_vars; NULL for resources; owned */
  weft_node_t **split; /* num_vars: the Switches; owned */
  weft_node_t **leave; /* num_vars: the Exits; owned */
  weft_output_t *args; /* num_inputs; owned */
  weft_node_t *pivot;  /* the first Merge */
  weft_str_t frame;    /* in the graph's arena */
  weft_output_t cond;
  weft_output_t *results; /* num_inputs; owned */
} loop_t;

static bool is_constant(const loop_t *w, int i) {
  if (w->is_for && (i == LIMIT || i == DELTA)) return true;
  return i < w->num_inputs && weft_dtype_base(w->n->input_types[i]) == WEFT_RESOURCE;
}

/* Everything starts after the node's control inputs. */
static weft_status_t *add_start(loop_t *w, weft_node_t **out) {
  if (w->n->num_controls == 0) return NULL;
  return weft_lower_add_noop(w->l, w->n, "start", w->n->controls, w->n->num_controls, out);
}

/* ---- For ---- */

static weft_status_t *binary(loop_t *w, const char *op, weft_output_t a, weft_output_t b,
                             weft_output_t *out) {
  const weft_output_t inputs[2] = {a, b};
  weft_node_t *node = NULL;
  WEFT_RETURN_IF_ERROR(weft_lower_add(w->l, w->n, "for", op, NULL, inputs, 2, NULL, 0, NULL, 0, &node));
  *out = (weft_output_t){node, 0};
  return NULL;
}

/* Whether a `op_up` b in a loop that counts up, or a `op_down` b in one that counts down. */
static weft_status_t *by_direction(loop_t *w, const char *op_up, const char *op_down, const weft_output_t *v,
                                   weft_output_t zero, weft_output_t *out) {
  weft_output_t up, down, is_up, is_down;
  WEFT_RETURN_IF_ERROR(binary(w, "Greater", v[DELTA], zero, &is_up));
  WEFT_RETURN_IF_ERROR(binary(w, "Less", v[DELTA], zero, &is_down));
  WEFT_RETURN_IF_ERROR(binary(w, op_up, v[COUNTER], v[LIMIT], &up));
  WEFT_RETURN_IF_ERROR(binary(w, op_down, v[COUNTER], v[LIMIT], &down));
  WEFT_RETURN_IF_ERROR(binary(w, "LogicalAnd", is_up, up, &up));
  WEFT_RETURN_IF_ERROR(binary(w, "LogicalAnd", is_down, down, &down));
  return binary(w, "LogicalOr", up, down, out);
}

/* An Assert, before which nothing begins, that the limit can be reached. */
static weft_status_t *check_range(loop_t *w, weft_node_t **out) {
  weft_output_t zero, valid, is_still, is_there, inputs[1 + FOR_INPUTS];
  weft_node_t *n = w->n;
  WEFT_RETURN_IF_ERROR(binary(w, "Sub", n->inputs[DELTA], n->inputs[DELTA], &zero));
  WEFT_RETURN_IF_ERROR(by_direction(w, "LessEqual", "GreaterEqual", n->inputs, zero, &valid));
  WEFT_RETURN_IF_ERROR(binary(w, "Equal", n->inputs[DELTA], zero, &is_still));
  WEFT_RETURN_IF_ERROR(binary(w, "Equal", n->inputs[COUNTER], n->inputs[LIMIT], &is_there));
  WEFT_RETURN_IF_ERROR(binary(w, "LogicalAnd", is_still, is_there, &is_still));
  WEFT_RETURN_IF_ERROR(binary(w, "LogicalOr", valid, is_still, &inputs[0]));
  for (int i = 0; i < FOR_INPUTS; i++) inputs[1 + i] = n->inputs[i];
  return weft_lower_add(w->l, n, "range", "Assert", NULL, inputs, 1 + FOR_INPUTS, n->controls,
                        n->num_controls, NULL, 0, out);
}

static weft_status_t *for_cond(loop_t *w, weft_output_t *out) {
  weft_output_t zero;
  WEFT_RETURN_IF_ERROR(binary(w, "Sub", w->args[DELTA], w->args[DELTA], &zero));
  return by_direction(w, "Less", "Greater", w->args, zero, out);
}

/* ---- the frame ---- */

static weft_status_t *add_own_variable(loop_t *w, weft_node_t *start) {
  for (int i = 0; i < w->num_inputs; i++) {
    if (!is_constant(w, i)) return NULL;
  }
  /* It must be in the frame of the loop's inputs. */
  if (start == NULL && w->num_inputs > 0) start = w->n->inputs[0].node;
  weft_tensor_t *zero = NULL;
  weft_node_t *node = NULL;
  const int32_t value = 0;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &value, &zero));
  const weft_named_attr_t attrs[2] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_I32}},
                                      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = zero}}};
  weft_status_t *s =
      weft_lower_add(w->l, w->n, "turn", "Const", NULL, NULL, 0, &start, start != NULL, attrs, 2, &node);
  weft_tensor_release(zero);
  if (s != NULL) return s;
  w->in[w->num_vars++] = (weft_output_t){node, 0};
  return NULL;
}

static weft_status_t *add_entry(loop_t *w, int i, weft_node_t *start) {
  const weft_named_attr_t attrs[3] = {
      {WEFT_STR("frame_name"), {.kind = WEFT_ATTR_STRING, .s = w->frame}},
      {WEFT_STR("is_constant"), {.kind = WEFT_ATTR_BOOL, .b = is_constant(w, i)}},
      {WEFT_STR("parallel_iterations"),
       {.kind = WEFT_ATTR_INT, .i = weft_node_attr_int(w->n, "parallel_iterations", 10)}},
  };
  WEFT_RETURN_IF_ERROR(weft_lower_add(w->l, w->n, "enter", "Enter", w->in[i].node, &w->in[i], 1, &start,
                                      start != NULL, attrs, 3, &w->enter[i]));
  if (is_constant(w, i)) return NULL;
  /* The second input becomes the NextIteration, which does not exist yet. */
  const weft_output_t twice[2] = {{w->enter[i], 0}, {w->enter[i], 0}};
  WEFT_RETURN_IF_ERROR(
      weft_lower_add(w->l, w->n, "merge", "Merge", w->in[i].node, twice, 2, NULL, 0, NULL, 0, &w->merge[i]));
  if (w->pivot == NULL) w->pivot = w->merge[i];
  return NULL;
}

/* A constant is there in every iteration, also in that in which the body is dead; so it waits for `gate`. */
static weft_status_t *pass_constant(loop_t *w, int i, weft_node_t *gate, weft_output_t *out) {
  weft_node_t *identity = NULL;
  WEFT_RETURN_IF_ERROR(
      weft_lower_add1(w->l, w->n, "resource", "Identity", (weft_output_t){w->enter[i], 0}, gate, &identity));
  *out = (weft_output_t){identity, 0};
  return NULL;
}

static weft_status_t *while_cond(loop_t *w, weft_output_t *out) {
  const weft_func_attr_t *func = NULL;
  weft_body_t body;
  WEFT_RETURN_IF_ERROR(weft_lower_func_attr(w->n, "cond", &func));
  WEFT_RETURN_IF_ERROR(weft_lower_body(w->l, w->n, func, "cond", w->args, w->num_inputs, w->pivot, &body));
  if (body.num_results != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': its condition '%s' returns %d results instead of one",
                      w->n->name.data, func->name.data, body.num_results);
  }
  return weft_lower_to_bool(w->l, w->n, body.results[0], out);
}

static weft_status_t *add_cond(loop_t *w) {
  weft_output_t truth;
  weft_node_t *loop_cond = NULL;
  for (int i = 0; i < w->num_inputs; i++) {
    w->args[i] = (weft_output_t){w->merge[i], 0};
    if (is_constant(w, i)) WEFT_RETURN_IF_ERROR(pass_constant(w, i, w->pivot, &w->args[i]));
  }
  WEFT_RETURN_IF_ERROR(w->is_for ? for_cond(w, &truth) : while_cond(w, &truth));
  WEFT_RETURN_IF_ERROR(
      weft_lower_add(w->l, w->n, "loop_cond", "LoopCond", NULL, &truth, 1, NULL, 0, NULL, 0, &loop_cond));
  w->cond = (weft_output_t){loop_cond, 0};
  return NULL;
}

static weft_status_t *add_split(loop_t *w, int i) {
  const weft_output_t inputs[2] = {{w->merge[i], 0}, w->cond};
  WEFT_RETURN_IF_ERROR(weft_lower_add(w->l, w->n, "switch", "Switch", w->in[i].node, inputs, 2, NULL, 0, NULL,
                                      0, &w->split[i]));
  return weft_lower_add1(w->l, w->n, "exit", "Exit", (weft_output_t){w->split[i], 0}, NULL, &w->leave[i]);
}

/* The body of For sees the counter, but neither limit nor delta, and returns none of the three. */
static weft_status_t *add_round(loop_t *w, const weft_func_attr_t *func, weft_node_t *gate, weft_body_t *body,
                                weft_output_t *next_counter) {
  int skipped = w->is_for ? DELTA : 0, own = w->is_for ? FOR_INPUTS : 0;
  if (w->is_for) {
    WEFT_RETURN_IF_ERROR(binary(w, "AddV2", w->args[COUNTER], w->args[DELTA], next_counter));
    w->args[DELTA] = w->args[COUNTER];
  }
  WEFT_RETURN_IF_ERROR(
      weft_lower_body(w->l, w->n, func, "body", w->args + skipped, w->num_inputs - skipped, gate, body));
  if (body->num_results == w->num_inputs - own) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': its body '%s' returns %d results instead of %d",
                    w->n->name.data, func->name.data, body->num_results, w->num_inputs - own);
}

static weft_status_t *add_body(loop_t *w) {
  const weft_func_attr_t *func = NULL;
  weft_body_t body;
  weft_node_t *gate = NULL;
  int first = 0;
  while (w->split[first] == NULL) first++;
  WEFT_RETURN_IF_ERROR(weft_lower_func_attr(w->n, "body", &func));
  WEFT_RETURN_IF_ERROR(weft_lower_add1(w->l, w->n, "loop_body_control", "Identity",
                                       (weft_output_t){w->split[first], 1}, NULL, &gate));
  for (int i = 0; i < w->num_inputs; i++) {
    w->args[i] = (weft_output_t){w->split[i], 1};
    if (is_constant(w, i)) WEFT_RETURN_IF_ERROR(pass_constant(w, i, gate, &w->args[i]));
  }
  weft_output_t next_counter = {NULL, 0};
  WEFT_RETURN_IF_ERROR(add_round(w, func, gate, &body, &next_counter));
  int own = w->is_for ? FOR_INPUTS : 0;
  for (int i = 0; i < w->num_vars; i++) {
    if (is_constant(w, i)) continue;
    bool is_own = i >= w->num_inputs;
    weft_output_t value = is_own    ? (weft_output_t){w->split[i], 1}
                          : i < own ? next_counter
                                    : body.results[i - own];
    weft_node_t *next = NULL;
    WEFT_RETURN_IF_ERROR(weft_lower_add1(w->l, w->n, "next_iteration", "NextIteration", value,
                                         is_own ? body.done : NULL, &next));
    WEFT_RETURN_IF_ERROR(weft_node_connect(w->l->g, w->merge[i], 1, (weft_output_t){next, 0}));
  }
  return NULL;
}

static weft_status_t *add_results(loop_t *w, weft_node_t **out_done) {
  int num_exits = 0;
  for (int i = 0; i < w->num_vars; i++) {
    if (w->leave[i] != NULL)
      w->enter[num_exits++] = w->leave[i]; /* the Enters are connected: room for a list */
  }
  WEFT_RETURN_IF_ERROR(weft_lower_add_noop(w->l, w->n, "done", w->enter, num_exits, out_done));
  for (int i = 0; i < w->num_inputs; i++) {
    weft_node_t *identity = w->leave[i];
    if (is_constant(w, i)) {
      WEFT_RETURN_IF_ERROR(weft_lower_add1(w->l, w->n, "output", "Identity", w->in[i], *out_done, &identity));
    }
    w->results[i] = (weft_output_t){identity, 0};
  }
  return NULL;
}

static weft_status_t *name_frame(loop_t *w) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_lower_put_name(w->l, w->n, &text);
  if (!text.failed) w->frame = weft_arena_str(w->l->g->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return w->frame.data == NULL ? WEFT_NO_MEMORY("lowering node '%s'", w->n->name.data) : NULL;
}

static weft_status_t *lower(loop_t *w) {
  size_t most = (size_t)w->n->num_inputs + 1;
  w->num_vars = w->num_inputs = w->n->num_inputs;
  w->in = weft_calloc(most, sizeof *w->in);
  w->enter = weft_calloc(most, sizeof(*w->enter));
  w->merge = weft_calloc(most, sizeof(*w->merge));
  w->split = weft_calloc(most, sizeof(*w->split));
  w->leave = weft_calloc(most, sizeof(*w->leave));
  w->args = weft_calloc(most, sizeof *w->args);
  w->results = weft_calloc(most, sizeof *w->results);
  if (w->in == NULL || w->enter == NULL || w->merge == NULL || w->split == NULL || w->leave == NULL ||
      w->args == NULL || w->results == NULL) {
    return WEFT_NO_MEMORY("lowering node '%s'", w->n->name.data);
  }
  WEFT_RETURN_IF_ERROR(name_frame(w));
  weft_node_t *start = NULL, *done = NULL;
  for (int i = 0; i < w->num_inputs; i++) w->in[i] = w->n->inputs[i];
  WEFT_RETURN_IF_ERROR(w->is_for ? check_range(w, &start) : add_start(w, &start));
  WEFT_RETURN_IF_ERROR(add_own_variable(w, start));
  for (int i = 0; i < w->num_vars; i++) WEFT_RETURN_IF_ERROR(add_entry(w, i, start));
  WEFT_RETURN_IF_ERROR(add_cond(w));
  for (int i = 0; i < w->num_vars; i++) {
    if (!is_constant(w, i)) WEFT_RETURN_IF_ERROR(add_split(w, i));
  }
  WEFT_RETURN_IF_ERROR(add_body(w));
  WEFT_RETURN_IF_ERROR(add_results(w, &done));
  int own = w->is_for ? FOR_INPUTS : 0;
  return weft_lower_finish(w->l, w->n, w->results + own, w->num_inputs - own, done);
}

weft_status_t *weft_lower_while(weft_lowering_t *l, weft_node_t *n) {
  loop_t w = {.l = l, .n = n, .is_for = weft_node_attr(n, "cond") == NULL};
  weft_status_t *s = lower(&w);
  weft_free(w.in);
  weft_free(w.enter);
  weft_free(w.merge);
  weft_free(w.split);
  weft_free(w.leave);
  weft_free(w.args);
  weft_free(w.results);
  return s;
}
