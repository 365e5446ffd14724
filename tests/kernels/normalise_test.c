/* Batch norm and response normalisation of images large enough for several threads, against plain loops in
 * double. */
#include <math.h>

#include "tests/kernels/script.h"

enum { BATCH = 5, PIXELS = 61 * 59, CHANNELS = 7, COUNT = BATCH * PIXELS * CHANNELS };
static const double epsilon = 0.001;

static weft_bench_t bench;
static float image[COUNT], back[COUNT]; /* [batch, pixel, channel] */
static const float scale[CHANNELS] = {1.5f, -0.5f, 2, 1, 0.25f, 3, -1},
                   offset[CHANNELS] = {0.5f, 1, -1, 0, 2, -3, 0.125f};

static void fill_images(void) {
  uint32_t x = 1;
  for (int i = 0; i < COUNT; i++) {
    x = x * 1664525u + 1013904223u;
    image[i] = (float)(x >> 8) / 4194304.0f +
               (float)(100 * (i % CHANNELS)); /* far from zero: sums must not lose it */
    x = x * 1664525u + 1013904223u;
    back[i] = (float)(x >> 8) / 8388608.0f - 1;
  }
}

/* Where (batch, pixel, channel) lies. */
static int64_t place(bool channel_first, int64_t i) {
  int64_t n = i / (PIXELS * CHANNELS), p = i / CHANNELS % PIXELS, c = i % CHANNELS;
  return channel_first ? (n * CHANNELS + c) * PIXELS + p : i;
}

static weft_tensor_t *make_image(const float *from, bool channel_first) {
  weft_shape_t shape = {.rank = 4, .dims = {BATCH, 61, 59, CHANNELS}};
  if (channel_first) shape = (weft_shape_t){.rank = 4, .dims = {BATCH, CHANNELS, 61, 59}};
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  for (int64_t i = 0; i < COUNT; i++) ((float *)t->data)[place(channel_first, i)] = from[i];
  return t;
}

static weft_tensor_t *make_vector(const float *from, int64_t n) {
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  weft_status_free(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  if (n > 0) memcpy(t->data, from, (size_t)n * sizeof *from);
  return t;
}

static void drop(weft_tensor_t **list, int n) {
  for (int i = 0; i < n; i++) weft_tensor_release(list[i]);
}

static double worst(double so_far, float got, double want) {
  double d = fabs((double)got - want) / fmax(1, fabs(want));
  return isnan(d) || d > so_far ? (isnan(d) ? INFINITY : d) : so_far;
}

static void statistics(double *mean, double *variance) {
  memset(mean, 0, CHANNELS * sizeof *mean);
  memset(variance, 0, CHANNELS * sizeof *variance);
  for (int i = 0; i < COUNT; i++) mean[i % CHANNELS] += (double)image[i] / (BATCH * PIXELS);
  for (int i = 0; i < COUNT; i++) {
    double d = (double)image[i] - mean[i % CHANNELS];
    variance[i % CHANNELS] += d * d / (BATCH * PIXELS);
  }
}

static void check_training(bool channel_first) {
  double mean[CHANNELS], variance[CHANNELS], n = BATCH * PIXELS, off = 0;
  statistics(mean, variance);
  weft_tensor_t *in[] = {make_image(image, channel_first), make_vector(scale, CHANNELS),
                         make_vector(offset, CHANNELS), make_vector(NULL, 0), make_vector(NULL, 0)};
  weft_tensor_t *out[6] = {NULL};
  int num = 0;
  weft_status_t *s =
      weft_run_op(&bench, "FusedBatchNormV3",
                  channel_first ? "epsilon=0.001 data_format=NCHW" : "epsilon=0.001", in, 5, out, 6, &num);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < COUNT; i++) {
    int c = i % CHANNELS;
    double want =
        ((double)image[i] - mean[c]) / sqrt(variance[c] + epsilon) * (double)scale[c] + (double)offset[c];
    off = worst(off, ((float *)out[0]->data)[place(channel_first, i)], want);
  }
  for (int c = 0; c < CHANNELS; c++) {
    off = worst(off, ((float *)out[1]->data)[c], mean[c]);
    off = worst(off, ((float *)out[2]->data)[c], variance[c] * n / (n - 1));
    off = worst(off, ((float *)out[4]->data)[c], variance[c]);
  }
  CU_ASSERT_TRUE(off < 1e-4);
  drop(in, 5);
  drop(out, 6);
}

static void training_normalises_large_batches(void) {
  check_training(false);
  check_training(true);
}

