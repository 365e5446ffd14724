/* tests/cuda/placement_test.c - ops without a kernel on the CUDA device that a graph places there: refused,
 * or with soft placement on the CPU, with copies of what they read and what reads them. */
#include <stdio.h>
#include <string.h>

#include "tests/cuda/both.h"

/* ConfigProto: allow_soft_placement = true */
static const unsigned char SOFT_PLACEMENT[] = {0x38, 1};

static TF_Operation *node(world_t *w, const char *op, const char *name, TF_Output x) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, x);
  if (strcmp(op, "Bucketize") == 0) TF_SetAttrFloatList(d, "boundaries", (const float[]){0.5F, 2, 5}, 3);
  if (strcmp(op, "StringToNumber") == 0) TF_SetAttrType(d, "out_type", TF_FLOAT);
  if (strcmp(op, "Cast") == 0) TF_SetAttrType(d, "DstT", TF_FLOAT);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return made;
}

/* Ops between two that the device computes: a square and a negation. */
typedef struct placement_case {
  const char *ops[3]; /* NULL: no more */
  float x[4], y[4];   /* matrices [2, 2] */
} placement_case_t;
static const placement_case_t cases[] = {
    {{"MatrixSquareRoot"}, {2, 0, 0, 3}, {-2, 0, 0, -3}},
    {{"AsString", "StringToNumber"}, {1, 2, 3, 4}, {-1, -4, -9, -16}},
    {{"IsotonicRegression"}, {1, 2, 3, 2}, {-2.5F, -2.5F, -9, -4}}, /* rows that never increase */
    {{"Bucketize", "Cast"}, {0.5F, 1, 2, 3}, {0, -1, -2, -3}},      /* on the device */
};

static TF_Output chain(world_t *w, const placement_case_t *c) {
  const int64_t dims[2] = {2, 2};
  TF_Output at = constant(w, w->g, "x", new_floats(2, dims, c->x));
  at = (TF_Output){node(w, "Square", "before", at), 0};
  for (int i = 0; i < 3 && c->ops[i] != NULL; i++) at = (TF_Output){node(w, c->ops[i], c->ops[i], at), 0};
  return (TF_Output){node(w, "Neg", "behind", at), 0};
}

static void soft_placement_takes_the_cpu(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    world_t w;
    world_open(&w);
    const TF_Output y = chain(&w, &cases[i]);
    TF_SessionOptions *options = TF_NewSessionOptions();
    TF_SetConfig(options, SOFT_PLACEMENT, sizeof SOFT_PLACEMENT, w.s);
    w.session = TF_NewSession(w.g, options, w.s);
    TF_DeleteSessionOptions(options);
    ASSERT_OK(&w);
    for (int step = 0; step < 4; step++) { /* also where nodes around them are recorded */
      TF_Tensor *out = run1(&w, (TF_Output){NULL, 0}, NULL, y);
      ASSERT_OK(&w);
      for (int k = 0; k < 4; k++) CU_ASSERT_DOUBLE_EQUAL(float_at(out, k), cases[i].y[k], 1e-5);
      TF_DeleteTensor(out);
    }
    world_close(&w);
  }
}

static void without_it_they_are_refused(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const bool has_kernel = strcmp(cases[i].ops[0], "Bucketize") == 0;
    world_t w;
    world_open(&w);
    const TF_Output y = chain(&w, &cases[i]);
    TF_Tensor *out = run1(&w, (TF_Output){NULL, 0}, NULL, y);
    if (has_kernel) {
      ASSERT_OK(&w);
      TF_DeleteTensor(out);
    } else {
      ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, cases[i].ops[0]);
    }
    world_close(&w);
  }
}

static const CU_TestInfo tests[] = {
    {"soft placement takes the CPU", soft_placement_takes_the_cpu},
    {"without it they are refused", without_it_they_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA placement", tests);
}
