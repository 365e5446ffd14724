/* Bytes and files that no client sends over the socket of a server of this host. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/local_link.h"
#include "rpc/local_ring.h"
#include "tests/rpc/rpc_testing.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

typedef struct raw_head {
  uint16_t kind, code;
  uint8_t is_answered, is_in_file;
  uint16_t text_bytes;
  uint64_t id, message_bytes, behind;
} raw_head_t;
enum { HEAD_BYTES = sizeof(raw_head_t) };
enum { CALL = 1, ANSWER, FAILURE, CANCEL, PING, PONG, RING_FILE };

static void setup(weft_test_rpc_t *f) {
  weft_test_rpc_setup(f);
  weft_test_become_near(f);
}

/* The name of the server's socket, as any process of this user may learn it. */
static bool ask_name(weft_test_rpc_t *f, const char *version, char *out, size_t size) {
  char text[200];
  weft_message_t *m;
  weft_str_t name = {NULL, 0};
  snprintf(text, sizeof text, "%s%.*s", version, WEFT_STR_ARGS(weft_local_link_host()));
  weft_status_t *s = weft_test_ask(f, "/weft.LocalService/Introduce", weft_str(text), NULL, &m);
  if (s == NULL) s = weft_message_flatten(m, &name);
  snprintf(out, size, "%.*s", WEFT_STR_ARGS(name));
  const bool ok = s == NULL && name.length > 0;
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

static int connect_raw(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
  close(fd);
  return -1;
}

static void bytes_that_are_no_packet_end_their_connection_only(void) {
  weft_test_rpc_t f;
  setup(&f);
  char name[100], other[100];
  CU_ASSERT_FALSE(ask_name(&f, "0 ", other, sizeof other)); /* what speaks otherwise is told nothing */
  CU_ASSERT_FALSE(ask_name(&f, "2 ", other, sizeof other));
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  unsigned seed = 1;
  for (int round = 0; round < 300; round++) {
    unsigned char bytes[300];
    int fd = connect_raw(name);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    const size_t n = 1 + (size_t)round % sizeof bytes;
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    if (round % 2 == 0 && n > HEAD_BYTES) { /* a head that is nearly right */
      memset(bytes, 0, HEAD_BYTES);
      bytes[0] = (unsigned char)(round % 8);
      bytes[5] = (unsigned char)(round / 8 % 3); /* its bytes are in a file that is not there */
      bytes[6] = (unsigned char)(round / 2);
      bytes[16] = (unsigned char)(n - HEAD_BYTES);
      bytes[22] = (unsigned char)(round % 5 == 0 ? 255 : 0);
    }
    CU_ASSERT_EQUAL(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    if (round % 3 == 0) { /* it hears of it, or gets an answer to a call that happened to be one */
      shutdown(fd, SHUT_WR);
      while (recv(fd, bytes, sizeof bytes, 0) > 0) {
      }
    }
    close(fd);
  }
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f);
}

/* A head, a path, and a file. */
static bool send_raw(int fd, const raw_head_t *head, int file) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  char path[] = ECHO;
  struct iovec pieces[2] = {{(void *)(uintptr_t)head, sizeof *head}, {path, head->text_bytes}};
  struct msghdr m = {.msg_iov = pieces,
                     .msg_iovlen = 2,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  memset(&control, 0, sizeof control);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(c), &file, sizeof file);
  return sendmsg(fd, &m, MSG_NOSIGNAL) > 0;
}

/* A call of ECHO whose bytes are in `file`, of which it says that it has `bytes`. */
static bool send_file(int fd, int file, uint64_t bytes) {
  const raw_head_t head = {
      .kind = CALL, .is_in_file = 1, .text_bytes = sizeof ECHO - 1, .id = 7, .message_bytes = bytes};
  return send_raw(fd, &head, file);
}

/* A connection with rings, which the server reads when this returns. */
static weft_local_rings_t *connect_rings(const char *name, int *out_fd) {
  const int fd = connect_raw(name);
  weft_local_rings_t *r = weft_local_rings_create();
  CU_ASSERT_TRUE_FATAL(fd >= 0 && r != NULL);
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) {
    const raw_head_t head = {.kind = RING_FILE, .code = (uint16_t)i};
    CU_ASSERT_TRUE(send_raw(fd, &head, weft_local_rings_file(r, i)));
  }
  raw_head_t ping = {.kind = PING}, pong = {.kind = 0};
  CU_ASSERT_EQUAL(send(fd, &ping, sizeof ping, MSG_NOSIGNAL), (ssize_t)sizeof ping);
  CU_ASSERT_EQUAL(recv(fd, &pong, sizeof pong, 0),
                  (ssize_t)sizeof pong); /* this end does not read its ring */
  CU_ASSERT_EQUAL(pong.kind, PONG);
  *out_fd = fd;
  return r;
}

