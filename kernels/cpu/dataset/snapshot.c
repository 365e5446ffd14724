/* kernels/cpu/dataset/snapshot.c - runs of elements on disk: metadata, and writing shard by shard. */
#include "kernels/cpu/dataset/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "io/file.h"
#include "io/record_writer.h"
#include "kernels/cpu/dataset/saved.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

/* ---- metadata ---- */

/* Field numbers of the message SnapshotMetadataRecord (tensorflow/core/protobuf/snapshot.proto). */
enum {
  METADATA_HASH = 1,
  METADATA_RUN = 2,
  METADATA_TIME = 3,
  METADATA_VERSION = 4,
  METADATA_DTYPES = 5,
  METADATA_NUM_ELEMENTS = 6,
  METADATA_FINAL = 1000,
};

static weft_status_t *metadata_path(const char *dir, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s/snapshot.metadata", dir);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

/* The run is the name of one directory: TensorFlow writes decimal digits, in version 1 those of 16, or
 * "custom". */
static bool take_run(weft_str_t name, weft_snapshot_metadata_t *out) {
  bool is_number = name.length > 0 && name.length < sizeof out->run;
  for (size_t i = 0; is_number && i < name.length; i++)
    is_number = (name.data[i] >= '0' && name.data[i] <= '9') || (name.data[i] >= 'a' && name.data[i] <= 'f');
  if (!is_number && !weft_str_is(name, "custom")) return false;
  memcpy(out->run, name.data, name.length);
  out->run[name.length] = '\0';
  return true;
}

weft_status_t *weft_snapshot_metadata_parse(weft_str_t bytes, weft_snapshot_metadata_t *out) {
  weft_wire_reader_t w = weft_wire_reader(bytes);
  *out = (weft_snapshot_metadata_t){.version = 0};
  bool is_ok = true;
  for (weft_wire_field_t f; is_ok && weft_wire_next(&w, &f);) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(METADATA_RUN, WEFT_WIRE_BYTES): is_ok = take_run(f.bytes, out); break;
      case WEFT_WIRE_TAG(METADATA_TIME, WEFT_WIRE_VARINT): out->created_us = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(METADATA_VERSION, WEFT_WIRE_VARINT): out->version = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(METADATA_NUM_ELEMENTS, WEFT_WIRE_VARINT):
        out->num_elements = weft_wire_i64(f.value);
        break;
      case WEFT_WIRE_TAG(METADATA_FINAL, WEFT_WIRE_VARINT): out->is_final = f.value != 0; break;
      default: break;
    }
  }
  return is_ok && !w.failed ? NULL : WEFT_ERROR(DATA_LOSS, "the metadata of a snapshot are damaged");
}

weft_status_t *weft_snapshot_metadata_set_run(weft_snapshot_metadata_t *m, weft_str_t run) {
  return take_run(run, m) ? NULL
                          : WEFT_ERROR(DATA_LOSS, "'%.*s' is no run of a snapshot", WEFT_STR_ARGS(run));
}

