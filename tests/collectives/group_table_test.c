/* The leader's table: which members a group has, when it breaks, and when it is formed anew. */
#include <limits.h>
#include <stdio.h>

#include "base/mutex.h"
#include "collectives/group_table.h"
#include "tests/runner.h"

typedef struct answer {
  int calls;
  weft_status_t *status;
  weft_group_t *group;
  int source;
} answer_t;

static void on_group(void *arg, weft_status_t *s, weft_group_t *g) {
  answer_t *a = arg;
  a->calls++;
  a->status = s;
  a->group = g;
}

static void on_instance(void *arg, weft_status_t *s, int source) {
  answer_t *a = arg;
  a->calls++;
  a->status = s;
  a->source = source;
}

static void answer_deinit(answer_t *a) {
  weft_status_free(a->status);
  weft_group_release(a->group);
  *a = (answer_t){0};
}

static weft_str_t host_of(void *arg, weft_str_t task) {
  (void)arg;
  return weft_str_ends_with(task, "task:10") ? WEFT_STR("b") : WEFT_STR("a");
}

static double cost(void *arg, weft_str_t from, weft_str_t to, size_t bytes) {
  (void)arg;
  const bool is_far = weft_str_ends_with(from, "task:10") != weft_str_ends_with(to, "task:10");
  return is_far ? 1e-3 + 1e-8 * (double)bytes : 1e-5 + 1e-9 * (double)bytes;
}

static const weft_str_t *cluster(void *arg, int *out_n) {
  static weft_str_t tasks[4];
  (void)arg;
  tasks[0] = weft_str("/job:ps/replica:0/task:0");
  tasks[1] = weft_str("/job:w/replica:0/task:0");
  tasks[2] = weft_str("/job:w/replica:0/task:1");
  tasks[3] = weft_str("/job:w/replica:0/task:2");
  *out_n = 4;
  return tasks;
}

static weft_group_table_t *fresh(void) {
  const weft_group_table_env_t env = {.tasks = cluster, .host_of = host_of, .cost = cost};
  weft_group_table_t *t = NULL;
  weft_status_t *s = weft_group_table_create(&env, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static void join(weft_group_table_t *t, int64_t key, int size, const char *device, int rank,
                 uint64_t incarnation, weft_canceller_t *c, answer_t *a) {
  *a = (answer_t){0};
  const weft_group_request_t r = {.group_key = key,
                                  .group_size = size,
                                  .rank = rank,
                                  .device_type = weft_transport_type_of(weft_str(device)),
                                  .device = weft_str(device),
                                  .incarnation = incarnation};
  weft_group_table_join(t, &r, c, on_group, a);
}

#define TASK(i) "/job:w/replica:0/task:" #i
#define CPU(i) TASK(i) "/device:CPU:0"

static void ranks_go_by_name(void) {
  weft_group_table_t *t = fresh();
  answer_t a[3];
  join(t, 1, 3, CPU(10), -1, 1, NULL, &a[0]);
  join(t, 1, 3, CPU(9), -1, 1, NULL, &a[1]);
  CU_ASSERT_EQUAL(a[0].calls + a[1].calls, 0);
  join(t, 1, 3, CPU(2), -1, 1, NULL, &a[2]);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL_FATAL(a[i].calls, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a[i].group);
  }
  const weft_group_t *g = a[0].group;
  CU_ASSERT(weft_str_is(g->members[0].device, CPU(2)) && weft_str_is(g->members[1].device, CPU(9)) &&
            weft_str_is(g->members[2].device, CPU(10)));
  CU_ASSERT(weft_str_is(g->members[2].task, TASK(10)) && weft_str_is(g->members[2].host, "b"));
  CU_ASSERT(g->near.alpha_s == 1e-5 && g->far.alpha_s == 1e-3);
  CU_ASSERT(g->far.byte_s > 0.9e-8 && g->far.byte_s < 1.1e-8);
  answer_t again;
  join(t, 1, 3, CPU(9), -1, 1, NULL, &again); /* at once, and the same */
  CU_ASSERT_PTR_EQUAL(again.group, g);
  answer_deinit(&again);
  for (int i = 0; i < 3; i++) answer_deinit(&a[i]);
  weft_group_table_destroy(t);
}

static void wanted_ranks_are_given(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2];
  join(t, 1, 2, CPU(1), 1, 1, NULL, &a[0]);
  join(t, 1, 2, CPU(2), 0, 1, NULL, &a[1]);
  CU_ASSERT_PTR_NOT_NULL_FATAL(a[0].group);
  CU_ASSERT(weft_str_is(a[0].group->members[0].device, CPU(2)));
  for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
  join(t, 2, 2, CPU(1), 1, 1, NULL, &a[0]);
  join(t, 2, 2, CPU(2), 1, 1, NULL, &a[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(weft_status_code(a[i].status), WEFT_INTERNAL);
    answer_deinit(&a[i]);
  }
  weft_group_table_destroy(t);
}

static void device_types_must_be_one(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2];
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  join(t, 1, 2, TASK(2) "/device:GPU:0", -1, 1, NULL, &a[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(weft_status_code(a[i].status), WEFT_INTERNAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a[i].status), "incompatible device type"));
    answer_deinit(&a[i]);
  }
  weft_group_table_destroy(t);
}

