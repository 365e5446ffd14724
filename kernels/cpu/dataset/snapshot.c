/* kernels/cpu/dataset/snapshot.c - runs of elements on disk: written shard by shard, read as data sets. */
#include "kernels/cpu/dataset/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "io/file.h"
#include "io/match_files.h"
#include "io/record_reader.h"
#include "io/record_writer.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

/* ---- metadata ---- */

/* Field numbers of the message SnapshotMetadataRecord (tensorflow/core/protobuf/snapshot.proto). */
enum {
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

/* The run is the name of one directory: decimal digits, as TensorFlow writes it. */
static bool take_run(weft_str_t name, weft_snapshot_metadata_t *out) {
  uint64_t id;
  if (name.length >= sizeof out->run || !weft_str_to_u64(name, &id)) return false;
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

weft_status_t *weft_snapshot_metadata_read(const char *dir, weft_snapshot_metadata_t *out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 0;
  weft_status_t *s = metadata_path(dir, &path);
  if (s == NULL && !weft_file_exists(path.data))
    s = WEFT_ERROR(NOT_FOUND, "Could not find metadata file [%s]", dir);
  if (s == NULL) s = weft_file_read_all(path.data, &text, &length);
  if (s == NULL) s = weft_snapshot_metadata_parse(weft_str_of(text, length), out);
  if (s == NULL && out->version != WEFT_SNAPSHOT_VERSION)
    s = WEFT_ERROR(UNIMPLEMENTED, "%s has version %" PRId64 " of snapshots; version %d is read", path.data,
                   out->version, WEFT_SNAPSHOT_VERSION);
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
  int64_t index;
  weft_record_writer_t *records;
} shard_records_t;

struct weft_snapshot_writer {
  char *dir; /* owned */
  weft_compression_t compression;
  const weft_element_spec_t *spec; /* borrowed */
  weft_snapshot_metadata_t metadata;
  shard_records_t *shards;
  size_t num_shards, capacity;
};

void weft_snapshot_writer_abandon(weft_snapshot_writer_t *w) {
  if (w == NULL) return;
  for (size_t i = 0; i < w->num_shards; i++) weft_record_writer_abandon(w->shards[i].records);
  weft_free(w->shards);
  weft_free(w->dir);
  weft_free(w);
}

static weft_status_t *make_run(const weft_snapshot_writer_t *w) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&path, "%s/%s", w->dir, w->metadata.run);
  weft_status_t *s = path.failed ? WEFT_NO_MEMORY("a snapshot") : weft_file_make_dirs(path.data);
  if (s == NULL) s = weft_snapshot_metadata_write(w->dir, &w->metadata, w->spec);
  weft_strbuf_deinit(&path);
  return s;
}

weft_status_t *weft_snapshot_writer_create(const char *dir, weft_compression_t compression,
                                           const weft_element_spec_t *spec, weft_snapshot_writer_t **out) {
  weft_snapshot_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("a snapshot");
  w->dir = weft_strdup(dir);
  w->compression = compression;
  w->spec = spec;
  w->metadata.version = WEFT_SNAPSHOT_VERSION;
  (void)snprintf(w->metadata.run, sizeof w->metadata.run, "%" PRIu64, weft_random_id());
  weft_status_t *s = w->dir == NULL ? WEFT_NO_MEMORY("a snapshot") : make_run(w);
  if (s == NULL) *out = w;
  if (s != NULL) weft_snapshot_writer_abandon(w);
  return s;
}

