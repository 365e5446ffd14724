/* device/cuda/queue.c - recorded events, waiters, and a failure that is for good.
 *
 *   marked   Weft's counter: the last fence that there is
 *   covered  the last fence that a recorded event is behind
 *   passed   the last fence that is known to have passed; it stays as it is once the queue is poisoned
 *
 * A fence passes when its event is done and no queue has failed whose fences this one waits for, directly or
 * by way of others. The second is asked of the driver each time: CUDA does not say whether a stream that
 * waits for an event of a context that fails waits for ever or goes on, and what a stream did that went on is
 * worthless.
 *
 * Locking: `registry.mu`, then a queue's `mu`. Both are held over calls of the driver that do not wait. A
 * waiter's function is called, and memory given back, without them. `moving` is a leaf, which host functions
 * hold while they touch host memory: when a queue has been poisoned none does any more.
 */
#include "device/cuda/queue.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

enum {
  NUM_NOTES = 32,  /* nodes that a failure names at most */
  NOTE_WORDS = 12, /* of a name */
  NOTE_BYTES = WEFT_CUDA_NOTE_BYTES,
  MAX_RETIRED = 64, /* things that wait for work, before an event is recorded for them */
};

/* A node that was launched. Written without a lock, by the thread that has made `turn` odd. Note n (from 0)
 * is whole when turn is 2n + 2. */
typedef struct cuda_note {
  atomic_ullong turn;
  atomic_ullong behind; /* the fence that the node comes behind */
  atomic_ullong name[NOTE_WORDS];
} cuda_note_t;

typedef struct cuda_record {
  struct cuda_record *next;
  CUevent event;
  uint64_t covers; /* all fences up to this one are in front of it */
  bool waited_for; /* by the queue's thread */
  bool is_done;    /* it is no longer in the list; the thread gives it back */
} cuda_record_t;

typedef struct cuda_retired {
  struct cuda_retired *next;
  uint64_t value;
  void (*give_back)(void *arg, void *p);
  void *arg, *p;
} cuda_retired_t;

struct weft_cuda_queue {
  CUcontext context;
  CUstream stream;
  const volatile uint64_t *marked;
  int index; /* in the registry */
  char name[64];
  atomic_ullong passed;
  atomic_bool is_poisoned;                   /* poison is not NULL */
  atomic_ullong waits[WEFT_CUDA_MAX_QUEUES]; /* the last fence of each queue that this one waits for */
  cuda_note_t notes[NUM_NOTES];
  atomic_ullong num_notes;
  weft_mutex_t moving;
  weft_cuda_side_t side; /* its stream is NULL until it is made, under side.mu */
  weft_mutex_t mu;
  weft_cond_t changed;
  /* guarded by mu: */
  cuda_record_t *oldest, **newest; /* in the order of the stream */
  cuda_record_t *spare;
  uint64_t covered;
  WEFT_FenceWaiter *waiters; /* by value */
  cuda_retired_t *retired, **last_retired;
  int num_retired;
  WEFT_Failure *poison;
  bool ends;
  pthread_t thread;
  bool has_thread;
};

_Static_assert(NOTE_BYTES == 8 * NOTE_WORDS, "a name is whole words");

/* Of the calling thread: its work for `queue` goes to `to`. */
static _Thread_local struct {
  weft_cuda_queue_t *queue;
  weft_cuda_recording_t *to;
} recording;

static struct {
  weft_mutex_t mu;
  weft_cuda_queue_t *queues[WEFT_CUDA_MAX_QUEUES]; /* guarded by mu */
} registry = {.mu = WEFT_MUTEX_INITIALIZER};

static uint64_t marked_of(const weft_cuda_queue_t *q) {
  return __atomic_load_n(q->marked, __ATOMIC_ACQUIRE); /* pairs with the addition of weft_queue_mark() */
}

uint64_t weft_cuda_queue_passed(const weft_cuda_queue_t *q) {
  return atomic_load_explicit(&((weft_cuda_queue_t *)(uintptr_t)q)->passed, memory_order_acquire);
}

