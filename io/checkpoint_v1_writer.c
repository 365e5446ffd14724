/* io/checkpoint_v1_writer.c - keeps references to what is to be saved, and writes it sorted by key, a slice
 * at a time. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "io/checkpoint_v1.h"
#include "io/table.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"

/* What the table of contents says about a tensor. */
typedef struct saved_tensor {
  char *name; /* owned */
  size_t name_length;
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_strbuf_t slices; /* the wire form of the repeated field */
} saved_tensor_t;

typedef struct saved_slice {
  weft_strbuf_t key;
  const saved_tensor_t *of; /* borrowed from the writer */
  weft_tensor_slice_t slice;
  weft_tensor_t *values; /* owned reference */
  size_t order;
} saved_slice_t;

struct weft_checkpoint_v1_writer {
  char *path;
  saved_tensor_t **tensors; /* owned, in order of arrival */
  size_t num_tensors, tensors_capacity;
  weft_map_t by_name; /* saved_tensor_t by name */
  saved_slice_t *slices;
  size_t num_slices, slices_capacity;
};

static weft_status_t *no_memory(weft_str_t name) {
  return WEFT_NO_MEMORY("writing checkpoint entry %.*s", WEFT_STR_ARGS(name));
}

static void tensor_free(saved_tensor_t *t) {
  if (t == NULL) return;
  weft_strbuf_deinit(&t->slices);
  weft_free(t->name);
  weft_free(t);
}

void weft_checkpoint_v1_writer_abandon(weft_checkpoint_v1_writer_t *w) {
  if (w == NULL) return;
  for (size_t i = 0; i < w->num_tensors; i++) tensor_free(w->tensors[i]);
  for (size_t i = 0; i < w->num_slices; i++) {
    weft_strbuf_deinit(&w->slices[i].key);
    weft_tensor_release(w->slices[i].values);
  }
  weft_free(w->tensors);
  weft_free(w->slices);
  weft_map_deinit(&w->by_name);
  weft_free(w->path);
  weft_free(w);
}

weft_status_t *weft_checkpoint_v1_writer_create(weft_str_t path, weft_checkpoint_v1_writer_t **out) {
  weft_checkpoint_v1_writer_t *w = weft_calloc(1, sizeof *w);
  if (w != NULL) w->path = weft_strndup(path.data == NULL ? "" : path.data, path.length);
  if (w == NULL || w->path == NULL) {
    weft_checkpoint_v1_writer_abandon(w);
    return no_memory(path);
  }
  *out = w;
  return NULL;
}

/* ---- adding ---- */

/* How many bytes an element may take, as TensorFlow reckons; 0: the format has no place for such elements. */
static size_t max_bytes(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_BOOL: return 1;
    case WEFT_U8:
    case WEFT_QUINT8: return 2;
    case WEFT_U16:
    case WEFT_F16: return 3;
    case WEFT_F32: return 4;
    case WEFT_F64:
    case WEFT_C64: return 8;
    case WEFT_C128: return 16;
    case WEFT_I8:
    case WEFT_I16:
    case WEFT_I32:
    case WEFT_I64:
    case WEFT_QINT8:
    case WEFT_QINT32:
    case WEFT_STRING: return 10; /* of a string: besides its bytes */
    default: return 0;
  }
}

/* A message of protobuf cannot have 2^31 bytes. Some are set aside for what stands around the values. */
static weft_status_t *check_values(weft_str_t name, const weft_tensor_t *t) {
  const size_t limit = (size_t)1 << 31, around = 1024;
  size_t each = max_bytes(t->dtype), size;
  if (t->dtype == WEFT_U32 || t->dtype == WEFT_U64) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor slice serialization not implemented for dtype %d",
                      (int)t->dtype);
  }
  if (each == 0) {
    return WEFT_ERROR(UNIMPLEMENTED, "Saving data type %s not yet supported", weft_dtype_name(t->dtype));
  }
  if (!weft_mul_size((size_t)t->count, each, &size)) size = SIZE_MAX / 2;
  size += around + name.length;
  for (int64_t i = 0; t->dtype == WEFT_STRING && i < t->count; i++) size += weft_tensor_str_at(t, i).length;
  if (size <= limit) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Tensor slice is too large to serialize (conservative estimate: %zu bytes)", size);
}