static weft_status_t *add_shard(weft_snapshot_writer_t *w, int64_t index, shard_records_t **out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  if (w->num_shards == w->capacity) {
    const size_t capacity = w->capacity == 0 ? 8 : 2 * w->capacity;
    shard_records_t *more = weft_realloc(w->shards, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("a snapshot of %zu shards", capacity);
    w->shards = more;
    w->capacity = capacity;
  }
  shard_records_t *shard = &w->shards[w->num_shards];
  *shard = (shard_records_t){.index = index};
  weft_strbuf_printf(&path, "%s/%s/%08" PRIu64 ".shard", w->dir, w->metadata.run, (uint64_t)index);
  weft_status_t *s = path.failed ? WEFT_NO_MEMORY("a snapshot") : weft_file_make_dirs(path.data);
  weft_strbuf_puts(&path, "/00000000.snapshot");
  if (s == NULL && path.failed) s = WEFT_NO_MEMORY("a snapshot");
  if (s == NULL) s = weft_record_writer_create(path.data, w->compression, &shard->records);
  weft_strbuf_deinit(&path);
  w->num_shards += s == NULL;
  *out = shard;
  return s;
}

weft_status_t *weft_snapshot_writer_put(weft_snapshot_writer_t *w, int64_t index,
                                        weft_tensor_t *const *element) {
  shard_records_t *shard = NULL;
  for (size_t i = 0; shard == NULL && i < w->num_shards; i++)
    if (w->shards[i].index == index) shard = &w->shards[i];
  if (shard == NULL) WEFT_RETURN_IF_ERROR(add_shard(w, index, &shard));
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

weft_status_t *weft_snapshot_writer_finish(weft_snapshot_writer_t *w) {
  weft_status_t *s = NULL;
  for (size_t i = 0; s == NULL && i < w->num_shards; i++) {
    s = weft_record_writer_finish(w->shards[i].records);
    w->shards[i].records = NULL;
  }
  w->metadata.is_final = true;
  if (s == NULL) s = weft_snapshot_metadata_write(w->dir, &w->metadata, w->spec);
  weft_snapshot_writer_abandon(w);
  return s;
}

/* ---- reading a shard ---- */

typedef struct snapshot_shard {
  weft_dataset_params_t base;
  char *path; /* owned: the shard's directory, or the one file */
  bool is_file;
  weft_compression_t compression;
  int64_t start; /* elements that are left out */
} snapshot_shard_t;

typedef struct snapshot_shard_iterator {
  weft_iterator_t base;
  int64_t part, at; /* the file, and its element that comes next */
  weft_byte_stream_t *stream;
  weft_record_reader_t reader;
} snapshot_shard_iterator_t;

static void close_part(snapshot_shard_iterator_t *r) {
  weft_record_reader_deinit(&r->reader);
  weft_byte_stream_close(r->stream);
  r->stream = NULL;
}

/* The file of the iterator's part; *exists: there is one. */
static weft_status_t *open_part(snapshot_shard_iterator_t *r, bool *exists) {
  const snapshot_shard_t *p = (const snapshot_shard_t *)r->base.of->params;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  close_part(r);
  weft_strbuf_puts(&path, p->path);
  if (!p->is_file) weft_strbuf_printf(&path, "/%08" PRId64 ".snapshot", r->part);
  weft_status_t *s = path.failed ? WEFT_NO_MEMORY("a snapshot") : NULL;
  *exists = r->part == 0 || (!p->is_file && s == NULL && weft_file_exists(path.data));
  if (s == NULL && *exists) s = weft_byte_stream_open(path.data, p->compression, &r->stream);
  r->reader = (weft_record_reader_t){.stream = r->stream};
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *read_element(snapshot_shard_iterator_t *r, weft_tensor_t **out, bool *is_over) {
  const weft_element_spec_t *spec = r->base.of->spec;
  for (int i = 0; i < spec->n; i++) {
    weft_str_t record;
    WEFT_RETURN_IF_ERROR(weft_record_reader_lend(&r->reader, &record, is_over));
    if (*is_over) return NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(record, &out[i]));
    if (out[i]->dtype != spec->dtypes[i])
      return WEFT_ERROR(DATA_LOSS, "component %d of a snapshot is %s, not %s", i,
                        weft_dtype_name(out[i]->dtype), weft_dtype_name(spec->dtypes[i]));
  }
  r->at++;
  return NULL;
}

static weft_status_t *skip_to(snapshot_shard_iterator_t *r, int64_t at) {
  const int n = r->base.of->spec->n;
  weft_tensor_t **parts = weft_calloc((size_t)n, sizeof *parts);
  weft_status_t *s = parts == NULL ? WEFT_NO_MEMORY("reading a snapshot") : NULL;
  for (bool is_over = false; s == NULL && !is_over && r->at < at;) {
    s = read_element(r, parts, &is_over);
    weft_element_release(parts, n);
  }
  weft_free(parts);
  return s;
}

static weft_status_t *shard_begin(weft_iterator_t *it) {
  snapshot_shard_iterator_t *r = (snapshot_shard_iterator_t *)it;
  bool exists = false;
  WEFT_RETURN_IF_ERROR(open_part(r, &exists));
  return skip_to(r, ((const snapshot_shard_t *)it->of->params)->start);
}

static weft_status_t *shard_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  snapshot_shard_iterator_t *r = (snapshot_shard_iterator_t *)it;
  for (bool exists = r->stream != NULL; exists;) {
    bool is_over = false;
    WEFT_RETURN_IF_ERROR(read_element(r, out, &is_over));
    if (!is_over) return NULL;
    weft_element_release(out, it->of->spec->n);
    r->part++;
    r->at = 0;
    WEFT_RETURN_IF_ERROR(open_part(r, &exists));
  }
  *is_end = true;
  return NULL;
}

static void shard_end(weft_iterator_t *it) { close_part((snapshot_shard_iterator_t *)it); }

static weft_status_t *shard_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((snapshot_shard_iterator_t *)it)->part);
  weft_saved_put_int(to, ((snapshot_shard_iterator_t *)it)->at);
  return NULL;
}

static weft_status_t *shard_load(weft_iterator_t *it, weft_saved_t *from) {
  snapshot_shard_iterator_t *r = (snapshot_shard_iterator_t *)it;
  int64_t at = 0;
  bool exists = false;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT32_MAX, &r->part));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &at));
  r->at = 0;
  WEFT_RETURN_IF_ERROR(open_part(r, &exists));
  return exists ? skip_to(r, at) : NULL;
}

