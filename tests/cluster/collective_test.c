/* tests/cluster/collective_test.c - collectives between real processes: results, bytes on the wire, and the
 * death of a rank.
 *
 * A rank is this program itself, started with --rank: it makes one primitive over
 * and over, prints a line for each round, and when one fails, a line with the code and
 * the message. Reference: T-COL-2, T-COL-4.
 */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/pace.h"
#include "tests/runner.h"
#include "weft/collective.h"

enum { MAX_RANKS = 4, COUNT = 300000, LINE = 1024, DEADLINE_MS = 60000 };

/* ---- a rank ---- */

typedef struct arguments {
  int rank, size, rounds;
  const char *kind, *algorithm;
  const char *addresses[MAX_RANKS], *other_addresses[MAX_RANKS];
} arguments_t;

static TF_Tensor *new_tensor(int64_t count, int rank) {
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, &count, 1, (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) ((float *)TF_TensorData(t))[i] = (float)(rank + 1 + i % 5);
  return t;
}

static float at(const TF_Tensor *t, int64_t i) { return ((const float *)TF_TensorData(t))[i]; }

/* Elements of a tensor: COUNT, or what a test has said for its ranks. */
static int64_t count_of_ranks(void) {
  const char *text = getenv("WEFT_TEST_COUNT");
  return text == NULL ? COUNT : atoi(text);
}

/* One round; false if the result is wrong. */
static bool run_once(WEFT_CollectiveGroup *g, const arguments_t *a, TF_Status *s) {
  int n = WEFT_CollectiveSize(g), rank = WEFT_CollectiveRank(g), root = n - 1;
  WEFT_CollectiveHints hints = {.algorithm = a->algorithm};
  int64_t count = count_of_ranks() / n * n;
  float sum = (float)(n * (n + 1) / 2);
  TF_Tensor *in = new_tensor(strcmp(a->kind, "scatter") == 0 && rank != root ? count / n : count, rank),
            *out = NULL;
  bool ok = true, has_result = true;
  if (strcmp(a->kind, "all_reduce") == 0) {
    out = WEFT_AllReduce(g, in, WEFT_REDUCTION_SUM, &hints, s);
    for (int64_t i = 0; out != NULL && i < count; i++)
      ok = ok && at(out, i) == sum + (float)(n * (int)(i % 5));
  } else if (strcmp(a->kind, "reduce") == 0) {
    out = WEFT_Reduce(g, in, WEFT_REDUCTION_MAX, root, &hints, s);
    has_result = rank == root;
    ok = out == NULL || at(out, count - 1) == (float)(n + (count - 1) % 5);
  } else if (strcmp(a->kind, "reduce_scatter") == 0) {
    out = WEFT_ReduceScatter(g, in, WEFT_REDUCTION_SUM, &hints, s);
    ok = out == NULL || at(out, 0) == sum + (float)(n * (int)(rank * (count / n) % 5));
  } else if (strcmp(a->kind, "all_gather") == 0) {
    out = WEFT_AllGather(g, in, &hints, s);
    for (int r = 0; out != NULL && r < n; r++) ok = ok && at(out, r * count) == (float)(r + 1);
  } else if (strcmp(a->kind, "gather") == 0) {
    out = WEFT_Gather(g, in, root, &hints, s);
    has_result = rank == root;
    for (int r = 0; out != NULL && r < n; r++) ok = ok && at(out, r * count) == (float)(r + 1);
  } else if (strcmp(a->kind, "broadcast") == 0) {
    out = WEFT_Broadcast(g, in, root, &hints, s);
    ok = out == NULL || (at(out, 0) == (float)n && at(out, count - 1) == (float)(n + (count - 1) % 5));
  } else if (strcmp(a->kind, "scatter") == 0) {
    out = WEFT_Scatter(g, in, root, &hints, s);
    ok = out == NULL || at(out, 0) == (float)(n + rank * (count / n) % 5);
  } else if (strcmp(a->kind, "all_to_all") == 0) {
    out = WEFT_AllToAll(g, in, NULL, &hints, s);
    for (int r = 0; out != NULL && r < n; r++)
      ok = ok && at(out, r * (count / n)) == (float)(r + 1 + rank * (count / n) % 5);
  } else {
    WEFT_Barrier(g, &hints, s);
    has_result = false;
  }
  if (TF_GetCode(s) == TF_OK) ok = ok && has_result == (out != NULL);
  TF_DeleteTensor(in);
  if (out != NULL) TF_DeleteTensor(out);
  return ok;
}

