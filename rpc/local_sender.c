/* rpc/local_sender.c - the sending end of local links: a thread that accepts, and one or two for each link.
 *
 * A link's thread reads the hello, then writes what is queued. With the first loan it gets a second one,
 * which reads what the receiver gives back. Only they touch the socket, except for breaking it. A link whose
 * peer went away is noticed when something is sent or lent, or when its place is needed.
 *
 * A receiver may give back what is not lent yet: its call has failed while the answer was under way. Numbers
 * that were given back and are no loans are kept, the last ones, and are not lent any more.
 *
 * A place that is being filled is counted: a sender that ends waits for that.
 *
 * Locking: `mu` guards the table, all queues and all loans. Payloads are released, and loans end, outside it.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/random.h"
#include "rpc/local_link.h"
#include "rpc/local_socket.h"

typedef struct local_payload {
  struct local_payload *next;
  weft_local_frame_t frame; /* followed by the header: one write */
  char header[WEFT_LOCAL_LINK_MAX_HEADER];
  const char *data;
  size_t (*arrive)(void *arg, size_t at); /* NULL: all is there */
  void (*release)(void *arg);
  void *arg;
} local_payload_t;

typedef struct local_loan {
  struct local_loan *next;
  uint64_t transfer;
  weft_local_loan_fn *fn;
  void *arg;
} local_loan_t;

enum { RETURNED_EARLY = 256 };

typedef enum link_state { FREE, OPEN, CLOSED } link_state_t; /* CLOSED: its thread has ended or will soon */

typedef struct sender_link {
  weft_local_sender_t *sender;
  pthread_t thread;
  link_state_t state;             /* guarded by mu */
  int fd;                         /* changes under mu */
  uint64_t id;                    /* guarded by mu; 0 until the hello */
  weft_local_room_t *room;        /* owned; changes under mu; NULL: the receiver has none */
  local_payload_t *first, **last; /* guarded by mu */
  pthread_t reader;
  bool has_reader; /* guarded by mu, as the rest */
  local_loan_t *loans;
  uint64_t early[RETURNED_EARLY]; /* transfers that were given back before they were lent; 0: none */
  int num_early;                  /* since the link is there */
  weft_cond_t changed;
} sender_link_t;

struct weft_local_sender {
  char name[40];
  int listener;
  pthread_t accepter;
  weft_mutex_t mu;
  weft_cond_t rested; /* num_filling fell to 0 */
  int num_filling;    /* guarded by mu */
  bool is_stopping;   /* guarded by mu */
  sender_link_t links[WEFT_LOCAL_LINK_MAX_LINKS];
};

static void payload_free(local_payload_t *p) {
  if (p->release != NULL) p->release(p->arg);
  weft_free(p);
}

/* The next payload, or NULL when the link is to end. Waits; woken by send and by break_link_locked. */
static local_payload_t *next_payload(sender_link_t *l) {
  weft_local_sender_t *s = l->sender;
  weft_mutex_lock(&s->mu);
  while (l->first == NULL && l->state == OPEN) weft_cond_wait(&l->changed, &s->mu);
  local_payload_t *p = l->state == OPEN ? l->first : NULL;
  if (p != NULL) {
    l->first = p->next;
    if (l->first == NULL) l->last = &l->first;
  }
  weft_mutex_unlock(&s->mu);
  return p;
}

static void break_link_locked(weft_local_sender_t *s, sender_link_t *l) WEFT_REQUIRES(s->mu) {
  (void)s;
  if (l->state != OPEN) return;
  l->state = CLOSED;
  weft_local_socket_break(l->fd);
  weft_cond_signal(&l->changed);
}

/* Writes the payload, each part as soon as it is there. */
static bool write_payload(const sender_link_t *l, local_payload_t *p) {
  if (p->frame.header_bytes == WEFT_LOCAL_FRAME_FILLED)
    return weft_local_socket_write(l->fd, &p->frame, sizeof p->frame, "", 0);
  const size_t head = sizeof p->frame + p->frame.header_bytes, bytes = p->frame.payload_bytes;
  bool ok = true;
  size_t at = 0;
  do {
    const size_t there = p->arrive == NULL || bytes == 0 ? bytes : p->arrive(p->arg, at);
    ok = there > at || bytes == 0;
    if (ok) ok = weft_local_socket_write(l->fd, &p->frame, at == 0 ? head : 0, p->data + at, there - at);
    at = there;
  } while (ok && at < bytes);
  return ok;
}

/* ---- loans ---- */

static void break_link(sender_link_t *l) {
  weft_mutex_lock(&l->sender->mu);
  break_link_locked(l->sender, l);
  weft_mutex_unlock(&l->sender->mu);
}

