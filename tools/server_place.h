/* tools/server_place.h - the place of a `weft server`: its cluster and its task in it, from options, a
 * launcher or TF_CONFIG. */
#ifndef WEFT_TOOLS_SERVER_PLACE_H_
#define WEFT_TOOLS_SERVER_PLACE_H_

#include "server/launcher.h"
#include "tools/options.h"

/* What the command line says of it. */
typedef struct weft_place_options {
  const char *cluster, *job, *jobs;
  int64_t task, port_base;                /* -1: not given */
  bool is_started_by[WEFT_NUM_LAUNCHERS]; /* --slurm, --mpi, --kubernetes */
  bool is_client;                         /* asks only, and need not be a task */
} weft_place_options_t;

/* What is wrong with the options beside each other, said on standard error. 0: nothing; else the exit code.
 */
int weft_place_complain(const weft_place_options_t *o, const weft_command_line_t *line);

/* The cluster and the task: the launcher's if there is one, else those of --cluster, else of TF_CONFIG. The
 * caller ends *out with weft_launch_deinit. Errors: INVALID_ARGUMENT or FAILED_PRECONDITION, in one line that
 * says what to do. */
WEFT_MUST_CHECK weft_status_t *weft_place_find(const weft_place_options_t *o, weft_launch_t *out);

/* Prints the place as the value of TF_CONFIG, with a line's end. Errors: INVALID_ARGUMENT if an address is no
 * UTF-8. */
WEFT_MUST_CHECK weft_status_t *weft_place_print(const weft_launch_t *place);

#endif /* WEFT_TOOLS_SERVER_PLACE_H_ */
