/* kernels/cuda/mirror.c - rows of MirrorPad, MirrorPadGrad and ReverseSequence. Paddings and lengths lie in
 * the host's memory, where they are checked. */
#include "kernels/cuda/mirror_args.h"

#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_SIZES(pad_functions, mirror_pad)
WEFT_CUDA_INSTANCES(grad_instances, mirror_grad, FLOAT_I64)
WEFT_CUDA_SIZES(reverse_functions, reverse_part)

/* ---- mirror padding ---- */

/* The state: not NULL if the border is not repeated. */
static WEFT_Failure *mode_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char reflects = 1;
  const char *mode = NULL;
  size_t length = 0;
  (void)param;
  const bool is_reflect = weft_cuda_host->attr_string(s, "mode", &mode, &length) != 0 &&
                          length == strlen("REFLECT") && memcmp(mode, "REFLECT", length) == 0;
  *out = is_reflect ? (void *)(uintptr_t)&reflects : NULL;
  return NULL;
}

/* dims: the input's, which the paddings make larger (sign 1) or smaller (-1); *other becomes the output's. */
static WEFT_Failure *read_paddings(const WEFT_TensorView *t, const WEFT_TensorView *x, int sign,
                                   int64_t (*pads)[2], int64_t *other) {
  if (t->rank != 2 || t->dims[1] != 2)
    return WEFT_CUDA_INVALID("paddings must be a matrix with 2 columns: %s", WEFT_CUDA_SHAPE(t));
  if (t->dims[0] != x->rank) {
    return WEFT_CUDA_INVALID("The first dimension of paddings must be the rank of inputs%s %s",
                             WEFT_CUDA_SHAPE(t), WEFT_CUDA_SHAPE(x));
  }
  for (int d = 0; d < x->rank; d++) {
    pads[d][0] = weft_cuda_int_at(t, 2 * d);
    pads[d][1] = weft_cuda_int_at(t, 2 * d + 1);
    if (pads[d][0] < 0 || pads[d][1] < 0) {
      return WEFT_CUDA_INVALID("Paddings must be non-negative: %lld %lld", (long long)pads[d][0],
                               (long long)pads[d][1]);
    }
  }
  for (int d = 0; d < x->rank; d++) {
    int64_t sum = 0;
    if (!__builtin_add_overflow(pads[d][0], pads[d][1], &sum) &&
        !__builtin_add_overflow(x->dims[d], sign * sum, &other[d]) && other[d] >= 0)
      continue;
    return WEFT_CUDA_INVALID("paddings %lld %lld do not fit dimension %d of %s", (long long)pads[d][0],
                             (long long)pads[d][1], d, WEFT_CUDA_SHAPE(x));
  }
  return NULL;
}

static WEFT_Failure *check(int rank, const int64_t *inner, int offset, int64_t (*pads)[2]) {
  for (int d = 0; d < rank; d++) {
    const int64_t limit = inner[d] - offset;
    if (pads[d][0] <= limit && pads[d][1] <= limit) continue;
    return WEFT_CUDA_INVALID("paddings must be %s the dimension size: %lld, %lld %s %lld",
                             offset == 1 ? "less than" : "no greater than", (long long)pads[d][0],
                             (long long)pads[d][1], offset == 1 ? "not less than" : "greater than",
                             (long long)inner[d]);
  }
  return NULL;
}

/* Neighbours that are not padded become one dimension. */
static weft_cuda_mirror_t mirror_of(int rank, const int64_t *inner, const int64_t *outer, int offset,
                                    int64_t (*pads)[2]) {
  weft_cuda_mirror_t m = {.offset = offset};
  bool was_plain = false;
  for (int d = 0; d < rank; d++) {
    const bool is_plain = inner[d] == outer[d];
    if (is_plain && was_plain) {
      m.inner[m.rank - 1] *= inner[d];
      m.outer[m.rank - 1] *= inner[d];
    } else {
      m.inner[m.rank] = inner[d];
      m.outer[m.rank] = outer[d];
      m.before[m.rank++] = pads[d][0];
    }
    was_plain = is_plain;
  }
  return m;
}

static WEFT_Failure *mirror_pad(WEFT_KernelContext *c) {
  WEFT_TensorView x, paddings, y;
  int64_t pads[WEFT_CUDA_DIMS][2], dims[WEFT_CUDA_DIMS];
  const int offset = weft_cuda_host->state(c) != NULL ? 1 : 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &paddings);
  WEFT_CUDA_TRY(read_paddings(&paddings, &x, 1, pads, dims));
  WEFT_CUDA_TRY(check(x.rank, x.dims, offset, pads));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, dims, &y));
  weft_cuda_mirror_t m = mirror_of(x.rank, x.dims, dims, offset, pads);
  m.n = y.count;
  void *args[] = {&x.data, &y.data, &m};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(pad_functions, x.dtype), m.n, 1, args);
}

