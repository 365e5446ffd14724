/* Both ends of local links in one process. */
#define _GNU_SOURCE /* pipe2 */
#include "rpc/local_link.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "tests/runner.h"

typedef struct got {
  weft_mutex_t mu;
  weft_cond_t changed;
  int whole, broken, skipped, filled, closed, released; /* guarded by mu */
  uint64_t unwanted;                                    /* a transfer to refuse */
  char *place;                                          /* of the payload under way */
  size_t bytes;
  uint64_t sum; /* of what arrived; guarded by mu */
  char header[64];
} got_t;

static void got_init(got_t *g) {
  memset(g, 0, sizeof *g);
  weft_mutex_init(&g->mu);
  weft_cond_init(&g->changed);
}
static void got_deinit(got_t *g) {
  weft_cond_deinit(&g->changed);
  weft_mutex_deinit(&g->mu);
}
static void add(got_t *g, int *counter) {
  weft_mutex_lock(&g->mu);
  ++*counter;
  weft_cond_broadcast(&g->changed);
  weft_mutex_unlock(&g->mu);
}
static bool wait_for(got_t *g, const int *counter, int n) {
  int64_t deadline = weft_clock_ns() + 20000000000;
  weft_mutex_lock(&g->mu);
  bool in_time = true;
  while (*counter < n && in_time) in_time = weft_cond_wait_until(&g->changed, &g->mu, deadline);
  bool ok = *counter >= n;
  weft_mutex_unlock(&g->mu);
  return ok;
}

static void *begin(void *arg, uint64_t transfer, weft_str_t header, size_t bytes) {
  got_t *g = arg;
  if (transfer == g->unwanted) {
    add(g, &g->skipped);
    return NULL;
  }
  snprintf(g->header, sizeof g->header, "%.*s", WEFT_STR_ARGS(header));
  g->bytes = bytes;
  g->place = weft_malloc(bytes + 1);
  return g->place;
}
static void end(void *arg, uint64_t transfer, bool is_whole) {
  (void)transfer;
  got_t *g = arg;
  uint64_t sum = 0;
  for (size_t i = 0; is_whole && i < g->bytes; i++) sum += (unsigned char)g->place[i];
  weft_free(g->place);
  weft_mutex_lock(&g->mu);
  g->sum += sum;
  weft_mutex_unlock(&g->mu);
  add(g, is_whole ? &g->whole : &g->broken);
}
static void closed(void *arg) { add(arg, &((got_t *)arg)->closed); }
static void filled(void *arg, uint64_t transfer) {
  if (transfer != 0) add(arg, &((got_t *)arg)->filled);
}
static const weft_local_receiver_ops_t ops = {.begin = begin, .end = end, .filled = filled, .closed = closed};

static void released(void *arg) { add(arg, &((got_t *)arg)->released); }

/* The sender learns of a link when its hello has been read: asks until then. */
static bool send_soon(weft_local_sender_t *s, uint64_t link, uint64_t transfer, const char *data, size_t n,
                      got_t *g) {
  int64_t deadline = weft_clock_ns() + 20000000000;
  while (weft_clock_ns() < deadline) {
    if (weft_local_sender_send(s, link, transfer, WEFT_STR("head"), data, n, released, g)) return true;
  }
  return false;
}

static void payloads_arrive_in_order_and_whole(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  size_t n = 5000001;
  char *data = weft_malloc(n);
  memset(data, 3, n);
  g.unwanted = 2;
  CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 1, data, n, &g));
  CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 2, data, n, &g));
  CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 3, data, 7, &g));
  CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 4, data, 0, &g));
  CU_ASSERT_TRUE(wait_for(&g, &g.whole, 3));
  CU_ASSERT_TRUE(wait_for(&g, &g.released, 4));
  CU_ASSERT_EQUAL(g.skipped, 1);
  CU_ASSERT_EQUAL(g.sum, 3 * (n + 7));
  CU_ASSERT_STRING_EQUAL(g.header, "head");
  weft_local_receiver_close(r);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  weft_local_sender_destroy(s);
  weft_free(data);
  got_deinit(&g);
}

