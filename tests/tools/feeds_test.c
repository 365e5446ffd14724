/* tests/tools/feeds_test.c - epochs, remainders, shuffling; which rows come at which step. */
#include "tools/submit/feeds.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/npy.h"
#include "tests/runner.h"

enum { ROWS = 10 };

static TF_Graph *graph;
static char feed_a[600], feed_b[600];

static TF_Graph *two_inputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Status *s = TF_NewStatus();
  static const char *const names[] = {"a", "b"};
  for (int i = 0; i < 2; i++) {
    TF_OperationDescription *node = TF_NewOperation(g, "Placeholder", names[i]);
    TF_SetAttrType(node, "dtype", TF_INT32);
    TF_FinishOperation(node, s);
    CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  }
  TF_DeleteStatus(s);
  return g;
}

/* Row i of file `name` holds i, twice. */
static void write_rows(const char *name, int64_t rows, char *feed, size_t size) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  char path[500];
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/%s.npy", folder == NULL ? "/tmp" : folder, name);
  snprintf(feed, size, "%s=%s", name, path);
  weft_status_t *s = weft_shape_make((int64_t[]){rows, 2}, 2, &shape);
  if (s == NULL) s = weft_tensor_new(WEFT_I32, &shape, NULL, &t);
  for (int i = 0; s == NULL && i < 2 * rows; i++) ((int32_t *)t->data)[i] = i / 2;
  if (s == NULL) s = weft_npy_write(path, t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_tensor_release(t);
}

static void set_up(void) {
  graph = two_inputs();
  write_rows("a", ROWS, feed_a, sizeof feed_a);
  write_rows("b", ROWS, feed_b, sizeof feed_b);
}

/* Rows of the step's batch of feed `i`. */
static int rows_of(const weft_feeds_t *f, int i, int32_t *rows) {
  int n = (int)TF_Dim(f->tensors[i], 0);
  for (int k = 0; k < n; k++) rows[k] = ((const int32_t *)TF_TensorData(f->tensors[i]))[2 * k];
  return n;
}

static void epochs_follow_each_other_with_a_smaller_batch_at_the_end(void) {
  static const int sizes[] = {4, 4, 2, 4, 4, 2};
  static const int firsts[] = {0, 4, 8, 0, 4, 8};
  const char *specs[] = {feed_a};
  weft_feeds_t f;
  set_up();
  CU_ASSERT_PTR_NULL_FATAL(weft_feeds_init(&f, graph, specs, 1, 4, false, 1));
  for (int step = 0; step < 6; step++) {
    int32_t rows[ROWS];
    CU_ASSERT_PTR_NULL(weft_feeds_next(&f));
    CU_ASSERT_EQUAL(rows_of(&f, 0, rows), sizes[step]);
    for (int k = 0; k < sizes[step]; k++) CU_ASSERT_EQUAL(rows[k], firsts[step] + k);
  }
  weft_feeds_deinit(&f);
  TF_DeleteGraph(graph);
}

static void shuffling_is_a_new_permutation_each_epoch_the_same_for_all_feeds(void) {
  const char *specs[] = {feed_a, feed_b};
  int32_t epochs[2][ROWS], again[ROWS];
  weft_feeds_t f;
  set_up();
  for (int round = 0; round < 2; round++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_feeds_init(&f, graph, specs, 2, 3, true, 7));
    for (int epoch = 0; epoch < 2; epoch++) {
      bool seen[ROWS] = {false};
      for (int n = 0; n < ROWS;) {
        int32_t a[ROWS], b[ROWS];
        CU_ASSERT_PTR_NULL(weft_feeds_next(&f));
        int rows = rows_of(&f, 0, a);
        CU_ASSERT_EQUAL(rows_of(&f, 1, b), rows);
        for (int k = 0; k < rows; k++, n++) {
          CU_ASSERT_EQUAL(a[k], b[k]);
          CU_ASSERT_FALSE(seen[a[k]]);
          seen[a[k]] = true;
          if (round == 0) epochs[epoch][n] = a[k];
          if (round == 1 && epoch == 0) again[n] = a[k];
        }
      }
    }
    weft_feeds_deinit(&f);
  }
  CU_ASSERT_NOT_EQUAL(memcmp(epochs[0], epochs[1], sizeof epochs[0]), 0);
  CU_ASSERT_EQUAL(memcmp(epochs[0], again, sizeof again), 0); /* the seed decides */
  TF_DeleteGraph(graph);
}

static void without_a_batch_arrays_are_whole_and_scalars_stay(void) {
  const char *specs[] = {feed_a, "b=-3"};
  weft_feeds_t f;
  set_up();
  CU_ASSERT_PTR_NULL_FATAL(weft_feeds_init(&f, graph, specs, 2, 0, false, 1));
  for (int step = 0; step < 2; step++) {
    CU_ASSERT_PTR_NULL(weft_feeds_next(&f));
    CU_ASSERT_EQUAL(TF_Dim(f.tensors[0], 0), ROWS);
    CU_ASSERT_EQUAL(TF_NumDims(f.tensors[1]), 0);
    CU_ASSERT_EQUAL(*(int32_t *)TF_TensorData(f.tensors[1]), -3);
  }
  weft_feeds_deinit(&f);
  TF_DeleteGraph(graph);
}

static void what_cannot_be_fed_is_named(void) {
  char short_b[600];
  weft_feeds_t f;
  set_up();
  write_rows("b", ROWS - 1, short_b, sizeof short_b);
  const struct {
    const char *specs[2];
    int64_t batch;
    bool shuffle;
    const char *said;
  } cases[] = {
      {{feed_a, short_b}, 4, false, "--feed b"},   {{feed_a, "a=1"}, 4, false, "--feed a is given twice"},
      {{feed_a, "c=1"}, 4, false, "--feed c"},     {{"a=1", "b=2"}, 4, false, "--batch"},
      {{feed_a, "b=2"}, 0, true, "--shuffle"},     {{feed_a, "=2"}, 0, false, "NAME=VALUE"},
      {{feed_a, "b=2.5"}, 0, false, "--feed b"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_status_t *s = weft_feeds_init(&f, graph, cases[i].specs, 2, cases[i].batch, cases[i].shuffle, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].said));
    weft_status_free(s);
  }
  TF_DeleteGraph(graph);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"epochs follow each other with a smaller batch at the end", epochs_follow_each_other_with_a_smaller_batch_at_the_end},
      {"shuffling is a new permutation each epoch, the same for all feeds", shuffling_is_a_new_permutation_each_epoch_the_same_for_all_feeds},
      {"without a batch arrays are whole and scalars stay", without_a_batch_arrays_are_whole_and_scalars_stay},
      {"what cannot be fed is named", what_cannot_be_fed_is_named},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("feeds", tests);
}
