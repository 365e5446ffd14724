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
    {3, 17, 19, 20, 3, 3, 20, 70, "strides=[1,1,1,1] padding=SAME"}, /* panels, the last of them narrow */
    {2, 15, 31, 70, 3, 3, 70, 33, "strides=[1,2,2,1] padding=SAME"}, /* tiles of channels, phases */
    {2, 13, 14, 9, 3, 5, 9, 20, "strides=[1,1,1,1] padding=VALID"},  /* without padding, few channels */
    {2, 13, 14, 80, 3, 5, 80, 20, "strides=[1,1,1,1] padding=VALID"},
    {2, 12, 13, 18, 3, 3, 6, 51, "strides=[1,1,1,1] padding=SAME dilations=[1,2,2,1]"}, /* dilated groups */
    {2, 12, 13, 5, 3, 3, 5, 40,
     "strides=[1,2,2,1] padding=VALID dilations=[1,2,2,1]"},           /* gaps between taps */
    {6, 31, 33, 100, 1, 1, 100, 40, "strides=[1,1,1,1] padding=SAME"}, /* one row of pixels */
    {2, 5, 4, 1024, 1, 1, 1024, 18, "strides=[1,1,1,1] padding=SAME"}, /* pixels 4 KiB apart */
    {2, 9, 7, 512, 1, 1, 512, 20, "strides=[1,2,2,1] padding=VALID"},
    {2, 40, 40, 3, 7, 7, 3, 32, "strides=[1,2,2,1] padding=SAME"},
    {4, 30, 30, 1, 5, 5, 1, 32, "strides=[1,1,1,1] padding=SAME"},
    {1, 5, 4, 2, 3, 3, 2, 3,
     "strides=[1,1,1,1] padding=EXPLICIT explicit_paddings=[0,0,40,3,50,2,0,0]"}, /* mostly padding */
    {1, 3, 3, 2, 2, 2, 2, 3,
     "strides=[1,1,1,1] padding=EXPLICIT explicit_paddings=[0,0,400,400,400,400,0,0] "
     "dilations=[1,700,700,1]"},
    {1, 12, 40, 2, 2, 2, 2, 3, "strides=[1,11,9,1] padding=VALID"}, /* long strides */
};
enum { NUM_GEOMETRIES = sizeof geometries / sizeof geometries[0] };

/* `ops`: forward, the gradients of input and filter. */
static void are_adjoint(const char *const ops[3], const geometry_t *cases, int n, weft_dtype_t dtype,
                        double tolerance) {
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < n; i++) {
    const geometry_t *g = &cases[i];
    weft_tensor_t *x = new_image(dtype, g->n, g->h, g->w, g->c),
                  *f = new_image(dtype, g->kh, g->kw, g->cg, g->oc);
    weft_tensor_t *forward[2] = {x, f}, *y = run(&b, ops[0], g->attrs, forward, 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    const int64_t *d = y->shape.dims;
    weft_tensor_t *dy = new_image(dtype, d[0], d[1], d[2], d[3]);
    weft_tensor_t *xs = sizes_of(&x->shape), *fs = sizes_of(&f->shape);
    weft_tensor_t *to_x[3] = {xs, f, dy}, *to_f[3] = {x, fs, dy};
    weft_tensor_t *dx = run(&b, ops[1], g->attrs, to_x, 3);
    weft_tensor_t *df = run(&b, ops[2], g->attrs, to_f, 3);
    double want = inner(dy, y), scale = fmax(1, sqrt(inner(dy, dy) * inner(y, y)));
    bool ok = fabs(inner(dx, x) - want) < tolerance * scale && fabs(inner(df, f) - want) < tolerance * scale;
    if (!ok) fprintf(stderr, "case %d (%s): %g, %g, %g\n", i, g->attrs, want, inner(dx, x), inner(df, f));
    CU_ASSERT_TRUE(ok);
    weft_tensor_t *all[] = {x, f, y, dy, xs, fs, dx, df};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  }
  weft_bench_deinit(&b);
}

static void gradients_are_adjoint(void) {
  static const char *const ops[3] = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};
  are_adjoint(ops, geometries, NUM_GEOMETRIES, WEFT_F64, 1e-12);
  are_adjoint(ops, geometries, NUM_GEOMETRIES, WEFT_F32, 1e-6);
}

