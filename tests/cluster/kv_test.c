/* Tables of keys and values on real servers: exact sums, lost messages, a killed server, priorities, clocks
 * (T-PSL-2 to 6). */
#include "weft/kv.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "tests/cluster/server_process.h"
#include "tests/runner.h"

enum { SERVERS = 2 };

typedef struct servers {
  weft_test_process_t processes[SERVERS];
  char text[128];
  WEFT_Cluster *cluster;
} servers_t;

static TF_Status *status; /* of the test's thread */

static bool start_one(servers_t *s, int i) {
  char task[16];
  snprintf(task, sizeof task, "%d", i);
  const char *const arguments[] = {"server", "--cluster", s->text,     "--job", "ps",
                                   "--task", task,        "--threads", "2",     NULL};
  weft_test_process_start(&s->processes[i], arguments, NULL);
  return weft_test_process_ready(&s->processes[i]);
}

static void begin(servers_t *s) {
  memset(s, 0, sizeof *s);
  status = TF_NewStatus();
  snprintf(s->text, sizeof s->text, "ps=127.0.0.1:%d,127.0.0.1:%d", weft_test_free_port(),
           weft_test_free_port());
  s->cluster = WEFT_NewCluster(s->text, status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(status), TF_OK);
  for (int i = 0; i < SERVERS; i++) CU_ASSERT_TRUE_FATAL(start_one(s, i));
}

static void end(servers_t *s) {
  for (int i = 0; i < SERVERS; i++) weft_test_process_kill(&s->processes[i]);
  WEFT_DeleteCluster(s->cluster);
  TF_DeleteStatus(status);
}

static WEFT_KvWorker *open_worker(const servers_t *s, const WEFT_KvOptions *o) {
  WEFT_KvWorker *w = WEFT_NewKvWorker(s->cluster, o, status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(status), TF_OK);
  CU_ASSERT_EQUAL(WEFT_KvNumServers(w), SERVERS);
  return w;
}

static TF_Code wait_for(WEFT_KvWorker *w, int64_t timestamp, TF_Status *s) {
  if (timestamp < 0) return TF_GetCode(s);
  WEFT_KvWait(w, timestamp, s);
  if (TF_GetCode(s) != TF_OK) printf("\n    request %d: %s", (int)timestamp, TF_Message(s));
  return TF_GetCode(s);
}

/* ---- T-PSL-2 and 3: exact sums ---- */

enum { KEYS = 10000, WORKERS = 4, PUSHES = 100 };

typedef struct pusher {
  const servers_t *servers;
  WEFT_KvOptions o;
  int64_t keys[KEYS];
  float ones[KEYS];
  WEFT_KvCounts counts;
  int failures, num_pushes, num_keys;
  atomic_uint seed;
} pusher_t;

static void *push_ones(void *arg) {
  pusher_t *p = arg;
  TF_Status *s = TF_NewStatus();
  WEFT_KvWorker *w = WEFT_NewKvWorker(p->servers->cluster, &p->o, s);
  p->failures += w == NULL;
  for (int i = 0; w != NULL && i < p->num_pushes; i++) {
    p->failures += WEFT_KvPush(w, p->keys, p->num_keys, p->ones, 0, NULL, NULL, s) < 0;
  }
  for (int i = 1; w != NULL && i <= p->num_pushes; i++) p->failures += wait_for(w, i, s) != TF_OK;
  if (w != NULL) WEFT_KvGetCounts(w, &p->counts);
  WEFT_DeleteKvWorker(w);
  TF_DeleteStatus(s);
  return NULL;
}

/* All workers push; then one pulls. Returns how many values are not `want`. */
static int push_and_pull(const servers_t *s, pusher_t *pushers, const WEFT_KvOptions *o, int num_keys,
                         int num_pushes, float want) {
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    pusher_t *p = &pushers[i];
    p->servers = s;
    p->o = *o;
    p->o.worker = i;
    p->o.link_user = p;
    p->num_keys = num_keys;
    p->num_pushes = num_pushes;
    atomic_init(&p->seed, (unsigned)i * 7919u + 1);
    for (int k = 0; k < num_keys; k++) {
      p->keys[k] = k;
      p->ones[k] = 1;
    }
    pthread_create(&threads[i], NULL, push_ones, p);
  }
  int failures = 0, wrong = 0;
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(threads[i], NULL);
    failures += pushers[i].failures;
  }
  CU_ASSERT_EQUAL(failures, 0);
  WEFT_KvOptions plain = *o;
  plain.link = NULL;
  WEFT_KvWorker *w = open_worker(s, &plain);
  float *got = calloc((size_t)num_keys, sizeof *got);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPull(w, pushers[0].keys, num_keys, got, 0, NULL, NULL, status), status),
                  TF_OK);
  for (int k = 0; k < num_keys; k++) wrong += got[k] != want;
  free(got);
  WEFT_DeleteKvWorker(w);
  return wrong;
}

