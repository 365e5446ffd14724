/* tests/tools/strategy_test.c - `weft submit --strategy` and `weft inspect --strategy` on the very files that
 * train on one device. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/runner.h"
#include "tests/tools/array_file.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"

enum { MAX_POINTS = 512, ROWS = 309, CLASSES = 4 };
#define GRAPHS "tests/strategies/testdata/"

static run_t r; /* large, so not on the stack */

/* All that trains in step, with 1, 2, 3 and 4 replicas. */
static const char *const in_step[] = {
    "mirrored",
    "mirrored:1",
    "mirrored:2",
    "mirrored:3",
    "mirrored:4",
    "mirrored:3,fusion=horovod",
    "multi_worker_mirrored",
    "data_parallel:2",
    "data_parallel:3",
    "data_parallel:4",
    "central_storage:2",
    "central_storage:3",
    "central_storage:4",
    "parameter_server:mode=sync,workers=1",
    "parameter_server:mode=sync,workers=2",
    "parameter_server:mode=sync,workers=3",
    "parameter_server:mode=sync,workers=4",
    "parameter_server:mode=sync,workers=3,shards=fixed:2",
    "parameter_server:workers=1",
    "parameter_server:mode=ssp,workers=1",
};
enum { NUM_IN_STEP = sizeof in_step / sizeof in_step[0] };

static bool has(const char *text, const char *part) {
  bool yes = strstr(text, part) != NULL;
  if (!yes) fprintf(stderr, "no '%s' in: %s\n", part, text);
  return yes;
}

static int lines(const char *text) {
  int n = 0;
  for (; *text != '\0'; text++) n += *text == '\n';
  return n;
}

/* ---- runs ---- */

typedef struct model {
  const char *graph, *type; /* of x */
  int columns;
  double scale, tolerance;
} model_t;
static const model_t models[] = {
    {GRAPHS "mlp_sgd.pb", "<f4", 32, 1, 1e-5},         {GRAPHS "mlp_momentum.pb", "<f4", 32, 1, 1e-5},
    {GRAPHS "mlp_adam.pb", "<f4", 32, 1, 1e-5},        {GRAPHS "mlp64_sgd.pb", "<f8", 32, 1, 1e-10},
    {GRAPHS "mlp64_momentum.pb", "<f8", 32, 1, 1e-10}, {GRAPHS "mlp64_adam.pb", "<f8", 32, 1, 1e-10},
    {GRAPHS "embedding_sgd.pb", "<i4", 0, 1000, 1e-5}, {GRAPHS "embedding_adam.pb", "<i4", 0, 1000, 1e-5},
};
enum { NUM_MODELS = sizeof models / sizeof models[0] };

typedef struct use {
  const model_t *model;
  const char *strategy, *steps, *batch; /* batch NULL: arrays are fed whole */
  const char *more[12];                 /* fetches, targets, files */
  int rows;
} use_t;

static int submit(const use_t *u) {
  const char *args[RUN_MAX_ARGS] = {"submit", u->model->graph, "--init", "init",
                                    "--json", "--steps",       u->steps};
  char x[600], y[600];
  int n = 7;
  write_array(x, "x", u->model->type, u->rows, u->model->columns, u->model->scale);
  write_array(y, "y", "<i4", u->rows, 0, CLASSES);
  args[n++] = "--feed";
  args[n++] = x;
  args[n++] = "--feed";
  args[n++] = y;
  if (u->batch != NULL) {
    args[n++] = "--batch";
    args[n++] = u->batch;
  }
  if (u->strategy != NULL) {
    args[n++] = "--strategy";
    args[n++] = u->strategy;
  }
  for (int i = 0; u->more[i] != NULL; i++) args[n++] = u->more[i];
  int code = run(&r, args);
  if (code != 0)
    fprintf(stderr, "%s with %s: %s\n", u->model->graph, u->strategy == NULL ? "no strategy" : u->strategy,
            r.err);
  return code;
}