static bool put_raw(weft_local_rings_t *r, const raw_head_t *head, const char *path) {
  const struct iovec pieces[2] = {{(void *)(uintptr_t)head, sizeof *head},
                                  {(void *)(uintptr_t)path, head->text_bytes}};
  return weft_local_rings_put(r, pieces, 2);
}

static void packets_in_a_ring_are_held_to_the_same_rules(void) {
  static const struct {
    raw_head_t head;
    bool is_refused;
  } cases[] = {{{.kind = CALL, .text_bytes = sizeof ECHO - 1, .id = 1}, false},
               {{.kind = PING}, false},
               {{.kind = 0}, true},
               {{.kind = ANSWER, .id = 1}, true},
               {{.kind = RING_FILE}, true},
               {{.kind = CALL, .text_bytes = sizeof ECHO - 1, .message_bytes = 1}, true},
               {{.kind = CALL, .text_bytes = sizeof ECHO - 1, .is_in_file = 1, .message_bytes = 10}, true}};
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    raw_head_t answer = {.kind = 0};
    int fd;
    weft_local_rings_t *r = connect_rings(name, &fd);
    CU_ASSERT_TRUE(put_raw(r, &cases[i].head, ECHO));
    CU_ASSERT_EQUAL(recv(fd, &answer, sizeof answer, 0) > 0, !cases[i].is_refused);
    weft_local_rings_destroy(r);
    close(fd);
  }
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f);
}

static void files_of_rings_come_in_order_and_first(void) {
  static const struct {
    uint16_t codes[4];
    int n;
    bool is_refused;
  } cases[] = {{{0, 1, 2}, 3, false}, /* one that is not what it should be: the socket remains */
               {{0, 1}, 2, false},    /* the next packet ends the offer */
               {{0}, 0, false},       {{1, 2, 0}, 3, true}, {{0, 1, 1}, 3, true}, {{0, 1, 2, 3}, 4, true}};
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int fd = connect_raw(name), file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    raw_head_t head = {.kind = RING_FILE}, ping = {.kind = PING};
    for (int k = 0; k < cases[i].n; k++) {
      head.code = cases[i].codes[k];
      (void)send_raw(fd, &head, file);
    }
    (void)send(fd, &ping, sizeof ping, MSG_NOSIGNAL);
    CU_ASSERT_EQUAL(recv(fd, &ping, sizeof ping, 0) > 0, !cases[i].is_refused);
    if (!cases[i].is_refused) { /* it is too late for rings now */
      head.code = 0;
      CU_ASSERT_TRUE(send_raw(fd, &head, file));
      CU_ASSERT_EQUAL(recv(fd, &ping, sizeof ping, 0), 0);
    }
    close(file);
    close(fd);
  }
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f);
}

/* A packet may overtake another one that goes the other way: the ring, or the socket. */
static void a_call_that_was_cancelled_before_it_came_ends(void) {
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  struct {
    raw_head_t head;
    char path[sizeof HOLD - 1];
  } call = {.head = {.kind = CALL, .text_bytes = sizeof HOLD - 1, .id = 5}};
  memcpy(call.path, HOLD, sizeof call.path);
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  const int fd = connect_raw(name);
  const raw_head_t cancel = {.kind = CANCEL, .id = 5};
  raw_head_t answer = {.kind = 0};
  CU_ASSERT_EQUAL(send(fd, &cancel, sizeof cancel, MSG_NOSIGNAL), (ssize_t)sizeof cancel);
  const size_t bytes = sizeof call.head + sizeof call.path; /* without what follows the path in memory */
  CU_ASSERT_EQUAL(send(fd, &call, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 1));
  CU_ASSERT_TRUE(recv(fd, &answer, sizeof answer, 0) > 0);
  CU_ASSERT_EQUAL(answer.kind, FAILURE);
  CU_ASSERT_EQUAL(answer.id, 5);
  close(fd);
  weft_test_rpc_teardown(&f);
}

typedef struct two_ways {
  int fd;
  weft_local_rings_t *rings;
} two_ways_t;

/* Through the ring, or over the socket. */
static void say(const two_ways_t *w, bool in_ring, const raw_head_t *head, const char *path) {
  struct iovec pieces[2] = {{(void *)(uintptr_t)head, sizeof *head},
                            {(void *)(uintptr_t)path, head->text_bytes}};
  const struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2};
  if (in_ring) {
    CU_ASSERT_TRUE(weft_local_rings_put(w->rings, pieces, 2));
  } else {
    CU_ASSERT_TRUE(sendmsg(w->fd, &m, MSG_NOSIGNAL) > 0);
  }
}

