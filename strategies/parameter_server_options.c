/* strategies/parameter_server_options.c - the options, and the devices that they select. */
#include "device/device_name.h"
#include "strategies/options.h"
#include "strategies/parameter_server.h"
#include "strategies/replicas.h"

#define PS_OPTIONS(OPTION)                                                                                   \
  OPTION(ps, COUNT, "N", "0", "how many servers; 0: all tasks of job ps, or one")                            \
  OPTION(workers, COUNT, "N", "0", "how many workers; 0: all there are, or two in one task")                 \
  OPTION(mode, CHOICE, "async|sync|ssp", "async", "when gradients are applied")                              \
  OPTION(staleness, COUNT, "N", "1", "of ssp: by how many steps a worker may be ahead of the slowest")       \
  OPTION(backup, COUNT, "N", "0", "of sync: how many of the workers' gradients a step does without")         \
  OPTION(placement, CHOICE, "round_robin|bytes", "round_robin", "how variables are assigned to servers")     \
  OPTION(shards, TEXT, "fixed:N|min_size:BYTES[:N]|max_size:BYTES[:N]", "",                                  \
         "how large variables are sharded by rows")                                                          \
  OPTION(caching, BOOL, "BOOL", "false", "a worker reads each variable once per step")                       \
  OPTION(split, BOOL, "BOOL", "true",                                                                        \
         "of sync: workers share each batch, instead of taking batches of their own")                        \
  WEFT_BATCH_OPTION(OPTION)                                                                                  \
  WEFT_INPUT_OPTION(OPTION)                                                                                  \
  OPTION(batch_norm, CHOICE, "global|replica", "global",                                                     \
         "of sync: fused batch normalisation: statistics of the batch, or of a worker's rows")               \
  OPTION(algorithm, CHOICE, "auto|ring|tree|halving_doubling|hierarchical|direct", "auto",                   \
         "of sync: how sums within a step move data")                                                        \
  OPTION(timeout, NUMBER, "SECONDS", "0",                                                                    \
         "of sync: how long such a sum may take (0); of ssp: how long a worker waits for the slowest (60). " \
         "0: for ever")

enum { PS_OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {PS_OPTIONS(WEFT_OPTION_DEF)};
extern const char weft_ps_usage[];
const char weft_ps_usage[] =
    "parameter_server[:ps=N,mode=async|sync|ssp,...]\n" PS_OPTIONS(WEFT_OPTION_USAGE);

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("naming devices of parameter servers"); }

static weft_status_t *only_with(const weft_option_value_t *values, int option, weft_ps_mode_t mode,
                                const char *name) {
  if (!values[option].is_given || values[OPTION_mode].i == (int64_t)mode) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: option '%s' requires mode=%s", defs[option].name,
                    name);
}

weft_status_t *weft_ps_options_parse(weft_str_t text, int num_ps_tasks, weft_arena_t *arena,
                                     weft_ps_options_t *out) {
  enum { CLOCK_TIMEOUT_S = 60 };
  static const int of_sync[] = {OPTION_backup, OPTION_split,      OPTION_batch,
                                OPTION_input,  OPTION_batch_norm, OPTION_algorithm};
  static const int of_replicas[] = {OPTION_batch, OPTION_input, OPTION_batch_norm, OPTION_algorithm,
                                    OPTION_timeout};
  weft_option_value_t values[NUM_OPTIONS];
  WEFT_RETURN_IF_ERROR(weft_options_parse("parameter_server", defs, NUM_OPTIONS, text, values));
  WEFT_RETURN_IF_ERROR(only_with(values, OPTION_staleness, WEFT_PS_SSP, "ssp"));
  for (size_t i = 0; i < sizeof of_sync / sizeof of_sync[0]; i++)
    WEFT_RETURN_IF_ERROR(only_with(values, of_sync[i], WEFT_PS_SYNC, "sync"));
  bool has_clocks = values[OPTION_mode].i == WEFT_PS_SSP;
  if (!has_clocks) WEFT_RETURN_IF_ERROR(only_with(values, OPTION_timeout, WEFT_PS_SYNC, "sync or ssp"));
  *out = (weft_ps_options_t){.mode = (weft_ps_mode_t)values[OPTION_mode].i,
                             .placement = (weft_placement_t)values[OPTION_placement].i,
                             .servers = (int)values[OPTION_ps].i,
                             .workers = (int)values[OPTION_workers].i,
                             .staleness = (int)values[OPTION_staleness].i,
                             .backup = (int)values[OPTION_backup].i,
                             .caches = values[OPTION_caching].i != 0,
                             .splits = values[OPTION_split].i != 0,
                             .input = (weft_input_policy_t)values[OPTION_input].i,
                             .local_batch_norm = values[OPTION_batch_norm].i == 1,
                             .algorithm = values[OPTION_algorithm].text,
                             .timeout_seconds = values[OPTION_timeout].number};
  if (has_clocks && !values[OPTION_timeout].is_given) out->timeout_seconds = CLOCK_TIMEOUT_S;
  if (out->timeout_seconds < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: option 'timeout' cannot be below 0");
  if (out->backup > 0) out->splits = false; /* rows of a gradient that is dropped would be lost */
  if (out->backup > 0 && values[OPTION_split].is_given && values[OPTION_split].i != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "parameter_server: workers cannot share batches with backup=%d: rows would be lost",
                      out->backup);
  }
  for (size_t i = 0; i < sizeof of_replicas / sizeof of_replicas[0] && !out->splits; i++) {
    if (!values[of_replicas[i]].is_given) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "parameter_server: option '%s' requires workers that share each batch",
                      defs[of_replicas[i]].name);
  }
  WEFT_RETURN_IF_ERROR(weft_replicas_batch_option(&values[OPTION_batch], arena, &out->batch));
  int servers = out->servers > 0 ? out->servers : num_ps_tasks;
  weft_status_t *s = weft_partitioner_parse(values[OPTION_shards].text, servers, &out->partitioner);
  return weft_status_annotate(s, "parameter_server: option 'shards'");
}