static void a_stranger_does_not_harm_a_group(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2], stranger;
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
  join(t, 1, 2, CPU(3), -1, 1, NULL, &stranger);
  CU_ASSERT_EQUAL(weft_status_code(stranger.status), WEFT_INTERNAL);
  answer_deinit(&stranger);
  for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  CU_ASSERT_PTR_NOT_NULL(a[0].group);
  answer_deinit(&a[0]);
  weft_group_table_destroy(t);
}

static void a_new_incarnation_forms_the_group_anew(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2];
  for (uint64_t incarnation = 1; incarnation < 4; incarnation++) {
    join(t, 1, 2, CPU(1), -1, incarnation, NULL, &a[0]);
    CU_ASSERT_EQUAL(a[0].calls, 0); /* waits for the other to join again */
    join(t, 1, 2, CPU(2), -1, 7, NULL, &a[1]);
    for (int i = 0; i < 2; i++) {
      CU_ASSERT_PTR_NOT_NULL_FATAL(a[i].group);
      CU_ASSERT_EQUAL(a[i].group->members[0].incarnation, incarnation);
      answer_deinit(&a[i]);
    }
  }
  weft_group_table_destroy(t);
}

static void an_error_stays_until_a_member_comes_anew(void) {
  weft_group_table_t *t = fresh();
  answer_t a[3];
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  join(t, 1, 3, CPU(2), -1, 1, NULL, &a[1]);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[2]);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(weft_status_code(a[i].status), WEFT_INTERNAL);
    answer_deinit(&a[i]);
  }
  join(t, 1, 2, CPU(1), -1, 2, NULL, &a[0]);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_PTR_NULL(a[i].status);
    answer_deinit(&a[i]);
  }
  weft_group_table_destroy(t);
}

static void a_lost_task_breaks_its_groups(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2], other[2];
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  join(t, 2, 2, CPU(3), -1, 1, NULL, &other[0]);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "silence");
  weft_group_table_lost_task(t, WEFT_STR(TASK(1)), why);
  CU_ASSERT_EQUAL(weft_status_code(a[0].status), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a[0].status), TASK(1)));
  CU_ASSERT_EQUAL(other[0].calls, 0);
  answer_deinit(&a[0]);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
  CU_ASSERT_EQUAL(weft_status_code(a[1].status), WEFT_UNAVAILABLE);
  answer_deinit(&a[1]);
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]); /* it was only away: the same incarnation */
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
  CU_ASSERT(a[0].group != NULL && a[1].group != NULL);
  weft_status_free(why);
  weft_group_table_destroy(t);
  CU_ASSERT_EQUAL(weft_status_code(other[0].status), WEFT_CANCELLED);
  answer_deinit(&other[0]);
  for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
}

