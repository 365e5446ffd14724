/* tools/options.c - reading a command line. */
#include "tools/options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/similar.h"
#include "base/str.h"
#include "tools/command.h"
#include "tools/help.h"

enum { MOST_OPTIONS = 64 };

void weft_texts_deinit(weft_option_texts_t *t) {
  weft_free(t->items);
  *t = (weft_option_texts_t){NULL, 0};
}

bool weft_option_decimal(const char *text, double *out, const char **out_end) {
  const size_t length = strspn(text, "0123456789.");
  if (text[0] < '0' || text[0] > '9') return false;
  char *end = NULL;
  *out = strtod(text, &end);
  *out_end = end;
  return end == text + length; /* 0x10 and 1e3 end elsewhere */
}

int weft_options_complain(const weft_command_line_t *c, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fprintf(stderr, "%s: ", c->command);
  vfprintf(stderr, fmt, args);
  fprintf(stderr, "; see `%s --help`\n", c->command);
  va_end(args);
  return WEFT_EXIT_USAGE;
}

static const weft_option_t *find(const weft_command_line_t *c, weft_str_t name) {
  for (int i = 0; i < c->num_options; i++) {
    if (weft_str_is(name, c->options[i].name)) return &c->options[i];
  }
  return NULL;
}

static int unknown(const weft_command_line_t *c, const char *arg, weft_str_t name) {
  weft_similar_t similar;
  weft_similar_init(&similar, name);
  for (int i = 0; i < c->num_options; i++) weft_similar_offer(&similar, weft_str(c->options[i].name));
  if (similar.best.data != NULL && strncmp(arg, "--", 2) == 0) {
    return weft_options_complain(c, "there is no option '%s'; did you mean '--%.*s'?", arg,
                                 WEFT_STR_ARGS(similar.best));
  }
  return weft_options_complain(c, "there is no option '%s'", arg);
}

/* What comes before the first '='. */
static weft_str_t name_of(const char *value) {
  weft_str_t name = weft_str(value), rest;
  (void)weft_str_split(weft_str(value), '=', &name, &rest);
  return name;
}

/* Can the option have this text? 0 or an exit code. */
static int check_text(const weft_command_line_t *c, const weft_option_t *o, const char *value) {
  if (*value == '\0')
    return weft_options_complain(c, "--%s needs a value: --%s %s", o->name, o->name, o->value);
  weft_status_t *wrong = o->check == NULL ? NULL : o->check(value);
  if (wrong != NULL) {
    const int code = weft_options_complain(c, "--%s %s: %s", o->name, value, weft_status_message(wrong));
    weft_status_free(wrong);
    return code;
  }
  const weft_str_t name = name_of(value);
  for (int i = 0; o->names_once && i < o->texts->n; i++) {
    if (weft_str_eq(name_of(o->texts->items[i]), name))
      return weft_options_complain(c, "--%s %.*s is given twice", o->name, WEFT_STR_ARGS(name));
  }
  return 0;
}

/* Puts a value where the option wants it; 0 or an exit code. */
static int put(const weft_command_line_t *c, const weft_option_t *o, const char *value) {
  const int code = o->number != NULL ? 0 : check_text(c, o, value);
  if (code != 0) return code;
  if (o->text != NULL) *o->text = value;
  if (o->texts != NULL) {
    const char **grown = weft_realloc(o->texts->items, (size_t)o->texts->n + 1, sizeof *grown);
    if (grown == NULL) return weft_options_complain(c, "no memory for --%s", o->name);
    o->texts->items = grown;
    o->texts->items[o->texts->n++] = value;
  }
  if (o->number == NULL) return 0;
  if (weft_str_to_i64(weft_str(value), o->number) && *o->number >= o->min && *o->number <= o->max) return 0;
  if (o->max == INT64_MAX)
    return weft_options_complain(c, "--%s '%s' is not a number from %" PRId64 " on", o->name, value, o->min);
  return weft_options_complain(c, "--%s '%s' is not a number from %" PRId64 " to %" PRId64, o->name, value,
                               o->min, o->max);
}

/* Which options of one value were given. */
typedef struct given_options {
  bool is_given[MOST_OPTIONS]; /* by place in the table */
} given_options_t;

/* One option, and its value if that is the next argument; 0 or an exit code. */
static int read_option(const weft_command_line_t *c, int argc, char **argv, int *at, given_options_t *given) {
  const char *arg = argv[*at];
  weft_str_t name = weft_str(arg + (arg[1] == '-' ? 2 : 1)), value = {NULL, 0};
  (void)weft_str_split(name, '=', &name, &value);
  const weft_option_t *o = arg[1] == '-' ? find(c, name) : NULL;
  if (o == NULL) return unknown(c, arg, name);
  if (o->value == NULL) {
    if (value.data != NULL) return weft_options_complain(c, "--%s takes no value", o->name);
    *o->flag = true;
    return 0;
  }
  if (value.data == NULL && *at + 1 == argc)
    return weft_options_complain(c, "--%s needs a value: --%s %s", o->name, o->name, o->value);
  bool *is_given = &given->is_given[o - c->options];
  if (*is_given && o->texts == NULL)
    return weft_options_complain(c, "--%s is given twice: give it once", o->name);
  *is_given = true;
  return put(c, o, value.data != NULL ? value.data : argv[++*at]);
}

static bool is_help(const char *arg) {
  return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "-?") == 0 ||
         weft_str_starts_with(weft_str(arg), "--help=");
}

/* `--help`, or `--help=FORMAT`. Returns the exit code. */
static int help(const weft_command_line_t *c, const char *arg) {
  const char *name = strchr(arg, '=');
  const weft_help_format_t *format = weft_help_format(name == NULL ? "text" : name + 1);
  if (format == NULL) {
    return weft_options_complain(c, "there is no help in the format '%s'; give text, man, bash or zsh",
                                 name + 1);
  }
  format->print(c, stdout);
  return weft_command_flush(0);
}

static int read_argument(const weft_command_line_t *c, const char *arg, const char **seen) {
  if (c->argument_name == NULL) return weft_options_complain(c, "'%s' is not an option", arg);
  if (*arg == '\0')
    return weft_options_complain(c, "the %s is empty: give %s", c->argument_name, c->argument_name);
  if (*seen != NULL)
    return weft_options_complain(c, "give one %s only, not '%s' and '%s'", c->argument_name, *seen, arg);
  *seen = *c->argument = arg;
  return 0;
}

bool weft_options_read(const weft_command_line_t *c, int argc, char **argv, int *exit_code) {
  bool only_arguments = false;
  given_options_t given = {.is_given = {false}};
  const char *seen = NULL;
  assert(c->num_options <= MOST_OPTIONS);
  *exit_code = 0;
  for (int i = 1; i < argc && *exit_code == 0; i++) {
    const char *arg = argv[i];
    if (!only_arguments && is_help(arg)) {
      *exit_code = help(c, arg);
      return false;
    }
    if (!only_arguments && strcmp(arg, "--") == 0) {
      only_arguments = true;
    } else if (!only_arguments && arg[0] == '-' && arg[1] != '\0') {
      *exit_code = read_option(c, argc, argv, &i, &given);
    } else {
      *exit_code = read_argument(c, arg, &seen);
    }
  }
  if (*exit_code == 0 && seen == NULL && c->argument_is_missing != NULL) {
    *exit_code = weft_options_complain(c, "%s", c->argument_is_missing);
  }
  return *exit_code == 0;
}
