/* tests/cuda/joint_test.c - collectives between GPUs of several tasks by NCCL, on the fake driver, beside the
 * host's: results, order, and failures of which none is a wait for ever.
 *
 * The tasks are of one process, which changes nothing for NCCL and the order; processes that are killed are
 * in joint_processes_test.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/loaded/library.h"
#include "tests/cuda/fake/fake.h"
#include "tests/device/ranks.h"
#include "tests/runner.h"

static const weft_device_driver_t *gpus(void) {
  const weft_device_driver_t *d = weft_device_accelerator();
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  return d;
}

static bool is_played(void) { return strstr(getenv("WEFT_CUDA_DRIVER"), "emulated") != NULL; }

/* On a machine's own driver: has it so many cards? */
static bool has_cards(int n) {
  const bool has = weft_device_count(gpus()) >= n;
  if (!has) printf("(needs %d cards) ", n);
  return has;
}

static void open_tasks(ranks_task_t *t, int num_tasks, int per_task) {
  const weft_accelerator_options_t o = {.visible = ""};
  ranks_open_tasks(t, num_tasks, per_task, gpus(), &o);
}

static void *driver_function(const char *name) {
  void *driver = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  void *function = driver == NULL ? NULL : dlsym(driver, name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(function);
  return function;
}

static void hold(int kinds) {
  weft_fake_cuda_hold_fn *f;
  *(void **)&f = driver_function(WEFT_FAKE_CUDA_HOLD);
  f(kinds);
}

/* ---- results ---- */

static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                               WEFT_BROADCAST, WEFT_ALL_TO_ALL};
static const weft_dtype_t dtypes[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_I64, WEFT_I32};

static int count_wrong(ranks_task_t *t) {
  int wrong = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    const bool reduces = kinds[k] == WEFT_ALL_REDUCE || kinds[k] == WEFT_REDUCE_SCATTER;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
      const double rounding = dtypes[d] == WEFT_BF16 ? 0.02 : dtypes[d] == WEFT_F16 ? 0.003 : 1e-6;
      wrong += ranks_try_sizes(
          t,
          (ranks_trial_t){
              .kind = kinds[k], .dtype = dtypes[d], .is_mean = reduces && d % 2 == 0, .tolerance = rounding});
    }
    for (int op = WEFT_REDUCE_PROD; reduces && op <= WEFT_REDUCE_MAX; op++) {
      wrong += ranks_try_sizes(
          t, (ranks_trial_t){
                 .kind = kinds[k], .dtype = WEFT_F32, .reduction = (weft_reduction_t)op, .tolerance = 1e-5});
    }
  }
  return wrong;
}

static void tasks_give_the_hosts_numbers(void) {
  static const int shapes[][2] = {{2, 1}, {2, 2}, {3, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    ranks_task_t t;
    if (!has_cards(shapes[i][0] * shapes[i][1])) continue;
    open_tasks(&t, shapes[i][0], shapes[i][1]);
    CU_ASSERT_EQUAL(count_wrong(&t), 0);
    ranks_close(&t);
  }
}

/* ---- which way ---- */

static int64_t host_bytes(ranks_task_t *t, ranks_trial_t x) {
  weft_tensor_t *out[RANKS_MOST];
  const int64_t before = ranks_bytes_by_host(t);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    x.kind = kinds[k];
    if (x.kind != WEFT_ALL_REDUCE && x.kind != WEFT_REDUCE_SCATTER) x.is_mean = false;
    ranks_run_all(t, &x, false, out);
    for (int r = 0; r < t->n; r++) weft_tensor_release(out[r]);
  }
  return ranks_bytes_by_host(t) - before;
}

static void bytes_stay_on_the_cards(void) {
  const ranks_trial_t plain = {.dtype = WEFT_F32, .rows = 400};
  ranks_task_t t;
  if (!has_cards(4)) return;
  open_tasks(&t, 2, 2);
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(host_bytes(&t, plain), 0);
  CU_ASSERT_EQUAL(host_bytes(&t, (ranks_trial_t){.dtype = WEFT_F32, .rows = 400, .is_mean = true}), 0);
  /* A mean of integers is not NCCL's: then all ranks go by way of the host. */
  CU_ASSERT_TRUE(host_bytes(&t, (ranks_trial_t){.dtype = WEFT_I64, .rows = 400, .is_mean = true}) > 0);
  CU_ASSERT_EQUAL(host_bytes(&t, plain), 0);
  ranks_close(&t);
}

