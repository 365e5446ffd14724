/* strategies/spread_rules.h - what the files of the spread analysis share; for this folder only.
 *
 * A rule says for one node, given how its inputs are spread, how it wants them and
 * how its outputs are spread then. Rules see one node at a time and may be asked
 * again when an input changes (loops). The table is spread_rules.def: an op gets a
 * rule by one line there; ops that the op table describes well enough (elementwise
 * ones, updates, placeholders, control flow) need none.
 */
#ifndef WEFT_STRATEGIES_SPREAD_RULES_H_
#define WEFT_STRATEGIES_SPREAD_RULES_H_

#include "strategies/spread.h"

/* ---- small vectors of integers whose value is known, if only as a multiple of the batch ---- */

typedef enum weft_count_of {
  WEFT_COUNT_PLAIN, /* a number like any other, the same everywhere */
  WEFT_COUNT_ROWS,  /* value * B_i on replica i */
  WEFT_COUNT_ALL,   /* value * B on every replica */
} weft_count_of_t;
typedef struct weft_spread_int {
  int64_t value; /* if known */
  bool known;
  weft_count_of_t of;
} weft_spread_int_t;
enum { WEFT_SPREAD_INTS = 64 };
/* Either items, or (is_set) axes of which one knows that they are among them (in) or might be (maybe, which
 * has those of `in`, too). Constant. */
typedef struct weft_spread_ints {
  int n;
  int columns; /* of a matrix, row by row; 0: it is none */
  bool is_scalar, is_set;
  uint32_t in, maybe;
  uint32_t ones; /* of a set: axes along which there is nothing to add up, which the op names nevertheless
                    where both sides have length 1 */
  int pick; /* what counts rows counts those of this choice (spread_pick.c), not those of the batch; 0: of the
               batch */
  weft_spread_int_t items[];
} weft_spread_ints_t;

/* ---- values ---- */

typedef struct weft_spread_value weft_spread_value_t;
struct weft_spread_value {
  weft_spread_t s;
  int whole;      /* SAME, ONCE, PART: the whole batch lies along this axis; -1: not that we know */
  int64_t factor; /* ROWS, whole: the dimension is that many times the batch; 0: not known */
  int rank;       /* as far as it is known here; -1: the graph may know */
  bool zero;      /* all elements are 0: it has every degree */
  bool is_hollow; /* on a replica without rows it is no number: a mean over nothing, or made of one */
  int lacking;    /* SHAPE, SAME: on a replica without rows it is another number than elsewhere: max(rows, 1),
                     and what is divided by    that. It may go into rows and parts; what else needs it asks for
                     true    numbers there: 1 + the id of that node.    0: it is no such thing */
  bool is_batch;  /* ONCE: a reader's batch: consumers take rows of it */
  bool is_state;  /* a variable, or its handle */
  int own;  /* EACH: indices whose first column numbers a replica's own rows, `factor` times those of the
               batch;  1 + the id of the Range that made the numbers; 0: it is no such thing */
  int pick; /* ROWS of axis 0, EACH: only the rows of this choice (spread_pick.c); 0: all */
  const weft_spread_ints_t *ints; /* NULL: not known */
  const weft_spread_ints_t *dims; /* its shape, where a Reshape says it; NULL: the graph may know */
  int cell; /* EACH: where the elements of a TensorArray or stack are described; 0: none */
  const weft_spread_value_t *element; /* EACH: of a list: its elements; NULL: none yet */
  bool takes_whole;                   /* EACH: a list into which whole values are put (spread_whole.c) */
};

typedef struct weft_spread_analysis weft_spread_analysis_t; /* spread_analysis.h */

typedef struct weft_spread_ctx {
  weft_spread_analysis_t *analysis;
  const weft_node_t *node;
  const weft_spread_value_t *in; /* num_inputs; none is NONE, but in Merge */
  weft_spread_t *wanted;         /* num_inputs; at the start as they are */
  weft_spread_value_t *out;      /* num_outputs; at the start SAME. In Merge: of the last round, or NONE */
  weft_node_run_t run;           /* at the start EACH */
  weft_spread_draw_t draw;       /* see spread.h */
  weft_spread_named_t named;     /* see spread.h */
  bool prints_once;              /* see spread.h */
  int detail;                    /* what the table says for the op */
} weft_spread_ctx_t;

/* Errors: INVALID_ARGUMENT made by weft_spread_refuse; RESOURCE_EXHAUSTED. */
typedef weft_status_t *weft_spread_rule_fn(weft_spread_ctx_t *c);

