/* weft/input.h - which part of the input each input pipeline reads. */
#ifndef WEFT_INPUT_H_
#define WEFT_INPUT_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_InputContext {
  int num_input_pipelines,
      input_pipeline_id;    /* number of pipelines, each with a shard of its own, and the index of this one */
  int num_replicas_in_sync; /* replicas that share a batch; 1: replicas are independent */
} WEFT_InputContext;

/* Rows of each replica's share of a batch of `global_batch` rows. Errors: INVALID_ARGUMENT if they cannot be
 * split evenly. */
TF_CAPI_EXPORT extern int64_t WEFT_InputContextPerReplicaBatch(const WEFT_InputContext *context,
                                                               int64_t global_batch, TF_Status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_INPUT_H_ */
