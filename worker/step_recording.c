/* worker/step_recording.c - a queue of records for each observer, and a thread that answers calls that wait.
 *
 * A record is shared by the queues of all observers that were there when its run began; a run knows them by
 * number, as an observer may go before the run ends. A step is over for an observer when its master has said
 * so (CleanupGraph) and no recorded run of it is in progress: then its queue gets the step's end.
 *
 * Calls wait until the oldest thing in the queue is GATHER_MS old, so that short steps do not cost a call
 * each.
 *
 * Locking: `mu` is a leaf. Under it we only relink items and count; items and records are allocated before
 * and freed after. The step table's lock is taken (by running_steps) without it.
 *
 * Which runs are recorded: a run writes that it runs into the step table, then looks at `num_open`; an
 * observer raises `num_open`, then reads the step table. All four are sequentially consistent, so a run that
 * is not recorded is in what the observer reads.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "worker/step_recording.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"

enum {
  GATHER_MS = 50,
  MAX_WAIT_MS = 1000,
  MAX_ITEMS = 1 << 20,   /* in one queue: without records, too, it is bounded */
  MAX_MESSAGE = 1 << 10, /* of a run's failure */
};
/* More than this is answered at once, and not much more goes into one answer. */
static const size_t answer_bytes = (size_t)4 << 20;

typedef struct shared_record {
  int refs;     /* guarded by mu */
  size_t bytes; /* of the block */
  weft_step_record_t record;
  char texts[]; /* what the record's texts point to */
} shared_record_t;

typedef enum item_kind { ITEM_RECORD, ITEM_ENDED, ITEM_PARTIAL } item_kind_t;

typedef struct record_item {
  struct record_item *next;
  item_kind_t kind;
  int64_t step_id;
  int64_t calls;           /* of a record: as its observer sees it */
  shared_record_t *record; /* one reference; of a record */
} record_item_t;

/* A call that waits. Freed by the thread that takes it out of its observer, after its canceller's callback.
 */
typedef struct record_call {
  weft_step_recordings_t *recordings;
  weft_record_fn *fn;
  void *arg;
  weft_canceller_t *canceller; /* retained; NULL: none */
  uint64_t token;
  bool is_linked;
  bool is_cancelled; /* guarded by mu */
  int64_t deadline_ns;
} record_call_t;

typedef struct observer {
  char id[WEFT_MAX_OBSERVER_ID + 1];
  uint64_t number;
  int64_t calls, num_dropped;
  int64_t asked_ns;    /* when it was last answered, or opened */
  bool has_failed;     /* something could not be told, not even that */
  record_call_t *call; /* that waits; NULL */
  record_item_t *first, **last;
  int num_items;
  size_t record_bytes; /* of the records in the queue */
  int64_t since_ns;    /* when the queue was last empty, before its first item */
} observer_t;

/* A step that has, or had, recorded runs. */
typedef struct recorded_step {
  int num_runs; /* in progress */
  bool is_over; /* for its master */
} recorded_step_t;

struct weft_step_recordings {
  weft_recording_options_t o;
  atomic_int num_open;
  weft_mutex_t mu;
  weft_cond_t changed;                       /* something is due earlier than before; or `stopped` */
  observer_t *observers[WEFT_MAX_OBSERVERS]; /* guarded by mu; owned; the first num_open */
  uint64_t last_number;                      /* guarded by mu */
  weft_map_t steps;                          /* guarded by mu: id -> recorded_step_t, owned */
  size_t bytes;                              /* guarded by mu: of all records that are kept */
  bool has_thread, stopped;                  /* guarded by mu */
  pthread_t thread;
};

struct weft_run_recording {
  int64_t step_id, start_micros;
  int n;
  struct {
    uint64_t number;
    int64_t calls;
  } observers[WEFT_MAX_OBSERVERS];
};

/* ---- items ---- */

static void free_items(record_item_t *i) {
  while (i != NULL) {
    record_item_t *next = i->next;
    weft_free(i);
    i = next;
  }
}

/* A list of n; NULL without memory, or for 0. */
static record_item_t *make_items(int n) {
  record_item_t *list = NULL;
  for (int i = 0; i < n; i++) {
    record_item_t *one = weft_calloc(1, sizeof *one);
    if (one == NULL) {
      free_items(list);
      return NULL;
    }
    one->next = list;
    list = one;
  }
  return list;
}

