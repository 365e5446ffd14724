/* io/bundle_reader.c - reads tensors, whole or in part, out of a bundle. Data files are opened when first
 * needed. */
#include <inttypes.h>

#include "base/alloc.h"
#include "io/bundle.h"
#include "io/crc32c.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

struct weft_bundle_reader {
  char *prefix;
  weft_table_t index;
  int64_t num_shards;
  weft_file_reader_t *shards; /* num_shards */
  char **paths;               /* of the shards that are open */
};

static weft_status_t *no_memory(weft_str_t what) {
  return WEFT_NO_MEMORY("reading checkpoint %.*s", WEFT_STR_ARGS(what));
}

void weft_bundle_reader_close(weft_bundle_reader_t *r) {
  if (r == NULL) return;
  for (int64_t i = 0; r->shards != NULL && i < r->num_shards; i++) weft_file_close(&r->shards[i]);
  for (int64_t i = 0; r->paths != NULL && i < r->num_shards; i++) weft_free(r->paths[i]);
  weft_free(r->shards);
  weft_free(r->paths);
  weft_table_deinit(&r->index);
  weft_free(r->prefix);
  weft_free(r);
}

static weft_status_t *read_header(weft_bundle_reader_t *r) {
  const weft_table_entry_t *header = weft_table_find(&r->index, WEFT_STR(""));
  if (header == NULL) return WEFT_ERROR(DATA_LOSS, "checkpoint %s has no header", r->prefix);
  WEFT_RETURN_IF_ERROR(weft_bundle_header_get(header->value, &r->num_shards));
  r->shards = weft_calloc((size_t)r->num_shards + 1, sizeof r->shards[0]);
  r->paths = weft_calloc((size_t)r->num_shards + 1, sizeof r->paths[0]);
  for (int64_t i = 0; r->shards != NULL && i < r->num_shards; i++) r->shards[i].fd = -1;
  return r->shards == NULL || r->paths == NULL ? no_memory(weft_str(r->prefix)) : NULL;
}

weft_status_t *weft_bundle_reader_open(weft_str_t prefix, weft_bundle_reader_t **out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_bundle_reader_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return no_memory(prefix);
  r->prefix = weft_strndup(prefix.data, prefix.length);
  weft_bundle_index_path(prefix, &path);
  weft_status_t *s =
      r->prefix == NULL || path.failed ? no_memory(prefix) : weft_table_read(path.data, &r->index);
  if (s == NULL) s = read_header(r);
  weft_strbuf_deinit(&path);
  if (s == NULL) *out = r;
  if (s != NULL) weft_bundle_reader_close(r);
  return s;
}

/* Of the empty name it is the header, read as an entry: that of a scalar without bytes, as in TensorFlow. */
static weft_status_t *find_entry(const weft_bundle_reader_t *r, weft_str_t key, weft_str_t name,
                                 weft_bundle_entry_t *out) {
  const weft_table_entry_t *e = weft_table_find(&r->index, key);
  if (e == NULL) return WEFT_ERROR(NOT_FOUND, "Key %.*s not found in checkpoint", WEFT_STR_ARGS(name));
  return weft_bundle_entry_get(name, e->value, out);
}

int64_t weft_bundle_reader_num_shards(const weft_bundle_reader_t *r) { return r->num_shards; }

/* Keys of slices begin with '\0', as does the header's, which is empty. */
bool weft_bundle_reader_next(const weft_bundle_reader_t *r, size_t *at, weft_str_t *out_name) {
  while (*at < r->index.count) {
    weft_str_t key = r->index.entries[(*at)++].key;
    if (key.length == 0 || key.data[0] == '\0') continue;
    *out_name = key;
    return true;
  }
  return false;
}

weft_status_t *weft_bundle_reader_lookup(const weft_bundle_reader_t *r, weft_str_t name,
                                         weft_dtype_t *out_dtype, weft_shape_t *out_shape) {
  weft_bundle_entry_t e;
  WEFT_RETURN_IF_ERROR(find_entry(r, name, name, &e));
  *out_dtype = e.dtype;
  *out_shape = e.shape;
  weft_strbuf_deinit(&e.slices);
  return NULL;
}

