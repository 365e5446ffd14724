/* tests/cuda/arrays_test.c - tensor arrays and their gradients, whose cells lie in the GPU's memory. */
#include <stdio.h>

#include "tests/cuda/both.h"

enum { MAX_PARTS = 12 };

/* A graph on its way: all ops of arrays are on `device`. */
typedef struct array_graph {
  world_t *w;
  const char *device;
  int64_t width; /* elements are [1, width] */
  int num_nodes;
  TF_Output parts[MAX_PARTS]; /* of the result, [n, width] each */
  int num_parts;
} array_graph_t;

static int64_t width; /* of the next graph */

static const char *name(array_graph_t *g, const char *op) {
  static char text[64];
  snprintf(text, sizeof text, "%s_%d", op, g->num_nodes++);
  return text;
}

static TF_Output ints(array_graph_t *g, int n, const int32_t *values) { /* n < 0: a scalar */
  const int64_t dims[] = {n};
  return constant(g->w, g->w->g, name(g, "ints"), new_ints(n < 0 ? 0 : 1, n < 0 ? NULL : dims, values));
}

static TF_Output node(array_graph_t *g, TF_OperationDescription *d) {
  TF_SetDevice(d, g->device);
  TF_Operation *op = TF_FinishOperation(d, g->w->s);
  ASSERT_OK(g->w);
  return (TF_Output){op, 0};
}

static TF_OperationDescription *begin(array_graph_t *g, const char *op, int n, const TF_Output *inputs) {
  TF_OperationDescription *d = TF_NewOperation(g->w->g, op, name(g, op));
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  return d;
}
#define BEGIN(g, op, ...)                                                     \
  begin(g, op, (int)(sizeof((TF_Output[]){__VA_ARGS__}) / sizeof(TF_Output)), \
        (const TF_Output[]){__VA_ARGS__})

static TF_Output rows(array_graph_t *g, int num) {
  const int64_t dims[] = {num, g->width};
  const TF_Output x =
      constant(g->w, g->w->g, name(g, "value"), weft_both_values(TF_FLOAT, 2, dims, g->num_nodes));
  return node(g, BEGIN(g, "Neg", x));
}

/* Elements [1, width] as rows of a tensor of three dimensions. */
static TF_Output cells(array_graph_t *g, int num) {
  const int32_t shape[] = {num, 1, (int32_t)g->width};
  const TF_Output x = rows(g, num), to = ints(g, 3, shape);
  return node(g, BEGIN(g, "Reshape", x, to));
}

/* What the result has more of. */
static void add_part(array_graph_t *g, TF_Output x) {
  const int32_t shape[] = {-1, (int32_t)g->width};
  const TF_Output to = ints(g, 2, shape);
  g->parts[g->num_parts++] = node(g, BEGIN(g, "Reshape", x, to));
}

static TF_Output flow_of(TF_Output handle) { return (TF_Output){handle.oper, 1}; }

static TF_Output array(array_graph_t *g, int32_t size, bool has_rows) {
  const int64_t dims[] = {has_rows ? -1 : 1, g->width};
  TF_OperationDescription *d = BEGIN(g, "TensorArrayV3", ints(g, -1, &size));
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrBool(d, "clear_after_read", 0);
  TF_SetAttrShape(d, "element_shape", dims, 2);
  return node(g, d);
}

static TF_Output write(array_graph_t *g, TF_Output a, int32_t i, TF_Output x, TF_Output flow) {
  return node(g, BEGIN(g, "TensorArrayWriteV3", a, ints(g, -1, &i), x, flow));
}

static TF_Output scatter(array_graph_t *g, TF_Output a, const int32_t at[2], TF_Output flow) {
  const TF_Output indices = ints(g, 2, at), x = cells(g, 2);
  return node(g, BEGIN(g, "TensorArrayScatterV3", a, indices, x, flow));
}

static TF_Output gather(array_graph_t *g, TF_Output a, int n, const int32_t *at, TF_Output flow) {
  TF_OperationDescription *d = BEGIN(g, "TensorArrayGatherV3", a, ints(g, n, at), flow);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  return node(g, d);
}

static TF_Output read(array_graph_t *g, TF_Output a, int32_t i, TF_Output flow) {
  TF_OperationDescription *d = BEGIN(g, "TensorArrayReadV3", a, ints(g, -1, &i), flow);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  return node(g, d);
}

