/* jobs/reach.h - what a node is made of. */
#ifndef WEFT_JOBS_REACH_H_
#define WEFT_JOBS_REACH_H_

#include <tensorflow/c/c_api.h>

#include "base/status.h"

/* reached[i]: running `op` needs outputs[i], unless something is fed before it. */
WEFT_MUST_CHECK weft_status_t *weft_job_reach(const TF_Operation *op, const TF_Output *outputs, int n,
                                              bool *reached);
/* Calls fn for each node that running `roots` (n of them) needs, until it sets *out_stops or fails. */
typedef weft_status_t *weft_job_visit_fn(void *arg, TF_Operation *op, bool *out_stops);
WEFT_MUST_CHECK weft_status_t *weft_job_visit(const TF_Operation *const *roots, int n, weft_job_visit_fn *fn,
                                              void *arg);
/* Does the node make an iterator that has a name; does it take an element or a batch from a source? */
bool weft_job_is_iterator(const TF_Operation *op);
bool weft_job_is_reader(const TF_Operation *op);
/* Does running `op` read a batch from a source in the graph: an iterator, a queue? */
WEFT_MUST_CHECK weft_status_t *weft_job_reads_data(const TF_Operation *op, bool *out);

#endif /* WEFT_JOBS_REACH_H_ */