static void four_workers_push_exactly_400(void) {
  servers_t s;
  WEFT_KvOptions o;
  pusher_t *pushers = calloc(WORKERS, sizeof *pushers);
  begin(&s);
  WEFT_InitKvOptions(&o);
  CU_ASSERT_EQUAL(push_and_pull(&s, pushers, &o, KEYS, PUSHES, 400), 0);
  for (int i = 0; i < WORKERS; i++) { /* two messages per server and push, no more */
    CU_ASSERT_EQUAL(pushers[i].counts.requests, PUSHES * SERVERS);
    CU_ASSERT_EQUAL(pushers[i].counts.responses, PUSHES * SERVERS);
    CU_ASSERT_EQUAL(pushers[i].counts.resent, 0);
  }
  free(pushers);
  end(&s);
}

static void a_server_without_keys_gets_no_message(void) {
  servers_t s;
  WEFT_KvOptions o;
  WEFT_KvCounts counts;
  float one = 1, got = 0;
  int64_t key = 3;
  begin(&s);
  WEFT_InitKvOptions(&o);
  o.max_key = 10; /* the first server has 0 to 4 */
  WEFT_KvWorker *w = open_worker(&s, &o);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPush(w, &key, 1, &one, 0, NULL, NULL, status), status), TF_OK);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPushPull(w, &key, 1, &one, &got, 0, NULL, NULL, status), status), TF_OK);
  CU_ASSERT_EQUAL(got, 2);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPush(w, &key, 0, &one, 0, NULL, NULL, status), status),
                  TF_OK); /* of nothing */
  WEFT_KvGetCounts(w, &counts);
  CU_ASSERT_TRUE(counts.requests == 2 && counts.responses == 2);
  key = 10;
  CU_ASSERT_EQUAL(WEFT_KvPush(w, &key, 1, &one, 0, NULL, NULL, status), -1);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_INVALID_ARGUMENT);
  WEFT_KvWait(w, 99, status);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_NOT_FOUND);
  WEFT_DeleteKvWorker(w);
  end(&s);
}

static void values_of_any_length_come_back(void) {
  static const int64_t keys[] = {5, 6, 7, 8}, lens[] = {2, 0, 3, 1};
  static const int64_t asked[] = {8, 99, 5, 7};
  servers_t s;
  WEFT_KvOptions o;
  double values[] = {1, 2, 3, 4, 5, 6}, got[6] = {0};
  int64_t got_lens[4] = {0};
  begin(&s);
  WEFT_InitKvOptions(&o);
  o.width = 0;
  o.dtype = TF_DOUBLE;
  WEFT_KvWorker *w = open_worker(&s, &o);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPushLens(w, keys, 4, values, lens, 0, NULL, NULL, status), status),
                  TF_OK);
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPullLens(w, asked, 4, got, 6, got_lens, 0, NULL, NULL, status), status),
                  TF_OK);
  CU_ASSERT_TRUE(got_lens[0] == 1 && got_lens[1] == 0 && got_lens[2] == 2 && got_lens[3] == 3);
  static const double want[] = {6, 1, 2, 3, 4, 5};
  CU_ASSERT_EQUAL(memcmp(got, want, sizeof want), 0);
  int64_t t = WEFT_KvPullLens(w, asked, 4, got, 5, got_lens, 0, NULL, NULL, status);
  WEFT_KvWait(w, t, status);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_OUT_OF_RANGE);
  WEFT_DeleteKvWorker(w);
  end(&s);
}

/* One message in ten is lost, either way. */
static int lose_some(void *user, int server, int64_t timestamp, int attempt, int is_response) {
  pusher_t *p = user;
  (void)server;
  (void)timestamp;
  (void)attempt;
  (void)is_response;
  unsigned x = atomic_fetch_add(&p->seed, 2654435769u);
  x ^= x >> 16;
  x *= 0x45d9f3bu;
  x ^= x >> 16;
  return x % 10 == 0;
}

