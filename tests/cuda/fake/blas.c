/* tests/cuda/fake/blas.c - cuBLASLt, played by the host: libcublasLt_fake.so.
 *
 * Products are plain loops, in double or float, in the order of the fake driver's streams (a host function).
 * What a real library refuses is refused: sizes that do not fit together, addresses that are no device memory
 * or not aligned as was said, a workspace that is smaller than was asked for. It asks for a workspace
 * whenever it may, and writes over it. Of epilogues it has those that Weft asks for, but has no algorithm for
 * one of a product of a single row (as cuBLASLt counts them).
 */
#pragma GCC visibility push(default)
#include <cuda.h>

#include <cublasLt.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/numbers.h"

#define EXPORT __attribute__((visibility("default")))
enum { WANTED_WORKSPACE = 1024 };

/* What the handles point to. */
typedef struct blas_layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld, step;
  int32_t batch;
} blas_layout_t;

typedef struct blas_product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a, b;
  cublasLtEpilogue_t epilogue;
  const void *bias;
} blas_product_t;

typedef struct blas_preference {
  uint64_t workspace;
  uint32_t a, b, out; /* alignments */
} blas_preference_t;

typedef struct blas_algorithm {
  uint64_t magic, workspace;
  uint32_t a, b, out;
} blas_algorithm_t;
static const uint64_t MAGIC = UINT64_C(0x5745465442415355);

