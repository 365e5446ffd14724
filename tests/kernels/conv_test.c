/* tests/kernels/conv_test.c - convolution against its naive twin, its gradients against their definition, and
 * the channel-first layout against the channel-last one.
 *
 * The gradients are the adjoints of a bilinear map: <dy, conv(x, f)> = <dx, x> = <df, f> for all x, f, dy.
 * That tests every stride, padding, dilation and group without a second formula.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/nn/convolve.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"

static uint64_t seed = 7;
static double draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 40) / 8388608.0 - 1;
}

static weft_tensor_t *new_image(weft_dtype_t dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  weft_shape_t shape = {.rank = 4, .dims = {a, b, c, d}};
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  if (s != NULL) abort();
  for (int64_t i = 0; i < t->count; i++) {
    if (dtype == WEFT_F32) {
      ((float *)t->data)[i] = (float)draw();
    } else {
      ((double *)t->data)[i] = draw();
    }
  }
  return t;
}

static weft_tensor_t *sizes_of(const weft_shape_t *shape) {
  weft_shape_t four = weft_shape_vector(4);
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_I32, &four, NULL, &t);
  if (s != NULL) abort();
  for (int d = 0; d < 4; d++) ((int32_t *)t->data)[d] = (int32_t)shape->dims[d];
  return t;
}

static double inner(const weft_tensor_t *a, const weft_tensor_t *b) {
  double sum = 0;
  if (a == NULL || b == NULL || a->count != b->count) return (double)NAN;
  for (int64_t i = 0; i < a->count; i++)
    sum += weft_tensor_number(a, i, false) * weft_tensor_number(b, i, false);
  return sum;
}

static weft_tensor_t *run(weft_bench_t *b, const char *op, const char *attrs, weft_tensor_t *const *in,
                          int n) {
  weft_tensor_t *out = NULL;
  int num = 0;
  weft_status_t *s = weft_run_op(b, op, attrs, in, n, &out, 1, &num);
  if (s != NULL) fprintf(stderr, "%s %s: %s\n", op, attrs, weft_status_message(s));
  weft_status_free(s);
  return out;
}

typedef struct geometry {
  int64_t n, h, w, c, kh, kw, cg, oc; /* cg: input channels of a filter */
  const char *attrs;
} geometry_t;

static const geometry_t geometries[] = {
    {2, 5, 6, 3, 3, 3, 3, 4, "strides=[1,1,1,1] padding=SAME"},
    {3, 7, 5, 2, 2, 3, 2, 5, "strides=[1,2,2,1] padding=VALID"},
    {1, 9, 9, 2, 3, 3, 2, 3, "strides=[1,2,3,1] padding=SAME"},
    {2, 8, 8, 1, 3, 2, 1, 4, "strides=[1,1,1,1] padding=SAME dilations=[1,2,3,1]"},
    {1, 9, 7, 2, 3, 3, 2, 2, "strides=[1,1,1,1] padding=VALID dilations=[1,3,2,1]"},
    {2, 6, 6, 2, 3, 3, 2, 3, "strides=[1,2,1,1] padding=EXPLICIT explicit_paddings=[0,0,2,1,0,3,0,0]"},
    {2, 6, 5, 6, 3, 3, 2, 9, "strides=[1,1,1,1] padding=SAME"},                     /* three groups */
    {2, 6, 6, 4, 2, 2, 1, 8, "strides=[1,2,2,1] padding=SAME dilations=[1,1,1,1]"}, /* four groups */
    {4, 6, 6, 8, 1, 1, 8, 16, "strides=[1,1,1,1] padding=SAME"}, /* the image is its columns */
    {2, 6, 6, 4, 1, 1, 4, 3, "strides=[1,2,2,1] padding=VALID"},
    {2, 3, 3, 2, 3, 3, 2, 2, "strides=[1,4,4,1] padding=SAME"},     /* stride beyond the window */
    {16, 28, 28, 8, 5, 5, 8, 16, "strides=[1,1,1,1] padding=SAME"}, /* blocks, pieces, threads */
    {1, 1, 1, 1, 1, 1, 1, 1, "strides=[1,1,1,1] padding=VALID"},
};
enum { NUM_GEOMETRIES = sizeof geometries / sizeof geometries[0] };

