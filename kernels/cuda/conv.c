/* kernels/cuda/conv.c - rows of Conv2D, Conv3D and their gradients, by cuDNN.
 *
 * cuDNN has as much padding behind an image as in front, and the filter's output channels first. So images
 * are copied into larger ones where TensorFlow pads otherwise, filters are transposed, and where cuDNN has no
 * algorithm for channels that come last (of double, for one) images are transposed, too. A copy does all of
 * that at once.
 */
#include "device/cuda/dnn.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/window.h"

/* The param of a row. */
typedef struct cuda_conv_op {
  weft_cuda_conv_kind_t kind;
  weft_cuda_window_op_t attributes;
  bool is_centred;
  const char *name; /* in TensorFlow's errors about shapes */
} conv_op_t;

static const conv_op_t conv2d = {WEFT_CUDA_CONV_FORWARD, WEFT_CUDA_CONV, false, "Conv2D"},
                       conv2d_input = {WEFT_CUDA_CONV_OF_INPUT, WEFT_CUDA_CONV, false,
                                       "Conv2DCustomBackpropInput"},
                       conv2d_filter = {WEFT_CUDA_CONV_OF_FILTER, WEFT_CUDA_STRICT_CONV, false,
                                        "Conv2DCustomBackpropFilter"},
                       conv3d = {WEFT_CUDA_CONV_FORWARD, WEFT_CUDA_CONV, true, "Conv3D"},
                       conv3d_input = {WEFT_CUDA_CONV_OF_INPUT, WEFT_CUDA_CONV, false,
                                       "Conv3DBackpropInputOp"},
                       conv3d_filter = {WEFT_CUDA_CONV_OF_FILTER, WEFT_CUDA_CONV, false,
                                        "Conv3DBackpropFilterOp"};

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const conv_op_t *op = param;
  WEFT_CUDA_TRY(weft_cuda_windows_prepare(s, op->attributes, out));
  ((weft_cuda_windows_t *)*out)->is_centred = op->is_centred;
  return NULL;
}

/* ---- shapes ---- */

enum { MAX_RANK = WEFT_CUDA_SPACE + 2 };

/* The input, the filter and the output of the forward op. */
typedef struct cuda_conv_shapes {
  int64_t x[MAX_RANK], filter[MAX_RANK], y[MAX_RANK];
  weft_cuda_images_t m;
  int64_t out_channels, groups;
} conv_shapes_t;

static WEFT_Failure *check_rank(const conv_op_t *op, const char *what, int rank, int wanted) {
  if (rank == wanted) return NULL;
  return WEFT_CUDA_INVALID("%s: %s must be %d-dimensional", op->name, what, wanted);
}

/* s->x and s->filter are there; makes the rest. */
static WEFT_Failure *plan(const conv_op_t *op, const weft_cuda_windows_t *a, conv_shapes_t *s) {
  int64_t k[WEFT_CUDA_SPACE];
  const int rank = a->num_space + 2;
  const int64_t channels = s->x[weft_cuda_channel_axis(a)], depth = s->filter[rank - 2];
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) {
    const int at = i - (WEFT_CUDA_SPACE - a->num_space);
    k[i] = at < 0 ? 1 : s->filter[at];
    if (k[i] <= 0) return WEFT_CUDA_INVALID("%s: filter must not have zero elements", op->name);
  }
  s->out_channels = s->filter[rank - 1];
  if (s->out_channels == 0 && a->num_space == 3 && op->kind == WEFT_CUDA_CONV_FORWARD)
    return WEFT_CUDA_INVALID("filter must not have zero elements (i.e. all dimensions must be non-zero)");
  if (depth <= 0)
    return WEFT_CUDA_INVALID("filter depth must be stricly positive, got %lld", (long long)depth);
  if (channels % depth != 0 || (a->num_space == 3 && channels != depth)) {
    return WEFT_CUDA_INVALID("%s: input depth must be evenly divisible by filter depth: %lld vs %lld",
                             op->name, (long long)channels, (long long)depth);
  }
  s->groups = channels / depth;
  if (s->groups == 0) return WEFT_CUDA_INVALID("number of groups must be strictly positive");
  if (s->out_channels % s->groups != 0) {
    return WEFT_CUDA_INVALID("output depth must be evenly divisible by number of groups: %lld vs %lld",
                             (long long)s->out_channels, (long long)s->groups);
  }
  WEFT_CUDA_TRY(weft_cuda_windows_plan(a, s->x, k, &s->m));
  (void)weft_cuda_images_dims(a, &s->m, true, s->out_channels, s->y);
  return NULL;
}

