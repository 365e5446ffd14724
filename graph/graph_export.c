/* graph/graph_export.c - GraphDef out. */
#include <stdlib.h>

#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/function.h"
#include "graph/versions.h"
#include "protos/wire.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("exporting a graph"); }

static void write_input(weft_output_t from, weft_strbuf_t *out) {
  if (from.index == 0) {
    weft_wire_add_bytes(out, 3, from.node->name);
    return;
  }
  size_t mark = weft_wire_begin(out, 3);
  weft_strbuf_append(out, from.node->name);
  weft_strbuf_printf(out, ":%d", from.index);
  weft_wire_end(out, mark);
}

static void write_control(const weft_node_t *from, weft_strbuf_t *out) {
  weft_wire_add_header(out, 3, from->name.length + 1);
  weft_strbuf_putc(out, '^');
  weft_strbuf_append(out, from->name);
}

static bool is_default(const weft_node_t *n, const weft_named_attr_t *a) {
  const weft_attr_def_t *def = weft_op_attr(n->op, a->name);
  return def != NULL && def->has_default && weft_attr_eq(&def->default_value, &a->value);
}

static weft_status_t *write_node(const weft_node_t *n, bool strip_defaults, weft_strbuf_t *out) {
  weft_wire_put_bytes(out, 1, n->name);
  weft_wire_put_bytes(out, 2, n->op->name);
  for (int i = 0; i < n->num_inputs; i++) write_input(n->inputs[i], out);
  for (int i = 0; i < n->num_controls; i++) write_control(n->controls[i], out);
  weft_wire_put_bytes(out, 4, n->assigned_device.length > 0 ? n->assigned_device : n->requested_device);
  for (int i = 0; i < n->num_attrs; i++) {
    if (strip_defaults && is_default(n, &n->attrs[i])) continue;
    WEFT_RETURN_IF_ERROR(weft_attr_map_to_proto(5, n->attrs[i].name, &n->attrs[i].value, out));
  }
  return NULL;
}

weft_status_t *weft_node_export(const weft_node_t *n, weft_strbuf_t *out) {
  WEFT_RETURN_IF_ERROR(write_node(n, false, out));
  return out->failed ? no_memory() : NULL;
}

/* ---- the library ---- */

static int compare_entries(const void *a, const void *b) {
  const weft_map_entry_t *x = a, *y = b;
  return weft_str_compare(x->key, y->key);
}

/* A map's entries by name, so that equal graphs give equal bytes. Free with weft_free. */
static weft_map_entry_t *sorted_entries(const weft_map_t *m) {
  weft_map_entry_t *all = weft_calloc(m->count + 1, sizeof *all);
  if (all == NULL) return NULL;
  size_t n = 0;
  for (size_t at = 0; n < m->count && weft_map_next(m, &at, &all[n]);) n++;
  qsort(all, n, sizeof *all, compare_entries);
  return all;
}

static weft_status_t *write_locked(const weft_function_library_t *l, weft_strbuf_t *out) {
  if (l->by_name.count + l->gradients.count == 0) return NULL;
  weft_map_entry_t *functions = sorted_entries(&l->by_name), *gradients = sorted_entries(&l->gradients);
  weft_status_t *s = functions == NULL || gradients == NULL ? no_memory() : NULL;
  if (s == NULL) {
    size_t mark = weft_wire_begin(out, 2);
    for (size_t i = 0; i < l->by_name.count; i++) {
      weft_wire_add_bytes(out, 1, ((const weft_function_t *)functions[i].value)->def);
    }
    for (size_t i = 0; i < l->gradients.count; i++) {
      weft_wire_add_bytes(out, 2, *(const weft_str_t *)gradients[i].value);
    }
    weft_wire_end(out, mark);
  }
  weft_free(functions);
  weft_free(gradients);
  return s;
}

static weft_status_t *write_library(weft_function_library_t *l, weft_strbuf_t *out) {
  weft_mutex_lock(&l->mu); /* the library may be growing */
  weft_status_t *s = write_locked(l, out);
  weft_mutex_unlock(&l->mu);
  return s;
}

weft_status_t *weft_graph_export(const weft_graph_t *g, bool strip_defaults, weft_strbuf_t *out) {
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] == NULL) continue;
    size_t mark = weft_wire_begin(out, 1);
    weft_status_t *s = write_node(g->nodes[id], strip_defaults, out);
    weft_wire_end(out, mark);
    if (s != NULL) return s;
  }
  WEFT_RETURN_IF_ERROR(write_library(g->library, out));
  weft_versions_export(g, out);
  return out->failed ? no_memory() : NULL;
}
