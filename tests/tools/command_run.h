/* tests/tools/command_run.h - the real `weft`, run with pipes or on a terminal, never for longer than a
 * deadline. */
#ifndef WEFT_TESTS_TOOLS_COMMAND_RUN_H_
#define WEFT_TESTS_TOOLS_COMMAND_RUN_H_

#include <stdbool.h>
#include <sys/types.h>

enum { RUN_MAX_ARGS = 32, RUN_OUTPUT = 1 << 18 };

typedef struct run {
  pid_t pid;
  int out_fd, err_fd; /* of pipes; a terminal has only out_fd */
  char out[RUN_OUTPUT], err[RUN_OUTPUT];
  int out_length, err_length;
  int code; /* 128 + signal if one killed it; -1: it was still running at the deadline */
} run_t;

/* `args` ends with NULL; it does not name the program. `environment` ("NAME=VALUE") may be NULL. */
void run_start(run_t *r, const char *const *args, const char *environment);
void run_start_on_terminal(run_t *r, const char *const *args, int columns);
/* Reads until standard output holds `text`; false if it ends, or the deadline passes, before. */
bool run_until(run_t *r, const char *text);
void run_signal(run_t *r, int number);
void run_end(run_t *r); /* reads to the end and waits; kills at the deadline */

/* All of it. Gives the exit code. */
int run(run_t *r, const char *const *args);
#define RUN(r, ...) run(r, (const char *const[]){__VA_ARGS__, NULL})

/* A server of a cluster of one on a free port; `target` gets its "grpc://...". */
bool run_server(run_t *r, char target[64]);

/* Writes a file into the test's own directory; the path is good until the next 8 calls. */
const char *write_file(const char *name, const void *bytes, size_t length);
const char *write_text(const char *name, const char *text);

#endif /* WEFT_TESTS_TOOLS_COMMAND_RUN_H_ */
