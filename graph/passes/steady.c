/* graph/passes/steady.c - marks inputs that stay the same from step to step: constants, and values of
 * resource variables, which a step seldom or never changes where it does not train them.
 *
 * The attribute _steady_inputs has bit i for input i. Kernels that read an input in a layout of their own
 * keep their copy while the tensor is the same (kernels/cpu/math/kept.h). Values behind references are not
 * marked: their bytes change where they lie.
 */
#include "graph/passes/round.h"

#define MARK "_steady_inputs"

/* Ops whose kernels keep a copy of an input, and which one. */
static const struct {
  const char *op;
  int input;
} copying_ops[] = {{"Conv2D", 1},        {"Conv3D", 1},           {"_FusedConv2D", 1},
                   {"_FusedConv3D", 1},  {"MatMul", 1},           {"_FusedMatMul", 1},
                   {"BatchMatMulV2", 1}, {"_WeftFusedConv2D", 1}, {"_WeftFusedMatMul", 1}};

enum { NUM_COPYING_OPS = sizeof copying_ops / sizeof copying_ops[0] };

typedef struct steady_ops {
  const weft_op_def_t *copying_ops[NUM_COPYING_OPS], *constant, *read;
} steady_ops_t;

/* Loops may lie in each other. */
static bool is_steady(const steady_ops_t *ops, const weft_node_t *reader, weft_output_t of) {
  for (const weft_node_t *enter; (enter = weft_output_enter(of)) != NULL;) of = enter->inputs[0];
  of = weft_output_copied(of);
  const bool is_source = of.node->op == ops->constant || of.node->op == ops->read;
  return is_source && weft_str_eq(of.node->assigned_device, reader->assigned_device);
}

static weft_status_t *mark(weft_pass_round_t *r, const steady_ops_t *ops, weft_node_t *n) {
  for (int i = 0; i < NUM_COPYING_OPS; i++) {
    const int input = copying_ops[i].input;
    if (n->op != ops->copying_ops[i] || !is_steady(ops, n, n->inputs[input])) continue;
    const weft_attr_t bits = {.kind = WEFT_ATTR_INT, .i = INT64_C(1) << input};
    if (weft_node_attr_int(n, MARK, 0) == bits.i) return NULL;
    weft_pass_round_note(r, n, "keeps its copy of", n->inputs[input].node->name);
    return weft_graph_set_attr(r->g, n, MARK, &bits);
  }
  return NULL;
}

weft_status_t *weft_pass_steady(weft_pass_round_t *r) {
  steady_ops_t ops = {.constant = weft_op_find(WEFT_STR("Const")),
                      .read = weft_op_find(WEFT_STR("ReadVariableOp"))};
  for (int i = 0; i < NUM_COPYING_OPS; i++) ops.copying_ops[i] = weft_op_find(weft_str(copying_ops[i].op));
  WEFT_RETURN_IF_ERROR(weft_pass_round_finish(r));
  for (int id = 0; id < r->g->num_nodes; id++) {
    weft_node_t *n = r->g->nodes[id];
    if (n != NULL) WEFT_RETURN_IF_ERROR(mark(r, &ops, n));
  }
  return NULL;
}
