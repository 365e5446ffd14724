/* tests/tools/saving_test.c - `weft submit --save`, `--resume` and `--restore`: what is said, what is
 * refused, what is left. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/directory.h"
#include "tests/runner.h"
#include "tests/tools/array_file.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"

#define GRAPHS "tests/strategies/testdata/"
enum { ROWS = 50 };

static run_t r; /* large, so not on the stack */

static bool has(const char *text, const char *part) {
  bool yes = strstr(text, part) != NULL;
  if (!yes) fprintf(stderr, "no '%s' in: %s\n", part, text);
  return yes;
}

static int count(const char *text, const char *part) {
  int n = 0;
  for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
  return n;
}

static bool is_there(const char *name) { return access(weft_test_path(name), F_OK) == 0; }

/* A job that adds 1 to a counter that starts at 10, `steps` times. */
#define COUNTING(steps)                                                                                   \
  "submit", write_text("counter.pbtxt", COUNTER), "--init", "init", "--target", "grow", "--feed", "by=1", \
      "--steps", steps

/* Runs it and fetches the counter; `more` ends with NULL. */
static int count_up(const char *steps, const char *const *more) {
  const char *args[RUN_MAX_ARGS] = {COUNTING(steps), "--fetch", "value"};
  for (int i = 12; *more != NULL; i++) args[i] = *more++;
  return run(&r, args);
}
#define COUNT_UP(steps, ...) count_up(steps, (const char *const[]){__VA_ARGS__, NULL})

static void a_job_goes_on_where_it_stopped(void) {
  weft_test_directory();
  CU_ASSERT_EQUAL(COUNT_UP("3", "--save", weft_test_path("m"), "--resume"), 0);
  CU_ASSERT_TRUE(has(r.out, "to resume from: starting afresh"));
  CU_ASSERT_TRUE(has(r.out, "value = 13\n"));
  CU_ASSERT_TRUE(has(r.out, "m-3 (step 3)\n"));
  CU_ASSERT_EQUAL(COUNT_UP("5", "--save", weft_test_path("m"), "--resume"), 0);
  CU_ASSERT_TRUE(has(r.out, "resumed from") && has(r.out, "m-3: step 3 of 5 is done\n"));
  CU_ASSERT_TRUE(has(r.out, "step 4/5") && !strstr(r.out, "step 3/5"));
  CU_ASSERT_TRUE(has(r.out, "2 steps in ") && has(r.out, "value = 15\n"));
  CU_ASSERT_EQUAL(COUNT_UP("2", "--restore", weft_test_path("m-5")), 0);
  CU_ASSERT_TRUE(has(r.out, "(1 of 1 variables)\n") && has(r.out, "value = 17\n"));
  CU_ASSERT_EQUAL(COUNT_UP("2", "--save", weft_test_path("m")),
                  0); /* without --resume: from the start, and what there was stays */
  CU_ASSERT_TRUE(has(r.out, "value = 12\n") && is_there("m-5.index") && is_there("m-2.index"));
}

static void programs_are_told_too(void) {
  weft_test_directory();
  CU_ASSERT_EQUAL(COUNT_UP("4", "--save", weft_test_path("m"), "--save-every", "2", "--resume", "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "{\"step\":0,\"steps\":4,\"resumed\":null}\n"));
  CU_ASSERT_EQUAL(count(r.out, "\"saved\":"), 2); /* the last step is not saved twice */
  CU_ASSERT_EQUAL(COUNT_UP("4", "--save", weft_test_path("m"), "--resume", "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "{\"step\":4,\"steps\":4,\"resumed\":\"") && has(r.out, "\"done\":true"));
  CU_ASSERT_EQUAL(count(r.out, "\"saved\":"), 0);
}

static void a_bar_makes_room_for_the_news(void) {
  weft_test_directory();
  const char *args[] = {COUNTING("4"), "--save", weft_test_path("m"), "--save-every", "2", NULL};
  run_start_on_terminal(&r, args, 300);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 0);
  CU_ASSERT_TRUE(has(r.out, "\r\x1b[2Ksaved "));
  CU_ASSERT_EQUAL(count(r.out, "\r\x1b[2Ksaved "), 2);
}

static void as_many_are_kept_as_one_likes(void) {
  weft_test_directory();
  CU_ASSERT_EQUAL(COUNT_UP("9", "--save", weft_test_path("m"), "--save-every", "1"), 0);
  CU_ASSERT_TRUE(is_there("m-5.index") && is_there("m-9.index") && !is_there("m-4.index") &&
                 !is_there("m-4.data-00000-of-00001"));
  CU_ASSERT_EQUAL(COUNT_UP("9", "--save", weft_test_path("n"), "--save-every", "1", "--keep", "0"), 0);
  CU_ASSERT_TRUE(is_there("n-1.index"));
  CU_ASSERT_EQUAL(COUNT_UP("9", "--save", weft_test_path("o"), "--save-every", "4", "--keep", "1"), 0);
  CU_ASSERT_TRUE(!is_there("o-4.index") && !is_there("o-8.index") && is_there("o-9.index"));
}

static void the_clock_saves(void) {
  weft_test_directory();
  const char *args[] = {
      COUNTING("100000000"), "--save", weft_test_path("m"), "--save-every", "0.01s", "--keep", "3", NULL};
  run_start(&r, args, NULL);
  CU_ASSERT_TRUE(run_until(&r, "saved "));
  run_signal(&r, SIGINT);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 128 + SIGINT);
  CU_ASSERT_TRUE(has(r.err, "; --resume goes on from m-"));
  CU_ASSERT_EQUAL(COUNT_UP("1", "--save", weft_test_path("m"), "--resume"),
                  0); /* more steps are done than wanted */
  CU_ASSERT_TRUE(has(r.out, "of 1 is done\n"));
}