static void gradients_of_depthwise_are_adjoint(void) {
  static const char *const ops[3] = {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                                     "DepthwiseConv2dNativeBackpropFilter"};
  static const geometry_t cases[] = {
      /* oc: filters to a channel */
      {2, 9, 17, 37, 3, 3, 37, 1, "strides=[1,1,1,1] padding=SAME"},
      {3, 10, 11, 16, 3, 3, 16, 1, "strides=[1,2,2,1] padding=SAME"},
      {8, 31, 30, 5, 5, 7, 5, 1, "strides=[1,1,1,1] padding=VALID"},
      {2, 12, 13, 3, 3, 3, 3, 1, "strides=[1,3,3,1] padding=SAME"},
      {2, 12, 13, 20, 2, 2, 20, 1, "strides=[1,3,3,1] padding=VALID"}, /* gaps between windows */
      {2, 12, 13, 33, 3, 3, 33, 1, "strides=[1,1,1,1] padding=SAME dilations=[1,2,3,1]"},
      {1, 4, 5, 18, 7, 9, 18, 1, "strides=[1,1,1,1] padding=SAME"}, /* no window lies inside */
      {1, 4, 5, 18, 3, 3, 18, 1, "strides=[1,1,1,1] padding=EXPLICIT explicit_paddings=[0,0,7,9,8,6,0,0]"},
      {2, 9, 8, 5, 3, 3, 5, 3, "strides=[1,1,1,1] padding=SAME"},
      {2, 9, 8, 5, 40, 3, 5, 1, "strides=[1,1,1,1] padding=SAME"}, /* a high window */
  };
  enum { NUM = sizeof cases / sizeof cases[0] };
  are_adjoint(ops, cases, NUM, WEFT_F64, 1e-12);
  are_adjoint(ops, cases, NUM, WEFT_F32, 1e-6);
}

/* ---- volumes ---- */

static weft_tensor_t *new_volume(const int64_t dims[5]) {
  weft_shape_t shape = {.rank = 5, .dims = {dims[0], dims[1], dims[2], dims[3], dims[4]}};
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, NULL, &t);
  if (s != NULL) abort();
  for (int64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = (float)draw();
  return t;
}

static weft_tensor_t *five_sizes(const weft_shape_t *shape) {
  weft_shape_t five = weft_shape_vector(5);
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_I32, &five, NULL, &t);
  if (s != NULL) abort();
  for (int d = 0; d < 5; d++) ((int32_t *)t->data)[d] = (int32_t)shape->dims[d];
  return t;
}

static void gradients_of_volumes_are_adjoint(void) {
  static const struct {
    int64_t x[5], f[5];
    const char *attrs;
  } cases[] = {
      {{2, 5, 6, 7, 3}, {3, 3, 3, 3, 9}, "strides=[1,1,1,1,1] padding=SAME"},
      {{2, 6, 9, 8, 20}, {2, 3, 3, 20, 40}, "strides=[1,2,2,2,1] padding=SAME"},
      {{1, 7, 6, 9, 6}, {3, 2, 3, 6, 17}, "strides=[1,1,2,3,1] padding=VALID"},
      {{2, 4, 8, 8, 33}, {1, 1, 1, 33, 18}, "strides=[1,1,1,1,1] padding=SAME"},
  };
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_tensor_t *x = new_volume(cases[i].x), *f = new_volume(cases[i].f);
    weft_tensor_t *forward[2] = {x, f}, *y = run(&b, "Conv3D", cases[i].attrs, forward, 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    weft_tensor_t *dy = new_volume(y->shape.dims), *xs = five_sizes(&x->shape), *fs = five_sizes(&f->shape);
    weft_tensor_t *to_x[3] = {xs, f, dy}, *to_f[3] = {x, fs, dy};
    weft_tensor_t *dx = run(&b, "Conv3DBackpropInputV2", cases[i].attrs, to_x, 3);
    weft_tensor_t *df = run(&b, "Conv3DBackpropFilterV2", cases[i].attrs, to_f, 3);
    const double want = inner(dy, y), near = 1e-6 * sqrt(inner(dy, dy) * inner(y, y));
    CU_ASSERT_TRUE(fabs(inner(dx, x) - want) < near);
    CU_ASSERT_TRUE(fabs(inner(df, f) - want) < near);
    weft_tensor_t *all[] = {x, f, y, dy, xs, fs, dx, df};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  }
  weft_bench_deinit(&b);
}

/* ---- the number of threads does not show ---- */