/* ---- bytes ---- */

static weft_status_t *open_shard(weft_bundle_reader_t *r, int64_t i, const weft_file_reader_t **out) {
  if (i >= r->num_shards) {
    return WEFT_ERROR(DATA_LOSS, "checkpoint %s has %" PRId64 " shards and names number %" PRId64, r->prefix,
                      r->num_shards, i);
  }
  if (r->shards[i].fd < 0) {
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    size_t length = 0;
    weft_bundle_data_path(weft_str(r->prefix), i, r->num_shards, &path);
    weft_free(r->paths[i]);
    r->paths[i] = NULL;
    WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&path, &r->paths[i], &length));
    WEFT_RETURN_IF_ERROR(weft_file_open(r->paths[i], &r->shards[i]));
  }
  *out = &r->shards[i];
  return NULL;
}

static weft_status_t *bad_checksum(const weft_bundle_reader_t *r, weft_str_t name, uint32_t stored,
                                   uint32_t found) {
  return WEFT_ERROR(DATA_LOSS,
                    "TensorBundle at %s: %.*s: Checksum does not match: stored %" PRIu32
                    " vs. calculated on the restored bytes %" PRIu32,
                    r->prefix, WEFT_STR_ARGS(name), stored, found);
}

/* Takes the texts out of the stored form; see put_strings in bundle_writer.c. */
static weft_status_t *get_strings(const weft_bundle_reader_t *r, weft_str_t name, weft_str_t bytes,
                                  uint32_t stored, weft_tensor_t *t) {
  const uint8_t *p = (const uint8_t *)bytes.data, *end = p + bytes.length;
  uint32_t crc = 0;
  uint64_t total = 0;
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t length = 0;
    uint8_t plain[8];
    p = weft_wire_get_varint(p, end, &length);
    if (p == NULL || length > bytes.length || (total += length) > bytes.length) break;
    weft_wire_store64(plain, length);
    crc = weft_crc32c_extend(crc, plain, length <= UINT32_MAX ? 4 : 8);
  }
  if (p == NULL || end - p < 4 || (uint64_t)(end - p) - 4 != total) {
    return WEFT_ERROR(DATA_LOSS, "TensorBundle at %s: %.*s: the strings' lengths do not add up", r->prefix,
                      WEFT_STR_ARGS(name));
  }
  if (weft_wire_load32(p) != weft_crc32c_mask(crc)) {
    return bad_checksum(r, name, weft_wire_load32(p), weft_crc32c_mask(crc));
  }
  crc = weft_crc32c_extend(crc, p, (size_t)(end - p));
  if (weft_crc32c_mask(crc) != stored) return bad_checksum(r, name, stored, weft_crc32c_mask(crc));
  const uint8_t *text = p + 4, *lengths = (const uint8_t *)bytes.data;
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t length = 0;
    lengths = weft_wire_get_varint(lengths, end, &length);
    WEFT_RETURN_IF_ERROR(weft_tensor_set_str(t, i, weft_str_of((const char *)text, (size_t)length)));
    text += length;
  }
  return NULL;
}

static weft_status_t *read_plain(const weft_bundle_reader_t *r, const weft_file_reader_t *file,
                                 weft_str_t name, const weft_bundle_entry_t *e, weft_tensor_t *t) {
  WEFT_RETURN_IF_ERROR(weft_file_read_at(file, (uint64_t)e->offset, t->data, t->bytes));
  uint32_t crc = weft_crc32c_mask(weft_crc32c(t->data, t->bytes));
  return crc == e->crc ? NULL : bad_checksum(r, name, e->crc, crc);
}