/* Where one task cannot, none does. */
static void goes_by_host(int num_tasks, int per_task, const weft_accelerator_options_t *o) {
  const ranks_trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 1000, .tolerance = 1e-6};
  ranks_task_t t;
  ranks_open_tasks(&t, num_tasks, per_task, gpus(), o);
  CU_ASSERT_TRUE(host_bytes(&t, x) > 0);
  CU_ASSERT_TRUE(ranks_is_right(&t, &x));
  ranks_close(&t);
}

static void all_ranks_go_one_way(void) {
  const weft_accelerator_options_t of_one_card = {.visible = "0,1", .num_per_device = 2};
  if (!has_cards(2)) return;
  goes_by_host(2, 2, &of_one_card);
  goes_by_host(4, 1, &of_one_card); /* two tasks have one card */
  const weft_accelerator_options_t each = {.visible = ""};
  const char *named = getenv("WEFT_NCCL");
  char before[256];
  snprintf(before, sizeof before, "%s", named == NULL ? "" : named);
  setenv("WEFT_NCCL", "0", 1);
  goes_by_host(2, 1, &each);
  if (named == NULL) unsetenv("WEFT_NCCL");
  if (named != NULL) setenv("WEFT_NCCL", before, 1);
}

/* ---- many at once ---- */

enum { AT_ONCE = 8, ROUNDS = 4 };

typedef struct member {
  ranks_task_t *task;
  int rank, wrong;
} member_t;

/* Two groups of different ranks, begun by each member in an order of its own. */
static void *run_member(void *arg) {
  member_t *m = arg;
  ranks_task_t *t = m->task;
  for (int round = 0; round < ROUNDS; round++) {
    ranks_answer_t a[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = (k * 5 + m->rank * 3) % AT_ONCE;
      const bool is_small = i % 2 == 1; /* the first two tasks' */
      const int n = is_small ? 2 * t->per_task : t->n;
      a[i] = (ranks_answer_t){.task = t};
      if (m->rank >= n) continue;
      weft_collective_t c =
          ranks_call(t, m->rank, WEFT_ALL_REDUCE, WEFT_I64, weft_shape_vector(50 + i), false);
      c.group_key = 1 + is_small;
      c.group_size = n;
      c.instance_key = 100 + i;
      c.step_id = 1000 + round;
      c.input = ranks_at(ranks_value(WEFT_I64, c.shape, m->rank + i), t->devices[m->rank]);
      weft_collectives_run(ranks_collectives(t, m->rank), &c, NULL, ranks_on_done, &a[i]);
      weft_tensor_release(c.input);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      weft_tensor_t *back = NULL;
      int64_t sum[64] = {0};
      const int n = i % 2 == 1 ? 2 * t->per_task : t->n;
      if (m->rank >= n) continue;
      ranks_await(&a[i]);
      ranks_must(a[i].status);
      ranks_must(weft_tensor_at_sync(a[i].output, NULL, &back));
      for (int r = 0; r < n; r++) {
        weft_tensor_t *in = ranks_value(WEFT_I64, weft_shape_vector(50 + i), r + i);
        for (int e = 0; e < 50 + i; e++)
          sum[e] = (int64_t)((uint64_t)sum[e] + ((const uint64_t *)in->data)[e]);
        weft_tensor_release(in);
      }
      m->wrong += memcmp(sum, back->data, back->bytes) != 0;
      weft_tensor_release(back);
      ranks_end_answer(&a[i]);
    }
  }
  return NULL;
}

static void several_go_on_at_once(void) {
  static const int shapes[][2] = {{2, 2}, {3, 1}, {4, 1}};
  for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
    ranks_task_t t;
    member_t members[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    if (!has_cards(shapes[k][0] * shapes[k][1])) continue;
    open_tasks(&t, shapes[k][0], shapes[k][1]);
    for (int r = 0; r < t.n; r++) {
      members[r] = (member_t){.task = &t, .rank = r};
      CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
    }
    for (int r = 0; r < t.n; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < t.n; r++) CU_ASSERT_EQUAL(members[r].wrong, 0);
    CU_ASSERT_EQUAL(ranks_bytes_by_host(&t), 0);
    ranks_close(&t);
  }
}

/* Waits for a result in the device's memory, too. */
static void end_answer(ranks_answer_t *a) {
  weft_tensor_t *back = NULL;
  if (a->status == NULL) ranks_must(weft_tensor_at_sync(a->output, NULL, &back));
  weft_tensor_release(back);
  ranks_end_answer(a);
}

