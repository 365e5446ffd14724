/* tests/cuda/collectives_test.c - collectives between GPUs of the fake driver, beside the host's: between
 * logical devices of one card, between cards by NCCL, and where neither can be. */
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

/* n logical devices of the first card. */
static void open_card(ranks_task_t *t, int n) {
  const weft_accelerator_options_t o = {.visible = "0", .num_per_device = n};
  ranks_open(t, n, gpus(), &o);
}

/* A card each. */
static void open_cards(ranks_task_t *t, int n) {
  const weft_accelerator_options_t o = {.visible = ""};
  ranks_open(t, n, gpus(), &o);
}

/* On a machine's own driver: has it so many cards? */
static bool has_cards(int n) {
  const bool has = weft_device_count(gpus()) >= n;
  if (!has) printf("(needs %d cards) ", n);
  return has;
}

static bool is_played(void) { return strstr(getenv("WEFT_CUDA_DRIVER"), "emulated") != NULL; }

static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                               WEFT_BROADCAST, WEFT_ALL_TO_ALL};
static const weft_dtype_t dtypes[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_I64};

/* Each kind, type and reduction. Some things NCCL has not: those go by way of the host, with the same
 * results. */
static int count_wrong(ranks_task_t *t, bool is_exact) {
  int wrong = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    const bool reduces = kinds[k] == WEFT_ALL_REDUCE || kinds[k] == WEFT_REDUCE_SCATTER;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
      const double rounding = dtypes[d] == WEFT_BF16 ? 0.02 : dtypes[d] == WEFT_F16 ? 0.003 : 1e-6;
      wrong += ranks_try_sizes(t, (ranks_trial_t){.kind = kinds[k],
                                                  .dtype = dtypes[d],
                                                  .is_mean = reduces && d % 2 == 0,
                                                  .tolerance = is_exact ? 0 : rounding});
    }
    for (int op = WEFT_REDUCE_PROD; reduces && op <= WEFT_REDUCE_MAX; op++) {
      wrong += ranks_try_sizes(t, (ranks_trial_t){.kind = kinds[k],
                                                  .dtype = WEFT_F32,
                                                  .reduction = (weft_reduction_t)op,
                                                  .tolerance = is_exact ? 0 : 1e-5});
    }
  }
  return wrong;
}

static void one_card_gives_the_hosts_bits(void) {
  for (int n = 2; n <= RANKS_MOST; n += n == 2 ? 1 : 5) {
    ranks_task_t t;
    open_card(&t, n);
    CU_ASSERT_EQUAL(count_wrong(&t, true), 0);
    ranks_close(&t);
  }
}

static void cards_give_the_hosts_numbers(void) {
  for (int n = 2; n <= 3 && has_cards(n); n++) {
    ranks_task_t t;
    open_cards(&t, n);
    CU_ASSERT_EQUAL(count_wrong(&t, false), 0);
    ranks_close(&t);
  }
}

/* ---- which way ---- */

/* Bytes that go by way of the host when each kind has run. */
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
  open_card(&t, 4);
  CU_ASSERT_EQUAL(host_bytes(&t, plain), 0);
  CU_ASSERT_EQUAL(host_bytes(&t, (ranks_trial_t){.dtype = WEFT_I64, .rows = 400, .is_mean = true}), 0);
  ranks_close(&t);
  if (!has_cards(4)) return;
  open_cards(&t, 4);
  CU_ASSERT_EQUAL(host_bytes(&t, plain), 0);
  CU_ASSERT_EQUAL(host_bytes(&t, (ranks_trial_t){.dtype = WEFT_F32, .rows = 400, .is_mean = true}), 0);
  /* A mean of integers is not NCCL's. */
  CU_ASSERT_TRUE(host_bytes(&t, (ranks_trial_t){.dtype = WEFT_I64, .rows = 400, .is_mean = true}) > 0);
  ranks_close(&t);
}

