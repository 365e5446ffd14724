/* device/cuda/blas.c - cuBLASLt, and what it chose for each product.
 *
 * cuBLASLt has columns where Weft has rows: it computes outᵀ [n, m] = bᵀ · aᵀ, of which each operand lies in
 * memory as it is.
 *
 * A plan is constant once it is in the table, and lives as long as the context of its device. A bias is part
 * of the description of a product, so that one with a bias is described anew for each run.
 */
#include "device/cuda/blas.h"

#include <cublasLt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/shared_library.h"

enum {
  NUM_CHAINS = 256,
  MAX_PLANS = 8192, /* of a device; beyond, the table begins anew with the context */
  TYPE_FLOAT = 1,
  TYPE_DOUBLE = 2,
  TYPE_COMPLEX64 = 8,
  TYPE_BFLOAT16 = 14,
  TYPE_COMPLEX128 = 18,
  TYPE_HALF = 19, /* TF_DataType */
};
/* NVIDIA's advice: 32 MiB for Hopper and later, 4 MiB before. cuBLAS documentation, "cublasSetWorkspace". */
static const size_t WORKSPACE_HOPPER = (size_t)32 << 20, WORKSPACE = (size_t)4 << 20;

/* ---- the library ---- */

static struct {
#define WEFT_CUDA_BLAS_CALL(name) __typeof__(name) *name;
#include "device/cuda/blas.def"
#undef WEFT_CUDA_BLAS_CALL
} blas;

static WEFT_Failure *failure_of(cublasStatus_t r, const char *what) {
  if (r == CUBLAS_STATUS_SUCCESS) return NULL;
  return weft_cuda_host->failure(r == CUBLAS_STATUS_ALLOC_FAILED ? WEFT_RESOURCE_EXHAUSTED : WEFT_INTERNAL,
                                 "cuBLASLt: %s: %s", what, blas.cublasLtGetStatusName(r));
}

static const weft_cuda_symbol_t symbols[] = {
#define WEFT_CUDA_BLAS_CALL(name) WEFT_CUDA_SYMBOL(blas, name)
#include "device/cuda/blas.def"
#undef WEFT_CUDA_BLAS_CALL
};

