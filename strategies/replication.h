/* strategies/replication.h - what the files of the replication engine share; for replicate*.c only.
 *
 * The phases, in order, each in a file of its own:
 *   replicate.c           prepares, analyses, drives, cleans up
 *   replicate_order.c     reads before the writes of the same step
 *   replicate_facts.c     what must be known of each node before anything is copied
 *   replicate_input.c     iterators that each task has a copy of
 *   replicate_central.c   variables that live once: where, and what else is computed there
 *   replicate_nodes.c     copies nodes onto replicas, inputs as they lie
 *   replicate_draws.c     copies of what draws random numbers
 *   replicate_batch_shards.c    rows per replica, slices, weights, checks of batches
 *   replicate_values.c    a value in the sharding that a consumer requires
 *   replicate_reductions.c      reductions over replicas: buckets and collectives
 *   replicate_accumulate.c  gradients added up over several steps
 *   replicate_skips.c     what is computed in steps that skip the update
 *   replicate_between.c   one client per worker: values exchanged by collectives
 *   replicate_roots.c     names of the request
 *   replicate_ties.c      a step runs a collective on all replicas or on none
 */
#ifndef WEFT_STRATEGIES_REPLICATION_H_
#define WEFT_STRATEGIES_REPLICATION_H_

#include "graph/passes.h"
#include "sharding/data/plan.h"
#include "strategies/copy.h"
#include "strategies/emit.h"
#include "strategies/prepare.h"
#include "strategies/replicate.h"

/* Of a node of the prepared graph. */
typedef struct weft_node_facts {
  uint64_t batches;  /* bit b: depends on plan.batches[b] (those beyond 63 count as 63) */
  bool is_single;    /* exists once in the new graph */
  bool has_effect;   /* it, or something before it, changes state, may fail the step on purpose, or waits for
                        all replicas */
  weft_str_t device; /* of a node that exists once: where; "": on the first replica's */
  int branches;      /* how many conditionals it stands in: it may be dead if there are any */
  int frame;         /* where its outputs are; 0: outside of loops */
  int depth;         /* longest way from the inputs: when it is ready, roughly */
  int level;         /* how many sums over replicas, at most, come before it */
  weft_node_t *variable;   /* its outputs carry a handle or reference of this one; NULL: none */
  weft_node_t *read;       /* the variable whose value it hands on; NULL: none */
  weft_node_t *first_read; /* of a variable, with option `caches`: the read that stands for those that wait
                              for nothing */
  weft_root_t *root;       /* NULL: not named by the request */
  bool needs_final;        /* its name goes to a node that unites the replicas' copies */
} weft_node_facts_t;

/* The shard of each replica in one batch. */
typedef struct weft_batch_shards {
  weft_output_t whole; /* int64 [1]: B */
  weft_output_t sizes; /* int64 [N]: B_i; after the check against the leader */
  weft_output_t
      *totals;       /* between workers: int64 [1]: the rows of all, by replica; NULL: not asked for yet */
  weft_node_t *each; /* sizes, one output per replica; NULL: not made yet */
  weft_output_t *places; /* by replica: where its rows lie; NULL: not made yet */
  int leader;            /* the batch whose rows this one's are compared with; itself: none */
} weft_batch_shards_t;

typedef struct weft_weights weft_weights_t;
typedef struct weft_replica_value weft_replica_value_t;
typedef struct weft_accumulation weft_accumulation_t;

/* A broadcast between workers. */
typedef struct weft_sent weft_sent_t;
struct weft_sent {
  weft_sent_t *next;
  const weft_node_t *of; /* of the source */
  weft_node_t **nodes;   /* by replica */
};

/* A collective: one node on each replica here. */
typedef struct weft_replica_collective weft_replica_collective_t;
struct weft_replica_collective {
  weft_replica_collective_t *next;
  weft_node_t **nodes; /* by replica */
};

/* An iterator of which each task reads its own part. */
typedef struct weft_own_input weft_own_input_t;
struct weft_own_input {
  weft_own_input_t *next;
  const weft_node_t *reader, *iterator; /* of the source */
  weft_node_t **readers;                /* by task */
  int64_t policy;                       /* of its AutoShardDataset */
  weft_node_t *end; /* fails once the data of all tasks have ended; NULL: not made yet, or not needed */
};