static void print_counts(WEFT_CollectiveGroup *g) {
  WEFT_TransportCount counts[32];
  int n = WEFT_TransportCounters(g, counts, 32);
  for (int i = 0; i < n && i < 32; i++) {
    if (strcmp(counts[i].traffic, "collective") != 0) continue;
    printf("from %s %lld %lld\n", strrchr(counts[i].source, ':') + 1, (long long)counts[i].messages,
           (long long)counts[i].bytes);
  }
}

/* Ends this process as the test has said, at once: its peers may not have read what it gave. */
static void end_process(const char *how) {
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "_exit") == 0) _exit(0);
  kill(getpid(), SIGKILL);
}

static int be_rank(const arguments_t *a) {
  const char *end = getenv("WEFT_TEST_END");
  TF_Status *s = TF_NewStatus();
  WEFT_CollectiveGroupOptions o = {.timeout_ms = 15000, .only_rpc = getenv("WEFT_TEST_ONLY_RPC") != NULL};
  WEFT_CollectiveGroup *g = WEFT_NewCollectiveGroup(a->rank, a->size, a->addresses, &o, s);
  if (g == NULL) printf("error %d %s\n", (int)TF_GetCode(s), TF_Message(s));
  for (int i = 0; g != NULL && (a->rounds <= 0 || i < a->rounds); i++) {
    bool ok = run_once(g, a, s);
    if (TF_GetCode(s) != TF_OK) {
      char text[800]; /* on one line */
      snprintf(text, sizeof text, "%s", TF_Message(s));
      for (char *p = text; *p != '\0'; p++) *p = *p == '\n' ? ' ' : *p;
      printf("error %d %s\n", (int)TF_GetCode(s), text);
      break;
    }
    printf(ok ? "round\n" : "wrong\n");
    fflush(stdout);
    if (end != NULL && i + 1 == a->rounds) end_process(end);
  }
  fflush(stdout);
  if (a->rounds > 0) {
    print_counts(g);
    WEFT_Barrier(g, NULL, s); /* no rank leaves before all are done */
  }
  if (a->rounds < 0) { /* leaves at once: as a trainer that fails does */
    WEFT_DeleteCollectiveGroup(g);
    TF_DeleteStatus(s);
    return 0;
  }
  if (a->rounds == 0) { /* stays until all have reported: a rank that departs counts as lost */
    char go;
    (void)!read(0, &go, 1);
  }
  WEFT_DeleteCollectiveGroup(g);
  if (a->rounds == 0) { /* the last rank is dead: the others go on as a group of their own */
    arguments_t b = *a;
    b.size--;
    g = WEFT_NewCollectiveGroup(b.rank, b.size, b.other_addresses, &o, s);
    bool ok = g != NULL && run_once(g, &b, s) && TF_GetCode(s) == TF_OK;
    if (ok) WEFT_Barrier(g, NULL, s);
    printf(ok ? "again\n" : "not again: %s\n", TF_Message(s));
    WEFT_DeleteCollectiveGroup(g);
  }
  TF_DeleteStatus(s);
  return 0;
}

static int parse_and_be_rank(char **argv) {
  arguments_t a = {.rank = atoi(argv[2]),
                   .size = atoi(argv[3]),
                   .rounds = atoi(argv[4]),
                   .kind = argv[5],
                   .algorithm = argv[6]};
  for (int i = 0; i < a.size; i++) a.addresses[i] = argv[7 + i];
  for (int i = 0; i < a.size; i++) a.other_addresses[i] = argv[7 + a.size + i];
  return be_rank(&a);
}

/* ---- the ranks of a test ---- */

typedef struct rank {
  pid_t pid;
  FILE *out;
  int go; /* closed when it may leave */
} rank_t;
typedef struct ranks {
  int size;
  rank_t all[MAX_RANKS];
} ranks_t;

