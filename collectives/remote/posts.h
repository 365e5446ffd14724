/* collectives/remote/posts.h - bytes for all members of a collective, in memory that the tasks of a host
 * share.
 *
 * A task has a segment: a file in memory that it alone can write. The file is sealed, so that its size is
 * fixed and peers can map it for reading only: no task can change or cut what another one checks or reads. A
 * segment holds a table of posts and their bytes. A *post* is what one rank gives in one collective; the
 * ranks find each other's by its key, in whatever order they come, and there is no message.
 *
 *   FIRST ------> SECOND ------> READ      the owner may take the entry away when all ranks are at READ
 *      \__________________________^
 *
 *   FIRST    the rank's first bytes can be read
 *   SECOND   it has read what it wants of the first bytes of all ranks, and its second bytes can be read
 *   READ     it reads nothing more
 *
 * A rank that has to wait says so in its entry. The rank whose step completes a state sees that, and wakes
 * it: each first stores what it says, then looks at what the others say, so that one of the two sees the
 * other. A rank waits in one of two ways: its thread goes on to other work, and the rank is woken by the
 * caller's message; or its thread sleeps on words of the segments. A segment has one word, which changes with
 * each state of each of its posts. The sleeper watches the words of the ranks that it waits for, so that the
 * last of these wakes all sleepers by one call.
 *
 * A post whose collective fails is withdrawn at once. Its readers find out, because an entry's serial number
 * is never used twice: what they have read is then of no use, and their collective fails as well.
 *
 * What a peer says in its segment is taken once and checked: places lie inside the segment, other wrong
 * values end or delay the collective at most.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_POSTS_H_
#define WEFT_COLLECTIVES_REMOTE_POSTS_H_

#include "base/str.h"
#include "collectives/remote/word_wait.h"

enum {
  WEFT_POST_RANKS = 32,       /* most members of a collective */
  WEFT_POST_KEY = 192,        /* bytes of a key */
  WEFT_POST_TABLE = 512,      /* posts of a task at one time */
  WEFT_POST_BYTES = 16 << 20, /* of all posts of a task: memory is taken as it is written */
};

typedef enum weft_post_state {
  WEFT_POST_FREE,
  WEFT_POST_FIRST,
  WEFT_POST_SECOND,
  WEFT_POST_READ
} weft_post_state_t;

typedef struct weft_posts weft_posts_t;           /* Thread-safe. A task's own segment. */
typedef struct weft_posts_view weft_posts_view_t; /* Thread-safe. Refcounted. A segment mapped for reading. */
typedef struct weft_post weft_post_t;             /* Confined. */

/* NULL where the system has no such files, and without memory. */
weft_posts_t *weft_posts_create(void);
void weft_posts_destroy(weft_posts_t *p);   /* no post is in use; NULL is fine */
int weft_posts_file(const weft_posts_t *p); /* to hand to peers; lent */

/* Maps the segment that a peer has handed over; the file is the caller's. NULL if it is not sealed as above,
 * or is no segment. */
weft_posts_view_t *weft_posts_view_new(int file);
weft_posts_view_t *weft_posts_view_retain(weft_posts_view_t *v);
void weft_posts_view_release(weft_posts_view_t *v); /* NULL is fine */
/* The segment's owner has ended: nothing waits for it to read. */
void weft_posts_view_end(weft_posts_view_t *v);
weft_posts_view_t *weft_posts_own_view(const weft_posts_t *p); /* lent */

/* A rank's part in a collective; all lent. */
typedef struct weft_post_request {
  int64_t step_id;
  weft_str_t key;                  /* the same on all ranks */
  uint64_t id;                     /* comes back with wake-ups */
  int rank, n;                     /* n: 2 to WEFT_POST_RANKS */
  weft_posts_view_t *const *views; /* by rank; retained */
  const void *data;                /* `bytes` of them, copied */
  size_t bytes, second_bytes;      /* second_bytes: room for what is given later */
} weft_post_request_t;

/* Posts. NULL: there is no room, or no memory. */
weft_post_t *weft_post_new(weft_posts_t *p, const weft_post_request_t *q);
/* Have all ranks reached `state`? False for ever once a peer has withdrawn its post. */
bool weft_post_have_all(weft_post_t *x, weft_post_state_t state);
/* Has this rank posted, and reached `state`? */
bool weft_post_has_reached(weft_post_t *x, int rank, weft_post_state_t state);
/* Have all peers' posts stayed since they were found? What was read is valid then. */
bool weft_post_is_intact(const weft_post_t *x);
/* What `rank` gave, first or second; lent until this post is withdrawn or left. Of a post that was found.
 * NULL if it does not lie in its segment. */
const void *weft_post_first(const weft_post_t *x, int rank, size_t *out_bytes);
const void *weft_post_second(const weft_post_t *x, int rank, size_t *out_bytes);
void *weft_post_own_second(const weft_post_t *x);
/* Of a post for which weft_post_have_all() was true: the next state. */
void weft_post_set(weft_post_t *x, weft_post_state_t state);
/* This rank is about to sleep until all have reached `state`; it looks once more first. A message wakes it.
 */
void weft_post_sleep(weft_post_t *x, weft_post_state_t state);
/* The same, but its thread sleeps on words: those of the ranks that have not reached `state` go into `words`
 * (room for WEFT_POST_RANKS). Returns how many. */
int weft_post_watch(weft_post_t *x, weft_post_state_t state, weft_watched_word_t *words);
void weft_post_awake(weft_post_t *x);
/* All have reached `state`: wakes the ranks whose threads sleep until then, and calls `wake` with rank and id
 * of each other rank that sleeps until then. */
typedef void weft_post_wake_fn(void *arg, int rank, uint64_t id);
void weft_post_wake(const weft_post_t *x, weft_post_state_t state, weft_post_wake_fn *wake, void *arg);
/* Both consume x. Leaving: it stays until all ranks have read it. NULL is fine. */
void weft_post_leave(weft_post_t *x);
void weft_post_withdraw(weft_post_t *x);

#endif /* WEFT_COLLECTIVES_REMOTE_POSTS_H_ */
