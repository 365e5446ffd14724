/* kernels/cuda/fractional.c - rows of FractionalMaxPool, FractionalAvgPool and their gradients.
 *
 * Where windows begin lies in the host's memory, which makes them (kernels/formulas/fraction.h) and checks
 * those that a gradient is given. That a gradient is given other maxima than the image's is known when the
 * device has looked for them.
 */
#include <math.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/cuda/fractional_args.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/random.h"

#define WEFT_FORMULA static inline
#include "kernels/formulas/fraction.h"

WEFT_CUDA_INSTANCES(max_instances, fraction_max_pool, F32_F64_INDEX)
WEFT_CUDA_INSTANCES(avg_instances, fraction_avg_pool, F32_F64_INDEX)
WEFT_CUDA_INSTANCES(where_instances, fraction_where, F32_F64_INDEX)
WEFT_CUDA_INSTANCES(max_grad_instances, fraction_max_grad, F32_F64_INDEX)
WEFT_CUDA_INSTANCES(avg_grad_instances, fraction_avg_grad, F32_F64_INDEX)
static weft_cuda_function_t reach_function = WEFT_CUDA_FUNCTION("weft_fraction_reach");

/* The state of the pools. */
typedef struct cuda_fractional {
  float ratio[4];
  bool is_pseudo, is_overlapping, is_fixed; /* is_fixed: the same windows each time */
  weft_mutex_t mu;
  /* guarded by mu; of fixed windows: where their random numbers begin. */
  bool has_generator;
  weft_cuda_generator_t generator;
} cuda_fractional_t;

/* ---- attributes ---- */

static bool flag_of(const WEFT_KernelSetup *s, const char *name) {
  int v = 0;
  (void)weft_cuda_host->attr_bool(s, name, &v);
  return v != 0;
}

static WEFT_Failure *read_state(const WEFT_KernelSetup *s, cuda_fractional_t *out) {
  int64_t seed = 0, seed2 = 0;
  if (weft_cuda_host->attr_floats(s, "pooling_ratio", out->ratio, 4) != 4)
    return WEFT_CUDA_INVALID("pooling_ratio field must specify 4 dimensions");
  for (int i = 0; i < 4; i++) {
    if (!(out->ratio[i] >= 1))
      return WEFT_CUDA_INVALID("pooling_ratio cannot be smaller than 1, got: %g", (double)out->ratio[i]);
  }
  if (out->ratio[0] != 1 || out->ratio[3] != 1) {
    return weft_cuda_host->failure(
        WEFT_CUDA_UNIMPLEMENTED,
        "Fractional pooling is not yet supported on the batch nor channel dimension.");
  }
  (void)weft_cuda_host->attr_int(s, "seed", &seed);
  (void)weft_cuda_host->attr_int(s, "seed2", &seed2);
  out->is_fixed = flag_of(s, "deterministic");
  if (!out->is_fixed && (seed != 0 || seed2 != 0))
    return WEFT_CUDA_INVALID("Both seed and seed2 should be 0 if deterministic is false.");
  out->is_pseudo = flag_of(s, "pseudo_random");
  out->is_overlapping = flag_of(s, "overlapping");
  out->has_generator = seed != 0 || seed2 != 0; /* of no seed: a random one */
  out->generator = (weft_cuda_generator_t){.key = (uint64_t)seed, .high = (uint64_t)seed2};
  return NULL;
}

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  cuda_fractional_t state = {.is_pseudo = false}, *made;
  (void)param;
  WEFT_CUDA_TRY(read_state(s, &state));
  made = weft_calloc(1, sizeof *made);
  if (made == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: fractional pooling");
  *made = state;
  weft_mutex_init(&made->mu);
  *out = made;
  return NULL;
}

