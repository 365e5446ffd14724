/* graph/function.h - functions: kept as they came, instantiated when called. */
#ifndef WEFT_GRAPH_FUNCTION_H_
#define WEFT_GRAPH_FUNCTION_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "graph/graph.h"

/* Immutable once in a library. */
struct weft_function {
  weft_str_t name;
  weft_op_def_t signature; /* parsed from FunctionDef.signature; flags STATEFUL | FUNCTIONAL as it says */
  weft_str_t def;          /* the serialized FunctionDef; owned by the library */
};

/* Shared by graphs; refcounted. Thread-safe: a step may compile a function while the graph is extended. */
struct weft_function_library {
  atomic_int refs;
  weft_mutex_t mu; /* guards the rest against functions declared below; a leaf */
  weft_arena_t arena;
  weft_map_t by_name; /* name -> weft_function_t*; walk it under mu, or where nothing else has the library */
  weft_map_t gradients;    /* function name -> weft_str_t*: GradientDef; likewise */
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

/* The GradientDef of a function, serialized; NULL if it has none. */
const weft_str_t *weft_function_gradient(const weft_function_library_t *l, weft_str_t function);

/* Appends the function and all that it may call, with their gradients, as fields of a FunctionDefLibrary.
 * `written` maps the names of those that are there to their weft_function_t, and grows; its keys and values
 * are lent by the library. Errors: NOT_FOUND, INVALID_ARGUMENT (a function of another library has that name
 * and another body), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_function_write_reachable(const weft_function_library_t *l,
                                                             weft_str_t name, weft_map_t *written,
                                                             weft_strbuf_t *out);
/* Is there a node, in the function or in one that it may call, for which `test` is true? It gets the node as
 * a serialized NodeDef. Each function is looked at once. Errors: NOT_FOUND, RESOURCE_EXHAUSTED. */
typedef bool weft_function_node_test_fn(void *arg, weft_str_t node_def);
WEFT_MUST_CHECK weft_status_t *weft_function_any_node(const weft_function_library_t *l, weft_str_t name,
                                                      weft_function_node_test_fn *test, void *arg, bool *out);
/* Adds all functions and gradients of `from` whose names are free in `l`. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_function_library_add_missing(weft_function_library_t *l,
                                                                 weft_function_library_t *from);

/* The function as a graph of its own: an _Arg for each input of its flat signature, a _Retval for each
 * output, and the body between them, whose calls are lowered. Its nodes are called "function/node", with '_'
 * for characters that a node's name may not have. Left out are nodes of the body that no result needs and
 * that have no effect. Errors: NOT_FOUND "Function f is not defined."; INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_function_graph(weft_function_library_t *l, const weft_func_attr_t *func,
                                                   weft_graph_t **out);

#endif /* WEFT_GRAPH_FUNCTION_H_ */
