/* kernels/cpu/debug/numeric_summary.c - how many numbers of which kind a tensor holds. */
#include <math.h>

#include "kernels/cpu/debug/watch.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/common.h"

/* ---- what the numbers are ---- */

enum { CHUNK = 256 };

static int64_t load(const weft_tensor_t *x, int64_t i, double *values) {
  int64_t n = x->count - i < CHUNK ? x->count - i : CHUNK;
  weft_cpu_cast_loop(x->dtype, WEFT_F64)(n, (const char *)x->data + (size_t)i * weft_dtype_size(x->dtype),
                                         values);
  return n;
}

typedef struct census {
  int64_t nan, neg_inf, neg, zero, pos, pos_inf, finite;
  double min, max, sum;
} census_t;

/* Values at or beyond a finite bound count as infinite, though they count for min, max and sum. */
static void count_one(census_t *c, double x, double lower, double upper) {
  if (isnan(x)) {
    c->nan++;
  } else if (isinf(x)) {
    *(x < 0 ? &c->neg_inf : &c->pos_inf) += 1;
  } else {
    if (!isinf(lower) && x <= lower) {
      c->neg_inf++;
    } else if (!isinf(upper) && x >= upper) {
      c->pos_inf++;
    } else {
      *(x < 0 ? &c->neg : x > 0 ? &c->pos : &c->zero) += 1;
    }
    if (x < c->min) c->min = x;
    if (x > c->max) c->max = x;
    c->finite++;
    c->sum += x;
  }
}

static census_t take_census(const weft_tensor_t *x, double lower, double upper) {
  census_t c = {.min = INFINITY, .max = -INFINITY};
  double values[CHUNK];
  for (int64_t i = 0; i < x->count; i += CHUNK) {
    int64_t n = load(x, i, values);
    for (int64_t k = 0; k < n; k++) count_one(&c, values[k], lower, upper);
  }
  return c;
}

static double variance_of(const weft_tensor_t *x, double mean, int64_t finite) {
  double values[CHUNK], sum = 0;
  for (int64_t i = 0; i < x->count; i += CHUNK) {
    int64_t n = load(x, i, values);
    for (int64_t k = 0; k < n; k++) {
      if (isfinite(values[k])) sum += (values[k] - mean) * (values[k] - mean);
    }
  }
  return sum / (double)finite;
}

/* ---- DebugNumericSummary ---- */

typedef struct summary_state {
  weft_watch_t watch;
  double lower, upper;
  bool mute_if_healthy;
} summary_state_t;

static weft_status_t *summary_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  summary_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->lower = (double)weft_knode_float(setup, "lower_bound");
  st->upper = (double)weft_knode_float(setup, "upper_bound");
  st->mute_if_healthy = weft_knode_bool(setup, "mute_if_healthy");
  weft_status_t *s = weft_watch_read(setup, &st->watch);
  if (s == NULL) *out_state = st;
  if (s != NULL) weft_free(st);
  return s;
}

static weft_status_t *summary(weft_kernel_ctx_t *c) {
  enum { FIXED = 14 };
  const summary_state_t *st = c->state;
  const weft_tensor_t *x = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_shape_t shape = weft_shape_vector(FIXED + x->shape.rank);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F64, &shape, &out));
  census_t n = take_census(x, st->lower, st->upper);
  double mean = n.finite > 0 ? n.sum / (double)n.finite : NAN;
  double variance = n.finite > 0 ? variance_of(x, mean, n.finite) : NAN;
  const double fixed[FIXED] = {1,
                               (double)x->count,
                               (double)n.nan,
                               (double)n.neg_inf,
                               (double)n.neg,
                               (double)n.zero,
                               (double)n.pos,
                               (double)n.pos_inf,
                               n.min,
                               n.max,
                               mean,
                               variance,
                               (double)x->dtype,
                               (double)x->shape.rank};
  memcpy(out->data, fixed, sizeof fixed);
  for (int i = 0; i < x->shape.rank; i++) ((double *)out->data)[FIXED + i] = (double)x->shape.dims[i];
  if (st->mute_if_healthy && n.nan == 0 && n.neg_inf == 0 && n.pos_inf == 0) return NULL;
  return weft_watch_publish(&st->watch, out);
}

/* ---- DebugNumericSummaryV2 ---- */