/* Takes the variants out of the stored form; see put_variants in bundle_writer.c. */
static weft_status_t *get_variants(const weft_bundle_reader_t *r, weft_str_t name, weft_str_t bytes,
                                   uint32_t stored, weft_tensor_t *t) {
  const uint8_t *p = (const uint8_t *)bytes.data, *end = p + bytes.length;
  uint32_t crc = 0;
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t length = 0;
    uint8_t plain[8];
    p = weft_wire_get_varint(p, end, &length);
    if (p == NULL || (size_t)(end - p) < 4 || length > (size_t)(end - p) - 4) {
      return WEFT_ERROR(DATA_LOSS, "TensorBundle at %s: %.*s: variant %" PRId64 " is cut off", r->prefix,
                        WEFT_STR_ARGS(name), i);
    }
    weft_wire_store64(plain, length);
    crc = weft_crc32c_extend(crc, plain, 8);
    crc = weft_crc32c_extend(crc, p, (size_t)length);
    const weft_str_t message = weft_str_of((const char *)p, (size_t)length);
    p += length;
    if (weft_wire_load32(p) != weft_crc32c_mask(crc))
      return bad_checksum(r, name, weft_wire_load32(p), weft_crc32c_mask(crc));
    crc = weft_crc32c_extend(crc, p, 4);
    p += 4;
    WEFT_RETURN_IF_ERROR(weft_tensor_variant_from_proto(t, i, message));
  }
  return weft_crc32c_mask(crc) == stored ? NULL : bad_checksum(r, name, stored, weft_crc32c_mask(crc));
}

static weft_status_t *read_objects(const weft_bundle_reader_t *r, const weft_file_reader_t *file,
                                   weft_str_t name, const weft_bundle_entry_t *e, weft_tensor_t *t) {
  char *bytes = weft_malloc((size_t)e->size);
  if (bytes == NULL) return no_memory(name);
  weft_status_t *s = weft_file_read_at(file, (uint64_t)e->offset, bytes, (size_t)e->size);
  const weft_str_t stored = weft_str_of(bytes, (size_t)e->size);
  if (s == NULL)
    s = e->dtype == WEFT_STRING ? get_strings(r, name, stored, e->crc, t)
                                : get_variants(r, name, stored, e->crc, t);
  weft_free(bytes);
  return s;
}

/* The tensor of an entry that has bytes. What the entry says is checked against the file before memory is
 * taken. */
static weft_status_t *read_entry(weft_bundle_reader_t *r, weft_str_t name, const weft_bundle_entry_t *e,
                                 weft_tensor_t **out) {
  const weft_file_reader_t *file = NULL;
  weft_tensor_t *t = NULL;
  if (!weft_dtype_is_plain(e->dtype) && e->dtype != WEFT_STRING && e->dtype != WEFT_VARIANT) {
    return WEFT_ERROR(UNIMPLEMENTED, "a tensor of type %s cannot be restored: %.*s",
                      weft_dtype_name(e->dtype), WEFT_STR_ARGS(name));
  }
  WEFT_RETURN_IF_ERROR(open_shard(r, e->shard, &file));
  uint64_t offset = (uint64_t)e->offset, size = (uint64_t)e->size;
  int64_t count = weft_shape_count(&e->shape);
  const int64_t each = weft_dtype_is_plain(e->dtype) ? (int64_t)weft_dtype_size(e->dtype) : 0;
  if (each > 0 && count >= 0 && count <= INT64_MAX / each && count * each != e->size) {
    return WEFT_ERROR(
        DATA_LOSS, "Invalid size in bundle entry: key %.*s; stored size %" PRId64 "; expected size %" PRId64,
        WEFT_STR_ARGS(name), e->size, count * each);
  }
  bool fits = offset <= file->size && size <= file->size - offset && count >= 0 && (uint64_t)count <= size;
  if (!fits && !(count == 0 && size == 0)) {
    return WEFT_ERROR(OUT_OF_RANGE,
                      "Read less bytes than requested: TensorBundle at %s: %.*s lies outside its data file",
                      r->prefix, WEFT_STR_ARGS(name));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(e->dtype, &e->shape, NULL, &t));
  weft_status_t *s =
      weft_dtype_is_plain(e->dtype) ? read_plain(r, file, name, e, t) : read_objects(r, file, name, e, t);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

/* ---- slices ---- */

static weft_status_t *copy_stored_slice(weft_bundle_reader_t *r, weft_str_t name,
                                        const weft_tensor_slice_t *stored, weft_tensor_t *to,
                                        const weft_tensor_slice_t *to_at, int64_t *out_n) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_bundle_entry_t e = {0};
  weft_tensor_t *t = NULL;
  if (!weft_tensor_slice_intersect(stored, to_at, NULL)) return NULL; /* nothing in common: do not read it */
  weft_tensor_slice_key(name, stored, &key);
  weft_status_t *s =
      key.failed ? no_memory(name) : find_entry(r, weft_str_of(key.data, key.length), name, &e);
  weft_strbuf_deinit(&key);
  if (s == NULL) s = read_entry(r, name, &e, &t);
  bool fits = s == NULL && t->dtype == to->dtype && t->shape.rank == stored->rank;
  for (int d = 0; fits && d < stored->rank; d++) fits = t->shape.dims[d] == stored->length[d];
  if (s == NULL && !fits) {
    s = WEFT_ERROR(DATA_LOSS,
                   "TensorBundle at %s: a slice of %.*s has another shape or type than its index says",
                   r->prefix, WEFT_STR_ARGS(name));
  }
  if (s == NULL) s = weft_tensor_slice_copy(to, to_at, t, stored, out_n);
  weft_strbuf_deinit(&e.slices);
  weft_tensor_release(t);
  return s;
}

