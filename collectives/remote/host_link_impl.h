/* collectives/remote/host_link_impl.h - what the files of the links share; for them alone.
 *
 * How two tasks are linked; C has the smaller name:
 *
 *   C: connect, HELLO ------------> A: which process? can A read C's word?
 *   C: can C read A's word? <------ HELLO (yes)        with each HELLO goes the sender's segment, if it has
 * one C: linked, READY -------------> A: linked
 *
 * A word is a random number at a known address; every later read fetches it, too,
 * and so finds out if another process has got the peer's number. A task that cannot read, or waits longer
 * than WEFT_HOST_WAIT_MS, closes the socket before it is linked: the other end then knows that there is no
 * link, and will be none.
 *
 * Ownership: the thread holds a reference per open socket and is the only one that
 * closes it; `by_task` holds another. Other threads break a link by shutdown(), which the thread sees as its
 * end.
 *
 * Locking: links.mu guards the tables and the states; link.mu its queue. Both are
 * leaves. Callbacks are called with neither.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_HOST_LINK_IMPL_H_
#define WEFT_COLLECTIVES_REMOTE_HOST_LINK_IMPL_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/process_memory.h"
#include "collectives/remote/host_link.h"

enum { WEFT_HOST_WAIT_MS = 2000, WEFT_HOST_MAX_PACKET = 64 << 10 };
#define WEFT_HOST_MAGIC UINT32_C(0x326c6877) /* "whl2" */

typedef enum weft_host_kind {
  WEFT_HOST_HELLO,
  WEFT_HOST_READY,
  WEFT_HOST_OFFER,
  WEFT_HOST_FINISHED,
  WEFT_HOST_REFUSED,
  WEFT_HOST_WAKE,
  WEFT_HOST_ENDED,
  WEFT_HOST_BYE
} weft_host_kind_t;
typedef struct weft_host_header { /* both ends are on one machine: its own byte order */
  uint32_t magic, kind;
  uint64_t id;
  int64_t step_id;
  uint64_t bytes, address, word;
  uint32_t text_a, text_b,
      payload; /* lengths of what follows: key or task, device or message, inline bytes */
  int32_t code;
} weft_host_header_t;

typedef struct weft_host_packet {
  struct weft_host_packet *next;
  size_t length;
  char bytes[];
} weft_host_packet_t;

typedef enum weft_host_state {
  WEFT_HOST_NEW,
  WEFT_HOST_GREETED,
  WEFT_HOST_LINKED,
  WEFT_HOST_OVER
} weft_host_state_t;

struct weft_host_link {
  atomic_int refs;
  weft_host_links_t *links;
  char *task; /* owned; NULL until it has said WEFT_HOST_HELLO. Constant then */
  uint64_t incarnation;
  int fd;
  bool is_connector;
  int64_t said_ns;          /* when we said WEFT_HOST_HELLO; the thread's own */
  int64_t deadline_ns;      /* of the handshake; the thread's own */
  bool has_left, is_ending; /* the peer has said WEFT_HOST_BYE; end_link is at it; the thread's own */
  char *failed;             /* owned, as below; the thread's own: what came with WEFT_HOST_BYE */
  weft_status_t *failed_why;
  weft_process_memory_t owner; /* the peer's; constant once greeted */
  weft_posts_view_t *posts;    /* the peer's segment; constant once greeted; NULL: none */
  pid_t pid;
  weft_host_state_t state; /* guarded by links.mu */
  weft_mutex_t mu;
  weft_host_packet_t *head, **tail; /* guarded by mu: what the socket did not take */
  bool is_closed;                   /* guarded by mu: fd is closed */
  weft_host_link_t *next;           /* thread's list of open sockets */
};

typedef struct weft_host_waiter {
  struct weft_host_waiter *next;
  char *task; /* owned; NULL: waits for `pass` */
  uint64_t incarnation, pass;
  int64_t deadline_ns;
  weft_host_linked_fn *fn;
  void *arg;
} weft_host_waiter_t;

struct weft_host_links {
  weft_str_t task;
  uint64_t incarnation, word;
  const weft_host_link_ops_t *ops;
  void *arg;
  char *host; /* owned; NULL: nothing works here */
  int listener, epoll, wake;
  pthread_t thread;
  bool has_thread;
  atomic_bool is_stopping;
  weft_posts_t *posts;    /* owned; NULL: none */
  weft_host_link_t *open; /* thread's own */
  char *buffer;           /* owned; the thread's: one packet */
  weft_mutex_t mu;
  weft_map_t by_task; /* guarded by mu: task -> link (one reference); may be WEFT_HOST_OVER: no link with that
                         incarnation */
  weft_host_waiter_t *waiters; /* guarded by mu */
  uint64_t num_passes;         /* guarded by mu: how often all that had come was read */
  bool is_over;                /* guarded by mu: no thread tells waiters (any more) */
  weft_host_link_t *fresh;     /* guarded by mu: connected elsewhere, for the thread to take */
};

/* host_socket.c */

socklen_t weft_host_address(uint64_t incarnation, struct sockaddr_un *out);
void weft_host_widen(int fd);
/* Is the other end a process of our own user? The kernel says so, not the peer. */
bool weft_host_find_pid(int fd, pid_t *out);
/* This boot of this machine, the namespaces in which we see others, our user. Owned; NULL if it cannot be
 * known. */
char *weft_host_describe(void);

/* host_link.c */

weft_host_link_t *weft_host_link_new(weft_host_links_t *ls, int fd); /* takes fd over; NULL without memory */
void weft_host_link_flush(weft_host_link_t *l); /* the thread's: the socket takes some again */
bool weft_host_link_send(weft_host_link_t *l, weft_host_header_t *h, weft_str_t a, weft_str_t b,
                         const void *payload, size_t n);
/* As above, with an open file; -1: none. Only while nothing is queued. */
bool weft_host_link_send_file(weft_host_link_t *l, weft_host_header_t *h, weft_str_t text, int file);
/* Receives a packet of at most WEFT_HOST_MAX_PACKET bytes as recv(MSG_DONTWAIT | MSG_TRUNC) does, and the
 * file that came with it; -1: none. */
ssize_t weft_host_link_recv(weft_host_link_t *l, char *to, int *out_file);
void weft_host_link_bye(weft_host_link_t *l, weft_str_t failed, const weft_status_t *why);

/* host_link_thread.c */

bool weft_host_is_decided_locked(weft_host_links_t *ls, const char *task, uint64_t incarnation)
    WEFT_REQUIRES(ls->mu);
weft_host_waiter_t *weft_host_take_waiters_locked(weft_host_links_t *ls, bool all, int64_t now)
    WEFT_REQUIRES(ls->mu);
void weft_host_tell_waiters(weft_host_waiter_t *w); /* consumes a list */
bool weft_host_watch(weft_host_links_t *ls, int fd, void *what);
/* Puts the link in by_task; false if there is one already, or a decision against it. */
bool weft_host_enter(weft_host_links_t *ls, weft_host_link_t *l);
void *weft_host_links_run(void *arg); /* the thread */

#endif /* WEFT_COLLECTIVES_REMOTE_HOST_LINK_IMPL_H_ */
