/* tests/jobs/inputs_test.c - epochs, remainders, shuffling; which rows come at which step; what sources may
 * give. */
#include "jobs/inputs.h"

#include <pthread.h>

#include "client/tensor.h"
#include "jobs/batch_splitter.h"
#include "jobs/job.h"
#include "tests/runner.h"

enum { ROWS = 10 };

static TF_Graph *graph;
static weft_job_inputs_t f;
static weft_job_splitter_t splitter;

/* Placeholders of int32: "a" and "b" of any shape, "pair" [?, 2], "rate" a scalar. */
static void add_placeholder(const char *name, const int64_t *dims, int rank) {
  TF_Status *s = TF_NewStatus();
  TF_OperationDescription *node = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(node, "dtype", TF_INT32);
  TF_SetAttrShape(node, "shape", dims, rank);
  TF_FinishOperation(node, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  TF_DeleteStatus(s);
}

static void begin(int64_t batch, bool shuffle, uint64_t seed) {
  graph = TF_NewGraph();
  add_placeholder("a", NULL, -1);
  add_placeholder("b", NULL, -1);
  add_placeholder("pair", (int64_t[]){-1, 2}, 2);
  add_placeholder("rate", NULL, 0);
  weft_job_inputs_init(&f, graph,
                       &(weft_job_batching_t){.batch = batch, .is_shuffled = shuffle, .seed = seed},
                       &weft_job_words);
  weft_job_splitter_init(&splitter, &f);
}

static void end(void) {
  weft_job_splitter_deinit(&splitter);
  weft_job_inputs_deinit(&f);
  TF_DeleteGraph(graph);
}

/* Row i holds i, twice. */
static weft_tensor_t *rows(int64_t n, weft_dtype_t dtype) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_shape_make((int64_t[]){n, 2}, 2, &shape);
  if (s == NULL) s = weft_tensor_new(dtype, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; dtype == WEFT_I32 && i < 2 * n; i++) ((int32_t *)t->data)[i] = i / 2;
  return t;
}

static weft_status_t *add(const char *name, int64_t n, bool is_rows) {
  return weft_job_inputs_add(&f, weft_str(name), rows(n, WEFT_I32), is_rows, "an array");
}

static void start(void) { CU_ASSERT_PTR_NULL_FATAL(weft_job_inputs_begin(&f)); }

/* The next batch, in `part`. */
static weft_status_t *next(weft_job_part_t *part, bool *has_ended) {
  CU_ASSERT_PTR_NULL_FATAL(weft_job_part_init(part, f.n));
  return weft_job_splitter_next(&splitter, part, has_ended);
}
static weft_job_part_t must_next(void) {
  weft_job_part_t part;
  bool has_ended;
  CU_ASSERT_PTR_NULL_FATAL(next(&part, &has_ended));
  CU_ASSERT_FALSE(has_ended);
  return part;
}

/* Rows that a loop was given of input `i`. */
static int rows_of(const weft_job_part_t *p, int i, int32_t *out) {
  int n = (int)TF_Dim(p->tensors[i], 0);
  for (int k = 0; k < n; k++) out[k] = ((const int32_t *)TF_TensorData(p->tensors[i]))[2 * k];
  return n;
}

/* ---- arrays ---- */