weft_status_t *weft_snapshot_metadata_read(const char *dir, weft_snapshot_metadata_t *out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 0;
  weft_status_t *s = metadata_path(dir, &path);
  if (s == NULL && !weft_file_exists(path.data))
    s = WEFT_ERROR(NOT_FOUND, "Could not find metadata file [%s]", dir);
  if (s == NULL) s = weft_file_read_all(path.data, &text, &length);
  if (s == NULL) {
    s = weft_snapshot_metadata_parse(weft_str_of(text, length), out);
    if (s != NULL) s = weft_status_annotate(s, "%s", path.data);
  }
  weft_free(text);
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *write_file(const char *path, weft_str_t bytes) {
  weft_file_writer_t *w = NULL;
  WEFT_RETURN_IF_ERROR(weft_file_writer_create(path, &w));
  weft_status_t *s = weft_file_writer_append(w, bytes.data, bytes.length);
  if (s == NULL) return weft_file_writer_finish(w);
  weft_file_writer_abandon(w);
  return s;
}

weft_status_t *weft_snapshot_metadata_write(const char *dir, const weft_snapshot_metadata_t *m,
                                            const weft_element_spec_t *spec) {
  weft_strbuf_t path = WEFT_STRBUF_INIT, bytes = WEFT_STRBUF_INIT;
  char hash[24];
  (void)snprintf(hash, sizeof hash, "%" PRIu64, m->hash);
  if (m->hash != 0) weft_wire_put_text(&bytes, METADATA_HASH, hash);
  weft_wire_put_text(&bytes, METADATA_RUN, m->run);
  weft_wire_put_i64(&bytes, METADATA_TIME, weft_clock_micros());
  weft_wire_put_i64(&bytes, METADATA_VERSION, m->version);
  for (int i = 0; i < spec->n; i++) weft_wire_add_varint(&bytes, METADATA_DTYPES, (uint64_t)spec->dtypes[i]);
  weft_wire_put_i64(&bytes, METADATA_NUM_ELEMENTS, m->num_elements);
  weft_wire_put_bool(&bytes, METADATA_FINAL, m->is_final);
  weft_status_t *s = metadata_path(dir, &path);
  if (s == NULL && bytes.failed) s = WEFT_NO_MEMORY("the metadata of a snapshot");
  if (s == NULL) s = write_file(path.data, weft_str_of(bytes.data, bytes.length));
  weft_strbuf_deinit(&path);
  weft_strbuf_deinit(&bytes);
  return s;
}

/* ---- writing ---- */

typedef struct shard_records {
  int64_t index, parts;          /* the files that are whole */
  weft_record_writer_t *records; /* of the next one; NULL: it has not begun */
} shard_records_t;

struct weft_snapshot_writer {
  char *dir; /* owned */
  weft_compression_t compression;
  const weft_element_spec_t *spec; /* borrowed */
  weft_snapshot_metadata_t metadata;
  bool is_named; /* by the state of a pass */
  shard_records_t *shards;
  size_t num_shards, capacity;
};

/* "<dir>/<run>/<shard>.shard" */
static weft_status_t *shard_path(const char *dir, const char *run, int64_t shard, weft_strbuf_t *out) {
  out->length = 0;
  weft_strbuf_printf(out, "%s/%s/%08" PRIu64 ".shard", dir, run, (uint64_t)shard);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

/* "<dir>/<run>/<shard>.shard/<part>.snapshot" */
static weft_status_t *part_path(const char *dir, const char *run, int64_t shard, int64_t part,
                                weft_strbuf_t *out) {
  WEFT_RETURN_IF_ERROR(shard_path(dir, run, shard, out));
  weft_strbuf_printf(out, "/%08" PRId64 ".snapshot", part);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

static void free_writer(weft_snapshot_writer_t *w) {
  weft_free(w->shards);
  weft_free(w->dir);
  weft_free(w);
}

/* The shards' directories in a run, with their files or where they have none. */
static void remove_run(const weft_snapshot_writer_t *w, const char *run, bool with_files) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  for (size_t i = 0; i < w->num_shards; i++) {
    const shard_records_t *shard = &w->shards[i];
    for (int64_t part = 0; with_files && part < shard->parts; part++) {
      weft_status_t *s = part_path(w->dir, run, shard->index, part, &path);
      if (s == NULL) weft_file_remove(path.data);
      weft_status_free(s);
    }
    weft_status_t *s = shard_path(w->dir, run, shard->index, &path);
    if (s == NULL) weft_file_remove_dir(path.data);
    weft_status_free(s);
  }
  path.length = 0;
  weft_strbuf_printf(&path, "%s/%s", w->dir, run);
  if (!path.failed) weft_file_remove_dir(path.data);
  weft_strbuf_deinit(&path);
}

void weft_snapshot_writer_abandon(weft_snapshot_writer_t *w) {
  if (w == NULL) return;
  for (size_t i = 0; i < w->num_shards; i++) {
    weft_record_writer_abandon(w->shards[i].records);
    w->shards[i].records = NULL;
  }
  remove_run(w, w->metadata.run, !w->is_named);
  free_writer(w);
}

static weft_status_t *make_run(const weft_snapshot_writer_t *w) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&path, "%s/%s", w->dir, w->metadata.run);
  weft_status_t *s = path.failed ? WEFT_NO_MEMORY("a snapshot") : weft_file_make_dirs(path.data);
  if (s == NULL) s = weft_snapshot_metadata_write(w->dir, &w->metadata, w->spec);
  weft_strbuf_deinit(&path);
  return s;
}

