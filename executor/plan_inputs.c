/* executor/plan_inputs.c - the inputs of a plan's nodes, by turning round the edges that it keeps at
 * producers. */
#include "base/alloc.h"
#include "executor/commands.h"

typedef struct plan_input {
  uint32_t node, output; /* of the producer */
} plan_input_t;

struct weft_plan_inputs {
  const weft_exec_plan_t *plan; /* borrowed */
  size_t *first;                /* by node: where its inputs begin */
  plan_input_t *inputs;
};

void weft_plan_inputs_destroy(weft_plan_inputs_t *x) {
  if (x == NULL) return;
  weft_free(x->first);
  weft_free(x->inputs);
  weft_free(x);
}

weft_status_t *weft_plan_inputs_create(const weft_exec_plan_t *p, weft_plan_inputs_t **out) {
  weft_plan_inputs_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("listing a plan's inputs");
  x->plan = p;
  x->first = weft_calloc((size_t)p->num_nodes + 1, sizeof *x->first);
  size_t num_inputs = 0;
  for (uint32_t i = 0; x->first != NULL && i < p->num_nodes; i++) {
    x->first[i] = num_inputs;
    num_inputs += p->nodes[i].num_inputs;
  }
  x->inputs = weft_calloc(num_inputs, sizeof *x->inputs);
  if (x->first == NULL || x->inputs == NULL) {
    weft_plan_inputs_destroy(x);
    return WEFT_NO_MEMORY("listing a plan's inputs");
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    for (uint32_t e = p->nodes[i].first_edge; e < p->nodes[i + 1].first_edge; e++) {
      const plan_edge_t *edge = &p->edges[e];
      const uint32_t to = edge->to & ~TO_MERGE, input = edge->slot - p->nodes[to].first_slot;
      if (input < p->nodes[to].num_inputs) x->inputs[x->first[to] + input] = (plan_input_t){i, edge->output};
    }
  }
  *out = x;
  return NULL;
}

/* ---- what a value comes from ---- */

/* An output of a node of the plan, or of a node in a command buffer of it. */
typedef struct plan_source {
  const weft_kernel_node_t *node; /* NULL: the value is input `output` of the buffer */
  uint32_t output;
} plan_source_t;

static plan_source_t source_of_value(const weft_commands_t *c, uint32_t value) {
  plan_source_t from = {NULL, value};
  if (value < c->num_inputs) return from;
  uint32_t m = 0;
  while (m + 1 < c->num_commands && c->commands[m + 1].first_value <= value) m++;
  return (plan_source_t){&c->commands[m].setup.node, value - c->commands[m].first_value};
}

/* Copies between memories are the plan's own. */
static bool is_copy(const weft_kernel_node_t *n) {
  const uint64_t memory_copy = WEFT_OP_COPY | WEFT_OP_INTERNAL;
  return (n->op->flags & memory_copy) == memory_copy;
}

static plan_source_t source_of(const weft_plan_inputs_t *x, uint32_t node, uint32_t input) {
  const weft_exec_plan_t *p = x->plan;
  for (;;) {
    const plan_input_t in = x->inputs[x->first[node] + input];
    plan_source_t from = {&p->setups[in.node].node, in.output};
    node = in.node;
    input = 0;
    if (p->nodes[node].kind == NODE_COMMANDS) {
      const weft_commands_t *c = &p->commands[p->nodes[node].extra];
      from = source_of_value(c, c->outputs[in.output]);
      input = from.output;
    }
    if (from.node != NULL && !is_copy(from.node)) return from;
    if (from.node != NULL && p->nodes[node].kind == NODE_COMMANDS)
      return from; /* it has the copied node's name */
  }
}

static void print(plan_source_t from, int i, weft_strbuf_t *out) {
  weft_strbuf_puts(out, i > 0 ? ", " : "");
  weft_strbuf_append(out, from.node->name);
  if (from.output > 0) weft_strbuf_printf(out, ":%u", from.output);
}

static bool lies_in(const void *p, const void *array, size_t bytes) {
  return (uintptr_t)p >= (uintptr_t)array && (uintptr_t)p - (uintptr_t)array < bytes;
}

/* The node of a command buffer. */
static void print_command(const weft_plan_inputs_t *x, uint32_t node, const weft_kernel_node_t *n,
                          weft_strbuf_t *out) {
  const weft_commands_t *c = &x->plan->commands[x->plan->nodes[node].extra];
  uint32_t m = 0;
  while (&c->commands[m].setup.node != n) m++;
  for (int i = 0; i < n->num_inputs; i++) {
    plan_source_t from = source_of_value(c, c->operands[c->commands[m].first_operand + (uint32_t)i].value);
    print(from.node != NULL ? from : source_of(x, node, from.output), i, out);
  }
}

void weft_plan_inputs_print(const weft_plan_inputs_t *x, const weft_kernel_node_t *n, weft_strbuf_t *out) {
  const weft_exec_plan_t *p = x->plan;
  if (lies_in(n, p->setups, p->num_nodes * sizeof *p->setups)) {
    /* `node` is the first field of a plan_setup_t */
    const size_t node = ((uintptr_t)n - (uintptr_t)p->setups) / sizeof *p->setups;
    for (int i = 0; i < n->num_inputs; i++) print(source_of(x, (uint32_t)node, (uint32_t)i), i, out);
    return;
  }
  for (uint32_t i = 0; p->num_commands > 0 && i < p->num_nodes; i++) {
    if (p->nodes[i].kind != NODE_COMMANDS) continue;
    const weft_commands_t *c = &p->commands[p->nodes[i].extra];
    if (lies_in(n, c->commands, c->num_commands * sizeof *c->commands)) print_command(x, i, n, out);
  }
}