/* Of the cluster's tasks of job w: those whose bit is set are lost. */
static bool is_lost(void *arg, weft_str_t task) {
  const int lost = *(const int *)arg;
  return (lost >> (task.data[task.length - 1] - '0') & 1) != 0 && weft_str_starts_with(task, "/job:w/");
}

static void a_group_that_lacks_a_lost_task_ends_its_waits(void) {
  static const struct {
    const char *joined[2];
    int lost;
    bool ends;
  } cases[] = {
      {{"/job:w/replica:0/task:0/device:CPU:0", "/job:w/replica:0/task:2/device:CPU:0"}, 1 << 1, true},
      {{"/job:w/replica:0/task:0/device:CPU:0", NULL}, 1 << 1, false}, /* task 2 may still come */
      {{"/job:w/replica:0/task:0/device:CPU:0", NULL}, 1 << 1 | 1 << 2, true},
      {{"/job:w/replica:0/task:0/device:CPU:0", NULL}, 0, false},
      {{"/job:ps/replica:0/task:0/device:CPU:0", NULL}, 1 << 1 | 1 << 2, false}, /* of another job */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int before = 0; before < 2; before++) { /* the task is lost before the members join, or after */
      int lost = before ? cases[i].lost : 0;
      const weft_group_table_env_t env = {.tasks = cluster, .is_lost = is_lost, .arg = &lost};
      weft_group_table_t *t = NULL;
      CU_ASSERT_PTR_NULL_FATAL(weft_group_table_create(&env, &t));
      answer_t a[2] = {{0}, {0}};
      for (int k = 0; k < 2 && cases[i].joined[k] != NULL; k++)
        join(t, 1, 3, cases[i].joined[k], -1, 1, NULL, &a[k]);
      lost = cases[i].lost;
      weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "silence");
      if (!before && lost != 0) weft_group_table_lost_task(t, WEFT_STR("/job:w/replica:0/task:1"), why);
      weft_status_free(why);
      for (int k = 0; k < 2 && cases[i].joined[k] != NULL; k++) {
        CU_ASSERT_EQUAL(a[k].calls, cases[i].ends);
        if (!cases[i].ends) continue;
        CU_ASSERT_EQUAL(weft_status_code(a[k].status), WEFT_UNAVAILABLE);
        CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a[k].status), "/job:w/replica:0/task:1"));
      }
      weft_group_table_destroy(t);
      for (int k = 0; k < 2; k++) answer_deinit(&a[k]);
    }
  }
}

/* The task is back: the group is formed by those that join then. */
static void a_group_that_lacked_a_task_is_formed_anew(void) {
  int lost = 1 << 1 | 1 << 2;
  const weft_group_table_env_t env = {.tasks = cluster, .is_lost = is_lost, .arg = &lost};
  weft_group_table_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_group_table_create(&env, &t));
  answer_t a[2];
  join(t, 1, 2, "/job:w/replica:0/task:0/device:CPU:0", -1, 1, NULL, &a[0]);
  CU_ASSERT_EQUAL(weft_status_code(a[0].status), WEFT_UNAVAILABLE);
  answer_deinit(&a[0]);
  lost = 0;
  join(t, 1, 2, "/job:w/replica:0/task:0/device:CPU:0", -1, 1, NULL, &a[0]);
  CU_ASSERT_EQUAL(a[0].calls, 0);
  join(t, 1, 2, "/job:w/replica:0/task:1/device:CPU:0", -1, 7, NULL, &a[1]);
  CU_ASSERT(a[0].group != NULL && a[0].group == a[1].group);
  for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
  weft_group_table_destroy(t);
}

static bool begins_with_loss_of(const weft_status_t *s, const char *task) {
  const char *named = s == NULL ? NULL : strstr(weft_status_message(s), "/job:");
  return weft_status_code(s) == WEFT_UNAVAILABLE && named != NULL && strncmp(named, task, strlen(task)) == 0;
}

