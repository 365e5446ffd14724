/* kernels/cpu/dataset/snapshot_shards.c - runs of elements on disk, read: a shard is a data set, and the
 * shards of a run are a data set of these. */
#include <inttypes.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/match_files.h"
#include "io/record_reader.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/snapshot.h"
#include "tensor/tensor_proto.h"

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

/* The name of the file of the iterator's part. */
static weft_status_t *current_path(const snapshot_shard_iterator_t *r, weft_strbuf_t *out) {
  const snapshot_shard_t *p = (const snapshot_shard_t *)r->base.of->params;
  weft_strbuf_puts(out, p->path);
  if (!p->is_file) weft_strbuf_printf(out, "/%08" PRId64 ".snapshot", r->part);
  return out->failed ? WEFT_NO_MEMORY("the name of a snapshot") : NULL;
}

/* Opens it; *exists: there is one. */
static weft_status_t *open_part(snapshot_shard_iterator_t *r, bool *exists) {
  const snapshot_shard_t *p = (const snapshot_shard_t *)r->base.of->params;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  close_part(r);
  weft_status_t *s = current_path(r, &path);
  *exists = r->part == 0 || (!p->is_file && s == NULL && weft_file_exists(path.data));
  if (s == NULL && *exists) s = weft_byte_stream_open(path.data, p->compression, &r->stream);
  r->reader = (weft_record_reader_t){.stream = r->stream};
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *read_component(snapshot_shard_iterator_t *r, int i, weft_tensor_t **out,
                                     bool *is_over) {
  const weft_element_spec_t *spec = r->base.of->spec;
  weft_str_t record;
  WEFT_RETURN_IF_ERROR(weft_record_reader_lend(&r->reader, &record, is_over));
  if (*is_over) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(record, out));
  if ((*out)->dtype == spec->dtypes[i]) return NULL;
  return WEFT_ERROR(DATA_LOSS, "component %d of a snapshot is %s, not %s", i, weft_dtype_name((*out)->dtype),
                    weft_dtype_name(spec->dtypes[i]));
}

/* Consumes `s` and names the file and the element in it. */
static weft_status_t *blame_part(const snapshot_shard_iterator_t *r, weft_status_t *s) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_free(current_path(r, &path));
  s = weft_status_annotate(s, "element %" PRId64 " of %s", r->at, path.failed ? "a snapshot" : path.data);
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *read_element(snapshot_shard_iterator_t *r, weft_tensor_t **out, bool *is_over) {
  for (int i = 0; i < r->base.of->spec->n; i++) {
    weft_status_t *s = read_component(r, i, &out[i], is_over);
    if (s != NULL) return blame_part(r, s);
    if (*is_over) return NULL;
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

static weft_status_t *spec_of_datasets(weft_element_spec_t **out) {
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(1, out));
  (*out)->dtypes[0] = WEFT_VARIANT;
  (*out)->shapes[0] = WEFT_SCALAR;
  return NULL;
}

static weft_status_t *nest(weft_device_t *device, weft_tensor_t **shards, int64_t n, weft_dataset_t **out) {
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(spec_of_datasets(&spec));
  weft_status_t *s = weft_elements_dataset(device, shards, 1, n, 1, 0, spec, out);
  weft_element_spec_release(spec);
  return s;
}

weft_status_t *weft_snapshot_shards(const char *dir, const weft_snapshot_metadata_t *m,
                                    weft_compression_t compression, weft_device_t *device,
                                    weft_element_spec_t *spec, weft_dataset_t **out) {
  weft_path_list_t paths = {0};
  weft_strbuf_t pattern = WEFT_STRBUF_INIT;
  if (m->version != WEFT_SNAPSHOT_VERSION)
    return WEFT_ERROR(UNIMPLEMENTED, "%s has version %" PRId64 " of snapshots; version %d is read", dir,
                      m->version, WEFT_SNAPSHOT_VERSION);
  weft_strbuf_printf(&pattern, "%s/%s/*.shard", dir, m->run);
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

/* Opens the data set that reader_func makes of the data sets of the shards. */
static weft_status_t *open_read(weft_iterator_t *it, const weft_dataset_fn_t *reader_func,
                                weft_tensor_t *shards, weft_iterator_t **out) {
  weft_tensor_t *made = NULL;
  weft_dataset_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, reader_func, &shards, 1, &made, 1));
  weft_status_t *s = weft_dataset_of(made, &d);
  if (s == NULL) s = weft_element_spec_check(it->of->spec, d->spec);
  if (s == NULL) s = weft_iterator_open(d, it->traversal, it, out);
  weft_tensor_release(made);
  return s;
}

