/* jobs/container.c - the attribute `container` of all nodes that have one. */
#include "jobs/container.h"

#include "graph/function.h"
#include "graph/graph_proto.h"
#include "ops/op.h"
#include "protos/wire.h"

weft_status_t *weft_job_container_check(weft_str_t name) {
  bool ok = name.length > 0;
  for (size_t i = 0; i < name.length; i++) {
    char c = name.data[i];
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    ok = ok && (is_plain || (i > 0 && (c == '_' || c == '-' || c == '/')));
  }
  if (ok) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "give letters, digits and dots; behind the first also _ - /");
}

static bool is_inside(weft_str_t container, weft_str_t name) {
  return container.length >= name.length && weft_str_eq(weft_str_of(container.data, name.length), name) &&
         (container.length == name.length || container.data[name.length] == '/');
}

static weft_status_t *set(weft_graph_t *g, weft_node_t *n, weft_str_t name) {
  const weft_attr_t *now = weft_node_attr(n, "container");
  if (now == NULL || now->kind != WEFT_ATTR_STRING || is_inside(now->s, name)) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, name);
  if (now->s.length > 0) weft_strbuf_printf(&text, "/%.*s", WEFT_STR_ARGS(now->s));
  const weft_attr_t value = {.kind = WEFT_ATTR_STRING,
                             .s = weft_str_of(text.data == NULL ? "" : text.data, text.length)};
  weft_status_t *s =
      text.failed ? WEFT_NO_MEMORY("a container's name") : weft_graph_set_attr(g, n, "container", &value);
  weft_strbuf_deinit(&text);
  return s;
}

static bool makes_state(weft_str_t op_name) {
  const weft_op_def_t *op = weft_op_find(op_name);
  for (int i = 0; op != NULL && i < op->num_attrs; i++) {
    if (weft_str_is(op->attrs[i].name, "container")) return true;
  }
  return false;
}

/* FunctionDef {node_def = 3: NodeDef {op = 2}}; the library has read it before. */
static weft_status_t *check_function(const char *option, const weft_function_t *f) {
  weft_wire_reader_t r = weft_wire_reader(f->def);
  weft_wire_field_t node, field;
  while (weft_wire_next(&r, &node)) {
    if (weft_wire_number(&node) != 3 || weft_wire_type(&node) != WEFT_WIRE_BYTES) continue;
    weft_wire_reader_t in = weft_wire_reader(node.bytes);
    while (weft_wire_next(&in, &field)) {
      bool is_op = weft_wire_number(&field) == 2 && weft_wire_type(&field) == WEFT_WIRE_BYTES;
      if (!is_op || !makes_state(field.bytes)) continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%s: function '%.*s' makes state of its own with %.*s; make it outside of functions",
                        option, WEFT_STR_ARGS(f->name), WEFT_STR_ARGS(field.bytes));
    }
  }
  return NULL;
}

weft_status_t *weft_job_container_set(weft_graph_t *g, const char *option, weft_str_t name) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&g->library->by_name, &at, &e);)
    WEFT_RETURN_IF_ERROR(check_function(option, e.value));
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL) WEFT_RETURN_IF_ERROR(set(g, g->nodes[i], name));
  }
  return NULL;
}

weft_status_t *weft_job_container_set_bytes(weft_strbuf_t *graph_def, const char *option, weft_str_t name) {
  weft_graph_t *g = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  const weft_import_options_t import = {.is_client_api = true};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_status_t *s = weft_graph_import(
      g, weft_str_of(graph_def->data == NULL ? "" : graph_def->data, graph_def->length), &import);
  if (s == NULL) s = weft_job_container_set(g, option, name);
  if (s == NULL) s = weft_graph_export(g, false, &out);
  weft_graph_destroy(g);
  if (s != NULL) {
    weft_strbuf_deinit(&out);
    return s;
  }
  weft_strbuf_deinit(graph_def);
  *graph_def = out;
  return NULL;
}