/* The last line's value of a fetch; the caller owns it. */
static json_t *last_value(const char *fetch) {
  char *line = r.out + r.out_length;
  while (line > r.out && (line[-1] != '\n' || line[0] == '\0')) line--;
  json_t *root = json_loads(line, 0, NULL);
  json_t *value = json_incref(json_object_get(json_object_get(root, "fetches"), fetch));
  json_decref(root);
  return value;
}

/* "loss" of each line; how many there are. An update may be counted before a worker has shown its first
 * value: null. */
static int losses(double *out) {
  int n = 0;
  for (char *line = r.out, *end; (end = strchr(line, '\n')) != NULL && n < MAX_POINTS; line = end + 1) {
    json_t *root = json_loadb(line, (size_t)(end - line), 0, NULL);
    json_t *loss = json_object_get(json_object_get(root, "fetches"), "loss");
    CU_ASSERT_TRUE(json_is_number(loss) || json_is_null(loss));
    if (json_is_number(loss)) out[n++] = json_number_value(loss);
    json_decref(root);
  }
  return n;
}

static void trains_alike(const use_t *u, const double *wanted, int num_wanted) {
  double got[MAX_POINTS];
  CU_ASSERT_EQUAL(submit(u), 0);
  int n = losses(got);
  CU_ASSERT_EQUAL(n, num_wanted);
  for (int i = 0; i < n && i < num_wanted; i++) {
    bool is_close = fabs(got[i] - wanted[i]) <= u->model->tolerance * fabs(wanted[i]);
    if (!is_close)
      fprintf(stderr, "%s with %s, line %d: %.12g for %.12g\n", u->model->graph, u->strategy, i, got[i],
              wanted[i]);
    CU_ASSERT_TRUE(is_close);
  }
}

static void losses_of_200_steps_are_those_of_one_device(void) {
  for (int m = 0; m < NUM_MODELS; m++) {
    double wanted[MAX_POINTS];
    use_t u = {.model = &models[m],
               .steps = "200",
               .batch = "32",
               .more = {"--target", "train", "--fetch", "loss"},
               .rows = ROWS};
    CU_ASSERT_EQUAL(submit(&u), 0);
    int n = losses(wanted);
    CU_ASSERT_TRUE(n >= 20);
    CU_ASSERT_TRUE(wanted[n - 1] < wanted[0]);
    for (int i = 0; i < NUM_IN_STEP; i++) {
      u.strategy = in_step[i];
      trains_alike(&u, wanted, n);
    }
  }
}

static void batches_smaller_than_the_replicas_are_no_trouble(void) {
  static const char *const batches[] = {"1", "3"};
  for (int b = 0; b < 2; b++) {
    for (int m = 0; m < NUM_MODELS; m += 2) {
      double wanted[MAX_POINTS];
      use_t u = {.model = &models[m],
                 .steps = "20",
                 .batch = batches[b],
                 .more = {"--target", "train", "--fetch", "loss"},
                 .rows = 8};
      CU_ASSERT_EQUAL(submit(&u), 0);
      int n = losses(wanted);
      for (int i = 0; i < NUM_IN_STEP; i++) {
        u.strategy = in_step[i];
        trains_alike(&u, wanted, n);
      }
    }
  }
}

/* Arrays that are no batches of --batch are shared out all the same. */
static void whole_arrays_are_shared_out_too(void) {
  double wanted[MAX_POINTS];
  use_t u = {
      .model = &models[3], .steps = "20", .more = {"--target", "train", "--fetch", "loss"}, .rows = 61};
  CU_ASSERT_EQUAL(submit(&u), 0);
  int n = losses(wanted);
  for (int i = 0; i < NUM_IN_STEP; i++) {
    u.strategy = in_step[i];
    trains_alike(&u, wanted, n);
  }
}

static bool near(const json_t *a, const json_t *b) {
  if (json_is_array(a)) {
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++)
      same = near(json_array_get(a, i), json_array_get(b, i));
    return same;
  }
  return json_is_number(a) && json_is_number(b) &&
         fabs(json_number_value(a) - json_number_value(b)) <= 1e-5 + 1e-5 * fabs(json_number_value(a));
}

