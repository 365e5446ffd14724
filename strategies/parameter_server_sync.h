/* strategies/parameter_server_sync.h - what both sides of a synchronous update share; for
 * parameter_server_*.c only. */
#ifndef WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_
#define WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_

#include "strategies/emit.h"
#include "strategies/parameter_server.h"

/* A value that workers compute and the update takes the mean of. */
typedef struct weft_ps_cut weft_ps_cut_t;
struct weft_ps_cut {
  const weft_node_t *update;    /* of the source graph: the update, or what was moved to its side */
  int input;                    /* of update */
  const weft_ps_cut_t *same_as; /* another one with the same value; NULL: this is the first */
  const weft_node_t
      *rows_of; /* whose input `indices` are the rows' numbers: the update, or what makes rows unique */
  int indices;  /* -1: dense */
  int server;
  bool scales; /* by the worker's part of all batches */
  int degree;  /* of the value: 1 a mean over rows, 0 a sum */
  weft_dtype_t dtype;
  weft_shape_t shape;       /* of the value; of the variable, if it is sparse */
  weft_output_t sums;       /* the accumulator, in the new graph */
  weft_output_t mean, rows; /* what is taken from it; rows only if it is sparse */
};

typedef struct weft_ps_sync { /* Confined. */
  weft_ps_t *p;
  weft_emitter_t b;         /* on server 0 */
  bool *depends;            /* by source id: what a worker computes from its own batch */
  bool *follows;            /* by source id: its value comes from an update */
  bool *waits;              /* by source id: it comes after an update */
  bool *moved;              /* by source id: the update's side computes it, from means: clipping, norms */
  int *home;                /* by source id: on which server, if moved */
  const weft_node_t **todo; /* a stack, for walks that may go as deep as the graph: each pushes a node once */
  int num_todo;
  bool *is_local; /* by id of the graph that the analysis of the data axis knows: a worker's value is not the
                     true one */
  bool ignores_sharding; /* updates take means of what workers have, whatever it is */
  weft_ps_cut_t *cuts;
  int num_cuts, max_cuts, num_updates, required; /* gradients per update */
  weft_output_t step, dropped;                   /* handles of int64 variables */
  weft_output_t *tokens, *verdicts;              /* queues by worker; verdicts only with backup workers */
  weft_output_t arrivals; /* an accumulator of one-hot vectors; only with backup workers */
} weft_ps_sync_t;

/* Does n make what a worker computes from, itself? */
bool weft_ps_is_source(const weft_ps_sync_t *s, const weft_node_t *n);
/* Where the graph is cut, and what moves to the update's side. Errors: INVALID_ARGUMENT naming the node that
 * allows neither. */
WEFT_MUST_CHECK weft_status_t *weft_ps_find_cuts(weft_ps_sync_t *s);
/* A worker's copy of n needs this power of (its rows / all rows) times what comes in at the input. 0: it as
 * it is. */
int weft_ps_rescale(const weft_ps_sync_t *s, const weft_node_t *n, int input);
/* The cut of input i of an update, or of its indices; NULL: none. */
weft_ps_cut_t *weft_ps_cut_of(weft_ps_sync_t *s, const weft_node_t *update, int input, bool *is_indices);
/* One worker's lane: waits for a token, computes, pushes. */
WEFT_MUST_CHECK weft_status_t *weft_ps_build_worker(weft_ps_sync_t *s, const weft_lane_copier_t *base,
                                                    int worker);

#endif /* WEFT_STRATEGIES_PARAMETER_SERVER_SYNC_H_ */