static void a_task_that_departs_because_of_another_is_not_the_cause(void) {
  weft_group_table_t *t = fresh();
  answer_t a, late;
  join(t, 1, 3, CPU(1), -1, 1, NULL, &a);
  weft_status_t *died = WEFT_ERROR(UNAVAILABLE, "it has died"),
                *why = weft_transport_loss(WEFT_STR(TASK(3)), died);
  weft_group_table_lost_task(t, WEFT_STR(TASK(1)), why);
  join(t, 1, 3, CPU(2), -1, 1, NULL, &late);
  CU_ASSERT(begins_with_loss_of(a.status, TASK(3)));
  CU_ASSERT(begins_with_loss_of(late.status, TASK(3)));
  answer_deinit(&a);
  answer_deinit(&late);
  weft_status_free(why);
  weft_status_free(died);
  weft_group_table_destroy(t);
}

static void a_leader_that_leaves_says_why(void) {
  weft_group_table_t *t = fresh();
  answer_t waiting, member[2], asked, late[2];
  join(t, 1, 2, CPU(1), -1, 1, NULL, &waiting);
  join(t, 2, 2, CPU(1), -1, 1, NULL, &member[0]);
  join(t, 2, 2, CPU(2), -1, 1, NULL, &member[1]);
  asked = late[0] = late[1] = (answer_t){0};
  weft_instance_request_t q = {.group_key = 2,
                               .instance_key = 1,
                               .group_size = 2,
                               .rank = 0,
                               .name = WEFT_STR("x"),
                               .device = WEFT_STR(CPU(1)),
                               .kind = WEFT_BARRIER,
                               .root = -1};
  weft_group_table_join_instance(t, &q, NULL, on_instance, &asked);
  CU_ASSERT_EQUAL(waiting.calls + asked.calls, 0);
  weft_status_t *died = WEFT_ERROR(UNAVAILABLE, "it has died"),
                *why = weft_transport_loss(WEFT_STR(TASK(3)), died);
  weft_group_table_leave(t, why);
  join(t, 2, 2, CPU(1), -1, 1, NULL, &late[0]);
  q.rank = 1;
  weft_group_table_join_instance(t, &q, NULL, on_instance, &late[1]);
  const answer_t *all[] = {&waiting, &asked, &late[0], &late[1]};
  for (int i = 0; i < 4; i++) CU_ASSERT(all[i]->calls == 1 && begins_with_loss_of(all[i]->status, TASK(3)));
  answer_deinit(&waiting);
  answer_deinit(&asked);
  for (int i = 0; i < 2; i++) answer_deinit(&late[i]);
  for (int i = 0; i < 2; i++) answer_deinit(&member[i]);
  weft_status_free(why);
  weft_status_free(died);
  weft_group_table_destroy(t);
}

static void a_member_that_gives_up_leaves_the_group(void) {
  weft_group_table_t *t = fresh();
  weft_canceller_t *c = weft_canceller_create(NULL);
  answer_t gone, a[2];
  join(t, 1, 2, CPU(1), -1, 1, c, &gone);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(weft_status_code(gone.status), WEFT_CANCELLED);
  answer_deinit(&gone);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[0]);
  CU_ASSERT_EQUAL(a[0].calls, 0);
  join(t, 1, 2, CPU(3), -1, 1, NULL, &a[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_PTR_NOT_NULL(a[i].group);
    answer_deinit(&a[i]);
  }
  join(t, 9, 2, CPU(2), -1, 1, c, &gone); /* already cancelled */
  CU_ASSERT_EQUAL(weft_status_code(gone.status), WEFT_CANCELLED);
  answer_deinit(&gone);
  weft_canceller_release(c);
  weft_group_table_destroy(t);
}

static weft_instance_request_t request(int rank, int64_t step) {
  return (weft_instance_request_t){.group_key = 1,
                                   .instance_key = 5,
                                   .step_id = step,
                                   .rank = rank,
                                   .group_size = 2,
                                   .name = WEFT_STR("x"),
                                   .device = WEFT_STR(CPU(1)),
                                   .kind = WEFT_BROADCAST,
                                   .dtype = WEFT_F32,
                                   .shape = weft_shape_vector(3),
                                   .root = -1,
                                   .is_source = rank == 1};
}

