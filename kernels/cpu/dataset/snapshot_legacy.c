/* kernels/cpu/dataset/snapshot_legacy.c - SnapshotDataset, the first kind of snapshots: one run of numbered
 * files (snapshot_v1.h), read in their order.
 *
 *   <path>/<hash>/snapshot.metadata, <path>/custom-<name>/snapshot.metadata
 *   <writer_path_prefix><path>/<hash>/<run>/<number>.snapshot
 *
 * The writing pass is one element ahead, so that the metadata are final when the last element has been given.
 * One thread writes, and one reads, whatever num_writer_threads and num_reader_threads say: more of them give
 * TensorFlow's elements another order. shuffle_on_read changes the order of files, which is not TensorFlow's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "io/file.h"
#include "io/match_files.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/seeds.h"
#include "kernels/cpu/dataset/snapshot.h"
#include "kernels/cpu/dataset/snapshot_v1.h"

typedef enum legacy_mode { NOT_CHOSEN, READS, WRITES, PASSES } legacy_mode_t;
typedef enum legacy_ahead { NOTHING, ELEMENT, END, FAILURE } legacy_ahead_t;

typedef struct legacy_params {
  weft_dataset_params_t base;
  legacy_mode_t mode; /* NOT_CHOSEN: by the metadata */
  weft_compression_t compression;
  int64_t file_bytes, expiry_us, seed, seed2;
  bool shuffles;
  weft_str_t name, reader_prefix, writer_prefix; /* lent until `make` */
  bool is_named;
  char *dir, *reader_dir, *writer_dir; /* owned: "<path>/<hash>", reader_path_prefix, and writer_path_prefix
                                          before dir */
} legacy_params_t;

typedef struct legacy_snapshot {
  weft_iterator_t base; /* its input is open in the modes WRITES and PASSES */
  legacy_mode_t mode;
  weft_snapshot_metadata_t metadata; /* of the run that is read or written */
  /* READS */
  weft_path_list_t files;
  size_t file; /* the one that is open, or the next */
  int64_t seed, seed2;
  weft_byte_stream_t *stream; /* owned */
  /* WRITES */
  weft_record_writer_t *writer;      /* owned; NULL: no file is open */
  int64_t num_files, bytes;          /* files that were begun; bytes of elements in the last one */
  bool has_run, is_saved, is_silent; /* is_saved: a state names the run; is_silent: it is final already */
  legacy_ahead_t ahead;
  weft_tensor_t **parts;  /* ELEMENT: spec->n tensors; owned */
  weft_status_t *failure; /* FAILURE: owned */
  weft_status_t *broken;  /* of the writer; every later element gets it; owned */
} legacy_snapshot_t;

static const legacy_params_t *params_of(const legacy_snapshot_t *n) {
  return (const legacy_params_t *)n->base.of->params;
}

static bool is_snappy(const legacy_params_t *p) { return p->compression == WEFT_COMPRESSION_SNAPPY; }

/* What compresses the file as a whole. */
static weft_compression_t of_file(const legacy_params_t *p) {
  return is_snappy(p) ? WEFT_COMPRESSION_NONE : p->compression;
}

/* "<before><slash if need be><after>", owned by the caller. */
static char *join(weft_str_t before, weft_str_t after) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, before);
  const bool has_slash = weft_str_ends_with(before, "/") || weft_str_starts_with(after, "/");
  if (before.length > 0 && !has_slash) weft_strbuf_putc(&text, '/');
  weft_strbuf_append(&text, after);
  char *joined = text.failed ? NULL : weft_strndup(text.data, text.length);
  weft_strbuf_deinit(&text);
  return joined;
}

/* ---- reading ---- */

static void shuffle(legacy_snapshot_t *n) {
  weft_philox_words_t words = weft_seeds_words(n->seed, n->seed2, 0);
  for (size_t left = n->files.n; left > 1; left--) {
    const size_t k = (size_t)weft_philox_uniform64(&words, left);
    char *path = n->files.paths[k];
    n->files.paths[k] = n->files.paths[left - 1];
    n->files.paths[left - 1] = path;
  }
}

