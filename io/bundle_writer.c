/* io/bundle_writer.c - writes one shard: bytes as they come, the index sorted at the end. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "io/bundle.h"
#include "io/crc32c.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

/* One key of the index. */
typedef struct record {
  char *key; /* owned */
  size_t key_length;
  weft_bundle_entry_t entry;
} record_t;

struct weft_bundle_writer {
  weft_bundle_place_t place;
  weft_file_writer_t *data;
  record_t **records; /* owned, in order of arrival */
  size_t count, capacity;
  weft_map_t by_key; /* record_t by key */
};

static weft_status_t *no_memory(weft_str_t name) {
  return WEFT_NO_MEMORY("writing checkpoint entry %.*s", WEFT_STR_ARGS(name));
}

static void record_free(record_t *r) {
  if (r == NULL) return;
  weft_strbuf_deinit(&r->entry.slices);
  weft_free(r->key);
  weft_free(r);
}

void weft_bundle_writer_abandon(weft_bundle_writer_t *w) {
  if (w == NULL) return;
  weft_file_writer_abandon(w->data);
  for (size_t i = 0; i < w->count; i++) record_free(w->records[i]);
  weft_free(w->records);
  weft_map_deinit(&w->by_key);
  weft_bundle_place_deinit(&w->place);
  weft_free(w);
}

/* Only the last directory: a longer path that is missing is the caller's mistake. */
static weft_status_t *make_last_dir(weft_str_t prefix) {
  weft_str_t dir = weft_file_dirname(prefix);
  if (dir.length == 0) return NULL;
  char *path = weft_strndup(dir.data, dir.length);
  if (path == NULL) return no_memory(prefix);
  weft_status_t *s = NULL;
  if (mkdir(weft_file_on_disk(path), 0777) == 0) {
    s = weft_file_sync_dir(path);
  } else if (errno != EEXIST) {
    s = weft_file_error(path, errno);
  }
  weft_free(path);
  return s;
}

weft_status_t *weft_bundle_writer_create(weft_str_t prefix, weft_bundle_writer_t **out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_bundle_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return no_memory(prefix);
  weft_status_t *s = make_last_dir(prefix);
  if (s == NULL) s = weft_bundle_place_init(prefix, 1, &w->place);
  if (s == NULL) weft_bundle_place_data_path(&w->place, 0, &path);
  if (s == NULL && path.failed) s = no_memory(prefix);
  if (s == NULL) s = weft_file_writer_create(path.data, &w->data);
  weft_strbuf_deinit(&path);
  if (s == NULL) *out = w;
  if (s != NULL) weft_bundle_writer_abandon(w);
  return s;
}

static weft_status_t *add_record(weft_bundle_writer_t *w, weft_str_t key, record_t **out) {
  if (w->count == w->capacity) {
    size_t capacity = w->capacity == 0 ? 32 : w->capacity * 2;
    record_t **more = weft_realloc(w->records, capacity, sizeof *more);
    if (more == NULL) return no_memory(key);
    w->records = more;
    w->capacity = capacity;
  }
  record_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->key = weft_strndup(key.data == NULL ? "" : key.data, key.length);
  if (r == NULL || r->key == NULL) {
    record_free(r);
    return no_memory(key);
  }
  r->key_length = key.length;
  weft_status_t *s = weft_map_put(&w->by_key, weft_str_of(r->key, key.length), r, NULL);
  if (s != NULL) {
    record_free(r);
    return s;
  }
  w->records[w->count++] = r;
  *out = r;
  return NULL;
}

/* ---- bytes of a tensor ---- */

typedef struct sink {
  weft_file_writer_t *file;
  uint32_t crc;
} sink_t;

static weft_status_t *put(sink_t *sink, const void *data, size_t n) {
  sink->crc = weft_crc32c_extend(sink->crc, data, n);
  return weft_file_writer_append(sink->file, data, n);
}

/* All lengths as varints, a checksum of the lengths as plain numbers, all texts. The whole checksum takes the
 * plain numbers in place of the varints. */
static weft_status_t *put_strings(sink_t *sink, const weft_tensor_t *t) {
  uint8_t bytes[WEFT_WIRE_MAX_VARINT];
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t length = weft_tensor_str_at(t, i).length;
    uint8_t *end = weft_wire_store_varint(bytes, length);
    WEFT_RETURN_IF_ERROR(weft_file_writer_append(sink->file, bytes, (size_t)(end - bytes)));
    size_t width = length <= UINT32_MAX ? 4 : 8;
    weft_wire_store64(bytes, length);
    sink->crc = weft_crc32c_extend(sink->crc, bytes, width);
  }
  weft_wire_store32(bytes, weft_crc32c_mask(sink->crc));
  WEFT_RETURN_IF_ERROR(put(sink, bytes, 4));
  for (int64_t i = 0; i < t->count; i++) {
    weft_str_t s = weft_tensor_str_at(t, i);
    WEFT_RETURN_IF_ERROR(put(sink, s.data, s.length));
  }
  return NULL;
}

