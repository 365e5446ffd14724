/* kernels/cpu/ctc/ctc_decode.c - CTCGreedyDecoder, CTCBeamSearchDecoder. */
#include "kernels/cpu/ctc/ctc_decode.h"

#include <float.h>
#include <inttypes.h>

static weft_status_t *check(weft_kernel_ctx_t *ctx, weft_ctc_decoder_t *d) {
  const weft_tensor_t *x = weft_in(ctx, 0), *lengths = weft_in(ctx, 1);
  if (x->shape.rank != 3) return WEFT_ERROR(INVALID_ARGUMENT, "inputs is not a 3-Tensor");
  if (x->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "inputs must not be empty");
  if (lengths->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "sequence_length is not a vector");
  d->inputs = x;
  d->lengths = lengths->data;
  d->max_time = x->shape.dims[0];
  d->batch = x->shape.dims[1];
  d->num_classes = x->shape.dims[2];
  if (d->batch != lengths->count) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "len(sequence_length) != batch_size.  len(sequence_length):  %" PRId64
                      " batch_size: %" PRId64,
                      lengths->count, d->batch);
  }
  for (int64_t b = 0; b < d->batch; b++) {
    if (d->lengths[b] > d->max_time)
      return WEFT_ERROR(FAILED_PRECONDITION, "sequence_length(%" PRId64 ") <= %" PRId64, b, d->max_time);
  }
  if (d->num_classes >= INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "num_classes cannot exceed max int");
  return NULL;
}

static void free_paths(weft_ctc_decoder_t *d) {
  for (int64_t p = 0; d->paths != NULL && p < d->num_paths; p++) {
    weft_free(d->paths[p].labels);
    weft_free(d->paths[p].ends);
  }
  weft_free(d->paths);
}

static weft_status_t *new_paths(weft_kernel_ctx_t *ctx, weft_ctc_decoder_t *d) {
  weft_shape_t shape = weft_shape_matrix(d->batch, d->num_paths);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 3 * (int)d->num_paths, d->inputs->dtype, &shape, &d->scores));
  weft_cpu_zero(d->scores);
  d->paths = weft_calloc((size_t)d->num_paths, sizeof *d->paths);
  if (d->paths == NULL) return WEFT_NO_MEMORY("%" PRId64 " paths", d->num_paths);
  for (int64_t p = 0; p < d->num_paths; p++) {
    d->paths[p].ends = weft_calloc((size_t)d->batch, sizeof *d->paths[p].ends);
    if (d->paths[p].ends == NULL) return WEFT_NO_MEMORY("paths of %" PRId64 " sequences", d->batch);
  }
  return NULL;
}

/* Path p as a sparse matrix: outputs p, num_paths + p and 2 * num_paths + p. */
static weft_status_t *put_path(weft_kernel_ctx_t *ctx, const weft_ctc_decoder_t *d, int64_t p) {
  const weft_ctc_path_t *path = &d->paths[p];
  const int n = (int)d->num_paths;
  weft_tensor_t *indices = NULL, *values = NULL, *sizes = NULL;
  weft_shape_t pairs = weft_shape_matrix(path->count, 2), one = weft_shape_vector(path->count),
               two = weft_shape_vector(2);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, (int)p, WEFT_I64, &pairs, &indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, n + (int)p, WEFT_I64, &one, &values));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2 * n + (int)p, WEFT_I64, &two, &sizes));
  int64_t *at = indices->data, *value = values->data, longest = 0, i = 0;
  for (int64_t b = 0; b < d->batch; b++) {
    const int64_t start = i;
    for (; i < path->ends[b]; i++) {
      at[2 * i] = b;
      at[2 * i + 1] = i - start;
      value[i] = path->labels[i];
    }
    if (i - start > longest) longest = i - start;
  }
  ((int64_t *)sizes->data)[0] = d->batch;
  ((int64_t *)sizes->data)[1] = longest;
  return NULL;
}

/* ---- greedy ---- */

