/* jobs/checkpoint/series.h - the checkpoints of one job: PREFIX-100, PREFIX-200, ..., of which the last few
 * are kept.
 *
 * A checkpoint appears whole or not at all: its data file first, then its index, then its name in the file
 * "checkpoint" beside it; only then do the oldest go. Whenever the process ends, the newest one named there
 * is whole.
 */
#ifndef WEFT_JOBS_CHECKPOINT_SERIES_H_
#define WEFT_JOBS_CHECKPOINT_SERIES_H_

#include "base/arena.h"
#include "io/bundle.h"

typedef struct weft_series { /* Confined. */
  weft_arena_t arena;
  const char *option;                 /* for messages: "--save" */
  weft_str_t prefix, directory, name; /* "/tmp/model": "/tmp", "model". '\0'-ended, as what follows */
  weft_str_t *names;                  /* of the checkpoints there are, oldest first: "model-100" */
  int n, keep;
  weft_str_t latest; /* the path of the newest that was there when the series was opened; "": none */
} weft_series_t;

/* Looks at what there is. `goes_on`: those that are there belong to the series; else it starts anew, and
 * leaves them alone. The caller deinits *out in any case. Errors: INVALID_ARGUMENT (the file "checkpoint").
 */
WEFT_MUST_CHECK weft_status_t *weft_series_open(const char *option, const char *prefix, int keep,
                                                bool goes_on, weft_series_t *out);
/* Before anything is saved: can files be written there? Removes what a process that was killed has left. Only
 * one process may write a series at a time. Errors: those of the file, saying what to do. */
WEFT_MUST_CHECK weft_status_t *weft_series_check_place(const weft_series_t *s);
void weft_series_deinit(weft_series_t *s);
/* A directory stands for the latest checkpoint in it, anything else for itself. Copied to `arena`. Errors:
 * NOT_FOUND. */
WEFT_MUST_CHECK weft_status_t *weft_series_resolve(const char *path, weft_arena_t *arena, weft_str_t *out);

/* Is there room for `bytes` more? Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_series_check_room(const weft_series_t *s, uint64_t bytes);
/* The checkpoint of a step; *out_path lives as long as the series. */
WEFT_MUST_CHECK weft_status_t *weft_series_begin(weft_series_t *s, int64_t step, weft_str_t *out_path,
                                                 weft_bundle_writer_t **out);
/* Consumes `w`, completes the checkpoint, and drops the oldest. */
WEFT_MUST_CHECK weft_status_t *weft_series_commit(weft_series_t *s, weft_str_t path, weft_bundle_writer_t *w);

#endif /* WEFT_JOBS_CHECKPOINT_SERIES_H_ */