/* The rank got its group before the leader heard of the loss, and asks for its instance after that: it would
 * wait for ranks that do not come. */
static void an_instance_of_a_broken_group_fails_at_once(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2], late = {0};
  const weft_status_t *why = NULL;
  weft_status_t *silence = WEFT_ERROR(UNAVAILABLE, "silence");
  for (int knows_its_rank = 0; knows_its_rank < 2; knows_its_rank++) {
    join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
    join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
    CU_ASSERT_FATAL(a[0].group != NULL && a[1].group != NULL);
    weft_group_table_lost_task(t, WEFT_STR(TASK(2)), silence);
    weft_instance_request_t r = request(knows_its_rank ? 0 : -1, 7 + knows_its_rank);
    weft_group_table_join_instance(t, &r, NULL, on_instance, &late);
    why = late.status;
    CU_ASSERT_EQUAL_FATAL(late.calls, 1);
    CU_ASSERT_EQUAL(weft_status_code(why), WEFT_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(why), TASK(2)));
    answer_deinit(&late);
    for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
    /* The task is there again: the group is formed anew, and its instances are agreed on. */
    join(t, 1, 2, CPU(2), -1, 2, NULL, &a[1]);
    join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
    CU_ASSERT(a[0].group != NULL && a[1].group != NULL);
    r = request(0, 17 + knows_its_rank);
    weft_group_table_join_instance(t, &r, NULL, on_instance, &late);
    CU_ASSERT_EQUAL(late.calls, 0);
    weft_instance_request_t other = request(1, 17 + knows_its_rank);
    answer_t agreed = {0};
    weft_group_table_join_instance(t, &other, NULL, on_instance, &agreed);
    CU_ASSERT(late.calls == 1 && late.status == NULL && agreed.calls == 1 && agreed.status == NULL);
    answer_deinit(&late);
    answer_deinit(&agreed);
    for (int i = 0; i < 2; i++) answer_deinit(&a[i]);
    weft_group_table_lost_task(t, WEFT_STR(TASK(2)), silence); /* else the next round is a contradiction */
    weft_group_table_returned_task(t, WEFT_STR(TASK(2)));
  }
  weft_status_free(silence);
  weft_group_table_destroy(t);
}

static void an_instance_is_agreed_once(void) {
  weft_group_table_t *t = fresh();
  answer_t a[2] = {{0}, {0}}, again = {0};
  weft_instance_request_t r0 = request(0, 1), r1 = request(1, 1), later = request(0, 2);
  weft_group_table_join_instance(t, &r0, NULL, on_instance, &a[0]);
  weft_group_table_join_instance(t, &r0, NULL, on_instance, &again); /* the same rank twice, as in a loop */
  CU_ASSERT_EQUAL(a[0].calls + again.calls, 0);
  weft_group_table_join_instance(t, &r1, NULL, on_instance, &a[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(a[i].calls, 1);
    CU_ASSERT_PTR_NULL(a[i].status);
    CU_ASSERT_EQUAL(a[i].source, 1);
    answer_deinit(&a[i]);
  }
  CU_ASSERT_EQUAL(again.calls, 1);
  answer_deinit(&again);
  weft_group_table_join_instance(t, &later, NULL, on_instance, &again);
  CU_ASSERT_EQUAL(again.calls, 1); /* from memory */
  CU_ASSERT_EQUAL(again.source, 1);
  answer_deinit(&again);
  later.details |= WEFT_INSTANCE_DOUBT;
  weft_group_table_join_instance(t, &later, NULL, on_instance, &again);
  CU_ASSERT_EQUAL(again.calls, 0); /* waits for the rank that does something else */
  r1.step_id = 2;
  r1.shape = weft_shape_vector(4);
  weft_group_table_join_instance(t, &r1, NULL, on_instance, &a[1]);
  CU_ASSERT_EQUAL(weft_status_code(again.status), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_EQUAL(weft_status_code(a[1].status), WEFT_INVALID_ARGUMENT);
  answer_deinit(&again);
  answer_deinit(&a[1]);
  weft_group_table_destroy(t);
}

static void bad_requests_are_refused(void) {
  weft_group_table_t *t = fresh();
  answer_t a = {0};
  join(t, 1, 0, CPU(1), -1, 1, NULL, &a);
  CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_INVALID_ARGUMENT);
  answer_deinit(&a);
  join(t, 1, 2, CPU(1), 2, 1, NULL, &a);
  CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_INTERNAL);
  answer_deinit(&a);
  weft_instance_request_t r = request(2, 1);
  weft_group_table_join_instance(t, &r, NULL, on_instance, &a);
  CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_INVALID_ARGUMENT);
  answer_deinit(&a);
  weft_group_table_destroy(t);
}

