/* collectives/group_members.c - the members of one group. */
#include "collectives/group_members.h"

#include "base/alloc.h"
#include "collectives/rank_set.h"

int weft_group_compare_devices(weft_str_t a, weft_str_t b) {
  size_t i = 0, j = 0;
  while (i < a.length && j < b.length) {
    const bool digits = a.data[i] >= '0' && a.data[i] <= '9' && b.data[j] >= '0' && b.data[j] <= '9';
    if (!digits) {
      if (a.data[i] != b.data[j]) return (unsigned char)a.data[i] < (unsigned char)b.data[j] ? -1 : 1;
      i++;
      j++;
      continue;
    }
    uint64_t x = 0, y = 0;
    for (; i < a.length && a.data[i] >= '0' && a.data[i] <= '9'; i++)
      x = x * 10 + (uint64_t)(a.data[i] - '0');
    for (; j < b.length && b.data[j] >= '0' && b.data[j] <= '9'; j++)
      y = y * 10 + (uint64_t)(b.data[j] - '0');
    if (x != y) return x < y ? -1 : 1;
  }
  return a.length - i < b.length - j ? -1 : a.length - i > b.length - j;
}

weft_group_joined_t *weft_group_find_member(const weft_group_record_t *g, weft_str_t device) {
  weft_group_joined_t *m = g->members;
  while (m != NULL && !weft_str_eq(m->device, device)) m = m->next;
  return m;
}

bool weft_group_record_has_task(const weft_group_record_t *g, weft_str_t task) {
  const weft_group_joined_t *m = g->members;
  while (m != NULL && !weft_str_eq(weft_transport_task_of(m->device), task)) m = m->next;
  return m != NULL;
}

void weft_group_remove_members(weft_group_record_t *g) {
  while (g->members != NULL) {
    weft_group_joined_t *m = g->members;
    g->members = m->next;
    weft_free(m);
  }
  g->num_members = 0;
}

void weft_group_record_free(weft_group_record_t *g) {
  if (g == NULL) return;
  weft_group_remove_members(g);
  weft_group_release(g->group);
  weft_status_free(g->error);
  weft_free(g);
}

void weft_group_remove_member(weft_group_record_t *g, weft_str_t device) {
  if (g->group != NULL || g->building != NULL) return;
  for (const weft_group_waiter_t *w = g->waiters.first; w != NULL; w = w->next) {
    if (weft_str_eq(w->group.device, device)) return;
  }
  weft_group_joined_t **at = &g->members;
  while (*at != NULL && !weft_str_eq((*at)->device, device)) at = &(*at)->next;
  weft_group_joined_t *m = *at;
  if (m == NULL) return;
  *at = m->next;
  weft_free(m);
  g->num_members--;
}

void weft_group_begin(weft_group_record_t *g, const weft_group_request_t *r) {
  g->size = r->group_size;
  const size_t n =
      r->device_type.length < sizeof g->device_type ? r->device_type.length : sizeof g->device_type - 1;
  memcpy(g->device_type, r->device_type.data, n);
  g->device_type[n] = '\0';
}

void weft_group_reset(weft_group_record_t *g, weft_group_t **old_group, weft_status_t **old_error) {
  *old_group = g->group;
  *old_error = g->error;
  g->group = g->building = NULL;
  g->error = NULL;
  g->lost_task_length = 0;
  weft_group_remove_members(g);
}

weft_group_joined_t *weft_group_joined_new(const weft_group_request_t *r, weft_str_t host) {
  size_t bytes = 0;
  if (!weft_add_size(sizeof(weft_group_joined_t) + host.length, r->device.length, &bytes)) return NULL;
  weft_group_joined_t *m = weft_calloc(1, bytes);
  if (m == NULL) return NULL;
  char *text = (char *)(m + 1);
  if (r->device.length > 0) memcpy(text, r->device.data, r->device.length);
  if (host.length > 0) memcpy(text + r->device.length, host.data, host.length);
  m->device = weft_str_of(text, r->device.length);
  m->host = weft_str_of(text + r->device.length, host.length);
  m->rank = r->rank;
  m->incarnation = r->incarnation;
  return m;
}

weft_status_t *weft_group_contradiction(const weft_group_record_t *g, const weft_group_request_t *r) {
  if (g->size != r->group_size) {
    return WEFT_ERROR(
        INTERNAL, "Device %.*s is joining a group with size %d, but that group has size %d (group_key=%lld)",
        WEFT_STR_ARGS(r->device), r->group_size, g->size, (long long)g->key);
  }
  if (!weft_str_is(r->device_type, g->device_type)) {
    return WEFT_ERROR(
        INTERNAL,
        "Device %.*s with type %.*s is joining a group with incompatible device type %s (group_key=%lld)",
        WEFT_STR_ARGS(r->device), WEFT_STR_ARGS(r->device_type), g->device_type, (long long)g->key);
  }
  if (r->rank >= r->group_size) {
    return WEFT_ERROR(INTERNAL, "Device %.*s requests rank %d of a group of %d (group_key=%lld)",
                      WEFT_STR_ARGS(r->device), r->rank, r->group_size, (long long)g->key);
  }
  for (const weft_group_joined_t *m = g->members; m != NULL; m = m->next) {
    if (weft_str_eq(m->device, r->device)) continue;
    if ((m->rank < 0) == (r->rank < 0) && (r->rank < 0 || m->rank != r->rank)) continue;
    return WEFT_ERROR(
        INTERNAL,
        "Device %.*s requests rank %d and device %.*s requests rank %d of one group (group_key=%lld)",
        WEFT_STR_ARGS(m->device), m->rank, WEFT_STR_ARGS(r->device), r->rank, (long long)g->key);
  }
  return NULL;
}

