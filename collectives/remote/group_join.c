/* collectives/remote/group_join.c - joins groups: asks the leader, and links the members of one host before
 * the group is used. */
#include "collectives/remote/remote_impl.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

/* A request to the leader. Its failure is not the cause if another task failed before: what the links know of
 * that comes first. */
typedef struct leader_wait {
  weft_remote_t *t;
  struct leader_wait *prev, *next; /* guarded by t->leader_calls.mu, as is_calling: the calls in flight */
  bool is_calling;
  int64_t key;
  weft_canceller_t *canceller; /* the caller's; retained */
  weft_canceller_t *call;      /* of the call to the leader; below the caller's; owned */
  weft_status_t *status;       /* the leader's answer */
  weft_group_t *group;
  int source;
  atomic_int pending; /* links to be decided, and one for us */
  weft_group_fn *group_fn;
  weft_instance_fn *instance_fn;
  void *arg;
} leader_wait_t;

static void note_call(leader_wait_t *w, bool is_calling) {
  weft_leader_calls_t *calls = &w->t->leader_calls;
  weft_mutex_lock(&calls->mu);
  if (is_calling) {
    w->next = calls->first;
    if (w->next != NULL) w->next->prev = w;
    calls->first = w;
  } else if (w->is_calling) {
    if (w->next != NULL) w->next->prev = w->prev;
    if (w->prev != NULL) w->prev->next = w->next;
    if (w->prev == NULL) calls->first = w->next;
  }
  w->is_calling = is_calling;
  weft_mutex_unlock(&calls->mu);
}

/* A call waits for a leader that is not there yet, and also for one that is gone: with it goes what the group
 * was, and a group that has never been complete goes on waiting. */
void weft_remote_lost_leader(weft_remote_t *t, weft_str_t task) {
  if (!weft_str_eq(task, t->peers.leader)) return;
  for (;;) {
    weft_canceller_t *call = NULL;
    weft_mutex_lock(&t->leader_calls.mu);
    for (leader_wait_t *w = t->leader_calls.first; w != NULL && call == NULL; w = w->next) {
      weft_status_t *loss = weft_peer_table_first_loss(t->known, w->key);
      if (loss != NULL && !weft_canceller_is_cancelled(w->call)) call = weft_canceller_retain(w->call);
      weft_status_free(loss);
    }
    weft_mutex_unlock(&t->leader_calls.mu);
    if (call == NULL) return;
    weft_canceller_cancel(call);
    weft_canceller_release(call);
  }
}

static void end_wait(leader_wait_t *w) {
  if (w->group_fn != NULL) w->group_fn(w->arg, w->status, w->group);
  if (w->instance_fn != NULL) w->instance_fn(w->arg, w->status, w->source);
  weft_canceller_release(w->call);
  weft_canceller_release(w->canceller);
  weft_free(w);
}

static void settled(void *arg) {
  leader_wait_t *w = arg;
  weft_status_t *first = weft_peer_table_failure_of(w->t->known, w->key);
  if (first != NULL) {
    weft_status_free(w->status);
    w->status = first;
  } else if (weft_status_code(w->status) == WEFT_CANCELLED) {
    weft_status_t *left = WEFT_ERROR(ABORTED, "%s", weft_status_message(w->status));
    weft_status_free(w->status);
    w->status = left;
  }
  end_wait(w);
}

/* CANCELLED that is not the caller's: another member left the instance, because its step failed or was
 * cancelled, or the leader ended its calls as it was shut down, or is lost. */
static void fail_wait(leader_wait_t *w, weft_status_t *status) {
  const bool is_foreign =
      weft_status_code(status) == WEFT_CANCELLED && !weft_canceller_is_cancelled(w->canceller);
  if (is_foreign && !weft_status_is_derived(status)) {
    weft_status_free(status);
    status = WEFT_ERROR(UNAVAILABLE, "%.*s, the leader of collective groups, has ended",
                        WEFT_STR_ARGS(w->t->peers.leader));
  }
  w->status = status;
  if (is_foreign || weft_status_code(status) == WEFT_UNAVAILABLE) {
    weft_host_links_settle(w->t->links, settled, w);
  } else {
    end_wait(w);
  }
}

static void linked(void *arg) {
  leader_wait_t *w = arg;
  if (atomic_fetch_sub_explicit(&w->pending, 1, memory_order_acq_rel) == 1) end_wait(w);
}

