/* tools/weft.c - `weft COMMAND ...`: finds the command and calls it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"

typedef struct command {
  const char *name, *invocation, *help;
  weft_command_fn *fn;
} command_t;

static const command_t commands[] = {
#define WEFT_COMMAND(name, fn, help) {#name, "weft " #name, help, fn},
#include "tools/commands.def"
#undef WEFT_COMMAND
};
enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
  fprintf(to, "Usage: weft COMMAND [OPTION...]\nRuns TensorFlow graphs on a cluster.\n\nCommands:\n");
  for (int i = 0; i < NUM_COMMANDS; i++) fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
  fprintf(to, "\nExamples:\n"
              "  weft server --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221\" --job ps --task 0\n"
              "  weft inspect graph.pbtxt\n"
              "  weft submit graph.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss --steps 100\n"
              "\n`weft COMMAND --help` says more about one of them.\n");
}

int weft_command_fail(weft_status_t *s) {
  if (s == NULL) return 0;
  fprintf(stderr, "weft: ");
  for (const char *p = weft_status_message(s); *p != '\0'; p++) fputc(*p == '\n' ? ' ' : *p, stderr);
  fprintf(stderr, " (%s)\n", weft_code_name(weft_status_code(s)));
  weft_status_free(s);
  return WEFT_EXIT_FAILED;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of a write, not the end of us */
  if (argc < 2) {
    print_help(stderr);
    return WEFT_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    print_help(stdout);
    return 0;
  }
  for (int i = 0; i < NUM_COMMANDS; i++) {
    if (strcmp(argv[1], commands[i].name) != 0) continue;
    argv[1] = (char *)commands[i].invocation; /* argp only reads it: the name it shows in messages */
    return commands[i].fn(argc - 1, argv + 1);
  }
  fprintf(stderr, "weft: there is no command '%s'; `weft --help` lists them\n", argv[1]);
  return WEFT_EXIT_USAGE;
}