static void destroy(void *state) {
  cuda_fractional_t *s = state;
  if (s == NULL) return;
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

/* ---- windows ---- */

/* Random words, one after the other. */
typedef struct cuda_words {
  weft_cuda_generator_t generator;
  uint32_t words[4];
  int used;
} cuda_words_t;

static uint32_t next_word(void *arg) {
  cuda_words_t *w = arg;
  if (w->used == 4) {
    weft_cuda_generator_next(&w->generator, w->words);
    w->used = 0;
  }
  return w->words[w->used++];
}

static double next_uniform(cuda_words_t *w) {
  const uint64_t high = next_word(w) & 0xfffffu, bits = (uint64_t)1023 << 52 | high << 32 | next_word(w);
  double v;
  memcpy(&v, &bits, sizeof v);
  return v - 1;
}

/* Those of a run, `blocks` of which it uses. */
static WEFT_Failure *take_numbers(WEFT_KernelContext *c, uint64_t blocks, weft_cuda_generator_t *out) {
  cuda_fractional_t *s = weft_cuda_host->state(c);
  WEFT_Failure *f = NULL;
  weft_mutex_lock(&s->mu);
  if (!s->has_generator) {
    uint64_t counter[2] = {0};
    f = weft_cuda_host->random_take(c, blocks, &s->generator.key, counter);
    s->generator.low = counter[0];
    s->generator.high = counter[1];
    s->has_generator = f == NULL && s->is_fixed;
  }
  *out = s->generator;
  weft_mutex_unlock(&s->mu);
  return f;
}

/* Where windows of dimension d begin, which lies in the host's memory, on the device. */
static WEFT_Failure *send_starts(WEFT_KernelContext *c, const int64_t *starts, int d,
                                 weft_cuda_fractions_t *j) {
  void *at = NULL;
  const size_t bytes = (size_t)(j->out[d] + 1) * sizeof *starts;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &at));
  j->starts[d] = at;
  return weft_cuda_copy(c, at, starts, bytes);
}

/* Makes outputs 1 and 2. */
static WEFT_Failure *make_windows(WEFT_KernelContext *c, weft_cuda_fractions_t *j) {
  const cuda_fractional_t *s = weft_cuda_host->state(c);
  uint64_t blocks[2];
  for (int d = 0; d < 2; d++) blocks[d] = s->is_pseudo ? 1 : (uint64_t)(j->out[d] + 3) / 4;
  weft_cuda_generator_t g;
  WEFT_CUDA_TRY(take_numbers(c, blocks[0] + blocks[1], &g));
  for (int d = 0; d < 2; d++) {
    const int64_t count = j->out[d] + 1;
    WEFT_TensorView v;
    cuda_words_t words = {.generator = g, .used = 4};
    WEFT_CUDA_TRY(weft_cuda_host->output(c, d + 1, 1, &count, &v));
    if (s->is_pseudo) {
      weft_fraction_regular(j->in[d], j->out[d], next_uniform(&words), v.data);
    } else {
      weft_fraction_random(j->in[d], j->out[d], next_word, &words, v.data);
    }
    WEFT_CUDA_TRY(send_starts(c, v.data, d, j));
    g.low += blocks[d];
    if (g.low < blocks[d]) g.high++;
  }
  return NULL;
}

/* ---- pools ---- */

static WEFT_Failure *pool(WEFT_KernelContext *c) {
  const cuda_fractional_t *s = weft_cuda_host->state(c);
  const weft_cuda_instances_t *const *f = weft_cuda_host->param(c);
  WEFT_TensorView x, y;
  int64_t dims[4];
  weft_cuda_host->input(c, 0, &x);
  if (x.rank != 4) return WEFT_CUDA_INVALID("tensor_in must be 4-dimensional");
  for (int i = 0; i < 4; i++) {
    const float dim = (float)x.dims[i];
    if (!(dim >= s->ratio[i]) || x.dims[i] > INT32_MAX) {
      return WEFT_CUDA_INVALID(
          "Pooling ratio is higher than input dimension size for dimension %d. Input dim size: %lld pooling "
          "ratio: %g",
          i, (long long)x.dims[i], (double)s->ratio[i]);
    }
    dims[i] = (int64_t)floorf(dim / s->ratio[i]);
  }
  weft_cuda_fractions_t j = {.images = dims[0],
                             .channels = dims[3],
                             .in = {x.dims[1], x.dims[2]},
                             .out = {dims[1], dims[2]},
                             .is_overlapping = s->is_overlapping};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  WEFT_CUDA_TRY(make_windows(c, &j));
  void *args[] = {&x.data, &y.data, &j, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(*f, x.dtype), y.count, 1, args);
}

/* ---- gradients ---- */

static WEFT_Failure *prepare_grad(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  bool *is_overlapping = weft_calloc(1, sizeof *is_overlapping);
  if (is_overlapping == NULL)
    return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: fractional pooling");
  *is_overlapping = flag_of(s, "overlapping");
  *out = is_overlapping;
  return NULL;
}

