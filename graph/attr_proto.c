/* graph/attr_proto.c - AttrValue and NameAttrList, from and to the wire. */
#include "graph/attr_proto.h"

#include "base/alloc.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("an attribute"); }
static weft_status_t *not_a_message(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Unparseable AttrValue proto");
}

/* ---- reading ---- */

static weft_status_t *read_value(weft_arena_t *arena, weft_str_t bytes, int depth, weft_attr_t *out);

static weft_status_t *copy_string(weft_arena_t *arena, weft_str_t bytes, weft_str_t *out) {
  *out = weft_arena_str(arena, bytes);
  return out->data == NULL ? no_memory() : NULL;
}

bool weft_map_entry_read(weft_str_t bytes, weft_str_t *out_key, weft_str_t *out_value) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out_key = WEFT_STR("");
  *out_value = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) *out_key = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) *out_value = f.bytes;
  }
  return !r.failed;
}

static int compare_named(const weft_named_attr_t *a, const weft_named_attr_t *b) {
  return weft_str_compare(a->name, b->name);
}

/* Keeps attrs[0..n) sorted with one more; an equal name replaces the earlier value. */
static void insert_named(weft_named_attr_t *attrs, int *n, weft_named_attr_t added) {
  int at = *n;
  while (at > 0 && compare_named(&attrs[at - 1], &added) > 0) at--;
  if (at > 0 && compare_named(&attrs[at - 1], &added) == 0) {
    weft_attr_release_tensors(&attrs[at - 1].value);
    attrs[at - 1] = added;
    return;
  }
  memmove(attrs + at + 1, attrs + at, (size_t)(*n - at) * sizeof *attrs);
  attrs[at] = added;
  ++*n;
}

static weft_status_t *read_func(weft_arena_t *arena, weft_str_t bytes, int depth, weft_func_attr_t **out) {
  if (depth >= WEFT_ATTR_MAX_DEPTH) {
    return WEFT_ERROR(INVALID_ARGUMENT, "functions in attributes are nested deeper than %d",
                      WEFT_ATTR_MAX_DEPTH);
  }
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  int count = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) count++;
  }
  if (r.failed) return not_a_message();
  if (count > WEFT_ATTR_MAX_FUNC_ATTRS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a function with %d attributes", count);
  }
  weft_func_attr_t *func = weft_arena_calloc(arena, 1, sizeof *func);
  weft_named_attr_t *attrs = weft_arena_calloc(arena, (size_t)count, sizeof *attrs);
  if (func == NULL || attrs == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(copy_string(arena, name, &func->name));
  func->attrs = attrs;
  weft_status_t *s = NULL;
  r = weft_wire_reader(bytes);
  while (s == NULL && weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_str_t key, value;
    weft_named_attr_t added = {.name = WEFT_STR("")};
    s = weft_map_entry_read(f.bytes, &key, &value) ? copy_string(arena, key, &added.name) : not_a_message();
    if (s == NULL) s = read_value(arena, value, depth + 1, &added.value);
    if (s == NULL) insert_named(attrs, &func->num_attrs, added);
  }
  if (s != NULL) {
    weft_attr_t whole = {.kind = WEFT_ATTR_FUNC, .func = func};
    weft_attr_release_tensors(&whole);
    return s;
  }
  *out = func;
  return NULL;
}

/* One element of a list, or a single value, that is a message or a string. */
static weft_status_t *read_bytes_element(weft_arena_t *arena, weft_attr_kind_t kind, weft_str_t bytes,
                                         int depth, void *array, int i) {
  switch (kind) {
    case WEFT_ATTR_SHAPE: return weft_shape_from_proto(bytes, (weft_shape_t *)array + i);
    case WEFT_ATTR_TENSOR: return weft_tensor_from_proto(bytes, (weft_tensor_t **)array + i);
    case WEFT_ATTR_FUNC: return read_func(arena, bytes, depth, (weft_func_attr_t **)array + i);
    default: return copy_string(arena, bytes, (weft_str_t *)array + i);
  }
}