static const char *const places[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                     "/usr/local/cuda/lib64/libcublasLt.so.13",
                                     "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};
static weft_cuda_shared_library_t library = {.what = "products of matrices need cuBLASLt",
                                             .version = "cuBLASLt 12 or later",
                                             .hint = "install the CUDA toolkit's libcublas",
                                             .variable = "WEFT_CUBLASLT",
                                             .places = places,
                                             .symbols = symbols,
                                             .num_symbols = sizeof symbols / sizeof *symbols,
                                             .table = &blas,
                                             .mu = WEFT_MUTEX_INITIALIZER};

/* ---- plans ---- */

typedef struct cublas_key {
  int64_t m, n, k, batch;
  int64_t a_row, b_row, out_row, a_step, b_step, out_step; /* of weft_cuda_product_t */
  int dtype;
  unsigned a_alignment, b_alignment, out_alignment; /* of the addresses, at most 256 */
  bool transpose_a, transpose_b, is_adjoint, same_a, same_b, in_tf32, has_bias;
  weft_cuda_epilogue_kind_t epilogue;
} cublas_key_t;

typedef struct cublas_plan {
  struct cublas_plan *next; /* of the chain */
  cublas_key_t key;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, out; /* Weft's a and b */
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace;
  bool is_refused; /* there is no algorithm for its epilogue */
} cublas_plan_t;

typedef struct cublas_device {
  cublasLtHandle_t handle;
  weft_mutex_t mu;
  cublas_plan_t *chains[NUM_CHAINS]; /* guarded by mu */
  int num_plans;                     /* guarded by mu */
} cublas_device_t;

static void destroy_plan(cublas_plan_t *p) {
  if (p == NULL) return;
  if (p->product != NULL) (void)blas.cublasLtMatmulDescDestroy(p->product);
  if (p->a != NULL) (void)blas.cublasLtMatrixLayoutDestroy(p->a);
  if (p->b != NULL) (void)blas.cublasLtMatrixLayoutDestroy(p->b);
  if (p->out != NULL) (void)blas.cublasLtMatrixLayoutDestroy(p->out);
  weft_free(p);
}

static void destroy_device(void *value) {
  cublas_device_t *d = value;
  for (int i = 0; i < NUM_CHAINS; i++) {
    for (cublas_plan_t *p = d->chains[i], *next; p != NULL; p = next) {
      next = p->next;
      destroy_plan(p);
    }
  }
  if (d->handle != NULL) (void)blas.cublasLtDestroy(d->handle);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static WEFT_Failure *make_device(void **out) {
  WEFT_Failure *f = weft_cuda_shared_library_open(&library);
  if (f != NULL) return f;
  cublas_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: cuBLASLt");
  weft_mutex_init(&d->mu);
  f = failure_of(blas.cublasLtCreate(&d->handle), "making a handle");
  if (f != NULL) {
    d->handle = NULL;
    destroy_device(d);
    return f;
  }
  *out = d;
  return NULL;
}

typedef struct cublas_types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
} cublas_types_t;

static bool has_epilogue(const cublas_key_t *k) {
  return k->has_bias || k->epilogue != WEFT_CUDA_EPILOGUE_IDENTITY;
}

static bool types_of(const cublas_key_t *key, cublas_types_t *out) {
  switch (key->dtype) {
    case TYPE_FLOAT:
      *out = (cublas_types_t){CUDA_R_32F, CUDA_R_32F,
                              key->in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
      return true;
    case TYPE_DOUBLE: *out = (cublas_types_t){CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F}; return true;
    case TYPE_COMPLEX64: *out = (cublas_types_t){CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F}; return true;
    case TYPE_COMPLEX128: *out = (cublas_types_t){CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F}; return true;
    case TYPE_HALF: *out = (cublas_types_t){CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F}; return true;
    case TYPE_BFLOAT16: *out = (cublas_types_t){CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F}; return true;
    default: return false;
  }
}

/* A matrix whose columns are the rows [num, length] of one of ours. row, step: to the next, 0: dense. */
static cublasStatus_t make_layout(cudaDataType_t type, int64_t num, int64_t length, int64_t row,
                                  int64_t batch, int64_t step, bool is_same, cublasLtMatrixLayout_t *out) {
  if (row == 0) row = length;
  if (step == 0) step = num * row;
  if (is_same) step = 0;
  cublasStatus_t r = blas.cublasLtMatrixLayoutCreate(out, type, (uint64_t)length, (uint64_t)num, row);
  const int32_t count = (int32_t)batch;
  if (r == CUBLAS_STATUS_SUCCESS && batch > 1) {
    r = blas.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (r == CUBLAS_STATUS_SUCCESS) {
      r = blas.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                                sizeof step);
    }
  }
  return r;
}

/* The first operand is b. */
static cublasStatus_t describe_product(const cublas_key_t *k, const cublas_types_t *t, const void *bias,
                                       cublasLtMatmulDesc_t *out) {
  const cublasOperation_t flip = k->is_adjoint ? CUBLAS_OP_C : CUBLAS_OP_T;
  const cublasOperation_t a = k->transpose_a ? flip : CUBLAS_OP_N, b = k->transpose_b ? flip : CUBLAS_OP_N;
  static const cublasLtEpilogue_t epilogues[][2] = {
      [WEFT_CUDA_EPILOGUE_IDENTITY] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS},
      [WEFT_CUDA_EPILOGUE_RELU] = {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS},
      [WEFT_CUDA_EPILOGUE_GELU] = {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}};
  const cublasLtEpilogue_t epilogue = epilogues[k->epilogue][k->has_bias];
  const struct {
    cublasLtMatmulDescAttributes_t attribute;
    const void *value;
    size_t size;
    bool is_given;
  } attributes[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b, true},
                    {CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a, true},
                    {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, has_epilogue(k)},
                    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, k->has_bias}};
  cublasStatus_t r = blas.cublasLtMatmulDescCreate(out, t->compute, t->scale);
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes && r == CUBLAS_STATUS_SUCCESS; i++) {
    if (!attributes[i].is_given) continue;
    r = blas.cublasLtMatmulDescSetAttribute(*out, attributes[i].attribute, attributes[i].value,
                                            attributes[i].size);
  }
  return r;
}