static record_item_t *pop(record_item_t **list) {
  record_item_t *one = *list;
  if (one != NULL) {
    *list = one->next;
    one->next = NULL;
  }
  return one;
}

/* Appends *spare's first item. */
static void put_locked(weft_step_recordings_t *r, observer_t *o, record_item_t **spare, item_kind_t kind,
                       int64_t step_id) WEFT_REQUIRES(r->mu) {
  record_item_t *item = o->num_items < MAX_ITEMS ? pop(spare) : NULL;
  if (item == NULL) {
    o->has_failed = true;
    weft_cond_signal(&r->changed);
    return;
  }
  item->kind = kind;
  item->step_id = step_id;
  if (o->first == NULL) {
    o->since_ns = weft_clock_ns();
    weft_cond_signal(&r->changed);
  }
  *o->last = item;
  o->last = &item->next;
  o->num_items++;
}

/* Frees items, and the records that no other queue holds. */
static void release_items(weft_step_recordings_t *r, record_item_t *items) {
  weft_mutex_lock(&r->mu);
  for (record_item_t *i = items; i != NULL; i = i->next) {
    if (i->record == NULL) continue;
    if (--i->record->refs > 0) {
      i->record = NULL;
    } else {
      r->bytes -= i->record->bytes;
    }
  }
  weft_mutex_unlock(&r->mu);
  for (record_item_t *i = items; i != NULL; i = i->next) weft_free(i->record);
  free_items(items);
}

/* ---- observers ---- */

static observer_t *find_locked(weft_step_recordings_t *r, weft_str_t id) WEFT_REQUIRES(r->mu) {
  for (int i = 0; i < atomic_load(&r->num_open); i++) {
    if (weft_str_is(id, r->observers[i]->id)) return r->observers[i];
  }
  return NULL;
}

static observer_t *find_number_locked(weft_step_recordings_t *r, uint64_t number) WEFT_REQUIRES(r->mu) {
  for (int i = 0; i < atomic_load(&r->num_open); i++) {
    if (r->observers[i]->number == number) return r->observers[i];
  }
  return NULL;
}

static void fail_all_locked(weft_step_recordings_t *r) WEFT_REQUIRES(r->mu) {
  for (int i = 0; i < atomic_load(&r->num_open); i++) r->observers[i]->has_failed = true;
  weft_cond_signal(&r->changed);
}

/* With the last observer go the steps; those with runs in progress go when these end. */
static void forget_steps_locked(weft_step_recordings_t *r) WEFT_REQUIRES(r->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&r->steps, &at, &e);) {
    recorded_step_t *s = e.value;
    if (s->num_runs > 0) continue;
    weft_map_remove_u64(&r->steps, e.key.length);
    weft_free(s);
  }
}

/* Takes the observer out of the table. The caller frees it (free_observer). */
static void remove_locked(weft_step_recordings_t *r, observer_t *o) WEFT_REQUIRES(r->mu) {
  int n = atomic_load(&r->num_open), i = 0;
  while (r->observers[i] != o) i++;
  r->observers[i] = r->observers[n - 1];
  r->observers[n - 1] = NULL;
  atomic_store(&r->num_open, n - 1);
  if (n == 1) forget_steps_locked(r);
}

static void free_observer(weft_step_recordings_t *r, observer_t *o) {
  if (o == NULL) return;
  release_items(r, o->first);
  weft_free(o);
}

/* ---- answers ---- */

/* What goes into one answer, out of the queue. */
static record_item_t *take_locked(observer_t *o) {
  record_item_t *first = o->first, **end = &o->first;
  size_t bytes = 0;
  while (*end != NULL && bytes < answer_bytes) {
    if ((*end)->record != NULL) bytes += (*end)->record->bytes;
    end = &(*end)->next;
    o->num_items--;
  }
  o->record_bytes -= bytes;
  record_item_t *rest = *end;
  *end = NULL;
  if (end == &o->first) return NULL;
  o->first = rest;
  if (rest == NULL) o->last = &o->first;
  o->since_ns = weft_clock_ns();
  return first;
}

/* What an answer says besides its items. */
typedef struct answer_state {
  int64_t num_dropped;
  weft_strbuf_t running; /* int64_t in a row */
  bool has_more;
} answer_state_t;

/* After take_locked, with the same hold on mu: what it did not take is then either in progress or still
 * there. A list that grows allocates under the lock; there are few steps in progress at a time. */
