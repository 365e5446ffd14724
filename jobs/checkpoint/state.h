/* jobs/checkpoint/state.h - the file "checkpoint" of a directory: which checkpoints there are, as TensorFlow
 * keeps it. */
#ifndef WEFT_JOBS_CHECKPOINT_STATE_H_
#define WEFT_JOBS_CHECKPOINT_STATE_H_

#include "base/arena.h"
#include "base/status.h"

typedef struct weft_checkpoint_state {
  weft_arena_t arena;
  weft_str_t
      *paths; /* of prefixes, '\0'-ended, oldest first; relative ones are to be found beside the file */
  int n;
} weft_checkpoint_state_t;

/* Reads `directory`/checkpoint ("": the current one); the paths come with the directory. No file: no paths.
 * The caller deinits *out in any case. Errors: INVALID_ARGUMENT with file and line. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_state_read(weft_str_t directory, weft_checkpoint_state_t *out);
void weft_checkpoint_state_deinit(weft_checkpoint_state_t *state);
/* Replaces the file in one go. `names` are relative to the directory; the last one is the latest. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_state_write(weft_str_t directory, const weft_str_t *names,
                                                           int n);

#endif /* WEFT_JOBS_CHECKPOINT_STATE_H_ */
