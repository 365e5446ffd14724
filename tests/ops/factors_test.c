/* Factor notation: what reads, what is refused, how it fits the shapes of a node. */
#include "ops/factors.h"

#include <stdio.h>

#include "tests/runner.h"

static weft_factors_t make(weft_arena_t *arena, const char *text, const weft_factor_shapes_t *shapes,
                           weft_code_t want) {
  weft_factors_t f = {0};
  weft_status_t *s = weft_factors_make(text, shapes, arena, &f);
  CU_ASSERT_EQUAL(weft_status_code(s), want);
  weft_status_free(s);
  return f;
}

static void notation_is_checked(void) {
  const weft_op_def_t *matmul = weft_op_find(WEFT_STR("MatMul")), *add_n = weft_op_find(WEFT_STR("AddN"));
  const weft_op_def_t *relu = weft_op_find(WEFT_STR("Relu"));
  const struct {
    const weft_op_def_t *op;
    const char *text;
    bool is_right;
  } cases[] = {
      {matmul, "mk,kn->mn", true},
      {matmul, "mk,kn->mn|max", true},
      {matmul, ",->", true},
      {matmul, "...k,k_->..._", true},
      {matmul, "v:_,n->n_", true},
      {matmul, "m_,_->=m", true},
      {add_n, "...*->...", true},
      {matmul, "mk,kn", false},
      {matmul, "mk->mk", false},
      {matmul, "mk,kn->mz", false},
      {matmul, "mm,kn->mn", false},
      {matmul, "mk,kn->mn->m", false},
      {matmul, "mk,k1->m", false},
      {matmul, "......,k->k", false},
      {matmul, "mk,kn->mn|median", false},
      {matmul, "mk*,kn->mn", false},
      {add_n, "*a->a", false},
      {add_n, "a*b->a", false},
      {relu, "=a->a", false},
      {relu, "a->a=", false},
      {relu, "..->..", false},
      {relu, "a->...", false},
      {matmul, "[mn],->mn", true},
      {matmul, "[mn,->mn", false},
      {matmul, "m]n,->mn", false},
      {matmul, "[m]n,->mn", false},
      {matmul, "mn,->[mn]", false},
      {matmul, "", false},
      {relu, "a -> a", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_status_t *s = weft_factors_check(cases[i].op, cases[i].text);
    CU_ASSERT_EQUAL(weft_status_code(s), cases[i].is_right ? WEFT_OK : WEFT_INVALID_ARGUMENT);
    if (cases[i].is_right != (s == NULL)) fprintf(stderr, "\"%s\"\n", cases[i].text);
    weft_status_free(s);
  }
}

static void letters_are_factors(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[2] = {weft_shape_matrix(4, 6), weft_shape_matrix(6, 8)}, out[1] = {weft_shape_matrix(4, 8)};
  weft_factor_shapes_t shapes = {in, out, 2, 1, false};
  weft_factors_t f = make(&arena, "mk,kn->mn", &shapes, WEFT_OK);
  int m = 'm' - 'a', k = 'k' - 'a', n = 'n' - 'a';
  CU_ASSERT_TRUE(weft_factor_dim(&f.inputs[0], m) == 0 && weft_factor_dim(&f.inputs[1], m) == -1);
  CU_ASSERT_TRUE(weft_factor_dim(&f.inputs[0], k) == 1 && weft_factor_dim(&f.inputs[1], k) == 0);
  CU_ASSERT_TRUE(weft_factor_dim(&f.outputs[0], k) == -1 && weft_factor_dim(&f.outputs[0], n) == 1);
  CU_ASSERT_TRUE(f.factors[m].size == 4 && f.factors[k].size == 6 && f.factors[n].size == 8);
  CU_ASSERT_TRUE(weft_factor_splits(&f, k) && !weft_factor_splits(&f, 'z' - 'a'));
  (void)make(&arena, "mk,nk->mn", &shapes, WEFT_INVALID_ARGUMENT); /* 6 is no multiple of ... 8 */
  (void)make(&arena, "m,kn->mn", &shapes, WEFT_INVALID_ARGUMENT);  /* rank */
  in[0] = WEFT_UNKNOWN_SHAPE;
  (void)make(&arena, "...k,kn->...n", &shapes, WEFT_FAILED_PRECONDITION);
  f = make(&arena, "mk,kn->mn", &shapes, WEFT_OK); /* has the rank of the notation */
  CU_ASSERT_TRUE(f.inputs[0].rank == 2 && f.factors[k].size == 6 && f.factors[m].size == 4);
  f = make(&arena, ",kn->_n", &shapes, WEFT_OK); /* an operand without dimensions may have any rank */
  CU_ASSERT_EQUAL(f.inputs[0].rank, 0);
  weft_arena_deinit(&arena);
}

static void longer_dimensions_are_multiples(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[1] = {weft_shape_matrix(4, 6)}, out[1] = {weft_shape_vector(24)};
  weft_factor_shapes_t shapes = {in, out, 1, 1, false};
  weft_factors_t f = make(&arena, "a_->a", &shapes, WEFT_OK);
  CU_ASSERT_EQUAL(f.factors[0].size, 4);
  out[0] = weft_shape_vector(23);
  (void)make(&arena, "a_->a", &shapes, WEFT_INVALID_ARGUMENT);
  weft_arena_deinit(&arena);
}

static void ellipses_align_at_the_end(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[2] = {{3, {2, 1, 5}}, {2, {7, 5}}}, out[1] = {{3, {2, 7, 5}}};
  weft_factor_shapes_t shapes = {in, out, 2, 1, true};
  const int last = WEFT_FACTORS_ELLIPSIS;
  weft_factors_t f = make(&arena, "...,...->...", &shapes, WEFT_OK);
  CU_ASSERT_TRUE(f.inputs[0].dims[0] == last + 2 && f.inputs[0].dims[1] == WEFT_FACTOR_WHOLE);
  CU_ASSERT_TRUE(f.inputs[0].dims[2] == last && f.inputs[1].dims[0] == last + 1 &&
                 f.inputs[1].dims[1] == last);
  CU_ASSERT_TRUE(f.factors[last + 1].size == 7 && weft_factor_splits(&f, last + 1));
  in[1].dims[0] = WEFT_UNKNOWN_DIM; /* 1 or not? */
  f = make(&arena, "...,...->...", &shapes, WEFT_OK);
  CU_ASSERT_TRUE(!weft_factor_splits(&f, last + 1) && weft_factor_splits(&f, last));
  shapes.broadcasts = false;
  (void)make(&arena, "...,...->...", &shapes, WEFT_INVALID_ARGUMENT);
  weft_arena_deinit(&arena);
}

static void stars_stand_for_any_number(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[4] = {WEFT_SCALAR, weft_shape_matrix(2, 3), weft_shape_matrix(2, 4),
                        weft_shape_matrix(2, 5)};
  weft_shape_t out[1] = {weft_shape_matrix(2, 12)};
  weft_factor_shapes_t shapes = {in, out, 4, 1, false};
  weft_factors_t f = make(&arena, ",a_*->a_", &shapes, WEFT_OK);
  for (int i = 1; i < 4; i++) CU_ASSERT_EQUAL(weft_factor_dim(&f.inputs[i], 0), 0);
  (void)make(&arena, ",a_,a_->a_", &shapes, WEFT_INVALID_ARGUMENT);
  weft_arena_deinit(&arena);
}

static void brackets_are_sizes(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[2] = {weft_shape_vector(2), WEFT_SCALAR}, out[1] = {weft_shape_matrix(4, 6)};
  weft_factor_shapes_t shapes = {in, out, 2, 1, false};
  weft_factors_t f = make(&arena, "[ab],->ab", &shapes, WEFT_OK);
  CU_ASSERT_TRUE(f.inputs[0].is_sizes && !f.outputs[0].is_sizes);
  CU_ASSERT_TRUE(f.factors[0].size == 4 && f.factors[1].size == 6); /* of the result, not of the vector */
  CU_ASSERT_EQUAL(weft_factor_dim(&f.inputs[0], 1), 1);
  weft_arena_deinit(&arena);
}

static void means_want_equal_parts(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[1] = {weft_shape_matrix(4, 6)}, out[1] = {weft_shape_vector(4)};
  weft_factor_shapes_t shapes = {in, out, 1, 1, false};
  weft_factors_t f = make(&arena, "ab->a|mean", &shapes, WEFT_OK);
  CU_ASSERT_TRUE(!weft_factor_is_even(&f, 0) && weft_factor_is_even(&f, 1));
  f = make(&arena, "ab->a|max", &shapes, WEFT_OK);
  CU_ASSERT_TRUE(!weft_factor_is_even(&f, 1) && f.reduction == WEFT_FACTOR_MAX);
  weft_arena_deinit(&arena);
}

static weft_status_t *make_once(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_shape_t in[1] = {weft_shape_matrix(4, 6)}, out[1] = {weft_shape_vector(4)};
  weft_factor_shapes_t shapes = {in, out, 1, 1, false};
  weft_factors_t f;
  weft_status_t *s = weft_factors_make("ab->a", &shapes, &arena, &f);
  weft_arena_deinit(&arena);
  return s;
}

static void lack_of_memory_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_once());
  CU_ASSERT_TRUE(n > 0);
}

int main(void) {
  CU_TestInfo tests[] = {{"notation is checked", notation_is_checked},
                         {"letters are factors", letters_are_factors},
                         {"longer dimensions are multiples", longer_dimensions_are_multiples},
                         {"ellipses align at the end", ellipses_align_at_the_end},
                         {"stars stand for any number", stars_stand_for_any_number},
                         {"means want equal parts", means_want_equal_parts},
                         {"brackets are sizes", brackets_are_sizes},
                         {"lack of memory is reported", lack_of_memory_is_reported},
                         CU_TEST_INFO_NULL};
  return weft_run_tests("factors", tests);
}
