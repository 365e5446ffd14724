/* tests/coordinator/sharded_variable_test.c - tables in parts behave as one: T-PS2-1, T-PS2-2. */
#include "weft/sharded_variable.h"

#include <stdio.h>

#include "tests/client/client_testing.h"

static const char *const here[] = {"/device:CPU:0"};

static WEFT_ShardedVariable *table(world_t *w, const char *partitioner, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  WEFT_ShardedVariable *v = WEFT_NewShardedVariable(w->g, "table", TF_FLOAT, dims, columns == 0 ? 1 : 2,
                                                    partitioner, here, 1, w->s);
  ASSERT_OK(w);
  return v;
}

static void parts_are_as_tensorflow_makes_them(void) {
  static const struct {
    const char *partitioner;
    int64_t rows;
    int n;
    int64_t sizes[6];
  } cases[] = {
      {"fixed:5", 13, 5, {3, 3, 3, 2, 2}},
      {"fixed:4", 10, 4, {3, 3, 2, 2}},
      {"fixed:9", 4, 4, {1, 1, 1, 1}},
      {"min_size:4:2", 6, 2, {3, 3}},
      {"min_size:4:10", 6, 6, {1, 1, 1, 1, 1, 1}},
      {"max_size:4", 6, 6, {1, 1, 1, 1, 1, 1}},
      {"max_size:4:2", 6, 2, {3, 3}},
      {"max_size:1024", 6, 1, {6}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world_t w;
    world_open(&w);
    WEFT_ShardedVariable *v = table(&w, cases[i].partitioner, cases[i].rows, 1);
    int64_t begin = -1, rows = -1, next = 0;
    CU_ASSERT_EQUAL(WEFT_ShardedVariableNumParts(v), cases[i].n);
    for (int k = 0; k < WEFT_ShardedVariableNumParts(v); k++) {
      TF_Output handle = WEFT_ShardedVariablePart(v, k, &begin, &rows);
      CU_ASSERT_PTR_NOT_NULL(handle.oper);
      CU_ASSERT_EQUAL(begin, next);
      CU_ASSERT_EQUAL(rows, cases[i].sizes[k]);
      next += rows;
    }
    CU_ASSERT_EQUAL(next, cases[i].rows);
    CU_ASSERT_PTR_NULL(WEFT_ShardedVariablePart(v, cases[i].n, NULL, NULL).oper);
    WEFT_DeleteShardedVariable(v);
    world_close(&w);
  }
}

enum { ROWS = 13, COLUMNS = 2 };

static void fill(world_t *w, WEFT_ShardedVariable *v) {
  const int64_t dims[] = {ROWS, COLUMNS};
  float values[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)i;
  TF_Operation *assign =
      WEFT_ShardedVariableAssign(v, "assign", constant(w, w->g, "values", new_floats(2, dims, values)), w->s);
  ASSERT_OK(w);
  run_target(w, assign);
  ASSERT_OK(w);
}

static TF_Tensor *ids_of(const int32_t *ids, int rank, const int64_t *dims) {
  return new_ints(rank, dims, ids);
}

static void look_ups_and_updates_equal_those_of_one_table(void) {
  static const char *const partitioners[] = {"fixed:1", "fixed:2", "fixed:5", "fixed:13"};
  for (size_t p = 0; p < sizeof partitioners / sizeof partitioners[0]; p++) {
    world_t w;
    world_open(&w);
    WEFT_ShardedVariable *v = table(&w, partitioners[p], ROWS, COLUMNS);
    fill(&w, v);
    TF_Output ids = placeholder(&w, w.g, "ids", TF_INT32),
              updates = placeholder(&w, w.g, "updates", TF_FLOAT);
    TF_Output rows = WEFT_ShardedVariableLookup(v, "rows", ids, w.s);
    ASSERT_OK(&w);
    TF_Operation *add = WEFT_ShardedVariableScatterAdd(v, "add", ids, updates, NULL, w.s);
    ASSERT_OK(&w);
    TF_Output all = WEFT_ShardedVariableRead(v, "all", w.s);
    ASSERT_OK(&w);
    static const int32_t some[] = {12, 0, 6, 6, 3, 2, 7, 12, 9, 8}; /* across borders, out of order, twice */
    static const struct {
      int rank;
      int64_t dims[2];
      int n;
    } shapes[] = {{1, {10, 0}, 10}, {2, {5, 2}, 10}, {0, {0, 0}, 1}, {1, {0, 0}, 0}, {2, {0, 3}, 0}};
    float expected[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) expected[i] = (float)i;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
      TF_Tensor *t = ids_of(some, shapes[s].rank, shapes[s].dims), *got = run1(&w, ids, t, rows);
      CU_ASSERT_PTR_NOT_NULL_FATAL(got);
      CU_ASSERT_EQUAL(TF_NumDims(got), shapes[s].rank + 1);
      CU_ASSERT_EQUAL(TF_TensorElementCount(got), shapes[s].n * COLUMNS);
      for (int i = 0; i < shapes[s].n * COLUMNS; i++)
        CU_ASSERT_EQUAL(float_at(got, i), expected[some[i / COLUMNS] * COLUMNS + i % COLUMNS]);
      int64_t dims[3] = {shapes[s].dims[0], shapes[s].dims[1], 0};
      dims[shapes[s].rank] = COLUMNS;
      float by[20];
      for (int i = 0; i < 20; i++) by[i] = (float)(i + 1) * 0.5f;
      TF_Tensor *given[2] = {t, new_floats(shapes[s].rank + 1, dims, by)};
      const TF_Output feeds[2] = {ids, updates};
      const TF_Operation *targets[] = {add};
      TF_SessionRun(w.session, NULL, feeds, given, 2, NULL, NULL, 0, targets, 1, NULL, w.s);
      ASSERT_OK(&w);
      for (int i = 0; i < shapes[s].n * COLUMNS; i++)
        expected[some[i / COLUMNS] * COLUMNS + i % COLUMNS] += by[i];
      TF_DeleteTensor(given[1]);
      TF_DeleteTensor(t);
      TF_DeleteTensor(got);
    }
    TF_Tensor *whole = run1(&w, (TF_Output){NULL, 0}, NULL, all);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    CU_ASSERT_EQUAL(TF_Dim(whole, 0), ROWS);
    for (int i = 0; i < ROWS * COLUMNS; i++) CU_ASSERT_EQUAL(float_at(whole, i), expected[i]);
    TF_DeleteTensor(whole);
    WEFT_DeleteShardedVariable(v);
    world_close(&w);
  }
}