static void gradients_are_adjoint(void) {
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < NUM_GEOMETRIES; i++) {
    const geometry_t *g = &geometries[i];
    weft_tensor_t *x = new_image(WEFT_F64, g->n, g->h, g->w, g->c),
                  *f = new_image(WEFT_F64, g->kh, g->kw, g->cg, g->oc);
    weft_tensor_t *forward[2] = {x, f}, *y = run(&b, "Conv2D", g->attrs, forward, 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    const int64_t *d = y->shape.dims;
    weft_tensor_t *dy = new_image(WEFT_F64, d[0], d[1], d[2], d[3]);
    weft_tensor_t *xs = sizes_of(&x->shape), *fs = sizes_of(&f->shape);
    weft_tensor_t *to_x[3] = {xs, f, dy}, *to_f[3] = {x, fs, dy};
    weft_tensor_t *dx = run(&b, "Conv2DBackpropInput", g->attrs, to_x, 3);
    weft_tensor_t *df = run(&b, "Conv2DBackpropFilter", g->attrs, to_f, 3);
    double want = inner(dy, y), scale = fmax(1, fabs(want));
    bool ok = fabs(inner(dx, x) - want) < 1e-9 * scale && fabs(inner(df, f) - want) < 1e-9 * scale;
    if (!ok) fprintf(stderr, "case %d (%s): %g, %g, %g\n", i, g->attrs, want, inner(dx, x), inner(df, f));
    CU_ASSERT_TRUE(ok);
    weft_tensor_t *all[] = {x, f, y, dy, xs, fs, dx, df};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  }
  weft_bench_deinit(&b);
}

static void fast_agrees_with_naive(void) {
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < NUM_GEOMETRIES; i++) {
    const geometry_t *g = &geometries[i];
    if (strstr(g->attrs, "EXPLICIT") != NULL) continue; /* its padding is not read here */
    weft_tensor_t *x = new_image(WEFT_F32, g->n, g->h, g->w, g->c),
                  *f = new_image(WEFT_F32, g->kh, g->kw, g->cg, g->oc);
    weft_tensor_t *forward[2] = {x, f}, *y = run(&b, "Conv2D", g->attrs, forward, 2), *want = NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    weft_window_attrs_t a = {
        .padding = strstr(g->attrs, "SAME") != NULL ? WEFT_PADDING_SAME : WEFT_PADDING_VALID,
        .num_space = 2,
        .stride = {1, 1, 1},
        .dilation = {1, 1, 1}};
    (void)sscanf(strstr(g->attrs, "strides=[1,") + 11, "%ld,%ld", &a.stride[1], &a.stride[2]);
    const char *dilations = strstr(g->attrs, "dilations=[1,");
    if (dilations != NULL) (void)sscanf(dilations + 13, "%ld,%ld", &a.dilation[1], &a.dilation[2]);
    weft_conv_t v = {
        .dtype = WEFT_F32, .n = g->n, .c = g->c, .cg = g->cg, .oc = g->oc, .groups = g->c / g->cg};
    s = weft_windows_plan(&a, &x->shape, (int64_t[]){1, g->kh, g->kw}, v.s);
    if (s == NULL) s = weft_tensor_new(WEFT_F32, &y->shape, NULL, &want);
    CU_ASSERT_PTR_NULL_FATAL(s);
    weft_conv_naive(&v, x->data, f->data, want->data);
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    CU_ASSERT_TRUE(weft_tensor_close(y, want, 2e-5, &why));
    weft_strbuf_deinit(&why);
    weft_tensor_t *all[] = {x, f, y, want};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  }
  weft_bench_deinit(&b);
}

/* ---- NCHW: the same op on turned images gives the turned result ---- */

static weft_tensor_t *turned(weft_bench_t *b, weft_tensor_t *t, bool to_nchw) {
  const char *perm_text = to_nchw ? "int32[4]:0,3,1,2" : "int32[4]:0,2,3,1";
  weft_tensor_t *perm = NULL;
  weft_status_t *s = weft_tensor_parse(&perm_text, &perm);
  if (s != NULL) abort();
  weft_tensor_t *in[2] = {t, perm}, *out = run(b, "Transpose", NULL, in, 2);
  weft_tensor_release(perm);
  return out;
}

