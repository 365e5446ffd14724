/* Ops that move elements and that count, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN (WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define PLAIN_BUT_I32 (PLAIN & ~WEFT_DTYPE_BIT(WEFT_I32))

static weft_dtype_t index_type(const weft_row_case_t *c) { return c->round % 2 == 0 ? WEFT_I32 : WEFT_I64; }

static void transpose(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 0, 6);
  int64_t perm[WEFT_MAX_DIMS];
  if (c->round == 1) s = (weft_shape_t){.rank = 3, .dims = {3, 45, 70}};
  for (int d = 0; d < s.rank; d++) perm[d] = d;
  for (int d = s.rank - 1; d > 0; d--) {
    const int with = (int)weft_row_int(c, 0, d);
    const int64_t p = perm[d];
    perm[d] = perm[with];
    perm[with] = p;
  }
  if (c->round == 1) {
    perm[0] = 0;
    perm[1] = 2;
    perm[2] = 1;
  }
  if (c->round == 7 && s.rank > 1) perm[0] = perm[1];
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), s.rank, perm);
}

static void broadcast_to(weft_row_case_t *c) {
  const weft_shape_t to = weft_row_shape(c, 0, 6);
  weft_shape_t from = to;
  const int drop = (int)weft_row_int(c, 0, to.rank);
  from.rank -= drop;
  for (int d = 0; d < from.rank; d++) from.dims[d] = weft_row_int(c, 0, 1) == 0 ? 1 : to.dims[d + drop];
  weft_row_add(c, c->dtype, &from, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), to.rank, to.dims);
}

static void same(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void tile(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  int64_t times[WEFT_MAX_DIMS];
  for (int d = 0; d < s.rank; d++) times[d] = weft_row_int(c, c->round == 6 ? 0 : 1, 3);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), s.rank, times);
}

static void reverse_v1(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 0, 5), flags = weft_shape_vector(s.rank + (c->round == 7));
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add(c, WEFT_BOOL, &flags, WEFT_ROW_ANY);
}

static void reverse(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  int64_t axes[WEFT_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < s.rank; d++) {
    if (weft_row_int(c, 0, 1) == 0) axes[n++] = weft_row_int(c, 0, 1) == 0 ? d : d - s.rank;
  }
  if (c->round == 7) axes[n++] = s.rank;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), n, axes);
}

static void slice(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  int64_t begin[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
  for (int d = 0; d < s.rank; d++) {
    begin[d] = weft_row_int(c, 0, s.dims[d]);
    size[d] = weft_row_int(c, -1, s.dims[d] - begin[d]);
    if (c->round == 7) size[d] = s.dims[d] + 1;
  }
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), s.rank, begin);
  weft_row_add_ints(c, index_type(c), s.rank, size);
}

/* The bounds as inputs, masks as attributes; *result is what is taken. */
static void bounds(weft_row_case_t *c, const weft_shape_t *s, int first, weft_shape_t *result) {
  int64_t begin[WEFT_MAX_DIMS], end[WEFT_MAX_DIMS], step[WEFT_MAX_DIMS];
  int begin_mask = 0, end_mask = 0, shrink = 0;
  const int n = (int)weft_row_int(c, 0, s->rank);
  (void)first;
  *result = WEFT_SCALAR;
  for (int d = 0; d < s->rank; d++) {
    int64_t from = weft_row_int(c, 0, s->dims[d] > 0 ? s->dims[d] - 1 : 0), to = s->dims[d],
            by = weft_row_int(c, 1, 3);
    if (d >= n) {
      result->dims[result->rank++] = s->dims[d];
      continue;
    }
    const bool is_shrunk = s->dims[d] > 0 && weft_row_int(c, 0, 4) == 0, is_open = weft_row_int(c, 0, 3) == 0;
    const bool is_back = !is_shrunk && weft_row_int(c, 0, 2) == 0;
    if (is_open) from = is_back ? s->dims[d] - 1 : 0;
    begin[d] = weft_row_int(c, 0, 1) == 0 ? from : from - s->dims[d];
    end[d] = is_back ? -s->dims[d] - 1 : to;
    step[d] = is_back ? -by : is_shrunk ? 1 : by;
    if (is_shrunk) {
      shrink |= 1 << d;
      continue;
    }
    if (is_open) begin_mask |= 1 << d;
    if (is_open) end_mask |= 1 << d;
    const int64_t length = s->dims[d] == 0 ? 0 : is_back ? from + 1 : to - from;
    result->dims[result->rank++] = (length + by - 1) / by;
  }
  weft_row_add_ints(c, index_type(c), n, begin);
  weft_row_add_ints(c, index_type(c), n, end);
  weft_row_add_ints(c, index_type(c), n, step);
  weft_row_attr(c, "begin_mask=%d end_mask=%d shrink_axis_mask=%d", begin_mask, end_mask,
                shrink & ~begin_mask);
}

