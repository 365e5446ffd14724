/* collectives/negotiated/queue.c - requests to a negotiator that have not been answered yet.
 *
 * The queue keeps the order in which requests came; a map finds them by name and process set.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "collectives/negotiated/controller.h"

void weft_pending_end(weft_pending_t *p, weft_status_t *status, weft_tensor_t *output) {
  weft_tensor_release(p->input);
  p->done(p->arg, status, output);
  weft_free(p->texts);
  weft_free(p);
}

static bool is_same_name(const weft_named_request_t *a, const weft_named_request_t *b) {
  bool join = a->kind == WEFT_NAMED_JOIN || b->kind == WEFT_NAMED_JOIN;
  return join ? a->kind == b->kind : a->process_set == b->process_set && weft_str_eq(a->name, b->name);
}

/* Of two names with one number the first is in the map; it stays there until both are gone. */
static weft_pending_t *find_locked(weft_negotiator_t *n, const weft_named_request_t *r) WEFT_REQUIRES(n->mu) {
  weft_pending_t *p = weft_map_get_u64(&n->by_hash, weft_named_hash(r));
  if (p == NULL || is_same_name(&p->request, r)) return p;
  for (p = n->queue; p != NULL && !is_same_name(&p->request, r);) p = p->next;
  return p;
}

static weft_status_t *append_locked(weft_negotiator_t *n, weft_pending_t *p) WEFT_REQUIRES(n->mu) {
  uint64_t hash = weft_named_hash(&p->request);
  if (weft_map_get_u64(&n->by_hash, hash) != NULL) {
    n->num_twins++;
  } else {
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&n->by_hash, hash, p, NULL));
  }
  p->prev = n->last;
  if (n->last != NULL) n->last->next = p;
  if (n->last == NULL) n->queue = p;
  n->last = p;
  return NULL;
}

static void remove_locked(weft_negotiator_t *n, weft_pending_t *p) WEFT_REQUIRES(n->mu) {
  uint64_t hash = weft_named_hash(&p->request);
  if (p->prev != NULL) p->prev->next = p->next;
  if (p->prev == NULL) n->queue = p->next;
  if (p->next != NULL) p->next->prev = p->prev;
  if (p->next == NULL) n->last = p->prev;
  if (weft_map_get_u64(&n->by_hash, hash) != p) return;
  weft_map_remove_u64(&n->by_hash, hash);
  for (weft_pending_t *o = n->queue; o != NULL && n->num_twins > 0; o = o->next) {
    if (weft_named_hash(&o->request) != hash) continue;
    weft_status_free(weft_map_put_u64(&n->by_hash, hash, o, NULL)); /* there is room: one was removed */
    return;
  }
}

weft_pending_t *weft_negotiator_take(weft_negotiator_t *n, const weft_named_request_t *r) {
  weft_mutex_lock(&n->mu);
  weft_pending_t *p = find_locked(n, r);
  if (p != NULL) remove_locked(n, p);
  weft_mutex_unlock(&n->mu);
  return p;
}

/* Of a request that was withdrawn. */
static void ignore(void *arg, weft_status_t *status, weft_tensor_t *output) {
  (void)arg;
  weft_status_free(status);
  weft_tensor_release(output);
}

static weft_status_t *refuse(const weft_negotiator_t *n, const weft_named_request_t *r,
                             const weft_tensor_t *input) {
  if (r->kind == WEFT_NAMED_JOIN) return NULL;
  if (r->name.length == 0 || input == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "a collective by name needs a name and a tensor");
  int name = (int)r->name.length;
  if (weft_process_set_size(n->o.sets, n->o.num_sets, n->o.size, r->process_set) == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': there is no process set %d", name, r->name.data,
                      r->process_set);
  }
  if (weft_negotiator_index(n, r->process_set) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': rank %d is no member of process set %d", name, r->name.data,
                      n->o.rank, r->process_set);
  }
  bool is_floating = weft_dtype_is_floating(input->dtype), scales = r->prescale != 1 || r->postscale != 1;
  if (!is_floating && (scales || r->kind == WEFT_NAMED_ADASUM)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': %s of type %s", name, r->name.data,
                      scales ? "scaling" : "Adasum", weft_dtype_name(input->dtype));
  }
  bool is_number = is_floating || weft_dtype_is_integer(input->dtype),
       reduces = r->kind == WEFT_NAMED_ALL_REDUCE;
  if ((reduces && !is_number) || input->dtype == WEFT_STRING || weft_dtype_size(input->dtype) == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': %s of type %s", name, r->name.data,
                      weft_named_kind_text(r->kind), weft_dtype_name(input->dtype));
  }
  if (reduces && r->is_mean && r->reduction != WEFT_REDUCE_SUM) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': a mean is made of a sum only", name, r->name.data);
  }
  if (r->kind == WEFT_NAMED_ALL_GATHER && input->shape.rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s': an all-gather of a scalar, which has no rows", name,
                      r->name.data);
  }
  return NULL;
}

