/* jobs/logging.h - what a job is asked to log, and its log while it has one. */
#ifndef WEFT_JOBS_LOGGING_H_
#define WEFT_JOBS_LOGGING_H_

#include "base/arena.h"
#include "jobs/log.h"
#include "jobs/log_nodes.h"

typedef struct weft_job_log_spec { /* Texts are in the job's arena. */
  const char *directory;           /* NULL: nothing is logged */
  int64_t every, profile_every;    /* steps; profile_every 0: no step is traced for the log */
  weft_event_hparam_t *hparams;    /* owned; those of the program, each name once */
  int num_hparams;
  weft_str_t *tags; /* owned; of fetches by their index: what each is called; length 0: as its node is */
  int num_tags;
  bool has_norms; /* norms of gradients and weights are wanted */
  /* Once the job is initialised: what is logged beside the fetches of the program, and which fetch each is
   * (-1: a constant); the fetches and the bytes of the graph that are the program's. */
  bool has_wishes;
  weft_job_log_wishes_t wishes;
  int *wish_fetches; /* owned */
  int num_fetches;
  size_t graph_bytes;
} weft_job_log_spec_t;

void weft_job_log_spec_deinit(weft_job_log_spec_t *s);
/* Adds a hyperparameter, or gives it another value. Errors: INVALID_ARGUMENT for a name that is empty or
 * texts that are not UTF-8; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_spec_hparam(weft_job_log_spec_t *s, weft_arena_t *arena,
                                                        weft_str_t name, weft_str_t value);

typedef struct weft_job_logging { /* All zero: there is no log. Guarded as the job's values are. */
  weft_job_log_t *log;            /* owned */
  weft_job_log_value_t *values;   /* owned; one per fetch of the program, then one per wish */
  bool has_hparams;               /* are written */
  int64_t rows;                   /* of a step that reads its batch itself; 0: not known */
  int64_t asked_ns, asked_step;   /* when and where the iterators were asked last */
  double waited_ns;               /* what they said */
} weft_job_logging_t;

#endif /* WEFT_JOBS_LOGGING_H_ */
