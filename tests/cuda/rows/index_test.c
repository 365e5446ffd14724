/* Gathers, scatters and one-hot rows, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN (WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))

static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I32 : WEFT_I64; }

/* Indices of this shape, each from `low` to below `size`. */
static void add_indices(weft_row_case_t *c, const weft_shape_t *s, int64_t low, int64_t size) {
  weft_tensor_t *t = weft_row_add(c, index_type(c), s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t v = size > low ? weft_row_int(c, low, size - 1) : 0;
    if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)v;
    if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = v;
  }
}

static void gather(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 1, 4);
  if (x.dims[0] == 0) x.dims[0] = 1;
  const weft_shape_t s = weft_row_shape(c, 0, 2);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  add_indices(c, &s, 0, x.dims[0]);
}

static void gather_v2(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 2, 4), s = {.rank = 2};
  const int64_t at = weft_row_int(c, 1, x.rank - 1), axis = c->round == 7 ? x.rank : at;
  const bool is_batched = c->round % 3 == 1;
  if (x.dims[at] == 0) x.dims[at] = 1;
  if (c->round == 4) x.dims[x.rank - 1] = 16;
  s.dims[0] = is_batched ? x.dims[0] : weft_row_int(c, 0, 4);
  s.dims[1] = weft_row_int(c, 1, 5);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  add_indices(c, &s, 0, x.dims[at]);
  weft_row_add_ints(c, WEFT_I32, -1, &axis);
  weft_row_attr(c, "batch_dims=%d", is_batched ? 1 : 0);
}

/* Places in a tensor of these dimensions. */
static void add_places(weft_row_case_t *c, const weft_shape_t *x, int n, int depth) {
  const weft_shape_t s = weft_shape_matrix(n, depth);
  weft_tensor_t *t = weft_row_add(c, index_type(c), &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t v = weft_row_int(c, 0, x->dims[i % depth] - 1);
    if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)v;
    if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = v;
  }
}
static weft_shape_t full_shape(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 1, 4);
  for (int d = 0; d < x.rank; d++) x.dims[d] += x.dims[d] == 0;
  return x;
}
static void gather_nd(weft_row_case_t *c) {
  const weft_shape_t x = full_shape(c);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  add_places(c, &x, (int)weft_row_int(c, 0, 9), (int)weft_row_int(c, 1, x.rank));
}
static void resource_gather_nd(weft_row_case_t *c) {
  const weft_shape_t x = full_shape(c);
  weft_row_add_variable(c, &x, WEFT_ROW_ANY);
  add_places(c, &x, (int)weft_row_int(c, 0, 9), (int)weft_row_int(c, 1, x.rank));
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void resource_gather(weft_row_case_t *c) {
  weft_shape_t x = full_shape(c), s = weft_row_shape(c, 0, 2);
  const int batch = c->round % 3 == 1 && x.rank > 1 ? 1 : 0;
  if (batch == 1) s = weft_shape_matrix(x.dims[0] + (c->round == 7), 3);
  weft_row_add_variable(c, &x, WEFT_ROW_ANY);
  add_indices(c, &s, 0, x.dims[batch]);
  weft_row_attr(c, "dtype=%s batch_dims=%d", weft_dtype_name(c->dtype), batch);
}
/* With `is_put` one place alone, so that it is known which value stays. */
/* Of a tensor, or (`is_variable`) of a variable. */
static void places_into(weft_row_case_t *c, bool is_put, bool is_variable) {
  const weft_shape_t x = full_shape(c);
  const int depth = (int)weft_row_int(c, 1, x.rank), n = (int)weft_row_int(c, 0, is_put ? 1 : 9);
  weft_shape_t updates = {.rank = 1 + x.rank - depth, .dims = {n + (c->round == 7)}};
  for (int d = depth; d < x.rank; d++) updates.dims[1 + d - depth] = x.dims[d];
  if (is_variable) weft_row_add_variable(c, &x, WEFT_ROW_SMALL);
  if (!is_variable) weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  if (depth == 1 && c->round % 2 == 1) { /* a row each */
    const weft_shape_t s = weft_shape_vector(n);
    add_indices(c, &s, 0, x.dims[0]);
  } else {
    add_places(c, &x, n, depth);
  }
  weft_row_add(c, c->dtype, &updates, WEFT_ROW_SMALL);
}
static void tensor_scatter(weft_row_case_t *c) { places_into(c, false, false); }
static void tensor_put(weft_row_case_t *c) { places_into(c, true, false); }
static void places_of_variable(weft_row_case_t *c) { places_into(c, false, true); }
static void put_places(weft_row_case_t *c) { places_into(c, true, true); }

static void one_hot(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3), scalar = WEFT_SCALAR;
  const int64_t depth = weft_row_int(c, 0, 6);
  if (c->round == 6) {
    weft_row_add(c, WEFT_U8, &s, WEFT_ROW_SMALL);
  } else {
    add_indices(c, &s, -1, depth + 2);
  }
  weft_row_add_ints(c, WEFT_I32, -1, &depth);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_ANY);
  weft_row_attr(c, "axis=%d", (int)weft_row_int(c, -1, s.rank));
}

