#include "base/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/mutex.h"
#include "tests/runner.h"

/* Counts down to 0 and can be waited for. */
typedef struct latch {
  weft_mutex_t mu;
  weft_cond_t zero;
  int left;
} latch_t;

static void latch_init(latch_t *l, int n) {
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->zero);
  l->left = n;
}
static void latch_down(latch_t *l) {
  weft_mutex_lock(&l->mu);
  if (--l->left == 0) weft_cond_broadcast(&l->zero);
  weft_mutex_unlock(&l->mu);
}
static void latch_wait(latch_t *l) {
  weft_mutex_lock(&l->mu);
  while (l->left > 0) weft_cond_wait(&l->zero, &l->mu);
  weft_mutex_unlock(&l->mu);
}
static void latch_deinit(latch_t *l) {
  weft_cond_deinit(&l->zero);
  weft_mutex_deinit(&l->mu);
}

static weft_thread_pool_t *pool_of(int n) {
  weft_thread_pool_t *p = NULL;
  weft_status_t *s = weft_thread_pool_create("test", n, &p);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return p;
}

static void down(void *arg) { latch_down(arg); }

static void everything_submitted_runs(void) {
  enum { NUM = 10000 };
  weft_thread_pool_t *p = pool_of(3);
  latch_t l;
  latch_init(&l, NUM);
  for (int i = 0; i < NUM; i++) CU_ASSERT_TRUE_FATAL(weft_thread_pool_submit(p, down, &l));
  latch_wait(&l);
  CU_ASSERT_EQUAL(weft_thread_pool_size(p), 3);
  weft_thread_pool_destroy(p);
  latch_deinit(&l);
}

static void count(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }

static void destroying_runs_what_is_queued(void) {
  atomic_int ran = 0;
  weft_thread_pool_t *p = pool_of(1);
  for (int i = 0; i < 1000; i++) CU_ASSERT_TRUE_FATAL(weft_thread_pool_submit(p, count, &ran));
  weft_thread_pool_destroy(p);
  CU_ASSERT_EQUAL(atomic_load(&ran), 1000);
}

/* A closure that submits two more, until `depth` is used up: work of the pool's own threads. */
typedef struct tree {
  weft_thread_pool_t *pool;
  latch_t leaves;
  atomic_int nodes;
} tree_t;

static void grow(void *arg) {
  tree_t *t = arg;
  int n = atomic_fetch_add(&t->nodes, 1);
  if (n < 4096) {
    weft_thread_pool_submit(t->pool, grow, t);
    weft_thread_pool_submit(t->pool, grow, t);
  }
  latch_down(&t->leaves);
}

static void closures_may_submit_closures(void) {
  tree_t t = {.pool = pool_of(4)};
  latch_init(&t.leaves, 1 + 2 * 4096);
  CU_ASSERT_TRUE(weft_thread_pool_submit(t.pool, grow, &t));
  latch_wait(&t.leaves);
  CU_ASSERT_EQUAL(atomic_load(&t.nodes), 1 + 2 * 4096);
  weft_thread_pool_destroy(t.pool);
  latch_deinit(&t.leaves);
}

/* One thread's closure waits for a closure in its own deque: another thread must steal it. */
typedef struct theft {
  weft_thread_pool_t *pool;
  latch_t stolen, done;
} theft_t;

static void be_stolen(void *arg) { latch_down(&((theft_t *)arg)->stolen); }
static void wait_for_thief(void *arg) {
  theft_t *t = arg;
  weft_thread_pool_submit(t->pool, be_stolen, t);
  latch_wait(&t->stolen);
  latch_down(&t->done);
}

static void idle_threads_steal(void) {
  theft_t t = {.pool = pool_of(2)};
  latch_init(&t.stolen, 1);
  latch_init(&t.done, 1);
  CU_ASSERT_TRUE(weft_thread_pool_submit(t.pool, wait_for_thief, &t));
  latch_wait(&t.done);
  weft_thread_pool_destroy(t.pool);
  latch_deinit(&t.stolen);
  latch_deinit(&t.done);
}

typedef struct cells {
  weft_thread_pool_t *pool;
  atomic_uchar *seen;
  int64_t grain;
  atomic_int too_small;
  int64_t total;
} cells_t;

static void mark(void *arg, int64_t begin, int64_t end) {
  cells_t *c = arg;
  if (end - begin < c->grain && end - begin < c->total && end != c->total) atomic_fetch_add(&c->too_small, 1);
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->seen[i], 1);
}

