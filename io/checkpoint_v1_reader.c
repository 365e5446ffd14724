/* io/checkpoint_v1_reader.c - finds slices in the files of a checkpoint and puts tensors together from them.
 *
 * Of each file only the table's index and what its contents say are kept; a slice is read when it is wanted.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "io/checkpoint_v1.h"
#include "io/match_files.h"
#include "io/table.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"

typedef struct stored_slice {
  weft_tensor_slice_t slice;
  size_t shard;
} stored_slice_t;

typedef struct stored_tensor {
  char *name; /* owned */
  size_t name_length;
  weft_dtype_t dtype;
  weft_shape_t shape;
  stored_slice_t *slices; /* do not overlap */
  size_t count, capacity;
  weft_tensor_slice_t hull; /* around all of them */
} stored_tensor_t;

typedef struct v1_shard {
  char *path;
  weft_table_reader_t *table; /* NULL: not loaded */
} v1_shard_t;

struct weft_checkpoint_v1_reader {
  char *pattern;
  v1_shard_t *shards;
  size_t num_shards;
  bool has_all;
  weft_map_t tensors; /* stored_tensor_t (owned) by name */
};

static weft_status_t *no_memory(weft_str_t what) {
  return WEFT_NO_MEMORY("reading checkpoint %.*s", WEFT_STR_ARGS(what));
}

static void tensor_free(stored_tensor_t *t) {
  if (t == NULL) return;
  weft_free(t->slices);
  weft_free(t->name);
  weft_free(t);
}

void weft_checkpoint_v1_reader_close(weft_checkpoint_v1_reader_t *r) {
  if (r == NULL) return;
  weft_map_entry_t at;
  for (size_t i = 0; weft_map_next(&r->tensors, &i, &at);) tensor_free(at.value);
  weft_map_deinit(&r->tensors);
  for (size_t i = 0; i < r->num_shards; i++) {
    weft_table_reader_close(r->shards[i].table);
    weft_free(r->shards[i].path);
  }
  weft_free(r->shards);
  weft_free(r->pattern);
  weft_free(r);
}

/* ---- the table of contents ---- */

static weft_status_t *find_or_add(weft_checkpoint_v1_reader_t *r, weft_str_t name, weft_dtype_t dtype,
                                  const weft_shape_t *shape, stored_tensor_t **out) {
  stored_tensor_t *t = weft_map_get(&r->tensors, name);
  if (t == NULL) {
    t = weft_calloc(1, sizeof *t);
    if (t != NULL) t->name = weft_strndup(name.data == NULL ? "" : name.data, name.length);
    if (t == NULL || t->name == NULL) {
      tensor_free(t);
      return no_memory(name);
    }
    t->name_length = name.length;
    t->dtype = dtype;
    t->shape = *shape;
    weft_status_t *s = weft_map_put(&r->tensors, weft_str_of(t->name, t->name_length), t, NULL);
    if (s != NULL) {
      tensor_free(t);
      return s;
    }
  }
  if (!weft_shape_eq(&t->shape, shape)) {
    return WEFT_ERROR(INTERNAL,
                      "Incompatible tensor shapes detected for tensor %.*s: existing = %s, new = %s",
                      WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(shape));
  }
  if (t->dtype != dtype) {
    return WEFT_ERROR(INTERNAL, "Incompatible tensor types detected for tensor %.*s: existing = %s, new = %s",
                      WEFT_STR_ARGS(name), weft_dtype_name(t->dtype), weft_dtype_name(dtype));
  }
  *out = t;
  return NULL;
}

static weft_status_t *overlapping(const weft_tensor_slice_t *old, const weft_tensor_slice_t *new_one) {
  weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
  weft_tensor_slice_print(old, &a);
  weft_tensor_slice_print(new_one, &b);
  weft_status_t *s =
      WEFT_ERROR(INTERNAL, "Overlapping slices: existing slice = %.*s, new slice = %.*s",
                 WEFT_STR_ARGS(weft_str_of(a.data, a.length)), WEFT_STR_ARGS(weft_str_of(b.data, b.length)));
  weft_strbuf_deinit(&a);
  weft_strbuf_deinit(&b);
  return s;
}

