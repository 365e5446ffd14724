/* io/file.c - files through plain system calls.
 *
 * A temporary file is locked (flock) by its writer, from before it has a byte until it has its name. The
 * kernel drops the lock when the process ends in any way, so a temporary file that can be locked belongs to
 * no living writer.
 */
#define _DEFAULT_SOURCE /* flock, realpath */
#include "io/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"

#define TEMPORARY ".tempstate" /* and a number follow the name that the file will have */

enum { BUFFER = 256 * 1024 }; /* fewer, larger writes: a variable of a few bytes costs no call of its own */

struct weft_file_writer {
  int fd;
  char *path;      /* owned, as all below: that of messages */
  char *target;    /* what gets the bytes: where `path` is a link, what it leads to */
  char *temporary; /* NULL: the bytes go straight to `target`, which is no file but a device or a pipe */
  char *directory; /* of `target` */
  uint64_t size;
  size_t used;
  char buffer[BUFFER];
};

static weft_code_t code_of(int error) {
  switch (error) {
    case ENOENT: return WEFT_NOT_FOUND;
    case EEXIST: return WEFT_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return WEFT_PERMISSION_DENIED;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY: return WEFT_FAILED_PRECONDITION;
    case EINVAL:
    case ENAMETOOLONG: return WEFT_INVALID_ARGUMENT;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return WEFT_RESOURCE_EXHAUSTED;
    default: return WEFT_UNKNOWN;
  }
}

