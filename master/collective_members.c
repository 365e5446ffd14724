/* master/collective_members.c - counts the members of each instance. */
#include "master/collective_members.h"

#include <inttypes.h>
#include <stdio.h>

#include "graph/collective_node.h"

typedef struct instance {
  const weft_node_t *node; /* one of its members */
  weft_collective_keys_t keys;
  int members;
} instance_t;

static weft_status_t *count(const weft_node_t *n, weft_arena_t *arena, weft_map_t *instances) {
  instance_t found = {.node = n};
  const weft_attr_t *timeout = weft_node_attr(n, "timeout_seconds");
  if (timeout != NULL && timeout->f > 0) return NULL;
  if (!weft_node_collective_keys(n, &found.keys)) return NULL;
  char key[64];
  snprintf(key, sizeof key, "%" PRId64 "/%" PRId64, found.keys.group_key, found.keys.instance_key);
  instance_t *known = weft_map_get(instances, weft_str(key));
  if (known == NULL) {
    known = weft_arena_calloc(arena, 1, sizeof *known);
    weft_str_t own = weft_arena_str(arena, weft_str(key));
    if (known == NULL || own.data == NULL) return WEFT_NO_MEMORY("counting members of collectives");
    *known = found;
    WEFT_RETURN_IF_ERROR(weft_map_put(instances, own, known, NULL));
  }
  known->members++;
  return NULL;
}

static weft_str_t describe(const instance_t *x, weft_arena_t *arena) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text,
                     "Collective %.*s {{node %.*s}} has %" PRId64 " members (group_key %" PRId64
                     ", instance_key %" PRId64
                     "), but only %d of them %s part of this step: it would wait for ever. Run all of them "
                     "in one step, or give all clients' "
                     "steps the same collective_graph_key in RunOptions",
                     WEFT_STR_ARGS(x->node->op->name), WEFT_STR_ARGS(x->node->name), x->keys.group_size,
                     x->keys.group_key, x->keys.instance_key, x->members, x->members == 1 ? "is" : "are");
  weft_str_t own =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return own;
}

weft_status_t *weft_collective_members_check(const weft_graph_t *g, weft_arena_t *arena, weft_str_t *out) {
  weft_map_t instances = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  *out = (weft_str_t){NULL, 0};
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n != NULL) s = count(n, arena, &instances);
  }
  weft_map_entry_t e;
  for (size_t at = 0; s == NULL && out->data == NULL && weft_map_next(&instances, &at, &e);) {
    const instance_t *x = e.value;
    if (x->members < x->keys.group_size) *out = describe(x, arena);
  }
  weft_map_deinit(&instances);
  return s;
}
