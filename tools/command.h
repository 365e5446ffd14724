/* tools/command.h - a command of `weft`: its function gets argv[0] = "weft NAME" and returns the exit code.
 *
 * 0 only on success, 1 on failure, 2 for a wrong command line, 3 for a server whose place another process has
 * taken. A failure is one line on standard error that says what to do.
 */
#ifndef WEFT_TOOLS_COMMAND_H_
#define WEFT_TOOLS_COMMAND_H_

#include "base/status.h"

typedef int weft_command_fn(int argc, char **argv);

#define WEFT_COMMAND(name, fn, help) weft_command_fn fn;
#include "tools/commands.def"
#undef WEFT_COMMAND

enum { WEFT_EXIT_FAILED = 1, WEFT_EXIT_USAGE = 2, WEFT_EXIT_REPLACED = 3 };

/* Prints "weft: <message>" on one line of standard error, frees `s`, returns WEFT_EXIT_FAILED; 0 for OK. */
int weft_command_fail(weft_status_t *s);

/* The end of a command that printed: `code`, but WEFT_EXIT_FAILED, with a line on standard error, if standard
 * output did not take everything. Where its reader has gone (`weft ops | head -1`), ends the process by
 * SIGPIPE and without a word, as other commands end. */
int weft_command_flush(int code);

#endif /* WEFT_TOOLS_COMMAND_H_ */