static weft_status_t *find_files(legacy_snapshot_t *n) {
  const legacy_params_t *p = params_of(n);
  weft_strbuf_t pattern = WEFT_STRBUF_INIT;
  if (n->metadata.run[0] == '\0') return WEFT_ERROR(NOT_FOUND, "Could not find a valid snapshot to read.");
  if (n->metadata.version != WEFT_SNAPSHOT_V1)
    return WEFT_ERROR(UNIMPLEMENTED, "%s has version %" PRId64 " of snapshots; version %d is read", p->dir,
                      n->metadata.version, WEFT_SNAPSHOT_V1);
  weft_strbuf_printf(&pattern, "%s/%s/*", p->dir, n->metadata.run);
  weft_status_t *s = pattern.failed ? WEFT_NO_MEMORY("a snapshot")
                                    : weft_match_files(weft_str_of(pattern.data, pattern.length), &n->files);
  weft_strbuf_deinit(&pattern);
  if (s != NULL) return s;
  weft_path_list_sort(&n->files);
  if (p->shuffles) shuffle(n);
  return n->files.n > 0
             ? NULL
             : WEFT_ERROR(NOT_FOUND, "Could not find any files in dir: %s/%s", p->dir, n->metadata.run);
}

static weft_status_t *open_file(legacy_snapshot_t *n) {
  const legacy_params_t *p = params_of(n);
  char *path = join(weft_str(p->reader_dir), weft_str(n->files.paths[n->file]));
  if (path == NULL) return WEFT_NO_MEMORY("a snapshot");
  weft_status_t *s = weft_byte_stream_open(path, of_file(p), &n->stream);
  weft_free(path);
  return s;
}

static weft_status_t *read_next(legacy_snapshot_t *n, weft_tensor_t **out, bool *is_end) {
  const weft_element_spec_t *spec = n->base.of->spec;
  while (n->file < n->files.n) {
    bool is_over = false;
    if (n->stream == NULL) WEFT_RETURN_IF_ERROR(open_file(n));
    weft_status_t *s = weft_snapshot_v1_next(n->stream, is_snappy(params_of(n)), spec, out, &is_over);
    if (s != NULL) return weft_status_annotate(s, "%s", n->files.paths[n->file]);
    if (!is_over) return NULL;
    weft_byte_stream_close(n->stream);
    n->stream = NULL;
    n->file++;
  }
  *is_end = true;
  return NULL;
}

/* ---- writing ---- */

static weft_status_t *file_path(const legacy_snapshot_t *n, int64_t number, weft_strbuf_t *out) {
  out->length = 0;
  weft_strbuf_printf(out, "%s/%s/%08" PRId64 ".snapshot", params_of(n)->writer_dir, n->metadata.run, number);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

/* Removes the files with that number and the numbers behind it. */
static weft_status_t *remove_files(const legacy_snapshot_t *n, int64_t first) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int64_t i = first; s == NULL; i++) {
    s = file_path(n, i, &path);
    if (s != NULL || !weft_file_exists(path.data)) break;
    weft_file_remove(path.data);
  }
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *begin_file(legacy_snapshot_t *n) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = file_path(n, n->num_files, &path);
  if (s == NULL) s = weft_record_writer_create(path.data, of_file(params_of(n)), &n->writer);
  weft_strbuf_deinit(&path);
  n->num_files += s == NULL;
  n->bytes = 0;
  return s;
}

static weft_status_t *end_file(legacy_snapshot_t *n) {
  weft_record_writer_t *w = n->writer;
  n->writer = NULL;
  return w != NULL ? weft_record_writer_finish(w) : NULL;
}

static weft_status_t *begin_run(legacy_snapshot_t *n) {
  const legacy_params_t *p = params_of(n);
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  n->metadata = (weft_snapshot_metadata_t){.version = WEFT_SNAPSHOT_V1};
  if (p->is_named) (void)snprintf(n->metadata.run, sizeof n->metadata.run, "custom");
  if (!p->is_named) (void)snprintf(n->metadata.run, sizeof n->metadata.run, "%" PRIx64, weft_random_id());
  weft_strbuf_printf(&path, "%s/%s", p->writer_dir, n->metadata.run);
  weft_status_t *s = path.failed ? WEFT_NO_MEMORY("a snapshot") : weft_file_make_dirs(path.data);
  if (s == NULL) s = weft_file_make_dirs(p->dir);
  if (s == NULL) s = weft_snapshot_metadata_write(p->dir, &n->metadata, n->base.of->spec);
  weft_strbuf_deinit(&path);
  if (s == NULL) s = remove_files(n, 0); /* of a run of that name */
  if (s == NULL) s = begin_file(n);
  n->has_run = s == NULL;
  return s;
}