/* Rows of predictions come in order, counts and means are those of all rows: in training and in evaluation.
 */
static void fetches_are_those_of_the_whole_batch(void) {
  static const char *const fetches[] = {"loss", "accuracy", "num_hits", "logits"};
  static const char *const others[] = {"parameter_server:workers=3", "parameter_server:mode=ssp,workers=3",
                                       "parameter_server:mode=sync,workers=3,backup=1",
                                       "parameter_server:workers=2,shards=fixed:2"};
  for (int trains = 0; trains < 2; trains++) {
    json_t *wanted[4];
    use_t u = {
        .model = &models[0],
        .steps = "1",
        .batch = "50",
        .rows = 50,
        .more = {"--fetch", "loss", "--fetch", "accuracy", "--fetch", "num_hits", "--fetch", "logits"}};
    if (trains) u.more[8] = "--target";
    if (trains) u.more[9] = "train";
    CU_ASSERT_EQUAL(submit(&u), 0);
    for (int k = 0; k < 4; k++) wanted[k] = last_value(fetches[k]);
    CU_ASSERT_EQUAL(json_array_size(wanted[3]), 50);
    for (int i = 0; i < NUM_IN_STEP + (trains ? 0 : 4); i++) {
      u.strategy = i < NUM_IN_STEP ? in_step[i] : others[i - NUM_IN_STEP];
      CU_ASSERT_EQUAL(submit(&u), 0);
      for (int k = 0; k < 4; k++) {
        json_t *got = last_value(fetches[k]);
        bool same = near(wanted[k], got);
        if (!same) fprintf(stderr, "%s differs with %s\n", fetches[k], u.strategy);
        CU_ASSERT_TRUE(same);
        json_decref(got);
      }
    }
    for (int k = 0; k < 4; k++) json_decref(wanted[k]);
  }
}

static void workers_with_batches_of_their_own_learn_too(void) {
  static const char *const strategies[] = {"parameter_server:workers=3",
                                           "parameter_server:mode=ssp,staleness=2,workers=3",
                                           "parameter_server:mode=sync,workers=3,backup=1",
                                           "parameter_server:mode=sync,workers=2,split=false",
                                           "parameter_server:workers=2,shards=min_size:1K",
                                           "parameter_server:workers=2,placement=bytes,caching"};
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    double got[MAX_POINTS];
    use_t u = {.model = &models[0],
               .strategy = strategies[i],
               .steps = "400",
               .batch = "32",
               .rows = 96,
               .more = {"--target", "train", "--fetch", "loss"}};
    CU_ASSERT_EQUAL(submit(&u), 0);
    int n = losses(got);
    CU_ASSERT_TRUE(n > 10);
    CU_ASSERT_TRUE(got[n - 1] < got[0]);
  }
}

static void no_step_runs_no_step(void) {
  for (int i = 0; i < NUM_IN_STEP; i++) {
    use_t u = {.model = &models[0],
               .strategy = in_step[i],
               .steps = "0",
               .batch = "32",
               .rows = 40,
               .more = {"--target", "train"}};
    CU_ASSERT_EQUAL(submit(&u), 0);
    CU_ASSERT_EQUAL(lines(r.out), 1);
    CU_ASSERT_TRUE(has(r.out, "\"step\":0") && has(r.out, "\"done\":true"));
  }
}

/* ---- what is wrong ---- */

