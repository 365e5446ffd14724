/* collectives/run_transfer.c - names of a run's transfers, its offers and its fetches. */
#include <stdio.h>

#include "base/alloc.h"
#include "collectives/run.h"

size_t weft_coll_run_name(const weft_coll_run_t *r, const weft_coll_signature_t *signature, char *text,
                          size_t size) {
  const weft_collective_t *call = &r->call;
  return (size_t)snprintf(text, size, "%llx.%llx.%llx.%llx.%x", (unsigned long long)call->group_key,
                          (unsigned long long)call->instance_key, (unsigned long long)call->frame_id,
                          (unsigned long long)call->iteration, (unsigned)weft_collective_hash(signature));
}

/* "RUN/agreed source/what.field.source.destination" */
weft_str_t weft_coll_run_key(const weft_coll_run_t *r, char *text, const char *what, int pass, int field,
                             int source, int destination) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s/%x/%s%x.%x.%x.%x", (int)r->run_length, r->run_text,
                         (unsigned)(r->agreed_source + 1), what, pass, field, source, destination);
  return weft_str_of(text, (size_t)n);
}

weft_str_t weft_coll_run_part(const weft_coll_run_t *r, char *text, const char *what) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s/%x/%s", (int)r->run_length, r->run_text,
                         (unsigned)(r->agreed_source + 1), what);
  return weft_str_of(text, (size_t)n);
}

/* The signs of presence of each rank are a run of their own: a rank that has ended withdraws its own, not
 * those that other ranks of its task still offer. */
static weft_str_t presence_of(const weft_coll_run_t *r, char *text, int rank) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s.h%x", (int)r->run_length, r->run_text, rank);
  return weft_str_of(text, (size_t)n);
}

weft_str_t weft_coll_run_presence_key(const weft_coll_run_t *r, char *text, int source, int destination) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s.h%x/%x/%x", (int)r->run_length, r->run_text, source,
                         (unsigned)(r->agreed_source + 1), destination);
  return weft_str_of(text, (size_t)n);
}

void weft_coll_run_tell(const weft_coll_run_t *r, weft_str_t run, const weft_group_t *group,
                        const weft_status_t *why) {
  r->transport->ops->fail(r->transport, r->call.step_id, run, group, why);
  weft_meetings_fail(r->meetings, r->call.step_id, run, why);
}

void weft_coll_run_withdraw_presence(weft_coll_run_t *r) {
  char text[WEFT_KEY_TEXT];
  weft_status_t *why = WEFT_ERROR(ABORTED, "the collective has ended here");
  r->transport->ops->fail(r->transport, r->call.step_id, presence_of(r, text, r->rank), NULL, why);
  weft_status_free(why);
}

void weft_coll_run_offer(weft_coll_run_t *r, weft_str_t key, int peer, const void *data, size_t bytes,
                         bool is_kept, weft_transfer_done_fn *fn, void *arg) {
  const weft_group_member_t *to = &r->group->members[peer];
  r->transport->ops->offer(r->transport, r->call.step_id, key, to->task, to->device, data, bytes, is_kept, fn,
                           arg);
}

weft_fetch_t weft_coll_run_fetch_from(const weft_coll_run_t *r, weft_str_t key, int peer, size_t bytes) {
  const weft_group_member_t *from = &r->group->members[peer];
  return (weft_fetch_t){.from_task = from->task,
                        .from_device = from->device,
                        .to_device = r->group->members[r->rank].device,
                        .step_id = r->call.step_id,
                        .key = key,
                        .bytes = bytes};
}

weft_status_t *weft_coll_run_make_extra(weft_coll_run_t *r) {
  if (r->extra != NULL) return NULL;
  const size_t n = (size_t)r->group->size;
  r->extra = weft_calloc(4 * n, sizeof *r->extra);
  r->answered = weft_calloc(n, 1);
  if (r->extra == NULL || r->answered == NULL)
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  for (size_t i = 0; i < 4 * n; i++)
    r->extra[i] = (weft_coll_transfer_t){.run = r, .action = -1, .peer = (int)(i % n)};
  return NULL;
}
