/* io/file.h - whole files and pieces of files, with errors in TensorFlow's codes and words. A path may be a
 * "file://" URI; other schemes are UNIMPLEMENTED where a file is opened or made. */
#ifndef WEFT_IO_FILE_H_
#define WEFT_IO_FILE_H_

#include "base/status.h"
#include "base/str.h"

enum { WEFT_FILE_UNSIZED_BYTES = 64 << 20 }; /* of a file that does not say its size: of /proc, a device */
#define WEFT_FILE_SIZED_BYTES \
  ((uint64_t)64 << 30) /* of one that does: more is a mistake (/proc/kcore says 128 TiB) */

/* ---- reading; Thread-safe: pieces are read by position ---- */
typedef struct weft_file_reader {
  int fd; /* -1: closed */
  uint64_t size;
  const char *path; /* borrowed */
} weft_file_reader_t;

/* `path` must outlive the reader. Never waits: pipes and sockets are refused, devices are not waited for.
 * Errors: NOT_FOUND
 * "<path>; No such file or directory", PERMISSION_DENIED, FAILED_PRECONDITION (a directory, a pipe, a
 * socket), ... */
WEFT_MUST_CHECK weft_status_t *weft_file_open(const char *path, weft_file_reader_t *out);
void weft_file_close(weft_file_reader_t *r);
/* Up to `n` bytes at `offset`; *got is 0 at the end of the file alone. */
WEFT_MUST_CHECK weft_status_t *weft_file_read_some(const weft_file_reader_t *r, uint64_t offset, void *to,
                                                   size_t n, size_t *got);
/* Exactly `n` bytes at `offset`. Errors: OUT_OF_RANGE if the file is shorter. */
WEFT_MUST_CHECK weft_status_t *weft_file_read_at(const weft_file_reader_t *r, uint64_t offset, void *to,
                                                 size_t n);
/* The whole of a file, as long as it was when it was opened; one that does not say its size is read to its
 * end. *out is owned by the caller (weft_free), '\0'-ended. Errors: also RESOURCE_EXHAUSTED beyond the limits
 * above. */
WEFT_MUST_CHECK weft_status_t *weft_file_read_all(const char *path, char **out, size_t *out_length);

/* ---- writing; Confined ---- */
/* Could a file be written there? Makes none, and changes none that is there. Errors: NOT_FOUND without the
 * directory, PERMISSION_DENIED, FAILED_PRECONDITION (a directory itself), ... */
WEFT_MUST_CHECK weft_status_t *weft_file_check_writable(const char *path);
typedef struct weft_file_writer weft_file_writer_t;
/* Writes under a temporary name beside `path`, which weft_file_writer_finish renames: a file that was there
 * is whole until then, and its permissions are the new one's. Where `path` is a link, what it leads to is
 * replaced. A device or a pipe is written to as it is, and waited for when it takes no more. Buffered.
 * Errors: FAILED_PRECONDITION for a directory, UNKNOWN for a pipe that nothing reads, ... */
WEFT_MUST_CHECK weft_status_t *weft_file_writer_create(const char *path, weft_file_writer_t **out);
WEFT_MUST_CHECK weft_status_t *weft_file_writer_append(weft_file_writer_t *w, const void *data, size_t n);
/* What was appended is on the disk, though not yet under its name. */
WEFT_MUST_CHECK weft_status_t *weft_file_writer_sync(weft_file_writer_t *w);
uint64_t weft_file_writer_size(const weft_file_writer_t *w); /* bytes appended so far */
/* Closes and renames. Consumes `w`; the temporary file is gone also on failure. */
WEFT_MUST_CHECK weft_status_t *weft_file_writer_finish(weft_file_writer_t *w);
/* The same, and durable: the bytes are on the disk before they get their name, and the name is when this
 * returns. If only the last of these fails the file has its name all the same. */
WEFT_MUST_CHECK weft_status_t *weft_file_writer_commit(weft_file_writer_t *w);
void weft_file_writer_abandon(weft_file_writer_t *w); /* removes the temporary file. NULL is fine */

/* Adds `n` bytes to the end of a file in one write, without waiting; makes the file if it is not there. */
WEFT_MUST_CHECK weft_status_t *weft_file_append(const char *path, const void *data, size_t n);

/* ---- names ---- */
WEFT_MUST_CHECK weft_status_t *weft_file_make_dirs(
    const char *dir); /* and its parents; fine if it is there */
WEFT_MUST_CHECK weft_status_t *weft_file_rename(const char *from, const char *to);
/* A second name for a file; what `to` named before is gone. Errors: also those of a file system without
 * links. */
WEFT_MUST_CHECK weft_status_t *weft_file_link(const char *from, const char *to);
WEFT_MUST_CHECK weft_status_t *weft_file_sync(const char *path);     /* the file's bytes are on the disk */
WEFT_MUST_CHECK weft_status_t *weft_file_sync_dir(const char *path); /* so are the names beside `path` */
bool weft_file_exists(const char *path);
void weft_file_remove(const char *path);       /* as well as it goes */
void weft_file_remove_dir(const char *path);   /* if it is empty */
weft_str_t weft_file_dirname(weft_str_t path); /* "" if there is no '/' */
weft_str_t weft_file_basename(weft_str_t path);
/* Calls `f` for each name in the directory `dir` ("": the current one), as well as it goes. `dir_fd` is the
 * open directory; `f` may remove what it is called for. */
typedef void weft_file_name_fn(void *arg, int dir_fd, const char *name);
void weft_file_each_name(const char *dir, weft_file_name_fn *f, void *arg);

/* ---- temporary files that a killed process left ---- */

/* How long the name is that a writer would have given to its temporary file `name`; 0: it is no temporary
 * file. */
size_t weft_file_temporary_base(const char *name);
/* Removes a temporary file unless its writer lives: that one holds a lock. */
void weft_file_remove_stale(int dir_fd, const char *name);
/* Removes those of the file `path`. Errors: RESOURCE_EXHAUSTED alone. */
WEFT_MUST_CHECK weft_status_t *weft_file_remove_leftovers(const char *path);
/* A path as system calls take it: that of a "file://" URI, or what is given. */
const char *weft_file_on_disk(const char *path);
/* The error of a system call on a path, by errno. */
WEFT_MUST_CHECK weft_status_t *weft_file_error(const char *path, int error);

#endif /* WEFT_IO_FILE_H_ */