/* How an elementwise op treats sums of parts and factors. */
typedef enum weft_spread_form {
  WEFT_FORM_NONLINEAR,
  WEFT_FORM_LINEAR,   /* of its first input; others only look on */
  WEFT_FORM_SUM,      /* all inputs added, with signs */
  WEFT_FORM_PRODUCT,  /* linear in each input */
  WEFT_FORM_QUOTIENT, /* linear in input 0, divided by input 1 */
  WEFT_FORM_CHOICE,   /* input 0 chooses between 1 and 2 */
  WEFT_FORM_GRAD0,    /* linear in input 0, anything in the others: ReluGrad */
  WEFT_FORM_GRAD1,    /* linear in input 1: TanhGrad */
  WEFT_FORM_SHAPE,    /* only the shape of input 0 matters: ZerosLike */
} weft_spread_form_t;

/* ---- spread_value.c ---- */

static inline weft_spread_t weft_spread_same(int degree) {
  return (weft_spread_t){.kind = WEFT_SPREAD_SAME, .degree = degree};
}
static inline weft_spread_t weft_spread_rows(int axis, int degree) {
  return (weft_spread_t){.kind = WEFT_SPREAD_ROWS, .axis = axis, .degree = degree};
}
static inline weft_spread_t weft_spread_part(int degree) {
  return (weft_spread_t){.kind = WEFT_SPREAD_PART, .degree = degree};
}
static inline weft_spread_t weft_spread_of(weft_spread_kind_t kind) { return (weft_spread_t){.kind = kind}; }
bool weft_spread_eq(const weft_spread_t *a, const weft_spread_t *b);
weft_spread_value_t weft_spread_value(weft_spread_t s); /* and nothing else known of it */
bool weft_spread_value_eq(const weft_spread_value_t *a, const weft_spread_value_t *b);
/* What the value is worth once every replica (or replica 0) has the true one. */
weft_spread_value_t weft_spread_true_value(weft_spread_ctx_t *c, const weft_spread_value_t *v,
                                           weft_spread_kind_t kind);
/* "... cannot be shared out over replicas: why" */
weft_status_t *weft_spread_refuse(const weft_node_t *n, const char *why, ...) WEFT_PRINTF(2, 3);
/* Static shape of an input or output; unknown before inference. */
const weft_shape_t *weft_spread_in_shape(const weft_spread_ctx_t *c, int input);
const weft_shape_t *weft_spread_out_shape(const weft_spread_ctx_t *c, int output);
bool weft_spread_has_fraction(int dtype); /* can be scaled */
/* All inputs as they truly are, on every replica. False if some cannot be had so. */
bool weft_spread_want_true(weft_spread_ctx_t *c);
/* The rule of what has none: once, on true inputs; or on every replica if those have them anyway. */
weft_spread_rule_fn weft_spread_once;
/* All replicas compute the same from gathered inputs: for what is needed everywhere anyway. */
weft_spread_rule_fn weft_spread_everywhere;
/* Passes on input `i`, with all that is known, as output `o`. */
void weft_spread_pass(weft_spread_ctx_t *c, int i, int o);

/* ---- spread_ints.c, spread_ints_compute.c ---- */

const weft_spread_ints_t *weft_spread_ints_of_tensor(const weft_spread_ctx_t *c, const weft_tensor_t *t);
/* The shape of a value as integers; NULL if the rank is not known. */
const weft_spread_ints_t *weft_spread_ints_of_shape(const weft_spread_ctx_t *c, const weft_shape_t *shape,
                                                    const weft_spread_value_t *v);
weft_spread_value_t weft_spread_ints_value(const weft_spread_ints_t *ints); /* SHAPE or SAME */
bool weft_spread_ints_eq(const weft_spread_ints_t *a, const weft_spread_ints_t *b);
const weft_spread_ints_t *weft_spread_ints_join(const weft_spread_ctx_t *c, const weft_spread_ints_t *a,
                                                const weft_spread_ints_t *b);
/* Computes the node on integers alone. False if it is not such a node. */
bool weft_spread_ints_compute(weft_spread_ctx_t *c);
/* Axes among the ints, negative ones counted from `rank`. False if one is not known. */
bool weft_spread_axes(const weft_spread_ints_t *ints, int rank, uint32_t *in, uint32_t *maybe);
bool weft_spread_int_at(const weft_spread_ints_t *ints, int i, int64_t *out); /* a plain known number */

/* ---- spread_elementwise.c ---- */
weft_status_t *weft_spread_apply_form(weft_spread_ctx_t *c, weft_spread_form_t form);

/* ---- spread_node.c ---- */
/* Zeroed, until the analysis ends. NULL without memory: the caller may go on with less; the analysis fails.
 */
void *weft_spread_alloc(const weft_spread_ctx_t *c, size_t bytes);

/* ---- spread_shapes.c ---- */
const weft_shape_t *weft_spread_shape_of(const weft_spread_analysis_t *a, const weft_node_t *n, int output);