static cublasStatus_t describe(cublas_plan_t *p, const cublas_types_t *t, const void *bias) {
  const cublas_key_t *k = &p->key;
  cublasStatus_t r = describe_product(k, t, bias, &p->product);
  if (r == CUBLAS_STATUS_SUCCESS) {
    r = make_layout(t->data, k->transpose_a ? k->k : k->m, k->transpose_a ? k->m : k->k, k->a_row, k->batch,
                    k->a_step, k->same_a, &p->a);
  }
  if (r == CUBLAS_STATUS_SUCCESS) {
    r = make_layout(t->data, k->transpose_b ? k->n : k->k, k->transpose_b ? k->k : k->n, k->b_row, k->batch,
                    k->b_step, k->same_b, &p->b);
  }
  if (r == CUBLAS_STATUS_SUCCESS)
    r = make_layout(t->data, k->m, k->n, k->out_row, k->batch, k->out_step, false, &p->out);
  return r;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const cublas_key_t *k, size_t workspace) {
  const struct {
    cublasLtMatmulPreferenceAttributes_t attribute;
    const void *value;
    size_t size;
  } wishes[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->b_alignment, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->a_alignment, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->out_alignment, sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->out_alignment, sizeof(uint32_t)},
  };
  cublasStatus_t r = CUBLAS_STATUS_SUCCESS;
  for (size_t i = 0; i < sizeof wishes / sizeof *wishes && r == CUBLAS_STATUS_SUCCESS; i++) {
    r = blas.cublasLtMatmulPreferenceSetAttribute(preference, wishes[i].attribute, wishes[i].value,
                                                  wishes[i].size);
  }
  return r;
}

static cublasStatus_t choose(cublas_device_t *d, cublas_plan_t *p, size_t workspace) {
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t best;
  int num = 0;
  cublasStatus_t r = blas.cublasLtMatmulPreferenceCreate(&preference);
  if (r != CUBLAS_STATUS_SUCCESS) return r;
  r = prefer(preference, &p->key, workspace);
  if (r == CUBLAS_STATUS_SUCCESS) {
    r = blas.cublasLtMatmulAlgoGetHeuristic(d->handle, p->product, p->b, p->a, p->out, p->out, preference, 1,
                                            &best, &num);
  }
  (void)blas.cublasLtMatmulPreferenceDestroy(preference);
  if (r != CUBLAS_STATUS_SUCCESS) return r;
  if (num == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  p->algorithm = best.algo;
  p->workspace = best.workspaceSize;
  return best.state;
}

static WEFT_Failure *make_plan(cublas_device_t *d, const cublas_key_t *key, const void *bias,
                               size_t workspace, cublas_plan_t **out) {
  cublas_types_t types;
  if (!types_of(key, &types))
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "a product of type %d", key->dtype);
  cublas_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: cuBLASLt");
  p->key = *key;
  cublasStatus_t r = describe(p, &types, bias);
  if (r == CUBLAS_STATUS_SUCCESS) r = choose(d, p, workspace);
  p->is_refused = r == CUBLAS_STATUS_NOT_SUPPORTED && has_epilogue(key);
  if (r != CUBLAS_STATUS_SUCCESS && !p->is_refused) {
    char what[160];
    snprintf(what, sizeof what, "choosing for a product of %lld x %lld x %lld, %lld times", (long long)key->m,
             (long long)key->k, (long long)key->n, (long long)key->batch);
    destroy_plan(p);
    return failure_of(r, what);
  }
  *out = p;
  return NULL;
}

static unsigned chain_of(const cublas_key_t *k) {
  uint64_t h = (uint64_t)k->m;
  h = h * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k->n;
  h = h * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k->k;
  h = h * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k->batch * 64 + (uint64_t)k->dtype;
  return (unsigned)(h * UINT64_C(0x9e3779b97f4a7c15) >> 56); /* NUM_CHAINS */
}

/* *out_owned: the table is full, and the caller destroys the plan. */
static bool is_same(const cublas_key_t *x, const cublas_key_t *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->batch == y->batch && x->dtype == y->dtype &&
         x->a_alignment == y->a_alignment && x->b_alignment == y->b_alignment &&
         x->out_alignment == y->out_alignment && x->transpose_a == y->transpose_a &&
         x->transpose_b == y->transpose_b && x->is_adjoint == y->is_adjoint && x->same_a == y->same_a &&
         x->same_b == y->same_b && x->in_tf32 == y->in_tf32 && x->a_row == y->a_row && x->b_row == y->b_row &&
         x->out_row == y->out_row && x->a_step == y->a_step && x->b_step == y->b_step &&
         x->out_step == y->out_step && x->has_bias == y->has_bias && x->epilogue == y->epilogue;
}