static void ids_that_are_no_rows_fail_the_step(void) {
  static const int32_t wrong[] = {ROWS, -1};
  world_t w;
  world_open(&w);
  WEFT_ShardedVariable *v = table(&w, "fixed:5", ROWS, COLUMNS);
  fill(&w, v);
  TF_Output ids = placeholder(&w, w.g, "ids", TF_INT32),
            rows = WEFT_ShardedVariableLookup(v, "rows", ids, w.s);
  ASSERT_OK(&w);
  for (int i = 0; i < 2; i++) {
    const int64_t one = 1;
    TF_Tensor *t = ids_of(&wrong[i], 1, &one);
    CU_ASSERT_PTR_NULL(run1(&w, ids, t, rows));
    CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
    TF_DeleteTensor(t);
  }
  WEFT_DeleteShardedVariable(v);
  world_close(&w);
}

static void what_cannot_be_a_sharded_variable_is_refused(void) {
  static const int64_t dims[] = {4}, unknown[] = {-1};
  world_t w;
  world_open(&w);
  CU_ASSERT_PTR_NULL(WEFT_NewShardedVariable(w.g, "v", TF_FLOAT, dims, 1, "thirds", here, 1, w.s));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NULL(WEFT_NewShardedVariable(w.g, "v", TF_FLOAT, unknown, 1, "fixed:2", here, 1, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "'v' is not fully known");
  CU_ASSERT_PTR_NULL(WEFT_NewShardedVariable(w.g, "v", TF_FLOAT, dims, 1, "fixed:2", NULL, 0, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "'v' has no devices");
  WEFT_ShardedVariable *v = WEFT_NewShardedVariable(w.g, "v", TF_FLOAT, dims, 1, "fixed:2", here, 1, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NULL(WEFT_NewShardedVariable(w.g, "v", TF_FLOAT, dims, 1, "fixed:2", here, 1,
                                             w.s)); /* the names are taken */
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  WEFT_DeleteShardedVariable(v);
  v = WEFT_NewShardedVariable(w.g, "scalar", TF_FLOAT, NULL, 0, "fixed:2", here, 1, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_ShardedVariableNumParts(v), 1);
  CU_ASSERT_PTR_NULL(WEFT_ShardedVariableLookup(v, "rows", placeholder(&w, w.g, "ids", TF_INT32), w.s).oper);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "has no rows");
  WEFT_DeleteShardedVariable(v);
  world_close(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"parts are as TensorFlow makes them", parts_are_as_tensorflow_makes_them},
      {"look-ups and updates equal those of one table", look_ups_and_updates_equal_those_of_one_table},
      {"ids that are no rows fail the step", ids_that_are_no_rows_fail_the_step},
      {"what cannot be a sharded variable is refused", what_cannot_be_a_sharded_variable_is_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("sharded_variable", tests);
}