static void store_number(weft_attr_kind_t kind, uint64_t value, void *array, int i) {
  switch (kind) {
    case WEFT_ATTR_FLOAT: ((float *)array)[i] = weft_wire_float(value); break;
    case WEFT_ATTR_BOOL: ((bool *)array)[i] = value != 0; break;
    case WEFT_ATTR_TYPE: ((int *)array)[i] = weft_wire_i32(value); break;
    default: ((int64_t *)array)[i] = weft_wire_i64(value);
  }
}

/* Field numbers are those of AttrValue.ListValue, which are those of AttrValue but for func. */
static weft_attr_kind_t list_kind(uint32_t number, uint32_t *out_wire_type, size_t *out_size) {
  static const struct {
    weft_attr_kind_t kind;
    uint32_t wire_type;
    size_t size;
  } fields[10] = {
      [2] = {WEFT_ATTR_STRING, WEFT_WIRE_BYTES, sizeof(weft_str_t)},
      [3] = {WEFT_ATTR_INT, WEFT_WIRE_VARINT, sizeof(int64_t)},
      [4] = {WEFT_ATTR_FLOAT, WEFT_WIRE_FIXED32, sizeof(float)},
      [5] = {WEFT_ATTR_BOOL, WEFT_WIRE_VARINT, sizeof(bool)},
      [6] = {WEFT_ATTR_TYPE, WEFT_WIRE_VARINT, sizeof(int)},
      [7] = {WEFT_ATTR_SHAPE, WEFT_WIRE_BYTES, sizeof(weft_shape_t)},
      [8] = {WEFT_ATTR_TENSOR, WEFT_WIRE_BYTES, sizeof(weft_tensor_t *)},
      [9] = {WEFT_ATTR_FUNC, WEFT_WIRE_BYTES, sizeof(weft_func_attr_t *)},
  };
  if (number >= 10) return WEFT_ATTR_NONE;
  *out_wire_type = fields[number].wire_type;
  *out_size = fields[number].size;
  return fields[number].kind;
}

static weft_status_t *count_list(weft_str_t bytes, uint32_t *out_number, size_t *out_n) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  uint32_t number = 0, wire_type = 0;
  size_t n = 0, size = 0;
  while (weft_wire_next(&r, &f)) {
    uint32_t this_number = weft_wire_number(&f);
    if (list_kind(this_number, &wire_type, &size) == WEFT_ATTR_NONE) continue;
    size_t more = 1;
    if (wire_type != WEFT_WIRE_BYTES) {
      weft_wire_values_t v = weft_wire_values(&f, wire_type);
      more = weft_wire_count_values(&v);
    } else if (weft_wire_type(&f) != WEFT_WIRE_BYTES) {
      more = 0;
    }
    if (more == 0) continue;
    if (n > 0 && number != this_number) {
      return WEFT_ERROR(INVALID_ARGUMENT, "an AttrValue list holds values of more than one kind");
    }
    number = this_number;
    n += more;
  }
  if (r.failed) return not_a_message();
  if (n > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "an AttrValue list is too long");
  *out_number = number;
  *out_n = n;
  return NULL;
}

static weft_status_t *fill_list(weft_arena_t *arena, weft_str_t bytes, uint32_t number, uint32_t wire_type,
                                weft_attr_kind_t kind, int depth, void *array, int32_t *n) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != number) continue;
    if (wire_type == WEFT_WIRE_BYTES) {
      if (weft_wire_type(&f) != WEFT_WIRE_BYTES) continue;
      WEFT_RETURN_IF_ERROR(read_bytes_element(arena, kind, f.bytes, depth, array, *n));
      ++*n;
      continue;
    }
    weft_wire_values_t v = weft_wire_values(&f, wire_type);
    uint64_t value = 0;
    while (weft_wire_next_value(&v, &value)) store_number(kind, value, array, (*n)++);
    if (v.failed) return not_a_message();
  }
  return NULL;
}

