/* tests/tools/feeds_test.c - epochs, remainders, shuffling; which rows come at which step. */
#include "tools/submit/deal.h"

#include <pthread.h>
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

/* Rows that a lane was dealt of feed `i`. */
static int rows_of(const weft_hand_t *h, int i, int32_t *rows) {
  int n = (int)TF_Dim(h->tensors[i], 0);
  for (int k = 0; k < n; k++) rows[k] = ((const int32_t *)TF_TensorData(h->tensors[i]))[2 * k];
  return n;
}

static weft_feeds_t f;
static weft_dealer_t dealer;

static void begin(const char *const *specs, int n, int64_t batch, bool shuffle, uint64_t seed) {
  CU_ASSERT_PTR_NULL_FATAL(weft_feeds_init(&f, graph, specs, n, &(weft_batching_t){.batch = batch, .is_shuffled = shuffle, .seed = seed}));
  weft_dealer_init(&dealer, &f);
}
static void end(void) {
  weft_dealer_deinit(&dealer);
  weft_feeds_deinit(&f);
}
static weft_hand_t *next(void) {
  weft_hand_t *h = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_dealer_next(&dealer, &h));
  return h;
}

static void epochs_follow_each_other_with_a_smaller_batch_at_the_end(void) {
  static const int sizes[] = {4, 4, 2, 4, 4, 2};
  static const int firsts[] = {0, 4, 8, 0, 4, 8};
  const char *specs[] = {feed_a};
  set_up();
  begin(specs, 1, 4, false, 1);
  for (int step = 0; step < 6; step++) {
    int32_t rows[ROWS];
    weft_hand_t *h = next();
    CU_ASSERT_EQUAL(rows_of(h, 0, rows), sizes[step]);
    for (int k = 0; k < sizes[step]; k++) CU_ASSERT_EQUAL(rows[k], firsts[step] + k);
    weft_hand_free(h);
  }
  end();
  TF_DeleteGraph(graph);
}

static void shuffling_is_a_new_permutation_each_epoch_the_same_for_all_feeds(void) {
  const char *specs[] = {feed_a, feed_b};
  int32_t epochs[2][ROWS], again[ROWS];
  set_up();
  for (int round = 0; round < 2; round++) {
    begin(specs, 2, 3, true, 7);
    for (int epoch = 0; epoch < 2; epoch++) {
      bool seen[ROWS] = {false};
      for (int n = 0; n < ROWS;) {
        int32_t a[ROWS], b[ROWS];
        weft_hand_t *h = next();
        int rows = rows_of(h, 0, a);
        CU_ASSERT_EQUAL(rows_of(h, 1, b), rows);
        weft_hand_free(h);
        for (int k = 0; k < rows; k++, n++) {
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
  TF_DeleteGraph(graph);
}

static void without_a_batch_arrays_are_whole_and_scalars_stay(void) {
  const char *specs[] = {feed_a, "b=-3"};
  set_up();
  begin(specs, 2, 0, false, 1);
  for (int step = 0; step < 2; step++) {
    weft_hand_t *h = next();
    CU_ASSERT_EQUAL(TF_Dim(h->tensors[0], 0), ROWS);
    CU_ASSERT_EQUAL(TF_NumDims(h->tensors[1]), 0);
    CU_ASSERT_EQUAL(*(int32_t *)TF_TensorData(h->tensors[1]), -3);
    weft_hand_free(h);
  }
  end();
  TF_DeleteGraph(graph);
}

typedef struct lane { /* A thread that takes batches. */
  pthread_t thread;
  int counts[ROWS]; /* by the first row of the batch */
} lane_t;

enum { HANDS = 400, LANES = 3 };

static void *take(void *arg) {
  lane_t *l = arg;
  weft_hand_t *h = NULL;
  for (int i = 0; i < HANDS && weft_dealer_next(&dealer, &h) == NULL; i++) {
    int32_t rows[ROWS];
    if (rows_of(h, 0, rows) == 2 && rows[1] == rows[0] + 1) l->counts[rows[0]]++;
    weft_hand_free(h);
  }
  return NULL;
}

static void lanes_that_ask_at_once_take_batches_of_their_own(void) {
  const char *specs[] = {feed_a};
  lane_t lanes[LANES] = {0};
  set_up();
  begin(specs, 1, 2, false, 1);
  for (int i = 0; i < LANES; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&lanes[i].thread, NULL, take, &lanes[i]), 0);
  for (int i = 0; i < LANES; i++) pthread_join(lanes[i].thread, NULL);
  for (int row = 0; row < ROWS; row += 2) {
    int count = 0;
    for (int i = 0; i < LANES; i++) count += lanes[i].counts[row];
    CU_ASSERT_EQUAL(count, LANES * HANDS / (ROWS / 2));
  }
  end();
  TF_DeleteGraph(graph);
}

static void what_cannot_be_fed_is_named(void) {
  char short_b[600];
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
    weft_status_t *s = weft_feeds_init(&f, graph, cases[i].specs, 2, &(weft_batching_t){.batch = cases[i].batch, .is_shuffled = cases[i].shuffle, .seed = 1});
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
      {"lanes that ask at once take batches of their own", lanes_that_ask_at_once_take_batches_of_their_own},
      {"what cannot be fed is named", what_cannot_be_fed_is_named},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("feeds", tests);
}