static weft_status_t *write_element(legacy_snapshot_t *n) {
  const legacy_params_t *p = params_of(n);
  const weft_element_spec_t *spec = n->base.of->spec;
  if (n->is_silent) return NULL;
  n->bytes += (int64_t)weft_element_bytes(n->parts, spec->n);
  if (n->writer != NULL && n->bytes > p->file_bytes) WEFT_RETURN_IF_ERROR(end_file(n));
  if (n->writer == NULL) WEFT_RETURN_IF_ERROR(begin_file(n));
  n->metadata.num_elements++;
  return weft_snapshot_v1_put(n->writer, is_snappy(p), spec, n->parts);
}

/* The metadata become final, unless another pass has written its own meanwhile. */
static weft_status_t *end_run(legacy_snapshot_t *n) {
  const legacy_params_t *p = params_of(n);
  weft_snapshot_metadata_t now;
  if (n->is_silent) return NULL;
  WEFT_RETURN_IF_ERROR(end_file(n));
  WEFT_RETURN_IF_ERROR(weft_snapshot_metadata_read(p->dir, &now));
  if (strcmp(now.run, n->metadata.run) != 0) return NULL;
  n->metadata.is_final = true;
  return weft_snapshot_metadata_write(p->dir, &n->metadata, n->base.of->spec);
}

/* The next element of the input, or its end or failure, which is written and kept. Errors: of writing. */
static weft_status_t *look_ahead(legacy_snapshot_t *n) {
  bool is_end = false;
  n->failure = weft_iterator_next(n->base.input, n->parts, &is_end);
  n->ahead = n->failure != NULL ? FAILURE : is_end ? END : ELEMENT;
  if (n->ahead == FAILURE) return NULL;
  n->broken = is_end ? end_run(n) : write_element(n);
  return n->broken != NULL ? weft_status_clone(n->broken) : NULL;
}

static weft_status_t *write_next(legacy_snapshot_t *n, weft_tensor_t **out, bool *is_end) {
  const size_t size = (size_t)n->base.of->spec->n * sizeof *out;
  if (n->broken != NULL) return weft_status_clone(n->broken);
  if (!n->has_run) WEFT_RETURN_IF_ERROR(begin_run(n));
  if (n->ahead == NOTHING) WEFT_RETURN_IF_ERROR(look_ahead(n));
  weft_status_t *s = n->failure;
  n->failure = NULL;
  *is_end = n->ahead == END;
  if (n->ahead == FAILURE) n->ahead = NOTHING;
  if (n->ahead != ELEMENT) return s;
  memcpy(out, n->parts, size);
  memset(n->parts, 0, size);
  n->ahead = NOTHING;
  return look_ahead(n);
}

static void discard_run(legacy_snapshot_t *n) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_record_writer_abandon(n->writer);
  n->writer = NULL;
  const bool is_kept = !n->has_run || n->metadata.is_final || n->is_saved || n->is_silent;
  for (int64_t i = 0; !is_kept && i < n->num_files; i++) {
    weft_status_t *s = file_path(n, i, &path);
    if (s == NULL) weft_file_remove(path.data);
    weft_status_free(s);
  }
  path.length = 0;
  weft_strbuf_printf(&path, "%s/%s", params_of(n)->writer_dir, n->metadata.run);
  if (!is_kept && !path.failed) weft_file_remove_dir(path.data);
  weft_strbuf_deinit(&path);
}

/* ---- a pass ---- */

static weft_status_t *choose(legacy_snapshot_t *n, legacy_mode_t *out) {
  const legacy_params_t *p = params_of(n);
  weft_status_t *s = weft_snapshot_metadata_read(p->dir, &n->metadata);
  const bool is_there = s == NULL;
  *out = p->mode;
  if (weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    s = p->mode == READS ? WEFT_ERROR(NOT_FOUND, "Metadata file does not exist.") : NULL;
  }
  if (s != NULL || p->mode != NOT_CHOSEN) return s;
  const bool is_recent = is_there && n->metadata.created_us >= weft_clock_micros() - p->expiry_us;
  *out = is_there && n->metadata.is_final ? READS : is_recent ? PASSES : WRITES;
  return NULL;
}

static weft_status_t *enter(legacy_snapshot_t *n, legacy_mode_t mode) {
  if (mode == READS) {
    WEFT_RETURN_IF_ERROR(find_files(n));
  } else {
    WEFT_RETURN_IF_ERROR(weft_iterator_open_input(&n->base, 0, &n->base.input));
  }
  n->mode = mode;
  return NULL;
}

