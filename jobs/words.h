/* jobs/words.h - what messages call the parts of a job: functions and fields of weft/job.h, or options of a
 * command. */
#ifndef WEFT_JOBS_WORDS_H_
#define WEFT_JOBS_WORDS_H_

#include <stdbool.h>

typedef struct weft_job_words {
  const char *input, *fetch, *target, *init; /* "--feed" */
  const char *master, *strategy, *container, *trace;
  const char *batch, *shuffle, *seed, *array; /* array: an input that is cut, "--feed NAME=FILE.npy" */
  const char *save, *restore, *resume, *partly;
  bool lists_batches; /* `batch` names the inputs that are cut, "--batch 64:x+y" */
} weft_job_words_t;

extern const weft_job_words_t weft_job_words; /* of weft/job.h */

#endif /* WEFT_JOBS_WORDS_H_ */