static void start(ranks_t *r, int size, int rounds, const char *kind, const char *algorithm) {
  char texts[2 * MAX_RANKS][32], numbers[3][16];
  memset(r, 0, sizeof *r);
  r->size = size;
  for (int i = 0; i < 2 * size; i++)
    snprintf(texts[i], sizeof texts[i], "127.0.0.1:%d", weft_test_free_port());
  fflush(stdout);
  for (int i = 0; i < size; i++) {
    int pipes[2], go[2];
    char self[] = "/proc/self/exe", mode[] = "--rank";
    bool has_pipes = pipe(pipes) == 0 && pipe(go) == 0;
    CU_ASSERT_TRUE_FATAL(has_pipes);
    fcntl(go[1], F_SETFD, FD_CLOEXEC);
    snprintf(numbers[0], sizeof numbers[0], "%d", i);
    snprintf(numbers[1], sizeof numbers[1], "%d", size);
    snprintf(numbers[2], sizeof numbers[2], "%d", rounds);
    char *argv[8 + 2 * MAX_RANKS] = {
        self, mode, numbers[0], numbers[1], numbers[2], (char *)(size_t)kind, (char *)(size_t)algorithm};
    for (int k = 0; k < 2 * size; k++) argv[7 + k] = texts[k];
    r->all[i].pid = fork();
    if (r->all[i].pid == 0) {
      dup2(pipes[1], 1);
      dup2(go[0], 0);
      close(pipes[0]);
      close(pipes[1]);
      execv(self, argv);
      _exit(127);
    }
    close(pipes[1]);
    close(go[0]);
    r->all[i].go = go[1];
    fcntl(pipes[0], F_SETFD, FD_CLOEXEC);
    r->all[i].out = fdopen(pipes[0], "r");
    setvbuf(r->all[i].out, NULL, _IONBF, 0); /* poll must see what is left */
  }
}

static void stop(ranks_t *r) {
  for (int i = 0; i < r->size; i++) {
    if (r->all[i].pid > 0) kill(r->all[i].pid, SIGKILL);
    if (r->all[i].pid > 0) waitpid(r->all[i].pid, NULL, 0);
    fclose(r->all[i].out);
    if (r->all[i].go >= 0) close(r->all[i].go);
  }
}

/* The next line that begins so; false (and a failed test) if it does not come in time. */
static bool read_line(ranks_t *r, int i, const char *beginning, char *line) {
  int64_t deadline = weft_clock_ns() + (int64_t)DEADLINE_MS * 1000000;
  for (;;) {
    struct pollfd p = {.fd = fileno(r->all[i].out), .events = POLLIN};
    int64_t left = (deadline - weft_clock_ns()) / 1000000;
    bool ok = left > 0 && poll(&p, 1, (int)left) > 0 && fgets(line, LINE, r->all[i].out) != NULL;
    if (ok && strncmp(line, beginning, strlen(beginning)) == 0) return true;
    bool is_bad = !ok || strncmp(line, "wrong", 5) == 0 || strncmp(line, "not", 3) == 0 ||
                  (strncmp(line, "error", 5) == 0 && strcmp(beginning, "error") != 0);
    if (!is_bad) continue;
    fprintf(stderr, "rank %d: waiting for '%s', got %s\n", i, beginning, ok ? line : "nothing");
    CU_FAIL("a rank did not say what it should");
    return false;
  }
}

/* ---- tests ---- */

static const char *const kinds[] = {"all_reduce", "reduce",  "reduce_scatter", "all_gather", "gather",
                                    "broadcast",  "scatter", "all_to_all",     "barrier"};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] };

/* T-COL-4: kills the last rank while all are at it. */
static void let_go(ranks_t *r) {
  for (int i = 0; i < 2; i++) {
    if (r->all[i].go >= 0) close(r->all[i].go);
    r->all[i].go = -1;
  }
}

static void kill_one(const char *kind, const char *algorithm) {
  ranks_t r;
  char line[LINE];
  start(&r, 3, 0, kind, algorithm);
  bool ok = true;
  for (int i = 0; i < 3 && ok; i++) {
    for (int k = 0; k < 3 && ok; k++) ok = read_line(&r, i, "round", line);
  }
  kill(r.all[2].pid, SIGKILL);
  int64_t killed = weft_clock_ns();
  for (int i = 0; i < 2 && ok; i++) {
    ok = read_line(&r, i, "error", line);
    if (!ok) continue;
    bool is_named =
        strncmp(line, "error 14 ", 9) == 0 && strstr(line, "/job:worker/replica:0/task:2") != NULL;
    if (!is_named) fprintf(stderr, "%s, rank %d: %s", kind, i, line);
    CU_ASSERT_TRUE(is_named);
  }
  CU_ASSERT_TRUE(weft_test_is_within(killed, 1000));
  let_go(&r);
  for (int i = 0; i < 2 && ok; i++) ok = read_line(&r, i, "again", line);
  stop(&r);
}

