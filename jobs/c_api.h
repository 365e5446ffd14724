/* jobs/c_api.h - statuses and tensors of the C API as those of the rest of the house. */
#ifndef WEFT_JOBS_C_API_H_
#define WEFT_JOBS_C_API_H_

#include <tensorflow/c/c_api.h>

#include "base/status.h"
#include "base/str.h"
#include "tensor/tensor.h"

/* NULL if `status` is OK. */
WEFT_MUST_CHECK weft_status_t *weft_job_c_api_status(const TF_Status *status);
/* A tensor that looks at the bytes of `value`, which must live longer; *out is owned by the caller. */
WEFT_MUST_CHECK weft_status_t *weft_job_c_api_look_at(const TF_Tensor *value, weft_tensor_t **out);

/* Adds a serialized GraphDef to `graph`. Errors: the import's; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_c_api_import(weft_str_t graph_def, TF_Graph *graph);

#endif /* WEFT_JOBS_C_API_H_ */
