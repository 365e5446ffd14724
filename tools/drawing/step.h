/* tools/drawing/step.h - the nodes that the steps of a graph run, each with what a drawing must know of it.
 *
 * A node is forward, gradient or update: gradients are known by their scope ("gradients/", "gradient_tape/")
 * and by being made of gradients, updates by the variable that they write or by leading to such a write
 * alone. What a strategy has added stands below a scope "weft" and has a role of its own.
 *
 * Each node has a home, the scope that it is drawn in. That of a forward node is its own; a gradient's is
 * that of the layer that it is a gradient of; variables are at home where they are read first, and what
 * updates them is with them. Constants, reads and control plumbing share the box of their first consumer.
 */
#ifndef WEFT_TOOLS_DRAWING_STEP_H_
#define WEFT_TOOLS_DRAWING_STEP_H_

#include "strategies/rewrite.h"

typedef enum weft_drawn_role {
  WEFT_DRAWN_FORWARD,
  WEFT_DRAWN_GRADIENT,
  WEFT_DRAWN_UPDATE,
  WEFT_DRAWN_ADDED, /* by a strategy */
  WEFT_DRAWN_ROLES
} weft_drawn_role_t;

/* What a strategy adds; each has a colour. */
typedef enum weft_drawn_kind {
  WEFT_DRAWN_USER, /* nothing: the user's own */
  WEFT_DRAWN_SPLIT,
  WEFT_DRAWN_WEIGHTS,
  WEFT_DRAWN_COLLECTIVE,
  WEFT_DRAWN_SUM,
  WEFT_DRAWN_KEPT,
  WEFT_DRAWN_TRANSFER,
  WEFT_DRAWN_OTHER,
  WEFT_DRAWN_KINDS
} weft_drawn_kind_t;

typedef struct weft_step_node {
  const weft_node_t *node;
  int place;
  weft_drawn_role_t role;
  weft_drawn_kind_t kind;
  weft_str_t name; /* without the names of replicas: copies look alike everywhere */
  weft_str_t home; /* "a/b"; "" for none. Groups that no scope stands for begin with WEFT_DRAWN_GROUP */
  int attached_to; /* the node whose box it shares; -1: it has one of its own */
  int depth;       /* edges on the longest way from what is fed; -1: it is made of nothing that is fed */
  bool is_fed;
} weft_step_node_t;

#define WEFT_DRAWN_GROUP '\x01'
#define WEFT_DRAWN_INPUTS "\x01inputs"
#define WEFT_DRAWN_RESULTS "\x01results"
#define WEFT_DRAWN_OPTIMIZER "\x01optimizer"

typedef struct weft_step_nodes { /* Confined. Lends from the graph. */
  weft_arena_t arena;
  weft_step_node_t *nodes; /* producers first */
  int num_nodes;
  int *index_of; /* by node id; -1: no step runs it */
  weft_fanout_t fanout;
  weft_map_t
      variables_in;   /* scope -> how many variables are at home in it or below it, anywhere; as a number */
  int num_variables;  /* at home in a scope */
  weft_str_t *places; /* tasks; with one task: devices; sorted as the summary's */
  int num_places;
  bool is_by_task;
} weft_step_nodes_t;

/* Of all worker loops of `r`; with `takes_all` all nodes of its graph. The caller deinits *out in any case.
 */
WEFT_MUST_CHECK weft_status_t *weft_step_nodes_find(const weft_rewrite_t *r, bool takes_all,
                                                    weft_step_nodes_t *out);
void weft_step_nodes_deinit(weft_step_nodes_t *s);
/* Roles, kinds, names, homes, and what shares a box. Part of weft_step_nodes_find. */
WEFT_MUST_CHECK weft_status_t *weft_step_nodes_settle(weft_step_nodes_t *s, const weft_graph_t *g);

/* "all-reduce" of WEFT_DRAWN_COLLECTIVE. */
const char *weft_drawn_kind_name(weft_drawn_kind_t kind);
const char *weft_drawn_role_name(weft_drawn_role_t role);

#endif /* WEFT_TOOLS_DRAWING_STEP_H_ */
