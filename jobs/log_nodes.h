/* jobs/log_nodes.h - what a log shows of a step that no fetch names: learning rates, and norms of gradients
 * and weights.
 *
 * Both are found at the ops that optimizers update variables with (ApplyMomentum, ResourceApplyAdam, ...),
 * by the names of their inputs. Optimizers of plain assignments (Keras 3's) have no such ops: there,
 * attributes that python/weft_export.py sets name them. _weft_gradient_of has, for each output of the node,
 * the variable that an optimizer applies it to, or nothing, with commas between; _weft_rate_of, of a node
 * whose first output is a learning rate, has a variable that it is applied to. Norms need nodes of their own,
 * which are added to the single-device graph, so that a strategy keeps what they mean: the norm of a gradient
 * is that of the whole batch.
 */
#ifndef WEFT_JOBS_LOG_NODES_H_
#define WEFT_JOBS_LOG_NODES_H_

#include "base/arena.h"
#include "jobs/names.h"
#include "tensor/tensor.h"

/* A value that the log wants. */
typedef struct weft_job_log_wish {
  weft_str_t tag;          /* "learning_rate", "gradient_norm/layer/w", "weight_norm/layer/w"; arena */
  weft_str_t name;         /* the tensor to fetch, "node:1"; arena; length 0: it is a constant */
  weft_tensor_t *constant; /* owned; NULL: `name` is fetched */
} weft_job_log_wish_t;

typedef struct weft_job_log_wishes {
  weft_job_log_wish_t *items; /* owned */
  int n, capacity;
} weft_job_log_wishes_t;

void weft_job_log_wishes_deinit(weft_job_log_wishes_t *l);

/* Looks through what running `roots` of `graph` takes. Appends nodes to `nodes`, NodeDefs as fields of a
 * GraphDef, which the caller adds to the graph before the names are fetched: those of norms, if they are
 * wanted, and of a learning rate that is one of the outputs `fed`, which cannot be fetched itself. Texts go
 * to `arena`. The caller deinits *out in any case. Errors: RESOURCE_EXHAUSTED; those of the C API. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_wishes_find(TF_Graph *graph, const TF_Operation *const *roots,
                                                        int num_roots, const weft_job_names_t *fed,
                                                        bool with_norms, weft_arena_t *arena,
                                                        weft_strbuf_t *nodes, weft_job_log_wishes_t *out);

#endif /* WEFT_JOBS_LOG_NODES_H_ */
