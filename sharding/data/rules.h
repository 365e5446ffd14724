/* sharding/data/rules.h - what the files of the analysis share; for this folder only.
 *
 * A rule says for one node, given the shardings of its inputs, which it requires and
 * which its outputs have then. Rules see one node at a time and may be asked
 * again when an input changes (loops). An op's record names its rule (ops/batch_rule.h);
 * ops that their flags describe well enough (elementwise ones, updates, placeholders,
 * control flow) need none.
 */
#ifndef WEFT_SHARDING_DATA_RULES_H_
#define WEFT_SHARDING_DATA_RULES_H_

#include "sharding/data/plan.h"

/* ---- small vectors of integers whose value is known, if only as a multiple of the batch ---- */

typedef enum weft_count_of {
  WEFT_COUNT_PLAIN, /* a number like any other, the same everywhere */
  WEFT_COUNT_ROWS,  /* value * B_i on replica i */
  WEFT_COUNT_ALL,   /* value * B on every replica */
} weft_count_of_t;
typedef struct weft_data_int {
  int64_t value; /* if known */
  bool known;
  weft_count_of_t of;
} weft_data_int_t;
enum { WEFT_DATA_INTS = 64 };
/* Either items, or (is_set) axes of which one knows that they are among them (in) or might be (maybe, which
 * has those of `in`, too). Constant. */
typedef struct weft_data_ints {
  int n;
  int columns; /* of a matrix, row by row; 0: it is none */
  bool is_scalar, is_set;
  uint32_t in, maybe;
  uint32_t ones; /* of a set: axes along which there is nothing to add up, which the op names nevertheless
                    where both sides have length 1 */
  int pick;      /* what counts rows counts those of this choice (pick.c), not those of the batch; 0: of the
                    batch */
  weft_data_int_t items[];
} weft_data_ints_t;

/* ---- values ---- */

typedef struct weft_data_value weft_data_value_t;
struct weft_data_value {
  weft_axis_sharding_t s;
  int whole;      /* Replicate, Single, Partial: the whole batch lies along this axis; -1: not known to */
  int64_t factor; /* Shard, whole: the dimension is that many times the batch; 0: not known */
  int rank;       /* as far as it is known here; -1: the graph may know */
  bool zero;      /* all elements are 0: it has every degree */
  bool is_hollow; /* on a replica without rows it may be NaN: a mean over nothing, a part of nothing divided
                     by 0, or computed from one */
  int lacking;    /* Shape, Replicate: differs on a replica without rows: max(rows, 1), or a quotient by it.
                     Shards and Partials may use it; any other consumer requires the true numbers of the node
                     with this id + 1. 0: it does not differ */
  bool is_batch;  /* Single: a reader's batch: consumers take rows of it */
  bool is_state;  /* a variable, or its handle */
  int own; /* Local: indices with a replica's own rows in the first column, `factor` times those of the batch;
              1 + the id of the Range that made them; 0: they are not */
  int pick;                     /* Shard of axis 0, Local: only the rows of this choice (pick.c); 0: all */
  const weft_data_ints_t *ints; /* NULL: not known */
  const weft_data_ints_t *dims; /* its shape, where a Reshape says it; NULL: the graph may know */
  int cell; /* Local: the cell that describes the elements of a TensorArray or stack; 0: none */
  const weft_data_value_t *element; /* Local: of a list: its elements; NULL: none yet */
  bool takes_whole;                 /* Local: a list into which whole values are put (whole.c) */
};

typedef struct weft_data_analysis weft_data_analysis_t; /* analysis.h */

