/* collectives/negotiated/negotiation.c - a list of names that wait, in the order in which they were first
 * asked for. */
#include "collectives/negotiated/negotiation.h"

#include <stdio.h>

#include "base/alloc.h"

typedef struct named_wait {
  struct named_wait *next;
  weft_arena_t arena;
  weft_named_request_t *by_rank; /* size of them; `has` says which are there */
  bool *has;
  int count, first; /* how many, and the lowest rank */
  int64_t first_ns;
  bool is_cached, is_ready;
} named_wait_t;

struct weft_negotiation {
  int size, rank, num_sets;
  const weft_process_set_t *sets;
  named_wait_t *list, **end; /* in order */
  bool *joined;
  int num_joined, last_joined;
  weft_named_response_t *responses; /* of the last answer */
  int num_responses;
  int *missing; /* scratch, `size` of them */
};

int weft_process_set_size(const weft_process_set_t *sets, int num_sets, int size, int set) {
  if (set == 0) return size;
  return set > 0 && set <= num_sets ? sets[set - 1].n : 0;
}

int weft_process_set_index(const weft_process_set_t *sets, int num_sets, int size, int set, int rank) {
  if (set == 0) return rank < size ? rank : -1;
  for (int i = 0; set > 0 && set <= num_sets && i < sets[set - 1].n; i++) {
    if (sets[set - 1].ranks[i] == rank) return i;
  }
  return -1;
}

weft_status_t *weft_negotiation_create(int size, int rank, const weft_process_set_t *sets, int num_sets,
                                       weft_negotiation_t **out) {
  weft_negotiation_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("a negotiation of %d members", size);
  n->size = size;
  n->rank = rank;
  n->sets = sets;
  n->num_sets = num_sets;
  n->end = &n->list;
  n->joined = weft_calloc((size_t)size, sizeof *n->joined);
  n->missing = weft_calloc((size_t)size, sizeof *n->missing);
  if (n->joined == NULL || n->missing == NULL) {
    weft_negotiation_destroy(n);
    return WEFT_NO_MEMORY("a negotiation of %d members", size);
  }
  *out = n;
  return NULL;
}

static void free_waiting(named_wait_t *w) {
  weft_arena_deinit(&w->arena);
  weft_free(w);
}

void weft_negotiation_destroy(weft_negotiation_t *n) {
  if (n == NULL) return;
  weft_negotiation_forget(n);
  for (named_wait_t *next; n->list != NULL; n->list = next) {
    next = n->list->next;
    free_waiting(n->list);
  }
  weft_free(n->joined);
  weft_free(n->missing);
  weft_free(n);
}

bool weft_negotiation_has_joined(const weft_negotiation_t *n, int rank) { return n->joined[rank]; }

/* ---- taking ---- */

static named_wait_t *find(weft_negotiation_t *n, const weft_named_request_t *r) {
  for (named_wait_t *w = n->list; w != NULL; w = w->next) {
    const weft_named_request_t *known = &w->by_rank[w->first];
    if (!w->is_ready && known->process_set == r->process_set && weft_str_eq(known->name, r->name)) return w;
  }
  return NULL;
}

static weft_status_t *add(weft_negotiation_t *n, int64_t now_ns, int rank, named_wait_t **out) {
  named_wait_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("a request of rank %d", rank);
  w->by_rank = weft_arena_calloc(&w->arena, (size_t)n->size, sizeof *w->by_rank);
  w->has = weft_arena_calloc(&w->arena, (size_t)n->size, sizeof *w->has);
  if (w->by_rank == NULL || w->has == NULL) {
    free_waiting(w);
    return WEFT_NO_MEMORY("a request of rank %d", rank);
  }
  w->first = rank;
  w->first_ns = now_ns;
  *n->end = w;
  n->end = &w->next;
  *out = w;
  return NULL;
}

static weft_status_t *keep(named_wait_t *w, int rank, const weft_named_request_t *r) {
  weft_named_request_t copy = *r;
  copy.name = weft_arena_str(&w->arena, r->name);
  copy.group = weft_arena_str(&w->arena, r->group);
  if (copy.name.data == NULL || copy.group.data == NULL) return WEFT_NO_MEMORY("a request of rank %d", rank);
  w->by_rank[rank] = copy;
  if (!w->has[rank]) w->count++;
  w->has[rank] = true;
  if (rank < w->first || !w->has[w->first]) w->first = rank;
  return NULL;
}

