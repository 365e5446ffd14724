/* worker/session.c - sessions and registered graphs on a worker. */
#include "worker/session.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "device/device_name.h"
#include "graph/graph_proto.h"
#include "io/debug_dump.h"
#include "resources/session_tensor.h"

static weft_status_t *no_memory(const char *what) { return WEFT_NO_MEMORY("a %s", what); }

static bool copy_text(weft_str_t from, weft_str_t *to) {
  char *copy = weft_strndup(from.length == 0 ? "" : from.data, from.length);
  if (copy == NULL) return false;
  *to = weft_str_of(copy, from.length);
  return true;
}

static void free_text(weft_str_t s) { weft_free((void *)(uintptr_t)s.data); }

weft_registered_graph_t *weft_registered_graph_retain(weft_registered_graph_t *g) {
  atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
  return g;
}

void weft_registered_graph_release(weft_registered_graph_t *g) {
  if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
  weft_client_places_free(atomic_load(&g->places));
  weft_receive_lists_release(g->receives);
  weft_plan_release(g->plan);
  weft_graph_destroy(g->graph);
  free_text(g->handle);
  weft_free(g);
}

weft_status_t *weft_worker_session_create(const weft_worker_session_spec_t *spec,
                                          const weft_devices_t *shared, weft_session_cluster_t *cluster,
                                          weft_worker_session_t **out) {
  weft_worker_session_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) {
    weft_session_cluster_deinit(cluster);
    return no_memory("session");
  }
  s->cluster = *cluster;
  *cluster = (weft_session_cluster_t){NULL, NULL};
  atomic_init(&s->refs, 1);
  weft_mutex_init(&s->mu);
  s->devices = shared;
  s->master_incarnation = spec->master_incarnation;
  weft_status_t *status = NULL;
  if (!copy_text(spec->session, &s->handle) || !copy_text(spec->master_task, &s->master_task)) {
    status = no_memory("session");
  }
  if (status == NULL) status = weft_op_segment_create(&s->segment);
  if (status == NULL && (spec->isolate || s->cluster.cache != NULL)) {
    weft_str_t task =
        s->cluster.task != NULL ? weft_str(s->cluster.task) : weft_device_task_part(shared->all[0]->name);
    status = weft_devices_rename(shared, task, spec->isolate, &s->own_devices);
    s->devices = &s->own_devices;
  }
  if (status != NULL) {
    weft_worker_session_free(s);
    return status;
  }
  *out = s;
  return NULL;
}

weft_worker_session_t *weft_worker_session_retain(weft_worker_session_t *s) {
  if (s != NULL) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

bool weft_worker_session_unref(weft_worker_session_t *s) {
  return atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1;
}

void weft_worker_session_free(weft_worker_session_t *s) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) weft_registered_graph_release(e.value);
  weft_map_deinit(&s->graphs);
  weft_op_segment_release(s->segment);
  if (s->devices->n > 0) weft_session_tensors_clear(s->devices->all[0]->resources, s->handle);
  weft_devices_deinit(&s->own_devices);
  weft_session_cluster_deinit(&s->cluster);
  weft_mutex_deinit(&s->mu);
  if (s->ended != NULL) s->ended(s->ended_arg, s->handle);
  free_text(s->handle);
  free_text(s->master_task);
  weft_free(s);
}

/* A graph that came over the network has its devices where a client's graph has wishes. */
static void take_devices_from_names(weft_graph_t *g, const weft_devices_t *devices) {
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL || n->assigned_device.length > 0 || n->requested_device.length == 0) continue;
    const weft_device_t *d = weft_devices_find(devices, n->requested_device);
    n->assigned_device = d != NULL ? d->name : n->requested_device;
  }
}

/* ---- what the debugger wants to see of a graph with watched values ---- */

enum { MAX_DUMPS = 64 }; /* pairs of devices and folders, of one graph */

typedef struct graph_dumps {
  const weft_graph_t *graph;
  weft_strbuf_t text; /* of the graph; empty: not made yet */
  struct {
    weft_str_t device, url;
  } done[MAX_DUMPS];
  int n;
} graph_dumps_t;

static bool is_dumped(const graph_dumps_t *d, weft_str_t device, weft_str_t url) {
  for (int i = 0; i < d->n; i++) {
    if (weft_str_eq(d->done[i].device, device) && weft_str_eq(d->done[i].url, url)) return true;
  }
  return d->n == MAX_DUMPS;
}

/* A folder that cannot be written is no reason to refuse the graph: dumps of values fail there, too, and say
 * so. */
