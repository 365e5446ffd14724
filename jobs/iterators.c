/* jobs/iterators.c - nodes beside the iterators of a graph, and runs of them. */
#include "jobs/iterators.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "client/tensor.h"
#include "jobs/c_api.h"
#include "jobs/reach.h"
#include "strategies/origin.h"

enum { NUM_WAITS = 5 };                                  /* outputs of WeftIteratorWaits: */
enum { WAITED_NS, DELIVERED, BUFFERED, BUDGET, DEVICE }; /* in this order */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the iterators of a job"); }

void weft_job_iterators_deinit(weft_job_iterators_t *l) {
  weft_free(l->items);
  weft_arena_deinit(&l->arena);
  *l = (weft_job_iterators_t){.arena = WEFT_ARENA_INIT};
}

/* ---- finding ---- */

typedef struct iterator_finder {
  TF_Operation **found; /* owned */
  int n, capacity;
} iterator_finder_t;

static weft_status_t *take(void *arg, TF_Operation *op, bool *out_stops) {
  iterator_finder_t *f = arg;
  (void)out_stops;
  if (!weft_job_is_iterator(op)) return NULL;
  if (f->n == f->capacity) {
    const int capacity = 2 * f->capacity + 8;
    TF_Operation **more = weft_realloc(f->found, (size_t)capacity, sizeof(*more));
    if (more == NULL) return no_memory();
    f->found = more;
    f->capacity = capacity;
  }
  f->found[f->n++] = op;
  return NULL;
}

static weft_status_t *find(const weft_job_plan_t *plan, iterator_finder_t *f) {
  int n = 0, k = 0;
  for (int i = 0; i < plan->num_loops; i++) n += plan->loops[i].num_fetches + plan->loops[i].num_targets;
  const TF_Operation **roots = weft_calloc((size_t)n + 1, sizeof(TF_Operation *));
  if (roots == NULL) return no_memory();
  for (int i = 0; i < plan->num_loops; i++) {
    const weft_job_loop_t *l = &plan->loops[i];
    for (int j = 0; j < l->num_fetches; j++) roots[k++] = l->fetches[j].oper;
    for (int j = 0; j < l->num_targets; j++) roots[k++] = l->targets[j];
  }
  weft_status_t *s = weft_job_visit(roots, n, take, f);
  weft_free(roots);
  return s;
}

/* ---- adding nodes ---- */

typedef struct asker {
  TF_Graph *graph;
  TF_Status *status;
  int made; /* nodes */
} asker_t;

static TF_OperationDescription *begin(asker_t *b, const char *op, const char *what) {
  char name[64];
  do {
    snprintf(name, sizeof name, "weft_iterators/%s_%d", what, b->made++);
  } while (TF_GraphOperationByName(b->graph, name) != NULL);
  return TF_NewOperation(b->graph, op, name);
}

/* A node of the iterator, on its device. */
static weft_status_t *add(asker_t *b, const char *op, const char *what, TF_Operation *iterator,
                          const TF_Output *more, TF_Operation **out) {
  TF_OperationDescription *d = begin(b, op, what);
  TF_AddInput(d, (TF_Output){iterator, 0});
  if (more != NULL) TF_AddInput(d, *more);
  TF_SetDevice(d, TF_OperationDevice(iterator));
  *out = TF_FinishOperation(d, b->status);
  return weft_job_c_api_status(b->status);
}

static weft_status_t *add_state(asker_t *b, TF_Operation *iterator, weft_job_iterator_t *it) {
  TF_Operation *op;
  TF_OperationDescription *d = begin(b, "Placeholder", "new");
  TF_SetAttrType(d, "dtype", TF_STRING);
  TF_SetAttrShape(d, "shape", NULL, 0);
  op = TF_FinishOperation(d, b->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(b->status));
  it->feed = (TF_Output){op, 0};
  if (!it->is_copy) WEFT_RETURN_IF_ERROR(add(b, "WeftIteratorState", "state", iterator, NULL, &it->state));
  return add(b, "WeftIteratorRestore", "restore", iterator, &it->feed, &it->restore);
}

/* The iterator that is saved for this one: itself, or that of which a strategy has made it a copy. */
static weft_status_t *find_original(const asker_t *b, TF_Operation *iterator, weft_strbuf_t *name,
                                    bool *is_copy) {
  char of[1024];
  const TF_AttrMetadata m = TF_OperationGetAttrMetadata(iterator, WEFT_ORIGIN_ITERATOR, b->status);
  *is_copy = TF_GetCode(b->status) == TF_OK && m.type == TF_ATTR_STRING && m.total_size >= 0 &&
             (size_t)m.total_size < sizeof of;
  if (!*is_copy) {
    weft_strbuf_puts(name, TF_OperationName(iterator));
    return NULL;
  }
  TF_OperationGetAttrString(iterator, WEFT_ORIGIN_ITERATOR, of, sizeof of, b->status);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(b->status));
  weft_strbuf_append(name, weft_str_of(of, (size_t)m.total_size));
  return NULL;
}