static weft_status_t *read_sliced(weft_bundle_reader_t *r, weft_str_t name, const weft_bundle_entry_t *e,
                                  const weft_tensor_slice_t *wanted, weft_tensor_t **out) {
  weft_tensor_t *t = NULL, *all = NULL;
  weft_shape_t shape;
  int64_t copied = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_make(wanted->length, wanted->rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(e->dtype, &shape, NULL, &t));
  weft_status_t *s = NULL;
  if (e->num_slices == 0) {
    weft_tensor_slice_t everything = weft_tensor_slice_whole(&e->shape);
    s = read_entry(r, name, e, &all);
    if (s == NULL) s = weft_tensor_slice_copy(t, wanted, all, &everything, &copied);
  } else {
    weft_str_t rest = weft_str_of(e->slices.data, e->slices.length);
    weft_tensor_slice_t stored;
    while (s == NULL && rest.length > 0) {
      if (weft_bundle_slice_next(&rest, &e->shape, &stored)) {
        s = copy_stored_slice(r, name, &stored, t, wanted, &copied);
      } else {
        s = WEFT_ERROR(DATA_LOSS, "TensorBundle at %s: a slice of %.*s is damaged", r->prefix,
                       WEFT_STR_ARGS(name));
      }
    }
  }
  if (s == NULL && copied < t->count) {
    s = WEFT_ERROR(
        INVALID_ARGUMENT,
        "Does not have sufficient slices for partitioned tensor %.*s to restore in slice_spec: shape %s",
        WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&shape));
  }
  weft_tensor_release(all);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

weft_status_t *weft_bundle_reader_read(weft_bundle_reader_t *r, weft_str_t name, weft_tensor_t **out) {
  weft_bundle_entry_t e;
  WEFT_RETURN_IF_ERROR(find_entry(r, name, name, &e));
  weft_tensor_slice_t everything = weft_tensor_slice_whole(&e.shape);
  weft_status_t *s =
      e.num_slices == 0 ? read_entry(r, name, &e, out) : read_sliced(r, name, &e, &everything, out);
  weft_strbuf_deinit(&e.slices);
  return s;
}

weft_status_t *weft_bundle_reader_read_slice(weft_bundle_reader_t *r, weft_str_t name,
                                             const weft_tensor_slice_t *slice, weft_tensor_t **out) {
  weft_bundle_entry_t e;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(find_entry(r, name, name, &e));
  bool fits = slice->rank == e.shape.rank;
  for (int d = 0; fits && d < slice->rank; d++) fits = slice->length[d] <= e.shape.dims[d] - slice->start[d];
  if (!fits) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "the slice that is wanted of %.*s lies outside its shape %s",
                   WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&e.shape));
  } else {
    s = read_sliced(r, name, &e, slice, out);
  }
  weft_strbuf_deinit(&e.slices);
  return s;
}
