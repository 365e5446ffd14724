/* graph/unknown_ops.h - collects every op that is not known, to name them all in one failure; for this folder
 * only. */
#ifndef WEFT_GRAPH_UNKNOWN_OPS_H_
#define WEFT_GRAPH_UNKNOWN_OPS_H_

#include "base/name_list.h"
#include "graph/graph.h"

typedef struct weft_unknown_ops {
  weft_map_t seen; /* op name -> the entry itself */
  weft_arena_t arena;
  weft_name_list_t names;  /* "'A', 'B'" */
  weft_name_list_t places; /* "{{node x}} (A), {{node y}} of function f (B)" */
} weft_unknown_ops_t;

static inline bool weft_unknown_ops_is_empty(const weft_unknown_ops_t *u) { return u->names.n == 0; }
void weft_unknown_ops_deinit(weft_unknown_ops_t *u);
WEFT_MUST_CHECK weft_status_t *weft_unknown_ops_add(weft_unknown_ops_t *u, weft_str_t op, weft_str_t node);
/* Adds those in the functions that nodes from `first_id` on can reach. */
WEFT_MUST_CHECK weft_status_t *weft_unknown_ops_search_functions(weft_unknown_ops_t *u, const weft_graph_t *g,
                                                                 int first_id);
/* NOT_FOUND, in TensorFlow's words, and where the ops are used. */
WEFT_MUST_CHECK weft_status_t *weft_unknown_ops_error(weft_unknown_ops_t *u);

#endif /* WEFT_GRAPH_UNKNOWN_OPS_H_ */
