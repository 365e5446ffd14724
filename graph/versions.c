/* graph/versions.c - VersionDef: the producer of a graph and the consumers that must not read it. */
#include "graph/versions.h"

#include "protos/wire.h"

#define TENSORFLOW_VERSION "2.19.1"

typedef struct version_def {
  int producer, min_consumer;
  int *bad_consumers; /* in the graph's arena */
  int num_bad_consumers;
} version_def_t;

static weft_status_t *read_bad_consumers(weft_graph_t *g, weft_wire_field_t f, version_def_t *v) {
  weft_wire_values_t values = weft_wire_values(&f, WEFT_WIRE_VARINT);
  size_t n = weft_wire_count_values(&values);
  if (n == 0) return NULL;
  if (n > 4096) return WEFT_ERROR(INVALID_ARGUMENT, "GraphDef.versions lists %zu bad consumers", n);
  int *all = weft_arena_calloc(g->arena, (size_t)v->num_bad_consumers + n, sizeof *all);
  if (all == NULL) return WEFT_NO_MEMORY("reading GraphDef.versions");
  if (v->num_bad_consumers > 0) memcpy(all, v->bad_consumers, (size_t)v->num_bad_consumers * sizeof *all);
  v->bad_consumers = all;
  uint64_t value = 0;
  while (weft_wire_next_value(&values, &value)) all[v->num_bad_consumers++] = weft_wire_i32(value);
  return values.failed || v->num_bad_consumers > 4096
             ? WEFT_ERROR(INVALID_ARGUMENT, "Invalid GraphDef: versions")
             : NULL;
}

static weft_status_t *read(weft_graph_t *g, weft_str_t bytes, version_def_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  version_def_t v = {0};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) v.producer = weft_wire_i32(f.value);
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) v.min_consumer = weft_wire_i32(f.value);
    if (weft_wire_number(&f) == 3) WEFT_RETURN_IF_ERROR(read_bad_consumers(g, f, &v));
  }
  if (r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid GraphDef: versions");
  *out = v;
  return NULL;
}

static weft_status_t *check(const version_def_t *v) {
  if (v->producer < WEFT_GRAPH_DEF_MIN_PRODUCER) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "GraphDef producer version %d below min producer %d supported by TensorFlow " TENSORFLOW_VERSION
        ".  Please regenerate your graph.",
        v->producer, WEFT_GRAPH_DEF_MIN_PRODUCER);
  }
  if (v->min_consumer > WEFT_GRAPH_DEF_VERSION) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "GraphDef min consumer version %d above current version %d for TensorFlow " TENSORFLOW_VERSION
        ".  Please upgrade TensorFlow.",
        v->min_consumer, WEFT_GRAPH_DEF_VERSION);
  }
  for (int i = 0; i < v->num_bad_consumers; i++) {
    if (v->bad_consumers[i] != WEFT_GRAPH_DEF_VERSION) continue;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "GraphDef disallows consumer version %d.  Please upgrade TensorFlow: this version is likely buggy.",
        WEFT_GRAPH_DEF_VERSION);
  }
  return NULL;
}

weft_status_t *weft_versions_import(weft_graph_t *g, weft_str_t bytes, bool is_extend) {
  version_def_t v = {0};
  WEFT_RETURN_IF_ERROR(read(g, bytes, &v));
  WEFT_RETURN_IF_ERROR(check(&v));
  if (is_extend) return NULL; /* an extension of another version is taken, and changes nothing */
  if (g->num_nodes > 0) {     /* two graphs become one: what the stricter of the two allows */
    if (v.producer < g->producer) g->producer = v.producer;
    if (v.min_consumer > g->min_consumer) g->min_consumer = v.min_consumer;
    return NULL;
  }
  g->producer = v.producer;
  g->min_consumer = v.min_consumer;
  g->bad_consumers = v.bad_consumers;
  g->num_bad_consumers = v.num_bad_consumers;
  return NULL;
}

void weft_versions_export(const weft_graph_t *g, weft_strbuf_t *out) {
  if (g->producer == 0 && g->min_consumer == 0 && g->num_bad_consumers == 0) return;
  size_t mark = weft_wire_begin(out, 4);
  weft_wire_put_i64(out, 1, g->producer);
  weft_wire_put_i64(out, 2, g->min_consumer);
  if (g->num_bad_consumers > 0) {
    size_t list = weft_wire_begin(out, 3);
    for (int i = 0; i < g->num_bad_consumers; i++) {
      weft_wire_add_raw_varint(out, (uint64_t)(int64_t)g->bad_consumers[i]);
    }
    weft_wire_end(out, list);
  }
  weft_wire_end(out, mark);
}