typedef struct weft_replication {
  const weft_replicate_options_t *o; /* borrowed */
  weft_rewrite_t *out;               /* borrowed; out->graph is `to` */
  weft_prepared_graph_t source;
  weft_data_plan_t plan;
  weft_arena_t arena;
  weft_graph_t *to;
  int n;                  /* replicas here */
  int total, first;       /* replicas of all workers; the number of the first one here */
  weft_copier_t *copiers; /* n */
  weft_emitter_t e;
  weft_node_t **order;      /* owned; of source.graph, producers first */
  weft_node_facts_t *facts; /* by id */
  weft_str_t *homes;        /* CENTRAL: by id of a variable: its device */
  weft_frames_t frames;
  int64_t common_seed; /* of what all replicas must draw alike and has no given seed; 0: not needed yet */
  weft_batch_shards_t *batch_shards; /* by batch */
  weft_weights_t *weights;           /* made so far */
  weft_replica_value_t **values;     /* by id: made so far */
  uint64_t fingerprint;              /* of what is summed: equal on all workers */
  uint64_t agreement;                /* of the request: equal on all workers, too */
  int32_t group_key, instance_key;   /* of all collectives here; of the next one */
  weft_output_t *group_size, *group; /* by replica: constants for collectives; made at the first */
  int num_reductions;
  weft_replica_collective_t *collectives; /* made so far, the last first */
  weft_accumulation_t *accumulation;      /* NULL: none yet */
  int num_tasks; /* with replicas, as many each; 0: they differ, or were not counted */
  weft_own_input_t *inputs;
  bool *copied_input;           /* by id: each task has its own, for an input; NULL: there is no such input */
  weft_copier_t *input_copiers; /* by task, but for the first; NULL: there is no such input */
  weft_sent_t *sent;            /* broadcasts made so far */
  weft_node_t *accumulate_init; /* what else must run before the first step; NULL: nothing */
} weft_replication_t;

/* On the prepared graph, before it is analysed: reads of a variable go before the writes of the step that
 * nothing orders otherwise; values read from references on other devices are copies. */
WEFT_MUST_CHECK weft_status_t *weft_replication_order_reads(weft_replication_t *r);
WEFT_MUST_CHECK weft_status_t *weft_replication_find_facts(weft_replication_t *r);
WEFT_MUST_CHECK weft_status_t *weft_replication_copy_nodes(weft_replication_t *r);
WEFT_MUST_CHECK weft_status_t *weft_replication_reduce(
    weft_replication_t *r); /* every Partial that a consumer requires as Replicate */
WEFT_MUST_CHECK weft_status_t *weft_replication_connect(
    weft_replication_t *r); /* inputs with another sharding than required */
WEFT_MUST_CHECK weft_status_t *weft_replication_finish_roots(weft_replication_t *r);
/* Decides which iterators each task reads for itself; copies them; gives each copy its part of the data. */
WEFT_MUST_CHECK weft_status_t *weft_replication_find_input(weft_replication_t *r);
WEFT_MUST_CHECK weft_status_t *weft_replication_copy_input(weft_replication_t *r);
WEFT_MUST_CHECK weft_status_t *weft_replication_finish_input(weft_replication_t *r);
/* Lets every step that runs a collective on one replica run it on all of them. */
WEFT_MUST_CHECK weft_status_t *weft_replication_tie_collectives(weft_replication_t *r);

static inline const weft_axis_sharding_t *weft_replication_sharding(const weft_replication_t *r,
                                                                    weft_output_t of) {
  return &r->plan.outputs[of.node->id][of.index];
}
static inline weft_node_facts_t *weft_replication_facts(const weft_replication_t *r, const weft_node_t *n) {
  return &r->facts[n->id];
}
/* Does this output carry a variable, not its value? */
static inline bool weft_carries_variable(const weft_node_t *n, int output) {
  return weft_dtype_is_ref(n->output_types[output]) || n->output_types[output] == WEFT_RESOURCE;
}
/* Is a value of this sharding on replica 0 what one device would have? */
static inline bool weft_is_true_sharding(const weft_axis_sharding_t *s) {
  return s->kind == WEFT_SHARDING_SINGLE || (s->kind == WEFT_SHARDING_REPLICATE && s->degree == 0) ||
         (s->kind == WEFT_SHARDING_COUNTS && s->rows == 0);
}

/* ---- variables that live once ---- */

/* Assigns variables to their devices. */
WEFT_MUST_CHECK weft_status_t *weft_replication_find_homes(weft_replication_t *r,
                                                           const weft_strategy_request_t *request);
/* Which nodes exist once, and where. Facts of all nodes are known but for these. */
WEFT_MUST_CHECK weft_status_t *weft_replication_find_single(weft_replication_t *r);
/* Where the copies of n go; "": on their replica. */
weft_str_t weft_replication_device_of(const weft_replication_t *r, const weft_node_t *n);
/* Where batches are fed and fetched values united. */
static inline weft_str_t weft_replication_host(const weft_replication_t *r) {
  return r->o->host.length > 0 ? r->o->host : r->o->devices[0];
}

