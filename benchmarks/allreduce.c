/* benchmarks/allreduce.c - four ranks, one process each, by the C API.
 *
 * The ranks are children made by fork before anything of gRPC has started, so that
 * the program itself stays clean for the next benchmark. Between rounds there is a
 * barrier; what is timed is rank 0's call, which ends when the data of all ranks has arrived.
 */
#include "benchmarks/allreduce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "weft/collective.h"

/* Keys of calls that are alike: others under the same key have to be agreed upon each time. */
enum { TENSORS_KEY, BARRIER_KEY, FUSED_KEY };
enum { RANKS = 4, MAX_RANKS = 16, TENSORS = 100, TENSOR_FLOATS = 1024, TIMEOUT_MS = 60000 };

typedef struct allreduce_bench {
  int size, rounds;
  long count; /* of floats; 0: the tensors, fused and one by one */
  char addresses[MAX_RANKS][32];
} allreduce_bench_t;

static weft_status_t *end_of(const TF_Status *s) {
  return TF_GetCode(s) == TF_OK ? NULL
                                : WEFT_ERROR(INTERNAL, "code %d: %s", (int)TF_GetCode(s), TF_Message(s));
}

/* ---- one rank ---- */

static void fill(float *x, long count, int rank) {
  for (long i = 0; i < count; i++) x[i] = (float)(rank + 1);
}

static weft_status_t *check(const float *x, long count, int size) {
  int sum = size * (size + 1) / 2;
  float wanted = (float)sum;
  for (long i = 0; i < count; i++) {
    if (x[i] != wanted)
      return WEFT_ERROR(INTERNAL, "element %ld is %g, not %g", i, (double)x[i], (double)wanted);
  }
  return NULL;
}

/* Rounds of one large all-reduce; the first one, which connects, is not counted. */
static weft_status_t *reduce_large(WEFT_CollectiveGroup *g, const allreduce_bench_t *j, float *x,
                                   double *seconds, TF_Status *s) {
  int rank = WEFT_CollectiveRank(g);
  const WEFT_CollectiveHints barrier = {.key = BARRIER_KEY};
  for (int r = -1; r < j->rounds; r++) {
    fill(x, j->count, rank);
    WEFT_Barrier(g, &barrier, s);
    WEFT_RETURN_IF_ERROR(end_of(s));
    int64_t begin = weft_clock_ns();
    WEFT_AllReduceBuffer(g, x, x, j->count, TF_FLOAT, WEFT_REDUCTION_SUM, NULL, s);
    WEFT_RETURN_IF_ERROR(end_of(s));
    if (r >= 0) seconds[r] = (double)(weft_clock_ns() - begin) / 1e9;
    WEFT_RETURN_IF_ERROR(check(x, j->count, j->size));
  }
  return NULL;
}

/* One by one, then copied into one buffer, reduced there and copied back. */
static weft_status_t *reduce_tensors(WEFT_CollectiveGroup *g, bool is_fused, float *x, float *buffer,
                                     TF_Status *s) {
  size_t bytes = TENSOR_FLOATS * sizeof(float);
  const WEFT_CollectiveHints fused = {.key = FUSED_KEY};
  for (int i = 0; i < TENSORS; i++) {
    if (is_fused) {
      memcpy(buffer + (size_t)i * TENSOR_FLOATS, x + (size_t)i * TENSOR_FLOATS, bytes);
      continue;
    }
    WEFT_AllReduceBuffer(g, x + (size_t)i * TENSOR_FLOATS, x + (size_t)i * TENSOR_FLOATS, TENSOR_FLOATS,
                         TF_FLOAT, WEFT_REDUCTION_SUM, NULL, s);
    WEFT_RETURN_IF_ERROR(end_of(s));
  }
  if (!is_fused) return NULL;
  WEFT_AllReduceBuffer(g, buffer, buffer, TENSORS * TENSOR_FLOATS, TF_FLOAT, WEFT_REDUCTION_SUM, &fused, s);
  for (int i = 0; i < TENSORS; i++)
    memcpy(x + (size_t)i * TENSOR_FLOATS, buffer + (size_t)i * TENSOR_FLOATS, bytes);
  return end_of(s);
}

static weft_status_t *race_tensors(WEFT_CollectiveGroup *g, const allreduce_bench_t *j, float *x,
                                   double *seconds, TF_Status *s) {
  float *buffer = weft_calloc((size_t)TENSORS * TENSOR_FLOATS, sizeof *buffer);
  if (buffer == NULL) return WEFT_NO_MEMORY("the buffer");
  weft_status_t *status = NULL;
  const WEFT_CollectiveHints barrier = {.key = BARRIER_KEY};
  for (int r = -2; r < j->rounds * 2 && status == NULL; r++) { /* by turns */
    fill(x, (long)TENSORS * TENSOR_FLOATS, WEFT_CollectiveRank(g));
    WEFT_Barrier(g, &barrier, s);
    int64_t begin = weft_clock_ns();
    status = end_of(s);
    if (status == NULL) status = reduce_tensors(g, r % 2 == 0, x, buffer, s);
    if (r >= 0) seconds[r] = (double)(weft_clock_ns() - begin) / 1e9;
    if (status == NULL) status = check(x, (long)TENSORS * TENSOR_FLOATS, j->size);
  }
  weft_free(buffer);
  return status;
}

