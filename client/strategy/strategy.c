/* client/strategy/strategy.c - making strategies: which devices replicas and variables have. */
#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"
#include "device/device_name.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a strategy"); }

static weft_status_t *create(weft_strategy_kind_t kind, const WEFT_CommOptions *o, WEFT_Strategy **out) {
  WEFT_Strategy *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return no_memory();
  *out = s;
  s->kind = kind;
  s->num_pipelines = 1;
  s->algorithm =
      weft_arena_str(&s->arena, weft_str(o == NULL || o->algorithm == NULL ? "auto" : o->algorithm));
  if (s->algorithm.data == NULL) return no_memory();
  if (o == NULL) return NULL;
  if (o->bytes_per_pack < 0) return WEFT_ERROR(INVALID_ARGUMENT, "bytes_per_pack is negative");
  if (!(o->timeout_s >= 0)) return WEFT_ERROR(INVALID_ARGUMENT, "timeout_s is negative");
  static const char *const algorithms[] = {"auto",         "ring",   "tree", "halving_doubling",
                                           "hierarchical", "direct", "nccl"};
  bool is_known = false;
  for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
    is_known = is_known || weft_str_is(s->algorithm, algorithms[i]);
  if (!is_known)
    return WEFT_ERROR(INVALID_ARGUMENT, "there is no algorithm '%s' for collectives", s->algorithm.data);
  s->bytes_per_pack = o->bytes_per_pack;
  s->timeout_s = o->timeout_s;
  return NULL;
}

void WEFT_DeleteStrategy(WEFT_Strategy *s) {
  if (s == NULL) return;
  weft_arena_deinit(&s->arena);
  weft_free(s);
}

/* "CPU:1" becomes "/device:CPU:1"; a full name stays. */
static weft_status_t *add_device(WEFT_Strategy *s, weft_str_t *list, int n, const char *text) {
  weft_device_name_t name;
  weft_device_text_t printed;
  weft_strbuf_t local = WEFT_STRBUF_INIT;
  if (text == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "a strategy's device is NULL");
  if (text[0] != '/' && text[0] != '\0') weft_strbuf_puts(&local, "/device:");
  weft_strbuf_puts(&local, text);
  weft_status_t *status =
      local.failed ? no_memory() : weft_device_name_parse(weft_str_of(local.data, local.length), &name);
  if (status == NULL && !(name.has_type && name.has_id)) {
    status = WEFT_ERROR(
        INVALID_ARGUMENT,
        "'%s' does not name a device: give CPU:1, or /job:worker/replica:0/task:0/device:CPU:1", text);
  }
  if (status == NULL) list[n] = weft_arena_str(&s->arena, weft_str(weft_device_name_print(&name, &printed)));
  weft_strbuf_deinit(&local);
  if (status != NULL) return status;
  if (list[n].data == NULL) return no_memory();
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(list[i], list[n]))
      return WEFT_ERROR(INVALID_ARGUMENT, "device %s is named twice", list[n].data);
  }
  return NULL;
}

static weft_status_t *set_devices(WEFT_Strategy *s, const char *const *devices, int n) {
  if (n < 1 || devices == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "a strategy needs at least one device");
  s->devices = weft_arena_calloc(&s->arena, (size_t)n, sizeof *s->devices);
  if (s->devices == NULL) return no_memory();
  s->num_replicas = n;
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(add_device(s, s->devices, i, devices[i]));
  return NULL;
}

static weft_status_t *make_parameter_devices(WEFT_Strategy *s, int n) {
  s->parameter_devices = weft_arena_calloc(&s->arena, (size_t)n, sizeof *s->parameter_devices);
  if (s->parameter_devices == NULL) return no_memory();
  s->num_parameter_devices = n;
  return NULL;
}

/* Gives the strategy, or deletes it if there is a failure. */
static WEFT_Strategy *finish(WEFT_Strategy *s, weft_status_t *failure, TF_Status *status) {
  if (weft_client_end(status, failure)) return s;
  WEFT_DeleteStrategy(s);
  return NULL;
}

WEFT_Strategy *WEFT_NewOneDeviceStrategy(const char *device, TF_Status *status) {
  return WEFT_NewMirroredStrategy(&device, 1, NULL, status);
}

WEFT_Strategy *WEFT_NewMirroredStrategy(const char *const *devices, int num_devices,
                                        const WEFT_CommOptions *options, TF_Status *status) {
  WEFT_Strategy *s = NULL;
  weft_status_t *failure = create(WEFT_KIND_REPLICAS, options, &s);
  if (failure == NULL) failure = set_devices(s, devices, num_devices);
  return finish(s, failure, status);
}

WEFT_Strategy *WEFT_NewCentralStorageStrategy(const char *const *devices, int num_devices,
                                              const char *parameter_device, TF_Status *status) {
  WEFT_Strategy *s = NULL;
  weft_status_t *failure = create(WEFT_KIND_CENTRAL, NULL, &s);
  if (failure == NULL) failure = set_devices(s, devices, num_devices);
  if (failure == NULL) failure = make_parameter_devices(s, 1);
  if (failure == NULL) failure = add_device(s, s->parameter_devices, 0, parameter_device);
  return finish(s, failure, status);
}

/* ---- of a cluster ---- */

enum { MAX_TASKS = 1 << 16 };