static local_loan_t *take_loan_locked(sender_link_t *l, uint64_t transfer) {
  for (local_loan_t **at = &l->loans; *at != NULL; at = &(*at)->next) {
    local_loan_t *loan = *at;
    if (loan->transfer != transfer) continue;
    *at = loan->next;
    return loan;
  }
  l->early[l->num_early++ % RETURNED_EARLY] = transfer;
  return NULL;
}

static bool end_loan(local_loan_t *loan, weft_local_end_t how) {
  const bool ok = loan->fn(loan->arg, how);
  weft_free(loan);
  return ok;
}

static void *read_returned(void *arg) {
  sender_link_t *l = arg;
  weft_local_returned_t r;
  bool ok = true;
  while (ok && weft_local_socket_read(l->fd, &r, sizeof r) &&
         (r.how == WEFT_LOCAL_DONE || r.how == WEFT_LOCAL_UNUSABLE)) {
    weft_mutex_lock(&l->sender->mu);
    local_loan_t *loan = take_loan_locked(l, r.transfer);
    weft_mutex_unlock(&l->sender->mu);
    if (loan != NULL) {
      ok = end_loan(loan, (weft_local_end_t)r.how);
    } else if (l->room != NULL) {
      (void)weft_local_room_forget(l->room,
                                   r.transfer); /* behind the note in `early`: take() sees one of both */
    }
  }
  break_link(l);
  return NULL;
}

/* The link is broken, so that nothing is lent over it any more. */
static void end_loans(sender_link_t *l) {
  if (l->has_reader) pthread_join(l->reader, NULL); /* its socket is shut */
  local_loan_t *loans = l->loans;
  l->loans = NULL;
  l->has_reader = false;
  for (local_loan_t *next; loans != NULL; loans = next) {
    next = loans->next;
    (void)end_loan(loans, WEFT_LOCAL_BROKEN);
  }
}

/* ---- links ---- */

static void *serve_link(void *arg) {
  sender_link_t *l = arg;
  weft_local_sender_t *s = l->sender;
  weft_local_hello_t hello;
  int file;
  bool ok = weft_local_socket_read_file(l->fd, &hello, sizeof hello, &file) &&
            hello.magic == WEFT_LOCAL_MAGIC && hello.link != 0;
  weft_local_room_t *room = ok && file >= 0 ? weft_local_room_open(file) : NULL;
  if (!ok) weft_local_socket_close(file);
  weft_mutex_lock(&s->mu);
  l->room = room;
  if (ok) l->id = hello.link;
  weft_mutex_unlock(&s->mu);
  for (local_payload_t *p; ok && (p = next_payload(l)) != NULL; payload_free(p)) {
    ok = write_payload(l, p);
  }
  weft_mutex_lock(&s->mu);
  break_link_locked(s, l);
  local_payload_t *rest = l->first;
  l->first = NULL;
  l->last = &l->first;
  weft_mutex_unlock(&s->mu);
  while (rest != NULL) {
    local_payload_t *next = rest->next;
    payload_free(rest);
    rest = next;
  }
  end_loans(l);
  weft_mutex_lock(&s->mu);
  room = l->room;
  l->room = NULL;
  weft_mutex_unlock(&s->mu);
  weft_local_room_release(room);
  return NULL;
}

/* A place for a new link: one never used, or one whose link is over. NULL if all are busy. */
static sender_link_t *take_place(weft_local_sender_t *s) {
  sender_link_t *found = NULL;
  bool was_used = false;
  weft_mutex_lock(&s->mu);
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS && found == NULL && !s->is_stopping; i++) {
    sender_link_t *l = &s->links[i];
    if (l->state == OPEN && weft_local_socket_is_over(l->fd)) break_link_locked(s, l);
    if (l->state != OPEN) found = l;
  }
  if (found != NULL) {
    was_used = found->state == CLOSED;
    found->state = FREE; /* no race: only the accepter's thread searches for places */
    found->id = 0;
    found->num_early = 0;
    memset(found->early, 0, sizeof found->early);
  }
  weft_mutex_unlock(&s->mu);
  if (!was_used) return found;
  pthread_join(found->thread, NULL); /* it ends at once */
  weft_local_socket_close(found->fd);
  found->fd = -1;
  return found;
}

static void open_link(weft_local_sender_t *s, int fd) {
  sender_link_t *l = take_place(s);
  if (l == NULL) {
    weft_local_socket_close(fd);
    return;
  }
  weft_mutex_lock(&s->mu);
  bool ok = !s->is_stopping;
  if (ok) {
    l->fd = fd;
    l->state = OPEN;
    ok = pthread_create(&l->thread, NULL, serve_link, l) == 0;
    if (!ok) l->state = FREE;
    if (ok) pthread_setname_np(l->thread, "weft-link-out");
  }
  weft_mutex_unlock(&s->mu);
  if (!ok) {
    l->fd = -1;
    weft_local_socket_close(fd);
  }
}