static void lost_messages_change_nothing(void) {
  servers_t s;
  WEFT_KvOptions o;
  pusher_t *pushers = calloc(WORKERS, sizeof *pushers);
  begin(&s);
  WEFT_InitKvOptions(&o);
  o.link = lose_some;
  o.resend_ms = 20;
  o.max_tries = 30;
  CU_ASSERT_EQUAL(push_and_pull(&s, pushers, &o, 100, 50, 200), 0);
  int64_t resent = 0, duplicates = 0;
  for (int i = 0; i < WORKERS; i++) {
    resent += pushers[i].counts.resent;
    duplicates += pushers[i].counts.duplicates;
  }
  CU_ASSERT_TRUE(resent > 20);
  CU_ASSERT_TRUE(duplicates > 5); /* answers that were lost: the push had arrived */
  free(pushers);
  end(&s);
}

static int lose_all(void *user, int server, int64_t timestamp, int attempt, int is_response) {
  (void)user;
  (void)timestamp;
  (void)attempt;
  return server == 1 && is_response == 0;
}

static void without_resending_a_loss_is_noticed(void) {
  static const int64_t keys[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  servers_t s;
  WEFT_KvOptions o;
  begin(&s);
  WEFT_InitKvOptions(&o);
  o.link = lose_all;
  o.resend_ms = 2000; /* what is not lost must be answered by then, on a busy machine, too */
  o.max_tries = 1;
  o.max_key = 8;
  WEFT_KvWorker *w = open_worker(&s, &o);
  int64_t t = WEFT_KvPush(w, keys, 8, ones, 0, NULL, NULL, status);
  WEFT_KvWait(w, t, status);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_DEADLINE_EXCEEDED);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(status), "/job:ps/task:1"));
  CU_ASSERT_EQUAL(wait_for(w, WEFT_KvPush(w, keys, 2, ones, 0, NULL, NULL, status), status),
                  TF_OK); /* the other one serves */
  WEFT_DeleteKvWorker(w);
  end(&s);
}

/* ---- T-PSL-4: clocks ---- */

enum { ROUNDS = 100, FEATURES = 8 };

/* Linear regression: each worker has a quarter of the batch. */
static double target(int64_t i) { return 0.25 * (double)i - 1; }
static void gradient(int worker, int workers, const double *w, double *out) {
  memset(out, 0, FEATURES * sizeof *out);
  uint64_t seed = 12345;
  for (int row = 0; row < 64; row++) {
    double x[FEATURES], y = 0, guess = 0;
    for (int i = 0; i < FEATURES; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      x[i] = (double)(seed >> 40) / 16777216.0 - 0.5;
      y += x[i] * target(i);
      guess += x[i] * w[i];
    }
    if (row % workers != worker) continue;
    for (int i = 0; i < FEATURES; i++) out[i] += 2 * (guess - y) * x[i] / (64 / workers);
  }
}

typedef struct trainer {
  const servers_t *servers;
  WEFT_KvOptions o;
  double weights[FEATURES];
  int failures;
} trainer_t;

static void *train(void *arg) {
  static const int64_t keys[FEATURES] = {0, 1, 2, 3, 4, 5, 6, 7};
  trainer_t *t = arg;
  TF_Status *s = TF_NewStatus();
  double g[FEATURES];
  WEFT_KvWorker *w = WEFT_NewKvWorker(t->servers->cluster, &t->o, s);
  for (int round = 0; w != NULL && round < ROUNDS; round++) {
    gradient((int)t->o.worker, WORKERS, t->weights, g);
    t->failures += WEFT_KvPush(w, keys, FEATURES, g, 0, NULL, NULL, s) < 0;
    t->failures += WEFT_KvAdvance(w, NULL, NULL, s) < 0;
    t->failures += wait_for(w, WEFT_KvPull(w, keys, FEATURES, t->weights, 5, NULL, NULL, s), s) != TF_OK;
  }
  t->failures += w == NULL;
  WEFT_DeleteKvWorker(w);
  TF_DeleteStatus(s);
  return NULL;
}