static void strided_slice(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  weft_shape_t result;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  bounds(c, &s, 1, &result);
}

/* An ellipsis and a new axis. */
static void strided_slice_axes(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 3, 5);
  const int64_t begin[4] = {0, 0, 0, -1}, end[4] = {1, 0, 0, -100}, step[4] = {1, 1, 1, -1};
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, WEFT_I32, 4, begin);
  weft_row_add_ints(c, WEFT_I32, 4, end);
  weft_row_add_ints(c, WEFT_I32, 4, step);
  weft_row_attr(c, "ellipsis_mask=2 new_axis_mask=4");
}

static void strided_slice_grad(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  weft_shape_t result;
  weft_row_add_ints(c, index_type(c), s.rank, s.dims);
  bounds(c, &s, 1, &result);
  if (c->round == 7) result.dims[result.rank++] = 2;
  weft_row_add(c, c->dtype, &result, WEFT_ROW_ANY);
}

/* In some rounds the value repeats; in others it does not fit, or the slice is none. */
static void strided_slice_update(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  weft_shape_t result;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  bounds(c, &s, 1, &result);
  if (c->round == 3 && result.rank > 0) result.dims[result.rank - 1] = 1;
  if (c->round == 4) result = WEFT_SCALAR;
  if (c->round == 5 && result.rank > 1) {
    for (int d = 1; d < result.rank; d++) result.dims[d - 1] = result.dims[d];
    result.rank--;
  }
  if (c->round == 7) result.dims[result.rank++] = 2;
  weft_row_add(c, c->dtype, &result, WEFT_ROW_ANY);
}

/* Indices and new axes; a stride of 0, a dimension that is not there, an index outside. */
static void strided_slice_update_axes(weft_row_case_t *c) {
  const weft_shape_t s = {.rank = 3, .dims = {4, 5, 6}};
  int64_t begin[5] = {1, 0, 0, 2, 0}, end[5] = {2, 0, 0, 5, 0}, step[5] = {1, 1, 1, 2, 1};
  if (c->round == 5) begin[0] = -5;
  if (c->round == 6) step[3] = 0;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  const int n = c->round == 7 ? 5 : 4;
  weft_row_add_ints(c, WEFT_I32, n, begin);
  weft_row_add_ints(c, WEFT_I32, n, end);
  weft_row_add_ints(c, WEFT_I32, n, step);
  const weft_shape_t value = {.rank = 3, .dims = {1, 5, 2}}; /* of [1, 5, 2] */
  weft_row_add(c, c->dtype, &value, WEFT_ROW_ANY);
  weft_row_attr(c, "shrink_axis_mask=1 new_axis_mask=2 ellipsis_mask=%d",
                c->round == 4   ? 12
                : c->round == 7 ? 0
                                : 4);
}

static void pad(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 5);
  int64_t pads[2 * WEFT_MAX_DIMS];
  for (int d = 0; d < 2 * s.rank; d++) pads[d] = weft_row_int(c, 0, 2);
  if (c->round == 7 && s.rank > 0) pads[0] = -1;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_tensor_t *t = weft_row_add_ints(c, index_type(c), 2 * s.rank, pads);
  t->shape = weft_shape_matrix(s.rank, 2);
}
static void pad_v2(weft_row_case_t *c) {
  const weft_shape_t scalar = WEFT_SCALAR;
  pad(c);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_SMALL);
}

static void join(weft_row_case_t *c, bool is_v2) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  const int64_t at = weft_row_int(c, 0, s.rank - 1), axis = c->round % 2 == 0 ? at : at - s.rank;
  const int n = (int)weft_row_int(c, 2, 5);
  if (!is_v2) weft_row_add_ints(c, WEFT_I32, -1, &axis);
  for (int i = 0; i < n; i++) {
    s.dims[at] = weft_row_int(c, 0, 6);
    if (c->round == 4) s.dims[at] = 16;
    weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  }
  if (is_v2) weft_row_add_ints(c, index_type(c), -1, &axis);
}
static void concat(weft_row_case_t *c) { join(c, false); }
static void concat_v2(weft_row_case_t *c) { join(c, true); }

