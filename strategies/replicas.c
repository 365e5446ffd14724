/* strategies/replicas.c - devices of replicas, and the options of strategies that reduce gradients. */
#include "strategies/replicas.h"

#include <stdio.h>

#include "base/alloc.h"
#include "device/device_name.h"

enum { MAX_REPLICAS = 1024, FALLBACK_REPLICAS = 2 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the devices of replicas"); }

/* ---- options ---- */

weft_status_t *weft_replicas_batch_option(const weft_option_value_t *value, weft_arena_t *arena,
                                          weft_names_t *out) {
  weft_str_t rest = value->text, part;
  int n = 0;
  while (weft_options_next(&rest, &part)) n++;
  weft_str_t *items = weft_arena_calloc(arena, (size_t)n + 1, sizeof *items);
  if (items == NULL) return no_memory();
  n = 0;
  rest = value->text;
  while (weft_options_next(&rest, &part)) items[n++] = part;
  *out = (weft_names_t){items, n};
  return NULL;
}

/* Numbers joined by '+'; the exponent of one is written without a sign. */
static weft_status_t *ready_option(const char *strategy, const weft_option_value_t *value,
                                   weft_arena_t *arena, weft_replicate_options_t *o) {
  weft_str_t rest = value->text, part;
  int n = 0;
  while (weft_options_next(&rest, &part)) n++;
  if (n == 0) return NULL;
  double *ready = weft_arena_calloc(arena, (size_t)n, sizeof *ready);
  if (ready == NULL) return no_memory();
  rest = value->text;
  for (int i = 0; i < n && weft_options_next(&rest, &part); i++) {
    if (!weft_options_number(part, &ready[i])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: option 'ready' has '%.*s', which is no number", strategy,
                        WEFT_STR_ARGS(part));
    }
  }
  o->ready = ready;
  o->num_ready = n;
  return NULL;
}

enum {
#define OPTION_AT(id, kind, value, otherwise, about) AT_##id,
  WEFT_SUM_OPTIONS(OPTION_AT)
#undef OPTION_AT
};

weft_status_t *weft_replicas_sum_options(const char *strategy, const weft_option_value_t *values,
                                         weft_arena_t *arena, weft_replicate_options_t *o) {
  static const weft_bucket_rule_t rules[] = {WEFT_BUCKETS_DDP, WEFT_BUCKETS_HOROVOD, WEFT_BUCKETS_PACK,
                                             WEFT_BUCKETS_NONE};
  WEFT_RETURN_IF_ERROR(weft_replicas_batch_option(&values[AT_batch], arena, &o->batch));
  WEFT_RETURN_IF_ERROR(ready_option(strategy, &values[AT_ready], arena, o));
  o->fusion = rules[values[AT_fusion].i];
  o->limits = (weft_bucket_limits_t){values[AT_first_bucket_bytes].i, values[AT_bucket_bytes].i};
  if (values[AT_bytes_per_pack].is_given) {
    if (values[AT_fusion].is_given && o->fusion != WEFT_BUCKETS_PACK) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: option 'bytes_per_pack' is for fusion=pack", strategy);
    }
    o->fusion = WEFT_BUCKETS_PACK;
    o->limits.cap = values[AT_bytes_per_pack].i;
  }
  if (values[AT_timeout].number < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: option 'timeout' cannot be below 0", strategy);
  o->is_ordered = values[AT_order].i == 1;
  o->sum = values[AT_reduce].i == 1 ? WEFT_SUM_ON_ONE : WEFT_SUM_BY_COLLECTIVES;
  o->hint = values[AT_algorithm].text;
  o->timeout_seconds = values[AT_timeout].number;
  o->accumulate = (int)values[AT_accumulate].i;
  o->local_batch_norm = values[AT_batch_norm].i == 1;
  if (o->accumulate > 1 && o->sum == WEFT_SUM_ON_ONE) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: option 'accumulate' is for reduce=collective", strategy);
  }
  return NULL;
}

weft_status_t *weft_replicas_check_sums(const char *strategy, const weft_option_value_t *values) {
  weft_replicate_options_t o = {.strategy = strategy};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *s = weft_replicas_sum_options(strategy, values, &arena, &o);
  weft_arena_deinit(&arena);
  return s;
}

/* ---- devices ---- */

