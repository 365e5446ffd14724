/* tools/options.h - the command line of a command: a table says what there is, one function reads it.
 *
 * "--name VALUE" and "--name=VALUE" are the same; "--" ends the options; `--help`
 * prints the table and ends. Whatever is wrong with a command line is said on
 * one line of standard error that names the culprit and points at --help.
 */
#ifndef WEFT_TOOLS_OPTIONS_H_
#define WEFT_TOOLS_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct weft_option_texts {
  const char **items; /* owned; the texts are argv's */
  int n;
} weft_option_texts_t;
void weft_texts_deinit(weft_option_texts_t *t);

/* Exactly one of the four places is set; it gets what the command line says. */
typedef struct weft_option {
  const char *name;  /* without the dashes */
  const char *value; /* what help calls the value; NULL for a flag */
  const char *help;
  bool *flag;
  const char **text;
  weft_option_texts_t *texts; /* may be given several times */
  int64_t *number;            /* from min to max */
  int64_t min, max;
} weft_option_t;

typedef struct weft_command_line {
  const char *command;         /* "weft submit" */
  const char *about;           /* what it does, in a sentence or two */
  const char *more, *examples; /* after the options; `more` may be NULL; lines end with '\n' */
  const weft_option_t *options;
  int num_options;
  const char *argument_name;       /* of the one argument that is no option; NULL: there is none */
  const char **argument;           /* gets it; stays as it is if it is missing */
  const char *argument_is_missing; /* what to say then; NULL: it may be left out */
} weft_command_line_t;

/* Reads argv[1..argc-1]. False: the command is over, with *exit_code. */
bool weft_options_read(const weft_command_line_t *c, int argc, char **argv, int *exit_code);

/* Says "weft submit: <text>; see `weft submit --help`" on standard error. Returns the exit code for it. */
int weft_options_complain(const weft_command_line_t *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* WEFT_TOOLS_OPTIONS_H_ */