static weft_status_t *begin(weft_iterator_t *it) {
  legacy_snapshot_t *n = (legacy_snapshot_t *)it;
  const legacy_params_t *p = params_of(n);
  const bool is_random = p->seed == 0 && p->seed2 == 0;
  n->seed = is_random ? (int64_t)weft_random_id() : p->seed;
  n->seed2 = p->seed2;
  n->parts = weft_calloc((size_t)it->of->spec->n, sizeof *n->parts);
  return n->parts == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  legacy_snapshot_t *n = (legacy_snapshot_t *)it;
  if (n->mode == NOT_CHOSEN) {
    legacy_mode_t mode = NOT_CHOSEN;
    WEFT_RETURN_IF_ERROR(choose(n, &mode));
    WEFT_RETURN_IF_ERROR(enter(n, mode));
  }
  switch (n->mode) {
    case READS: return read_next(n, out, is_end);
    case WRITES: return write_next(n, out, is_end);
    default: return weft_iterator_next(it->input, out, is_end);
  }
}

static void end(weft_iterator_t *it) {
  legacy_snapshot_t *n = (legacy_snapshot_t *)it;
  discard_run(n);
  weft_path_list_deinit(&n->files);
  weft_byte_stream_close(n->stream);
  if (n->parts != NULL) weft_element_release(n->parts, it->of->spec->n);
  weft_free(n->parts);
  weft_status_free(n->failure);
  weft_status_free(n->broken);
}

/* ---- state ---- */

static weft_status_t *save_writer(legacy_snapshot_t *n, weft_saved_t *to) {
  if (n->broken != NULL) return weft_status_clone(n->broken);
  n->is_saved = true;
  WEFT_RETURN_IF_ERROR(end_file(n));
  weft_saved_put_int(to, n->num_files);
  weft_saved_put_int(to, n->metadata.num_elements);
  weft_saved_put_int(to, n->ahead);
  if (n->ahead == FAILURE) weft_saved_put_status(to, n->failure);
  return n->ahead == ELEMENT ? weft_saved_put_element(to, n->parts, n->base.of->spec->n) : NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  legacy_snapshot_t *n = (legacy_snapshot_t *)it;
  const legacy_mode_t mode = n->mode == WRITES && !n->has_run ? NOT_CHOSEN : n->mode;
  weft_saved_put_int(to, mode);
  weft_saved_put_string(to, weft_str(n->metadata.run));
  weft_saved_put_int(to, n->seed);
  weft_saved_put_int(to, n->seed2);
  return mode == WRITES ? save_writer(n, to) : NULL;
}

/* Goes over what was given. */
static weft_status_t *load_reader(legacy_snapshot_t *n) {
  bool is_end = false;
  for (int64_t i = 0; !is_end && i < n->base.index; i++) {
    if (weft_canceller_is_cancelled(n->base.canceller))
      return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    weft_status_t *s = read_next(n, n->parts, &is_end);
    weft_element_release(n->parts, n->base.of->spec->n);
    if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
    weft_status_free(s); /* it failed the first time, too */
  }
  return NULL;
}

/* The files from the state's on are written anew, unless the run has become final since. */
static weft_status_t *load_writer(legacy_snapshot_t *n, weft_str_t run, weft_saved_t *from) {
  const weft_element_spec_t *spec = n->base.of->spec;
  int64_t ahead;
  n->has_run = n->is_saved = true;
  n->is_silent = n->metadata.is_final;
  n->metadata.is_final = false;
  WEFT_RETURN_IF_ERROR(weft_snapshot_metadata_set_run(&n->metadata, run));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 1, INT64_MAX, &n->num_files));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &n->metadata.num_elements));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, NOTHING, FAILURE, &ahead));
  if (ahead == FAILURE) WEFT_RETURN_IF_ERROR(weft_saved_get_status(from, &n->failure));
  if (ahead == FAILURE && n->failure == NULL) return weft_saved_broken("a failure without one");
  if (ahead == ELEMENT) WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, spec, n->parts));
  n->ahead = (legacy_ahead_t)ahead;
  if (n->is_silent) return NULL;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = file_path(n, n->num_files - 1, &path);
  if (s == NULL && !weft_file_exists(path.data))
    s = WEFT_ERROR(DATA_LOSS, "%s, a part of a snapshot, is gone", path.data);
  if (s == NULL) s = remove_files(n, n->num_files);
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  legacy_snapshot_t *n = (legacy_snapshot_t *)it;
  const legacy_params_t *p = params_of(n);
  int64_t mode;
  weft_str_t run;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, NOT_CHOSEN, PASSES, &mode));
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &run));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &n->seed));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &n->seed2));
  if (mode == NOT_CHOSEN) return NULL;
  if (mode == PASSES) return enter(n, PASSES);
  weft_status_t *s = weft_snapshot_metadata_read(p->dir, &n->metadata);
  if (weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    s = WEFT_ERROR(DATA_LOSS, "Snapshot metadata file in %s does not exist any more.", p->dir);
  }
  if (s == NULL && mode == READS) s = weft_snapshot_metadata_set_run(&n->metadata, run);
  if (s == NULL) s = enter(n, (legacy_mode_t)mode);
  if (s != NULL) return s;
  return mode == READS ? load_reader(n) : load_writer(n, run, from);
}

