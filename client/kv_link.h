/* client/kv_link.h - one server of a table of keys and values: a graph with its operations, and sessions that
 * run them. */
#ifndef WEFT_CLIENT_KV_LINK_H_
#define WEFT_CLIENT_KV_LINK_H_

#include <stdbool.h>

#include "base/mutex.h"
#include "weft/kv.h"

/* What can be asked of a server. */
typedef enum weft_kv_call {
  WEFT_KV_CALL_PUSH,    /* keys, values, [lens], worker, clock, id -> is_new, table's clock */
  WEFT_KV_CALL_ADVANCE, /* the same, and the worker is done with its clock */
  WEFT_KV_CALL_PULL,    /* keys, worker, clock -> values, [lens], table's clock */
  WEFT_KV_CALL_PUSH_PULL,
  WEFT_KV_CALL_GREET,  /* worker -> clock, last id */
  WEFT_KV_CALL_ATTACH, /* the same, without taking an id */
  WEFT_KV_CALL_EXPORT, /* -> keys, values, lens, slots, state */
  WEFT_KV_CALL_IMPORT,
  WEFT_KV_NUM_CALLS
} weft_kv_call_t;

enum { WEFT_KV_MAX_ARGS = 6 };

/* One call's node: its inputs are placeholders. */
typedef struct weft_kv_node {
  TF_Operation *op;
  TF_Output inputs[WEFT_KV_MAX_ARGS], outputs[WEFT_KV_MAX_ARGS];
  int num_inputs, num_outputs;
} weft_kv_node_t;

typedef struct weft_kv_link { /* Thread-safe once made. */
  TF_Graph *graph;
  TF_SessionOptions *options;
  weft_kv_node_t nodes[WEFT_KV_NUM_CALLS]; /* op NULL: not for this kind of table */
  weft_mutex_t mu;
  struct weft_kv_session *session; /* guarded by mu; NULL until the next call */
} weft_kv_link_t;

/* The server `index` of o->job. On failure *out is empty. */
void weft_kv_link_init(weft_kv_link_t *l, const WEFT_Cluster *cluster, const WEFT_KvOptions *o, int index,
                       TF_Status *status);
void weft_kv_link_deinit(weft_kv_link_t *l);
void weft_kv_link_abort(weft_kv_link_t *l); /* calls that run end soon */
/* Runs a call, waiting at most `timeout_ms`. *out_was_restarted: the server has forgotten us; the next call
 * begins anew. */
void weft_kv_link_run(weft_kv_link_t *l, weft_kv_call_t call, TF_Tensor *const *inputs, TF_Tensor **outputs,
                      int64_t timeout_ms, bool *out_was_restarted, TF_Status *status);

#endif /* WEFT_CLIENT_KV_LINK_H_ */
