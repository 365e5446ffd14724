/* kernels/cpu/dataset/snapshot_chunks.c - ListSnapshotChunksDataset: the files of a snapshot that many
 * workers write, also while they write it.
 *
 *   <snapshot>/chunks/chunk_<stream>_<chunk>_<records>    TFRecords: a TensorProto for each component
 *   <snapshot>/DONE                                       all chunks are there
 *   <snapshot>/ERROR                                      a StatusProto as text: there will be no DONE
 *
 * Chunks come in the order of their number, those of one number in the order of their streams. When all that
 * are there have been handed out and there is neither DONE nor ERROR, the folder is looked at again after a
 * while; the wait ends with the iterator's canceller.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash_map.h"
#include "io/file.h"
#include "kernels/cpu/dataset/pause.h"
#include "kernels/cpu/dataset/saved.h"
#include "protos/status.pb-c.h"
#include "protos/text_format.h"
#include "protos/wire.h"

enum { FIRST_PAUSE_US = 20000, LAST_PAUSE_US = 1000000 };

typedef struct chunk_list_params {
  weft_dataset_params_t base;
  char *path; /* owned: of the snapshot */
} chunk_list_params_t;

typedef struct snapshot_chunk {
  weft_str_t name; /* in the arena of the list */
  bool is_numbered;
  int64_t stream, number; /* of one that is */
} snapshot_chunk_t;

typedef struct chunk_list {
  weft_iterator_t base;
  snapshot_chunk_t *chunks; /* [0, at) have been handed out, [at, n) are in order */
  size_t n, capacity, at;
  weft_map_t known; /* names of chunks -> anything but NULL */
  weft_arena_t names;
  weft_status_t *failure; /* of an update; owned */
  bool is_done;
} chunk_list_t;

static const char *path_of(const weft_dataset_t *d) { return ((const chunk_list_params_t *)d->params)->path; }

/* ---- names ---- */

/* "chunk_<stream>_<number>_<records>" */
static bool take_numbers(weft_str_t name, snapshot_chunk_t *c) {
  weft_str_t word, stream, number;
  int64_t records;
  return weft_str_split(name, '_', &word, &name) && weft_str_is(word, "chunk") &&
         weft_str_split(name, '_', &stream, &name) && weft_str_to_i64(stream, &c->stream) &&
         weft_str_split(name, '_', &number, &name) && weft_str_to_i64(number, &c->number) &&
         weft_str_to_i64(name, &records) && c->stream >= 0 && c->number >= 0 && records >= 0;
}

/* Other names come last. */
static int compare(const void *x, const void *y) {
  const snapshot_chunk_t *a = x, *b = y;
  if (a->is_numbered != b->is_numbered) return a->is_numbered ? -1 : 1;
  if (a->is_numbered && a->number != b->number) return a->number < b->number ? -1 : 1;
  if (a->is_numbered && a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  return weft_str_compare(a->name, b->name);
}

static weft_status_t *add(chunk_list_t *l, weft_str_t name) {
  if (weft_map_get(&l->known, name) != NULL) return NULL;
  if (l->n == l->capacity) {
    const size_t capacity = l->capacity == 0 ? 64 : 2 * l->capacity;
    snapshot_chunk_t *more = weft_realloc(l->chunks, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("a snapshot of %zu chunks", capacity);
    l->chunks = more;
    l->capacity = capacity;
  }
  snapshot_chunk_t c = {.name = weft_arena_str(&l->names, name)};
  if (c.name.data == NULL) return WEFT_NO_MEMORY("the name of a chunk");
  WEFT_RETURN_IF_ERROR(weft_map_put(&l->known, c.name, l, NULL));
  c.is_numbered = take_numbers(c.name, &c);
  l->chunks[l->n++] = c;
  return NULL;
}

static bool is_chunk(const char *name) {
  const weft_str_t s = weft_str(name);
  return !weft_str_is(s, ".") && !weft_str_is(s, "..") && !weft_str_ends_with(s, ".tmp");
}

static void add_name(void *arg, int dir_fd, const char *name) {
  chunk_list_t *l = arg;
  (void)dir_fd;
  if (l->failure == NULL && is_chunk(name)) l->failure = add(l, weft_str(name));
}

/* ---- the state of the snapshot ---- */

/* "<path>/<name>" */
static weft_status_t *file_in(const char *path, const char *name, weft_strbuf_t *out) {
  out->length = 0;
  weft_strbuf_printf(out, "%s%s%s", path, weft_str_ends_with(weft_str(path), "/") ? "" : "/", name);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

static bool has_file(const char *path, const char *name) {
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  weft_status_t *s = file_in(path, name, &file);
  const bool is_there = s == NULL && weft_file_exists(file.data);
  weft_status_free(s);
  weft_strbuf_deinit(&file);
  return is_there;
}

/* The failure that a StatusProto says. */
static weft_status_t *failure_in(weft_str_t proto, const char *file) {
  weft_wire_reader_t r = weft_wire_reader(proto);
  weft_str_t message = WEFT_STR("");
  int64_t code = WEFT_OK;
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) code = weft_wire_i64(f.value);
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) message = f.bytes;
  }
  if (code == WEFT_OK)
    return WEFT_ERROR(INTERNAL, "Unexpected snapshot ERROR file contains an OK status at %s.", file);
  const bool is_code = code > WEFT_OK && code <= WEFT_UNAUTHENTICATED;
  return weft_status_new(is_code ? (weft_code_t)code : WEFT_UNKNOWN, __FILE__, __LINE__, "%.*s",
                         WEFT_STR_ARGS(message));
}