static WEFT_Failure *find_plan(cublas_device_t *d, const cublas_key_t *key, const void *bias,
                               size_t workspace, cublas_plan_t **out, bool *out_owned) {
  cublas_plan_t **chain = &d->chains[chain_of(key)];
  WEFT_Failure *f = NULL;
  *out_owned = false;
  weft_mutex_lock(&d->mu);
  cublas_plan_t *p = *chain;
  while (p != NULL && !is_same(&p->key, key)) p = p->next;
  if (p == NULL) {
    f = make_plan(d, key, bias, workspace, &p);
    if (f == NULL && d->num_plans < MAX_PLANS) {
      p->next = *chain;
      *chain = p;
      d->num_plans++;
    } else if (f == NULL) {
      *out_owned = true;
    }
  }
  weft_mutex_unlock(&d->mu);
  if (f == NULL) *out = p;
  return f;
}

/* ---- products ---- */

static unsigned alignment(const void *p) {
  const uintptr_t bits = (uintptr_t)p | 256;
  return (unsigned)(bits & -bits);
}

static bool is_off(const char *variable) {
  const char *value = getenv(variable);
  return value != NULL && strcmp(value, "0") == 0;
}

/* TF_DataType's kept sizes. */
static size_t size_of(int dtype) {
  switch (dtype) {
    case TYPE_COMPLEX128: return 16;
    case TYPE_COMPLEX64:
    case TYPE_DOUBLE: return 8;
    case TYPE_FLOAT: return 4;
    default: return 2;
  }
}

/* Makes the workspace as large as that. */
static WEFT_Failure *reserve(WEFT_KernelContext *c, size_t bytes, weft_cuda_workspace_t *w) {
  if (bytes <= w->bytes) return NULL;
  WEFT_Failure *f = weft_cuda_host->scratch(c, bytes, &w->at);
  w->bytes = f == NULL ? bytes : 0;
  return f;
}

static WEFT_Failure *enqueue(WEFT_KernelContext *c, cublas_device_t *d, const cublas_plan_t *p,
                             cublasLtMatmulDesc_t product, const void *a, const void *b, void *out,
                             weft_cuda_workspace_t *workspace) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  weft_cuda_queue_t *q = device->queues[WEFT_QUEUE_COMPUTE];
  static const double one_f64[2] = {1}, zero_f64[2] = {0}; /* of complex numbers, too */
  static const float one[2] = {1}, zero[2] = {0};
  const bool is_f64 = p->key.dtype == TYPE_DOUBLE || p->key.dtype == TYPE_COMPLEX128;
  weft_cuda_workspace_t own = {.at = NULL};
  if (workspace == NULL) workspace = &own;
  WEFT_Failure *f = reserve(c, p->workspace, workspace);
  if (f != NULL) return f;
  weft_cuda_queue_note(q, weft_cuda_host->node_name(c));
  return failure_of(blas.cublasLtMatmul(d->handle, product, is_f64 ? (const void *)one_f64 : one, b, p->b, a,
                                        p->a, is_f64 ? (const void *)zero_f64 : zero, out, p->out, out,
                                        p->out, &p->algorithm, p->workspace > 0 ? workspace->at : NULL,
                                        p->workspace, (cudaStream_t)weft_cuda_queue_stream(q)),
                    "enqueuing a product");
}

static WEFT_Failure *run_plan(WEFT_KernelContext *c, cublas_device_t *d, const cublas_plan_t *p,
                              const void *bias, const void *a, const void *b, void *out,
                              weft_cuda_workspace_t *workspace) {
  cublas_types_t types;
  cublasLtMatmulDesc_t own = NULL;
  if (!p->key.has_bias) return enqueue(c, d, p, p->product, a, b, out, workspace);
  (void)types_of(&p->key, &types);
  WEFT_Failure *f = failure_of(describe_product(&p->key, &types, bias, &own), "describing a product");
  if (f == NULL) f = enqueue(c, d, p, own, a, b, out, workspace);
  if (own != NULL) (void)blas.cublasLtMatmulDescDestroy(own);
  return f;
}

