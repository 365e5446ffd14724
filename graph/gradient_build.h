/* graph/gradient_build.h - what the files that build gradients share; for this folder only.
 *
 * A graph is differentiated level by level: the nodes outside of loops, and the
 * body of each loop, in which a loop inside counts as one step. The gradient of a
 * loop is a loop of its own, which runs as many times and backwards. What it needs
 * of the first one's values waits in lists: each is a loop variable to which an
 * iteration adds its value, and from which the iteration of the gradient takes it
 * off again. So gradients of loops are data flow like any other, may be nested,
 * and be differentiated themselves.
 */
#ifndef WEFT_GRAPH_GRADIENT_BUILD_H_
#define WEFT_GRAPH_GRADIENT_BUILD_H_

#include "graph/passes.h"
#include "ops/gradient.h"

/* Gradients that flowed into one tensor, waiting to be added up. */
typedef struct weft_gradient_flow weft_gradient_flow_t;
struct weft_gradient_flow {
  weft_gradient_flow_t *next;
  weft_output_t gradient;
};

/* Inside one frame: a value is alive only where output `branch` of a Switch on `which` is, and `outer`. */
typedef struct weft_gradient_branch weft_gradient_branch_t;
struct weft_gradient_branch {
  const weft_gradient_branch_t *outer; /* NULL: always */
  weft_output_t which;
  int branch, num_branches, depth;
};

typedef struct weft_gradient_var weft_gradient_var_t;

/* What is known of a node, by its id. */
typedef struct weft_gradient_fact {
  int frame;
  bool is_forward; /* it was added to a loop of the graph itself, to keep what its gradient needs */
  const weft_gradient_branch_t *branch;
  const weft_gradient_branch_t **ports; /* of a Switch: by output; NULL: none was made yet */
  weft_gradient_var_t *var;             /* of the loop whose variable it enters, merges or switches */
  weft_output_t *copies;                /* by output, NULL: none; in the frame of the gradient */
  weft_gradient_flow_t **flows;         /* by output; NULL: none */
} weft_gradient_fact_t;

/* One step of a level: a node, or all of a loop. */
typedef struct weft_gradient_step {
  weft_node_t *node; /* NULL: a loop */
  int loop;          /* its frame */
} weft_gradient_step_t;

typedef struct weft_gradient_level {
  weft_gradient_step_t *steps; /* num; producers first */
  int num, capacity;
  weft_node_t **structure; /* Enters, Switches on the condition, Exits, NextIterations */
  int num_structure, structure_capacity;
  const weft_gradient_branch_t *branch; /* where the loop is alive, in the frame around it */
} weft_gradient_level_t;

typedef struct weft_gradient_loop weft_gradient_loop_t;

typedef struct weft_gradient_build {
  weft_graph_t *g;
  weft_arena_t scratch;
  weft_inference_t *inference;
  weft_str_t prefix;   /* in the graph's arena */
  weft_str_t device;   /* of the node whose gradient is being built */
  int num_old;         /* ids of the graph before us */
  weft_node_t **order; /* owned; num_order, producers first */
  int num_order;
  uint8_t *from_x; /* by old id: does some x reach the node's inputs, or is an output an x? */
  uint8_t *to_y;   /* by old id: does the node reach some y? */
  const weft_output_t *xs;
  int num_xs;
  weft_gradient_fact_t *facts; /* owned; by id */
  int capacity;
  bool has_loops; /* through which gradients flow */
  weft_frames_t frames;
  weft_gradient_level_t *levels; /* by frame */
  weft_gradient_loop_t *loop;    /* the one that is being differentiated; NULL: none */
} weft_gradient_build_t;

/* What a new node is made of, beside name and device. */
typedef struct weft_gradient_node {
  const char *op;
  const weft_output_t *inputs;
  int num_inputs;
  weft_node_t *control; /* or NULL */
  const weft_named_attr_t *attrs;
  int num_attrs;
} weft_gradient_node_t;

/* ---- gradients.c ---- */

WEFT_MUST_CHECK weft_status_t *weft_gradient_no_memory(void);
/* Adds a node as it is, with its shapes. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_add(weft_gradient_build_t *b, const weft_gradient_node_t *spec,
                                                 weft_output_t *out);
/* Nodes of the gradient in the frame where b->loop is differentiated: values of the graph that go in are
 * copied there; a node without inputs is alive once for each iteration. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_node(weft_gradient_build_t *b, const char *op,
                                                  const weft_output_t *inputs, int num_inputs,
                                                  const weft_named_attr_t *attrs, int num_attrs,
                                                  weft_output_t *out);
WEFT_MUST_CHECK weft_status_t *weft_gradient_flow_into(weft_gradient_build_t *b, weft_output_t tensor,
                                                       weft_output_t gradient);
/* What has flowed into a tensor, added up; node NULL if nothing has. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_total(weft_gradient_build_t *b, weft_output_t tensor,
                                                   weft_output_t *out);
/* Does an x reach the tensor? */
bool weft_gradient_comes_from_x(const weft_gradient_build_t *b, weft_output_t o);
/* Differentiates the steps of a level, the last first. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_run_level(weft_gradient_build_t *b, int frame);

/* ---- gradient_levels.c ---- */