CUstream weft_cuda_queue_stream(const weft_cuda_queue_t *q) {
  return recording.queue == q ? recording.to->stream : q->stream;
}

static CUresult enter(weft_cuda_queue_t *q) { return weft_cuda_driver.cuCtxSetCurrent(q->context); }

/* ---- records ---- */

/* Records an event behind everything that the stream has got, if no event covers `value` yet. */
static CUresult cover_locked(weft_cuda_queue_t *q, uint64_t value) {
  if (q->covered >= value) return CUDA_SUCCESS;
  CUresult r = enter(q);
  if (r != CUDA_SUCCESS) return r;
  cuda_record_t *e = q->spare;
  if (e != NULL) {
    q->spare = e->next;
  } else {
    e = weft_calloc(1, sizeof *e);
    if (e == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    r = weft_cuda_driver.cuEventCreate(&e->event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
    if (r != CUDA_SUCCESS) {
      weft_free(e);
      return r;
    }
  }
  const uint64_t covers = marked_of(q); /* first: what is marked now was enqueued before */
  r = weft_cuda_driver.cuEventRecord(e->event, q->stream);
  e->next = NULL;
  if (r != CUDA_SUCCESS) {
    e->next = q->spare;
    q->spare = e;
    return r;
  }
  e->covers = covers;
  e->waited_for = e->is_done = false;
  *q->newest = e;
  q->newest = &e->next;
  q->covered = covers;
  return CUDA_SUCCESS;
}

static cuda_record_t *covering_locked(weft_cuda_queue_t *q, uint64_t value) {
  cuda_record_t *e = q->oldest;
  while (e != NULL && e->covers < value) e = e->next;
  return e;
}

/* The oldest event is done, and the queue is not poisoned. */
static void pop_locked(weft_cuda_queue_t *q) {
  cuda_record_t *e = q->oldest;
  q->oldest = e->next;
  if (q->oldest == NULL) q->newest = &q->oldest;
  if (weft_cuda_queue_passed(q) < e->covers) {
    atomic_store_explicit(&q->passed, e->covers, memory_order_release);
  }
  e->is_done = true;
  if (e->waited_for) return;
  e->next = q->spare;
  q->spare = e;
}

/* *out: the last fence whose event is done; `passed` where no other is. */
static CUresult poll_locked(weft_cuda_queue_t *q, uint64_t *out) {
  *out = weft_cuda_queue_passed(q);
  for (const cuda_record_t *e = q->oldest; e != NULL; e = e->next) {
    const CUresult r = weft_cuda_driver.cuEventQuery(e->event);
    if (r != CUDA_SUCCESS) return r;
    *out = e->covers;
  }
  return CUDA_SUCCESS;
}

/* The events up to that of the fence `done` are done. */
static void pass_locked(weft_cuda_queue_t *q, uint64_t done) {
  while (q->poison == NULL && q->oldest != NULL && q->oldest->covers <= done) pop_locked(q);
}

static cuda_retired_t *take_retired_locked(weft_cuda_queue_t *q, bool all) {
  cuda_retired_t *taken = q->retired, **end = &taken;
  const uint64_t passed = weft_cuda_queue_passed(q);
  while (*end != NULL && (all || (*end)->value <= passed)) {
    end = &(*end)->next;
    q->num_retired--;
  }
  q->retired = *end;
  *end = NULL;
  if (q->retired == NULL) q->last_retired = &q->retired;
  return taken;
}

static void give_back(cuda_retired_t *list) {
  for (cuda_retired_t *next; list != NULL; list = next) {
    next = list->next;
    list->give_back(list->arg, list->p);
    weft_free(list);
  }
}

static WEFT_FenceWaiter *take_waiters_locked(weft_cuda_queue_t *q, bool all) {
  WEFT_FenceWaiter *taken = q->waiters, **end = &taken;
  const uint64_t passed = weft_cuda_queue_passed(q);
  while (*end != NULL && (all || (*end)->value <= passed)) end = &(*end)->next;
  q->waiters = *end;
  *end = NULL;
  return taken;
}

/* Calls them with copies of `failure`, which stays the caller's. */
static void call_waiters(WEFT_FenceWaiter *list, const WEFT_Failure *failure) {
  for (WEFT_FenceWaiter *next; list != NULL; list = next) {
    next = list->next;
    list->fn(list, failure == NULL ? NULL : weft_cuda_host->failure_copy(failure));
  }
}

/* ---- failures ---- */

/* Copies the name of note n, if it may have failed: it is whole, and not known to be done. */
static bool read_note(weft_cuda_queue_t *q, uint64_t n, char out[NOTE_BYTES]) {
  cuda_note_t *x = &q->notes[n % NUM_NOTES];
  uint64_t words[NOTE_WORDS];
  if (atomic_load_explicit(&x->turn, memory_order_acquire) != 2 * n + 2) return false;
  const uint64_t behind = atomic_load_explicit(&x->behind, memory_order_acquire);
  for (int i = 0; i < NOTE_WORDS; i++) words[i] = atomic_load_explicit(&x->name[i], memory_order_acquire);
  memcpy(out, words, NOTE_BYTES);
  return atomic_load_explicit(&x->turn, memory_order_relaxed) == 2 * n + 2 &&
         behind >= weft_cuda_queue_passed(q);
}

/* Adds the names of what may have failed to the text. */
static void add_suspects(weft_cuda_queue_t *q, char *out, size_t max) {
  const uint64_t end = atomic_load_explicit(&q->num_notes, memory_order_acquire);
  size_t length = strlen(out);
  for (uint64_t n = end < NUM_NOTES ? 0 : end - NUM_NOTES; n < end; n++) {
    char name[NOTE_BYTES];
    if (!read_note(q, n, name)) continue;
    const int written = snprintf(out + length, max - length, "%s'%s'", length == 0 ? "" : ", ", name);
    if (written < 0 || (size_t)written >= max - length) break;
    length += (size_t)written;
  }
}

/* Takes over `failure`. What waited for the queue and for those that depend on it goes to *out. */
static void poison_locked(weft_cuda_queue_t *q, WEFT_Failure *failure, WEFT_FenceWaiter **out)
    WEFT_REQUIRES(registry.mu) {
  weft_mutex_lock(&q->mu);
  const bool is_new = q->poison == NULL;
  if (is_new) {
    q->poison = failure;
    atomic_store_explicit(&q->is_poisoned, true, memory_order_release);
    WEFT_FenceWaiter **end = out;
    while (*end != NULL) end = &(*end)->next;
    *end = take_waiters_locked(q, true);
    weft_cond_signal(&q->changed);
  }
  const uint64_t passed = weft_cuda_queue_passed(q);
  weft_mutex_unlock(&q->mu);
  if (!is_new) {
    weft_cuda_host->failure_free(failure);
    return;
  }
  weft_mutex_lock(&q->moving); /* a host function that has begun ends first: waiters free what it touches */
  weft_mutex_unlock(&q->moving);
  for (int i = 0; i < WEFT_CUDA_MAX_QUEUES; i++) {
    weft_cuda_queue_t *other = registry.queues[i];
    if (other != NULL && other != q && atomic_load(&other->waits[q->index]) > passed) {
      poison_locked(other, weft_cuda_host->failure_copy(failure), out);
    }
  }
}

/* The same; is_fatal: the context is lost, and all of its queues with it. */
static void poison_all_locked(weft_cuda_queue_t *q, WEFT_Failure *failure, bool is_fatal,
                              WEFT_FenceWaiter **out) WEFT_REQUIRES(registry.mu) {
  WEFT_Failure *copy = is_fatal ? weft_cuda_host->failure_copy(failure) : NULL;
  poison_locked(q, failure, out);
  for (int i = 0; is_fatal && i < WEFT_CUDA_MAX_QUEUES; i++) {
    weft_cuda_queue_t *other = registry.queues[i];
    if (other == NULL || other == q || other->context != q->context) continue;
    poison_locked(other, weft_cuda_host->failure_copy(copy), out);
  }
  weft_cuda_host->failure_free(copy);
}

void weft_cuda_queue_poison(weft_cuda_queue_t *q, WEFT_Failure *failure) {
  WEFT_Failure *copy = weft_cuda_host->failure_copy(failure);
  WEFT_FenceWaiter *waiters = NULL;
  weft_mutex_lock(&registry.mu);
  poison_all_locked(q, failure, false, &waiters);
  weft_mutex_unlock(&registry.mu);
  call_waiters(waiters, copy);
  weft_cuda_host->failure_free(copy);
}

/* The stream has failed with r. Returns the failure that *out is called with. */
static WEFT_Failure *fail_locked(weft_cuda_queue_t *q, CUresult r, const char *what, WEFT_FenceWaiter **out)
    WEFT_REQUIRES(registry.mu) {
  char names[NUM_NOTES * (NOTE_BYTES + 4)] = "";
  for (int i = 0; i < WEFT_CUDA_MAX_QUEUES; i++) { /* whichever queue of the context finds it */
    weft_cuda_queue_t *other = registry.queues[i];
    if (other != NULL && other->context == q->context) add_suspects(other, names, sizeof names);
  }
  WEFT_Failure *f =
      weft_cuda_failure(r, "%s of %s failed; kernels since the last one that is known to be done: %.380s",
                        what, q->name, names[0] == '\0' ? "none" : names);
  poison_all_locked(q, weft_cuda_host->failure_copy(f), weft_cuda_is_fatal(r), out);
  return f;
}

static void fail(weft_cuda_queue_t *q, CUresult r, const char *what) {
  WEFT_FenceWaiter *waiters = NULL;
  weft_mutex_lock(&registry.mu);
  WEFT_Failure *f = fail_locked(q, r, what, &waiters);
  weft_mutex_unlock(&registry.mu);
  call_waiters(waiters, f);
  weft_cuda_host->failure_free(f);
}

WEFT_Failure *weft_cuda_queue_check(weft_cuda_queue_t *q, CUresult r, const char *what) {
  if (r == CUDA_SUCCESS) return NULL;
  if (weft_cuda_is_fatal(r)) fail(q, r, what);
  weft_mutex_lock(&q->mu);
  WEFT_Failure *f = weft_cuda_host->failure_copy(q->poison);
  weft_mutex_unlock(&q->mu);
  return f != NULL ? f : weft_cuda_failure(r, "%s on %s", what, q->name);
}

WEFT_Failure *weft_cuda_queue_begin(weft_cuda_queue_t *q, const char *what) {
  if (!atomic_load_explicit(&q->is_poisoned, memory_order_acquire))
    return weft_cuda_queue_check(q, enter(q), what);
  weft_mutex_lock(&q->mu);
  WEFT_Failure *f = weft_cuda_host->failure_copy(q->poison);
  weft_mutex_unlock(&q->mu);
  return f;
}

void weft_cuda_queue_note(weft_cuda_queue_t *q, const char *name) {
  if (recording.queue == q) {
    char *to = recording.to->first[0] == '\0' ? recording.to->first : recording.to->last;
    const size_t all = strlen(name);
    snprintf(to, NOTE_BYTES, "%s", all < NOTE_BYTES ? name : name + (all - (NOTE_BYTES - 1)));
    return;
  }
  const uint64_t n = atomic_fetch_add_explicit(&q->num_notes, 1, memory_order_relaxed);
  cuda_note_t *x = &q->notes[n % NUM_NOTES];
  unsigned long long turn = atomic_load_explicit(&x->turn, memory_order_relaxed);
  /* Another thread is still writing here, or has written a later one: this note is left out. */
  if (turn % 2 != 0 || turn > 2 * n ||
      !atomic_compare_exchange_strong_explicit(&x->turn, &turn, 2 * n + 1, memory_order_acq_rel,
                                               memory_order_relaxed)) {
    return;
  }
  const size_t length = strlen(name);
  const char *from = length < NOTE_BYTES ? name : name + (length - (NOTE_BYTES - 1));
  uint64_t words[NOTE_WORDS] = {0};
  memcpy(words, from, strlen(from));
  /* Release: a reader that finds one of these finds the odd turn, too. */
  atomic_store_explicit(&x->behind, marked_of(q), memory_order_release);
  for (int i = 0; i < NOTE_WORDS; i++) atomic_store_explicit(&x->name[i], words[i], memory_order_release);
  atomic_store_explicit(&x->turn, 2 * n + 2, memory_order_release);
}

/* ---- fences ---- */

/* What the driver says of a queue's oldest event. CUDA_SUCCESS, too: there is none. */
static CUresult ask(weft_cuda_queue_t *q) {
  weft_mutex_lock(&q->mu);
  const bool is_asked = q->poison == NULL && q->oldest != NULL;
  const CUresult r = is_asked ? weft_cuda_driver.cuEventQuery(q->oldest->event) : CUDA_SUCCESS;
  weft_mutex_unlock(&q->mu);
  return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

/* Adds to `list` the queues whose fences `q` waits for as far as is known; returns how many it has then. */
static int add_waited_for(const weft_cuda_queue_t *q, bool *is_listed, weft_cuda_queue_t **list, int n)
    WEFT_REQUIRES(registry.mu) {
  for (int i = 0; i < WEFT_CUDA_MAX_QUEUES; i++) {
    weft_cuda_queue_t *other = registry.queues[i];
    if (other == NULL || is_listed[i] || atomic_load(&q->waits[i]) <= weft_cuda_queue_passed(other)) continue;
    is_listed[i] = true;
    list[n++] = other;
  }
  return n;
}

/* Asks all queues whose fences q waits for, and those whose fences these wait for. One that has failed is
 * poisoned then, and with it q. */
static void ask_waited_for(weft_cuda_queue_t *q) {
  bool is_listed[WEFT_CUDA_MAX_QUEUES] = {false};
  weft_cuda_queue_t *list[WEFT_CUDA_MAX_QUEUES];
  WEFT_FenceWaiter *waiters = NULL;
  WEFT_Failure *f = NULL;
  weft_mutex_lock(&registry.mu); /* none of them is destroyed meanwhile */
  is_listed[q->index] = true;
  int n = add_waited_for(q, is_listed, list, 0);
  for (int i = 0; i < n && f == NULL; i++) {
    const CUresult r = ask(list[i]);
    if (r != CUDA_SUCCESS) f = fail_locked(list[i], r, "the work", &waiters);
    n = add_waited_for(list[i], is_listed, list, n);
  }
  weft_mutex_unlock(&registry.mu);
  call_waiters(waiters, f);
  weft_cuda_host->failure_free(f);
}

void weft_cuda_queue_wait(void *queue, void *other_queue, uint64_t value) {
  weft_cuda_queue_t *q = queue, *other = other_queue;
  if (q == other || weft_cuda_queue_passed(other) >= value) return;
  if (recording.queue == q) {
    recording.to->refused = "a wait for another queue";
    return;
  }
  /* Before the poison is looked at: what poisons `other` later finds it. */
  if (atomic_load(&q->waits[other->index]) < value) atomic_store(&q->waits[other->index], value);
  WEFT_Failure *poisoned = NULL;
  CUresult recorded = CUDA_SUCCESS, waited = CUDA_SUCCESS;
  weft_mutex_lock(&other->mu);
  if (other->poison != NULL) {
    if (weft_cuda_queue_passed(other) < value) poisoned = weft_cuda_host->failure_copy(other->poison);
  } else {
    recorded = cover_locked(other, value);
    const cuda_record_t *e = recorded == CUDA_SUCCESS ? covering_locked(other, value) : NULL;
    if (e != NULL) { /* NULL: it has passed meanwhile */
      waited = enter(q);
      if (waited == CUDA_SUCCESS) waited = weft_cuda_driver.cuStreamWaitEvent(q->stream, e->event, 0);
    }
  }
  weft_mutex_unlock(&other->mu);
  if (poisoned != NULL) weft_cuda_queue_poison(q, poisoned);
  if (recorded != CUDA_SUCCESS) fail(other, recorded, "recording an event"); /* and q, which waits for it */
  if (waited != CUDA_SUCCESS) fail(q, waited, "waiting for another queue");
}

int weft_cuda_queue_has_passed(void *queue, uint64_t value) {
  weft_cuda_queue_t *q = queue;
  if (weft_cuda_queue_passed(q) >= value) return 1;
  if (recording.queue != NULL) return 0; /* asking the driver for an event would spoil the capture */
  CUresult r = CUDA_SUCCESS;
  uint64_t done = 0;
  weft_mutex_lock(&q->mu);
  if (q->poison == NULL) {
    r = cover_locked(q, value);
    if (r == CUDA_SUCCESS) r = poll_locked(q, &done);
  }
  weft_mutex_unlock(&q->mu);
  if (done > weft_cuda_queue_passed(q)) {
    ask_waited_for(q);
    weft_mutex_lock(&q->mu);
    pass_locked(q, done);
    cuda_retired_t *retired = take_retired_locked(q, false);
    weft_mutex_unlock(&q->mu);
    give_back(retired);
  }
  if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) fail(q, r, "the work");
  return weft_cuda_queue_passed(q) >= value;
}

void weft_cuda_queue_when(void *queue, WEFT_FenceWaiter *w) {
  weft_cuda_queue_t *q = queue;
  CUresult r = CUDA_SUCCESS;
  bool is_listed = false;
  if (weft_cuda_queue_passed(q) < w->value) {
    weft_mutex_lock(&q->mu);
    if (q->poison == NULL && weft_cuda_queue_passed(q) < w->value) {
      r = cover_locked(q, w->value);
      if (r == CUDA_SUCCESS) {
        WEFT_FenceWaiter **at = &q->waiters;
        while (*at != NULL && (*at)->value <= w->value) at = &(*at)->next;
        w->next = *at;
        *at = w;
        is_listed = true;
        weft_cond_signal(&q->changed);
      }
    }
    weft_mutex_unlock(&q->mu);
  }
  if (is_listed) return;
  if (r != CUDA_SUCCESS) fail(q, r, "recording an event");
  WEFT_Failure *f = NULL;
  weft_mutex_lock(&q->mu);
  if (weft_cuda_queue_passed(q) < w->value) f = weft_cuda_host->failure_copy(q->poison);
  weft_mutex_unlock(&q->mu);
  w->fn(w, f);
}

/* Sleeps until the smallest fence that is waited for has passed, or the queue is poisoned. */
static CUresult sleep_locked(weft_cuda_queue_t *q) WEFT_REQUIRES(q->mu) {
  cuda_record_t *e = covering_locked(q, q->waiters->value);
  if (e == NULL) return CUDA_SUCCESS;
  const uint64_t covers = e->covers;
  e->waited_for = true;
  weft_mutex_unlock(&q->mu);
  CUresult r = enter(q);
  if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuEventSynchronize(e->event);
  if (r == CUDA_SUCCESS) ask_waited_for(q);
  weft_mutex_lock(&q->mu);
  e->waited_for = false;
  if (e->is_done) { /* has_passed() came before */
    e->next = q->spare;
    q->spare = e;
  } else if (r == CUDA_SUCCESS) {
    pass_locked(q, covers);
  }
  return r;
}

static void *serve(void *arg) {
  weft_cuda_queue_t *q = arg;
  weft_mutex_lock(&q->mu);
  for (;;) {
    while (q->waiters == NULL && !q->ends) weft_cond_wait(&q->changed, &q->mu);
    if (q->waiters == NULL) break;
    const CUresult r = sleep_locked(q);
    WEFT_FenceWaiter *waiters = take_waiters_locked(q, false);
    cuda_retired_t *retired = take_retired_locked(q, false);
    weft_mutex_unlock(&q->mu);
    call_waiters(waiters, NULL);
    give_back(retired);
    if (r != CUDA_SUCCESS) fail(q, r, "the work");
    weft_mutex_lock(&q->mu);
  }
  weft_mutex_unlock(&q->mu);
  return NULL;
}

void weft_cuda_queue_retire(weft_cuda_queue_t *q, void (*how)(void *arg, void *p), void *arg, void *p) {
  cuda_retired_t *t = weft_calloc(1, sizeof *t);
  if (recording.queue == q) {
    if (t == NULL) { /* what was recorded never runs then */
      recording.to->refused = "something to give back without memory";
      how(arg, p);
      return;
    }
    *t = (cuda_retired_t){.next = recording.to->kept, .give_back = how, .arg = arg, .p = p};
    recording.to->kept = t;
    return;
  }
  if (t == NULL) {
    if (enter(q) == CUDA_SUCCESS) (void)weft_cuda_driver.cuStreamSynchronize(q->stream);
    how(arg, p);
    return;
  }
  weft_mutex_lock(&q->mu);
  *t = (cuda_retired_t){.value = marked_of(q) + 1, .give_back = how, .arg = arg, .p = p};
  *q->last_retired = t;
  q->last_retired = &t->next;
  const bool are_many = ++q->num_retired >= MAX_RETIRED;
  weft_mutex_unlock(&q->mu);
  /* Up to the fence before the last ones: nothing else may ever ask. */
  if (are_many) (void)weft_cuda_queue_has_passed(q, marked_of(q));
}

/* ---- recordings ---- */

bool weft_cuda_queue_record(weft_cuda_queue_t *q, weft_cuda_recording_t *r) {
  if (recording.queue != NULL) return false;
  recording.queue = q;
  recording.to = r;
  return true;
}

weft_cuda_recording_t *weft_cuda_queue_stop_recording(weft_cuda_queue_t *q) {
  if (recording.queue != q) return NULL;
  weft_cuda_recording_t *r = recording.to;
  recording.queue = NULL;
  recording.to = NULL;
  return r;
}

void weft_cuda_recording_deinit(weft_cuda_recording_t *r) {
  if (r->stream != NULL) (void)weft_cuda_driver.cuStreamDestroy(r->stream);
  r->stream = NULL;
  give_back(r->kept);
  r->kept = NULL;
}

/* ---- the side ---- */

/* Of a function that returns with a lock taken, or gives one back. */
#define KEEPS_LOCK WEFT_TSA(no_thread_safety_analysis)

static void destroy_side(weft_cuda_side_t *side) {
  for (int i = 0; i < 2; i++) {
    if (side->filled[i] != NULL) (void)weft_cuda_driver.cuEventDestroy(side->filled[i]);
    if (side->emptied[i] != NULL) (void)weft_cuda_driver.cuEventDestroy(side->emptied[i]);
    side->filled[i] = side->emptied[i] = NULL;
  }
  if (side->stream != NULL) (void)weft_cuda_driver.cuStreamDestroy(side->stream);
  side->stream = NULL;
}

KEEPS_LOCK CUresult weft_cuda_queue_side_lock(weft_cuda_queue_t *q, weft_cuda_side_t **out) {
  weft_cuda_side_t *side = &q->side;
  CUresult r = CUDA_SUCCESS;
  if (recording.queue == q) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* a second stream */
  weft_mutex_lock(&side->mu);
  if (side->stream == NULL) {
    for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
      r = weft_cuda_driver.cuEventCreate(&side->filled[i], CU_EVENT_DISABLE_TIMING);
      if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuEventCreate(&side->emptied[i], CU_EVENT_DISABLE_TIMING);
    }
    if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING);
    if (r != CUDA_SUCCESS) destroy_side(side);
  }
  if (r == CUDA_SUCCESS) {
    *out = side;
  } else {
    weft_mutex_unlock(&side->mu);
  }
  return r;
}