static void *accept_links(void *arg) {
  weft_local_sender_t *s = arg;
  for (int fd; (fd = weft_local_socket_accept(s->listener)) >= 0;) open_link(s, fd);
  return NULL;
}

weft_status_t *weft_local_sender_create(weft_local_sender_t **out) {
  weft_local_sender_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("local links");
  snprintf(s->name, sizeof s->name, "weft-%016" PRIx64 "%016" PRIx64, weft_random_id(), weft_random_id());
  weft_mutex_init(&s->mu);
  weft_cond_init(&s->rested);
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS; i++) {
    s->links[i].sender = s;
    s->links[i].fd = -1;
    s->links[i].last = &s->links[i].first;
    weft_cond_init(&s->links[i].changed);
  }
  s->listener = weft_local_socket_listen(weft_str(s->name), SOCK_STREAM);
  if (s->listener >= 0 && pthread_create(&s->accepter, NULL, accept_links, s) == 0) {
    pthread_setname_np(s->accepter, "weft-link-in");
    *out = s;
    return NULL;
  }
  weft_local_socket_close(s->listener);
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS; i++) weft_cond_deinit(&s->links[i].changed);
  weft_cond_deinit(&s->rested);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
  return WEFT_ERROR(UNAVAILABLE, "cannot listen on a Unix socket");
}

void weft_local_sender_destroy(weft_local_sender_t *s) {
  if (s == NULL) return;
  weft_mutex_lock(&s->mu);
  s->is_stopping = true;
  weft_mutex_unlock(&s->mu);
  weft_local_socket_break(s->listener);
  pthread_join(s->accepter, NULL);
  weft_local_socket_close(s->listener);
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS; i++) {
    sender_link_t *l = &s->links[i];
    weft_mutex_lock(&s->mu);
    bool is_used = l->state != FREE;
    break_link_locked(s, l);
    weft_mutex_unlock(&s->mu);
    if (is_used) pthread_join(l->thread, NULL);
    weft_local_socket_close(l->fd);
  }
  weft_mutex_lock(&s->mu);
  while (s->num_filling > 0) weft_cond_wait(&s->rested, &s->mu); /* woken by weft_local_sender_fill() */
  weft_mutex_unlock(&s->mu);
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS; i++) weft_cond_deinit(&s->links[i].changed);
  weft_cond_deinit(&s->rested);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

weft_str_t weft_local_sender_name(const weft_local_sender_t *s) { return weft_str(s->name); }

/* NULL if it is not there. */
static sender_link_t *find_locked(weft_local_sender_t *s, uint64_t link) WEFT_REQUIRES(s->mu) {
  for (int i = 0; i < WEFT_LOCAL_LINK_MAX_LINKS; i++) {
    if (s->links[i].state == OPEN && s->links[i].id == link) return &s->links[i];
  }
  return NULL;
}

bool weft_local_sender_has(weft_local_sender_t *s, uint64_t link) {
  weft_mutex_lock(&s->mu);
  const bool found = link != 0 && find_locked(s, link) != NULL;
  weft_mutex_unlock(&s->mu);
  return found;
}

static local_payload_t *payload_new(uint64_t transfer, weft_str_t header, const void *data, size_t bytes) {
  local_payload_t *p = weft_malloc(sizeof *p);
  if (p == NULL) return NULL;
  p->next = NULL;
  p->frame = (weft_local_frame_t){transfer, header.length, bytes};
  memcpy(p->header, header.data, header.length);
  p->data = data;
  p->arrive = NULL;
  p->release = NULL;
  p->arg = NULL;
  return p;
}

static void queue_locked(sender_link_t *l, local_payload_t *p) {
  *l->last = p;
  l->last = &p->next;
  weft_cond_signal(&l->changed);
}

bool weft_local_sender_send(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_str_t header,
                            const void *data, size_t bytes, void (*release)(void *arg), void *arg) {
  return weft_local_sender_stream(s, link, transfer, header, data, bytes, NULL, release, arg);
}

bool weft_local_sender_stream(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_str_t header,
                              const void *data, size_t bytes, size_t (*arrive)(void *arg, size_t at),
                              void (*release)(void *arg), void *arg) {
  if (link == 0 || header.length > WEFT_LOCAL_LINK_MAX_HEADER) return false;
  local_payload_t *p = payload_new(transfer, header, data, bytes);
  if (p == NULL) return false;
  p->arrive = arrive;
  p->release = release;
  p->arg = arg;
  weft_mutex_lock(&s->mu);
  sender_link_t *l = find_locked(s, link);
  if (l != NULL) queue_locked(l, p);
  weft_mutex_unlock(&s->mu);
  if (l == NULL) weft_free(p);
  return l != NULL;
}

