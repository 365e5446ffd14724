/* worker/partition_graphs.c - a registered graph as its client may see it: one part per device.
 *
 * The devices of a task share its memory, so a worker runs all of its part as
 * one plan and copies nothing between them. TensorFlow partitions by device; a request for the partition
 * graphs of a step is answered with that cut.
 */
#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "graph/partition.h"
#include "worker/worker_impl.h"

static weft_str_t whole_name(weft_str_t device) { return device; }

static uint64_t incarnation(void *arg, weft_str_t name) {
  const weft_device_t *d = weft_devices_find(arg, name);
  return d == NULL ? 0 : d->incarnation;
}

static weft_status_t *export(const weft_graph_t *g, weft_partition_graphs_t *out) {
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_graph_export(g, false, &def);
  weft_str_t kept = s == NULL ? weft_arena_str(&out->arena, weft_str_of(def.data, def.length)) : WEFT_STR("");
  if (s == NULL && (def.failed || kept.data == NULL)) s = WEFT_NO_MEMORY("partition graphs");
  if (s == NULL) out->defs[out->n++] = kept;
  weft_strbuf_deinit(&def);
  return s;
}

weft_status_t *weft_partition_graphs_export(const weft_devices_t *devices, const weft_graph_t *g,
                                            weft_partition_graphs_t *out) {
  weft_partition_t *parts = NULL;
  weft_graph_t *copy = NULL;
  int n = 0;
  int64_t next_edge =
      (int64_t)1 << 31; /* a session numbers the edges of each cut from a multiple of 1 << 32 */
  weft_partition_options_t options = {.locate = whole_name,
                                      .incarnation = incarnation,
                                      .arg = (void *)(uintptr_t)devices,
                                      .next_edge = &next_edge};
  out->defs = weft_arena_calloc(&out->arena, (size_t)devices->n + 1, sizeof *out->defs);
  weft_status_t *s = out->defs == NULL ? WEFT_NO_MEMORY("partition graphs") : NULL;
  if (s == NULL && devices->n == 1) return export(g, out);
  if (s == NULL) s = weft_graph_copy(g, &copy);
  if (s == NULL) s = weft_graph_partition(&copy, &options, &parts, &n);
  for (int i = 0; s == NULL && i < n; i++) s = export(parts[i].graph, out);
  weft_partitions_free(parts, n);
  weft_graph_destroy(copy);
  return s;
}

void weft_partition_graphs_deinit(weft_partition_graphs_t *p) { weft_arena_deinit(&p->arena); }
