/* tests/rpc/slow_reader_test.c - peers that call and do not read: what the server holds for them has a limit
 * and an end.
 *
 * The peer speaks HTTP/2 through a plain socket, so that it decides what it reads and what it lets the server
 * send.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/channel.h"
#include "rpc/server.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define BIG "/weft.Test/Big"

enum { ANSWER = 128 << 10, LIMIT = 1 << 20, TIMEOUT_MS = 300 };

typedef struct fixture {
  weft_rpc_client_t *client;
  weft_rpc_server_t *server;
  weft_rpc_channel_t *channel;
  size_t answer_bytes;
  weft_mutex_t mu;
  weft_cond_t changed;
  int num_answered, num_released, most_held; /* guarded by mu */
} fixture_t;

typedef struct answer {
  fixture_t *f;
  char bytes[];
} answer_t;

static void released(void *arg) {
  answer_t *a = arg;
  fixture_t *f = a->f;
  free(a);
  weft_mutex_lock(&f->mu);
  f->num_released++;
  weft_cond_broadcast(&f->changed);
  weft_mutex_unlock(&f->mu);
}

static void answer_big(void *arg, weft_rpc_call_t *call) {
  fixture_t *f = arg;
  weft_message_t *m = NULL;
  answer_t *a = calloc(1, sizeof *a + f->answer_bytes);
  a->f = f;
  weft_status_t *s = weft_message_create(&m);
  if (s == NULL) s = weft_message_share(m, a->bytes, f->answer_bytes, released, a);
  weft_status_free(s);
  weft_mutex_lock(&f->mu);
  f->num_answered++;
  const int held = f->num_answered - f->num_released;
  if (held > f->most_held) f->most_held = held;
  weft_mutex_unlock(&f->mu);
  weft_rpc_reply(call, m);
  weft_mutex_lock(&f->mu);
  weft_cond_broadcast(&f->changed);
  weft_mutex_unlock(&f->mu);
}

static bool wait_until(fixture_t *f, const int *count, int least) {
  const int64_t deadline = weft_clock_ns() + 20000000000;
  bool in_time = true;
  weft_mutex_lock(&f->mu);
  while (*count < least && in_time) in_time = weft_cond_wait_until(&f->changed, &f->mu, deadline);
  const bool reached = *count >= least;
  weft_mutex_unlock(&f->mu);
  return reached;
}

static void setup(fixture_t *f, size_t answer_bytes, size_t limit, int timeout_ms) {
  memset(f, 0, sizeof *f);
  f->answer_bytes = answer_bytes;
  weft_mutex_init(&f->mu);
  weft_cond_init(&f->changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->client));
  const weft_rpc_server_options_t o = {
      .host = "127.0.0.1", .client = f->client, .max_unread_bytes = limit, .unread_timeout_ms = timeout_ms};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_handle(f->server, BIG, answer_big, f, NULL));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(f->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f->client, weft_str(target), &f->channel));
}

static void teardown(fixture_t *f) {
  weft_rpc_channel_release(f->channel);
  weft_rpc_server_destroy(f->server);
  weft_rpc_client_destroy(f->client);
  weft_cond_deinit(&f->changed);
  weft_mutex_deinit(&f->mu);
}

/* ---- HTTP/2 by hand ---- */

enum {
  DATA = 0,
  HEADERS = 1,
  RST_STREAM = 3,
  SETTINGS = 4,
  PING = 6,
  WINDOW_UPDATE = 8,
  END_STREAM = 1,
  END_HEADERS = 4,
  ACK = 1
};

