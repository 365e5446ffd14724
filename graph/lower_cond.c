/* graph/lower_cond.c - If and Case become Switch and Merge.
 *
 * Each input goes through a Switch on the condition, so that it is alive in one
 * branch only; body nodes without inputs wait for that branch's pivot. Each output
 * is a Merge of the branches' results. Control inputs of the node delay the
 * condition, and by that everything.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/lower.h"

typedef struct cond {
  weft_lowering_t *l;
  weft_node_t *n;
  bool is_case;
  const weft_func_attr_t *const *branches; /* by port of the switches */
  int num_branches;
  weft_output_t selector;
  weft_output_t *args;  /* num_args switches; owned */
  weft_output_t *ports; /* num_args: the arguments of one branch; owned */
  int num_args;
  weft_node_t **pivots;   /* num_branches; owned */
  weft_body_t *bodies;    /* num_branches; owned */
  weft_output_t *merged;  /* owned: one value of each branch */
  weft_output_t *results; /* owned: num_outputs of n */
} cond_t;

static weft_status_t *no_memory(const cond_t *c) {
  return WEFT_NO_MEMORY("lowering node '%s'", c->n->name.data);
}

static weft_status_t *add_selector(cond_t *c) {
  weft_node_t *n = c->n, *identity = NULL;
  c->selector = n->inputs[0];
  if (!c->is_case) WEFT_RETURN_IF_ERROR(weft_lower_to_bool(c->l, n, n->inputs[0], &c->selector));
  WEFT_RETURN_IF_ERROR(weft_lower_add(c->l, n, "selector", "Identity", NULL, &c->selector, 1, n->controls,
                                      n->num_controls, NULL, 0, &identity));
  c->selector = (weft_output_t){identity, 0};
  return NULL;
}

static weft_status_t *add_switch(cond_t *c, const char *name, weft_output_t data, weft_output_t *out) {
  const weft_output_t inputs[2] = {data, c->selector};
  const weft_named_attr_t num_outs = {WEFT_STR("num_outs"), {.kind = WEFT_ATTR_INT, .i = c->num_branches}};
  weft_node_t *node = NULL;
  WEFT_RETURN_IF_ERROR(weft_lower_add(c->l, c->n, name, c->is_case ? "_SwitchN" : "Switch", data.node, inputs,
                                      2, NULL, 0, &num_outs, c->is_case, &node));
  *out = (weft_output_t){node, 0};
  return NULL;
}

static weft_status_t *add_switches(cond_t *c) {
  weft_output_t pivots;
  WEFT_RETURN_IF_ERROR(add_switch(c, "switch_pivot", c->selector, &pivots));
  for (int b = 0; b < c->num_branches; b++) {
    weft_output_t port = {pivots.node, b};
    WEFT_RETURN_IF_ERROR(weft_lower_add1(c->l, c->n, "pivot", "Identity", port, NULL, &c->pivots[b]));
  }
  for (int i = 0; i < c->num_args; i++) {
    WEFT_RETURN_IF_ERROR(add_switch(c, "switch", c->n->inputs[i + 1], &c->args[i]));
  }
  return NULL;
}

static weft_status_t *add_branches(cond_t *c) {
  for (int b = 0; b < c->num_branches; b++) {
    char infix[32] = "then";
    if (c->is_case) {
      snprintf(infix, sizeof infix, "branch%d", b);
    } else if (b == 0) {
      snprintf(infix, sizeof infix, "else");
    }
    for (int i = 0; i < c->num_args; i++) c->ports[i] = (weft_output_t){c->args[i].node, b};
    WEFT_RETURN_IF_ERROR(weft_lower_body(c->l, c->n, c->branches[b], infix, c->ports, c->num_args,
                                         c->pivots[b], &c->bodies[b]));
    if (c->bodies[b].num_results == c->n->num_outputs) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': function '%s' returns %d results, but %d are expected",
                      c->n->name.data, c->branches[b]->name.data, c->bodies[b].num_results,
                      c->n->num_outputs);
  }
  return NULL;
}

static weft_status_t *merge(cond_t *c, const char *name, weft_output_t *out) {
  weft_node_t *node = NULL;
  WEFT_RETURN_IF_ERROR(
      weft_lower_add(c->l, c->n, name, "Merge", NULL, c->merged, c->num_branches, NULL, 0, NULL, 0, &node));
  *out = (weft_output_t){node, 0};
  return NULL;
}

static weft_status_t *add_merges(cond_t *c, weft_node_t **out_done) {
  for (int i = 0; i < c->n->num_outputs; i++) {
    for (int b = 0; b < c->num_branches; b++) c->merged[b] = c->bodies[b].results[i];
    WEFT_RETURN_IF_ERROR(merge(c, "merge", &c->results[i]));
  }
  for (int b = 0; b < c->num_branches; b++) {
    weft_node_t *executed = NULL;
    weft_output_t pivot = {c->pivots[b], 0};
    WEFT_RETURN_IF_ERROR(
        weft_lower_add1(c->l, c->n, "executed", "Identity", pivot, c->bodies[b].done, &executed));
    c->merged[b] = (weft_output_t){executed, 0};
  }
  weft_output_t done;
  WEFT_RETURN_IF_ERROR(merge(c, "branch_executed", &done));
  *out_done = done.node;
  return NULL;
}

static weft_status_t *lower(cond_t *c) {
  weft_node_t *done = NULL;
  size_t num_branches = (size_t)c->num_branches;
  c->num_args = c->n->num_inputs - 1;
  c->args = weft_calloc((size_t)c->num_args + 1, sizeof *c->args);
  c->ports = weft_calloc((size_t)c->num_args + 1, sizeof *c->ports);
  c->pivots = weft_calloc(num_branches, sizeof(*c->pivots));
  c->bodies = weft_calloc(num_branches, sizeof *c->bodies);
  c->merged = weft_calloc(num_branches, sizeof *c->merged);
  c->results = weft_calloc((size_t)c->n->num_outputs + 1, sizeof *c->results);
  if (c->args == NULL || c->ports == NULL || c->pivots == NULL || c->bodies == NULL || c->merged == NULL ||
      c->results == NULL) {
    return no_memory(c);
  }
  WEFT_RETURN_IF_ERROR(add_selector(c));
  WEFT_RETURN_IF_ERROR(add_switches(c));
  WEFT_RETURN_IF_ERROR(add_branches(c));
  WEFT_RETURN_IF_ERROR(add_merges(c, &done));
  return weft_lower_finish(c->l, c->n, c->results, c->n->num_outputs, done);
}

weft_status_t *weft_lower_cond(weft_lowering_t *l, weft_node_t *n) {
  cond_t c = {.l = l, .n = n};
  const weft_func_attr_t *sides[2] = {NULL, NULL};
  const weft_attr_t *branches = weft_node_attr(n, "branches");
  if (branches != NULL && branches->is_list && branches->kind == WEFT_ATTR_FUNC && branches->n > 0) {
    c.is_case = true;
    c.branches = branches->list.funcs;
    c.num_branches = branches->n;
  } else {
    WEFT_RETURN_IF_ERROR(weft_lower_func_attr(n, "else_branch", &sides[0])); /* a Switch's port 0 is false */
    WEFT_RETURN_IF_ERROR(weft_lower_func_attr(n, "then_branch", &sides[1]));
    c.branches = sides;
    c.num_branches = 2;
  }
  weft_status_t *s = lower(&c);
  weft_free(c.args);
  weft_free(c.ports);
  weft_free(c.pivots);
  weft_free(c.bodies);
  weft_free(c.merged);
  weft_free(c.results);
  return s;
}