static void new_run(weft_snapshot_metadata_t *m) {
  (void)snprintf(m->run, sizeof m->run, "%" PRIu64, weft_random_id());
}

weft_status_t *weft_snapshot_writer_create(const char *dir, uint64_t hash, weft_compression_t compression,
                                           const weft_element_spec_t *spec, weft_snapshot_writer_t **out) {
  weft_snapshot_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("a snapshot");
  w->dir = weft_strdup(dir);
  w->compression = compression;
  w->spec = spec;
  w->metadata.hash = hash;
  w->metadata.version = WEFT_SNAPSHOT_VERSION;
  new_run(&w->metadata);
  weft_status_t *s = w->dir == NULL ? WEFT_NO_MEMORY("a snapshot") : make_run(w);
  if (s == NULL) *out = w;
  if (s != NULL && w->dir != NULL) weft_snapshot_writer_abandon(w);
  if (s != NULL && w->dir == NULL) free_writer(w);
  return s;
}

static weft_status_t *add_shard(weft_snapshot_writer_t *w, int64_t index, shard_records_t **out) {
  if (w->num_shards == w->capacity) {
    const size_t capacity = w->capacity == 0 ? 8 : 2 * w->capacity;
    shard_records_t *more = weft_realloc(w->shards, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("a snapshot of %zu shards", capacity);
    w->shards = more;
    w->capacity = capacity;
  }
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = shard_path(w->dir, w->metadata.run, index, &path);
  if (s == NULL) s = weft_file_make_dirs(path.data);
  weft_strbuf_deinit(&path);
  *out = &w->shards[w->num_shards];
  **out = (shard_records_t){.index = index};
  w->num_shards += s == NULL;
  return s;
}

/* The shard with a file to write to. */
static weft_status_t *open_shard(weft_snapshot_writer_t *w, int64_t index, shard_records_t **out) {
  shard_records_t *shard = NULL;
  for (size_t i = 0; shard == NULL && i < w->num_shards; i++)
    if (w->shards[i].index == index) shard = &w->shards[i];
  if (shard == NULL) WEFT_RETURN_IF_ERROR(add_shard(w, index, &shard));
  *out = shard;
  if (shard->records != NULL) return NULL;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = part_path(w->dir, w->metadata.run, index, shard->parts, &path);
  if (s == NULL) s = weft_record_writer_create(path.data, w->compression, &shard->records);
  weft_strbuf_deinit(&path);
  return s;
}

weft_status_t *weft_snapshot_writer_put(weft_snapshot_writer_t *w, int64_t index,
                                        weft_tensor_t *const *element) {
  shard_records_t *shard = NULL;
  WEFT_RETURN_IF_ERROR(open_shard(w, index, &shard));
  weft_strbuf_t proto = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < w->spec->n; i++) {
    proto.length = 0;
    s = weft_tensor_to_proto_content(element[i], &proto);
    if (s == NULL && proto.failed) s = WEFT_NO_MEMORY("an element of a snapshot");
    if (s == NULL) s = weft_record_writer_put(shard->records, weft_str_of(proto.data, proto.length));
  }
  weft_strbuf_deinit(&proto);
  w->metadata.num_elements++;
  return s;
}

/* Ends the files that are being written. */
static weft_status_t *end_parts(weft_snapshot_writer_t *w) {
  for (size_t i = 0; i < w->num_shards; i++) {
    weft_record_writer_t *records = w->shards[i].records;
    if (records == NULL) continue;
    w->shards[i].records = NULL;
    WEFT_RETURN_IF_ERROR(weft_record_writer_finish(records));
    w->shards[i].parts++;
  }
  return NULL;
}