typedef struct weft_data_ctx {
  weft_data_analysis_t *analysis;
  const weft_node_t *node;
  const weft_data_value_t *in;    /* num_inputs; none is NONE, but in Merge */
  weft_axis_sharding_t *required; /* num_inputs; at the start as they are */
  weft_data_value_t *out;  /* num_outputs; at the start Replicate. In Merge: of the last round, or NONE */
  weft_node_run_t run;     /* at the start WEFT_RUN_REPLICAS */
  weft_data_draw_t draw;   /* see plan.h */
  weft_data_named_t named; /* see plan.h */
  bool prints_once;        /* see plan.h */
} weft_data_ctx_t;

/* Errors: INVALID_ARGUMENT made by weft_data_refuse; RESOURCE_EXHAUSTED. */
typedef weft_status_t *weft_data_rule_fn(weft_data_ctx_t *c);

/* ---- value.c ---- */

/* A value of which nothing else is known. */
static inline weft_data_value_t weft_data_value(weft_axis_sharding_t s) {
  return (weft_data_value_t){.s = s, .whole = -1, .rank = -1};
}
bool weft_data_value_eq(const weft_data_value_t *a, const weft_data_value_t *b);
/* What the value is worth once every replica (or replica 0) has the true one. */
weft_data_value_t weft_data_true_value(weft_data_ctx_t *c, const weft_data_value_t *v,
                                       weft_sharding_kind_t kind);
/* "... cannot be split over replicas: why" */
weft_status_t *weft_data_refuse(const weft_node_t *n, const char *why, ...) WEFT_PRINTF(2, 3);
/* Static shape of an input or output; unknown before inference. */
const weft_shape_t *weft_data_in_shape(const weft_data_ctx_t *c, int input);
const weft_shape_t *weft_data_out_shape(const weft_data_ctx_t *c, int output);
bool weft_data_has_fraction(int dtype); /* can be scaled */
/* All inputs as they truly are, on every replica. False if some cannot be had so. */
bool weft_data_require_true(weft_data_ctx_t *c);
/* The rule of what has none: once, on true inputs; or on every replica if those have them anyway. */
weft_data_rule_fn weft_data_single;
/* All replicas compute the same from gathered inputs: for what is needed everywhere anyway. */
weft_data_rule_fn weft_data_replicate_all;
/* Passes on input `i`, with all that is known, as output `o`. */
void weft_data_pass(weft_data_ctx_t *c, int i, int o);

/* ---- ints.c, ints_compute.c ---- */

const weft_data_ints_t *weft_data_ints_of_tensor(const weft_data_ctx_t *c, const weft_tensor_t *t);
/* The shape of a value as integers; NULL if the rank is not known. */
const weft_data_ints_t *weft_data_ints_of_shape(const weft_data_ctx_t *c, const weft_shape_t *shape,
                                                const weft_data_value_t *v);
weft_data_value_t weft_data_ints_value(const weft_data_ints_t *ints); /* Shape or Replicate */
bool weft_data_ints_eq(const weft_data_ints_t *a, const weft_data_ints_t *b);
const weft_data_ints_t *weft_data_ints_join(const weft_data_ctx_t *c, const weft_data_ints_t *a,
                                            const weft_data_ints_t *b);
/* Computes the node on integers alone. False if it is not such a node. */
bool weft_data_ints_compute(weft_data_ctx_t *c);
/* Axes among the ints, negative ones counted from `rank`. False if one is not known. */
bool weft_data_axes(const weft_data_ints_t *ints, int rank, uint32_t *in, uint32_t *maybe);
bool weft_data_int_at(const weft_data_ints_t *ints, int i, int64_t *out); /* a plain known number */

/* ---- node.c ---- */
/* Zeroed, until the analysis ends. NULL without memory: the caller may go on with less; the analysis fails.
 */
void *weft_data_alloc(const weft_data_ctx_t *c, size_t bytes);

/* ---- shapes.c ---- */
const weft_shape_t *weft_data_shape_of(const weft_data_analysis_t *a, const weft_node_t *n, int output);

