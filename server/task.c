/* server/task.c - builds a task bottom up, takes it down in reverse. */
#include "server/task.h"

#include <stdlib.h>

#include "base/clock.h"
#include "kernels/evaluate.h"
#include "server/worker_cache.h"

static const weft_kernel_support_t kernels = {weft_devices_supporting, weft_devices_missing};

/* What sessions do whose configuration says nothing else: WEFT_PASSES, as of `weft submit --passes`. */
static weft_status_t *read_passes(weft_pass_settings_t *out) {
  const char *text = getenv("WEFT_PASSES");
  *out = weft_pass_defaults();
  return text == NULL ? NULL
                      : weft_status_annotate(weft_pass_settings_parse(weft_str(text), out), "WEFT_PASSES");
}

static weft_status_t *build(weft_str_t name, weft_task_options_t o, bool is_direct,
                            weft_server_clusters_t *clusters, weft_task_t *t) {
  weft_cluster_maker_t *maker = clusters == NULL ? NULL : &clusters->base;
  weft_worker_options_t worker = {.task = name,
                                  .num_threads = o.num_threads,
                                  .num_cpus = o.num_cpus,
                                  .accelerators = o.accelerators,
                                  .collective_leader = o.collective_leader,
                                  .collectives_only_rpc = o.collectives_only_rpc,
                                  .cache = t->cache,
                                  .clusters = maker};
  WEFT_RETURN_IF_ERROR(weft_worker_create(&worker, &t->worker));
  if (clusters != NULL) clusters->worker = t->worker;
  weft_worker_cache_set_log(t->cache, weft_worker_transfers(t->worker), weft_worker_counters(t->worker));
  WEFT_RETURN_IF_ERROR(weft_local_worker_client_create(t->worker, &t->worker_client));
  weft_worker_cache_set_local(t->cache, t->worker_client);
  const weft_evaluator_t evaluator = {weft_evaluate_node, weft_worker_device(t->worker)};
  weft_pass_settings_t passes;
  WEFT_RETURN_IF_ERROR(read_passes(&passes));
  weft_master_options_t master = {.task = name,
                                  .cache = t->cache,
                                  .kernels = &kernels,
                                  .evaluator = &evaluator,
                                  .passes = &passes,
                                  .is_direct = is_direct,
                                  .clusters = maker,
                                  .collective_leader = weft_worker_leader(t->worker),
                                  .client_grace_ms = o.client_grace_ms};
  WEFT_RETURN_IF_ERROR(weft_master_create(&master, &t->master));
  return weft_local_master_client_create(t->master, &t->master_client);
}

weft_status_t *weft_task_init(weft_str_t name, weft_task_options_t o, bool is_direct,
                              weft_worker_cache_t *cache, weft_server_clusters_t *clusters,
                              weft_task_t *out) {
  weft_task_t t = {.cache = cache, .made_micros = weft_clock_micros()};
  weft_status_t *s = build(name, o, is_direct, clusters, &t);
  if (s != NULL) {
    weft_task_deinit(&t);
    return s;
  }
  *out = t;
  return NULL;
}

void weft_task_stop(weft_task_t *t) {
  if (t->master != NULL) weft_master_stop(t->master);
  if (t->worker != NULL) weft_worker_stop(t->worker);
}

void weft_task_deinit(weft_task_t *t) {
  weft_task_stop(t);
  weft_master_destroy(t->master);
  weft_master_client_release(t->master_client);
  weft_worker_destroy(t->worker);
  weft_worker_client_release(t->worker_client);
  if (t->cache != NULL) t->cache->destroy(t->cache);
  *t = (weft_task_t){0};
}