/* Numbers that are not normal count as 0, as on TensorFlow's threads, which flush them. */
#define GREEDY_BEST(suffix, type, smallest)                                              \
  static type flushed_##suffix(type x) { return x < smallest && x > -smallest ? 0 : x; } \
  static int32_t best_##suffix(const type *row, int64_t n, type *score) {                \
    int64_t best = 0;                                                                    \
    for (int64_t k = 1; k < n; k++)                                                      \
      best = flushed_##suffix(row[k]) > flushed_##suffix(row[best]) ? k : best;          \
    *score += -row[best];                                                                \
    return (int32_t)best;                                                                \
  }
GREEDY_BEST(f32, float, FLT_MIN)
GREEDY_BEST(f64, double, DBL_MIN)

static weft_status_t *decode_greedily(weft_ctc_decoder_t *d, int64_t blank, bool merge_repeated) {
  for (int64_t b = 0; b < d->batch; b++) {
    int32_t before = -1;
    for (int64_t t = 0; t < d->lengths[b]; t++) {
      const int64_t row = (t * d->batch + b) * d->num_classes;
      int32_t best = d->inputs->dtype == WEFT_F32 ? best_f32((const float *)d->inputs->data + row,
                                                             d->num_classes, (float *)d->scores->data + b)
                                                  : best_f64((const double *)d->inputs->data + row,
                                                             d->num_classes, (double *)d->scores->data + b);
      if (best != blank && !(merge_repeated && best == before))
        WEFT_RETURN_IF_ERROR(weft_ctc_path_push(&d->paths[0], best));
      before = best;
    }
    d->paths[0].ends[b] = d->paths[0].count;
  }
  return NULL;
}

WEFT_ATTRS(greedy, (BOOL, merge_repeated), (INT, blank_index))
static weft_status_t *greedy(weft_kernel_ctx_t *ctx, const greedy_attrs_t *attrs) {
  weft_ctc_decoder_t d = {.num_paths = 1};
  WEFT_RETURN_IF_ERROR(check(ctx, &d));
  /* TensorFlow holds the attribute in 32 bits. */
  int64_t blank = (int32_t)attrs->blank_index;
  if (blank < 0) blank += d.num_classes;
  if (blank < 0 || blank >= d.num_classes) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "blank_index expected to be between %" PRId64 " and %" PRId64 " but was %" PRId64,
                      -d.num_classes, d.num_classes - 1, attrs->blank_index);
  }
  weft_status_t *s = new_paths(ctx, &d);
  if (s == NULL) s = decode_greedily(&d, blank, attrs->merge_repeated);
  if (s == NULL) s = put_path(ctx, &d, 0);
  free_paths(&d);
  return s;
}

/* ---- beam search ---- */

WEFT_ATTRS(beam, (INT, beam_width), (INT, top_paths), (BOOL, merge_repeated))
static weft_status_t *beam(weft_kernel_ctx_t *ctx, const beam_attrs_t *attrs) {
  weft_ctc_decoder_t d = {.num_paths = attrs->top_paths};
  WEFT_RETURN_IF_ERROR(check(ctx, &d));
  if (attrs->top_paths > attrs->beam_width)
    return WEFT_ERROR(INVALID_ARGUMENT, "requested more paths than the beam width.");
  weft_status_t *s = new_paths(ctx, &d);
  for (int64_t b = 0; s == NULL && b < d.batch; b++) {
    s = d.inputs->dtype == WEFT_F32 ? weft_ctc_beam_f32(&d, b, attrs->beam_width, attrs->merge_repeated)
                                    : weft_ctc_beam_f64(&d, b, attrs->beam_width, attrs->merge_repeated);
    for (int64_t p = 0; s == NULL && p < d.num_paths; p++) d.paths[p].ends[b] = d.paths[p].count;
  }
  for (int64_t p = 0; s == NULL && p < d.num_paths; p++) s = put_path(ctx, &d, p);
  free_paths(&d);
  return s;
}

#define DECODER(op_, fn) WEFT_KERNEL_ATTRS(op_, "T", WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), fn)
const weft_kernel_t weft_cpu_ctc_decode_kernels[] = {
    DECODER("CTCBeamSearchDecoder", beam),
    DECODER("CTCGreedyDecoder", greedy),
    {0},
};