weft_status_t *weft_snapshot_shard_of(weft_iterator_t *it, const weft_dataset_fn_t *shard_func,
                                      weft_tensor_t *const *element, int64_t *out) {
  weft_tensor_t *answer = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, shard_func, element, it->of->spec->n, &answer, 1));
  const bool is_number = answer->dtype == WEFT_I64 && answer->count == 1;
  if (is_number) *out = *(const int64_t *)answer->data;
  weft_tensor_release(answer);
  return is_number ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "`shard_func` must return a scalar int64.");
}

/* ---- whole files of another run ---- */

static weft_status_t *append_file(const char *from, const weft_canceller_t *canceller,
                                  weft_file_writer_t *to) {
  weft_file_reader_t r;
  char block[1 << 14];
  size_t got = 1;
  WEFT_RETURN_IF_ERROR(weft_file_open(from, &r));
  weft_status_t *s = NULL;
  for (uint64_t at = 0; s == NULL && got > 0; at += got) {
    if (weft_canceller_is_cancelled(canceller)) s = WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    if (s == NULL) s = weft_file_read_some(&r, at, block, sizeof block, &got);
    if (s == NULL) s = weft_file_writer_append(to, block, got);
  }
  weft_file_close(&r);
  return s;
}

/* Makes the file `to` of the first `parts` files of a shard of w's directory. Records, and what compresses
 * them, may stand one behind the other. */
static weft_status_t *join_parts(const weft_snapshot_writer_t *w, const char *run,
                                 const shard_records_t *shard, const char *to,
                                 const weft_canceller_t *canceller) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_file_writer_t *file = NULL;
  weft_status_t *s = weft_file_writer_create(to, &file);
  for (int64_t part = 0; s == NULL && part < shard->parts; part++) {
    s = part_path(w->dir, run, shard->index, part, &path);
    if (s == NULL) s = append_file(path.data, canceller, file);
  }
  weft_strbuf_deinit(&path);
  if (s == NULL) return weft_file_writer_finish(file);
  weft_file_writer_abandon(file);
  return s;
}

/* A second name for a file, or a copy of it where the file system has no links. */
static weft_status_t *take_part(const char *from, const char *to, const weft_canceller_t *canceller) {
  weft_file_writer_t *file = NULL;
  if (!weft_file_exists(from)) return WEFT_ERROR(DATA_LOSS, "%s, a part of a snapshot, is gone", from);
  weft_status_t *s = weft_file_link(from, to);
  if (s == NULL) return NULL;
  weft_status_free(s);
  WEFT_RETURN_IF_ERROR(weft_file_writer_create(to, &file));
  s = append_file(from, canceller, file);
  if (s == NULL) return weft_file_writer_finish(file);
  weft_file_writer_abandon(file);
  return s;
}

/* ---- the end ---- */

static weft_status_t *gather_shard(const weft_snapshot_writer_t *w, const shard_records_t *shard,
                                   const char *run, const weft_canceller_t *canceller) {
  weft_strbuf_t to = WEFT_STRBUF_INIT, from = WEFT_STRBUF_INIT;
  const char *old = w->metadata.run;
  weft_status_t *s = shard_path(w->dir, run, shard->index, &to);
  if (s == NULL) s = weft_file_make_dirs(to.data);
  if (s == NULL) s = part_path(w->dir, run, shard->index, 0, &to);
  if (s == NULL) s = part_path(w->dir, old, shard->index, 0, &from);
  if (s == NULL && shard->parts == 1) s = take_part(from.data, to.data, canceller);
  if (s == NULL && shard->parts > 1) s = join_parts(w, old, shard, to.data, canceller);
  weft_strbuf_deinit(&to);
  weft_strbuf_deinit(&from);
  return s;
}

static bool has_parts(const weft_snapshot_writer_t *w) {
  for (size_t i = 0; i < w->num_shards; i++)
    if (w->shards[i].parts > 1) return true;
  return false;
}

/* Makes the metadata final. Where a shard has several files these are joined, in a new run, so that the run
 * of before stays as a state says until the metadata are final. */