static weft_status_t *dump_for(graph_dumps_t *d, const weft_node_t *watch) {
  static const char scheme[] = "file://";
  size_t n = sizeof scheme - 1;
  const weft_attr_t *urls = weft_node_attr(watch, "debug_urls");
  for (int i = 0; i < urls->n; i++) {
    weft_str_t url = urls->list.strings[i], device = watch->assigned_device;
    if (url.length < n || memcmp(url.data, scheme, n) != 0 || is_dumped(d, device, url)) continue;
    d->done[d->n].device = device;
    d->done[d->n++].url = url;
    if (d->text.length == 0) WEFT_RETURN_IF_ERROR(weft_graph_export(d->graph, false, &d->text));
    weft_status_free(weft_debug_dump_graph(weft_str_of(url.data + n, url.length - n), device,
                                           weft_str_of(d->text.data, d->text.length)));
  }
  return NULL;
}

static weft_status_t *dump_watched_graph(const weft_graph_t *g) {
  graph_dumps_t d = {.graph = g, .text = WEFT_STRBUF_INIT};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n != NULL && weft_op_attr(n->op, WEFT_STR("debug_urls")) != NULL) s = dump_for(&d, n);
  }
  weft_strbuf_deinit(&d.text);
  return s;
}

/* Is all of a step that ended well gone when its peers have received what it sent? */
static bool is_plain(const weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n == NULL) continue;
    const bool moves = (n->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) != 0;
    if (n->function != NULL || (!moves && (n->flags & (WEFT_OP_COMMUNICATION | WEFT_OP_BLOCKING)) != 0))
      return false;
    if ((n->flags & WEFT_OP_SEND) != 0 && !weft_str_is(n->op->name, "_Send")) return false;
    for (int k = 0; k < n->num_attrs; k++) {
      if (n->attrs[k].value.kind == WEFT_ATTR_FUNC) return false;
    }
  }
  return true;
}

weft_status_t *weft_worker_session_register(weft_worker_session_t *s, weft_graph_t *graph, bool keeps_graph,
                                            weft_str_t *out_handle) {
  weft_registered_graph_t *g = weft_calloc(1, sizeof *g);
  if (g == NULL) {
    weft_graph_destroy(graph);
    return no_memory("graph");
  }
  atomic_init(&g->refs, 1);
  atomic_init(&g->last_run_ns, INT64_MAX);
  g->graph = graph;
  take_devices_from_names(graph, s->devices);
  g->is_plain = is_plain(graph);
  weft_status_t *status = dump_watched_graph(graph);
  weft_plan_options_t options = {.device = s->devices->all[0],
                                 .devices = s->devices->all,
                                 .num_devices = s->devices->n,
                                 .segment = s->segment,
                                 .session = s->handle};
  if (status == NULL) status = weft_plan_create(graph, &options, &g->plan);
  if (status == NULL) {
    const weft_plan_receives_t *receives = weft_plan_receives(g->plan);
    status = weft_receive_lists_create(weft_device_task_part(options.device->name), receives->keys,
                                       receives->n, &g->receives);
  }
  if (!keeps_graph) {
    weft_graph_destroy(graph);
    g->graph = NULL;
  }
  weft_strbuf_t handle = WEFT_STRBUF_INIT;
  char *text = NULL;
  if (status != NULL) goto done;
  weft_mutex_lock(&s->mu);
  uint64_t number = s->next_graph++;
  weft_mutex_unlock(&s->mu);
  weft_strbuf_printf(&handle, "%016" PRIx64, number);
  status = weft_strbuf_finish(&handle, &text, NULL);
  if (status != NULL) goto done;
  g->handle = weft_str(text);
  weft_mutex_lock(&s->mu);
  status = weft_map_put(&s->graphs, g->handle, g, NULL);
  weft_mutex_unlock(&s->mu);
  if (status != NULL) goto done;
  *out_handle = g->handle;
  g = NULL;
done:
  weft_registered_graph_release(g);
  return status;
}

weft_status_t *weft_worker_session_deregister(weft_worker_session_t *s, weft_str_t handle) {
  weft_mutex_lock(&s->mu);
  weft_registered_graph_t *g = weft_map_remove(&s->graphs, handle);
  weft_mutex_unlock(&s->mu);
  if (g == NULL) return WEFT_ERROR(ABORTED, "Graph handle is not found: %.*s", WEFT_STR_ARGS(handle));
  weft_registered_graph_release(g);
  return NULL;
}

weft_status_t *weft_worker_session_find(weft_worker_session_t *s, weft_str_t handle,
                                        weft_registered_graph_t **out) {
  weft_mutex_lock(&s->mu);
  weft_registered_graph_t *g = weft_map_get(&s->graphs, handle);
  if (g != NULL) weft_registered_graph_retain(g);
  weft_mutex_unlock(&s->mu);
  if (g == NULL) return WEFT_ERROR(ABORTED, "Graph handle is not found: %.*s", WEFT_STR_ARGS(handle));
  *out = g;
  return NULL;
}