static void widen(weft_tensor_slice_t *hull, const weft_tensor_slice_t *by) {
  for (int d = 0; d < hull->rank; d++) {
    int64_t end = hull->start[d] + hull->length[d], by_end = by->start[d] + by->length[d];
    hull->is_full[d] = hull->is_full[d] || by->is_full[d];
    if (by->start[d] < hull->start[d]) hull->start[d] = by->start[d];
    hull->length[d] = (by_end > end ? by_end : end) - hull->start[d];
  }
}

static weft_status_t *add_slice(stored_tensor_t *t, const weft_tensor_slice_t *slice, size_t shard) {
  /* Slices mostly come in order: then the hull answers for all of them. */
  if (t->count > 0 && weft_tensor_slice_intersect(&t->hull, slice, NULL)) {
    for (size_t i = 0; i < t->count; i++) {
      if (weft_tensor_slice_intersect(&t->slices[i].slice, slice, NULL))
        return overlapping(&t->slices[i].slice, slice);
    }
  }
  if (t->count == t->capacity) {
    size_t capacity = t->capacity == 0 ? 1 : t->capacity * 2;
    stored_slice_t *more = weft_realloc(t->slices, capacity, sizeof *more);
    if (more == NULL) return no_memory(weft_str_of(t->name, t->name_length));
    t->slices = more;
    t->capacity = capacity;
  }
  if (t->count == 0) t->hull = *slice;
  widen(&t->hull, slice);
  t->slices[t->count++] = (stored_slice_t){*slice, shard};
  return NULL;
}

static weft_status_t *damaged(const v1_shard_t *shard) {
  return WEFT_ERROR(INTERNAL,
                    "Failed to find the saved tensor slices at the beginning of the checkpoint file: %s",
                    shard->path);
}

static weft_status_t *take_tensor(weft_checkpoint_v1_reader_t *r, size_t shard, weft_str_t bytes) {
  weft_wire_reader_t m = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  weft_shape_t shape = WEFT_SCALAR;
  int dtype = 0;
  while (weft_wire_next(&m, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(WEFT_V1_TENSOR_NAME, WEFT_WIRE_BYTES): name = f.bytes; break;
      case WEFT_WIRE_TAG(WEFT_V1_TENSOR_TYPE, WEFT_WIRE_VARINT): dtype = weft_wire_i32(f.value); break;
      case WEFT_WIRE_TAG(WEFT_V1_TENSOR_SHAPE, WEFT_WIRE_BYTES):
        WEFT_RETURN_IF_ERROR(weft_shape_from_proto_known(f.bytes, &shape));
        break;
      default: break;
    }
  }
  if (m.failed || !weft_dtype_is_valid(dtype) || weft_dtype_is_ref(dtype)) return damaged(&r->shards[shard]);
  stored_tensor_t *t = NULL;
  m = weft_wire_reader(bytes);
  while (weft_wire_next(&m, &f)) {
    weft_tensor_slice_t slice;
    if (f.tag != WEFT_WIRE_TAG(WEFT_V1_TENSOR_SLICE, WEFT_WIRE_BYTES)) continue;
    if (t == NULL) WEFT_RETURN_IF_ERROR(find_or_add(r, name, (weft_dtype_t)dtype, &shape, &t));
    if (!weft_tensor_slice_get(f.bytes, &shape, &slice)) {
      return WEFT_ERROR(INTERNAL, "%s: a slice of tensor %.*s does not fit its shape %s",
                        r->shards[shard].path, WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&shape));
    }
    WEFT_RETURN_IF_ERROR(add_slice(t, &slice, shard));
  }
  return NULL;
}