/* Pixels of channels whose mean lies far from that of the pixels before; one channel has an infinity. */
static void check_drift(int num_rows, int width) {
  const weft_shape_t shape = {.rank = 4, .dims = {1, 1, num_rows, width}};
  static float one[CHANNELS * PIXELS];
  weft_tensor_t *in[5] = {NULL}, *out[6] = {NULL};
  int num = 0;
  double off = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &in[0]));
  float *x = in[0]->data;
  for (int r = 0; r < num_rows; r++) {
    for (int c = 0; c < width; c++) {
      x[r * width + c] = back[(r * width + c) % COUNT] + (r < 110 ? 0 : (float)(c * 10));
    }
  }
  x[350 * width + width - 1] = INFINITY;
  for (int i = 1; i < 3; i++) in[i] = make_vector(one, width);
  for (int i = 3; i < 5; i++) in[i] = make_vector(NULL, 0);
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&bench, "FusedBatchNormV3", "epsilon=0.001", in, 5, out, 6, &num));
  const float *means = out[3]->data, *variances = out[4]->data;
  for (int c = 0; c < width - 1; c++) {
    double mean = 0, variance = 0;
    for (int r = 0; r < num_rows; r++) mean += (double)x[r * width + c] / num_rows;
    for (int r = 0; r < num_rows; r++) variance += pow((double)x[r * width + c] - mean, 2) / num_rows;
    off = worst(off, means[c], mean);
    off = worst(off, variances[c], variance);
  }
  CU_ASSERT_TRUE(off < 1e-6);
  CU_ASSERT_TRUE(isinf(means[width - 1]) && means[width - 1] > 0);
  CU_ASSERT_TRUE(isnan(variances[width - 1]));
  drop(in, 5);
  drop(out, 6);
}

static void moments_follow_means_that_drift(void) {
  check_drift(400, 300); /* more channels than are taken at a time */
  check_drift(3000, 40);
}

static void check_gradient(bool channel_first) {
  double mean[CHANNELS], variance[CHANNELS], sum[CHANNELS] = {0}, product[CHANNELS] = {0}, n = BATCH * PIXELS,
                                             off = 0;
  statistics(mean, variance);
  float means[CHANNELS], variances[CHANNELS];
  for (int c = 0; c < CHANNELS; c++) {
    means[c] = (float)mean[c];
    variances[c] = (float)variance[c];
  }
  for (int i = 0; i < COUNT; i++) {
    sum[i % CHANNELS] += (double)back[i];
    product[i % CHANNELS] += (double)back[i] * ((double)image[i] - (double)means[i % CHANNELS]);
  }
  weft_tensor_t *in[] = {make_image(back, channel_first),  make_image(image, channel_first),
                         make_vector(scale, CHANNELS),     make_vector(means, CHANNELS),
                         make_vector(variances, CHANNELS), make_vector(NULL, 0)};
  weft_tensor_t *out[5] = {NULL};
  int num = 0;
  weft_status_t *s =
      weft_run_op(&bench, "FusedBatchNormGradV3",
                  channel_first ? "epsilon=0.001 data_format=NCHW" : "epsilon=0.001", in, 6, out, 5, &num);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < COUNT; i++) {
    int c = i % CHANNELS;
    double spread = variance[c] + epsilon, centered = (double)image[i] - mean[c];
    double want = (double)scale[c] / sqrt(spread) *
                  ((double)back[i] - sum[c] / n - centered * product[c] / (n * spread));
    off = worst(off, ((float *)out[0]->data)[place(channel_first, i)], want);
  }
  for (int c = 0; c < CHANNELS; c++) {
    off = worst(off, ((float *)out[1]->data)[c], product[c] / sqrt(variance[c] + epsilon));
    off = worst(off, ((float *)out[2]->data)[c], sum[c]);
  }
  CU_ASSERT_TRUE(off < 1e-4);
  drop(in, 6);
  drop(out, 5);
}

static void gradients_of_large_batches_are_right(void) {
  check_gradient(false);
  check_gradient(true);
}

static void responses_of_many_pixels_are_right(void) {
  weft_tensor_t *in[] = {make_image(back, false)}, *out[1] = {NULL};
  int num = 0;
  double off = 0;
  weft_status_t *s =
      weft_run_op(&bench, "LRN", "depth_radius=2 bias=2 alpha=0.5 beta=0.75", in, 1, out, 1, &num);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < COUNT; i++) {
    double squares = 0;
    for (int k = -2; k <= 2; k++) {
      int c = i % CHANNELS + k;
      if (c >= 0 && c < CHANNELS) squares += (double)back[i + k] * (double)back[i + k];
    }
    off = worst(off, ((float *)out[0]->data)[i], (double)back[i] * pow(2 + 0.5 * squares, -0.75));
  }
  CU_ASSERT_TRUE(off < 1e-5);
  drop(in, 1);
  drop(out, 1);
}

/* `op` of rows [rows, classes] at x, of the given dtype. */
static weft_tensor_t *softmax_of(const char *op, weft_dtype_t dtype, const void *x, int64_t rows,
                                 int64_t classes) {
  const weft_shape_t shape = {.rank = 2, .dims = {rows, classes}};
  weft_tensor_t *in = NULL, *out = NULL;
  int num = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &in));
  memcpy(in->data, x, (size_t)(rows * classes) * weft_dtype_size(dtype));
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&bench, op, NULL, &in, 1, &out, 1, &num));
  weft_tensor_release(in);
  return out;
}

