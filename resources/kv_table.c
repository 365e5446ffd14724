/* resources/kv_table.c - pushes and pulls.
 *
 * Locking: room.mu guards everything; under it rows are made and applied: one push
 * after the other, as a pull expects. It is a leaf but for allocation.
 */
#include "resources/kv_table.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "resources/kv_table_impl.h"

const weft_resource_type_t weft_kv_table_type = {.name = "N4weft7KvTableE",
                                                 .text = "KvTable",
                                                 .abandon = weft_clocked_abandon,
                                                 .task_lost = weft_clocked_task_changed};

static void changed(weft_clocked_t *c) { weft_kv_gather_locked((weft_kv_table_t *)c); }

static void destroy(weft_object_t *o) {
  weft_kv_table_t *t = (weft_kv_table_t *)o;
  while (t->first_pending != NULL) {
    weft_kv_pending_t *p = t->first_pending;
    t->first_pending = p->next;
    weft_kv_pending_free(p);
  }
  weft_kv_rows_deinit(&t->rows);
  weft_kv_windows_deinit(&t->windows);
  weft_status_free(t->failure);
  weft_clocked_deinit(&t->clocked);
  weft_free(t);
}

static weft_status_t *check_config(const weft_kv_config_t *c, int num_workers) {
  bool is_float = c->dtype == WEFT_F32 || c->dtype == WEFT_F64;
  if (!is_float && c->rule > WEFT_KV_ADD) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a table of %s can assign or add, nothing else",
                      weft_dtype_name(c->dtype));
  }
  if (c->width < 0 || c->width > WEFT_KV_MAX_WIDTH) {
    return WEFT_ERROR(INVALID_ARGUMENT, "width must be at most %d, but is %" PRId64, WEFT_KV_MAX_WIDTH,
                      c->width);
  }
  if (c->policy != WEFT_KV_ASP && num_workers == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a table whose policy is not ASP needs num_workers");
  }
  if (weft_kv_gathers(c) && c->width == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rows of different lengths cannot be gathered: policy ASP, or SSP with a staleness");
  }
  if (c->policy == WEFT_KV_K_OF_W && (c->required < 1 || c->required > num_workers)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "K_OF_W requires from 1 to %d pushes, but `required` is %" PRId64,
                      num_workers, c->required);
  }
  return NULL;
}

weft_status_t *weft_kv_table_create(const weft_kv_config_t *config, int num_workers, const weft_str_t *tasks,
                                    int num_tasks, weft_object_t **out) {
  WEFT_RETURN_IF_ERROR(check_config(config, num_workers));
  weft_kv_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("making a table");
  weft_status_t *s = weft_clocked_init(&t->clocked, num_workers, tasks, num_tasks);
  if (s != NULL) {
    weft_free(t);
    return s;
  }
  t->clocked.object.destroy = destroy;
  t->clocked.changed = changed;
  t->config = *config;
  t->end_pending = &t->first_pending;
  weft_kv_rows_init(&t->rows, config);
  *out = &t->clocked.object;
  return NULL;
}

const weft_kv_config_t *weft_kv_table_config(const weft_kv_table_t *t) { return &t->config; }
int weft_kv_table_num_workers(const weft_kv_table_t *t) { return t->clocked.num_workers; }

int64_t weft_kv_table_size(weft_kv_table_t *t) {
  weft_mutex_lock(&t->clocked.room.mu);
  int64_t n = t->rows.count;
  weft_mutex_unlock(&t->clocked.room.mu);
  return n;
}

/* ---- checks ---- */

static weft_status_t *check_worker(const weft_kv_table_t *t, int64_t worker) {
  if (worker < -1) return WEFT_ERROR(INVALID_ARGUMENT, "worker %" PRId64 " is below -1", worker);
  if (t->clocked.num_workers == 0) return NULL; /* there are no clocks */
  if (worker == -1 && t->config.policy == WEFT_KV_ASP) return NULL;
  return weft_clocked_check(&t->clocked, worker);
}

static bool has_clock(const weft_kv_table_t *t, int64_t worker) {
  return worker >= 0 && worker < t->clocked.num_workers;
}

static weft_status_t *check_keys(const weft_tensor_t *keys) {
  if (keys->shape.rank == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "keys must be a vector, but have shape %s",
                    WEFT_SHAPE_TEXT(&keys->shape));
}