/* The dimensions of input i, or those that it holds in the host's memory. */
static WEFT_Failure *given_shape(WEFT_KernelContext *c, const conv_op_t *op, int i, int rank, int64_t *dims) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  if (v.dtype != WEFT_CUDA_i32 && v.dtype != WEFT_CUDA_i64) {
    WEFT_CUDA_TRY(check_rank(op, "the input or filter", v.rank, rank));
    for (int d = 0; d < rank; d++) dims[d] = v.dims[d];
    return NULL;
  }
  if (v.rank != 1) return WEFT_CUDA_INVALID("%s: sizes input must be 1-dim, not %d", op->name, v.rank);
  if (v.count != rank)
    return WEFT_CUDA_INVALID("%s: sizes input must have %d values, not %lld", op->name, rank,
                             (long long)v.count);
  for (int d = 0; d < rank; d++) {
    dims[d] = weft_cuda_int_at(&v, d);
    if (dims[d] < 0) return WEFT_CUDA_INVALID("%s: a size is %lld", op->name, (long long)dims[d]);
  }
  return NULL;
}

static WEFT_Failure *check_gradient(const conv_op_t *op, const conv_shapes_t *s, int rank,
                                    const WEFT_TensorView *dy) {
  const WEFT_TensorView want = {.rank = rank, .dims = s->y};
  if (weft_cuda_same_shape(&want, dy)) return NULL;
  return WEFT_CUDA_INVALID("%s: Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                           op->name, WEFT_CUDA_SHAPE(dy), WEFT_CUDA_SHAPE(&want));
}

/* ---- what cuDNN gets ---- */

typedef struct cuda_conv_job {
  WEFT_KernelContext *c;
  const conv_shapes_t *s;
  weft_cuda_conv_t p;
  bool user_first; /* the op's images have the channels first; p says what cuDNN's have */
  bool is_padded;  /* cuDNN's input is another one than the op's, `before` in front of it */
  int64_t before[WEFT_CUDA_SPACE];
} conv_job_t;

static void describe(const conv_op_t *op, const weft_cuda_windows_t *a, const conv_shapes_t *s, int dtype,
                     conv_job_t *j) {
  const weft_cuda_images_t *m = &s->m;
  j->user_first = a->channels_first;
  j->p = (weft_cuda_conv_t){.kind = op->kind,
                            .dtype = dtype,
                            .num_space = a->num_space,
                            .channels_last = !a->channels_first,
                            .batch = m->batch,
                            .in_channels = m->channels,
                            .out_channels = s->out_channels,
                            .groups = s->groups};
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) {
    const int64_t effective = (m->k[i] - 1) * m->dilation[i] + 1,
                  room = m->in[i] + 2 * m->before[i] - effective;
    j->is_padded = j->is_padded || m->before[i] < 0 || room < 0 || room / m->stride[i] + 1 != m->out[i];
    j->p.out[i] = m->out[i];
    j->p.k[i] = m->k[i];
    j->p.stride[i] = m->stride[i];
    j->p.dilation[i] = m->dilation[i];
    j->p.in[i] = m->in[i];
    j->p.pad[i] = m->before[i];
  }
  for (int i = 0; i < WEFT_CUDA_SPACE && j->is_padded; i++) {
    j->before[i] = m->before[i];
    j->p.pad[i] = 0;
    j->p.in[i] = (m->out[i] - 1) * m->stride[i] + (m->k[i] - 1) * m->dilation[i] + 1;
  }
}