/* `which`: bit i set: input i is an image, and so is the output if bit 3 is. */
static void compare_layouts(weft_bench_t *b, const char *op, const char *nhwc, const char *nchw,
                            weft_tensor_t *const *in, int n, int which) {
  weft_tensor_t *in2[3] = {NULL}, *want = run(b, op, nhwc, in, n), *want2 = NULL;
  for (int i = 0; i < n; i++)
    in2[i] = (which >> i & 1) != 0 ? turned(b, in[i], true) : weft_tensor_retain(in[i]);
  weft_tensor_t *got = run(b, op, nchw, in2, n);
  if (want != NULL) want2 = (which >> 3 & 1) != 0 ? turned(b, want, true) : weft_tensor_retain(want);
  weft_strbuf_t why = WEFT_STRBUF_INIT;
  bool ok = got != NULL && weft_tensor_close(got, want2, 1e-12, &why);
  if (!ok) fprintf(stderr, "%s: %s\n", op, why.data == NULL ? "" : why.data);
  CU_ASSERT_TRUE(ok);
  weft_strbuf_deinit(&why);
  for (int i = 0; i < n; i++) weft_tensor_release(in2[i]);
  weft_tensor_release(got);
  weft_tensor_release(want);
  weft_tensor_release(want2);
}

static void layouts_agree(void) {
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_tensor_t *x = new_image(WEFT_F64, 2, 6, 5, 4), *f = new_image(WEFT_F64, 3, 2, 4, 3);
  weft_tensor_t *dy = new_image(WEFT_F64, 2, 3, 5, 3), *d = new_image(WEFT_F64, 3, 3, 4, 2);
  const char *nhwc = "strides=[1,2,1,1] padding=SAME",
             *nchw = "strides=[1,1,2,1] padding=SAME data_format=NCHW";
  weft_tensor_t *conv[2] = {x, f};
  compare_layouts(&b, "Conv2D", nhwc, nchw, conv, 2, 1 | 8);
  weft_tensor_t *fs = sizes_of(&f->shape), *to_filter[3] = {x, fs, dy};
  compare_layouts(&b, "Conv2DBackpropFilter", nhwc, nchw, to_filter, 3, 1 | 4);
  const char *even = "strides=[1,2,2,1] padding=SAME",
             *even2 = "strides=[1,1,2,2] padding=SAME data_format=NCHW";
  weft_tensor_t *depth[2] = {x, d};
  compare_layouts(&b, "DepthwiseConv2dNative", even, even2, depth, 2, 1 | 8);
  const char *pool = "ksize=[1,3,2,1] strides=[1,2,1,1] padding=SAME";
  const char *pool2 = "ksize=[1,1,3,2] strides=[1,1,2,1] padding=SAME data_format=NCHW";
  compare_layouts(&b, "MaxPool", pool, pool2, &x, 1, 1 | 8);
  compare_layouts(&b, "AvgPool", pool, pool2, &x, 1, 1 | 8);
  weft_tensor_t *y = run(&b, "MaxPool", pool, &x, 1), *grad[3] = {x, y, y};
  compare_layouts(&b, "MaxPoolGrad", pool, pool2, grad, 3, 1 | 2 | 4 | 8);
  weft_tensor_t *all[] = {x, f, dy, d, fs, y};
  for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  weft_bench_deinit(&b);
}

/* A product and a convolution without memory fail, and leave nothing behind. */
static weft_status_t *convolve_once(weft_harness_t *h, weft_tensor_t *const *in) {
  weft_tensor_t *out = NULL;
  weft_status_t *s = weft_harness_run(h, in, &out);
  weft_tensor_release(out);
  return s;
}

static void every_allocation_may_fail(void) {
  weft_bench_t b;
  int n = 0;
  weft_status_t *failure = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(failure);
  const int types[] = {WEFT_F32, WEFT_F32};
  weft_tensor_t *in[2] = {new_image(WEFT_F32, 2, 6, 6, 4), new_image(WEFT_F32, 3, 3, 4, 5)};
  weft_harness_t *h = NULL;
  failure = weft_harness_create(&b, "Conv2D", "strides=[1,1,1,1] padding=SAME", types, 2, &h);
  CU_ASSERT_PTR_NULL_FATAL(failure);
  WEFT_FAIL_EACH_ALLOCATION(n, s, convolve_once(h, in));
  CU_ASSERT_TRUE(n > 0);
  weft_harness_destroy(h);
  for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
  weft_bench_deinit(&b);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"gradients are adjoint", gradients_are_adjoint},
      {"fast agrees with naive", fast_agrees_with_naive},
      {"layouts agree", layouts_agree},
      {"every allocation may fail", every_allocation_may_fail},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("convolution", tests);
}
