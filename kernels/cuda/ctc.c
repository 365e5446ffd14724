/* kernels/cuda/ctc.c - the row of CTCLoss. Labels and lengths lie in the host's memory, where they are
 * checked and become paths; predictions stay on the device. Errors are those of kernels/cpu/ctc/ctc_loss.c.
 */
#include "kernels/cuda/ctc_args.h"

#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"
#include "kernels/formulas/ctc_labels.h"

WEFT_CUDA_INSTANCES(ctc_softmax, softmax, F32_F64)
WEFT_CUDA_INSTANCES(ctc_states, ctc_states, F32_F64)
WEFT_CUDA_INSTANCES(ctc_gradients, ctc_gradients, F32_F64)

typedef struct cuda_ctc_flags {
  bool collapses, merges, ignores_longer;
} cuda_ctc_flags_t;

/* A batch as the host sees it. */
typedef struct cuda_ctc_batch {
  const cuda_ctc_flags_t *flags;
  WEFT_TensorView inputs, indices, values, lengths;
  int64_t time, batch, classes;
  int64_t *first_label;                /* owned; batch + 1: where the labels of each sequence begin */
  weft_cuda_ctc_sequence_t *sequences; /* owned; batch */
  weft_cuda_ctc_position_t *path;      /* owned; of all sequences */
  int64_t num_path, num_states;
  int32_t *last; /* owned; of each class the last position in the path at hand + 1; 0: none */
} cuda_ctc_batch_t;

static WEFT_Failure *ctc_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char *const names[] = {"preprocess_collapse_repeated", "ctc_merge_repeated",
                                      "ignore_longer_outputs_than_inputs"};
  (void)param;
  cuda_ctc_flags_t *flags = calloc(1, sizeof *flags);
  if (flags == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: CTCLoss");
  bool *to[] = {&flags->collapses, &flags->merges, &flags->ignores_longer};
  for (int i = 0; i < 3; i++) {
    int v = 0;
    weft_cuda_host->attr_bool(s, names[i], &v);
    *to[i] = v != 0;
  }
  *out = flags;
  return NULL;
}

/* ---- checks ---- */

static WEFT_Failure *check_shapes(cuda_ctc_batch_t *c) {
  if (c->inputs.rank != 3) return WEFT_CUDA_INVALID("inputs is not a 3-Tensor");
  if (c->lengths.rank != 1) return WEFT_CUDA_INVALID("sequence_length is not a vector");
  if (c->indices.rank != 2) return WEFT_CUDA_INVALID("labels_indices is not a matrix");
  if (c->values.rank != 1) return WEFT_CUDA_INVALID("labels_values is not a vector");
  c->time = c->inputs.dims[0];
  c->batch = c->inputs.dims[1];
  c->classes = c->inputs.dims[2];
  if (c->classes >= INT32_MAX) return WEFT_CUDA_INVALID("num_classes cannot exceed max int");
  if (c->batch != c->lengths.count) {
    return WEFT_CUDA_INVALID(
        "len(sequence_length) != batch_size.  len(sequence_length):  %lld batch_size: %lld",
        (long long)c->lengths.count, (long long)c->batch);
  }
  if (c->indices.dims[0] != c->values.count) {
    return WEFT_CUDA_INVALID(
        "labels_indices and labels_values must contain the same number of rows, but saw shapes: %s vs. %s",
        WEFT_CUDA_SHAPE(&c->indices), WEFT_CUDA_SHAPE(&c->values));
  }
  if (c->batch == 0) return WEFT_CUDA_INVALID("batch_size must not be 0");
  if (c->time == 0) return WEFT_CUDA_INVALID("max_time must not be 0");
  if (c->classes == 0) return WEFT_CUDA_INVALID("num_classes must not be 0");
  if (c->indices.dims[1] != 2)
    return WEFT_CUDA_INVALID("labels_indices must have 2 columns, got %lld", (long long)c->indices.dims[1]);
  return NULL;
}