static void send_frame(int fd, int type, int flags, uint32_t stream, const void *payload, size_t n) {
  unsigned char frame[512] = {
      (unsigned char)(n >> 16),      (unsigned char)(n >> 8),      (unsigned char)n,
      (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
      (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
  CU_ASSERT_FATAL(n <= sizeof frame - 9);
  if (n > 0) memcpy(frame + 9, payload, n);
  CU_ASSERT_EQUAL(send(fd, frame, n + 9, MSG_NOSIGNAL), (ssize_t)n + 9);
}

static int dial(const fixture_t *f) {
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)weft_rpc_server_port(f->server)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CU_ASSERT_FATAL(fd >= 0);
  CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  CU_ASSERT_EQUAL(send(fd, preface, sizeof preface - 1, MSG_NOSIGNAL), (ssize_t)sizeof preface - 1);
  send_frame(fd, SETTINGS, 0, 0, NULL, 0);
  return fd;
}

static void call(int fd, uint32_t stream) {
  static const char headers[] =
      "\x83\x86"
      "\x04\x0e" BIG
      "\x01\x01x"
      "\x0f\x10\x10"
      "application/grpc"
      "\x00\x02te\x08trailers";
  send_frame(fd, HEADERS, END_HEADERS, stream, headers, sizeof headers - 1);
  send_frame(fd, DATA, END_STREAM, stream, "\0\0\0\0", 5);
}

static void grant(int fd, uint32_t stream, uint32_t bytes) {
  const unsigned char payload[4] = {(unsigned char)(bytes >> 24), (unsigned char)(bytes >> 16),
                                    (unsigned char)(bytes >> 8), (unsigned char)bytes};
  send_frame(fd, WINDOW_UPDATE, 0, stream, payload, 4);
}

typedef struct seen {
  int64_t answer_bytes;
  unsigned char head[9];
  size_t have;          /* of the head */
  uint32_t left;        /* of the payload */
  bool is_over[1024];   /* by half the stream's number */
  int num_over, num_ok; /* streams; those with all of an answer before their end */
  int64_t num_data, data[1024];
} seen_t;

/* Reads what is there within `wait_ms`; answers settings and pings, as every peer that lives does. */
static void read_some(int fd, seen_t *s, int wait_ms) {
  static unsigned char buffer[256 << 10];
  struct pollfd p = {.fd = fd, .events = POLLIN};
  if (poll(&p, 1, wait_ms) != 1) return;
  ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  for (ssize_t i = 0; i < n;) {
    if (s->left > 0) {
      const uint32_t step = s->left < (uint32_t)(n - i) ? s->left : (uint32_t)(n - i);
      s->left -= step;
      i += (ssize_t)step;
      continue;
    }
    s->head[s->have++] = buffer[i++];
    if (s->have < 9) continue;
    s->have = 0;
    s->left = (uint32_t)s->head[0] << 16 | (uint32_t)s->head[1] << 8 | s->head[2];
    const int type = s->head[3], flags = s->head[4];
    const size_t stream = ((size_t)s->head[6] << 16 | (size_t)s->head[7] << 8 | s->head[8]) / 2;
    CU_ASSERT_FATAL(stream < 1024);
    if (type == DATA) s->num_data += s->left;
    if (type == DATA) s->data[stream] += s->left;
    const bool ends = type == RST_STREAM || ((type == DATA || type == HEADERS) && (flags & END_STREAM) != 0);
    if (ends &&
        !s->is_over[stream]) { /* a call that is cancelled ends twice: with a status, and the stream */
      s->is_over[stream] = true;
      s->num_over++;
      s->num_ok += s->data[stream] >= s->answer_bytes;
    }
    if (type == SETTINGS && (flags & ACK) == 0) send_frame(fd, SETTINGS, ACK, 0, NULL, 0);
    if (type == PING && (flags & ACK) == 0) {
      CU_ASSERT_FATAL(n - i >= 8);
      send_frame(fd, PING, ACK, 0, buffer + i, 8);
    }
  }
}

static bool is_served(fixture_t *f) {
  weft_message_t *m = NULL, *response = NULL;
  weft_status_t *s = weft_message_create(&m);
  CU_ASSERT_PTR_NULL(s);
  s = weft_rpc_call_sync(f->channel, BIG, m, NULL, &response);
  const bool ok = s == NULL && weft_message_bytes(response) == ANSWER;
  weft_message_destroy(response);
  weft_status_free(s);
  return ok;
}

/* ---- tests ---- */

/* It reads nothing at all, or all that the connection brings without letting the server send answers. */
static void a_peer_that_does_not_read_holds_little(void) {
  enum { CALLS = 1000 };
  for (int reads = 0; reads < 2; reads++) {
    fixture_t f;
    seen_t seen = {.have = 0};
    setup(&f, ANSWER, LIMIT, TIMEOUT_MS);
    int fd = dial(&f);
    for (uint32_t i = 0; i < CALLS; i++) {
      call(fd, 2 * i + 1);
      if (reads) read_some(fd, &seen, 0);
    }
    const int64_t deadline = weft_clock_ns() + 20000000000;
    while (reads && weft_clock_ns() < deadline && seen.num_over < CALLS) read_some(fd, &seen, 10);
    CU_ASSERT(wait_until(&f, &f.num_answered, CALLS));
    CU_ASSERT(wait_until(&f, &f.num_released,
                         CALLS)); /* those beyond the limit at once, the others after a while */
    CU_ASSERT(f.most_held * (int64_t)ANSWER <=
              LIMIT + 4 * ANSWER); /* and those that the threads are about to answer */
    CU_ASSERT(!reads || seen.num_over == CALLS);
    CU_ASSERT(is_served(&f)); /* others do not notice */
    close(fd);
    teardown(&f);
  }
}

/* Three answers that move at once: none of them is there within the timeout. */
static void a_peer_that_reads_slowly_gets_its_answers(void) {
  enum { CALLS = 3, LARGE = 4 << 20, STEP = 1 << 20, ROUND_MS = 100 };
  fixture_t f;
  seen_t seen = {.answer_bytes = LARGE};
  setup(&f, LARGE, CALLS * LARGE, TIMEOUT_MS);
  int fd = dial(&f);
  for (uint32_t i = 0; i < CALLS; i++) call(fd, 2 * i + 1);
  for (uint32_t i = 0; i < CALLS; i++) grant(fd, 2 * i + 1, LARGE);
  CU_ASSERT(wait_until(&f, &f.num_answered, CALLS));
  const int64_t begin = weft_clock_ns();
  for (int round = 0; round < 100 && seen.num_over < CALLS; round++) {
    const int64_t next = weft_clock_ns() + ROUND_MS * 1000000;
    grant(fd, 0, STEP);
    while (weft_clock_ns() < next) read_some(fd, &seen, 5);
  }
  CU_ASSERT(weft_clock_ns() - begin > 2 * TIMEOUT_MS * 1000000LL);
  CU_ASSERT_EQUAL(seen.num_ok, CALLS);
  close(fd);
  teardown(&f);
}

/* One answer, which takes longer than the timeout. */
static void a_large_answer_may_take_long(void) {
  enum { LARGE = 8 << 20, STEP = 1 << 20, ROUND_MS = 150 };
  fixture_t f;
  seen_t seen = {.answer_bytes = LARGE};
  setup(&f, LARGE, LIMIT, TIMEOUT_MS);
  int fd = dial(&f);
  call(fd, 1);
  CU_ASSERT(wait_until(&f, &f.num_answered, 1));
  const int64_t begin = weft_clock_ns();
  for (int round = 0; round < 100 && seen.num_over == 0; round++) {
    const int64_t next = weft_clock_ns() + ROUND_MS * 1000000;
    grant(fd, 0, STEP);
    grant(fd, 1, STEP);
    while (weft_clock_ns() < next) read_some(fd, &seen, 5);
  }
  CU_ASSERT(weft_clock_ns() - begin > 2 * TIMEOUT_MS * 1000000LL);
  CU_ASSERT(seen.num_over == 1 && seen.num_ok == 1);
  close(fd);
  /* And one that stops in the middle. */
  seen = (seen_t){.answer_bytes = LARGE};
  fd = dial(&f);
  call(fd, 1);
  grant(fd, 0, LARGE);
  grant(fd, 1, LARGE / 2);
  const int64_t deadline = weft_clock_ns() + 20000000000;
  while (weft_clock_ns() < deadline && seen.num_over == 0) read_some(fd, &seen, 10);
  CU_ASSERT(seen.num_over == 1 && seen.num_ok == 0 && seen.num_data > 0);
  CU_ASSERT(wait_until(&f, &f.num_released, 2));
  close(fd);
  teardown(&f);
}

/* The server stops while answers wait. */
static void a_server_stops_with_answers_that_wait(void) {
  fixture_t f;
  setup(&f, ANSWER, LIMIT, 600000);
  int fd = dial(&f);
  for (uint32_t i = 0; i < 4; i++) call(fd, 2 * i + 1);
  CU_ASSERT(wait_until(&f, &f.num_answered, 4));
  const int64_t begin = weft_clock_ns();
  weft_rpc_server_stop(f.server, 0);
  CU_ASSERT(wait_until(&f, &f.num_released, 4));
  CU_ASSERT(weft_clock_ns() - begin < 10000000000);
  close(fd);
  teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"a peer that does not read holds little", a_peer_that_does_not_read_holds_little},
    {"a peer that reads slowly gets its answers", a_peer_that_reads_slowly_gets_its_answers},
    {"a large answer may take long", a_large_answer_may_take_long},
    {"a server stops with answers that wait", a_server_stops_with_answers_that_wait},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("slow_reader", tests); }