static void a_killed_rank_is_named_by_all_others_in_each_primitive(void) {
  for (int i = 0; i < NUM_KINDS; i++) kill_one(kinds[i], "auto");
}
/* By posts: in one round and in two; and without posts. */
static void a_killed_rank_is_named_by_all_others_with_few_bytes(void) {
  setenv("WEFT_TEST_COUNT", "9000", 1);
  for (int i = 0; i < NUM_KINDS; i++) kill_one(kinds[i], "auto");
  setenv("WEFT_TEST_COUNT", "90000", 1);
  for (int i = 0; i < 3; i++) kill_one("all_reduce", "auto");
  setenv("WEFT_TEST_COUNT", "9000", 1);
  setenv("WEFT_SHARED_COLLECTIVES", "0", 1);
  for (int i = 0; i < 3; i++) kill_one(kinds[i], "auto");
  unsetenv("WEFT_SHARED_COLLECTIVES");
  unsetenv("WEFT_TEST_COUNT");
}
static void a_killed_rank_is_named_with_each_algorithm(void) {
  static const char *const algorithms[] = {"ring", "tree", "halving_doubling", "hierarchical", "direct"};
  for (int i = 0; i < 5; i++) kill_one("all_reduce", algorithms[i]);
}
static void a_killed_rank_is_named_by_rpc(void) {
  setenv("WEFT_TEST_ONLY_RPC", "1", 1);
  kill_one("all_reduce", "ring");
  kill_one("broadcast", "tree");
  unsetenv("WEFT_TEST_ONLY_RPC");
}

/* All others leave as soon as they have failed: none of them is taken for the cause. */
static void leave_after_loss(const char *kind, const char *algorithm) {
  enum { RANKS = 4, DEAD = 3 };
  ranks_t r;
  char line[LINE];
  start(&r, RANKS, -1, kind, algorithm);
  bool ok = true;
  for (int i = 0; i < RANKS && ok; i++) {
    for (int k = 0; k < 3 && ok; k++) ok = read_line(&r, i, "round", line);
  }
  kill(r.all[DEAD].pid, SIGKILL);
  for (int i = 0; i < DEAD && ok; i++) {
    ok = read_line(&r, i, "error", line);
    if (!ok) continue;
    const char *first = strstr(line, "/job:worker/replica:0/task:");
    bool is_named = strncmp(line, "error 14 ", 9) == 0 && first != NULL &&
                    strncmp(first, "/job:worker/replica:0/task:3", 28) == 0;
    if (!is_named) fprintf(stderr, "%s, rank %d: %s", kind, i, line);
    CU_ASSERT_TRUE(is_named);
  }
  stop(&r);
}
static void a_rank_that_departs_after_a_loss_is_not_the_cause(void) {
  for (int i = 0; i < NUM_KINDS; i++) leave_after_loss(kinds[i], "auto");
  setenv("WEFT_TEST_COUNT", "9000", 1);
  for (int i = 0; i < NUM_KINDS; i++) leave_after_loss(kinds[i], "auto");
  unsetenv("WEFT_TEST_COUNT");
  leave_after_loss("broadcast", "tree");
  leave_after_loss("all_reduce", "ring");
}

/* All ranks end their processes right behind the last round: each has got its result nonetheless. The bytes
 * lie in memory that the peers have mapped, and a rank that is done has seen what all others have posted. */
static void end_behind(const char *kind, int size, int rounds, const char *end) {
  ranks_t r;
  char line[LINE];
  setenv("WEFT_TEST_END", end, 1);
  start(&r, size, rounds, kind, "auto");
  unsetenv("WEFT_TEST_END");
  bool ok = true;
  for (int k = 0; k < rounds * size && ok; k++) ok = read_line(&r, k / rounds, "round", line);
  if (!ok) fprintf(stderr, "%s of %d, then %s\n", kind, size, end);
  stop(&r);
}

