/* jobs/names.h - nodes and outputs of a graph by the names that people type. */
#ifndef WEFT_JOBS_NAMES_H_
#define WEFT_JOBS_NAMES_H_

#include <tensorflow/c/c_api.h>

#include "base/arena.h"
#include "jobs/words.h"

/* Nodes or outputs that were asked for, in that order. */
typedef struct weft_job_names { /* Thread-compatible. */
  weft_str_t *names;            /* as they were typed; '\0'-ended */
  TF_Output *outputs;           /* of a node that is only run: index 0, which it may not have */
  int n, capacity;
} weft_job_names_t;

void weft_job_names_deinit(weft_job_names_t *l);
/* `name` is copied to the arena. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_names_add(weft_job_names_t *l, weft_arena_t *arena, weft_str_t name,
                                                  TF_Output output);

/* All: `option` ("--fetch") is for the message. Errors: NOT_FOUND naming it, and what may have been meant. */
WEFT_MUST_CHECK weft_status_t *weft_job_find_node(TF_Graph *graph, const char *option, weft_str_t name,
                                                  TF_Operation **out);
/* Is it NODE or NODE:OUTPUT? */
bool weft_job_is_output_name(weft_str_t name);
/* "name" or "name:k". */
WEFT_MUST_CHECK weft_status_t *weft_job_find_output(TF_Graph *graph, const weft_job_words_t *words,
                                                    const char *option, weft_str_t name, TF_Output *out);

#endif /* WEFT_JOBS_NAMES_H_ */