static WEFT_Failure *mirror_grad(WEFT_KernelContext *c) {
  WEFT_TensorView dy, paddings, dx;
  int64_t pads[WEFT_CUDA_DIMS][2], dims[WEFT_CUDA_DIMS];
  const int offset = weft_cuda_host->state(c) != NULL ? 1 : 0;
  weft_cuda_host->input(c, 0, &dy);
  weft_cuda_host->input(c, 1, &paddings);
  WEFT_CUDA_TRY(read_paddings(&paddings, &dy, -1, pads, dims));
  WEFT_CUDA_TRY(check(dy.rank, dims, offset, pads));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, dy.rank, dims, &dx));
  weft_cuda_mirror_t m = mirror_of(dy.rank, dims, dy.dims, offset, pads);
  m.n = dx.count;
  void *args[] = {&dy.data, &dx.data, &m};
  return weft_cuda_launch_over(c, weft_cuda_pick(&grad_instances, dy.dtype), m.n, 1, args);
}

/* ---- ReverseSequence ---- */

typedef struct cuda_sequence_dims {
  int64_t batch, sequence;
} cuda_sequence_dims_t;

static WEFT_Failure *dims_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_sequence_dims_t *d = calloc(1, sizeof *d);
  if (d == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a sequence");
  weft_cuda_host->attr_int(s, "batch_dim", &d->batch);
  weft_cuda_host->attr_int(s, "seq_dim", &d->sequence);
  *out = d;
  return NULL;
}

static WEFT_Failure *find_dims(const WEFT_KernelContext *c, const WEFT_TensorView *x,
                               const WEFT_TensorView *lengths, int *batch, int *sequence) {
  const cuda_sequence_dims_t *given = weft_cuda_host->state(c);
  const int64_t b = given->batch < 0 ? given->batch + x->rank : given->batch,
                q = given->sequence < 0 ? given->sequence + x->rank : given->sequence;
  if (lengths->rank != 1) return WEFT_CUDA_INVALID("seq_lens input must be 1-dim, not %d", lengths->rank);
  if (b < 0 || b >= x->rank) return WEFT_CUDA_INVALID("Invalid batch_dim %lld", (long long)given->batch);
  if (q < 0 || q >= x->rank) return WEFT_CUDA_INVALID("Invalid seq_dim %lld", (long long)given->sequence);
  if (b == q) return WEFT_CUDA_INVALID("batch_dim == seq_dim == %d", (int)q);
  if (lengths->count != x->dims[b]) {
    return WEFT_CUDA_INVALID("Length of seq_lengths != input.dims(%d), (%lld vs. %lld)", (int)b,
                             (long long)lengths->count, (long long)x->dims[b]);
  }
  for (int64_t i = 0; i < lengths->count; i++) {
    const int64_t n = weft_cuda_int_at(lengths, i);
    if (n < 0) return WEFT_CUDA_INVALID("seq_lens(%lld) < 0", (long long)i);
    if (n > x->dims[q]) return WEFT_CUDA_INVALID("seq_lens(%lld) > input.dims(%d)", (long long)i, (int)q);
  }
  *batch = (int)b;
  *sequence = (int)q;
  return NULL;
}

static WEFT_Failure *reverse_sequence(WEFT_KernelContext *c) {
  WEFT_TensorView x, lengths, y;
  int at_batch = 0, at = 0;
  void *on_device = NULL;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &lengths);
  WEFT_CUDA_TRY(find_dims(c, &x, &lengths, &at_batch, &at));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, lengths.bytes, &on_device));
  WEFT_CUDA_TRY(weft_cuda_copy(c, on_device, lengths.data, lengths.bytes));
  int32_t length_bytes = (int32_t)weft_cuda_size(lengths.dtype);
  int64_t n = y.count, size = x.dims[at], step = weft_cuda_product(x.dims, at + 1, x.rank),
          batch = x.dims[at_batch], batch_step = weft_cuda_product(x.dims, at_batch + 1, x.rank);
  void *args[] = {&x.data, &on_device, &length_bytes, &y.data, &n, &size, &step, &batch, &batch_step};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(reverse_functions, x.dtype), n, 1, args);
}

enum { SECOND = 2 };
const WEFT_DeviceKernel weft_cuda_mirror_kernels[] = {
    {.op = "MirrorPad",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN,
     .prepare = mode_prepare,
     .compute = mirror_pad,
     .host_inputs = SECOND},
    {.op = "MirrorPadGrad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64),
     .prepare = mode_prepare,
     .compute = mirror_grad,
     .host_inputs = SECOND},
    {.op = "ReverseSequence",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN,
     .prepare = dims_prepare,
     .compute = reverse_sequence,
     .destroy = free,
     .host_inputs = SECOND},
    {0},
};