static void threads_do_not_show(void) {
  const weft_conv_t cases[] = {
      {.dtype = WEFT_F32,
       .n = 3,
       .c = 40,
       .cg = 40,
       .oc = 70,
       .groups = 1,
       .s = {WEFT_WINDOW_ONE,
             {.in = 30, .k = 3, .stride = 1, .dilation = 1, .out = 30, .before = 1},
             {.in = 31, .k = 3, .stride = 1, .dilation = 1, .out = 31, .before = 1}}},
      {.dtype = WEFT_F32,
       .n = 40,
       .c = 6,
       .cg = 3,
       .oc = 40,
       .groups = 2,
       .s = {WEFT_WINDOW_ONE,
             {.in = 15, .k = 5, .stride = 2, .dilation = 1, .out = 8, .before = 2},
             {.in = 15, .k = 5, .stride = 2, .dilation = 1, .out = 8, .before = 2}}},
      {.dtype = WEFT_F32,
       .n = 9,
       .c = 70,
       .cg = 70,
       .oc = 65,
       .groups = 1,
       .s = {WEFT_WINDOW_ONE,
             {.in = 20, .k = 1, .stride = 1, .dilation = 1, .out = 20},
             {.in = 20, .k = 1, .stride = 1, .dilation = 1, .out = 20}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weft_conv_t *v = &cases[i];
    weft_tensor_t *x = new_image(WEFT_F32, v->n, v->s[1].in, v->s[2].in, v->c),
                  *f = new_image(WEFT_F32, v->s[1].k, v->s[2].k, v->cg, v->oc),
                  *dy = new_image(WEFT_F32, v->n, v->s[1].out, v->s[2].out, v->oc);
    weft_tensor_t *want[3] = {NULL};
    for (int threads = 1; threads <= 5; threads += 2) {
      weft_thread_pool_t *pool = NULL;
      weft_status_t *s = weft_thread_pool_create("conv", threads, &pool);
      CU_ASSERT_PTR_NULL_FATAL(s);
      weft_tensor_t *got[3] = {new_image(WEFT_F32, v->n, v->s[1].out, v->s[2].out, v->oc),
                               new_image(WEFT_F32, v->n, v->s[1].in, v->s[2].in, v->c),
                               new_image(WEFT_F32, v->s[1].k, v->s[2].k, v->cg, v->oc)};
      s = weft_conv_forward(pool, v, x->data, f->data, got[0]->data);
      CU_ASSERT_PTR_NULL(s);
      s = weft_conv_backprop_input(pool, v, dy->data, f->data, got[1]->data);
      CU_ASSERT_PTR_NULL(s);
      s = weft_conv_backprop_filter(pool, v, x->data, dy->data, got[2]->data);
      CU_ASSERT_PTR_NULL(s);
      for (int k = 0; k < 3; k++) {
        if (threads == 1) {
          want[k] = got[k];
          continue;
        }
        CU_ASSERT_EQUAL(memcmp(want[k]->data, got[k]->data, (size_t)got[k]->count * sizeof(float)), 0);
        weft_tensor_release(got[k]);
      }
      weft_thread_pool_destroy(pool);
    }
    weft_tensor_t *all[] = {x, f, dy, want[0], want[1], want[2]};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) weft_tensor_release(all[k]);
  }
}

/* ---- what follows on each element, and panels that are kept ---- */

/* Every part of an epilogue for the result of v; `tensors` are released by the caller. */
static weft_epilogue_t epilogue_of(const weft_conv_t *v, weft_tensor_t *tensors[5]) {
  for (int i = 0; i < 4; i++) tensors[i] = new_image(WEFT_F32, 1, 1, 1, v->oc);
  tensors[4] = new_image(WEFT_F32, v->n, v->s[1].out, v->s[2].out, v->oc);
  return (weft_epilogue_t){.channels = v->oc,
                           .bias = tensors[0]->data,
                           .mean = tensors[1]->data,
                           .factor = tensors[2]->data,
                           .shift = tensors[3]->data,
                           .addend = tensors[4]->data};
}

/* An activation that is a loop. */
static void turn(int64_t n, const void *x, void *y) {
  for (int64_t i = 0; i < n; i++) ((float *)y)[i] = 1.5f - ((const float *)x)[i];
}

static float after(const weft_epilogue_t *e, float v, int64_t i) {
  const int64_t c = i % e->channels;
  if (e->bias != NULL) v += e->bias[c];
  if (e->factor != NULL) v = (v - e->mean[c]) * e->factor[c] + e->shift[c];
  if (e->addend != NULL) v += e->addend[i];
  if (e->then != NULL) return e->multiplies ? v * (1.5f - v) : 1.5f - v;
  switch (e->activation) {
    case WEFT_EPILOGUE_RELU: return v < 0 ? 0 : v;
    case WEFT_EPILOGUE_RELU6: return v < 0 ? 0 : v > 6 ? 6 : v;
    case WEFT_EPILOGUE_LEAKY_RELU: return v > 0 ? v : e->alpha * v;
    default: return v;
  }
}

static weft_conv_t conv_of(const geometry_t *g) {
  weft_window_attrs_t a = {
      .padding = strstr(g->attrs, "SAME") != NULL ? WEFT_PADDING_SAME : WEFT_PADDING_VALID,
      .num_space = 2,
      .stride = {1, 1, 1},
      .dilation = {1, 1, 1}};
  (void)sscanf(strstr(g->attrs, "strides=[1,") + 11, "%ld,%ld", &a.stride[1], &a.stride[2]);
  const char *dilations = strstr(g->attrs, "dilations=[1,");
  if (dilations != NULL) (void)sscanf(dilations + 13, "%ld,%ld", &a.dilation[1], &a.dilation[2]);
  weft_conv_t v = {.dtype = WEFT_F32, .n = g->n, .c = g->c, .cg = g->cg, .oc = g->oc, .groups = g->c / g->cg};
  const weft_shape_t x = {.rank = 4, .dims = {g->n, g->h, g->w, g->c}};
  weft_status_t *s = weft_windows_plan(&a, &x, (int64_t[]){1, g->kh, g->kw}, v.s);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return v;
}

/* An epilogue on blocks has the bits of one on the whole result, whatever its parts are. */
static void an_epilogue_keeps_its_bits(void) {
  int in_place = 0;
  weft_thread_pool_t *pool = NULL;
  weft_status_t *s = weft_thread_pool_create("conv", 2, &pool);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < NUM_GEOMETRIES; i++) {
    const geometry_t *g = &geometries[i];
    if (strstr(g->attrs, "EXPLICIT") != NULL) continue;
    weft_conv_t v = conv_of(g);
    in_place += weft_conv_sums_in_place(&v);
    weft_tensor_t *parts[5], *x = new_image(WEFT_F32, g->n, g->h, g->w, g->c),
                             *f = new_image(WEFT_F32, g->kh, g->kw, g->cg, g->oc),
                             *want = new_image(WEFT_F32, v.n, v.s[1].out, v.s[2].out, v.oc),
                             *got = new_image(WEFT_F32, v.n, v.s[1].out, v.s[2].out, v.oc);
    const weft_epilogue_t all = epilogue_of(&v, parts);
    s = weft_conv_forward(pool, &v, x->data, f->data, want->data);
    CU_ASSERT_PTR_NULL(s);
    for (unsigned which = 0; which < 16; which++) {
      weft_epilogue_t e = all;
      if ((which & 1) == 0) e.bias = NULL;
      if ((which & 2) == 0) e.mean = e.factor = e.shift = NULL;
      if ((which & 4) == 0) e.addend = NULL;
      e.activation = (weft_epilogue_activation_t)((which + (unsigned)i) % WEFT_EPILOGUE_NUM_ACTIVATIONS);
      e.alpha = 0.25f;
      if ((which & 8) != 0) {
        e.activation = WEFT_EPILOGUE_PLAIN;
        e.then = turn;
        e.multiplies = (which + (unsigned)i) % 2 == 0;
      }
      v.epilogue = &e;
      s = weft_conv_forward(pool, &v, x->data, f->data, got->data);
      CU_ASSERT_PTR_NULL(s);
      int64_t wrong = 0;
      for (int64_t k = 0; k < got->count; k++) {
        const float value = after(&e, ((const float *)want->data)[k], k);
        wrong += memcmp(&value, (const float *)got->data + k, sizeof value) != 0;
      }
      CU_ASSERT_EQUAL(wrong, 0);
      if (e.addend == NULL || !weft_conv_sums_in_place(&v)) continue;
      weft_tensor_t *sum = NULL;
      s = weft_tensor_new(WEFT_F32, &got->shape, NULL, &sum);
      CU_ASSERT_PTR_NULL_FATAL(s);
      memcpy(sum->data, e.addend, sum->bytes);
      e.addend = sum->data;
      s = weft_conv_forward(pool, &v, x->data, f->data, sum->data);
      CU_ASSERT_PTR_NULL(s);
      CU_ASSERT(memcmp(sum->data, got->data, sum->bytes) == 0);
      weft_tensor_release(sum);
    }
    for (int k = 0; k < 5; k++) weft_tensor_release(parts[k]);
    weft_tensor_t *all_tensors[] = {x, f, want, got};
    for (size_t k = 0; k < sizeof all_tensors / sizeof all_tensors[0]; k++)
      weft_tensor_release(all_tensors[k]);
  }
  CU_ASSERT(in_place > 0); /* there is one to test it with */
  weft_thread_pool_destroy(pool);
}