static void get_state_locked(weft_step_recordings_t *r, const observer_t *o, answer_state_t *out)
    WEFT_REQUIRES(r->mu) {
  weft_map_entry_t e;
  *out = (answer_state_t){.num_dropped = o->num_dropped, .has_more = o->first != NULL};
  for (size_t at = 0; weft_map_next(&r->steps, &at, &e);) {
    int64_t id = (int64_t)e.key.length;
    if (((recorded_step_t *)e.value)->num_runs > 0)
      weft_strbuf_append(&out->running, weft_str_of((const char *)&id, sizeof id));
  }
}

/* Calls fn with what `items` say; they are still the caller's. Frees what the state has. */
static void answer(record_item_t *items, answer_state_t *state, weft_record_fn *fn, void *arg) {
  size_t n = 0, num_running = state->running.length / sizeof(int64_t);
  for (record_item_t *i = items; i != NULL; i = i->next) n++;
  weft_step_record_t *records = weft_calloc(n + 1, sizeof *records);
  int64_t *ended = weft_calloc(n + 1, sizeof *ended), *partial = weft_calloc(n + 1, sizeof *partial);
  int64_t *running = weft_calloc(num_running + 1, sizeof *running);
  weft_record_answer_t a = {.records = records,
                            .ended_steps = ended,
                            .partial_steps = partial,
                            .running_steps = running,
                            .num_running_steps = (int)num_running,
                            .has_more = state->has_more,
                            .num_dropped = state->num_dropped,
                            .clock_micros = weft_clock_micros()};
  if (records == NULL || ended == NULL || partial == NULL || running == NULL || state->running.failed) {
    fn(arg, WEFT_NO_MEMORY("records of steps"), NULL);
  } else {
    if (num_running > 0) memcpy(running, state->running.data, num_running * sizeof *running);
    for (record_item_t *i = items; i != NULL; i = i->next) {
      switch (i->kind) {
        case ITEM_RECORD:
          records[a.num_records] = i->record->record;
          records[a.num_records++].calls = i->calls;
          break;
        case ITEM_ENDED: ended[a.num_ended_steps++] = i->step_id; break;
        case ITEM_PARTIAL: partial[a.num_partial_steps++] = i->step_id; break;
      }
    }
    fn(arg, NULL, &a);
  }
  weft_free(records);
  weft_free(ended);
  weft_free(partial);
  weft_free(running);
  weft_strbuf_deinit(&state->running);
}

/* A call that was taken out of its observer. */
static void free_call(record_call_t *c) {
  if (c == NULL) return;
  if (c->is_linked) weft_canceller_deregister(c->canceller, c->token);
  weft_canceller_release(c->canceller);
  weft_free(c);
}

static weft_status_t *gone(weft_str_t id) {
  return WEFT_ERROR(
      NOT_FOUND,
      "No recording is open for '%.*s': it was ended, or not asked for during %d seconds, or the "
      "task was restarted",
      WEFT_STR_ARGS(id), WEFT_RECORDING_SILENCE_MS / 1000);
}

static weft_status_t *failed(void) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED,
                    "The recording was ended: there was no memory for what it has to tell");
}

static weft_status_t *stopped(void) {
  return WEFT_ERROR(UNAVAILABLE, "The recording was ended: the task was shut down");
}

/* ---- the thread that answers calls that wait ---- */

/* What happens to an observer next, and when. */
typedef enum due_kind { DUE_NEVER, DUE_CANCELLED, DUE_FAILED, DUE_ANSWER, DUE_SILENT } due_kind_t;

static due_kind_t due_locked(const weft_step_recordings_t *r, const observer_t *o, int64_t *out_ns) {
  *out_ns = 0;
  const record_call_t *c = o->call;
  if (c == NULL) {
    *out_ns = o->asked_ns + r->o.silence_ms * 1000000;
    return DUE_SILENT;
  }
  if (c->is_cancelled) return DUE_CANCELLED;
  if (o->has_failed) return DUE_FAILED;
  if (o->record_bytes >= answer_bytes) return DUE_ANSWER;
  *out_ns = c->deadline_ns;
  int64_t gathered = o->since_ns + (int64_t)GATHER_MS * 1000000;
  if (o->first != NULL && gathered < *out_ns) *out_ns = gathered;
  return DUE_ANSWER;
}

