/* Step ids of collective graphs: what two masters agree on through their leader. */
#include "master/collective_steps.h"

#include "base/alloc.h"
#include "tests/runner.h"

#define LEADER "/job:w/replica:0/task:0"
#define OTHER "/job:w/replica:0/task:1"

/* A leader's worker that gives out `next`, and its cache. */
typedef struct fixture {
  weft_worker_client_t leader;
  weft_worker_cache_t cache;
  int64_t next;
  int questions;
  bool fails;
} fixture_t;

static fixture_t *one; /* of the test that runs: the tables of functions below have no argument for it */

static void get_step_sequence(weft_worker_client_t *w, const int64_t *keys, int n, weft_step_ids_fn *fn,
                              void *arg) {
  (void)w;
  (void)keys;
  CU_ASSERT_EQUAL(n, 1);
  one->questions++;
  fn(arg, one->fails ? WEFT_ERROR(UNAVAILABLE, "away") : NULL, &one->next);
}
static void retire_step(weft_worker_client_t *w, int64_t key, int64_t id) {
  (void)w;
  (void)key;
  if (one->next == id) one->next++;
}
static void destroy_client(weft_worker_client_t *w) { (void)w; }
static const weft_worker_client_ops_t ops = {
    .get_step_sequence = get_step_sequence, .retire_step = retire_step, .destroy = destroy_client};

static weft_worker_client_t *find(weft_worker_cache_t *c, weft_str_t task) {
  (void)c;
  return weft_str_is(task, LEADER) ? weft_worker_client_retain(&one->leader) : NULL;
}

static void begin(fixture_t *f) {
  *f = (fixture_t){.leader = {.ops = &ops, .task = WEFT_STR(LEADER)}, .cache = {.find = find}, .next = 500};
  atomic_init(&f->leader.refs, 1);
  one = f;
}

static weft_collective_steps_t *master_at(fixture_t *f, const char *task) {
  weft_collective_steps_t *s = NULL;
  weft_collective_steps_options_t o = {
      .cache = &f->cache, .task = weft_str(task), .leader = WEFT_STR(LEADER)};
  CU_ASSERT_PTR_NULL_FATAL(weft_collective_steps_create(&o, &s));
  return s;
}

typedef struct answer {
  weft_status_t *status;
  int64_t id;
  int calls;
} answer_t;

static void record(void *arg, weft_status_t *status, int64_t id) {
  answer_t *a = arg;
  *a = (answer_t){status, id, a->calls + 1};
}

static int64_t next_id(weft_collective_steps_t *s, int64_t key) {
  answer_t a = {0};
  weft_collective_steps_next(s, key, record, &a);
  CU_ASSERT_EQUAL(a.calls, 1);
  CU_ASSERT_PTR_NULL(a.status);
  weft_status_free(a.status);
  return a.id;
}

static void masters_count_alike_and_ask_once(void) {
  fixture_t f;
  begin(&f);
  weft_collective_steps_t *a = master_at(&f, LEADER), *b = master_at(&f, OTHER);
  for (int step = 0; step < 5; step++) {
    int64_t id = next_id(a, 7);
    CU_ASSERT_EQUAL(id, 500 + step);
    CU_ASSERT_EQUAL(next_id(b, 7), id);
    weft_collective_steps_retire(b, 7, id, NULL);
    weft_collective_steps_retire(a, 7, id, NULL);
  }
  CU_ASSERT_EQUAL(f.questions, 2);
  CU_ASSERT_EQUAL(f.next, 505); /* the leader's own master counts for it */
  weft_collective_steps_destroy(a);
  weft_collective_steps_destroy(b);
}

static void steps_at_once_have_one_id_and_count_once(void) {
  fixture_t f;
  begin(&f);
  weft_collective_steps_t *a = master_at(&f, LEADER);
  CU_ASSERT_EQUAL(next_id(a, 7), 500);
  CU_ASSERT_EQUAL(next_id(a, 7), 500);
  weft_collective_steps_retire(a, 7, 500, NULL);
  weft_collective_steps_retire(a, 7, 500, NULL);
  CU_ASSERT_EQUAL(next_id(a, 7), 501);
  weft_collective_steps_destroy(a);
}

