/* examples/recommender/recommender.c - learns to predict ratings, with a coordinator over parameter servers
 * and workers.
 *
 *   recommender --cluster "ps=...;worker=..." [--epochs N] [--bound X]
 *
 * Ends with the error on ratings that it has not learned from, `test rmse: 0.xxx`, and fails if that is not
 * below the bound. Workers may be killed and restarted while it runs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "examples/recommender/model.h"
#include "examples/recommender/ratings.h"

enum { USERS = 1000, ITEMS = 500, TRAIN = 90000, TEST = 10000, BATCH = 200, TASTE = 6, GUESS_BATCH = 1000 };

typedef struct program {
  const char *cluster;
  int epochs;
  double bound;
  ratings_t train, test;
  model_t model;
  WEFT_Coordinator *coordinator;
  TF_Status *s;
} program_t;

static void check(program_t *p, const char *what) {
  if (TF_GetCode(p->s) == TF_OK) return;
  fprintf(stderr, "recommender: %s: %s\n", what, TF_Message(p->s));
  exit(1);
}

/* ---- each worker's own share of the ratings, in an order of its own, over and over ---- */

typedef struct stream {
  const ratings_t *ratings;
  int first, step; /* its share: first, first + step, ... */
  uint64_t random;
} stream_t;

static TF_Tensor *new_tensor(TF_DataType type, int n) {
  const int64_t dims[] = {n};
  return TF_AllocateTensor(type, dims, 1, (size_t)n * 4);
}

static int next_batch(void *self, TF_Tensor **out, int max, TF_Status *s) {
  stream_t *t = self;
  if (max < 3) {
    TF_SetStatus(s, TF_INTERNAL, "no room for a batch");
    return 0;
  }
  out[0] = new_tensor(TF_INT32, BATCH);
  out[1] = new_tensor(TF_INT32, BATCH);
  out[2] = new_tensor(TF_FLOAT, BATCH);
  int share = (t->ratings->n - t->first + t->step - 1) / t->step;
  for (int i = 0; i < BATCH; i++) {
    const rating_t *r =
        &t->ratings->items[t->first + t->step * (int)(ratings_random(&t->random) % (uint64_t)share)];
    ((int32_t *)TF_TensorData(out[0]))[i] = r->user;
    ((int32_t *)TF_TensorData(out[1]))[i] = r->item;
    ((float *)TF_TensorData(out[2]))[i] = r->value;
  }
  return 3;
}

static void close_stream(void *self) { weft_free(self); }

static void open_stream(const WEFT_InputContext *x, void *user, WEFT_Generator *out, TF_Status *s) {
  stream_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) {
    TF_SetStatus(s, TF_RESOURCE_EXHAUSTED, "out of memory: a stream of ratings");
    return;
  }
  *t = (stream_t){user, x->input_pipeline_id, x->num_input_pipelines, 17 + (uint64_t)x->input_pipeline_id};
  *out = (WEFT_Generator){t, next_batch, close_stream};
}

/* ---- training ---- */

static WEFT_Closure *closure(program_t *p, WEFT_BuildFn build) {
  WEFT_Closure *c = WEFT_NewClosure(p->coordinator, build, &p->model, NULL, p->s);
  check(p, "making a closure");
  return c;
}

static WEFT_RemoteValue *schedule(program_t *p, WEFT_Closure *c, const WEFT_Arg *args, int n) {
  WEFT_RemoteValue *v = WEFT_Schedule(p->coordinator, c, args, n, p->s);
  check(p, "scheduling");
  return v;
}

static void join(program_t *p) {
  WEFT_Join(p->coordinator, -1, p->s);
  check(p, "running");
}

static double fetch_number(program_t *p, WEFT_RemoteValue *v) {
  TF_Tensor *t = NULL;
  WEFT_Fetch(v, &t, 1, p->s);
  check(p, "fetching");
  double value = (double)*(const float *)TF_TensorData(t);
  TF_DeleteTensor(t);
  return value;
}

static void initialise(program_t *p) {
  WEFT_Closure *init = closure(p, model_build_init);
  WEFT_RemoteValueRelease(schedule(p, init, NULL, 0));
  join(p);
  WEFT_DeleteClosure(init);
}