static void what_is_wrong_is_said_on_one_line_before_the_first_step(void) {
  const char *mlp = GRAPHS "mlp_sgd.pb";
  const char *counter = write_text("counter.pbtxt", COUNTER);
  const struct {
    const char *graph, *strategy, *what[4], *feed, *said[2];
    int code; /* 2: the option alone is wrong */
  } cases[] = {
      {mlp, "mirored:2", {"--target", "train"}, NULL, {"mirored", "did you mean 'mirrored'?"}, 2},
      {mlp, "nothing", {"--target", "train"}, NULL, {"nothing", "parameter_server"}, 2},
      {mlp, "mirrored:x", {"--target", "train"}, NULL, {"'x'", "mirrored"}, 2},
      {mlp, "mirrored:-1", {"--target", "train"}, NULL, {"-1", "mirrored"}, 2},
      {mlp, "mirrored:99999999999999999999", {"--target", "train"}, NULL, {"99999999999999999999"}, 2},
      {mlp, "mirrored:2,color=red", {"--target", "train"}, NULL, {"color", "bytes_per_pack"}, 2},
      {mlp, "mirrored:2,fusion=zzz", {"--target", "train"}, NULL, {"zzz", "horovod"}, 2},
      {mlp, "parameter_server:mode=sink", {"--target", "train"}, NULL, {"sink", "async"}, 2},
      {mlp, "parameter_server:staleness=2", {"--target", "train"}, NULL, {"staleness", "ssp"}, 2},
      {mlp, "parameter_server:backup=1", {"--target", "train"}, NULL, {"backup", "sync"}, 2},
      {mlp, "parameter_server:mode=sync,workers=2,backup=2", {"--target", "train"}, NULL, {"backup=2"}, 1},
      {mlp, "parameter_server:shards=fixed:0", {"--target", "train"}, NULL, {"fixed:0"}, 2},
      {mlp, "mirrored:2", {"--target", "trains"}, NULL, {"trains", "did you mean 'train'"}, 1},
      {counter, "mirrored:2", {"--fetch", "value"}, "by=1", {"'by'", "batch dimension"}, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *args[12] = {"submit", cases[i].graph, "--strategy", cases[i].strategy};
    int n = 4;
    for (int k = 0; k < 4 && cases[i].what[k] != NULL; k++) args[n++] = cases[i].what[k];
    if (cases[i].feed != NULL) args[n++] = "--feed";
    args[n] = cases[i].feed;
    int code = run(&r, args);
    if (code != cases[i].code || lines(r.err) != 1)
      fprintf(stderr, "%s: code %d: %s\n", cases[i].strategy, code, r.err);
    CU_ASSERT_EQUAL(code, cases[i].code);
    CU_ASSERT_EQUAL(lines(r.err), 1);
    CU_ASSERT_STRING_EQUAL(r.out, "");
    for (int k = 0; k < 2 && cases[i].said[k] != NULL; k++) CU_ASSERT_TRUE(has(r.err, cases[i].said[k]));
  }
}

static void ctrl_c_ends_all_loops(void) {
  static const char *const strategies[] = {
      "mirrored:3", "parameter_server:workers=3", "parameter_server:mode=ssp,workers=2",
      "parameter_server:mode=sync,workers=3", "parameter_server:mode=sync,workers=3,backup=1"};
  char x[600], y[600];
  write_array(x, "x", "<f4", ROWS, 32, 1);
  write_array(y, "y", "<i4", ROWS, 0, CLASSES);
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    const char *const args[] = {"submit",     models[0].graph,
                                "--init",     "init",
                                "--target",   "train",
                                "--fetch",    "loss",
                                "--feed",     x,
                                "--feed",     y,
                                "--batch",    "32",
                                "--steps",    "1000000000",
                                "--strategy", strategies[i],
                                NULL};
    run_start_on_terminal(&r, args, 80);
    CU_ASSERT_TRUE(run_until(&r, "loss "));
    run_signal(&r, SIGINT);
    run_end(&r);
    CU_ASSERT_EQUAL(r.code, 130);
    CU_ASSERT_TRUE(has(r.out, "interrupted"));
  }
}

/* ---- inspect ---- */

