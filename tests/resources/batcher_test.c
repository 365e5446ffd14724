/* Batchers: requests joined, split, refused, cancelled; batches that wait for their turn and for their time.
 */
#include "resources/batcher.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "resources/unbatcher.h"
#include "tests/runner.h"

/* A request that notes its end. */
typedef struct ended {
  weft_value_t output;
  atomic_int times;
  weft_code_t code;
} ended_t;

enum { MAX_RUNS = 8 };
static weft_batch_t *running[MAX_RUNS]; /* begun and not ended, in order */
static atomic_int num_running;
static bool ends_at_once;

static void note(void *arg, weft_status_t *status) {
  ended_t *e = arg;
  e->code = weft_status_code(status);
  weft_status_free(status);
  atomic_fetch_add(&e->times, 1);
}

/* Gives each piece its own rows back. */
static void end_batch(weft_batch_t *batch, weft_code_t code) {
  for (weft_batch_piece_t *p = batch->first; p != NULL; p = p->next)
    CU_ASSERT_PTR_NULL(weft_tensor_slice(p->request->inputs[0], p->first_row, p->rows, &p->results[0]));
  weft_batch_end(batch, code == WEFT_OK ? NULL : weft_status_new(code, __FILE__, __LINE__, "failed"));
}

static void run(weft_batch_t *batch) {
  if (ends_at_once) {
    end_batch(batch, WEFT_OK);
    return;
  }
  running[atomic_load(&num_running) % MAX_RUNS] = batch;
  atomic_fetch_add(&num_running, 1);
}

typedef struct fixture {
  weft_timer_t *timer;
  weft_batcher_t *b;
} fixture_t;

static const weft_batcher_options_t usual = {.max_running = 1,
                                             .max_request_rows = 4,
                                             .max_batch_rows = 4,
                                             .max_batches = 10,
                                             .timeout_micros = 3600000000};

static void begin(fixture_t *f, weft_batcher_options_t options) {
  weft_object_t *o = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&f->timer));
  CU_ASSERT_PTR_NULL_FATAL(weft_batcher_create(&options, f->timer, &o));
  f->b = (weft_batcher_t *)o;
  atomic_store(&num_running, 0);
  ends_at_once = false;
}

/* As when the manager lets go of it. */
static void finish(fixture_t *f) {
  weft_batcher_type.abandon((weft_object_t *)f->b);
  weft_object_release((weft_object_t *)f->b);
  weft_timer_destroy(f->timer);
}

static void add(fixture_t *f, ended_t *e, int64_t rows, weft_canceller_t *canceller) {
  const weft_shape_t shape = weft_shape_vector(rows);
  weft_value_t input = {NULL, NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, NULL, &input.tensor));
  for (int64_t i = 0; i < rows; i++) ((int32_t *)input.tensor->data)[i] = (int32_t)(100 * rows + i);
  *e = (ended_t){.code = WEFT_UNKNOWN};
  const weft_batch_spec_t spec = {
      .call = {.canceller = canceller, .outputs = &e->output, .done = note, .arg = e},
      .inputs = &input,
      .num_inputs = 1,
      .num_results = 1,
      .rows = rows,
      .run = run};
  weft_batcher_add(f->b, WEFT_STR("q"), &spec);
  weft_tensor_release(input.tensor);
}

static void expect(ended_t *e, weft_code_t code) {
  CU_ASSERT_EQUAL(atomic_load(&e->times), 1);
  CU_ASSERT_EQUAL(e->code, code);
  weft_tensor_release(e->output.tensor);
}

static void expect_rows(ended_t *e, int64_t rows) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(e->output.tensor);
  CU_ASSERT_EQUAL(e->output.tensor->count, rows);
  for (int64_t i = 0; i < e->output.tensor->count; i++)
    CU_ASSERT_EQUAL(((const int32_t *)e->output.tensor->data)[i], 100 * rows + i);
  expect(e, WEFT_OK);
}

/* ---- tests ---- */

static void two_steps_are_joined_to_one_batch(void) {
  fixture_t f;
  ended_t a, b;
  begin(&f, usual);
  add(&f, &a, 3, NULL);
  CU_ASSERT_EQUAL(atomic_load(&num_running), 0);
  add(&f, &b, 1, NULL);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1);
  CU_ASSERT_EQUAL(running[0]->rows, 4);
  CU_ASSERT_EQUAL(running[0]->num_pieces, 2);
  CU_ASSERT_PTR_EQUAL(running[0]->last->request->spec.call.arg, &b);
  end_batch(running[0], WEFT_OK);
  expect_rows(&a, 3);
  expect_rows(&b, 1);
  finish(&f);
}