/* Inputs `at` and `at + 1`: where windows of rows and of columns begin. */
static WEFT_Failure *take_windows(WEFT_KernelContext *c, int at, const char *const *names,
                                  weft_cuda_fractions_t *j) {
  const int64_t *starts[2];
  for (int d = 0; d < 2; d++) {
    WEFT_TensorView v;
    weft_cuda_host->input(c, at + d, &v);
    starts[d] = v.data;
    if (v.count < j->out[d] + 1) {
      return WEFT_CUDA_INVALID("%s must have at least %lld elements, but got %lld", names[d],
                               (long long)j->out[d] + 1, (long long)v.count);
    }
    for (int64_t k = 0; k < j->out[d]; k++) {
      int64_t first, last;
      weft_fraction_cells(starts[d], j->in[d], j->is_overlapping, k, &first, &last);
      if (first >= 0 && last >= 0) continue;
      return WEFT_CUDA_INVALID("%s values must not be negative, got %lld", names[d], (long long)starts[d][k]);
    }
  }
  for (int d = 0; d < 2; d++) {
    const size_t bytes = (size_t)j->in[d] * sizeof(int64_t);
    void *firsts = NULL, *ends = NULL;
    WEFT_CUDA_TRY(send_starts(c, starts[d], d, j));
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &firsts));
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &ends));
    WEFT_CUDA_TRY(weft_cuda_fill(c, firsts, 0x7f, bytes)); /* above every window's number */
    WEFT_CUDA_TRY(weft_cuda_fill(c, ends, 0, bytes));
    void *args[] = {&j->starts[d], &j->in[d], &j->out[d], &j->is_overlapping, &firsts, &ends};
    WEFT_CUDA_TRY(weft_cuda_launch_over(c, &reach_function, j->out[d], 1, args));
    j->firsts[d] = firsts;
    j->ends[d] = ends;
  }
  return NULL;
}

static WEFT_Failure *check_max_grad(const WEFT_TensorView v[5]) {
  static const char *const names[] = {"orig_input", "orig_output", "out_backprop", "row_pooling_sequence",
                                      "col_pooling_sequence"};
  for (int i = 0; i < 3; i++) {
    if (v[i].rank == 4 && v[i].count > 0) continue;
    return WEFT_CUDA_INVALID("%s should be a tensor of rank 4 with elements, got %s", names[i],
                             WEFT_CUDA_SHAPE(&v[i]));
  }
  if (!weft_cuda_same_shape(&v[1], &v[2]) || v[0].dims[0] != v[1].dims[0] || v[0].dims[3] != v[1].dims[3]) {
    return WEFT_CUDA_INVALID("orig_input %s, orig_output %s and out_backprop %s do not fit",
                             WEFT_CUDA_SHAPE(&v[0]), WEFT_CUDA_SHAPE(&v[1]), WEFT_CUDA_SHAPE(&v[2]));
  }
  for (int i = 3; i < 5; i++) {
    const int64_t wanted = v[1].dims[i - 2] + 1;
    if (v[i].rank == 1 && v[i].dims[0] == wanted) continue;
    return WEFT_CUDA_INVALID("%s must be a vector of %lld elements, received shape %s", names[i],
                             (long long)wanted, WEFT_CUDA_SHAPE(&v[i]));
  }
  return NULL;
}

static WEFT_Failure *max_grad(WEFT_KernelContext *c) {
  static const char *const names[] = {"row_pooling_sequence", "col_pooling_sequence"};
  const bool *is_overlapping = weft_cuda_host->state(c);
  WEFT_TensorView v[5], dx;
  void *where = NULL, *bad = NULL;
  for (int i = 0; i < 5; i++) weft_cuda_host->input(c, i, &v[i]);
  WEFT_CUDA_TRY(check_max_grad(v));
  weft_cuda_fractions_t j = {.images = v[1].dims[0],
                             .channels = v[1].dims[3],
                             .in = {v[0].dims[1], v[0].dims[2]},
                             .out = {v[1].dims[1], v[1].dims[2]},
                             .is_overlapping = *is_overlapping};
  WEFT_CUDA_TRY(take_windows(c, 3, names, &j));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, v[0].dims, &dx));
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &bad));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)v[1].count * sizeof(int64_t), &where));
  void *find[] = {&v[0].data, &v[1].data, &where, &bad, &j, &v[1].count},
       *give[] = {&v[2].data, &where, &dx.data, &j, &dx.count};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&where_instances, dx.dtype), v[1].count, 1, find));
  WEFT_CUDA_TRY(weft_cuda_note_send(c, bad));
  return weft_cuda_launch_over(c, weft_cuda_pick(&max_grad_instances, dx.dtype), dx.count, 1, give);
}