static weft_status_t *take_one(weft_negotiation_t *n, int rank, const weft_named_request_t *r,
                               int64_t now_ns) {
  if (r->kind == WEFT_NAMED_JOIN) {
    if (!n->joined[rank]) n->num_joined++;
    n->joined[rank] = true;
    n->last_joined = rank;
    return NULL;
  }
  if (weft_process_set_index(n->sets, n->num_sets, n->size, r->process_set, rank) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rank %d submits '%.*s' in process set %d, of which it is no member",
                      rank, WEFT_STR_ARGS(r->name), r->process_set);
  }
  named_wait_t *w = find(n, r);
  if (w == NULL) WEFT_RETURN_IF_ERROR(add(n, now_ns, rank, &w));
  return keep(w, rank, r);
}

weft_status_t *weft_negotiation_take(weft_negotiation_t *n, int rank, weft_str_t requests, int64_t now_ns) {
  for (;;) {
    weft_named_request_t r;
    bool is_there = false;
    WEFT_RETURN_IF_ERROR(weft_named_decode(&requests, &r, &is_there));
    if (!is_there) return NULL;
    WEFT_RETURN_IF_ERROR(take_one(n, rank, &r, now_ns));
  }
}

weft_status_t *weft_negotiation_take_cached(weft_negotiation_t *n, const weft_named_request_t *r) {
  named_wait_t *w = NULL;
  WEFT_RETURN_IF_ERROR(add(n, 0, 0, &w));
  w->is_cached = true;
  return keep(w, 0, r);
}

/* ---- answering ---- */

static weft_status_t *differ(const named_wait_t *w, const char *what, int a, const char *has_a, int b,
                             const char *has_b) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Mismatched %s of '%.*s': rank %d has %s, but rank %d has %s", what,
                    WEFT_STR_ARGS(w->by_rank[a].name), a, has_a, b, has_b);
}

static const char *reduction_text(const weft_named_request_t *r) {
  static const char *const texts[] = {"sum", "product", "min", "max"};
  return r->is_mean ? "mean" : texts[r->reduction];
}

/* Rank b's request against rank a's. */
static weft_status_t *compare(const named_wait_t *w, int a, int b) {
  const weft_named_request_t *x = &w->by_rank[a], *y = &w->by_rank[b];
  if (x->kind != y->kind)
    return differ(w, "operations", a, weft_named_kind_text(x->kind), b, weft_named_kind_text(y->kind));
  if (x->dtype != y->dtype)
    return differ(w, "data types", a, weft_dtype_name(x->dtype), b, weft_dtype_name(y->dtype));
  if (x->reduction != y->reduction || x->is_mean != y->is_mean) {
    return differ(w, "reductions", a, reduction_text(x), b, reduction_text(y));
  }
  char text_a[64], text_b[64];
  weft_shape_t from = x->shape, to = y->shape;
  if (x->kind == WEFT_NAMED_ALL_GATHER && from.rank == to.rank && from.rank > 0)
    from.dims[0] = to.dims[0] = 0;
  if (!weft_shape_eq(&from, &to))
    return differ(w, "shapes", a, WEFT_SHAPE_TEXT(&x->shape), b, WEFT_SHAPE_TEXT(&y->shape));
  if (x->root != y->root) {
    snprintf(text_a, sizeof text_a, "%d", x->root);
    snprintf(text_b, sizeof text_b, "%d", y->root);
    return differ(w, "root ranks", a, text_a, b, text_b);
  }
  if (x->prescale != y->prescale || x->postscale != y->postscale) {
    snprintf(text_a, sizeof text_a, "%g and %g", x->prescale, x->postscale);
    snprintf(text_b, sizeof text_b, "%g and %g", y->prescale, y->postscale);
    return differ(w, "scale factors", a, text_a, b, text_b);
  }
  if (!weft_str_eq(x->group, y->group) || x->group_members != y->group_members) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Mismatched groups of '%.*s': rank %d has '%.*s' of %d, but rank %d has '%.*s' of %d",
                      WEFT_STR_ARGS(x->name), a, WEFT_STR_ARGS(x->group), x->group_members, b,
                      WEFT_STR_ARGS(y->group), y->group_members);
  }
  return NULL;
}

static int num_joined_in(const weft_negotiation_t *n, const named_wait_t *w, int set) {
  int count = 0;
  for (int r = 0; n->num_joined > 0 && r < n->size; r++) {
    bool is_member = weft_process_set_index(n->sets, n->num_sets, n->size, set, r) >= 0;
    count += is_member && n->joined[r] && (w->is_cached || !w->has[r]);
  }
  return count;
}

