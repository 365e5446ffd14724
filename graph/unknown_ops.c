/* graph/unknown_ops.c - one failure that names every op that is not known.
 *
 * Functions are looked into without instantiating them: names of ops and of
 * functions in attributes are all that is read of their nodes.
 */
#include "graph/unknown_ops.h"

#include <unistd.h>

#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/function.h"
#include "protos/wire.h"

void weft_unknown_ops_deinit(weft_unknown_ops_t *u) {
  weft_map_deinit(&u->seen);
  weft_arena_deinit(&u->arena);
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("listing unknown ops"); }

static weft_status_t *add(weft_unknown_ops_t *u, weft_str_t op, weft_str_t node, weft_str_t function) {
  if (weft_map_get(&u->seen, op) != NULL) return NULL;
  weft_str_t kept = weft_arena_str(&u->arena, op);
  if (kept.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_map_put(&u->seen, kept, u, NULL));
  weft_name_list_add(&u->names, "'%.*s'", WEFT_STR_ARGS(op));
  weft_name_list_add(&u->places, "{{node %.*s}}%s%.*s (%.*s)", WEFT_STR_ARGS(node),
                     function.length > 0 ? " of function " : "", WEFT_STR_ARGS(function), WEFT_STR_ARGS(op));
  return NULL;
}

weft_status_t *weft_unknown_ops_add(weft_unknown_ops_t *u, weft_str_t op, weft_str_t node) {
  return add(u, op, node, WEFT_STR(""));
}

/* ---- functions ---- */

/* Functions that were reached: in the order found; those from `next` on are not yet looked into. */
typedef struct reach {
  const weft_function_library_t *library;
  weft_map_t seen;
  weft_function_t **found; /* owned */
  size_t num_found, capacity, next;
} reach_t;

static weft_status_t *reach(reach_t *r, weft_str_t name) {
  weft_function_t *f = weft_function_find(r->library, name);
  if (f == NULL || weft_map_get(&r->seen, f->name) != NULL) return NULL;
  if (r->num_found == r->capacity) {
    size_t capacity = r->capacity == 0 ? 16 : r->capacity * 2;
    weft_function_t **found = weft_realloc(r->found, capacity, sizeof(*found));
    if (found == NULL) return no_memory();
    r->found = found;
    r->capacity = capacity;
  }
  r->found[r->num_found++] = f;
  return weft_map_put(&r->seen, f->name, f, NULL);
}

static weft_status_t *reach_attr(reach_t *r, const weft_attr_t *a) {
  if (a->kind != WEFT_ATTR_FUNC) return NULL;
  for (int i = 0; i < (a->is_list ? a->n : 1); i++) {
    WEFT_RETURN_IF_ERROR(reach(r, a->is_list ? a->list.funcs[i]->name : a->func->name));
  }
  return NULL;
}

/* The names of functions in a serialized AttrValue; anything malformed is found when the body is
 * instantiated. */
static weft_status_t *reach_value(reach_t *r, weft_str_t value, bool is_list) {
  weft_wire_reader_t reader = weft_wire_reader(value);
  weft_wire_field_t f;
  while (weft_wire_next(&reader, &f)) {
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES) continue;
    if (!is_list && weft_wire_number(&f) == 1) WEFT_RETURN_IF_ERROR(reach_value(r, f.bytes, true));
    if (weft_wire_number(&f) != (is_list ? 9u : 10u)) continue;
    weft_wire_reader_t call = weft_wire_reader(f.bytes);
    weft_wire_field_t field;
    while (weft_wire_next(&call, &field)) {
      if (field.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(reach(r, field.bytes));
    }
  }
  return NULL;
}

static weft_status_t *look_into_node(weft_unknown_ops_t *u, reach_t *r, const weft_function_t *in,
                                     weft_str_t def) {
  weft_wire_reader_t reader = weft_wire_reader(def);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR(""), op = WEFT_STR(""), key, value;
  while (weft_wire_next(&reader, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) op = f.bytes;
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES) || !weft_map_entry_read(f.bytes, &key, &value)) continue;
    WEFT_RETURN_IF_ERROR(reach_value(r, value, false));
  }
  if (weft_function_find(r->library, op) != NULL) return reach(r, op);
  return weft_op_find(op) != NULL ? NULL : add(u, op, name, in->name);
}

static weft_status_t *look_into_function(weft_unknown_ops_t *u, reach_t *r, const weft_function_t *function) {
  weft_wire_reader_t reader = weft_wire_reader(function->def);
  weft_wire_field_t f;
  while (weft_wire_next(&reader, &f)) {
    if (f.tag != WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) continue;
    WEFT_RETURN_IF_ERROR(look_into_node(u, r, function, f.bytes));
  }
  return NULL;
}

weft_status_t *weft_unknown_ops_search_functions(weft_unknown_ops_t *u, const weft_graph_t *g, int first_id) {
  if (g->library->by_name.count == 0) return NULL;
  reach_t r = {.library = g->library};
  weft_status_t *s = NULL;
  for (int id = first_id; id < g->num_nodes && s == NULL; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL || (n->flags & WEFT_OP_FUNCTIONAL) == 0) continue;
    if (n->function != NULL) s = reach(&r, n->function->name);
    for (int i = 0; i < n->num_attrs && s == NULL; i++) s = reach_attr(&r, &n->attrs[i].value);
  }
  while (s == NULL && r.next < r.num_found) s = look_into_function(u, &r, r.found[r.next++]);
  weft_map_deinit(&r.seen);
  weft_free(r.found);
  return s;
}

/* ---- the failure ---- */

weft_status_t *weft_unknown_ops_error(weft_unknown_ops_t *u) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return WEFT_ERROR(
      NOT_FOUND,
      "Op type not registered %s in binary running on %s. Make sure the Op and Kernel are registered in the "
      "binary running in this process. Note that if you are loading a saved graph which used ops from "
      "tf.contrib (e.g. `tf.contrib.resampler`), accessing should be done before importing the graph, as "
      "contrib ops are lazily registered when the module is first accessed. Used by: %s",
      weft_name_list_text(&u->names), host, weft_name_list_text(&u->places));
}