/* ---- kernels ---- */

static weft_status_t *read_mode(weft_str_t name, legacy_mode_t *out) {
  static const char *const names[] = {"auto", "read", "write", "passthrough"};
  for (int i = 0; i < 4; i++) {
    if (!weft_str_is(name, names[i])) continue;
    *out = (legacy_mode_t)i;
    return NULL;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "mode must be either 'auto', 'read', 'write', or 'passthrough'.");
}

static int64_t int_or(const weft_kernel_setup_t *setup, const char *name, int64_t otherwise) {
  const int64_t value = weft_knode_int_or(setup, name, otherwise);
  return value == -1 ? otherwise : value;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  legacy_params_t *p = params;
  const weft_str_t compression = weft_knode_string(setup, "compression");
  if (!weft_compression_find(compression, &p->compression) || p->compression == WEFT_COMPRESSION_ZLIB)
    return WEFT_ERROR(INVALID_ARGUMENT, "compression must be either '', 'GZIP' or 'SNAPPY'.");
  const int64_t expiry = int_or(setup, "pending_snapshot_expiry_seconds", 86400);
  if (expiry < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "pending_snapshot_expiry_seconds must be at least 1 second.");
  p->expiry_us = expiry < INT64_MAX / 2000000 ? expiry * 1000000 : INT64_MAX / 2;
  p->file_bytes = int_or(setup, "shard_size_bytes", INT64_C(10) << 30);
  p->shuffles = weft_knode_bool_or(setup, "shuffle_on_read", false);
  p->seed = weft_knode_int_or(setup, "seed", 0);
  p->seed2 = weft_knode_int_or(setup, "seed2", 0);
  p->name = weft_knode_string(setup, "snapshot_name");
  p->reader_prefix = weft_knode_string(setup, "reader_path_prefix");
  p->writer_prefix = weft_knode_string(setup, "writer_path_prefix");
  p->is_named = p->name.length > 0;
  return read_mode(weft_knode_string(setup, "mode"), &p->mode);
}

/* What the files depend on, beside the input. */
static uint64_t hash_more(uint64_t hash, weft_str_t path, const legacy_params_t *p) {
  const uint64_t more[] = {weft_str_hash64(path), (uint64_t)p->compression, weft_str_hash64(p->reader_prefix),
                           weft_str_hash64(p->writer_prefix), (uint64_t)p->file_bytes};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    hash = (hash ^ more[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return hash;
}

/* input_dataset, path */
static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  legacy_params_t *p = params;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_str_t path;
  uint64_t hash = 0;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at, "path", &path));
  if (!p->is_named) WEFT_RETURN_IF_ERROR(weft_dataset_fingerprint(d->inputs[0], &hash));
  if (p->is_named) weft_strbuf_printf(&name, "custom-%.*s", WEFT_STR_ARGS(p->name));
  if (!p->is_named) weft_strbuf_printf(&name, "%016" PRIx64, hash_more(hash, path, p));
  p->dir = name.failed ? NULL : join(path, weft_str_of(name.data, name.length));
  p->reader_dir = weft_strndup(p->reader_prefix.data, p->reader_prefix.length);
  if (p->dir != NULL) p->writer_dir = join(p->writer_prefix, weft_str(p->dir));
  weft_strbuf_deinit(&name);
  return p->writer_dir == NULL || p->reader_dir == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

static void deinit(void *params) {
  legacy_params_t *p = params;
  weft_free(p->dir);
  weft_free(p->reader_dir);
  weft_free(p->writer_dir);
}

static const weft_dataset_class_t class = {.name = "Snapshot",
                                           .iterator_size = sizeof(legacy_snapshot_t),
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load};

static const weft_dataset_op_t op = {.class = &class,
                                     .num_inputs = 1,
                                     .params_size = sizeof(legacy_params_t),
                                     .read = read,
                                     .make = make,
                                     .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_snapshot_legacy_kernels[] = {
    WEFT_DATASET_ROW("SnapshotDataset", op),
    {0},
};