static void scatter_nd(weft_row_case_t *c) {
  weft_shape_t y = weft_row_shape(c, 1, 4);
  for (int d = 0; d < y.rank; d++) y.dims[d] = y.dims[d] == 0 ? 1 : y.dims[d];
  const int depth = (int)weft_row_int(c, 1, y.rank), n = (int)weft_row_int(c, 1, 9);
  const weft_shape_t s = weft_shape_matrix(n, depth);
  weft_shape_t updates = {.rank = 1 + y.rank - depth, .dims = {n}};
  for (int d = depth; d < y.rank; d++) updates.dims[1 + d - depth] = y.dims[d];
  int64_t least = y.dims[0];
  for (int d = 0; d < depth; d++) least = y.dims[d] < least ? y.dims[d] : least;
  add_indices(c, &s, 0, least);
  weft_row_add(c, c->dtype, &updates, WEFT_ROW_SMALL);
  weft_row_add_ints(c, index_type(c), y.rank, y.dims);
}

static void segments(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 1, 4);
  /* The order of a long sum shows in 16 bits. */
  if (c->round == 1 && (c->dtype == WEFT_F16 || c->dtype == WEFT_BF16)) x = weft_shape_matrix(7, 300);
  weft_shape_t ids = x;
  const int64_t n = weft_row_int(c, 1, 5);
  ids.rank = (int)weft_row_int(c, 1, x.rank);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  add_indices(c, &ids, -1, n);
  weft_row_add_ints(c, WEFT_I32, -1, &n);
}