static weft_status_t *read_list(weft_arena_t *arena, weft_str_t bytes, int depth, weft_attr_t *out) {
  uint32_t number = 0, wire_type = 0;
  size_t n = 0, size = 0;
  WEFT_RETURN_IF_ERROR(count_list(bytes, &number, &n));
  weft_attr_t list = {.kind = WEFT_ATTR_NONE, .is_list = true};
  if (n > 0) {
    list.kind = list_kind(number, &wire_type, &size);
    void *array = weft_arena_calloc(arena, n, size);
    if (array == NULL) return no_memory();
    list.list.ints = array; /* the members of the union are all pointers */
    weft_status_t *s = fill_list(arena, bytes, number, wire_type, list.kind, depth, array, &list.n);
    if (s != NULL) {
      weft_attr_release_tensors(&list);
      return s;
    }
  }
  *out = list;
  return NULL;
}

static weft_status_t *read_shape(weft_arena_t *arena, weft_str_t bytes, const weft_shape_t **out) {
  weft_shape_t *shape = weft_arena_calloc(arena, 1, sizeof *shape);
  if (shape == NULL) return no_memory();
  *out = shape;
  return weft_shape_from_proto(bytes, shape);
}

static weft_status_t *read_value(weft_arena_t *arena, weft_str_t bytes, int depth, weft_attr_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f, last = {.tag = 0};
  while (weft_wire_next(&r, &f)) { /* of a oneof, the last counts */
    if (weft_wire_number(&f) <= 10) last = f;
  }
  if (r.failed) return not_a_message();
  weft_attr_t a = {.kind = WEFT_ATTR_NONE};
  weft_func_attr_t *func = NULL;
  switch (last.tag) {
    case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): return read_list(arena, last.bytes, depth, out);
    case WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES):
      a.kind = WEFT_ATTR_STRING;
      WEFT_RETURN_IF_ERROR(copy_string(arena, last.bytes, &a.s));
      break;
    case WEFT_WIRE_TAG(3, WEFT_WIRE_VARINT):
      a.kind = WEFT_ATTR_INT;
      a.i = weft_wire_i64(last.value);
      break;
    case WEFT_WIRE_TAG(4, WEFT_WIRE_FIXED32):
      a.kind = WEFT_ATTR_FLOAT;
      a.f = weft_wire_float(last.value);
      break;
    case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT):
      a.kind = WEFT_ATTR_BOOL;
      a.b = last.value != 0;
      break;
    case WEFT_WIRE_TAG(6, WEFT_WIRE_VARINT):
      a.kind = WEFT_ATTR_TYPE;
      a.type = weft_wire_i32(last.value);
      break;
    case WEFT_WIRE_TAG(7, WEFT_WIRE_BYTES):
      a.kind = WEFT_ATTR_SHAPE;
      WEFT_RETURN_IF_ERROR(read_shape(arena, last.bytes, &a.shape));
      break;
    case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES):
      a.kind = WEFT_ATTR_TENSOR;
      WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(last.bytes, &a.tensor));
      break;
    case WEFT_WIRE_TAG(9, WEFT_WIRE_BYTES):
      a.kind = WEFT_ATTR_PLACEHOLDER;
      WEFT_RETURN_IF_ERROR(copy_string(arena, last.bytes, &a.s));
      break;
    case WEFT_WIRE_TAG(10, WEFT_WIRE_BYTES):
      a.kind = WEFT_ATTR_FUNC;
      WEFT_RETURN_IF_ERROR(read_func(arena, last.bytes, depth, &func));
      a.func = func;
      break;
    default: break; /* no value at all */
  }
  *out = a;
  return NULL;
}