static json_t *inspect(const char *strategy, const char *cluster) {
  const char *args[] = {"inspect",    models[0].graph,
                        "--strategy", strategy,
                        "--json",     cluster == NULL ? NULL : "--cluster",
                        cluster,      NULL};
  int code = run(&r, args);
  if (code != 0) fprintf(stderr, "%s: %s\n", strategy, r.err);
  CU_ASSERT_EQUAL(code, 0);
  json_t *root = json_loads(r.out, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL(root);
  return root;
}

/* No names are given: the default is a training step. */
static void what_a_strategy_makes_is_told_to_programs(void) {
  static const struct {
    const char *strategy, *cluster;
    size_t loops;
  } cases[] = {{"mirrored:2", NULL, 1},
               {"data_parallel:2", NULL, 1},
               {"central_storage:2", NULL, 1},
               {"multi_worker_mirrored", "worker=3", 1},
               {"parameter_server", "ps=1,worker=2", 2},
               {"parameter_server:mode=sync", "ps=2,worker=3", 1},
               {"parameter_server:mode=sync,backup=1", "ps=2,worker=3", 4},
               {"parameter_server:mode=ssp,staleness=1", "ps=1,worker=2", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    json_t *root = inspect(cases[i].strategy, cases[i].cluster),
           *loops = json_object_get(root, "worker_loops");
    CU_ASSERT_EQUAL(json_array_size(loops), cases[i].loops);
    for (size_t k = 0; k < json_array_size(loops); k++) {
      const json_t *loop = json_array_get(loops, k);
      bool updates = strcmp(json_string_value(json_object_get(loop, "kind")), "update") == 0;
      CU_ASSERT_EQUAL(json_array_size(json_object_get(loop, "feeds")) > 0, !updates);
      CU_ASSERT_TRUE(json_array_size(json_object_get(loop, "targets")) > 0);
    }
    CU_ASSERT_TRUE(json_array_size(json_object_get(root, "crossings")) > 0);
    CU_ASSERT_TRUE(json_integer_value(json_object_get(json_object_get(root, "cost"), "bytes")) > 0);
    json_decref(root);
  }
}

static void what_a_strategy_makes_is_drawn_and_saved(void) {
  const char *const drawn[] = {"inspect",   models[0].graph, "--strategy", "multi_worker_mirrored",
                               "--cluster", "worker=3",      "--dot",      NULL};
  const char *path = write_text("rewritten.pb", "");
  const char *const saved[] = {"inspect", models[0].graph, "--strategy", "mirrored:2", "--save", path, NULL};
  CU_ASSERT_EQUAL(run(&r, drawn), 0);
  CU_ASSERT_TRUE(has(r.out, "digraph") && has(r.out, "worker:2"));
  CU_ASSERT_EQUAL(run(&r, saved), 0);
  CU_ASSERT_TRUE(has(r.out, "mirrored: 2 replicas") && has(r.out, "predicted"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", path), 0);
}

/* The value of a number in an object of an object: "a.b". */
static double number_at(const json_t *root, const char *outer, const char *inner) {
  return json_number_value(json_object_get(json_object_get(root, outer), inner));
}

/* The bytes of all links between places of an SVG, and of those among places that are drawn as one. */
static double drawn_bytes(const char *svg) {
  double sum = 0;
  for (const char *at = svg; (at = strstr(at, "<g class=\"link\"")) != NULL; at++) {
    const char *bytes = strstr(at, "data-bytes=\"");
    double value;
    if (bytes != NULL && sscanf(bytes, "data-bytes=\"%lf\"", &value) == 1) sum += value;
  }
  return sum;
}

/* Text, JSON and drawing say the same bytes; a summary is short, and what crosses is told on request. */
static void all_forms_say_the_same_bytes(void) {
  static const struct {
    const char *strategy, *cluster;
  } cases[] = {{"mirrored:3", NULL},
               {"multi_worker_mirrored", "worker=3"},
               {"data_parallel:2", NULL},
               {"parameter_server", "ps=2,worker=2"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *args[16] = {"inspect", models[0].graph, "--strategy", cases[i].strategy, "--batch", "64",
                            NULL};
    int n = 6;
    if (cases[i].cluster != NULL) {
      args[n++] = "--cluster";
      args[n++] = cases[i].cluster;
    }
    args[n] = "--json";
    CU_ASSERT_EQUAL(run(&r, args), 0);
    json_t *root = json_loads(r.out, 0, NULL), *crossings = json_object_get(root, "crossings");
    double sum = 0, in = 0, out = 0;
    for (size_t k = 0; k < json_array_size(crossings); k++) {
      const json_t *c = json_array_get(crossings, k);
      if (cases[i].cluster == NULL || json_is_true(json_object_get(c, "between_tasks")))
        sum += json_number_value(json_object_get(c, "bytes"));
    }
    const json_t *places = json_object_get(root, cases[i].cluster == NULL ? "devices" : "tasks");
    for (size_t k = 0; k < json_array_size(places); k++) {
      in += number_at(json_array_get(places, k), "in", "bytes");
      out += number_at(json_array_get(places, k), "out", "bytes");
    }
    CU_ASSERT_TRUE(sum > 0 && sum == in && sum == out && sum == number_at(root, "sent", "bytes"));
    CU_ASSERT_EQUAL(number_at(root, "sent", "unknown"), 0);
    char said[64];
    snprintf(said, sizeof said, "%.2f kB in ", sum / 1000);
    json_decref(root);
    args[n] = NULL;
    CU_ASSERT_EQUAL(run(&r, args), 0);
    CU_ASSERT_TRUE(has(r.out, said) && lines(r.out) < 20);
    CU_ASSERT_PTR_NULL(strstr(r.out, " -> "));
    args[n] = "--details";
    CU_ASSERT_EQUAL(run(&r, args), 0);
    CU_ASSERT_TRUE(has(r.out, said) && has(r.out, " -> "));
    args[n] = "--svg";
    CU_ASSERT_EQUAL(run(&r, args), 0);
    double drawn = drawn_bytes(r.out);
    if (drawn != sum) fprintf(stderr, "%s: %.0f bytes drawn, %.0f told\n", cases[i].strategy, drawn, sum);
    CU_ASSERT_EQUAL(drawn, sum);
  }
}

/* Without --batch, what depends on it is said per row. */
static void rows_have_a_size_each(void) {
  json_t *each = inspect("mirrored:2", NULL);
  double fixed = number_at(each, "sent", "bytes"), row = number_at(each, "sent", "bytes_per_row");
  json_decref(each);
  CU_ASSERT_EQUAL(row, (32 * 4 + 4) / 2.0); /* half of x and y go to the other device */
  const char *const args[] = {"inspect", models[0].graph, "--strategy", "mirrored:2",
                              "--batch", "100",           "--json",     NULL};
  CU_ASSERT_EQUAL(run(&r, args), 0);
  json_t *root = json_loads(r.out, 0, NULL);
  CU_ASSERT_EQUAL(number_at(root, "sent", "bytes"), fixed + 100 * row);
  CU_ASSERT_EQUAL(number_at(root, "sent", "bytes_per_row"), 0);
  json_decref(root);
}

static void what_does_not_go_together_is_refused(void) {
  static const struct {
    const char *args[7], *said;
    int code;
  } cases[] = {
      {{"--strategy", "mirrored:2", "--json", "--dot"}, "one of --json, --dot, --svg and --html", 2},
      {{"--cluster", "ps=1,worker=2"}, "go with --strategy", 2},
      {{"--save", "x.pb"}, "go with --strategy", 2},
      {{"--strategy", "mirrored:2", "--save", "/no/dir/x.pb"}, "/no/dir/x.pb", 1},
      {{"--strategy", "mirrored:2", "--cluster", "ps=many"}, "ps=many", 2},
      {{"--strategy", "mirrored:5", "--cluster", "worker=2"}, "5 replicas", 1},
      {{"--strategy", "parameter_server:ps=3", "--cluster", "ps=1,worker=2"}, "ps=3", 1},
      {{"--strategy", "mirrored:2", "--fetch", "nope"}, "'nope'", 1},
      {{"--strategy", "mirrored:2", "--target", "trian"}, "did you mean 'train'?", 1},
      {{"--strategy", "mirrored:2", "--dot", "--scope", "nope"}, "--scope nope", 1},
      {{"--dot", "--scope", "nope"}, "--scope nope", 1},
      {{"--scope", "w0"}, "goes with --dot or --svg", 2},
      {{"--details"}, "go with --strategy", 2},
      {{"--strategy", "mirrord:2"}, "did you mean 'mirrored'?", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *args[10] = {"inspect", models[0].graph};
    for (int k = 0; k < 7 && cases[i].args[k] != NULL; k++) args[2 + k] = cases[i].args[k];
    CU_ASSERT_EQUAL(run(&r, args), cases[i].code);
    CU_ASSERT_STRING_EQUAL(r.out, "");
    CU_ASSERT_TRUE(lines(r.err) == 1 && has(r.err, cases[i].said));
  }
}

static void ops_that_are_not_supported_are_kept_and_named(void) {
  const char *graph = write_text("unsupported.pbtxt", NODE("x", "Placeholder", TYPE("dtype", "DT_FLOAT"))
                                                          NODE("y", "NoSuchOp", "input: \"x\" "));
  const char *const args[] = {"inspect", graph, NULL};
  CU_ASSERT_EQUAL(run(&r, args), 0);
  CU_ASSERT_TRUE(has(r.out, "ops not supported (1)\n  NoSuchOp"));
  const char *const mirrored[] = {"inspect", graph, "--strategy", "mirrored:2", NULL};
  CU_ASSERT_EQUAL(run(&r, mirrored), 0);
  CU_ASSERT_STRING_EQUAL(r.err, "");
}

static void a_trace_has_every_device_once(void) {
  static const char *const strategies[] = {"mirrored:3", "data_parallel:3", "parameter_server:workers=2",
                                           "parameter_server:mode=sync,workers=2"};
  const char *path = write_text("trace.json", "");
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    use_t u = {.model = &models[2],
               .strategy = strategies[i],
               .steps = "4",
               .batch = "32",
               .rows = 96,
               .more = {"--target", "train", "--trace", path}};
    CU_ASSERT_EQUAL(submit(&u), 0);
    json_t *root = json_load_file(path, 0, NULL), *events = json_object_get(root, "traceEvents");
    int computed = 0, counters = 0, collectives = 0, devices = 0;
    for (size_t k = 0; k < json_array_size(events); k++) {
      const json_t *e = json_array_get(events, k);
      const char *ph = json_string_value(json_object_get(e, "ph")),
                 *kind = json_string_value(json_object_get(e, "cat"));
      computed += ph[0] == 'X' && strcmp(kind, "compute") == 0;
      collectives += ph[0] == 'X' && strcmp(kind, "collective") == 0;
      counters += ph[0] == 'C';
      devices += ph[0] == 'M' && strcmp(json_string_value(json_object_get(e, "name")), "process_name") == 0;
    }
    CU_ASSERT_TRUE(computed > 50);
    CU_ASSERT_TRUE(counters > 0);
    CU_ASSERT_EQUAL(collectives > 0, i == 0);
    CU_ASSERT_EQUAL(devices, 3);
    json_decref(root);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"losses of 200 steps are those of one device", losses_of_200_steps_are_those_of_one_device},
      {"batches smaller than the replicas are no trouble", batches_smaller_than_the_replicas_are_no_trouble},
      {"whole arrays are shared out, too", whole_arrays_are_shared_out_too},
      {"fetches are those of the whole batch", fetches_are_those_of_the_whole_batch},
      {"workers with batches of their own learn, too", workers_with_batches_of_their_own_learn_too},
      {"no step runs no step", no_step_runs_no_step},
      {"what is wrong is said on one line before the first step",
       what_is_wrong_is_said_on_one_line_before_the_first_step},
      {"Ctrl-C ends all worker loops", ctrl_c_ends_all_loops},
      {"what a strategy makes is told to programs", what_a_strategy_makes_is_told_to_programs},
      {"what a strategy makes is drawn and saved", what_a_strategy_makes_is_drawn_and_saved},
      {"all forms say the same bytes", all_forms_say_the_same_bytes},
      {"rows have a size each", rows_have_a_size_each},
      {"what does not go together is refused", what_does_not_go_together_is_refused},
      {"ops that are not supported are kept and named", ops_that_are_not_supported_are_kept_and_named},
      {"a trace has every device once", a_trace_has_every_device_once},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("weft submit --strategy", tests);
}
