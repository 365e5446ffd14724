/* client/env_files.c - files and directories for programs (tensorflow/c/env.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "client/status.h"
#include "io/file.h"
#include "tensorflow/c/env.h"

/* The end of a system call on a path: `result` below 0 is a failure. */
static void end(TF_Status *status, const char *path, int result) {
  weft_client_end(status, result < 0 ? weft_file_error(path, errno) : NULL);
}

void TF_CreateDir(const char *dirname, TF_Status *status) {
  end(status, dirname, mkdir(weft_file_on_disk(dirname), 0777));
}

void TF_DeleteDir(const char *dirname, TF_Status *status) {
  end(status, dirname, rmdir(weft_file_on_disk(dirname)));
}

void TF_DeleteFile(const char *filename, TF_Status *status) {
  end(status, filename, unlink(weft_file_on_disk(filename)));
}

void TF_FileStat(const char *filename, TF_FileStatistics *stats, TF_Status *status) {
  struct stat info;
  int result = stat(weft_file_on_disk(filename), &info);
  if (result == 0) {
    *stats =
        (TF_FileStatistics){.length = info.st_size,
                            .mtime_nsec = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
                            .is_directory = S_ISDIR(info.st_mode)};
  }
  end(status, filename, result);
}

/* ---- a tree ---- */

typedef struct removal {
  int64_t files, dirs; /* that stay */
} removal_t;

static void remove_tree(removal_t *r, const char *path);

/* Names of a directory come one by one: each with its path before it. */
typedef struct removal_walk {
  removal_t *removal;
  const char *path;
} removal_walk_t;

static void visit(void *arg, int dir_fd, const char *name) {
  const removal_walk_t *w = arg;
  (void)dir_fd;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
  weft_strbuf_printf(&path, "%s/%s", w->path, name);
  if (path.failed) {
    w->removal->files++;
  } else {
    remove_tree(w->removal, path.data);
  }
  weft_strbuf_deinit(&path);
}

/* How deep it goes is bounded by the system's limit of a path's length. */
static void remove_tree(removal_t *r, const char *path) {
  struct stat info;
  bool is_dir = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
  removal_walk_t w = {r, path};
  if (is_dir) weft_file_each_name(path, visit, &w);
  if (is_dir && rmdir(path) != 0) r->dirs++;
  if (!is_dir && unlink(path) != 0) r->files++;
}

void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count, int64_t *undeleted_dir_count,
                          TF_Status *status) {
  removal_t r = {0, 0};
  struct stat info;
  const char *path = weft_file_on_disk(dirname);
  weft_status_t *s = NULL;
  if (lstat(path, &info) != 0) {
    s = weft_file_error(dirname, errno);
    r.dirs = 1;
  } else {
    remove_tree(&r, path);
    if (r.files + r.dirs > 0)
      s = WEFT_ERROR(PERMISSION_DENIED, "%s: not all of it could be deleted", dirname);
  }
  *undeleted_file_count = r.files;
  *undeleted_dir_count = r.dirs;
  weft_client_end(status, s);
}

/* ---- writing ---- */

/* Confined. */
struct TF_WritableFileHandle {
  FILE *file;
  char *path;
};

void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle, TF_Status *status) {
  TF_WritableFileHandle *h = weft_calloc(1, sizeof *h);
  *handle = NULL;
  if (h != NULL) h->path = weft_strdup(filename);
  if (h == NULL || h->path == NULL) {
    weft_free(h);
    weft_client_end(status, WEFT_NO_MEMORY("a file"));
    return;
  }
  h->file = fopen(weft_file_on_disk(filename), "wb");
  end(status, filename, h->file == NULL ? -1 : 0);
  if (h->file != NULL) {
    *handle = h;
    return;
  }
  weft_free(h->path);
  weft_free(h);
}

void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status) {
  if (handle == NULL) return;
  end(status, handle->path, fclose(handle->file));
  weft_free(handle->path);
  weft_free(handle);
}

void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status) {
  int result = fflush(handle->file);
  end(status, handle->path, result == 0 ? fsync(fileno(handle->file)) : result);
}

void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status) {
  end(status, handle->path, fflush(handle->file));
}

void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data, size_t length,
                           TF_Status *status) {
  end(status, handle->path, fwrite(data, 1, length, handle->file) == length ? 0 : -1);
}

/* ---- lists of texts ---- */

/* Confined. */
struct TF_StringStream {
  weft_arena_t arena;
  const char **items;
  size_t n, capacity, next;
  bool failed;
};

static void add_text(TF_StringStream *l, const char *text) {
  if (l->n == l->capacity) {
    size_t capacity = l->capacity == 0 ? 16 : l->capacity * 2;
    const char **items = weft_realloc((void *)l->items, capacity, sizeof *items);
    if (items != NULL) {
      l->items = items;
      l->capacity = capacity;
    }
  }
  const char *copy = l->n < l->capacity ? weft_arena_str(&l->arena, weft_str(text)).data : NULL;
  l->failed |= copy == NULL;
  if (copy != NULL) l->items[l->n++] = copy;
}

bool TF_StringStreamNext(TF_StringStream *list, const char **result) {
  bool has_next = list != NULL && list->next < list->n;
  *result = has_next ? list->items[list->next++] : NULL;
  return has_next;
}

void TF_StringStreamDone(TF_StringStream *list) {
  if (list == NULL) return;
  weft_free((void *)list->items);
  weft_arena_deinit(&list->arena);
  weft_free(list);
}

static void add_name(void *arg, int dir_fd, const char *name) {
  (void)dir_fd;
  if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) add_text(arg, name);
}

TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status) {
  const char *path = weft_file_on_disk(filename);
  DIR *dir = opendir(path);
  end(status, filename, dir == NULL ? -1 : 0);
  if (dir == NULL) return NULL;
  closedir(dir);
  TF_StringStream *l = weft_calloc(1, sizeof *l);
  if (l != NULL) weft_file_each_name(path, add_name, l);
  if (l != NULL && !l->failed) return l;
  TF_StringStreamDone(l);
  weft_client_end(status, WEFT_NO_MEMORY("the names in a directory"));
  return NULL;
}

TF_StringStream *TF_GetLocalTempDirectories(void) {
  const char *const candidates[] = {getenv("TEST_TMPDIR"), getenv("TMPDIR"), getenv("TMP"), "/tmp"};
  TF_StringStream *l = weft_calloc(1, sizeof *l);
  struct stat info;
  for (size_t i = 0; l != NULL && i < sizeof candidates / sizeof candidates[0]; i++) {
    const char *c = candidates[i];
    if (c != NULL && stat(c, &info) == 0 && S_ISDIR(info.st_mode)) add_text(l, c);
  }
  return l;
}

char *TF_GetTempFileName(const char *extension) {
  TF_StringStream *dirs = TF_GetLocalTempDirectories();
  const char *dir = NULL, *more = extension == NULL ? "" : extension;
  char *name = NULL;
  int fd = -1;
  if (TF_StringStreamNext(dirs, &dir) &&
      asprintf(&name, "%s/weft_XXXXXX%s%s", dir, *more == '\0' ? "" : ".", more) < 0)
    name = NULL;
  if (name != NULL) fd = mkstemps(name, (int)strlen(more) + (*more == '\0' ? 0 : 1));
  TF_StringStreamDone(dirs);
  if (fd >= 0) {
    close(fd);
    unlink(name);
    return name;
  }
  free(name);
  return NULL;
}