/* A task lets one task decide: two groups with first ranks of different tasks, which share some. */
static void groups_with_other_first_tasks_do_not_wait_for_each_other(void) {
  ranks_task_t t;
  if (!has_cards(3)) return;
  open_tasks(&t, 3, 1);
  for (int round = 0; round < 4; round++) {
    ranks_answer_t a[2][3];
    for (int k = 0; k < 6; k++) {
      const int which = (k + round) % 2, r = (k / 2 + which) % 3; /* group 1: ranks 0, 1, 2; 2: ranks 2, 1 */
      a[which][r] = (ranks_answer_t){.task = &t};
      if (which == 1 && r == 0) continue;
      weft_collective_t c = ranks_call(&t, r, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(1000), false);
      c.group_key = 1 + which;
      c.group_size = which == 1 ? 2 : 3;
      c.rank = which == 1 ? 2 - r : r;
      c.input = ranks_at(ranks_value(WEFT_F32, c.shape, r), t.devices[r]);
      weft_collectives_run(ranks_collectives(&t, r), &c, NULL, ranks_on_done, &a[which][r]);
      weft_tensor_release(c.input);
    }
    for (int which = 0; which < 2; which++) {
      for (int r = which; r < 3; r++) {
        ranks_await(&a[which][r]);
        ranks_must(a[which][r].status);
        end_answer(&a[which][r]);
      }
    }
    ranks_next_step(&t, NULL);
  }
  ranks_close(&t);
}

/* ---- failures ---- */

static void start(ranks_task_t *t, int rank, ranks_answer_t *a) {
  weft_collective_t c = ranks_call(t, rank, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(1000), false);
  c.instance_key = 77; /* what it does has been agreed on */
  c.input = ranks_at(ranks_value(WEFT_F32, c.shape, rank), t->devices[rank]);
  *a = (ranks_answer_t){.task = t};
  weft_collectives_run(ranks_collectives(t, rank), &c, NULL, ranks_on_done, a);
  weft_tensor_release(c.input);
}

static const ranks_trial_t small = {
    .kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 100, .tolerance = 1e-6};

/* Rank `first` begins: that of a task that has returned, because its group is formed anew when it joins. */
static void works_from(ranks_task_t *t, int first) {
  const ranks_trial_t plain = {.dtype = WEFT_F32, .rows = 48};
  ranks_answer_t a[RANKS_MOST];
  for (int k = 0; k < t->n; k++) start(t, (first + k) % t->n, &a[(first + k) % t->n]);
  for (int r = 0; r < t->n; r++) {
    ranks_await(&a[r]);
    ranks_must(a[r].status);
    end_answer(&a[r]);
  }
  ranks_next_step(t, NULL);
  CU_ASSERT_TRUE(ranks_is_right(t, &small));
  CU_ASSERT_EQUAL(host_bytes(t, plain), 0);
}

static void works(ranks_task_t *t) { works_from(t, 0); }

/* `begun` ranks have begun; then `end` happens, and all of these fail with `code`. */
static void fails(ranks_task_t *t, int begun, void (*end)(ranks_task_t *t), weft_code_t code) {
  ranks_answer_t a[RANKS_MOST];
  for (int r = 0; r < begun; r++) start(t, r, &a[r]);
  end(t);
  for (int r = 0; r < begun; r++) {
    ranks_await(&a[r]);
    if (weft_status_code(a[r].status) != code)
      printf("rank %d: %s\n", r, a[r].status == NULL ? "no failure" : weft_status_message(a[r].status));
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), code);
    ranks_end_answer(&a[r]);
  }
}

static void lose_last(ranks_task_t *t) { ranks_lose_task(t, t->num_tasks - 1); }
static void lose_first(ranks_task_t *t) { ranks_lose_task(t, 0); }
static void end_step(ranks_task_t *t) {
  weft_status_t *why = WEFT_ERROR(OUT_OF_RANGE, "the data set has ended");
  ranks_next_step(t, why);
  weft_status_free(why);
}

/* A task is lost while others wait for it: in the vote, or on the device. The next step works when it is
 * back.
 */
static void a_lost_task_ends_all_ranks(void) {
  for (int which = 0; which < 2; which++) {
    ranks_task_t t;
    if (!has_cards(3)) return;
    open_tasks(&t, 3, 1);
    works(&t);
    fails(&t, 2, which == 0 ? lose_last : lose_first, WEFT_UNAVAILABLE);
    ranks_next_step(&t, NULL);
    ranks_return_task(&t, which == 0 ? 2 : 0);
    works_from(&t, which == 0 ? 2 : 0);
    ranks_close(&t);
  }
}

