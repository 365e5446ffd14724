/* tests/tools/observe/observer_test.c - an observer beside scripted workers, each behind a gRPC server of its
 * own.
 *
 * The workers answer as a worker does, but with a clock that is off, and say what they were asked.
 */
#include "tools/observe/observer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/server.h"
#include "services/remote_worker.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

enum { MAX_TASKS = 4, LAST_STEP = 1000 };

typedef struct stage stage_t;

typedef struct task {
  weft_worker_client_t base;
  stage_t *stage;
  int index;
  weft_rpc_server_t *server;
  weft_worker_service_t *service;
} task_t;

/* What all workers share. */
struct stage {
  weft_mutex_t mu;
  weft_cond_t changed;
  int num_tasks;
  task_t tasks[MAX_TASKS];
  /* guarded by mu: */
  int opened[MAX_TASKS], marked[MAX_TASKS], ended[MAX_TASKS], asked[MAX_TASKS], measured[MAX_TASKS];
  int measuring, most_measuring; /* at once */
  bool marked_early;             /* a second call came before all tasks were open */
  int64_t clock_offset[MAX_TASKS];
  weft_code_t fails[MAX_TASKS];  /* every call but the first */
  bool opens_nothing[MAX_TASKS]; /* the first call fails, with `fails` */
  bool is_idle;                  /* no steps run */
  bool answers_later;            /* measurements are answered by the clerk */
  weft_record_fn *late_fn;       /* the answer that the clerk owes; one at a time */
  void *late_arg;
  bool is_over; /* the clerk ends */
  weft_rpc_client_t *rpc;
  weft_strbuf_t spec;
  weft_cluster_t cluster;
  weft_observed_tasks_t *observed;
};

static stage_t *stage_of(weft_worker_client_t *w, int *out_index) {
  task_t *t = (task_t *)(void *)w;
  *out_index = t->index;
  return t->stage;
}

/* The thread that answers is the call's own: a measurement is over when the next call for one comes, or here.
 */
static void measure(stage_t *st, int i, weft_record_fn *fn, void *arg) {
  weft_mutex_lock(&st->mu);
  st->measured[i]++;
  if (++st->measuring > st->most_measuring) st->most_measuring = st->measuring;
  weft_mutex_unlock(&st->mu);
  const weft_record_answer_t a = {.peak_flops = 1e9 * (i + 1), .peak_bytes = 1e8 * (i + 1)};
  weft_mutex_lock(&st->mu);
  bool is_late = st->answers_later;
  if (is_late) {
    st->late_fn = fn;
    st->late_arg = arg;
    weft_cond_broadcast(&st->changed);
  }
  st->measuring--;
  weft_mutex_unlock(&st->mu);
  if (!is_late) fn(arg, NULL, &a);
}

/* Answers on a thread of its own, while the observer looks for the next task. */
static void *answer_late(void *arg) {
  stage_t *st = arg;
  weft_mutex_lock(&st->mu);
  for (;;) {
    while (st->late_fn == NULL && !st->is_over) weft_cond_wait(&st->changed, &st->mu);
    if (st->late_fn == NULL) break;
    weft_record_fn *fn = st->late_fn;
    void *its_arg = st->late_arg;
    st->late_fn = NULL;
    weft_mutex_unlock(&st->mu);
    fn(its_arg, NULL, &(weft_record_answer_t){.peak_flops = 1, .peak_bytes = 1});
    weft_mutex_lock(&st->mu);
  }
  weft_mutex_unlock(&st->mu);
  return NULL;
}

