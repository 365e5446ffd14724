/* collectives/remote/posts.c - segments, their tables, and the room for bytes in them.
 *
 * A segment is: a header, the table, the bytes. A post's entry is one of the PROBES behind the place that the
 * hash of its key and rank gives, so that a reader looks at few. Bytes lie at the lowest address that has
 * room: memory that was used a moment ago is still in the cache.
 *
 * An entry is written while its word says FREE, and its word is stored last; a reader loads the word before
 * and after it reads an entry or bytes. A word is serial * 4 + state.
 *
 * A step may be run again under its id. A post that is left over from then is told by what it says it has
 * seen: beyond FIRST it has seen a post of this rank, by serial number, which is not this one. A segment's
 * serial numbers begin at a random one: a task that is started again does not repeat those that its peers
 * have seen.
 *
 * Locking: `mu` is a leaf; under it posts get entry and room, and lose them. Peers need no lock.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "collectives/remote/posts.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/random.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

enum {
  SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
  LINE = 64,
  PROBES = 8,
  OLDEST = 8, /* of the left posts: so many are looked at each time */
  ON_WORDS = 4,
};
#define MAGIC UINT64_C(0x3374736f70666577) /* "wefpost3" */

typedef struct post_entry { /* 512 bytes */
  _Atomic uint64_t word;
  _Atomic uint64_t hash, id, step_id;
  _Atomic uint64_t at, bytes, second_bytes; /* the second bytes begin a line behind the first */
  _Atomic uint32_t sleeps_until; /* a weft_post_state_t, and ON_WORDS if a thread sleeps on words; 0: awake */
  _Atomic uint32_t key_bytes;
  _Atomic uint64_t seen[WEFT_POST_RANKS]; /* serials; valid beyond FIRST */
  _Atomic uint64_t key[WEFT_POST_KEY / 8];
} post_entry_t;

typedef struct post_segment {
  uint64_t magic, entry_bytes;
  _Alignas(LINE) _Atomic uint32_t changes; /* of the words of all entries */
  char rest[4096 - LINE - sizeof(uint32_t)];
  post_entry_t table[WEFT_POST_TABLE];
  _Alignas(4096) char bytes[WEFT_POST_BYTES];
} post_segment_t;

struct weft_posts_view {
  atomic_int refs;
  atomic_bool is_over;
  post_segment_t *segment; /* mapped for reading */
};

struct weft_posts {
  int file;
  post_segment_t *segment;
  weft_posts_view_t *view;
  weft_mutex_t mu;
  uint64_t next_serial;                  /* guarded by mu, as all below */
  weft_post_t *owners[WEFT_POST_TABLE];  /* of the table's entries */
  weft_post_t *lowest;                   /* all with room, by address */
  weft_post_t *oldest_left, **last_left; /* left by their ranks, perhaps not read by all */
};

typedef struct post_peer {
  weft_posts_view_t *view;
  post_entry_t *entry; /* in the view; NULL: not found yet */
  uint64_t serial, at, bytes, second_bytes;
} post_peer_t;

struct weft_post {
  weft_posts_t *posts;
  weft_post_t *above; /* guarded by posts->mu, as next_left: the next with room */
  weft_post_t *next_left;
  size_t place; /* in the table */
  post_entry_t *entry;
  uint64_t serial;
  uint64_t base, hash; /* of step and key; of these and the rank */
  size_t at, room, second_at;
  int rank, n, num_found; /* all below num_found are found */
  bool is_lost;           /* a peer has withdrawn its post */
  post_peer_t peers[];
};

/* ---- segments ---- */

weft_posts_view_t *weft_posts_view_new(int file) {
  struct stat st;
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS || fstat(file, &st) != 0 ||
      st.st_size != (off_t)sizeof(post_segment_t))
    return NULL;
  weft_posts_view_t *v = weft_calloc(1, sizeof *v);
  void *at = v == NULL ? MAP_FAILED : mmap(NULL, sizeof(post_segment_t), PROT_READ, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    weft_free(v);
    return NULL;
  }
  atomic_init(&v->refs, 1);
  v->segment = at;
  if (v->segment->magic == MAGIC && v->segment->entry_bytes == sizeof(post_entry_t)) return v;
  weft_posts_view_release(v);
  return NULL;
}

