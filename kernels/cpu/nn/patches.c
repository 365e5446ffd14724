/* kernels/cpu/nn/patches.c - ExtractImagePatches, ExtractVolumePatches: what each window sees, one after the
 * other, as channels of the result. Cells outside of an image are 0. */
#include <inttypes.h>

#include "kernels/cpu/nn/window.h"

typedef struct patches_job {
  weft_window_t s[WEFT_SPACE];
  const char *x;
  char *y;
  size_t pixel; /* bytes of all channels of one */
} patches_job_t;

/* A list that says something of each spatial dimension and 1 of the others. */
static weft_status_t *read_spatial(const weft_kernel_setup_t *setup, const char *name, int num_space,
                                   int64_t out[WEFT_SPACE]) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  if (a == NULL) return NULL;
  const int64_t *v = a->list.ints;
  if (a->n < num_space + 2 || v[0] != 1 || v[num_space + 1] != 1)
    return WEFT_ERROR(UNIMPLEMENTED, "Only support %s across space.", name);
  for (int i = 0; i < num_space; i++) {
    if (v[1 + i] < 1 || v[1 + i] > INT32_MAX) return WEFT_ERROR(OUT_OF_RANGE, "%s is out of range.", name);
    out[WEFT_SPACE - num_space + i] = v[1 + i];
  }
  return NULL;
}

static weft_status_t *patches_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const int *num_space = setup->node.param;
  weft_window_attrs_t a = {.num_space = *num_space,
                           .is_centred = *num_space == 3,
                           .ksize = {1, 1, 1},
                           .stride = {1, 1, 1},
                           .dilation = {1, 1, 1}};
  WEFT_RETURN_IF_ERROR(read_spatial(setup, "ksizes", a.num_space, a.ksize));
  WEFT_RETURN_IF_ERROR(read_spatial(setup, "strides", a.num_space, a.stride));
  WEFT_RETURN_IF_ERROR(read_spatial(setup, "rates", a.num_space, a.dilation));
  a.padding =
      weft_str_is(weft_knode_string(setup, "padding"), "SAME") ? WEFT_PADDING_SAME : WEFT_PADDING_VALID;
  weft_window_attrs_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = a;
  *out_state = state;
  return NULL;
}

/* One row of a window: k pixels of a row of the image, of which some may lie outside. */
static void copy_row(const patches_job_t *j, const char *row, int64_t left, char *y) {
  const weft_window_t *w = &j->s[2];
  for (int64_t k = 0; k < w->k; k++, y += j->pixel) {
    const int64_t column = left + k * w->dilation;
    if (row == NULL || column < 0 || column >= w->in) {
      memset(y, 0, j->pixel);
    } else {
      memcpy(y, row + (size_t)column * j->pixel, j->pixel);
    }
  }
}

/* Windows [begin, end) of all images. */
static void patches_range(void *arg, int64_t begin, int64_t end) {
  const patches_job_t *j = arg;
  const weft_window_t *d = &j->s[0], *h = &j->s[1], *w = &j->s[2];
  const size_t line = (size_t)w->in * j->pixel, patch_row = (size_t)w->k * j->pixel;
  char *y = j->y + (size_t)(begin * d->k * h->k) * patch_row;
  for (int64_t i = begin; i < end; i++) {
    const int64_t left = i % w->out * w->stride - w->before,
                  top = i / w->out % h->out * h->stride - h->before;
    const int64_t front = i / (w->out * h->out) % d->out * d->stride - d->before,
                  n = i / (w->out * h->out * d->out);
    for (int64_t r = 0; r < d->k * h->k; r++, y += patch_row) {
      const int64_t plane = front + r / h->k * d->dilation, row = top + r % h->k * h->dilation;
      const bool is_inside = plane >= 0 && plane < d->in && row >= 0 && row < h->in;
      copy_row(j, is_inside ? j->x + (size_t)((n * d->in + plane) * h->in + row) * line : NULL, left, y);
    }
  }
}

static weft_status_t *patches(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL;
  patches_job_t j = {.x = x->data};
  if (x->shape.rank != a->num_space + 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be %d-dimensional, got %s", a->num_space + 2,
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_windows_plan(a, &x->shape, a->ksize, j.s));
  const int64_t channels = x->shape.dims[a->num_space + 1];
  int64_t depth = channels, windows = x->shape.dims[0];
  for (int i = 0; i < WEFT_SPACE; i++) {
    if (!weft_cpu_mul(depth, j.s[i].k, &depth))
      return WEFT_ERROR(INVALID_ARGUMENT, "a patch of %" PRId64 " channels is too large", channels);
  }
  const weft_shape_t shape =
      weft_image_shape(a, false, windows, (int64_t[]){j.s[0].out, j.s[1].out, j.s[2].out}, depth);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  j.y = y->data;
  j.pixel = (size_t)channels * weft_dtype_size(x->dtype);
  windows *= j.s[0].out * j.s[1].out * j.s[2].out;
  weft_parallel_for(ctx->device->pool, windows, WEFT_CPU_GRAIN / depth + 1, patches_range, &j);
  return NULL;
}

const weft_kernel_t weft_cpu_patches_kernels[] = {
    {.op = "ExtractImagePatches",
     .type_attr = "T",
     .types = WEFT_SET_NUMBERS,
     .prepare = patches_prepare,
     .compute = patches,
     .destroy = weft_free,
     .param = &(const int){2}},
    {.op = "ExtractVolumePatches",
     .type_attr = "T",
     .types = WEFT_SET_REAL,
     .prepare = patches_prepare,
     .compute = patches,
     .destroy = weft_free,
     .param = &(const int){3}},
    {0},
};
