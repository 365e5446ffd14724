/* master/collective_members.c - counts the members of each instance; the key of their graph. */
#include "master/collective_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "graph/collective_node.h"

typedef struct instance {
  const weft_node_t *node; /* one of its members */
  weft_collective_keys_t keys;
  bool is_timed;
  int members;
} instance_t;

typedef struct members_census {
  weft_arena_t *arena;
  weft_map_t instances; /* "group/instance" -> instance_t, in the arena */
  int64_t *stated;      /* instance keys that are attributes: the ops' first form */
  int num_stated;
  bool has_computed; /* those of a node are no constants */
} members_census_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("counting members of collectives"); }

static weft_status_t *count(members_census_t *c, const weft_node_t *n) {
  if (!weft_node_is_collective(n)) return NULL;
  const weft_attr_t *stated = weft_node_attr(n, "instance_key");
  if (stated != NULL) c->stated[c->num_stated++] = stated->i;
  const weft_attr_t *timeout = weft_node_attr(n, "timeout_seconds");
  instance_t found = {.node = n, .is_timed = timeout != NULL && timeout->f > 0};
  if (!weft_node_collective_keys(n, &found.keys)) {
    c->has_computed = true;
    return NULL;
  }
  char key[64];
  snprintf(key, sizeof key, "%" PRId64 "/%" PRId64, found.keys.group_key, found.keys.instance_key);
  instance_t *known = weft_map_get(&c->instances, weft_str(key));
  if (known == NULL) {
    known = weft_arena_calloc(c->arena, 1, sizeof *known);
    weft_str_t own = weft_arena_str(c->arena, weft_str(key));
    if (known == NULL || own.data == NULL) return no_memory();
    *known = found;
    WEFT_RETURN_IF_ERROR(weft_map_put(&c->instances, own, known, NULL));
  }
  known->members++;
  return NULL;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* As TensorFlow's masters (graph_execution_state.cc): a hash of the set of stated instance keys. */
static int64_t graph_key(members_census_t *c) {
  uint64_t hash = UINT64_C(0x8774aa605c729c72);
  if (c->num_stated > 0) qsort(c->stated, (size_t)c->num_stated, sizeof *c->stated, by_value);
  for (int i = 0; i < c->num_stated; i++) {
    if (i > 0 && c->stated[i] == c->stated[i - 1]) continue;
    uint64_t key = (uint64_t)c->stated[i];
    hash = key ^ (hash + UINT64_C(0x9e3779b97f4a7800) + (key << 10) + (key >> 4));
  }
  return hash == 0 ? 1 : (int64_t)hash;
}

static weft_str_t describe(const instance_t *x, weft_arena_t *arena) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text,
                     "Collective %.*s {{node %.*s}} has %" PRId64 " members (group_key %" PRId64
                     ", instance_key %" PRId64
                     "), but only %d of them %s part of this step, and no other task is there to run the "
                     "others: it would wait for ever. Run all of them in one step",
                     WEFT_STR_ARGS(x->node->op->name), WEFT_STR_ARGS(x->node->name), x->keys.group_size,
                     x->keys.group_key, x->keys.instance_key, x->members, x->members == 1 ? "is" : "are");
  weft_str_t own =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return own;
}

weft_status_t *weft_collective_members_find(const weft_graph_t *g, weft_arena_t *arena,
                                            weft_collective_members_t *out) {
  *out = (weft_collective_members_t){0};
  members_census_t c = {.arena = arena, .instances = WEFT_MAP_INIT};
  c.stated = weft_calloc((size_t)g->num_nodes + 1, sizeof *c.stated);
  weft_status_t *s = c.stated == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL) s = count(&c, g->nodes[i]);
  }
  bool lacks = c.has_computed;
  weft_map_entry_t e;
  for (size_t at = 0; s == NULL && out->missing.data == NULL && weft_map_next(&c.instances, &at, &e);) {
    const instance_t *x = e.value;
    if (x->members >= x->keys.group_size) continue;
    lacks = true;
    if (!x->is_timed) out->missing = describe(x, arena);
  }
  if (s == NULL && lacks) out->graph_key = graph_key(&c);
  weft_free(c.stated);
  weft_map_deinit(&c.instances);
  return s;
}