static void an_unknown_link_takes_nothing(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_FALSE(weft_local_sender_has(s, 4711));
  CU_ASSERT_FALSE(weft_local_sender_has(s, 0));
  CU_ASSERT_FALSE(weft_local_sender_send(s, 4711, 1, WEFT_STR(""), "x", 1, released, &g));
  CU_ASSERT_FALSE(
      weft_local_sender_send(s, 0, 1, WEFT_STR(""), "x", 1, released, &g)); /* links without hello */
  weft_local_sender_destroy(s);
  CU_ASSERT_EQUAL(g.released, 0);
  got_deinit(&g);
}

static void no_listener_is_unavailable(void) {
  got_t g;
  got_init(&g);
  weft_local_receiver_t *r = NULL;
  weft_status_t *s = weft_local_receiver_create(WEFT_STR("weft-no-listener-is-here"), &ops, &g, &r);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  weft_status_free(s);
  char name[200];
  memset(name, 'x', sizeof name);
  s = weft_local_receiver_create(weft_str_of(name, sizeof name), &ops, &g, &r);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  weft_status_free(s);
  CU_ASSERT_EQUAL(g.closed, 0);
  got_deinit(&g);
}

static void the_senders_end_closes_links_and_releases_what_is_queued(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  size_t n = 64u << 20;
  char *data = weft_malloc(n);
  memset(data, 1, n);
  int sent = 0;
  for (uint64_t i = 1; i <= 4; i++) sent += send_soon(s, weft_local_receiver_link(r), i, data, n, &g);
  weft_local_sender_destroy(s); /* most likely in the middle of a payload */
  CU_ASSERT_EQUAL(sent, 4);
  CU_ASSERT_EQUAL(g.released, 4);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  weft_local_receiver_close(r);
  weft_free(data);
  got_deinit(&g);
}

static void a_place_is_free_again_after_its_link(void) {
  weft_local_sender_t *s = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  for (int i = 0; i < 3 * WEFT_LOCAL_LINK_MAX_LINKS; i++) {
    got_t g;
    got_init(&g);
    weft_local_receiver_t *r = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
    CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 1, "abc", 3, &g));
    CU_ASSERT_TRUE(wait_for(&g, &g.whole, 1));
    CU_ASSERT_TRUE(wait_for(&g, &g.released, 1));
    weft_local_receiver_close(r);
    CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
    got_deinit(&g);
  }
  weft_local_sender_destroy(s);
}

/* A payload of which a test says how much is there. */
typedef struct slow {
  got_t *got;
  size_t there; /* guarded by got->mu */
  bool is_over; /* guarded by got->mu: no more will come */
  int asked;    /* guarded by got->mu */
} slow_t;

static size_t arrive(void *arg, size_t at) {
  slow_t *s = arg;
  add(s->got, &s->asked);
  weft_mutex_lock(&s->got->mu);
  while (s->there <= at && !s->is_over) weft_cond_wait(&s->got->changed, &s->got->mu);
  const size_t there = s->there > at ? s->there : 0;
  weft_mutex_unlock(&s->got->mu);
  return there;
}

static void slow_released(void *arg) { released(((slow_t *)arg)->got); }

static void come(slow_t *s, size_t there, bool is_over) {
  weft_mutex_lock(&s->got->mu);
  s->there = there;
  s->is_over = is_over;
  weft_cond_broadcast(&s->got->changed);
  weft_mutex_unlock(&s->got->mu);
}

/* The sender asks for more only when it has written what was there, and a socket holds less than a megabyte:
 * so the receiver has read the first half by then. */