static void learn(program_t *p) {
  WEFT_Closure *step = closure(p, model_build_step);
  WEFT_PerWorker *batches = WEFT_CreatePerWorkerDataset(p->coordinator, open_stream, &p->train, p->s);
  check(p, "making datasets");
  const WEFT_Arg arg = {.kind = WEFT_ARG_PER_WORKER, .per_worker = batches};
  for (int epoch = 1; epoch <= p->epochs; epoch++) {
    WEFT_RemoteValue *last = NULL;
    for (int i = 0; i < TRAIN / BATCH; i++) {
      WEFT_RemoteValueRelease(last);
      last = schedule(p, step, &arg, 1);
    }
    join(p);
    printf("epoch %d: mean squared error of the last batch %.4f\n", epoch, fetch_number(p, last));
    fflush(stdout);
    WEFT_RemoteValueRelease(last);
  }
  WEFT_DeletePerWorker(batches);
  WEFT_DeleteClosure(step);
}

/* All batches of the test ratings are in the queue at once; whichever worker is free takes the next. */
static double test_error(program_t *p) {
  enum { BATCHES = TEST / GUESS_BATCH };
  WEFT_Closure *guess = closure(p, model_build_guess);
  WEFT_RemoteValue *values[BATCHES];
  float *guesses = weft_calloc(TEST, sizeof *guesses);
  if (guesses == NULL) exit(1);
  for (int k = 0; k < BATCHES; k++) {
    TF_Tensor *users = new_tensor(TF_INT32, GUESS_BATCH), *items = new_tensor(TF_INT32, GUESS_BATCH);
    for (int i = 0; i < GUESS_BATCH; i++) {
      ((int32_t *)TF_TensorData(users))[i] = p->test.items[k * GUESS_BATCH + i].user;
      ((int32_t *)TF_TensorData(items))[i] = p->test.items[k * GUESS_BATCH + i].item;
    }
    const WEFT_Arg args[2] = {{.kind = WEFT_ARG_TENSOR, .tensor = users},
                              {.kind = WEFT_ARG_TENSOR, .tensor = items}};
    values[k] = schedule(p, guess, args, 2);
    TF_DeleteTensor(users);
    TF_DeleteTensor(items);
  }
  for (int k = 0; k < BATCHES; k++) {
    TF_Tensor *t = NULL;
    WEFT_Fetch(values[k], &t, 1, p->s);
    check(p, "guessing");
    memcpy(guesses + k * GUESS_BATCH, TF_TensorData(t), GUESS_BATCH * sizeof *guesses);
    TF_DeleteTensor(t);
    WEFT_RemoteValueRelease(values[k]);
  }
  double error = ratings_error(&p->test, guesses);
  weft_free(guesses);
  WEFT_DeleteClosure(guess);
  return error;
}

/* ---- the program ---- */

static void connect_to(program_t *p) {
  WEFT_CoordinatorOptions o;
  WEFT_Cluster *cluster = WEFT_NewCluster(p->cluster, p->s);
  check(p, "--cluster");
  WEFT_InitCoordinatorOptions(&o);
  o.effectively_once = 1;
  p->coordinator = WEFT_NewCoordinator(cluster, &o, p->s);
  check(p, "coordinator");
  WEFT_DeleteCluster(cluster);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool read_options(program_t *p, int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--cluster") == 0)
      p->cluster = argv[i + 1];
    else if (strcmp(argv[i], "--epochs") == 0)
      p->epochs = (int)strtol(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--bound") == 0)
      p->bound = strtod(argv[i + 1], NULL);
    else
      return false;
  }
  return argc % 2 == 1 && p->cluster != NULL && p->epochs > 0;
}

int main(int argc, char **argv) {
  program_t p = {.epochs = 12, .bound = 0.30, .s = TF_NewStatus()};
  if (!read_options(&p, argc, argv)) {
    fprintf(stderr,
            "usage: recommender --cluster \"ps=HOST:PORT;worker=HOST:PORT,...\" [--epochs N] [--bound X]\n");
    return 2;
  }
  ratings_make(USERS, ITEMS, TRAIN, TEST, 42, &p.train, &p.test);
  p.model = (model_t){USERS, ITEMS, TASTE, p.train.mean, 0.03f, 0.02f, 7};
  connect_to(&p);
  double begin = seconds();
  initialise(&p);
  learn(&p);
  double took = seconds() - begin, error = test_error(&p);
  printf("%d ratings in %.1f s; guessing the mean: %.3f; the noise, which bounds any model: %.3f\n",
         TRAIN * p.epochs, took, ratings_error(&p.test, NULL), (double)RATINGS_NOISE);
  WEFT_DeleteCoordinator(p.coordinator);
  TF_DeleteStatus(p.s);
  ratings_free(&p.train);
  ratings_free(&p.test);
  bool is_good = error < p.bound;
  if (!is_good) fprintf(stderr, "recommender: the error is not below %.3f\n", p.bound);
  printf("test rmse: %.3f\n", error);
  return is_good ? 0 : 1;
}