/* With `is_put` no place is named twice: which value would stay is not said. */
static void scatter_values(weft_row_case_t *c, bool is_put, weft_row_values_t values) {
  weft_shape_t v = weft_row_shape(c, 1, 3);
  if (v.dims[0] == 0) v.dims[0] = 1;
  const int n = (int)weft_row_int(c, 0, is_put ? 1 : 6);
  const weft_shape_t s = weft_shape_vector(n);
  weft_shape_t updates = v;
  updates.dims[0] = n + (c->round == 7);
  if (c->round == 5) updates = WEFT_SCALAR;
  weft_row_add_variable(c, &v, WEFT_ROW_SMALL);
  add_indices(c, &s, 0, v.dims[0]);
  weft_row_add(c, c->dtype, &updates, values);
}
static void scatter_rows(weft_row_case_t *c, bool is_put) { scatter_values(c, is_put, WEFT_ROW_SMALL); }
static void scatter(weft_row_case_t *c) { scatter_rows(c, false); }
static void put(weft_row_case_t *c) { scatter_rows(c, true); }
static void scatter_handle(weft_row_case_t *c) {
  scatter_rows(c, false);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void divide(weft_row_case_t *c) { scatter_values(c, false, WEFT_ROW_NONZERO); }
static void divide_handle(weft_row_case_t *c) {
  divide(c);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void put_handle(weft_row_case_t *c) {
  scatter_rows(c, true);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}

#define FOLDED WEFT_CUDA_SET(FLOAT_INDEX)
#define ADDED (FOLDED | WEFT_CUDA_SET(COMPLEX))
static const weft_row_op_t ops[] = {
    {"Gather", PLAIN, gather},
    {"GatherV2", PLAIN, gather_v2},
    {"GatherNd", PLAIN, gather_nd},
    {"OneHot", PLAIN, one_hot},
    {"ResourceGather", PLAIN, resource_gather},
    {"ResourceGatherNd", PLAIN, resource_gather_nd},
    {"ResourceScatterAdd", ADDED, scatter_handle, .tolerance = 10},
    {"ResourceScatterDiv", FOLDED, divide_handle, .tolerance = 10},
    {"ResourceScatterMax", FOLDED, scatter_handle, .tolerance = 10},
    {"ResourceScatterMin", FOLDED, scatter_handle, .tolerance = 10},
    {"ResourceScatterMul", FOLDED, scatter_handle, .tolerance = 10},
    {"ResourceScatterSub", ADDED, scatter_handle, .tolerance = 10},
    {"ResourceScatterNdAdd", ADDED, places_of_variable, .tolerance = 10},
    {"ResourceScatterNdMax", FOLDED, places_of_variable, .tolerance = 10},
    {"ResourceScatterNdMin", FOLDED, places_of_variable, .tolerance = 10},
    {"ResourceScatterNdSub", ADDED, places_of_variable, .tolerance = 10},
    {"ResourceScatterNdUpdate", PLAIN, put_places},
    {"ResourceScatterUpdate", PLAIN, put_handle},
    {"ScatterAdd", ADDED, scatter, .tolerance = 10},
    {"ScatterDiv", FOLDED, divide, .tolerance = 10},
    {"ScatterMax", FOLDED, scatter, .tolerance = 10},
    {"ScatterMin", FOLDED, scatter, .tolerance = 10},
    {"ScatterMul", FOLDED, scatter, .tolerance = 10},
    {"ScatterNd", ADDED, scatter_nd, .tolerance = 10},
    {"ScatterNdAdd", ADDED, places_of_variable, .tolerance = 10},
    {"ScatterNdMax", FOLDED, places_of_variable, .tolerance = 10},
    {"ScatterNdMin", FOLDED, places_of_variable, .tolerance = 10},
    {"ScatterNdNonAliasingAdd", ADDED, tensor_scatter, .tolerance = 10},
    {"ScatterNdSub", ADDED, places_of_variable, .tolerance = 10},
    {"ScatterNdUpdate", PLAIN, put_places},
    {"ScatterSub", ADDED, scatter, .tolerance = 10},
    {"ScatterUpdate", PLAIN, put},
    {"TensorScatterAdd", ADDED, tensor_scatter, .tolerance = 10},
    {"TensorScatterMax", FOLDED, tensor_scatter, .tolerance = 10},
    {"TensorScatterMin", FOLDED, tensor_scatter, .tolerance = 10},
    {"TensorScatterSub", ADDED, tensor_scatter, .tolerance = 10},
    {"TensorScatterUpdate", PLAIN, tensor_put},
    {"UnsortedSegmentMax", FOLDED, segments, .tolerance = 10},
    {"UnsortedSegmentMin", FOLDED, segments, .tolerance = 10},
    {"UnsortedSegmentProd", FOLDED, segments, .tolerance = 10},
    {"UnsortedSegmentSum", ADDED, segments, .tolerance = 10},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_index_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_index_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("index", tests);
}
