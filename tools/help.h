/* tools/help.h - what a command says of itself, made from the table that its command line is read with.
 *
 * `weft COMMAND --help` is text; `--help=man` is a manual page in mdoc(7). `--help=bash` and `--help=zsh` are
 * the command's part of a completion script, and all of the script for `weft` itself: its own part, the parts
 * of the commands, and then `end`. Functions write to `to` and leave its errors there. Thread-compatible.
 */
#ifndef WEFT_TOOLS_HELP_H_
#define WEFT_TOOLS_HELP_H_

#include <stdio.h>

#include "tools/options.h"

typedef struct weft_help_format {
  const char *name; /* as in --help=NAME */
  void (*print)(const weft_command_line_t *c, FILE *to);
  const char *end; /* of a script that has a part of each command; NULL: each command's help is whole */
} weft_help_format_t;

/* NULL: there is none of this name. */
const weft_help_format_t *weft_help_format(const char *name);

void weft_help_print_text(const weft_command_line_t *c, FILE *to);
void weft_help_print_man(const weft_command_line_t *c, FILE *to);
void weft_help_print_bash(const weft_command_line_t *c, FILE *to);
void weft_help_print_zsh(const weft_command_line_t *c, FILE *to);
extern const char weft_help_bash_end[], weft_help_zsh_end[];

/* The exit codes that all commands have. */
extern const weft_help_item_t weft_help_exit_codes[];
extern const int weft_help_num_exit_codes;

/* "submit" of "weft submit"; "" of "weft". */
const char *weft_help_name(const weft_command_line_t *c);

/* What the option `--help` says of itself. */
#define WEFT_HELP_OF_HELP "Say this"

#endif /* WEFT_TOOLS_HELP_H_ */