weft_posts_view_t *weft_posts_view_retain(weft_posts_view_t *v) {
  if (v != NULL) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

void weft_posts_view_release(weft_posts_view_t *v) {
  if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  munmap(v->segment, sizeof *v->segment);
  weft_free(v);
}

void weft_posts_view_end(weft_posts_view_t *v) {
  if (v != NULL) atomic_store_explicit(&v->is_over, true, memory_order_release);
}

weft_posts_t *weft_posts_create(void) {
  weft_posts_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  weft_mutex_init(&p->mu);
  p->last_left = &p->oldest_left;
  p->next_serial = weft_random_id() >> 4; /* a word has 62 bits for it */
  p->file = memfd_create("weft-posts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (p->file >= 0 && ftruncate(p->file, (off_t)sizeof *p->segment) == 0) {
    void *at = mmap(NULL, sizeof *p->segment, PROT_READ | PROT_WRITE, MAP_SHARED, p->file, 0);
    if (at != MAP_FAILED) p->segment = at;
  }
  if (p->segment != NULL) {
    p->segment->magic = MAGIC;
    p->segment->entry_bytes = sizeof(post_entry_t);
    if (fcntl(p->file, F_ADD_SEALS, SEALS) == 0) p->view = weft_posts_view_new(p->file);
  }
  if (p->view != NULL) return p;
  weft_posts_destroy(p);
  return NULL;
}

int weft_posts_file(const weft_posts_t *p) { return p->file; }
weft_posts_view_t *weft_posts_own_view(const weft_posts_t *p) { return p->view; }

/* ---- entries and room ---- */

#define ODD UINT64_C(0x9e3779b97f4a7c15)
static uint64_t base_of(int64_t step_id, weft_str_t key) {
  const uint64_t h = (weft_str_hash(key) ^ (uint64_t)step_id) * ODD;
  return h ^ h >> 29;
}
static uint64_t hash_of(uint64_t base, int rank) { return (base + (uint64_t)rank) * ODD; }

static size_t place_of(uint64_t hash, int probe) {
  return ((size_t)(hash >> 40) + (size_t)probe) % WEFT_POST_TABLE;
}
static size_t in_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }
static uint64_t serial_of(uint64_t word) { return word >> 2; }
static weft_post_state_t state_of(uint64_t word) { return (weft_post_state_t)(word & 3); }

/* What was loaded before stays before what is loaded from here on. */
static void order_loads(void) {
#if !defined(__SANITIZE_THREAD__) /* which does not know fences, and does not see other processes either */
  atomic_thread_fence(memory_order_acquire);
#endif
}

/* Loads of a field by others than its owner; all are of entries that may be written at this moment. */
#define FIELD(e, name) atomic_load_explicit(&(e)->name, memory_order_relaxed)
#define SET_FIELD(e, name, value) atomic_store_explicit(&(e)->name, (value), memory_order_relaxed)

static void free_post(weft_post_t *x) {
  if (x == NULL) return;
  for (int i = 0; i < x->n; i++) weft_posts_view_release(x->peers[i].view);
  weft_free(x);
}

/* Takes entry and room back. */
static void remove_locked(weft_posts_t *p, weft_post_t *x) WEFT_REQUIRES(p->mu) {
  atomic_store(&x->entry->word, x->serial << 2 | WEFT_POST_FREE);
  p->owners[x->place] = NULL;
  for (weft_post_t **at = &p->lowest; *at != NULL; at = &(*at)->above) {
    if (*at != x) continue;
    *at = x->above;
    break;
  }
}

static bool is_read_by_all(const weft_post_t *x) {
  for (int i = 0; i < x->n; i++) {
    const post_peer_t *peer = &x->peers[i];
    if (i == x->rank || peer->entry == NULL) continue;
    const uint64_t word = atomic_load(&peer->entry->word);
    if (serial_of(word) == peer->serial && state_of(word) != WEFT_POST_READ &&
        state_of(word) != WEFT_POST_FREE && !atomic_load_explicit(&peer->view->is_over, memory_order_acquire))
      return false;
  }
  return true;
}