weft_str_t weft_replicas_named_device(weft_arena_t *arena, weft_str_t task, weft_str_t name) {
  if (weft_str_starts_with(name, "/job:")) return weft_arena_str(arena, name);
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  if (weft_str_starts_with(name, "/device:")) name = weft_str_of(name.data + 8, name.length - 8);
  weft_strbuf_printf(&b, "%.*s/device:%.*s", WEFT_STR_ARGS(task), WEFT_STR_ARGS(name));
  weft_str_t device = b.failed ? weft_str_of(NULL, 0) : weft_arena_str(arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return device;
}

static bool leads(const weft_task_devices_t *t) {
  return weft_str_is(t->job, "chief") || weft_str_is(t->job, "master");
}
static bool works(const weft_task_devices_t *t) { return leads(t) || weft_str_is(t->job, "worker"); }

/* The only task, or the first that works. NULL: no cluster is known. */
static const weft_task_devices_t *find_task(const weft_cluster_view_t *c) {
  if (c == NULL || c->num_tasks == 0) return NULL;
  for (int i = 0; i < c->num_tasks; i++) {
    if (leads(&c->tasks[i])) return &c->tasks[i];
  }
  for (int i = 0; i < c->num_tasks; i++) {
    if (works(&c->tasks[i])) return &c->tasks[i];
  }
  return &c->tasks[0];
}

weft_str_t weft_replicas_task(const weft_cluster_view_t *cluster) {
  const weft_task_devices_t *t = find_task(cluster);
  return t == NULL ? WEFT_STR("/job:localhost/replica:0/task:0") : t->task;
}

static bool is_local(const weft_cluster_view_t *c) {
  return c == NULL || c->num_tasks == 0 || (c->num_tasks == 1 && weft_str_is(c->tasks[0].job, "localhost"));
}

/* How many devices of the type a task has; 0: unknown. */
static int has_of_type(const weft_task_devices_t *t, weft_str_t type) {
  return weft_str_is(type, WEFT_HOST_DEVICE_TYPE) ? t->num_cpus
         : weft_str_eq(type, t->accelerator)      ? t->num_accelerators
                                                  : 0;
}

/* A local session can be given more CPUs; a server's devices, and all of another type, are fixed. 0: unknown.
 */
static int num_of_type(const weft_cluster_view_t *c, const weft_task_devices_t *t, weft_str_t type) {
  int n = t == NULL ? 0 : has_of_type(t, type);
  if (!weft_str_is(type, WEFT_HOST_DEVICE_TYPE)) return n;
  if (c != NULL && c->num_tasks <= 1 && c->num_local_cpus > n) n = c->num_local_cpus;
  return c != NULL && c->num_tasks <= 1 && c->num_local_cpus == 0 && n <= 1 ? 0 : n;
}

/* The accelerators of these tasks where each has some, else the host's type. */
static weft_str_t default_type(const weft_task_devices_t *const *tasks, int n) {
  for (int i = 0; i < n; i++) {
    if (tasks[i] == NULL || tasks[i]->num_accelerators == 0 ||
        !weft_str_eq(tasks[i]->accelerator, tasks[0]->accelerator))
      return WEFT_STR(WEFT_HOST_DEVICE_TYPE);
  }
  return n == 0 ? WEFT_STR(WEFT_HOST_DEVICE_TYPE) : tasks[0]->accelerator;
}

/* More replicas than devices; `asked` begins the sentence. */
static weft_status_t *too_many(const char *strategy, const char *asked, int replicas, weft_str_t type,
                               int there_are) {
  const bool is_host = weft_str_is(type, WEFT_HOST_DEVICE_TYPE);
  char way[64] = "device_type=" WEFT_HOST_DEVICE_TYPE " takes CPUs";
  if (is_host) snprintf(way, sizeof way, "start it with weft server --cpus %d", replicas);
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: %s has %d %.*s device%s: %s", strategy, asked, there_are,
                    WEFT_STR_ARGS(type), there_are == 1 ? "" : "s", way);
}

static weft_status_t *make_room(weft_arena_t *arena, int n, weft_replicas_t *out) {
  *out = (weft_replicas_t){.devices = weft_arena_calloc(arena, (size_t)n + 1, sizeof *out->devices)};
  return out->devices == NULL ? no_memory() : NULL;
}