/* Each call of a task tells of the step with the number of the call: its record, and its end. */
static void record(weft_worker_client_t *w, const weft_record_request_t *r, weft_canceller_t *c,
                   weft_record_fn *fn, void *arg) {
  int i = 0;
  stage_t *st = stage_of(w, &i);
  (void)c;
  if (r->measures_peaks) {
    measure(st, i, fn, arg);
    return;
  }
  weft_mutex_lock(&st->mu);
  int call = st->asked[i]++;
  st->opened[i] += r->is_first;
  st->ended[i] += r->is_last;
  if (!r->is_first && !r->is_last) {
    st->marked[i]++;
    for (int k = 0; k < st->num_tasks; k++) st->marked_early = st->marked_early || st->opened[k] == 0;
  }
  bool fails = st->fails[i] != WEFT_OK && (r->is_first == st->opens_nothing[i]) && !r->is_last;
  weft_code_t code = st->fails[i];
  int64_t offset = st->clock_offset[i];
  bool tells = !st->is_idle && call > 1 && call < LAST_STEP;
  weft_cond_broadcast(&st->changed);
  weft_mutex_unlock(&st->mu);
  if (fails) {
    fn(arg, weft_status_new(code, __FILE__, __LINE__, "scripted\nmore of it"), NULL);
    return;
  }
  const int64_t step = call;
  const weft_step_record_t record = {
      .step_id = step, .calls = call, .message = WEFT_STR(""), .step_stats = WEFT_STR("stats")};
  const weft_record_answer_t a = {.records = &record,
                                  .num_records = tells,
                                  .ended_steps = &step,
                                  .num_ended_steps = tells,
                                  .num_dropped = i,
                                  .clock_micros = weft_clock_micros() + offset};
  fn(arg, NULL, &a);
}

static void destroy_client(weft_worker_client_t *w) { (void)w; }

static void setup(stage_t *st, int num_tasks) {
  static const weft_worker_client_ops_t ops = {.record = record, .destroy = destroy_client};
  memset(st, 0, sizeof *st);
  weft_mutex_init(&st->mu);
  weft_cond_init(&st->changed);
  st->num_tasks = num_tasks;
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &st->rpc));
  weft_strbuf_puts(&st->spec, "worker=");
  for (int i = 0; i < num_tasks; i++) {
    task_t *t = &st->tasks[i];
    t->base.ops = &ops;
    atomic_init(&t->base.refs, 1);
    t->stage = st;
    t->index = i;
    const weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = st->rpc};
    CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &t->server));
    CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&t->base, t->server, &t->service));
    CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(t->server));
    weft_strbuf_printf(&st->spec, "%s127.0.0.1:%d", i > 0 ? "," : "", weft_rpc_server_port(t->server));
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_cluster_parse(weft_str_of(st->spec.data, st->spec.length), &st->cluster));
  CU_ASSERT_PTR_NULL_FATAL(weft_observed_tasks_connect(&st->cluster, &st->observed));
}

static void teardown(stage_t *st) {
  weft_observed_tasks_disconnect(st->observed);
  for (int i = 0; i < st->num_tasks; i++) {
    weft_rpc_server_destroy(st->tasks[i].server);
    weft_worker_service_destroy(st->tasks[i].service);
  }
  weft_rpc_client_destroy(st->rpc);
  weft_cluster_deinit(&st->cluster);
  weft_strbuf_deinit(&st->spec);
  weft_cond_deinit(&st->changed);
  weft_mutex_deinit(&st->mu);
}

static int64_t soon(void) { return weft_clock_deadline_ns(20000); }

static void steps_of_all_tasks_are_put_together(void) {
  stage_t st;
  setup(&st, 3);
  weft_observer_t *o = NULL;
  const weft_observer_options_t options = {.tasks = st.observed};
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_open(&options, &o));
  for (int i = 0; i < 5; i++) {
    weft_whole_step_t *step = NULL;
    CU_ASSERT_PTR_NULL(weft_observer_next(o, soon(), &step));
    CU_ASSERT_PTR_NOT_NULL_FATAL(step);
    CU_ASSERT_TRUE(step->n >= 1 && step->n <= 3);
    CU_ASSERT_TRUE(weft_str_is(step->parts[0].record.step_stats, "stats"));
    weft_whole_step_free(step);
  }
  weft_observer_stop(o);
  CU_ASSERT_EQUAL(weft_observer_losses(o).records_dropped, 0 + 1 + 2);
  weft_mutex_lock(&st.mu);
  CU_ASSERT_FALSE(st.marked_early);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(st.opened[i], 1);
    CU_ASSERT_EQUAL(st.ended[i], 1);
  }
  weft_mutex_unlock(&st.mu);
  weft_observer_close(o);
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(st.ended[i], 1); /* not again */
  teardown(&st);
}

