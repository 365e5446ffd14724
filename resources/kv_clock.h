/* resources/kv_clock.h - how far each worker has come, and waits for the slowest.
 *
 * A worker's clock counts the iterations that it has finished; it begins at 0. A
 * worker at clock c that may be `s` iterations ahead waits until the slowest
 * clock is at least c - s: then it sees every update of iterations up to
 * c - s - 1 (stale synchronous parallel; s = 0 is bulk synchronous).
 *
 * A worker that is removed (its task was lost) delays no other worker. With its next
 * join, advance or wait it is back, at the clock of the slowest.
 *
 * A clocked object is a resource with clocks in front: a clock alone, or a table
 * (kv_table_object.h), whose handle the clock's ops take, too.
 *
 * Sources: reference strategies 3.2; Ho et al., "More Effective Distributed ML
 * via a Stale Synchronous Parallel Parameter Server" (2013), section 3.
 */
#ifndef WEFT_RESOURCES_KV_CLOCK_H_
#define WEFT_RESOURCES_KV_CLOCK_H_

#include "base/name_list.h"
#include "resources/wait_room.h"

enum { WEFT_MAX_CLOCK_WORKERS = 65536 };

typedef struct weft_worker_clock {
  int64_t clock;
  bool is_removed;
  char *task; /* "/job:worker/replica:0/task:1": its loss removes the worker; owned; NULL: of no task */
} weft_worker_clock_t;

typedef struct weft_clocked weft_clocked_t; /* Thread-safe. */
struct weft_clocked {
  weft_object_t object;
  weft_wait_room_t room;        /* in any order: every waiter in line 0 is tried */
  int num_workers;              /* may be 0 for a table */
  weft_worker_clock_t *workers; /* guarded by room.mu, but the tasks, which are constant */
  /* Clocks have changed; may be NULL. The caller holds room.mu. */
  void (*changed)(weft_clocked_t *c);
};

extern const weft_resource_type_t weft_clock_type;

/* For objects that embed one. `tasks`: num_tasks texts, copied; worker i's is tasks[i]. Errors:
 * INVALID_ARGUMENT (more tasks than workers), RESOURCE_EXHAUSTED; deinit is then not needed. */
WEFT_MUST_CHECK weft_status_t *weft_clocked_init(weft_clocked_t *c, int num_workers, const weft_str_t *tasks,
                                                 int num_tasks);
void weft_clocked_deinit(weft_clocked_t *c);
void weft_clocked_abandon(weft_object_t *o); /* waits end with CANCELLED */
void weft_clocked_task_changed(weft_object_t *o,
                               weft_str_t task); /* that task is lost: its workers are removed */

/* A clock alone. */
WEFT_MUST_CHECK weft_status_t *weft_clock_create(int num_workers, const weft_str_t *tasks, int num_tasks,
                                                 weft_object_t **out);

/* ---- with room.mu held; `worker` has been checked ---- */
WEFT_MUST_CHECK weft_status_t *weft_clocked_check(const weft_clocked_t *c,
                                                  int64_t worker); /* INVALID_ARGUMENT */
int64_t weft_clocked_slowest_locked(const weft_clocked_t *c); /* of those that are there; INT64_MAX: none */
/* Back if it was removed; returns its clock. */
int64_t weft_clocked_join_locked(weft_clocked_t *c, int64_t worker);
int64_t weft_clocked_advance_locked(weft_clocked_t *c,
                                    int64_t worker); /* joins, too; returns the new clock */

/* ---- on their own ---- */
WEFT_MUST_CHECK weft_status_t *weft_clocked_advance(weft_clocked_t *c, int64_t worker, int64_t *out_clock);
WEFT_MUST_CHECK weft_status_t *weft_clocked_join(weft_clocked_t *c, int64_t worker, int64_t *out_clock);
WEFT_MUST_CHECK weft_status_t *weft_clocked_remove(weft_clocked_t *c, int64_t worker);
/* All workers are there, at clock 0: a job begins. Errors: INVALID_ARGUMENT for a table, whose rows belong to
 * its clocks. */
WEFT_MUST_CHECK weft_status_t *weft_clocked_reset(weft_clocked_t *c);
/* num_workers clocks; -1: removed. */
void weft_clocked_read(weft_clocked_t *c, int64_t *out_clocks);

/* ---- waiting for the slowest ---- */

/* How long a wait lasts at most; timer NULL or seconds 0: as long as it takes. The timer is borrowed until it
 * is over. */
typedef struct weft_clock_timeout {
  weft_timer_t *timer;
  double seconds;
} weft_clock_timeout_t;
/* Sets the deadline of a waiter whose expired() is set. */
void weft_clock_timeout_set(weft_clock_timeout_t p, weft_room_waiter_t *w);

/* The workers that a wait which has taken too long was for; `n` of them, the first ones by name. */
typedef struct weft_clock_missing {
  int n;
  struct {
    int worker;
    int64_t clock;
  } first[WEFT_LISTED_NAMES];
} weft_clock_missing_t;
/* Those that have not come to `needs`; with room.mu held. */
void weft_clocked_missing_locked(const weft_clocked_t *c, int64_t needs, weft_clock_missing_t *out);
/* DEADLINE_EXCEEDED "worker 0 has waited 60 s for worker 1 (/job:worker/replica:0/task:1, at clock 3) to come
 * to clock 5". */
WEFT_MUST_CHECK weft_status_t *weft_clocked_too_late(const weft_clocked_t *c, int64_t worker, int64_t needs,
                                                     double seconds, const weft_clock_missing_t *missing);

/* Ends the call, at once or later; output 0: the slowest clock then. Errors: INVALID_ARGUMENT; CANCELLED;
 * that of weft_clocked_too_late. */
void weft_clocked_wait(weft_clocked_t *c, const weft_resource_call_t *call, int64_t worker, int64_t staleness,
                       weft_clock_timeout_t timeout);

#endif /* WEFT_RESOURCES_KV_CLOCK_H_ */
