/* tests/cuda/finish_test.c - sessions whose steps depend on values in the CUDA device's memory: sizes that
 * Where and Unique find, checks of numbers that fail, in loops of steps and in one that is begun while
 * another runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/both.h"

enum { N = 10000 };

static TF_Output node(world_t *w, const char *op, const char *name, int n, const TF_Output *inputs) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  if (strncmp(op, "CheckNumerics", 13) == 0) TF_SetAttrString(d, "message", "loss", 4);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

/* The elements of `x` whose number is a multiple of `step` are 1, the others 0. */
static TF_Tensor *ones(int step) {
  const int64_t dims[1] = {N};
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, 1, N * sizeof(float));
  for (int i = 0; i < N; i++) ((float *)TF_TensorData(t))[i] = i % step == 0;
  return t;
}

/* Where, and a gather by what it finds: the second one's size is the first one's result. */
static void sizes_are_found_on_the_device(void) {
  world_t w;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
  const TF_Output two_x[2] = {x, x}, twice = node(&w, "Add", "twice", 2, two_x);
  const TF_Output at = node(&w, "Where", "at", 1, &twice), gather[2] = {twice, at};
  const TF_Output y = node(&w, "GatherNd", "y", 2, gather);
  const int steps[] = {1, 7, N, 4096, 2, 3};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    TF_Tensor *out = run1(&w, x, ones(steps[i]), y);
    ASSERT_OK(&w);
    const int64_t count = (N - 1) / steps[i] + 1;
    CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(out), count);
    int64_t right = 0;
    for (int k = 0; k < count; k++) right += float_at(out, k) == 2;
    CU_ASSERT_EQUAL(right, count);
    TF_DeleteTensor(out);
  }
  world_close(&w);
}

/* Element i is i modulo `step`. */
static TF_Tensor *remainders(int step) {
  TF_Tensor *t = ones(1);
  for (int i = 0; i < N; i++) ((float *)TF_TensorData(t))[i] = (float)(i % step);
  return t;
}

static TF_Output cast(world_t *w, const char *name, TF_Output x) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", TF_FLOAT);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

/* A vector is put together again from its values, and as many elements are counted as it has. */
static void equal_values_are_found_on_the_device(void) {
  world_t w;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
  const TF_Output unique = node(&w, "UniqueWithCounts", "unique", 1, &x), by[2] = {unique, {unique.oper, 1}};
  const TF_Output again = node(&w, "Gather", "again", 2, by),
                  counts = cast(&w, "counts", (TF_Output){unique.oper, 2});
  const int steps[] = {1, 7, N, 4096};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    TF_Tensor *out = run1(&w, x, remainders(steps[i]), again),
              *num = run1(&w, x, remainders(steps[i]), counts);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(out), N);
    CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(num), steps[i]);
    int64_t right = 0;
    for (int k = 0; k < N; k++) right += float_at(out, k) == (float)(k % steps[i]);
    for (int k = 0; k < steps[i]; k++) right -= (int64_t)float_at(num, k);
    CU_ASSERT_EQUAL(right, 0);
    CU_ASSERT_EQUAL(float_at(out, N - 1), (float)((N - 1) % steps[i]));
    TF_DeleteTensor(out);
    TF_DeleteTensor(num);
  }
  world_close(&w);
}

static void numbers_are_checked_on_the_device(void) {
  static const char *const ops[] = {"CheckNumerics", "CheckNumericsV2"};
  static const char *const says[] = {"loss : Tensor had NaN values", "loss : Tensor had NaN values"};
  for (int v = 0; v < 2; v++) {
    world_t w;
    world_open(&w);
    const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
    const TF_Output two_x[2] = {x, x}, quotient = node(&w, "Div", "quotient", 2, two_x);
    const TF_Output checked = node(&w, ops[v], "the_check", 1, &quotient);
    const TF_Output two[2] = {checked, quotient}, y = node(&w, "Add", "y", 2, two);
    for (int round = 0; round < 4; round++) { /* a step that fails does no harm to the next one */
      TF_Tensor *out = run1(&w, x, ones(round % 2 == 0 ? 1 : 2), y); /* 0 / 0 is none */
      if (round % 2 == 0) {
        ASSERT_OK(&w);
        CU_ASSERT_EQUAL(float_at(out, N - 1), 2);
        TF_DeleteTensor(out);
        continue;
      }
      CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
      CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), says[v]));
      CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "{{node the_check}}"));
      if (strstr(TF_Message(w.s), says[v]) == NULL) fprintf(stderr, "%s\n", TF_Message(w.s));
      TF_SetStatus(w.s, TF_OK, "");
    }
    world_close(&w);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"sizes are found on the device", sizes_are_found_on_the_device},
      {"equal values are found on the device", equal_values_are_found_on_the_device},
      {"numbers are checked on the device", numbers_are_checked_on_the_device},
      CU_TEST_INFO_NULL,
  };
  weft_both_emulate();
  return weft_run_tests("CUDA finish", tests);
}