static void parts_are_sent_as_they_come(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  size_t n = 8000001;
  char *data = weft_calloc(1, n);
  slow_t first = {.got = &g}, second = {.got = &g}, empty = {.got = &g};
  CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 1, data, 0, &g)); /* the link is known */
  CU_ASSERT_TRUE(weft_local_sender_stream(s, weft_local_receiver_link(r), 2, WEFT_STR("h"), data, 0, arrive,
                                          slow_released, &empty));
  CU_ASSERT_TRUE(weft_local_sender_stream(s, weft_local_receiver_link(r), 3, WEFT_STR("h"), data, n, arrive,
                                          slow_released, &first));
  CU_ASSERT_TRUE(weft_local_sender_stream(s, weft_local_receiver_link(r), 4, WEFT_STR("h"), data, n, arrive,
                                          slow_released, &second));
  CU_ASSERT_TRUE(wait_for(&g, &first.asked, 1));
  memset(data, 1, n / 2); /* what comes is written before it is there */
  come(&first, n / 2, false);
  CU_ASSERT_TRUE(wait_for(&g, &first.asked, 2));
  CU_ASSERT_EQUAL(g.whole, 2); /* both empty ones */
  memset(data + n / 2, 1, n - n / 2);
  come(&first, n, false);
  CU_ASSERT_TRUE(wait_for(&g, &g.whole, 3));
  CU_ASSERT_EQUAL(g.sum, n);
  CU_ASSERT_EQUAL(empty.asked, 0);
  come(&second, 5, true); /* and no more: the link breaks */
  CU_ASSERT_TRUE(wait_for(&g, &g.broken, 1));
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  CU_ASSERT_TRUE(wait_for(&g, &g.released, 4));
  weft_local_receiver_close(r);
  weft_local_sender_destroy(s);
  weft_free(data);
  got_deinit(&g);
}

/* ---- loans ---- */

typedef struct loan {
  got_t *got;
  weft_local_end_t how; /* guarded by got->mu, as the rest */
  int ended;
  bool breaks;
} loan_t;

static bool ended(void *arg, weft_local_end_t how) {
  loan_t *l = arg;
  weft_mutex_lock(&l->got->mu);
  l->how = how;
  weft_mutex_unlock(&l->got->mu);
  add(l->got, &l->ended);
  return !l->breaks;
}

static void what_is_lent_is_given_back(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  const uint64_t link = weft_local_receiver_link(r);
  CU_ASSERT_TRUE(send_soon(s, link, 1, "", 0, &g)); /* the link is known */
  loan_t a = {.got = &g}, b = {.got = &g}, early = {.got = &g}, c = {.got = &g},
         d = {.got = &g, .breaks = true};
  CU_ASSERT_FALSE(weft_local_sender_lend(s, link + 1, 2, ended, &a));
  CU_ASSERT_FALSE(weft_local_sender_lend(s, 0, 2, ended, &a));
  CU_ASSERT_TRUE(weft_local_sender_lend(s, link, 2, ended, &a));
  CU_ASSERT_TRUE(weft_local_sender_lend(s, link, 3, ended, &b));
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 4, WEFT_LOCAL_DONE)); /* not lent yet */
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 3, WEFT_LOCAL_UNUSABLE));
  CU_ASSERT_TRUE(wait_for(&g, &b.ended, 1));
  CU_ASSERT_EQUAL(b.how, WEFT_LOCAL_UNUSABLE);
  CU_ASSERT_FALSE(weft_local_sender_lend(s, link, 4, ended, &early));
  CU_ASSERT_EQUAL(a.ended, 0);
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 2, WEFT_LOCAL_DONE));
  CU_ASSERT_TRUE(wait_for(&g, &a.ended, 1));
  CU_ASSERT_EQUAL(a.how, WEFT_LOCAL_DONE);
  /* One that lets the link break gives back the others. */
  CU_ASSERT_TRUE(weft_local_sender_lend(s, link, 5, ended, &c));
  CU_ASSERT_TRUE(weft_local_sender_lend(s, link, 6, ended, &d));
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 6, WEFT_LOCAL_UNUSABLE));
  CU_ASSERT_TRUE(wait_for(&g, &c.ended, 1));
  CU_ASSERT_EQUAL(c.how, WEFT_LOCAL_BROKEN);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  CU_ASSERT_FALSE(weft_local_receiver_give_back(r, 5, WEFT_LOCAL_DONE));
  CU_ASSERT_FALSE(weft_local_sender_lend(s, link, 7, ended, &d));
  weft_local_receiver_close(r);
  weft_local_sender_destroy(s);
  CU_ASSERT_TRUE(a.ended == 1 && b.ended == 1 && c.ended == 1 && d.ended == 1 && early.ended == 0);
  got_deinit(&g);
}