/* Two of one card and two of another: NCCL refuses two ranks of one card. */
static void several_of_some_cards_go_by_way_of_the_host(void) {
  const weft_accelerator_options_t o = {.visible = "0,1", .num_per_device = 2};
  const ranks_trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 1000};
  ranks_task_t t;
  if (!has_cards(2)) return;
  ranks_open(&t, 4, gpus(), &o);
  CU_ASSERT_TRUE(host_bytes(&t, x) > 0);
  CU_ASSERT_TRUE(ranks_is_right(&t, &x));
  ranks_close(&t);
}

/* ---- many at once ---- */

enum { AT_ONCE = 6, ROUNDS = 6 };

typedef struct member {
  ranks_task_t *task;
  int rank, wrong;
} member_t;

/* Several instances of two groups, begun by each member in an order of its own: streams that got them in
 * different orders would wait for each other for ever. */
static void *run_member(void *arg) {
  member_t *m = arg;
  ranks_task_t *t = m->task;
  for (int round = 0; round < ROUNDS; round++) {
    ranks_answer_t a[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = (k * 5 + m->rank) % AT_ONCE;
      weft_collective_t c =
          ranks_call(t, m->rank, WEFT_ALL_REDUCE, WEFT_I64, weft_shape_vector(50 + i), false);
      c.group_key = 1 + i % 2;
      c.instance_key = 100 + i;
      c.step_id = 1000 + round;
      c.input = ranks_at(ranks_value(WEFT_I64, c.shape, m->rank + i), t->devices[m->rank]);
      a[i] = (ranks_answer_t){.task = t};
      weft_collectives_run(t->collectives, &c, NULL, ranks_on_done, &a[i]);
      weft_tensor_release(c.input);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      weft_tensor_t *back = NULL;
      int64_t sum[64] = {0};
      ranks_await(&a[i]);
      ranks_must(a[i].status);
      ranks_must(weft_tensor_at_sync(a[i].output, NULL, &back));
      for (int r = 0; r < t->n; r++) {
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

static void run_members(ranks_task_t *t) {
  member_t members[4];
  pthread_t threads[4];
  for (int r = 0; r < 4; r++) {
    members[r] = (member_t){.task = t, .rank = r};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int r = 0; r < 4; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(members[r].wrong, 0);
  CU_ASSERT_EQUAL(ranks_bytes_by_host(t), 0);
}

static void several_go_on_at_once(void) {
  ranks_task_t t;
  open_card(&t, 4);
  run_members(&t);
  ranks_close(&t);
  if (!has_cards(4)) return;
  open_cards(&t, 4);
  run_members(&t);
  ranks_close(&t);
}

/* ---- failures ---- */

/* What the fake driver's function of that name is. */
static void *driver_function(const char *name) {
  void *driver = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  void *function = driver == NULL ? NULL : dlsym(driver, name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(function);
  return function;
}

static void start_all(ranks_task_t *t, weft_collective_kind_t kind, int64_t count, ranks_answer_t *a) {
  for (int r = 0; r < t->n; r++) {
    weft_collective_t c = ranks_call(t, r, kind, WEFT_F32, weft_shape_vector(count), false);
    c.is_uniform = true;
    c.input = ranks_at(ranks_value(WEFT_F32, c.shape, r), t->devices[r]);
    a[r] = (ranks_answer_t){.task = t};
    weft_collectives_run(t->collectives, &c, NULL, ranks_on_done, &a[r]);
    weft_tensor_release(c.input);
  }
}

static void no_memory_ends_all_ranks(void) {
  ranks_task_t t;
  ranks_answer_t a[2];
  if (!is_played()) return; /* a card's memory is too large to be filled */
  open_card(&t, 2);
  start_all(&t, WEFT_ALL_GATHER, t.devices[0]->memory_limit / 4 / 2, a); /* the result does not fit */
  for (int r = 0; r < 2; r++) {
    ranks_await(&a[r]);
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), WEFT_RESOURCE_EXHAUSTED);
    ranks_end_answer(&a[r]);
  }
  weft_collectives_end_step(t.collectives, t.step++, NULL);
  t.instance++;
  const ranks_trial_t x = {.kind = WEFT_ALL_GATHER, .dtype = WEFT_F32, .rows = 100};
  CU_ASSERT_TRUE(ranks_is_right(&t, &x));
  ranks_close(&t);
}

/* A card fails while all ranks' parts are on the streams: those of the others would wait for it for ever. The
 * last test: the card stays as it is. */
static void a_card_that_fails_ends_all_ranks(void) {
  if (!is_played()) return;
  weft_fake_cuda_hold_fn *hold;
  weft_fake_cuda_break_fn *fail;
  *(void **)&hold = driver_function(WEFT_FAKE_CUDA_HOLD);
  *(void **)&fail = driver_function(WEFT_FAKE_CUDA_BREAK);
  ranks_task_t t;
  ranks_answer_t a[3];
  const ranks_trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 100, .tolerance = 1e-6};
  open_cards(&t, 3);
  CU_ASSERT_TRUE(ranks_is_right(&t, &x));
  start_all(&t, WEFT_ALL_REDUCE, 1000, a); /* makes its agreement before the streams stop */
  for (int r = 0; r < 3; r++) {
    ranks_await(&a[r]);
    ranks_must(a[r].status);
    ranks_end_answer(&a[r]);
  }
  weft_tensor_t *in[3];
  for (int r = 0; r < 3; r++)
    in[r] = ranks_at(ranks_value(WEFT_F32, weft_shape_vector(1000), r), t.devices[r]);
  hold(WEFT_FAKE_HOLD_ALL);
  for (int r = 0; r < 3; r++) {
    weft_collective_t c = ranks_call(&t, r, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(1000), false);
    c.step_id++;
    c.input = in[r];
    a[r] = (ranks_answer_t){.task = &t};
    weft_collectives_run(t.collectives, &c, NULL, ranks_on_done, &a[r]);
    weft_tensor_release(in[r]);
  }
  for (int r = 0; r < 3; r++) {
    ranks_await(&a[r]); /* no thread waits for the device */
    ranks_must(a[r].status);
  }
  fail(2, 700); /* CUDA_ERROR_ILLEGAL_ADDRESS */
  hold(0);
  for (int r = 0; r < 3; r++) {
    weft_tensor_t *back = NULL;
    weft_status_t *s = weft_tensor_at_sync(a[r].output, NULL, &back);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
    CU_ASSERT_PTR_NOT_NULL(s == NULL ? NULL : strstr(weft_status_message(s), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    weft_status_free(s);
  }
  /* The next one is refused: the failure is told at once, to all ranks. */
  ranks_answer_t later[3];
  for (int r = 0; r < 3; r++) {
    weft_collective_t c = ranks_call(&t, r, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(1000), false);
    c.step_id += 2;
    c.input = a[r].output;
    later[r] = (ranks_answer_t){.task = &t};
    weft_collectives_run(t.collectives, &c, NULL, ranks_on_done, &later[r]);
  }
  for (int r = 0; r < 3; r++) {
    ranks_await(&later[r]);
    CU_ASSERT_EQUAL(weft_status_code(later[r].status), WEFT_INTERNAL);
    ranks_end_answer(&later[r]);
    ranks_end_answer(&a[r]);
  }
  ranks_close(&t);
}

static const CU_TestInfo tests[] = {
    {"one card gives the host's bits", one_card_gives_the_hosts_bits},
    {"cards give the host's numbers", cards_give_the_hosts_numbers},
    {"bytes stay on the cards", bytes_stay_on_the_cards},
    {"several of some cards go by way of the host", several_of_some_cards_go_by_way_of_the_host},
    {"several go on at once", several_go_on_at_once},
    {"no memory ends all ranks", no_memory_ends_all_ranks},
    {"a card that fails ends all ranks", a_card_that_fails_ends_all_ranks},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_PASSES", "none", 0); /* else a pass computes what comes from constants, on the host */
  setenv("WEFT_NCCL", "tests/cuda/fake/libnccl_fake.so", 0);
  setenv("WEFT_NVRTC", "none", 0); /* chain_test compiles */
  setenv("WEFT_FAKE_CUDA", "devices=4,memory=64m,late_us=5,seed=3", 0);
  weft_device_libraries_load();
  return weft_run_tests("CUDA collectives", tests);
}
