/* tools/help_zsh.c - completion for zsh, from the tables of the commands: a function with _arguments for
 * each. */
#include <string.h>

#include "tools/help.h"

static const char driver[] =
    "# NAME=FILE: a file after the name.\n"
    "_weft_named_file() {\n"
    "  if compset -P '*='; then _files; else _message 'NAME='; fi\n"
    "}\n"
    "\n"
    "_weft() {\n"
    "  if (( CURRENT == 2 )); then\n"
    "    _weft_commands\n"
    "  elif [[ $words[2] == help ]]; then\n"
    "    (( CURRENT > 3 )) || _weft_commands\n"
    "  elif (( $+functions[_weft_of_$words[2]] )); then\n"
    "    local command=$words[2]\n"
    "    shift words\n"
    "    (( CURRENT -= 1 ))\n"
    "    _weft_of_$command\n"
    "  fi\n"
    "}\n";

/* Loaded by compinit, the file is the body of _weft; sourced, it is a script. */
const char weft_help_zsh_end[] =
    "\nif [[ $funcstack[1] == _weft ]]; then _weft \"$@\"; else compdef _weft weft; fi\n";

/* Text inside single quotes, where `special` have a meaning for _arguments. */
static void put_quoted(const char *text, const char *special, FILE *to) {
  for (; *text != '\0'; text++) {
    if (*text == '\'') {
      fputs("'\\''", to);
      continue;
    }
    if (strchr(special, *text) != NULL) putc('\\', to);
    putc(*text, to);
  }
}

/* ":what is given:how to complete it". */
static void put_value(const char *value, weft_value_kind_t kind, const char *words, FILE *to) {
  static const char *const actions[] = {[WEFT_VALUE_TEXT] = " ",
                                        [WEFT_VALUE_FILE] = "_files",
                                        [WEFT_VALUE_FOLDER] = "_files -/",
                                        [WEFT_VALUE_NAMED_FILE] = "_weft_named_file"};
  putc(':', to);
  put_quoted(value, ":\\", to);
  if (words != NULL) {
    fprintf(to, ":(%s)", words);
  } else {
    fprintf(to, ":%s", actions[kind]);
  }
}

static void put_option(const char *name, const weft_option_t *o, const char *help, FILE *to) {
  fprintf(to, " \\\n    '%s--%s%s[", o != NULL && o->texts != NULL ? "*" : "", name,
          o != NULL && o->value != NULL ? "=" : "");
  put_quoted(help, "[]\\", to);
  putc(']', to);
  if (o != NULL && o->value != NULL) put_value(o->value, o->kind, o->words, to);
  putc('\'', to);
}

static void put_start(const weft_command_line_t *c, FILE *to) {
  fputs("#compdef weft\n# Completion of `weft` for zsh, made by `weft --help=zsh`.\n\n", to);
  fputs("_weft_commands() {\n  local -a commands=(\n", to);
  for (int i = 0; i < c->num_commands; i++) {
    fprintf(to, "    '%s:", c->commands[i].term);
    put_quoted(c->commands[i].text, "", to);
    fputs("'\n", to);
  }
  fputs("  )\n  _describe command commands\n}\n\n", to);
  fputs(driver, to);
}

void weft_help_print_zsh(const weft_command_line_t *c, FILE *to) {
  if (c->num_commands > 0) {
    put_start(c, to);
    return;
  }
  fprintf(to, "\n_weft_of_%s() {\n  _arguments", weft_help_name(c));
  for (int i = 0; i < c->num_options; i++)
    put_option(c->options[i].name, &c->options[i], c->options[i].help, to);
  put_option("help", NULL, WEFT_HELP_OF_HELP, to);
  if (c->argument_name != NULL) {
    fprintf(to, " \\\n    '%s", c->argument_is_missing == NULL ? "1:" : "1");
    put_value(c->argument_name, c->argument_kind, c->argument_words, to);
    putc('\'', to);
  }
  fputs("\n}\n", to);
}
