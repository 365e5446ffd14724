/* tools/top/screen.c - ncurses, and nothing else that knows it. */
#define _GNU_SOURCE
#include "tools/top/screen.h"

#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"

enum { PAIR_TROUBLE = 1, PAIR_WARNING = 2 };

struct weft_top_screen {
  SCREEN *screen;
  bool has_colours;
};

weft_status_t *weft_top_screen_open(weft_top_screen_t **out) {
  weft_top_screen_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a screen");
  s->screen = newterm(NULL, stdout, stdin);
  if (s->screen == NULL) {
    const char *terminal = getenv("TERM");
    weft_free(s);
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "the terminal '%s' is not known here (TERM); give --once or --json, or set TERM=xterm",
                      terminal == NULL ? "" : terminal);
  }
  set_term(s->screen);
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(50);
  curs_set(0);
  s->has_colours = has_colors() && start_color() == OK;
  if (s->has_colours) {
    use_default_colors();
    init_pair(PAIR_TROUBLE, COLOR_RED, -1);
    init_pair(PAIR_WARNING, COLOR_YELLOW, -1);
  }
  *out = s;
  return NULL;
}

void weft_top_screen_close(weft_top_screen_t *s) {
  if (s == NULL) return;
  endwin();
  delscreen(s->screen);
  weft_free(s);
}

int weft_top_screen_page(const weft_top_screen_t *s) {
  (void)s; /* ncurses has one */
  const int rows = getmaxy(stdscr) - 2;
  return rows > 0 ? rows : 0;
}

static int attributes(const weft_top_screen_t *s, weft_top_style_t style) {
  switch (style) {
    case WEFT_TOP_TITLE: return (int)A_BOLD;
    case WEFT_TOP_TROUBLE: return s->has_colours ? (int)COLOR_PAIR(PAIR_TROUBLE) : (int)A_REVERSE;
    case WEFT_TOP_WARNING: return s->has_colours ? (int)COLOR_PAIR(PAIR_WARNING) : (int)A_BOLD;
    default: return (int)A_NORMAL;
  }
}

static void put_line(int row, const char *text, int attribute) {
  attron(attribute);
  mvaddnstr(row, 0, text, getmaxx(stdscr));
  attroff(attribute);
}

void weft_top_screen_draw(weft_top_screen_t *s, const weft_top_table_t *t, const char *footer, int *first) {
  const int page = weft_top_screen_page(s), body = t->n - 1;
  if (*first > body - page) *first = body - page;
  if (*first < 0) *first = 0;
  erase();
  if (t->n > 0) put_line(0, t->lines[0].text.data, (int)A_BOLD);
  for (int i = 0; i < page && *first + i < body; i++) {
    const weft_top_line_t *l = &t->lines[1 + *first + i];
    put_line(1 + i, l->text.data, attributes(s, l->style));
  }
  if (getmaxy(stdscr) > 1) put_line(getmaxy(stdscr) - 1, footer, (int)A_REVERSE);
  refresh();
}

weft_top_key_t weft_top_screen_key(weft_top_screen_t *s, char *out_letter) {
  (void)s;
  for (;;) {
    const int c = getch();
    switch (c) {
      case ERR: return WEFT_TOP_KEY_NONE;
      case KEY_UP: return WEFT_TOP_KEY_UP;
      case KEY_DOWN: return WEFT_TOP_KEY_DOWN;
      case KEY_PPAGE: return WEFT_TOP_KEY_PAGE_UP;
      case KEY_NPAGE: return WEFT_TOP_KEY_PAGE_DOWN;
      case KEY_HOME: return WEFT_TOP_KEY_HOME;
      default:
        if (c < ' ' || c > '~') continue; /* no key of ours */
        *out_letter = (char)c;
        return WEFT_TOP_KEY_CHAR;
    }
  }
}

void weft_top_screen_resized(weft_top_screen_t *s) {
  struct winsize size;
  (void)s;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    resizeterm(size.ws_row, size.ws_col);
  clearok(stdscr, TRUE);
}

void weft_top_screen_redraw(weft_top_screen_t *s) {
  (void)s;
  clearok(stdscr, TRUE);
}

void weft_top_screen_suspend(weft_top_screen_t *s, int signal_number) {
  struct sigaction by_default = {.sa_handler = SIG_DFL}, own;
  endwin();
  sigemptyset(&by_default.sa_mask);
  sigaction(signal_number, &by_default, &own);
  raise(signal_number); /* goes on here, at SIGCONT */
  sigaction(signal_number, &own, NULL);
  weft_top_screen_resized(s);
  refresh();
}