static void ranks_may_end_right_behind_their_last_collective(void) {
  static const char *const ends[] = {"exit", "_exit", "kill"};
  for (int i = 0; i < 3 * NUM_KINDS; i++) {
    setenv("WEFT_TEST_COUNT", i % 2 == 0 ? "9000" : "90000", 1); /* an all-reduce in one round and in two */
    end_behind(kinds[i % NUM_KINDS], 2 + i % 3, 1 + i % 4, ends[i / NUM_KINDS]);
  }
  unsetenv("WEFT_TEST_COUNT");
}

static void check_all_primitives(void) {
  for (int i = 0; i < NUM_KINDS; i++) {
    for (int size = 1; size <= 4; size++) {
      ranks_t r;
      char line[LINE];
      start(&r, size, 2, kinds[i], "auto");
      bool ok = true;
      for (int k = 0; k < 2 * size && ok; k++) ok = read_line(&r, k / 2, "round", line);
      if (!ok) fprintf(stderr, "%s of %d\n", kinds[i], size);
      stop(&r);
    }
  }
}

static void all_primitives_are_right_between_processes(void) {
  static const char *const counts[] = {"9000", "90000", "300000"};
  for (int i = 0; i < 3; i++) {
    setenv("WEFT_TEST_COUNT", counts[i], 1);
    check_all_primitives();
  }
  setenv("WEFT_TEST_COUNT", counts[0], 1);
  setenv("WEFT_SHARED_COLLECTIVES", "0", 1); /* small ones as large ones */
  check_all_primitives();
  unsetenv("WEFT_SHARED_COLLECTIVES");
  unsetenv("WEFT_TEST_COUNT");
}

/* T-COL-2: what each rank sends in an all-reduce, within 1 % of 2(N-1)/N of the data. */
static void check_bytes(int size, const char *algorithm) {
  enum { ROUNDS = 2 };
  ranks_t r;
  char line[LINE];
  double sent[MAX_RANKS] = {0};
  start(&r, size, ROUNDS, "all_reduce", algorithm);
  bool ok = true;
  for (int i = 0; i < size && ok; i++) {
    for (int k = 0; k < ROUNDS && ok; k++) ok = read_line(&r, i, "round", line);
    while (ok && fgets(line, LINE, r.all[i].out) != NULL) {
      int from = 0;
      long long messages = 0, bytes = 0;
      if (sscanf(line, "from %d %lld %lld", &from, &messages, &bytes) == 3 && from >= 0 && from < size)
        sent[from] += (double)bytes;
    }
  }
  double wanted = ROUNDS * 2.0 * (size - 1) / size * (COUNT / size * size) * sizeof(float);
  for (int i = 0; i < size && ok; i++) {
    if (sent[i] < wanted * 0.99 || sent[i] > wanted * 1.01)
      fprintf(stderr, "%s, rank %d of %d sent %.0f, not %.0f\n", algorithm, i, size, sent[i], wanted);
    CU_ASSERT_TRUE(sent[i] >= wanted * 0.99 && sent[i] <= wanted * 1.01);
  }
  stop(&r);
}
static void an_all_reduce_sends_what_its_formula_says(void) {
  for (int size = 2; size <= 4; size++) {
    check_bytes(size, "ring");
    check_bytes(size, "direct");
  }
  check_bytes(4, "halving_doubling");
}

static const CU_TestInfo tests[] = {
    {"all primitives are right between processes", all_primitives_are_right_between_processes},
    {"an all-reduce sends what its formula says", an_all_reduce_sends_what_its_formula_says},
    {"a killed rank is named by all others in each primitive",
     a_killed_rank_is_named_by_all_others_in_each_primitive},
    {"a killed rank is named by all others with few bytes",
     a_killed_rank_is_named_by_all_others_with_few_bytes},
    {"a killed rank is named with each algorithm", a_killed_rank_is_named_with_each_algorithm},
    {"a killed rank is named by RPC", a_killed_rank_is_named_by_rpc},
    {"ranks may end right behind their last collective", ranks_may_end_right_behind_their_last_collective},
    {"a rank that departs after a loss is not the cause", a_rank_that_departs_after_a_loss_is_not_the_cause},
    CU_TEST_INFO_NULL,
};

int main(int argc, char **argv) {
  if (argc > 6 && strcmp(argv[1], "--rank") == 0) return parse_and_be_rank(argv);
  return weft_run_tests("collective", tests);
}
