/* jobs/checkpoint/access.h - reads and writes the variables of a single-device graph in the graph that runs.
 *
 * The graph that runs is the single-device graph itself, or what a strategy made of it: then a variable may
 * have copies, which are all equal, or shards (strategies/origin.h). Nodes that read and write them are added
 * to that graph before it has a session. Values travel between the session and this process as feeds and
 * fetches, so that servers need no files. Nothing must run meanwhile.
 */
#ifndef WEFT_JOBS_CHECKPOINT_ACCESS_H_
#define WEFT_JOBS_CHECKPOINT_ACCESS_H_

#include <tensorflow/c/c_api.h>

#include "jobs/checkpoint/variables.h"

/* Rows of a variable that lie in one place, and in equal copies in others. */
typedef struct weft_access_part {
  const weft_saved_variable_t *variable;
  int64_t first_row;  /* 0 unless the variable is sharded */
  weft_shape_t shape; /* may not be known if the variable is whole */
  TF_Output value, is_there,
      feed; /* of the first copy: its value, whether it has one; of all: the placeholder of a new one */
  TF_Operation **writes; /* one per copy */
  int num_writes;
} weft_access_part_t;

typedef struct weft_access { /* Confined. */
  weft_arena_t arena;
  const weft_saved_variables_t *variables; /* lent */
  weft_access_part_t *parts;
  int n;
} weft_access_t;

/* Adds the nodes to `g`. `is_rewritten`: variables are found by their marks, else by their names. The caller
 * deinits *out in any case. Errors: those of the C API. */
WEFT_MUST_CHECK weft_status_t *weft_access_init(TF_Graph *g, const weft_saved_variables_t *variables,
                                                bool is_rewritten, weft_access_t *out);
void weft_access_deinit(weft_access_t *a);

/* Which parts have a value: is_there[i]. */
WEFT_MUST_CHECK weft_status_t *weft_access_ask(const weft_access_t *a, TF_Session *session, bool *is_there);

/* Gets the values of parts, some at a time: part i for which wanted[i]; the tensor is lent to `got` during
 * the call. */
typedef weft_status_t *weft_access_got_fn(void *arg, const weft_access_part_t *part,
                                          const weft_tensor_t *value);
WEFT_MUST_CHECK weft_status_t *weft_access_read(const weft_access_t *a, TF_Session *session,
                                                const bool *wanted, weft_access_got_fn *got, void *arg);
/* Sets parts, some at a time: `give` makes the new value of part i for which wanted[i]; *out is owned. */
typedef weft_status_t *weft_access_give_fn(void *arg, const weft_access_part_t *part, weft_tensor_t **out);
WEFT_MUST_CHECK weft_status_t *weft_access_write(const weft_access_t *a, TF_Session *session,
                                                 const bool *wanted, weft_access_give_fn *give, void *arg);

#endif /* WEFT_JOBS_CHECKPOINT_ACCESS_H_ */
