/* jobs/reach.h - which outputs a node is made of. */
#ifndef WEFT_JOBS_REACH_H_
#define WEFT_JOBS_REACH_H_

#include <tensorflow/c/c_api.h>

#include "base/status.h"

/* reached[i]: running `op` needs outputs[i], unless something is fed before it. */
WEFT_MUST_CHECK weft_status_t *weft_job_reach(const TF_Operation *op, const TF_Output *outputs, int n,
                                              bool *reached);

#endif /* WEFT_JOBS_REACH_H_ */
