/* tools/drawing_scopes.h - the tree of name scopes of a graph, and which of them are boxes; for drawing.c
 * only. */
#ifndef WEFT_TOOLS_DRAWING_SCOPES_H_
#define WEFT_TOOLS_DRAWING_SCOPES_H_

#include "base/arena.h"
#include "base/hash_map.h"

typedef struct weft_drawing_scope weft_drawing_scope_t;
struct weft_drawing_scope { /* Texts and memory: the tree's arena. */
  weft_str_t name, last;    /* of several that are one: the first and the last */
  int members;
  weft_drawing_scope_t *parent, *first, *next;
  weft_drawing_scope_t *merged_into; /* NULL: it stands for itself */
  int num_nodes, num_own;            /* below it, itself included; nodes of just this name */
  int num_variables;
  bool is_box, is_open; /* drawn as a box; as a frame around boxes */
  bool is_outside;      /* of the scope that is drawn */
};

typedef struct weft_scopes {
  weft_arena_t arena;
  weft_map_t by_path;
  weft_drawing_scope_t root;
} weft_scopes_t;

void weft_scopes_init(weft_scopes_t *t);
void weft_scopes_deinit(weft_scopes_t *t);
/* Counts a node; *out is its scope, a leaf. */
WEFT_MUST_CHECK weft_status_t *weft_scopes_add(weft_scopes_t *t, weft_str_t name, bool is_variable,
                                               weft_drawing_scope_t **out);
/* After all nodes: scopes that repeat become one. */
WEFT_MUST_CHECK weft_status_t *weft_scopes_merge(weft_scopes_t *t);
/* The scope of a path, as it is after merging; NULL if there is none. */
weft_drawing_scope_t *weft_scopes_find(const weft_scopes_t *t, weft_str_t path);
/* Chooses at most `limit` boxes inside `at`. */
void weft_scopes_choose(weft_drawing_scope_t *at, int limit);
/* What stands for a scope after merging. */
weft_drawing_scope_t *weft_scopes_resolve(weft_drawing_scope_t *s);
/* The box that a leaf is in; NULL: it is one of the others. */
weft_drawing_scope_t *weft_scopes_box_of(const weft_scopes_t *t, weft_drawing_scope_t *leaf);

#endif /* WEFT_TOOLS_DRAWING_SCOPES_H_ */