/* The first that is due by now, or the moment when one will be. */
static observer_t *next_locked(weft_step_recordings_t *r, due_kind_t *out_kind, int64_t *out_ns)
    WEFT_REQUIRES(r->mu) {
  int64_t now = weft_clock_ns();
  *out_ns = INT64_MAX;
  for (int i = 0; i < atomic_load(&r->num_open); i++) {
    int64_t at = 0;
    *out_kind = due_locked(r, r->observers[i], &at);
    if (at <= now) return r->observers[i];
    if (at < *out_ns) *out_ns = at;
  }
  return NULL;
}

/* Does what is due, with `mu` held before and after, but not meanwhile. */
static void serve_locked(weft_step_recordings_t *r, observer_t *o, due_kind_t kind) WEFT_REQUIRES(r->mu) {
  record_call_t *c = o->call;
  o->call = NULL;
  o->asked_ns = weft_clock_ns();
  answer_state_t state = {.num_dropped = 0};
  record_item_t *items = kind == DUE_ANSWER ? take_locked(o) : NULL;
  if (kind == DUE_ANSWER) {
    get_state_locked(r, o, &state);
    o = NULL;
  } else {
    remove_locked(r, o);
  }
  weft_mutex_unlock(&r->mu);
  if (kind == DUE_ANSWER) answer(items, &state, c->fn, c->arg);
  if (kind == DUE_CANCELLED) c->fn(c->arg, WEFT_ERROR(CANCELLED, "The observer's call was cancelled"), NULL);
  if (kind == DUE_FAILED) c->fn(c->arg, failed(), NULL);
  free_call(c);
  release_items(r, items);
  free_observer(r, o);
  weft_mutex_lock(&r->mu);
}

static void *run(void *arg) {
  weft_step_recordings_t *r = arg;
  weft_mutex_lock(&r->mu);
  while (!r->stopped) {
    due_kind_t kind = DUE_NEVER;
    int64_t at_ns = INT64_MAX;
    observer_t *o = next_locked(r, &kind, &at_ns);
    if (o != NULL) {
      serve_locked(r, o, kind);
    } else if (at_ns == INT64_MAX) {
      weft_cond_wait(&r->changed, &r->mu); /* woken by calls, records, cancellations and the stop */
    } else {
      weft_cond_wait_until(&r->changed, &r->mu, at_ns); /* the same */
    }
  }
  weft_mutex_unlock(&r->mu);
  return NULL;
}

/* ---- life ---- */

weft_status_t *weft_step_recordings_create(const weft_recording_options_t *o, weft_step_recordings_t **out) {
  weft_step_recordings_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("recordings of steps");
  r->o = *o;
  if (r->o.max_bytes == 0) r->o.max_bytes = WEFT_RECORDING_MAX_BYTES;
  if (r->o.silence_ms == 0) r->o.silence_ms = WEFT_RECORDING_SILENCE_MS;
  weft_mutex_init(&r->mu);
  weft_cond_init(&r->changed);
  *out = r;
  return NULL;
}

void weft_step_recordings_stop(weft_step_recordings_t *r) {
  weft_mutex_lock(&r->mu);
  bool joins = r->has_thread;
  r->has_thread = false;
  r->stopped = true;
  weft_cond_signal(&r->changed);
  weft_mutex_unlock(&r->mu);
  if (joins) pthread_join(r->thread, NULL);
  weft_mutex_lock(&r->mu);
  while (atomic_load(&r->num_open) > 0) {
    observer_t *o = r->observers[0];
    record_call_t *c = o->call;
    remove_locked(r, o);
    weft_mutex_unlock(&r->mu);
    if (c != NULL) c->fn(c->arg, stopped(), NULL);
    free_call(c);
    free_observer(r, o);
    weft_mutex_lock(&r->mu);
  }
  weft_mutex_unlock(&r->mu);
}

void weft_step_recordings_destroy(weft_step_recordings_t *r) {
  if (r == NULL) return;
  weft_step_recordings_stop(r);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&r->steps, &at, &e);) weft_free(e.value);
  weft_map_deinit(&r->steps);
  weft_cond_deinit(&r->changed);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

int weft_step_recordings_count(weft_step_recordings_t *r) { return atomic_load(&r->num_open); }

/* ---- calls ---- */

