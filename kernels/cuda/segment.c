/* kernels/cuda/segment.c - rows of SegmentSum and its kin, of SparseSegmentSum and its kin, and of their
 * gradients.
 *
 * Ids and indices are read in the host's memory: the last id is the size of the result, and what is wrong
 * with them is said before anything runs. What each row of the result is made of is put together there, too,
 * so that the device adds up in a fixed order.
 */
#include "kernels/cuda/segment.h"

#include <math.h>

#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(line_instances, segment_lines, FLOAT_INDEX)
WEFT_CUDA_INSTANCES(block_instances, segment_blocks, FLOAT_INDEX)

/* The param of a row. */
typedef struct cuda_segment_op {
  int how, divide;
} segment_op_t;

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: segments");
}

/* ---- what rows are made of ---- */

typedef weft_cuda_segment_plan_t plan_t;

WEFT_Failure *weft_cuda_segment_plan_init(plan_t *p, int64_t num, int64_t n) {
  *p = (plan_t){.num = num, .n = n};
  if (num > INT64_MAX / 16 - 2 * n - 1) return no_memory();
  p->starts = calloc((size_t)(num + 1 + 2 * n), sizeof *p->starts);
  if (p->starts == NULL) return no_memory();
  p->rows = p->starts + num + 1;
  p->factors = (double *)(void *)(p->rows + n);
  return NULL;
}

void weft_cuda_segment_plan_deinit(plan_t *p) {
  free(p->starts);
  p->starts = NULL;
}

/* starts[r + 1] holds how many entries row r has: makes them where the rows' entries begin. */
static void plan_add_up(plan_t *p) {
  for (int64_t r = 0; r < p->num; r++) p->starts[r + 1] += p->starts[r];
}

WEFT_Failure *weft_cuda_segment_plan_run(WEFT_KernelContext *c, const plan_t *p, int how, int divide,
                                         int dtype, const void *x, void *y, int64_t inner, bool rounds) {
  enum { LONG = 128, WAVES = 16 };
  void *sent = NULL;
  if (p->num * inner == 0) return NULL;
  /* complex numbers are added as twice as many real ones */
  const int64_t parts = weft_cuda_part_type(dtype) != dtype ? 2 : 1, count = parts * p->num * inner;
  dtype = weft_cuda_part_type(dtype);
  const int64_t words = p->num + 1 + (p->has_factors ? 2 * p->n : p->has_rows ? p->n : 0);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)words * sizeof(int64_t), &sent));
  WEFT_CUDA_TRY(weft_cuda_copy(c, sent, p->starts, (size_t)words * sizeof(int64_t)));
  const int64_t *starts = sent, *rows = starts + p->num + 1;
  weft_cuda_segments_t s = {.starts = starts,
                            .rows = p->has_rows ? rows : NULL,
                            .factors = p->has_factors ? (const double *)(const void *)(rows + p->n) : NULL,
                            .num = p->num,
                            .inner = parts * inner,
                            .how = how,
                            .divide = p->has_factors ? WEFT_CUDA_UNDIVIDED : divide,
                            .rounds = rounds};
  void *args[] = {&x, &y, &s};
  const int64_t most = (int64_t)weft_cuda_num_processors(c) * WAVES;
  if (p->n / p->num < LONG || count > most * WEFT_CUDA_BLOCK)
    return weft_cuda_launch_over(c, weft_cuda_pick(&line_instances, dtype), count, 1, args);
  const weft_cuda_geometry_t g = {
      {(unsigned)(count < most ? count : most), 1, 1}, {WEFT_CUDA_BLOCK, 1, 1}, 0};
  return weft_cuda_launch(c, weft_cuda_pick(&block_instances, dtype), &g, args);
}

/* ---- sorted ids ---- */

/* `pick` names the rows of the data (NULL: one after another). */
static WEFT_Failure *check_sorted(const WEFT_TensorView *ids, const WEFT_TensorView *pick, int64_t num,
                                  int64_t size) {
  for (int64_t i = 0; i < ids->count; i++) {
    const int64_t id = weft_cuda_int_at(ids, i), from = pick == NULL ? i : weft_cuda_int_at(pick, i);
    if (i + 1 < ids->count && weft_cuda_int_at(ids, i + 1) < id)
      return WEFT_CUDA_INVALID("segment ids are not increasing");
    if (id < 0 || id >= num) {
      return WEFT_CUDA_INVALID(
          "Segment id %lld out of range [0, %lld), possibly because 'segment_ids' input is not sorted.",
          (long long)id, (long long)num);
    }
    if (from < 0 || from >= size) {
      return WEFT_CUDA_INVALID("Bad: indices[%lld] == %lld out of range [0, %lld)", (long long)i,
                               (long long)from, (long long)size);
    }
  }
  return NULL;
}

