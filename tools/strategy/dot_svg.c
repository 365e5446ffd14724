/* tools/strategy/dot_svg.c - a drawing through Graphviz's program. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/strategy/graph_map.h"

static weft_status_t *failure(const char *what) {
  return WEFT_ERROR(INTERNAL, "making an SVG failed: %s", what);
}

/* The drawing is passed in an unnamed file, so neither process waits for the other. */
static weft_status_t *text_file(const weft_strbuf_t *text, FILE **out) {
  *out = tmpfile();
  if (*out == NULL) return failure("no temporary file");
  bool ok = fwrite(text->data, 1, text->length, *out) == text->length && fflush(*out) == 0 &&
            fseek(*out, 0, SEEK_SET) == 0;
  return ok ? NULL : failure("the temporary file cannot be written");
}

static weft_status_t *read_all(FILE *f, weft_strbuf_t *out) {
  char block[4096];
  rewind(f);
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(out, weft_str_of(block, n));
  return out->failed ? WEFT_NO_MEMORY("an SVG") : NULL;
}

static weft_status_t *run_dot(int in, int out) {
  char name[] = "dot", format[] = "-Tsvg";
  char *args[] = {name, format, NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  if (posix_spawn_file_actions_init(&actions) != 0) return failure("out of memory");
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  int error = posix_spawnp(&pid, "dot", &actions, NULL, args, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error == 0) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  bool is_missing = error == ENOENT || (error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127);
  if (is_missing)
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "an SVG needs Graphviz's `dot`: install the package graphviz, or take --dot");
  return error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : failure("dot did not end well");
}

weft_status_t *weft_dot_to_svg(const weft_strbuf_t *dot, weft_strbuf_t *out) {
  FILE *in = NULL, *made = tmpfile();
  weft_status_t *s = made == NULL ? failure("no temporary file") : text_file(dot, &in);
  if (s == NULL) s = run_dot(fileno(in), fileno(made));
  if (s == NULL) s = read_all(made, out);
  if (in != NULL) fclose(in);
  if (made != NULL) fclose(made);
  return s;
}
