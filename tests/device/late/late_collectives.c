/* tests/device/late/late_collectives.c - collectives between LATE devices: plain loops, on the queue of the
 * first rank, behind the pointers of all of them.
 *
 * What is reduced is summed as the host's ring does: the elements of chunk c in the order c, c+1, ..., c-1.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/device/late/late.h"

enum { F32 = 1, F64 = 2, I32 = 3, I64 = 9, BF16 = 14 }; /* TF_DataType */

typedef struct late_communicator {
  int n;
  weft_late_device_t *devices[];
} late_communicator_t;

typedef struct late_collective {
  WEFT_Collective what;
  int n;
  int64_t *bounds;
  WEFT_CollectiveRank *ranks; /* the bytes behind the pointers */
} late_collective_t;

static size_t size_of(int dtype) { return dtype == F64 || dtype == I64 ? 8 : dtype == BF16 ? 2 : 4; }
static bool is_known(int dtype) {
  return dtype == F32 || dtype == F64 || dtype == I32 || dtype == I64 || dtype == BF16;
}

/* ---- reductions ---- */

/* A NaN on either side of min and max gives NaN. Integers wrap. */
#define COMBINE(T, wide)                                        \
  static T combine_##T(WEFT_CollectiveReduction op, T a, T b) { \
    switch (op) {                                               \
      case WEFT_COLLECTIVE_SUM: return (T)((wide)a + (wide)b);  \
      case WEFT_COLLECTIVE_PROD: return (T)((wide)a * (wide)b); \
      case WEFT_COLLECTIVE_MIN: return a < b || a != a ? a : b; \
      case WEFT_COLLECTIVE_MAX: return a > b || a != a ? a : b; \
    }                                                           \
    return a;                                                   \
  }
COMBINE(float, float)
COMBINE(double, double)
COMBINE(int32_t, uint32_t)
COMBINE(int64_t, uint64_t)
#undef COMBINE

static float from_bf16(uint16_t v) {
  const uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* To the nearest, ties to even. */
static uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* to = by op from, at element i. */
static void join(const WEFT_Collective *w, void *to, int64_t at, const void *from, int64_t i) {
  const WEFT_CollectiveReduction op = w->reduction;
  switch (w->dtype) {
    case F32: ((float *)to)[at] = combine_float(op, ((const float *)from)[i], ((float *)to)[at]); break;
    case F64: ((double *)to)[at] = combine_double(op, ((const double *)from)[i], ((double *)to)[at]); break;
    case I32:
      ((int32_t *)to)[at] = combine_int32_t(op, ((const int32_t *)from)[i], ((int32_t *)to)[at]);
      break;
    case I64:
      ((int64_t *)to)[at] = combine_int64_t(op, ((const int64_t *)from)[i], ((int64_t *)to)[at]);
      break;
    default:
      ((uint16_t *)to)[at] =
          to_bf16(combine_float(op, from_bf16(((const uint16_t *)from)[i]), from_bf16(((uint16_t *)to)[at])));
      break;
  }
}

static void divide(int dtype, void *to, int64_t at, int n) {
  switch (dtype) {
    case F32: ((float *)to)[at] /= (float)n; break;
    case F64: ((double *)to)[at] /= n; break;
    case I32: ((int32_t *)to)[at] /= n; break;
    case I64: ((int64_t *)to)[at] /= n; break;
    default: ((uint16_t *)to)[at] = to_bf16(from_bf16(((uint16_t *)to)[at]) / (float)n); break;
  }
}

/* The reduction of element i, in to[0]. */
static void reduce_element(const late_collective_t *c, int first, int64_t i, void *to) {
  const size_t size = size_of(c->what.dtype);
  memcpy(to, (const char *)c->ranks[first].input + (size_t)i * size, size);
  for (int j = 1; j < c->n; j++) join(&c->what, to, 0, c->ranks[(first + j) % c->n].input, i);
  if (c->what.is_divided) divide(c->what.dtype, to, 0, c->n);
}

static void reduce_all(const late_collective_t *c) {
  const size_t size = size_of(c->what.dtype);
  int64_t result = 0;
  int chunk = 0;
  for (int64_t i = 0; i < c->what.count; i++) {
    while (i >= c->what.count / c->n * (chunk + 1) + c->what.count % c->n * (chunk + 1) / c->n) chunk++;
    reduce_element(c, chunk, i, &result);
    for (int r = 0; r < c->n; r++) memcpy((char *)c->ranks[r].output + (size_t)i * size, &result, size);
  }
}

static void reduce_parts(const late_collective_t *c) {
  const size_t size = size_of(c->what.dtype);
  int64_t result = 0;
  for (int r = 0; r < c->n; r++) {
    for (int64_t i = c->bounds[r]; i < c->bounds[r + 1]; i++) {
      reduce_element(c, (r + 1) % c->n, i, &result);
      memcpy((char *)c->ranks[r].output + (size_t)(i - c->bounds[r]) * size, &result, size);
    }
  }
}

/* ---- moves ---- */

static void move(const late_collective_t *c, int from, int64_t from_at, int to, int64_t to_at,
                 int64_t count) {
  const size_t size = size_of(c->what.dtype);
  const char *a = (const char *)c->ranks[from].input + (size_t)from_at * size;
  char *b = (char *)c->ranks[to].output + (size_t)to_at * size;
  if (count > 0 && a != b) memcpy(b, a, (size_t)count * size);
}

static void move_all(const late_collective_t *c) {
  const int64_t count = c->what.count;
  for (int to = 0; to < c->n; to++) {
    if (c->what.kind == WEFT_COLLECTIVE_BROADCAST) move(c, c->what.root, 0, to, 0, count);
    for (int from = 0; from < c->n; from++) {
      if (c->what.kind == WEFT_COLLECTIVE_GATHER)
        move(c, from, 0, to, c->bounds[from], c->bounds[from + 1] - c->bounds[from]);
      if (c->what.kind == WEFT_COLLECTIVE_ALL_TO_ALL) move(c, from, to * count, to, from * count, count);
    }
  }
}

/* ---- on the queue ---- */

static void free_collective(late_collective_t *c) {
  free(c->bounds);
  free(c->ranks);
  free(c);
}

static WEFT_Failure *run(void *arg, const WEFT_Failure *poison) {
  late_collective_t *c = arg;
  if (poison == NULL) {
    if (c->what.kind == WEFT_COLLECTIVE_REDUCE) reduce_all(c);
    if (c->what.kind == WEFT_COLLECTIVE_REDUCE_SCATTER) reduce_parts(c);
    move_all(c);
  }
  free_collective(c);
  return NULL;
}

static WEFT_Failure *no_memory(void) {
  return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "out of memory: a late collective");
}