static void a_batch_runs_when_it_is_old(void) {
  fixture_t f;
  ended_t a;
  weft_batcher_options_t o = usual;
  o.timeout_micros = 2000;
  begin(&f, o);
  ends_at_once = true;
  const int64_t start = weft_clock_ns();
  add(&f, &a, 1, NULL);
  while (atomic_load(&a.times) == 0) sched_yield();
  CU_ASSERT(weft_clock_ns() - start >= 2000000);
  expect_rows(&a, 1);
  finish(&f);
}

static void a_request_that_does_not_fit_closes_the_batch(void) {
  fixture_t f;
  ended_t a, b, c;
  begin(&f, usual);
  add(&f, &a, 3, NULL);
  add(&f, &b, 2, NULL);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1); /* a's */
  add(&f, &c, 2, NULL);                                /* b's is full, but only one may run */
  CU_ASSERT_EQUAL(atomic_load(&num_running), 1);
  end_batch(running[0], WEFT_OK);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 2);
  CU_ASSERT_EQUAL(running[1]->rows, 4);
  end_batch(running[1], WEFT_INTERNAL);
  expect_rows(&a, 3);
  expect(&b, WEFT_INTERNAL);
  expect(&c, WEFT_INTERNAL);
  finish(&f);
}

static void a_large_request_goes_in_pieces(void) {
  fixture_t f;
  ended_t a, b;
  weft_batcher_options_t o = usual;
  o.max_request_rows = 20;
  o.splits = true;
  begin(&f, o);
  add(&f, &a, 1, NULL);
  add(&f, &b, 9, NULL); /* 3 behind a, 4, and 2 that wait */
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1);
  CU_ASSERT_EQUAL(running[0]->last->rows, 3);
  end_batch(running[0], WEFT_OK);
  expect_rows(&a, 1);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 2);
  CU_ASSERT_EQUAL(running[1]->first->first_row, 3);
  end_batch(running[1], WEFT_OK);
  CU_ASSERT_EQUAL(atomic_load(&b.times), 0);
  add(&f, &a, 2, NULL);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 3);
  end_batch(running[2], WEFT_OK);
  expect_rows(&a, 2);
  expect_rows(&b, 9);
  finish(&f);
}

static void an_old_batch_leaves_its_rest(void) {
  fixture_t f;
  ended_t a, b, c;
  const int64_t sizes[] = {2, 4};
  weft_batcher_options_t o = usual;
  o.timeout_micros = 100000;
  o.leaves_rest = true;
  o.sizes = sizes;
  o.num_sizes = 2;
  begin(&f, o);
  add(&f, &a, 1, NULL);
  add(&f, &b, 1, NULL);
  add(&f, &c, 1, NULL);
  while (atomic_load(&num_running) == 0) sched_yield();
  CU_ASSERT_EQUAL(running[0]->rows, 2);
  CU_ASSERT_PTR_EQUAL(running[0]->last->request->spec.call.arg, &b);
  end_batch(running[0], WEFT_OK);
  expect_rows(&a, 1);
  expect_rows(&b, 1);
  while (atomic_load(&num_running) == 1) sched_yield();
  CU_ASSERT_EQUAL(running[1]->num_pieces, 1);
  end_batch(running[1], WEFT_OK);
  expect_rows(&c, 1);
  finish(&f);
}

static void what_has_no_room_is_refused(void) {
  fixture_t f;
  ended_t a, b, c;
  weft_batcher_options_t o = usual;
  o.max_batches = 1;
  begin(&f, o);
  add(&f, &a, 5, NULL);
  expect(&a, WEFT_INVALID_ARGUMENT);
  add(&f, &a, 4, NULL); /* runs */
  add(&f, &b, 3, NULL); /* waits */
  add(&f, &c, 2, NULL);
  expect(&c, WEFT_UNAVAILABLE);
  end_batch(running[0], WEFT_OK);
  expect_rows(&a, 4);
  CU_ASSERT_EQUAL(atomic_load(&b.times), 0);
  finish(&f);
  expect(&b, WEFT_CANCELLED);
}

static void a_cancelled_step_leaves_its_queue(void) {
  fixture_t f;
  ended_t a, b;
  begin(&f, usual);
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  add(&f, &a, 3, canceller);
  weft_canceller_cancel(canceller);
  expect(&a, WEFT_CANCELLED);
  add(&f, &a, 3, canceller); /* late */
  expect(&a, WEFT_CANCELLED);
  add(&f, &b, 4, NULL);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1);
  CU_ASSERT_EQUAL(running[0]->num_pieces, 1);
  end_batch(running[0], WEFT_OK);
  expect_rows(&b, 4);
  weft_canceller_release(canceller);
  finish(&f);
}