static void check_loop(weft_thread_pool_t *p, int64_t total, int64_t grain) {
  cells_t c = {.seen = weft_calloc((size_t)total + 1, 1), .grain = grain, .total = total};
  weft_parallel_for(p, total, grain, mark, &c);
  int64_t once = 0;
  for (int64_t i = 0; i < total; i++) once += c.seen[i] == 1;
  CU_ASSERT_EQUAL(once, total);
  CU_ASSERT_EQUAL(atomic_load(&c.too_small), 0);
  weft_free(c.seen);
}

static void loops_cover_every_index_once(void) {
  static const int64_t totals[] = {0, 1, 2, 7, 100, 1001, 65536}, grains[] = {0, 1, 3, 1000, 1000000};
  weft_thread_pool_t *p = pool_of(3);
  for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
    for (size_t k = 0; k < sizeof grains / sizeof grains[0]; k++) {
      check_loop(p, totals[i], grains[k]);
      check_loop(NULL, totals[i], grains[k]);
    }
  }
  weft_thread_pool_destroy(p);
}

static void inner(void *arg, int64_t begin, int64_t end) {
  cells_t *c = arg;
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->too_small, 1);
}
static void outer(void *arg, int64_t begin, int64_t end) {
  cells_t *c = arg;
  for (int64_t i = begin; i < end; i++) weft_parallel_for(c->pool, 100, 1, inner, c);
}

static void loops_may_nest(void) {
  cells_t c = {.pool = pool_of(2)};
  weft_parallel_for(c.pool, 50, 1, outer, &c);
  CU_ASSERT_EQUAL(atomic_load(&c.too_small), 5000);
  weft_thread_pool_destroy(c.pool);
}

static void *loop_from_outside(void *arg) {
  for (int i = 0; i < 50; i++) weft_parallel_for(((cells_t *)arg)->pool, 100, 1, inner, arg);
  return NULL;
}

static void loops_of_several_callers_share_a_pool(void) {
  cells_t c = {.pool = pool_of(2)};
  pthread_t t[3];
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, loop_from_outside, &c), 0);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  CU_ASSERT_EQUAL(atomic_load(&c.too_small), 15000);
  weft_thread_pool_destroy(c.pool);
}

typedef struct named {
  latch_t done;
  char name[16];
} named_t;

static void read_name(void *arg) {
  named_t *n = arg;
  prctl(PR_GET_NAME, n->name, 0, 0, 0);
  latch_down(&n->done);
}

static void threads_are_named(void) {
  named_t n = {.name = ""};
  latch_init(&n.done, 1);
  weft_thread_pool_t *p = pool_of(1);
  CU_ASSERT_TRUE(weft_thread_pool_submit(p, read_name, &n));
  latch_wait(&n.done);
  CU_ASSERT_STRING_EQUAL(n.name, "test/0");
  weft_thread_pool_destroy(p);
  latch_deinit(&n.done);
}

static void pools_of_no_threads_are_refused(void) {
  weft_thread_pool_t *p = NULL;
  weft_status_t *s = weft_thread_pool_create("test", 0, &p);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_thread_pool_destroy(NULL);
}

static weft_status_t *create_and_destroy(void) {
  weft_thread_pool_t *p = NULL;
  WEFT_RETURN_IF_ERROR(weft_thread_pool_create("test", 2, &p));
  weft_thread_pool_destroy(p);
  return NULL;
}

static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, create_and_destroy());
  CU_ASSERT_EQUAL(n, 3);
  weft_thread_pool_t *p = pool_of(1);
  atomic_int ran = 0;
  weft_fault_arm(0);
  CU_ASSERT_FALSE(weft_thread_pool_submit(p, count, &ran));
  weft_fault_arm(-1);
  CU_ASSERT_TRUE(weft_thread_pool_submit(p, count, &ran));
  weft_thread_pool_destroy(p);
  CU_ASSERT_EQUAL(atomic_load(&ran), 1);
}

static const CU_TestInfo tests[] = {
    {"everything submitted runs", everything_submitted_runs},
    {"destroying runs what is queued", destroying_runs_what_is_queued},
    {"closures may submit closures", closures_may_submit_closures},
    {"idle threads steal", idle_threads_steal},
    {"loops cover every index once", loops_cover_every_index_once},
    {"loops may nest", loops_may_nest},
    {"loops of several callers share a pool", loops_of_several_callers_share_a_pool},
    {"threads are named", threads_are_named},
    {"pools of no threads are refused", pools_of_no_threads_are_refused},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("thread pool", tests); }