/* ---- cells.c ---- */
/* The description of what a TensorArray or stack holds: joined with `v` if it is given. */
weft_status_t *weft_data_cell_put(weft_data_ctx_t *c, int cell, const weft_data_value_t *v);
const weft_data_value_t *weft_data_cell_get(const weft_data_ctx_t *c, int cell);
/* The cell of a new TensorArray or stack; of the gradient `source` of TensorArray `of`. */
weft_status_t *weft_data_cell_new(weft_data_ctx_t *c, int of, weft_str_t source, int *out);

/* ZerosLike and AddN of lists. */
weft_status_t *weft_data_list_zeros(weft_data_ctx_t *c);
weft_status_t *weft_data_list_sum(weft_data_ctx_t *c);

/* ---- analyse.c ---- */
weft_status_t *weft_data_note(weft_data_analysis_t *a, const char *fmt, ...) WEFT_PRINTF(2, 3);
/* Asks that what the list of input 0 was made of be cut into rows along `axis` of an element; the analysis
 * goes round once more then. False if that was asked for before, or it is not known what the list was made
 * of. */
bool weft_data_force_list(weft_data_ctx_t *c, int axis);
/* Asks that the node `id` be given true values; the analysis goes round once more then. */
void weft_data_force_true(weft_data_ctx_t *c, int id);

bool weft_data_in_loop(const weft_data_ctx_t *c);

/* ---- pick.c ---- */
/* Which choice of rows this value carries; 0: none. */
int weft_data_pick_in(const weft_data_value_t *v);
/* The number of a choice: part `part` of rows that are partitioned by `by`. 0 without memory. */
int weft_data_pick_of(weft_data_ctx_t *c, weft_output_t by, int part, int num_parts);
/* Asks for a node that is given chosen rows; `in` is c->in. */
WEFT_MUST_CHECK weft_status_t *weft_data_with_picks(weft_data_ctx_t *c, weft_data_value_t *in,
                                                    weft_data_rule_fn *ask);

/* ---- the rules of the table ---- */
weft_data_rule_fn weft_data_elementwise, weft_data_reduce, weft_data_by_factors, weft_data_batch_norm,
    weft_data_batch_norm_grad, weft_data_segment;
weft_data_rule_fn weft_data_reshape, weft_data_expand, weft_data_squeeze, weft_data_concat, weft_data_pack,
    weft_data_slice, weft_data_strided_slice, weft_data_strided_slice_grad, weft_data_tile,
    weft_data_broadcast, weft_data_fill, weft_data_gather, weft_data_gather_nd, weft_data_one_hot,
    weft_data_scatter_nd, weft_data_range, weft_data_empty;
weft_data_rule_fn weft_data_metadata, weft_data_pass_all, weft_data_switch, weft_data_merge,
    weft_data_new_array, weft_data_array_grad, weft_data_array_write, weft_data_array_scatter,
    weft_data_array_read, weft_data_array_gather, weft_data_array_size, weft_data_new_stack, weft_data_push,
    weft_data_pop, weft_data_new_list, weft_data_list_put, weft_data_list_get, weft_data_list_same,
    weft_data_list_from, weft_data_optional_from, weft_data_optional_get, weft_data_list_stack,
    weft_data_list_gather, weft_data_list_scatter, weft_data_own;
weft_data_rule_fn weft_data_update, weft_data_state, weft_data_read, weft_data_look_on, weft_data_show,
    weft_data_random, weft_data_partition, weft_data_stitch, weft_data_random_choice, weft_data_shuffle,
    weft_data_batch_reader, weft_data_placeholder, weft_data_constant;

/* The function of the rule in the op's record, or of its factor notation; NULL: the record leaves it to the
 * flags. */
weft_data_rule_fn *weft_data_rule_of(const weft_op_def_t *op);
/* Does the record or a flag say how the op treats rows? Others run once. For tests of the table. */
bool weft_data_has_rule(const weft_op_def_t *op);

#endif /* WEFT_SHARDING_DATA_RULES_H_ */
