/* benchmarks/floors.c - the list of floors, and those that need one process or two. */
#define _GNU_SOURCE
#include "benchmarks/floors.h"

#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "benchmarks/allreduce.h"
#include "benchmarks/child.h"
#include "kernels/cpu/blas/blas.h"
#include "rpc/empty_call.h"

enum { LINE = 64, MAX_ROUNDS = 31 };

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, compare);
  return x[n / 2];
}

/* Of what one thread does alone: the round in which nothing else ran. */
static double least(const double *x, int n) {
  double found = x[0];
  for (int i = 1; i < n; i++) found = x[i] < found ? x[i] : found;
  return found;
}

/* ---- memory ---- */

/* A load of a cache line whose address the load before has given: 32 MB in random order. */
static weft_status_t *memory_load(const weft_bench_options_t *o, double *out_ns) {
  enum { LINES = (32 << 20) / LINE };
  enum { STEPS = 20000, ROUNDS = 100 }; /* some 3 ms a round: shorter than a turn of the scheduler */
  const int rounds = o->is_quick ? 5 : ROUNDS;
  char *memory = weft_aligned_alloc(LINE, (size_t)LINES * LINE);
  uint32_t *order = weft_calloc(LINES, sizeof *order);
  double ns[ROUNDS];
  uint64_t state = 1;
  if (memory == NULL || order == NULL) goto done;
  for (uint32_t i = 0; i < LINES; i++) order[i] = i;
  for (uint32_t i = LINES - 1; i > 0; i--) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    uint32_t k = (uint32_t)(state >> 33) % (i + 1), held = order[i];
    order[i] = order[k];
    order[k] = held;
  }
  for (uint32_t i = 0; i < LINES; i++) /* one cycle */
    *(void **)(void *)(memory + (size_t)order[i] * LINE) = memory + (size_t)order[(i + 1) % LINES] * LINE;
  void *volatile *at = (void *volatile *)(void *)memory;
  for (int round = 0; round < rounds; round++) {
    int64_t began = weft_clock_ns();
    for (int i = 0; i < STEPS; i++) at = *at;
    ns[round] = (double)(weft_clock_ns() - began) / STEPS;
  }
  *out_ns = least(ns, rounds);
done:
  weft_free(order);
  weft_free(memory);
  return memory == NULL || order == NULL ? WEFT_NO_MEMORY("32 MB") : NULL;
}

static weft_status_t *copy(size_t bytes, int times, double *out_ns) {
  enum { ROUNDS = 21 };
  char *from = weft_malloc(bytes), *to = weft_malloc(bytes);
  double ns[ROUNDS];
  if (from != NULL && to != NULL) {
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int round = 0; round < ROUNDS; round++) {
      int64_t began = weft_clock_ns();
      for (int i = 0; i < times; i++) {
        memcpy(to, from, bytes);
        atomic_signal_fence(memory_order_seq_cst); /* each copy is made */
      }
      ns[round] = (double)(weft_clock_ns() - began) / times;
    }
    *out_ns = least(ns, ROUNDS);
  }
  bool ok = from != NULL && to != NULL;
  weft_free(from);
  weft_free(to);
  return ok ? NULL : WEFT_NO_MEMORY("%zu bytes", bytes);
}
static weft_status_t *memcpy_1mb(const weft_bench_options_t *o, double *out_ns) {
  return copy((size_t)1 << 20, o->is_quick ? 2 : 20, out_ns);
}
static weft_status_t *memcpy_128mb(const weft_bench_options_t *o, double *out_ns) {
  (void)o;
  return copy((size_t)128 << 20, 1, out_ns);
}

/* ---- threads and processes ---- */

typedef struct handoff {
  weft_mutex_t mu;
  weft_cond_t changed;
  int turn, left; /* guarded by mu */
} handoff_t;

static void take_turns(handoff_t *h, int mine) {
  weft_mutex_lock(&h->mu);
  while (h->left > 0) {
    while (h->turn != mine && h->left > 0)
      weft_cond_wait(&h->changed, &h->mu); /* woken by the other thread */
    h->turn = 1 - mine;
    h->left--;
    weft_cond_signal(&h->changed);
  }
  weft_mutex_unlock(&h->mu);
}
static void *be_other(void *arg) {
  take_turns(arg, 1);
  return NULL;
}

static weft_status_t *handoff(const weft_bench_options_t *o, double *out_ns) {
  const int times = o->is_quick ? 200 : 5000, rounds = 9;
  double ns[MAX_ROUNDS];
  for (int i = 0; i < rounds; i++) {
    handoff_t h = {.turn = 0, .left = times};
    pthread_t other;
    weft_mutex_init(&h.mu);
    weft_cond_init(&h.changed);
    int rc = pthread_create(&other, NULL, be_other, &h);
    int64_t began = weft_clock_ns();
    if (rc == 0) take_turns(&h, 0);
    ns[i] = (double)(weft_clock_ns() - began) / times;
    if (rc == 0) pthread_join(other, NULL);
    weft_cond_deinit(&h.changed);
    weft_mutex_deinit(&h.mu);
    if (rc != 0) return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a thread");
  }
  *out_ns = median(ns, rounds);
  return NULL;
}

static weft_status_t *process_start(const weft_bench_options_t *o, double *out_ns) {
  const int rounds = o->is_quick ? 5 : MAX_ROUNDS;
  double ns[MAX_ROUNDS];
  char *const argv[] = {"true", NULL};
  for (int i = 0; i < rounds; i++) {
    pid_t pid = 0;
    int64_t began = weft_clock_ns();
    if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) != 0)
      return WEFT_ERROR(INTERNAL, "cannot start a process");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    ns[i] = (double)(weft_clock_ns() - began);
  }
  *out_ns = median(ns, rounds);
  return NULL;
}