EXPORT cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *out) {
  *out = calloc(1, 1);
  return *out == NULL ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t h) {
  free(h);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *CUBLASWINAPI cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_OTHER";
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                                            cublasComputeType_t compute,
                                                            cudaDataType_t scale) {
  blas_product_t *p = calloc(1, sizeof *p);
  if (p == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  *p = (blas_product_t){compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
  *out = (cublasLtMatmulDesc_t)(void *)p;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p) {
  free(p);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                                  cublasLtMatmulDescAttributes_t which,
                                                                  const void *value, size_t bytes) {
  blas_product_t *p = (blas_product_t *)(void *)desc;
  void *to = NULL;
  size_t size = sizeof p->a;
  switch ((int)which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: to = &p->a; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: to = &p->b; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      to = &p->epilogue;
      size = sizeof p->epilogue;
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      to = &p->bias;
      size = sizeof p->bias;
      break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                                              uint64_t rows, uint64_t cols, int64_t ld) {
  if (rows == 0 || cols == 0 || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
  blas_layout_t *l = calloc(1, sizeof *l);
  if (l == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  *l = (blas_layout_t){.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
  *out = (cublasLtMatrixLayout_t)(void *)l;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  free(l);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                                    cublasLtMatrixLayoutAttribute_t which,
                                                                    const void *value, size_t bytes) {
  blas_layout_t *l = (blas_layout_t *)(void *)layout;
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof l->batch) {
    memcpy(&l->batch, value, bytes);
  } else if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof l->step) {
    memcpy(&l->step, value, bytes);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  blas_preference_t *p = calloc(1, sizeof *p);
  if (p == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  *p = (blas_preference_t){0, 256, 256, 256};
  *out = (cublasLtMatmulPreference_t)(void *)p;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  free(p);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, const void *value,
    size_t bytes) {
  blas_preference_t *p = (blas_preference_t *)(void *)preference;
  void *to = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES     ? (void *)&p->workspace
             : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ? (void *)&p->a
             : which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ? (void *)&p->b
                                                                   : (void *)&p->out;
  if (bytes != (to == (void *)&p->workspace ? sizeof p->workspace : sizeof p->a))
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* The sizes of op(x): rows and columns. */
static uint64_t rows_of(const blas_layout_t *l, cublasOperation_t op) {
  return op == CUBLAS_OP_N ? l->rows : l->cols;
}
static uint64_t cols_of(const blas_layout_t *l, cublasOperation_t op) {
  return op == CUBLAS_OP_N ? l->cols : l->rows;
}

static bool is_double(cudaDataType type) { return type == CUDA_R_64F || type == CUDA_C_64F; }
static bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

static bool has_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU_BIAS;
}

/* Whether the epilogue is one that there is, with the bias that it needs. */
static bool is_epilogue(const blas_product_t *p, cudaDataType type) {
  if (p->epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF) return false;
  return has_bias(p->epilogue)
             ? p->bias != NULL
             : p->epilogue == CUBLASLT_EPILOGUE_RELU || p->epilogue == CUBLASLT_EPILOGUE_GELU;
}

static bool fits(const blas_product_t *p, const blas_layout_t *a, const blas_layout_t *b,
                 const blas_layout_t *out) {
  const cudaDataType scale = is_complex(a->type) || a->type == CUDA_R_64F ? a->type : CUDA_R_32F;
  return cols_of(a, p->a) == rows_of(b, p->b) && rows_of(a, p->a) == out->rows &&
         cols_of(b, p->b) == out->cols && a->type == b->type && a->type == out->type &&
         a->batch == out->batch && b->batch == out->batch && p->scale == scale &&
         (p->compute == CUBLAS_COMPUTE_64F) == is_double(a->type) &&
         (p->compute != CUBLAS_COMPUTE_32F_FAST_TF32 || a->type == CUDA_R_32F) && is_epilogue(p, out->type);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int max,
    cublasLtMatmulHeuristicResult_t results[], int *out_num) {
  (void)handle;
  const blas_preference_t *p = (const blas_preference_t *)(const void *)preference;
  if (c != d || max < 1 ||
      !fits((const blas_product_t *)(void *)desc, (blas_layout_t *)(void *)a, (blas_layout_t *)(void *)b,
            (blas_layout_t *)(void *)d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (((const blas_product_t *)(void *)desc)->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      ((const blas_layout_t *)(void *)d)->rows == 1) {
    *out_num = 0;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const blas_algorithm_t algorithm = {MAGIC, p->workspace < WANTED_WORKSPACE ? 0 : WANTED_WORKSPACE, p->a,
                                      p->b, p->out};
  memset(results, 0, sizeof *results);
  memcpy(&results->algo, &algorithm, sizeof algorithm);
  results->workspaceSize = algorithm.workspace;
  *out_num = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

typedef struct blas_run {
  blas_product_t product;
  blas_layout_t a, b, out;
  const char *a_bytes, *b_bytes, *bias_bytes;
  char *out_bytes, *workspace;
  size_t workspace_bytes;
} blas_run_t;

static fake_number_t number_of(cudaDataType type) {
  return is_double(type)                            ? FAKE_F64 /* of complex numbers: a part */
         : type == CUDA_R_32F || type == CUDA_C_32F ? FAKE_F32
         : type == CUDA_R_16F                       ? FAKE_F16
                                                    : FAKE_BF16;
}

/* Element (row, col) of op(x) of product `n`. */
static int64_t index_of(const blas_layout_t *l, cublasOperation_t op, uint64_t row, uint64_t col, int n) {
  return n * l->step +
         (op == CUBLAS_OP_N ? (int64_t)col * l->ld + (int64_t)row : (int64_t)row * l->ld + (int64_t)col);
}

/* Element i, with its sign of the imaginary part changed if op says so; im is 0 of real numbers. */
static void load(cudaDataType type, const char *bytes, int64_t i, cublasOperation_t op, double out[2]) {
  const bool has_two = is_complex(type);
  out[0] = fake_load(number_of(type), bytes, has_two ? 2 * i : i);
  out[1] = has_two ? fake_load(number_of(type), bytes, 2 * i + 1) : 0;
  if (op == CUBLAS_OP_C) out[1] = -out[1];
}
static void store(cudaDataType type, char *bytes, int64_t i, const double v[2]) {
  const bool has_two = is_complex(type);
  fake_store(number_of(type), bytes, has_two ? 2 * i : i, v[0]);
  if (has_two) fake_store(number_of(type), bytes, 2 * i + 1, v[1]);
}

/* What the epilogue makes of v, an element of row `row`. */
static double finished(const blas_run_t *r, double v, uint64_t row) {
  const cublasLtEpilogue_t e = r->product.epilogue;
  if (has_bias(e)) v += fake_load(number_of(r->out.type), r->bias_bytes, (int64_t)row);
  if (e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS) return v < 0 ? 0 : v;
  if (e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS)
    return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
  return v;
}

static void run(const void *arg) {
  const blas_run_t *r = arg;
  const cudaDataType type = r->out.type;
  const uint64_t k = cols_of(&r->a, r->product.a);
  if (r->workspace != NULL) memset(r->workspace, 0x77, r->workspace_bytes);
  for (int n = 0; n < r->out.batch; n++) {
    for (uint64_t col = 0; col < r->out.cols; col++) {
      for (uint64_t row = 0; row < r->out.rows; row++) {
        double sum[2] = {0};
        for (uint64_t i = 0; i < k; i++) {
          double x[2], y[2];
          load(type, r->a_bytes, index_of(&r->a, r->product.a, row, i, n), r->product.a, x);
          load(type, r->b_bytes, index_of(&r->b, r->product.b, i, col, n), r->product.b, y);
          sum[0] += x[0] * y[0] - x[1] * y[1];
          sum[1] += x[0] * y[1] + x[1] * y[0];
        }
        sum[0] = finished(r, sum[0], row);
        store(type, r->out_bytes, index_of(&r->out, CUBLAS_OP_N, row, col, n), sum);
      }
    }
  }
}

/* A function of the fake driver, which is there already. */
static void *driver_function(const char *name) {
  const char *path = getenv("WEFT_CUDA_DRIVER");
  void *driver = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

static char *bytes_of(const void *p, const blas_layout_t *l, uint32_t alignment) {
  weft_fake_cuda_bytes_fn *bytes;
  *(void **)&bytes = driver_function(WEFT_FAKE_CUDA_BYTES);
  if (bytes == NULL || (uintptr_t)p % alignment != 0) return NULL;
  const size_t size = fake_size(number_of(l->type)) * (is_complex(l->type) ? 2 : 1);
  const int64_t last = (l->batch - 1) * l->step + (int64_t)(l->cols - 1) * l->ld + (int64_t)l->rows - 1;
  char *at = (char *)(uintptr_t)p;
  return bytes(at + (size_t)last * size) == NULL ? NULL : bytes(at);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
    const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
    const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)handle;
  blas_algorithm_t algorithm;
  memcpy(&algorithm, algo, sizeof algorithm);
  blas_run_t r = {.product = *(blas_product_t *)(void *)desc,
                  .a = *(blas_layout_t *)(void *)a_layout,
                  .b = *(blas_layout_t *)(void *)b_layout,
                  .out = *(blas_layout_t *)(void *)d_layout};
  const bool is_f64 = is_double(r.out.type);
  const double scale = is_f64 ? *(const double *)alpha : *(const float *)alpha;
  const double added = is_f64 ? *(const double *)beta : *(const float *)beta;
  r.a_bytes = bytes_of(a, &r.a, algorithm.a);
  r.b_bytes = bytes_of(b, &r.b, algorithm.b);
  r.out_bytes = bytes_of(d, &r.out, algorithm.out);
  const blas_layout_t room = {
      .type = CUDA_R_16F, .rows = workspace_bytes / 2, .cols = 1, .ld = 1, .batch = 1};
  if (workspace_bytes > 0) r.workspace = bytes_of(workspace, &room, 16);
  r.workspace_bytes = workspace_bytes;
  const blas_layout_t vector = {.type = r.out.type, .rows = r.out.rows, .cols = 1, .ld = 1, .batch = 1};
  const bool is_biased = has_bias(r.product.epilogue);
  if (is_biased) r.bias_bytes = bytes_of(r.product.bias, &vector, 16);
  weft_fake_cuda_call_fn *call;
  *(void **)&call = driver_function(WEFT_FAKE_CUDA_CALL);
  if (algorithm.magic != MAGIC || algorithm.workspace > workspace_bytes || scale != 1 || added != 0 ||
      c != d || c_layout != d_layout || !fits(&r.product, &r.a, &r.b, &r.out) || r.a_bytes == NULL ||
      r.b_bytes == NULL || r.out_bytes == NULL || (workspace_bytes > 0 && r.workspace == NULL) ||
      (is_biased && r.bias_bytes == NULL) || call == NULL) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return call(stream, run, &r, sizeof r) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}
