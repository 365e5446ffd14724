/* saved_model/meta_graph_proto.c - MetaGraphDef to lists. */
#include "saved_model/meta_graph.h"

#include <stdlib.h>

#include "io/file.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a meta graph"); }

/* ---- pieces ---- */

/* A message that stands twice is one: protobuf reads the second into the first. */
static weft_status_t *merge(weft_arena_t *arena, weft_str_t *into, weft_str_t more) {
  if (into->length == 0 || more.length == 0) {
    if (into->length == 0) *into = more;
    return NULL;
  }
  char *both = weft_arena_alloc(arena, into->length + more.length);
  if (both == NULL) return no_memory();
  memcpy(both, into->data, into->length);
  memcpy(both + into->length, more.data, more.length);
  *into = weft_str_of(both, into->length + more.length);
  return NULL;
}

static int64_t count(weft_str_t bytes, uint32_t tag) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int64_t n = 0;
  while (weft_wire_next(&r, &f)) n += f.tag == tag;
  return n;
}

/* The fields `number` of a message, each length-delimited. */
static weft_status_t *list(weft_arena_t *arena, weft_str_t bytes, uint32_t number, weft_str_t **out,
                           int *out_n) {
  uint32_t tag = WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES);
  *out_n = 0;
  *out = weft_arena_calloc(arena, (size_t)count(bytes, tag) + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == tag) (*out)[(*out_n)++] = f.bytes;
  }
  return NULL;
}

/* One entry of a map. */
typedef struct map_entry {
  weft_str_t key, value;
  int place;
} map_entry_t;

static int by_key(const void *a, const void *b) {
  const map_entry_t *x = a, *y = b;
  int order = weft_str_compare(x->key, y->key);
  return order != 0 ? order : x->place - y->place;
}

/* A map of messages, sorted by key; of entries with one key the last counts. */
static weft_status_t *map(weft_arena_t *arena, weft_str_t bytes, uint32_t number, map_entry_t **out,
                          int *out_n) {
  weft_str_t *items;
  int n = 0, kept = 0;
  WEFT_RETURN_IF_ERROR(list(arena, bytes, number, &items, &n));
  map_entry_t *all = weft_arena_calloc(arena, (size_t)n + 1, sizeof *all);
  if (all == NULL) return no_memory();
  for (int i = 0; i < n; i++) {
    weft_wire_reader_t r = weft_wire_reader(items[i]);
    weft_wire_field_t f;
    all[i] = (map_entry_t){WEFT_STR(""), WEFT_STR(""), i};
    while (weft_wire_next(&r, &f)) {
      if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) all[i].key = f.bytes;
      if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES))
        WEFT_RETURN_IF_ERROR(merge(arena, &all[i].value, f.bytes));
    }
  }
  qsort(all, (size_t)n, sizeof *all, by_key);
  for (int i = 0; i < n; i++) {
    if (i + 1 < n && weft_str_eq(all[i].key, all[i + 1].key)) continue;
    all[kept++] = all[i];
  }
  *out = all;
  *out_n = kept;
  return NULL;
}

/* ---- signatures ---- */

typedef struct tensor_list {
  weft_arena_t *arena;
  weft_signature_tensor_t *items;
  int n, capacity;
} tensor_list_t;