/* Of each: its length, its message, a checksum of all so far, with lengths as plain numbers. */
static weft_status_t *put_variants(sink_t *sink, const weft_tensor_t *t) {
  uint8_t bytes[WEFT_WIRE_MAX_VARINT];
  for (int64_t i = 0; i < t->count; i++) {
    weft_strbuf_t message = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_tensor_variant_to_proto(t, i, &message);
    if (s == NULL && message.failed) s = WEFT_NO_MEMORY("saving a variant");
    uint8_t *end = weft_wire_store_varint(bytes, message.length);
    if (s == NULL) s = weft_file_writer_append(sink->file, bytes, (size_t)(end - bytes));
    weft_wire_store64(bytes, message.length);
    sink->crc = weft_crc32c_extend(sink->crc, bytes, 8);
    if (s == NULL) s = put(sink, message.data, message.length);
    weft_wire_store32(bytes, weft_crc32c_mask(sink->crc));
    if (s == NULL) s = put(sink, bytes, 4);
    weft_strbuf_deinit(&message);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *put_tensor(weft_bundle_writer_t *w, weft_str_t key, weft_str_t name,
                                 const weft_tensor_t *t) {
  record_t *r = NULL;
  if (weft_map_get(&w->by_key, key) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Adding duplicate key: %.*s", WEFT_STR_ARGS(name));
  }
  if (!weft_dtype_is_plain(t->dtype) && t->dtype != WEFT_STRING && t->dtype != WEFT_VARIANT) {
    return WEFT_ERROR(UNIMPLEMENTED, "a tensor of type %s cannot be saved: %.*s", weft_dtype_name(t->dtype),
                      WEFT_STR_ARGS(name));
  }
  sink_t sink = {w->data, 0};
  uint64_t offset = weft_file_writer_size(w->data);
  if (t->dtype == WEFT_STRING) {
    WEFT_RETURN_IF_ERROR(put_strings(&sink, t));
  } else if (t->dtype == WEFT_VARIANT) {
    WEFT_RETURN_IF_ERROR(put_variants(&sink, t));
  } else {
    WEFT_RETURN_IF_ERROR(put(&sink, t->data, t->bytes));
  }
  WEFT_RETURN_IF_ERROR(add_record(w, key, &r));
  r->entry.dtype = t->dtype;
  r->entry.shape = t->shape;
  r->entry.offset = (int64_t)offset;
  r->entry.size = (int64_t)(weft_file_writer_size(w->data) - offset);
  r->entry.crc = weft_crc32c_mask(sink.crc);
  return NULL;
}

weft_status_t *weft_bundle_writer_add(weft_bundle_writer_t *w, weft_str_t name, const weft_tensor_t *t) {
  return put_tensor(w, name, name, t);
}

weft_status_t *weft_bundle_writer_add_slice(weft_bundle_writer_t *w, weft_str_t name,
                                            const weft_shape_t *full, const weft_tensor_slice_t *slice,
                                            const weft_tensor_t *t) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  bool is_all = true;
  for (int i = 0; i < slice->rank; i++) is_all = is_all && slice->length[i] == full->dims[i];
  if (is_all) return put_tensor(w, name, name, t);
  record_t *r = weft_map_get(&w->by_key, name);
  if (r == NULL) { /* the whole tensor has an entry without bytes */
    WEFT_RETURN_IF_ERROR(add_record(w, name, &r));
    r->entry.dtype = t->dtype;
    r->entry.shape = *full;
  } else if (!weft_shape_eq(&r->entry.shape, full) || r->entry.dtype != t->dtype ||
             r->entry.num_slices == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "slices of %.*s disagree about the whole: %s and %s",
                      WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&r->entry.shape), WEFT_SHAPE_TEXT(full));
  }
  weft_bundle_slice_put(slice, &r->entry.slices);
  r->entry.num_slices++;
  weft_tensor_slice_key(name, slice, &key);
  weft_status_t *s = key.failed || r->entry.slices.failed
                         ? no_memory(name)
                         : put_tensor(w, weft_str_of(key.data, key.length), name, t);
  weft_strbuf_deinit(&key);
  return s;
}

/* ---- the index ---- */

static int by_key(const void *a, const void *b) {
  const record_t *x = *(record_t *const *)a, *y = *(record_t *const *)b;
  return weft_table_compare(weft_str_of(x->key, x->key_length), weft_str_of(y->key, y->key_length));
}

static weft_status_t *write_index(weft_bundle_writer_t *w) {
  weft_table_entry_t *entries = weft_calloc(w->count + 1, sizeof *entries);
  weft_strbuf_t values = WEFT_STRBUF_INIT;
  size_t *ends = weft_calloc(w->count + 1, sizeof *ends);
  weft_str_t prefix = weft_str(w->place.prefix);
  weft_status_t *s = entries == NULL || ends == NULL ? no_memory(prefix) : NULL;
  if (s == NULL) {
    qsort(w->records, w->count, sizeof w->records[0], by_key);
    for (size_t i = 0; i < w->count; i++) {
      weft_bundle_entry_put(&w->records[i]->entry, &values);
      ends[i + 1] = values.length;
    }
    if (values.failed) s = no_memory(prefix);
  }
  if (s == NULL) { /* `values` moves no more: point into it */
    for (size_t i = 0; i < w->count; i++) {
      entries[i + 1] = (weft_table_entry_t){weft_str_of(w->records[i]->key, w->records[i]->key_length),
                                            weft_str_of(values.data + ends[i], ends[i + 1] - ends[i])};
    }
    s = weft_bundle_place_commit(&w->place, entries, w->count);
  } else {
    weft_bundle_place_abandon(&w->place);
  }
  weft_strbuf_deinit(&values);
  weft_free(ends);
  weft_free(entries);
  return s;
}

weft_status_t *weft_bundle_writer_finish(weft_bundle_writer_t *w) {
  weft_status_t *s = weft_file_writer_commit(w->data);
  w->data = NULL;
  if (s == NULL) {
    s = write_index(w);
  } else {
    weft_bundle_place_abandon(&w->place);
  }
  weft_bundle_writer_abandon(w);
  return s;
}
