/* tests/cuda/both.c - see the header. */
#include "tests/cuda/both.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const TF_Output none = {NULL, 0};

TF_Tensor *weft_both_values(TF_DataType type, int rank, const int64_t *dims, int seed) {
  size_t count = 1;
  for (int d = 0; d < rank; d++) count *= (size_t)dims[d];
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, count * TF_DataTypeSize(type));
  for (size_t i = 0; i < count; i++) {
    const double v = (double)((i * 37 + (size_t)seed * 11) % 101) / 50 - 1;
    if (type == TF_DOUBLE) {
      ((double *)TF_TensorData(t))[i] = v;
    } else {
      ((float *)TF_TensorData(t))[i] = (float)v;
    }
  }
  return t;
}

/* Fetches the graph that `build` makes, on the device or the CPU. */
static TF_Tensor *result(weft_both_build_fn *build, const char *device) {
  world_t w;
  world_open(&w);
  const TF_Output y = build(&w, device);
  TF_Tensor *out = run1(&w, none, NULL, y);
  if (TF_GetCode(w.s) != TF_OK) fprintf(stderr, "on %s: %s\n", device, TF_Message(w.s));
  ASSERT_OK(&w);
  world_close(&w);
  return out;
}

void weft_both_agree(weft_both_build_fn *build, double tolerance) {
  TF_Tensor *here = result(build, "/device:GPU:0"), *there = result(build, "/device:CPU:0");
  CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(here), TF_TensorByteSize(there));
  CU_ASSERT_EQUAL(TF_NumDims(here), TF_NumDims(there));
  const bool is_f64 = TF_TensorType(here) == TF_DOUBLE;
  const int64_t count = TF_TensorElementCount(here);
  CU_ASSERT(count > 0);
  int wrong = 0;
  for (int64_t i = 0; i < count; i++) {
    const double a = is_f64 ? ((double *)TF_TensorData(here))[i] : float_at(here, (int)i);
    const double b = is_f64 ? ((double *)TF_TensorData(there))[i] : float_at(there, (int)i);
    wrong += !(fabs(a - b) <= tolerance * (1 + fabs(b)));
  }
  CU_ASSERT_EQUAL(wrong, 0);
  TF_DeleteTensor(here);
  TF_DeleteTensor(there);
}

void weft_both_emulate(void) {
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_CUBLASLT", "tests/cuda/fake/libcublasLt_fake.so", 0);
  setenv("WEFT_CUDNN", "tests/cuda/fake/libcudnn_fake.so", 0);
  setenv("WEFT_CUFFT", "tests/cuda/fake/libcufft_fake.so", 0);
  setenv("WEFT_PASSES", "none", 0); /* else a pass computes what comes from constants, on the host */
  setenv("WEFT_TF32", "0", 0);      /* as exact as the CPU */
  setenv("WEFT_NVRTC", "none", 0);  /* chain_test compiles */
  setenv("WEFT_FAKE_CUDA", "late_us=100,seed=5", 0);
}
