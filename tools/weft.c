/* tools/weft.c - `weft COMMAND ...`: finds the command and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/similar.h"
#include "tensorflow/c/c_api.h"
#include "tools/command.h"
#include "tools/help.h"
#include "weft/version.h"

typedef struct command {
  const char *name;
  weft_command_fn *fn;
} command_t;

static const command_t commands[] = {
#define WEFT_COMMAND(name, fn, help) {#name, fn},
#include "tools/commands.def"
#undef WEFT_COMMAND
};
enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static const weft_help_item_t command_items[] = {
#define WEFT_COMMAND(name, fn, help) {#name, help},
#include "tools/commands.def"
#undef WEFT_COMMAND
};

static bool wants_version;

static const weft_option_t options[] = {
    {"version", NULL, "Say which Weft this is, and which TensorFlow's protocol, files and C API it has",
     .flag = &wants_version},
};

static const weft_command_line_t line = {
    .command = "weft",
    .about = "Runs TensorFlow graphs on a cluster.",
    .more =
        "`weft COMMAND --help` says more about one of them. --help=man prints a manual page, --help=bash "
        "and\n--help=zsh a script that completes command lines.\n",
    .examples =
        "  weft server --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221\" --job ps --task 0\n"
        "  weft inspect graph.pbtxt\n"
        "  weft submit graph.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss "
        "--steps 100\n",
    .options = options,
    .num_options = sizeof options / sizeof options[0],
    .commands = command_items,
    .num_commands = NUM_COMMANDS,
};

/* The whole script: the common part, each command's, and the end. */
static int print_script(const weft_help_format_t *f, char *arg) {
  int code = 0;
  f->print(&line, stdout);
  for (int i = 0; i < NUM_COMMANDS && code == 0; i++) {
    char name[16];
    snprintf(name, sizeof name, "%s", commands[i].name);
    char *args[] = {name, arg, NULL};
    code = commands[i].fn(2, args);
  }
  fputs(f->end, stdout);
  return weft_command_flush(code);
}

/* `weft --something`. */
static int run_options(int argc, char **argv) {
  static const char prefix[] = "--help=";
  int code = 0;
  if (strncmp(argv[1], prefix, strlen(prefix)) == 0) {
    const weft_help_format_t *f = weft_help_format(argv[1] + strlen(prefix));
    if (f != NULL && f->end != NULL) return print_script(f, argv[1]);
  }
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  printf("weft %s, for TensorFlow %s\n", WEFT_VERSION, TF_Version());
  return weft_command_flush(0);
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
    weft_help_print_text(&line, stderr);
    return WEFT_EXIT_USAGE;
  }
  if (argv[1][0] == '-') return run_options(argc, argv);
  char help[] = "--help", *help_of[] = {help, help, NULL};
  bool wants_help = strcmp(argv[1], "help") == 0; /* `weft help submit` */
  if (wants_help && argc == 2) return run_options(2, help_of);
  const command_t *c = find(argv[wants_help ? 2 : 1]);
  if (c == NULL) return unknown(argv[wants_help ? 2 : 1]);
  return wants_help ? c->fn(2, help_of) : c->fn(argc - 1, argv + 1);
}