static weft_status_t *add_nodes(asker_t *b, TF_Operation *iterator, bool saves, weft_job_iterators_t *l) {
  weft_job_iterator_t *it = &l->items[l->n++];
  weft_strbuf_t tensor = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&tensor, WEFT_CHECKPOINT_ITERATOR);
  weft_status_t *s = find_original(b, iterator, &tensor, &it->is_copy);
  if (!tensor.failed) it->tensor = weft_arena_str(&l->arena, weft_str_of(tensor.data, tensor.length));
  weft_strbuf_deinit(&tensor);
  WEFT_RETURN_IF_ERROR(s);
  const weft_str_t name = weft_arena_str(&l->arena, weft_str(TF_OperationName(iterator)));
  if (it->tensor.data == NULL || name.data == NULL) return no_memory();
  it->name = name.data;
  WEFT_RETURN_IF_ERROR(add(b, "WeftIteratorWaits", "waits", iterator, NULL, &it->waits));
  return saves ? add_state(b, iterator, it) : NULL;
}

weft_status_t *weft_job_iterators_init(const weft_job_plan_t *plan, bool saves, weft_job_iterators_t *out) {
  iterator_finder_t f = {0};
  asker_t b = {.graph = plan->graph, .status = TF_NewStatus()};
  *out = (weft_job_iterators_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = b.status == NULL ? no_memory() : find(plan, &f);
  if (s == NULL) {
    out->items = weft_calloc((size_t)f.n + 1, sizeof *out->items);
    if (out->items == NULL) s = no_memory();
  }
  for (int i = 0; s == NULL && i < f.n; i++) s = add_nodes(&b, f.found[i], saves, out);
  weft_free(f.found);
  TF_DeleteStatus(b.status);
  return s;
}

/* ---- asking ---- */

static weft_status_t *run(TF_Session *session, const TF_Output *feeds, TF_Tensor *const *given, int num_feeds,
                          const TF_Output *fetches, TF_Tensor **got, int num_fetches) {
  TF_Status *status = TF_NewStatus();
  if (status == NULL) return no_memory();
  TF_SessionRun(session, NULL, feeds, given, num_feeds, fetches, got, num_fetches, NULL, 0, NULL, status);
  weft_status_t *s = weft_job_c_api_status(status);
  TF_DeleteStatus(status);
  return s;
}

/* All outputs of WeftIteratorWaits, of one iterator after the other; *out is owned. */
static weft_status_t *ask(const weft_job_iterators_t *l, TF_Session *session, TF_Tensor ***out) {
  const int n = l->n * NUM_WAITS;
  TF_Output *fetches = weft_calloc((size_t)n + 1, sizeof *fetches);
  TF_Tensor **got = weft_calloc((size_t)n + 1, sizeof(TF_Tensor *));
  weft_status_t *s = fetches == NULL || got == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++)
    fetches[i] = (TF_Output){l->items[i / NUM_WAITS].waits, i % NUM_WAITS};
  if (s == NULL && n > 0) s = run(session, NULL, NULL, 0, fetches, got, n);
  weft_free(fetches);
  if (s == NULL) {
    *out = got;
  } else {
    weft_free(got);
  }
  return s;
}

static void drop(TF_Tensor **values, int n) {
  for (int i = 0; i < n; i++) TF_DeleteTensor(values[i]);
  weft_free(values);
}

static int64_t number(TF_Tensor *const *values, int which) {
  return *(const int64_t *)TF_TensorData(values[which]);
}

weft_status_t *weft_job_iterators_begin(weft_job_iterators_t *l, TF_Session *session) {
  TF_Tensor **values = NULL;
  WEFT_RETURN_IF_ERROR(ask(l, session, &values));
  for (int i = 0; i < l->n; i++) {
    l->items[i].first_ns = number(values + i * NUM_WAITS, WAITED_NS);
    l->items[i].first_delivered = number(values + i * NUM_WAITS, DELIVERED);
  }
  drop(values, l->n * NUM_WAITS);
  return NULL;
}

static weft_status_t *device_of(const TF_Tensor *device, char *to, size_t size) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_job_c_api_look_at(device, &t));
  snprintf(to, size, "%.*s", WEFT_STR_ARGS(weft_tensor_str_at(t, 0)));
  weft_tensor_release(t);
  return NULL;
}

static weft_status_t *add_wait(const weft_job_iterator_t *it, TF_Tensor *const *values, weft_job_wait_t *all,
                               int *n) {
  weft_job_wait_t *w = &all[*n];
  WEFT_RETURN_IF_ERROR(device_of(values[DEVICE], w->device, sizeof w->device));
  for (int i = *n - 1; i >= 0; i--) {
    if (strcmp(all[i].device, w->device) == 0) w = &all[i];
  }
  *n += w == &all[*n];
  w->waited_ns += number(values, WAITED_NS) - it->first_ns;
  w->delivered += number(values, DELIVERED) - it->first_delivered;
  w->buffered += number(values, BUFFERED);
  w->budget += number(values, BUDGET);
  return NULL;
}

