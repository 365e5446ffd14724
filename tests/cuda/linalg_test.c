/* tests/cuda/linalg_test.c - linear algebra in sessions on the CUDA device, as on the CPU: what vectors make
 * up together, whatever their signs, and matrices without an inverse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/both.h"

typedef struct linalg_case {
  const char *op;
  TF_DataType type;
  int rank;
  int64_t dims[3];
  int is_full;
} linalg_case_t;

static const linalg_case_t cases[] = {
    {"Svd", TF_FLOAT, 2, {6, 4}, 0},
    {"Svd", TF_DOUBLE, 3, {2, 3, 5}, 0},
    {"Svd", TF_DOUBLE, 2, {6, 3}, 1},
    {"Svd", TF_FLOAT, 2, {3, 5}, 1},
    {"SelfAdjointEigV2", TF_FLOAT, 2, {7, 7}, 0},
    {"SelfAdjointEigV2", TF_DOUBLE, 3, {2, 4, 4}, 0},
    {"Qr", TF_DOUBLE, 3, {2, 5, 3}, 1},
    {"MatrixInverse", TF_DOUBLE, 3, {2, 5, 5}, 0},
    {"Cholesky", TF_FLOAT, 2, {5, 5}, 0},
};
static const linalg_case_t *now;

static TF_Output op2(world_t *w, const char *device, const char *op, const char *name, TF_Output a,
                     TF_Output b, const char *flag) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, a);
  TF_AddInput(d, b);
  if (flag != NULL) TF_SetAttrBool(d, flag, 1);
  TF_SetDevice(d, device);
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

/* x + x^T, or x x^T + I where it has to be positive definite. */
static TF_Output operand(world_t *w, const char *device) {
  const TF_Output x = constant(w, w->g, "given", weft_both_values(now->type, now->rank, now->dims, 3));
  if (strcmp(now->op, "Svd") == 0 || strcmp(now->op, "Qr") == 0) return x;
  const TF_Output gram = op2(w, device, "BatchMatMulV2", "gram", x, x, "adj_y");
  if (strcmp(now->op, "SelfAdjointEigV2") == 0)
    return op2(w, device, "Sub", "operand", gram, op2(w, device, "BatchMatMulV2", "other", x, x, "adj_x"),
               NULL);
  TF_Tensor *one = weft_both_values(now->type, now->rank, now->dims, 0);
  const int64_t n = now->dims[now->rank - 1];
  for (int64_t i = 0; i < TF_TensorElementCount(one); i++) {
    const double v = i / n % n == i % n;
    if (now->type == TF_DOUBLE) {
      ((double *)TF_TensorData(one))[i] = v;
    } else {
      ((float *)TF_TensorData(one))[i] = (float)v;
    }
  }
  return op2(w, device, "Add", "operand", gram, constant(w, w->g, "one", one), NULL);
}

