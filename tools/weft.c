/* tools/weft.c - `weft COMMAND ...`: finds the command and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/similar.h"
#include "tools/command.h"

typedef struct command {
  const char *name, *help;
  weft_command_fn *fn;
} command_t;

static const command_t commands[] = {
#define WEFT_COMMAND(name, fn, help) {#name, help, fn},
#include "tools/commands.def"
#undef WEFT_COMMAND
};
enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
  fprintf(to, "Usage: weft COMMAND [OPTION...]\nRuns TensorFlow graphs on a cluster.\n\nCommands:\n");
  for (int i = 0; i < NUM_COMMANDS; i++) fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
  fprintf(to,
          "\nExamples:\n"
          "  weft server --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221\" --job ps --task 0\n"
          "  weft inspect graph.pbtxt\n"
          "  weft submit graph.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss "
          "--steps 100\n"
          "\n`weft COMMAND --help` says more about one of them.\n");
}

/* A standard stream that was closed before we started must not become a socket that messages go to. What we
 * put in its place refuses to be used, so that output is not lost unnoticed. */
static void fill_standard_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      return; /* no /dev/null: nothing to do */
  }
}

static const command_t *find(const char *name) {
  for (int i = 0; i < NUM_COMMANDS; i++) {
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  }
  return NULL;
}

static int unknown(const char *name) {
  weft_similar_t similar;
  weft_similar_init(&similar, weft_str(name));
  for (int i = 0; i < NUM_COMMANDS; i++) weft_similar_offer(&similar, weft_str(commands[i].name));
  if (similar.best.data == NULL) {
    fprintf(stderr, "weft: there is no command '%s'; `weft --help` lists them\n", name);
  } else {
    fprintf(stderr, "weft: there is no command '%s'; did you mean '%.*s'? `weft --help` lists them all\n",
            name, WEFT_STR_ARGS(similar.best));
  }
  return WEFT_EXIT_USAGE;
}

static bool is_help(const char *arg) {
  return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "help") == 0;
}

/* A step frees about what the next one allocates. By default glibc gives memory at the top of a heap back to
 * the kernel as soon as there is a little of it, and the next step then waits for a page fault for every 4
 * KB: 13 % of a pipeline's time that decodes pictures. Blocks above the first size are mapped one by one, and
 * an idle process keeps up to the second in each heap. */
static void keep_freed_memory(void) {
  (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most that glibc would come to by itself */
  (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

int main(int argc, char **argv) {
  keep_freed_memory();
  fill_standard_streams();
  signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of a write, not the end of us */
  if (argc < 2) {
    print_help(stderr);
    return WEFT_EXIT_USAGE;
  }
  if (is_help(argv[1]) && argc == 2) {
    print_help(stdout);
    return weft_command_flush(0);
  }
  char help[] = "--help", *help_of[] = {argv[1], help, NULL};
  bool wants_help = is_help(argv[1]); /* `weft help submit` */
  const command_t *c = find(argv[wants_help ? 2 : 1]);
  if (c == NULL) return unknown(argv[wants_help ? 2 : 1]);
  return wants_help ? c->fn(2, help_of) : c->fn(argc - 1, argv + 1);
}