static bool was_given_back_locked(const sender_link_t *l, uint64_t transfer) {
  for (int i = 0; i < RETURNED_EARLY && i < l->num_early; i++) {
    if (l->early[i] == transfer) return true;
  }
  return false;
}

static bool has_reader_locked(sender_link_t *l) {
  if (!l->has_reader && pthread_create(&l->reader, NULL, read_returned, l) == 0) {
    l->has_reader = true;
    pthread_setname_np(l->reader, "weft-link-back");
  }
  return l->has_reader;
}

bool weft_local_sender_lend(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_local_loan_fn *fn,
                            void *arg) {
  local_loan_t *loan = link == 0 ? NULL : weft_malloc(sizeof *loan);
  if (loan == NULL) return false;
  *loan = (local_loan_t){.transfer = transfer, .fn = fn, .arg = arg};
  weft_mutex_lock(&s->mu);
  sender_link_t *l = find_locked(s, link);
  const bool is_lent = l != NULL && !was_given_back_locked(l, transfer) && has_reader_locked(l);
  if (is_lent) {
    loan->next = l->loans;
    l->loans = loan;
  }
  weft_mutex_unlock(&s->mu);
  if (!is_lent) weft_free(loan);
  return is_lent;
}

bool weft_local_sender_take(weft_local_sender_t *s, uint64_t link, uint64_t transfer, size_t bytes,
                            weft_local_place_t *out) {
  weft_mutex_lock(&s->mu);
  sender_link_t *l = link == 0 ? NULL : find_locked(s, link);
  /* With the reader: it hears of transfers that fail. */
  const bool may = l != NULL && l->room != NULL && has_reader_locked(l);
  weft_local_room_t *room = may ? weft_local_room_retain(l->room) : NULL;
  weft_mutex_unlock(&s->mu);
  if (room == NULL) return false;
  *out = (weft_local_place_t){.sender = s, .room = room, .link = link, .transfer = transfer};
  const bool is_taken = weft_local_room_take(room, transfer, bytes, &out->at);
  weft_mutex_lock(&s->mu);
  l = is_taken ? find_locked(s, link) : NULL;
  const bool is_wanted = l != NULL && !was_given_back_locked(l, transfer);
  if (is_wanted) s->num_filling++;
  weft_mutex_unlock(&s->mu);
  if (is_taken && !is_wanted) weft_local_room_drop(room, out->at);
  if (!is_wanted) weft_local_room_release(room);
  return is_wanted;
}

/* A receiver that is not told waits for what will not come: its link breaks then. */
static void tell_filled(const weft_local_place_t *p) {
  weft_local_sender_t *s = p->sender;
  local_payload_t *note = payload_new(p->transfer, WEFT_STR(""), "", 0);
  if (note != NULL) note->frame.header_bytes = WEFT_LOCAL_FRAME_FILLED;
  weft_mutex_lock(&s->mu);
  sender_link_t *l = find_locked(s, p->link);
  if (l != NULL && note != NULL) {
    queue_locked(l, note);
    note = NULL;
  } else if (l != NULL) {
    break_link_locked(s, l);
  }
  weft_mutex_unlock(&s->mu);
  weft_free(note);
}

bool weft_local_sender_fill(weft_local_place_t *p, const void *data, size_t bytes, void (*release)(void *arg),
                            void *arg) {
  weft_local_sender_t *s = p->sender;
  const weft_local_fill_t fill = weft_local_room_fill(p->room, p->at, data, bytes);
  release(arg);
  if (fill == WEFT_LOCAL_FILLED_AWAITED) tell_filled(p);
  weft_local_room_release(p->room);
  p->room = NULL;
  weft_mutex_lock(&s->mu);
  const bool is_there = find_locked(s, p->link) != NULL;
  if (--s->num_filling == 0) weft_cond_broadcast(&s->rested);
  weft_mutex_unlock(&s->mu);
  return fill != WEFT_LOCAL_FILLED_FORGOTTEN && is_there;
}

weft_str_t weft_local_link_host(void) {
  static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER;
  static char host[64];
  static bool is_known;
  weft_mutex_lock(&mu); /* reads a file of the kernel, once */
  if (!is_known) {
    is_known = true;
    char boot[37] = "";
    const char *links = getenv("WEFT_LOCAL_LINKS");
    int fd = links != NULL && strcmp(links, "0") == 0
                 ? -1
                 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      if (read(fd, boot, 36) == 36) snprintf(host, sizeof host, "%s/%u", boot, (unsigned)geteuid());
      close(fd);
    }
  }
  weft_mutex_unlock(&mu);
  return weft_str(host);
}
