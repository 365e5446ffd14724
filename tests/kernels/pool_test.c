/* Pools of images and volumes on one thread and on several: lines of what is computed are divided among
 * threads, so that one image uses all of them, and the bits are those of one thread. */
#include <math.h>
#include <string.h>

#include "tests/kernels/script.h"

static weft_bench_t bench;

static weft_tensor_t *new_tensor(weft_dtype_t dtype, const weft_shape_t *shape, uint32_t seed) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int64_t i = 0; i < t->count; i++) {
    seed = seed * 1664525u + 1013904223u;
    const float value = (float)(int)(seed >> 24) - 128;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == WEFT_F32) {
      ((float *)t->data)[i] = value;
    } else {
      ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16); /* exact: eight bits */
    }
  }
  return t;
}

static weft_tensor_t *run(const char *op, const char *attrs, weft_tensor_t *const *inputs, int count,
                          bool on_one_thread) {
  weft_thread_pool_t *pool = bench.device->pool;
  weft_tensor_t *out = NULL;
  int n = 0;
  if (on_one_thread) bench.device->pool = NULL;
  weft_status_t *s = weft_run_op(&bench, op, attrs, inputs, count, &out, 1, &n);
  bench.device->pool = pool;
  CU_ASSERT_PTR_NULL_FATAL(s);
  return out;
}

/* The result on several threads, which is compared with that on one. */
static weft_tensor_t *compare(const char *op, const char *attrs, weft_tensor_t *const *inputs, int count) {
  weft_tensor_t *one = run(op, attrs, inputs, count, true), *all = run(op, attrs, inputs, count, false);
  CU_ASSERT_TRUE(one->count > 0 && weft_shape_eq(&one->shape, &all->shape));
  const size_t size = (size_t)one->count * (one->dtype == WEFT_F32 ? sizeof(float) : sizeof(uint16_t));
  CU_ASSERT_EQUAL(memcmp(one->data, all->data, size), 0);
  weft_tensor_release(one);
  return all;
}

static weft_tensor_t *shape_of(const weft_tensor_t *t) {
  const weft_shape_t shape = weft_shape_vector(t->shape.rank);
  weft_tensor_t *sizes = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_I32, &shape, NULL, &sizes);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < t->shape.rank; i++) ((int32_t *)sizes->data)[i] = (int32_t)t->shape.dims[i];
  return sizes;
}

static void threads_do_not_show_in_images(void) {
  static const char *const attrs[] = {
      "ksize=[1,3,3,1] strides=[1,1,1,1] padding=SAME",
      "ksize=[1,3,2,1] strides=[1,2,2,1] padding=VALID",
      "ksize=[1,2,3,1] strides=[1,3,1,1] padding=SAME",
      "ksize=[1,90,5,1] strides=[1,7,4,1] padding=SAME",
  };
  for (int k = 0; k < 2 * 2 * 4; k++) {
    const weft_dtype_t dtype = k & 1 ? WEFT_BF16 : WEFT_F32;
    const weft_shape_t shape = {.rank = 4, .dims = {k & 2 ? 3 : 1, 97, 43, 37}};
    weft_tensor_t *x = new_tensor(dtype, &shape, 1), *dx = new_tensor(dtype, &shape, 2);
    weft_tensor_t *mean = compare("AvgPool", attrs[k / 4], &x, 1);
    weft_tensor_t *y = compare("MaxPool", attrs[k / 4], &x, 1), *in[3] = {x, y, dx};
    weft_tensor_t *second = compare("MaxPoolGradGrad", attrs[k / 4], in, 3);
    weft_tensor_t *dy = new_tensor(dtype, &y->shape, 3);
    in[2] = dy;
    weft_tensor_t *grad = compare("MaxPoolGrad", attrs[k / 4], in, 3);
    weft_tensor_t *sizes = shape_of(x), *of_mean[2] = {sizes, dy};
    weft_tensor_t *share = compare("AvgPoolGrad", attrs[k / 4], of_mean, 2);
    weft_tensor_t *used[] = {x, dx, mean, y, second, dy, grad, sizes, share};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) weft_tensor_release(used[i]);
  }
}