/* Finds the frames, the branches and the steps of each level. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_find_levels(weft_gradient_build_t *b);
/* Where a tensor is alive; NULL: wherever its frame is. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_branch_of(weft_gradient_build_t *b, weft_output_t o,
                                                       const weft_gradient_branch_t **out);
/* Of a node that was added: where its inputs are. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_find_branch(weft_gradient_build_t *b, const weft_node_t *n);
/* Is it one of a loop's own nodes, that pass a variable on? */
bool weft_gradient_is_structure(const weft_gradient_build_t *b, const weft_node_t *n);

/* ---- gradient_loops.c ---- */

/* The gradient of a loop, in the frame where b->loop is differentiated. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_of_loop(weft_gradient_build_t *b, int frame);

/* ---- gradient_values.c ---- */

/* The value that `t`, a tensor in the loop's frame, had, in the frame of its gradient; t itself outside of
 * loops. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_value(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                                                   weft_output_t t, weft_output_t *out);

/* A frame that nodes are added to. */
typedef struct weft_gradient_frame {
  weft_str_t name; /* in an arena */
  int64_t parallel_iterations;
  weft_output_t cond; /* LoopCond */
} weft_gradient_frame_t;

/* A variable of a loop that is being built. */
typedef struct weft_gradient_ring {
  weft_node_t *enter, *merge, *split, *exit;
} weft_gradient_ring_t;

struct weft_gradient_var {
  weft_node_t *enter, *merge, *split, *exit, *next; /* a constant of the loop has only the first */
  bool is_same;                                     /* an iteration hands it on as it is */
  bool is_active;                                   /* it has a gradient */
  weft_gradient_ring_t ring;                        /* of its gradient */
};

struct weft_gradient_loop {
  weft_gradient_loop_t *outer; /* NULL: there is none around it */
  int frame, depth;
  weft_gradient_var_t *vars;
  int num_vars;
  weft_gradient_frame_t forward, backward;
  weft_node_t *gate;  /* in front of the loop, alive where it is */
  weft_node_t *body;  /* in it, alive once for each iteration */
  weft_node_t *pivot; /* the same in the gradient's */
};

/* Adds a node to the frame of a loop of the graph (0: to none); it is then one of the graph's values. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_add_forward(weft_gradient_build_t *b, int frame,
                                                         const weft_gradient_node_t *spec,
                                                         weft_output_t *out);
/* The parts of a loop variable. `forward` is the loop's frame, or -1 in one of gradients. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_enter(weft_gradient_build_t *b, const weft_gradient_frame_t *f,
                                                   int forward, weft_output_t value, bool is_constant,
                                                   weft_output_t *out);
/* Enter and Merge; then the Switch. `shape` holds in every iteration. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_open(weft_gradient_build_t *b, const weft_gradient_frame_t *f,
                                                  int forward, weft_output_t start, const weft_shape_t *shape,
                                                  weft_gradient_ring_t *out);
WEFT_MUST_CHECK weft_status_t *weft_gradient_split(weft_gradient_build_t *b, const weft_gradient_frame_t *f,
                                                   int forward, weft_gradient_ring_t *ring);
/* NextIteration and Exit. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_close(weft_gradient_build_t *b, int forward, weft_output_t next,
                                                   weft_gradient_ring_t *ring);
/* Const nodes; `control`, which may be NULL, says where they are alive. int32s: a vector, or with n < 0 a
 * scalar. */
WEFT_MUST_CHECK weft_status_t *weft_gradient_constant(weft_gradient_build_t *b, weft_tensor_t *tensor,
                                                      int forward, weft_node_t *control, weft_output_t *out);
WEFT_MUST_CHECK weft_status_t *weft_gradient_int32s(weft_gradient_build_t *b, const int32_t *values, int n,
                                                    int forward, weft_node_t *control, weft_output_t *out);

static inline bool weft_gradient_is_forward(const weft_gradient_build_t *b, const weft_node_t *n) {
  return n->id < b->num_old || b->facts[n->id].is_forward;
}
static inline weft_shape_t weft_gradient_shape(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index];
}
static inline int weft_gradient_dtype(weft_output_t o) {
  return (int)weft_dtype_base(o.node->output_types[o.index]);
}

#endif /* WEFT_GRAPH_GRADIENT_BUILD_H_ */