static weft_status_t *add(weft_replicas_t *out, weft_str_t device) {
  if (device.data == NULL) return no_memory();
  for (int i = 0; i < out->n; i++) {
    if (weft_str_eq(out->devices[i], device)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "device %.*s cannot hold two replicas", WEFT_STR_ARGS(device));
    }
  }
  out->devices[out->n++] = device;
  return NULL;
}

/* How many CPU devices a local process must have for this list: one in any case. */
static int count_local(const weft_replicas_t *replicas, weft_str_t task) {
  static const char kind[] = "/device:" WEFT_HOST_DEVICE_TYPE ":";
  int n = 1;
  for (int i = 0; i < replicas->n; i++) {
    weft_str_t device = replicas->devices[i];
    int64_t at = 0;
    if (device.length < task.length || memcmp(device.data, task.data, task.length) != 0) continue;
    weft_str_t own = weft_str_of(device.data + task.length, device.length - task.length);
    if (!weft_str_starts_with(own, kind)) continue;
    weft_str_t number = weft_str_of(own.data + sizeof kind - 1, own.length - (sizeof kind - 1));
    if (weft_str_to_i64(number, &at) && at >= n && at < MAX_REPLICAS) n = (int)at + 1;
  }
  return n;
}

int weft_replicas_count_local(const weft_cluster_view_t *cluster, int num_local_cpus, weft_str_t device) {
  weft_replicas_t one = {.devices = &device, .n = 1};
  int n = num_local_cpus == 0 ? 0 : count_local(&one, weft_replicas_task(cluster));
  return n > num_local_cpus ? n : num_local_cpus;
}

void weft_replicas_use(const weft_replicas_t *replicas, weft_replicate_options_t *o, weft_rewrite_t *out) {
  o->devices = replicas->devices;
  o->num_replicas = replicas->n;
  out->num_local_cpus = replicas->num_local_cpus;
}

static weft_status_t *add_named(weft_str_t devices, weft_str_t task, weft_arena_t *arena,
                                weft_replicas_t *out) {
  weft_str_t rest = devices, part;
  int n = 0;
  while (weft_options_next(&rest, &part)) n++;
  WEFT_RETURN_IF_ERROR(make_room(arena, n, out));
  rest = devices;
  while (weft_options_next(&rest, &part))
    WEFT_RETURN_IF_ERROR(add(out, weft_replicas_named_device(arena, task, part)));
  return NULL;
}

/* Devices 0 to n - 1 of a type of a task. */
static weft_status_t *add_first(weft_arena_t *arena, weft_str_t task, weft_str_t type, int n,
                                weft_replicas_t *out) {
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&name, "%.*s:%d", WEFT_STR_ARGS(type), i);
    s = name.failed ? no_memory()
                    : add(out, weft_replicas_named_device(arena, task, weft_str_of(name.data, name.length)));
    weft_strbuf_deinit(&name);
  }
  return s;
}

