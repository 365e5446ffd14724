/* client/inspect.c - what a node is, where its inputs come from and its outputs go. */
#include "base/alloc.h"
#include "client/buffer.h"
#include "client/graph.h"
#include "client/status.h"
#include "graph/graph_proto.h"

const char *TF_OperationName(TF_Operation *oper) { return oper->node->name.data; }
const char *TF_OperationOpType(TF_Operation *oper) { return oper->node->op->name.data; }
const char *TF_OperationDevice(TF_Operation *oper) {
  return oper->node->requested_device.length == 0 ? "" : oper->node->requested_device.data;
}
int TF_OperationNumOutputs(TF_Operation *oper) { return oper->node->num_outputs; }
int TF_OperationNumInputs(TF_Operation *oper) { return oper->node->num_inputs; }
int TF_OperationNumControlInputs(TF_Operation *oper) { return oper->node->num_controls; }

TF_DataType TF_OperationOutputType(TF_Output oper_out) {
  const weft_node_t *n = oper_out.oper->node;
  return oper_out.index < 0 || oper_out.index >= n->num_outputs
             ? (TF_DataType)0
             : (TF_DataType)n->output_types[oper_out.index];
}

TF_DataType TF_OperationInputType(TF_Input oper_in) {
  const weft_node_t *n = oper_in.oper->node;
  return oper_in.index < 0 || oper_in.index >= n->num_inputs ? (TF_DataType)0
                                                             : (TF_DataType)n->input_types[oper_in.index];
}

/* How many tensors an arg stands for, from the node's attributes. */
static int arg_length(const weft_node_t *n, const weft_arg_def_t *arg) {
  if (arg->kind != WEFT_ARG_REPEATED && arg->kind != WEFT_ARG_TYPE_LIST) return 1;
  weft_str_t name = arg->kind == WEFT_ARG_REPEATED ? arg->number_attr : arg->type_attr;
  for (int i = 0; i < n->num_attrs; i++) {
    const weft_attr_t *a = &n->attrs[i].value;
    if (weft_str_eq(n->attrs[i].name, name)) return a->is_list ? a->n : (int)a->i;
  }
  return 0;
}

static int list_length(const weft_node_t *n, const weft_arg_def_t *args, int num_args, const char *what,
                       const char *arg_name, TF_Status *status) {
  for (int i = 0; i < num_args; i++) {
    if (!weft_str_is(args[i].name, arg_name)) continue;
    weft_client_end(status, NULL);
    return arg_length(n, &args[i]);
  }
  weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT, "%s arg '%s' not found", what, arg_name));
  return -1;
}

int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status) {
  const weft_op_def_t *op = oper->node->op;
  return list_length(oper->node, op->outputs, op->num_outputs, "Output", arg_name, status);
}

int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status) {
  const weft_op_def_t *op = oper->node->op;
  return list_length(oper->node, op->inputs, op->num_inputs, "Input", arg_name, status);
}

static TF_Output producer(const TF_Operation *oper, int input) {
  weft_output_t from = oper->node->inputs[input];
  return (TF_Output){weft_client_operation(oper->graph, from.node), from.index};
}

TF_Output TF_OperationInput(TF_Input oper_in) {
  if (oper_in.index < 0 || oper_in.index >= oper_in.oper->node->num_inputs) return (TF_Output){NULL, -1};
  weft_mutex_lock(&oper_in.oper->graph->mu);
  TF_Output o = producer(oper_in.oper, oper_in.index);
  weft_mutex_unlock(&oper_in.oper->graph->mu);
  return o;
}

void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs, int max_inputs) {
  weft_mutex_lock(&oper->graph->mu);
  for (int i = 0; i < max_inputs && i < oper->node->num_inputs; i++) inputs[i] = producer(oper, i);
  weft_mutex_unlock(&oper->graph->mu);
}

/* Walks the consumers of one output (-1: control); writes those that fit and returns how many there are. */
static int consumers(TF_Operation *oper, int output, TF_Input *to, TF_Operation **operations, int max) {
  int n = 0;
  weft_mutex_lock(&oper->graph->mu);
  for (const weft_client_edge_t *e = oper->first; e != NULL; e = e->next) {
    if (e->output != output) continue;
    if (to != NULL && n < max) to[n] = (TF_Input){e->to, e->input};
    if (operations != NULL && n < max) operations[n] = e->to;
    n++;
  }
  weft_mutex_unlock(&oper->graph->mu);
  return n;
}

int TF_OperationOutputNumConsumers(TF_Output oper_out) {
  return oper_out.index < 0 ? 0 : consumers(oper_out.oper, oper_out.index, NULL, NULL, 0);
}

int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *to, int max_consumers) {
  return oper_out.index < 0 ? 0 : consumers(oper_out.oper, oper_out.index, to, NULL, max_consumers);
}

int TF_OperationGetControlInputs(TF_Operation *oper, TF_Operation **control_inputs, int max_control_inputs) {
  weft_mutex_lock(&oper->graph->mu);
  int n = oper->node->num_controls;
  for (int i = 0; i < n && i < max_control_inputs; i++) {
    control_inputs[i] = weft_client_operation(oper->graph, oper->node->controls[i]);
  }
  weft_mutex_unlock(&oper->graph->mu);
  return n;
}

int TF_OperationNumControlOutputs(TF_Operation *oper) { return consumers(oper, -1, NULL, NULL, 0); }

int TF_OperationGetControlOutputs(TF_Operation *oper, TF_Operation **control_outputs,
                                  int max_control_outputs) {
  return consumers(oper, -1, NULL, control_outputs, max_control_outputs);
}

void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_node_export(oper->node, &text);
  if (s == NULL) s = weft_client_fill(output_node_def, &text);
  weft_strbuf_deinit(&text);
  weft_client_end(status, s);
}
