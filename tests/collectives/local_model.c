/* tests/collectives/local_model.c - how long messages are under way: the link model, in real or in virtual
 * time. */
#include "tests/collectives/local_hub_impl.h"

#include "base/alloc.h"
#include "base/clock.h"

const weft_link_model_t *weft_local_model_of(const weft_local_hub_t *h, weft_str_t from, weft_str_t to) {
  for (const weft_local_link_rule_t *r = h->rules; r != NULL; r = r->next) {
    if ((r->from[0] == '\0' || weft_str_is(from, r->from)) && (r->to[0] == '\0' || weft_str_is(to, r->to)))
      return &r->model;
  }
  return NULL;
}

double weft_local_message_s(const weft_link_model_t *m, size_t bytes) {
  return m->alpha_us * 1e-6 + (m->bytes_per_s > 0 ? (double)bytes / m->bytes_per_s : 0);
}

static bool is_earlier(const weft_local_transfer_t *a, const weft_local_transfer_t *b) {
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_push_locked(weft_local_hub_t *h, weft_local_transfer_t *p)
    WEFT_REQUIRES(h->mu) { /* room was made before */
  int i = h->num_heap++;
  for (; i > 0 && is_earlier(p, h->heap[(i - 1) / 2]); i = (i - 1) / 2) h->heap[i] = h->heap[(i - 1) / 2];
  h->heap[i] = p;
  atomic_fetch_add(&p->refs, 1);
}

static weft_local_transfer_t *heap_pop_locked(weft_local_hub_t *h)
    WEFT_REQUIRES(h->mu) { /* with the heap's reference */
  weft_local_transfer_t *top = h->heap[0], *last = h->heap[--h->num_heap];
  int i = 0;
  for (int child = 1; child < h->num_heap; child = 2 * i + 1) {
    if (child + 1 < h->num_heap && is_earlier(h->heap[child + 1], h->heap[child])) child++;
    if (!is_earlier(h->heap[child], last)) break;
    h->heap[i] = h->heap[child];
    i = child;
  }
  if (h->num_heap > 0) h->heap[i] = last;
  return top;
}

static int64_t now_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu) {
  return h->has_virtual_time ? h->now_ns : weft_clock_ns();
}

static bool is_lost_locked(weft_local_hub_t *h, double percent) WEFT_REQUIRES(h->mu) {
  h->random ^= h->random << 13; /* xorshift: the same losses in every run */
  h->random ^= h->random >> 7;
  h->random ^= h->random << 17;
  return percent > 0 && (double)(h->random >> 11) / 9007199254740992.0 * 100 < percent;
}

/* Both sides are there. False: they are to be served at once. Otherwise the place is under way or held; *sent
 * says how often. */
bool weft_local_depart_locked(weft_local_hub_t *h, weft_local_transfer_t *p, int *sent) WEFT_REQUIRES(h->mu) {
  *sent = 1;
  const weft_link_model_t *m = weft_local_model_of(h, weft_str(p->owner->name), weft_str(p->fetcher->name));
  p->is_held = m != NULL && m->is_partitioned;
  if (m == NULL) return false;
  if (p->is_held) {
    *sent = 0;
    return true;
  }
  const int64_t now = now_locked(h), one = (int64_t)(weft_local_message_s(m, p->bytes) * 1e9);
  int64_t start =
      p->owner->sends_until > p->fetcher->receives_until ? p->owner->sends_until : p->fetcher->receives_until;
  if (start < now) start = now;
  int64_t took = one;
  while (is_lost_locked(h, m->drop_percent) && *sent < 1000) {
    took += (int64_t)(4 * m->alpha_us * 1e3) + one;
    ++*sent;
  }
  p->owner->sends_until = p->fetcher->receives_until = start + took;
  p->due_ns = start + took;
  p->order = h->next_order++;
  p->is_due = true;
  heap_push_locked(h, p);
  return true;
}

weft_local_transfer_t *weft_local_pop_due_locked(weft_local_hub_t *h) {
  const bool has_one = h->num_heap > 0 && (h->has_virtual_time || h->heap[0]->due_ns <= weft_clock_ns());
  weft_local_transfer_t *p = has_one ? heap_pop_locked(h) : NULL;
  if (p != NULL && h->has_virtual_time && p->due_ns > h->now_ns) h->now_ns = p->due_ns;
  return p;
}

bool weft_local_reserve_locked(weft_local_hub_t *h) {
  if (h->num_heap + h->num_transfers + 2 <= h->max_heap) return true;
  const int more = h->max_heap * 2 + 64;
  weft_local_transfer_t **heap = weft_realloc(h->heap, (size_t)more, sizeof *heap);
  if (heap == NULL) return false;
  h->heap = heap;
  h->max_heap = more;
  return true;
}
