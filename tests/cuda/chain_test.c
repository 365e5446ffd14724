/* tests/cuda/chain_test.c - chains of elementwise ops on the CUDA device: element types, choices, sums, and
 * the compiler's cache.
 *
 * Each graph runs on the device, compiled by the fake NVRTC, and on the CPU node by node. A real NVRTC does
 * not say how often it compiles.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { N = 257, MAX_LOG = 1 << 16 };
static const TF_Output none = {NULL, 0};
static char compilations[512]; /* the file with a line for each */

static TF_Output node(world_t *w, const char *device, const char *op, const char *name, TF_Output x,
                      TF_Output y, TF_Output z) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  if (strcmp(op, "AddN") == 0) {
    const TF_Output all[] = {x, y, z};
    TF_AddInputList(d, all, 3);
  } else {
    TF_AddInput(d, x);
    if (y.oper != NULL) TF_AddInput(d, y);
    if (z.oper != NULL) TF_AddInput(d, z);
  }
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Output cast(world_t *w, const char *device, const char *name, TF_Output x, TF_DataType to) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

/* y of x, both float; in between it computes in `type`. */
static TF_Output in_type(world_t *w, const char *device, TF_Output x, TF_DataType type) {
  const TF_Output a = cast(w, device, "a", x, type), b = node(w, device, "Mul", "b", a, a, none),
                  c = node(w, device, "Sub", "c", b, a, none), d = node(w, device, "AddN", "d", a, b, c),
                  less = node(w, device, "Less", "less", a, d, none),
                  choice = node(w, device, "SelectV2", "choice", less, d, b),
                  max = node(w, device, "Maximum", "max", choice, a, none);
  return cast(w, device, "y", max, TF_FLOAT);
}

static TF_Tensor *result(const char *device, TF_DataType type) {
  world_t w;
  float v[N];
  const int64_t dims[] = {N};
  for (int i = 0; i < N; i++) v[i] = (float)(i % 31) / 2;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = in_type(&w, device, x, type);
  TF_Tensor *in = new_floats(1, dims, v), *out = run1(&w, x, in, y);
  if (TF_GetCode(w.s) != TF_OK) printf("type %d: %s\n", type, TF_Message(w.s));
  ASSERT_OK(&w);
  TF_DeleteTensor(in);
  world_close(&w);
  return out;
}

static void every_type_gives_what_the_cpu_gives(void) {
  const TF_DataType types[] = {TF_FLOAT, TF_DOUBLE, TF_HALF, TF_BFLOAT16, TF_INT64};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    TF_Tensor *a = result("/device:GPU:0", types[t]), *b = result("/device:CPU:0", types[t]);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += float_at(a, i) != float_at(b, i);
    if (wrong > 0) printf("type %d: %d wrong\n", types[t], wrong);
    CU_ASSERT_EQUAL(wrong, 0);
    TF_DeleteTensor(a);
    TF_DeleteTensor(b);
  }
}

static bool is_counted(void) { return strstr(getenv("WEFT_NVRTC"), "fake") != NULL; }
static int num_compilations(void) {
  static char log[MAX_LOG];
  FILE *f = fopen(compilations, "r");
  if (f == NULL) return 0;
  const size_t n = fread(log, 1, sizeof log, f);
  int lines = 0;
  for (size_t i = 0; i < n; i++) lines += log[i] == '\n';
  fclose(f);
  return lines;
}

/* The device ends with its last session, and its modules with it. */
static void what_was_compiled_is_found_on_disk(void) {
  const int before = num_compilations();
  CU_ASSERT(before > 0 || !is_counted());
  TF_DeleteTensor(result("/device:GPU:0", TF_FLOAT));
  TF_DeleteTensor(result("/device:GPU:0", TF_HALF));
  CU_ASSERT_EQUAL(num_compilations(), before);
}

static void chains_of_the_same_ops_share_a_kernel(void) {
  world_t w;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
  TF_Output y[4];
  const int before = num_compilations();
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "exp%d", i);
    y[i] = node(&w, "/device:GPU:0", "Exp", name, x, none, none);
    snprintf(name, sizeof name, "neg%d", i);
    y[i] = node(&w, "/device:GPU:0", "Neg", name, y[i], none, none);
  }
  TF_Tensor *in = new_float(1), *out[4] = {NULL};
  run(&w, &x, &in, 1, y, out, 4);
  ASSERT_OK(&w);
  for (int i = 0; i < 4; i++) {
    CU_ASSERT_DOUBLE_EQUAL(float_at(out[i], 0), -expf(1), 1e-6);
    TF_DeleteTensor(out[i]);
  }
  CU_ASSERT_EQUAL(num_compilations(), is_counted() ? before + 1 : 0);
  TF_DeleteTensor(in);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"every type gives what the CPU gives", every_type_gives_what_the_cpu_gives},
    {"what was compiled is found on disk", what_was_compiled_is_found_on_disk},
    {"chains of the same ops share a kernel", chains_of_the_same_ops_share_a_kernel},
    CU_TEST_INFO_NULL,
};

int main(void) {
  const char *tmp = getenv("TEST_TMPDIR");
  char folder[480];
  snprintf(folder, sizeof folder, "%s/kernels.XXXXXX", tmp == NULL ? "/tmp" : tmp);
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(compilations, sizeof compilations, "%s.log", folder);
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_PASSES", "fuse", 0); /* others compute what comes from constants, on the host */
  setenv("WEFT_CUBLASLT", "tests/cuda/fake/libcublasLt_fake.so", 0);
  setenv("WEFT_NVRTC", "tests/cuda/fake/libnvrtc_fake.so", 0);
  setenv("WEFT_FAKE_NVRTC_REAL", "1", 0);
  setenv("WEFT_FAKE_CUDA", "late_us=100,seed=5", 0);
  setenv("WEFT_FAKE_NVRTC_LOG", compilations, 1);
  setenv("WEFT_CACHE_DIR", folder, 1);
  return weft_run_tests("CUDA chains", tests);
}