static weft_status_t *check_lens(const weft_kv_push_t *p) {
  int64_t total = 0;
  if (p->lens->shape.rank != 1 || p->lens->count != p->keys->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " keys need as many lens, but these have shape %s",
                      p->keys->count, WEFT_SHAPE_TEXT(&p->lens->shape));
  }
  for (int64_t i = 0; i < p->lens->count; i++) {
    int64_t n = ((const int64_t *)p->lens->data)[i];
    if (n < 0 || n > p->values->count - total) {
      return WEFT_ERROR(INVALID_ARGUMENT, "key %" PRId64 " has a length of %" PRId64 " of %" PRId64 " values",
                        ((const int64_t *)p->keys->data)[i], n, p->values->count);
    }
    total += n;
  }
  if (total == p->values->count) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "the lens add up to %" PRId64 ", but there are %" PRId64 " values",
                    total, p->values->count);
}

static weft_status_t *check_push(const weft_kv_table_t *t, const weft_kv_push_t *p) {
  WEFT_RETURN_IF_ERROR(check_keys(p->keys));
  WEFT_RETURN_IF_ERROR(check_worker(t, p->worker));
  if (p->values->dtype != t->config.dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a table of %s cannot take %s", weft_dtype_name(t->config.dtype),
                      weft_dtype_name(p->values->dtype));
  }
  if ((p->lens == NULL) != (t->config.width > 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, t->config.width > 0 ? "a table with a width takes no lens"
                                                            : "a table without a width needs lens");
  }
  if (p->lens != NULL) return check_lens(p);
  int64_t n = p->keys->count, width = t->config.width;
  const weft_shape_t *v = &p->values->shape;
  bool fits =
      v->rank == 2 ? v->dims[0] == n && v->dims[1] == width : v->rank == 1 && width == 1 && v->dims[0] == n;
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " keys of width %" PRId64 " cannot have values of shape %s",
                    n, width, WEFT_SHAPE_TEXT(v));
}

/* ---- pushing ---- */

static weft_status_t *apply_now(weft_kv_table_t *t, const weft_kv_push_t *p) {
  const int64_t *keys = p->keys->data, *lens = p->lens == NULL ? NULL : p->lens->data;
  const char *from = p->values->data;
  for (int64_t i = 0; i < p->keys->count; i++) {
    weft_kv_row_t *row = NULL;
    int64_t n = lens == NULL ? t->config.width : lens[i];
    WEFT_RETURN_IF_ERROR(weft_kv_rows_make(&t->rows, keys[i], n, &row));
    weft_kv_rows_apply(&t->rows, row, from);
    from += (size_t)n * t->rows.element;
  }
  return NULL;
}

static weft_status_t *keep_for_later(weft_kv_table_t *t, const weft_kv_push_t *p, int64_t clock) {
  weft_kv_pending_t *kept = t->num_pending < WEFT_KV_MAX_PENDING ? weft_calloc(1, sizeof *kept) : NULL;
  if (kept == NULL) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "%" PRId64 " pushes wait for the clock %" PRId64 " to end",
                      t->num_pending, t->clock);
  }
  *kept = (weft_kv_pending_t){.worker = p->worker,
                              .clock = clock,
                              .keys = weft_tensor_retain(p->keys),
                              .values = weft_tensor_retain(p->values)};
  *t->end_pending = kept;
  t->end_pending = &kept->next;
  t->num_pending++;
  return NULL;
}

/* A push may not be ahead of its worker. *out_is_late: the worker, or under K_OF_W the table, has left that
 * clock.
 */
static weft_status_t *place_in_time(weft_kv_table_t *t, const weft_kv_push_t *p, int64_t *out_clock,
                                    bool *out_is_late) {
  *out_clock = 0;
  *out_is_late = false;
  if (!has_clock(t, p->worker)) return NULL;
  int64_t own = weft_clocked_join_locked(&t->clocked, p->worker);
  int64_t clock = p->clock < 0 ? own : p->clock;
  if (clock > own && t->config.policy != WEFT_KV_K_OF_W) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "worker %" PRId64 " pushes for clock %" PRId64 ", but is at %" PRId64, p->worker, clock,
                      own);
  }
  *out_clock = clock;
  *out_is_late = weft_kv_gathers(&t->config) && clock < t->clock;
  return NULL;
}

