/* tests/cuda/fft_test.c - Fourier transforms on the CUDA device, by cuFFT or what plays it, as on the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/both.h"

typedef struct fft_case {
  const char *op;
  TF_DataType type; /* of real numbers */
  int rank;
  int64_t dims[4];
  int lengths; /* of fft_length; 0: the op has none */
  int32_t length[3];
} fft_case_t;

static const fft_case_t cases[] = {
    {"FFT", TF_FLOAT, 1, {8}, 0, {0}},
    {"FFT", TF_DOUBLE, 2, {3, 7}, 0, {0}},
    {"FFT", TF_FLOAT, 3, {2, 2, 1}, 0, {0}},
    {"FFT2D", TF_DOUBLE, 3, {2, 3, 4}, 0, {0}},
    {"FFT3D", TF_FLOAT, 4, {2, 3, 2, 5}, 0, {0}},
    {"IFFT", TF_FLOAT, 2, {3, 7}, 0, {0}},
    {"IFFT", TF_DOUBLE, 1, {9}, 0, {0}},
    {"IFFT2D", TF_FLOAT, 2, {5, 4}, 0, {0}},
    {"IFFT3D", TF_DOUBLE, 3, {2, 3, 4}, 0, {0}},
    {"RFFT", TF_FLOAT, 2, {3, 8}, 1, {8}},
    {"RFFT", TF_DOUBLE, 2, {3, 8}, 1, {5}}, /* cut */
    {"RFFT2D", TF_FLOAT, 3, {2, 4, 6}, 2, {4, 6}},
    {"RFFT2D", TF_DOUBLE, 3, {2, 4, 6}, 2, {3, 5}},
    {"RFFT3D", TF_FLOAT, 3, {3, 4, 5}, 3, {3, 4, 5}},
    {"IRFFT", TF_FLOAT, 2, {3, 5}, 1, {8}},
    {"IRFFT", TF_DOUBLE, 2, {3, 5}, 1, {9}},
    {"IRFFT", TF_DOUBLE, 2, {3, 5}, 1, {4}},
    {"IRFFT2D", TF_FLOAT, 3, {2, 4, 4}, 2, {4, 6}},
    {"IRFFT2D", TF_DOUBLE, 3, {2, 4, 4}, 2, {3, 5}},
    {"IRFFT3D", TF_FLOAT, 3, {3, 4, 3}, 3, {3, 4, 5}},
};
static const fft_case_t *now;

static TF_Output node(world_t *w, const char *device, const char *op, const char *name, int n,
                      const TF_Output *inputs, const char *attr, TF_DataType type) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  if (attr != NULL) TF_SetAttrType(d, attr, type);
  TF_SetDevice(d, device);
  TF_Operation *made = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){made, 0};
}

static TF_DataType complex_of(TF_DataType real) { return real == TF_DOUBLE ? TF_COMPLEX128 : TF_COMPLEX64; }

static TF_Output build(world_t *w, const char *device) {
  const bool from_real = now->op[0] == 'R', to_real = now->op[1] == 'R';
  const TF_DataType whole = complex_of(now->type);
  TF_Output x[2] = {constant(w, w->g, "re", weft_both_values(now->type, now->rank, now->dims, 1)),
                    constant(w, w->g, "im", weft_both_values(now->type, now->rank, now->dims, 2))};
  TF_Output in[2] = {from_real ? x[0] : node(w, device, "Complex", "x", 2, x, "Tout", whole)};
  if (now->lengths > 0) {
    const int64_t n = now->lengths;
    in[1] = constant(w, w->g, "length", new_ints(1, &n, now->length));
  }
  TF_OperationDescription *d = TF_NewOperation(w->g, now->op, "fft");
  for (int i = 0; i < 1 + (now->lengths > 0); i++) TF_AddInput(d, in[i]);
  if (from_real) TF_SetAttrType(d, "Tcomplex", whole);
  if (to_real) TF_SetAttrType(d, "Treal", now->type);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  const TF_Output y = {op, 0};
  if (to_real) return y;
  const TF_Output parts[2] = {node(w, device, "Real", "y_re", 1, &y, "Tout", now->type),
                              node(w, device, "Imag", "y_im", 1, &y, "Tout", now->type)};
  d = TF_NewOperation(w->g, "Pack", "y");
  TF_AddInputList(d, parts, 2);
  TF_SetDevice(d, device);
  op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static void transforms_are_those_of_the_cpu(void) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    const unsigned before = CU_get_number_of_failures();
    weft_both_agree(build, now->type == TF_DOUBLE ? 1e-13 : 1e-5);
    if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu\n", i);
  }
}

/* What the device's transform of `dims` says. */
static void is_refused(const fft_case_t *c, TF_Code code, const char *words) {
  world_t w;
  now = c;
  world_open(&w);
  const TF_Output none = {NULL, 0};
  TF_Tensor *out = run1(&w, none, NULL, build(&w, "/device:GPU:0"));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), words));
  CU_ASSERT_PTR_NULL(out);
  if (strstr(TF_Message(w.s), words) == NULL) fprintf(stderr, "%s\n", TF_Message(w.s));
  TF_SetStatus(w.s, TF_OK, "");
  world_close(&w);
}

static void sizes_that_do_not_fit_are_refused(void) {
  static const fft_case_t less = {"RFFT", TF_FLOAT, 2, {3, 4}, 1, {8}};
  static const fft_case_t unknown = {"FFT", TF_FLOAT, 1, {4099}, 0, {0}}; /* the fake's */
  is_refused(&less, TF_INVALID_ARGUMENT, "Input dimension 1 must have length of at least 8 but got: 4");
  const char *cufft = getenv("WEFT_CUFFT");
  if (cufft != NULL && strstr(cufft, "fake") != NULL)
    is_refused(&unknown, TF_UNIMPLEMENTED, "cuFFT: planning a transform: error 16");
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"transforms are those of the CPU", transforms_are_those_of_the_cpu},
      {"sizes that do not fit are refused", sizes_that_do_not_fit_are_refused},
      CU_TEST_INFO_NULL,
  };
  weft_both_emulate();
  return weft_run_tests("CUDA fft", tests);
}