/* Indices are those of a sparse matrix, sorted; counts the labels of each sequence. */
static WEFT_Failure *count_labels(cuda_ctc_batch_t *c) {
  const int64_t *at = c->indices.data;
  int64_t longest = 0, elements = 0;
  for (int64_t i = 0; i < c->values.count; i++) {
    if (at[2 * i + 1] < INT64_MAX && at[2 * i + 1] + 1 > longest) longest = at[2 * i + 1] + 1;
  }
  if (__builtin_mul_overflow(c->batch, longest, &elements)) {
    return WEFT_CUDA_INVALID("labels of shape [%lld,%lld] are too large", (long long)c->batch,
                             (long long)longest);
  }
  for (int64_t i = 0; i < c->values.count; i++) {
    const int64_t b = at[2 * i], k = at[2 * i + 1];
    const char *problem = weft_ctc_label_problem(at, i, c->batch, longest);
    if (problem != NULL) {
      return WEFT_CUDA_INVALID("label SparseTensor is not valid: indices[%lld] = [%lld,%lld] %s",
                               (long long)i, (long long)b, (long long)k, problem);
    }
    c->first_label[b + 1]++;
  }
  for (int64_t b = 0; b < c->batch; b++) c->first_label[b + 1] += c->first_label[b];
  return NULL;
}

static WEFT_Failure *check_lengths(const cuda_ctc_batch_t *c) {
  const int32_t *length = c->lengths.data;
  for (int64_t b = 0; b < c->batch; b++) {
    if (length[b] > c->time)
      return WEFT_CUDA_INVALID("sequence_length(%lld) <= %lld", (long long)b, (long long)c->time);
    if (length[b] < 0) return WEFT_CUDA_INVALID("seq_len(%lld) < 0", (long long)b);
  }
  return NULL;
}

/* ---- paths ---- */

/* Appends a position of class k to the sequence's path. */
static void push(cuda_ctc_batch_t *c, weft_cuda_ctc_sequence_t *s, int32_t k) {
  weft_cuda_ctc_position_t *path = c->path + s->path_at;
  const int32_t before = c->last[k];
  if (before > 0) path[before - 1].next = s->num_path;
  path[s->num_path] = (weft_cuda_ctc_position_t){.class_ = k, .next = -1, .is_first = before == 0};
  c->last[k] = ++s->num_path;
}

/* The path of sequence b: blanks between its labels; labels from the first one that is no class end it. */
static WEFT_Failure *make_path(cuda_ctc_batch_t *c, int64_t b) {
  const int32_t *label = (const int32_t *)c->values.data + c->first_label[b], blank = (int32_t)c->classes - 1,
                time = ((const int32_t *)c->lengths.data)[b];
  const int64_t n = c->first_label[b + 1] - c->first_label[b];
  weft_cuda_ctc_sequence_t *s = &c->sequences[b];
  bool is_finished = false;
  *s = (weft_cuda_ctc_sequence_t){.path_at = c->num_path, .state_at = c->num_states, .length = time};
  if (n == 0) return WEFT_CUDA_INVALID("Labels length is zero in batch %lld", (long long)b);
  for (int64_t i = 0; i < n; i++) {
    if (i > 0 && c->flags->collapses && label[i] == label[i - 1]) continue;
    if (label[i] >= blank) {
      is_finished = true;
      continue;
    }
    if (is_finished) {
      return WEFT_CUDA_INVALID(
          "Saw a non-null label (index >= num_classes - 1) following a null label, batch: %lld num_classes: "
          "%lld",
          (long long)b, (long long)c->classes);
    }
    if (label[i] < 0)
      return WEFT_CUDA_INVALID("All labels must be nonnegative integers, batch: %lld", (long long)b);
    push(c, s, blank);
    push(c, s, label[i]);
  }
  push(c, s, blank);
  for (int32_t u = 0; u < s->num_path; u++) c->last[c->path[s->path_at + u].class_] = 0;
  if (!c->flags->ignores_longer && n > time) {
    return WEFT_CUDA_INVALID(
        "Not enough time for target transition sequence (required: %lld, available: %d)%lldYou can turn this "
        "error into a warning by using the flag ignore_longer_outputs_than_inputs",
        (long long)n, time, (long long)b);
  }
  if (n > time) s->length = 0; /* no loss and no gradient */
  int64_t states = 0;
  if (__builtin_mul_overflow((int64_t)s->length, (int64_t)s->num_path, &states) ||
      __builtin_add_overflow(c->num_states, states, &c->num_states) || c->num_states > INT64_MAX / 32)
    return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "paths of %d labels", s->num_path);
  c->num_path += s->num_path;
  return NULL;
}

