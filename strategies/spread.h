/* strategies/spread.h - how each value of a training graph is spread over replicas that share a batch.
 *
 * Every replica will run a copy of the graph on rows [i*B/N, (i+1)*B/N) of each
 * batch. This analysis says, for each output of each node, what a replica's copy of
 * it will be worth beside the value that one device would have, forward and
 * backward alike, and so where communication must stand. It asks the op table and a
 * table of rules (spread_rules.def), never what the model "is"; what it has no
 * rule for is computed once, on gathered inputs, or refused with the node's name.
 *
 * With B_i of all B rows on replica i, and w_i = B_i/B:
 *
 *   SAME      every replica holds the true value              true         = local_i * w_i^d
 *   ROWS      replica i holds its rows of it, along `axis`     rows of true = local_i * w_i^d
 *   PART      the true value is a sum over replicas            true         = sum_i local_i * w_i^d
 *   ONCE      replica 0 alone computes it, from true inputs: readers, queues, what has no rule
 *   SHAPE     a scalar or vector of numbers made of shapes: SAME of degree 0, but elements of the mask `rows`
 * count rows: such an element of the true value is the sum of the replicas' (or local_i / w_i) EACH      a
 * thing of its own on each replica (TensorArray, stack handles, local statistics of a batch)
 *
 * Only numbers with a fraction have a degree other than 0. What cannot be spread is refused. A dimension
 * along which rows lie may be a multiple of the batch ([B, T] flattened to [B*T]): replica i has the same
 * fraction of it as of the batch, from the place where its fraction begins.
 *
 * The mean over a batch is PART of degree 1, the sum PART of degree 0; a gradient with respect to a variable
 * becomes PART by the contraction over rows that made it, whatever the loss was.
 */
#ifndef WEFT_STRATEGIES_SPREAD_H_
#define WEFT_STRATEGIES_SPREAD_H_

#include "graph/graph.h"

typedef enum weft_spread_kind {
  WEFT_SPREAD_NONE, /* not reached */
  WEFT_SPREAD_SAME,
  WEFT_SPREAD_ROWS,
  WEFT_SPREAD_PART,
  WEFT_SPREAD_ONCE,
  WEFT_SPREAD_SHAPE,
  WEFT_SPREAD_EACH,
} weft_spread_kind_t;

typedef struct weft_spread {
  weft_spread_kind_t kind;
  int axis;       /* of ROWS */
  int degree;     /* of SAME, ROWS, PART */
  uint64_t rows;  /* of SHAPE: bit i: element i counts rows; of a scalar: bit 0 */
  int count;      /* of SHAPE: how many elements; -1: a scalar */
  bool is_hollow; /* of PART 0: what a replica without rows has is no number, and counts as 0 */
} weft_spread_t;

/* How a node is run. */
typedef enum weft_node_run {
  WEFT_RUN_NOT,    /* not needed */
  WEFT_RUN_EACH,   /* a copy on every replica */
  WEFT_RUN_ONCE,   /* replica 0 alone */
  WEFT_RUN_UPDATE, /* an update of a variable: on every copy of it (mirrored), or once where it lives
                      (central) */
  WEFT_RUN_STATE,  /* a variable: as the strategy keeps variables */
} weft_node_run_t;

/* How copies of a node that draws random numbers get those of one device. */
typedef enum weft_draw_kind {
  WEFT_DRAW_NONE, /* no such node, or it runs once, or its numbers depend on inputs that all have alike */
  WEFT_DRAW_ROWS, /* each draws its rows of the sequence, along `axis`, and moves on as if it had drawn all */
  WEFT_DRAW_ALIKE, /* each draws all of the sequence; streams without seeds need common ones */
} weft_draw_kind_t;
typedef struct weft_spread_draw {
  weft_draw_kind_t kind;
  int axis;       /* of the rows */
  int64_t factor; /* the dimension is that many times the batch; 0: the node is given the shape for the whole
                     batch */
} weft_spread_draw_t;

/* The dims that a node works on, where its graph does not name them: those of a Squeeze without dims, and the
 * axes of a reduction that are worked out from shapes. Copies must name them: a dim of rows may be 1, or 0,
 * on a replica. */
typedef struct weft_spread_named {
  bool is_named; /* all are known; else copies of a reduction take others from the step, too */
  uint32_t dims; /* bits */
  uint32_t kept; /* dims that it does not work on, whatever the step says */
} weft_spread_named_t;
enum { WEFT_SPREAD_DIMS = 32 }; /* so many at most */

typedef struct weft_spread_plan {
  weft_arena_t arena;
  const weft_graph_t *graph;
  weft_node_run_t *run;    /* by node id */
  weft_spread_t **outputs; /* by node id: of each output, as the node's copies make it */
  weft_spread_t *
      *wanted; /* by node id: of each input, as the copies must be given it; differs from the producer's
                  spread where communication is needed:
                    PART d -> SAME 0: all-reduce of local * w^d    PART/ROWS/SAME/SHAPE -> ONCE: the true
                  value ROWS d -> SAME 0: all-gather of local * w^d                         on replica 0 SHAPE
                  -> SAME 0: elements of the mask summed   ONCE -> SAME: from replica 0 to all SAME 0 -> ROWS
                  0: slices of what each has      ONCE -> ROWS: slices of it PART d -> ROWS 0: all-reduce,
                  then slices d -> e, kind and axis as they were: local scale by w^(d-e), no communication */
  weft_spread_draw_t *draws;  /* by node id: how its copies get the random numbers of one device */
  weft_spread_named_t *named; /* by node id: dims that its copies must name */
  bool *prints_once; /* by node id: the copy on replica 0 alone prints, true values; the others only pass
                        input 0 on */
  weft_output_t
      *batches; /* placeholders whose rows are shared out, and outputs of readers (ONCE) that are batches */
  int num_batches;
  weft_node_t **batch_feeds; /* the placeholders alone */
  int num_batch_feeds;
  weft_str_t *notes; /* what people should know: what runs once and why, what is normalised per replica */
  int num_notes;
} weft_spread_plan_t;

typedef struct weft_spread_options {
  const weft_node_t *const *roots; /* all that will be fetched or run */
  int num_roots;
  const weft_node_t *const
      *batch; /* exactly these placeholders are batches; none: all whose first dimension is unknown */
  int num_batch;
  bool may_lack_batch; /* no error if there is no batch: initialisers */
} weft_spread_options_t;

/* Analyses what the roots need. `g` has lowered control flow and inferred shapes. Linear but for loops, where
 * it goes round until nothing changes. Errors: INVALID_ARGUMENT "... cannot be shared out over replicas:
 * <why>" with the node named: no batch dimension on any placeholder, a side effect on a variable that it does
 * not know, an update with what each replica has of its own. */
WEFT_MUST_CHECK weft_status_t *weft_spread_analyse(const weft_graph_t *g, const weft_spread_options_t *o,
                                                   weft_spread_plan_t *out);
void weft_spread_plan_deinit(weft_spread_plan_t *p);
/* The dims of a set of bits, in order, at most WEFT_SPREAD_DIMS; returns how many. */
int weft_spread_list_dims(uint32_t bits, int64_t *dims);
/* "each replica's rows of the batch, along dimension 0": for messages and notes. */
void weft_spread_print(const weft_spread_t *s, weft_strbuf_t *out);

#endif /* WEFT_STRATEGIES_SPREAD_H_ */