static double run_trainers(const servers_t *s, const char *table, const char *policy, int64_t staleness,
                           trainer_t *t) {
  pthread_t threads[WORKERS];
  double worst = 0, w[FEATURES] = {0}, g[FEATURES];
  for (int i = 0; i < WORKERS; i++) {
    t[i] = (trainer_t){.servers = s};
    WEFT_InitKvOptions(&t[i].o);
    t[i].o.table = table;
    t[i].o.dtype = TF_DOUBLE;
    t[i].o.apply = "sgd";
    t[i].o.learning_rate = 0.5;
    t[i].o.policy = policy;
    t[i].o.staleness = staleness;
    t[i].o.num_workers = WORKERS;
    t[i].o.takes_mean = 1;
    t[i].o.worker = i;
    t[i].o.resend_ms = 5000;
    pthread_create(&threads[i], NULL, train, &t[i]);
  }
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
  for (int round = 0; round < ROUNDS; round++) {
    gradient(0, 1, w, g);
    for (int i = 0; i < FEATURES; i++) w[i] -= 0.5 * g[i];
  }
  for (int i = 0; i < WORKERS; i++) {
    CU_ASSERT_EQUAL(t[i].failures, 0);
    for (int k = 0; k < FEATURES; k++) worst = fmax(worst, fabs(t[i].weights[k] - w[k]));
  }
  return worst;
}

static void bulk_synchronous_follows_one_process(void) {
  servers_t s;
  trainer_t bsp[WORKERS], ssp[WORKERS];
  begin(&s);
  CU_ASSERT_TRUE(run_trainers(&s, "bsp", "BSP", 0, bsp) < 1e-10);
  CU_ASSERT_TRUE(run_trainers(&s, "ssp0", "SSP", 0, ssp) < 1e-10);
  for (int i = 0; i < WORKERS; i++)
    CU_ASSERT_EQUAL(memcmp(bsp[i].weights, ssp[i].weights, sizeof bsp[i].weights), 0);
  (void)run_trainers(&s, "ssp2", "SSP", 2, ssp); /* stale, but it ends */
  end(&s);
}

/* ---- T-PSL-5: a server is killed ---- */

static void a_killed_server_serves_its_snapshot(void) {
  enum { N = 200 };
  servers_t s;
  WEFT_KvOptions o;
  int64_t keys[N];
  float ones[N], got[N];
  begin(&s);
  WEFT_InitKvOptions(&o);
  o.resend_ms = 100;
  o.max_tries = 40;
  WEFT_KvWorker *a = open_worker(&s, &o);
  o.worker = 1;
  WEFT_KvWorker *b = open_worker(&s, &o);
  for (int i = 0; i < N; i++) {
    keys[i] = i;
    ones[i] = 1;
  }
  for (int i = 0; i < 10; i++) {
    CU_ASSERT_EQUAL(wait_for(a, WEFT_KvPush(a, keys, N, ones, 0, NULL, NULL, status), status), TF_OK);
    CU_ASSERT_EQUAL(wait_for(b, WEFT_KvPush(b, keys, N, ones, 0, NULL, NULL, status), status), TF_OK);
  }
  WEFT_KvSnapshot *snapshot = WEFT_KvSave(a, 1, status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(status), TF_OK);
  weft_test_process_kill(&s.processes[1]);
  int64_t pull = WEFT_KvPull(b, keys, N, got, 0, NULL, NULL, status); /* begins while it is away */
  int64_t push = WEFT_KvPush(b, keys, N, ones, 0, NULL, NULL, status);
  CU_ASSERT_TRUE(start_one(&s, 1));
  CU_ASSERT_FALSE(WEFT_KvIsDone(b, pull)); /* its table is empty: it serves no pull yet */
  WEFT_KvRestore(a, 1, snapshot, status);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_OK);
  CU_ASSERT_EQUAL(wait_for(b, push, status), TF_OK);
  CU_ASSERT_EQUAL(wait_for(b, pull, status), TF_OK);
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += got[i] != 20 && got[i] != 21; /* before or behind the push */
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(wait_for(a, WEFT_KvPull(a, keys, N, got, 0, NULL, NULL, status), status), TF_OK);
  wrong = 0;
  for (int i = 0; i < N; i++) wrong += got[i] != 21;
  CU_ASSERT_EQUAL(wrong, 0);
  WEFT_DeleteKvSnapshot(snapshot);
  WEFT_DeleteKvWorker(a);
  WEFT_DeleteKvWorker(b);
  end(&s);
}

/* ---- T-PSL-6: priorities ---- */

typedef struct order {
  weft_mutex_t mu;
  weft_cond_t cond;
  bool is_open, is_reached;
  int n;
  int64_t done[8];
} order_t;

static void note(void *user, int64_t timestamp, TF_Code code) {
  order_t *o = user;
  (void)code;
  weft_mutex_lock(&o->mu);
  if (o->n < 8) o->done[o->n++] = timestamp;
  weft_mutex_unlock(&o->mu);
}

