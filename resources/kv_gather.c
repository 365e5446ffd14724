/* resources/kv_gather.c - pushes of one clock become one.
 *
 * The sum of each key is made in the order of workers, and of what a worker
 * pushed in the order in which it came: the bits do not depend on the order of arrival.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "resources/kv_table_impl.h"

void weft_kv_pending_free(weft_kv_pending_t *p) {
  if (p == NULL) return;
  weft_tensor_release(p->keys);
  weft_tensor_release(p->values);
  weft_free(p);
}

/* Takes the pushes of the table's clock out of the list, those that came first first; at most `max` of them.
 */
static weft_kv_pending_t *take_clock(weft_kv_table_t *t, int64_t max, int64_t *out_n) {
  weft_kv_pending_t *taken = NULL, **end = &taken, **at = &t->first_pending;
  *out_n = 0;
  while (*at != NULL) {
    weft_kv_pending_t *p = *at;
    if (p->clock != t->clock || *out_n == max) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    p->next = NULL;
    *end = p;
    end = &p->next;
    ++*out_n;
    t->num_pending--;
  }
  t->end_pending = at;
  return taken;
}

static int64_t count_clock(const weft_kv_table_t *t) {
  int64_t n = 0;
  for (const weft_kv_pending_t *p = t->first_pending; p != NULL; p = p->next) n += p->clock == t->clock;
  return n;
}

typedef struct sums {
  weft_kv_rows_t rows; /* of the same dtype and width, that add */
  int64_t workers;     /* that pushed */
} sums_t;

static weft_status_t *add_push(const weft_kv_table_t *t, sums_t *sums, const weft_kv_pending_t *p) {
  int64_t width = t->config.width;
  const int64_t *keys = p->keys->data;
  const char *values = p->values->data;
  for (int64_t i = 0; i < p->keys->count; i++) {
    weft_kv_row_t *row = NULL;
    WEFT_RETURN_IF_ERROR(weft_kv_rows_make(&sums->rows, keys[i], width, &row));
    weft_kv_rows_apply(&sums->rows, row, values + (size_t)(i * width) * t->rows.element);
  }
  return NULL;
}

static int by_worker(const void *a, const void *b) {
  const weft_kv_pending_t *const *x = a, *const *y = b;
  return ((*x)->worker > (*y)->worker) - ((*x)->worker < (*y)->worker);
}

/* The pushes as an array ordered by worker; equal workers keep their order. */
static weft_kv_pending_t **order(weft_kv_pending_t *first, int64_t n) {
  weft_kv_pending_t **all = weft_calloc((size_t)n + 1, sizeof(weft_kv_pending_t *));
  if (all == NULL) return NULL;
  int64_t k = 0;
  for (weft_kv_pending_t *p = first; p != NULL; p = p->next) all[k++] = p;
  /* insertion sort: stable, and n is about the number of workers */
  for (int64_t i = 1; i < n; i++) {
    weft_kv_pending_t *p = all[i];
    int64_t j = i;
    for (; j > 0 && by_worker(&all[j - 1], &p) > 0; j--) all[j] = all[j - 1];
    all[j] = p;
  }
  return all;
}

/* The table's rule on every key that was gathered, in the order in which the keys were first met. */
static weft_status_t *apply_sums(weft_kv_table_t *t, sums_t *sums) {
  for (int64_t i = 0; i < sums->rows.count; i++) {
    weft_kv_row_t *from = sums->rows.rows[i], *row = NULL;
    if (t->config.is_mean) weft_kv_rows_divide(&t->rows, from->data, from->count, sums->workers);
    WEFT_RETURN_IF_ERROR(weft_kv_rows_make(&t->rows, from->key, from->count, &row));
    weft_kv_rows_apply(&t->rows, row, from->data);
  }
  return NULL;
}

static weft_status_t *apply_clock(weft_kv_table_t *t, int64_t max) {
  int64_t n = 0;
  weft_kv_pending_t *taken = take_clock(t, max, &n), **all = order(taken, n);
  weft_kv_config_t config = t->config;
  config.rule = config.rule == WEFT_KV_ASSIGN ? WEFT_KV_ASSIGN
                                              : WEFT_KV_ADD; /* of an assignment, the last worker's counts */
  config.init = WEFT_KV_CONSTANT;
  config.init_value = 0;
  config.max_rows = 0;
  sums_t sums = {.workers = 0};
  weft_kv_rows_init(&sums.rows, &config);
  weft_status_t *s = all == NULL ? WEFT_NO_MEMORY("gathering %lld pushes", (long long)n) : NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    if (i == 0 || all[i]->worker != all[i - 1]->worker) sums.workers++;
    s = add_push(t, &sums, all[i]);
  }
  if (t->config.rule == WEFT_KV_ASSIGN) sums.workers = 1;
  if (s == NULL) s = apply_sums(t, &sums);
  weft_kv_rows_deinit(&sums.rows);
  weft_free(all);
  while (taken != NULL) {
    weft_kv_pending_t *next = taken->next;
    weft_kv_pending_free(taken);
    taken = next;
  }
  return s;
}

/* Those of clocks that are over: too late. */
static void drop_late(weft_kv_table_t *t) {
  weft_kv_pending_t **at = &t->first_pending;
  while (*at != NULL) {
    weft_kv_pending_t *p = *at;
    if (p->clock >= t->clock) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    t->num_pending--;
    weft_kv_pending_free(p);
  }
  t->end_pending = at;
}

void weft_kv_gather_locked(weft_kv_table_t *t) {
  if (!weft_kv_gathers(&t->config)) return;
  bool is_k = t->config.policy == WEFT_KV_K_OF_W;
  while (t->failure == NULL) {
    int64_t slowest = weft_clocked_slowest_locked(&t->clocked);
    bool is_over = is_k ? count_clock(t) >= t->config.required : slowest != INT64_MAX && slowest > t->clock;
    if (!is_over) return;
    t->failure = apply_clock(t, is_k ? t->config.required : INT64_MAX);
    t->clock++;
    drop_late(t);
  }
}