static void clocks_are_compared(void) {
  stage_t st;
  setup(&st, 3);
  st.is_idle = true;
  st.clock_offset[1] = 5000000; /* five seconds ahead */
  st.clock_offset[2] = -3000000;
  weft_observer_t *o = NULL;
  weft_whole_step_t *step = NULL;
  const weft_observer_options_t options = {.tasks = st.observed, .poll_ms = 1};
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_open(&options, &o));
  CU_ASSERT_PTR_NULL(weft_observer_next(o, weft_clock_deadline_ns(50), &step));
  CU_ASSERT_PTR_NULL(step);
  weft_observer_stop(o);
  const int64_t want[] = {0, -5000000, 3000000};
  for (int i = 0; i < 3; i++) {
    int64_t off = weft_observer_state(o, i).clock_offset_micros - want[i];
    CU_ASSERT_TRUE(off > -1000000 && off < 1000000);
    if (i == 0) CU_ASSERT_TRUE(off == 0); /* no more than the trip explains */
  }
  weft_observer_close(o);
  teardown(&st);
}

static void a_failure_names_the_task(void) {
  static const struct {
    weft_code_t code;
    bool at_first;
    weft_code_t told;
    const char *text;
  } cases[] = {
      {WEFT_NOT_FOUND, false, WEFT_UNAVAILABLE, "was lost while it was observed: scripted"},
      {WEFT_UNAVAILABLE, false, WEFT_UNAVAILABLE, "was lost while it was observed: scripted"},
      {WEFT_RESOURCE_EXHAUSTED, false, WEFT_RESOURCE_EXHAUSTED, ": scripted"},
      {WEFT_RESOURCE_EXHAUSTED, true, WEFT_RESOURCE_EXHAUSTED, ": scripted"},
      {WEFT_UNAVAILABLE, true, WEFT_UNAVAILABLE, "does not answer at 127.0.0.1:"},
      {WEFT_UNIMPLEMENTED, true, WEFT_UNIMPLEMENTED, "it is no Weft server, or an older one"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stage_t st;
    setup(&st, 2);
    st.fails[1] = cases[i].code;
    st.opens_nothing[1] = cases[i].at_first;
    st.is_idle = true;
    weft_observer_t *o = NULL;
    weft_whole_step_t *step = NULL;
    const weft_observer_options_t options = {.tasks = st.observed};
    weft_status_t *s = weft_observer_open(&options, &o);
    if (s == NULL) s = weft_observer_next(o, soon(), &step);
    CU_ASSERT_EQUAL(weft_status_code(s), cases[i].told);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "task /job:worker/replica:0/task:1 "));
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].text));
    CU_ASSERT_PTR_NULL(strstr(weft_status_message(s), "more of it")); /* one line */
    weft_status_free(s);
    weft_observer_close(o);
    CU_ASSERT_EQUAL(st.ended[0], 1); /* the other's recording is ended */
    CU_ASSERT_EQUAL(st.ended[1], 0);
    teardown(&st);
  }
}

static void it_can_go_on_without_a_lost_task(void) {
  stage_t st;
  setup(&st, 2);
  st.fails[1] = WEFT_UNAVAILABLE;
  weft_observer_t *o = NULL;
  const weft_observer_options_t options = {.tasks = st.observed, .goes_on_without_lost = true};
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_open(&options, &o));
  for (int i = 0; i < 3; i++) {
    weft_whole_step_t *step = NULL;
    CU_ASSERT_PTR_NULL(weft_observer_next(o, soon(), &step));
    CU_ASSERT_PTR_NOT_NULL_FATAL(step);
    CU_ASSERT_EQUAL(step->n, 1);
    weft_whole_step_free(step);
  }
  CU_ASSERT_PTR_NULL(weft_observer_state(o, 0).lost);
  CU_ASSERT_EQUAL(weft_status_code(weft_observer_state(o, 1).lost), WEFT_UNAVAILABLE);
  weft_observer_close(o);
  teardown(&st);
}