/* TensorDebugMode of debug_event.proto. */
enum { CURT_HEALTH = 2, CONCISE_HEALTH, FULL_HEALTH, SHAPE, REDUCE_INF_NAN_THREE_SLOTS = 8 };
enum { MAX_SLOTS = 11, SHAPE_DIMS = 6 };

/* The last dimensions, zeros behind them. */
static int shape_slots(const weft_tensor_t *x, double id, double *out) {
  const weft_shape_t *s = &x->shape;
  int first = s->rank > SHAPE_DIMS ? s->rank - SHAPE_DIMS : 0;
  out[0] = id;
  out[1] = (double)x->dtype;
  out[2] = (double)s->rank;
  out[3] = (double)x->count;
  for (int i = 0; i < SHAPE_DIMS; i++) out[4 + i] = first + i < s->rank ? (double)s->dims[first + i] : 0;
  return 4 + SHAPE_DIMS;
}

/* How many slots the mode has; 0: there is no such mode. */
static int put_slots(const weft_tensor_t *x, int64_t mode, double id, double *out) {
  if (mode == SHAPE) return shape_slots(x, id, out);
  census_t n = take_census(x, -INFINITY, INFINITY);
  double count = (double)x->count, neg_inf = (double)n.neg_inf, pos_inf = (double)n.pos_inf,
         nan = (double)n.nan;
  switch (mode) {
    case CURT_HEALTH: {
      const double slots[] = {id, n.nan + n.neg_inf + n.pos_inf > 0 ? 1 : 0};
      memcpy(out, slots, sizeof slots);
      return 2;
    }
    case CONCISE_HEALTH: {
      const double slots[] = {id, count, neg_inf, pos_inf, nan};
      memcpy(out, slots, sizeof slots);
      return 5;
    }
    case FULL_HEALTH: {
      const double slots[] = {id,      -1,  (double)x->dtype, (double)x->shape.rank, count,        neg_inf,
                              pos_inf, nan, (double)n.neg,    (double)n.zero,        (double)n.pos};
      memcpy(out, slots, sizeof slots);
      return MAX_SLOTS;
    }
    case REDUCE_INF_NAN_THREE_SLOTS: {
      const double slots[] = {n.neg_inf > 0 ? -INFINITY : 0, n.pos_inf > 0 ? INFINITY : 0,
                              n.nan > 0 ? NAN : 0};
      memcpy(out, slots, sizeof slots);
      return 3;
    }
    default: return 0;
  }
}

WEFT_ATTRS(summary_v2, (INT, tensor_debug_mode), (INT, tensor_id))
static weft_status_t *summary_v2(weft_kernel_ctx_t *c, const summary_v2_attrs_t *attrs) {
  double slots[MAX_SLOTS];
  weft_tensor_t *out = NULL;
  weft_dtype_t dtype = weft_dtype_base(c->node->output_types[0]);
  int digits = dtype == WEFT_F32 ? 24 : 53; /* up to which an id is exact */
  if (attrs->tensor_debug_mode != REDUCE_INF_NAN_THREE_SLOTS && attrs->tensor_id > (int64_t)1 << digits) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "DebugNumericSummaryV2Op requires tensor_id to be less than or equal to (2^%d). Given "
                      "tensor_id:%lld",
                      digits, (long long)attrs->tensor_id);
  }
  int n = put_slots(weft_in(c, 0), attrs->tensor_debug_mode, (double)attrs->tensor_id, slots);
  if (n == 0) {
    return WEFT_ERROR(UNIMPLEMENTED, "Unimplemented tensor debug mode: %lld",
                      (long long)attrs->tensor_debug_mode);
  }
  weft_shape_t shape = weft_shape_vector(n);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  weft_cpu_cast_loop(WEFT_F64, dtype)(n, slots, out->data);
  return NULL;
}

const weft_kernel_t weft_cpu_numeric_summary_kernels[] = {
    {.op = "DebugNumericSummary",
     .type_attr = "T",
     .types = WEFT_SET_REAL | WEFT_DTYPE_BIT(WEFT_BOOL),
     .prepare = summary_prepare,
     .compute = summary,
     .destroy = weft_free},
    {.op = "DebugNumericSummaryV2",
     .type_attr = "T",
     .types = WEFT_SET_REAL | WEFT_DTYPE_BIT(WEFT_BOOL),
     .type_attr2 = "output_dtype",
     .types2 = WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
     WEFT_COMPUTE(summary_v2)},
    {0},
};
