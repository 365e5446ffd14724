/* server/pmi.c - PMI version 1, the protocol between a process of an MPI run and its process manager.
 *
 * Requests and answers are lines of words NAME=VALUE, the first of which is cmd=WHAT; one answer for each
 * request. The manager keeps a table that all ranks write to and, behind a barrier, read from. Hydra (MPICH,
 * Intel MPI) and others speak it.
 *
 * Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems"
 * (2010); the lines are those of Hydra's `pmi_version=1`, with which tests/cluster/launchers.py runs it.
 */
#include "server/pmi.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum { MAX_LINE = 4096, MAX_HOST = 255 };

typedef struct pmi {
  int fd;
  char line[MAX_LINE];
  char table[MAX_LINE / 4]; /* the name of the run's table */
} pmi_t;

#define ADVICE "; use Open MPI's mpirun, or --cluster"

static weft_status_t *send_line(const pmi_t *p, const char *text, size_t length) {
  while (length > 0) {
    ssize_t n = send(p->fd, text, length, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return WEFT_ERROR(FAILED_PRECONDITION, "cannot write to the process manager at PMI_FD: %s" ADVICE,
                        strerror(errno));
    text += n;
    length -= (size_t)n;
  }
  return NULL;
}

/* The next line into p->line, without its end. Byte by byte: what follows it is another answer. */
static weft_status_t *read_line(pmi_t *p) {
  size_t length = 0;
  for (;;) {
    char c;
    ssize_t n = read(p->fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || length + 1 == sizeof p->line)
      return WEFT_ERROR(FAILED_PRECONDITION, "the process manager at PMI_FD %s" ADVICE,
                        n < 0    ? strerror(errno)
                        : n == 0 ? "has closed the connection: did another rank end?"
                                 : "sends a line that is too long");
    if (c == '\n') break;
    p->line[length++] = c;
  }
  p->line[length] = '\0';
  return NULL;
}

/* The value of that name in the line; data NULL if there is none. */
static weft_str_t value_of(const pmi_t *p, const char *name) {
  weft_str_t rest = weft_str(p->line);
  while (rest.data != NULL) {
    weft_str_t word = rest, tail = {NULL, 0}, key, value;
    (void)weft_str_split(rest, ' ', &word, &tail);
    if (weft_str_split(word, '=', &key, &value) && weft_str_is(key, name)) return value;
    rest = tail;
  }
  return (weft_str_t){NULL, 0};
}

/* Sends `request`, whose line's end is added, and reads the answer, which is cmd=`expected` and no failure.
 */
static weft_status_t *ask(pmi_t *p, const char *request, const char *expected) {
  char text[MAX_LINE];
  int n = snprintf(text, sizeof text, "%s\n", request);
  if (n >= (int)sizeof text) return WEFT_ERROR(FAILED_PRECONDITION, "a request of PMI is too long" ADVICE);
  WEFT_RETURN_IF_ERROR(send_line(p, text, (size_t)n));
  WEFT_RETURN_IF_ERROR(read_line(p));
  weft_str_t rc = value_of(p, "rc");
  if (weft_str_is(value_of(p, "cmd"), expected) && (rc.data == NULL || weft_str_is(rc, "0"))) return NULL;
  return WEFT_ERROR(FAILED_PRECONDITION, "the process manager answers '%.200s' to '%.200s'" ADVICE, p->line,
                    request);
}

static weft_status_t *open_table(pmi_t *p) {
  WEFT_RETURN_IF_ERROR(ask(p, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"));
  WEFT_RETURN_IF_ERROR(ask(p, "cmd=get_my_kvsname", "my_kvsname"));
  weft_str_t name = value_of(p, "kvsname");
  if (name.length == 0 || name.length >= sizeof p->table)
    return WEFT_ERROR(FAILED_PRECONDITION, "the process manager gives no table: '%.200s'" ADVICE, p->line);
  memcpy(p->table, name.data, name.length);
  p->table[name.length] = '\0';
  return NULL;
}

static weft_status_t *put_own(pmi_t *p, int rank, const weft_rank_place_t *own) {
  char request[MAX_LINE];
  (void)snprintf(request, sizeof request, "cmd=put kvsname=%s key=weft-place-%d value=%.*s/%d", p->table,
                 rank, WEFT_STR_ARGS(own->host), own->local);
  return ask(p, request, "put_result");
}

static weft_status_t *get_place(pmi_t *p, int rank, int num_ranks, weft_arena_t *arena,
                                weft_rank_place_t *out) {
  char request[MAX_LINE];
  uint64_t local;
  weft_str_t host, number;
  (void)snprintf(request, sizeof request, "cmd=get kvsname=%s key=weft-place-%d", p->table, rank);
  WEFT_RETURN_IF_ERROR(ask(p, request, "get_result"));
  if (!weft_str_split(value_of(p, "value"), '/', &host, &number) || host.length == 0 ||
      host.length > MAX_HOST || !weft_str_to_u64(number, &local) || local >= (uint64_t)num_ranks)
    return WEFT_ERROR(FAILED_PRECONDITION, "rank %d says of its place '%.200s'" ADVICE, rank, p->line);
  *out = (weft_rank_place_t){weft_arena_str(arena, host), (int)local};
  return out->host.data == NULL ? WEFT_NO_MEMORY("the places of ranks") : NULL;
}

weft_status_t *weft_pmi_places(int fd, int rank, const weft_rank_place_t *own, int num_ranks,
                               weft_arena_t *arena, weft_rank_place_t *out) {
  pmi_t p = {.fd = fd};
  struct stat what;
  if (fstat(fd, &what) != 0 || !S_ISSOCK(what.st_mode))
    return WEFT_ERROR(FAILED_PRECONDITION, "PMI_FD is %d, which is no connection to a process manager" ADVICE,
                      fd);
  weft_status_t *s = open_table(&p);
  if (s == NULL) s = put_own(&p, rank, own);
  if (s == NULL) s = ask(&p, "cmd=barrier_in", "barrier_out");
  for (int i = 0; s == NULL && i < num_ranks; i++) s = get_place(&p, i, num_ranks, arena, &out[i]);
  if (s == NULL) s = ask(&p, "cmd=finalize", "finalize_ack");
  (void)close(fd);
  return s;
}
