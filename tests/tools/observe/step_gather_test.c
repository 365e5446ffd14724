/* tests/tools/observe/step_gather_test.c - when steps are whole, in every order in which tasks may answer. */
#include "tools/observe/step_gather.h"

#include <string.h>

#include "tests/runner.h"

static weft_step_gather_t *fresh(int num_tasks) {
  weft_step_gather_t *g = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_step_gather_create(num_tasks, &g));
  return g;
}

static const int64_t no_step[] = {0};

/* An answer in a few words; 0 stands for none. */
typedef struct told {
  int64_t record, ended, partial, running;
  int64_t calls; /* of the record; 0: WEFT_GATHER_MARK */
  bool has_more;
} told_t;

static weft_status_t *try_tell(weft_step_gather_t *g, int task, told_t t) {
  const weft_step_record_t record = {.step_id = t.record,
                                     .calls = t.calls == 0 ? WEFT_GATHER_MARK : t.calls,
                                     .message = WEFT_STR("m"),
                                     .session = WEFT_STR("session"),
                                     .graph = WEFT_STR("graph"),
                                     .step_stats = WEFT_STR("stats")};
  const weft_record_answer_t a = {.records = &record,
                                  .num_records = t.record != 0,
                                  .ended_steps = t.ended != 0 ? &t.ended : no_step,
                                  .num_ended_steps = t.ended != 0,
                                  .partial_steps = t.partial != 0 ? &t.partial : no_step,
                                  .num_partial_steps = t.partial != 0,
                                  .running_steps = t.running != 0 ? &t.running : no_step,
                                  .num_running_steps = t.running != 0,
                                  .has_more = t.has_more};
  return weft_step_gather_add(g, task, &a);
}

/* A request and its answer. */
static void tell(weft_step_gather_t *g, int task, told_t t) {
  weft_step_gather_asked(g, task);
  CU_ASSERT_PTR_NULL(try_tell(g, task, t));
}

/* The next whole step's id and number of parts; 0: none. */
static int64_t next_id(weft_step_gather_t *g, int *out_parts) {
  weft_whole_step_t *s = weft_step_gather_next(g);
  int64_t id = s == NULL ? 0 : s->step_id;
  *out_parts = s == NULL ? 0 : s->n;
  weft_whole_step_free(s);
  return id;
}

#define EXPECT_NEXT(g, id, num_parts)         \
  do {                                        \
    int n_ = 0;                               \
    CU_ASSERT_EQUAL(next_id((g), &n_), (id)); \
    CU_ASSERT_EQUAL(n_, (num_parts));         \
  } while (0)

static void a_step_of_one_task_is_whole_after_one_more_answer(void) {
  weft_step_gather_t *g = fresh(1);
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  EXPECT_NEXT(g, 0, 0);
  CU_ASSERT_EQUAL(weft_step_gather_wait_ms(g, 0, 250), 0);
  tell(g, 0, (told_t){.record = 0});
  CU_ASSERT_EQUAL(weft_step_gather_wait_ms(g, 0, 250), 250);
  weft_whole_step_t *s = weft_step_gather_next(g);
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  CU_ASSERT_EQUAL(s->step_id, 5);
  CU_ASSERT_EQUAL_FATAL(s->n, 1);
  CU_ASSERT_EQUAL(s->parts[0].task, 0);
  CU_ASSERT_TRUE(weft_str_is(s->parts[0].record.message, "m"));
  CU_ASSERT_TRUE(weft_str_is(s->parts[0].record.session, "session"));
  CU_ASSERT_TRUE(weft_str_is(s->parts[0].record.graph, "graph"));
  CU_ASSERT_TRUE(weft_str_is(s->parts[0].record.step_stats, "stats"));
  weft_whole_step_free(s);
  weft_step_gather_destroy(g);
}

static void a_record_that_comes_late_belongs_to_its_step(void) {
  weft_step_gather_t *g = fresh(2);
  weft_step_gather_asked(g, 1); /* in flight when the other task tells the end: says nothing of it */
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  CU_ASSERT_PTR_NULL(try_tell(g, 1, (told_t){.record = 0}));
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 0, 0);
  tell(g, 1, (told_t){.running = 5}); /* it still writes its record */
  EXPECT_NEXT(g, 0, 0);
  CU_ASSERT_TRUE(weft_step_gather_wait_ms(g, 1, 250) > 0);
  tell(g, 1, (told_t){.record = 5, .ended = 5});
  EXPECT_NEXT(g, 5, 2);
  weft_step_gather_destroy(g);
}

static void an_answer_that_is_cut_settles_nothing(void) {
  weft_step_gather_t *g = fresh(2);
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  tell(g, 0, (told_t){.record = 0});
  tell(g, 1, (told_t){.has_more = true});
  EXPECT_NEXT(g, 0, 0);
  tell(g, 1, (told_t){.record = 5, .has_more = true});
  EXPECT_NEXT(g, 0, 0);
  tell(g, 1, (told_t){.ended = 5});
  EXPECT_NEXT(g, 5, 2);
  weft_step_gather_destroy(g);
}

static void a_task_with_a_record_has_to_tell_its_end(void) {
  weft_step_gather_t *g = fresh(2);
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  tell(g, 1, (told_t){.record = 5});
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 0, 0);
  tell(g, 1, (told_t){.ended = 5});
  EXPECT_NEXT(g, 5, 2);
  weft_step_gather_destroy(g);
}

