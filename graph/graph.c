/* graph/graph.c - a graph's nodes and names: entering, finding, connecting, removing.
 *
 * Nodes and arrays are never moved or freed one by one: they die with the graph or its store. Only tensors in
 * attributes are counted, once for each node that has them in its list, so code that drops a node or replaces
 * an attribute releases them.
 */
#include "graph/graph.h"

#include "base/alloc.h"
#include "graph/node_build.h"
#include "graph/versions.h"

weft_status_t *weft_graph_create(weft_graph_t **out) {
  weft_graph_t *g = weft_calloc(1, sizeof *g);
  if (g == NULL) return WEFT_NO_MEMORY("creating a graph");
  weft_status_t *s = weft_graph_store_create(&g->store);
  if (s == NULL) s = weft_function_library_create(&g->library);
  if (s != NULL) {
    weft_graph_destroy(g);
    return s;
  }
  g->arena = &g->store->arena;
  g->producer = WEFT_GRAPH_DEF_VERSION;
  *out = g;
  return NULL;
}

void weft_node_drop_attrs(weft_node_t *n) {
  weft_attrs_release_tensors(n->attrs, n->num_attrs);
  n->attrs = NULL;
  n->num_attrs = 0;
}

void weft_graph_destroy(weft_graph_t *g) {
  if (g == NULL) return;
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL) weft_node_drop_attrs(g->nodes[i]);
  }
  weft_function_library_release(g->library);
  weft_node_index_deinit(&g->by_name);
  weft_map_deinit(&g->control_tables);
  weft_map_deinit(&g->strings);
  weft_map_deinit(&g->types);
  weft_map_deinit(&g->shapes);
  weft_map_deinit(&g->suffixes);
  weft_free(g->nodes);
  weft_arena_deinit(&g->records);
  weft_graph_store_release(g->store);
  weft_free(g);
}

static weft_status_t *reserve_ids(weft_graph_t *g, int capacity) {
  weft_node_t **nodes = weft_realloc(g->nodes, (size_t)capacity, sizeof *nodes);
  if (nodes == NULL) return WEFT_NO_MEMORY("a graph of %d nodes", capacity);
  g->nodes = nodes;
  g->capacity = capacity;
  return NULL;
}

static weft_status_t *make_room(weft_graph_t *g) {
  if (g->num_nodes < g->capacity) return NULL;
  if (g->num_nodes >= WEFT_MAX_NODES) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a graph of more than %d nodes", WEFT_MAX_NODES);
  }
  return reserve_ids(g, g->capacity < 64 ? 64 : g->capacity + g->capacity / 2);
}

weft_status_t *weft_graph_reserve(weft_graph_t *g, int num_nodes) {
  if (num_nodes > WEFT_MAX_NODES - g->num_nodes) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a graph of more than %d nodes", WEFT_MAX_NODES);
  }
  int needed = g->num_nodes + num_nodes;
  if (needed > g->capacity) WEFT_RETURN_IF_ERROR(reserve_ids(g, needed));
  return weft_node_index_reserve(&g->by_name, g->nodes, g->num_nodes,
                                 (size_t)g->num_live + (size_t)num_nodes);
}

