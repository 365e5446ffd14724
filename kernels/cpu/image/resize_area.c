/* kernels/cpu/image/resize_area.c - ResizeArea: each result is the mean of the rectangle of the image that it
 * covers, in which pixels at the border count in part. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"

/* The pixels [begin, end) along one dimension that a result covers. */
typedef struct area_span {
  int64_t begin, end;
  float from, to; /* where it begins and ends */
} area_span_t;

typedef struct area_job {
  weft_resize_t r;
  const float *x;
  float *y;
} area_job_t;

static area_span_t span(int64_t i, float scale) {
  area_span_t s = {.from = (float)i * scale, .to = (float)(i + 1) * scale};
  s.begin = (int64_t)floorf(s.from);
  s.end = (int64_t)ceilf(s.to);
  return s;
}

/* How much of pixel i it covers. */
static float covered(const area_span_t *s, int64_t i, float scale) {
  const bool ends_inside = (float)(i + 1) > s->to;
  if ((float)i < s->from) return ends_inside ? scale : (float)(i + 1) - s->from;
  return ends_inside ? s->to - (float)i : 1;
}

/* Of one row: its pixels from s->begin to s->end, weighed, where the first and the last always count. */
static float sum_of_row(const float *row, const area_span_t *s, float first, float last, int64_t width,
                        int64_t channels) {
  float sum = row[weft_resize_bound(s->begin, width) * channels] * first;
  if (s->begin + 1 == s->end) return sum;
  for (int64_t i = s->begin + 1; i < s->end - 1; i++) sum += row[weft_resize_bound(i, width) * channels];
  return sum + row[weft_resize_bound(s->end - 1, width) * channels] * last;
}

static void area_rows(void *arg, int64_t begin, int64_t end) {
  const area_job_t *j = arg;
  const weft_resize_t *r = &j->r;
  const int64_t channels = r->channels, row = r->in_w * channels;
  const float scale = (float)(1.0 / (double)(r->scale_h * r->scale_w));
  for (int64_t i = begin; i < end; i++) {
    const area_span_t v = span(i % r->out_h, r->scale_h);
    const float *image = j->x + i / r->out_h * r->in_h * row;
    float *y = j->y + i * r->out_w * channels;
    for (int64_t w = 0; w < r->out_w; w++, y += channels) {
      const area_span_t h = span(w, r->scale_w);
      const float first = covered(&h, h.begin, r->scale_w), last = covered(&h, h.end - 1, r->scale_w);
      for (int64_t c = 0; c < channels; c++) {
        float sum = 0;
        for (int64_t k = v.begin; k < v.end; k++) {
          const float *p = image + weft_resize_bound(k, r->in_h) * row + c;
          sum += sum_of_row(p, &h, first, last, r->in_w, channels) * covered(&v, k, r->scale_h);
        }
        y[c] = sum * scale;
      }
    }
  }
}

WEFT_ATTRS(area, (BOOL, align_corners))
static weft_status_t *area(weft_kernel_ctx_t *ctx, const area_attrs_t *attrs) {
  area_job_t j;
  weft_tensor_t *x = NULL, *y = NULL;
  WEFT_RETURN_IF_ERROR(
      weft_resize_plan(ctx, &(weft_resize_attrs_t){.align_corners = attrs->align_corners}, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.out_h, j.r.out_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, weft_in(ctx, 0), WEFT_F32, &x));
  j.x = x->data;
  j.y = y->data;
  const double covers = ((double)j.r.scale_h + 2) * ((double)j.r.scale_w + 2);
  weft_resize_rows(ctx, &j.r, covers < WEFT_CPU_GRAIN ? (int64_t)covers : WEFT_CPU_GRAIN, area_rows, &j);
  weft_tensor_release(x);
  return NULL;
}

const weft_kernel_t weft_cpu_resize_area_kernels[] = {
    WEFT_KERNEL_ATTRS("ResizeArea", "T",
                      WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
                      area),
    {0},
};