static raw_head_t hear(const two_ways_t *w) {
  raw_head_t head = {.kind = 0};
  CU_ASSERT_TRUE(recv(w->fd, &head, sizeof head, 0) > 0);
  return head;
}

/* A large call goes over the socket where the cancellation before it goes through the ring, and one that
 * finds room in the ring again passes those that found none. */
static void a_call_waits_for_the_cancellations_of_the_other_way(void) {
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  for (int round = 0; round < 40; round++) {
    const bool in_ring = round % 2 == 0; /* of the call that waits */
    const uint64_t num_before = 1 + (uint64_t)round % 3;
    two_ways_t w;
    w.rings = connect_rings(name, &w.fd);
    for (uint64_t i = 1; i <= num_before; i++)
      say(&w, !in_ring, &(raw_head_t){.kind = CALL, .text_bytes = sizeof HOLD - 1, .id = i}, HOLD);
    say(&w, in_ring,
        &(raw_head_t){.kind = CALL, .text_bytes = sizeof ECHO - 1, .id = 9, .behind = num_before}, ECHO);
    say(&w, in_ring, &(raw_head_t){.kind = PING}, "");
    CU_ASSERT_EQUAL(hear(&w).kind, PONG); /* the call was taken, and is not answered */
    for (uint64_t i = 1; i <= num_before; i++) {
      say(&w, !in_ring, &(raw_head_t){.kind = CANCEL, .id = i}, "");
      const raw_head_t failure = hear(&w);
      CU_ASSERT_TRUE(failure.kind == FAILURE && failure.id == i);
    }
    const raw_head_t answer = hear(&w);
    CU_ASSERT_TRUE(answer.kind == ANSWER && answer.id == 9);
    weft_local_rings_destroy(w.rings);
    close(w.fd);
  }
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f);
}

/* It ends with its connection, and holds up nothing else: neither calls that wait for nothing nor a server
 * that stops. */
static void a_call_that_waits_for_ever_holds_up_no_other(void) {
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  two_ways_t w[2];
  for (int i = 0; i < 2; i++) {
    w[i].rings = connect_rings(name, &w[i].fd);
    for (int way = 0; way < 2; way++) {
      say(&w[i], way == 0,
          &(raw_head_t){.kind = CALL, .text_bytes = sizeof ECHO - 1, .id = 1, .behind = UINT64_MAX}, ECHO);
      say(&w[i], way == 0, &(raw_head_t){.kind = CALL, .text_bytes = sizeof ECHO - 1, .id = 2}, ECHO);
      const raw_head_t answer = hear(&w[i]);
      CU_ASSERT_TRUE(answer.kind == ANSWER && answer.id == 2);
    }
  }
  weft_local_rings_destroy(w[0].rings);
  close(w[0].fd);
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f); /* while w[1] waits */
  weft_local_rings_destroy(w[1].rings);
  close(w[1].fd);
}

/* A file that could still change, or is shorter than its packet says, is refused: reading it could end the
 * process. */
static void files_are_taken_only_when_they_are_sealed(void) {
  enum { BYTES = 100000 };
  static const struct {
    int seals;
    uint64_t said;
    bool is_taken;
  } cases[] = {{F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, BYTES, true},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, BYTES + 1, false},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, UINT64_MAX, false},
               {F_SEAL_SHRINK | F_SEAL_GROW, BYTES, false},
               {0, BYTES, false}};
  weft_test_rpc_t f;
  setup(&f);
  char name[100];
  static char bytes[BYTES];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "3 ", name, sizeof name));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int fd = connect_raw(name), file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_EQUAL(write(file, bytes, BYTES), (ssize_t)BYTES);
    if (cases[i].seals != 0) CU_ASSERT_EQUAL(fcntl(file, F_ADD_SEALS, cases[i].seals), 0);
    CU_ASSERT_TRUE(send_file(fd, file, cases[i].said));
    CU_ASSERT_EQUAL(recv(fd, bytes, sizeof bytes, 0) > 0, cases[i].is_taken);
    close(file);
    close(fd);
  }
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_rpc_teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"bytes that are no packet end their connection only",
     bytes_that_are_no_packet_end_their_connection_only},
    {"files are taken only when they are sealed", files_are_taken_only_when_they_are_sealed},
    {"packets in a ring are held to the same rules", packets_in_a_ring_are_held_to_the_same_rules},
    {"files of rings come in order and first", files_of_rings_come_in_order_and_first},
    {"a call that was cancelled before it came ends", a_call_that_was_cancelled_before_it_came_ends},
    {"a call waits for the cancellations of the other way",
     a_call_waits_for_the_cancellations_of_the_other_way},
    {"a call that waits for ever holds up no other", a_call_that_waits_for_ever_holds_up_no_other},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("local_packet", tests); }
