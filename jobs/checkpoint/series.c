/* jobs/checkpoint/series.c - files of a series: found, written, dropped. */
#define _GNU_SOURCE
#include "jobs/checkpoint/series.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/source.h"
#include "jobs/checkpoint/state.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the names of checkpoints"); }

void weft_series_deinit(weft_series_t *s) {
  weft_free(s->names);
  weft_arena_deinit(&s->arena);
  *s = (weft_series_t){.arena = WEFT_ARENA_INIT};
}

static bool is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static weft_str_t text_of(weft_arena_t *arena, weft_strbuf_t *b) {
  weft_str_t text = b->failed ? weft_str_of(NULL, 0)
                              : weft_arena_str(arena, weft_str_of(b->data == NULL ? "" : b->data, b->length));
  weft_strbuf_deinit(b);
  return text;
}

/* The path of a name of the series. data NULL without memory. */
static weft_str_t path_of(const weft_series_t *s, weft_str_t name, weft_arena_t *arena) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, s->directory);
  if (s->directory.length > 0 && s->directory.data[s->directory.length - 1] != '/') weft_strbuf_putc(&b, '/');
  weft_strbuf_append(&b, name);
  return text_of(arena, &b);
}

static bool is_bundle(weft_str_t prefix) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_bundle_index_path(prefix, &b);
  bool yes = !b.failed && weft_file_exists(b.data);
  weft_strbuf_deinit(&b);
  return yes;
}

/* ---- opening ---- */

static weft_status_t *add_name(weft_series_t *s, weft_str_t name) {
  weft_str_t *more = weft_realloc(s->names, (size_t)s->n + 1, sizeof *more);
  if (more == NULL) return no_memory();
  s->names = more;
  more[s->n] = weft_arena_str(&s->arena, name);
  if (more[s->n].data == NULL) return no_memory();
  s->n++;
  return NULL;
}

static weft_str_t last_piece(weft_str_t path) {
  ptrdiff_t at = weft_str_rfind(path, '/');
  return weft_str_of(path.data + at + 1, path.length - (size_t)(at + 1));
}

/* The checkpoints that are named beside the prefix and still there. Those of another prefix are no part of
 * the series. */
static weft_status_t *look_around(weft_series_t *s, bool goes_on) {
  weft_checkpoint_state_t state;
  weft_status_t *failure = weft_checkpoint_state_read(s->directory, &state);
  for (int i = 0; failure == NULL && i < state.n; i++) {
    weft_str_t path = state.paths[i], name = last_piece(path);
    if (!is_bundle(path)) continue;
    bool is_own = name.length > s->name.length + 1 && memcmp(name.data, s->name.data, s->name.length) == 0 &&
                  name.data[s->name.length] == '-' && weft_str_eq(weft_file_dirname(path), s->directory);
    if (goes_on && is_own) failure = add_name(s, name);
    if (failure == NULL && is_own) s->latest = weft_arena_str(&s->arena, path);
    if (failure == NULL && s->latest.length > 0 && s->latest.data == NULL) failure = no_memory();
  }
  weft_checkpoint_state_deinit(&state);
  return failure;
}

/* A data file of the series whose process was killed before it wrote the index: no checkpoint names it. */
static bool is_orphan(const weft_series_t *s, const char *name, const char *rest) {
  if (strncmp(rest, ".data-", 6) != 0) return false;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, s->directory.length == 0 ? WEFT_STR(".") : s->directory);
  weft_strbuf_putc(&b, '/');
  weft_strbuf_append(&b, weft_str_of(name, (size_t)(rest - name)));
  weft_strbuf_puts(&b, ".index");
  bool is_one = !b.failed && !weft_file_exists(b.data);
  weft_strbuf_deinit(&b);
  return is_one;
}

/* What a process that was killed while it wrote has left: model-100.index.tempstate123,
 * checkpoint.tempstate123. */
