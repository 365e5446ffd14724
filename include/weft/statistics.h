/* weft/statistics.h - memory by what it is for, and traffic by link.
 *
 * Memory comes with a traced step: ask for a trace (RunOptions.trace_level) and give
 * the RunMetadata to WEFT_StepMemory. Other things in it are TensorFlow's StepStats,
 * which many tools read. Traffic is counted by each server.
 */
#ifndef WEFT_STATISTICS_H_
#define WEFT_STATISTICS_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_MemoryUse {
  int64_t in_use;     /* bytes of tensors when the step's statistics were made */
  int64_t high_water; /* the most since the device was made */
} WEFT_MemoryUse;
/* Memory of `device` ("/job:worker/replica:0/task:0/device:CPU:0") under `tag`: "activation", "param",
 * "grad", "opt_state", "comm" or "stash". A node's attribute _weft_memory (a string) chooses the tag of its
 * outputs, and a variable's of its values (param or opt_state); otherwise the slots of optimizer ops are
 * opt_state, values of other variables param, what updates apply grad, what was received or reduced comm, all
 * else activation. Tensors of up to 256 bytes are not counted, and no constants of a graph: a variable whose
 * first value is one counts from its first update. Returns 1, or 0 with zeros if the step says nothing of
 * that device and tag. */
TF_CAPI_EXPORT extern int WEFT_StepMemory(const TF_Buffer *run_metadata, const char *device, const char *tag,
                                          WEFT_MemoryUse *out);

/* ---- what moved between tasks ---- */

typedef struct WEFT_TransportCount {
  char source[128], destination[128]; /* tasks: "/job:worker/replica:0/task:1" */
  char traffic[16];                   /* "control", "tensor", "collective", "kv" */
  int64_t messages, bytes;            /* bytes of payload */
} WEFT_TransportCount;

/* What this server's task has fetched from each other task, tensors of steps and fields of collectives, since
 * it began or since the last reset: fills at most `max` entries of `counts`, and returns how many there are.
 * Any thread. */
TF_CAPI_EXPORT extern int WEFT_ServerTransportCounters(TF_Server *server, WEFT_TransportCount *counts,
                                                       int max);
TF_CAPI_EXPORT extern void WEFT_ResetServerTransportCounters(TF_Server *server);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_STATISTICS_H_ */