static weft_status_t *read_failure(const char *file) {
  weft_strbuf_t proto = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 0;
  weft_status_t *s = weft_file_read_all(file, &text, &length);
  if (s == NULL)
    s = weft_text_to_binary(&tensorflow__status_proto__descriptor, weft_str_of(text, length), file, &proto);
  if (s == NULL) s = failure_in(weft_str_of(proto.data, proto.length), file);
  weft_strbuf_deinit(&proto);
  weft_free(text);
  return s;
}

/* DONE is looked for before the chunks: those that are written in between are not missed. */
static weft_status_t *update(chunk_list_t *l) {
  const char *path = path_of(l->base.of);
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  weft_status_t *s = file_in(path, "ERROR", &file);
  if (s == NULL && weft_file_exists(file.data)) s = read_failure(file.data);
  const bool is_done = has_file(path, "DONE");
  if (s == NULL) s = file_in(path, "chunks", &file);
  if (s == NULL) weft_file_each_name(file.data, add_name, l);
  if (s == NULL && l->failure == NULL) l->is_done = is_done;
  if (s != NULL) l->failure = s;
  if (l->at < l->n) qsort(l->chunks + l->at, l->n - l->at, sizeof *l->chunks, compare);
  weft_strbuf_deinit(&file);
  return l->failure == NULL ? NULL : weft_status_clone(l->failure);
}

/* ---- elements ---- */

static weft_status_t *take(chunk_list_t *l, weft_tensor_t **out) {
  const snapshot_chunk_t *c = &l->chunks[l->at];
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  weft_status_t *s = file_in(path_of(l->base.of), "chunks/", &file);
  weft_strbuf_append(&file, c->name);
  if (s == NULL && file.failed) s = WEFT_NO_MEMORY("the name of a chunk");
  if (s == NULL) s = weft_tensor_string(weft_str_of(file.data, file.length), out);
  weft_strbuf_deinit(&file);
  l->at += s == NULL;
  return s;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  chunk_list_t *l = (chunk_list_t *)it;
  int64_t pause = FIRST_PAUSE_US;
  if (l->failure != NULL) return weft_status_clone(l->failure);
  while (l->at == l->n && !l->is_done) {
    WEFT_RETURN_IF_ERROR(update(l));
    if (l->at < l->n || l->is_done) break;
    WEFT_RETURN_IF_ERROR(weft_iterator_pause(it, pause));
    pause = 2 * pause < LAST_PAUSE_US ? 2 * pause : LAST_PAUSE_US;
  }
  *is_end = l->at == l->n;
  return *is_end ? NULL : take(l, &out[0]);
}

static void end(weft_iterator_t *it) {
  chunk_list_t *l = (chunk_list_t *)it;
  weft_map_deinit(&l->known);
  weft_arena_deinit(&l->names);
  weft_free(l->chunks);
  weft_status_free(l->failure);
}

/* The chunks that were handed out. */
static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const chunk_list_t *l = (const chunk_list_t *)it;
  weft_saved_put_int(to, (int64_t)l->at);
  for (size_t i = 0; i < l->at; i++) weft_saved_put_string(to, l->chunks[i].name);
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  chunk_list_t *l = (chunk_list_t *)it;
  int64_t n;
  weft_str_t name;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &n));
  while (n-- > 0) {
    WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &name));
    WEFT_RETURN_IF_ERROR(add(l, name));
  }
  l->at = l->n;
  return NULL;
}

static void count_name(void *arg, int dir_fd, const char *name) {
  (void)dir_fd;
  *(int64_t *)arg += is_chunk(name);
}

static int64_t cardinality(const weft_dataset_t *d) {
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  int64_t n = 0;
  if (!has_file(path_of(d), "DONE")) return WEFT_CARDINALITY_UNKNOWN;
  weft_status_t *s = file_in(path_of(d), "chunks", &file);
  if (s == NULL) weft_file_each_name(file.data, count_name, &n);
  if (s != NULL) n = WEFT_CARDINALITY_UNKNOWN;
  weft_status_free(s);
  weft_strbuf_deinit(&file);
  return n;
}

/* ---- kernels ---- */

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  chunk_list_params_t *p = params;
  weft_str_t path;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at, "snapshot_path", &path));
  if (path.length == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "snapshot_path is required to list snapshot chunks.");
  p->path = weft_strndup(path.data, path.length);
  return p->path == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

static void deinit(void *params) { weft_free(((chunk_list_params_t *)params)->path); }

static const weft_dataset_class_t class = {.name = "ListSnapshotChunks",
                                           .iterator_size = sizeof(chunk_list_t),
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load,
                                           .cardinality = cardinality};

static const weft_dataset_op_t op = {
    .class = &class, .params_size = sizeof(chunk_list_params_t), .make = make, .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_snapshot_chunks_kernels[] = {
    WEFT_DATASET_ROW("ListSnapshotChunksDataset", op),
    {0},
};