static WEFT_Failure *make_paths(cuda_ctc_batch_t *c) {
  const size_t batch = (size_t)c->batch;
  c->first_label = calloc(batch + 1, sizeof *c->first_label);
  c->sequences = calloc(batch, sizeof *c->sequences);
  c->path = calloc(2 * (size_t)c->values.count + batch, sizeof *c->path);
  c->last = calloc((size_t)c->classes, sizeof *c->last);
  if (c->first_label == NULL || c->sequences == NULL || c->path == NULL || c->last == NULL)
    return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: paths of labels");
  WEFT_CUDA_TRY(count_labels(c));
  WEFT_CUDA_TRY(check_lengths(c));
  for (int64_t b = 0; b < c->batch; b++) WEFT_CUDA_TRY(make_path(c, b));
  return NULL;
}

/* ---- a run ---- */

/* The same bytes in the device's memory. */
static WEFT_Failure *upload(WEFT_KernelContext *k, const void *from, size_t bytes, void **out) {
  WEFT_CUDA_TRY(weft_cuda_host->scratch(k, bytes, out));
  return weft_cuda_copy(k, *out, from, bytes);
}

/* Enough blocks of all threads for n items, one a block. */
static WEFT_Failure *launch_blocks(WEFT_KernelContext *k, const weft_cuda_instances_t *f, int dtype,
                                   int64_t n, weft_cuda_ctc_t *args) {
  void *all[] = {args};
  return weft_cuda_launch_over(k, weft_cuda_pick(f, dtype), n * WEFT_CUDA_BLOCK, 1, all);
}

static WEFT_Failure *run(WEFT_KernelContext *k, const cuda_ctc_batch_t *c) {
  const int dtype = c->inputs.dtype;
  const size_t size = weft_cuda_size(dtype), states = (size_t)c->num_states * size;
  weft_cuda_ctc_t args = {
      .time = c->time, .batch = c->batch, .classes = c->classes, .merges = c->flags->merges};
  WEFT_TensorView loss, gradient;
  void *sequences = NULL, *path = NULL, *y = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->output(k, 0, 1, &c->batch, &loss));
  WEFT_CUDA_TRY(weft_cuda_host->output(k, 1, 3, c->inputs.dims, &gradient));
  WEFT_CUDA_TRY(upload(k, c->sequences, (size_t)c->batch * sizeof *c->sequences, &sequences));
  WEFT_CUDA_TRY(upload(k, c->path, (size_t)c->num_path * sizeof *c->path, &path));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(k, c->inputs.bytes, &y));
  if (states > 0) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(k, states, &args.alpha));
    WEFT_CUDA_TRY(weft_cuda_host->scratch(k, states, &args.beta));
  }
  args.sequences = sequences;
  args.path = path;
  args.y = y;
  args.loss = loss.data;
  args.gradient = gradient.data;
  const void *x = c->inputs.data;
  int64_t rows = c->time * c->batch, classes = c->classes;
  int32_t is_log = 0, sharers = weft_cuda_sharers(classes);
  void *of_softmax[] = {&x, &y, &rows, &classes, &is_log, &sharers};
  WEFT_CUDA_TRY(weft_cuda_launch_over(k, weft_cuda_pick(&ctc_softmax, dtype), rows * sharers, 1, of_softmax));
  if (states > 0) WEFT_CUDA_TRY(launch_blocks(k, &ctc_states, dtype, 2 * c->batch, &args));
  return launch_blocks(k, &ctc_gradients, dtype, rows, &args);
}

static WEFT_Failure *ctc_loss(WEFT_KernelContext *k) {
  cuda_ctc_batch_t c = {.flags = weft_cuda_host->state(k)};
  WEFT_TensorView *inputs[] = {&c.inputs, &c.indices, &c.values, &c.lengths};
  for (int i = 0; i < 4; i++) weft_cuda_host->input(k, i, inputs[i]);
  WEFT_CUDA_TRY(check_shapes(&c));
  WEFT_Failure *f = make_paths(&c);
  if (f == NULL) f = run(k, &c);
  free(c.first_label);
  free(c.sequences);
  free(c.path);
  free(c.last);
  return f;
}

const WEFT_DeviceKernel weft_cuda_ctc_kernels[] = {
    {.op = "CTCLoss",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_F64),
     .prepare = ctc_prepare,
     .compute = ctc_loss,
     .destroy = free,
     .host_inputs = 2 | 4 | 8},
    {0},
};
