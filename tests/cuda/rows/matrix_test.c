/* Diagonals and bands of matrices, and cross products, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define COMPLEX (WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define PLAIN (WEFT_CUDA_SET(EVERY) | COMPLEX)
#define NUMBERS (WEFT_CUDA_SET(FLOAT_INDEX) | COMPLEX)

static void diag(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, c->round == 7 ? 0 : 1, c->round == 1 ? 1 : 3);
  weft_shape_t small = s;
  for (int d = 0; d < s.rank; d++) small.dims[d] = s.dims[d] > 300 ? 300 : s.dims[d];
  weft_row_add(c, c->dtype, &small, WEFT_ROW_ANY);
}

static void diag_part(weft_row_case_t *c) {
  weft_shape_t s = {.rank = 2 * (int)weft_row_int(c, 0, 3)};
  for (int d = 0; d < s.rank / 2; d++)
    s.dims[d] = s.dims[s.rank / 2 + d] = weft_row_int(c, c->round == 2 ? 0 : 1, c->round == 1 ? 9 : 4);
  if (c->round == 7) s.rank = 3;
  if (c->round == 6 && s.rank > 0) s.dims[0]++;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void band_part(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, c->round == 7 ? 1 : 2, 4);
  const int64_t rows = s.dims[s.rank - 2], columns = s.dims[s.rank - 1];
  const weft_dtype_t index = c->round % 2 == 0 ? WEFT_I32 : WEFT_I64;
  const int64_t lower = weft_row_int(c, -1, rows) + (c->round == 6 ? rows + 1 : 0),
                upper = weft_row_int(c, -1, columns) + (c->round == 5 ? columns + 1 : 0);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add_ints(c, index, -1, &lower);
  weft_row_add_ints(c, index, c->round == 4 ? 1 : -1, &upper);
}

/* ---- MatrixDiag and the others: version 1 has no k, 3 has an alignment ---- */

static void align(weft_row_case_t *c, int version) {
  static const char *const names[] = {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"};
  if (version == 3) weft_row_attr(c, "align=%s", names[weft_row_int(c, 0, 3)]);
}

static int64_t clip(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Diagonals of matrices of that size: one or a few. Returns how many numbers say it. */
static int draw_band(weft_row_case_t *c, int64_t rows, int64_t columns, int64_t k[2]) {
  k[0] = rows == 0 || columns == 0 ? 0 : weft_row_int(c, 1 - rows, columns - 1);
  k[1] = rows == 0 || columns == 0 ? 0 : clip(k[0] + weft_row_int(c, 0, 3), k[0], columns - 1);
  if (c->round == 7) k[1] += 100;
  if (c->round == 6) k[1] = k[0] - 1;
  return k[0] == k[1] ? (int)weft_row_int(c, 0, 1) * 2 - 1 : 2;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static void part(weft_row_case_t *c, int version) {
  const weft_shape_t s = weft_row_shape(c, c->round == 5 ? 1 : 2, 4);
  int64_t k[2];
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  align(c, version);
  if (version == 1) return;
  const int n = draw_band(c, s.dims[s.rank - 2], s.dims[s.rank - 1], k);
  weft_row_add_ints(c, WEFT_I32, n, k);
  weft_row_add(c, c->dtype, &WEFT_SCALAR, WEFT_ROW_ANY);
}
static void part_1(weft_row_case_t *c) { part(c, 1); }
static void part_2(weft_row_case_t *c) { part(c, 2); }
static void part_3(weft_row_case_t *c) { part(c, 3); }

/* The shape of the band of matrices of shape s. */
static weft_shape_t band_shape(const weft_shape_t *s, const int64_t k[2]) {
  weft_shape_t b = *s;
  const int64_t rows = s->dims[s->rank - 2], columns = s->dims[s->rank - 1];
  b.rank -= 2;
  if (k[1] > k[0]) b.dims[b.rank++] = k[1] - k[0] + 1;
  b.dims[b.rank++] = most(0, least(rows + least(k[1], 0), columns - most(k[0], 0)));
  return b;
}

static void make(weft_row_case_t *c, int version) {
  weft_shape_t s = weft_row_shape(c, 2, 4);
  int64_t k[2] = {0, 0};
  int n = -1;
  align(c, version);
  if (version > 1) n = draw_band(c, s.dims[s.rank - 2], s.dims[s.rank - 1], k);
  weft_shape_t b = band_shape(&s, k);
  if (c->round == 5) b.rank = 0;
  weft_row_add(c, c->dtype, &b, WEFT_ROW_ANY);
  if (version == 1) return;
  const int64_t rows = c->round % 2 == 0 ? -1 : s.dims[s.rank - 2],
                columns = c->round % 3 == 0 ? -1 : s.dims[s.rank - 1] + (c->round == 4);
  weft_row_add_ints(c, WEFT_I32, n, k);
  weft_row_add_ints(c, WEFT_I32, -1, &rows);
  weft_row_add_ints(c, WEFT_I32, -1, &columns);
  weft_row_add(c, c->dtype, &WEFT_SCALAR, WEFT_ROW_ANY);
}
static void make_1(weft_row_case_t *c) { make(c, 1); }
static void make_2(weft_row_case_t *c) { make(c, 2); }
static void make_3(weft_row_case_t *c) { make(c, 3); }

static void set(weft_row_case_t *c, int version) {
  const weft_shape_t s = weft_row_shape(c, 2, 4);
  int64_t k[2] = {0, 0};
  int n = -1;
  align(c, version);
  if (version > 1) n = draw_band(c, s.dims[s.rank - 2], s.dims[s.rank - 1], k);
  weft_shape_t b = band_shape(&s, k);
  if (c->round == 5) b.dims[b.rank - 1]++;
  if (c->round == 6) b = WEFT_SCALAR;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &b, WEFT_ROW_ANY);
  if (version > 1) weft_row_add_ints(c, WEFT_I32, n, k);
}
static void set_1(weft_row_case_t *c) { set(c, 1); }
static void set_2(weft_row_case_t *c) { set(c, 2); }
static void set_3(weft_row_case_t *c) { set(c, 3); }

static void cross(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 1, 3);
  if (c->round != 7) s.dims[s.rank - 1] = 3;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  if (c->round == 6) s.rank = 0;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static const weft_row_op_t ops[] = {
    {"Cross", WEFT_CUDA_SET(REAL), cross, .tolerance = 2},
    {"Diag", NUMBERS, diag, .tolerance = -1},
    {"DiagPart", NUMBERS, diag_part, .tolerance = -1},
    {"MatrixBandPart", PLAIN, band_part, .tolerance = -1},
    {"MatrixDiag", PLAIN, make_1, .tolerance = -1},
    {"MatrixDiagPart", PLAIN, part_1, .tolerance = -1},
    {"MatrixDiagPartV2", PLAIN, part_2, .tolerance = -1},
    {"MatrixDiagPartV3", PLAIN, part_3, .tolerance = -1},
    {"MatrixDiagV2", PLAIN, make_2, .tolerance = -1},
    {"MatrixDiagV3", PLAIN, make_3, .tolerance = -1},
    {"MatrixSetDiag", PLAIN, set_1, .tolerance = -1},
    {"MatrixSetDiagV2", PLAIN, set_2, .tolerance = -1},
    {"MatrixSetDiagV3", PLAIN, set_3, .tolerance = -1},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_matrix_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_matrix_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("matrix", tests);
}
