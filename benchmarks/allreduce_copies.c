/* benchmarks/allreduce_copies.c - the bound of an all-reduce between processes of one host.
 *
 * Each rank has a quarter of the result to make: it reads that quarter of each peer, in blocks that
 * stay in the second-level cache, and adds them to its own. Then it reads the other quarters where they were
 * made. Ranks agree by a barrier in shared memory, and know each other from the start: no message is sent.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "benchmarks/allreduce.h"

enum {
  RANKS = 4,
  COUNT = 16 << 20,
  SHARE = COUNT / RANKS,
  BLOCK = (256 << 10) / (int)sizeof(float),
  MAX_ROUNDS = 9
};

/* In memory that all ranks share. */
typedef struct copies_shared {
  pthread_barrier_t barrier;
  pid_t pids[RANKS];
  int error;             /* an errno of one of the ranks */
  double ns[MAX_ROUNDS]; /* rank 0's */
} copies_shared_t;

/* The ranks' tensors have one address, as they were allocated before the ranks parted. */
static bool read_peer(pid_t pid, const float *theirs, float *mine, size_t bytes) {
  struct iovec to = {mine, bytes}, from = {(void *)(uintptr_t)theirs, bytes};
  return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

static void add_block(float *restrict sum, const float *restrict x) {
  for (int i = 0; i < BLOCK; i++) sum[i] += x[i];
}

static bool reduce_share(const copies_shared_t *s, int rank, float *x) {
  static float block[BLOCK];
  bool ok = true;
  for (float *at = x + (size_t)rank * SHARE, *end = at + SHARE; at < end && ok; at += BLOCK) {
    for (int k = 1; k < RANKS && ok; k++) {
      ok = read_peer(s->pids[(rank + k) % RANKS], at, block, sizeof block);
      add_block(at, block);
    }
  }
  return ok;
}

static bool gather_shares(const copies_shared_t *s, int rank, float *x) {
  bool ok = true;
  for (int k = 1; k < RANKS && ok; k++) {
    float *at = x + (size_t)((rank + k) % RANKS) * SHARE;
    for (float *end = at + SHARE; at < end && ok; at += BLOCK)
      ok = read_peer(s->pids[(rank + k) % RANKS], at, at, BLOCK * sizeof(float));
  }
  return ok;
}

static void be_rank(copies_shared_t *s, int rank, float *x, int rounds) {
  const int sum_of_ranks = RANKS * (RANKS + 1) / 2;
  const float sum = (float)sum_of_ranks;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* fails where it is not needed */
  s->pids[rank] = getpid();
  for (int round = -1; round < rounds; round++) {
    for (int i = 0; i < COUNT; i++) x[i] = (float)(rank + 1);
    pthread_barrier_wait(&s->barrier);
    int64_t began = weft_clock_ns();
    bool ok = reduce_share(s, rank, x);
    pthread_barrier_wait(&s->barrier);
    ok = ok && gather_shares(s, rank, x);
    if (!ok) s->error = errno;
    if (rank == 0 && round >= 0) s->ns[round] = (double)(weft_clock_ns() - began);
    for (int i = 0; i < COUNT && ok; i++) ok = x[i] == sum;
    if (!ok && s->error == 0) s->error = EIO;
    pthread_barrier_wait(&s->barrier); /* peers may read until here */
  }
  _exit(0);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static weft_status_t *run(copies_shared_t *s, float *x, int rounds) {
  pthread_barrierattr_t shared;
  pid_t pids[RANKS];
  int num_started = 0, status = 0;
  bool ok = true;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&s->barrier, &shared, RANKS);
  pthread_barrierattr_destroy(&shared);
  for (; num_started < RANKS; num_started++) {
    pids[num_started] = fork();
    if (pids[num_started] == 0) be_rank(s, num_started, x, rounds);
    if (pids[num_started] < 0) break;
  }
  for (int i = 0; i < num_started; i++) {
    if (num_started < RANKS) kill(pids[i], SIGKILL); /* the others wait for one that is not there */
    ok = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && ok;
  }
  if (num_started < RANKS || !ok) return WEFT_ERROR(INTERNAL, "a rank could not start, or died");
  if (s->error != 0) return WEFT_ERROR(INTERNAL, "a rank cannot read another: %s", strerror(s->error));
  return NULL;
}

weft_status_t *weft_bench_allreduce_copies(const weft_bench_options_t *o, double *out_ns) {
  const int rounds = o->is_quick ? 3 : MAX_ROUNDS, visible = MAP_SHARED | MAP_ANONYMOUS;
  copies_shared_t *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, visible, -1, 0);
  float *x = mmap(NULL, COUNT * sizeof *x, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  weft_status_t *status = NULL;
  if (s == MAP_FAILED || x == MAP_FAILED) {
    status = WEFT_NO_MEMORY("64 MB");
  } else {
    status = run(s, x, rounds);
  }
  if (status == NULL) {
    qsort(s->ns, (size_t)rounds, sizeof *s->ns, compare);
    *out_ns = s->ns[rounds / 2];
  }
  if (s != MAP_FAILED) munmap(s, sizeof *s);
  if (x != MAP_FAILED) munmap(x, COUNT * sizeof *x);
  return status;
}