static weft_status_t *new_tensor(weft_checkpoint_v1_writer_t *w, weft_str_t name, weft_dtype_t dtype,
                                 const weft_shape_t *shape, saved_tensor_t **out) {
  if (w->num_tensors == w->tensors_capacity) {
    size_t capacity = w->tensors_capacity == 0 ? 32 : w->tensors_capacity * 2;
    saved_tensor_t **more = weft_realloc(w->tensors, capacity, sizeof *more);
    if (more == NULL) return no_memory(name);
    w->tensors = more;
    w->tensors_capacity = capacity;
  }
  saved_tensor_t *t = weft_calloc(1, sizeof *t);
  if (t != NULL) t->name = weft_strndup(name.data == NULL ? "" : name.data, name.length);
  if (t == NULL || t->name == NULL) {
    tensor_free(t);
    return no_memory(name);
  }
  t->name_length = name.length;
  t->dtype = dtype;
  t->shape = *shape;
  weft_status_t *s = weft_map_put(&w->by_name, weft_str_of(t->name, t->name_length), t, NULL);
  if (s != NULL) {
    tensor_free(t);
    return s;
  }
  w->tensors[w->num_tensors++] = t;
  *out = t;
  return NULL;
}

static weft_status_t *check_same(const saved_tensor_t *old, weft_str_t name, const weft_shape_t *shape,
                                 weft_dtype_t dtype) {
  if (!weft_shape_eq(&old->shape, shape)) {
    return WEFT_ERROR(INTERNAL,
                      "Mismatching shapes: existing tensor = %s, trying to add name %.*s, shape = %s",
                      WEFT_SHAPE_TEXT(&old->shape), WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(shape));
  }
  if (old->dtype != dtype) {
    return WEFT_ERROR(INTERNAL, "Mismatching types: existing type = %s, trying to add name %.*s, type = %s",
                      weft_dtype_name(old->dtype), WEFT_STR_ARGS(name), weft_dtype_name(dtype));
  }
  return NULL;
}

weft_status_t *weft_checkpoint_v1_writer_add(weft_checkpoint_v1_writer_t *w, weft_str_t name,
                                             const weft_shape_t *full, const weft_tensor_slice_t *slice,
                                             weft_tensor_t *t) {
  WEFT_RETURN_IF_ERROR(check_values(name, t));
  if (w->num_slices == w->slices_capacity) {
    size_t capacity = w->slices_capacity == 0 ? 32 : w->slices_capacity * 2;
    saved_slice_t *more = weft_realloc(w->slices, capacity, sizeof *more);
    if (more == NULL) return no_memory(name);
    w->slices = more;
    w->slices_capacity = capacity;
  }
  saved_tensor_t *of = weft_map_get(&w->by_name, name);
  if (of != NULL) {
    WEFT_RETURN_IF_ERROR(check_same(of, name, full, t->dtype));
  } else {
    WEFT_RETURN_IF_ERROR(new_tensor(w, name, t->dtype, full, &of));
  }
  weft_tensor_slice_put(slice, WEFT_V1_TENSOR_SLICE, &of->slices);
  saved_slice_t *added = &w->slices[w->num_slices];
  *added =
      (saved_slice_t){.of = of, .slice = *slice, .values = weft_tensor_retain(t), .order = w->num_slices};
  w->num_slices++;
  weft_tensor_slice_key(name, slice, &added->key);
  return added->key.failed || of->slices.failed ? no_memory(name) : NULL;
}

/* ---- writing ---- */

static weft_str_t key_of(const saved_slice_t *s) { return weft_str_of(s->key.data, s->key.length); }

