/* kernels/cpu/ctc/ctc_loss.c - CTCLoss: the probability of label sequences under unaligned predictions, and
 * its gradient. The last class is the blank. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

#include "kernels/cpu/ctc/log_sum.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/formulas/ctc_labels.h"

/* One sequence of the batch. */
typedef struct ctc_sequence {
  const void *inputs; /* of its first step; of the next one `step` elements behind */
  void *gradient, *loss;
  int64_t length, step, num_classes;
  const int32_t *path; /* its labels with a blank before each and one at the end */
  int64_t num_path;
  bool merges;
} ctc_sequence_t;

#define CTC_REAL float
#define CTC_STEM f32
#define CTC_F(name) name##f
#define CTC_LOG_SUM weft_log_sum_f32
#include "kernels/cpu/ctc/ctc_loss.tmpl.h"
#define CTC_REAL double
#define CTC_STEM f64
#define CTC_F(name) name
#define CTC_LOG_SUM weft_log_sum_f64
#include "kernels/cpu/ctc/ctc_loss.tmpl.h"

WEFT_ATTRS_STRUCT(loss, (BOOL, preprocess_collapse_repeated), (BOOL, ctc_merge_repeated),
                  (BOOL, ignore_longer_outputs_than_inputs))

typedef struct ctc_batch {
  const loss_attrs_t *attrs;
  const weft_tensor_t *inputs, *indices, *values, *lengths;
  weft_tensor_t *loss, *gradient;
  int64_t max_time, batch, num_classes;
  int64_t *first_label; /* batch + 1: where the labels of each sequence begin */
  int32_t *paths;       /* of sequence b from 2 * first_label[b] + b on */
  int32_t *num_path;    /* batch */
  _Atomic(weft_status_t *) failure;
} ctc_batch_t;

/* ---- checks ---- */

static weft_status_t *check_shapes(ctc_batch_t *c) {
  if (c->inputs->shape.rank != 3) return WEFT_ERROR(INVALID_ARGUMENT, "inputs is not a 3-Tensor");
  if (c->lengths->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "sequence_length is not a vector");
  if (c->indices->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "labels_indices is not a matrix");
  if (c->values->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "labels_values is not a vector");
  c->max_time = c->inputs->shape.dims[0];
  c->batch = c->inputs->shape.dims[1];
  c->num_classes = c->inputs->shape.dims[2];
  if (c->num_classes >= INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "num_classes cannot exceed max int");
  if (c->batch != c->lengths->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "len(sequence_length) != batch_size.  len(sequence_length):  %" PRId64
                      " batch_size: %" PRId64,
                      c->lengths->count, c->batch);
  }
  if (c->indices->shape.dims[0] != c->values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "labels_indices and labels_values must contain the same number of rows, but saw "
                      "shapes: %s vs. %s",
                      WEFT_SHAPE_TEXT(&c->indices->shape), WEFT_SHAPE_TEXT(&c->values->shape));
  }
  if (c->batch == 0) return WEFT_ERROR(INVALID_ARGUMENT, "batch_size must not be 0");
  if (c->max_time == 0) return WEFT_ERROR(INVALID_ARGUMENT, "max_time must not be 0");
  if (c->num_classes == 0) return WEFT_ERROR(INVALID_ARGUMENT, "num_classes must not be 0");
  if (c->indices->shape.dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "labels_indices must have 2 columns, got %" PRId64,
                      c->indices->shape.dims[1]);
  }
  return NULL;
}

/* Indices are those of a sparse matrix, sorted; counts the labels of each sequence. */
static weft_status_t *count_labels(ctc_batch_t *c) {
  const int64_t *at = c->indices->data;
  int64_t longest = 0, elements = 0;
  for (int64_t i = 0; i < c->values->count; i++) {
    if (at[2 * i + 1] < INT64_MAX && at[2 * i + 1] + 1 > longest) longest = at[2 * i + 1] + 1;
  }
  if (!weft_cpu_mul(c->batch, longest, &elements)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "labels of shape [%" PRId64 ",%" PRId64 "] are too large", c->batch,
                      longest);
  }
  for (int64_t i = 0; i < c->values->count; i++) {
    const int64_t b = at[2 * i], k = at[2 * i + 1];
    const char *problem = weft_ctc_label_problem(at, i, c->batch, longest);
    if (problem != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "label SparseTensor is not valid: indices[%" PRId64 "] = [%" PRId64 ",%" PRId64
                        "] %s",
                        i, b, k, problem);
    }
    c->first_label[b + 1]++;
  }
  for (int64_t b = 0; b < c->batch; b++) c->first_label[b + 1] += c->first_label[b];
  return NULL;
}

static weft_status_t *check_lengths(const ctc_batch_t *c) {
  const int32_t *length = c->lengths->data;
  for (int64_t b = 0; b < c->batch; b++) {
    if (length[b] > c->max_time)
      return WEFT_ERROR(INVALID_ARGUMENT, "sequence_length(%" PRId64 ") <= %" PRId64, b, c->max_time);
    if (length[b] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "seq_len(%" PRId64 ") < 0", b);
  }
  return NULL;
}

