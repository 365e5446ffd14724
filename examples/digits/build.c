/* examples/digits/build.c - nodes, constants, files. */
#include "examples/digits/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void build_init(build_t *b) { *b = (build_t){.graph = TF_NewGraph(), .status = TF_NewStatus()}; }

void build_deinit(build_t *b) {
  TF_DeleteGraph(b->graph);
  TF_DeleteStatus(b->status);
}

void check(build_t *b, const char *what) {
  if (TF_GetCode(b->status) == TF_OK) return;
  fprintf(stderr, "make_graph: %s: %s\n", what, TF_Message(b->status));
  exit(1);
}

TF_OperationDescription *begin(build_t *b, const char *op, const char *scope, const char *name) {
  char full[256];
  snprintf(full, sizeof full, "%s%s%s", scope, scope[0] == '\0' ? "" : "/", name);
  TF_OperationDescription *node = TF_NewOperation(b->graph, op, full);
  return node;
}

TF_Output end(build_t *b, TF_OperationDescription *node) {
  TF_Operation *op = TF_FinishOperation(node, b->status);
  check(b, "adding a node");
  return (TF_Output){op, 0};
}

TF_Output op1(build_t *b, const char *op, const char *scope, const char *name, TF_Output x) {
  TF_OperationDescription *node = begin(b, op, scope, name);
  TF_AddInput(node, x);
  return end(b, node);
}

TF_Output op2(build_t *b, const char *op, const char *scope, const char *name, TF_Output x, TF_Output y) {
  TF_OperationDescription *node = begin(b, op, scope, name);
  TF_AddInput(node, x);
  TF_AddInput(node, y);
  return end(b, node);
}

TF_Output placeholder(build_t *b, const char *name, TF_DataType dtype, const int64_t *dims, int rank) {
  TF_OperationDescription *node = begin(b, "Placeholder", "", name);
  TF_SetAttrType(node, "dtype", dtype);
  TF_SetAttrShape(node, "shape", dims, rank);
  return end(b, node);
}

TF_Output constant(build_t *b, const char *scope, const char *name, TF_DataType dtype, const int64_t *dims,
                   int rank, const void *data, size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, bytes);
  if (bytes > 0) memcpy(TF_TensorData(t), data, bytes);
  TF_OperationDescription *node = begin(b, "Const", scope, name);
  TF_SetAttrType(node, "dtype", dtype);
  TF_SetAttrTensor(node, "value", t, b->status);
  check(b, name);
  TF_DeleteTensor(t);
  return end(b, node);
}

TF_Output scalar(build_t *b, const char *scope, const char *name, float value) {
  return constant(b, scope, name, TF_FLOAT, NULL, 0, &value, sizeof value);
}

TF_Output ints(build_t *b, const char *scope, const char *name, const int32_t *values, int n) {
  int64_t dims[1] = {n};
  return constant(b, scope, name, TF_INT32, dims, 1, values, (size_t)n * sizeof values[0]);
}

void group(build_t *b, const char *name, TF_Operation *const *ops, int n) {
  TF_OperationDescription *node = begin(b, "NoOp", "", name);
  for (int i = 0; i < n; i++) TF_AddControlInput(node, ops[i]);
  (void)end(b, node);
}

void write_graph(build_t *b, const char *path) {
  TF_Buffer *bytes = TF_NewBuffer();
  TF_GraphToGraphDef(b->graph, bytes, b->status);
  check(b, "serializing the graph");
  FILE *f = fopen(path, "wb");
  if (f == NULL || fwrite(bytes->data, 1, bytes->length, f) != bytes->length || fclose(f) != 0) {
    perror(path);
    exit(1);
  }
  TF_DeleteBuffer(bytes);
}