static WEFT_Failure *enqueue(void *communicator, const WEFT_Collective *what,
                             const WEFT_CollectiveRank *ranks) {
  const late_communicator_t *m = communicator;
  if (!is_known(what->dtype))
    return weft_late_host->failure(WEFT_LATE_UNIMPLEMENTED, "no late collectives of type %d", what->dtype);
  late_collective_t *c = calloc(1, sizeof *c);
  if (c == NULL) return no_memory();
  const size_t n = (size_t)m->n;
  c->what = *what;
  c->n = m->n;
  c->ranks = calloc(n, sizeof *c->ranks);
  c->bounds = calloc(n + 1, sizeof *c->bounds);
  if (c->ranks == NULL || c->bounds == NULL) {
    free_collective(c);
    return no_memory();
  }
  if (what->bounds != NULL) memcpy(c->bounds, what->bounds, (n + 1) * sizeof *c->bounds);
  for (int r = 0; r < m->n; r++) {
    c->ranks[r].input = weft_late_bytes(m->devices[r], (void *)(uintptr_t)ranks[r].input);
    c->ranks[r].output = weft_late_bytes(m->devices[r], ranks[r].output);
  }
  WEFT_Failure *f = weft_late_enqueue(weft_late_compute(m->devices[0]), run, c);
  if (f != NULL) free_collective(c);
  return f;
}

/* ---- communicators ---- */

static WEFT_Failure *join_devices(void *const *devices, int n, int *out_by_first, void **out) {
  if (weft_late_options()->by_host)
    return weft_late_host->failure(WEFT_LATE_UNIMPLEMENTED, "late devices do not reach each other");
  late_communicator_t *m = calloc(1, sizeof *m + (size_t)n * sizeof m->devices[0]);
  if (m == NULL) return no_memory();
  m->n = n;
  for (int i = 0; i < n; i++) m->devices[i] = devices[i];
  *out_by_first = 1;
  *out = m;
  return NULL;
}

const WEFT_DeviceCollectives weft_late_collectives = {
    .size = sizeof(WEFT_DeviceCollectives), .join = join_devices, .leave = free, .enqueue = enqueue};