/* cuDNN's images have their channels last or first, whichever it knows. */
static WEFT_Failure *choose_format(conv_job_t *j) {
  bool is_known = false;
  if (!j->p.channels_last) return NULL;
  WEFT_CUDA_TRY(weft_cuda_conv_is_known(j->c, &j->p, &is_known));
  j->p.channels_last = is_known;
  return NULL;
}

/* ---- copies ---- */

typedef struct cuda_image_steps {
  int64_t batch, channel, space[WEFT_CUDA_SPACE];
} image_steps_t;

static image_steps_t steps_of(bool channels_first, int64_t channels, const int64_t *space) {
  image_steps_t s = {.channel = channels_first ? space[0] * space[1] * space[2] : 1};
  s.space[2] = channels_first ? 1 : channels;
  s.space[1] = s.space[2] * space[2];
  s.space[0] = s.space[1] * space[1];
  s.batch = channels * space[0] * space[1] * space[2];
  return s;
}

/* Copies images; cell i of `from` goes to cell i + before of `to`, and what has no place there goes nowhere.
 */
static WEFT_Failure *copy_images(const conv_job_t *j, int64_t channels, const void *from, bool from_first,
                                 const int64_t *from_space, void *to, bool to_first, const int64_t *to_space,
                                 const int64_t *before) {
  const image_steps_t x = steps_of(from_first, channels, from_space),
                      y = steps_of(to_first, channels, to_space);
  int64_t dims[MAX_RANK] = {j->p.batch}, from_at = 0, to_at = 0;
  const int channel = to_first ? 1 : MAX_RANK - 1, space = to_first ? 2 : 1;
  weft_cuda_walk_t w;
  dims[channel] = channels;
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) {
    const int64_t skipped = before[i] < 0 ? -before[i] : 0, at = before[i] < 0 ? 0 : before[i];
    const int64_t left = from_space[i] - skipped, room = to_space[i] - at, n = left < room ? left : room;
    dims[space + i] = n < 0 ? 0 : n;
    from_at += skipped * x.space[i];
    to_at += at * y.space[i];
  }
  weft_cuda_walk_init(&w, MAX_RANK, dims);
  w.steps[0][0] = x.batch;
  w.steps[1][0] = y.batch;
  w.steps[0][channel] = x.channel;
  w.steps[1][channel] = y.channel;
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) {
    w.steps[0][space + i] = x.space[i];
    w.steps[1][space + i] = y.space[i];
  }
  return weft_cuda_move(j->c, j->p.dtype, from, from_at, to, to_at, &w);
}

static size_t image_bytes(const conv_job_t *j, int64_t channels, const int64_t *space) {
  return (size_t)(j->p.batch * channels * space[0] * space[1] * space[2]) * weft_cuda_size(j->p.dtype);
}

/* The op's input or output images as cuDNN has them: *io is replaced if they differ. */
static WEFT_Failure *take_images(const conv_job_t *j, bool is_input, const void **io) {
  static const int64_t none[WEFT_CUDA_SPACE] = {0};
  const bool first = !j->p.channels_last;
  const int64_t channels = is_input ? j->p.in_channels : j->p.out_channels;
  const int64_t *from = is_input ? j->s->m.in : j->s->m.out, *to = is_input ? j->p.in : j->p.out;
  void *made = NULL;
  if (first == j->user_first && !(is_input && j->is_padded)) return NULL;
  const size_t bytes = image_bytes(j, channels, to);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(j->c, bytes, &made));
  if (is_input && j->is_padded) WEFT_CUDA_TRY(weft_cuda_fill(j->c, made, 0, bytes));
  WEFT_CUDA_TRY(
      copy_images(j, channels, *io, j->user_first, from, made, first, to, is_input ? j->before : none));
  *io = made;
  return NULL;
}

