/* tools/top/screen.h - a table on a whole terminal, by ncurses.
 *
 * The terminal shows its alternate screen from open to close, also while the program is not stopped: suspend
 * gives the terminal back and stops the process, as Ctrl-Z does. A process has one screen at most. Signals
 * are the caller's affair: it has handlers for those that ncurses would handle (SIGINT, SIGTERM, SIGTSTP,
 * SIGWINCH).
 */
#ifndef WEFT_TOOLS_TOP_SCREEN_H_
#define WEFT_TOOLS_TOP_SCREEN_H_

#include "tools/top/table.h"

typedef struct weft_top_screen weft_top_screen_t; /* Confined. */

typedef enum weft_top_key {
  WEFT_TOP_KEY_NONE,
  WEFT_TOP_KEY_UP,
  WEFT_TOP_KEY_DOWN,
  WEFT_TOP_KEY_PAGE_UP,
  WEFT_TOP_KEY_PAGE_DOWN,
  WEFT_TOP_KEY_HOME,
  WEFT_TOP_KEY_CHAR, /* the letter is in *out_letter */
} weft_top_key_t;

/* Errors: FAILED_PRECONDITION: this terminal cannot do it. */
WEFT_MUST_CHECK weft_status_t *weft_top_screen_open(weft_top_screen_t **out);
void weft_top_screen_close(weft_top_screen_t *s); /* gives the terminal back. NULL is fine */
/* The table's first line stays on top; below it `footer` stays at the bottom, and between them the lines from
 * number 1 + *first on. *first is corrected so that the last page is full. */
void weft_top_screen_draw(weft_top_screen_t *s, const weft_top_table_t *t, const char *footer, int *first);
int weft_top_screen_page(const weft_top_screen_t *s); /* lines between the two */
/* A key that was typed; NONE: none is left. */
weft_top_key_t weft_top_screen_key(weft_top_screen_t *s, char *out_letter);
void weft_top_screen_resized(weft_top_screen_t *s); /* the terminal has another size now */
/* What is on the terminal is not what was drawn: the next draw begins anew. */
void weft_top_screen_redraw(weft_top_screen_t *s);
/* Stops the process with `signal_number`, SIGTSTP, in place of its handler; returns when it goes on. */
void weft_top_screen_suspend(weft_top_screen_t *s, int signal_number);

#endif /* WEFT_TOOLS_TOP_SCREEN_H_ */