/* `num` is the size of the result, or -1 to take it from the last id. */
static WEFT_Failure *sorted(WEFT_KernelContext *c, const WEFT_TensorView *data, const WEFT_TensorView *pick,
                            const WEFT_TensorView *ids, int64_t num) {
  int64_t dims[WEFT_CUDA_DIMS];
  WEFT_TensorView y;
  if (num < 0) {
    const int64_t last = ids->count > 0 ? weft_cuda_int_at(ids, ids->count - 1) : -1;
    if (last == INT64_MAX) return WEFT_CUDA_INVALID("segment ids must be < num_segments");
    num = last + 1;
  }
  if (num < 0) return WEFT_CUDA_INVALID("segment ids must be >= 0");
  WEFT_CUDA_TRY(check_sorted(ids, pick, num, data->dims[0]));
  for (int d = 0; d < data->rank; d++) dims[d] = d == 0 ? num : data->dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, data->rank, dims, &y));
  if (y.count == 0) return NULL;
  plan_t p;
  WEFT_CUDA_TRY(weft_cuda_segment_plan_init(&p, num, ids->count));
  p.has_rows = pick != NULL;
  for (int64_t i = 0; i < ids->count; i++) {
    p.starts[weft_cuda_int_at(ids, i) + 1]++;
    if (pick != NULL) p.rows[i] = weft_cuda_int_at(pick, i);
  }
  plan_add_up(&p);
  const segment_op_t *op = weft_cuda_host->param(c);
  WEFT_Failure *failure =
      weft_cuda_segment_plan_run(c, &p, op->how, op->divide, data->dtype, data->data, y.data,
                                 weft_cuda_product(dims, 1, data->rank), pick == NULL);
  weft_cuda_segment_plan_deinit(&p);
  return failure;
}

static WEFT_Failure *segment(WEFT_KernelContext *c) {
  WEFT_TensorView data, ids;
  weft_cuda_host->input(c, 0, &data);
  weft_cuda_host->input(c, 1, &ids);
  if (ids.rank != 1) return WEFT_CUDA_INVALID("segment_ids should be a vector.");
  if (data.rank < 1) return WEFT_CUDA_INVALID("Shape must be at least rank 1");
  if (data.dims[0] != ids.count)
    return WEFT_CUDA_INVALID("segment_ids should be the same size as dimension 0 of input.");
  return sorted(c, &data, NULL, &ids, -1);
}

static WEFT_Failure *sparse_inputs(WEFT_KernelContext *c, WEFT_TensorView *data, WEFT_TensorView *indices,
                                   WEFT_TensorView *ids) {
  weft_cuda_host->input(c, 0, data);
  weft_cuda_host->input(c, 1, indices);
  weft_cuda_host->input(c, 2, ids);
  if (indices->rank != 1) return WEFT_CUDA_INVALID("indices should be a vector.");
  if (ids->rank != 1) return WEFT_CUDA_INVALID("segment_ids should be a vector.");
  if (ids->count != indices->count)
    return WEFT_CUDA_INVALID("segment_ids and indices should have same size.");
  if (data->rank < 1) return WEFT_CUDA_INVALID("Shape must be at least rank 1");
  return NULL;
}

static WEFT_Failure *sparse(WEFT_KernelContext *c) {
  WEFT_TensorView data, indices, ids;
  WEFT_CUDA_TRY(sparse_inputs(c, &data, &indices, &ids));
  return sorted(c, &data, &indices, &ids, -1);
}

/* The same with as many segments as input 3 says. */
static WEFT_Failure *sparse_sized(WEFT_KernelContext *c) {
  WEFT_TensorView data, indices, ids, num;
  weft_cuda_host->input(c, 3, &num);
  if (num.rank != 0)
    return WEFT_CUDA_INVALID("num_segments should be a scalar, not shape %s", WEFT_CUDA_SHAPE(&num));
  WEFT_CUDA_TRY(sparse_inputs(c, &data, &indices, &ids));
  const int64_t n = weft_cuda_int_at(&num, 0);
  if (n < 0) return WEFT_CUDA_INVALID("segment ids must be >= 0");
  if (ids.count > 0 && weft_cuda_int_at(&ids, ids.count - 1) >= n)
    return WEFT_CUDA_INVALID("segment ids must be < num_segments");
  return sorted(c, &data, &indices, &ids, n);
}