static void an_interruption_ends_waits(void) {
  stage_t st;
  setup(&st, 1);
  st.is_idle = true;
  weft_observer_t *o = NULL;
  weft_whole_step_t *step = NULL;
  const weft_observer_options_t options = {.tasks = st.observed};
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_create(&options, &o));
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_start(o));
  weft_observer_interrupt(o);
  CU_ASSERT_PTR_NULL(weft_observer_next(o, INT64_MAX, &step));
  CU_ASSERT_PTR_NULL(step);
  CU_ASSERT_TRUE(weft_observer_is_interrupted(o));
  weft_observer_close(o);
  CU_ASSERT_EQUAL(st.ended[0], 1);
  /* Before the start, too. */
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_create(&options, &o));
  weft_observer_interrupt(o);
  weft_status_t *s = weft_observer_start(o);
  CU_ASSERT_TRUE(s == NULL || weft_status_code(s) == WEFT_CANCELLED); /* NULL: all had answered already */
  weft_status_free(s);
  weft_observer_close(o);
  CU_ASSERT_EQUAL(st.ended[0], st.opened[0]); /* whatever was opened is ended */
  teardown(&st);
}

static void tasks_of_one_host_are_measured_by_turns(void) {
  stage_t st;
  setup(&st, MAX_TASKS);
  st.is_idle = true;
  weft_observer_t *o = NULL;
  const weft_observer_options_t options = {.tasks = st.observed};
  CU_ASSERT_PTR_NULL_FATAL(weft_observer_open(&options, &o));
  CU_ASSERT_EQUAL(weft_observer_state(o, 0).peak_flops, 0);
  weft_observer_stop(o);
  weft_observer_measure(o);
  for (int i = 0; i < MAX_TASKS; i++) {
    CU_ASSERT_EQUAL(st.measured[i], 1);
    CU_ASSERT_EQUAL(weft_observer_state(o, i).peak_flops, 1e9 * (i + 1));
    CU_ASSERT_EQUAL(weft_observer_state(o, i).peak_bytes, 1e8 * (i + 1));
  }
  CU_ASSERT_EQUAL(st.most_measuring, 1);
  weft_observer_measure(o); /* again: nothing is asked */
  CU_ASSERT_EQUAL(st.measured[0], 1);
  weft_observer_close(o);
  teardown(&st);
}

/* An answer may come at any moment of the search for the next task. */
static void no_task_is_left_out_by_an_answer_meanwhile(void) {
  enum { ROUNDS = 500 };
  stage_t st;
  pthread_t clerk;
  setup(&st, MAX_TASKS);
  st.answers_later = true;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&clerk, NULL, answer_late, &st), 0);
  for (int round = 1; round <= ROUNDS; round++) {
    weft_observer_t *o = NULL;
    const weft_observer_options_t options = {.tasks = st.observed};
    CU_ASSERT_PTR_NULL_FATAL(weft_observer_create(&options, &o));
    weft_observer_measure(o);
    for (int i = 0; i < MAX_TASKS; i++) CU_ASSERT_EQUAL_FATAL(weft_observer_state(o, i).peak_flops, 1);
    weft_observer_close(o);
  }
  weft_mutex_lock(&st.mu);
  st.is_over = true;
  weft_cond_broadcast(&st.changed);
  weft_mutex_unlock(&st.mu);
  pthread_join(clerk, NULL);
  teardown(&st);
}

static void a_task_that_is_not_there_is_named(void) {
  weft_cluster_t cluster;
  weft_observed_tasks_t *tasks = NULL;
  weft_observer_t *o = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_cluster_parse(WEFT_STR("ps=127.0.0.1:1"), &cluster));
  CU_ASSERT_PTR_NULL_FATAL(weft_observed_tasks_connect(&cluster, &tasks));
  const weft_observer_options_t options = {.tasks = tasks};
  weft_status_t *s = weft_observer_open(&options, &o);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(
      strstr(weft_status_message(s), "task /job:ps/replica:0/task:0 does not answer at 127.0.0.1:1;"));
  weft_status_free(s);
  weft_observed_tasks_disconnect(tasks);
  weft_cluster_deinit(&cluster);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"steps of all tasks are put together", steps_of_all_tasks_are_put_together},
      {"clocks are compared", clocks_are_compared},
      {"a failure names the task", a_failure_names_the_task},
      {"it can go on without a lost task", it_can_go_on_without_a_lost_task},
      {"an interruption ends waits", an_interruption_ends_waits},
      {"tasks of one host are measured by turns", tasks_of_one_host_are_measured_by_turns},
      {"no task is left out by an answer meanwhile", no_task_is_left_out_by_an_answer_meanwhile},
      {"a task that is not there is named", a_task_that_is_not_there_is_named},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("observer", tests);
}
