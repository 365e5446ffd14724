/* tests/cuda/sparse_test.c - a graph of sparse tensors on the CUDA device, as on the CPU: their indices lie
 * in the host's memory, their values on the device, and how many a sum has is known when the device has
 * added. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/both.h"

typedef struct sparse_tensor {
  TF_Output indices, values, shape;
} sparse_tensor_t;

static TF_Output numbers(world_t *w, const char *name, int rank, int64_t rows, int64_t columns,
                         const int64_t *values) {
  const int64_t dims[2] = {rows, columns};
  size_t count = 1;
  for (int d = 0; d < rank; d++) count *= (size_t)dims[d];
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, dims, rank, count * sizeof *values);
  memcpy(TF_TensorData(t), values, count * sizeof *values);
  return constant(w, w->g, name, t);
}

static TF_Operation *node(world_t *w, const char *device, const char *op, const char *name, int n,
                          const TF_Output *inputs) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  TF_SetDevice(d, device);
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return made;
}

static sparse_tensor_t outputs(TF_Operation *op) { return (sparse_tensor_t){{op, 0}, {op, 1}, {op, 2}}; }

/* Rows 0, 2 and 5 of six. `seed`: of the values and of the columns. */
static sparse_tensor_t given(world_t *w, const char *name, int seed) {
  const int64_t at[12] = {0, seed, 0, seed + 3, 2, 1, 2, seed + 1, 5, 0, 5, 6}, shape[2] = {6, 8}, n = 6;
  char text[32];
  snprintf(text, sizeof text, "%s_at", name);
  sparse_tensor_t x;
  x.indices = numbers(w, text, 2, 6, 2, at);
  snprintf(text, sizeof text, "%s_values", name);
  x.values = constant(w, w->g, text, weft_both_values(TF_FLOAT, 1, &n, seed));
  snprintf(text, sizeof text, "%s_shape", name);
  x.shape = numbers(w, text, 1, 2, 0, shape);
  return x;
}

/* The sums of two above a threshold, with a default in empty rows, less the last column: their softmax, times
 * a dense tensor, and added to it. */
static TF_Output build(world_t *w, const char *device) {
  const int64_t start[2] = {0, 0}, size[2] = {6, 7}, by_dims[2] = {6, 7};
  const sparse_tensor_t a = given(w, "a", 1), b = given(w, "b", 2);
  TF_Tensor *threshold = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float)),
            *fallback = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float *)TF_TensorData(threshold) = 0.1F;
  *(float *)TF_TensorData(fallback) = 0.5F;
  const TF_Output addends[7] = {
      a.indices, a.values, a.shape, b.indices, b.values, b.shape, constant(w, w->g, "threshold", threshold)};
  const sparse_tensor_t sum = outputs(node(w, device, "SparseAdd", "sum", 7, addends));
  const TF_Output fill[4] = {sum.indices, sum.values, sum.shape, constant(w, w->g, "fallback", fallback)};
  const sparse_tensor_t filled = outputs(node(w, device, "SparseFillEmptyRows", "filled", 4, fill));
  const TF_Output cut[5] = {filled.indices, filled.values, sum.shape, numbers(w, "start", 1, 2, 0, start),
                            numbers(w, "size", 1, 2, 0, size)};
  const sparse_tensor_t part = outputs(node(w, device, "SparseSlice", "part", 5, cut));
  const TF_Output soft[3] = {part.indices, part.values, part.shape};
  const TF_Output y = {node(w, device, "SparseSoftmax", "soft", 3, soft), 0};
  const TF_Output dense = constant(w, w->g, "dense", weft_both_values(TF_FLOAT, 2, by_dims, 5));
  const TF_Output by[4] = {part.indices, y, part.shape, dense};
  const TF_Output z = {node(w, device, "SparseDenseCwiseMul", "by", 4, by), 0};
  const TF_Output all[4] = {part.indices, z, part.shape, dense};
  return (TF_Output){node(w, device, "SparseTensorDenseAdd", "all", 4, all), 0};
}

static void a_graph_gives_the_same(void) { weft_both_agree(build, 1e-6); }

static const CU_TestInfo tests[] = {
    {"a graph gives the same", a_graph_gives_the_same},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA sparse tensors", tests);
}