/* The path of sequence b: blanks between its labels; labels from the first one that is no class end it. */
static weft_status_t *make_path(ctc_batch_t *c, int64_t b) {
  const int32_t *label = (const int32_t *)c->values->data + c->first_label[b],
                blank = (int32_t)c->num_classes - 1;
  const int64_t n = c->first_label[b + 1] - c->first_label[b];
  int32_t *path = c->paths + 2 * c->first_label[b] + b;
  int64_t used = 0;
  bool is_finished = false;
  if (n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Labels length is zero in batch %" PRId64, b);
  for (int64_t i = 0; i < n; i++) {
    if (i > 0 && c->attrs->preprocess_collapse_repeated && label[i] == label[i - 1]) continue;
    if (label[i] >= blank) {
      is_finished = true;
      continue;
    }
    if (is_finished) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Saw a non-null label (index >= num_classes - 1) following a null label, batch: "
                        "%" PRId64 " num_classes: %" PRId64,
                        b, c->num_classes);
    }
    if (label[i] < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "All labels must be nonnegative integers, batch: %" PRId64, b);
    path[used++] = blank;
    path[used++] = label[i];
  }
  path[used++] = blank;
  const int32_t time = ((const int32_t *)c->lengths->data)[b];
  if (!c->attrs->ignore_longer_outputs_than_inputs && n > time) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Not enough time for target transition sequence (required: %" PRId64
                      ", available: %" PRId32 ")%" PRId64
                      "You can turn this error into a warning by using the flag "
                      "ignore_longer_outputs_than_inputs",
                      n, time, b);
  }
  c->num_path[b] = (int32_t)used;
  return NULL;
}

/* ---- the op ---- */

static void run_sequences(void *arg, int64_t begin, int64_t end) {
  ctc_batch_t *c = arg;
  const size_t size = weft_dtype_size(c->inputs->dtype);
  for (int64_t b = begin; b < end; b++) {
    const int64_t labels = c->first_label[b + 1] - c->first_label[b],
                  row = b * c->num_classes * (int64_t)size;
    ctc_sequence_t s = {.inputs = (const char *)c->inputs->data + row,
                        .gradient = (char *)c->gradient->data + row,
                        .loss = (char *)c->loss->data + (size_t)b * size,
                        .length = ((const int32_t *)c->lengths->data)[b],
                        .step = c->batch * c->num_classes,
                        .num_classes = c->num_classes,
                        .path = c->paths + 2 * c->first_label[b] + b,
                        .num_path = c->num_path[b],
                        .merges = c->attrs->ctc_merge_repeated};
    if (s.length == 0 || labels > s.length) continue; /* no loss and no gradient */
    weft_status_t *status = c->inputs->dtype == WEFT_F32 ? f32_sequence(&s) : f64_sequence(&s), *none = NULL;
    if (status != NULL && !atomic_compare_exchange_strong(&c->failure, &none, status))
      weft_status_free(status);
  }
}

static weft_status_t *run(weft_kernel_ctx_t *ctx, ctc_batch_t *c) {
  c->first_label = weft_calloc((size_t)c->batch + 1, sizeof *c->first_label);
  c->num_path = weft_calloc((size_t)c->batch, sizeof *c->num_path);
  c->paths = weft_calloc(2 * (size_t)c->values->count + (size_t)c->batch, sizeof *c->paths);
  if (c->first_label == NULL || c->num_path == NULL || c->paths == NULL)
    return WEFT_NO_MEMORY("paths of %" PRId64 " labels", c->values->count);
  WEFT_RETURN_IF_ERROR(count_labels(c));
  WEFT_RETURN_IF_ERROR(check_lengths(c));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, c->inputs->dtype, &c->lengths->shape, &c->loss));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, c->inputs->dtype, &c->inputs->shape, &c->gradient));
  weft_cpu_zero(c->loss);
  weft_cpu_zero(c->gradient);
  for (int64_t b = 0; b < c->batch; b++) WEFT_RETURN_IF_ERROR(make_path(c, b));
  weft_parallel_for(ctx->device->pool, c->batch, WEFT_CPU_GRAIN / (64 * c->max_time * c->num_classes + 1) + 1,
                    run_sequences, c);
  return atomic_load(&c->failure);
}

WEFT_ATTRS_OF(ctc_loss, loss)
static weft_status_t *ctc_loss(weft_kernel_ctx_t *ctx, const loss_attrs_t *attrs) {
  ctc_batch_t c = {.attrs = attrs,
                   .inputs = weft_in(ctx, 0),
                   .indices = weft_in(ctx, 1),
                   .values = weft_in(ctx, 2),
                   .lengths = weft_in(ctx, 3)};
  atomic_init(&c.failure, NULL);
  WEFT_RETURN_IF_ERROR(check_shapes(&c));
  weft_status_t *s = run(ctx, &c);
  weft_free(c.first_label);
  weft_free(c.num_path);
  weft_free(c.paths);
  return s;
}

const weft_kernel_t weft_cpu_ctc_loss_kernels[] = {
    WEFT_KERNEL_ATTRS("CTCLoss", "T", WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), ctc_loss),
    {0},
};