static void join_for(weft_group_table_t *t, int64_t key, int size, weft_str_t device, int rank,
                     int64_t timeout_ms, answer_t *a) {
  *a = (answer_t){0};
  const weft_group_request_t r = {.group_key = key,
                                  .group_size = size,
                                  .rank = rank,
                                  .device_type = WEFT_STR("CPU"),
                                  .device = device,
                                  .incarnation = 1,
                                  .timeout_ms = timeout_ms};
  weft_group_table_join(t, &r, NULL, on_group, a);
}

static void a_group_of_two_billion_is_refused(void) {
  weft_group_table_t *t = fresh();
  static const int sizes[] = {INT_MAX, INT_MAX - 1, 1 << 30, WEFT_MAX_GROUP + 1, 0, -1, INT_MIN};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    answer_t a = {0};
    join_for(t, 1, sizes[i], WEFT_STR(CPU(1)), i % 2 == 0 ? -1 : 0, 1, &a);
    CU_ASSERT_EQUAL_FATAL(a.calls, 1);
    CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a.status), "only 1 to 16384"));
    answer_deinit(&a);
    weft_instance_request_t r = request(0, 1);
    r.group_size = sizes[i];
    r.timeout_ms = 1;
    weft_group_table_join_instance(t, &r, NULL, on_instance, &a);
    CU_ASSERT_EQUAL_FATAL(a.calls, 1);
    CU_ASSERT_EQUAL(weft_status_code(a.status), WEFT_INVALID_ARGUMENT);
    answer_deinit(&a);
  }
  weft_group_table_destroy(t);
}

typedef struct late {
  weft_mutex_t mu;
  weft_cond_t cond;
  int calls;
  weft_status_t *status;
} late_t;

static void on_late(void *arg, weft_status_t *s) {
  late_t *l = arg;
  weft_mutex_lock(&l->mu);
  l->calls++;
  weft_status_free(l->status);
  l->status = s;
  weft_cond_broadcast(&l->cond);
  weft_mutex_unlock(&l->mu);
}
static void on_late_group(void *arg, weft_status_t *s, weft_group_t *g) {
  weft_group_release(g);
  on_late(arg, s);
}
static void on_late_instance(void *arg, weft_status_t *s, int source) {
  (void)source;
  on_late(arg, s);
}
static void wait_for(late_t *l, int calls) {
  weft_mutex_lock(&l->mu);
  while (l->calls < calls) weft_cond_wait(&l->cond, &l->mu);
  weft_mutex_unlock(&l->mu);
}

/* A task without a member is named: the ranks may be unknown until all have joined. */
static void a_timeout_names_absent_tasks(void) {
  late_t l = {.calls = 0};
  weft_mutex_init(&l.mu);
  weft_cond_init(&l.cond);
  weft_group_table_t *t = fresh();
  const weft_group_request_t r = {.group_key = 1,
                                  .group_size = 3,
                                  .rank = -1,
                                  .device_type = WEFT_STR("CPU"),
                                  .device = WEFT_STR(CPU(1)),
                                  .incarnation = 1,
                                  .timeout_ms = 1};
  weft_group_table_join(t, &r, NULL, on_late_group, &l);
  wait_for(&l, 1);
  CU_ASSERT_EQUAL(weft_status_code(l.status), WEFT_DEADLINE_EXCEEDED);
  const char *text = weft_status_message(l.status);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 of 3 members have joined: " CPU(1)));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "no member from: " TASK(0) ", " TASK(2)));
  CU_ASSERT_PTR_NULL(strstr(text, "job:ps"));
  weft_status_free(l.status);
  weft_cond_deinit(&l.cond);
  weft_mutex_deinit(&l.mu);
  weft_group_table_destroy(t);
}