/* Only the leader's step computes: the others need not wait for it, and it ends with its batch. */
static void a_cancelled_step_leaves_a_batch_that_runs(void) {
  fixture_t f;
  ended_t a, b;
  begin(&f, usual);
  weft_canceller_t *one = weft_canceller_create(NULL), *two = weft_canceller_create(NULL);
  add(&f, &a, 3, one);
  add(&f, &b, 1, two);
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1);
  weft_canceller_cancel(one);
  expect(&a, WEFT_CANCELLED);
  weft_canceller_cancel(two);
  CU_ASSERT_EQUAL(atomic_load(&b.times), 0);
  end_batch(running[0], WEFT_OK);
  expect(&b, WEFT_CANCELLED);
  weft_canceller_release(one);
  weft_canceller_release(two);
  finish(&f);
}

static void an_abandoned_batcher_ends_its_waits(void) {
  fixture_t f;
  ended_t a, b, c;
  weft_batcher_options_t o = usual;
  o.splits = true;
  o.max_request_rows = 10;
  begin(&f, o);
  add(&f, &a, 6, NULL); /* 4 run, 2 wait */
  CU_ASSERT_EQUAL_FATAL(atomic_load(&num_running), 1);
  add(&f, &b, 1, NULL);
  weft_batcher_type.abandon((weft_object_t *)f.b);
  expect(&b, WEFT_CANCELLED);
  add(&f, &c, 1, NULL);
  expect(&c, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(atomic_load(&a.times), 0);
  end_batch(running[0], WEFT_OK);
  expect(&a, WEFT_CANCELLED);
  finish(&f);
}

static weft_status_t *ask(fixture_t *f, const weft_value_t *input) {
  ended_t e = {.code = WEFT_UNKNOWN};
  const weft_batch_spec_t spec = {.call = {.outputs = &e.output, .done = note, .arg = &e},
                                  .inputs = input,
                                  .num_inputs = 1,
                                  .num_results = 1,
                                  .rows = 4,
                                  .run = run};
  weft_batcher_add(f->b, WEFT_STR("q"), &spec);
  CU_ASSERT_EQUAL(atomic_load(&e.times), 1);
  weft_tensor_release(e.output.tensor);
  return e.code == WEFT_OK ? NULL : weft_status_new(e.code, __FILE__, __LINE__, "no memory");
}

static void every_failing_allocation_is_reported(void) {
  fixture_t f;
  const weft_shape_t shape = weft_shape_vector(4);
  weft_value_t input = {NULL, NULL};
  long n = 0;
  begin(&f, usual);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, NULL, &input.tensor));
  ends_at_once = true;
  WEFT_FAIL_EACH_ALLOCATION(n, s, ask(&f, &input));
  CU_ASSERT(n > 4);
  weft_tensor_release(input.tensor);
  finish(&f);
}

static void an_unbatcher_waits_until_cancelled_or_late(void) {
  fixture_t f;
  ended_t e = {.code = WEFT_UNKNOWN};
  weft_object_t *o = NULL;
  begin(&f, usual);
  CU_ASSERT_PTR_NULL_FATAL(weft_unbatcher_create(&o));
  weft_unbatcher_t *u = (weft_unbatcher_t *)o;
  weft_resource_call_t call = {
      .canceller = weft_canceller_create(NULL), .outputs = &e.output, .done = note, .arg = &e};
  weft_unbatcher_take(u, &call, 7, NULL, 0, 1000, f.timer);
  while (atomic_load(&e.times) == 0) sched_yield();
  expect(&e, WEFT_DEADLINE_EXCEEDED);
  e = (ended_t){.code = WEFT_UNKNOWN};
  weft_unbatcher_take(u, &call, 7, NULL, 0, 3600000000, f.timer);
  CU_ASSERT_EQUAL(atomic_load(&e.times), 0);
  weft_canceller_cancel(call.canceller);
  expect(&e, WEFT_CANCELLED);
  weft_canceller_release(call.canceller);
  call.canceller = NULL;
  e = (ended_t){.code = WEFT_UNKNOWN};
  const int64_t keys[] = {1, 2};
  weft_unbatcher_join(u, &call, keys, 2);
  weft_unbatcher_type.abandon(o);
  expect(&e, WEFT_CANCELLED);
  weft_object_release(o);
  finish(&f);
}

static const CU_TestInfo tests[] = {
    {"two steps are joined to one batch", two_steps_are_joined_to_one_batch},
    {"a batch runs when it is old", a_batch_runs_when_it_is_old},
    {"a request that does not fit closes the batch", a_request_that_does_not_fit_closes_the_batch},
    {"a large request goes in pieces", a_large_request_goes_in_pieces},
    {"an old batch leaves its rest", an_old_batch_leaves_its_rest},
    {"what has no room is refused", what_has_no_room_is_refused},
    {"a cancelled step leaves its queue", a_cancelled_step_leaves_its_queue},
    {"a cancelled step leaves a batch that runs", a_cancelled_step_leaves_a_batch_that_runs},
    {"an abandoned batcher ends its waits", an_abandoned_batcher_ends_its_waits},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"an unbatcher waits until cancelled or late", an_unbatcher_waits_until_cancelled_or_late},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("batcher", tests); }