/* Requests of the first timestamp wait at the gate, so that the others stand in line behind it. */
static int gate(void *user, int server, int64_t timestamp, int attempt, int is_response) {
  order_t *o = user;
  (void)server;
  (void)attempt;
  weft_mutex_lock(&o->mu);
  o->is_reached = true;
  weft_cond_broadcast(&o->cond);
  while (timestamp == 1 && !is_response && !o->is_open)
    weft_cond_wait(&o->cond, &o->mu); /* woken by the test */
  weft_mutex_unlock(&o->mu);
  return 0;
}

static void the_higher_priority_goes_first(void) {
  servers_t s;
  WEFT_KvOptions o;
  order_t order = {.n = 0};
  int64_t *keys = calloc(KEYS, sizeof *keys), t[5];
  float *ones = calloc(KEYS, sizeof *ones), small[2];
  begin(&s);
  weft_mutex_init(&order.mu);
  weft_cond_init(&order.cond);
  WEFT_InitKvOptions(&o);
  o.link = gate;
  o.link_user = &order;
  o.max_key = 2 * KEYS; /* all at the first server */
  WEFT_KvWorker *w = open_worker(&s, &o);
  for (int i = 0; i < KEYS; i++) keys[i] = i;
  t[0] = WEFT_KvPush(w, keys, KEYS, ones, 0, note, &order, status);
  weft_mutex_lock(&order.mu);
  while (!order.is_reached) weft_cond_wait(&order.cond, &order.mu); /* woken by gate() */
  weft_mutex_unlock(&order.mu);
  t[1] = WEFT_KvPush(w, keys, KEYS, ones, 0, note, &order, status);
  t[2] = WEFT_KvPush(w, keys, KEYS, ones, 3, note, &order, status);
  t[3] = WEFT_KvPushPull(w, keys, 2, ones, small, 9, note, &order, status);
  t[4] = WEFT_KvPull(w, keys, 2, small, 9, note, &order, status); /* behind no push at all */
  CU_ASSERT_EQUAL(wait_for(w, t[4], status), TF_OK);
  CU_ASSERT_FALSE(WEFT_KvIsDone(w, t[0]));
  weft_mutex_lock(&order.mu);
  order.is_open = true;
  weft_cond_broadcast(&order.cond);
  weft_mutex_unlock(&order.mu);
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(wait_for(w, t[i], status), TF_OK);
  static const int want[] = {4, 0, 3, 2, 1};
  CU_ASSERT_EQUAL(order.n, 5);
  for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(order.done[i], t[want[i]]);
  WEFT_DeleteKvWorker(w);
  weft_cond_deinit(&order.cond);
  weft_mutex_deinit(&order.mu);
  free(keys);
  free(ones);
  end(&s);
}

static void what_is_not_done_is_cancelled_at_the_end(void) {
  servers_t s;
  WEFT_KvOptions o;
  order_t order = {.n = 0};
  int64_t key = 1;
  float value = 0;
  begin(&s);
  weft_mutex_init(&order.mu);
  weft_cond_init(&order.cond);
  WEFT_InitKvOptions(&o);
  o.policy = "BSP";
  o.num_workers = 2;
  o.resend_ms = 60000;
  WEFT_KvWorker *w = open_worker(&s, &o);
  (void)WEFT_KvAdvance(w, NULL, NULL, status);
  (void)WEFT_KvPull(w, &key, 1, &value, 0, note, &order, status); /* the other worker never comes */
  WEFT_DeleteKvWorker(w);
  CU_ASSERT_EQUAL(order.n, 1);
  o.apply = "guess";
  CU_ASSERT_PTR_NULL(WEFT_NewKvWorker(s.cluster, &o, status));
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_INVALID_ARGUMENT);
  weft_cond_deinit(&order.cond);
  weft_mutex_deinit(&order.mu);
  end(&s);
}

static const CU_TestInfo tests[] = {
    {"four workers push exactly 400", four_workers_push_exactly_400},
    {"a server without keys gets no message", a_server_without_keys_gets_no_message},
    {"values of any length come back", values_of_any_length_come_back},
    {"lost messages change nothing", lost_messages_change_nothing},
    {"without resending, a loss is noticed", without_resending_a_loss_is_noticed},
    {"bulk synchronous follows one process", bulk_synchronous_follows_one_process},
    {"a killed server serves its snapshot", a_killed_server_serves_its_snapshot},
    {"the higher priority goes first", the_higher_priority_goes_first},
    {"what is not done is cancelled at the end", what_is_not_done_is_cancelled_at_the_end},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv", tests); }