/* The first `least` columns of u. */
static TF_Output first_columns(world_t *w, const char *device, const char *name, TF_Output u, int64_t rows,
                               int64_t least) {
  int32_t begin[3] = {0}, size[3] = {-1, (int32_t)rows, (int32_t)least};
  const int64_t rank = now->rank;
  char text[32];
  TF_OperationDescription *d = TF_NewOperation(w->g, "Slice", name);
  TF_AddInput(d, u);
  snprintf(text, sizeof text, "%s_begin", name);
  TF_AddInput(d, constant(w, w->g, text, new_ints(1, &rank, begin)));
  snprintf(text, sizeof text, "%s_size", name);
  TF_AddInput(d, constant(w, w->g, text, new_ints(1, &rank, size + 3 - rank)));
  TF_SetDevice(d, device);
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

static TF_Output expand(world_t *w, const char *device, const char *name, TF_Output x) { /* [..., 1, n] */
  const int32_t at = -2;
  TF_OperationDescription *d = TF_NewOperation(w->g, "ExpandDims", name);
  TF_AddInput(d, x);
  TF_AddInput(d, constant(w, w->g, "at", new_ints(0, NULL, &at)));
  TF_SetDevice(d, device);
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

/* The matrix again, and beside it, flat, the products of the vectors with each other. */
static TF_Output build(world_t *w, const char *device) {
  const int64_t m = now->dims[now->rank - 2], n = now->dims[now->rank - 1], least = m < n ? m : n;
  const TF_Output x = operand(w, device);
  TF_OperationDescription *d = TF_NewOperation(w->g, now->op, "op");
  TF_AddInput(d, x);
  if (now->is_full) TF_SetAttrBool(d, "full_matrices", 1);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  const TF_Output out[3] = {{op, 0}, {op, 1}, {op, 2}};
  if (strcmp(now->op, "MatrixInverse") == 0) return out[0];
  if (strcmp(now->op, "Cholesky") == 0)
    return op2(w, device, "BatchMatMulV2", "again", out[0], out[0], "adj_y");
  if (strcmp(now->op, "Qr") == 0) return op2(w, device, "BatchMatMulV2", "again", out[0], out[1], NULL);
  const bool is_svd = now->op[1] == 'v';
  TF_Output u = out[1], v = is_svd ? out[2] : out[1];
  const TF_Output of_u = op2(w, device, "BatchMatMulV2", "of_u", u, u, "adj_x"),
                  of_v = op2(w, device, "BatchMatMulV2", "of_v", v, v, "adj_x");
  if (now->is_full) {
    u = first_columns(w, device, "u", u, m, least);
    v = first_columns(w, device, "v", v, n, least);
  }
  const TF_Output scaled = op2(w, device, "Mul", "scaled", u, expand(w, device, "row", out[0]), NULL);
  const TF_Output parts[3] = {op2(w, device, "BatchMatMulV2", "again", scaled, v, "adj_y"), of_u, of_v};
  const int32_t flat[1] = {-1}, zero = 0;
  const int64_t one = 1;
  const TF_Output shape = constant(w, w->g, "flat", new_ints(1, &one, flat));
  TF_Output rows[3];
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "part%d", i);
    rows[i] = op2(w, device, "Reshape", name, parts[i], shape, NULL);
  }
  d = TF_NewOperation(w->g, "ConcatV2", "y");
  TF_AddInputList(d, rows, 3);
  TF_AddInput(d, constant(w, w->g, "axis", new_ints(0, NULL, &zero)));
  TF_SetDevice(d, device);
  op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static void decompositions_make_up_the_matrix(void) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    const unsigned before = CU_get_number_of_failures();
    weft_both_agree(build, now->type == TF_DOUBLE ? 1e-12 : 2e-5);
    if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu\n", i);
  }
}

static void what_has_no_inverse_is_refused(void) {
  world_t w;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
  TF_OperationDescription *d = TF_NewOperation(w.g, "MatrixInverse", "inverse");
  TF_AddInput(d, x);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *op = TF_FinishOperation(d, w.s);
  ASSERT_OK(&w);
  for (int round = 0; round < 4; round++) {
    const int64_t dims[2] = {2, 2};
    TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, 2, 4 * sizeof(float));
    const float values[4] = {1, 2, 2, round % 2 == 0 ? 5 : 4};
    memcpy(TF_TensorData(t), values, sizeof values);
    TF_Tensor *out = run1(&w, x, t, (TF_Output){op, 0});
    if (round % 2 == 0) {
      ASSERT_OK(&w);
      CU_ASSERT_DOUBLE_EQUAL(float_at(out, 0), 5, 1e-5);
      TF_DeleteTensor(out);
    } else {
      CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
      CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "Input is not invertible."));
      CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "{{node inverse}}"));
      TF_SetStatus(w.s, TF_OK, "");
    }
  }
  world_close(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"decompositions make up the matrix", decompositions_make_up_the_matrix},
      {"what has no inverse is refused", what_has_no_inverse_is_refused},
      CU_TEST_INFO_NULL,
  };
  weft_both_emulate();
  return weft_run_tests("CUDA linalg", tests);
}