weft_status_t *weft_graph_enter(weft_graph_t *g, weft_str_t name, weft_node_t **out) {
  if (weft_graph_find(g, name) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate node name in graph: '%.*s'", WEFT_STR_ARGS(name));
  }
  WEFT_RETURN_IF_ERROR(make_room(g));
  weft_node_t *n = weft_arena_calloc(&g->records, 1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("node '%.*s'", WEFT_STR_ARGS(name));
  n->id = g->num_nodes;
  n->name = name;
  WEFT_RETURN_IF_ERROR(weft_node_index_add(&g->by_name, g->nodes, g->num_nodes, n));
  g->nodes[g->num_nodes++] = n;
  g->num_live++;
  *out = n;
  return NULL;
}

weft_node_t *weft_graph_find(const weft_graph_t *g, weft_str_t name) {
  return weft_node_index_find(&g->by_name, g->nodes, name);
}

weft_str_t weft_graph_intern(weft_graph_t *g, weft_str_t text) {
  weft_str_t *known = weft_map_get(&g->strings, text);
  if (known != NULL) return *known;
  weft_str_t *fresh = weft_arena_alloc(g->arena, sizeof *fresh);
  if (fresh == NULL) return (weft_str_t){NULL, 0};
  *fresh = weft_arena_str(g->arena, text);
  weft_status_t *s = fresh->data == NULL ? NULL : weft_map_put(&g->strings, *fresh, fresh, NULL);
  if (s != NULL || fresh->data == NULL) {
    weft_status_free(s); /* the caller sees it as NULL */
    return (weft_str_t){NULL, 0};
  }
  return *fresh;
}

/* The bytes at `data`, or equal ones that were interned before. */
static const void *intern_bytes(weft_graph_t *g, weft_map_t *map, const void *data, size_t size) {
  weft_str_t key = weft_str_of(data, size);
  void *known = weft_map_get(map, key);
  if (known != NULL) return known;
  void *fresh = weft_arena_alloc(g->arena, size);
  if (fresh == NULL) return NULL;
  memcpy(fresh, data, size);
  weft_status_t *s = weft_map_put(map, weft_str_of(fresh, size), fresh, NULL);
  if (s == NULL) return fresh;
  weft_status_free(s); /* the caller sees it as NULL */
  return NULL;
}

const int *weft_graph_intern_types(weft_graph_t *g, const int *types, int n) {
  static const int none[1] = {0};
  if (n == 0) return none;
  return intern_bytes(g, &g->types, types, (size_t)n * sizeof *types);
}

const weft_shape_t *weft_graph_intern_shape(weft_graph_t *g, const weft_shape_t *shape) {
  weft_shape_t clean;
  memset(&clean, 0, sizeof clean); /* padding, too: equal shapes must be equal bytes */
  clean.rank = shape->rank;
  for (int i = 0; i < shape->rank; i++) clean.dims[i] = shape->dims[i];
  return intern_bytes(g, &g->shapes, &clean, sizeof clean);
}

/* Where the last number used for a base is kept, so that a thousand equal names cost a thousand look-ups. */
static int64_t *last_suffix(weft_graph_t *g, weft_str_t base) {
  int64_t *last = weft_map_get(&g->suffixes, base);
  if (last != NULL) return last;
  weft_str_t key = weft_arena_str(g->arena, base);
  last = key.data == NULL ? NULL : weft_arena_calloc(g->arena, 1, sizeof *last);
  weft_status_t *s = last == NULL ? NULL : weft_map_put(&g->suffixes, key, last, NULL);
  if (s == NULL) return last;
  weft_status_free(s); /* the caller sees it as NULL */
  return NULL;
}

weft_str_t weft_graph_unique_name(weft_graph_t *g, weft_str_t base) {
  if (weft_graph_find(g, base) == NULL) return weft_arena_str(g->arena, base);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_str_t name = {NULL, 0};
  int64_t *last = last_suffix(g, base);
  while (last != NULL && name.data == NULL) {
    text.length = 0;
    weft_strbuf_append(&text, base);
    weft_strbuf_printf(&text, "_%lld", (long long)++*last);
    if (text.failed) break;
    if (weft_graph_find(g, weft_str_of(text.data, text.length)) != NULL) continue;
    name = weft_arena_str(g->arena, weft_str_of(text.data, text.length));
    if (name.data == NULL) break;
  }
  weft_strbuf_deinit(&text);
  return name;
}

void weft_graph_set_input(weft_node_t *n, int input, weft_output_t from) { n->inputs[input] = from; }

/* Lists are shared, so the node gets another one. */
weft_status_t *weft_graph_set_attr(weft_graph_t *g, weft_node_t *n, const char *name,
                                   const weft_attr_t *value) {
  weft_str_t key = weft_str(name);
  int at = 0;
  while (at < n->num_attrs && weft_str_compare(n->attrs[at].name, key) < 0) at++;
  const bool is_there = at < n->num_attrs && weft_str_eq(n->attrs[at].name, key);
  const int num_attrs = n->num_attrs + !is_there, behind = n->num_attrs - at - is_there;
  weft_attr_t copy;
  WEFT_RETURN_IF_ERROR(weft_attr_copy(g->arena, value, &copy));
  weft_named_attr_t *attrs = weft_arena_alloc(g->arena, (size_t)num_attrs * sizeof *attrs);
  if (attrs != NULL) key = is_there ? n->attrs[at].name : weft_graph_intern(g, key);
  if (attrs == NULL || key.data == NULL) {
    weft_attr_release_tensors(&copy);
    return WEFT_NO_MEMORY("setting '%s' of '%s'", name, n->name.data);
  }
  if (at > 0) memcpy(attrs, n->attrs, (size_t)at * sizeof *attrs);
  attrs[at] = (weft_named_attr_t){key, copy};
  if (behind > 0) memcpy(attrs + at + 1, n->attrs + at + is_there, (size_t)behind * sizeof *attrs);
  if (is_there) weft_attrs_release_tensors(&n->attrs[at], 1);
  n->attrs = attrs;
  n->num_attrs = num_attrs;
  return NULL;
}

weft_status_t *weft_graph_clear_attr(weft_graph_t *g, weft_node_t *n, const char *name) {
  int i = 0;
  while (i < n->num_attrs && !weft_str_is(n->attrs[i].name, name)) i++;
  if (i == n->num_attrs) return NULL;
  const size_t before = (size_t)i, behind = (size_t)(n->num_attrs - i - 1);
  weft_named_attr_t *attrs = weft_arena_alloc(g->arena, (before + behind) * sizeof *attrs);
  if (attrs == NULL) return WEFT_NO_MEMORY("attributes of '%s'", n->name.data);
  if (before > 0) memcpy(attrs, n->attrs, before * sizeof *attrs);
  if (behind > 0) memcpy(attrs + i, n->attrs + i + 1, behind * sizeof *attrs);
  weft_attrs_release_tensors(&n->attrs[i], 1);
  n->attrs = attrs;
  n->num_attrs--;
  return NULL;
}

weft_status_t *weft_graph_rename(weft_graph_t *g, weft_node_t *n, weft_str_t name) {
  WEFT_RETURN_IF_ERROR(weft_node_index_reserve(&g->by_name, g->nodes, g->num_nodes, (size_t)g->num_live + 1));
  weft_node_index_remove(&g->by_name, g->nodes, n->id);
  n->name = name;
  return weft_node_index_add(&g->by_name, g->nodes, g->num_nodes, n);
}

void weft_graph_remove(weft_graph_t *g, weft_node_t *n) {
  weft_node_index_remove(&g->by_name, g->nodes, n->id);
  g->nodes[n->id] = NULL;
  g->num_live--;
  weft_node_drop_attrs(n);
}
