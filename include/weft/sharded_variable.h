/* weft/sharded_variable.h - a table that is too large for one server: rows of it on several.
 *
 * A sharded variable is partitioned along its first dimension, by TensorFlow's rule "div" (the first rows
 * mod n parts have one row more), and behaves as one: it is read as a whole, rows of it are looked up and
 * updated wherever they are. Only ids and rows travel; the table stays where it is. Each part is an ordinary
 * resource variable "name/part_0", ..., so graphs that make the same sharded variable mean the same parts.
 *
 * Used by one thread at a time, as the graph while it is built. Nodes without a device of their own get none
 * here either: inside a closure they run on the worker.
 */
#ifndef WEFT_SHARDED_VARIABLE_H_
#define WEFT_SHARDED_VARIABLE_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "weft/coordinator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_ShardedVariable WEFT_ShardedVariable;

/* Adds the parts to `graph`, which must outlive the result; part i is on devices[i mod num_devices].
 * `partitioner` says how many there are: "fixed:3"; "min_size:262144:8" (as many as have at least so many
 * bytes each, 8 at most); "max_size:65536" or "max_size:65536:4" (as few as have at most so many bytes each).
 * No part is empty; scalars have one. The caller owns the result; NULL on failure. Errors: INVALID_ARGUMENT
 * (the partitioner's text, a shape that is not fully known, no devices); what TF_FinishOperation says, a name
 * that is taken among them; RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_ShardedVariable *WEFT_NewShardedVariable(TF_Graph *graph, const char *name,
                                                                    TF_DataType dtype, const int64_t *dims,
                                                                    int num_dims, const char *partitioner,
                                                                    const char *const *devices,
                                                                    int num_devices, TF_Status *status);
/* The nodes stay in the graph. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteShardedVariable(WEFT_ShardedVariable *variable);

TF_CAPI_EXPORT extern int WEFT_ShardedVariableNumParts(const WEFT_ShardedVariable *variable);
/* The resource handle of part i, and its rows [*begin, *begin + *rows) of the whole; both may be NULL. */
TF_CAPI_EXPORT extern TF_Output WEFT_ShardedVariablePart(const WEFT_ShardedVariable *variable, int i,
                                                         int64_t *begin, int64_t *rows);

/* The functions below add nodes called "name", "name/...". On failure the result's oper is NULL, and some of
 * the nodes may be in the graph. Errors: what TF_FinishOperation says. */

/* All of it. */
TF_CAPI_EXPORT extern TF_Output WEFT_ShardedVariableRead(WEFT_ShardedVariable *variable, const char *name,
                                                         TF_Status *status);
/* Gives it a value of the whole's shape; the result is done when all parts have theirs. */
TF_CAPI_EXPORT extern TF_Operation *WEFT_ShardedVariableAssign(WEFT_ShardedVariable *variable,
                                                               const char *name, TF_Output value,
                                                               TF_Status *status);
/* Row ids[k] for each k: of shape [ids..., row...]. `ids` are int32 or int64, of any shape, in any order,
 * with repetitions. A step with an id that is no row fails. */
TF_CAPI_EXPORT extern TF_Output WEFT_ShardedVariableLookup(WEFT_ShardedVariable *variable, const char *name,
                                                           TF_Output ids, TF_Status *status);
/* Adds updates[k], which is of the shape that a look-up would have, to row ids[k]; repeated ids add up. With
 * a `context` (may be NULL) the addition to each part is guarded by WEFT_WorkerContextApplyOnce(). */
TF_CAPI_EXPORT extern TF_Operation *WEFT_ShardedVariableScatterAdd(WEFT_ShardedVariable *variable,
                                                                   const char *name, TF_Output ids,
                                                                   TF_Output updates,
                                                                   WEFT_WorkerContext *context,
                                                                   TF_Status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_SHARDED_VARIABLE_H_ */