/* Nothing is sent meanwhile: the loan alone has to find out. */
static void a_receiver_that_is_gone_gives_back_all(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  loan_t loans[3] = {{.got = &g}, {.got = &g}, {.got = &g}};
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
    CU_ASSERT_TRUE(send_soon(s, weft_local_receiver_link(r), 1, "", 0, &g));
    CU_ASSERT_TRUE(weft_local_sender_lend(s, weft_local_receiver_link(r), 2, ended, &loans[i]));
    if (i == 2) break;
    weft_local_receiver_close(r);
    CU_ASSERT_TRUE(wait_for(&g, &loans[i].ended, 1));
    CU_ASSERT_EQUAL(loans[i].how, WEFT_LOCAL_BROKEN);
    CU_ASSERT_TRUE(wait_for(&g, &g.closed, i + 1));
  }
  weft_local_sender_destroy(s);
  CU_ASSERT_TRUE(loans[2].ended == 1 && loans[2].how == WEFT_LOCAL_BROKEN);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 3));
  CU_ASSERT_FALSE(weft_local_receiver_give_back(r, 2, WEFT_LOCAL_DONE));
  weft_local_receiver_close(r);
  got_deinit(&g);
}

static void ignore(void *arg) { (void)arg; }

static bool put(weft_local_sender_t *s, uint64_t link, uint64_t transfer, const void *data, size_t bytes,
                uint64_t *out_at) {
  weft_local_place_t p;
  if (!weft_local_sender_take(s, link, transfer, bytes, &p)) return false;
  *out_at = p.at;
  return weft_local_sender_fill(&p, data, bytes, ignore, NULL);
}

/* What fails before its place is there is given back by its number, in whichever order that comes. */
static void places_in_the_room_are_taken_and_given_back(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  const uint64_t link = weft_local_receiver_link(r);
  uint64_t at = 0, other = 0;
  loan_t known = {.got = &g};
  CU_ASSERT_TRUE(send_soon(s, link, 1, "", 0, &g)); /* the link is known */
  CU_ASSERT_FALSE(put(s, link + 1, 2, "abc", 4, &at));
  CU_ASSERT_FALSE(put(s, 0, 2, "abc", 4, &at));
  CU_ASSERT_TRUE(put(s, link, 2, "abc", 4, &at));
  weft_local_room_t *room = weft_local_room_retain(weft_local_receiver_room(r));
  const char *data = weft_local_room_at(room, at, 4);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data);
  CU_ASSERT_STRING_EQUAL(data, "abc");
  CU_ASSERT_TRUE(put(s, link, 3, "def", 4, &other));
  CU_ASSERT_TRUE(weft_local_sender_lend(s, link, 5, ended, &known));
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 3, WEFT_LOCAL_DONE)); /* its call has failed */
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 4, WEFT_LOCAL_DONE)); /* before it was put */
  CU_ASSERT_TRUE(weft_local_receiver_give_back(r, 5, WEFT_LOCAL_DONE));
  CU_ASSERT_TRUE(wait_for(&g, &known.ended, 1)); /* both have been heard of */
  CU_ASSERT_FALSE(put(s, link, 4, "ghi", 4, &at));
  CU_ASSERT_TRUE(put(s, link, 6, "jkl", 4, &at));
  CU_ASSERT_EQUAL(at, other);
  weft_local_sender_destroy(s);
  weft_local_receiver_close(r);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  CU_ASSERT_STRING_EQUAL(data, "abc"); /* behind the end of both */
  weft_local_room_give_back(room, data);
  weft_local_room_release(room);
  got_deinit(&g);
}

typedef struct late_fill {
  got_t *got;
  weft_local_place_t place;
  int begins; /* guarded by the got's mu */
} late_fill_t;

static void *fill_late(void *arg) {
  late_fill_t *f = arg;
  (void)wait_for(f->got, &f->begins, 1);
  (void)weft_local_sender_fill(&f->place, "abc", 4, released, f->got);
  return NULL;
}