KEEPS_LOCK void weft_cuda_queue_side_unlock(weft_cuda_side_t *side) { weft_mutex_unlock(&side->mu); }

KEEPS_LOCK bool weft_cuda_queue_move_begin(weft_cuda_queue_t *q) {
  weft_mutex_lock(&q->moving);
  if (!atomic_load_explicit(&q->is_poisoned, memory_order_acquire)) return true;
  weft_mutex_unlock(&q->moving);
  return false;
}

KEEPS_LOCK void weft_cuda_queue_move_end(weft_cuda_queue_t *q) { weft_mutex_unlock(&q->moving); }

/* ---- life ---- */

static bool enter_registry(weft_cuda_queue_t *q) {
  q->index = -1;
  weft_mutex_lock(&registry.mu);
  for (int i = 0; i < WEFT_CUDA_MAX_QUEUES && q->index < 0; i++) {
    if (registry.queues[i] == NULL) {
      registry.queues[i] = q;
      q->index = i;
    }
  }
  for (int i = 0; q->index >= 0 && i < WEFT_CUDA_MAX_QUEUES; i++) {
    if (registry.queues[i] != NULL) atomic_store(&registry.queues[i]->waits[q->index], 0);
  }
  weft_mutex_unlock(&registry.mu);
  return q->index >= 0;
}

