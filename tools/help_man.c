/* tools/help_man.c - help as a manual page in mdoc(7).
 *
 * Text stands on lines of its own, one sentence or less a line, and never on a
 * macro's line: only a line's first character and backslashes mean something then.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/help.h"
#include "weft/version.h"

enum { LONGEST_LINE = 72 }; /* of characters, some of which are escaped */

/* One character of text. A hyphen at a word's start is one that is typed. */
static void put_char(const char *p, bool starts_word, FILE *to) {
  if (*p == '\\') {
    fputs("\\e", to);
  } else if (*p == '-' && starts_word) {
    fputs("\\-", to);
  } else {
    putc(*p, to);
  }
}

static void put_word(const char *word, int length, FILE *to) {
  bool starts = true;
  for (int i = 0; i < length; i++) {
    put_char(word + i, starts, to);
    starts = !isalnum((unsigned char)word[i]);
  }
}

/* A period or an apostrophe that begins a line would be a macro. */
static void guard(char first, FILE *to) {
  if (first == '.' || first == '\'') fputs("\\&", to);
}

static bool ends_sentence(const char *word, int length) {
  char last = word[length - 1];
  return length > 1 && (last == '.' || last == '!' || last == '?') && word[length - 2] != '.';
}

/* Words up to `end`, in filled lines; always whole lines. */
static void put_text(const char *text, const char *end, FILE *to) {
  int at = 0;
  while (text < end) {
    text += strspn(text, " \n");
    int length = (int)strcspn(text, " \n");
    if (text >= end || length == 0) break;
    if (at > 0 && at + 1 + length > LONGEST_LINE) {
      putc('\n', to);
      at = 0;
    }
    if (at > 0) putc(' ', to);
    if (at == 0) guard(*text, to);
    put_word(text, length, to);
    at += 1 + length;
    if (ends_sentence(text, length)) {
      putc('\n', to);
      at = 0;
    }
    text += length;
  }
  if (at > 0) putc('\n', to);
}

static void put(const char *text, FILE *to) { put_text(text, text + strlen(text), to); }

/* Lines up to `end` as they are, without the spaces that all of them begin with. */
static void put_literal(const char *text, const char *end, int indent, FILE *to) {
  fputs(".Bd -literal -offset indent\n", to);
  while (text < end) {
    const char *line = text;
    text = strchr(line, '\n') + 1;
    line += strspn(line, " ") < (size_t)indent ? strspn(line, " ") : (size_t)indent;
    guard(*line, to);
    bool starts = true;
    for (; *line != '\n'; line++) {
      put_char(line, true, to);
      starts = false;
    }
    if (starts) fputs("\\&", to); /* an empty line */
    putc('\n', to);
  }
  fputs(".Ed\n", to);
}

/* Paragraphs of text and of lines that are kept as they are, those that begin with a space. */
static void put_mixed(const char *text, FILE *to) {
  while (*text != '\0') {
    bool is_literal = *text == ' ';
    const char *end = text;
    while (*end != '\0' && *end != '\n' && (*end == ' ') == is_literal) end = strchr(end, '\n') + 1;
    if (end > text) {
      if (is_literal) {
        put_literal(text, end, 2, to);
      } else {
        fputs(".Pp\n", to);
        put_text(text, end, to);
      }
    }
    text = end + strspn(end, "\n");
  }
}

static void put_items(const weft_help_item_t *items, int n, const char *macro, FILE *to) {
  for (int i = 0; i < n; i++) {
    fprintf(to, ".It %s %s\n", macro, items[i].term);
    put(items[i].text, to);
  }
}

static void put_option(const char *name, const char *value, const char *help, FILE *to) {
  fprintf(to, ".It Fl -%s", name);
  if (value != NULL) fprintf(to, " Ar %s", value);
  putc('\n', to);
  put(help, to);
}

static void put_synopsis(const weft_command_line_t *c, FILE *to) {
  fprintf(to, ".Sh SYNOPSIS\n.Nm %s\n", c->command);
  if (c->num_commands > 0) fputs(".Ar COMMAND\n", to);
  fputs(".Op Ar OPTION ...\n", to);
  if (c->argument_name != NULL)
    fprintf(to, ".%sAr %s\n", c->argument_is_missing == NULL ? "Op " : "", c->argument_name);
}

/* "WEFT-SUBMIT" or "weft-submit". */
static void put_page(const weft_command_line_t *c, bool is_title, FILE *to) {
  for (const char *p = c->command; *p != '\0'; p++)
    putc(*p == ' ' ? '-' : is_title ? toupper((unsigned char)*p) : *p, to);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The other commands, in the order of their names, as manuals have it. */
static void put_see_also(const weft_command_line_t *c, FILE *to) {
  const char *names[] = {
      "",
#define WEFT_COMMAND(command, fn, help) #command,
#include "tools/commands.def"
#undef WEFT_COMMAND
  };
  size_t n = sizeof names / sizeof names[0];
  const char *before = "";
  qsort(names, n, sizeof names[0], by_name);
  fputs(".Sh SEE ALSO\n", to);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], weft_help_name(c)) == 0) continue;
    fprintf(to, "%s.Xr weft%s%s 1", before, names[i][0] == '\0' ? "" : "-", names[i]);
    before = " ,\n";
  }
  putc('\n', to);
}

/* What the list of commands says of this one. */
static const char *summary(const weft_command_line_t *c) {
#define WEFT_COMMAND(command, fn, help) \
  if (strcmp(weft_help_name(c), #command) == 0) return help;
#include "tools/commands.def"
#undef WEFT_COMMAND
  return "run TensorFlow graphs on a cluster";
}

static void put_list(const char *title, const weft_help_item_t *items, int n, const char *macro, FILE *to) {
  if (n == 0) return;
  fprintf(to, ".Sh %s\n.Bl -tag -width Ds\n", title);
  put_items(items, n, macro, to);
  fputs(".El\n", to);
}

void weft_help_print_man(const weft_command_line_t *c, FILE *to) {
  fputs(".Dd " WEFT_VERSION_DATE "\n.Dt ", to);
  put_page(c, true, to);
  fputs(" 1\n.Os\n.Sh NAME\n.Nm ", to);
  put_page(c, false, to);
  fprintf(to, "\n.Nd %s\n", summary(c));
  put_synopsis(c, to);
  fputs(".Sh DESCRIPTION\n", to);
  put(c->about, to);
  if (c->more != NULL) put_mixed(c->more, to);
  put_list("COMMANDS", c->commands, c->num_commands, "Ic", to);
  fputs(".Sh OPTIONS\n.Bl -tag -width Ds\n", to);
  for (int i = 0; i < c->num_options; i++)
    put_option(c->options[i].name, c->options[i].value, c->options[i].help, to);
  put_option("help", NULL, WEFT_HELP_OF_HELP, to);
  fputs(".El\n", to);
  put_list("ENVIRONMENT", c->environment, c->num_environment, "Ev", to);
  fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds\n", to);
  put_items(weft_help_exit_codes, weft_help_num_exit_codes, "Li", to);
  put_items(c->exit_codes, c->num_exit_codes, "Li", to);
  fputs(".El\n.Sh EXAMPLES\n", to);
  put_literal(c->examples, c->examples + strlen(c->examples), 2, to);
  put_see_also(c, to);
}
