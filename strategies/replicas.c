/* strategies/replicas.c - devices of replicas, and the options of strategies that reduce gradients. */
#include "strategies/replicas.h"

#include "base/alloc.h"

enum { MAX_REPLICAS = 1024, FALLBACK_REPLICAS = 2 };

static weft_status_t *no_memory(void) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the devices of replicas");
}

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

/* ---- devices ---- */

weft_str_t weft_replicas_device(weft_arena_t *arena, weft_str_t task, int cpu) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%.*s/device:CPU:%d", WEFT_STR_ARGS(task), cpu);
  weft_str_t device = b.failed ? weft_str_of(NULL, 0) : weft_arena_str(arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return device;
}

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

/* A local session can be given more devices; a server's devices are fixed. 0: unknown. */
static int devices_of(const weft_cluster_view_t *c, const weft_task_devices_t *t) {
  int n = t == NULL ? 0 : t->num_cpus;
  if (c != NULL && c->num_tasks <= 1 && c->num_local_cpus > n) n = c->num_local_cpus;
  return c != NULL && c->num_tasks <= 1 && c->num_local_cpus == 0 && n <= 1 ? 0 : n;
}

static bool is_local(const weft_cluster_view_t *c) {
  return c == NULL || c->num_tasks == 0 || (c->num_tasks == 1 && weft_str_is(c->tasks[0].job, "localhost"));
}

static weft_status_t *too_many(const char *strategy, int replicas, int there_are) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "%s: %d replicas, but the task has %d CPU device%s: start it with weft server --cpus %d",
                    strategy, replicas, there_are, there_are == 1 ? "" : "s", replicas);
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

/* How many CPU devices a local process must have for this list. */
static int count_local(const weft_replicas_t *replicas, weft_str_t task) {
  int n = 0;
  for (int i = 0; i < replicas->n; i++) {
    weft_str_t device = replicas->devices[i];
    ptrdiff_t colon = weft_str_rfind(device, ':');
    int64_t at = 0;
    bool is_here = device.length > task.length && memcmp(device.data, task.data, task.length) == 0;
    weft_str_t number = weft_str_of(device.data + colon + 1, device.length - (size_t)(colon + 1));
    if (is_here && colon >= 0 && weft_str_to_i64(number, &at) && at >= n && at < MAX_REPLICAS)
      n = (int)at + 1;
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

weft_status_t *weft_replicas_in_task(const char *strategy, const weft_cluster_view_t *cluster, int count,
                                     weft_str_t devices, weft_arena_t *arena, weft_replicas_t *out) {
  const weft_task_devices_t *t = find_task(cluster);
  weft_str_t task = weft_replicas_task(cluster);
  int there_are = devices_of(cluster, t);
  if (devices.length > 0) {
    WEFT_RETURN_IF_ERROR(add_named(devices, task, arena, out));
    if (count > 0 && count != out->n) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: %d replicas on %d devices", strategy, count, out->n);
    }
  } else {
    int has = is_local(cluster) ? t == NULL ? 0 : t->num_cpus : there_are; /* not what it could be given */
    if (count == 0) count = has > 1 || (!is_local(cluster) && has > 0) ? has : FALLBACK_REPLICAS;
    if (count > MAX_REPLICAS)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: %d replicas are too many", strategy, count);
    if (!is_local(cluster) && there_are > 0 && count > there_are) return too_many(strategy, count, there_are);
    WEFT_RETURN_IF_ERROR(make_room(arena, count, out));
    for (int i = 0; i < count; i++) WEFT_RETURN_IF_ERROR(add(out, weft_replicas_device(arena, task, i)));
  }
  if (out->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s: there must be a replica", strategy);
  out->num_local_cpus = is_local(cluster) ? count_local(out, task) : 0;
  return NULL;
}

static weft_status_t *add_task(const weft_task_devices_t *t, int per_task, const char *strategy,
                               weft_arena_t *arena, weft_replicas_t *out) {
  int n = per_task > 0 ? per_task : t->num_cpus > 0 ? t->num_cpus : 1;
  if (t->num_cpus > 0 && n > t->num_cpus) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: per_worker=%d, but %.*s has %d CPU device%s: start it with weft server --cpus %d",
                      strategy, n, WEFT_STR_ARGS(t->task), t->num_cpus, t->num_cpus == 1 ? "" : "s", n);
  }
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(add(out, weft_replicas_device(arena, t->task, i)));
  return NULL;
}

weft_status_t *weft_replicas_on_tasks(const char *strategy, const weft_cluster_view_t *cluster, int tasks,
                                      int per_task, weft_arena_t *arena, weft_replicas_t *out) {
  int there_are = 0, taken = 0;
  if (per_task > MAX_REPLICAS || tasks > MAX_REPLICAS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: too many replicas", strategy);
  if (is_local(cluster)) {
    int n = (tasks > 0 ? tasks : FALLBACK_REPLICAS) * (per_task > 0 ? per_task : 1);
    return weft_replicas_in_task(strategy, cluster, n, weft_str(""), arena, out);
  }
  for (int i = 0; i < cluster->num_tasks; i++) there_are += works(&cluster->tasks[i]);
  if (there_are == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: the cluster has no task of job worker", strategy);
  if (tasks > there_are) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: workers=%d, but the cluster has %d task%s of job worker",
                      strategy, tasks, there_are, there_are == 1 ? "" : "s");
  }
  if (tasks == 0) tasks = there_are;
  int most = 1;
  for (int i = 0; i < cluster->num_tasks; i++)
    most = cluster->tasks[i].num_cpus > most ? cluster->tasks[i].num_cpus : most;
  WEFT_RETURN_IF_ERROR(make_room(arena, tasks * (per_task > most ? per_task : most), out));
  for (int pass = 0; pass < 2; pass++) { /* the chief's devices come first */
    for (int i = 0; i < cluster->num_tasks && taken < tasks; i++) {
      const weft_task_devices_t *t = &cluster->tasks[i];
      if (!works(t) || leads(t) != (pass == 0)) continue;
      WEFT_RETURN_IF_ERROR(add_task(t, per_task, strategy, arena, out));
      taken++;
    }
  }
  return NULL;
}

enum { AT_REPLICAS, AT_DEVICES }; /* WEFT_TASK_OPTIONS */

weft_status_t *weft_replicas_begin(const weft_strategy_t *self, const weft_strategy_request_t *r,
                                   const weft_option_def_t *defs, int num_options,
                                   weft_option_value_t *values, weft_rewrite_t *out,
                                   weft_replicate_options_t *o) {
  weft_replicas_t replicas = {0};
  o->strategy = self->name;
  WEFT_RETURN_IF_ERROR(weft_options_parse(self->name, defs, num_options, r->options, values));
  WEFT_RETURN_IF_ERROR(weft_replicas_in_task(self->name, r->cluster, (int)values[AT_REPLICAS].i,
                                             values[AT_DEVICES].text, &out->arena, &replicas));
  weft_replicas_use(&replicas, o, out);
  return NULL;
}