static weft_status_t *add_tensor(tensor_list_t *to, weft_str_t key, const char *part, weft_str_t tensor,
                                 int dtype, const weft_shape_t *shape) {
  if (to->n == to->capacity) {
    int capacity = to->capacity < 4 ? 8 : to->capacity * 2;
    weft_signature_tensor_t *items = weft_arena_calloc(to->arena, (size_t)capacity, sizeof *items);
    if (items == NULL) return no_memory();
    if (to->n > 0) memcpy(items, to->items, (size_t)to->n * sizeof *items);
    to->items = items;
    to->capacity = capacity;
  }
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_append(&name, key);
  weft_strbuf_puts(&name, part);
  weft_str_t kept =
      name.failed ? (weft_str_t){NULL, 0} : weft_arena_str(to->arena, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  if (kept.data == NULL) return no_memory();
  to->items[to->n++] = (weft_signature_tensor_t){kept, tensor, dtype, *shape};
  return NULL;
}

/* What a TensorInfo says. */
typedef struct tensor_info {
  weft_str_t name, sparse, composite;
  int dtype;
  weft_shape_t shape;
} tensor_info_t;

static weft_status_t *read_info(weft_arena_t *arena, weft_str_t bytes, tensor_info_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t shape = WEFT_STR("");
  bool has_shape = false;
  *out = (tensor_info_t){.name = WEFT_STR(""), .shape = WEFT_UNKNOWN_SHAPE};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES):
        out->name = f.bytes;
        out->sparse = out->composite = WEFT_STR("");
        break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT): out->dtype = weft_wire_i32(f.value); break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES):
        has_shape = true;
        WEFT_RETURN_IF_ERROR(merge(arena, &shape, f.bytes));
        break;
      case WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES):
        WEFT_RETURN_IF_ERROR(merge(arena, &out->sparse, f.bytes));
        out->name = out->composite = WEFT_STR("");
        break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES):
        WEFT_RETURN_IF_ERROR(merge(arena, &out->composite, f.bytes));
        out->name = out->sparse = WEFT_STR("");
        break;
      default: break;
    }
  }
  weft_status_t *s = has_shape ? weft_shape_from_proto(shape, &out->shape) : NULL;
  if (s != NULL) out->shape = WEFT_UNKNOWN_SHAPE;
  weft_status_free(s);
  return NULL;
}

static weft_status_t *add_sparse(tensor_list_t *to, weft_str_t key, const tensor_info_t *info) {
  weft_wire_reader_t r = weft_wire_reader(info->sparse);
  weft_wire_field_t f;
  weft_str_t values = WEFT_STR(""), indices = WEFT_STR(""), shape = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) values = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) indices = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) shape = f.bytes;
  }
  int64_t rank = info->shape.rank;
  const weft_shape_t of_values = weft_shape_vector(WEFT_UNKNOWN_DIM),
                     of_indices = weft_shape_matrix(WEFT_UNKNOWN_DIM, rank),
                     of_shape = weft_shape_vector(rank);
  WEFT_RETURN_IF_ERROR(add_tensor(to, key, ".indices", indices, WEFT_I64, &of_indices));
  WEFT_RETURN_IF_ERROR(add_tensor(to, key, ".values", values, info->dtype, &of_values));
  return add_tensor(to, key, ".dense_shape", shape, WEFT_I64, &of_shape);
}