static const weft_dataset_class_t shard_class = {.name = "SnapshotReader",
                                                 .iterator_size = sizeof(snapshot_shard_iterator_t),
                                                 .begin = shard_begin,
                                                 .next = shard_next,
                                                 .end = shard_end,
                                                 .save = shard_save,
                                                 .load = shard_load,
                                                 .cardinality = weft_cardinality_unknown};

static void shard_deinit(void *params) { weft_free(((snapshot_shard_t *)params)->path); }

static weft_status_t *shard_dataset(const char *path, weft_compression_t compression, weft_device_t *device,
                                    weft_element_spec_t *spec, weft_dataset_t **out) {
  snapshot_shard_t p = {.path = weft_strdup(path), .compression = compression};
  weft_dataset_t like = {.class = &shard_class, .spec = spec, .device = device};
  if (p.path == NULL) return WEFT_NO_MEMORY("a snapshot");
  weft_status_t *s = weft_dataset_params_new(&p, sizeof p, shard_deinit, &like.params);
  if (s != NULL) {
    weft_free(p.path);
    return s;
  }
  s = weft_dataset_create(&like, NULL, 0, out);
  weft_object_release(&like.params->object);
  return s;
}

/* ---- the shards of a run ---- */

static weft_status_t *shard_tensors(const weft_path_list_t *paths, weft_compression_t compression,
                                    weft_device_t *device, weft_element_spec_t *spec, weft_tensor_t **out) {
  for (size_t i = 0; i < paths->n; i++) {
    weft_dataset_t *d = NULL;
    WEFT_RETURN_IF_ERROR(shard_dataset(paths->paths[i], compression, device, spec, &d));
    WEFT_RETURN_IF_ERROR(weft_dataset_tensor(d, &out[i]));
  }
  return NULL;
}

static weft_status_t *nest(weft_device_t *device, weft_tensor_t **shards, int64_t n, weft_dataset_t **out) {
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(1, &spec));
  spec->dtypes[0] = WEFT_VARIANT;
  spec->shapes[0] = WEFT_SCALAR;
  weft_status_t *s = weft_elements_dataset(device, shards, 1, n, 1, 0, spec, out);
  weft_element_spec_release(spec);
  return s;
}

weft_status_t *weft_snapshot_shards(const char *dir, const char *run, weft_compression_t compression,
                                    weft_device_t *device, weft_element_spec_t *spec, weft_dataset_t **out) {
  weft_path_list_t paths = {0};
  weft_strbuf_t pattern = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&pattern, "%s/%s/*.shard", dir, run);
  weft_status_t *s = pattern.failed ? WEFT_NO_MEMORY("a snapshot")
                                    : weft_match_files(weft_str_of(pattern.data, pattern.length), &paths);
  weft_path_list_sort(&paths);
  weft_tensor_t **shards = weft_calloc(paths.n + 1, sizeof *shards);
  if (s == NULL && shards == NULL) s = WEFT_NO_MEMORY("a snapshot");
  if (s == NULL) s = shard_tensors(&paths, compression, device, spec, shards);
  if (s == NULL) s = nest(device, shards, (int64_t)paths.n, out);
  if (shards != NULL) weft_element_release(shards, (int)paths.n);
  weft_free(shards);
  weft_path_list_deinit(&paths);
  weft_strbuf_deinit(&pattern);
  return s;
}

/* ---- kernels ---- */

static weft_status_t *shard_read(const weft_kernel_setup_t *setup, void *params) {
  const int64_t version = weft_knode_int_or(setup, "version", WEFT_SNAPSHOT_VERSION);
  (void)weft_compression_find(weft_knode_string(setup, "compression"),
                              &((snapshot_shard_t *)params)->compression);
  return version == WEFT_SNAPSHOT_VERSION
             ? NULL
             : WEFT_ERROR(INVALID_ARGUMENT, "Snapshot reader version: %" PRId64 " is not supported.",
                          version);
}

static weft_status_t *path_in(weft_kernel_ctx_t *c, int i, const char *name, snapshot_shard_t *p) {
  weft_str_t path;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, i, name, &path));
  p->path = weft_strndup(path.data, path.length);
  return p->path == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

static weft_status_t *shard_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  WEFT_RETURN_IF_ERROR(path_in(c, at, "shard_dir", params));
  return weft_dataset_in_int(c, at + 1, "start_index", &((snapshot_shard_t *)params)->start);
}

static weft_status_t *chunk_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  ((snapshot_shard_t *)params)->is_file = true;
  return path_in(c, at, "chunk_file", params);
}

static const weft_dataset_op_t shard_op = {.class = &shard_class,
                                           .params_size = sizeof(snapshot_shard_t),
                                           .read = shard_read,
                                           .make = shard_make,
                                           .deinit = shard_deinit};
static const weft_dataset_op_t chunk_op = {.class = &shard_class,
                                           .params_size = sizeof(snapshot_shard_t),
                                           .read = shard_read,
                                           .make = chunk_make,
                                           .deinit = shard_deinit};

const weft_kernel_t weft_cpu_dataset_snapshot_kernels[] = {
    WEFT_DATASET_ROW("SnapshotChunkDataset", chunk_op),
    WEFT_DATASET_ROW("SnapshotDatasetReader", shard_op),
    {0},
};
