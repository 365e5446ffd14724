/* graph/passes/round.h - what the passes of one round share; for the files of this folder only.
 *
 * A pass walks over the nodes in topological order. At each it first calls weft_pass_round_visit, which
 * brings the node's inputs up to date, and may then say that consumers read something else instead
 * (weft_pass_round_forward, weft_pass_round_merge). Nothing is removed: what is no longer read is dropped
 * behind the pass. So no pass needs the consumers of a node, and each is linear.
 */
#ifndef WEFT_GRAPH_PASSES_ROUND_H_
#define WEFT_GRAPH_PASSES_ROUND_H_

#include "graph/passes.h"
#include "graph/passes/optimize.h"

/* Control flow: nodes which decide what is dead, or in which frame it is. No pass touches them. */
#define WEFT_OPS_OF_CONTROL                                                                 \
  (WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION | \
   WEFT_OP_LOOP_COND | WEFT_OP_CONTROL_TRIGGER)

typedef struct weft_pass_round { /* Confined. */
  weft_graph_t *g;
  const weft_optimize_options_t *options;
  weft_arena_t arena;  /* until the end of the round */
  weft_node_t **order; /* owned; num_ordered nodes, some perhaps removed meanwhile */
  int num_ordered;
  int num_ids;                 /* ids at the begin of the round: sizes of the arrays below */
  weft_output_t **forwards;    /* owned; by id: what each output is read as, in the arena; NULL: itself */
  weft_node_t **merged;        /* owned; by id: the node that takes this one's place altogether; NULL: none */
  uint8_t *is_kept;            /* owned; by id: `keep` names it, or it has an effect */
  uint8_t *is_conditional;     /* owned; by id: behind control flow */
  uint8_t *is_variable;        /* owned; by id: perhaps the buffer of a variable, which an update changes */
  weft_inference_t *inference; /* owned; NULL: not asked for yet */
  const char *pass;            /* that runs now */
  bool has_changed;            /* of that pass */
  bool has_replaced;           /* of the round: some node takes the place of another */
} weft_pass_round_t;

typedef weft_status_t *weft_pass_fn(weft_pass_round_t *r);
#define WEFT_PASS(id, name, field, means_off, function, what) weft_pass_fn function;
#define WEFT_WORKER_PASS(id, name, field, means_off, what)
#include "graph/passes/passes.def"
#undef WEFT_PASS

WEFT_MUST_CHECK weft_status_t *weft_pass_round_init(weft_pass_round_t *r, weft_graph_t *g,
                                                    const weft_optimize_options_t *o);
void weft_pass_round_deinit(weft_pass_round_t *r);

/* Is the node still in the graph? */
static inline bool weft_pass_round_has(const weft_pass_round_t *r, const weft_node_t *n) {
  return r->g->nodes[n->id] == n;
}
/* May the node be dead, or run several times? */
bool weft_pass_round_is_conditional(const weft_pass_round_t *r, const weft_node_t *n);
/* May an update of a variable change what the node's outputs hold? Then a copy of it is not the same. */
bool weft_pass_round_is_variable(const weft_pass_round_t *r, const weft_node_t *n);
/* Shapes and values of the graph as it is at the first call; later calls do nothing. A node whose shapes
 * contradict each other has none: its step will say so. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_infer(weft_pass_round_t *r);
/* The shape of an output, or an unknown one. After weft_pass_round_infer. */
const weft_shape_t *weft_pass_round_shape(weft_output_t of);
/* The value of a Const, lent; NULL: it is none. */
weft_tensor_t *weft_pass_round_constant(weft_output_t of);
/* The value of a constant vector that is a permutation, in out (WEFT_MAX_DIMS); its length, or -1. */
int weft_pass_round_permutation(weft_output_t of, int *out);
/* Is the node on a CPU, or on no device yet? Other devices may lack a kernel for another op. */
bool weft_pass_round_is_on_cpu(const weft_node_t *n);

/* What is read in the place of `of`, as things stand. */
weft_output_t weft_pass_round_resolve(const weft_pass_round_t *r, weft_output_t of);
/* Inputs and control inputs of `n` become what takes their place. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_visit(weft_pass_round_t *r, weft_node_t *n);
/* The same for all nodes: back edges of loops lead to nodes that come later. Call it at the end of a pass. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_finish(weft_pass_round_t *r);
/* Consumers of output `output` of `n` read `to` instead. Those that wait for `n` still wait for `n`. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_forward(weft_pass_round_t *r, weft_node_t *n, int output,
                                                       weft_output_t to);
/* `to`, with the same outputs and controls, takes the place of `n`. */
void weft_pass_round_merge(weft_pass_round_t *r, weft_node_t *n, weft_node_t *to);
/* `n` becomes a Const under its own name, device and control inputs. `value` is retained. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_become_constant(weft_pass_round_t *r, weft_node_t *n,
                                                               weft_tensor_t *value);
/* `n` becomes a node of `op`, whose only attribute is T, with these inputs. */
WEFT_MUST_CHECK weft_status_t *weft_pass_round_become(weft_pass_round_t *r, weft_node_t *n, const char *op,
                                                      const weft_output_t *inputs, int num_inputs);
void weft_pass_round_note(weft_pass_round_t *r, const weft_node_t *n, const char *what, weft_str_t other);

/* Depends on nothing but its inputs' values, and on all of them alike: may be computed early, once for many,
 * or never. Values that a kernel could know by another name (references, resources, variants) are none of it.
 */
bool weft_node_is_pure(const weft_node_t *n);
/* Does output 0 equal input 0, bit by bit, for all inputs, and does nothing else happen? */
bool weft_node_copies_input(const weft_node_t *n);
/* What `of` is a copy of, by weft_node_copies_input; `of` itself, if it is none. */
weft_output_t weft_output_copied(weft_output_t of);
/* The Enter whose input each iteration of a loop has as `of`: an Enter of a constant, or that of a variable
 * of the loop which each iteration passes on as it is. NULL: there is none. */
weft_node_t *weft_output_enter(weft_output_t of);
/* May consumers of `n` on its device read `from` instead, as far as devices and branches go? */
bool weft_output_may_replace(weft_output_t from, const weft_node_t *n);

#endif /* WEFT_GRAPH_PASSES_ROUND_H_ */