/* How deep composites nest in composites was checked with the message. */
static weft_status_t *add_info(tensor_list_t *to, weft_str_t key, weft_str_t bytes) {
  tensor_info_t info;
  WEFT_RETURN_IF_ERROR(read_info(to->arena, bytes, &info));
  if (info.sparse.length > 0) return add_sparse(to, key, &info);
  if (info.composite.length == 0) return add_tensor(to, key, "", info.name, info.dtype, &info.shape);
  weft_str_t *parts;
  int n = 0;
  WEFT_RETURN_IF_ERROR(list(to->arena, info.composite, 2, &parts, &n));
  for (int i = 0; i < n; i++) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_append(&name, key);
    weft_strbuf_printf(&name, ".%d", i);
    weft_status_t *s =
        name.failed ? no_memory() : add_info(to, weft_str_of(name.data, name.length), parts[i]);
    weft_strbuf_deinit(&name);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *read_tensors(weft_arena_t *arena, weft_str_t bytes, uint32_t number,
                                   weft_signature_tensor_t **out, int *out_n) {
  map_entry_t *entries;
  int n = 0;
  tensor_list_t to = {.arena = arena};
  WEFT_RETURN_IF_ERROR(map(arena, bytes, number, &entries, &n));
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(add_info(&to, entries[i].key, entries[i].value));
  *out = to.items;
  *out_n = to.n;
  return NULL;
}

/* Ops have neither a dtype nor an index. */
static bool is_op(const weft_signature_tensor_t *t) {
  return t->dtype == 0 && t->tensor.length > 0 && memchr(t->tensor.data, ':', t->tensor.length) == NULL;
}

/* Moves ops out of the outputs. */
static weft_status_t *split_ops(weft_arena_t *arena, weft_signature_def_t *d) {
  int n = 0;
  d->ops = weft_arena_calloc(arena, (size_t)d->num_outputs + 1, sizeof *d->ops);
  if (d->ops == NULL) return no_memory();
  for (int i = 0; i < d->num_outputs; i++) {
    if (is_op(&d->outputs[i])) {
      d->ops[d->num_ops++] = d->outputs[i];
    } else {
      d->outputs[n++] = d->outputs[i];
    }
  }
  d->num_outputs = n;
  return NULL;
}

static weft_status_t *read_signature(weft_arena_t *arena, const map_entry_t *e, weft_signature_def_t *out) {
  weft_wire_reader_t r = weft_wire_reader(e->value);
  weft_wire_field_t f;
  *out = (weft_signature_def_t){.key = e->key, .method = WEFT_STR("")};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) out->method = f.bytes;
  }
  WEFT_RETURN_IF_ERROR(read_tensors(arena, e->value, 1, &out->inputs, &out->num_inputs));
  WEFT_RETURN_IF_ERROR(read_tensors(arena, e->value, 2, &out->outputs, &out->num_outputs));
  return split_ops(arena, out);
}

static weft_status_t *read_signatures(weft_meta_graph_t *m) {
  map_entry_t *entries;
  int n = 0;
  WEFT_RETURN_IF_ERROR(map(&m->arena, m->bytes, 5, &entries, &n));
  m->signatures = weft_arena_calloc(&m->arena, (size_t)n + 1, sizeof *m->signatures);
  if (m->signatures == NULL) return no_memory();
  for (; m->num_signatures < n; m->num_signatures++) {
    WEFT_RETURN_IF_ERROR(
        read_signature(&m->arena, &entries[m->num_signatures], &m->signatures[m->num_signatures]));
  }
  return NULL;
}

/* ---- collections ---- */

/* Numbers of a packed list and those that stand alone. */
static int64_t count_numbers(weft_str_t numbers, bool is_float) {
  weft_wire_reader_t r = weft_wire_reader(numbers);
  weft_wire_field_t f;
  int64_t n = 0;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != 1) continue;
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES) {
      n++;
    } else if (is_float) {
      n += (int64_t)f.bytes.length / 4;
    } else {
      for (size_t i = 0; i < f.bytes.length; i++) n += (f.bytes.data[i] & 0x80) == 0;
    }
  }
  return n;
}

static weft_status_t *read_collection(weft_arena_t *arena, const map_entry_t *e, weft_collection_t *out) {
  static const char *const kinds[] = {"", "node_list", "bytes_list", "int64_list", "float_list", "any_list"};
  enum { INT64_LIST = 3, FLOAT_LIST = 4, NUM_KINDS = 6 };
  weft_wire_reader_t r = weft_wire_reader(e->value);
  weft_wire_field_t f;
  uint32_t kind = 0;
  weft_str_t value = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    uint32_t number = weft_wire_number(&f);
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES || number >= NUM_KINDS) continue;
    if (number != kind) value = WEFT_STR("");
    kind = number;
    WEFT_RETURN_IF_ERROR(merge(arena, &value, f.bytes));
  }
  *out = (weft_collection_t){.key = e->key, .kind = kinds[kind]};
  if (kind == INT64_LIST || kind == FLOAT_LIST) {
    out->n = count_numbers(value, kind == FLOAT_LIST);
    return NULL;
  }
  int n = 0;
  WEFT_RETURN_IF_ERROR(list(arena, value, 1, &out->items, &n));
  out->n = n;
  return NULL;
}

