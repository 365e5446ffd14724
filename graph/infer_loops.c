/* graph/infer_loops.c - shapes inside loops.
 *
 * One pass over the nodes cannot know what comes round a loop, so it leaves loop
 * variables unknown. Here each one is assumed to have the shape that it enters
 * with; when the body makes another one, what differs becomes unknown, and the
 * shapes are inferred again, until the body makes what was assumed. Then the
 * assumption holds in every iteration.
 */
#include "base/alloc.h"
#include "graph/passes.h"

enum { MAX_ROUNDS = 12 }; /* a shape has at most WEFT_MAX_DIMS dims to lose, and its rank */

typedef struct loops {
  weft_graph_t *g;
  weft_node_t **order;   /* owned */
  weft_shape_t *assumed; /* owned; by node id: of Merges of loops */
} loops_t;

static const weft_shape_t unknown = {.rank = WEFT_UNKNOWN_DIM};

static const weft_shape_t *shape_of(weft_output_t of) {
  return of.node->output_shapes == NULL ? &unknown : &of.node->output_shapes[of.index];
}

static bool is_back_edge(weft_output_t of) { return (of.node->flags & WEFT_OP_NEXT_ITERATION) != 0; }

static bool is_loop_merge(const weft_node_t *n) {
  bool is = false;
  for (int i = 0; i < n->num_inputs && (n->flags & WEFT_OP_MERGE) != 0; i++)
    is = is || is_back_edge(n->inputs[i]);
  return is;
}

static weft_shape_t common(const weft_shape_t *a, const weft_shape_t *b) {
  if (a->rank != b->rank) return unknown;
  weft_shape_t both = *a;
  for (int i = 0; i < both.rank; i++) {
    if (a->dims[i] != b->dims[i]) both.dims[i] = WEFT_UNKNOWN_DIM;
  }
  return both;
}

/* What is common to the inputs, those that come round only if `all`. */
static weft_shape_t common_inputs(const weft_node_t *n, bool all) {
  const weft_shape_t *first = NULL;
  weft_shape_t shape = unknown;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!all && is_back_edge(n->inputs[i])) continue;
    shape = first == NULL ? *shape_of(n->inputs[i]) : common(&shape, shape_of(n->inputs[i]));
    first = &shape;
  }
  return shape;
}

static weft_status_t *set_first(weft_graph_t *g, weft_node_t *n, const weft_shape_t *shape) {
  if (n->output_shapes != NULL && weft_shape_eq(&n->output_shapes[0], shape)) return NULL;
  weft_shape_t *shapes = weft_arena_alloc(g->arena, (size_t)n->num_outputs * sizeof *shapes);
  if (shapes == NULL) return WEFT_NO_MEMORY("inferring shapes of node '%s'", n->name.data);
  for (int o = 0; o < n->num_outputs; o++)
    shapes[o] = n->output_shapes == NULL ? unknown : n->output_shapes[o];
  shapes[0] = *shape;
  n->output_shapes = shapes;
  return NULL;
}

/* Shapes that contradict each other (in a branch that is never taken, or by an assumption that does not hold)
 * tell nothing. */
static weft_status_t *infer_node(loops_t *l, weft_inference_t *inf, weft_node_t *n) {
  weft_status_t *s = weft_inference_add(inf, n);
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s);
  weft_shape_t *shapes = weft_arena_alloc(l->g->arena, ((size_t)n->num_outputs + 1) * sizeof *shapes);
  if (shapes == NULL) return WEFT_NO_MEMORY("inferring shapes of node '%s'", n->name.data);
  for (int o = 0; o < n->num_outputs; o++) shapes[o] = unknown;
  n->output_shapes = shapes;
  return NULL;
}

/* `starts`: what loop variables enter with is assumed; else l->assumed. */
static weft_status_t *infer_all(loops_t *l, bool starts) {
  weft_inference_t *inf = NULL;
  weft_status_t *s = weft_inference_create(l->g, &inf);
  for (int i = 0; i < l->g->num_live && s == NULL; i++) {
    weft_node_t *n = l->order[i];
    s = infer_node(l, inf, n);
    if (s == NULL && (n->flags & WEFT_OP_ENTER) != 0) s = set_first(l->g, n, shape_of(n->inputs[0]));
    if (s != NULL || !is_loop_merge(n)) continue;
    if (starts) l->assumed[n->id] = common_inputs(n, false);
    s = set_first(l->g, n, &l->assumed[n->id]);
  }
  weft_inference_destroy(inf);
  return s;
}

/* Weakens what the bodies have not kept. False if they have kept all. */
static bool weaken(loops_t *l, bool gives_up) {
  bool any = false;
  for (int i = 0; i < l->g->num_live; i++) {
    const weft_node_t *n = l->order[i];
    if (!is_loop_merge(n)) continue;
    weft_shape_t made = common_inputs(n, true), both = common(&l->assumed[n->id], &made);
    if (gives_up) both = unknown;
    any = any || !weft_shape_eq(&both, &l->assumed[n->id]);
    l->assumed[n->id] = both;
  }
  return any;
}

weft_status_t *weft_pass_infer_loop_shapes(weft_graph_t *g) {
  loops_t l = {.g = g};
  bool has_loops = false;
  for (int id = 0; id < g->num_nodes; id++) {
    has_loops = has_loops || (g->nodes[id] != NULL && (g->nodes[id]->flags & WEFT_OP_NEXT_ITERATION) != 0);
  }
  if (!has_loops) return NULL;
  weft_status_t *s = weft_graph_topological_order(g, &l.order);
  l.assumed = weft_calloc((size_t)g->num_nodes + 1, sizeof *l.assumed);
  if (s == NULL && l.assumed == NULL) s = WEFT_NO_MEMORY("inferring shapes in loops");
  if (s == NULL) s = infer_all(&l, true);
  for (int round = 0; s == NULL && weaken(&l, round >= MAX_ROUNDS); round++) s = infer_all(&l, false);
  weft_free(l.order);
  weft_free(l.assumed);
  return s;
}