/* As what input i of n is required: what lives once gets true values. */
weft_axis_sharding_t weft_replication_required(const weft_replication_t *r, const weft_node_t *n, int i);

/* Does one client drive one worker only? */
static inline bool weft_replication_is_between(const weft_replication_t *r) { return r->total != r->n; }

/* ---- rows ---- */

/* int64 [1]: how long x is along an axis. */
weft_output_t weft_replication_length(weft_emitter_t *e, weft_output_t x, int axis, weft_str_t name);
/* int64 [num]: floor((i+1)*B/num) - floor(i*B/num); whole: int64 [1], B. */
weft_output_t weft_replication_sizes(weft_replication_t *r, weft_output_t whole, int num, weft_str_t name);
/* out[k], k < num: parts of `whole` along `axis`, of these sizes (int64 [num]). */
void weft_replication_split(weft_replication_t *r, weft_output_t whole, weft_output_t sizes, int num,
                            int axis, weft_str_t name, weft_output_t *out);
/* out[k], k < n: rows [k*B/n, (k+1)*B/n) of x along axis 0; rows: int64 [1], B. On the emitter's device. */
void weft_replication_split_evenly(weft_replication_t *r, weft_output_t x, weft_output_t rows, int n,
                                   weft_str_t name, weft_output_t *out);

/* ---- batch shards ---- */

/* Splits batch b, if it is a placeholder, and makes copies on replicas use their slices. */
WEFT_MUST_CHECK weft_status_t *weft_replication_split_batch(weft_replication_t *r, int batch);
/* The sizes of a batch on each replica, made when first needed; its name; the device where it is fed. */
weft_batch_shards_t *weft_replication_batch_shards(weft_replication_t *r, int batch);
weft_str_t weft_replication_batch_name(const weft_replication_t *r, int batch);
weft_str_t weft_replication_batch_device(const weft_replication_t *r, int batch);
/* The lowest batch that `n` depends on; 0 if none is known. */
int weft_replication_batch_of(const weft_replication_t *r, const weft_node_t *n);
/* out[i]: rows i of `whole` along `axis`: that fraction of them that replica i has of the batch. */
void weft_replication_slice(weft_replication_t *r, int batch, weft_output_t whole, int axis,
                            weft_output_t *out);
/* local * (B_i/B)^exponent on replica i, exactly zero without rows if exponent > 0. `of`: the source, for
 * messages. */
weft_output_t weft_replication_scale(weft_replication_t *r, weft_output_t of, weft_output_t local,
                                     int exponent, int replica);
/* What replica i adds to a sum over replicas: local * (B_i/B)^degree, exactly zero without rows if it may be
 * no number then. */
weft_output_t weft_replication_part(weft_replication_t *r, weft_output_t of, weft_output_t local, int degree,
                                    int replica);
/* int64 [1]: the rows of a batch. int64: those that a replica has. */
weft_output_t weft_replication_rows(weft_replication_t *r, int batch);
weft_output_t weft_replication_rows_on(weft_replication_t *r, int batch, int replica);
/* int64 [3]: where the rows of a replica begin in the batch of all workers, how many they are, and the rows
 * of all. */
weft_output_t weft_replication_place(weft_replication_t *r, int batch, int replica);
/* The rows of a replica of `whole`, which stands for `of` on it: sliced there, without communication, also
 * inside loops. */
weft_output_t weft_replication_slice_on(weft_replication_t *r, weft_output_t of, weft_output_t whole,
                                        int axis, int replica);
/* Lets the step of this node fail where batches that only it joins have different numbers of rows. */
void weft_replication_check_joined(weft_replication_t *r, const weft_node_t *source, weft_node_t *made);

/* ---- random numbers ---- */

/* Does n draw from a stream on each replica that must stay in step with the others'? */
bool weft_replication_draws_in_step(const weft_replication_t *r, const weft_node_t *n);
/* The copy of a node that draws rows. */
WEFT_MUST_CHECK weft_status_t *weft_replication_copy_draw(weft_replication_t *r, const weft_node_t *n,
                                                          weft_str_t name, int replica);
/* Gives the copy of a node that all replicas must draw alike a common seed if it has none. */
WEFT_MUST_CHECK weft_status_t *weft_replication_share_seed(weft_replication_t *r, const weft_node_t *n,
                                                           weft_node_t *copy);
/* A value from outside of loops as a replica's nodes in a frame see it. Errors go to the emitter. */
weft_output_t weft_replication_enter(weft_replication_t *r, weft_output_t value, int frame, int replica);

/* ---- input ---- */

