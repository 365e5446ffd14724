/* sharding/data/plan.h - how each value of a training graph is sharded over replicas that share a batch.
 *
 * Every replica will run a copy of the graph on rows [i*B/N, (i+1)*B/N) of each batch. This analysis gives
 * each output of each node, forward and backward alike, its sharding on the data axis (sharding/sharding.h),
 * and so says where communication must stand. It asks the op records, never what the model "is"; what has no
 * rule is computed once, on gathered inputs, or refused with the node's name.
 *
 * A dimension along which rows lie may be a multiple of the batch ([B, T] flattened to [B*T]): replica i has
 * the same fraction of it as of the batch, from the place where its fraction begins.
 *
 * The mean over a batch is Partial of degree 1, the sum Partial of degree 0; a gradient with respect to a
 * variable becomes Partial by the contraction over rows that made it, whatever the loss was.
 */
#ifndef WEFT_SHARDING_DATA_PLAN_H_
#define WEFT_SHARDING_DATA_PLAN_H_

#include "graph/graph.h"
#include "sharding/sharding.h"

/* How a node is run. */
typedef enum weft_node_run {
  WEFT_RUN_NOT,      /* not needed */
  WEFT_RUN_REPLICAS, /* a copy on every replica */
  WEFT_RUN_SINGLE,   /* replica 0 alone */
  WEFT_RUN_UPDATE,   /* an update of a variable: on every copy of it (mirrored), or once where it lives
                        (central) */
  WEFT_RUN_STATE,    /* a variable: as the strategy keeps variables */
} weft_node_run_t;

/* How copies of a node that draws random numbers get those of one device. */
typedef enum weft_draw_kind {
  WEFT_DRAW_NONE,  /* no such node, or it runs once, or its numbers depend on inputs that all have alike */
  WEFT_DRAW_SHARD, /* each draws its rows of the sequence, along `dim`, and moves on as if it had drawn all */
  WEFT_DRAW_REPLICATED, /* each draws all of the sequence; streams without seeds need common ones */
} weft_draw_kind_t;
typedef struct weft_data_draw {
  weft_draw_kind_t kind;
  int dim;        /* of the rows */
  int64_t factor; /* the dimension is that many times the batch; 0: the node is given the shape for the whole
                     batch */
} weft_data_draw_t;

/* The dims that a node works on, where its graph does not name them: those of a Squeeze without dims, and the
 * axes of a reduction that are worked out from shapes. Copies must name them: a dim of rows may be 1, or 0,
 * on a replica. */
typedef struct weft_data_named {
  bool is_named; /* all are known; else copies of a reduction take others from the step, too */
  uint32_t dims; /* bits */
  uint32_t kept; /* dims that it does not work on, whatever the step says */
} weft_data_named_t;
enum { WEFT_DATA_DIMS = 32 }; /* so many at most */

/* Where a required sharding differs from the producer's there is communication:
 *
 *   Partial, degree d                            -> Replicate    all-reduce of local * w^d
 *   Shard, degree d                              -> Replicate    all-gather of local * w^d
 *   Counts                                       -> Replicate    the elements of the mask are summed
 *   Single                                       -> Replicate    from replica 0 to all
 *   Partial, Shard, Replicate, Counts            -> Single       the true value on replica 0
 *   Replicate, Single                            -> Shard        slices
 *   Partial, degree d                            -> Shard        all-reduce, then slices
 *   the same kind and dimension, degree d to e                   local scale by w^(d-e), no communication
 */
typedef struct weft_data_plan {
  weft_arena_t arena;
  const weft_graph_t *graph;
  weft_node_run_t *run;            /* by node id */
  weft_axis_sharding_t **outputs;  /* by node id: of each output, as the node's copies make it */
  weft_axis_sharding_t **required; /* by node id: of each input, as the copies must be given it */
  weft_data_draw_t *draws;         /* by node id: how its copies get the random numbers of one device */
  weft_data_named_t *named;        /* by node id: dims that its copies must name */
  bool *prints_once; /* by node id: the copy on replica 0 alone prints, true values; the others only pass
                        input 0 on */
  weft_output_t
      *batches; /* placeholders that are split by rows, and outputs of readers (Single) that are batches */
  int num_batches;
  weft_node_t **batch_feeds; /* the placeholders alone */
  int num_batch_feeds;
  weft_str_t *notes; /* for people: what runs once and why, what is normalised per replica */
  int num_notes;
} weft_data_plan_t;

typedef struct weft_data_options {
  const weft_node_t *const *roots; /* all that will be fetched or run */
  int num_roots;
  const weft_node_t *const
      *batch; /* exactly these placeholders are batches; none: all whose first dimension is unknown */
  int num_batch;
  bool may_lack_batch; /* no error if there is no batch: initialisers */
} weft_data_options_t;

/* Does a node draw from a stream of numbers that goes on from run to run? Is the seed of its stream given? */
bool weft_draws_from_stream(const weft_node_t *n);
bool weft_has_seed(const weft_node_t *n);

/* Analyses what the roots need. `g` has lowered control flow and inferred shapes. Linear but for loops, where
 * it goes round until nothing changes. Errors: INVALID_ARGUMENT "... cannot be split over replicas:
 * <why>" with the node named: no batch dimension on any placeholder, a side effect on a variable that it does
 * not know, an update with what each replica has of its own. */
WEFT_MUST_CHECK weft_status_t *weft_data_analyse(const weft_graph_t *g, const weft_data_options_t *o,
                                                 weft_data_plan_t *out);
void weft_data_plan_deinit(weft_data_plan_t *p);
/* The dims of a set of bits, in order, at most WEFT_DATA_DIMS; returns how many. */
int weft_data_list_dims(uint32_t bits, int64_t *dims);

#endif /* WEFT_SHARDING_DATA_PLAN_H_ */