/* The largest group: its timeout names ten ranks, whether one or many have joined. */
static void missing_ranks_are_ten_and_a_count(void) {
  weft_group_table_t *t = fresh();
  for (int num_came = 1; num_came < 50; num_came += 24) {
    late_t l = {.calls = 0};
    weft_mutex_init(&l.mu);
    weft_cond_init(&l.cond);
    for (int i = 0; i < num_came; i++) {
      char device[64];
      snprintf(device, sizeof device, "/job:w/replica:0/task:%d/device:CPU:0", i);
      const weft_group_request_t r = {.group_key = num_came,
                                      .group_size = WEFT_MAX_GROUP,
                                      .rank = 2 * i,
                                      .device_type = WEFT_STR("CPU"),
                                      .device = weft_str(device),
                                      .incarnation = 1,
                                      .timeout_ms = i == num_came - 1 ? 1 : 600000};
      weft_group_table_join(t, &r, NULL, on_late_group, &l);
    }
    wait_for(&l, num_came);
    char count[64];
    snprintf(count, sizeof count, " and %d more", WEFT_MAX_GROUP - num_came - 10);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(l.status), count));
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(l.status),
                                  num_came == 1 ? "missing ranks: 1, 2, 3" : "missing ranks: 1, 3, 5"));
    CU_ASSERT(strlen(weft_status_message(l.status)) < 1500);
    weft_status_free(l.status);
    l.status = NULL;
    l.calls = 0;
    for (int i = 0; i < num_came; i++) {
      weft_instance_request_t r = request(2 * i, num_came);
      r.group_size = WEFT_MAX_GROUP;
      r.is_source = false;
      r.timeout_ms = i == num_came - 1 ? 1 : 600000;
      weft_group_table_join_instance(t, &r, NULL, on_late_instance, &l);
    }
    wait_for(&l, num_came);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(l.status), count));
    CU_ASSERT(strlen(weft_status_message(l.status)) < 1500);
    weft_status_free(l.status);
    weft_cond_deinit(&l.cond);
    weft_mutex_deinit(&l.mu);
  }
  weft_group_table_destroy(t);
}

/* A client that asks for ever new groups: the table does not grow, and what waits is kept. */
static void old_groups_are_forgotten(void) {
  weft_group_table_t *t = fresh();
  answer_t waiting, complete[2], a;
  join(t, -1, 2, CPU(1), -1, 1, NULL, &waiting);
  for (int i = 0; i < 2; i++) join(t, -2, 2, i == 0 ? CPU(1) : CPU(2), -1, 1, NULL, &complete[i]);
  CU_ASSERT(complete[0].group != NULL && complete[0].group == complete[1].group);
  for (int64_t key = 0; key < 3 * WEFT_GROUPS_KEPT; key++) {
    join(t, key, 1, CPU(1), -1, 1, NULL, &a);
    CU_ASSERT_PTR_NOT_NULL(a.group);
    answer_deinit(&a);
    join(t, -2, 2, CPU(1), -1, 1, NULL, &a); /* one that is used is not forgotten */
    CU_ASSERT_PTR_EQUAL(a.group, complete[0].group);
    answer_deinit(&a);
  }
  CU_ASSERT_EQUAL(waiting.calls, 0);
  join(t, -1, 2, CPU(2), -1, 1, NULL, &a);
  CU_ASSERT(waiting.calls == 1 && waiting.group != NULL && a.group == waiting.group);
  answer_deinit(&a);
  join(t, 0, 2, CPU(1), -1, 1, NULL, &a); /* forgotten: with another size it is a new one */
  CU_ASSERT_EQUAL(a.calls, 0);
  weft_group_table_destroy(t);
  answer_deinit(&a);
  answer_deinit(&waiting);
  for (int i = 0; i < 2; i++) answer_deinit(&complete[i]);
}