static void epochs_follow_each_other_with_a_smaller_batch_at_the_end(void) {
  static const int sizes[] = {4, 4, 2, 4, 4, 2};
  static const int firsts[] = {0, 4, 8, 0, 4, 8};
  begin(4, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
  start();
  for (int step = 0; step < 6; step++) {
    int32_t got[ROWS];
    weft_job_part_t p = must_next();
    CU_ASSERT_EQUAL(rows_of(&p, 0, got), sizes[step]);
    for (int k = 0; k < sizes[step]; k++) CU_ASSERT_EQUAL(got[k], firsts[step] + k);
    weft_job_part_deinit(&p);
  }
  end();
}

static void shuffling_is_a_new_permutation_each_epoch_the_same_for_all_inputs(void) {
  int32_t epochs[2][ROWS], again[ROWS];
  for (int round = 0; round < 2; round++) {
    begin(3, true, 7);
    CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
    CU_ASSERT_PTR_NULL_FATAL(add("b", ROWS, true));
    start();
    for (int epoch = 0; epoch < 2; epoch++) {
      bool seen[ROWS] = {false};
      for (int n = 0; n < ROWS;) {
        int32_t a[ROWS], b[ROWS];
        weft_job_part_t p = must_next();
        int count = rows_of(&p, 0, a);
        CU_ASSERT_EQUAL(rows_of(&p, 1, b), count);
        weft_job_part_deinit(&p);
        for (int k = 0; k < count; k++, n++) {
          CU_ASSERT_EQUAL(a[k], b[k]);
          CU_ASSERT_FALSE(seen[a[k]]);
          seen[a[k]] = true;
          if (round == 0) epochs[epoch][n] = a[k];
          if (round == 1 && epoch == 0) again[n] = a[k];
        }
      }
    }
    end();
  }
  CU_ASSERT_NOT_EQUAL(memcmp(epochs[0], epochs[1], sizeof epochs[0]), 0);
  CU_ASSERT_EQUAL(memcmp(epochs[0], again, sizeof again), 0); /* the seed decides */
}

/* From any place on, the rows are those of inputs that went there step by step; and from the beginning again.
 */
static void inputs_go_to_where_they_stood(void) {
  for (int64_t before = 0; before < 9; before++) {
    int32_t wanted[ROWS], got[ROWS], first[ROWS];
    begin(4, true, 3);
    CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
    start();
    for (int64_t i = 0; i < before; i++) {
      weft_job_part_t p = must_next();
      if (i == 0) (void)rows_of(&p, 0, first);
      weft_job_part_deinit(&p);
    }
    weft_job_position_t at = weft_job_splitter_position(&splitter, before);
    weft_job_part_t p = must_next();
    int n = rows_of(&p, 0, wanted);
    weft_job_part_deinit(&p);
    start();
    weft_job_inputs_seek(&f, at.epoch, at.row);
    p = must_next();
    CU_ASSERT_EQUAL(rows_of(&p, 0, got), n);
    CU_ASSERT_EQUAL(memcmp(got, wanted, (size_t)n * sizeof *got), 0);
    weft_job_part_deinit(&p);
    start();
    p = must_next();
    if (before > 0) CU_ASSERT_EQUAL(rows_of(&p, 0, got), 4);
    if (before > 0) CU_ASSERT_EQUAL(memcmp(got, first, 4 * sizeof *got), 0);
    weft_job_part_deinit(&p);
    end();
  }
}

static void what_is_whole_is_the_same_at_each_step(void) {
  begin(4, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
  CU_ASSERT_PTR_NULL_FATAL(add("b", 3, false));
  start();
  for (int step = 0; step < 4; step++) {
    weft_job_part_t p = must_next();
    CU_ASSERT_EQUAL(TF_Dim(p.tensors[1], 0), 3);
    CU_ASSERT_FALSE(p.is_owned[1]);
    CU_ASSERT_TRUE(p.is_owned[0]);
    weft_job_part_deinit(&p);
  }
  end();
}

typedef struct taker { /* A thread that takes batches. */
  pthread_t thread;
  int counts[ROWS]; /* by the first row of the batch */
} taker_t;

enum { PARTS = 400, LOOPS = 3 };

static void *take(void *arg) {
  taker_t *l = arg;
  weft_job_part_t p;
  bool has_ended = false;
  weft_status_t *s = weft_job_part_init(&p, f.n);
  for (int i = 0; s == NULL && i < PARTS; i++) {
    int32_t got[ROWS];
    s = weft_job_splitter_next(&splitter, &p, &has_ended);
    if (s == NULL && rows_of(&p, 0, got) == 2 && got[1] == got[0] + 1) l->counts[got[0]]++;
    weft_job_part_clear(&p);
  }
  weft_job_part_deinit(&p);
  weft_status_free(s);
  return NULL;
}

static void loops_that_ask_at_once_take_batches_of_their_own(void) {
  taker_t loops[LOOPS] = {0};
  begin(2, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
  start();
  for (int i = 0; i < LOOPS; i++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&loops[i].thread, NULL, take, &loops[i]), 0);
  for (int i = 0; i < LOOPS; i++) pthread_join(loops[i].thread, NULL);
  for (int row = 0; row < ROWS; row += 2) {
    int count = 0;
    for (int i = 0; i < LOOPS; i++) count += loops[i].counts[row];
    CU_ASSERT_EQUAL(count, LOOPS * PARTS / (ROWS / 2));
  }
  end();
}

static void expect(weft_status_t *s, weft_code_t code, const char *said) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  bool ok = s != NULL && strstr(weft_status_message(s), said) != NULL;
  if (!ok) printf("\n    no '%s' in: %s\n", said, s == NULL ? "OK" : weft_status_message(s));
  CU_ASSERT_TRUE(ok);
  weft_status_free(s);
}

static void what_cannot_be_fed_is_named_and_changes_nothing(void) {
  begin(4, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
  expect(add("a", ROWS, true), WEFT_INVALID_ARGUMENT, "input a is given twice");
  expect(add("b", ROWS - 1, true), WEFT_INVALID_ARGUMENT, "input b: an array has 9 rows, but a has 10");
  expect(add("c", ROWS, true), WEFT_NOT_FOUND, "input c");
  expect(add("b", 0, true), WEFT_INVALID_ARGUMENT, "no rows to make batches of");
  expect(weft_job_inputs_add(&f, WEFT_STR("b"), rows(ROWS, WEFT_F32), true, "an array"),
         WEFT_INVALID_ARGUMENT, "holds float, but the graph expects int32");
  CU_ASSERT_EQUAL(f.n, 1);
  CU_ASSERT_PTR_NULL(add("b", ROWS, true));
  end();
  begin(4, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, false));
  expect(weft_job_inputs_begin(&f), WEFT_INVALID_ARGUMENT, "options.batch needs");
  end();
  begin(0, true, 1);
  expect(weft_job_inputs_begin(&f), WEFT_INVALID_ARGUMENT, "options.shuffle needs options.batch");
  end();
}

/* As TensorFlow's session refuses it. The rows of a batch are not those of the array. */
static void an_array_of_another_shape_is_refused(void) {
  begin(4, false, 1);
  add_placeholder("narrow", (int64_t[]){-1, 1}, 2);
  add_placeholder("four", (int64_t[]){4, 2}, 2);
  add_placeholder("deep", (int64_t[]){-1, 2, -1}, 3);
  expect(add("narrow", ROWS, true), WEFT_INVALID_ARGUMENT,
         "input narrow: cannot feed an array of shape [10,2] for tensor narrow:0, which has shape [?,1]");
  expect(add("deep", ROWS, true), WEFT_INVALID_ARGUMENT, "which has shape [?,2,?]");
  expect(add("rate", ROWS, false), WEFT_INVALID_ARGUMENT, "of shape [10,2] for tensor rate:0");
  expect(add("four", ROWS, false), WEFT_INVALID_ARGUMENT, "of shape [10,2] for tensor four:0");
  CU_ASSERT_EQUAL(f.n, 0);
  CU_ASSERT_PTR_NULL(add("four", ROWS, true));
  CU_ASSERT_PTR_NULL(add("pair", ROWS, true));
  CU_ASSERT_PTR_NULL(add("a", ROWS, true));
  end();
}

/* ---- sources ---- */

typedef struct given {         /* what a source gives of its values, by batch */
  int64_t rows[2], columns[2]; /* columns 0: a vector; rows -1: nothing; -2: a scalar */
  TF_DataType dtype;
  bool fails;
} given_t;

static void give(void *arg, int64_t batch, TF_Tensor **values, int num_values, TF_Status *status) {
  const given_t *g = (const given_t *)arg + batch;
  if (g->fails) TF_SetStatus(status, TF_DATA_LOSS, "the disk is gone");
  for (int i = 0; i < num_values; i++) {
    int64_t dims[2] = {g->rows[i], g->columns[i]};
    if (g->rows[i] == -1) continue;
    int rank = g->rows[i] == -2 ? 0 : g->columns[i] > 0 ? 2 : 1;
    size_t count = rank == 0 ? 1 : (size_t)(dims[0] * (rank == 2 ? dims[1] : 1));
    values[i] = TF_AllocateTensor(g->dtype, dims, rank, count * TF_DataTypeSize(g->dtype));
  }
}

static void sources_give_batches_until_they_end(void) {
  static const char *const names[] = {"a", "pair"};
  given_t batches[] = {{{4, 4}, {0, 2}, TF_INT32, false},
                       {{3, 3}, {0, 2}, TF_INT32, false},
                       {{-1, -1}, {0, 0}, TF_INT32, false}};
  weft_job_part_t p;
  bool has_ended;
  begin(0, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(weft_job_inputs_add_source(&f, names, 2, give, batches));
  start();
  for (int i = 0; i < 2; i++) { /* an uneven last batch is a batch */
    CU_ASSERT_PTR_NULL(next(&p, &has_ended));
    CU_ASSERT_FALSE(has_ended);
    CU_ASSERT_EQUAL(TF_Dim(p.tensors[1], 0), 4 - i);
    weft_job_part_deinit(&p);
  }
  for (int i = 0; i < 2; i++) { /* it stays ended, and the position, too */
    CU_ASSERT_PTR_NULL(next(&p, &has_ended));
    CU_ASSERT_TRUE(has_ended);
    weft_job_part_deinit(&p);
    CU_ASSERT_EQUAL(weft_job_splitter_position(&splitter, 2).epoch, 2);
  }
  end();
}

static void what_a_source_must_not_give_is_named(void) {
  static const char *const names[] = {"a", "pair"};
  struct {
    given_t given;
    weft_code_t code;
    const char *said;
  } cases[] = {
      {{{4, 3}, {0, 2}, TF_INT32, false},
       WEFT_INVALID_ARGUMENT,
       "input pair: the source's batch 0 has another number of rows"},
      {{{4, 4}, {0, 3}, TF_INT32, false},
       WEFT_INVALID_ARGUMENT,
       "input pair: the source's batch 0 has the shape [4,3], but the graph expects [?,2]"},
      {{{4, 4}, {0, 0}, TF_INT32, false}, WEFT_INVALID_ARGUMENT, "has the shape [4]"},
      {{{4, 4}, {0, 2}, TF_FLOAT, false},
       WEFT_INVALID_ARGUMENT,
       "input a: the source's batch 0 holds float, but the graph expects int32"},
      {{{4, -1}, {0, 2}, TF_INT32, false},
       WEFT_INVALID_ARGUMENT,
       "input pair: the source's batch 0 lacks its value"},
      {{{-2, 4}, {0, 2}, TF_INT32, false}, WEFT_INVALID_ARGUMENT, "has another number of rows"},
      {{{4, 4}, {0, 2}, TF_INT32, true}, WEFT_DATA_LOSS, "the disk is gone; input a: the source of batch 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_job_part_t p;
    bool has_ended;
    begin(0, false, 1);
    CU_ASSERT_PTR_NULL_FATAL(weft_job_inputs_add_source(&f, names, 2, give, &cases[i].given));
    start();
    expect(next(&p, &has_ended), cases[i].code, cases[i].said);
    weft_job_part_deinit(&p);
    end();
  }
  begin(0, false, 1);
  expect(weft_job_inputs_add_source(&f, names, 0, give, NULL), WEFT_INVALID_ARGUMENT, "at least one input");
  expect(weft_job_inputs_add_source(&f, names, 1, NULL, NULL), WEFT_INVALID_ARGUMENT, "needs a function");
  expect(weft_job_inputs_add_source(&f, (const char *const[]){"a", "c"}, 2, give, NULL), WEFT_NOT_FOUND,
         "input c");
  CU_ASSERT_EQUAL(f.n, 0);
  end();
}

static void sources_and_arrays_go_together(void) {
  static const char *const rate[] = {"rate"};
  given_t batches[] = {{{-2, 0}, {0, 0}, TF_INT32, false},
                       {{-2, 0}, {0, 0}, TF_INT32, false},
                       {{-1, 0}, {0, 0}, TF_INT32, false}};
  weft_job_part_t p;
  bool has_ended;
  begin(4, false, 1);
  CU_ASSERT_PTR_NULL_FATAL(add("a", ROWS, true));
  CU_ASSERT_PTR_NULL_FATAL(weft_job_inputs_add_source(&f, rate, 1, give, batches));
  start();
  CU_ASSERT_TRUE(weft_job_input_is_batch(&f, 0));
  CU_ASSERT_FALSE(weft_job_input_is_batch(&f, 1)); /* a scalar */
  for (int i = 0; i < 2; i++) {
    p = must_next();
    CU_ASSERT_EQUAL(TF_Dim(p.tensors[0], 0), 4);
    weft_job_part_deinit(&p);
  }
  CU_ASSERT_PTR_NULL(next(&p, &has_ended));
  CU_ASSERT_TRUE(has_ended);
  weft_job_part_deinit(&p);
  CU_ASSERT_EQUAL(weft_job_splitter_position(&splitter, 2).row, 8); /* nothing was taken of the array */
  end();
}

/* ---- memory ---- */

static weft_status_t *a_whole_life(void) {
  static const char *const names[] = {"b"};
  given_t batches[] = {{{4, 0}, {0, 0}, TF_INT32, false}};
  weft_job_part_t p = {0};
  bool has_ended;
  weft_job_inputs_t *g = &f;
  weft_tensor_t *data = NULL;
  weft_shape_t shape = weft_shape_vector(ROWS);
  weft_job_inputs_init(g, graph, &(weft_job_batching_t){.batch = 3, .is_shuffled = true, .seed = 1},
                       &weft_job_words);
  weft_status_t *s = weft_tensor_new(WEFT_I32, &shape, NULL, &data);
  if (s == NULL) s = weft_job_inputs_add(g, WEFT_STR("a"), data, true, "an array");
  if (s == NULL) s = weft_job_inputs_add_source(g, names, 1, give, batches);
  if (s == NULL) s = weft_job_inputs_begin(g);
  if (s == NULL) s = weft_job_part_init(&p, g->n);
  if (s == NULL) s = weft_job_inputs_next(g, p.tensors, p.is_owned, &has_ended);
  if (s == NULL && has_ended) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "the source could not allocate");
  weft_job_part_deinit(&p);
  weft_job_inputs_deinit(g);
  return s;
}

static void a_failing_allocation_is_reported(void) {
  long n;
  begin(3, true, 1);
  weft_job_inputs_deinit(&f);
  WEFT_FAIL_EACH_ALLOCATION(n, s, a_whole_life());
  CU_ASSERT_TRUE(n > 8);
  weft_job_splitter_deinit(&splitter);
  TF_DeleteGraph(graph);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"epochs follow each other with a smaller batch at the end",
       epochs_follow_each_other_with_a_smaller_batch_at_the_end},
      {"shuffling is a new permutation each epoch, the same for all inputs",
       shuffling_is_a_new_permutation_each_epoch_the_same_for_all_inputs},
      {"inputs go to where they stood", inputs_go_to_where_they_stood},
      {"what is whole is the same at each step", what_is_whole_is_the_same_at_each_step},
      {"loops that ask at once take batches of their own", loops_that_ask_at_once_take_batches_of_their_own},
      {"an array of another shape is refused", an_array_of_another_shape_is_refused},
      {"what cannot be fed is named and changes nothing", what_cannot_be_fed_is_named_and_changes_nothing},
      {"sources give batches until they end", sources_give_batches_until_they_end},
      {"what a source must not give is named", what_a_source_must_not_give_is_named},
      {"sources and arrays go together", sources_and_arrays_go_together},
      {"a failing allocation is reported", a_failing_allocation_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("inputs", tests);
}
