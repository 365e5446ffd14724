/* jobs/reach.h - which outputs a node is made of. */
#ifndef WEFT_JOBS_REACH_H_
#define WEFT_JOBS_REACH_H_

#include <tensorflow/c/c_api.h>

#include "base/status.h"

/* reached[i]: running `op` needs outputs[i], unless something is fed before it. */
WEFT_MUST_CHECK weft_status_t *weft_job_reach(const TF_Operation *op, const TF_Output *outputs, int n,
                                              bool *reached);
/* Does running `op` read a batch from a source in the graph: an iterator, a queue? */
WEFT_MUST_CHECK weft_status_t *weft_job_reads_data(const TF_Operation *op, bool *out);

#endif /* WEFT_JOBS_REACH_H_ */