static void names_of_devices_are_short(void) {
  weft_group_table_t *t = fresh();
  static char device[1 << 20];
  memset(device, 'x', sizeof device);
  for (size_t n = WEFT_MAX_DEVICE_TEXT; n < sizeof device; n = n * 2 + 1) {
    answer_t a;
    join_for(t, (int64_t)n, 1, weft_str_of(device, n), -1, 0, &a);
    CU_ASSERT_EQUAL(weft_status_code(a.status), n == WEFT_MAX_DEVICE_TEXT ? WEFT_OK : WEFT_INVALID_ARGUMENT);
    answer_deinit(&a);
  }
  weft_group_table_destroy(t);
}

static weft_status_t *form(void) {
  const weft_group_table_env_t env = {.host_of = host_of, .cost = cost};
  weft_group_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_group_table_create(&env, &t));
  answer_t a[2], i[2] = {{0}, {0}};
  join(t, 1, 2, CPU(1), -1, 1, NULL, &a[0]);
  join(t, 1, 2, CPU(2), -1, 1, NULL, &a[1]);
  for (int r = 0; r < 2; r++) {
    const weft_instance_request_t q = request(r, 1);
    weft_group_table_join_instance(t, &q, NULL, on_instance, &i[r]);
  }
  weft_group_table_destroy(t);
  weft_status_t *s = NULL;
  for (int r = 0; r < 2; r++) {
    answer_t *all[] = {&a[r], &i[r]};
    for (int k = 0; k < 2; k++) {
      CU_ASSERT_EQUAL(all[k]->calls, 1);
      if (weft_status_code(all[k]->status) == WEFT_RESOURCE_EXHAUSTED && s == NULL) {
        s = all[k]->status;
        all[k]->status = NULL;
      }
      answer_deinit(all[k]);
    }
  }
  return s;
}

static void each_allocation_may_fail(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, form());
  CU_ASSERT(n > 10);
}

static const CU_TestInfo tests[] = {
    {"ranks go by name", ranks_go_by_name},
    {"wanted ranks are given", wanted_ranks_are_given},
    {"device types must be one", device_types_must_be_one},
    {"a stranger does not harm a group", a_stranger_does_not_harm_a_group},
    {"a new incarnation forms the group anew", a_new_incarnation_forms_the_group_anew},
    {"an error stays until a member comes anew", an_error_stays_until_a_member_comes_anew},
    {"a lost task breaks its groups", a_lost_task_breaks_its_groups},
    {"a group that lacks a lost task ends its waits", a_group_that_lacks_a_lost_task_ends_its_waits},
    {"a group that lacked a task is formed anew", a_group_that_lacked_a_task_is_formed_anew},
    {"a task that departs because of another is not the cause",
     a_task_that_departs_because_of_another_is_not_the_cause},
    {"a leader that leaves says why", a_leader_that_leaves_says_why},
    {"an instance of a broken group fails at once", an_instance_of_a_broken_group_fails_at_once},
    {"a member that gives up leaves the group", a_member_that_gives_up_leaves_the_group},
    {"an instance is agreed once", an_instance_is_agreed_once},
    {"a timeout names absent tasks", a_timeout_names_absent_tasks},
    {"bad requests are refused", bad_requests_are_refused},
    {"a group of two billion is refused", a_group_of_two_billion_is_refused},
    {"missing ranks are ten and a count", missing_ranks_are_ten_and_a_count},
    {"old groups are forgotten", old_groups_are_forgotten},
    {"names of devices are short", names_of_devices_are_short},
    {"each allocation may fail", each_allocation_may_fail},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("group_table", tests); }