static TF_Output gradient(array_graph_t *g, TF_Output a, TF_Output flow, const char *source) {
  TF_OperationDescription *d = BEGIN(g, "TensorArrayGradV3", a, flow);
  TF_SetAttrString(d, "source", source, strlen(source));
  return node(g, d);
}

static TF_Output whole(array_graph_t *g) {
  const int32_t zero = 0;
  const TF_Output axis = ints(g, -1, &zero);
  TF_OperationDescription *d = TF_NewOperation(g->w->g, "ConcatV2", "whole");
  TF_AddInputList(d, g->parts, g->num_parts);
  TF_AddInput(d, axis);
  return node(g, d);
}

/* Cells that are written one by one and together, and read so; a cell of a gradient that is written three
 * times, and cells that never are. */
static TF_Output cells_and_gradients(world_t *w, const char *device) {
  array_graph_t g = {.w = w, .device = device, .width = width};
  static const int32_t even[] = {0, 2}, odd[] = {1, 3}, all[] = {3, 0, 1, 2}, back[] = {2, 1, 0};
  const TF_Output a = array(&g, 4, false);
  TF_Output flow = scatter(&g, a, even, flow_of(a));
  flow = write(&g, a, 1, rows(&g, 1), flow);
  flow = write(&g, a, 3, rows(&g, 1), flow);
  add_part(&g, read(&g, a, 2, flow));
  add_part(&g, gather(&g, a, 4, all, flow));
  const TF_Output first = gradient(&g, a, flow, "first"), second = gradient(&g, a, flow, "second");
  TF_Output back_flow = write(&g, first, 1, rows(&g, 1), flow_of(first));
  back_flow = write(&g, first, 1, rows(&g, 1), back_flow);
  back_flow = scatter(&g, first, odd, back_flow);
  add_part(&g, gather(&g, first, 3, back, back_flow));
  back_flow = scatter(&g, second, odd, flow_of(second));
  back_flow = scatter(&g, second, odd, back_flow);
  add_part(&g, read(&g, second, 3, back_flow));
  add_part(&g, read(&g, second, 0, back_flow));
  return whole(&g);
}

/* Pieces of one to three rows. */
static TF_Output pieces(world_t *w, const char *device) {
  array_graph_t g = {.w = w, .device = device, .width = width};
  const int64_t n[] = {3};
  const TF_Output a = array(&g, 3, true), x = rows(&g, 6);
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, n, 1, 3 * sizeof(int64_t));
  for (int i = 0; i < 3; i++) ((int64_t *)TF_TensorData(t))[i] = i + 1;
  const TF_Output lengths = constant(w, w->g, name(&g, "lengths"), t);
  const TF_Output flow = node(&g, BEGIN(&g, "TensorArraySplitV3", a, x, lengths, flow_of(a)));
  add_part(&g, read(&g, a, 1, flow));
  TF_OperationDescription *d = BEGIN(&g, "TensorArrayConcatV3", a, flow);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  const TF_Output joined = node(&g, d);
  add_part(&g, joined);
  d = BEGIN(&g, "Cast", (TF_Output){joined.oper, 1});
  TF_SetAttrType(d, "DstT", TF_FLOAT);
  const TF_Output numbers = node(&g, d), whole_part = whole(&g);
  const int32_t column[] = {3, 1};
  const TF_Output shape = ints(&g, 2, column), as_column = node(&g, BEGIN(&g, "Reshape", numbers, shape));
  const int32_t zero = 0;
  const TF_Output axis = ints(&g, -1, &zero);
  d = BEGIN(&g, "Max", as_column, axis);
  return node(&g, BEGIN(&g, "AddV2", whole_part, node(&g, d)));
}

static void arrays_give_what_the_cpu_gives(void) {
  static const int64_t widths[] = {64, 5, 1}; /* elements that are aligned as memory is, and others */
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    width = widths[i];
    weft_both_agree(cells_and_gradients, 0);
    weft_both_agree(pieces, 0);
  }
}

static const CU_TestInfo tests[] = {
    {"arrays give what the CPU gives", arrays_give_what_the_cpu_gives},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("tensor arrays on a GPU", tests);
}
