/* graph/node_index.c - a slot is 28 bits of id + 1 and 4 bits of the name's hash, which spare most looks at
 * the names of other nodes. The bits are not those that choose the slot. */
#include "graph/node_index.h"

#include "base/alloc.h"
#include "graph/graph.h"

#define ID_BITS 28
#define ID_MASK ((UINT32_C(1) << ID_BITS) - 1)
enum { FREE = 0 };
#define REMOVED ID_MASK /* no id is that large */

static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 60) << ID_BITS; }

void weft_node_index_deinit(weft_node_index_t *x) {
  weft_free(x->slots);
  *x = (weft_node_index_t){NULL, 0, 0, 0};
}

static void enter(uint32_t *slots, size_t capacity, const weft_node_t *n) {
  const uint64_t hash = weft_str_hash(n->name);
  size_t at = hash & (capacity - 1);
  while (slots[at] != FREE) at = (at + 1) & (capacity - 1);
  slots[at] = tag_of(hash) | ((uint32_t)n->id + 1);
}

static bool is_room_for(size_t count, size_t capacity) { return count <= capacity / 4 * 3; }

/* A new table without the slots of removed nodes. */
static weft_status_t *rebuild(weft_node_index_t *x, weft_node_t *const *nodes, int n, size_t count) {
  size_t capacity = 64;
  while (!is_room_for(count, capacity)) capacity *= 2;
  uint32_t *slots = weft_calloc(capacity, sizeof *slots);
  if (slots == NULL) return WEFT_NO_MEMORY("an index of %zu nodes", count);
  for (int i = 0; i < n; i++) {
    if (nodes[i] != NULL) enter(slots, capacity, nodes[i]);
  }
  weft_free(x->slots);
  x->slots = slots;
  x->capacity = capacity;
  x->num_used = x->num_in;
  return NULL;
}

weft_status_t *weft_node_index_reserve(weft_node_index_t *x, weft_node_t *const *nodes, int n, size_t count) {
  const size_t removed = x->num_used - x->num_in;
  return is_room_for(count + removed, x->capacity) ? NULL : rebuild(x, nodes, n, count);
}

/* The slot of that name, or SIZE_MAX. */
static size_t find(const weft_node_index_t *x, weft_node_t *const *nodes, weft_str_t name) {
  if (x->capacity == 0) return SIZE_MAX;
  const uint64_t hash = weft_str_hash(name);
  const uint32_t tag = tag_of(hash);
  for (size_t at = hash & (x->capacity - 1); x->slots[at] != FREE; at = (at + 1) & (x->capacity - 1)) {
    const uint32_t slot = x->slots[at];
    if ((slot & ~ID_MASK) != tag || slot == REMOVED) continue;
    if (weft_str_eq(nodes[(slot & ID_MASK) - 1]->name, name)) return at;
  }
  return SIZE_MAX;
}

weft_node_t *weft_node_index_find(const weft_node_index_t *x, weft_node_t *const *nodes, weft_str_t name) {
  const size_t at = find(x, nodes, name);
  return at == SIZE_MAX ? NULL : nodes[(x->slots[at] & ID_MASK) - 1];
}

weft_status_t *weft_node_index_add(weft_node_index_t *x, weft_node_t *const *nodes, int n,
                                   const weft_node_t *node) {
  if (!is_room_for(x->num_used + 1, x->capacity)) {
    WEFT_RETURN_IF_ERROR(rebuild(x, nodes, n, x->num_in + x->num_in / 2 + 1)); /* seldom again */
  }
  enter(x->slots, x->capacity, node);
  x->num_used++;
  x->num_in++;
  return NULL;
}

void weft_node_index_remove(weft_node_index_t *x, weft_node_t *const *nodes, int id) {
  x->slots[find(x, nodes, nodes[id]->name)] = REMOVED;
  x->num_in--;
}
