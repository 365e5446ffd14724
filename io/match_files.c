/* io/match_files.c - walks the directories that a pattern's components match, one after the other. */
#include "io/match_files.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"

void weft_path_list_deinit(weft_path_list_t *l) {
  for (size_t i = 0; i < l->n; i++) weft_free(l->paths[i]);
  weft_free(l->paths);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void weft_path_list_sort(weft_path_list_t *l) {
  if (l->n > 1) qsort(l->paths, l->n, sizeof l->paths[0], by_text);
}

static weft_status_t *add(weft_path_list_t *l, const char *path) {
  if (l->n == l->capacity) {
    size_t capacity = l->capacity == 0 ? 16 : l->capacity * 2;
    char **more = weft_realloc(l->paths, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("matching files");
    l->paths = more;
    l->capacity = capacity;
  }
  l->paths[l->n] = weft_strdup(path);
  if (l->paths[l->n] == NULL) return WEFT_NO_MEMORY("matching files");
  l->n++;
  return NULL;
}

/* Of one directory: the names that match one component. */
typedef struct level {
  const char *component, *dir;
  weft_path_list_t *out;
  weft_status_t *status;
} level_t;

static void try_name(void *arg, int dir_fd, const char *name) {
  level_t *l = arg;
  (void)dir_fd;
  if (l->status != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
  if (fnmatch(l->component, name, FNM_PATHNAME) != 0) return;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  bool has_slash = l->dir[0] != '\0' && l->dir[strlen(l->dir) - 1] == '/';
  weft_strbuf_printf(&path, "%s%s%s", l->dir, has_slash ? "" : "/", name);
  l->status = path.failed ? WEFT_NO_MEMORY("matching files") : add(l->out, path.data);
  weft_strbuf_deinit(&path);
}

/* The paths in `dirs`, each followed by a name that matches the component. */
static weft_status_t *match_level(const weft_path_list_t *dirs, weft_str_t component, weft_path_list_t *out) {
  char *text = weft_strndup(component.data, component.length);
  if (text == NULL) return WEFT_NO_MEMORY("matching files");
  level_t l = {text, NULL, out, NULL};
  for (size_t i = 0; l.status == NULL && i < dirs->n; i++) {
    l.dir = dirs->paths[i];
    weft_file_each_name(l.dir, try_name, &l);
  }
  weft_free(text);
  return l.status;
}

static weft_status_t *move_all(weft_path_list_t *from, weft_path_list_t *to) {
  weft_status_t *s = NULL;
  for (size_t i = 0; s == NULL && i < from->n; i++) s = add(to, from->paths[i]);
  return s;
}

/* `text`: the pattern, which has a wildcard. No path has an empty component around one: "dir//" in front of a
 * wildcard matches nothing. */
static weft_status_t *match_wildcards(const char *text, weft_path_list_t *out) {
  weft_path_list_t found = {0};
  size_t at = strcspn(text, "*?[\\");
  while (at > 0 && text[at - 1] != '/') at--;
  if (text + at - weft_file_on_disk(text) > 1 && text[at - 2] == '/') return NULL;
  char *dir = at == 0 ? weft_strdup(".") : weft_strndup(text, at > 1 ? at - 1 : 1);
  weft_status_t *s = dir == NULL ? WEFT_NO_MEMORY("matching files") : add(&found, dir);
  weft_free(dir);
  for (const char *p = text + at; s == NULL && *p != '\0';) {
    size_t n = strcspn(p, "/");
    weft_path_list_t next = {0};
    if (n > 0) {
      s = match_level(&found, weft_str_of(p, n), &next);
      weft_path_list_deinit(&found);
      found = next;
    }
    p += n + (p[n] == '/' ? 1 : 0);
    if (*p != '/') continue;
    weft_path_list_deinit(&found);
    found = (weft_path_list_t){0};
  }
  if (s == NULL) s = move_all(&found, out);
  weft_path_list_deinit(&found);
  return s;
}

weft_status_t *weft_match_files(weft_str_t pattern, weft_path_list_t *out) {
  char *text = weft_strndup(pattern.data == NULL ? "" : pattern.data, pattern.length);
  if (text == NULL) return WEFT_NO_MEMORY("matching files");
  weft_status_t *s = NULL;
  if (strpbrk(text, "*?[\\") != NULL) {
    s = match_wildcards(text, out);
  } else if (weft_file_exists(text)) {
    s = add(out, text);
  }
  weft_free(text);
  return s;
}