weft_status_t *weft_attr_from_proto(weft_arena_t *arena, weft_str_t bytes, weft_attr_t *out) {
  return read_value(arena, bytes, 0, out);
}

weft_status_t *weft_attr_from_proto_or_raw(weft_arena_t *arena, weft_str_t bytes, weft_attr_t *out) {
  weft_status_t *s = read_value(arena, bytes, 0, out);
  weft_code_t code = weft_status_code(s);
  if (code != WEFT_INVALID_ARGUMENT && code != WEFT_UNIMPLEMENTED) return s;
  weft_attr_t raw = {.kind = WEFT_ATTR_RAW};
  weft_status_free(s);
  WEFT_RETURN_IF_ERROR(copy_string(arena, bytes, &raw.s));
  *out = raw;
  return NULL;
}

/* The shape that a TensorProto says, which must be that of a tensor. */
static weft_status_t *check_tensor_shape(weft_str_t tensor) {
  weft_wire_reader_t r = weft_wire_reader(tensor);
  weft_wire_field_t f;
  weft_shape_t shape = WEFT_SCALAR;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES))
      WEFT_RETURN_IF_ERROR(weft_shape_from_proto(f.bytes, &shape));
  }
  if (weft_shape_is_known(&shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined", WEFT_SHAPE_TEXT(&shape));
}

weft_status_t *weft_attr_raw_check(const weft_attr_t *raw, bool is_tensor) {
  weft_wire_reader_t r = weft_wire_reader(raw->s);
  weft_wire_field_t f;
  weft_str_t tensor = {NULL, 0};
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) > 10) continue;
    tensor = f.tag == WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES) ? f.bytes : (weft_str_t){NULL, 0};
  }
  if (is_tensor && !r.failed && tensor.data != NULL) return check_tensor_shape(tensor);
  weft_arena_t scratch = WEFT_ARENA_INIT;
  weft_attr_t value;
  weft_status_t *s = read_value(&scratch, raw->s, 0, &value);
  if (s == NULL) weft_attr_release_tensors(&value);
  weft_arena_deinit(&scratch);
  if (s == NULL) return not_a_message();
  weft_status_t *told = WEFT_ERROR(INVALID_ARGUMENT, "%s", weft_status_message(s));
  weft_status_free(s);
  return told;
}

/* ---- writing ---- */

static weft_status_t *write_value(const weft_attr_t *a, weft_strbuf_t *out);

weft_status_t *weft_attr_map_to_proto(uint32_t number, weft_str_t name, const weft_attr_t *value,
                                      weft_strbuf_t *out) {
  size_t entry = weft_wire_begin(out, number);
  weft_wire_put_bytes(out, 1, name);
  size_t mark = weft_wire_begin(out, 2);
  weft_status_t *s = write_value(value, out);
  weft_wire_end(out, mark);
  weft_wire_end(out, entry);
  return s;
}

static weft_status_t *write_func(const weft_func_attr_t *func, weft_strbuf_t *out) {
  weft_wire_put_bytes(out, 1, func->name);
  for (int i = 0; i < func->num_attrs; i++) {
    WEFT_RETURN_IF_ERROR(weft_attr_map_to_proto(2, func->attrs[i].name, &func->attrs[i].value, out));
  }
  return NULL;
}

static weft_status_t *write_message(uint32_t number, const weft_shape_t *shape, const weft_tensor_t *tensor,
                                    const weft_func_attr_t *func, weft_strbuf_t *out) {
  weft_status_t *s = NULL;
  if (tensor != NULL) { /* may be large: its size is known, so it is not moved */
    weft_wire_add_header(out, number, weft_tensor_proto_size(tensor));
    return weft_tensor_to_proto(tensor, out);
  }
  size_t mark = weft_wire_begin(out, number);
  if (shape != NULL) weft_shape_to_proto(shape, out);
  if (func != NULL) s = write_func(func, out);
  weft_wire_end(out, mark);
  return s;
}