static bool has_enqueued(long before) {
  weft_fake_cuda_calls_fn *calls;
  *(void **)&calls = driver_function(WEFT_FAKE_CUDA_CALLS);
  return calls("cuLaunchHostFunc") > before;
}

/* All have begun and none can end: the devices' streams stand still. */
static void what_waits_on_the_device_ends(void) {
  static void (*const ends[])(ranks_task_t *) = {lose_last, lose_first, end_step};
  static const weft_code_t codes[] = {WEFT_UNAVAILABLE, WEFT_UNAVAILABLE, WEFT_OUT_OF_RANGE};
  for (int which = 0; which < 3; which++) {
    ranks_task_t t;
    ranks_answer_t a[3];
    if (!is_played()) return;
    open_tasks(&t, 3, 1);
    works(&t);
    weft_fake_cuda_calls_fn *calls;
    *(void **)&calls = driver_function(WEFT_FAKE_CUDA_CALLS);
    const long before = calls("cuLaunchHostFunc");
    hold(WEFT_FAKE_HOLD_HOST);
    for (int r = 0; r < 3; r++) start(&t, r, &a[r]);
    while (!has_enqueued(before + 2)) sched_yield(); /* the third has been enqueued */
    ends[which](&t);
    hold(0);
    for (int r = 0; r < 3; r++) {
      ranks_await(&a[r]);
      const weft_code_t code = weft_status_code(a[r].status);
      CU_ASSERT_TRUE(code == codes[which] || code == WEFT_ABORTED);
      ranks_end_answer(&a[r]);
    }
    if (which < 2) {
      ranks_next_step(&t, NULL);
      ranks_return_task(&t, which == 0 ? 2 : 0);
    }
    works_from(&t, which == 0 ? 2 : 0);
    ranks_close(&t);
  }
}

static void a_step_that_ends_is_left(void) {
  for (int begun = 1; begun < 4; begun++) {
    ranks_task_t t;
    if (!has_cards(4)) return;
    open_tasks(&t, 2, 2);
    works(&t);
    for (int i = 0; i < 3; i++) {
      fails(&t, begun, end_step, WEFT_OUT_OF_RANGE);
      works(&t);
    }
    ranks_close(&t);
  }
}

/* The last test: the card stays as it is. */
static void a_card_that_fails_ends_all_ranks(void) {
  weft_fake_cuda_break_fn *fail;
  if (!is_played()) return;
  *(void **)&fail = driver_function(WEFT_FAKE_CUDA_BREAK);
  ranks_task_t t;
  ranks_answer_t a[3];
  open_tasks(&t, 3, 1);
  works(&t);
  hold(WEFT_FAKE_HOLD_HOST);
  for (int r = 0; r < 3; r++) start(&t, r, &a[r]);
  fail(2, 700); /* CUDA_ERROR_ILLEGAL_ADDRESS */
  hold(0);
  for (int r = 0; r < 3; r++) {
    ranks_await(&a[r]);
    CU_ASSERT_PTR_NOT_NULL(a[r].status);
    ranks_end_answer(&a[r]);
  }
  ranks_next_step(&t, NULL);
  ranks_close(&t);
}

static const CU_TestInfo tests[] = {
    {"tasks give the host's numbers", tasks_give_the_hosts_numbers},
    {"bytes stay on the cards", bytes_stay_on_the_cards},
    {"all ranks go one way", all_ranks_go_one_way},
    {"several go on at once", several_go_on_at_once},
    {"groups with other first tasks do not wait for each other",
     groups_with_other_first_tasks_do_not_wait_for_each_other},
    {"a lost task ends all ranks", a_lost_task_ends_all_ranks},
    {"what waits on the device ends", what_waits_on_the_device_ends},
    {"a step that ends is left", a_step_that_ends_is_left},
    {"a card that fails ends all ranks", a_card_that_fails_ends_all_ranks},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_NCCL", "tests/cuda/fake/libnccl_fake.so", 0);
  setenv("WEFT_NVRTC", "none", 0);
  setenv("WEFT_FAKE_CUDA", "devices=4,memory=64m,late_us=5,seed=3", 0);
  weft_device_libraries_load();
  return weft_run_tests("CUDA joint collectives", tests);
}
