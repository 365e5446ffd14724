/* collectives/run_counts.c - how many rows each rank has, told beside the plan. */
#include "base/alloc.h"
#include "collectives/run.h"

static void on_count(void *arg, weft_status_t *s) {
  weft_coll_run_end(((weft_coll_transfer_t *)arg)->run, s);
}

weft_status_t *weft_coll_run_exchange_counts(weft_coll_run_t *r) {
  const int n = r->group->size;
  r->counts_out = weft_arena_calloc(&r->arena, (size_t)n, sizeof *r->counts_out);
  r->counts_in = weft_arena_calloc(&r->arena, (size_t)n, sizeof *r->counts_in);
  if (r->counts_out == NULL || r->counts_in == NULL)
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  WEFT_RETURN_IF_ERROR(weft_coll_run_make_extra(r));
  for (int i = 0; i < n; i++)
    r->counts_out[i] = r->call.splits != NULL ? r->call.splits[i] : r->call.shape.dims[0];
  r->counts_in[r->rank] = r->counts_out[r->rank];
  char text[WEFT_KEY_TEXT];
  for (int i = 1; i < n; i++) {
    const int to = (r->rank + i) % n, from = (r->rank - i + n) % n;
    weft_coll_run_begin(r);
    weft_coll_run_offer(r, weft_coll_run_key(r, text, "n", 0, 0, r->rank, to), to, &r->counts_out[to],
                        sizeof(int64_t), false, on_count, &r->extra[to]);
    weft_fetch_t f = weft_coll_run_fetch_from(r, weft_coll_run_key(r, text, "n", 0, 0, from, r->rank), from,
                                              sizeof(int64_t));
    f.to = &r->counts_in[from];
    f.is_control = true;
    weft_coll_run_begin(r);
    r->transport->ops->fetch(r->transport, &f, r->canceller, on_count, &r->extra[n + from]);
  }
  return NULL;
}