static void threads_do_not_show_in_volumes(void) {
  static const char *const attrs[] = {
      "ksize=[1,3,3,3,1] strides=[1,1,1,1,1] padding=SAME",
      "ksize=[1,2,3,2,1] strides=[1,2,1,2,1] padding=VALID",
      "ksize=[1,5,1,4,1] strides=[1,3,2,1,1] padding=SAME",
  };
  for (int k = 0; k < 2 * 2 * 3; k++) {
    const weft_dtype_t dtype = k & 1 ? WEFT_BF16 : WEFT_F32;
    const weft_shape_t shape = {.rank = 5, .dims = {k & 2 ? 3 : 1, 9, 17, 19, 20}};
    weft_tensor_t *x = new_tensor(dtype, &shape, 1), *dx = new_tensor(dtype, &shape, 2);
    weft_tensor_t *mean = compare("AvgPool3D", attrs[k / 4], &x, 1);
    weft_tensor_t *y = compare("MaxPool3D", attrs[k / 4], &x, 1), *in[3] = {x, y, dx};
    weft_tensor_t *second = compare("MaxPool3DGradGrad", attrs[k / 4], in, 3);
    weft_tensor_t *dy = new_tensor(dtype, &y->shape, 3);
    in[2] = dy;
    weft_tensor_t *grad = compare("MaxPool3DGrad", attrs[k / 4], in, 3);
    weft_tensor_t *sizes = shape_of(x), *of_mean[2] = {sizes, dy};
    weft_tensor_t *share = compare("AvgPool3DGrad", attrs[k / 4], of_mean, 2);
    weft_tensor_t *used[] = {x, dx, mean, y, second, dy, grad, sizes, share};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) weft_tensor_release(used[i]);
  }
}

/* Channels [first, first + n) of images. */
static weft_tensor_t *channels_of(const weft_tensor_t *x, int64_t first, int64_t n) {
  weft_shape_t shape = x->shape;
  weft_tensor_t *t = NULL;
  shape.dims[3] = n;
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int64_t i = 0; i < t->count; i++)
    ((float *)t->data)[i] = ((const float *)x->data)[i / n * x->shape.dims[3] + first + i % n];
  return t;
}

/* Images of few channels are pooled by lines, of many pixel by pixel: each channel has the same bits. */
static void few_channels_are_like_many(void) {
  static const char *const attrs[] = {
      "ksize=[1,3,3,1] strides=[1,1,1,1] padding=SAME",  "ksize=[1,3,3,1] strides=[1,2,2,1] padding=SAME",
      "ksize=[1,3,2,1] strides=[1,2,3,1] padding=VALID", "ksize=[1,2,1,1] strides=[1,3,4,1] padding=SAME",
      "ksize=[1,5,9,1] strides=[1,1,5,1] padding=SAME",
  };
  static const int64_t few[] = {1, 2, 3, 5, 8, 16, 24, 31};
  const weft_shape_t shape = {.rank = 4, .dims = {2, 13, 1500, 32}};
  weft_tensor_t *x = new_tensor(WEFT_F32, &shape, 1);
  for (int64_t i = 0; i < x->count; i += 61) ((float *)x->data)[i] = i % 2 == 0 ? (float)NAN : -0.0f;
  for (int k = 0; k < 2 * 5 * 8; k++) {
    const char *op = k % 2 == 0 ? "MaxPool" : "AvgPool";
    const int64_t n = few[k / 10], first = 32 - n;
    weft_tensor_t *all = run(op, attrs[k / 2 % 5], &x, 1, true), *part = channels_of(x, first, n),
                  *want = channels_of(all, first, n), *got = run(op, attrs[k / 2 % 5], &part, 1, false);
    CU_ASSERT_EQUAL(want->count, got->count);
    int wrong = 0;
    for (int64_t i = 0; i < want->count; i++) {
      const float a = ((const float *)want->data)[i], b = ((const float *)got->data)[i];
      wrong += memcmp(&a, &b, sizeof a) != 0 && (a == a || b == b);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    weft_tensor_t *used[] = {all, part, want, got};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) weft_tensor_release(used[i]);
  }
  weft_tensor_release(x);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"few channels are like many", few_channels_are_like_many},
      {"threads do not show in images", threads_do_not_show_in_images},
      {"threads do not show in volumes", threads_do_not_show_in_volumes},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("pool", tests, &bench);
}
