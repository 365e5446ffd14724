/* tests/cuda/gru_test.c - GRUBlockCell and its gradient on the CUDA device, by cuBLASLt or what plays it, as
 * on the CPU. */
#include <stdio.h>
#include <string.h>

#include "tests/cuda/both.h"

typedef struct gru_case {
  int64_t batch, input, cell;
} gru_case_t;

static const gru_case_t cases[] = {{1, 1, 1}, {3, 5, 7}, {4, 8, 16}, {33, 6, 10}, {2, 0, 3}, {300, 3, 2}};
static const gru_case_t *now;

typedef struct gru_operand {
  const char *name, *dims; /* letters: Batch, Input, Cell, Rows of the weights, 2 cells */
} gru_operand_t;
static const gru_operand_t operands[] = {{"x", "BI"},   {"h_prev", "BC"}, {"w_ru", "R2"}, {"w_c", "RC"},
                                         {"b_ru", "2"}, {"b_c", "C"},     {"r", "BC"},    {"u", "BC"},
                                         {"c", "BC"},   {"d_h", "BC"}};
enum { NUM_FORWARD = 6, NUM_BACKWARD = 10, NUM_RESULTS = 4 };
static int wrong_operand = -1; /* of this one the last dimension is one more */

static int64_t size_of(char letter) {
  switch (letter) {
    case 'B': return now->batch;
    case 'I': return now->input;
    case 'C': return now->cell;
    case 'R': return now->input + now->cell;
    default: return 2 * now->cell;
  }
}

static TF_Operation *cell(world_t *w, const char *device, const char *op, int num_inputs) {
  TF_Output in[NUM_BACKWARD];
  for (int i = 0; i < num_inputs; i++) {
    int64_t dims[2] = {0};
    const int rank = (int)strlen(operands[i].dims);
    for (int d = 0; d < rank; d++) dims[d] = size_of(operands[i].dims[d]);
    dims[rank - 1] += i == wrong_operand;
    in[i] = constant(w, w->g, operands[i].name, weft_both_values(TF_FLOAT, rank, dims, i));
  }
  TF_OperationDescription *d = TF_NewOperation(w->g, op, "cell");
  for (int i = 0; i < num_inputs; i++) TF_AddInput(d, in[i]);
  TF_SetDevice(d, device);
  return TF_FinishOperation(d, w->s);
}

/* All results, side by side. */
static TF_Output joined(world_t *w, const char *device, TF_Operation *op) {
  const int32_t axis = 1;
  const TF_Output at = constant(w, w->g, "axis", new_ints(0, NULL, &axis));
  TF_Output parts[NUM_RESULTS];
  for (int i = 0; i < NUM_RESULTS; i++) parts[i] = (TF_Output){op, i};
  TF_OperationDescription *d = TF_NewOperation(w->g, "ConcatV2", "joined");
  TF_AddInputList(d, parts, NUM_RESULTS);
  TF_AddInput(d, at);
  TF_SetDevice(d, device);
  op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static TF_Output forward(world_t *w, const char *device) {
  return joined(w, device, cell(w, device, "GRUBlockCell", NUM_FORWARD));
}
static TF_Output backward(world_t *w, const char *device) {
  return joined(w, device, cell(w, device, "GRUBlockCellGrad", NUM_BACKWARD));
}

static void all_agree(weft_both_build_fn *build) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    const unsigned before = CU_get_number_of_failures();
    weft_both_agree(build, 1e-5);
    if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu\n", i);
  }
}
static void a_step_is_that_of_the_cpu(void) { all_agree(forward); }
static void a_gradient_is_that_of_the_cpu(void) { all_agree(backward); }

/* What a step on the device says where one operand does not fit. */
static void is_refused(int operand, const char *words) {
  static const gru_case_t sizes = {3, 5, 7};
  world_t w;
  now = &sizes;
  wrong_operand = operand;
  world_open(&w);
  TF_Operation *op = cell(&w, "/device:GPU:0", "GRUBlockCellGrad", NUM_BACKWARD);
  wrong_operand = -1;
  ASSERT_OK(&w);
  const TF_Output none = {NULL, 0}, y = {op, 0};
  TF_Tensor *out = run1(&w, none, NULL, y);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), words));
  CU_ASSERT_PTR_NULL(out);
  if (strstr(TF_Message(w.s), words) == NULL) fprintf(stderr, "%s\n", TF_Message(w.s));
  TF_SetStatus(w.s, TF_OK, "");
  world_close(&w);
}

static void operands_that_do_not_fit_are_refused(void) {
  is_refused(2, "w_ru.dims(1) != cell_size * 2: 15 vs. 14");
  is_refused(4, "b_ru.dims(0) != cell_size * 2: 15 vs. 14");
  is_refused(9, "d_h.dims(1) != cell_size: 8 vs. 7");
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a step is that of the CPU", a_step_is_that_of_the_cpu},
      {"a gradient is that of the CPU", a_gradient_is_that_of_the_cpu},
      {"operands that do not fit are refused", operands_that_do_not_fit_are_refused},
      CU_TEST_INFO_NULL,
  };
  weft_both_emulate();
  return weft_run_tests("CUDA gru", tests);
}