static weft_status_t *be_rank(const allreduce_bench_t *j, int rank, double *seconds) {
  const char *addresses[MAX_RANKS];
  for (int i = 0; i < j->size; i++) addresses[i] = j->addresses[i];
  WEFT_CollectiveGroupOptions o = {.timeout_ms = TIMEOUT_MS};
  TF_Status *s = TF_NewStatus();
  size_t count = j->count > 0 ? (size_t)j->count : (size_t)TENSORS * TENSOR_FLOATS;
  float *x = weft_aligned_alloc(4096, (count * sizeof *x + 4095) / 4096 * 4096);
  WEFT_CollectiveGroup *g = WEFT_NewCollectiveGroup(rank, j->size, addresses, &o, s);
  weft_status_t *status = end_of(s);
  if (status == NULL && x == NULL) status = WEFT_NO_MEMORY("%zu floats", count);
  if (status == NULL)
    status = j->count > 0 ? reduce_large(g, j, x, seconds, s) : race_tensors(g, j, x, seconds, s);
  if (status == NULL) { /* no rank leaves before all are done */
    WEFT_Barrier(g, NULL, s);
    status = end_of(s);
  }
  WEFT_DeleteCollectiveGroup(g);
  weft_free(x);
  TF_DeleteStatus(s);
  return status;
}

/* ---- the processes ---- */

static weft_status_t *find_ports(allreduce_bench_t *j) {
  int fds[MAX_RANKS], n = 0;
  weft_status_t *s = NULL;
  while (n < j->size && s == NULL) { /* all at once, so that none is given twice */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, length) == 0 &&
              getsockname(fd, (struct sockaddr *)&a, &length) == 0;
    if (!ok) s = WEFT_ERROR(INTERNAL, "no free port: %d", errno);
    snprintf(j->addresses[n], sizeof j->addresses[n], "127.0.0.1:%d", ntohs(a.sin_port));
    if (fd >= 0) fds[n++] = fd;
  }
  while (n > 0) close(fds[--n]);
  return s;
}

static pid_t start_rank(const allreduce_bench_t *j, int rank, int to, double *seconds, size_t num_seconds) {
  pid_t child = fork();
  if (child != 0) return child;
  setenv("WEFT_LOG_LEVEL", "error", 1); /* that a rank leaves in the end is no news */
  weft_status_t *s = be_rank(j, rank, seconds);
  if (s != NULL) fprintf(stderr, "allreduce, rank %d: %s\n", rank, weft_status_message(s));
  bool ok = s == NULL;
  if (ok && rank == 0)
    ok = write(to, seconds, num_seconds * sizeof *seconds) == (ssize_t)(num_seconds * sizeof *seconds);
  _exit(!ok);
}

/* `seconds`: `num_seconds` of them, rank 0's. */
static weft_status_t *run(allreduce_bench_t *j, double *seconds, size_t num_seconds) {
  int tell[2];
  pid_t children[MAX_RANKS];
  WEFT_RETURN_IF_ERROR(find_ports(j));
  if (pipe(tell) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  for (int i = 0; i < j->size; i++) children[i] = start_rank(j, i, tell[1], seconds, num_seconds);
  close(tell[1]);
  ssize_t got = read(tell[0], seconds, num_seconds * sizeof *seconds);
  close(tell[0]);
  bool ok = got == (ssize_t)(num_seconds * sizeof *seconds);
  for (int i = 0; i < j->size; i++) {
    int status = 1;
    if (children[i] > 0) waitpid(children[i], &status, 0);
    ok = ok && status == 0;
  }
  return ok ? NULL : WEFT_ERROR(INTERNAL, "a rank failed: see above");
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

weft_status_t *weft_bench_allreduce(int size, long count, int rounds, double *out_seconds) {
  if (size < 1 || size > MAX_RANKS || count < 1 || rounds < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "%d ranks, %ld floats", size, count);
  allreduce_bench_t j = {.size = size, .rounds = rounds, .count = count};
  return run(&j, out_seconds, (size_t)rounds);
}

weft_status_t *weft_bench_allreduce_64mb(const weft_bench_options_t *o, double *out_value) {
  enum { MAX_ROUNDS = 15 };
  double seconds[MAX_ROUNDS];
  int rounds = o->is_quick ? 3 : MAX_ROUNDS;
  WEFT_RETURN_IF_ERROR(weft_bench_allreduce(RANKS, 16 << 20, rounds, seconds));
  qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
  *out_value = seconds[rounds / 2] * 1e3;
  return NULL;
}

weft_status_t *weft_bench_allreduce_fused(const weft_bench_options_t *o, double *out_value) {
  enum { MAX_ROUNDS = 21 };
  double seconds[2 * MAX_ROUNDS], each[2][MAX_ROUNDS];
  int rounds = o->is_quick ? 3 : MAX_ROUNDS;
  allreduce_bench_t j = {.size = RANKS, .rounds = rounds};
  WEFT_RETURN_IF_ERROR(run(&j, seconds, (size_t)rounds * 2));
  for (int r = 0; r < rounds * 2; r++) each[r % 2][r / 2] = seconds[r]; /* fused, one by one */
  for (int k = 0; k < 2; k++) qsort(each[k], (size_t)rounds, sizeof(double), compare);
  *out_value = each[1][rounds / 2] / each[0][rounds / 2];
  return NULL;
}
