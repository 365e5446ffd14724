/* jobs/words.h - the names of a job's parts in messages: functions and fields of weft/job.h, or options of a
 * command. */
#ifndef WEFT_JOBS_WORDS_H_
#define WEFT_JOBS_WORDS_H_

#include <stdbool.h>

typedef struct weft_job_words {
  const char *input, *fetch, *target, *init; /* "--feed" */
  const char *master, *strategy, *container, *trace;
  const char *batch, *shuffle, *seed, *array; /* array: an input that is split, "--feed NAME=FILE.npy" */
  const char *save, *restore, *resume, *partly, *log;
  bool lists_batches; /* `batch` names the inputs that are split, "--batch 64:x+y" */
} weft_job_words_t;

extern const weft_job_words_t weft_job_words; /* of weft/job.h */

#endif /* WEFT_JOBS_WORDS_H_ */
