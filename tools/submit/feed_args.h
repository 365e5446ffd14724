/* tools/submit/feed_args.h - --feed NAME=VALUE and --batch N:NAME+NAME, as inputs of a job.
 *
 * NAME=VALUE feeds a scalar of the tensor's dtype, or a list of them; NAME=FILE.npy an array. With a
 * signature NAME is an input of it, or of the graph.
 */
#ifndef WEFT_TOOLS_SUBMIT_FEED_ARGS_H_
#define WEFT_TOOLS_SUBMIT_FEED_ARGS_H_

#include "jobs/job.h"
#include "tools/model.h"
#include "tools/options.h"

/* `option`: what messages call it, "--feed". `batch` 0: arrays are fed whole; else rows of those that
 * `batch_names` ("x+y") lists, NULL: of all. All inputs of the signature must be fed. Errors:
 * INVALID_ARGUMENT, NOT_FOUND naming the feed. */
WEFT_MUST_CHECK weft_status_t *weft_submit_feeds(WEFT_Job *job, const weft_model_t *model, const char *option,
                                                 const weft_option_texts_t *feeds, int64_t batch,
                                                 const char *batch_names);

/* The first of `batch_names` ("x+y"; NULL: none) that no --feed gives an array, lent; "" if there is none. */
weft_str_t weft_submit_unfed_rows(const weft_option_texts_t *feeds, const char *batch_names);

#endif /* WEFT_TOOLS_SUBMIT_FEED_ARGS_H_ */
