/* strategies/placed_graph.h - a graph whose variables have places: the server of each variable, the nodes
 * beside it, and what a step needs.
 *
 * Variables exist once, on servers (or other devices), and are shared by all worker loops and replicas.
 */
#ifndef WEFT_STRATEGIES_PLACED_GRAPH_H_
#define WEFT_STRATEGIES_PLACED_GRAPH_H_

#include "strategies/copy.h"
#include "strategies/rewrite.h"

/* The devices of servers and workers. */
typedef struct weft_ps_places {            /* Texts in the rewrite's arena. */
  weft_str_t *servers, *workers;           /* full device names */
  weft_str_t *server_tasks, *worker_tasks; /* and their tasks */
  int num_servers, num_workers;
  int num_local_cpus; /* of a single task: how many it needs; else 0 */
} weft_ps_places_t;

typedef enum weft_placement { WEFT_PLACE_ROUND_ROBIN, WEFT_PLACE_BYTES } weft_placement_t;

typedef struct weft_placed_variable {
  weft_node_t *node; /* of the source graph */
  int group;         /* index of the first variable that it is updated with: a slot stays with its variable */
  int server;
  int64_t bytes; /* -1: unknown */
} weft_placed_variable_t;

/* Facts about the source graph. */
typedef struct weft_placed_graph {
  weft_arena_t arena;
  const weft_graph_t *g;             /* borrowed; lowered, shapes inferred */
  weft_node_t **order;               /* owned (weft_free); producers first */
  int num_nodes;                     /* of order */
  weft_placed_variable_t *variables; /* in the order of creation */
  int num_variables;
  int *variable_of; /* by node id: index of the variable that this node is, or reads without computing; -1 */
  int *server_of;   /* by node id: -1: on the worker */
  bool *in_step;    /* by node id: the training step needs it */
} weft_placed_graph_t;

/* Errors: INVALID_ARGUMENT naming a feed, fetch or target that the graph lacks. */
WEFT_MUST_CHECK weft_status_t *weft_placed_graph_init(const weft_graph_t *g, const weft_strategy_request_t *r,
                                                      weft_placed_graph_t *out);
void weft_placed_graph_deinit(weft_placed_graph_t *l);
/* Gives every variable a server, and every node that must be beside its variable. */
WEFT_MUST_CHECK weft_status_t *weft_placed_graph_place(weft_placed_graph_t *l, int num_servers,
                                                       weft_placement_t how);
/* Index of the variable behind input i of n, straight or through reads of it; -1. */
int weft_placed_variable_behind(const weft_placed_graph_t *l, const weft_node_t *n, int input);
bool weft_placed_is_update(const weft_node_t *n); /* writes a variable that is shared */
int weft_placed_input_named(const weft_node_t *n,
                            const char *arg); /* the input of an argument that is one tensor; -1 */

/* Finds what "node", "node:1" or "^node" means. */
WEFT_MUST_CHECK weft_status_t *weft_placed_find(const weft_graph_t *g, weft_str_t name, const char *what,
                                                weft_output_t *out);

/* One copy of the graph, or of its step, for one worker. */
typedef struct weft_placed_copier { /* Confined. */
  weft_copier_t copier;
  const weft_placed_graph_t *l;   /* borrowed */
  const weft_ps_places_t *places; /* borrowed */
  int worker;                     /* -1: all is on server 0 that is not on another */
  weft_node_t *gate;              /* variables are read after it; NULL: at once */
  bool caches;                    /* one read of a variable serves all that do not wait for something */
  weft_node_t **reads; /* by variable: the first such read, or what stands for it; in copier.arena */
} weft_placed_copier_t;

WEFT_MUST_CHECK weft_status_t *weft_placed_copier_init(weft_placed_copier_t *c, const weft_placed_graph_t *l,
                                                       weft_graph_t *to, const weft_ps_places_t *places,
                                                       int worker, weft_str_t prefix);
void weft_placed_copier_deinit(weft_placed_copier_t *c);
/* From now on the variables are those that `base` has copied. */
WEFT_MUST_CHECK weft_status_t *weft_placed_share_variables(weft_placed_copier_t *c,
                                                           const weft_placed_copier_t *base);
/* Copies a node on the device where it belongs; it is not colocated with anything any more. */
WEFT_MUST_CHECK weft_status_t *weft_placed_copy(weft_placed_copier_t *c, const weft_node_t *n,
                                                weft_node_t **out);
/* Does the step draw random numbers here, on workers? Each goes on with a sequence of its own: the first
 * worker with that of one device, the others with other seeds. */
bool weft_placed_draws(const weft_placed_graph_t *l, const weft_node_t *n);
/* Fills loop->feeds, fetches, targets with the names of what stands for the request's. */
WEFT_MUST_CHECK weft_status_t *weft_placed_names(const weft_copier_t *c, const weft_strategy_request_t *r,
                                                 weft_rewrite_t *out, weft_worker_loop_t *loop);

#endif /* WEFT_STRATEGIES_PLACED_GRAPH_H_ */
