/* collectives/run_actions.c - runs a plan: starts the actions that are ready, reduces what arrives. */
#include "base/alloc.h"
#include "collectives/run.h"

enum {
  ON_THE_POOL = 64 << 10, /* bytes: less is done at once, a closure for it would cost as much */
  PIECE = 4096,           /* bytes: what arrives unaligned is moved in such pieces */
};

static void on_transfer(void *arg, weft_status_t *s);

static char *at(const weft_coll_run_t *r, weft_region_t g) { return r->base[g.buffer] + g.at; }

static bool is_aligned(const weft_coll_run_t *r, const void *p) {
  const size_t alignment = r->element > 8 ? 8 : r->element;
  return (uintptr_t)p % alignment == 0;
}

/* Reduces n whole elements that lie anywhere. */
static void reduce_elements(weft_coll_transfer_t *x, const unsigned char *bytes, size_t n) {
  const weft_coll_run_t *r = x->run;
  const weft_action_t *a = &r->plan->actions[x->action];
  union {
    double aligned;
    unsigned char bytes[PIECE];
  } piece;
  while (n > 0) {
    size_t now = n;
    const void *from = bytes;
    if (!is_aligned(r, bytes)) {
      now = n < PIECE / r->element ? n : PIECE / r->element;
      memcpy(piece.bytes, bytes, now * r->element);
      from = piece.bytes;
    }
    char *to = at(r, a->to) + x->done * r->element;
    r->reduce(to, at(r, a->from) + x->done * r->element, from, now);
    if (a->is_final) r->divide(to, r->call.group_size, now);
    x->done += now;
    bytes += now * r->element;
    n -= now;
  }
}

/* Blocks are cut anywhere: an element may arrive in two of them. */
static void consume(void *arg, size_t offset, const void *block, size_t n) {
  (void)offset; /* in order: `done` and `carried` say the same */
  weft_coll_transfer_t *x = arg;
  const size_t element = x->run->element;
  const unsigned char *bytes = block;
  if (x->carried > 0) {
    const size_t rest = element - x->carried, take = n < rest ? n : rest;
    memcpy(x->carry + x->carried, bytes, take);
    x->carried += take;
    bytes += take;
    n -= take;
    if (x->carried < element) return;
    x->carried = 0;
    reduce_elements(x, x->carry, 1);
  }
  reduce_elements(x, bytes, n / element);
  x->carried = n % element;
  memcpy(x->carry, bytes + n - x->carried, x->carried);
}

/* A rank that only sends, in a collective with a root, receives no acknowledgement from its peers: its offers
 * stay until they were fetched, so that it ends after they took part. */
static bool only_sends(const weft_coll_run_t *r) {
  const weft_collective_kind_t k = r->call.kind;
  return k == WEFT_BROADCAST || k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_REDUCE;
}

static void start_now(weft_coll_transfer_t *x) {
  weft_coll_run_t *r = x->run;
  const weft_action_t *a = &r->plan->actions[x->action];
  char text[WEFT_KEY_TEXT];
  switch (a->kind) {
    case WEFT_ACTION_SEND:
      weft_coll_run_offer(r, weft_coll_run_key(r, text, "", a->pass, a->field, r->rank, a->peer), a->peer,
                          a->from.bytes == 0 ? NULL : at(r, a->from), a->from.bytes, only_sends(r),
                          on_transfer, x);
      return;
    case WEFT_ACTION_RECV:
    case WEFT_ACTION_RECV_REDUCE: {
      weft_fetch_t f = weft_coll_run_fetch_from(
          r, weft_coll_run_key(r, text, "", a->pass, a->field, a->peer, r->rank), a->peer, a->to.bytes);
      if (a->kind == WEFT_ACTION_RECV && a->to.bytes > 0) f.to = at(r, a->to);
      if (a->kind == WEFT_ACTION_RECV_REDUCE) f.consume = consume;
      f.consume_arg = x;
      r->transport->ops->fetch(r->transport, &f, r->canceller, on_transfer, x);
      return;
    }
    case WEFT_ACTION_COPY: memcpy(at(r, a->to), at(r, a->from), a->to.bytes); break;
    case WEFT_ACTION_REDUCE:
      r->reduce(at(r, a->to), at(r, a->from), at(r, a->other), a->to.bytes / r->element);
      if (a->is_final) r->divide(at(r, a->to), r->call.group_size, a->to.bytes / r->element);
      break;
    case WEFT_ACTION_ZERO: memset(at(r, a->to), 0, a->to.bytes); break;
  }
  on_transfer(x, NULL);
}

static void start_on_pool(void *arg) { start_now(arg); }

static void start(weft_coll_run_t *r, int action) {
  const weft_action_t *a = &r->plan->actions[action];
  weft_coll_transfer_t *x = &r->transfers[action];
  const bool is_large = a->kind != WEFT_ACTION_SEND && a->to.bytes >= ON_THE_POOL;
  if (!is_large || r->pool == NULL || !weft_thread_pool_submit(r->pool, start_on_pool, x)) start_now(x);
}

/* Starts all ready actions, one thread at a time, so that an action that ends while it is being started does
 * not recurse. The caller holds the run open: what it makes ready is started before the run can end. */
static void drain(weft_coll_run_t *r) {
  weft_mutex_lock(&r->mu);
  const bool is_ours = !r->is_starting;
  r->is_starting = true;
  while (is_ours && !r->has_failed && r->num_ready > 0) {
    const int action = r->ready[--r->num_ready];
    weft_mutex_unlock(&r->mu);
    weft_coll_run_begin(r); /* given back by on_transfer() */
    start(r, action);
    weft_mutex_lock(&r->mu);
  }
  if (is_ours) r->is_starting = false;
  weft_mutex_unlock(&r->mu);
}

static void on_transfer(void *arg, weft_status_t *s) {
  weft_coll_transfer_t *x = arg;
  weft_coll_run_t *r = x->run;
  if (s == NULL) {
    const weft_action_t *a = &r->plan->actions[x->action];
    weft_mutex_lock(&r->mu);
    for (int i = 0; i < a->num_after; i++) {
      const int after = r->plan->after[a->first_after + i];
      if (--r->pending[after] == 0) r->ready[r->num_ready++] = after;
    }
    weft_mutex_unlock(&r->mu);
    drain(r);
  }
  weft_coll_run_end(r, s);
}

weft_status_t *weft_coll_run_start_actions(weft_coll_run_t *r) {
  const size_t n = (size_t)r->plan->num_actions;
  r->transfers = weft_calloc(n + 1, sizeof *r->transfers);
  r->ready = weft_calloc(n + 1, sizeof *r->ready);
  r->pending = weft_calloc(n + 1, sizeof *r->pending);
  if (r->transfers == NULL || r->ready == NULL || r->pending == NULL) {
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  }
  for (size_t i = 0; i < n; i++) {
    r->transfers[i] = (weft_coll_transfer_t){.run = r, .action = (int)i};
    r->pending[i] = r->plan->actions[i].num_before;
  }
  weft_mutex_lock(&r->mu);
  for (int i = (int)n - 1; i >= 0; i--) { /* the first on top */
    if (r->pending[i] == 0) r->ready[r->num_ready++] = i;
  }
  weft_mutex_unlock(&r->mu);
  drain(r);
  return NULL;
}
