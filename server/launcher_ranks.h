/* server/launcher_ranks.h - what each launcher finds: the ranks of a run and their addresses. */
#ifndef WEFT_SERVER_LAUNCHER_RANKS_H_
#define WEFT_SERVER_LAUNCHER_RANKS_H_

#include "server/launcher.h"

enum { WEFT_MAX_RANKS = 100000 };

/* One of --jobs. */
typedef struct weft_rank_job {
  weft_str_t name;
  int num_tasks;
} weft_rank_job_t;

typedef struct weft_ranks {
  const weft_launch_system_t *system; /* lent */
  const weft_launch_options_t *options;
  const weft_rank_job_t *jobs; /* lent; none: all ranks are workers */
  int num_jobs;
  weft_arena_t arena; /* of what the launcher finds: */
  weft_str_t *addresses;
  int num_ranks;
  int own;   /* -1: this process is no rank, which only a client may be */
  int local; /* index of this rank on its host */
} weft_ranks_t;

/* A launcher's function fills the last five. Errors: as weft_launch's. */
#define WEFT_LAUNCHER(id, flag, find, help) WEFT_MUST_CHECK weft_status_t *find(weft_ranks_t *r);
#include "server/launchers.def"
#undef WEFT_LAUNCHER

/* For launchers: the value of a variable, empty if it is not set. */
weft_str_t weft_ranks_variable(const weft_ranks_t *r, const char *name);
/* The same as a number from `min` to `max`. `start` is what the user should do: "start the servers with
 * srun". */
WEFT_MUST_CHECK weft_status_t *weft_ranks_number(const weft_ranks_t *r, const char *name, int min, int max,
                                                 const char *start, int *out);
/* Makes room for the addresses of `n` ranks. */
WEFT_MUST_CHECK weft_status_t *weft_ranks_reserve(weft_ranks_t *r, int n);
/* The address of a rank: HOST:PORT, with the port of task `local` of a host. */
WEFT_MUST_CHECK weft_status_t *weft_ranks_set(weft_ranks_t *r, int rank, weft_str_t host, int local);

#endif /* WEFT_SERVER_LAUNCHER_RANKS_H_ */
