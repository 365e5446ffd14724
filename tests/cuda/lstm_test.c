/* tests/cuda/lstm_test.c - LSTMBlockCell, BlockLSTM, BlockLSTMV2 and their gradients on the CUDA device, by
 * cuBLASLt or what plays it, as on the CPU. */
#include <stdio.h>
#include <string.h>

#include "tests/cuda/both.h"

typedef struct lstm_case {
  const char *op;
  TF_DataType type;
  int64_t time, batch, input, cell, length; /* length: -1 of a cell */
  int use_peephole;
  float clip;
} lstm_case_t;

static const lstm_case_t cases[] = {
    {"BlockLSTM", TF_FLOAT, 4, 3, 5, 7, 4, 0, 3},       {"BlockLSTM", TF_FLOAT, 5, 2, 4, 8, 3, 1, 0.25f},
    {"BlockLSTM", TF_FLOAT, 3, 2, 4, 1, 0, 1, 0},       {"BlockLSTM", TF_FLOAT, 2, 70, 3, 33, 2, 1, 0},
    {"BlockLSTM", TF_HALF, 4, 3, 5, 7, 3, 1, 3},        {"BlockLSTMV2", TF_FLOAT, 4, 3, 5, 7, 4, 0, 0},
    {"BlockLSTMV2", TF_FLOAT, 6, 1, 1, 2, 5, 1, 0.5f},  {"BlockLSTMV2", TF_FLOAT, 1, 2, 0, 3, 1, 0, 0},
    {"BlockLSTMV2", TF_HALF, 3, 4, 6, 10, 3, 0, 0},     {"LSTMBlockCell", TF_FLOAT, 1, 3, 5, 7, -1, 0, 3},
    {"LSTMBlockCell", TF_FLOAT, 1, 4, 2, 40, -1, 1, 0}, {"LSTMBlockCell", TF_HALF, 1, 3, 5, 7, -1, 1, 3},
};
static const lstm_case_t *now;

typedef struct lstm_operand {
  const char *name, *dims; /* letters: Time, Batch, Input, Cell, Rows of the weights, 4 cells */
} lstm_operand_t;
static const lstm_operand_t operands[] = {
    {"x", "TBI"},  {"cs_prev", "BC"}, {"h_prev", "BC"}, {"w", "R4"},        {"wci", "C"},     {"wcf", "C"},
    {"wco", "C"},  {"b", "4"},        {"i", "TBC"},     {"cs", "TBC"},      {"f", "TBC"},     {"o", "TBC"},
    {"ci", "TBC"}, {"co", "TBC"},     {"h", "TBC"},     {"cs_grad", "TBC"}, {"h_grad", "TBC"}};
enum { NUM_FORWARD = 8, NUM_OPERANDS = 17, H = 14, NUM_RESULTS = 8 };
static int wrong_operand = -1; /* of this one the last dimension is one more */

static bool is_cell(void) { return now->length < 0; }

static int64_t size_of(char letter) {
  switch (letter) {
    case 'T': return now->time;
    case 'B': return now->batch;
    case 'I': return now->input;
    case 'C': return now->cell;
    case 'R': return now->input + now->cell;
    default: return 4 * now->cell;
  }
}

static TF_Output cast(world_t *w, const char *device, const char *name, TF_Output x, TF_DataType from,
                      TF_DataType to) {
  char full[32];
  if (from == to) return x;
  snprintf(full, sizeof full, "%s_cast", name);
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", full);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Operation *layer(world_t *w, const char *device, const char *suffix, int num_operands) {
  char op[32];
  TF_Output in[NUM_OPERANDS];
  for (int i = 0; i < num_operands; i++) {
    const char *letters = operands[i].dims + (is_cell() && operands[i].dims[0] == 'T');
    const int rank = (int)strlen(letters);
    int64_t dims[3] = {0};
    for (int d = 0; d < rank; d++) dims[d] = size_of(letters[d]);
    dims[rank - 1] += i == wrong_operand;
    in[i] = constant(w, w->g, operands[i].name, weft_both_values(TF_FLOAT, rank, dims, i));
    in[i] = cast(w, device, operands[i].name, in[i], TF_FLOAT, now->type);
  }
  snprintf(op, sizeof op, "%s", now->op);
  if (suffix[0] != '\0') { /* BlockLSTMGradV2 */
    const size_t n = strlen(op);
    const bool is_v2 = strcmp(op + n - 2, "V2") == 0;
    snprintf(op + n - (is_v2 ? 2 : 0), 8, "%s%s", suffix, is_v2 ? "V2" : "");
  }
  TF_Tensor *value = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof(int64_t));
  *(int64_t *)TF_TensorData(value) = now->length;
  const TF_Output length = constant(w, w->g, "length", value);
  TF_OperationDescription *d = TF_NewOperation(w->g, op, "layer");
  if (!is_cell()) TF_AddInput(d, length);
  for (int i = 0; i < num_operands; i++) {
    if (!(is_cell() && i == H)) TF_AddInput(d, in[i]);
  }
  TF_SetAttrBool(d, "use_peephole", (unsigned char)now->use_peephole);
  if (suffix[0] == '\0') TF_SetAttrFloat(d, "cell_clip", now->clip);
  TF_SetDevice(d, device);
  return TF_FinishOperation(d, w->s);
}