/* Takes back what all have read, among the oldest `most` left posts; and what was left under the same name.
 * Returns them, to be freed without the lock. */
static weft_post_t *reclaim_locked(weft_posts_t *p, int most, uint64_t hash) WEFT_REQUIRES(p->mu) {
  weft_post_t *taken = NULL;
  for (weft_post_t **at = &p->oldest_left; *at != NULL;) {
    weft_post_t *x = *at;
    const bool is_due = most-- > 0 && is_read_by_all(x);
    if (!is_due && x->hash != hash) {
      at = &x->next_left;
      continue;
    }
    *at = x->next_left;
    if (x->next_left == NULL) p->last_left = at;
    remove_locked(p, x);
    x->next_left = taken;
    taken = x;
  }
  return taken;
}

static void free_all(weft_post_t *x) {
  while (x != NULL) {
    weft_post_t *next = x->next_left;
    free_post(x);
    x = next;
  }
}

/* Finds entry and room; false: there is none. */
static bool place_locked(weft_posts_t *p, weft_post_t *x) WEFT_REQUIRES(p->mu) {
  int probe = 0;
  while (probe < PROBES && p->owners[place_of(x->hash, probe)] != NULL) probe++;
  if (probe == PROBES) return false;
  size_t at = 0;
  weft_post_t **link = &p->lowest;
  if (x->room > 0) {
    while (*link != NULL && (*link)->at - at < x->room) {
      at = (*link)->at + (*link)->room;
      link = &(*link)->above;
    }
    if (*link == NULL && WEFT_POST_BYTES - at < x->room) return false;
    x->above = *link;
    *link = x;
  }
  x->at = at;
  x->place = place_of(x->hash, probe);
  x->entry = &p->segment->table[x->place];
  x->serial = ++p->next_serial;
  p->owners[x->place] = x;
  return true;
}

static weft_post_t *post_alloc(weft_posts_t *p, const weft_post_request_t *q) {
  size_t size = sizeof(weft_post_t) + (size_t)q->n * sizeof(post_peer_t);
  weft_post_t *x = weft_calloc(1, size);
  if (x == NULL) return NULL;
  x->posts = p;
  x->base = base_of(q->step_id, q->key);
  x->hash = hash_of(x->base, q->rank);
  x->rank = q->rank;
  x->n = q->n;
  x->second_at = in_lines(q->bytes);
  x->room = x->second_at + in_lines(q->second_bytes);
  for (int i = 0; i < q->n; i++) x->peers[i].view = weft_posts_view_retain(q->views[i]);
  return x;
}

static uint64_t word_of_key(weft_str_t key, size_t i) {
  uint64_t word = 0;
  const size_t rest = key.length - i * 8;
  memcpy(&word, key.data + i * 8, rest < 8 ? rest : 8);
  return word;
}

/* Stores the word, then tells the threads that watch the segment, should they be about to sleep. */
static void set_word(weft_post_t *x, weft_post_state_t state) {
  atomic_store(&x->entry->word, x->serial << 2 | (uint64_t)state);
  atomic_fetch_add(&x->posts->segment->changes, 1);
}

/* Writes the entry and lets others see it. */
static void publish(weft_post_t *x, const weft_post_request_t *q) {
  post_entry_t *e = x->entry;
  SET_FIELD(e, hash, x->hash);
  SET_FIELD(e, id, q->id);
  SET_FIELD(e, step_id, (uint64_t)q->step_id);
  SET_FIELD(e, at, x->at);
  SET_FIELD(e, bytes, q->bytes);
  SET_FIELD(e, second_bytes, q->second_bytes);
  SET_FIELD(e, sleeps_until, 0);
  SET_FIELD(e, key_bytes, (uint32_t)q->key.length);
  for (size_t i = 0; i * 8 < q->key.length; i++) SET_FIELD(e, key[i], word_of_key(q->key, i));
  x->peers[x->rank] = (post_peer_t){x->peers[x->rank].view, e, x->serial, x->at, q->bytes, q->second_bytes};
  set_word(x, WEFT_POST_FIRST);
}