static void pack(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  const int n = (int)weft_row_int(c, 1, 5);
  weft_row_attr(c, "axis=%d", (int)weft_row_int(c, -s.rank - 1, s.rank));
  for (int i = 0; i < n; i++) weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void unpack(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  const int at = (int)weft_row_int(c, 0, s.rank - 1);
  s.dims[at] = weft_row_int(c, 1, 5);
  weft_row_attr(c, "axis=%d num=%d", c->round % 2 == 0 ? at : at - s.rank, (int)s.dims[at]);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void split(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  const int64_t at = weft_row_int(c, 0, s.rank - 1), axis = c->round % 2 == 0 ? at : at - s.rank;
  const int n = (int)weft_row_int(c, 1, 4);
  s.dims[at] = n * weft_row_int(c, 1, 4) + (c->round == 7);
  weft_row_add_ints(c, WEFT_I32, -1, &axis);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_attr(c, "num_split=%d", n);
}

static void split_v(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  const int64_t at = weft_row_int(c, 0, s.rank - 1), axis = c->round % 2 == 0 ? at : at - s.rank;
  const int n = (int)weft_row_int(c, 1, 4);
  int64_t sizes[4], sum = 0;
  for (int i = 0; i < n; i++) sum += sizes[i] = weft_row_int(c, 0, 4);
  s.dims[at] = sum;
  if (c->round % 3 == 0) sizes[0] = -1;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index_type(c), n, sizes);
  weft_row_add_ints(c, WEFT_I32, -1, &axis);
  weft_row_attr(c, "num_split=%d", n);
}

static const weft_row_op_t ops[] = {
    {"BroadcastTo", PLAIN, broadcast_to},
    {"Concat", PLAIN_BUT_I32, concat},
    {"ConcatV2", PLAIN_BUT_I32, concat_v2},
    {"ConjugateTranspose", PLAIN, transpose},
    {"Pack", PLAIN_BUT_I32, pack},
    {"Pad", PLAIN_BUT_I32, pad},
    {"PadV2", PLAIN, pad_v2},
    {"Reverse", PLAIN_BUT_I32, reverse_v1},
    {"ReverseV2", PLAIN_BUT_I32, reverse},
    {"Slice", PLAIN_BUT_I32, slice},
    {"Snapshot", PLAIN_BUT_I32, same},
    {"Split", PLAIN_BUT_I32, split},
    {"SplitV", PLAIN, split_v},
    {"StridedSlice", PLAIN_BUT_I32, strided_slice},
    {"StridedSlice", PLAIN_BUT_I32, strided_slice_axes},
    {"StridedSliceGrad", PLAIN, strided_slice_grad},
    {"TensorStridedSliceUpdate", PLAIN, strided_slice_update, .same_message = true},
    {"TensorStridedSliceUpdate", PLAIN, strided_slice_update_axes, .same_message = true},
    {"Tile", PLAIN_BUT_I32, tile},
    {"Transpose", PLAIN, transpose},
    {"Unpack", PLAIN_BUT_I32, unpack},
};
/* Three scalars; in round 7 no step leads from the first to the second. */
static void add_number(weft_row_case_t *c, double v) {
  const weft_shape_t scalar = WEFT_SCALAR;
  weft_tensor_t *t = weft_row_add(c, c->dtype, &scalar, WEFT_ROW_SMALL);
  if (t->dtype == WEFT_F32) *(float *)t->data = (float)v;
  if (t->dtype == WEFT_F64) *(double *)t->data = v;
  if (t->dtype == WEFT_I64) *(int64_t *)t->data = (int64_t)v;
}
static void range(weft_row_case_t *c) {
  const double start = (double)weft_row_int(c, -20, 20), way = (double)weft_row_int(c, 0, 40);
  const double step =
      c->dtype == WEFT_I64 ? (double)weft_row_int(c, 1, 5) : (double)weft_row_int(c, 1, 9) / 8;
  const bool falls = c->round % 2 == 1;
  add_number(c, start);
  add_number(c, falls ? start - way - 1 : start + way + 1);
  add_number(c, c->round == 6 ? 0 : falls != (c->round == 7) ? -step : step);
}
static void lin_space(weft_row_case_t *c) {
  const int64_t n = c->round == 7 ? 0 : weft_row_int(c, 1, 30);
  add_number(c, (double)weft_row_int(c, -20, 20));
  add_number(c, (double)weft_row_int(c, -20, 20) / 3);
  weft_row_add_ints(c, index_type(c), -1, &n);
}
static const weft_row_op_t sequences[] = {
    {"LinSpace", WEFT_CUDA_SET(F32_F64), lin_space, .tolerance = 10},
    {"Range", WEFT_CUDA_SET(F32_F64_I64), range, .tolerance = 10},
};
enum { NUM_SEQUENCES = sizeof sequences / sizeof sequences[0] };

enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) {
  weft_row_check(weft_cuda_move_kernels, ops, NUM);
  weft_row_check(weft_cuda_sequence_kernels, sequences, NUM_SEQUENCES);
}
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_move_kernels, ops, NUM);
  weft_row_check_covered(weft_cuda_sequence_kernels, sequences, NUM_SEQUENCES);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("move", tests);
}