/* ---- gradients: each segment's row goes back to the rows that it was made of ---- */

static WEFT_Failure *check_spread(const WEFT_TensorView *ids, const WEFT_TensorView *indices, int64_t num,
                                  int64_t size) {
  for (int64_t i = 0; i < ids->count; i++) {
    const int64_t id = weft_cuda_int_at(ids, i), to = weft_cuda_int_at(indices, i);
    if (id < 0 || id >= num) {
      return WEFT_CUDA_INVALID("Segment id %lld out of range [0, %lld).", (long long)id, (long long)num);
    }
    if (to < 0 || to >= size)
      return WEFT_CUDA_INVALID("Index %lld out of range [0, %lld).", (long long)to, (long long)size);
  }
  return NULL;
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The work of a gradient, in the host's memory. */
typedef struct cuda_segment_spread {
  int64_t n, num; /* entries; rows of the result */
  int64_t *unique, *places, *counts;
} spread_t;

/* Each index once, ascending, in `unique`, and in `places` where each index is among them. */
static int64_t number_indices(const WEFT_TensorView *indices, spread_t *s) {
  int64_t count = 0;
  for (int64_t i = 0; i < s->n; i++) s->unique[i] = weft_cuda_int_at(indices, i);
  qsort(s->unique, (size_t)s->n, sizeof *s->unique, by_number);
  for (int64_t i = 0; i < s->n; i++) {
    if (count == 0 || s->unique[count - 1] != s->unique[i]) s->unique[count++] = s->unique[i];
  }
  for (int64_t i = 0; i < s->n; i++) {
    const int64_t wanted = weft_cuda_int_at(indices, i);
    s->places[i] =
        (int64_t *)bsearch(&wanted, s->unique, (size_t)count, sizeof wanted, by_number) - s->unique;
  }
  return count;
}

/* Output 1: the rows that output 0 has. */
static WEFT_Failure *put_unique(WEFT_KernelContext *c, const spread_t *s) {
  WEFT_TensorView which;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &s->num, &which));
  if (which.dtype == WEFT_CUDA_i32) {
    int32_t *narrow = (int32_t *)(void *)s->unique; /* in place: no element is read after it is written */
    for (int64_t i = 0; i < s->num; i++) {
      const int32_t v = (int32_t)s->unique[i];
      memcpy(&narrow[i], &v, sizeof v);
    }
  }
  return weft_cuda_copy(c, which.data, s->unique, which.bytes);
}

/* The entries of each row of the result, in their order. */
static WEFT_Failure *plan_spread(const segment_op_t *op, const WEFT_TensorView *ids, const spread_t *s,
                                 plan_t *p) {
  WEFT_CUDA_TRY(weft_cuda_segment_plan_init(p, s->num, s->n));
  p->has_rows = true;
  p->has_factors = op->divide != WEFT_CUDA_UNDIVIDED;
  for (int64_t i = 0; i < s->n; i++) p->starts[s->places[i] + 1]++;
  plan_add_up(p);
  for (int64_t i = 0; i < s->n; i++) {
    const int64_t id = weft_cuda_int_at(ids, i), at = p->starts[s->places[i]]++;
    const double count = (double)s->counts[id];
    p->rows[at] = id;
    p->factors[at] = 1 / (op->divide == WEFT_CUDA_BY_ROOT ? sqrt(count) : count);
  }
  /* Each start has moved to the next one's. */
  memmove(p->starts + 1, p->starts, (size_t)p->num * sizeof *p->starts);
  p->starts[0] = 0;
  return NULL;
}

static WEFT_Failure *spread(WEFT_KernelContext *c, const WEFT_TensorView *grad,
                            const WEFT_TensorView *indices, const WEFT_TensorView *ids, spread_t *s) {
  int64_t dims[WEFT_CUDA_DIMS];
  WEFT_TensorView y;
  if (weft_cuda_host->num_outputs(c) == 2) {
    s->num = number_indices(indices, s);
    WEFT_CUDA_TRY(put_unique(c, s));
  } else {
    for (int64_t i = 0; i < s->n; i++) s->places[i] = weft_cuda_int_at(indices, i);
  }
  for (int d = 0; d < grad->rank; d++) dims[d] = d == 0 ? s->num : grad->dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, grad->rank, dims, &y));
  if (y.count == 0) return NULL;
  for (int64_t i = 0; i < s->n; i++) s->counts[weft_cuda_int_at(ids, i)]++;
  const segment_op_t *op = weft_cuda_host->param(c);
  plan_t p;
  WEFT_CUDA_TRY(plan_spread(op, ids, s, &p));
  WEFT_Failure *failure = weft_cuda_segment_plan_run(c, &p, op->how, op->divide, grad->dtype, grad->data,
                                                     y.data, weft_cuda_product(dims, 1, grad->rank), false);
  weft_cuda_segment_plan_deinit(&p);
  return failure;
}

