/* membership/local_keeper_client.c - a keeper of the same process, without anything between. */
#include "base/alloc.h"
#include "membership/keeper_client.h"

typedef struct local_client {
  weft_keeper_client_t base;
  weft_keeper_t *keeper; /* borrowed */
} local_client_t;

static weft_keeper_t *keeper_of(weft_keeper_client_t *c) { return ((local_client_t *)c)->keeper; }

static void beat(weft_keeper_client_t *c, const weft_keeper_caller_t *who, int64_t timeout_ms,
                 weft_canceller_t *canceller, weft_beat_fn *fn, void *arg) {
  (void)timeout_ms;
  (void)canceller;
  uint64_t epoch = 0;
  weft_status_t *s = weft_keeper_beat(keeper_of(c), who, &epoch);
  fn(arg, s, epoch);
}

static void watch(weft_keeper_client_t *c, const weft_keeper_caller_t *who, int64_t timeout_ms,
                  weft_canceller_t *canceller, weft_roll_fn *fn, void *arg) {
  weft_keeper_watch(keeper_of(c), who, timeout_ms, canceller, fn, arg);
}

static void ask(weft_keeper_client_t *c, const weft_store_request_t *r, weft_canceller_t *canceller,
                weft_value_fn *fn, void *arg) {
  weft_store_ask(weft_keeper_store(keeper_of(c)), r, canceller, fn, arg);
}

static void destroy(weft_keeper_client_t *c) { weft_free(c); }

static const weft_keeper_client_ops_t ops = {.beat = beat, .watch = watch, .ask = ask, .destroy = destroy};

weft_status_t *weft_local_keeper_client_create(weft_keeper_t *k, weft_keeper_client_t **out) {
  local_client_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a membership client");
  *c = (local_client_t){{&ops}, k};
  *out = &c->base;
  return NULL;
}
