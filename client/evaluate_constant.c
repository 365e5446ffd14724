/* client/evaluate_constant.c - the value of a tensor that depends on constants alone, computed by a session
 * of its own. */
#include "base/alloc.h"
#include "client/connection.h"
#include "client/graph.h"
#include "client/status.h"
#include "client/tensor.h"
#include "graph/graph_proto.h"
#include "protos/wire.h"

enum { MAX_NODES = 1 << 16 }; /* larger subgraphs are not folded */

static bool is_foldable(const weft_node_t *n) {
  const uint32_t never = WEFT_OP_STATEFUL | WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT |
                         WEFT_OP_NEXT_ITERATION | WEFT_OP_LOOP_COND | WEFT_OP_CONTROL_TRIGGER | WEFT_OP_SEND |
                         WEFT_OP_RECV | WEFT_OP_PLACEHOLDER | WEFT_OP_ARG | WEFT_OP_RETVAL |
                         WEFT_OP_FUNCTIONAL | WEFT_OP_BLOCKING;
  return (n->flags & never) == 0 && n->function == NULL && n->num_controls == 0 && n->num_outputs > 0;
}

/* Appends a GraphDef of all that `root` depends on. *out_is_constant tells whether it is all constant. */
static weft_status_t *extract(const weft_graph_t *g, weft_node_t *root, weft_strbuf_t *out,
                              bool *out_is_constant) {
  weft_node_t **stack = weft_calloc(MAX_NODES + 1, sizeof(*stack));
  weft_map_t seen = WEFT_MAP_INIT;
  weft_status_t *s = stack == NULL ? WEFT_NO_MEMORY("evaluating a constant") : NULL;
  int n = 0, depth = 0;
  bool is_constant = true;
  if (s == NULL) {
    stack[depth++] = root;
    s = weft_map_put_u64(&seen, (uint64_t)root->id + 1, root, NULL);
  }
  while (s == NULL && depth > 0 && is_constant) {
    weft_node_t *node = stack[--depth];
    is_constant = is_foldable(node) && ++n < MAX_NODES;
    size_t mark = weft_wire_begin(out, 1);
    s = weft_node_export(node, out);
    weft_wire_end(out, mark);
    for (int i = 0; i < node->num_inputs && s == NULL && is_constant; i++) {
      weft_node_t *from = node->inputs[i].node;
      if (weft_map_get_u64(&seen, (uint64_t)from->id + 1) != NULL) continue;
      is_constant = depth < MAX_NODES;
      if (is_constant) stack[depth++] = from;
      s = weft_map_put_u64(&seen, (uint64_t)from->id + 1, from, NULL);
    }
  }
  size_t mark = weft_wire_begin(out, 4);
  weft_wire_put_i64(out, 1, g->producer);
  weft_wire_end(out, mark);
  weft_map_deinit(&seen);
  weft_free(stack);
  *out_is_constant = is_constant;
  return s;
}

static weft_status_t *compute(weft_str_t graph_def, weft_str_t name, weft_tensor_t **out) {
  const TF_SessionOptions options = {.target = NULL};
  weft_connection_t *c = NULL;
  WEFT_RETURN_IF_ERROR(weft_connection_open(&options, &c));
  weft_run_step_t r = {.fetches = &name, .num_fetches = 1};
  weft_status_t *s = weft_connection_extend(c, graph_def);
  if (s == NULL) s = weft_connection_run(c, &r, out, NULL);
  weft_connection_destroy(c);
  return s;
}

unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output, TF_Tensor **result,
                                     TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_tensor_t *value = NULL;
  bool is_constant = false;
  weft_status_t *s = NULL;
  *result = NULL;
  weft_mutex_lock(&graph->mu);
  if (output.oper == NULL || output.index < 0 || output.index >= output.oper->node->num_outputs) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "there is no such output in the graph");
  } else {
    const weft_tensor_t *known = weft_inference_value(graph->inference, weft_client_output(output));
    value = weft_tensor_retain((weft_tensor_t *)(uintptr_t)known);
    if (known == NULL) s = extract(graph->graph, output.oper->node, &text, &is_constant);
  }
  weft_mutex_unlock(&graph->mu);
  if (s == NULL && is_constant) {
    /* A constant that cannot be computed is none: running the graph will say why. */
    weft_status_free(compute(weft_str_of(text.data, text.length), weft_client_tensor_name(output), &value));
  }
  weft_strbuf_deinit(&text);
  if (s == NULL && value != NULL) s = weft_client_tensor_new(value, result);
  return weft_client_end(status, s) && *result != NULL ? 1 : 0;
}
