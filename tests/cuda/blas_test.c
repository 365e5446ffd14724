/* tests/cuda/blas_test.c - products by cuBLASLt, of each type and each way that matrices lie, against plain
 * loops. */
#include "device/cuda/blas.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/cuda/rig.h"
#include "tests/runner.h"

enum {
  FLOAT = 1,
  DOUBLE = 2,
  INT32 = 3,
  COMPLEX64 = 8,
  BFLOAT16 = 14,
  COMPLEX128 = 18,
  HALF = 19,
  MOST = 4096
};
static const WEFT_DeviceType *const type = &weft_cuda_device_type;
static const char FAKE[] = "tests/cuda/fake/libcublasLt_fake.so";

static bool is_complex(int dtype) { return dtype == COMPLEX64 || dtype == COMPLEX128; }
static int part_of(int dtype) { return dtype == COMPLEX64 ? FLOAT : dtype == COMPLEX128 ? DOUBLE : dtype; }
static size_t size_of(int dtype) {
  const int part = part_of(dtype);
  return (part == DOUBLE ? 8 : part == FLOAT ? 4 : 2) * (is_complex(dtype) ? 2 : 1);
}

/* Small whole numbers and halves are exact in every type. */
static void put(int dtype, void *to, int64_t i, double value) {
  const float f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (dtype == DOUBLE) {
    ((double *)to)[i] = value;
  } else if (dtype == FLOAT) {
    ((float *)to)[i] = f;
  } else if (dtype == BFLOAT16) {
    ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
  } else {
    const int exponent = (int)(bits >> 23 & 255) - 112;
    ((uint16_t *)to)[i] =
        (uint16_t)(value == 0 ? 0 : (bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
  }
}

static double get(int dtype, const void *from, int64_t i) {
  if (dtype == DOUBLE) return ((const double *)from)[i];
  if (dtype == FLOAT) return ((const float *)from)[i];
  const uint16_t h = ((const uint16_t *)from)[i];
  if (dtype == HALF) {
    const double fraction = (h & 1023) / 1024.0;
    const int exponent = h >> 10 & 31;
    return ((h & 0x8000) != 0 ? -1 : 1) *
           (exponent == 0 ? ldexp(fraction, -14) : ldexp(1 + fraction, exponent - 15));
  }
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* How much a rounded sum may differ: an error of half a unit in the last place. */
static double epsilon(int dtype) {
  return dtype == DOUBLE ? 1e-15 : dtype == FLOAT ? 1e-6 : dtype == HALF ? 1.0 / 2048 : 1.0 / 256;
}

static void *send(weft_rig_t *r, const void *bytes, size_t size) {
  uint64_t after;
  void *x = type->allocate(r->device, size, &after);
  TRIAL(x != NULL);
  TRIAL_OK(type->copy(r->queues[WEFT_QUEUE_COPIES_IN], NULL, bytes, r->device, x, size));
  type->wait(r->queues[WEFT_QUEUE_COMPUTE], r->queues[WEFT_QUEUE_COPIES_IN],
             weft_rig_mark(r, WEFT_QUEUE_COPIES_IN));
  return x;
}

/* Element i, of a transposed operand that is conjugated. */
static double _Complex number(const weft_cuda_product_t *p, const void *from, int64_t i, bool is_flipped) {
  double parts[2] = {0};
  if (!is_complex(p->dtype)) return get(p->dtype, from, i);
  for (int k = 0; k < 2; k++) parts[k] = get(part_of(p->dtype), from, 2 * i + k);
  return parts[0] + (is_flipped && p->is_adjoint ? -parts[1] : parts[1]) * I;
}

/* What a test multiplies, and what follows. */
typedef struct trial_product {
  weft_cuda_product_t p;
  weft_cuda_epilogue_kind_t epilogue;
  bool has_bias;
} trial_product_t;

static double finished(const trial_product_t *t, double v, const void *bias, int64_t col) {
  if (t->has_bias) v += get(t->p.dtype, bias, col);
  if (t->epilogue == WEFT_CUDA_EPILOGUE_RELU) return v < 0 ? 0 : v;
  if (t->epilogue == WEFT_CUDA_EPILOGUE_GELU)
    return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
  return v;
}

static double _Complex element(const weft_cuda_product_t *p, const void *a, const void *b, int64_t n,
                               int64_t row, int64_t col) {
  double _Complex sum = 0;
  const int64_t a_at = p->same_a ? 0 : n * p->m * p->k, b_at = p->same_b ? 0 : n * p->k * p->n;
  for (int64_t i = 0; i < p->k; i++) {
    sum += number(p, a, a_at + (p->transpose_a ? i * p->m + row : row * p->k + i), p->transpose_a) *
           number(p, b, b_at + (p->transpose_b ? col * p->k + i : i * p->n + col), p->transpose_b);
  }
  return sum;
}

static void multiply(weft_rig_t *r, const weft_cuda_product_t *p) {
  static double a[2 * MOST], b[2 * MOST], out[2 * MOST]; /* room for the largest type */
  const int64_t num_a = (p->same_a ? 1 : p->batch) * p->m * p->k,
                num_b = (p->same_b ? 1 : p->batch) * p->k * p->n;
  const int64_t num = p->batch * p->m * p->n;
  const size_t size = size_of(p->dtype);
  TRIAL(num_a <= MOST && num_b <= MOST && num <= MOST);
  const int parts = is_complex(p->dtype) ? 2 : 1, part = part_of(p->dtype);
  for (int64_t i = 0; i < parts * num_a; i++) put(part, a, i, (double)(i * 7 % 11) - 5);
  for (int64_t i = 0; i < parts * num_b; i++) put(part, b, i, ((double)(i * 5 % 13) - 6) / 2);
  void *x = send(r, a, (size_t)num_a * size + 1), *y = send(r, b, (size_t)num_b * size + 1);
  memset(out, 0xff, sizeof out);
  void *z = send(r, out, (size_t)num * size + 1);
  WEFT_KernelContext c = {r->device, "product"};
  TRIAL_OK(weft_cuda_multiply(&c, p, x, y, z));
  type->wait(r->queues[WEFT_QUEUE_COPIES_OUT], r->queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(r, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(type->copy(r->queues[WEFT_QUEUE_COPIES_OUT], r->device, z, NULL, out, (size_t)num * size));
  TRIAL_OK(weft_rig_await(r, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(r, WEFT_QUEUE_COPIES_OUT)));
  for (int64_t i = 0; i < num; i++) {
    const double _Complex expected = element(p, a, b, i / (p->m * p->n), i / p->n % p->m, i % p->n);
    TRIAL(cabs(number(p, out, i, false) - expected) <= epsilon(part) * cabs(expected));
  }
  const uint64_t used = weft_rig_mark(r, WEFT_QUEUE_COMPUTE);
  type->deallocate(r->device, x, (size_t)num_a * size + 1, used);
  type->deallocate(r->device, y, (size_t)num_b * size + 1, used);
  type->deallocate(r->device, z, (size_t)num * size + 1, used);
}

/* One with an epilogue, of a bias that lies `off` elements behind an aligned address; is_done: cuBLASLt has
 * it. */
static void multiply_finished(weft_rig_t *r, const trial_product_t *t, int64_t off, bool is_done) {
  static double a[MOST], b[MOST], bias[MOST], out[MOST];
  const weft_cuda_product_t *p = &t->p;
  const size_t size = size_of(p->dtype);
  const int64_t num = p->m * p->n;
  for (int64_t i = 0; i < p->m * p->k; i++) put(p->dtype, a, i, ((double)(i * 7 % 11) - 5) / 4);
  for (int64_t i = 0; i < p->k * p->n; i++) put(p->dtype, b, i, ((double)(i * 5 % 13) - 6) / 4);
  for (int64_t i = 0; i < p->n; i++) put(p->dtype, bias, i + off, (double)(i % 5) - 2);
  void *x = send(r, a, sizeof a / 8), *y = send(r, b, sizeof b / 8), *z = send(r, out, sizeof out / 8);
  char *v = send(r, bias, sizeof bias / 8);
  const weft_cuda_epilogue_t e = {t->epilogue, t->has_bias ? v + (size_t)off * size : NULL};
  WEFT_KernelContext c = {r->device, "product"};
  bool got_done = !is_done;
  TRIAL_OK(weft_cuda_multiply_finished(&c, p, &e, x, y, z, &got_done));
  TRIAL(got_done == is_done);
  type->wait(r->queues[WEFT_QUEUE_COPIES_OUT], r->queues[WEFT_QUEUE_COMPUTE],
             weft_rig_mark(r, WEFT_QUEUE_COMPUTE));
  TRIAL_OK(type->copy(r->queues[WEFT_QUEUE_COPIES_OUT], r->device, z, NULL, out, (size_t)num * size));
  TRIAL_OK(weft_rig_await(r, WEFT_QUEUE_COPIES_OUT, weft_rig_mark(r, WEFT_QUEUE_COPIES_OUT)));
  for (int64_t i = 0; i < num; i++) {
    const double plain = creal(element(p, a, b, 0, i / p->n, i % p->n)),
                 expected = is_done ? finished(t, plain, (char *)bias + (size_t)off * size, i % p->n) : plain;
    TRIAL(fabs(get(p->dtype, out, i) - expected) <= epsilon(p->dtype) * (1e-3 + fabs(expected)));
  }
  const uint64_t used = weft_rig_mark(r, WEFT_QUEUE_COMPUTE);
  void *const blocks[] = {x, y, z, v};
  for (int i = 0; i < 4; i++) type->deallocate(r->device, blocks[i], sizeof a / 8, used);
}

static void trial_epilogues(void *arg) {
  (void)arg;
  setenv("WEFT_CUBLASLT", FAKE, 1);
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  static const int dtypes[] = {FLOAT, HALF, BFLOAT16};
  for (int i = 0; i < 3 * 3 * 2 * 4; i++) {
    const trial_product_t t = {.p = {.dtype = dtypes[i % 3],
                                     .m = 5,
                                     .n = 7,
                                     .k = 6,
                                     .batch = 1,
                                     .transpose_a = (i / 18 & 1) != 0,
                                     .transpose_b = (i / 18 & 2) != 0},
                               .epilogue = (weft_cuda_epilogue_kind_t)(i / 3 % 3),
                               .has_bias = i / 9 % 2 != 0};
    for (int again = 0; again < 2; again++) multiply_finished(&r, &t, 0, true);
  }
  trial_product_t t = {.p = {.dtype = FLOAT, .m = 4, .n = 3, .k = 2, .batch = 1},
                       .epilogue = WEFT_CUDA_EPILOGUE_RELU,
                       .has_bias = true};
  multiply_finished(&r, &t, 1, false); /* the bias is not aligned */
  multiply_finished(&r, &t, 4, true);
  t.p.n = 1;
  for (int again = 0; again < 2; again++) multiply_finished(&r, &t, 0, false); /* no algorithm */
  t.p.n = 3, t.p.k = 0;
  multiply_finished(&r, &t, 0, false);
  t.p.k = 2, t.p.dtype = DOUBLE;
  multiply_finished(&r, &t, 0, false);
  weft_rig_close(&r);
  weft_rig_is_clean();
}

static void epilogues_finish_the_product(void) {
  const char *wrong = weft_trial(trial_epilogues, NULL, "late_us=20", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

static void trial_products(void *arg) {
  (void)arg;
  setenv("WEFT_CUBLASLT", FAKE, 1);
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  static const int dtypes[] = {FLOAT, DOUBLE, HALF, BFLOAT16, COMPLEX64, COMPLEX128};
  static const int64_t sizes[][4] = {{1, 1, 1, 1}, {3, 5, 7, 1}, {1, 9, 4, 1}, {8, 1, 16, 1}, {4, 6, 3, 5},
                                     {2, 3, 0, 2}, {0, 3, 2, 1}, {2, 0, 2, 1}, {2, 3, 2, 0}};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      for (int flags = 0; flags < (is_complex(dtypes[d]) ? 32 : 16); flags++) {
        multiply(&r, &(weft_cuda_product_t){.dtype = dtypes[d],
                                            .m = sizes[s][0],
                                            .n = sizes[s][1],
                                            .k = sizes[s][2],
                                            .batch = sizes[s][3],
                                            .transpose_a = (flags & 1) != 0,
                                            .transpose_b = (flags & 2) != 0,
                                            .same_a = (flags & 4) != 0,
                                            .same_b = (flags & 8) != 0,
                                            .is_adjoint = (flags & 16) != 0});
      }
    }
  }
  WEFT_KernelContext c = {r.device, "product"};
  TRIAL_FAILURE(
      weft_cuda_multiply(&c, &(weft_cuda_product_t){.dtype = INT32, .m = 1, .n = 1, .k = 1, .batch = 1}, NULL,
                         NULL, NULL),
      WEFT_UNIMPLEMENTED, "a product of type 3");
  static int host[4];
  TRIAL_FAILURE(
      weft_cuda_multiply(&c, &(weft_cuda_product_t){.dtype = FLOAT, .m = 1, .n = 1, .k = 1, .batch = 1}, host,
                         host, host),
      WEFT_INTERNAL, "cuBLASLt: enqueuing a product: CUBLAS_STATUS_INVALID_VALUE");
  weft_rig_close(&r);
  weft_rig_is_clean();
}

static void products_are_those_of_plain_loops(void) {
  const char *wrong = weft_trial(trial_products, NULL, "late_us=20", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

static void trial_missing(void *arg) {
  setenv("WEFT_CUBLASLT", arg, 1);
  weft_rig_library();
  weft_rig_t r;
  TRIAL_OK(weft_rig_open(&r, NULL, 0));
  WEFT_KernelContext c = {r.device, "product"};
  const char *text = strcmp(arg, "libm.so.6") == 0 ? "has no cublasLtCreate: cuBLASLt 12 or later is needed"
                                                   : "name the library in WEFT_CUBLASLT";
  for (int i = 0; i < 2; i++) {
    TRIAL_FAILURE(
        weft_cuda_multiply(&c, &(weft_cuda_product_t){.dtype = FLOAT, .m = 1, .n = 1, .k = 1, .batch = 1},
                           NULL, NULL, NULL),
        WEFT_UNAVAILABLE, text);
  }
  weft_rig_close(&r);
  weft_rig_is_clean();
}

static void without_the_library_a_product_says_what_to_do(void) {
  static char nowhere[] = "/nowhere/libcublasLt.so", other[] = "libm.so.6";
  CU_ASSERT_PTR_NULL(weft_trial(trial_missing, nowhere, "", NULL));
  CU_ASSERT_PTR_NULL(weft_trial(trial_missing, other, "", NULL));
}

static void trial_memory(void *arg) {
  (void)arg;
  setenv("WEFT_CUBLASLT", FAKE, 1);
  weft_rig_library();
  static char zeros[256];
  for (long n = 0;; n++) {
    weft_rig_t r;
    TRIAL_OK(weft_rig_open(&r, NULL, 0));
    void *x = send(&r, zeros, sizeof zeros);
    WEFT_KernelContext c = {r.device, "product"};
    weft_fault_arm(n);
    WEFT_Failure *f =
        weft_cuda_multiply(&c, &(weft_cuda_product_t){.dtype = FLOAT, .m = 2, .n = 2, .k = 2, .batch = 1}, x,
                           x, (char *)x + 128);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    if (f != NULL) TRIAL_FAILURE(f, WEFT_RESOURCE_EXHAUSTED, "");
    weft_rig_close(&r);
    weft_rig_is_clean();
    if (!fired) break;
  }
}

static void without_memory_nothing_is_left(void) {
  const char *wrong = weft_trial(trial_memory, NULL, "", NULL);
  if (wrong != NULL) fprintf(stderr, "%s\n", wrong);
  CU_ASSERT_PTR_NULL(wrong);
}

static const CU_TestInfo tests[] = {
    {"products are those of plain loops", products_are_those_of_plain_loops},
    {"epilogues finish the product", epilogues_finish_the_product},
    {"without the library a product says what to do", without_the_library_a_product_says_what_to_do},
    {"without memory nothing is left", without_memory_nothing_is_left},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("cuBLASLt", tests); }