static void remove_leftover(void *arg, int dir_fd, const char *name) {
  const weft_series_t *s = arg;
  size_t temporary = weft_file_temporary_base(name);
  const char *at = name + s->name.length;
  if (temporary > 0 && weft_str_is(weft_str_of(name, temporary), "checkpoint"))
    weft_file_remove_stale(dir_fd, name);
  if (strncmp(name, s->name.data, s->name.length) != 0) return;
  if (temporary > 0 && temporary == s->name.length)
    weft_file_remove_stale(dir_fd, name); /* of weft_series_check_place */
  if (at[0] != '-' || strspn(at + 1, "0123456789") == 0) return;
  at += 1 + strspn(at + 1, "0123456789");
  if (temporary == 0 && is_orphan(s, name, at)) unlinkat(dir_fd, name, 0);
  if (temporary > 0 && (strncmp(at, ".index.", 7) == 0 || strncmp(at, ".data-", 6) == 0))
    weft_file_remove_stale(dir_fd, name);
}

/* Errors of the system say what is wrong; this says what to do. */
weft_status_t *weft_series_check_place(const weft_series_t *s) {
  const char *dir = s->directory.length == 0 ? "." : s->directory.data;
  if (s->name.length == 0 || is_directory(s->prefix.data)) {
    return WEFT_ERROR(
        FAILED_PRECONDITION, "%s %s is a directory; give the beginning of file names in it: %s %s%smodel",
        s->option, s->prefix.data, s->option, s->prefix.data, weft_str_ends_with(s->prefix, "/") ? "" : "/");
  }
  if (!weft_file_exists(dir)) { /* it is made, as TensorFlow's checkpoints do */
    weft_status_t *made = weft_file_make_dirs(dir);
    if (made != NULL) {
      weft_status_t *told = weft_status_new(weft_status_code(made), __FILE__, __LINE__,
                                            "%s %s: the directory %s cannot be made: %s", s->option,
                                            s->prefix.data, dir, weft_status_message(made));
      weft_status_free(made);
      return told;
    }
  }
  if (!is_directory(dir))
    return WEFT_ERROR(FAILED_PRECONDITION, "%s %s: %s is no directory", s->option, s->prefix.data, dir);
  weft_file_writer_t *probe = NULL;
  weft_status_t *failure = weft_file_writer_create(s->prefix.data, &probe);
  if (failure == NULL) failure = weft_file_writer_append(probe, "", 1);
  if (failure == NULL) failure = weft_file_writer_sync(probe);
  weft_file_writer_abandon(probe);
  if (failure == NULL) {
    weft_file_each_name(s->directory.length == 0 ? "" : s->directory.data, remove_leftover,
                        (void *)(uintptr_t)s);
    return NULL;
  }
  weft_status_t *told = weft_status_new(
      weft_status_code(failure), __FILE__, __LINE__, "%s %s: nothing can be written into %s: %s", s->option,
      s->prefix.data, dir,
      strrchr(weft_status_message(failure), ';') == NULL ? weft_status_message(failure)
                                                         : strrchr(weft_status_message(failure), ';') + 2);
  weft_status_free(failure);
  return told;
}

weft_status_t *weft_series_open(const char *option, const char *prefix, int keep, bool goes_on,
                                weft_series_t *out) {
  *out = (weft_series_t){.arena = WEFT_ARENA_INIT, .option = option, .keep = keep, .latest = WEFT_STR("")};
  out->prefix = weft_arena_str(&out->arena, weft_str(prefix));
  out->directory = weft_arena_str(&out->arena, weft_file_dirname(weft_str(prefix)));
  out->name = weft_arena_str(&out->arena, last_piece(weft_str(prefix)));
  if (out->prefix.data == NULL || out->directory.data == NULL || out->name.data == NULL) return no_memory();
  return look_around(out, goes_on);
}