static weft_status_t *make_final(weft_snapshot_writer_t *w, const weft_canceller_t *canceller) {
  weft_snapshot_metadata_t m = w->metadata;
  const bool gathers = has_parts(w);
  weft_status_t *s = NULL;
  m.is_final = true;
  if (gathers) new_run(&m);
  for (size_t i = 0; gathers && s == NULL && i < w->num_shards; i++)
    s = gather_shard(w, &w->shards[i], m.run, canceller);
  if (s == NULL) s = weft_snapshot_metadata_write(w->dir, &m, w->spec);
  if (gathers) remove_run(w, s == NULL ? w->metadata.run : m.run, true);
  return s;
}

weft_status_t *weft_snapshot_writer_finish(weft_snapshot_writer_t *w, const weft_canceller_t *canceller) {
  weft_status_t *s = end_parts(w);
  if (s == NULL) s = make_final(w, canceller);
  if (s != NULL) weft_snapshot_writer_abandon(w);
  if (s == NULL) free_writer(w);
  return s;
}

/* ---- the state of a pass that writes ---- */

weft_status_t *weft_snapshot_writer_save(weft_snapshot_writer_t *w, weft_saved_t *to) {
  w->is_named = true;
  WEFT_RETURN_IF_ERROR(end_parts(w));
  weft_saved_put_string(to, weft_str(w->metadata.run));
  weft_saved_put_int(to, w->metadata.num_elements);
  weft_saved_put_int(to, (int64_t)w->num_shards);
  for (size_t i = 0; i < w->num_shards; i++) {
    weft_saved_put_int(to, w->shards[i].index);
    weft_saved_put_int(to, w->shards[i].parts);
  }
  return NULL;
}

/* The parts of shard `index` of another run. */
static weft_status_t *take_shard(weft_snapshot_writer_t *w, const char *run, int64_t index, int64_t parts) {
  weft_strbuf_t from = WEFT_STRBUF_INIT, to = WEFT_STRBUF_INIT;
  shard_records_t *shard = NULL;
  weft_status_t *s = add_shard(w, index, &shard);
  while (s == NULL && shard->parts < parts) {
    s = part_path(w->dir, run, index, shard->parts, &from);
    if (s == NULL) s = part_path(w->dir, w->metadata.run, index, shard->parts, &to);
    if (s == NULL) s = take_part(from.data, to.data, NULL);
    shard->parts += s == NULL;
  }
  weft_strbuf_deinit(&from);
  weft_strbuf_deinit(&to);
  return s;
}

/* The shards that a state names; `w` NULL: they are only read over. */
static weft_status_t *take_shards(weft_snapshot_writer_t *w, const char *run, weft_saved_t *from) {
  int64_t n;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &n));
  while (n-- > 0) {
    int64_t index, parts;
    WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &index));
    WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &parts));
    if (w != NULL) WEFT_RETURN_IF_ERROR(take_shard(w, run, index, parts));
  }
  return NULL;
}

/* The run of before, and how much it has. */
static weft_status_t *load_metadata(weft_saved_t *from, weft_snapshot_metadata_t *out) {
  weft_str_t run;
  *out = (weft_snapshot_metadata_t){.version = WEFT_SNAPSHOT_VERSION};
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &run));
  WEFT_RETURN_IF_ERROR(weft_snapshot_metadata_set_run(out, run));
  return weft_saved_get_int_in(from, 0, INT64_MAX, &out->num_elements);
}

weft_status_t *weft_snapshot_writer_load(const char *dir, uint64_t hash, weft_compression_t compression,
                                         const weft_element_spec_t *spec, weft_saved_t *from,
                                         weft_snapshot_writer_t **out) {
  weft_snapshot_writer_t *w = NULL;
  weft_snapshot_metadata_t before;
  WEFT_RETURN_IF_ERROR(load_metadata(from, &before));
  WEFT_RETURN_IF_ERROR(weft_snapshot_writer_create(dir, hash, compression, spec, &w));
  w->metadata.num_elements = before.num_elements;
  weft_status_t *s = take_shards(w, before.run, from);
  if (s == NULL) *out = w;
  if (s != NULL) weft_snapshot_writer_abandon(w);
  return s;
}

weft_status_t *weft_snapshot_writer_skip(weft_saved_t *from) {
  weft_snapshot_metadata_t before;
  WEFT_RETURN_IF_ERROR(load_metadata(from, &before));
  return take_shards(NULL, before.run, from);
}