/* The op's filter [k..., in, out] and cuDNN's, [out, k..., in] or [out, in, k...]. */
static WEFT_Failure *copy_filter(const conv_job_t *j, bool to_op, const void *from, void *to) {
  const int64_t cells = j->p.k[0] * j->p.k[1] * j->p.k[2], in = j->p.in_channels / j->p.groups,
                out = j->p.out_channels;
  const bool last = j->p.channels_last;
  const int op = to_op ? 1 : 0, own = 1 - op;
  /* In the order of what is written. */
  const int64_t own_dims[3] = {out, last ? cells : in, last ? in : cells}, op_dims[3] = {cells, in, out};
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, 3, to_op ? op_dims : own_dims);
  const int cell_at = to_op ? 0 : last ? 1 : 2, in_at = to_op ? 1 : last ? 2 : 1, out_at = to_op ? 2 : 0;
  w.steps[op][cell_at] = in * out;
  w.steps[op][in_at] = out;
  w.steps[op][out_at] = 1;
  w.steps[own][out_at] = cells * in;
  w.steps[own][cell_at] = last ? in : 1;
  w.steps[own][in_at] = last ? 1 : cells;
  return weft_cuda_move(j->c, j->p.dtype, from, 0, to, 0, &w);
}

static size_t filter_bytes(const conv_job_t *j) {
  return (size_t)(j->p.k[0] * j->p.k[1] * j->p.k[2] * (j->p.in_channels / j->p.groups) * j->p.out_channels) *
         weft_cuda_size(j->p.dtype);
}

static WEFT_Failure *take_filter(const conv_job_t *j, const void **io) {
  void *made = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(j->c, filter_bytes(j), &made));
  WEFT_CUDA_TRY(copy_filter(j, false, *io, made));
  *io = made;
  return NULL;
}

/* ---- the ops ---- */

static WEFT_Failure *run_forward(conv_job_t *j, const void *x, const void *filter, WEFT_TensorView *y) {
  static const int64_t none[WEFT_CUDA_SPACE] = {0};
  void *to = y->data;
  WEFT_CUDA_TRY(choose_format(j));
  const bool is_direct = j->p.channels_last == !j->user_first;
  WEFT_CUDA_TRY(take_images(j, true, &x));
  WEFT_CUDA_TRY(take_filter(j, &filter));
  if (!is_direct) WEFT_CUDA_TRY(weft_cuda_host->scratch(j->c, y->bytes, &to));
  WEFT_CUDA_TRY(weft_cuda_convolve(j->c, &j->p, x, filter, to));
  if (is_direct) return NULL;
  return copy_images(j, j->p.out_channels, to, !j->p.channels_last, j->p.out, y->data, j->user_first,
                     j->p.out, none);
}

static WEFT_Failure *run_of_input(conv_job_t *j, const void *dy, const void *filter, WEFT_TensorView *dx) {
  void *to = dx->data;
  WEFT_CUDA_TRY(choose_format(j));
  const bool is_direct = j->p.channels_last == !j->user_first && !j->is_padded;
  WEFT_CUDA_TRY(take_images(j, false, &dy));
  WEFT_CUDA_TRY(take_filter(j, &filter));
  if (!is_direct)
    WEFT_CUDA_TRY(weft_cuda_host->scratch(j->c, image_bytes(j, j->p.in_channels, j->p.in), &to));
  WEFT_CUDA_TRY(weft_cuda_convolve(j->c, &j->p, dy, filter, to));
  if (is_direct) return NULL;
  int64_t behind[WEFT_CUDA_SPACE];
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) behind[i] = -j->before[i];
  if (j->is_padded) WEFT_CUDA_TRY(weft_cuda_fill(j->c, dx->data, 0, dx->bytes)); /* cells under no window */
  return copy_images(j, j->p.in_channels, to, !j->p.channels_last, j->p.in, dx->data, j->user_first,
                     j->s->m.in, behind);
}

