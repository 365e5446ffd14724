/* tools/submit/job_line.h - the command line of a job, which `weft submit` and `weft run` share. */
#ifndef WEFT_TOOLS_SUBMIT_JOB_LINE_H_
#define WEFT_TOOLS_SUBMIT_JOB_LINE_H_

#include "base/str.h"
#include "tools/options.h"
#include "tools/submit/submit.h"

enum { WEFT_JOB_LINE_OPTIONS = 48 };

/* Options point into it: it stays where it was initialised. */
typedef struct weft_job_line {
  weft_submit_spec_t spec;
  bool json, shuffle, partly, norms; /* what the specification has in another form, up to `every` */
  int64_t seed, keep;
  const char *batch, *every, *wait;
  weft_strbuf_t strategies, passes; /* their names, by spaces */
  weft_strbuf_t passes_help;
  weft_option_t options[WEFT_JOB_LINE_OPTIONS];
  int num_options;
} weft_job_line_t;

void weft_job_line_init(weft_job_line_t *j);
/* More options of one command; there is room for them. */
void weft_job_line_add(weft_job_line_t *j, const weft_option_t *options, int n);
void weft_job_line_deinit(weft_job_line_t *j);

/* After the options were read: completes the specification. 0, or the exit code for what does not fit
 * together. */
int weft_job_line_check(weft_job_line_t *j, const weft_command_line_t *line);
/* Does the file say itself what a step of training runs, or can it not be read? A SavedModel that serves,
 * too, counts only where training is wanted. */
bool weft_job_line_is_training(const weft_job_line_t *j, bool is_wanted);
/* Runs the job. The command's exit code. Call it on the main thread. */
int weft_job_line_run(const weft_job_line_t *j);

#endif /* WEFT_TOOLS_SUBMIT_JOB_LINE_H_ */