static weft_status_t *write_message_list(const weft_attr_t *a, weft_strbuf_t *out) {
  weft_status_t *s = NULL;
  for (int i = 0; i < a->n && s == NULL; i++) {
    switch (a->kind) {
      case WEFT_ATTR_SHAPE: s = write_message(7, &a->list.shapes[i], NULL, NULL, out); break;
      case WEFT_ATTR_TENSOR: s = write_message(8, NULL, a->list.tensors[i], NULL, out); break;
      case WEFT_ATTR_FUNC: s = write_message(9, NULL, NULL, a->list.funcs[i], out); break;
      default: weft_wire_add_bytes(out, 2, a->list.strings[i]);
    }
  }
  return s;
}

static void write_number_list(const weft_attr_t *a, weft_strbuf_t *out) {
  uint32_t number = a->kind == WEFT_ATTR_INT     ? 3
                    : a->kind == WEFT_ATTR_FLOAT ? 4
                    : a->kind == WEFT_ATTR_BOOL  ? 5
                                                 : 6;
  size_t mark = weft_wire_begin(out, number);
  for (int i = 0; i < a->n; i++) {
    switch (a->kind) {
      case WEFT_ATTR_INT: weft_wire_add_raw_varint(out, (uint64_t)a->list.ints[i]); break;
      case WEFT_ATTR_BOOL: weft_wire_add_raw_varint(out, a->list.bools[i]); break;
      case WEFT_ATTR_TYPE: weft_wire_add_raw_varint(out, (uint64_t)(int64_t)a->list.types[i]); break;
      default: {
        uint8_t *to = weft_wire_room(out, 4);
        if (to != NULL)
          weft_wire_advance(out, weft_wire_store32(to, (uint32_t)weft_wire_float_bits(a->list.floats[i])));
      }
    }
  }
  weft_wire_end(out, mark);
}

static weft_status_t *write_value(const weft_attr_t *a, weft_strbuf_t *out) {
  if (a->is_list) {
    weft_status_t *s = NULL;
    size_t mark = weft_wire_begin(out, 1);
    bool is_number = a->kind == WEFT_ATTR_INT || a->kind == WEFT_ATTR_FLOAT || a->kind == WEFT_ATTR_BOOL ||
                     a->kind == WEFT_ATTR_TYPE;
    if (a->n > 0 && is_number) write_number_list(a, out);
    if (!is_number) s = write_message_list(a, out);
    weft_wire_end(out, mark);
    return s;
  }
  switch (a->kind) {
    case WEFT_ATTR_NONE: break;
    case WEFT_ATTR_STRING: weft_wire_add_bytes(out, 2, a->s); break;
    case WEFT_ATTR_INT: weft_wire_add_varint(out, 3, (uint64_t)a->i); break;
    case WEFT_ATTR_FLOAT: weft_wire_add_fixed32(out, 4, (uint32_t)weft_wire_float_bits(a->f)); break;
    case WEFT_ATTR_BOOL: weft_wire_add_varint(out, 5, a->b); break;
    case WEFT_ATTR_TYPE: weft_wire_add_varint(out, 6, (uint64_t)(int64_t)a->type); break;
    case WEFT_ATTR_SHAPE: return write_message(7, a->shape, NULL, NULL, out);
    case WEFT_ATTR_TENSOR: return write_message(8, NULL, a->tensor, NULL, out);
    case WEFT_ATTR_PLACEHOLDER: weft_wire_add_bytes(out, 9, a->s); break;
    case WEFT_ATTR_FUNC: return write_message(10, NULL, NULL, a->func, out);
    case WEFT_ATTR_RAW: weft_strbuf_append(out, a->s); break;
  }
  return NULL;
}

weft_status_t *weft_attr_to_proto(const weft_attr_t *a, weft_strbuf_t *out) {
  WEFT_RETURN_IF_ERROR(write_value(a, out));
  return out->failed ? no_memory() : NULL;
}
