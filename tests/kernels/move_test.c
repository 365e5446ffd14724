/* tests/kernels/move_test.c - strided copies: every element arrives at its place, whatever the dimensions,
 * the steps and the size of an element, and nothing is written beside them.
 */
#include "kernels/cpu/loops/move.h"

#include <string.h>

#include "base/alloc.h"
#include "tests/runner.h"

static const weft_dtype_t dtypes[] = {WEFT_U8, WEFT_F16, WEFT_F32, WEFT_F64, WEFT_C128};
enum { NUM_DTYPES = sizeof dtypes / sizeof dtypes[0], MOST_RANK = 4, ROUNDS = 400 };

static unsigned seed;

/* A number in [0, n). */
static int64_t some(int64_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (int64_t)(seed >> 8) % n;
}

static weft_tensor_t *vector(weft_dtype_t dtype, int64_t n, int first) {
  const weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (size_t i = 0; i < t->bytes; i++) ((uint8_t *)t->data)[i] = (uint8_t)(first + (int)(i * 7 % 251));
  return t;
}

/* A box with dimensions in any order on either side; in the source some are reversed or repeat. Returns the
 * elements of the source and of the result. */
static void make_box(weft_move_t *m, int64_t *from_size, int64_t *to_size) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 40};
  int order[2][MOST_RANK] = {{0, 1, 2, 3}, {0, 1, 2, 3}};
  *m = (weft_move_t){.rank = 1 + (int)some(MOST_RANK)};
  for (int d = 0; d < m->rank; d++) m->dims[d] = sizes[some(sizeof sizes / sizeof sizes[0])];
  for (int side = 0; side < 2; side++) {
    for (int d = m->rank - 1; d > 0 && some(2) == 0; d--) {
      const int other = (int)some(d + 1), held = order[side][d];
      order[side][d] = order[side][other];
      order[side][other] = held;
    }
  }
  int64_t stride = 1 + some(2);
  for (int k = m->rank - 1; k >= 0; k--) {
    const int d = order[0][k];
    const int64_t kind = some(8);
    m->from_strides[d] = kind == 0 ? 0 : kind == 1 ? -stride : stride;
    if (kind == 1) m->from_base += (m->dims[d] - 1) * stride;
    if (kind != 0) stride *= m->dims[d] + some(2);
  }
  *from_size = stride + 1;
  stride = 1;
  for (int k = m->rank - 1; k >= 0; k--) {
    m->to_strides[order[1][k]] = stride;
    stride *= m->dims[order[1][k]] + some(2);
  }
  m->to_base = some(3);
  *to_size = stride + m->to_base;
}

static void copy_one_by_one(const weft_move_t *m, const weft_tensor_t *from, weft_tensor_t *to) {
  const size_t size = weft_dtype_size(from->dtype);
  int64_t index[WEFT_MAX_DIMS] = {0};
  for (int d = 0; d >= 0;) {
    int64_t x = m->from_base, y = m->to_base;
    for (int k = 0; k < m->rank; k++) {
      x += index[k] * m->from_strides[k];
      y += index[k] * m->to_strides[k];
    }
    memcpy((char *)to->data + (size_t)y * size, (const char *)from->data + (size_t)x * size, size);
    for (d = m->rank - 1; d >= 0 && ++index[d] == m->dims[d]; d--) index[d] = 0;
  }
}

static void boxes_of_any_kind_arrive(void) {
  weft_thread_pool_t *pool = NULL;
  weft_status_t *s = weft_thread_pool_create("move", 2, &pool);
  CU_ASSERT_PTR_NULL_FATAL(s);
  seed = 5;
  for (int round = 0; round < ROUNDS; round++) {
    weft_move_t m;
    int64_t from_size, to_size;
    make_box(&m, &from_size, &to_size);
    const weft_dtype_t dtype = dtypes[round % NUM_DTYPES];
    weft_tensor_t *from = vector(dtype, from_size, 1), *to = vector(dtype, to_size, 100),
                  *expected = vector(dtype, to_size, 100);
    copy_one_by_one(&m, from, expected);
    s = weft_move_run(&m, round % 3 == 0 ? NULL : pool, from, to);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(memcmp(to->data, expected->data, to->bytes), 0);
    weft_tensor_release(from);
    weft_tensor_release(to);
    weft_tensor_release(expected);
  }
  weft_thread_pool_destroy(pool);
}

/* Runs of each length up to some vectors: those that are copied by two vectors which overlap. */
static void short_runs_are_copied_whole(void) {
  enum { ROWS = 5, MOST = 140, GAP = 3 };
  for (int64_t n = 1; n <= MOST; n++) {
    uint8_t from[ROWS * MOST], to[ROWS * (MOST + GAP)], expected[ROWS * (MOST + GAP)];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i % 251);
    memset(to, 255, sizeof to);
    memset(expected, 255, sizeof expected);
    for (int64_t r = 0; r < ROWS; r++) memcpy(expected + r * (MOST + GAP), from + r * MOST, (size_t)n);
    const weft_sheet_t h = {ROWS, n, MOST, 1, MOST + GAP, 1};
    weft_move_sheet(&h, from, to, 1);
    CU_ASSERT_EQUAL(memcmp(to, expected, sizeof to), 0);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"boxes of any kind arrive", boxes_of_any_kind_arrive},
      {"short runs are copied whole", short_runs_are_copied_whole},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("move", tests);
}