/* ---- spread_cells.c ---- */
/* The description of what a TensorArray or stack holds: joined with `v` if it is given. */
weft_status_t *weft_spread_cell_put(weft_spread_ctx_t *c, int cell, const weft_spread_value_t *v);
const weft_spread_value_t *weft_spread_cell_get(const weft_spread_ctx_t *c, int cell);
/* The cell of a new TensorArray or stack; of the gradient `source` of TensorArray `of`. */
weft_status_t *weft_spread_cell_new(weft_spread_ctx_t *c, int of, weft_str_t source, int *out);

/* ZerosLike and AddN of lists. */
weft_status_t *weft_spread_list_zeros(weft_spread_ctx_t *c);
weft_status_t *weft_spread_list_sum(weft_spread_ctx_t *c);

/* ---- spread.c ---- */
weft_status_t *weft_spread_note(weft_spread_analysis_t *a, const char *fmt, ...) WEFT_PRINTF(2, 3);
/* Asks that what the list of input 0 was made of be cut into rows along `axis` of an element; the analysis
 * goes round once more then. False if that was asked for before, or it is not known what the list was made
 * of. */
bool weft_spread_force_list(weft_spread_ctx_t *c, int axis);
/* Asks that the node `id` be given true values; the analysis goes round once more then. */
void weft_spread_force_true(weft_spread_ctx_t *c, int id);

bool weft_spread_in_loop(const weft_spread_ctx_t *c);

/* ---- spread_pick.c ---- */
/* Which choice of rows this value carries; 0: none. */
int weft_spread_pick_in(const weft_spread_value_t *v);
/* The number of a choice: part `part` of rows dealt out by `by`. 0 without memory. */
int weft_spread_pick_of(weft_spread_ctx_t *c, weft_output_t by, int part, int num_parts);
/* Asks for a node that is given chosen rows; `in` is c->in. */
WEFT_MUST_CHECK weft_status_t *weft_spread_with_picks(weft_spread_ctx_t *c, weft_spread_value_t *in,
                                                      weft_spread_rule_fn *ask);

/* ---- the rules of the table ---- */
/* The detail of weft_spread_random: can a part of the numbers be drawn alone? */
enum { WEFT_RANDOM_WHOLE, WEFT_RANDOM_BY_ROWS };
weft_spread_rule_fn weft_spread_elementwise, weft_spread_add_bias, weft_spread_bias_grad, weft_spread_reduce,
    weft_spread_l2_loss, weft_spread_arg, weft_spread_matmul, weft_spread_batch_matmul, weft_spread_einsum,
    weft_spread_each_row, weft_spread_pool_with_indices, weft_spread_conv_filter, weft_spread_conv_input,
    weft_spread_batch_norm, weft_spread_batch_norm_grad, weft_spread_segment, weft_spread_cumulate;
weft_spread_rule_fn weft_spread_reshape, weft_spread_expand, weft_spread_squeeze, weft_spread_transpose,
    weft_spread_concat, weft_spread_split, weft_spread_pack, weft_spread_unpack, weft_spread_slice,
    weft_spread_strided_slice, weft_spread_strided_slice_grad, weft_spread_pad, weft_spread_tile,
    weft_spread_broadcast, weft_spread_fill, weft_spread_gather, weft_spread_gather_nd, weft_spread_one_hot,
    weft_spread_select, weft_spread_reverse, weft_spread_reverse_sequence, weft_spread_scatter_nd,
    weft_spread_tensor_scatter, weft_spread_range, weft_spread_empty;
weft_spread_rule_fn weft_spread_metadata, weft_spread_pass_all, weft_spread_switch, weft_spread_merge,
    weft_spread_new_array, weft_spread_array_grad, weft_spread_array_write, weft_spread_array_scatter,
    weft_spread_array_read, weft_spread_array_gather, weft_spread_array_size, weft_spread_new_stack,
    weft_spread_push, weft_spread_pop, weft_spread_new_list, weft_spread_list_put, weft_spread_list_get,
    weft_spread_list_same, weft_spread_list_from, weft_spread_optional_from, weft_spread_optional_get,
    weft_spread_list_stack, weft_spread_list_gather, weft_spread_list_scatter, weft_spread_own;
weft_spread_rule_fn weft_spread_update, weft_spread_state, weft_spread_read, weft_spread_look_on,
    weft_spread_show, weft_spread_random, weft_spread_partition, weft_spread_stitch,
    weft_spread_random_choice, weft_spread_shuffle, weft_spread_batch_reader, weft_spread_placeholder,
    weft_spread_constant;

/* For tests of the table. */
const char *weft_spread_rule_op(int i); /* of line i; NULL after the last */
bool weft_spread_has_rule(const weft_op_def_t *op);

#endif /* WEFT_STRATEGIES_SPREAD_RULES_H_ */