static weft_status_t *check_id(weft_str_t id) {
  bool ok = id.length > 0 && id.length <= WEFT_MAX_OBSERVER_ID;
  for (size_t i = 0; ok && i < id.length; i++) ok = id.data[i] >= ' ' && id.data[i] <= '~';
  return ok ? NULL
            : WEFT_ERROR(INVALID_ARGUMENT, "an observer's id has 1 to %d printable characters",
                         WEFT_MAX_OBSERVER_ID);
}

static weft_status_t *start_thread_locked(weft_step_recordings_t *r) WEFT_REQUIRES(r->mu) {
  if (r->has_thread) return NULL;
  if (pthread_create(&r->thread, NULL, run, r) != 0)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start the thread of a recording");
  pthread_setname_np(r->thread, "weft-recording");
  r->has_thread = true;
  return NULL;
}

static weft_status_t *add_locked(weft_step_recordings_t *r, observer_t *o) WEFT_REQUIRES(r->mu) {
  int n = atomic_load(&r->num_open);
  if (r->stopped) return stopped();
  if (find_locked(r, weft_str(o->id)) != NULL)
    return WEFT_ERROR(ALREADY_EXISTS, "A recording is open for '%s' already", o->id);
  if (n == WEFT_MAX_OBSERVERS)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "%d recordings are open, which is the limit", n);
  WEFT_RETURN_IF_ERROR(start_thread_locked(r));
  o->number = ++r->last_number;
  r->observers[n] = o;
  atomic_store(&r->num_open, n + 1);
  return NULL;
}

/* A new observer learns which steps it has missed a part of. */
static weft_status_t *open_observer(weft_step_recordings_t *r, weft_str_t id) {
  observer_t *o = weft_calloc(1, sizeof *o);
  if (o == NULL) return WEFT_NO_MEMORY("a recording");
  memcpy(o->id, id.data, id.length);
  o->last = &o->first;
  o->asked_ns = weft_clock_ns();
  weft_mutex_lock(&r->mu);
  weft_status_t *s = add_locked(r, o);
  uint64_t number = s == NULL ? o->number : 0;
  weft_mutex_unlock(&r->mu);
  if (s != NULL) {
    weft_free(o);
    return s;
  }
  weft_strbuf_t running = WEFT_STRBUF_INIT;
  if (r->o.running_steps != NULL) r->o.running_steps(r->o.arg, &running);
  int n = (int)(running.length / sizeof(int64_t));
  record_item_t *spare = make_items(n);
  weft_mutex_lock(&r->mu);
  o = find_number_locked(r, number); /* NULL: all was stopped */
  for (int i = 0; o != NULL && i < n; i++) {
    int64_t id_of_step = 0;
    memcpy(&id_of_step, running.data + (size_t)i * sizeof id_of_step, sizeof id_of_step);
    put_locked(r, o, &spare, ITEM_PARTIAL, id_of_step);
  }
  if (o != NULL && running.failed) o->has_failed = true;
  weft_mutex_unlock(&r->mu);
  free_items(spare);
  weft_strbuf_deinit(&running);
  return NULL;
}

static void on_cancel(void *arg) {
  record_call_t *c = arg;
  weft_step_recordings_t *r = c->recordings;
  weft_mutex_lock(&r->mu);
  c->is_cancelled = true;
  weft_cond_signal(&r->changed);
  weft_mutex_unlock(&r->mu);
}

static weft_status_t *make_call(weft_step_recordings_t *r, const weft_record_request_t *q,
                                weft_canceller_t *canceller, weft_record_fn *fn, void *arg,
                                record_call_t **out) {
  record_call_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a recording");
  int64_t wait_ms = q->wait_ms < 0 ? 0 : q->wait_ms > MAX_WAIT_MS ? MAX_WAIT_MS : q->wait_ms;
  c->recordings = r;
  c->fn = fn;
  c->arg = arg;
  c->deadline_ns = q->is_first ? 0 : weft_clock_deadline_ns(wait_ms);
  c->canceller = weft_canceller_retain(canceller);
  if (canceller != NULL) {
    c->is_linked = weft_canceller_register(canceller, on_cancel, c, &c->token);
    c->is_cancelled = !c->is_linked;
    if (!c->is_linked && !weft_canceller_is_cancelled(canceller)) {
      free_call(c);
      return WEFT_NO_MEMORY("a recording");
    }
  }
  *out = c;
  return NULL;
}