/* The next step of `s` runs and ends with a failure of that code. */
static void fail_next(weft_collective_steps_t *s, weft_code_t code) {
  weft_status_t *failure = weft_status_new(code, __FILE__, __LINE__, "the step failed");
  weft_collective_steps_retire(s, 7, next_id(s, 7), failure);
  weft_status_free(failure);
}

static void after_a_failure_the_leader_is_asked(void) {
  fixture_t f;
  begin(&f);
  weft_collective_steps_t *b = master_at(&f, OTHER);
  weft_collective_steps_retire(b, 7, next_id(b, 7), NULL);
  fail_next(b, WEFT_INVALID_ARGUMENT); /* both run, both fail: the leader's master has counted on, or not */
  CU_ASSERT_EQUAL(next_id(b, 7), 502);
  fail_next(b, WEFT_INVALID_ARGUMENT);
  f.next = 510; /* others went on without us */
  CU_ASSERT_EQUAL(next_id(b, 7), 510);
  fail_next(b, WEFT_INVALID_ARGUMENT);
  f.next = 90; /* the leader was restarted */
  CU_ASSERT_EQUAL(next_id(b, 7), 90);
  weft_collective_steps_destroy(b);
}

/* A step that a lost task ended may be one that the leader's clients have not begun, and wait in. */
static void after_a_loss_the_leaders_word_counts(void) {
  fixture_t f;
  begin(&f);
  weft_collective_steps_t *b = master_at(&f, OTHER);
  for (int step = 0; step < 3; step++) {
    CU_ASSERT_EQUAL(next_id(b, 7), 500);
    fail_next(b, WEFT_UNAVAILABLE);
  }
  CU_ASSERT_EQUAL(next_id(b, 7), 500);
  weft_collective_steps_destroy(b);
}

/* A session may begin, or a leader be away for a question, without a step that fails. */
static void a_doubt_asks_the_leader(void) {
  fixture_t f;
  begin(&f);
  weft_collective_steps_t *b = master_at(&f, OTHER);
  CU_ASSERT_EQUAL(next_id(b, 7), 500);
  CU_ASSERT_EQUAL(f.questions, 1);
  weft_collective_steps_doubt(b);
  CU_ASSERT_EQUAL(next_id(b, 7), 500);
  CU_ASSERT_EQUAL(f.questions, 2);
  f.next = 90;
  CU_ASSERT_EQUAL(next_id(b, 7), 500); /* not asked again */
  weft_collective_steps_doubt(b);
  CU_ASSERT_EQUAL(next_id(b, 7), 90);
  weft_collective_steps_destroy(b);
}

static void a_leader_that_is_away_fails_the_step_alone(void) {
  fixture_t f;
  answer_t a = {0};
  begin(&f);
  f.fails = true;
  weft_collective_steps_t *b = master_at(&f, OTHER);
  weft_collective_steps_next(b, 7, record, &a);
  CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_UNAVAILABLE);
  weft_status_free(a.status);
  f.fails = false;
  CU_ASSERT_EQUAL(next_id(b, 7), 500);
  weft_collective_steps_destroy(b);
}

static weft_status_t *create_and_ask(fixture_t *f) {
  weft_collective_steps_t *s = NULL;
  answer_t a = {0};
  weft_collective_steps_options_t o = {
      .cache = &f->cache, .task = WEFT_STR(OTHER), .leader = WEFT_STR(LEADER)};
  WEFT_RETURN_IF_ERROR(weft_collective_steps_create(&o, &s));
  weft_collective_steps_next(s, 3, record, &a);
  weft_collective_steps_destroy(s);
  return a.status;
}

static void every_failing_allocation_is_reported(void) {
  fixture_t f;
  begin(&f);
  int n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, create_and_ask(&f));
}

static const CU_TestInfo tests[] = {
    {"masters count alike and ask once", masters_count_alike_and_ask_once},
    {"steps at once have one id and count once", steps_at_once_have_one_id_and_count_once},
    {"after a failure the leader is asked", after_a_failure_the_leader_is_asked},
    {"after a loss the leader's word counts", after_a_loss_the_leaders_word_counts},
    {"a doubt asks the leader", a_doubt_asks_the_leader},
    {"a leader that is away fails the step alone", a_leader_that_is_away_fails_the_step_alone},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("collective steps", tests); }