static weft_status_t *check_versions(weft_str_t bytes, const v1_shard_t *shard) {
  weft_wire_reader_t m = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&m, &f)) {
    if (f.tag == WEFT_WIRE_TAG(WEFT_V1_VERSION_MIN_CONSUMER, WEFT_WIRE_VARINT) &&
        weft_wire_i32(f.value) > WEFT_V1_VERSION) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Checkpoint min consumer version %d above current version %d for TensorFlow 2.19.1.  Please "
          "upgrade TensorFlow.",
          weft_wire_i32(f.value), WEFT_V1_VERSION);
    }
    if (weft_wire_number(&f) != WEFT_V1_VERSION_BAD_CONSUMERS) continue;
    weft_wire_values_t values = weft_wire_values(&f, WEFT_WIRE_VARINT);
    uint64_t version;
    while (weft_wire_next_value(&values, &version)) {
      if (weft_wire_i32(version) != WEFT_V1_VERSION) continue;
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Checkpoint disallows consumer version %d.  Please upgrade TensorFlow: this version is likely "
          "buggy.",
          WEFT_V1_VERSION);
    }
  }
  return m.failed ? damaged(shard) : NULL;
}

static weft_status_t *take_contents(weft_checkpoint_v1_reader_t *r, size_t shard, weft_str_t bytes) {
  weft_wire_reader_t all = weft_wire_reader(bytes);
  weft_wire_field_t f, g;
  while (weft_wire_next(&all, &f)) {
    if (f.tag != WEFT_WIRE_TAG(WEFT_V1_META, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t m = weft_wire_reader(f.bytes);
    while (weft_wire_next(&m, &g)) {
      if (g.tag == WEFT_WIRE_TAG(WEFT_V1_META_VERSIONS, WEFT_WIRE_BYTES)) {
        WEFT_RETURN_IF_ERROR(check_versions(g.bytes, &r->shards[shard]));
      }
      if (g.tag == WEFT_WIRE_TAG(WEFT_V1_META_TENSOR, WEFT_WIRE_BYTES)) {
        WEFT_RETURN_IF_ERROR(take_tensor(r, shard, g.bytes));
      }
    }
    if (m.failed) return damaged(&r->shards[shard]);
  }
  return all.failed ? damaged(&r->shards[shard]) : NULL;
}

static weft_status_t *open_table(v1_shard_t *shard) {
  weft_status_t *cause = weft_table_reader_open(shard->path, &shard->table);
  if (cause == NULL || weft_status_code(cause) == WEFT_RESOURCE_EXHAUSTED) return cause;
  weft_status_t *s =
      WEFT_ERROR(DATA_LOSS,
                 "Unable to open table file %s: %s: %s: perhaps your file is in a different file format "
                 "and you need to use a different restore operator?",
                 shard->path, weft_code_name(weft_status_code(cause)), weft_status_message(cause));
  weft_status_free(cause);
  return s;
}

static weft_status_t *load_shard(weft_checkpoint_v1_reader_t *r, size_t i) {
  v1_shard_t *shard = &r->shards[i];
  weft_strbuf_t contents = WEFT_STRBUF_INIT;
  if (shard->table != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(open_table(shard));
  weft_status_t *s = weft_table_reader_get(shard->table, WEFT_STR(""), &contents);
  if (s != NULL && weft_status_code(s) != WEFT_RESOURCE_EXHAUSTED) {
    weft_status_free(s);
    s = damaged(shard);
  }
  if (s == NULL) s = take_contents(r, i, weft_str_of(contents.data, contents.length));
  weft_strbuf_deinit(&contents);
  return s;
}

static weft_status_t *load_all(weft_checkpoint_v1_reader_t *r) {
  weft_status_t *s = NULL;
  for (size_t i = 0; s == NULL && i < r->num_shards; i++) s = load_shard(r, i);
  if (s == NULL) r->has_all = true;
  return s;
}

/* ---- opening ---- */

static weft_status_t *match(weft_checkpoint_v1_reader_t *r) {
  weft_path_list_t found = {0};
  weft_status_t *s = weft_match_files(weft_str(r->pattern), &found);
  weft_path_list_sort(&found);
  if (s == NULL && found.n == 0) {
    s = WEFT_ERROR(NOT_FOUND,
                   "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s",
                   r->pattern);
  }
  if (s == NULL) r->shards = weft_calloc(found.n, sizeof r->shards[0]);
  if (s == NULL && r->shards == NULL) s = no_memory(weft_str(r->pattern));
  for (size_t i = 0; s == NULL && i < found.n; i++) {
    r->shards[i].path = found.paths[i];
    found.paths[i] = NULL;
    r->num_shards = i + 1;
  }
  weft_path_list_deinit(&found);
  return s;
}

weft_status_t *weft_checkpoint_v1_reader_open(weft_str_t pattern, int64_t preferred,
                                              weft_checkpoint_v1_reader_t **out) {
  weft_checkpoint_v1_reader_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->pattern = weft_strndup(pattern.data == NULL ? "" : pattern.data, pattern.length);
  weft_status_t *s = r == NULL || r->pattern == NULL ? no_memory(pattern) : match(r);
  if (s == NULL) {
    bool is_one = preferred >= 0 && (uint64_t)preferred < r->num_shards;
    s = is_one ? load_shard(r, (size_t)preferred) : load_all(r);
  }
  if (s == NULL) *out = r;
  if (s != NULL) weft_checkpoint_v1_reader_close(r);
  return s;
}

/* ---- reading ---- */

/* True if the slices that are known hold all of `wanted`. */
static bool is_covered(const stored_tensor_t *t, const weft_tensor_slice_t *wanted) {
  int64_t total = 1, covered = 0;
  for (int d = 0; d < wanted->rank; d++) total *= wanted->length[d];
  for (size_t i = 0; i < t->count; i++) {
    weft_tensor_slice_t common;
    int64_t n = 1;
    if (!weft_tensor_slice_intersect(&t->slices[i].slice, wanted, &common)) continue;
    for (int d = 0; d < common.rank; d++) n *= common.length[d];
    covered += n;
  }
  return covered == total;
}

static weft_status_t *cannot_copy(weft_status_t *cause) {
  if (cause == NULL || weft_status_code(cause) == WEFT_RESOURCE_EXHAUSTED) return cause;
  weft_status_free(cause);
  return WEFT_ERROR(INVALID_ARGUMENT, "Error copying slice data");
}

/* The values in a record: SavedTensorSlices.data.data. */
static weft_str_t find_values(weft_str_t record) {
  weft_wire_reader_t all = weft_wire_reader(record);
  weft_wire_field_t f, g;
  weft_str_t values = WEFT_STR("");
  while (weft_wire_next(&all, &f)) {
    if (f.tag != WEFT_WIRE_TAG(WEFT_V1_DATA, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t m = weft_wire_reader(f.bytes);
    while (weft_wire_next(&m, &g)) {
      if (g.tag == WEFT_WIRE_TAG(WEFT_V1_DATA_VALUES, WEFT_WIRE_BYTES)) values = g.bytes;
    }
  }
  return values;
}

static weft_status_t *read_slice(const weft_checkpoint_v1_reader_t *r, const stored_tensor_t *t,
                                 const stored_slice_t *stored, weft_tensor_t **out) {
  weft_strbuf_t key = WEFT_STRBUF_INIT, record = WEFT_STRBUF_INIT;
  weft_str_t name = weft_str_of(t->name, t->name_length);
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_shape_make(stored->slice.length, stored->slice.rank, &shape));
  weft_tensor_slice_key(name, &stored->slice, &key);
  weft_status_t *s = key.failed ? no_memory(name)
                                : weft_table_reader_get(r->shards[stored->shard].table,
                                                        weft_str_of(key.data, key.length), &record);
  if (s == NULL) {
    s = weft_tensor_from_proto_values(find_values(weft_str_of(record.data, record.length)), t->dtype, &shape,
                                      out);
  }
  weft_strbuf_deinit(&key);
  weft_strbuf_deinit(&record);
  return cannot_copy(s);
}

static bool is_same(const weft_tensor_slice_t *a, const weft_tensor_slice_t *b) {
  bool same = a->rank == b->rank;
  for (int d = 0; same && d < a->rank; d++) same = a->start[d] == b->start[d] && a->length[d] == b->length[d];
  return same;
}

/* An element takes at least a byte, which Snappy makes 64 times smaller at best: files that promise more lie.
 */
static bool can_hold(const weft_checkpoint_v1_reader_t *r, int64_t count) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->num_shards; i++) {
    if (r->shards[i].table != NULL) bytes += weft_table_reader_size(r->shards[i].table);
  }
  return count >= 0 && (uint64_t)count / 64 <= bytes;
}

static weft_status_t *put_together(const weft_checkpoint_v1_reader_t *r, const stored_tensor_t *t,
                                   const weft_tensor_slice_t *wanted, weft_tensor_t **out) {
  weft_shape_t shape;
  weft_tensor_t *whole = NULL;
  int64_t copied = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_make(wanted->length, wanted->rank, &shape));
  if (!can_hold(r, weft_shape_count(&shape))) return WEFT_ERROR(INVALID_ARGUMENT, "Error copying slice data");
  weft_status_t *s = weft_tensor_new(t->dtype, &shape, NULL, &whole);
  for (size_t i = 0; s == NULL && i < t->count; i++) {
    weft_tensor_t *part = NULL;
    if (!weft_tensor_slice_intersect(&t->slices[i].slice, wanted, NULL)) continue;
    s = read_slice(r, t, &t->slices[i], &part);
    if (s == NULL) s = weft_tensor_slice_copy(whole, wanted, part, &t->slices[i].slice, &copied);
    weft_tensor_release(part);
  }
  if (s == NULL) *out = whole;
  if (s != NULL) weft_tensor_release(whole);
  return s;
}

static weft_status_t *read_part(weft_checkpoint_v1_reader_t *r, const stored_tensor_t *t,
                                const weft_tensor_slice_t *wanted, weft_tensor_t **out) {
  if (!weft_dtype_is_plain(t->dtype) && t->dtype != WEFT_STRING) {
    return WEFT_ERROR(UNIMPLEMENTED, "Restoring data type %s not yet supported", weft_dtype_name(t->dtype));
  }
  if (!is_covered(t, wanted) && !r->has_all) WEFT_RETURN_IF_ERROR(load_all(r));
  if (!is_covered(t, wanted)) return WEFT_ERROR(INVALID_ARGUMENT, "Error copying slice data");
  for (size_t i = 0; i < t->count; i++) {
    if (is_same(&t->slices[i].slice, wanted)) return read_slice(r, t, &t->slices[i], out);
  }
  return put_together(r, t, wanted, out);
}

bool weft_checkpoint_v1_reader_next(const weft_checkpoint_v1_reader_t *r, size_t *at, weft_str_t *out_name) {
  weft_map_entry_t e;
  if (!weft_map_next(&r->tensors, at, &e)) return false;
  *out_name = e.key;
  return true;
}

bool weft_checkpoint_v1_reader_lookup(const weft_checkpoint_v1_reader_t *r, weft_str_t name,
                                      weft_dtype_t *out_dtype, weft_shape_t *out_shape) {
  const stored_tensor_t *t = weft_map_get(&r->tensors, name);
  if (t == NULL) return false;
  *out_dtype = t->dtype;
  *out_shape = t->shape;
  return true;
}

weft_status_t *weft_checkpoint_v1_reader_restore(weft_checkpoint_v1_reader_t *r, weft_str_t name,
                                                 weft_str_t spec, weft_dtype_t dtype, weft_tensor_t **out) {
  weft_shape_t full, shape;
  const stored_tensor_t *t = weft_map_get(&r->tensors, name);
  if (t == NULL && !r->has_all) {
    WEFT_RETURN_IF_ERROR(load_all(r));
    t = weft_map_get(&r->tensors, name);
  }
  if (t == NULL) {
    return WEFT_ERROR(NOT_FOUND, "Tensor name \"%.*s\" not found in checkpoint files %s", WEFT_STR_ARGS(name),
                      r->pattern);
  }
  if (t->dtype != dtype) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Expected to restore a tensor of type %s, got a tensor of type %s instead: tensor_name = %.*s",
        weft_dtype_name(dtype), weft_dtype_name(t->dtype), WEFT_STR_ARGS(name));
  }
  weft_tensor_slice_t wanted = weft_tensor_slice_whole(&t->shape);
  if (spec.length > 0) {
    WEFT_RETURN_IF_ERROR(weft_tensor_slice_parse(spec, &full, &wanted, &shape));
    if (!weft_shape_eq(&full, &t->shape)) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Shape in shape_and_slice spec does not match the shape in the save file: %s, save file shape: %s",
          WEFT_SHAPE_TEXT(&full), WEFT_SHAPE_TEXT(&t->shape));
    }
  }
  return read_part(r, t, &wanted, out);
}