static weft_status_t *push_locked(weft_kv_table_t *t, const weft_kv_push_t *p, bool *out_is_new) {
  int64_t clock = 0;
  bool is_late = false;
  weft_kv_window_t *window = NULL;
  *out_is_new = false;
  if (t->failure != NULL) return weft_status_clone(t->failure);
  if (p->worker >= 0 && p->request_id > 0) {
    window = weft_kv_window_of(&t->windows, p->worker);
    if (window == NULL) return WEFT_NO_MEMORY("remembering the requests of worker %" PRId64, p->worker);
    if (weft_kv_window_has_seen(window, p->request_id)) return NULL;
  }
  WEFT_RETURN_IF_ERROR(place_in_time(t, p, &clock, &is_late));
  if (!is_late && weft_kv_gathers(&t->config)) {
    WEFT_RETURN_IF_ERROR(keep_for_later(t, p, clock));
  } else if (!is_late) {
    WEFT_RETURN_IF_ERROR(apply_now(t, p));
  }
  if (window != NULL) weft_kv_window_see(window, p->request_id);
  *out_is_new = !is_late;
  weft_worker_clock_t *w = has_clock(t, p->worker) ? &t->clocked.workers[p->worker] : NULL;
  if (w != NULL && t->config.policy == WEFT_KV_K_OF_W) {
    weft_kv_gather_locked(t);
    w->clock = is_late ? t->clock : clock + 1; /* a late worker goes on with the others */
  } else if (w != NULL && p->advances) {
    (void)weft_clocked_advance_locked(&t->clocked, p->worker);
  }
  return t->failure == NULL ? NULL : weft_status_clone(t->failure);
}

/* Under ASP no pull waits, so the slowest worker's clock is the table's. */
static int64_t clock_locked(const weft_kv_table_t *t) {
  if (weft_kv_gathers(&t->config)) return t->clock;
  int64_t slowest = weft_clocked_slowest_locked(&t->clocked);
  return slowest == INT64_MAX ? 0 : slowest;
}

weft_status_t *weft_kv_table_push(weft_kv_table_t *t, const weft_kv_push_t *p, bool *out_is_new,
                                  int64_t *out_clock) {
  WEFT_RETURN_IF_ERROR(check_push(t, p));
  weft_mutex_lock(&t->clocked.room.mu);
  weft_status_t *s = push_locked(t, p, out_is_new);
  *out_clock = clock_locked(t);
  weft_mutex_unlock(&t->clocked.room.mu);
  weft_wait_flush(&t->clocked.room);
  return s;
}

/* ---- pulling ---- */

typedef struct pull {
  weft_room_waiter_t waiter; /* first; waiter.owner is the table */
  weft_tensor_t *keys;       /* retained */
  int64_t worker, needs, clock;
  bool has_lens, waits_for_table;
  weft_tensor_t *values, *lens; /* what came of it */
  weft_status_t *failure;
  double seconds; /* of timeout */
  weft_clock_missing_t missing;
} pull_t;

static weft_status_t *read_equal(const weft_kv_table_t *t, pull_t *p) {
  const int64_t *keys = p->keys->data;
  int64_t n = p->keys->count, width = t->config.width;
  weft_shape_t shape = weft_shape_matrix(n, width);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->config.dtype, &shape, NULL, &p->values));
  size_t bytes = (size_t)width * t->rows.element;
  char *to = p->values->data;
  for (int64_t i = 0; i < n; i++, to += bytes) {
    const weft_kv_row_t *row = weft_kv_rows_find(&t->rows, keys[i]);
    if (row == NULL) weft_kv_rows_initial(&t->rows, keys[i], width, to);
    if (row != NULL) memcpy(to, row->data, bytes);
  }
  return NULL;
}

/* A key without a row has no values. */
static weft_status_t *read_unequal(const weft_kv_table_t *t, pull_t *p) {
  const int64_t *keys = p->keys->data;
  int64_t n = p->keys->count, total = 0;
  weft_shape_t shape = weft_shape_vector(n);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &shape, NULL, &p->lens));
  int64_t *lens = p->lens->data;
  for (int64_t i = 0; i < n; i++) {
    const weft_kv_row_t *row = weft_kv_rows_find(&t->rows, keys[i]);
    lens[i] = row == NULL ? 0 : row->count;
    if (lens[i] > INT64_MAX / 16 - total) return WEFT_NO_MEMORY("pulling %" PRId64 " keys", n);
    total += lens[i];
  }
  shape = weft_shape_vector(total);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->config.dtype, &shape, NULL, &p->values));
  char *to = p->values->data;
  for (int64_t i = 0; i < n; i++) {
    size_t bytes = (size_t)lens[i] * t->rows.element;
    if (bytes > 0) memcpy(to, weft_kv_rows_find(&t->rows, keys[i])->data, bytes);
    to += bytes;
  }
  return NULL;
}

