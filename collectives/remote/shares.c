/* collectives/remote/shares.c - how a share goes on when its peers' bytes have come, and how it ends. */
#include "base/alloc.h"
#include "collectives/remote/remote_impl.h"

enum { READ_ON_THE_POOL = 512 << 10 }; /* bytes: less is read at once by the thread that finds them */

static int num_rounds(const weft_remote_share_t *s) { return s->p.second_bytes == NULL ? 1 : 2; }

static weft_post_state_t awaited(const weft_remote_share_t *s) {
  if (s->num_read == num_rounds(s)) return WEFT_POST_READ;
  return s->num_read == 0 ? WEFT_POST_FIRST : WEFT_POST_SECOND;
}

static void wake_peer(void *arg, int rank, uint64_t id) {
  const weft_remote_share_t *s = arg;
  if (s->links[rank] == NULL) {
    weft_remote_on_woken(s->t, id);
  } else {
    (void)weft_host_link_wake(s->links[rank], id); /* a broken link has woken it */
  }
}

/* Finds what the ranks have given in this round. */
static weft_status_t *find_bytes(weft_remote_share_t *s) {
  const bool is_first = s->num_read == 0;
  const size_t *wanted = is_first ? s->p.bytes : s->p.second_bytes;
  for (int i = 0; i < s->p.group->size; i++) {
    size_t bytes = 0;
    s->from[i] = is_first ? weft_post_first(s->post, i, &bytes) : weft_post_second(s->post, i, &bytes);
    if (bytes == wanted[i] && s->from[i] != NULL) continue;
    return WEFT_ERROR(INTERNAL, "'%.*s' from %.*s has %zu bytes, not %zu", WEFT_STR_ARGS(s->p.run),
                      WEFT_STR_ARGS(s->p.group->members[i].task), bytes, wanted[i]);
  }
  return NULL;
}

static void count_bytes(const weft_remote_share_t *s) {
  const size_t *reads = s->p.reads[s->num_read];
  for (int i = 0; i < s->p.group->size && reads != NULL; i++) {
    if (i == s->p.rank || reads[i] == 0) continue;
    weft_link_counters_add(s->t->counters, s->p.group->members[i].task, weft_str(s->t->task),
                           WEFT_TRAFFIC_COLLECTIVE, reads[i]);
  }
}

/* Goes on with `s`, which is looking, as far as it gets. True: it is complete, or has failed. */
static bool look(weft_remote_share_t *s, weft_status_t **out_failure) {
  while (s->num_read < num_rounds(s)) {
    const weft_post_state_t state = awaited(s);
    if (!weft_post_have_all(s->post, state)) return false;
    weft_post_wake(s->post, state, wake_peer, s);
    *out_failure = find_bytes(s);
    if (*out_failure != NULL) return true;
    const bool is_last = s->num_read + 1 == num_rounds(s);
    s->p.read(s->p.arg, s->num_read, s->from, is_last ? NULL : weft_post_own_second(s->post));
    if (!weft_post_is_intact(s->post)) return false; /* a peer has failed, and tells so */
    count_bytes(s);
    s->num_read++;
    weft_post_set(s->post, is_last ? WEFT_POST_READ : WEFT_POST_SECOND);
  }
  const bool is_read_by_all = weft_post_have_all(s->post, WEFT_POST_READ);
  if (is_read_by_all) weft_post_wake(s->post, WEFT_POST_READ, wake_peer, s);
  return is_read_by_all || !s->p.waits_for_readers;
}

void weft_remote_finish_share(weft_remote_share_t *s, weft_status_t *status, bool is_in_cancel) {
  weft_remote_t *t = s->t;
  weft_transfer_done_fn *done = s->done;
  void *arg = s->arg;
  weft_transfers_leave_share(t->transfers, s);
  if (!is_in_cancel) weft_canceller_deregister(s->canceller, s->token);
  weft_canceller_release(s->canceller);
  if (status == NULL) {
    weft_post_leave(s->post);
  } else {
    weft_post_withdraw(s->post);
  }
  for (int i = 0; i < s->p.group->size; i++) weft_host_link_release(s->links[i]);
  weft_status_free(s->why);
  weft_free(s->links);
  weft_free(s->key);
  weft_free(s);
  done(arg, status);
  weft_transfers_end(t->transfers);
}

void weft_remote_end_share(weft_remote_share_t *s, weft_status_t *why, bool is_in_cancel) {
  weft_status_t *failure = NULL;
  if (s->post != NULL && look(s, &failure)) { /* a peer that is lost may have given all before */
    weft_status_free(why);
    why = failure;
  }
  weft_remote_finish_share(s, why, is_in_cancel);
}

typedef struct poll_look {
  weft_remote_share_t *share;
  weft_status_t *failure;
} poll_look_t;

static bool look_once(void *arg) {
  poll_look_t *l = arg;
  return look(l->share, &l->failure);
}

void weft_remote_go_on(weft_remote_share_t *s, bool keeps_thread) {
  poll_look_t polled = {s, NULL};
  for (;;) {
    weft_status_t *why = NULL;
    weft_post_state_t state = WEFT_POST_FREE;
    weft_watched_word_t words[1 + WEFT_POST_RANKS];
    int num_words = 1;
    weft_post_awake(s->post);
    bool is_over =
        look_once(&polled) || (keeps_thread && weft_polling_run(&s->t->polling, look_once, &polled));
    while (!is_over && state != awaited(s)) {
      state = awaited(s);
      if (keeps_thread) {
        num_words = 1 + weft_post_watch(s->post, state, words + 1);
      } else {
        weft_post_sleep(s->post, state);
      }
      is_over = look_once(&polled);
    }
    if (is_over) {
      weft_remote_finish_share(s, polled.failure, false);
      return;
    }
    if (keeps_thread) {
      if (weft_transfers_watch_share(s->t->transfers, s, state, words, &why))
        keeps_thread = weft_words_wait(words, num_words);
    } else if (weft_transfers_park_share(s->t->transfers, s, state, &why)) {
      return;
    }
    if (why != NULL) {
      weft_remote_end_share(s, why, false);
      return;
    }
  }
}

static void go_on_later(void *arg) { weft_remote_go_on(arg, false); }

void weft_remote_go_on_anywhere(weft_remote_share_t *s) {
  const size_t *reads = s->num_read > 1 ? NULL : s->p.reads[s->num_read];
  size_t bytes = 0;
  for (int i = 0; reads != NULL && i < s->p.group->size; i++) bytes += reads[i];
  if (bytes < READ_ON_THE_POOL || !weft_thread_pool_submit(s->t->pool, go_on_later, s)) go_on_later(s);
}

void weft_remote_on_woken(void *arg, uint64_t id) {
  weft_remote_t *t = arg;
  weft_remote_share_t *s = weft_transfers_wake_share(t->transfers, id);
  if (s != NULL) weft_remote_go_on_anywhere(s); /* NULL: it has gone on, or ended */
}