static void wrong_combinations_are_refused(void) {
  static const struct {
    const char *args[3], *text;
  } cases[] = {
      {{"--save-every", "3"}, "--save-every needs --save"},
      {{"--resume"}, "--resume needs --save"},
      {{"--restore-partly"}, "--restore-partly needs --restore"},
      {{"--save-every", "3x"}, "steps (100) or a time (30s"},
      {{"--save-every", "0"}, "steps (100) or a time (30s"},
      {{"--save-every", "s"}, "steps (100) or a time (30s"},
      {{"--save-every", "-1s"}, "steps (100) or a time (30s"},
      {{"--batch", "0"}, "a number of rows"},
      {{"--batch", "8:"}, "a number of rows"},
      {{"--batch", "x"}, "a number of rows"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CU_ASSERT_EQUAL(count_up("1", cases[i].args), 2);
    CU_ASSERT_TRUE(has(r.err, cases[i].text));
    CU_ASSERT_EQUAL(count(r.err, "\n"), 1);
    CU_ASSERT_STRING_EQUAL(r.out, "");
  }
}

static void what_cannot_be_used_is_refused_before_the_first_step(void) {
  weft_test_directory();
  CU_ASSERT_EQUAL(COUNT_UP("1", "--save", weft_test_path("m")), 0);
  mkdir(weft_test_path("empty"), 0777);
  const struct {
    const char *option, *value, *text;
  } cases[] = {
      {"--restore", weft_test_path("no"), "there is no such checkpoint"},
      {"--restore", weft_test_path("m-1.index"), "give the prefix of the checkpoint"},
      {"--restore", weft_test_path("empty"), "a directory without a checkpoint"},
      {"--restore", weft_test_path("checkpoint"), "is no checkpoint, or a damaged one"},
      {"--save", "/proc/no/m", "the directory /proc/no cannot be made"},
      {"--save", weft_test_path("empty"), "/empty/model"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CU_ASSERT_EQUAL(COUNT_UP("1", cases[i].option, cases[i].value), 1);
    CU_ASSERT_TRUE(has(r.err, cases[i].text) && strstr(r.err, cases[i].option) == r.err + strlen("weft: "));
    CU_ASSERT_EQUAL(count(r.err, "\n"), 1);
    CU_ASSERT_STRING_EQUAL(r.out, "");
  }
}

/* ---- models ---- */

static int train(const char *graph, const char *strategy, const char *steps, const char *prefix,
                 bool is_embedding) {
  char x[600], y[600];
  const char *args[RUN_MAX_ARGS] = {"submit", graph,       "--init", "init",       "--json",   "--steps",
                                    steps,    "--target",  "train",  "--fetch",    "loss",     "--batch",
                                    "12",     "--shuffle", "--save", prefix,       "--resume", "--feed",
                                    x,        "--feed",    y,        "--strategy", strategy};
  write_array(x, "x", is_embedding ? "<i4" : "<f4", ROWS, is_embedding ? 0 : 32, is_embedding ? 1000 : 1);
  write_array(y, "y", "<i4", ROWS, 0, 4);
  if (strategy == NULL) args[21] = NULL;
  int code = run(&r, args);
  if (code != 0) fprintf(stderr, "%s: %s\n", strategy == NULL ? "none" : strategy, r.err);
  return code;
}

static double last_loss(void) {
  const char *at = NULL;
  for (const char *next = strstr(r.out, "\"loss\":"); next != NULL; next = strstr(next + 1, "\"loss\":"))
    at = next;
  return at == NULL ? -1 : strtod(at + 7, NULL);
}

/* One strategy after the other, two steps each: as one device that is never interrupted. */
static void strategies_take_turns(void) {
  static const char *const turns[] = {"mirrored:2",
                                      "parameter_server:mode=sync,workers=2,shards=fixed:2",
                                      "central_storage:2",
                                      "parameter_server:workers=1,shards=fixed:3",
                                      "data_parallel:2",
                                      "parameter_server:mode=ssp,workers=1",
                                      NULL};
  static const struct {
    const char *graph;
    bool is_embedding;
  } models[] = {
      {GRAPHS "mlp_adam.pb", false}, {GRAPHS "mlp_momentum.pb", false}, {GRAPHS "embedding_adam.pb", true}};
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    weft_test_directory();
    CU_ASSERT_EQUAL_FATAL(train(models[m].graph, NULL, "14", weft_test_path("whole"), models[m].is_embedding),
                          0);
    double wanted = last_loss();
    char steps[8];
    for (int i = 0; i < 7; i++) {
      snprintf(steps, sizeof steps, "%d", 2 * i + 2);
      CU_ASSERT_EQUAL_FATAL(
          train(models[m].graph, turns[i], steps, weft_test_path("m"), models[m].is_embedding), 0);
    }
    CU_ASSERT_DOUBLE_EQUAL(last_loss(), wanted, 1e-5);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a job goes on where it stopped", a_job_goes_on_where_it_stopped},
      {"programs are told, too", programs_are_told_too},
      {"a bar makes room for the news", a_bar_makes_room_for_the_news},
      {"as many are kept as one likes", as_many_are_kept_as_one_likes},
      {"the clock saves", the_clock_saves},
      {"wrong combinations are refused", wrong_combinations_are_refused},
      {"what cannot be used is refused before the first step",
       what_cannot_be_used_is_refused_before_the_first_step},
      {"strategies take turns", strategies_take_turns},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("saving", tests);
}
