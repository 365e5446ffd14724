/* strategies/lanes_build.h - adds nodes to a graph, several in a row, with one check of the outcome at the end.
 *
 * The first failure is kept and makes all later calls give {NULL, 0}, so that a
 * formula over many nodes reads as a formula. Names are made unique.
 */
#ifndef WEFT_STRATEGIES_LANES_BUILD_H_
#define WEFT_STRATEGIES_LANES_BUILD_H_

#include "graph/graph.h"

typedef struct weft_build { /* Confined. */
  weft_graph_t *g;          /* borrowed */
  weft_str_t scope;         /* put before every name: "worker_1/"; borrowed */
  weft_str_t device;        /* of new nodes; borrowed */
  weft_node_t *after;       /* new nodes run after it; NULL: nothing */
  weft_status_t *failure;   /* owned; NULL while all is well */
} weft_build_t;

/* Gives the failure to the caller and forgets it. */
WEFT_MUST_CHECK weft_status_t *weft_build_end(weft_build_t *b);
/* The caller ran into something: kept if it is the first. Consumes s. True if there is a failure now. */
bool weft_build_fail(weft_build_t *b, weft_status_t *s);

weft_output_t weft_build(weft_build_t *b, const char *op, weft_str_t name, const weft_output_t *inputs, int num_inputs,
                         const weft_named_attr_t *attrs, int num_attrs);
weft_output_t weft_build0(weft_build_t *b, const char *op, weft_str_t name, const weft_named_attr_t *attrs, int num_attrs);
weft_output_t weft_build1(weft_build_t *b, const char *op, const char *name, weft_output_t x);
weft_output_t weft_build2(weft_build_t *b, const char *op, const char *name, weft_output_t x, weft_output_t y);
weft_output_t weft_build3(weft_build_t *b, const char *op, const char *name, weft_output_t x, weft_output_t y,
                          weft_output_t z);
/* A NoOp after all of `controls` (NULLs are skipped). */
weft_node_t *weft_build_noop(weft_build_t *b, weft_str_t name, weft_node_t *const *controls, int num_controls);
void weft_build_control(weft_build_t *b, weft_node_t *from, weft_node_t *to); /* either may be NULL: nothing then */
weft_output_t weft_build_cast(weft_build_t *b, const char *name, weft_output_t x, int to); /* x itself if it has the type */

/* Constants. */
weft_output_t weft_build_ints(weft_build_t *b, const char *name, weft_dtype_t dtype, const int64_t *values, int n);
weft_output_t weft_build_int(weft_build_t *b, const char *name, weft_dtype_t dtype, int64_t value);
weft_output_t weft_build_number(weft_build_t *b, const char *name, int dtype, double value); /* of a float type */
weft_output_t weft_build_tensor(weft_build_t *b, const char *name, weft_tensor_t *value);    /* retained */

int weft_output_type(weft_output_t o); /* without "ref" */

static inline weft_named_attr_t weft_int_attr(const char *name, int64_t i) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_INT, .i = i}};
}
static inline weft_named_attr_t weft_bool_attr(const char *name, bool is) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_BOOL, .b = is}};
}
static inline weft_named_attr_t weft_type_attr(const char *name, int type) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_TYPE, .type = type}};
}
static inline weft_named_attr_t weft_str_attr(const char *name, weft_str_t s) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_STRING, .s = s}};
}
static inline weft_named_attr_t weft_shape_attr(const char *name, const weft_shape_t *shape) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_SHAPE, .shape = shape}};
}

#endif /* WEFT_STRATEGIES_LANES_BUILD_H_ */