static WEFT_Failure *run_of_filter(conv_job_t *j, const void *x, const void *dy, WEFT_TensorView *df) {
  void *to = NULL;
  WEFT_CUDA_TRY(choose_format(j));
  WEFT_CUDA_TRY(take_images(j, true, &x));
  WEFT_CUDA_TRY(take_images(j, false, &dy));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(j->c, filter_bytes(j), &to));
  WEFT_CUDA_TRY(weft_cuda_convolve(j->c, &j->p, x, dy, to));
  return copy_filter(j, true, to, df->data);
}

static WEFT_Failure *run(WEFT_KernelContext *c, const void *param, const void *state, WEFT_TensorView *out) {
  const conv_op_t *op = param;
  const weft_cuda_windows_t *a = state;
  const int rank = a->num_space + 2;
  const bool is_forward = op->kind == WEFT_CUDA_CONV_FORWARD, of_input = op->kind == WEFT_CUDA_CONV_OF_INPUT;
  conv_shapes_t s;
  WEFT_TensorView first, second;
  WEFT_CUDA_TRY(given_shape(c, op, 0, rank, s.x));
  WEFT_CUDA_TRY(given_shape(c, op, 1, rank, s.filter));
  WEFT_CUDA_TRY(plan(op, a, &s));
  weft_cuda_host->input(c, of_input ? 2 : 0, &first);
  weft_cuda_host->input(c, op->kind == WEFT_CUDA_CONV_OF_FILTER ? 2 : 1, &second);
  if (!is_forward) WEFT_CUDA_TRY(check_gradient(op, &s, rank, of_input ? &first : &second));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, is_forward ? s.y : of_input ? s.x : s.filter, out));
  if (out->count == 0) return NULL;
  if (first.count == 0 || second.count == 0) return weft_cuda_fill(c, out->data, 0, out->bytes);
  conv_job_t j = {.c = c, .s = &s};
  describe(op, a, &s, first.dtype, &j);
  if (is_forward) return run_forward(&j, first.data, second.data, out);
  return of_input ? run_of_input(&j, first.data, second.data, out)
                  : run_of_filter(&j, first.data, second.data, out);
}

static WEFT_Failure *compute(WEFT_KernelContext *c) {
  WEFT_TensorView out;
  return run(c, weft_cuda_host->param(c), weft_cuda_host->state(c), &out);
}

const weft_cuda_plain_t weft_cuda_plain_conv2d = {"Conv2D", &conv2d, prepare, run, free, NULL},
                        weft_cuda_plain_conv3d = {"Conv3D", &conv3d, prepare, run, free, NULL};

enum { FIRST = 1, SECOND = 2 };
#define BF16 (UINT32_C(1) << WEFT_CUDA_bf16)
#define ROW(name, types_, op_, host)                                                                        \
  {                                                                                                         \
    .op = name, .type_attr = "T", .types = types_, .prepare = prepare, .compute = compute, .destroy = free, \
    .param = &op_, .host_inputs = host                                                                      \
  }
extern const WEFT_DeviceKernel weft_cuda_conv_kernels[];
const WEFT_DeviceKernel weft_cuda_conv_kernels[] = {
    ROW("Conv2D", WEFT_CUDA_SET(FLOAT), conv2d, 0),
    ROW("Conv2DBackpropFilter", WEFT_CUDA_SET(FLOAT), conv2d_filter, SECOND),
    ROW("Conv2DBackpropInput", WEFT_CUDA_SET(FLOAT), conv2d_input, FIRST),
    ROW("Conv3D", WEFT_CUDA_SET(FLOAT), conv3d, 0),
    ROW("Conv3DBackpropFilter", WEFT_CUDA_SET(FLOAT) & ~BF16, conv3d_filter, 0),
    ROW("Conv3DBackpropFilterV2", WEFT_CUDA_SET(FLOAT), conv3d_filter, SECOND),
    ROW("Conv3DBackpropInput", WEFT_CUDA_SET(FLOAT) & ~BF16, conv3d_input, 0),
    ROW("Conv3DBackpropInputV2", WEFT_CUDA_SET(FLOAT), conv3d_input, FIRST),
    {0},
};