weft_status_t *weft_series_resolve(const char *path, weft_arena_t *arena, weft_str_t *out) {
  weft_str_t given = weft_str(path);
  while (given.length > 1 && given.data[given.length - 1] == '/') given.length--;
  if (!is_directory(path) || weft_source_exists(given)) {
    *out = weft_arena_str(arena, weft_str(path));
    return out->data == NULL ? no_memory() : NULL;
  }
  weft_checkpoint_state_t state;
  weft_status_t *s = weft_checkpoint_state_read(given, &state);
  *out = WEFT_STR("");
  for (int i = 0; s == NULL && i < state.n; i++) {
    if (weft_source_exists(state.paths[i])) *out = state.paths[i];
  }
  if (s == NULL && out->length == 0)
    s = WEFT_ERROR(
        NOT_FOUND,
        "%s is a directory without a checkpoint in it (no file %.*s/checkpoint names one that is there)",
        path, WEFT_STR_ARGS(given));
  if (s == NULL) {
    *out = weft_arena_str(arena, *out);
    if (out->data == NULL) s = no_memory();
  }
  weft_checkpoint_state_deinit(&state);
  return s;
}

/* ---- writing ---- */

weft_status_t *weft_series_check_room(const weft_series_t *s, uint64_t bytes) {
  struct statvfs info;
  if (statvfs(s->directory.length == 0 ? "." : s->directory.data, &info) != 0)
    return NULL; /* saving will tell */
  uint64_t room = (uint64_t)info.f_bavail * (uint64_t)info.f_frsize;
  if (bytes <= room) return NULL;
  return WEFT_ERROR(RESOURCE_EXHAUSTED,
                    "%s %s: a checkpoint takes %" PRIu64 " bytes, and there is room for %" PRIu64
                    "; free some space",
                    s->option, s->prefix.data, bytes, room);
}

weft_status_t *weft_series_begin(weft_series_t *s, int64_t step, weft_str_t *out_path,
                                 weft_bundle_writer_t **out) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%s-%" PRId64, s->prefix.data, step);
  *out_path = text_of(&s->arena, &b);
  if (out_path->data == NULL) return no_memory();
  return weft_bundle_writer_create(*out_path, out);
}

/* The index goes first: without it the rest is no checkpoint. */
static void drop(weft_series_t *s, weft_str_t name) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_bundle_reader_t *r = NULL;
  weft_str_t path = path_of(s, name, &arena);
  weft_status_t *failure = path.data == NULL ? no_memory() : weft_bundle_reader_open(path, &r);
  int64_t n = failure == NULL ? weft_bundle_reader_num_shards(r) : 0;
  weft_status_free(failure);
  weft_bundle_reader_close(r);
  for (int64_t i = -1; path.data != NULL && i < n; i++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    if (i < 0) {
      weft_bundle_index_path(path, &b);
    } else {
      weft_bundle_data_path(path, i, n, &b);
    }
    if (!b.failed) weft_file_remove(b.data);
    weft_strbuf_deinit(&b);
  }
  weft_arena_deinit(&arena);
}

weft_status_t *weft_series_commit(weft_series_t *s, weft_str_t path, weft_bundle_writer_t *w) {
  weft_str_t name = last_piece(path);
  WEFT_RETURN_IF_ERROR(weft_bundle_writer_finish(w));
  int kept = 0;
  for (int i = 0; i < s->n; i++) { /* a name that is written again becomes the newest */
    if (!weft_str_eq(s->names[i], name)) s->names[kept++] = s->names[i];
  }
  s->n = kept;
  WEFT_RETURN_IF_ERROR(add_name(s, name));
  int old = s->keep > 0 && s->n > s->keep ? s->n - s->keep : 0;
  WEFT_RETURN_IF_ERROR(weft_checkpoint_state_write(s->directory, s->names + old, s->n - old));
  for (int i = 0; i < old; i++) drop(s, s->names[i]);
  memmove(s->names, s->names + old, (size_t)(s->n - old) * sizeof *s->names);
  s->n -= old;
  return NULL;
}
