/* tools/help_formats.c - the list of formats. */
#include <string.h>

#include "tools/help.h"

static const weft_help_format_t formats[] = {
    {"text", weft_help_print_text, NULL},
    {"man", weft_help_print_man, NULL},
    {"bash", weft_help_print_bash, weft_help_bash_end},
    {"zsh", weft_help_print_zsh, weft_help_zsh_end},
};

const weft_help_format_t *weft_help_format(const char *name) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (strcmp(formats[i].name, name) == 0) return &formats[i];
  }
  return NULL;
}
