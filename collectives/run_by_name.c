/* collectives/run_by_name.c - the first stage of a run with a shared name: the members of this task that name
 * it in a step are its group. No leader is asked, and nothing is kept for later steps.
 *
 * The member that comes last orders them by their devices, compares what they are about to do, and lets all
 * of them go on. Several members may be on one device: they are told apart by a number behind its name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "collectives/group_members.h"
#include "collectives/run.h"

/* The run is called by its name alone: members that are about to do different things must meet, too. */
static void name_run(weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  weft_status_t *why = NULL;
  weft_mutex_lock(&r->mu);
  r->run_length =
      (size_t)snprintf(r->run_text, sizeof r->run_text, "by%" PRIx64 "%" PRIx64 ".%" PRIx64 ".%" PRIx64,
                       weft_str_hash64(call->shared_name), weft_str_hash(call->shared_name), call->frame_id,
                       (uint64_t)call->iteration);
  if (r->has_failed) why = weft_status_clone(r->status);
  weft_mutex_unlock(&r->mu);
  if (why != NULL) weft_coll_run_tell(r, weft_str_of(r->run_text, r->run_length), NULL, why);
  weft_status_free(why);
}

static int compare(const void *a, const void *b) {
  const weft_coll_run_t *x = *(weft_coll_run_t *const *)a, *y = *(weft_coll_run_t *const *)b;
  const int order = weft_group_compare_devices(x->call.device, y->call.device);
  return order != 0 ? order : (x > y) - (x < y);
}

static weft_status_t *disagreement(const weft_coll_run_t *a, const weft_coll_run_t *b) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Collective '%.*s': its members disagree: %.*s on %.*s has %s%s, %.*s on %.*s has %s%s",
      WEFT_STR_ARGS(a->call.shared_name), WEFT_STR_ARGS(a->call.name), WEFT_STR_ARGS(a->call.device),
      weft_dtype_name(a->call.dtype), WEFT_SHAPE_TEXT(&a->call.shape), WEFT_STR_ARGS(b->call.name),
      WEFT_STR_ARGS(b->call.device), weft_dtype_name(b->call.dtype), WEFT_SHAPE_TEXT(&b->call.shape));
}

/* Finds the root, if there must be one. */
static weft_status_t *agree(weft_coll_run_t *const *runs, int n, int *out_source) {
  int source = -1, num_sources = 0;
  for (int i = 0; i < n; i++) {
    if (memcmp(&runs[i]->signature, &runs[0]->signature, sizeof runs[0]->signature) != 0)
      return disagreement(runs[0], runs[i]);
    if (runs[i]->call.is_source) source = i;
    num_sources += runs[i]->call.is_source;
  }
  *out_source = source;
  if (!weft_collective_has_root(runs[0]->call.kind) || num_sources == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Collective '%.*s' has %d roots among its %d members",
                    WEFT_STR_ARGS(runs[0]->call.shared_name), num_sources, n);
}

/* "DEVICE", or "DEVICE+1" for a second member that is on it. */
static bool name_members(weft_group_t *g, weft_coll_run_t *const *runs) {
  int num_before = 0;
  for (int i = 0; i < g->size; i++) {
    const weft_str_t device = runs[i]->call.device;
    num_before = i > 0 && weft_str_eq(device, runs[i - 1]->call.device) ? num_before + 1 : 0;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_append(&text, device);
    if (num_before > 0) weft_strbuf_printf(&text, "+%d", num_before);
    g->members[i].device = weft_arena_str(&g->arena, weft_str_of(text.data, text.length));
    g->members[i].task = weft_arena_str(&g->arena, weft_transport_task_of(device));
    const bool has_all = !text.failed && g->members[i].device.data != NULL && g->members[i].task.data != NULL;
    weft_strbuf_deinit(&text);
    if (!has_all) return false;
  }
  return true;
}

/* Makes the group of all that have come, whose runs wait: nothing else changes them. */
static weft_status_t *make_group(weft_coll_run_t **runs, int n) {
  int source = -1;
  qsort(runs, (size_t)n, sizeof(weft_coll_run_t *), compare);
  WEFT_RETURN_IF_ERROR(agree(runs, n, &source));
  weft_group_t *g = weft_group_new(0, n);
  if (g == NULL || !name_members(g, runs)) {
    weft_group_release(g);
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(runs[0]->call.name));
  }
  for (int i = 0; i < n; i++) {
    weft_mutex_lock(&runs[i]->mu);
    runs[i]->group = weft_group_retain(g);
    runs[i]->rank = i;
    runs[i]->source = runs[i]->agreed_source = source;
    weft_mutex_unlock(&runs[i]->mu);
  }
  weft_group_release(g);
  return NULL;
}

weft_status_t *weft_coll_run_join_by_name(weft_coll_run_t *r) {
  const int n = r->call.group_size;
  char text[WEFT_KEY_TEXT];
  void **members = NULL;
  name_run(r);
  weft_coll_run_begin(r); /* ended by the one that takes it out of the meeting */
  weft_status_t *s = weft_meetings_come(r->meetings, r->call.step_id,
                                        weft_coll_run_key(r, text, "g", 0, 0, 0, 0), n, -1, r, &members);
  if (s != NULL) {
    weft_coll_run_end(r, s);
    return NULL;
  }
  if (members == NULL) return NULL;
  weft_coll_run_t **runs = (weft_coll_run_t **)(void *)members;
  s = make_group(runs, n);
  for (int i = 0; i < n; i++) weft_coll_run_end(runs[i], weft_status_clone(s));
  weft_status_free(s);
  weft_free(members);
  return NULL;
}