WEFT_Failure *weft_cuda_queue_create(CUcontext context, const char *name, const volatile uint64_t *marked,
                                     weft_cuda_queue_t **out) {
  weft_cuda_queue_t *q = weft_calloc(1, sizeof *q);
  if (q == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a queue of %s", name);
  q->context = context;
  q->marked = marked;
  q->newest = &q->oldest;
  q->last_retired = &q->retired;
  snprintf(q->name, sizeof q->name, "%s", name);
  atomic_store(&q->passed, marked_of(q));
  q->covered = marked_of(q);
  weft_mutex_init(&q->mu);
  weft_mutex_init(&q->moving);
  weft_mutex_init(&q->side.mu);
  weft_cond_init(&q->changed);
  WEFT_Failure *f = NULL;
  if (!enter_registry(q)) {
    f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "more than %d queues in a process",
                                WEFT_CUDA_MAX_QUEUES);
  }
  if (f == NULL) f = weft_cuda_failure(enter(q), "making a stream for %s", name);
  if (f == NULL) {
    f = weft_cuda_failure(weft_cuda_driver.cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING),
                          "making a stream for %s", name);
  }
  if (f == NULL) {
    q->has_thread = pthread_create(&q->thread, NULL, serve, q) == 0;
    if (!q->has_thread)
      f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "no thread for %s can be made", name);
  }
  if (f != NULL) {
    weft_cuda_queue_destroy(q);
    return f;
  }
  *out = q;
  return NULL;
}