/* ---- places ---- */

enum { MAX_DEVICES = 1 << 12 };

static weft_status_t *add_place(weft_arena_t *arena, weft_str_t task, int cpu, weft_str_t *device,
                                weft_str_t *of) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, task);
  weft_strbuf_printf(&b, "/device:" WEFT_HOST_DEVICE_TYPE ":%d", cpu);
  if (!b.failed) *device = weft_arena_str(arena, weft_str_of(b.data, b.length));
  *of = weft_arena_str(arena, task);
  bool failed = b.failed || device->data == NULL || of->data == NULL;
  weft_strbuf_deinit(&b);
  return failed ? no_memory() : NULL;
}

static weft_status_t *make_room(weft_arena_t *arena, weft_ps_places_t *p) {
  p->servers = weft_arena_calloc(arena, (size_t)p->num_servers, sizeof *p->servers);
  p->server_tasks = weft_arena_calloc(arena, (size_t)p->num_servers, sizeof *p->server_tasks);
  p->workers = weft_arena_calloc(arena, (size_t)p->num_workers, sizeof *p->workers);
  p->worker_tasks = weft_arena_calloc(arena, (size_t)p->num_workers, sizeof *p->worker_tasks);
  bool ok = p->servers != NULL && p->server_tasks != NULL && p->workers != NULL && p->worker_tasks != NULL;
  return ok ? NULL : no_memory();
}

/* One task: servers on its first devices, workers on the next ones. */
static weft_status_t *within_a_task(const weft_cluster_view_t *c, const weft_ps_options_t *o,
                                    weft_arena_t *arena, weft_ps_places_t *p) {
  weft_str_t task = c->num_tasks > 0 ? c->tasks[0].task : WEFT_STR("/job:localhost/replica:0/task:0");
  p->num_servers = o->servers > 0 ? o->servers : 1;
  p->num_workers = o->workers > 0 ? o->workers : 2;
  if (p->num_servers > MAX_DEVICES || p->num_workers > MAX_DEVICES) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "parameter_server: %d servers and %d workers are too many for one task", p->num_servers,
                      p->num_workers);
  }
  p->num_local_cpus = p->num_servers + p->num_workers;
  WEFT_RETURN_IF_ERROR(make_room(arena, p));
  for (int i = 0; i < p->num_servers; i++) {
    WEFT_RETURN_IF_ERROR(add_place(arena, task, i, &p->servers[i], &p->server_tasks[i]));
  }
  for (int i = 0; i < p->num_workers; i++) {
    WEFT_RETURN_IF_ERROR(add_place(arena, task, p->num_servers + i, &p->workers[i], &p->worker_tasks[i]));
  }
  return NULL;
}

static bool works(const weft_task_devices_t *t) {
  return weft_str_is(t->job, "worker") || weft_str_is(t->job, "chief") || weft_str_is(t->job, "master");
}

static int count_tasks(const weft_cluster_view_t *c, bool serving) {
  int n = 0;
  for (int i = 0; i < c->num_tasks; i++)
    n += serving ? weft_str_is(c->tasks[i].job, "ps") : works(&c->tasks[i]);
  return n;
}

static weft_status_t *too_many(const char *what, int wanted, int there_are, const char *job) {
  return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: %s=%d, but the cluster has %d task%s of job %s",
                    what, wanted, there_are, there_are == 1 ? "" : "s", job);
}

/* Tasks of job ps serve. Without such a job the first workers serve, too. A chief works first. */
static weft_status_t *over_tasks(const weft_cluster_view_t *c, const weft_ps_options_t *o,
                                 weft_arena_t *arena, weft_ps_places_t *p) {
  int num_ps = count_tasks(c, true), num_work = count_tasks(c, false), servers = 0, workers = 0;
  if (num_work == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: the cluster has no task of job worker");
  p->num_servers = o->servers > 0 ? o->servers : num_ps > 0 ? num_ps : 1;
  p->num_workers = o->workers > 0 ? o->workers : num_work;
  if (p->num_servers > (num_ps > 0 ? num_ps : num_work)) {
    return too_many("ps", p->num_servers, num_ps > 0 ? num_ps : num_work, num_ps > 0 ? "ps" : "worker");
  }
  if (p->num_workers > num_work) return too_many("workers", p->num_workers, num_work, "worker");
  WEFT_RETURN_IF_ERROR(make_room(arena, p));
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < c->num_tasks; i++) {
      const weft_task_devices_t *t = &c->tasks[i];
      bool serves = num_ps > 0 ? weft_str_is(t->job, "ps") : works(t), leads = !weft_str_is(t->job, "worker");
      if (pass == 0 && serves && servers < p->num_servers) {
        WEFT_RETURN_IF_ERROR(add_place(arena, t->task, 0, &p->servers[servers], &p->server_tasks[servers]));
        servers++;
      }
      if (!works(t) || leads != (pass == 0) || workers >= p->num_workers) continue;
      WEFT_RETURN_IF_ERROR(add_place(arena, t->task, 0, &p->workers[workers], &p->worker_tasks[workers]));
      workers++;
    }
  }
  return NULL;
}

weft_status_t *weft_ps_find_places(const weft_cluster_view_t *cluster, const weft_ps_options_t *o,
                                   weft_arena_t *arena, weft_ps_places_t *out) {
  *out = (weft_ps_places_t){0};
  return cluster->num_tasks <= 1 ? within_a_task(cluster, o, arena, out) : over_tasks(cluster, o, arena, out);
}