static int by_key(const void *a, const void *b) {
  const saved_slice_t *x = a, *y = b;
  int order = weft_table_compare(key_of(x), key_of(y));
  return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

static void put_contents(const weft_checkpoint_v1_writer_t *w, weft_strbuf_t *out) {
  size_t meta = weft_wire_begin(out, WEFT_V1_META);
  for (size_t i = 0; i < w->num_tensors; i++) {
    const saved_tensor_t *t = w->tensors[i];
    size_t mark = weft_wire_begin(out, WEFT_V1_META_TENSOR);
    weft_wire_put_bytes(out, WEFT_V1_TENSOR_NAME, weft_str_of(t->name, t->name_length));
    weft_wire_add_header(out, WEFT_V1_TENSOR_SHAPE, weft_shape_proto_size(&t->shape));
    weft_shape_to_proto(&t->shape, out);
    weft_wire_put_i64(out, WEFT_V1_TENSOR_TYPE, t->dtype);
    weft_strbuf_append(out, weft_str_of(t->slices.data, t->slices.length));
    weft_wire_end(out, mark);
  }
  size_t versions = weft_wire_begin(out, WEFT_V1_META_VERSIONS);
  weft_wire_put_i64(out, WEFT_V1_VERSION_PRODUCER, WEFT_V1_VERSION);
  weft_wire_end(out, versions);
  weft_wire_end(out, meta);
}

/* The values come first, in a buffer of their own: then all lengths are known and nothing large is moved. */
static weft_status_t *put_slice(const saved_slice_t *s, weft_strbuf_t *values, weft_strbuf_t *out) {
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  values->length = 0;
  WEFT_RETURN_IF_ERROR(weft_tensor_to_proto_values(s->values, values));
  weft_wire_put_bytes(&head, WEFT_V1_DATA_NAME, weft_str_of(s->of->name, s->of->name_length));
  weft_tensor_slice_put(&s->slice, WEFT_V1_DATA_SLICE, &head);
  weft_wire_add_header(&head, WEFT_V1_DATA_VALUES, values->length);
  weft_wire_add_header(out, WEFT_V1_DATA, head.length + values->length);
  weft_strbuf_append(out, weft_str_of(head.data, head.length));
  weft_strbuf_append(out, weft_str_of(values->data, values->length));
  bool failed = head.failed || out->failed;
  weft_strbuf_deinit(&head);
  return failed ? no_memory(weft_str_of(s->of->name, s->of->name_length)) : NULL;
}

static weft_status_t *write_table(weft_checkpoint_v1_writer_t *w, weft_table_writer_t *table) {
  weft_strbuf_t value = WEFT_STRBUF_INIT, values = WEFT_STRBUF_INIT;
  if (w->num_slices > 1) qsort(w->slices, w->num_slices, sizeof w->slices[0], by_key);
  put_contents(w, &value);
  weft_status_t *s = value.failed
                         ? no_memory(weft_str(w->path))
                         : weft_table_writer_add(table, WEFT_STR(""), weft_str_of(value.data, value.length));
  for (size_t i = 0; s == NULL && i < w->num_slices; i++) {
    if (i > 0 && weft_str_eq(key_of(&w->slices[i - 1]), key_of(&w->slices[i]))) continue;
    value.length = 0;
    s = put_slice(&w->slices[i], &values, &value);
    if (s == NULL)
      s = weft_table_writer_add(table, key_of(&w->slices[i]), weft_str_of(value.data, value.length));
  }
  weft_strbuf_deinit(&value);
  weft_strbuf_deinit(&values);
  return s;
}

weft_status_t *weft_checkpoint_v1_writer_finish(weft_checkpoint_v1_writer_t *w) {
  weft_file_writer_t *file = NULL;
  weft_table_writer_t *table = NULL;
  weft_status_t *s = weft_file_remove_leftovers(w->path);
  if (s == NULL) s = weft_file_writer_create(w->path, &file);
  if (s != NULL) goto done;
  s = weft_table_writer_create(file, &table);
  if (s == NULL) s = write_table(w, table);
  if (s == NULL) {
    s = weft_table_writer_finish(table);
    table = NULL;
  }
  if (s == NULL) {
    s = weft_file_writer_commit(file);
    file = NULL;
  }
done:
  weft_table_writer_abandon(table);
  weft_file_writer_abandon(file);
  weft_checkpoint_v1_writer_abandon(w);
  return s;
}
