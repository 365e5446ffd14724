/* tools/options.h - the command line of a command: a table says what there is, one function reads it.
 *
 * "--name VALUE" and "--name=VALUE" are the same; "--" ends the options; `--help`
 * prints the table and ends. Whatever is wrong with a command line is said on
 * one line of standard error that names the culprit and points at --help: an
 * option that does not exist, a value that is missing, empty or cannot be, an
 * option with one value that is given twice. The same table is the manual page
 * and the completion of shells (tools/help.h).
 */
#ifndef WEFT_TOOLS_OPTIONS_H_
#define WEFT_TOOLS_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct weft_option_texts {
  const char **items; /* owned; the texts are argv's */
  int n;
} weft_option_texts_t;
void weft_texts_deinit(weft_option_texts_t *t);

/* What a value is, as far as a shell can complete it. */
typedef enum weft_value_kind {
  WEFT_VALUE_TEXT,      /* not known, or one of the words */
  WEFT_VALUE_FILE,      /* a path */
  WEFT_VALUE_FOLDER,    /* the path of a folder */
  WEFT_VALUE_NAMED_FILE /* NAME=PATH */
} weft_value_kind_t;

/* What is wrong with a value, without the option's name; NULL: nothing. The code of the status is not used.
 */
typedef weft_status_t *weft_option_check_fn(const char *value);

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
  weft_value_kind_t kind;      /* of the value */
  const char *words;           /* what the value may begin with, by spaces; NULL: not known */
  weft_option_check_fn *check; /* of each text; NULL: any text can be */
  bool names_once;             /* of texts that are NAME=...: each NAME may be given once */
} weft_option_t;

/* A line of a list in help: a command, an exit code, a variable of the environment, and what it does. */
typedef struct weft_help_item {
  const char *term, *text;
} weft_help_item_t;

typedef struct weft_command_line {
  const char *command; /* "weft submit" */
  const char *about;   /* what it does, in a sentence or two */
  /* After the options; `more` may be NULL. Lines end with '\n'; in `more` those that begin with a space are
   * kept as they are, others are text. */
  const char *more, *examples;
  const weft_option_t *options;
  int num_options;
  const weft_help_item_t *commands; /* of `weft` itself; else NULL */
  int num_commands;
  const weft_help_item_t *environment; /* the variables that it reads */
  int num_environment;
  const weft_help_item_t *exit_codes; /* besides those that all commands have */
  int num_exit_codes;
  const char *argument_name;       /* of the one argument that is no option; NULL: there is none */
  const char **argument;           /* gets it; stays as it is if it is missing */
  const char *argument_is_missing; /* what to say then; NULL: it may be left out */
  weft_value_kind_t argument_kind; /* as an option's */
  const char *argument_words;
} weft_command_line_t;

/* Reads argv[1..argc-1]. False: the command is over, with *exit_code. */
bool weft_options_read(const weft_command_line_t *c, int argc, char **argv, int *exit_code);

/* Reads digits, perhaps with a point among them ("30", "0.5"), as a value that is a time begins; *out_end is
 * what follows. False where there are none, and for other ways of C to write a number. */
bool weft_option_decimal(const char *text, double *out, const char **out_end);

/* Says "weft submit: <text>; see `weft submit --help`" on standard error. Returns the exit code for it. */
int weft_options_complain(const weft_command_line_t *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* WEFT_TOOLS_OPTIONS_H_ */