weft_status_t *weft_snapshot_open(weft_iterator_t *it, const weft_dataset_fn_t *reader_func, const char *dir,
                                  const weft_snapshot_metadata_t *m, weft_compression_t compression,
                                  weft_iterator_t **out) {
  weft_dataset_t *d = NULL;
  weft_tensor_t *shards = NULL;
  WEFT_RETURN_IF_ERROR(weft_snapshot_shards(dir, m, compression, it->of->device, it->of->spec, &d));
  WEFT_RETURN_IF_ERROR(weft_dataset_tensor(d, &shards));
  weft_status_t *s = open_read(it, reader_func, shards, out);
  weft_tensor_release(shards);
  return s;
}

static bool is_of_the_element(const weft_status_t *s) {
  const weft_code_t code = weft_status_code(s);
  return code != WEFT_OK && code != WEFT_CANCELLED && code != WEFT_RESOURCE_EXHAUSTED;
}

weft_status_t *weft_snapshot_skip(weft_iterator_t *read, int64_t n) {
  const int parts = read->of->spec->n;
  weft_tensor_t **element = weft_calloc((size_t)parts, sizeof *element);
  weft_status_t *s = element == NULL ? WEFT_NO_MEMORY("reading a snapshot") : NULL;
  bool is_end = false;
  for (int64_t i = 0; s == NULL && !is_end && i < n; i++) {
    s = weft_iterator_next(read, element, &is_end);
    weft_element_release(element, parts);
    if (!is_of_the_element(s)) continue;
    weft_status_free(s); /* it failed the first time, too */
    s = NULL;
  }
  weft_free(element);
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

/* ---- SnapshotNestedDatasetReader: data sets as elements ---- */

typedef struct snapshot_nested {
  weft_iterator_t base;
  int64_t at;
} snapshot_nested_t;

static weft_status_t *nested_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  snapshot_nested_t *n = (snapshot_nested_t *)it;
  *is_end = n->at >= it->of->num_inputs;
  return *is_end ? NULL : weft_dataset_tensor(weft_dataset_retain(it->of->inputs[n->at++]), &out[0]);
}

static weft_status_t *nested_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((snapshot_nested_t *)it)->at);
  return NULL;
}

static weft_status_t *nested_load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_saved_get_int_in(from, 0, it->of->num_inputs, &((snapshot_nested_t *)it)->at);
}

static const weft_dataset_class_t nested_class = {.name = "SnapshotNestedDatasetReader",
                                                  .iterator_size = sizeof(snapshot_nested_t),
                                                  .next = nested_next,
                                                  .save = nested_save,
                                                  .load = nested_load,
                                                  .cardinality = weft_cardinality_unknown};

/* What output_types says is of the elements of the inputs: its own are data sets. */
static weft_status_t *nested_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  weft_element_spec_t *spec = NULL;
  (void)c, (void)at, (void)params;
  WEFT_RETURN_IF_ERROR(spec_of_datasets(&spec));
  weft_element_spec_release(d->spec);
  d->spec = spec;
  return NULL;
}

/* ---- rows ---- */

static const weft_dataset_op_t nested_op = {.class = &nested_class, .num_inputs = -1, .make = nested_make};
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

const weft_kernel_t weft_cpu_dataset_snapshot_shards_kernels[] = {
    WEFT_DATASET_ROW("SnapshotChunkDataset", chunk_op),
    WEFT_DATASET_ROW("SnapshotDatasetReader", shard_op),
    WEFT_DATASET_ROW("SnapshotNestedDatasetReader", nested_op),
    {0},
};
