/* What has ended, against a list that is searched from its newest entry on. */
#include "collectives/remote/ended_steps.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/runner.h"

enum { ADDED = 3 * WEFT_ENDED_STEPS, RUNS = 40, STEPS = 5 };

typedef struct known {
  int64_t step_id;
  char run[16], task[16]; /* "": none */
} known_t;

static unsigned random_of(unsigned *seed, unsigned n) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % n;
}

static void name_run(unsigned i, char out[16]) {
  if (i % 4 == 0) {
    snprintf(out, 16, "r%u/%u", i, i % 3);
  } else {
    snprintf(out, 16, "r%u", i);
  }
}

/* The newest that the list has for the key, or -1. */
static int search(const known_t *list, int n, int64_t step_id, const char *key, const char *task) {
  const int oldest = n > WEFT_ENDED_STEPS ? n - WEFT_ENDED_STEPS : 0;
  for (int i = n - 1; i >= oldest; i--) {
    const known_t *k = &list[i];
    const size_t length = strlen(k->run);
    const bool is_in_run = length == 0 || (strncmp(key, k->run, length) == 0 && key[length] == '/');
    if (k->step_id == step_id && is_in_run && (k->task[0] == '\0' || strcmp(k->task, task) == 0)) return i;
  }
  return -1;
}

static void compare(const weft_ended_steps_t *s, const known_t *list, int n, unsigned *seed) {
  char key[40], run[16], task[16];
  name_run(random_of(seed, RUNS), run);
  snprintf(key, sizeof key, "%s/%u/b0.0", run, random_of(seed, 3));
  snprintf(task, sizeof task, "t%u", random_of(seed, 3));
  const int64_t step_id = 1 + (int64_t)random_of(seed, STEPS);
  const int wanted = search(list, n, step_id, key, task);
  weft_status_t *got = weft_ended_steps_find(s, step_id, weft_str(key), weft_str(task));
  char text[32] = "";
  if (wanted >= 0) snprintf(text, sizeof text, "%d", wanted);
  CU_ASSERT_STRING_EQUAL(got == NULL ? "" : weft_status_message(got), text);
  weft_status_free(got);
}

static void it_finds_what_a_list_would(void) {
  weft_ended_steps_t *s = weft_calloc(1, sizeof *s);
  known_t *list = weft_calloc(ADDED, sizeof *list);
  unsigned seed = 7;
  for (int n = 0; n < ADDED; n++) {
    known_t *k = &list[n];
    k->step_id = 1 + (int64_t)random_of(&seed, STEPS);
    if (random_of(&seed, 50) != 0) name_run(random_of(&seed, RUNS), k->run);
    if (random_of(&seed, 3) == 0) snprintf(k->task, sizeof k->task, "t%u", random_of(&seed, 3));
    weft_ended_step_t e = {.step_id = k->step_id,
                           .run = k->run[0] == '\0' ? NULL : weft_strdup(k->run),
                           .task = k->task[0] == '\0' ? NULL : weft_strdup(k->task),
                           .why = WEFT_ERROR(ABORTED, "%d", n)};
    weft_ended_step_t old = weft_ended_steps_add(s, e);
    weft_ended_step_deinit(&old);
    if (random_of(&seed, 30) == 0) { /* a step begins again: what ended it as a whole does not count */
      const int64_t step_id = 1 + (int64_t)random_of(&seed, STEPS);
      weft_ended_steps_begin(s, step_id);
      for (int i = 0; i <= n; i++) {
        if (list[i].step_id == step_id && list[i].run[0] == '\0' && list[i].task[0] == '\0')
          list[i].step_id = 0;
      }
    }
    compare(s, list, n + 1, &seed);
  }
  weft_ended_steps_deinit(s);
  weft_free(list);
  weft_free(s);
}

static const CU_TestInfo tests[] = {
    {"it finds what a list would", it_finds_what_a_list_would},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("ended_steps", tests); }