static WEFT_Failure *put_none(WEFT_KernelContext *c, const WEFT_TensorView *grad) {
  int64_t dims[WEFT_CUDA_DIMS];
  WEFT_TensorView y;
  for (int d = 0; d < grad->rank; d++) dims[d] = d == 0 ? 0 : grad->dims[d];
  if (weft_cuda_host->num_outputs(c) == 2) WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, dims, &y));
  return weft_cuda_host->output(c, 0, grad->rank, dims, &y);
}

static WEFT_Failure *sparse_grad(WEFT_KernelContext *c) {
  WEFT_TensorView grad, indices, ids, size;
  WEFT_CUDA_TRY(sparse_inputs(c, &grad, &indices, &ids));
  weft_cuda_host->input(c, 3, &size);
  if (size.rank != 0)
    return WEFT_CUDA_INVALID("output_dim0 must be a scalar, got shape %s", WEFT_CUDA_SHAPE(&size));
  const int64_t num = weft_cuda_int_at(&size, 0);
  if (num < 0) return WEFT_CUDA_INVALID("output_dim0 must be >= 0, got %lld", (long long)num);
  if (num == 0) return put_none(c, &grad); /* TensorFlow looks at no index then */
  WEFT_CUDA_TRY(check_spread(&ids, &indices, grad.dims[0], num));
  spread_t s = {.n = ids.count, .num = num};
  s.unique = calloc((size_t)(2 * s.n + grad.dims[0] + 1), sizeof *s.unique);
  if (s.unique == NULL) return no_memory();
  s.places = s.unique + s.n;
  s.counts = s.places + s.n;
  WEFT_Failure *failure = spread(c, &grad, &indices, &ids, &s);
  free(s.unique);
  return failure;
}

enum { SECOND = 2, THIRD = 4, FOURTH = 8 };
#define SEGMENT(op_, set, fn, how, divide, host)                                                             \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(set), .compute = fn, .host_inputs = SECOND | (host), \
    .param = &(const segment_op_t) {                                                                         \
      WEFT_CUDA_FOLD_##how, WEFT_CUDA_##divide                                                               \
    }                                                                                                        \
  }
#define SPARSE(op_, set, divide)                                                              \
  SEGMENT("SparseSegment" op_, set, sparse, ADD, divide, THIRD),                              \
      SEGMENT("SparseSegment" op_ "Grad", FLOAT, sparse_grad, ADD, divide, THIRD | FOURTH),   \
      SEGMENT("SparseSegment" op_ "GradV2", FLOAT, sparse_grad, ADD, divide, THIRD | FOURTH), \
      SEGMENT("SparseSegment" op_ "WithNumSegments", set, sparse_sized, ADD, divide, THIRD | FOURTH)
const WEFT_DeviceKernel weft_cuda_segment_kernels[] = {
    SEGMENT("SegmentMax", FLOAT_INDEX, segment, MAX, UNDIVIDED, 0),
    SEGMENT("SegmentMean", FLOAT_INDEX, segment, ADD, BY_COUNT, 0),
    SEGMENT("SegmentMean", COMPLEX, segment, ADD, BY_COUNT, 0),
    SEGMENT("SegmentMin", FLOAT_INDEX, segment, MIN, UNDIVIDED, 0),
    SEGMENT("SegmentProd", FLOAT_INDEX, segment, MUL, UNDIVIDED, 0),
    SEGMENT("SegmentSum", FLOAT_INDEX, segment, ADD, UNDIVIDED, 0),
    SEGMENT("SegmentSum", COMPLEX, segment, ADD, UNDIVIDED, 0),
    SPARSE("Mean", FLOAT, BY_COUNT),
    SPARSE("SqrtN", FLOAT, BY_ROOT),
    SPARSE("Sum", FLOAT_INDEX, UNDIVIDED),
    {0},
};
