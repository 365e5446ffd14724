/* master/ended_sessions.c - a ring of the last sessions that ended. */
#include "master/ended_sessions.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"

typedef struct ended {
  char handle[40], why[300];
  int64_t micros; /* 0: unused */
} ended_t;

struct weft_ended_sessions {
  weft_str_t task; /* lent */
  int64_t started_micros;
  weft_mutex_t mu;                    /* a leaf */
  ended_t items[WEFT_ENDED_SESSIONS]; /* guarded by mu */
  int next;                           /* guarded by mu: the oldest */
};

weft_status_t *weft_ended_sessions_create(weft_str_t task, weft_ended_sessions_t **out) {
  weft_ended_sessions_t *e = weft_calloc(1, sizeof *e);
  if (e == NULL) return WEFT_NO_MEMORY("a master");
  e->task = task;
  e->started_micros = weft_clock_micros();
  weft_mutex_init(&e->mu);
  *out = e;
  return NULL;
}

void weft_ended_sessions_destroy(weft_ended_sessions_t *e) {
  if (e == NULL) return;
  weft_mutex_deinit(&e->mu);
  weft_free(e);
}

void weft_ended_sessions_add(weft_ended_sessions_t *e, weft_str_t handle, const char *why) {
  ended_t one = {.micros = weft_clock_micros()};
  snprintf(one.handle, sizeof one.handle, "%.*s", WEFT_STR_ARGS(handle));
  snprintf(one.why, sizeof one.why, "%s", why);
  weft_mutex_lock(&e->mu);
  e->items[e->next] = one;
  e->next = (e->next + 1) % WEFT_ENDED_SESSIONS;
  weft_mutex_unlock(&e->mu);
}

weft_status_t *weft_ended_sessions_error(weft_ended_sessions_t *e, weft_code_t code, weft_str_t handle,
                                         const char *unknown) {
  ended_t found = {.micros = 0};
  char when[WEFT_CLOCK_TEXT], text[sizeof found.why + 200];
  weft_mutex_lock(&e->mu);
  for (int i = 0; i < WEFT_ENDED_SESSIONS && found.micros == 0; i++) {
    if (e->items[i].micros != 0 && weft_str_is(handle, e->items[i].handle)) found = e->items[i];
  }
  weft_mutex_unlock(&e->mu);
  if (found.micros == 0) {
    weft_clock_print(e->started_micros, when);
    double seconds = (double)(weft_clock_micros() - e->started_micros) / 1e6;
    snprintf(text, sizeof text, "%s%s The master %.*s has run since %s, %.1f s.",
             unknown[0] == '\0' ? "" : " ", unknown, WEFT_STR_ARGS(e->task), when, seconds);
  } else {
    weft_clock_print(found.micros, when);
    double seconds = (double)(weft_clock_micros() - found.micros) / 1e6;
    snprintf(text, sizeof text, " It ended at %s, %.1f s ago: %s.", when, seconds, found.why);
  }
  if (handle.length > 64) handle.length = 64;
  return weft_status_new(code, __FILE__, __LINE__, "Session %.*s is not found.%s", WEFT_STR_ARGS(handle),
                         text);
}