/* All results as one vector of floats. */
static TF_Output joined(world_t *w, const char *device, TF_Operation *op) {
  const int32_t axis = 0, minus = -1;
  const int64_t one = 1;
  const TF_Output at = constant(w, w->g, "axis", new_ints(0, NULL, &axis)),
                  flat = constant(w, w->g, "flat", new_ints(1, &one, &minus));
  TF_Output parts[NUM_RESULTS];
  const int n = TF_OperationNumOutputs(op);
  for (int i = 0; i < n; i++) {
    char name[16];
    snprintf(name, sizeof name, "part%d", i);
    TF_OperationDescription *d = TF_NewOperation(w->g, "Reshape", name);
    TF_AddInput(d, (TF_Output){op, i});
    TF_AddInput(d, flat);
    TF_SetDevice(d, device);
    parts[i] = cast(w, device, name, (TF_Output){TF_FinishOperation(d, w->s), 0}, now->type, TF_FLOAT);
    ASSERT_OK(w);
  }
  TF_OperationDescription *d = TF_NewOperation(w->g, "ConcatV2", "joined");
  TF_AddInputList(d, parts, n);
  TF_AddInput(d, at);
  TF_SetDevice(d, device);
  op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static TF_Output forward(world_t *w, const char *device) {
  return joined(w, device, layer(w, device, "", NUM_FORWARD));
}
static TF_Output backward(world_t *w, const char *device) {
  return joined(w, device, layer(w, device, "Grad", NUM_OPERANDS));
}

/* The CPU rounds half after each operation, the device where it is stored. */
static void all_agree(weft_both_build_fn *build) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    const unsigned before = CU_get_number_of_failures();
    weft_both_agree(build, now->type == TF_FLOAT ? 1e-5 : 2e-2);
    if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu\n", i);
  }
}
static void a_layer_is_that_of_the_cpu(void) { all_agree(forward); }
static void a_gradient_is_that_of_the_cpu(void) { all_agree(backward); }

/* What a step on the device says where one operand does not fit, or the length. */
static void is_refused(const lstm_case_t *c, int operand, const char *words) {
  world_t w;
  now = c;
  wrong_operand = operand;
  world_open(&w);
  TF_Operation *op = layer(&w, "/device:GPU:0", "Grad", NUM_OPERANDS);
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
  static const lstm_case_t fits = {"BlockLSTM", TF_FLOAT, 4, 3, 5, 7, 4, 0, 3},
                           is_long = {"BlockLSTMV2", TF_FLOAT, 4, 3, 5, 7, 5, 0, 3};
  is_refused(&fits, 3, "w.dims(1) != cell_size * 4: 29 vs. 28");
  is_refused(&fits, 4, "wci.dims(0) != cell_size: 8 vs. 7");
  is_refused(&fits, 16, "h_grad.dims(2) != cell_size: 8 vs. 7");
  is_refused(&is_long, -1, "seq_len_max must be between 0 and 4 but is 5");
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a layer is that of the CPU", a_layer_is_that_of_the_cpu},
      {"a gradient is that of the CPU", a_gradient_is_that_of_the_cpu},
      {"operands that do not fit are refused", operands_that_do_not_fit_are_refused},
      CU_TEST_INFO_NULL,
  };
  weft_both_emulate();
  return weft_run_tests("CUDA lstm", tests);
}
