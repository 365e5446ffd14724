/* strategies/parameter_server_sync.h - what both sides of a synchronous update share; for
 * parameter_server_*.c only. */
#ifndef WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_
#define WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_

#include "strategies/emit.h"
#include "strategies/parameter_server.h"

/* A partition point: a value that workers compute and of which the update takes the mean over workers. */
typedef struct weft_ps_aggregate weft_ps_aggregate_t;
struct weft_ps_aggregate {
  const weft_node_t *update;          /* of the source graph: the update, or what was moved to its side */
  int input;                          /* of update */
  const weft_ps_aggregate_t *same_as; /* the first point with the same value; NULL: this is the first */
  const weft_node_t *rows_of; /* the node with the row numbers at input `indices`: the update, or the op that
                                 makes rows unique */
  int indices;                /* -1: dense */
  int server;
  bool scales; /* by the worker's fraction of all batches */
  int degree;  /* of the value: 1 a mean over rows, 0 a sum */
  weft_dtype_t dtype;
  weft_shape_t shape;        /* of the value; of the variable, if it is sparse */
  weft_output_t accumulator; /* the accumulator, in the new graph */
  weft_output_t mean, rows;  /* taken from the accumulator; rows only if it is sparse */
};

typedef struct weft_ps_sync { /* Confined. */
  weft_ps_t *p;
  weft_emitter_t b; /* on server 0 */
  bool *depends;    /* by source id: depends on a worker's own batch */
  bool *follows;    /* by source id: its value comes from an update */
  bool *waits;      /* by source id: it comes after an update */
  bool *moved;      /* by source id: computed in the update's part, from means: clipping, norms */
  int *home;        /* by source id: on which server, if moved */
  const weft_node_t *
      *todo; /* an explicit stack for depth-first walks; each walk pushes a node at most once */
  int num_todo;
  bool *is_local; /* by id of the analysed graph: a worker's value differs from that of the whole batch */
  bool ignores_sharding; /* updates take means of the workers' values, whatever their sharding */
  weft_ps_aggregate_t *aggregates;
  int num_aggregates, max_aggregates, num_updates, required; /* gradients per update */
  weft_output_t step, dropped;                               /* handles of int64 variables */
  weft_output_t *tokens, *verdicts; /* queues by worker; verdicts only with backup workers */
  weft_output_t arrivals;           /* an accumulator of one-hot vectors; only with backup workers */
} weft_ps_sync_t;

/* Is n a source of the worker's data (a feed, a reader)? */
bool weft_ps_is_source(const weft_ps_sync_t *s, const weft_node_t *n);
/* Finds the partition points and the nodes that move to the update's part. Errors: INVALID_ARGUMENT naming a
 * node that allows neither. */
WEFT_MUST_CHECK weft_status_t *weft_ps_find_aggregates(weft_ps_sync_t *s);
/* The power of (its rows / all rows) by which a worker's copy of n scales that input; 0: not scaled. */
int weft_ps_rescale(const weft_ps_sync_t *s, const weft_node_t *n, int input);
/* The partition point at input i of an update, or at its indices; NULL: none. */
weft_ps_aggregate_t *weft_ps_aggregate_of(weft_ps_sync_t *s, const weft_node_t *update, int input,
                                          bool *is_indices);
/* One worker's loop: waits for a token, computes, pushes. */
WEFT_MUST_CHECK weft_status_t *weft_ps_build_worker(weft_ps_sync_t *s, const weft_placed_copier_t *base,
                                                    int worker);

#endif /* WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_ */
