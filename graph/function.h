/* graph/function.h - functions: kept as they came, instantiated when called. */
#ifndef WEFT_GRAPH_FUNCTION_H_
#define WEFT_GRAPH_FUNCTION_H_

#include <stdatomic.h>

#include "graph/graph.h"

/* Immutable once in a library. */
struct weft_function {
  weft_str_t name;
  weft_op_def_t signature; /* parsed from FunctionDef.signature; flags STATEFUL | FUNCTIONAL as it says */
  weft_str_t def;          /* the serialized FunctionDef; owned by the library */
};

/* Shared by graphs; refcounted. Thread-safe for readers; adding needs a single writer. */
struct weft_function_library {
  atomic_int refs;
  weft_arena_t arena;
  weft_map_t by_name;
  weft_map_t gradients;    /* function name -> weft_str_t*: GradientDef */
  weft_map_t unregistered; /* name of an op that the table lacks -> weft_op_def_t* of that name and nothing
                              else, flagged UNREGISTERED: what the nodes of a graph share */
};
WEFT_MUST_CHECK weft_status_t *weft_function_library_create(weft_function_library_t **out);
weft_function_library_t *weft_function_library_retain(weft_function_library_t *l);
void weft_function_library_release(weft_function_library_t *l);
weft_function_t *weft_function_find(const weft_function_library_t *l, weft_str_t name); /* NULL if absent */
/* Adds a serialized FunctionDef. The same bytes again are fine; another body under the name is
 * INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_function_add(weft_function_library_t *l, weft_str_t function_def);
/* The stand-in for an op that the table lacks. A node of it takes inputs of any types, and has as many
 * outputs as are asked for, of the types that their consumers expect. */
WEFT_MUST_CHECK weft_status_t *weft_function_library_stand_in(weft_function_library_t *l, weft_str_t op,
                                                              const weft_op_def_t **out);
/* The same for one node that is not valid: a step that needs it fails with `failure` (consumed). Its code is
 * INVALID_ARGUMENT, or UNIMPLEMENTED for an op that was removed. */
WEFT_MUST_CHECK weft_status_t *weft_function_library_set_aside(weft_function_library_t *l, weft_str_t op,
                                                               weft_status_t *failure,
                                                               const weft_op_def_t **out);
/* Adds a serialized GradientDef (kept for export; a later one for the same function replaces it). */
WEFT_MUST_CHECK weft_status_t *weft_function_add_gradient(weft_function_library_t *l,
                                                          weft_str_t gradient_def);

#endif /* WEFT_GRAPH_FUNCTION_H_ */