/* Runs under the room's lock. */
static weft_wait_result_t try_pull(weft_room_waiter_t *w) {
  pull_t *p = (pull_t *)w;
  weft_kv_table_t *t = (weft_kv_table_t *)w->owner;
  int64_t now = p->waits_for_table ? t->clock : weft_clocked_slowest_locked(&t->clocked);
  if (t->failure == NULL && now < p->needs) return WEFT_WAIT_STUCK;
  p->clock = clock_locked(t);
  if (t->config.policy == WEFT_KV_K_OF_W && has_clock(t, p->worker))
    t->clocked.workers[p->worker].clock = t->clock;
  p->failure = t->failure != NULL    ? weft_status_clone(t->failure)
               : t->config.width > 0 ? read_equal(t, p)
                                     : read_unequal(t, p);
  return WEFT_WAIT_DONE;
}

/* Runs under the room's lock. */
static void note_missing(weft_room_waiter_t *w) {
  pull_t *p = (pull_t *)w;
  weft_clocked_missing_locked((weft_clocked_t *)w->owner, p->needs, &p->missing);
}

static void finish_pull(weft_room_waiter_t *w) {
  pull_t *p = (pull_t *)w;
  const weft_resource_call_t call = w->call;
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL) s = p->failure;
  if (w->is_late)
    s = weft_clocked_too_late((weft_clocked_t *)w->owner, p->worker, p->needs, p->seconds, &p->missing);
  int at = p->has_lens ? 2 : 1;
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &p->clock, &call.outputs[at].tensor);
  if (s == NULL) {
    call.outputs[0].tensor = p->values;
    if (p->has_lens) call.outputs[1].tensor = p->lens;
    p->values = p->lens = NULL;
  }
  weft_tensor_release(p->values);
  weft_tensor_release(p->lens);
  weft_tensor_release(p->keys);
  weft_free(p);
  weft_resource_call_end(&call, s);
}

/* From which clock on the pull may be answered. */
static int64_t needed_locked(weft_kv_table_t *t, int64_t worker, int64_t clock) {
  if (!has_clock(t, worker) || t->config.policy == WEFT_KV_ASP) return 0;
  int64_t own = weft_clocked_join_locked(&t->clocked, worker);
  if (clock < 0) clock = own;
  if (weft_kv_gathers(&t->config)) return clock;
  return clock - (t->config.staleness < clock ? t->config.staleness : clock);
}

void weft_kv_table_pull(weft_kv_table_t *t, const weft_resource_call_t *call, weft_tensor_t *keys,
                        int64_t worker, int64_t clock, bool has_lens, weft_clock_timeout_t timeout) {
  weft_status_t *s = check_keys(keys);
  if (s == NULL) s = check_worker(t, worker);
  if (s == NULL && has_lens != (t->config.width == 0)) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   has_lens ? "a table with a width gives no lens" : "a table without a width gives lens");
  }
  pull_t *p = s == NULL ? weft_calloc(1, sizeof *p) : NULL;
  if (s == NULL && p == NULL) s = WEFT_NO_MEMORY("pulling %" PRId64 " keys", keys->count);
  if (s != NULL) {
    weft_resource_call_end(call, s);
    return;
  }
  weft_mutex_lock(&t->clocked.room.mu);
  p->needs = needed_locked(t, worker, clock);
  weft_mutex_unlock(&t->clocked.room.mu);
  p->waits_for_table = weft_kv_gathers(&t->config);
  p->keys = weft_tensor_retain(keys);
  p->worker = worker;
  p->has_lens = has_lens;
  p->waiter.call = *call;
  p->waiter.owner = weft_object_retain(&t->clocked.object);
  p->waiter.cancelled = "The pull was cancelled";
  p->waiter.attempt = try_pull;
  p->waiter.finish = finish_pull;
  p->waiter.expired = note_missing;
  p->seconds = timeout.seconds;
  weft_clock_timeout_set(timeout, &p->waiter);
  weft_wait(&t->clocked.room, &p->waiter);
}

weft_status_t *weft_kv_table_attach(weft_kv_table_t *t, int64_t worker, bool greets, int64_t *out_clock,
                                    int64_t *out_last_id) {
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(check_worker(t, worker));
  weft_mutex_lock(&t->clocked.room.mu);
  weft_kv_window_t *w = worker < 0 ? NULL : weft_map_get_u64(&t->windows, (uint64_t)worker);
  *out_last_id = w == NULL ? 0 : w->high;
  if (greets && worker >= 0) {
    w = weft_kv_window_of(&t->windows, worker);
    if (w == NULL) s = WEFT_NO_MEMORY("greeting worker %" PRId64, worker);
    if (w != NULL) weft_kv_window_see(w, w->high + 1);
  }
  *out_clock = has_clock(t, worker) ? weft_clocked_join_locked(&t->clocked, worker) : 0;
  weft_mutex_unlock(&t->clocked.room.mu);
  return s;
}
