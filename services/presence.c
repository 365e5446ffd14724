/* services/presence.c - a thread with a call that is opened again and again.
 *
 * Locking: `mu` is a leaf.
 */
#define _GNU_SOURCE /* program_invocation_short_name, pthread_setname_np */
#include "services/presence.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"

/* A call waits by itself until the master can be reached; this is for one that fails in another way. */
enum { PAUSE_MS = 200 };

struct weft_presence {
  weft_master_client_t *master; /* retained */
  char *id;                     /* owned */
  weft_canceller_t *canceller;  /* of the call */
  pthread_t thread;
  bool has_thread;
  weft_mutex_t mu;
  weft_cond_t changed;
  bool is_stopped; /* guarded by mu */
};

/* Will it be different another time? */
static bool may_come_back(weft_code_t code) {
  return code != WEFT_OK && code != WEFT_UNIMPLEMENTED && code != WEFT_ABORTED &&
         code != WEFT_INVALID_ARGUMENT;
}

static void on_end(void *arg, weft_status_t *status) {
  *(bool *)arg = may_come_back(weft_status_code(status));
  weft_status_free(status);
}

/* False: it was stopped. */
static bool pause_a_little(weft_presence_t *p) {
  int64_t until = weft_clock_deadline_ns(PAUSE_MS);
  weft_mutex_lock(&p->mu);
  while (!p->is_stopped &&
         weft_cond_wait_until(&p->changed, &p->mu, until)) { /* woken by weft_presence_stop */
  }
  bool goes_on = !p->is_stopped;
  weft_mutex_unlock(&p->mu);
  return goes_on;
}

static void *run(void *arg) {
  weft_presence_t *p = arg;
  const weft_hold_client_t r = {.client = weft_str(p->id)};
  bool again = true;
  do {
    p->master->ops->hold_client(p->master, &r, p->canceller, on_end, &again);
  } while (again && pause_a_little(p));
  return NULL;
}

static char *make_id(void) {
  char host[65] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%.64s (process %ld on %s, %08" PRIx32 ")", program_invocation_short_name,
                     (long)getpid(), host, (uint32_t)weft_random_id());
  char *out = NULL;
  weft_status_free(weft_strbuf_finish(&text, &out, NULL));
  for (char *c = out; c != NULL && *c != '\0'; c++) *c = *c >= ' ' && *c <= '~' ? *c : '?';
  return out;
}

weft_status_t *weft_presence_start(weft_master_client_t *m, weft_presence_t **out) {
  weft_presence_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("a session");
  weft_mutex_init(&p->mu);
  weft_cond_init(&p->changed);
  p->master = weft_master_client_retain(m);
  p->id = make_id();
  p->canceller = weft_canceller_create(NULL);
  p->has_thread = p->id != NULL && p->canceller != NULL && pthread_create(&p->thread, NULL, run, p) == 0;
  if (!p->has_thread) {
    weft_presence_stop(p);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start the thread of a session");
  }
  pthread_setname_np(p->thread, "weft-presence");
  *out = p;
  return NULL;
}

weft_str_t weft_presence_id(const weft_presence_t *p) { return weft_str(p->id); }

void weft_presence_stop(weft_presence_t *p) {
  if (p == NULL) return;
  weft_mutex_lock(&p->mu);
  p->is_stopped = true;
  weft_cond_signal(&p->changed);
  weft_mutex_unlock(&p->mu);
  if (p->canceller != NULL) weft_canceller_cancel(p->canceller);
  if (p->has_thread) pthread_join(p->thread, NULL);
  weft_canceller_release(p->canceller);
  weft_master_client_release(p->master);
  weft_cond_deinit(&p->changed);
  weft_mutex_deinit(&p->mu);
  weft_free(p->id);
  weft_free(p);
}