static weft_status_t *add_task(WEFT_Strategy *s, weft_str_t *list, int *n, const char *job, int index,
                               int cpu) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "/job:%s/replica:0/task:%d/device:" WEFT_HOST_DEVICE_TYPE ":%d", job, index, cpu);
  weft_status_t *status = text.failed ? no_memory() : add_device(s, list, (*n)++, text.data);
  weft_strbuf_deinit(&text);
  return status;
}

static weft_status_t *add_job(WEFT_Strategy *s, weft_str_t *list, int *n, const WEFT_Cluster *cluster,
                              const char *job, int cpus) {
  int tasks = WEFT_ClusterNumTasks(cluster, job);
  for (int i = 0, found = 0; found < tasks && i < MAX_TASKS; i++) {
    if (WEFT_ClusterAddress(cluster, job, i) == NULL) continue;
    found++;
    for (int k = 0; k < cpus; k++) WEFT_RETURN_IF_ERROR(add_task(s, list, n, job, i, k));
  }
  return NULL;
}

static weft_status_t *multi_worker(WEFT_Strategy *s, const WEFT_Cluster *cluster, int cpus) {
  int tasks = WEFT_ClusterNumTasks(cluster, "chief") + WEFT_ClusterNumTasks(cluster, "worker"), n = 0;
  if (cpus < 1 || cpus > MAX_TASKS) return WEFT_ERROR(INVALID_ARGUMENT, "%d devices per task", cpus);
  if (tasks < 1) return WEFT_ERROR(INVALID_ARGUMENT, "the cluster has no tasks of job worker or chief");
  s->devices = weft_arena_calloc(&s->arena, (size_t)tasks * (size_t)cpus, sizeof *s->devices);
  if (s->devices == NULL) return no_memory();
  s->num_replicas = tasks * cpus;
  s->num_pipelines = tasks;
  WEFT_RETURN_IF_ERROR(add_job(s, s->devices, &n, cluster, "chief", cpus));
  return add_job(s, s->devices, &n, cluster, "worker", cpus);
}

WEFT_Strategy *WEFT_NewMultiWorkerMirroredStrategy(const WEFT_Cluster *cluster, int devices_per_task,
                                                   const WEFT_CommOptions *options, TF_Status *status) {
  WEFT_Strategy *s = NULL;
  weft_status_t *failure = create(WEFT_KIND_REPLICAS, options, &s);
  if (failure == NULL) failure = multi_worker(s, cluster, devices_per_task);
  return finish(s, failure, status);
}

static weft_status_t *parameter_servers(WEFT_Strategy *s, const WEFT_Cluster *cluster,
                                        const char *partitioner) {
  int servers = WEFT_ClusterNumTasks(cluster, "ps"), n = 0;
  if (servers < 1) return WEFT_ERROR(INVALID_ARGUMENT, "the cluster has no tasks of job ps");
  WEFT_RETURN_IF_ERROR(
      weft_partitioner_parse(weft_str(partitioner == NULL ? "" : partitioner), servers, &s->partitioner));
  WEFT_RETURN_IF_ERROR(make_parameter_devices(s, servers));
  WEFT_RETURN_IF_ERROR(add_job(s, s->parameter_devices, &n, cluster, "ps", 1));
  s->devices = weft_arena_calloc(&s->arena, 1, sizeof *s->devices);
  if (s->devices == NULL) return no_memory();
  s->devices[0] = WEFT_STR("");
  s->num_replicas = 1;
  return NULL;
}

WEFT_Strategy *WEFT_NewParameterServerStrategy(const WEFT_Cluster *cluster, const char *partitioner,
                                               TF_Status *status) {
  WEFT_Strategy *s = NULL;
  weft_status_t *failure = create(WEFT_KIND_PARTS, NULL, &s);
  if (failure == NULL) failure = parameter_servers(s, cluster, partitioner);
  return finish(s, failure, status);
}

/* ---- asking ---- */

int WEFT_NumReplicasInSync(const WEFT_Strategy *s) { return s->num_replicas; }

const char *WEFT_ReplicaDevice(const WEFT_Strategy *s, int i) {
  return i < 0 || i >= s->num_replicas ? NULL : s->devices[i].data;
}

WEFT_InputContext WEFT_StrategyInputContext(const WEFT_Strategy *s, int pipeline) {
  return (WEFT_InputContext){.num_input_pipelines = s->num_pipelines,
                             .input_pipeline_id = pipeline,
                             .num_replicas_in_sync = s->num_replicas};
}

int64_t WEFT_InputContextPerReplicaBatch(const WEFT_InputContext *c, int64_t global_batch,
                                         TF_Status *status) {
  weft_status_t *failure = NULL;
  if (c->num_replicas_in_sync < 1 || global_batch < 0) {
    failure = WEFT_ERROR(INVALID_ARGUMENT, "%lld rows for %d replicas", (long long)global_batch,
                         c->num_replicas_in_sync);
  } else if (global_batch % c->num_replicas_in_sync != 0) {
    failure = WEFT_ERROR(INVALID_ARGUMENT, "a batch of %lld rows cannot be split evenly over %d replicas",
                         (long long)global_batch, c->num_replicas_in_sync);
  }
  return weft_client_end(status, failure) ? global_batch / c->num_replicas_in_sync : -1;
}