weft_status_t *weft_job_iterators_wait(const weft_job_iterators_t *l, TF_Session *session,
                                       weft_job_wait_t **out, int *out_n) {
  TF_Tensor **values = NULL;
  int n = 0;
  weft_job_wait_t *all = weft_calloc((size_t)l->n + 1, sizeof *all);
  weft_status_t *s = all == NULL ? no_memory() : ask(l, session, &values);
  for (int i = 0; s == NULL && i < l->n; i++) s = add_wait(&l->items[i], values + i * NUM_WAITS, all, &n);
  if (values != NULL) drop(values, l->n * NUM_WAITS);
  if (s != NULL) {
    weft_free(all);
    return s;
  }
  *out = all;
  *out_n = n;
  return NULL;
}

/* ---- where they stand ---- */

/* Consumes the boxes' state; a state that is "" is none. */
static weft_status_t *keep(const weft_job_iterator_t *it, TF_Tensor *const *got, bool is_told,
                           weft_checkpoint_extras_t *out, weft_strbuf_t *note) {
  weft_tensor_t *state = NULL, *problem = NULL;
  weft_status_t *s = weft_client_tensor_get(got[0], &state);
  if (s == NULL) s = weft_client_tensor_get(got[1], &problem);
  if (s == NULL && weft_tensor_str_at(state, 0).length > 0) {
    out->names[out->n] = it->tensor;
    out->tensors[out->n++] = weft_tensor_retain(state);
  }
  if (s == NULL && !is_told && weft_tensor_str_at(problem, 0).length > 0) {
    weft_strbuf_printf(note, "%siterator %s cannot be saved: a job that resumes begins its data anew: %.*s",
                       note->length > 0 ? "; " : "", it->name, WEFT_STR_ARGS(weft_tensor_str_at(problem, 0)));
  }
  weft_tensor_release(state);
  weft_tensor_release(problem);
  return s;
}

weft_status_t *weft_job_iterators_save(weft_job_iterators_t *l, TF_Session *session,
                                       weft_checkpoint_extras_t *out, weft_strbuf_t *note) {
  *out = (weft_checkpoint_extras_t){.names = weft_calloc((size_t)l->n + 1, sizeof *out->names),
                                    .tensors = weft_calloc((size_t)l->n + 1, sizeof *out->tensors)};
  if (out->names == NULL || out->tensors == NULL) return no_memory();
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < l->n; i++) { /* one in a message: a shuffled one may be large */
    const weft_job_iterator_t *it = &l->items[i];
    if (it->is_copy) continue;
    TF_Tensor *got[2] = {NULL, NULL};
    const TF_Output fetches[2] = {{it->state, 0}, {it->state, 1}};
    s = run(session, NULL, NULL, 0, fetches, got, 2);
    if (s == NULL) s = keep(it, got, l->has_told, out, note);
    TF_DeleteTensor(got[0]);
    TF_DeleteTensor(got[1]);
    if (s != NULL) s = weft_status_annotate(s, "while saving iterator %s", it->name);
  }
  l->has_told = true;
  return s;
}

/* Consumes `state`. */
static weft_status_t *set(const weft_job_iterator_t *it, TF_Session *session, weft_tensor_t *state,
                          weft_strbuf_t *why) {
  TF_Tensor *feed = NULL, *got = NULL;
  weft_tensor_t *problem = NULL;
  const TF_Output fetch = {it->restore, 0};
  weft_status_t *s = weft_client_tensor_new(state, &feed);
  if (s == NULL) s = run(session, &it->feed, &feed, 1, &fetch, &got, 1);
  if (s == NULL) s = weft_job_c_api_look_at(got, &problem);
  if (s == NULL) weft_strbuf_append(why, weft_tensor_str_at(problem, 0));
  weft_tensor_release(problem);
  TF_DeleteTensor(feed);
  TF_DeleteTensor(got);
  return s;
}

static weft_status_t *restore(const weft_job_iterator_t *it, TF_Session *session, weft_source_t *from,
                              weft_strbuf_t *why) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_tensor_t *state = NULL;
  if (!weft_source_lookup(from, it->tensor, &dtype, &shape) || dtype != WEFT_STRING || shape.rank != 0) {
    weft_strbuf_puts(why, "the checkpoint has no state of it");
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_source_read(from, it->tensor, NULL, &state));
  return set(it, session, state, why);
}

weft_status_t *weft_job_iterators_restore(const weft_job_iterators_t *l, TF_Session *session,
                                          weft_source_t *from, weft_strbuf_t *note) {
  for (int i = 0; i < l->n; i++) {
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    weft_status_t *s = restore(&l->items[i], session, from, &why);
    if (s == NULL && why.length > 0) {
      weft_strbuf_printf(note, "%siterator %s begins anew: %s", note->length > 0 ? "; " : "",
                         l->items[i].name, why.data);
    }
    weft_strbuf_deinit(&why);
    if (s != NULL) return weft_status_annotate(s, "while restoring iterator %s", l->items[i].name);
  }
  return NULL;
}
