/* tools/command.c - how commands end. */
#include "tools/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* One line, whatever is in the message. */
static void append_on_one_line(weft_strbuf_t *line, const char *text) {
  bool is_gap = false;
  for (const char *p = text; *p != '\0'; p++) {
    bool is_space = *p == '\n' || *p == '\t' || *p == '\r' || *p == ' ';
    if (!is_space && is_gap) weft_strbuf_putc(line, ' ');
    if (!is_space) weft_strbuf_putc(line, (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p);
    is_gap = is_space;
  }
}

int weft_command_fail(weft_status_t *s) {
  if (s == NULL) return 0;
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  append_on_one_line(&line, weft_status_message(s));
  fflush(stdout); /* what was said before comes before */
  fprintf(stderr, "weft: %s (%s)\n", line.failed || line.data == NULL ? "no memory" : line.data,
          weft_code_name(weft_status_code(s)));
  weft_strbuf_deinit(&line);
  weft_status_free(s);
  return WEFT_EXIT_FAILED;
}

/* The reason of an earlier failure is not kept: a line's end is written to see it again. 0: it takes more. */
static int lost_error(void) {
  errno = 0;
  clearerr(stdout);
  const bool takes_more = putchar('\n') != EOF && fflush(stdout) == 0;
  return takes_more ? 0 : errno != 0 ? errno : EIO;
}

int weft_command_flush(int code) {
  errno = 0;
  bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  const int error = errno != 0 ? errno : lost_error();
  if (error == EPIPE) { /* the reader had enough: as of any command, the signal is the word of it */
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  fprintf(stderr, "weft: cannot write to standard output: %s\n",
          error != 0 ? strerror(error) : "a part of it was lost");
  return WEFT_EXIT_FAILED;
}