static WEFT_Failure *find_device(WEFT_KernelContext *c, void **out) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  WEFT_Failure *f = weft_cuda_queue_begin(device->queues[WEFT_QUEUE_COMPUTE], "a product");
  if (f != NULL) return f;
  return weft_cuda_physical_attachment(device->physical, WEFT_CUDA_BLAS, make_device, destroy_device, out);
}

static cublas_key_t key_of(const weft_cuda_product_t *p, const weft_cuda_epilogue_t *e, const void *a,
                           const void *b, const void *out) {
  return (cublas_key_t){
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .batch = p->batch,
      .dtype = p->dtype,
      .transpose_a = p->transpose_a,
      .transpose_b = p->transpose_b,
      .a_row = p->a_row,
      .b_row = p->b_row,
      .out_row = p->out_row,
      .a_step = p->a_step,
      .b_step = p->b_step,
      .out_step = p->out_step,
      .is_adjoint = p->is_adjoint && (p->dtype == TYPE_COMPLEX64 || p->dtype == TYPE_COMPLEX128),
      .same_a = p->same_a && p->batch > 1,
      .same_b = p->same_b && p->batch > 1,
      .a_alignment = alignment(a),
      .b_alignment = alignment(b),
      .out_alignment = alignment(out),
      .in_tf32 = p->dtype == TYPE_FLOAT && !is_off("NVIDIA_TF32_OVERRIDE") && !is_off("WEFT_TF32"),
      .has_bias = e->bias != NULL,
      .epilogue = e->kind};
}

/* *out_done: false where the epilogue is refused: then nothing was enqueued. */
static WEFT_Failure *multiply(WEFT_KernelContext *c, const weft_cuda_product_t *p,
                              const weft_cuda_epilogue_t *e, const void *a, const void *b, void *out,
                              bool *out_done) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  const size_t workspace = device->physical->capability_major >= 9 ? WORKSPACE_HOPPER : WORKSPACE;
  const cublas_key_t key = key_of(p, e, a, b, out);
  void *kept = NULL;
  cublas_plan_t *plan = NULL;
  bool is_owned = false;
  WEFT_Failure *f = find_device(c, &kept);
  if (f == NULL) f = find_plan(kept, &key, e->bias, workspace, &plan, &is_owned);
  *out_done = f == NULL && !plan->is_refused;
  if (*out_done) f = run_plan(c, kept, plan, e->bias, a, b, out, p->workspace);
  if (is_owned) destroy_plan(plan);
  return f;
}

WEFT_Failure *weft_cuda_multiply(WEFT_KernelContext *c, const weft_cuda_product_t *p, const void *a,
                                 const void *b, void *out) {
  bool is_done = false;
  if (p->m == 0 || p->n == 0 || p->batch == 0) return NULL;
  if (p->k == 0) return weft_cuda_fill(c, out, 0, (size_t)(p->batch * p->m * p->n) * size_of(p->dtype));
  return multiply(c, p, &(weft_cuda_epilogue_t){WEFT_CUDA_EPILOGUE_IDENTITY, NULL}, a, b, out, &is_done);
}

WEFT_Failure *weft_cuda_multiply_finished(WEFT_KernelContext *c, const weft_cuda_product_t *p,
                                          const weft_cuda_epilogue_t *epilogue, const void *a, const void *b,
                                          void *out, bool *out_done) {
  enum { BIAS_ALIGNMENT = 16 }; /* of vector loads; the heuristics are not told of another one */
  const bool is_short = p->dtype == TYPE_FLOAT || p->dtype == TYPE_HALF || p->dtype == TYPE_BFLOAT16;
  *out_done = false;
  if (is_short && p->m > 0 && p->n > 0 && p->k > 0 && p->batch > 0 &&
      (uintptr_t)epilogue->bias % BIAS_ALIGNMENT == 0) {
    WEFT_Failure *f = multiply(c, p, epilogue, a, b, out, out_done);
    if (f != NULL || *out_done) return f;
  }
  return weft_cuda_multiply(c, p, a, b, out);
}