static void tasks_without_a_part_are_fine(void) {
  weft_step_gather_t *g = fresh(3);
  tell(g, 1, (told_t){.record = 5, .ended = 5});
  for (int i = 0; i < 3; i++) tell(g, i, (told_t){.record = 0});
  EXPECT_NEXT(g, 5, 1);
  CU_ASSERT_EQUAL(weft_step_gather_num_left_out(g), 0);
  weft_step_gather_destroy(g);
}

static void a_task_may_run_several_parts_of_a_step(void) {
  weft_step_gather_t *g = fresh(1);
  tell(g, 0, (told_t){.record = 5});
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 5, 2);
  weft_step_gather_destroy(g);
}

/* What is not whole, and where that is told: before its record, with it, or after. */
static void steps_that_are_not_whole_are_left_out(void) {
  weft_step_gather_t *g = fresh(2);
  tell(g, 1, (told_t){.partial = 5});
  tell(g, 0, (told_t){.record = 5, .ended = 5});
  tell(g, 0, (told_t){.record = 6, .partial = 6, .ended = 6});
  tell(g, 0, (told_t){.record = 7, .ended = 7});
  tell(g, 1, (told_t){.partial = 7});
  tell(g, 0, (told_t){.record = 8, .calls = 1, .ended = 8}); /* began when not all were open */
  tell(g, 0, (told_t){.record = 9, .ended = 9});
  for (int i = 0; i < 2; i++) tell(g, i, (told_t){.record = 0});
  EXPECT_NEXT(g, 9, 1);
  EXPECT_NEXT(g, 0, 0);
  CU_ASSERT_EQUAL(weft_step_gather_num_left_out(g), 4);
  weft_step_gather_destroy(g);
}

static void a_step_whose_one_part_began_after_all_opened_is_whole(void) {
  weft_step_gather_t *g = fresh(2);
  tell(g, 0, (told_t){.record = 5, .calls = 1, .ended = 5});
  tell(g, 1, (told_t){.record = 5, .calls = 2, .ended = 5});
  for (int i = 0; i < 2; i++) tell(g, i, (told_t){.record = 0});
  EXPECT_NEXT(g, 5, 2);
  weft_step_gather_destroy(g);
}

static void steps_come_in_the_order_of_their_ends(void) {
  weft_step_gather_t *g = fresh(1);
  tell(g, 0, (told_t){.record = 3});
  tell(g, 0, (told_t){.record = 2});
  tell(g, 0, (told_t){.record = 1, .ended = 1});
  tell(g, 0, (told_t){.ended = 3});
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 1, 1);
  EXPECT_NEXT(g, 3, 1);
  EXPECT_NEXT(g, 0, 0);
  tell(g, 0, (told_t){.ended = 2});
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 2, 1);
  weft_step_gather_destroy(g);
}

static void a_lost_task_holds_nothing_up(void) {
  weft_step_gather_t *g = fresh(2);
  tell(g, 1, (told_t){.record = 5});
  tell(g, 0, (told_t){.record = 5});
  tell(g, 0, (told_t){.record = 6});
  weft_step_gather_lose(g, 1);
  tell(g, 0, (told_t){.ended = 5}); /* the lost task had not told its end */
  tell(g, 0, (told_t){.ended = 6});
  tell(g, 0, (told_t){.record = 0});
  EXPECT_NEXT(g, 6, 1);
  EXPECT_NEXT(g, 0, 0);
  CU_ASSERT_EQUAL(weft_step_gather_num_left_out(g), 1);
  weft_step_gather_destroy(g);
}

static void what_is_not_taken_is_freed(void) {
  weft_step_gather_t *g = fresh(1);
  tell(g, 0, (told_t){.record = 1, .ended = 1, .running = 9});
  tell(g, 0, (told_t){.record = 2, .ended = 2});
  tell(g, 0, (told_t){.record = 3});
  weft_step_gather_destroy(g);
  weft_step_gather_destroy(NULL);
  weft_whole_step_free(NULL);
}

static weft_status_t *gather_one(void) {
  weft_step_gather_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_gather_create(2, &g));
  weft_status_t *s = try_tell(g, 0, (told_t){.record = 1, .ended = 1, .running = 4});
  for (int i = 0; i < 2 && s == NULL; i++) {
    weft_step_gather_asked(g, i);
    s = try_tell(g, i, (told_t){.partial = 2});
  }
  weft_step_gather_destroy(g);
  return s;
}

static void without_memory_it_says_so(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, gather_one());
  CU_ASSERT_TRUE(n > 5);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a step of one task is whole after one more answer",
       a_step_of_one_task_is_whole_after_one_more_answer},
      {"a record that comes late belongs to its step", a_record_that_comes_late_belongs_to_its_step},
      {"an answer that is cut settles nothing", an_answer_that_is_cut_settles_nothing},
      {"a task with a record has to tell its end", a_task_with_a_record_has_to_tell_its_end},
      {"tasks without a part are fine", tasks_without_a_part_are_fine},
      {"a task may run several parts of a step", a_task_may_run_several_parts_of_a_step},
      {"steps that are not whole are left out", steps_that_are_not_whole_are_left_out},
      {"a step whose one part began after all opened is whole",
       a_step_whose_one_part_began_after_all_opened_is_whole},
      {"steps come in the order of their ends", steps_come_in_the_order_of_their_ends},
      {"a lost task holds nothing up", a_lost_task_holds_nothing_up},
      {"what is not taken is freed", what_is_not_taken_is_freed},
      {"without memory it says so", without_memory_it_says_so},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("step_gather", tests);
}
