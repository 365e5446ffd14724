/* tools/help_bash.c - completion for bash, from the tables of the commands.
 *
 * A command's part is three things: the list of its options, a function that
 * offers values of an option, and one that offers its argument. The rest is the
 * same for all. It needs bash alone: the package bash-completion loads the script
 * when it is there, and `source` does otherwise.
 */
#include <string.h>

#include "tools/help.h"

/* bash splits words at '=' and ':' too; what is offered stands for the last piece. */
static const char driver[] =
    "# Offers $1: `words` of a list, `files`, `folders`, or files after `named`. $2: what is typed so far.\n"
    "_weft_offer() {\n"
    "  local typed=$2 IFS=$'\\n'\n"
    "  case $1 in\n"
    "    words) IFS=$' \\n'; COMPREPLY=($(compgen -W \"$3\" -- \"$typed\")) ;;\n"
    "    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$typed\")) ;;\n"
    "    folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$typed\")) ;;\n"
    "    named) [[ $typed != *=* ]] || _weft_offer files \"${typed#*=}\" ;;\n"
    "  esac\n"
    "}\n"
    "\n"
    "_weft() {\n"
    "  local at=$COMP_CWORD typed=${COMP_WORDS[COMP_CWORD]} before command\n"
    "  COMPREPLY=()\n"
    "  if (( COMP_CWORD == 1 )); then\n"
    "    _weft_offer words \"$typed\" \"$_weft_commands help $_weft_options\"\n"
    "    return\n"
    "  fi\n"
    "  command=${COMP_WORDS[1]}\n"
    "  if [[ $command == help ]]; then\n"
    "    (( COMP_CWORD > 2 )) || _weft_offer words \"$typed\" \"$_weft_commands\"\n"
    "    return\n"
    "  fi\n"
    "  declare -F \"_weft_value_$command\" >/dev/null || return 0\n"
    "  while (( at > 2 )) && [[ ${COMP_WORDS[at]} == [=:]* || ${COMP_WORDS[at - 1]} == [=:] ]]; do\n"
    "    (( at -= 1 ))\n"
    "    typed=${COMP_WORDS[at]}$typed\n"
    "  done\n"
    "  before=${COMP_WORDS[at - 1]}\n"
    "  if [[ $typed == --*=* ]]; then\n"
    "    \"_weft_value_$command\" \"${typed%%=*}\" \"${typed#*=}\"\n"
    "  elif [[ $before == --* ]] && \"_weft_value_$command\" \"$before\" \"$typed\"; then\n"
    "    return 0\n"
    "  elif [[ $typed == -* ]]; then\n"
    "    command=_weft_options_$command\n"
    "    _weft_offer words \"$typed\" \"${!command}\"\n"
    "  else\n"
    "    \"_weft_argument_$command\" \"$typed\"\n"
    "  fi\n"
    "  return 0\n"
    "}\n";

const char weft_help_bash_end[] = "\ncomplete -F _weft weft\n";

static void put_offer(weft_value_kind_t kind, const char *words, const char *typed, FILE *to) {
  static const char *const offers[] = {
      [WEFT_VALUE_FILE] = "files", [WEFT_VALUE_FOLDER] = "folders", [WEFT_VALUE_NAMED_FILE] = "named"};
  if (words != NULL) {
    fprintf(to, "_weft_offer words \"%s\" '%s'", typed, words);
  } else if (kind == WEFT_VALUE_TEXT) {
    fputs("true", to);
  } else {
    fprintf(to, "_weft_offer %s \"%s\"", offers[kind], typed);
  }
}

static void put_options(const weft_command_line_t *c, FILE *to) {
  for (int i = 0; i < c->num_options; i++) fprintf(to, "--%s ", c->options[i].name);
  fputs("--help'\n", to);
}

static void put_start(const weft_command_line_t *c, FILE *to) {
  fputs("# Completion of `weft` for bash, made by `weft --help=bash`.\n\n_weft_commands='", to);
  for (int i = 0; i < c->num_commands; i++) fprintf(to, "%s%s", i > 0 ? " " : "", c->commands[i].term);
  fputs("'\n_weft_options='", to);
  put_options(c, to);
  fprintf(to, "\n%s", driver);
}

static bool is_known(const weft_option_t *o) { return o->words != NULL || o->kind != WEFT_VALUE_TEXT; }

static void put_known_values(const weft_command_line_t *c, FILE *to) {
  for (int i = 0; i < c->num_options; i++) {
    const weft_option_t *o = &c->options[i];
    if (o->value == NULL || !is_known(o)) continue;
    fprintf(to, "    --%s) ", o->name);
    put_offer(o->kind, o->words, "$2", to);
    fputs(" ;;\n", to);
  }
}

/* All in one line. */
static void put_unknown_values(const weft_command_line_t *c, FILE *to) {
  const char *before = "    ";
  bool is_any = false;
  for (int i = 0; i < c->num_options; i++) {
    if (c->options[i].value == NULL || is_known(&c->options[i])) continue;
    fprintf(to, "%s--%s", before, c->options[i].name);
    before = " | ";
    is_any = true;
  }
  if (is_any) fputs(") ;;\n", to);
}

void weft_help_print_bash(const weft_command_line_t *c, FILE *to) {
  const char *name = weft_help_name(c);
  if (c->num_commands > 0) {
    put_start(c, to);
    return;
  }
  fprintf(to, "\n_weft_options_%s='", name);
  put_options(c, to);
  fprintf(to, "_weft_value_%s() {\n  case $1 in\n", name);
  put_known_values(c, to);
  put_unknown_values(c, to);
  fprintf(to, "    *) return 1 ;;\n  esac\n}\n_weft_argument_%s() { ", name);
  put_offer(c->argument_name == NULL ? WEFT_VALUE_TEXT : c->argument_kind, c->argument_words, "$1", to);
  fputs("; }\n", to);
}