/* The input that a node of the source reads; NULL: it is none that each task reads for itself. */
const weft_own_input_t *weft_replication_own_input(const weft_replication_t *r, const weft_node_t *n);
/* Fills whole, sizes and leader, from the rows that each task has read. */
void weft_replication_own_shards(weft_replication_t *r, int batch, weft_batch_shards_t *shards);
/* Is there an end that a step waits for, which weft_replication_batch_shards() of the reader's batch makes?
 * It then comes before what follows. */
bool weft_replication_own_ends(const weft_own_input_t *in);
/* out[i]: replica i's rows of output `index`, on its task. */
void weft_replication_own_slices(weft_replication_t *r, const weft_own_input_t *in, int index,
                                 weft_output_t *out);
/* The rows of all tasks, on the emitter's device. */
weft_output_t weft_replication_own_joined(weft_replication_t *r, const weft_own_input_t *in, int index);

/* ---- values ---- */

/* What stands for `of` on replica i, as it is. */
static inline weft_output_t weft_replication_local(const weft_replication_t *r, weft_output_t of,
                                                   int replica) {
  return weft_copier_output(&r->copiers[replica], of);
}
/* `of` as required on a replica. A true value (Single) is made on `device`. */
weft_output_t weft_replication_value(weft_replication_t *r, weft_output_t of,
                                     const weft_axis_sharding_t *required, int replica, weft_str_t device);
/* The rows of this worker's replicas, in order, weighted, on replica 0. */
weft_output_t weft_replication_own_rows(weft_replication_t *r, weft_output_t of);
/* Remembers values (n of them, copied) so that weft_replication_value gives these. */
void weft_replication_remember(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *required,
                               weft_str_t device, const weft_output_t *values);
/* Can this type be all-reduced? */
bool weft_collective_takes(int dtype);
/* The constants that name the group, once. */
WEFT_MUST_CHECK weft_status_t *weft_replication_make_group(weft_replication_t *r);
void weft_replication_tie(weft_replication_t *r, const char *name, weft_output_t *values);
/* A collective on every replica here; values[i] is its input and becomes its result. More inputs and
 * attributes come behind the three of the group. `op` takes (input, group_size, group_key, instance_key).
 * Counts one instance. */
void weft_replication_collective(weft_replication_t *r, const char *op, const weft_named_attr_t *attrs,
                                 int num_attrs, const char *name, weft_output_t *values);

/* ---- between workers ---- */

/* Where each replica's rows lie in the batch of all workers: int64 [3], as weft_replication_place. */
void weft_replication_places_between(weft_replication_t *r, int batch, weft_output_t *out);
/* The rows of all workers' batches, on each replica. Errors go to the emitter, as for all of these. */
void weft_replication_total_rows(weft_replication_t *r, int batch, weft_output_t *out);
/* values[i], which stands for an output of `of`, becomes what replica `root` of all has. Types that cannot be
 * sent stay. */
void weft_replication_broadcast(weft_replication_t *r, const weft_node_t *of, int root,
                                weft_output_t *values);
/* values[i] becomes all replicas' rows in order. */
void weft_replication_gather(weft_replication_t *r, weft_output_t *values);
/* values[i] becomes the sum over all replicas. */
void weft_replication_add(weft_replication_t *r, weft_output_t *values);
/* Initialisers take what replica 0 of all has, and check that all workers rewrote the same graph. */
WEFT_MUST_CHECK weft_status_t *weft_replication_agree(weft_replication_t *r);
/* Marks by id what the roots of the step reach, or those of the initialisation. */
WEFT_MUST_CHECK weft_status_t *weft_replication_mark_reached(const weft_replication_t *r, bool inits,
                                                             bool *reached);

/* ---- accumulation ---- */

/* With accumulation: values[i] (local, unweighted) is added to what replica i keeps, weighted by rows^degree;
 * in the step that applies, and only there, values[i] is that sum afterwards. Divides the sum over replicas:
 * weft_replication_per_row. */
void weft_replication_accumulate(weft_replication_t *r, weft_output_t of, const weft_shape_t *shape,
                                 weft_output_t *values, int degree);
/* sum / (rows of all steps since the last that applied)^degree. */
void weft_replication_per_row(weft_replication_t *r, weft_output_t of, weft_output_t *values, int degree);
/* Other updates of the step wait for the step that applies. */
WEFT_MUST_CHECK weft_status_t *weft_replication_gate_updates(weft_replication_t *r);
/* bool, on replica 0: does this step apply? Only with accumulation. */
weft_output_t weft_replication_is_last(const weft_replication_t *r);
/* On the new graph: what only comes after updates is computed in steps that skip them, too. Errors:
 * INVALID_ARGUMENT naming a fetch that would be missing there. */
WEFT_MUST_CHECK weft_status_t *weft_replication_follow_skipped(weft_replication_t *r);

#endif /* WEFT_STRATEGIES_REPLICATION_H_ */