/* Finds the observer and counts the call. */
static weft_status_t *enter_locked(weft_step_recordings_t *r, const weft_record_request_t *q,
                                   observer_t **out) WEFT_REQUIRES(r->mu) {
  if (r->stopped) return stopped();
  *out = find_locked(r, q->observer);
  if (*out == NULL) return gone(q->observer);
  if ((*out)->call != NULL && !q->is_last)
    return WEFT_ERROR(FAILED_PRECONDITION, "Another call of '%.*s' waits", WEFT_STR_ARGS(q->observer));
  (*out)->calls++;
  return NULL;
}

void weft_step_recordings_ask(weft_step_recordings_t *r, const weft_record_request_t *q,
                              weft_canceller_t *canceller, weft_record_fn *fn, void *arg) {
  record_call_t *c = NULL;
  observer_t *o = NULL, *ended = NULL;
  record_call_t *waiting = NULL;
  answer_state_t state = {.num_dropped = 0};
  weft_status_t *s = check_id(q->observer);
  if (s == NULL && q->is_first) s = open_observer(r, q->observer);
  if (s == NULL && !q->is_last) s = make_call(r, q, canceller, fn, arg, &c);
  if (s != NULL) {
    fn(arg, s, NULL);
    return;
  }
  weft_mutex_lock(&r->mu);
  s = enter_locked(r, q, &o);
  if (s == NULL && q->is_last) {
    ended = o;
    waiting = o->call;
    state.num_dropped = o->num_dropped;
    remove_locked(r, o);
  } else if (s == NULL) {
    o->call = c;
    c = NULL;
    weft_cond_signal(&r->changed);
  }
  weft_mutex_unlock(&r->mu);
  if (waiting != NULL) waiting->fn(waiting->arg, WEFT_ERROR(CANCELLED, "The recording was ended"), NULL);
  free_call(waiting);
  free_call(c);
  if (s != NULL) {
    fn(arg, s, NULL);
  } else if (q->is_last) {
    answer(NULL, &state, fn, arg);
    free_observer(r, ended);
  }
}

/* ---- runs ---- */

/* The step's entry, made of *spare if there is none. NULL without memory. */
static recorded_step_t *step_locked(weft_step_recordings_t *r, int64_t id, recorded_step_t **spare)
    WEFT_REQUIRES(r->mu) {
  recorded_step_t *s = weft_map_get_u64(&r->steps, (uint64_t)id);
  if (s != NULL || *spare == NULL) return s;
  weft_status_t *full = weft_map_put_u64(&r->steps, (uint64_t)id, *spare, NULL);
  if (full != NULL) {
    weft_status_free(full);
    return NULL;
  }
  s = *spare;
  *spare = NULL;
  return s;
}

weft_run_recording_t *weft_run_recording_begin(weft_step_recordings_t *r, int64_t step_id) {
  if (atomic_load(&r->num_open) == 0) return NULL;
  weft_run_recording_t *run = weft_calloc(1, sizeof *run);
  recorded_step_t *spare = weft_calloc(1, sizeof *spare);
  weft_mutex_lock(&r->mu);
  recorded_step_t *step = run == NULL ? NULL : step_locked(r, step_id, &spare);
  if (step == NULL) {
    fail_all_locked(r);
  } else {
    step->num_runs++;
    run->step_id = step_id;
    run->start_micros = weft_clock_micros();
    run->n = atomic_load(&r->num_open);
    for (int i = 0; i < run->n; i++) {
      run->observers[i].number = r->observers[i]->number;
      run->observers[i].calls = r->observers[i]->calls;
    }
  }
  weft_mutex_unlock(&r->mu);
  weft_free(spare);
  if (step == NULL) weft_free(run);
  return step == NULL ? NULL : run;
}

bool weft_run_recording_is_wanted(weft_step_recordings_t *r, const weft_run_recording_t *run) {
  bool wanted = false;
  weft_mutex_lock(&r->mu);
  for (int i = 0; i < run->n && !wanted; i++)
    wanted = find_number_locked(r, run->observers[i].number) != NULL;
  weft_mutex_unlock(&r->mu);
  return wanted;
}