static void kept_panels_follow_the_filter(void) {
  const geometry_t g = {2, 7, 6, 40, 3, 3, 20, 50, "strides=[1,1,1,1] padding=SAME"};
  weft_conv_t v = conv_of(&g);
  weft_kept_t *kept = NULL;
  weft_status_t *s = weft_kept_create(&kept);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_tensor_t *x = new_image(WEFT_F32, g.n, g.h, g.w, g.c),
                *want = new_image(WEFT_F32, v.n, v.s[1].out, v.s[2].out, v.oc),
                *got = new_image(WEFT_F32, v.n, v.s[1].out, v.s[2].out, v.oc), *filters[3];
  for (int i = 0; i < 3; i++) filters[i] = new_image(WEFT_F32, g.kh, g.kw, g.cg, g.oc);
  for (int step = 0; step < 30; step++) {
    weft_tensor_t *f = filters[step / 10];
    v.kept = NULL;
    s = weft_conv_forward(NULL, &v, x->data, f->data, want->data);
    CU_ASSERT_PTR_NULL(s);
    v.kept = kept;
    v.filter = f;
    s = weft_conv_forward(NULL, &v, x->data, f->data, got->data);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(memcmp(want->data, got->data, want->bytes), 0);
  }
  weft_kept_destroy(kept);
  for (int i = 0; i < 3; i++) weft_tensor_release(filters[i]);
  weft_tensor_release(x);
  weft_tensor_release(want);
  weft_tensor_release(got);
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
    const weft_conv_t v = conv_of(g);
    s = weft_tensor_new(WEFT_F32, &y->shape, NULL, &want);
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
  const char *const attrs[] = {"strides=[1,1,1,1] padding=SAME", "strides=[1,9,9,1] padding=SAME"};
  for (int i = 0; i < 2; i++) { /* direct, with columns */
    weft_harness_t *h = NULL;
    failure = weft_harness_create(&b, "Conv2D", attrs[i], types, 2, &h);
    CU_ASSERT_PTR_NULL_FATAL(failure);
    WEFT_FAIL_EACH_ALLOCATION(n, s, convolve_once(h, in));
    CU_ASSERT_TRUE(n > 0);
    weft_harness_destroy(h);
  }
  const int grads[] = {WEFT_F32, WEFT_I32, WEFT_F32};
  weft_tensor_t *sizes = sizes_of(&in[1]->shape), *dy = new_image(WEFT_F32, 2, 6, 6, 5),
                *in3[3] = {in[0], sizes, dy};
  weft_harness_t *grad = NULL;
  failure = weft_harness_create(&b, "Conv2DBackpropFilter", attrs[0], grads, 3, &grad);
  CU_ASSERT_PTR_NULL_FATAL(failure);
  WEFT_FAIL_EACH_ALLOCATION(n, s, convolve_once(grad, in3));
  CU_ASSERT_TRUE(n > 0);
  weft_harness_destroy(grad);
  weft_tensor_release(sizes);
  weft_tensor_release(dy);
  for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
  weft_bench_deinit(&b);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"gradients are adjoint", gradients_are_adjoint},
      {"gradients of depthwise convolutions are adjoint", gradients_of_depthwise_are_adjoint},
      {"gradients of volumes are adjoint", gradients_of_volumes_are_adjoint},
      {"threads do not show", threads_do_not_show},
      {"fast agrees with naive", fast_agrees_with_naive},
      {"an epilogue keeps its bits", an_epilogue_keeps_its_bits},
      {"kept panels follow the filter", kept_panels_follow_the_filter},
      {"layouts agree", layouts_agree},
      {"every allocation may fail", every_allocation_may_fail},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("convolution", tests);
}