weft_post_t *weft_post_new(weft_posts_t *p, const weft_post_request_t *q) {
  if (q->key.length > WEFT_POST_KEY || q->n > WEFT_POST_RANKS || q->bytes > WEFT_POST_BYTES ||
      q->second_bytes > WEFT_POST_BYTES)
    return NULL;
  weft_post_t *x = post_alloc(p, q);
  if (x == NULL) return NULL;
  weft_mutex_lock(&p->mu);
  weft_post_t *old = reclaim_locked(p, OLDEST, x->hash);
  bool is_placed = place_locked(p, x);
  weft_post_t *older = is_placed ? NULL : reclaim_locked(p, WEFT_POST_TABLE, x->hash);
  if (!is_placed) is_placed = place_locked(p, x);
  weft_mutex_unlock(&p->mu);
  free_all(old);
  free_all(older);
  if (!is_placed) {
    free_post(x);
    return NULL;
  }
  if (q->bytes > 0) memcpy(p->segment->bytes + x->at, q->data, q->bytes);
  publish(x, q);
  return x;
}

/* ---- peers ---- */

static bool is_same_key(post_entry_t *theirs, post_entry_t *own) {
  const uint32_t n = FIELD(own, key_bytes);
  if (FIELD(theirs, key_bytes) != n || FIELD(theirs, step_id) != FIELD(own, step_id)) return false;
  for (uint32_t i = 0; i * 8 < n; i++) {
    if (FIELD(theirs, key[i]) != FIELD(own, key[i])) return false;
  }
  return true;
}

static bool find(weft_post_t *x, int rank) {
  post_peer_t *peer = &x->peers[rank];
  const uint64_t hash = hash_of(x->base, rank);
  for (int probe = 0; probe < PROBES; probe++) {
    post_entry_t *e = &peer->view->segment->table[place_of(hash, probe)];
    const uint64_t word = atomic_load(&e->word);
    if (state_of(word) == WEFT_POST_FREE || FIELD(e, hash) != hash || !is_same_key(e, x->entry)) continue;
    if (state_of(word) != WEFT_POST_FIRST && FIELD(e, seen[x->rank]) != x->serial) continue;
    const post_peer_t found = {
        peer->view, e, serial_of(word), FIELD(e, at), FIELD(e, bytes), FIELD(e, second_bytes)};
    order_loads();
    if (serial_of(atomic_load(&e->word)) != found.serial) continue;
    *peer = found;
    return true;
  }
  return false;
}

bool weft_post_has_reached(weft_post_t *x, int rank, weft_post_state_t state) {
  const post_peer_t *p = &x->peers[rank];
  if (p->entry == NULL && !find(x, rank)) return false;
  const uint64_t word = atomic_load(&p->entry->word);
  const bool is_there = serial_of(word) == p->serial && state_of(word) != WEFT_POST_FREE;
  return is_there ? state_of(word) >= state : state == WEFT_POST_READ; /* what all have read is taken away */
}

bool weft_post_have_all(weft_post_t *x, weft_post_state_t state) {
  for (; x->num_found < x->n; x->num_found++) {
    if (x->peers[x->num_found].entry == NULL && !find(x, x->num_found)) return false;
  }
  for (int i = 0; i < x->n && !x->is_lost; i++) {
    const uint64_t word = atomic_load(&x->peers[i].entry->word);
    if (serial_of(word) == x->peers[i].serial && state_of(word) != WEFT_POST_FREE) {
      if (i != x->rank && state_of(word) < state) return false;
    } else if (state != WEFT_POST_READ) { /* what all have read is taken away, too */
      x->is_lost = true;
    }
  }
  return !x->is_lost;
}

