/* coordinator/prune.c - the part of a GraphDef that one worker needs.
 *
 * Works on the wire format: nodes are copied as they came, so nothing of them is lost.
 *   GraphDef { node = 1: NodeDef { name = 1, op = 2, input = 3, ... }, library = 2, versions = 4 }
 */
#include "coordinator/prune.h"

#include "base/alloc.h"
#include "base/hash_map.h"
#include "protos/wire.h"

enum { GRAPH_NODE = 1, NODE_NAME = 1, NODE_INPUT = 3 };

typedef struct prune_item {
  weft_str_t name, bytes; /* views into the graph */
  bool is_needed;
} prune_item_t;
typedef struct prune_work {
  prune_item_t *items; /* owned */
  int n;
  prune_item_t **todo; /* owned; n: each is put there once */
  int num_todo;
  weft_map_t by_name;
} prune_work_t;

static weft_status_t *malformed(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "a closure's graph is no GraphDef");
}

/* "^node", "node:1" and "node" name the node. */
static weft_str_t node_of(weft_str_t tensor) {
  if (tensor.length > 0 && tensor.data[0] == '^') return weft_str_of(tensor.data + 1, tensor.length - 1);
  ptrdiff_t colon = weft_str_find(tensor, ':');
  return colon < 0 ? tensor : weft_str_of(tensor.data, (size_t)colon);
}

static weft_status_t *read_node(weft_str_t bytes, prune_item_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (prune_item_t){.name = {"", 0}, .bytes = bytes};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(NODE_NAME, WEFT_WIRE_BYTES)) out->name = f.bytes;
  }
  return r.failed ? malformed() : NULL;
}

static weft_status_t *read_nodes(weft_str_t from, prune_work_t *w) {
  weft_wire_reader_t r = weft_wire_reader(from);
  weft_wire_field_t f;
  int n = 0;
  while (weft_wire_next(&r, &f)) n += f.tag == WEFT_WIRE_TAG(GRAPH_NODE, WEFT_WIRE_BYTES);
  if (r.failed) return malformed();
  w->items = weft_calloc((size_t)n + 1, sizeof *w->items);
  w->todo = weft_calloc((size_t)n + 1, sizeof *w->todo);
  if (w->items == NULL || w->todo == NULL) return WEFT_NO_MEMORY("a graph of %d nodes", n);
  WEFT_RETURN_IF_ERROR(weft_map_reserve(&w->by_name, (size_t)n));
  r = weft_wire_reader(from);
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(GRAPH_NODE, WEFT_WIRE_BYTES)) continue;
    prune_item_t *item = &w->items[w->n++];
    WEFT_RETURN_IF_ERROR(read_node(f.bytes, item));
    WEFT_RETURN_IF_ERROR(weft_map_put(&w->by_name, item->name, item, NULL));
  }
  return NULL;
}

/* False if there is no such node. */
static bool need(prune_work_t *w, weft_str_t tensor) {
  prune_item_t *item = weft_map_get(&w->by_name, node_of(tensor));
  if (item == NULL) return false;
  if (!item->is_needed) w->todo[w->num_todo++] = item;
  item->is_needed = true;
  return true;
}

static void follow_inputs(prune_work_t *w) {
  while (w->num_todo > 0) {
    weft_wire_reader_t r = weft_wire_reader(w->todo[--w->num_todo]->bytes);
    weft_wire_field_t f;
    while (weft_wire_next(&r, &f)) { /* an input that is no node is the master's to refuse */
      if (f.tag == WEFT_WIRE_TAG(NODE_INPUT, WEFT_WIRE_BYTES)) (void)need(w, f.bytes);
    }
  }
}

static weft_status_t *write_needed(weft_str_t from, const prune_work_t *w, weft_arena_t *arena,
                                   weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_wire_reader_t r = weft_wire_reader(from);
  weft_wire_field_t f;
  int at = 0;
  for (const uint8_t *begin = r.p; weft_wire_next(&r, &f); begin = r.p) {
    bool is_node = f.tag == WEFT_WIRE_TAG(GRAPH_NODE, WEFT_WIRE_BYTES);
    if (is_node && !w->items[at++].is_needed) continue;
    weft_strbuf_append(&text, weft_str_of((const char *)begin, (size_t)(r.p - begin)));
  }
  *out = text.failed ? weft_str_of(NULL, 0) : weft_arena_str(arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return out->data == NULL ? WEFT_NO_MEMORY("a worker's graph") : NULL;
}

weft_status_t *weft_co_prune(weft_str_t from, const weft_str_t *roots, int num_roots, weft_arena_t *arena,
                             weft_str_t *out) {
  prune_work_t w = {.by_name = WEFT_MAP_INIT};
  weft_status_t *s = read_nodes(from, &w);
  for (int i = 0; s == NULL && i < num_roots; i++) {
    if (!need(&w, roots[i]))
      s = WEFT_ERROR(NOT_FOUND, "a closure's graph has no node for '%.*s'", WEFT_STR_ARGS(roots[i]));
  }
  if (s == NULL) {
    follow_inputs(&w);
    s = write_needed(from, &w, arena, out);
  }
  weft_map_deinit(&w.by_name);
  weft_free(w.items);
  weft_free(w.todo);
  return s;
}