weft_status_t *weft_file_error(const char *path, int error) {
  char text[128];
  if (strerror_r(error, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", error);
  return weft_status_new(code_of(error), __FILE__, __LINE__, "%s; %s", path, text);
}

/* The scheme of a URI counts in names, in messages and for what lists files: only the system does without. */
const char *weft_file_on_disk(const char *path) {
  static const char scheme[] = "file://";
  if (strncmp(path, scheme, sizeof scheme - 1) != 0) return path;
  const char *slash = strchr(path + sizeof scheme - 1, '/'); /* behind the host, if there is one */
  return slash == NULL ? "/" : slash;
}

/* Refuses what would otherwise be a folder "s3:" here. */
static weft_status_t *check_scheme(const char *path) {
  size_t n = 0;
  while (isalnum((unsigned char)path[n]) || (n > 0 && path[n] == '.')) n++;
  const bool has_scheme = n > 0 && isalpha((unsigned char)path[0]) && strncmp(path + n, "://", 3) == 0;
  if (!has_scheme || weft_file_on_disk(path) != path) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "File system scheme '%.*s' not implemented (file: '%s')", (int)n, path,
                    path);
}

/* ---- reading ---- */

weft_status_t *weft_file_open(const char *path, weft_file_reader_t *out) {
  struct stat info;
  int fd = open(
      weft_file_on_disk(path),
      O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe that nothing writes to would be waited for without end */
  if (fd < 0) return weft_file_error(path, errno);
  int error = fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  weft_status_t *s = error == 0 ? NULL : weft_file_error(path, error);
  if (s == NULL && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) {
    s = WEFT_ERROR(FAILED_PRECONDITION, "%s; it is a pipe or a socket, which may never end", path);
  }
  if (s == NULL) {
    *out = (weft_file_reader_t){fd, (uint64_t)info.st_size, path};
  } else {
    close(fd);
  }
  return s;
}

void weft_file_close(weft_file_reader_t *r) {
  if (r->fd >= 0) close(r->fd);
  r->fd = -1;
}

weft_status_t *weft_file_read_some(const weft_file_reader_t *r, uint64_t offset, void *to, size_t n,
                                   size_t *got) {
  ssize_t result;
  do {
    result = pread(r->fd, to, n, (off_t)offset);
  } while (result < 0 && errno == EINTR);
  if (result < 0) return weft_file_error(r->path, errno);
  *got = (size_t)result;
  return NULL;
}

weft_status_t *weft_file_read_at(const weft_file_reader_t *r, uint64_t offset, void *to, size_t n) {
  char *at = to;
  while (n > 0) {
    size_t got = 0;
    WEFT_RETURN_IF_ERROR(weft_file_read_some(r, offset, at, n, &got));
    if (got == 0) return WEFT_ERROR(OUT_OF_RANGE, "%s ends before byte %" PRIu64, r->path, offset + n);
    at += got;
    offset += got;
    n -= got;
  }
  return NULL;
}

/* To the end, or to `limit` if the file says its size; one that does not must end before. */
static weft_status_t *read_until(const weft_file_reader_t *r, uint64_t limit, weft_strbuf_t *out) {
  for (;;) {
    uint64_t room = limit - out->length;
    if (r->size == 0 && room == 0) {
      return WEFT_ERROR(RESOURCE_EXHAUSTED,
                        "%s; it has not ended after %" PRIu64
                        " bytes, the most that are read of a file without a size",
                        r->path, limit);
    }
    if (r->size == 0 && room > 64 << 10) room = 64 << 10;
    char *to = room == 0 ? NULL : weft_strbuf_reserve(out, (size_t)room);
    if (to == NULL) return NULL;
    ssize_t got = read(r->fd, to, (size_t)room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return weft_file_error(r->path, errno);
    if (got == 0) return NULL;
    out->length += (size_t)got;
  }
}

weft_status_t *weft_file_read_all(const char *path, char **out, size_t *out_length) {
  weft_file_reader_t r = {.fd = -1};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_file_open(path, &r));
  weft_status_t *s = NULL;
  if (r.size > WEFT_FILE_SIZED_BYTES) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED,
                   "%s; it has %" PRIu64 " bytes, of %" PRIu64 " that can be read at once", path, r.size,
                   WEFT_FILE_SIZED_BYTES);
  }
  if (s == NULL) s = read_until(&r, r.size > 0 ? r.size : WEFT_FILE_UNSIZED_BYTES, &text);
  weft_file_close(&r);
  if (s == NULL) return weft_strbuf_finish(&text, out, out_length);
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- writing ---- */

static void writer_free(weft_file_writer_t *w) {
  if (w->fd >= 0) close(w->fd);
  weft_free(w->path);
  weft_free(w->target);
  weft_free(w->temporary);
  weft_free(w->directory);
  weft_free(w);
}

/* NULL without memory. */
static char *directory_of(const char *path) {
  weft_str_t dir = weft_file_dirname(weft_str(path));
  return dir.length == 0 ? weft_strdup(".") : weft_strndup(dir.data, dir.length);
}

/* A directory that may be written but not read cannot be synced, nor can those of some file systems. */
static weft_status_t *sync_dir(const char *name) {
  int fd = open(weft_file_on_disk(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool failed = fd >= 0 ? fsync(fd) != 0 : true;
  weft_status_t *s =
      !failed || errno == EACCES || errno == EINVAL || errno == ENOTSUP ? NULL : weft_file_error(name, errno);
  if (fd >= 0) close(fd);
  return s;
}

static bool is_unlinked(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && info.st_nlink == 0;
}

weft_status_t *weft_file_check_writable(const char *path) {
  struct stat info;
  const char *on_disk = weft_file_on_disk(path);
  WEFT_RETURN_IF_ERROR(check_scheme(path));
  if (stat(on_disk, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return weft_file_error(path, EISDIR);
    return access(on_disk, W_OK) == 0 ? NULL : weft_file_error(path, errno);
  }
  if (errno != ENOENT) return weft_file_error(path, errno);
  const int fd = open(on_disk, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return weft_file_error(path, errno);
  close(fd);
  unlink(on_disk);
  return NULL;
}

/* Where a link leads to if something is there, else the path itself. NULL without memory. */
static char *target_of(const char *on_disk) {
  char resolved[PATH_MAX];
  return weft_strdup(realpath(on_disk, resolved) == NULL ? on_disk : resolved);
}

/* A new name in the place of a device or a pipe would take it away from all others. One that nothing reads is
 * an error, and not waited for. */
static weft_status_t *open_straight(weft_file_writer_t *w) {
  w->fd = open(w->target, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (w->fd < 0) return weft_file_error(w->path, errno);
  const int flags = fcntl(w->fd, F_GETFL); /* what is opened waits for its reader from here on */
  return fcntl(w->fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? NULL : weft_file_error(w->path, errno);
}

/* With the permissions of the file that it replaces, if there is one. */
static weft_status_t *open_temporary(weft_file_writer_t *w, const struct stat *replaced) {
  const size_t size = strlen(w->target) + 40;
  w->temporary = weft_malloc(size);
  if (w->temporary == NULL) return WEFT_NO_MEMORY("writing %s", w->path);
  do { /* again if it was taken for a stale one before it was locked */
    if (w->fd >= 0) close(w->fd);
    snprintf(w->temporary, size, "%s" TEMPORARY "%" PRIu64, w->target, weft_random_id());
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) return weft_file_error(w->path, errno);
  } while (flock(w->fd, LOCK_EX) == 0 && is_unlinked(w->fd));
  if (replaced != NULL) (void)fchmod(w->fd, replaced->st_mode & 0777); /* not all file systems have them */
  return NULL;
}

weft_status_t *weft_file_writer_create(const char *path, weft_file_writer_t **out) {
  WEFT_RETURN_IF_ERROR(check_scheme(path));
  weft_file_writer_t *w = weft_malloc(sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("writing %s", path);
  *w =
      (weft_file_writer_t){.fd = -1, .path = weft_strdup(path), .target = target_of(weft_file_on_disk(path))};
  if (w->target != NULL) w->directory = directory_of(w->target);
  weft_status_t *s = NULL;
  if (w->path == NULL || w->target == NULL || w->directory == NULL) {
    s = WEFT_NO_MEMORY("writing %s", path);
    goto done;
  }
  struct stat info;
  const bool is_there = stat(w->target, &info) == 0;
  if (is_there && S_ISDIR(info.st_mode)) {
    s = weft_file_error(path, EISDIR);
  } else if (is_there && !S_ISREG(info.st_mode)) {
    s = open_straight(w);
  } else {
    s = open_temporary(w, is_there ? &info : NULL);
  }
  if (s != NULL) goto done;
  *out = w;
  w = NULL;
done:
  if (w != NULL) writer_free(w);
  return s;
}

static weft_status_t *write_all(weft_file_writer_t *w, const char *data, size_t n) {
  while (n > 0) {
    ssize_t done = write(w->fd, data, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return weft_file_error(w->path, errno);
    data += done;
    n -= (size_t)done;
  }
  return NULL;
}

static weft_status_t *flush(weft_file_writer_t *w) {
  weft_status_t *s = write_all(w, w->buffer, w->used);
  if (s == NULL) w->used = 0;
  return s;
}

weft_status_t *weft_file_writer_append(weft_file_writer_t *w, const void *data, size_t n) {
  if (n > BUFFER - w->used) WEFT_RETURN_IF_ERROR(flush(w));
  if (n > BUFFER) {
    WEFT_RETURN_IF_ERROR(write_all(w, data, n));
  } else if (n > 0) {
    memcpy(w->buffer + w->used, data, n);
    w->used += n;
  }
  w->size += n;
  return NULL;
}

weft_status_t *weft_file_writer_sync(weft_file_writer_t *w) {
  WEFT_RETURN_IF_ERROR(flush(w));
  return w->temporary == NULL || fsync(w->fd) == 0 ? NULL : weft_file_error(w->path, errno);
}

uint64_t weft_file_writer_size(const weft_file_writer_t *w) { return w->size; }

static weft_status_t *take_name(weft_file_writer_t *w) {
  if (w->temporary == NULL || rename(w->temporary, w->target) == 0) return NULL;
  return weft_file_error(w->path, errno);
}

static void drop_temporary(weft_file_writer_t *w) {
  if (w->temporary != NULL) unlink(w->temporary);
}

weft_status_t *weft_file_writer_finish(weft_file_writer_t *w) {
  weft_status_t *s = flush(w);
  int closed = close(w->fd);
  w->fd = -1;
  if (s == NULL && closed != 0) s = weft_file_error(w->path, errno);
  if (s == NULL) s = take_name(w);
  if (s != NULL) drop_temporary(w);
  writer_free(w);
  return s;
}

weft_status_t *weft_file_writer_commit(weft_file_writer_t *w) {
  weft_status_t *s = weft_file_writer_sync(w);
  if (s == NULL) s = take_name(w); /* still locked: a reader of leftovers leaves it alone */
  if (s != NULL) {
    drop_temporary(w);
  } else if (w->temporary != NULL) {
    s = sync_dir(w->directory);
  }
  writer_free(w);
  return s;
}

void weft_file_writer_abandon(weft_file_writer_t *w) {
  if (w == NULL) return;
  drop_temporary(w);
  writer_free(w);
}

weft_status_t *weft_file_append(const char *path, const void *data, size_t n) {
  WEFT_RETURN_IF_ERROR(check_scheme(path));
  int fd = open(weft_file_on_disk(path), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) return weft_file_error(path, errno);
  ssize_t put = -1;
  for (const char *at = data; n > 0; at += put, n -= (size_t)put) {
    put = write(fd, at, n);
    if (put < 0 && errno == EINTR) put = 0;
    if (put < 0) break;
  }
  weft_status_t *s = n > 0 ? weft_file_error(path, errno) : NULL;
  close(fd);
  return s;
}

/* ---- names ---- */

weft_status_t *weft_file_make_dirs(const char *dir) {
  WEFT_RETURN_IF_ERROR(check_scheme(dir));
  char *path = weft_strdup(weft_file_on_disk(dir));
  if (path == NULL) return WEFT_NO_MEMORY("making directory %s", dir);
  weft_status_t *s = NULL;
  for (char *at = path; s == NULL && *at != '\0';) {
    at++;
    if (*at != '/' && *at != '\0') continue;
    char end = *at;
    *at = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST && errno != EISDIR) s = weft_file_error(path, errno);
    *at = end;
  }
  weft_free(path);
  return s;
}

weft_status_t *weft_file_rename(const char *from, const char *to) {
  return rename(weft_file_on_disk(from), weft_file_on_disk(to)) == 0 ? NULL : weft_file_error(from, errno);
}

weft_status_t *weft_file_link(const char *from, const char *to) {
  weft_file_remove(to);
  return link(weft_file_on_disk(from), weft_file_on_disk(to)) == 0 ? NULL : weft_file_error(from, errno);
}

weft_status_t *weft_file_sync(const char *path) {
  int fd = open(weft_file_on_disk(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return weft_file_error(path, errno);
  weft_status_t *s = fsync(fd) == 0 ? NULL : weft_file_error(path, errno);
  close(fd);
  return s;
}

weft_status_t *weft_file_sync_dir(const char *path) {
  char *name = directory_of(path);
  if (name == NULL) return WEFT_NO_MEMORY("writing %s", path);
  weft_status_t *s = sync_dir(name);
  weft_free(name);
  return s;
}

bool weft_file_exists(const char *path) { return access(weft_file_on_disk(path), F_OK) == 0; }
void weft_file_remove(const char *path) { unlink(weft_file_on_disk(path)); }
void weft_file_remove_dir(const char *path) { rmdir(weft_file_on_disk(path)); }

weft_str_t weft_file_dirname(weft_str_t path) {
  ptrdiff_t at = weft_str_rfind(path, '/');
  return at < 0 ? WEFT_STR("") : weft_str_of(path.data, at == 0 ? 1 : (size_t)at);
}

weft_str_t weft_file_basename(weft_str_t path) {
  ptrdiff_t at = weft_str_rfind(path, '/');
  return weft_str_of(path.data + at + 1, path.length - (size_t)(at + 1));
}

void weft_file_each_name(const char *dir_path, weft_file_name_fn *f, void *arg) {
  DIR *dir = opendir(dir_path[0] == '\0' ? "." : weft_file_on_disk(dir_path));
  for (struct dirent *e = dir == NULL ? NULL : readdir(dir); e != NULL; e = readdir(dir))
    f(arg, dirfd(dir), e->d_name);
  if (dir != NULL) closedir(dir);
}

/* ---- temporary files that a killed process left ---- */

size_t weft_file_temporary_base(const char *name) {
  const char *mark = strstr(name, TEMPORARY);
  if (mark == NULL) return 0;
  const char *number = mark + strlen(TEMPORARY);
  size_t digits = strspn(number, "0123456789");
  return digits > 0 && number[digits] == '\0' ? (size_t)(mark - name) : 0;
}

void weft_file_remove_stale(int dir_fd, const char *name) {
  int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dir_fd, name, 0);
  close(fd);
}

static void remove_leftover(void *arg, int dir_fd, const char *name) {
  const weft_str_t *base = arg;
  size_t length = weft_file_temporary_base(name);
  if (length > 0 && weft_str_eq(weft_str_of(name, length), *base)) weft_file_remove_stale(dir_fd, name);
}

weft_status_t *weft_file_remove_leftovers(const char *path) {
  weft_str_t base = weft_file_basename(weft_str(path));
  char *dir = directory_of(path);
  if (dir == NULL) return WEFT_NO_MEMORY("writing %s", path);
  weft_file_each_name(dir, remove_leftover, &base);
  weft_free(dir);
  return NULL;
}