static weft_status_t *check(const weft_negotiation_t *n, const named_wait_t *w) {
  const weft_named_request_t *first = &w->by_rank[w->first];
  int members = weft_process_set_size(n->sets, n->num_sets, n->size, first->process_set);
  if (num_joined_in(n, w, first->process_set) > 0 && first->kind != WEFT_NAMED_ALL_REDUCE) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s of '%.*s' is not possible after a member has joined",
                      weft_named_kind_text(first->kind), WEFT_STR_ARGS(first->name));
  }
  if (first->kind == WEFT_NAMED_ADASUM && (members & (members - 1)) != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Adasum of '%.*s': %d members are no power of two",
                      WEFT_STR_ARGS(first->name), members);
  }
  if (first->kind == WEFT_NAMED_BROADCAST &&
      weft_process_set_index(n->sets, n->num_sets, n->size, first->process_set, first->root) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "broadcast of '%.*s': rank %d, the root, is no member",
                      WEFT_STR_ARGS(first->name), first->root);
  }
  for (int r = w->first + 1; !w->is_cached && r < n->size; r++) {
    if (w->has[r]) WEFT_RETURN_IF_ERROR(compare(w, w->first, r));
  }
  return NULL;
}

static bool all_have_come(const weft_negotiation_t *n, const named_wait_t *w) {
  int set = w->by_rank[w->first].process_set;
  return w->is_cached ||
         w->count + num_joined_in(n, w, set) == weft_process_set_size(n->sets, n->num_sets, n->size, set);
}

/* Have all members submitted all tensors of w's group? */
static bool group_is_whole(const weft_negotiation_t *n, const named_wait_t *w) {
  const weft_named_request_t *mine = &w->by_rank[w->first];
  if (mine->group.length == 0) return true;
  int count = 0;
  for (const named_wait_t *o = n->list; o != NULL; o = o->next) {
    const weft_named_request_t *other = &o->by_rank[o->first];
    count += other->process_set == mine->process_set && weft_str_eq(other->group, mine->group) &&
             all_have_come(n, o);
  }
  return count >= mine->group_members;
}

static void answer_one(weft_negotiation_t *n, named_wait_t *w) {
  /* A member's own shape: an all-gather's first dimension is its own. */
  const weft_named_request_t *mine =
      !w->is_cached && w->has[n->rank] ? &w->by_rank[n->rank] : &w->by_rank[w->first];
  n->responses[n->num_responses++] =
      (weft_named_response_t){.request = *mine, .error = check(n, w), .from_cache = w->is_cached};
}

weft_status_t *weft_negotiation_answer(weft_negotiation_t *n, const weft_named_response_t **out, int *out_n) {
  size_t count = 1;
  for (const named_wait_t *w = n->list; w != NULL; w = w->next) count++;
  n->responses = weft_calloc(count, sizeof *n->responses);
  n->num_responses = 0;
  if (n->responses == NULL) return WEFT_NO_MEMORY("answering %zu requests", count);
  for (named_wait_t *w = n->list; w != NULL; w = w->next)
    w->is_ready = all_have_come(n, w) && group_is_whole(n, w);
  for (int cached = 1; cached >= 0; cached--) {
    for (named_wait_t *w = n->list; w != NULL; w = w->next) {
      if (w->is_ready && w->is_cached == (cached == 1)) answer_one(n, w);
    }
  }
  if (n->num_joined == n->size) {
    n->responses[n->num_responses++] =
        (weft_named_response_t){.request = {.kind = WEFT_NAMED_JOIN, .root = n->last_joined}};
    memset(n->joined, 0, (size_t)n->size * sizeof *n->joined);
    n->num_joined = 0;
  }
  *out = n->responses;
  *out_n = n->num_responses;
  return NULL;
}

void weft_negotiation_forget(weft_negotiation_t *n) {
  for (int i = 0; i < n->num_responses; i++) weft_status_free(n->responses[i].error);
  weft_free(n->responses);
  n->responses = NULL;
  n->num_responses = 0;
  named_wait_t **at = &n->list;
  while (*at != NULL) {
    named_wait_t *w = *at;
    if (!w->is_ready && !w->is_cached) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    free_waiting(w);
  }
  n->end = at;
}

void weft_negotiation_each_late(weft_negotiation_t *n, int64_t since_ns, weft_missing_fn *fn, void *arg) {
  for (const named_wait_t *w = n->list; w != NULL; w = w->next) {
    if (w->is_cached || w->first_ns > since_ns) continue;
    const weft_named_request_t *first = &w->by_rank[w->first];
    int num_missing = 0;
    for (int r = 0; r < n->size; r++) {
      bool is_member = weft_process_set_index(n->sets, n->num_sets, n->size, first->process_set, r) >= 0;
      if (is_member && !w->has[r] && !n->joined[r]) n->missing[num_missing++] = r;
    }
    fn(arg, first->name, n->missing, num_missing, w->first_ns);
  }
}