/* A copy of the record and its texts in one block, with no reference yet. */
static shared_record_t *copy_record(const weft_step_record_t *from) {
  weft_str_t texts[] = {from->message, from->session, from->graph, from->step_stats};
  if (texts[0].length > MAX_MESSAGE) texts[0].length = MAX_MESSAGE;
  size_t bytes = sizeof(shared_record_t);
  for (int i = 0; i < 4; i++) bytes += texts[i].length;
  shared_record_t *s = weft_malloc(bytes);
  if (s == NULL) return NULL;
  s->refs = 0;
  s->bytes = bytes;
  s->record = *from;
  weft_str_t *const to[] = {&s->record.message, &s->record.session, &s->record.graph, &s->record.step_stats};
  char *at = s->texts;
  for (int i = 0; i < 4; i++) {
    if (texts[i].length > 0) memcpy(at, texts[i].data, texts[i].length);
    *to[i] = weft_str_of(at, texts[i].length);
    at += texts[i].length;
  }
  return s;
}

/* Into the queues of the observers that the run knows. A queue that gets no record gets the step as partial.
 */
static void put_record_locked(weft_step_recordings_t *r, const weft_run_recording_t *run, shared_record_t *s,
                              record_item_t **spare) WEFT_REQUIRES(r->mu) {
  bool has_room = s != NULL && s->bytes <= r->o.max_bytes && r->bytes <= r->o.max_bytes - s->bytes;
  for (int i = 0; i < run->n; i++) {
    observer_t *o = find_number_locked(r, run->observers[i].number);
    if (o == NULL) continue;
    if (!has_room) {
      o->num_dropped++;
      put_locked(r, o, spare, ITEM_PARTIAL, run->step_id);
      continue;
    }
    record_item_t *item = *spare;
    put_locked(r, o, spare, ITEM_RECORD, run->step_id);
    if (item == NULL || item == *spare) continue; /* the observer has failed */
    item->calls = run->observers[i].calls;
    item->record = s;
    s->refs++;
    o->record_bytes += s->bytes;
    if (o->record_bytes >= answer_bytes) weft_cond_signal(&r->changed);
  }
  if (s != NULL && s->refs > 0) r->bytes += s->bytes;
}

/* Tells all observers that the step is over, if it is. True: *step is out of the table, and the caller's. */
static bool end_step_locked(weft_step_recordings_t *r, int64_t id, recorded_step_t *step,
                            record_item_t **spare) WEFT_REQUIRES(r->mu) {
  int n = atomic_load(&r->num_open);
  if (step == NULL || step->num_runs > 0 || (!step->is_over && n > 0)) return false;
  weft_map_remove_u64(&r->steps, (uint64_t)id);
  for (int i = 0; step->is_over && i < n && *spare != NULL; i++)
    put_locked(r, r->observers[i], spare, ITEM_ENDED, id);
  return true;
}

void weft_run_recording_end(weft_step_recordings_t *r, weft_run_recording_t *run,
                            const weft_step_record_t *record) {
  if (run == NULL) return;
  int n = run->n + atomic_load(&r->num_open);
  weft_step_record_t full = *record;
  full.step_id = run->step_id;
  full.start_micros = run->start_micros;
  shared_record_t *s = copy_record(&full);
  record_item_t *spare = make_items(n);
  weft_mutex_lock(&r->mu);
  if (spare == NULL) {
    fail_all_locked(r);
  } else {
    put_record_locked(r, run, s, &spare);
  }
  recorded_step_t *step = weft_map_get_u64(&r->steps, (uint64_t)run->step_id);
  if (step != NULL) step->num_runs--;
  if (!end_step_locked(r, run->step_id, step, &spare)) step = NULL;
  bool is_kept = s != NULL && s->refs > 0;
  weft_mutex_unlock(&r->mu);
  if (!is_kept) weft_free(s);
  weft_free(step);
  free_items(spare);
  weft_free(run);
}

void weft_step_recordings_end_step(weft_step_recordings_t *r, int64_t step_id) {
  int n = atomic_load(&r->num_open);
  if (n == 0) return;
  record_item_t *spare = make_items(n);
  weft_mutex_lock(&r->mu);
  recorded_step_t *step = weft_map_get_u64(&r->steps, (uint64_t)step_id);
  if (step != NULL) step->is_over = true;
  if (spare == NULL && step != NULL) fail_all_locked(r);
  if (!end_step_locked(r, step_id, step, &spare)) step = NULL;
  weft_mutex_unlock(&r->mu);
  weft_free(step);
  free_items(spare);
}
