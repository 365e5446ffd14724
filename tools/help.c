/* tools/help.c - help as text, and what all formats share. */
#include "tools/help.h"

#include <string.h>

enum { HELP_COLUMN = 26, MAX_HELP_COLUMN = 100, TERM_WIDTH = 16 };

const weft_help_item_t weft_help_exit_codes[] = {
    {"0", "Success"},
    {"1", "A failure: one line on standard error says what failed, and ends with the name of its code"},
    {"2", "The command line is wrong: one line on standard error says what to write instead"},
};
const int weft_help_num_exit_codes = sizeof weft_help_exit_codes / sizeof weft_help_exit_codes[0];

const char *weft_help_name(const weft_command_line_t *c) {
  const char *space = strchr(c->command, ' ');
  return space == NULL ? "" : space + 1;
}

/* `text` word by word, from column `at` on, in lines that start at `indent`. */
static void print_wrapped(const char *text, int indent, int at, FILE *to) {
  for (const char *word = text; *word != '\0';) {
    int length = (int)strcspn(word, " ");
    if (at > indent && at + 1 + length > MAX_HELP_COLUMN) {
      fprintf(to, "\n%*s", indent, "");
      at = indent;
    } else if (at > indent) {
      putc(' ', to);
      at++;
    }
    fprintf(to, "%.*s", length, word);
    at += length;
    word += length;
    word += strspn(word, " ");
  }
  putc('\n', to);
}

static void print_option(const char *name, const char *value, const char *help, FILE *to) {
  int n = fprintf(to, "  --%s%s%s", name, value == NULL ? "" : " ", value == NULL ? "" : value);
  if (n >= HELP_COLUMN) {
    putc('\n', to);
    n = 0;
  }
  fprintf(to, "%*s", HELP_COLUMN - n, "");
  print_wrapped(help, HELP_COLUMN, HELP_COLUMN, to);
}

static void print_items(const weft_help_item_t *items, int n, int width, FILE *to) {
  for (int i = 0; i < n; i++) {
    fprintf(to, "  %-*s ", width, items[i].term);
    print_wrapped(items[i].text, 3 + width, 3 + width, to);
  }
}

static void print_usage(const weft_command_line_t *c, FILE *to) {
  const char *open = c->argument_is_missing == NULL ? "[" : "",
             *close = c->argument_is_missing == NULL ? "]" : "";
  fprintf(to, "Usage: %s%s [OPTION...]", c->command, c->num_commands > 0 ? " COMMAND" : "");
  if (c->argument_name != NULL) fprintf(to, " %s%s%s", open, c->argument_name, close);
  putc('\n', to);
}

void weft_help_print_text(const weft_command_line_t *c, FILE *to) {
  print_usage(c, to);
  print_wrapped(c->about, 0, 0, to);
  if (c->num_commands > 0) {
    fprintf(to, "\nCommands:\n");
    print_items(c->commands, c->num_commands, 9, to);
  }
  fprintf(to, "\nOptions:\n");
  for (int i = 0; i < c->num_options; i++)
    print_option(c->options[i].name, c->options[i].value, c->options[i].help, to);
  print_option("help", NULL, WEFT_HELP_OF_HELP, to);
  if (c->more != NULL) fprintf(to, "\n%s", c->more);
  if (c->num_environment > 0) fprintf(to, "\nEnvironment:\n");
  print_items(c->environment, c->num_environment, TERM_WIDTH, to);
  fprintf(to, "\nExit codes:\n");
  print_items(weft_help_exit_codes, weft_help_num_exit_codes, 5, to);
  print_items(c->exit_codes, c->num_exit_codes, 5, to);
  fprintf(to, "\nExamples:\n%s", c->examples);
}