static weft_pending_t *pending_new(const weft_named_request_t *r, weft_tensor_t *input,
                                   weft_named_done_fn *done, void *arg) {
  weft_pending_t *p = weft_calloc(1, sizeof *p);
  char *texts = p == NULL ? NULL : weft_calloc(r->name.length + r->group.length + 1, 1);
  if (texts == NULL) {
    weft_free(p);
    return NULL;
  }
  if (r->name.length > 0) memcpy(texts, r->name.data, r->name.length);
  if (r->group.length > 0) memcpy(texts + r->name.length, r->group.data, r->group.length);
  *p = (weft_pending_t){.texts = texts,
                        .request = *r,
                        .input = weft_tensor_retain(input),
                        .done = done,
                        .arg = arg,
                        .since_ns = weft_clock_ns(),
                        .position = -1};
  p->request.name = weft_str_of(texts, r->name.length);
  p->request.group = weft_str_of(texts + r->name.length, r->group.length);
  p->request.dtype = input == NULL ? WEFT_DTYPE_INVALID : input->dtype;
  p->request.shape = input == NULL ? WEFT_SCALAR : input->shape;
  return p;
}

void weft_negotiator_submit(weft_negotiator_t *n, const weft_named_request_t *r, weft_tensor_t *input,
                            weft_named_done_fn *done, void *arg) {
  weft_named_request_t request = *r;
  if (request.prescale == 0) request.prescale = 1;
  if (request.postscale == 0) request.postscale = 1;
  weft_status_t *s = refuse(n, &request, input);
  weft_pending_t *p = s == NULL ? pending_new(&request, input, done, arg) : NULL;
  if (s == NULL && p == NULL) s = WEFT_NO_MEMORY("submitting '%.*s'", WEFT_STR_ARGS(r->name));
  bool is_double = false, is_over = false;
  if (s == NULL) {
    weft_mutex_lock(&n->mu);
    is_over = n->is_over || n->wants_end;
    is_double = !is_over && find_locked(n, &request) != NULL;
    weft_status_t *why = is_over ? n->failure : NULL;
    if (is_over) s = why != NULL ? weft_status_clone(why) : WEFT_ERROR(ABORTED, "the negotiator has ended");
    if (!is_over && !is_double) s = append_locked(n, p);
    if (!is_over && !is_double && s == NULL) p = NULL;
    weft_mutex_unlock(&n->mu);
  }
  if (is_double && !is_over) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "'%.*s' is asked for while another tensor of that name is on its way: names must differ",
                   WEFT_STR_ARGS(r->name));
  }
  if (p != NULL) {
    weft_tensor_release(p->input);
    weft_free(p->texts);
    weft_free(p);
  }
  if (s != NULL) done(arg, s, NULL);
}

void weft_negotiator_withdraw(weft_negotiator_t *n, void *arg) {
  weft_named_done_fn *done = NULL;
  weft_mutex_lock(&n->mu);
  for (weft_pending_t *p = n->queue; p != NULL && done == NULL; p = p->next) {
    if (p->arg != arg || p->done == ignore) continue;
    done = p->done;
    p->done = ignore;
  }
  weft_mutex_unlock(&n->mu);
  if (done != NULL) done(arg, WEFT_ERROR(CANCELLED, "a collective by name was cancelled"), NULL);
}