static WEFT_Failure *max_grad_finish(WEFT_KernelContext *c) {
  bool is_bad = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &is_bad));
  return is_bad ? WEFT_CUDA_INVALID("orig_output is not what these windows make of orig_input") : NULL;
}

/* The shape in input 0. */
static WEFT_Failure *check_avg_grad(const WEFT_TensorView *size, const WEFT_TensorView *dy, int64_t *dims) {
  if (size->rank != 1 || size->count != 4)
    return WEFT_CUDA_INVALID("original input tensor shape must be 1-dimensional and 4 elements");
  if (dy->rank != 4) return WEFT_CUDA_INVALID("out_backprop must be 4-dimensional");
  if (dy->count == 0)
    return WEFT_CUDA_INVALID("out_backprop must be positive for all dimension, got %s", WEFT_CUDA_SHAPE(dy));
  int64_t count = 1;
  for (int d = 0; d < 4; d++) {
    dims[d] = weft_cuda_int_at(size, d);
    if (dims[d] < 0) return WEFT_CUDA_INVALID("Dimension %d of a shape must be >= 0", (int)dims[d]);
    if (__builtin_mul_overflow(count, dims[d], &count))
      return WEFT_CUDA_INVALID("a tensor of that shape has too many elements");
  }
  if (dims[1] == 0 || dims[2] == 0) return WEFT_CUDA_INVALID("Rows and columns of input must not be 0");
  if (dims[0] >= dy->dims[0] && dims[3] >= dy->dims[3]) return NULL;
  return WEFT_CUDA_INVALID("out_backprop %s does not fit an input of shape [%lld,%lld,%lld,%lld]",
                           WEFT_CUDA_SHAPE(dy), (long long)dims[0], (long long)dims[1], (long long)dims[2],
                           (long long)dims[3]);
}

static WEFT_Failure *avg_grad(WEFT_KernelContext *c) {
  static const char *const names[] = {"Row sequence tensor", "Column sequence tensor"};
  const bool *is_overlapping = weft_cuda_host->state(c);
  WEFT_TensorView size, dy, dx;
  int64_t dims[4];
  weft_cuda_host->input(c, 0, &size);
  weft_cuda_host->input(c, 1, &dy);
  WEFT_CUDA_TRY(check_avg_grad(&size, &dy, dims));
  weft_cuda_fractions_t j = {.images = dy.dims[0],
                             .channels = dy.dims[3],
                             .in = {dims[1], dims[2]},
                             .out = {dy.dims[1], dy.dims[2]},
                             .is_overlapping = *is_overlapping};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &dx));
  WEFT_CUDA_TRY(take_windows(c, 2, names, &j));
  void *args[] = {&dy.data, &dx.data, &dims[3], &j, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&avg_grad_instances, dx.dtype), dx.count, 1, args);
}

enum { FIRST = 1, SECOND = 2, THIRD = 4, FOURTH = 8, FIFTH = 16 };
#define POOL(op_, instances)                                                                                 \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64_INDEX), .prepare = prepare, .compute = pool, \
    .destroy = destroy, .host_outputs = SECOND | THIRD, .param = &(const weft_cuda_instances_t *const) {     \
      &instances                                                                                             \
    }                                                                                                        \
  }
#define GRAD(op_, compute_, finish_, host)                                                       \
  {                                                                                              \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64_INDEX), .prepare = prepare_grad, \
    .compute = compute_, .finish = finish_, .destroy = weft_free, .host_inputs = host            \
  }
const WEFT_DeviceKernel weft_cuda_fractional_kernels[] = {
    POOL("FractionalAvgPool", avg_instances),
    GRAD("FractionalAvgPoolGrad", avg_grad, NULL, FIRST | THIRD | FOURTH),
    POOL("FractionalMaxPool", max_instances),
    GRAD("FractionalMaxPoolGrad", max_grad, max_grad_finish, FOURTH | FIFTH),
    {.op = NULL},
};
