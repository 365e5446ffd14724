/* tests/collectives/remote/transfers_test.c - which transfers end with a task that returns as another
 * process. */
#include "collectives/remote/transfers.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tests/runner.h"

#define TASK WEFT_STR("/job:w/replica:0/task:1")
#define OTHER WEFT_STR("/job:w/replica:0/task:2")

enum { UNKNOWN, FIRST = 11, SECOND = 22, STEP = 5 };

/* Transfers of one step with one task: one of each kind. */
typedef struct transfers {
  weft_transfers_t *table;
  char names[5][32];
  weft_remote_offer_t held, announced;
  weft_remote_fetch_t waiting, calling;
  weft_remote_arrival_t *arrival;
} transfers_t;

static void enter(transfers_t *t, weft_transfers_t *table, weft_str_t task, uint64_t incarnation) {
  static int num = 0;
  weft_remote_request_t *request = NULL;
  weft_remote_arrival_t *arrival = NULL;
  weft_remote_fetch_t *fetch = NULL;
  uint64_t id = 0;
  *t = (transfers_t){.table = table};
  for (int i = 0; i < 5; i++) snprintf(t->names[i], sizeof t->names[i], "5;d;run/%d", num++);
  const weft_remote_offer_t offer = {
      .step_id = STEP, .key = WEFT_STR("run/k"), .to_task = task, .incarnation = incarnation};
  const weft_remote_fetch_t wanted = {.step_id = STEP,
                                      .key = WEFT_STR("run/k"),
                                      .from_task = task,
                                      .incarnation = incarnation,
                                      .canceller = weft_canceller_create(NULL)};
  t->held = t->announced = offer;
  t->waiting = t->calling = wanted;
  (void)weft_canceller_retain(wanted.canceller); /* each has a reference */
  t->held.name = t->names[0];
  t->announced.name = t->names[1];
  t->waiting.name = t->names[2];
  t->calling.name = t->names[3];
  t->arrival = weft_malloc(sizeof *t->arrival);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t->arrival);
  *t->arrival = (weft_remote_arrival_t){.name = t->names[4],
                                        .key = WEFT_STR("run/k"),
                                        .step_id = STEP,
                                        .from_task = task,
                                        .incarnation = incarnation};
  CU_ASSERT_PTR_NULL(weft_transfers_hold(table, &t->held, &request));
  CU_ASSERT_PTR_NULL(weft_transfers_announce(table, &t->announced, &id));
  CU_ASSERT_PTR_NULL(weft_transfers_wait(table, &t->waiting, NULL, &arrival));
  CU_ASSERT_PTR_NULL(weft_transfers_begin_call(table, &t->calling));
  CU_ASSERT_TRUE(weft_transfers_arrive(table, t->arrival, &fetch));
  CU_ASSERT_TRUE(request == NULL && arrival == NULL && fetch == NULL);
}

static bool has_offer(const weft_transfer_list_t *l, const weft_remote_offer_t *o) {
  const weft_remote_offer_t *at = l->offers;
  while (at != NULL && at != o) at = at->next;
  return at != NULL;
}

/* Ends what matches. Returns how many of `t` there were of five. */
static int end(transfers_t *t, weft_transfer_filter_t w) {
  weft_transfer_list_t taken = {.offers = NULL};
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "lost");
  w.with_announced = true;
  weft_transfers_take(t->table, &w, why, &taken);
  int n = has_offer(&taken, &t->held) + has_offer(&taken, &t->announced);
  for (const weft_remote_fetch_t *f = taken.fetches; f != NULL; f = f->next) n += f == &t->waiting;
  for (const weft_remote_arrival_t *a = taken.arrivals; a != NULL; a = a->next) n += a == t->arrival;
  weft_canceller_t *c = NULL;
  while ((c = weft_transfers_take_call(t->table, &w, why)) != NULL) {
    n += c == t->calling.canceller;
    weft_canceller_release(c);
  }
  weft_status_free(why);
  return n;
}

static void leave(transfers_t *t) {
  (void)end(t, (weft_transfer_filter_t){.has_step = true, .step_id = STEP});
  weft_status_free(weft_transfers_end_call(t->table, &t->calling));
  weft_canceller_release(t->calling.canceller);
  weft_canceller_release(t->waiting.canceller);
  weft_free(t->arrival);
}

/* A link that broke late ended them with the process that had come in the place of the lost one. */
static void a_loss_ends_what_is_with_the_lost_process(void) {
  static const uint64_t with[] = {UNKNOWN, FIRST, SECOND}, lost[] = {UNKNOWN, FIRST, SECOND};
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) {
      weft_transfers_t *table = NULL;
      transfers_t t;
      CU_ASSERT_PTR_NULL_FATAL(weft_transfers_create(&table));
      enter(&t, table, TASK, with[i]);
      const bool ends = with[i] == UNKNOWN || lost[k] == UNKNOWN || with[i] == lost[k];
      CU_ASSERT_EQUAL(end(&t, (weft_transfer_filter_t){.task = OTHER, .incarnation = lost[k]}), 0);
      CU_ASSERT_EQUAL(end(&t, (weft_transfer_filter_t){.task = TASK, .incarnation = lost[k]}), ends ? 5 : 0);
      leave(&t);
      weft_transfers_destroy(table);
    }
  }
}

static void a_step_that_ends_ends_all(void) {
  static const uint64_t with[] = {UNKNOWN, FIRST, SECOND};
  for (int i = 0; i < 3; i++) {
    weft_transfers_t *table = NULL;
    transfers_t t;
    CU_ASSERT_PTR_NULL_FATAL(weft_transfers_create(&table));
    enter(&t, table, TASK, with[i]);
    CU_ASSERT_EQUAL(end(&t, (weft_transfer_filter_t){.has_step = true, .step_id = STEP + 1}), 0);
    CU_ASSERT_EQUAL(end(&t, (weft_transfer_filter_t){.has_step = true, .step_id = STEP, .run = "other"}), 0);
    CU_ASSERT_EQUAL(end(&t, (weft_transfer_filter_t){.has_step = true, .step_id = STEP, .run = "run"}), 5);
    leave(&t);
    weft_transfers_destroy(table);
  }
}

static const CU_TestInfo tests[] = {
    {"a loss ends what is with the lost process", a_loss_ends_what_is_with_the_lost_process},
    {"a step that ends ends all", a_step_that_ends_ends_all},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("transfers", tests); }