bool weft_post_is_intact(const weft_post_t *x) {
  order_loads();
  for (int i = 0; i < x->n; i++) {
    const uint64_t word = atomic_load(&x->peers[i].entry->word);
    if (serial_of(word) != x->peers[i].serial || state_of(word) == WEFT_POST_FREE) return false;
  }
  return true;
}

/* Bytes [at, at + n) of a segment. */
static const void *bytes_at(const post_peer_t *p, uint64_t at, uint64_t n) {
  if (at > WEFT_POST_BYTES || n > WEFT_POST_BYTES - at) return NULL;
  return p->view->segment->bytes + at;
}

const void *weft_post_first(const weft_post_t *x, int rank, size_t *out_bytes) {
  const post_peer_t *p = &x->peers[rank];
  *out_bytes = (size_t)p->bytes;
  return bytes_at(p, p->at, p->bytes);
}

const void *weft_post_second(const weft_post_t *x, int rank, size_t *out_bytes) {
  const post_peer_t *p = &x->peers[rank];
  *out_bytes = (size_t)p->second_bytes;
  if (p->at > WEFT_POST_BYTES || p->bytes > WEFT_POST_BYTES) return NULL;
  return bytes_at(p, p->at + in_lines((size_t)p->bytes), p->second_bytes);
}

void *weft_post_own_second(const weft_post_t *x) { return x->posts->segment->bytes + x->at + x->second_at; }

void weft_post_set(weft_post_t *x, weft_post_state_t state) {
  for (int i = 0; i < x->n; i++) SET_FIELD(x->entry, seen[i], x->peers[i].serial);
  set_word(x, state);
}

void weft_post_sleep(weft_post_t *x, weft_post_state_t state) {
  atomic_store(&x->entry->sleeps_until, (uint32_t)state);
}

/* A rank that is missing here stores its state later, then changes its word, then looks for sleepers: so the
 * word is not what was seen, or its sleeper is woken. */
int weft_post_watch(weft_post_t *x, weft_post_state_t state, weft_watched_word_t *words) {
  int n = 0;
  atomic_store(&x->entry->sleeps_until, (uint32_t)state | ON_WORDS);
  for (int i = 0; i < x->n; i++) {
    if (i == x->rank) continue;
    words[n] = weft_word_watch(&x->peers[i].view->segment->changes);
    if (!weft_post_has_reached(x, i, state)) n++;
  }
  return n;
}

void weft_post_awake(weft_post_t *x) { SET_FIELD(x->entry, sleeps_until, 0); }

void weft_post_wake(const weft_post_t *x, weft_post_state_t state, weft_post_wake_fn *wake, void *arg) {
  bool has_words = false;
  for (int i = 0; i < x->n; i++) {
    post_entry_t *e = x->peers[i].entry;
    const uint32_t until = i == x->rank ? 0 : atomic_load(&e->sleeps_until);
    has_words = has_words || until == ((uint32_t)state | ON_WORDS);
    if (until != (uint32_t)state) continue;
    const uint64_t id = FIELD(e, id);
    if (serial_of(atomic_load(&e->word)) == x->peers[i].serial) wake(arg, i, id);
  }
  if (has_words) weft_word_wake(&x->posts->segment->changes);
}

/* ---- the end of a post ---- */

void weft_post_leave(weft_post_t *x) {
  if (x == NULL) return;
  weft_posts_t *p = x->posts;
  weft_mutex_lock(&p->mu);
  *p->last_left = x;
  p->last_left = &x->next_left;
  weft_mutex_unlock(&p->mu);
}

void weft_post_withdraw(weft_post_t *x) {
  if (x == NULL) return;
  weft_posts_t *p = x->posts;
  weft_mutex_lock(&p->mu);
  remove_locked(p, x);
  weft_mutex_unlock(&p->mu);
  free_post(x);
}

void weft_posts_destroy(weft_posts_t *p) {
  if (p == NULL) return;
  free_all(p->oldest_left);
  weft_posts_view_release(p->view);
  if (p->segment != NULL) munmap(p->segment, sizeof *p->segment);
  if (p->file >= 0) close(p->file);
  weft_mutex_deinit(&p->mu);
  weft_free(p);
}