/* The receiver hears of a place that it awaits, and of no other one. */
static void a_receiver_that_awaits_a_place_is_told(void) {
  got_t g;
  got_init(&g);
  weft_local_sender_t *s = NULL;
  weft_local_receiver_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  CU_ASSERT_PTR_NULL_FATAL(weft_local_receiver_create(weft_local_sender_name(s), &ops, &g, &r));
  const uint64_t link = weft_local_receiver_link(r);
  CU_ASSERT_TRUE(send_soon(s, link, 1, "", 0, &g)); /* the link is known */
  weft_local_room_t *room = weft_local_receiver_room(r);
  weft_local_place_t a, b, c;
  CU_ASSERT_TRUE_FATAL(weft_local_sender_take(s, link, 2, 4, &a));
  CU_ASSERT_TRUE_FATAL(weft_local_sender_take(s, link, 3, 4, &b));
  CU_ASSERT_TRUE_FATAL(weft_local_sender_take(s, link, 4, 4, &c));
  CU_ASSERT_FALSE(weft_local_room_await(room, weft_local_room_at(room, b.at, 4)));
  CU_ASSERT_TRUE(weft_local_sender_fill(&a, "abc", 4, ignore, NULL));
  CU_ASSERT_TRUE(weft_local_sender_fill(&b, "def", 4, released, &g));
  CU_ASSERT_TRUE(wait_for(&g, &g.filled, 1));
  CU_ASSERT_STRING_EQUAL(weft_local_room_at(room, b.at, 4), "def");
  CU_ASSERT_TRUE(send_soon(s, link, 5, "", 0, &g)); /* what was told before is heard by then */
  CU_ASSERT_TRUE(wait_for(&g, &g.whole, 2));
  CU_ASSERT_EQUAL(g.filled, 1);
  /* A sender that ends waits for a place that is being filled, whose bytes it needs until then. */
  late_fill_t late = {.got = &g, .place = c};
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, fill_late, &late), 0);
  weft_local_receiver_close(r);
  CU_ASSERT_TRUE(wait_for(&g, &g.closed, 1));
  const int before = g.released;
  add(&g, &late.begins);
  weft_local_sender_destroy(s);
  CU_ASSERT_EQUAL(g.released, before + 1);
  pthread_join(thread, NULL);
  got_deinit(&g);
}

/* Connects to a sender as a receiver does, and says hello with `n` copies of `file`. */
static int say_hello(weft_str_t name, int file, int n) {
  struct {
    uint64_t magic, link;
  } hello = {UINT64_C(0x316b6e696c746677), 4711};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  memcpy(to.sun_path + 1, name.data, name.length);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name.length);
  CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, length), 0);
  memset(&control, 0, sizeof control);
  struct iovec piece = {&hello, sizeof hello};
  struct msghdr m = {.msg_iov = &piece,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
  for (int i = 0; i < n; i++) memcpy(CMSG_DATA(c) + (size_t)i * sizeof file, &file, sizeof file);
  CU_ASSERT_EQUAL(sendmsg(fd, &m, MSG_NOSIGNAL), (ssize_t)sizeof hello);
  return fd;
}

/* The sender wants one file, the receiver's room; a pipe is none. */
static void files_that_a_peer_sends_do_not_stay_open(void) {
  weft_local_sender_t *s = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&s));
  for (int n = 1; n <= 2; n++) {
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
    const int fd = say_hello(weft_local_sender_name(s), ends[1], n);
    close(ends[1]);
    struct pollfd end = {.fd = ends[0]};
    CU_ASSERT_EQUAL(poll(&end, 1, 20000), 1);
    CU_ASSERT_TRUE((end.revents & POLLHUP) != 0);
    close(fd);
    close(ends[0]);
  }
  weft_local_sender_destroy(s);
}

static const CU_TestInfo tests[] = {
    {"parts are sent as they come", parts_are_sent_as_they_come},
    {"payloads arrive in order and whole", payloads_arrive_in_order_and_whole},
    {"an unknown link takes nothing", an_unknown_link_takes_nothing},
    {"no listener is unavailable", no_listener_is_unavailable},
    {"the sender's end closes links and releases what is queued",
     the_senders_end_closes_links_and_releases_what_is_queued},
    {"what is lent is given back", what_is_lent_is_given_back},
    {"a receiver that is gone gives back all", a_receiver_that_is_gone_gives_back_all},
    {"a receiver that awaits a place is told", a_receiver_that_awaits_a_place_is_told},
    {"places in the room are taken and given back", places_in_the_room_are_taken_and_given_back},
    {"a place is free again after its link", a_place_is_free_again_after_its_link},
    {"files that a peer sends do not stay open", files_that_a_peer_sends_do_not_stay_open},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("local_link", tests); }
