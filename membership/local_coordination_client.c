/* membership/local_coordination_client.c - a coordination service of the same process. */
#include "base/alloc.h"
#include "membership/coordination_client.h"

typedef struct local_coordination_client {
  weft_coordination_client_t base;
  weft_coordination_t *service; /* borrowed */
} local_coordination_client_t;

static weft_coordination_t *service_of(weft_coordination_client_t *c) {
  return ((local_coordination_client_t *)c)->service;
}

static void beat(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
                 weft_canceller_t *canceller, weft_beat_fn *fn, void *arg) {
  (void)timeout_ms;
  (void)canceller;
  uint64_t epoch = 0;
  weft_status_t *s = weft_coordination_beat(service_of(c), caller, &epoch);
  fn(arg, s, epoch);
}

static void watch(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
                  weft_canceller_t *canceller, weft_cluster_state_fn *fn, void *arg) {
  weft_coordination_watch(service_of(c), caller, timeout_ms, canceller, fn, arg);
}

static void ask(weft_coordination_client_t *c, const weft_store_request_t *r, weft_canceller_t *canceller,
                weft_value_fn *fn, void *arg) {
  weft_store_ask(weft_coordination_store(service_of(c)), r, canceller, fn, arg);
}

static void destroy(weft_coordination_client_t *c) { weft_free(c); }

static const weft_coordination_client_ops_t ops = {
    .beat = beat, .watch = watch, .ask = ask, .destroy = destroy};

weft_status_t *weft_local_coordination_client_create(weft_coordination_t *k,
                                                     weft_coordination_client_t **out) {
  local_coordination_client_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a membership client");
  *c = (local_coordination_client_t){{&ops}, k};
  *out = &c->base;
  return NULL;
}