static weft_status_t *read_collections(weft_meta_graph_t *m) {
  map_entry_t *entries;
  int n = 0;
  WEFT_RETURN_IF_ERROR(map(&m->arena, m->bytes, 4, &entries, &n));
  m->collections = weft_arena_calloc(&m->arena, (size_t)n + 1, sizeof *m->collections);
  if (m->collections == NULL) return no_memory();
  for (; m->num_collections < n; m->num_collections++) {
    WEFT_RETURN_IF_ERROR(
        read_collection(&m->arena, &entries[m->num_collections], &m->collections[m->num_collections]));
  }
  return NULL;
}

/* ---- the rest ---- */

weft_status_t *weft_asset_read(weft_arena_t *arena, weft_str_t bytes, weft_asset_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t info = WEFT_STR("");
  tensor_info_t tensor;
  *out = (weft_asset_t){WEFT_STR(""), WEFT_STR("")};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(merge(arena, &info, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) out->filename = f.bytes;
  }
  WEFT_RETURN_IF_ERROR(read_info(arena, info, &tensor));
  out->tensor = tensor.name;
  return NULL;
}

static weft_status_t *read_assets(weft_meta_graph_t *m) {
  weft_str_t *items;
  int n = 0;
  WEFT_RETURN_IF_ERROR(list(&m->arena, m->bytes, 6, &items, &n));
  m->assets = weft_arena_calloc(&m->arena, (size_t)n + 1, sizeof *m->assets);
  if (m->assets == NULL) return no_memory();
  for (; m->num_assets < n; m->num_assets++)
    WEFT_RETURN_IF_ERROR(weft_asset_read(&m->arena, items[m->num_assets], &m->assets[m->num_assets]));
  return NULL;
}

static void read_saver(weft_str_t bytes, weft_meta_graph_t *m) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) m->filename_tensor = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) m->save_tensor = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) m->restore_op = f.bytes;
  }
}

static weft_status_t *read_info_def(weft_str_t bytes, weft_meta_graph_t *m) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) m->tensorflow_version = f.bytes;
  }
  return list(&m->arena, bytes, 4, &m->tags, &m->num_tags);
}

weft_status_t *weft_meta_graph_read(weft_str_t bytes, weft_meta_graph_t *out) {
  const weft_str_t none = WEFT_STR("");
  weft_str_t info = none, saver = none;
  *out = (weft_meta_graph_t){.arena = WEFT_ARENA_INIT,
                             .bytes = bytes,
                             .graph_def = none,
                             .tensorflow_version = none,
                             .filename_tensor = none,
                             .save_tensor = none,
                             .restore_op = none};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    weft_str_t *to = f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)   ? &info
                     : f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) ? &out->graph_def
                     : f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES) ? &saver
                                                                  : NULL;
    out->has_saver |= to == &saver;
    if (to != NULL) WEFT_RETURN_IF_ERROR(merge(&out->arena, to, f.bytes));
  }
  read_saver(saver, out);
  WEFT_RETURN_IF_ERROR(read_info_def(info, out));
  WEFT_RETURN_IF_ERROR(read_signatures(out));
  WEFT_RETURN_IF_ERROR(read_collections(out));
  return read_assets(out);
}

void weft_meta_graph_deinit(weft_meta_graph_t *m) {
  weft_arena_deinit(&m->arena);
  *m = (weft_meta_graph_t){.arena = WEFT_ARENA_INIT};
}

const weft_signature_def_t *weft_meta_graph_signature(const weft_meta_graph_t *m, weft_str_t key) {
  for (int i = 0; i < m->num_signatures; i++) {
    if (weft_str_eq(m->signatures[i].key, key)) return &m->signatures[i];
  }
  return NULL;
}

const weft_collection_t *weft_meta_graph_collection(const weft_meta_graph_t *m, const char *key) {
  for (int i = 0; i < m->num_collections; i++) {
    if (weft_str_is(m->collections[i].key, key)) return &m->collections[i];
  }
  return NULL;
}
