/* graph/graph_store.c - the life of a store: it ends with the last graph, store or plan that keeps it. */
#include "graph/graph_store.h"

#include "base/alloc.h"

weft_status_t *weft_graph_store_create(weft_graph_store_t **out) {
  weft_graph_store_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("creating a graph");
  atomic_init(&s->refs, 1);
  *out = s;
  return NULL;
}

weft_graph_store_t *weft_graph_store_retain(weft_graph_store_t *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

static bool drop(weft_graph_store_t *s) {
  return atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1;
}

/* A list instead of recursion: each extension of a graph adds a link to the chain. */
void weft_graph_store_release(weft_graph_store_t *s) {
  weft_graph_store_t *dead = s != NULL && drop(s) ? s : NULL;
  while (dead != NULL) {
    weft_graph_store_t *now = dead;
    dead = now->next_dead;
    for (int i = 0; i < now->num_kept; i++) {
      if (!drop(now->kept[i])) continue;
      now->kept[i]->next_dead = dead;
      dead = now->kept[i];
    }
    weft_free(now->kept);
    weft_arena_deinit(&now->arena);
    weft_free(now);
  }
}

weft_status_t *weft_graph_store_keep(weft_graph_store_t *s, weft_graph_store_t *other) {
  if (other == s) return NULL;
  for (int i = s->num_kept - 1; i >= 0; i--) { /* mostly the last one */
    if (s->kept[i] == other) return NULL;
  }
  if (s->num_kept == s->capacity) {
    int capacity = s->capacity == 0 ? 2 : s->capacity * 2;
    weft_graph_store_t **kept = weft_realloc(s->kept, (size_t)capacity, sizeof(*kept));
    if (kept == NULL) return WEFT_NO_MEMORY("sharing nodes of a graph");
    s->kept = kept;
    s->capacity = capacity;
  }
  s->kept[s->num_kept++] = weft_graph_store_retain(other);
  return NULL;
}