/* `count` (0: as many as the task has, at least 2 where it can be told to have them) devices of `type`. */
static weft_status_t *add_count(const char *strategy, const weft_cluster_view_t *cluster, int count,
                                weft_str_t type, weft_arena_t *arena, weft_replicas_t *out) {
  const weft_task_devices_t *t = find_task(cluster);
  if (type.length == 0) type = default_type(&t, 1);
  const int there_are = num_of_type(cluster, t, type);
  const bool can_grow = is_local(cluster) && weft_str_is(type, WEFT_HOST_DEVICE_TYPE);
  const int has = can_grow ? t == NULL ? 0 : t->num_cpus : there_are; /* not what it could be given */
  if (count == 0) count = has > 1 || (!can_grow && has > 0) ? has : FALLBACK_REPLICAS;
  if (count > MAX_REPLICAS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: %d replicas are too many", strategy, count);
  if (!can_grow && there_are > 0 && count > there_are) {
    char asked[64];
    snprintf(asked, sizeof asked, "%d replicas, but the task", count);
    return too_many(strategy, asked, count, type, there_are);
  }
  WEFT_RETURN_IF_ERROR(make_room(arena, count, out));
  return add_first(arena, weft_replicas_task(cluster), type, count, out);
}

static weft_status_t *in_task(const char *strategy, const weft_cluster_view_t *cluster, int count,
                              weft_str_t devices, weft_str_t type, weft_arena_t *arena,
                              weft_replicas_t *out) {
  const weft_str_t task = weft_replicas_task(cluster);
  if (devices.length == 0) {
    WEFT_RETURN_IF_ERROR(add_count(strategy, cluster, count, type, arena, out));
  } else if (type.length > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: option 'device_type' is for replicas without option 'devices'",
                      strategy);
  } else {
    WEFT_RETURN_IF_ERROR(add_named(devices, task, arena, out));
    if (count > 0 && count != out->n)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: %d replicas on %d devices", strategy, count, out->n);
  }
  if (out->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s: there must be a replica", strategy);
  out->num_local_cpus = is_local(cluster) ? count_local(out, task) : 0;
  return NULL;
}

static weft_status_t *add_task(const weft_task_devices_t *t, int per_task, weft_str_t type,
                               const char *strategy, weft_arena_t *arena, weft_replicas_t *out) {
  const int has = has_of_type(t, type), n = per_task > 0 ? per_task : has > 0 ? has : 1;
  if (has > 0 && n > has) {
    char asked[384];
    snprintf(asked, sizeof asked, "per_worker=%d, but %.*s", n, WEFT_STR_ARGS(t->task));
    return too_many(strategy, asked, n, type, has);
  }
  return add_first(arena, t->task, type, n, out);
}

/* The tasks that work, the chief first; *out is in `arena`. */
static weft_status_t *find_workers(const weft_cluster_view_t *cluster, weft_arena_t *arena,
                                   const weft_task_devices_t ***out, int *out_n) {
  const weft_task_devices_t **workers = weft_arena_calloc(arena, (size_t)cluster->num_tasks, sizeof *workers);
  int n = 0;
  if (workers == NULL) return no_memory();
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < cluster->num_tasks; i++) {
      const weft_task_devices_t *t = &cluster->tasks[i];
      if (works(t) && leads(t) == (pass == 0)) workers[n++] = t;
    }
  }
  *out = workers;
  *out_n = n;
  return NULL;
}

weft_status_t *weft_replicas_on_tasks(const char *strategy, const weft_cluster_view_t *cluster, int tasks,
                                      int per_task, weft_str_t type, weft_arena_t *arena,
                                      weft_replicas_t *out) {
  const weft_task_devices_t **workers = NULL;
  int there_are = 0, most = 0;
  if (per_task > MAX_REPLICAS || tasks > MAX_REPLICAS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: too many replicas", strategy);
  if (is_local(cluster)) {
    int n = (tasks > 0 ? tasks : FALLBACK_REPLICAS) * (per_task > 0 ? per_task : 1);
    return in_task(strategy, cluster, n, weft_str(""), type, arena, out);
  }
  WEFT_RETURN_IF_ERROR(find_workers(cluster, arena, &workers, &there_are));
  if (there_are == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: the cluster has no task of job worker", strategy);
  if (tasks > there_are) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: workers=%d, but the cluster has %d task%s of job worker",
                      strategy, tasks, there_are, there_are == 1 ? "" : "s");
  }
  if (tasks == 0) tasks = there_are;
  if (type.length == 0) type = default_type(workers, tasks);
  for (int i = 0; i < tasks; i++) {
    const int has = has_of_type(workers[i], type);
    most += per_task > 0 ? per_task : has > 0 ? has : 1;
  }
  WEFT_RETURN_IF_ERROR(make_room(arena, most, out));
  for (int i = 0; i < tasks; i++)
    WEFT_RETURN_IF_ERROR(add_task(workers[i], per_task, type, strategy, arena, out));
  return NULL;
}

enum { AT_REPLICAS, AT_DEVICES, AT_DEVICE_TYPE }; /* WEFT_TASK_OPTIONS */

weft_status_t *weft_replicas_begin(const weft_strategy_t *self, const weft_strategy_request_t *r,
                                   const weft_option_def_t *defs, int num_options,
                                   weft_option_value_t *values, weft_rewrite_t *out,
                                   weft_replicate_options_t *o) {
  weft_replicas_t replicas = {0};
  o->strategy = self->name;
  WEFT_RETURN_IF_ERROR(weft_options_parse(self->name, defs, num_options, r->options, values));
  WEFT_RETURN_IF_ERROR(in_task(self->name, r->cluster, (int)values[AT_REPLICAS].i, values[AT_DEVICES].text,
                               values[AT_DEVICE_TYPE].text, &out->arena, &replicas));
  weft_replicas_use(&replicas, o, out);
  return NULL;
}
