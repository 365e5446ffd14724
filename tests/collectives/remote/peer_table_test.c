/* tests/collectives/remote/peer_table_test.c - losses of tasks that return as other processes. */
#include "collectives/remote/peer_table.h"

#include <CUnit/CUnit.h>

#include "tests/runner.h"

#define TASK WEFT_STR("/job:w/replica:0/task:1")
#define HOST WEFT_STR("a")

enum { UNKNOWN, FIRST = 11, SECOND = 22 };

static bool note(weft_peer_table_t *t, uint64_t incarnation, bool is_departure) {
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "gone");
  const bool is_noted = weft_peer_table_note_loss(t, TASK, incarnation, why, is_departure);
  weft_status_free(why);
  return is_noted;
}

static bool has_loss_of(weft_peer_table_t *t, uint64_t incarnation) {
  weft_status_t *s = weft_peer_table_loss_of(t, TASK, incarnation);
  const bool has = s != NULL;
  weft_status_free(s);
  return has;
}

static void a_late_loss_is_not_one_of_the_next_process(void) {
  for (int is_departure = 0; is_departure < 2; is_departure++) {
    weft_peer_table_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_peer_table_create(&t));
    weft_peer_table_note(t, TASK, HOST, FIRST);
    weft_peer_table_note(t, TASK, HOST, SECOND);
    CU_ASSERT_FALSE(note(t, FIRST, is_departure == 1));
    CU_ASSERT_FALSE(weft_peer_table_is_lost(t, TASK));
    CU_ASSERT_FALSE(weft_peer_table_is_lost_lately(t, TASK));
    CU_ASSERT_FALSE(has_loss_of(t, FIRST));
    CU_ASSERT_FALSE(has_loss_of(t, SECOND));
    CU_ASSERT_TRUE(note(t, SECOND, is_departure == 1));
    CU_ASSERT_TRUE(weft_peer_table_is_lost(t, TASK));
    CU_ASSERT_TRUE(has_loss_of(t, SECOND));
    weft_peer_table_destroy(t);
  }
}

/* What is not known, of the task or of the loss, is taken for the same. */
static void a_loss_without_an_incarnation_is_one_of_the_task(void) {
  static const uint64_t known[] = {UNKNOWN, FIRST}, lost[] = {UNKNOWN, FIRST};
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2; k++) {
      weft_peer_table_t *t = NULL;
      CU_ASSERT_PTR_NULL_FATAL(weft_peer_table_create(&t));
      if (known[i] != UNKNOWN) weft_peer_table_note(t, TASK, HOST, known[i]);
      CU_ASSERT_TRUE(note(t, lost[k], false));
      CU_ASSERT_TRUE(weft_peer_table_is_lost(t, TASK));
      CU_ASSERT_TRUE(has_loss_of(t, known[i]));
      weft_peer_table_forget_loss(t, TASK);
      CU_ASSERT_FALSE(weft_peer_table_is_lost(t, TASK));
      weft_peer_table_destroy(t);
    }
  }
}

static const CU_TestInfo tests[] = {
    {"a late loss is not one of the next process", a_late_loss_is_not_one_of_the_next_process},
    {"a loss without an incarnation is one of the task", a_loss_without_an_incarnation_is_one_of_the_task},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("peer table", tests); }
