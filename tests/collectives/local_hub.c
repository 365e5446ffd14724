/* tests/collectives/local_hub.c - the hub's life, its tasks, and what a test may change. */
#include "tests/collectives/local_hub_impl.h"

#include "base/alloc.h"

static weft_str_t host_of(void *arg, weft_str_t task) {
  weft_local_hub_t *h = arg;
  weft_mutex_lock(&h->mu);
  const weft_local_task_t *t = weft_local_find_task(h, task);
  weft_mutex_unlock(&h->mu);
  return t == NULL ? WEFT_STR("") : weft_str(t->host); /* hosts never change */
}

double weft_local_hub_cost(void *arg, weft_str_t from, weft_str_t to, size_t bytes) {
  weft_local_hub_t *h = arg;
  weft_mutex_lock(&h->mu);
  const weft_link_model_t *m = weft_local_model_of(h, from, to);
  const double s = m == NULL ? 2e-6 + (double)bytes / 5e9
                             : weft_local_message_s(m, bytes); /* a closure and memory's pace */
  weft_mutex_unlock(&h->mu);
  return s;
}

weft_status_t *weft_local_hub_create(bool has_virtual_time, weft_local_hub_t **out) {
  weft_local_hub_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a hub of tasks");
  weft_mutex_init(&h->mu);
  h->has_virtual_time = has_virtual_time;
  h->random = 88172645463325252u;
  const weft_group_table_env_t env = {.host_of = host_of, .cost = weft_local_hub_cost, .arg = h};
  weft_status_t *s = weft_timer_create(&h->timer);
  if (s == NULL) s = weft_group_table_create(&env, &h->table);
  if (s == NULL) s = weft_link_counters_create(&h->counters);
  if (s != NULL) {
    weft_local_hub_destroy(h);
    return s;
  }
  *out = h;
  return NULL;
}

weft_status_t *weft_local_hub_set_link(weft_local_hub_t *h, weft_str_t from, weft_str_t to,
                                       weft_link_model_t m) {
  weft_local_link_rule_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->from = weft_strndup(from.data == NULL ? "" : from.data, from.length);
  if (r != NULL) r->to = weft_strndup(to.data == NULL ? "" : to.data, to.length);
  if (r == NULL || r->from == NULL || r->to == NULL) {
    if (r != NULL) {
      weft_free(r->from);
      weft_free(r->to);
    }
    weft_free(r);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a link's model");
  }
  r->model = m;
  weft_local_transfer_t *freed = NULL;
  weft_mutex_lock(&h->mu);
  r->next = h->rules;
  h->rules = r;
  for (weft_local_task_t *t = h->tasks; t != NULL; t = t->next) {
    for (weft_local_transfer_t *p = t->first, *next = NULL; p != NULL; p = next) {
      next = p->next;
      if (!p->is_held || p->is_due) continue;
      if (weft_local_start_locked(h, p)) continue;
      weft_local_take_locked(h, p);
      p->next = freed;
      freed = p;
    }
  }
  weft_mutex_unlock(&h->mu);
  while (freed != NULL) {
    weft_local_transfer_t *p = freed;
    freed = p->next;
    p->next = NULL;
    weft_local_deliver(p);
  }
  return NULL;
}

double weft_local_hub_seconds(weft_local_hub_t *h) {
  weft_mutex_lock(&h->mu);
  const double s = (double)h->now_ns * 1e-9;
  weft_mutex_unlock(&h->mu);
  return s;
}

int weft_local_hub_num_waiting(weft_local_hub_t *h) {
  weft_mutex_lock(&h->mu);
  const int n = h->num_transfers;
  weft_mutex_unlock(&h->mu);
  return n;
}

weft_link_counters_t *weft_local_hub_counters(weft_local_hub_t *h) { return h->counters; }

void weft_local_hub_destroy(weft_local_hub_t *h) {
  if (h == NULL) return;
  weft_timer_destroy(h->timer);
  weft_group_table_destroy(h->table);
  weft_status_t *why = WEFT_ERROR(CANCELLED, "the hub ends");
  while (h->tasks != NULL) {
    weft_local_task_t *t = h->tasks;
    weft_mutex_lock(&h->mu);
    weft_local_transfer_t *list = t->first;
    for (weft_local_transfer_t *p = list; p != NULL; p = p->next) p->is_in_table = false;
    t->first = NULL;
    weft_mutex_unlock(&h->mu);
    weft_local_end_all(list, why);
    h->tasks = t->next;
    weft_map_deinit(&t->transfers);
    while (t->failed != NULL) {
      weft_local_failed_run_t *f = t->failed;
      t->failed = f->next;
      weft_status_free(f->why);
      weft_free(f->run);
      weft_free(f);
    }
    for (int i = 0; i < WEFT_LOCAL_STEPS_KEPT; i++) weft_status_free(t->ended[i].why);
    weft_status_free(t->lost);
    weft_free(t->name);
    weft_free(t->host);
    weft_free(t);
  }
  weft_status_free(why);
  while (h->num_heap > 0) weft_local_release(h->heap[--h->num_heap]);
  weft_free(h->heap);
  while (h->rules != NULL) {
    weft_local_link_rule_t *r = h->rules;
    h->rules = r->next;
    weft_free(r->from);
    weft_free(r->to);
    weft_free(r);
  }
  weft_link_counters_destroy(h->counters);
  weft_mutex_deinit(&h->mu);
  weft_free(h);
}