static void free_records(cuda_record_t *e) {
  for (cuda_record_t *next; e != NULL; e = next) {
    next = e->next;
    (void)weft_cuda_driver.cuEventDestroy(e->event);
    weft_free(e);
  }
}

void weft_cuda_queue_destroy(weft_cuda_queue_t *q) {
  if (q == NULL) return;
  (void)enter(q); /* a context that is lost refuses all that follows, and nothing is left of it */
  if (q->stream != NULL) (void)weft_cuda_driver.cuStreamSynchronize(q->stream);
  if (q->side.stream != NULL) (void)weft_cuda_driver.cuStreamSynchronize(q->side.stream);
  weft_mutex_lock(&q->mu);
  q->ends = true;
  weft_cond_signal(&q->changed);
  weft_mutex_unlock(&q->mu);
  if (q->has_thread) pthread_join(q->thread, NULL);
  if (q->index >= 0) {
    weft_mutex_lock(&registry.mu);
    registry.queues[q->index] = NULL;
    weft_mutex_unlock(&registry.mu);
  }
  free_records(q->oldest);
  free_records(q->spare);
  destroy_side(&q->side);
  if (q->stream != NULL) (void)weft_cuda_driver.cuStreamDestroy(q->stream);
  give_back(take_retired_locked(
      q, true)); /* last: when waiting has failed, the stream may have used it until now */
  weft_cuda_host->failure_free(q->poison);
  weft_cond_deinit(&q->changed);
  weft_mutex_deinit(&q->side.mu);
  weft_mutex_deinit(&q->moving);
  weft_mutex_deinit(&q->mu);
  weft_free(q);
}
