/* tools/drawing/tree.h - the scopes of what a step runs, as a tree for each place: what a drawing opens level
 * by level.
 *
 * A leaf is a node, with the constants and reads that belong to it; copies of one node in one place are one
 * leaf. Children stand in reading order: forward nodes by their distance from what is fed (of a
 * scope: the median of its nodes'), then what only
 * gradients and updates need. Scopes and leaves that repeat at least three times (with equal variables) are
 * folded to one, "x 12"; in large models names such as conv2_block1_1_bn are scopes of scopes; and more
 * children than fit on a page are put together in order. So no scope has more than WEFT_TREE_CHILDREN
 * children. Where there are more than a few places, those of one job but the first are drawn as one.
 */
#ifndef WEFT_TOOLS_DRAWING_TREE_H_
#define WEFT_TOOLS_DRAWING_TREE_H_

#include "tools/drawing/step.h"

enum { WEFT_TREE_CHILDREN = 16 };

typedef struct weft_tree_scope weft_tree_scope_t;
struct weft_tree_scope {
  weft_str_t name, last;                   /* as it is drawn; of a folded one the first and the last */
  weft_str_t path;                         /* of the scope in the graph, "a/b"; of a folded one the first's */
  weft_tree_scope_t *parent, *merged_into; /* merged_into: it is drawn as a part of that one; else NULL */
  weft_tree_scope_t **children;            /* owned */
  int num_children, capacity;
  int leaf;                 /* index of the step's node; -1: a scope */
  int members;              /* folded into it; 1: none */
  weft_str_t *member_paths; /* of a folded one: the members' paths */
  int member;               /* its number among those that were folded together */
  int num_nodes, by_role[WEFT_DRAWN_ROLES], num_variables;
  int64_t variable_bytes;
  int num_homes;                  /* variables that are at home in it, here or in another place */
  double order[WEFT_DRAWN_ROLES]; /* where its nodes stand: the median */
  int num_ordered[WEFT_DRAWN_ROLES], num_seen;
  unsigned kinds;                   /* bits */
  bool is_renamed;                  /* after its variables */
  bool was_scope;                   /* of a leaf: the only one of a scope, whose place it has */
  bool is_chunk;                    /* of children in order: no scope of the graph */
  int mark;                         /* scratch */
  int stamp, box[WEFT_DRAWN_ROLES]; /* of the level that is made now: boxes + 1 */
  int level;                        /* number of its level in a file of levels; -1 */
};

typedef struct weft_tree { /* Confined. */
  weft_arena_t arena;
  const weft_step_nodes_t *step; /* borrowed */
  weft_tree_scope_t **roots;     /* one a place that is drawn */
  int num_roots;
  weft_tree_scope_t **root_of; /* by place of the step */
  weft_tree_scope_t **leaf_of; /* by index of the step's nodes: before merging */
  int *first_node,
      *next_node; /* by index of a leaf's main node: the first of its nodes; by index: the next; -1 */
  weft_tree_scope_t **all; /* owned: every scope */
  int num_all, all_capacity;
  weft_map_t by_path, renamed; /* renamed: path -> a scope that was named after its variables */
  int num_marks;
} weft_tree_t;

/* *out is deinited by the caller in any case. `step` is lent until then. `folds`: repeated scopes are folded.
 */
WEFT_MUST_CHECK weft_status_t *weft_tree_build(const weft_step_nodes_t *step, bool folds, weft_tree_t *out);
void weft_tree_deinit(weft_tree_t *t);
/* What is drawn for a scope: itself, or the one that it was folded into. */
weft_tree_scope_t *weft_tree_resolve(weft_tree_scope_t *s);
/* The scope of a path in any place, or the leaf of a node's name; NULL: there is none. */
weft_tree_scope_t *weft_tree_find(const weft_tree_t *t, weft_str_t path);
/* Where a scope stands among others, for nodes of one role, or (WEFT_DRAWN_ROLES) all. */
double weft_tree_order(const weft_tree_scope_t *s, weft_drawn_role_t role);
/* ---- parts of weft_tree_build (tree_fold.c, tree_scopes.c) ---- */
WEFT_MUST_CHECK weft_status_t *weft_tree_arrange(weft_tree_t *t, weft_tree_scope_t *s, bool folds);
WEFT_MUST_CHECK weft_status_t *weft_tree_unite(weft_tree_t *t, weft_tree_scope_t *a, weft_tree_scope_t *b);
WEFT_MUST_CHECK weft_status_t *weft_tree_add(weft_tree_t *t, weft_tree_scope_t *parent, weft_str_t name,
                                             weft_str_t path, weft_tree_scope_t **out);

#endif /* WEFT_TOOLS_DRAWING_TREE_H_ */