/* ---- round trips ---- */

static weft_status_t *echo(void *arg, int to, int until) {
  (void)arg, (void)until;
  int port = 0, listener = weft_tcp_listen(&port);
  char byte;
  if (listener < 0) return WEFT_ERROR(INTERNAL, "cannot listen: %d", errno);
  if (!weft_write_all(to, &port, sizeof port)) return NULL;
  int fd = weft_tcp_accept(listener);
  while (weft_read_all(fd, &byte, 1) && weft_write_all(fd, &byte, 1)) {
  }
  return NULL;
}

static weft_status_t *tcp_round_trip(const weft_bench_options_t *o, double *out_ns) {
  const int times = o->is_quick ? 200 : 3000, rounds = 9;
  double ns[MAX_ROUNDS];
  weft_child_t child;
  int port = 0, fd = -1;
  char byte = 1;
  weft_status_t *s = weft_child_start(echo, NULL, "tcp_round_trip", &port, sizeof port, &child);
  if (s == NULL && (fd = weft_tcp_connect(port)) < 0)
    s = WEFT_ERROR(UNAVAILABLE, "cannot connect: %d", errno);
  for (int i = 0; i < rounds && s == NULL; i++) {
    int64_t began = weft_clock_ns();
    for (int k = 0; k < times && s == NULL; k++) {
      if (!weft_write_all(fd, &byte, 1) || !weft_read_all(fd, &byte, 1))
        s = WEFT_ERROR(INTERNAL, "the TCP connection broke");
    }
    ns[i] = (double)(weft_clock_ns() - began) / times;
  }
  if (s == NULL) *out_ns = median(ns, rounds);
  if (fd >= 0) close(fd);
  weft_child_end(&child);
  return s;
}

typedef struct empty_calls {
  int port, num_calls;
} empty_calls_t;

static weft_status_t *serve_empty_calls(void *arg, int to, int until) {
  (void)arg;
  return weft_rpc_empty_call_serve(to, until);
}
static weft_status_t *make_empty_calls(void *arg, int to, int until) {
  (void)until;
  const empty_calls_t *c = arg;
  double ns = 0;
  WEFT_RETURN_IF_ERROR(weft_rpc_empty_call_measure(c->port, c->num_calls, &ns));
  return weft_write_all(to, &ns, sizeof ns) ? NULL : WEFT_ERROR(INTERNAL, "the result cannot be written");
}

static weft_status_t *grpc_call(const weft_bench_options_t *o, double *out_ns) {
  weft_child_t server, client = WEFT_CHILD_INIT;
  empty_calls_t calls = {.num_calls = o->is_quick ? 200 : 5000};
  weft_status_t *s =
      weft_child_start(serve_empty_calls, NULL, "grpc_call", &calls.port, sizeof calls.port, &server);
  if (s == NULL) s = weft_child_start(make_empty_calls, &calls, "grpc_call", out_ns, sizeof *out_ns, &client);
  weft_child_end(&client);
  weft_child_end(&server);
  return s;
}

/* ---- arithmetic ---- */

static weft_status_t *sgemm(const weft_bench_options_t *o, double *out_ns) {
  enum { N = WEFT_BENCH_PRODUCT_SIDE };
  const int rounds = o->is_quick ? 3 : MAX_ROUNDS;
  double ns[MAX_ROUNDS];
  float *x = weft_calloc((size_t)N * N, 3 * sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("three matrices");
  for (int i = 0; i < 2 * N * N; i++) x[i] = (float)(i % 7) / 7;
  weft_blas_init(); /* as for kernels */
  for (int i = -1; i < rounds; i++) {
    int64_t began = weft_clock_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, x, N, x + N * N, N, 0, x + 2 * N * N,
                N);
    if (i >= 0) ns[i] = (double)(weft_clock_ns() - began);
  }
  weft_free(x);
  *out_ns = least(ns, rounds);
  return NULL;
}

/* ---- the list ---- */

static const weft_floor_t floors[] = {
    {WEFT_FLOOR_MEMORY_LOAD, "memory_load", "a load that waits for the one before, in 32 MB", memory_load},
    {WEFT_FLOOR_MEMCPY_1MB, "memcpy_1mb", "a copy of 1 MB within a process", memcpy_1mb},
    {WEFT_FLOOR_MEMCPY_128MB, "memcpy_128mb", "a copy of 128 MB within a process", memcpy_128mb},
    {WEFT_FLOOR_HANDOFF, "thread_handoff", "from one thread to the next, by a condition variable", handoff},
    {WEFT_FLOOR_TCP, "tcp_round_trip", "one byte to another process and back, over TCP", tcp_round_trip},
    {WEFT_FLOOR_GRPC_CALL, "grpc_call", "an empty call of gRPC's core to another process", grpc_call},
    {WEFT_FLOOR_PROCESS_START, "process_start", "start and end of `true`", process_start},
    {WEFT_FLOOR_SGEMM, "sgemm", "512x512x512 by OpenBLAS on one thread", sgemm},
    {WEFT_FLOOR_ALLREDUCE, "allreduce_copies",
     "what an all-reduce of 64 MB must read of other processes and add, without any agreement",
     weft_bench_allreduce_copies},
};

const weft_floor_t *weft_bench_floors(int *out_n) {
  *out_n = (int)(sizeof floors / sizeof floors[0]);
  return floors;
}

const weft_floor_t *weft_bench_floor(weft_floor_id_t id) {
  return id == WEFT_FLOOR_NONE ? NULL : &floors[id - 1];
}