static void by_rank(weft_group_record_t *g) { /* insertion sort of a list that is made once */
  weft_group_joined_t *sorted = NULL;
  while (g->members != NULL) {
    weft_group_joined_t *m = g->members;
    g->members = m->next;
    weft_group_joined_t **at = &sorted;
    while (*at != NULL && (m->rank >= 0 ? (*at)->rank < m->rank
                                        : weft_group_compare_devices((*at)->device, m->device) < 0)) {
      at = &(*at)->next;
    }
    m->next = *at;
    *at = m;
  }
  g->members = sorted;
}

weft_group_t *weft_group_build(weft_group_record_t *g) {
  weft_group_t *out = weft_group_new(g->key, g->size);
  if (out == NULL) return NULL;
  by_rank(g);
  int rank = 0;
  for (const weft_group_joined_t *m = g->members; m != NULL; m = m->next) {
    weft_group_member_t *to = &out->members[rank++];
    to->device = weft_arena_str(&out->arena, m->device);
    to->host = weft_arena_str(&out->arena, m->host);
    to->incarnation = m->incarnation;
    if (to->device.data == NULL || to->host.data == NULL) {
      weft_group_release(out);
      return NULL;
    }
    to->task = weft_transport_task_of(to->device);
  }
  return out;
}

static weft_str_t job_of(weft_str_t task) {
  return weft_str_of(task.data, (size_t)(weft_str_rfind(task, '/') + 1));
}

/* Lists the tasks without a member in the group, of the jobs that have one. */
static void list_absent(const weft_group_record_t *g, const weft_str_t *tasks, int num_tasks,
                        weft_name_list_t *out) {
  for (int i = 0; i < num_tasks; i++) {
    bool is_member = false, is_of_job = false;
    for (const weft_group_joined_t *m = g->members; m != NULL && !is_member; m = m->next) {
      const weft_str_t task = weft_transport_task_of(m->device);
      is_member = weft_str_eq(task, tasks[i]);
      is_of_job = is_of_job || weft_str_eq(job_of(task), job_of(tasks[i]));
    }
    if (is_of_job && !is_member) weft_name_list_add(out, "%.*s", WEFT_STR_ARGS(tasks[i]));
  }
}

weft_status_t *weft_group_too_late(const weft_group_record_t *g, const weft_group_request_t *r,
                                   const weft_str_t *tasks, int num_tasks) {
  weft_name_list_t have = {0}, missing = {0}, absent = {0};
  weft_rank_set_t ranks = {{0}};
  for (const weft_group_joined_t *m = g->members; m != NULL; m = m->next) {
    weft_name_list_add(&have, "%.*s", WEFT_STR_ARGS(m->device));
    weft_rank_set_add(&ranks, m->rank);
  }
  if (r->rank >= 0) weft_rank_set_list_missing(&ranks, g->size, &missing);
  list_absent(g, tasks, num_tasks, &absent);
  return WEFT_ERROR(
      DEADLINE_EXCEEDED,
      "Collective has timed out waiting for other workers. Group %lld: after %lld ms %d of %d members "
      "have joined: %s%s%s%s%s",
      (long long)g->key, (long long)r->timeout_ms, g->num_members, g->size, weft_name_list_text(&have),
      missing.n > 0 ? "; missing ranks: " : "", weft_name_list_text(&missing),
      absent.n > 0 ? "; no member from: " : "", weft_name_list_text(&absent));
}

static bool is_worker(weft_str_t task) {
  return weft_str_starts_with(task, "/job:worker/") || weft_str_starts_with(task, "/job:chief/");
}

static bool are_of_one_job(weft_str_t a, weft_str_t b) {
  return weft_str_eq(job_of(a), job_of(b)) || (is_worker(a) && is_worker(b));
}

weft_str_t weft_group_lacks(const weft_group_record_t *g, const weft_str_t *tasks, const bool *is_lost,
                            int num_tasks) {
  weft_str_t lacked = {NULL, 0};
  for (int i = 0; i < num_tasks; i++) {
    bool is_of_job = false, has_joined = false;
    for (const weft_group_joined_t *m = g->members; m != NULL && !has_joined; m = m->next) {
      const weft_str_t task = weft_transport_task_of(m->device);
      is_of_job = is_of_job || are_of_one_job(task, tasks[i]);
      has_joined = weft_str_eq(task, tasks[i]);
    }
    if (!is_of_job || has_joined) continue;
    if (!is_lost[i]) return (weft_str_t){NULL, 0};
    if (lacked.data == NULL) lacked = tasks[i];
  }
  return lacked;
}

static weft_link_t measure(const weft_group_table_env_t *env, weft_str_t from, weft_str_t to) {
  enum { LARGE = 1 << 20 };
  const double none = env->cost(env->arg, from, to, 0), much = env->cost(env->arg, from, to, LARGE);
  return (weft_link_t){.alpha_s = none, .byte_s = much > none ? (much - none) / LARGE : 0};
}

/* Tasks of one host have ranks that are close, so only close ranks are searched for a pair. */
void weft_group_measure_links(const weft_group_table_env_t *env, weft_group_t *g) {
  enum { CLOSE = 1024 };
  bool has_near = false, has_far = false;
  for (int i = 0; i < g->size && env->cost != NULL; i++) {
    for (int j = i + 1; j < g->size && (i == 0 || j < i + CLOSE) && !(has_near && has_far); j++) {
      const weft_group_member_t *a = &g->members[i], *b = &g->members[j];
      const bool is_near = a->host.length > 0 && weft_str_eq(a->host, b->host);
      if (is_near && !has_near) g->near = measure(env, a->task, b->task);
      if (!is_near && !has_far) g->far = measure(env, a->task, b->task);
      has_near = has_near || is_near;
      has_far = has_far || !is_near;
    }
  }
}