static void grouped(void *arg, weft_status_t *status, weft_group_t *group) {
  leader_wait_t *w = arg;
  weft_remote_t *t = w->t;
  note_call(w, false);
  if (status == NULL) status = weft_peer_table_adopt_group(t->known, group);
  if (status != NULL) {
    weft_group_release(group);
    fail_wait(w, status);
    return;
  }
  w->group = group;
  weft_str_t host = weft_host_links_host(t->links);
  weft_group_retain(group); /* w may be gone when the last link is decided */
  atomic_init(&w->pending, group->size + 1);
  for (int i = 0; i < group->size; i++) {
    const weft_group_member_t *m = &group->members[i];
    bool is_near = host.length > 0 && weft_str_eq(m->host, host) && !weft_str_is(m->task, t->task);
    if (is_near) {
      weft_host_links_connect(t->links, m->task, m->incarnation, linked, w);
    } else {
      linked(w);
    }
  }
  linked(w);
  weft_group_release(group);
}

static leader_wait_t *wait_new(weft_remote_t *t, int64_t key, weft_canceller_t *canceller, void *arg) {
  leader_wait_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  *w = (leader_wait_t){.t = t,
                       .key = key,
                       .canceller = weft_canceller_retain(canceller),
                       .call = weft_canceller_create(canceller),
                       .source = -1,
                       .arg = arg};
  if (w->call != NULL) return w;
  weft_canceller_release(w->canceller);
  weft_free(w);
  return NULL;
}

void weft_remote_complete_group(weft_transport_t *base, const weft_group_request_t *r,
                                weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  leader_wait_t *w = wait_new(t, r->group_key, canceller, arg);
  if (w == NULL) {
    fn(arg, WEFT_NO_MEMORY("joining group %" PRId64, r->group_key), NULL);
    return;
  }
  w->group_fn = fn;
  /* A call to a leader waits until it answers: none is made to a leader that was lost a moment ago. */
  weft_status_t *s = weft_peer_table_is_lost_lately(t->known, t->peers.leader)
                         ? weft_peer_table_first_loss(t->known, r->group_key)
                         : NULL;
  if (s != NULL) {
    w->status = s;
    end_wait(w);
    return;
  }
  weft_group_request_t mine = *r;
  char alone[32]; /* a host of its own: so the other tasks know that it is one of Weft */
  snprintf(alone, sizeof alone, "alone/%016" PRIx64, t->incarnation);
  mine.incarnation = t->incarnation;
  mine.host = weft_host_links_host(t->links);
  if (mine.host.length == 0) mine.host = weft_str(alone);
  weft_canceller_t *call = weft_canceller_retain(w->call); /* w may be gone when the call returns */
  note_call(w, true);
  if (weft_peer_table_is_lost_lately(t->known, t->peers.leader)) weft_remote_lost_leader(t, t->peers.leader);
  t->peers.complete_group(t->peers.arg, &mine, call, grouped, w);
  weft_canceller_release(call);
}

static void agreed(void *arg, weft_status_t *status, int source) {
  leader_wait_t *w = arg;
  w->source = source;
  note_call(w, false);
  if (status != NULL) {
    fail_wait(w, status);
  } else {
    end_wait(w);
  }
}

void weft_remote_complete_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                   weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  leader_wait_t *w = wait_new(t, r->group_key, canceller, arg);
  if (w == NULL) {
    fn(arg, WEFT_NO_MEMORY("joining collective %.*s", WEFT_STR_ARGS(r->name)), -1);
    return;
  }
  w->instance_fn = fn;
  weft_canceller_t *call = weft_canceller_retain(w->call);
  note_call(w, true);
  t->peers.complete_instance(t->peers.arg, r, call, agreed, w);
  weft_canceller_release(call);
}

void weft_remote_transport_join_group(weft_transport_t *base, const weft_group_request_t *r,
                                      weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  weft_peer_table_note(t->known, weft_transport_task_of(r->device), r->host, r->incarnation);
  weft_group_table_join(t->groups, r, canceller, fn, arg);
}

void weft_remote_transport_join_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                         weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_group_table_join_instance(weft_remote_of(base)->groups, r, canceller, fn, arg);
}

bool weft_remote_transport_break(weft_transport_t *base, weft_str_t task) {
  return weft_host_links_break(weft_remote_of(base)->links, task);
}

void weft_remote_transport_returned_task(weft_transport_t *base, weft_str_t task, uint64_t incarnation) {
  weft_remote_t *t = weft_remote_of(base);
  weft_peer_table_forget_loss(t->known, task);
  if (weft_peer_table_incarnation_of(t->known, task) == incarnation) return; /* it was only silent */
  weft_group_table_returned_task(t->groups, task);
}