enum { MOST_CLASSES = 5000, MOST_ROWS = 19 };
static double numbers_f64[MOST_ROWS * MOST_CLASSES];
static uint16_t numbers_f16[MOST_ROWS * MOST_CLASSES], numbers_bf16[MOST_ROWS * MOST_CLASSES];

/* Rows are taken several at a time, as many as fit into the cache: any number of them gives the bits that
 * each has alone. */
static void softmax_of_a_row_does_not_depend_on_its_neighbours(void) {
  static const int64_t classes[] = {10, 33, 50, 64, 128, 129, 200, 1000, 1025, 2049, MOST_CLASSES};
  static const char *const ops[] = {"Softmax", "LogSoftmax"};
  const struct {
    weft_dtype_t dtype;
    const void *x;
  } kinds[] = {{WEFT_F32, back}, {WEFT_F64, numbers_f64}, {WEFT_F16, numbers_f16}, {WEFT_BF16, numbers_bf16}};
  for (int i = 0; i < MOST_ROWS * MOST_CLASSES; i++) {
    numbers_f64[i] = (double)back[i] + (double)(i % 1013) * 1e-11;
    numbers_f16[i] = weft_f32_to_f16(back[i]);
    numbers_bf16[i] = weft_f32_to_bf16(back[i]);
  }
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
    const int64_t C = classes[i];
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0] * 2; k++) {
      const char *op = ops[k % 2], *x = kinds[k / 2].x;
      const weft_dtype_t dtype = kinds[k / 2].dtype;
      const size_t row_bytes = (size_t)C * weft_dtype_size(dtype);
      for (int64_t rows = 2; rows <= MOST_ROWS; rows += rows < 4 ? 1 : 5) {
        weft_tensor_t *all = softmax_of(op, dtype, x, rows, C);
        for (int64_t row = 0; row < rows; row++) {
          weft_tensor_t *one = softmax_of(op, dtype, x + (size_t)row * row_bytes, 1, C);
          CU_ASSERT_EQUAL(memcmp((const char *)all->data + (size_t)row * row_bytes, one->data, row_bytes), 0);
          weft_tensor_release(one);
        }
        weft_tensor_release(all);
      }
    }
  }
}

/* The shares of a row, however long, have the sum 1. */
static void softmax_of_a_row_sums_to_one(void) {
  static const int64_t classes[] = {1, 10, 33, 128, 1000, 2049, MOST_CLASSES};
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
    for (int op = 0; op < 2; op++) {
      weft_tensor_t *all =
          softmax_of(op == 0 ? "Softmax" : "LogSoftmax", WEFT_F32, back, MOST_ROWS, classes[i]);
      for (int64_t row = 0; row < MOST_ROWS; row++) {
        const float *got = (const float *)all->data + row * classes[i];
        double sum = 0;
        for (int64_t c = 0; c < classes[i]; c++) sum += op == 0 ? (double)got[c] : exp((double)got[c]);
        CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-5);
      }
      weft_tensor_release(all);
    }
  }
}

/* One pixel of two channels, so that no thread but this allocates. */
static weft_status_t *run_small(const char *op, int num_inputs, int num_outputs) {
  static const char *const text[] = {"float[1,1,1,2]:1,2", "float[2]:1,2", "float[2]:1,2",
                                     "float[2]:1,2",       "float[2]:1,2", "float[2]:1,2"};
  bool grad = num_outputs == 5;
  weft_tensor_t *in[6] = {NULL}, *out[6] = {NULL};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < num_inputs; i++) {
    const char *p = grad && i == 1 ? text[0] : text[i];
    s = weft_tensor_parse(&p, &in[i]);
  }
  int num = 0;
  if (s == NULL) s = weft_run_op(&bench, op, "", in, num_inputs, out, num_outputs, &num);
  drop(in, 6);
  drop(out, 6);
  return s;
}

static void every_failed_allocation_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_small("FusedBatchNormV3", 5, 6));
  CU_ASSERT_TRUE(n > 0);
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_small("FusedBatchNormGradV3", 6, 5));
  CU_ASSERT_TRUE(n > 0);
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_small("LRN", 1, 1));
  CU_ASSERT_TRUE(n > 0);
}

int main(void) {
  fill_images();
  const CU_TestInfo tests[] = {
      {"training normalises large batches", training_normalises_large_batches},
      {"moments follow means that drift", moments_follow_means_that_drift},
      {"gradients of large batches are right", gradients_of_large_batches_are_right},
      {"responses of many pixels are right", responses_of_many_pixels_are_right},
      {"softmax of a row does not depend on its neighbours",
       softmax_of_a_row_does_not_depend_on_its_neighbours},
      {"softmax of a row sums to one", softmax_of_a_row_sums_to_one},
      {"every failed allocation is reported", every_failed_allocation_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("normalise", tests, &bench);
}
