/* strategies/emit.h - adds nodes to a graph, one call per op.
 *
 * An emitter remembers its first failure; all calls after it do nothing and give
 * {NULL, 0}. So a rewrite adds node after node and checks `s` once at the end.
 */
#ifndef WEFT_STRATEGIES_EMIT_H_
#define WEFT_STRATEGIES_EMIT_H_

#include "graph/graph.h"

typedef struct weft_emitter { /* Confined. */
  weft_graph_t *g;            /* borrowed */
  weft_str_t scope;           /* put before every name: "worker_1/"; borrowed */
  weft_str_t device;          /* of the nodes to come; borrowed. Set it freely */
  weft_node_t *after;         /* the nodes to come run after it; NULL: nothing */
  weft_status_t *s;           /* owned until weft_emitter_end */
} weft_emitter_t;

/* The failure, which the caller owns from here on, or NULL. */
WEFT_MUST_CHECK weft_status_t *weft_emitter_end(weft_emitter_t *e);

/* Records a failure of the caller, if it is the first. Consumes s. Returns true if the emitter has failed. */
bool weft_emitter_fail(weft_emitter_t *e, weft_status_t *s);

/* Removes what places n beside other nodes ("_class"): strategies give each node a device. */
WEFT_MUST_CHECK weft_status_t *weft_forget_colocation(weft_graph_t *g, weft_node_t *n);

/* Adds a node called as the format says, or that with a number behind it where the name is taken. An empty
 * name means that its allocation failed: RESOURCE_EXHAUSTED. Type attributes come from the inputs. Attributes
 * of another node may be given: the new one is not colocated with anything. Result: its output 0. */
weft_output_t weft_emit(weft_emitter_t *e, const char *op, const weft_output_t *inputs, int num_inputs,
                        const weft_named_attr_t *attrs, int num_attrs, const char *name, ...)
    WEFT_PRINTF(7, 8);
weft_output_t weft_emit1(weft_emitter_t *e, const char *op, weft_output_t a, const char *name, ...)
    WEFT_PRINTF(4, 5);
weft_output_t weft_emit2(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b,
                         const char *name, ...) WEFT_PRINTF(5, 6);
weft_output_t weft_emit3(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b, weft_output_t c,
                         const char *name, ...) WEFT_PRINTF(6, 7);
weft_output_t weft_emit_cast(weft_emitter_t *e, weft_output_t x, int dtype, const char *name, ...)
    WEFT_PRINTF(4, 5); /* x itself if it has that type */

/* Const: takes `value` over (also on failure; NULL is a failure before: RESOURCE_EXHAUSTED). */
weft_output_t weft_emit_const(weft_emitter_t *e, weft_tensor_t *value, const char *name, ...)
    WEFT_PRINTF(3, 4);
/* int32 or int64: a scalar, a vector. */
weft_output_t weft_emit_int(weft_emitter_t *e, weft_dtype_t dtype, int64_t value, const char *name, ...)
    WEFT_PRINTF(4, 5);
weft_output_t weft_emit_ints(weft_emitter_t *e, weft_dtype_t dtype, const int64_t *values, int n,
                             const char *name, ...) WEFT_PRINTF(5, 6);
weft_output_t weft_emit_string(weft_emitter_t *e, weft_str_t value, const char *name, ...) WEFT_PRINTF(3, 4);
/* A scalar of any numeric type that can hold it. */
weft_output_t weft_emit_number(weft_emitter_t *e, int dtype, double value, const char *name, ...)
    WEFT_PRINTF(4, 5);
/* A NoOp after the controls (NULLs are skipped). */
weft_node_t *weft_emit_noop(weft_emitter_t *e, weft_node_t *const *controls, int num_controls,
                            const char *name, ...) WEFT_PRINTF(4, 5);
void weft_emit_control(weft_emitter_t *e, weft_node_t *from,
                       weft_node_t *to); /* nothing if either is NULL, or it is there */

int weft_base_type_of(weft_output_t o);             /* without "ref" */
weft_shape_t weft_static_shape_of(weft_output_t o); /* inferred; unknown before inference */
int64_t weft_static_bytes_of(weft_output_t o);      /* -1 if the shape is not known */

static inline weft_named_attr_t weft_shape_attr(const char *name, const weft_shape_t *shape) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_SHAPE, .shape = shape}};
}

#endif /* WEFT_STRATEGIES_EMIT_H_ */
