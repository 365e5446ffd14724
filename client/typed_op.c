/* client/typed_op.c - one node of the functions of weft/ops.h. */
#include "client/typed_op.h"

#include "base/alloc.h"
#include "client/operation.h"
#include "client/status.h"

/* A name for the next node of this op: behind the prefix of what is being built, which the node gets anyway.
 * NULL without memory. */
static const char *free_name(TF_Graph *g, const char *op) {
  weft_str_t prefix = g->name_prefix;
  weft_strbuf_t base = WEFT_STRBUF_INIT;
  weft_strbuf_append(&base, prefix);
  weft_strbuf_puts(&base, op);
  weft_mutex_lock(&g->mu);
  weft_str_t name = base.failed ? (weft_str_t){NULL, 0}
                                : weft_graph_unique_name(g->graph, weft_str_of(base.data, base.length));
  weft_mutex_unlock(&g->mu);
  weft_strbuf_deinit(&base);
  return name.data == NULL ? NULL : name.data + prefix.length;
}

TF_OperationDescription *weft_typed_op_begin(TF_Graph *graph, const char *op, const char *name,
                                             TF_Status *status) {
  if (TF_GetCode(status) != TF_OK) return NULL;
  if (name == NULL) name = free_name(graph, op);
  return name == NULL ? NULL : TF_NewOperation(graph, op, name);
}

TF_Operation *weft_typed_op_end(TF_OperationDescription *d, TF_Status *status) {
  if (d == NULL && TF_GetCode(status) != TF_OK) return NULL;
  return TF_FinishOperation(d, status);
}

void weft_typed_op_input(TF_OperationDescription *d, TF_Output input) { TF_AddInput(d, input); }

void weft_typed_op_inputs(TF_OperationDescription *d, const TF_Output *inputs, int n) {
  TF_AddInputList(d, inputs, n);
}

int weft_typed_op_outputs(TF_Operation *node, const char *name) {
  TF_Status *status = node == NULL ? NULL : TF_NewStatus();
  int n = status == NULL ? 0 : TF_OperationOutputListLength(node, name, status);
  TF_DeleteStatus(status);
  return n;
}

/* ---- attributes ---- */

void weft_typed_op_set_text(TF_OperationDescription *d, const char *attr, const char *value) {
  if (value != NULL) TF_SetAttrString(d, attr, value, strlen(value));
}

void weft_typed_op_set_int(TF_OperationDescription *d, const char *attr, int64_t value) {
  TF_SetAttrInt(d, attr, value);
}

void weft_typed_op_set_float(TF_OperationDescription *d, const char *attr, float value) {
  TF_SetAttrFloat(d, attr, value);
}

void weft_typed_op_set_bool(TF_OperationDescription *d, const char *attr, bool value) {
  TF_SetAttrBool(d, attr, value ? 1 : 0);
}

void weft_typed_op_set_type(TF_OperationDescription *d, const char *attr, TF_DataType value) {
  TF_SetAttrType(d, attr, value);
}

void weft_typed_op_set_shape(TF_OperationDescription *d, const char *attr, WEFT_PartialShape value) {
  TF_SetAttrShape(d, attr, value.dims, value.num_dims);
}

/* What goes wrong is told when the node is finished. */
static void set_tensors(TF_OperationDescription *d, const char *attr, TF_Tensor *const *values, int n,
                        bool is_list) {
  if (d == NULL) return;
  TF_Status *status = TF_NewStatus();
  if (status == NULL) {
    d->is_out_of_memory = true;
    return;
  }
  if (is_list) {
    TF_SetAttrTensorList(d, attr, values, n, status);
  } else {
    TF_SetAttrTensor(d, attr, values[0], status);
  }
  if (TF_GetCode(status) != TF_OK)
    weft_client_desc_error(d, "attr '%.200s': %.800s", attr, TF_Message(status));
  TF_DeleteStatus(status);
}

void weft_typed_op_set_tensor(TF_OperationDescription *d, const char *attr, TF_Tensor *value) {
  if (value != NULL) set_tensors(d, attr, &value, 1, false);
}

void weft_typed_op_set_func(TF_OperationDescription *d, const char *attr, const char *value) {
  if (value != NULL) TF_SetAttrFuncName(d, attr, value, strlen(value));
}

/* ---- lists ---- */

static void *list_of(TF_OperationDescription *d, int n, size_t size) {
  void *p = d == NULL || n < 0 ? NULL : weft_arena_calloc(&d->arena, (size_t)n + 1, size);
  if (p == NULL && d != NULL) d->is_out_of_memory = true;
  return p;
}

static void set_list(TF_OperationDescription *d, const char *attr, weft_attr_t value) {
  value.is_list = true;
  weft_client_set_attr(d, weft_str(attr), &value);
}

void weft_typed_op_set_texts(TF_OperationDescription *d, const char *attr, const char *const *values, int n) {
  weft_str_t *all = list_of(d, n, sizeof *all);
  for (int i = 0; all != NULL && i < n; i++) all[i] = weft_str(values[i]);
  if (all != NULL) set_list(d, attr, (weft_attr_t){.kind = WEFT_ATTR_STRING, .n = n, .list.strings = all});
}

void weft_typed_op_set_ints(TF_OperationDescription *d, const char *attr, const int64_t *values, int n) {
  TF_SetAttrIntList(d, attr, values, n);
}

void weft_typed_op_set_floats(TF_OperationDescription *d, const char *attr, const float *values, int n) {
  TF_SetAttrFloatList(d, attr, values, n);
}

void weft_typed_op_set_bools(TF_OperationDescription *d, const char *attr, const bool *values, int n) {
  set_list(d, attr, (weft_attr_t){.kind = WEFT_ATTR_BOOL, .n = n, .list.bools = values});
}

void weft_typed_op_set_types(TF_OperationDescription *d, const char *attr, const TF_DataType *values, int n) {
  TF_SetAttrTypeList(d, attr, values, n);
}

void weft_typed_op_set_shapes(TF_OperationDescription *d, const char *attr, const WEFT_PartialShape *values,
                              int n) {
  const int64_t **dims = list_of(d, n, sizeof *dims);
  int *ranks = list_of(d, n, sizeof *ranks);
  for (int i = 0; dims != NULL && ranks != NULL && i < n; i++) {
    dims[i] = values[i].dims;
    ranks[i] = values[i].num_dims;
  }
  if (dims != NULL && ranks != NULL) TF_SetAttrShapeList(d, attr, dims, ranks, n);
}

void weft_typed_op_set_tensors(TF_OperationDescription *d, const char *attr, TF_Tensor *const *values,
                               int n) {
  set_tensors(d, attr, values, n, true);
}

void weft_typed_op_set_funcs(TF_OperationDescription *d, const char *attr, const char *const *values, int n) {
  weft_func_attr_t *all = list_of(d, n, sizeof *all);
  const weft_func_attr_t **each = list_of(d, n, sizeof *each);
  if (all == NULL || each == NULL) return;
  for (int i = 0; i < n; i++) {
    all[i].name = weft_str(values[i]);
    each[i] = &all[i];
  }
  set_list(d, attr, (weft_attr_t){.kind = WEFT_ATTR_FUNC, .n = n, .list.funcs = each});
}
