/* kernels/cpu/nn/softmax.c - Softmax, LogSoftmax, and the cross entropies whose kernel gives loss and
 * gradient at once. */
#include <inttypes.h>
#include <math.h>
#include <tgmath.h>

#include "base/parallel_for.h"
#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/vector_math.h"

enum {
  CHUNK = 32,
  ROWS = 16,
  /* Terms of rows that stay where their results have no room for them; those of a longer row are computed
   * twice. */
  MOST_KEPT = 2048,
  LINE = 64, /* bytes of a cache line */
};

/* Of `rows` rows of C classes, those that are taken together: their terms fit into MOST_KEPT, and so into the
 * first cache. */
static inline int64_t rows_together(int64_t rows, int64_t C) {
  const int64_t most = C > MOST_KEPT ? 1 : MOST_KEPT / C < ROWS ? MOST_KEPT / C : ROWS;
  return rows < most ? rows : most;
}

static inline void fetch_ahead(const void *x, size_t bytes) {
  for (size_t line = 0; line < bytes; line += LINE) __builtin_prefetch((const char *)x + line);
}

typedef struct softmax_job {
  const void *x, *labels;
  void *y, *backprop;
  int64_t classes, x_rows, x_width, label_rows, label_width; /* an operand of one row or column repeats it */
  const weft_tensor_t *classes_of;
  void (*fn)(const struct softmax_job *j, int64_t begin, int64_t end);
} softmax_job_t;

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/softmax_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"

static const weft_rows_t softmax_rows = {{
#define MAP_STEM softmax
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
}};
static const weft_rows_t log_softmax_rows = {{
#define MAP_STEM log_softmax
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
}};
typedef void softmax_fn(const softmax_job_t *j, int64_t begin, int64_t end);
static softmax_fn *const cross_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM cross
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static softmax_fn *const sparse_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM sparse
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

static void rows_range(void *arg, int64_t begin, int64_t end) {
  const softmax_job_t *j = arg;
  j->fn(j, begin, end);
}

static weft_unit_cost_t cost_of_row(int64_t classes) { /* three passes, one with exp */
  return (weft_unit_cost_t){.cycles = 8 * (double)(classes + 4)};
}

static void run(weft_kernel_ctx_t *ctx, softmax_job_t *j, int64_t rows) {
  weft_parallel_for_cost(ctx->device->pool, rows, cost_of_row(j->classes), rows_range, j);
}

/* Rows of n elements, which are of `size` bytes. */
typedef struct softmax_range {
  weft_rows_fn *fn;
  int64_t n;
  size_t size;
  const char *x;
  char *y;
} softmax_range_t;

static void softmax_range(void *arg, int64_t begin, int64_t end) {
  const softmax_range_t *r = arg;
  const size_t at = (size_t)(begin * r->n) * r->size;
  r->fn(end - begin, r->n, r->x + at, r->y + at);
}

static weft_status_t *softmax_compute(weft_kernel_ctx_t *ctx) {
  const weft_rows_t *rows = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  if (x->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "logits must have >= 1 dimension, got %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  softmax_range_t r = {.fn = rows->fns[x->dtype],
                       .n = x->shape.dims[x->shape.rank - 1],
                       .size = weft_dtype_size(x->dtype),
                       .x = x->data};
  const int64_t count = x->count;
  const weft_shape_t shape = x->shape;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, x->dtype, &shape, &y));
  r.y = y->data;
  if (count > 0) weft_parallel_for_cost(ctx->device->pool, count / r.n, cost_of_row(r.n), softmax_range, &r);
  return NULL;
}

static weft_status_t *cross_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *labels = weft_in(ctx, 1), *loss = NULL, *back = NULL;
  weft_broadcast_t b;
  const weft_shape_t *shapes[2] = {&x->shape, &labels->shape};
  if (!weft_broadcast_init(&b, shapes, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "logits and labels must be broadcastable: logits_size=%s labels_size=%s",
                      WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&labels->shape));
  }
  if (b.shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional");
  }
  weft_shape_t rows = weft_shape_vector(b.shape.dims[0]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &rows, &loss));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, x->dtype, &b.shape, &back));
  if (rows.dims[0] == 0) return NULL;
  const weft_shape_t *xs = &x->shape, *ls = &labels->shape;
  softmax_job_t j = {.x = x->data,
                     .labels = labels->data,
                     .y = loss->data,
                     .backprop = back->data,
                     .classes = b.shape.dims[1],
                     .x_rows = xs->rank == 2 ? xs->dims[0] : 1,
                     .x_width = xs->rank >= 1 ? xs->dims[xs->rank - 1] : 1,
                     .label_rows = ls->rank == 2 ? ls->dims[0] : 1,
                     .label_width = ls->rank >= 1 ? ls->dims[ls->rank - 1] : 1,
                     .fn = cross_fns[x->dtype]};
  if (j.classes == 0) {
    weft_cpu_zero(loss);
    return NULL;
  }
  run(ctx, &j, rows.dims[0]);
  return NULL;
}

/* The first label that is no class, and all labels, as TensorFlow lists them. */
static weft_status_t *bad_label(const weft_tensor_t *labels, int64_t label, int64_t classes) {
  weft_strbuf_t all = WEFT_STRBUF_INIT;
  for (int64_t i = 0; i < labels->count && i < 1024; i++)
    weft_strbuf_printf(&all, " %" PRId64, weft_cpu_int_at(labels, i));
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT,
                                "Received a label value of %" PRId64
                                " which is outside the valid range of [0, %" PRId64 ").  Label values:%s",
                                label, classes, all.data == NULL ? "" : all.data);
  weft_strbuf_deinit(&all);
  return s;
}

static weft_status_t *sparse_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *labels = weft_in(ctx, 1), *loss = NULL, *back = NULL;
  if (x->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "logits must be 2-D, but got shape %s", WEFT_SHAPE_TEXT(&x->shape));
  }
  if (labels->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "labels must be 1-D, but got shape %s",
                      WEFT_SHAPE_TEXT(&labels->shape));
  }
  if (x->shape.dims[0] != labels->count) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "logits and labels must have the same first dimension, got logits shape %s and labels shape %s",
        WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&labels->shape));
  }
  int64_t classes = x->shape.dims[1];
  if (classes == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Must have at least one class, but got logits shape %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  for (int64_t i = 0; i < labels->count; i++) {
    int64_t label = weft_cpu_int_at(labels, i);
    if (label < 0 || label >= classes) return bad_label(labels, label, classes);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &labels->shape, &loss));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, x->dtype, &x->shape, &back));
  softmax_job_t j = {.x = x->data,
                     .y = loss->data,
                     .backprop = back->data,
                     .classes = classes,
                     .classes_of = labels,
                     .fn = sparse_fns[x->dtype]};
  run(ctx, &j, labels->count);
  return NULL;
}

#define SOFTMAX(op_, rows) \
  { .op = op_, .type_attr = "T", .types = WEFT_SET_FLOATS, .compute = softmax_compute, .param = &rows }
const weft_kernel_t weft_cpu_softmax_kernels[] = {
    SOFTMAX("LogSoftmax", log_softmax_rows),
    SOFTMAX("Softmax", softmax_rows),
    WEFT_KERNEL("SoftmaxCrossEntropyWithLogits", "T", WEFT_SET_FLOATS, NULL, cross_compute, NULL),
    WEFT_KERNEL("SparseSoftmaxCrossEntropyWithLogits", "T", WEFT_SET_FLOATS, NULL, sparse_compute, NULL),
    {0},
};
