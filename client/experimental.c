/* client/experimental.c - small functions of c_api_experimental.h: ops, queues by number, the process, lists
 * of shapes. */
#include "tensorflow/c/c_api_experimental.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "client/graph.h"
#include "client/import.h"
#include "client/session.h"
#include "client/status.h"
#include "graph/function.h"

/* ---- ops ---- */

static const weft_op_def_t *find_op(const char *name, TF_Status *status) {
  const weft_op_def_t *op = weft_op_find(weft_str(name));
  weft_client_end(status, op == NULL ? weft_client_unknown_op(name) : NULL);
  return op;
}

const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index, TF_Status *status) {
  const weft_op_def_t *op = find_op(op_name, status);
  if (op == NULL) return NULL;
  if (input_index < 0 || input_index >= op->num_inputs) {
    weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT, "%d out of range for %s", input_index, op_name));
    return NULL;
  }
  const weft_arg_def_t *arg = &op->inputs[input_index];
  if (arg->kind == WEFT_ARG_REPEATED) return arg->number_attr.data;
  weft_client_end(status, WEFT_ERROR(NOT_FOUND, "%s does not have number_attr() defined.", op_name));
  return NULL;
}

int TF_OpIsStateful(const char *op_type, TF_Status *status) {
  const weft_op_def_t *op = find_op(op_type, status);
  return op != NULL && (op->flags & WEFT_OP_STATEFUL) != 0;
}

/* ---- queues by number ---- */

/* `what` is done to the queue by "<base>_<number>". */
static TF_Operation *numbered(TF_Session *session, const char *base, int number, const char *what,
                              TF_Status *status) {
  char name[64];
  snprintf(name, sizeof name, "%s_%d", base, number);
  TF_Operation *op = TF_GraphOperationByName(session->graph, name);
  weft_client_end(
      status, op != NULL ? NULL : WEFT_ERROR(INTERNAL, "Unable to find the %s node in the TF graph.", what));
  return op;
}

TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id, TF_Status *status) {
  TF_Tensor *value = NULL;
  const TF_Output dequeue = {numbered(session, "fifo_queue_dequeue", tensor_id, "dequeue", status), 0};
  if (dequeue.oper == NULL) return NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &dequeue, &value, 1, NULL, 0, NULL, status);
  return value;
}

void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor, TF_Status *status) {
  const TF_Output in = {numbered(session, "arg_tensor_enqueue", tensor_id, "enqueue", status), 0};
  const TF_Operation *enqueue =
      in.oper == NULL ? NULL : numbered(session, "fifo_queue_enqueue", tensor_id, "enqueue", status);
  if (enqueue == NULL) return;
  TF_SessionRun(session, NULL, &in, &tensor, 1, NULL, NULL, 0, &enqueue, 1, NULL, status);
}

/* ---- graphs ---- */

void TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
                                                              unsigned char enable) {
  opts->allows_unknown_groups = enable == 0;
}

void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status) {
  weft_str_t name = weft_str(func_name);
  weft_mutex_lock(&g->mu);
  weft_status_t *s = NULL;
  if (weft_function_find(g->graph->library, name) == NULL) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Tried to remove non-existent function '%s'.", func_name);
  } else {
    weft_map_remove(&g->graph->library->by_name, name); /* calls that are in the graph keep it */
  }
  weft_mutex_unlock(&g->mu);
  weft_client_end(status, s);
}

/* ---- the process ---- */

void TF_InitMain(const char *usage, int *argc, char ***argv) {
  (void)usage;
  (void)argc;
  (void)argv;
}

int TF_PickUnusedPortOrDie(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 &&
            getsockname(fd, (struct sockaddr *)&at, &size) == 0;
  if (fd >= 0) close(fd);
  if (ok) return ntohs(at.sin_port);
  weft_log(WEFT_LOG_ERROR, "TF_PickUnusedPortOrDie: there is no free port");
  abort();
}

void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg) {
  TF_SetStatus(status, TF_INTERNAL, errMsg);
}

/* ---- lists of shapes ---- */

TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes) {
  TF_ShapeAndTypeList *l = weft_calloc(1, sizeof *l);
  TF_ShapeAndType *items = num_shapes < 0 ? NULL : weft_calloc((size_t)num_shapes, sizeof *items);
  if (l == NULL || items == NULL) {
    weft_free(l);
    weft_free(items);
    return NULL;
  }
  for (int i = 0; i < num_shapes; i++) items[i].num_dims = -1;
  *l = (TF_ShapeAndTypeList){num_shapes, items};
  return l;
}

void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index) {
  TF_ShapeAndType *item = &shape_list->items[index];
  weft_free(item->dims);
  item->dims = NULL;
  item->num_dims = -1;
}

void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index, const int64_t *dims,
                                 int num_dims) {
  TF_ShapeAndTypeListSetUnknownShape(shape_list, index);
  int64_t *copy = num_dims < 0 ? NULL : weft_calloc((size_t)num_dims, sizeof *copy);
  if (copy == NULL) return; /* without memory it is unknown */
  if (num_dims > 0) memcpy(copy, dims, (size_t)num_dims * sizeof *copy);
  shape_list->items[index].dims = copy;
  shape_list->items[index].num_dims = num_dims;
}

void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index, TF_DataType dtype) {
  shape_list->items[index].dtype = dtype;
}

void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list) {
  if (shape_list == NULL) return;
  for (int i = 0; i < shape_list->num_items; i++) weft_free(shape_list->items[i].dims);
  weft_free(shape_list->items);
  weft_free(shape_list);
}

void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array, int num_items) {
  if (shape_list_array == NULL) return;
  for (int i = 0; i < num_items; i++) TF_DeleteShapeAndTypeList(shape_list_array[i]);
  free((void *)shape_list_array);
}
