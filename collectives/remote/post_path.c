/* collectives/remote/post_path.c - collectives by posts: the members read each other's bytes where these were
 * posted.
 *
 * All members go this way, or none: a member that cannot - it has no link to another one, or no room - ends
 * the posting at all others with UNIMPLEMENTED, and none can have all posts then. A task without a segment
 * says nothing: the others see that it has none.
 */
#include "base/alloc.h"
#include "collectives/remote/remote_impl.h"

static void on_cancel(void *arg) {
  weft_remote_share_t *s = arg; /* lives: the thread that ends it waits for this callback */
  if (weft_transfers_cancel_share(s->t->transfers, s))
    weft_remote_end_share(s, weft_remote_cancelled(s->p.run), true);
}

static weft_remote_share_t *share_new(weft_remote_t *t, const weft_posting_t *p) {
  const size_t n = (size_t)p->group->size;
  weft_remote_share_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->links = weft_calloc(n, sizeof *s->links + sizeof *s->views + sizeof *s->from);
  s->key = weft_malloc(p->run.length + 2);
  if (s->links == NULL || s->key == NULL) {
    weft_free(s->links);
    weft_free(s->key);
    weft_free(s);
    return NULL;
  }
  s->views = (weft_posts_view_t **)(void *)(s->links + n);
  s->from = (const void **)(void *)(s->views + n);
  memcpy(s->key, p->run.data, p->run.length);
  memcpy(s->key + p->run.length, "/", 2);
  s->t = t;
  s->p = *p;
  return s;
}

/* Finds the segments of all members, of the incarnations that have formed the group: a task that was started
 * again has another one. False: one cannot be read; *out_is_known: the others know it, too. */
static bool find_segments(weft_remote_share_t *s, bool *out_is_known) {
  weft_posts_t *own = weft_host_links_posts(s->t->links);
  *out_is_known = own == NULL;
  bool has_all = own != NULL;
  for (int i = 0; i < s->p.group->size && has_all; i++) {
    const weft_group_member_t *m = &s->p.group->members[i];
    const bool is_own = weft_str_is(m->task, s->t->task);
    if (!is_own) s->links[i] = weft_host_links_find(s->t->links, m->task);
    if (is_own) s->views[i] = weft_posts_own_view(own);
    if (s->links[i] != NULL && weft_host_link_incarnation(s->links[i]) == m->incarnation)
      s->views[i] = weft_host_link_posts(s->links[i]);
    has_all = s->views[i] != NULL;
  }
  return has_all;
}

static bool post(weft_remote_share_t *s) {
  const weft_post_request_t q = {
      .step_id = s->p.step_id,
      .key = weft_str(s->key),
      .id = s->id,
      .rank = s->p.rank,
      .n = s->p.group->size,
      .views = s->views,
      .data = s->p.data,
      .bytes = s->p.bytes[s->p.rank],
      .second_bytes = s->p.second_bytes == NULL ? 0 : s->p.second_bytes[s->p.rank]};
  s->post = weft_post_new(weft_host_links_posts(s->t->links), &q);
  return s->post != NULL;
}

void weft_remote_post(weft_transport_t *base, const weft_posting_t *p, weft_canceller_t *canceller,
                      weft_transfer_done_fn *done, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  weft_remote_share_t *s = share_new(t, p);
  if (s == NULL) {
    done(arg, weft_remote_no_memory(p->run));
    return;
  }
  s->done = done;
  s->arg = arg;
  s->canceller = weft_canceller_retain(canceller);
  weft_transfers_begin(t->transfers, p->step_id);
  const bool is_registered = weft_canceller_register(canceller, on_cancel, s, &s->token);
  bool is_known = false;
  const bool has_segments = find_segments(s, &is_known);
  weft_status_t *why =
      is_registered ? weft_transfers_enter_share(t->transfers, s) : weft_remote_cancelled(p->run);
  if (why == NULL && !(has_segments && post(s))) {
    why = WEFT_ERROR(UNIMPLEMENTED, "%s does not share memory with all members of '%.*s'", t->task,
                     WEFT_STR_ARGS(p->run));
    if (!is_known) weft_remote_fail(t, p->step_id, p->run, p->group, why);
  }
  if (why != NULL) {
    weft_remote_finish_share(s, why, !is_registered);
  } else {
    for (int i = 0; i < p->group->size; i++) weft_remote_notice_end(t, s->links[i]);
    if (p->keeps_thread) {
      weft_remote_go_on(s, true);
    } else {
      weft_remote_go_on_anywhere(s);
    }
  }
}
