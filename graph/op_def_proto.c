/* graph/op_def_proto.c - OpDef, from and to the wire: signatures of functions come in, our table goes out. */
#include "graph/attr_proto.h"
#include "protos/wire.h"

enum { MAX_ARGS = 1 << 16 }; /* of one signature */

static weft_status_t *malformed(const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "the %s of an OpDef cannot be parsed", what);
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("an OpDef"); }

static weft_status_t *keep(weft_arena_t *arena, weft_str_t text, weft_str_t *out) {
  *out = weft_arena_str(arena, text);
  return out->data == NULL ? no_memory() : NULL;
}

/* ---- reading ---- */

static weft_status_t *read_arg(weft_arena_t *arena, weft_str_t bytes, weft_arg_def_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR(""), type_attr = WEFT_STR(""), number_attr = WEFT_STR(""),
             list_attr = WEFT_STR("");
  weft_arg_def_t arg = {.kind = WEFT_ARG_FIXED};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): name = f.bytes; break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_VARINT): arg.dtype = weft_wire_i32(f.value); break;
      case WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES): type_attr = f.bytes; break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES): number_attr = f.bytes; break;
      case WEFT_WIRE_TAG(6, WEFT_WIRE_BYTES): list_attr = f.bytes; break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): arg.is_ref = f.value != 0; break;
      default: break;
    }
  }
  if (r.failed) return malformed("argument");
  if (list_attr.length > 0) {
    arg.kind = WEFT_ARG_TYPE_LIST;
    type_attr = list_attr;
  } else if (number_attr.length > 0) {
    arg.kind = WEFT_ARG_REPEATED;
  } else if (type_attr.length > 0) {
    arg.kind = WEFT_ARG_ATTR;
  }
  if (type_attr.length == 0 && !weft_dtype_is_valid(arg.dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "argument '%.*s' has no valid type (%d)", WEFT_STR_ARGS(name),
                      arg.dtype);
  }
  WEFT_RETURN_IF_ERROR(keep(arena, name, &arg.name));
  WEFT_RETURN_IF_ERROR(keep(arena, type_attr, &arg.type_attr));
  WEFT_RETURN_IF_ERROR(keep(arena, number_attr, &arg.number_attr));
  *out = arg;
  return NULL;
}

static bool kind_from_text(weft_str_t text, weft_attr_kind_t *kind, bool *is_list) {
  for (int k = WEFT_ATTR_STRING; k <= WEFT_ATTR_FUNC; k++) {
    for (int list = 0; list < 2; list++) {
      if (!weft_str_is(text, weft_attr_kind_name((weft_attr_kind_t)k, list != 0))) continue;
      *kind = (weft_attr_kind_t)k;
      *is_list = list != 0;
      return true;
    }
  }
  return false;
}

static weft_status_t *read_allowed(weft_arena_t *arena, weft_str_t bytes, weft_attr_def_t *def) {
  weft_attr_t list;
  WEFT_RETURN_IF_ERROR(weft_attr_from_proto(arena, bytes, &list));
  bool is_known = list.is_list && (list.kind == WEFT_ATTR_TYPE || list.kind == WEFT_ATTR_STRING) &&
                  list.kind == def->kind;
  if (!is_known) { /* other kinds have no allowed values */
    weft_attr_release_tensors(&list);
    return NULL;
  }
  def->num_allowed = list.n;
  if (list.kind == WEFT_ATTR_STRING) {
    def->allowed_strings = list.list.strings;
    return NULL;
  }
  def->allowed_type_list = list.list.types;
  for (int i = 0; i < list.n; i++) {
    if (!weft_dtype_is_valid(list.list.types[i]) || weft_dtype_is_ref(list.list.types[i])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "attribute '%s' allows an invalid type", def->name.data);
    }
    def->allowed_types |= WEFT_DTYPE_BIT(list.list.types[i]);
  }
  return NULL;
}

static weft_status_t *read_attr(weft_arena_t *arena, weft_str_t bytes, weft_attr_def_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR(""), type = WEFT_STR(""), default_value = WEFT_STR(""), allowed = WEFT_STR("");
  weft_attr_def_t def = {.kind = WEFT_ATTR_NONE};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): name = f.bytes; break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES): type = f.bytes; break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES):
        default_value = f.bytes;
        def.has_default = true;
        break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT): def.has_minimum = f.value != 0; break;
      case WEFT_WIRE_TAG(6, WEFT_WIRE_VARINT): def.minimum = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(7, WEFT_WIRE_BYTES): allowed = f.bytes; break;
      default: break;
    }
  }
  if (r.failed) return malformed("attribute");
  if (!kind_from_text(type, &def.kind, &def.is_list)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "attribute '%.*s' has the unknown type '%.*s'", WEFT_STR_ARGS(name),
                      WEFT_STR_ARGS(type));
  }
  WEFT_RETURN_IF_ERROR(keep(arena, name, &def.name));
  if (allowed.length > 0) WEFT_RETURN_IF_ERROR(read_allowed(arena, allowed, &def));
  if (def.has_default) {
    WEFT_RETURN_IF_ERROR(weft_attr_from_proto(arena, default_value, &def.default_value));
    bool is_empty = def.default_value.is_list && def.default_value.n == 0;
    if (is_empty) def.default_value.kind = def.kind;
    if (def.default_value.kind != def.kind || def.default_value.is_list != def.is_list) {
      weft_attr_release_tensors(&def.default_value);
      return WEFT_ERROR(INVALID_ARGUMENT, "the default of attribute '%s' is not of its type", def.name.data);
    }
  }
  *out = def;
  return NULL;
}

void weft_op_def_release(weft_op_def_t *op) {
  for (int i = 0; i < op->num_attrs; i++) {
    weft_attr_t value = op->attrs[i].default_value;
    weft_attr_release_tensors(&value);
  }
  op->num_attrs = 0;
}

/* The attribute that an arg's type or number comes from must be declared, of the right kind. */
static weft_status_t *check_arg(const weft_op_def_t *op, const weft_arg_def_t *arg) {
  if (arg->type_attr.length > 0) {
    const weft_attr_def_t *a = weft_op_attr(op, arg->type_attr);
    if (a == NULL || a->kind != WEFT_ATTR_TYPE || a->is_list != (arg->kind == WEFT_ARG_TYPE_LIST)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'%s' has no type attribute '%s' for argument '%s'", op->name.data,
                        arg->type_attr.data, arg->name.data);
    }
  }
  if (arg->number_attr.length > 0) {
    const weft_attr_def_t *a = weft_op_attr(op, arg->number_attr);
    if (a == NULL || a->kind != WEFT_ATTR_INT || a->is_list) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'%s' has no int attribute '%s' for argument '%s'", op->name.data,
                        arg->number_attr.data, arg->name.data);
    }
  }
  return NULL;
}

weft_status_t *weft_op_def_from_proto(weft_arena_t *arena, weft_str_t bytes, weft_op_def_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_op_def_t op = {.update_grad_input = -1, .name = WEFT_STR("")};
  int counts[5] = {0};
  while (weft_wire_next(&r, &f)) {
    uint32_t number = weft_wire_number(&f);
    if (weft_wire_type(&f) == WEFT_WIRE_BYTES && number <= 4) counts[number]++;
  }
  if (r.failed) return malformed("fields");
  if (counts[2] > MAX_ARGS || counts[3] > MAX_ARGS || counts[4] > MAX_ARGS)
    return malformed("long signature");
  weft_arg_def_t *inputs = weft_arena_calloc(arena, (size_t)counts[2], sizeof *inputs);
  weft_arg_def_t *outputs = weft_arena_calloc(arena, (size_t)counts[3], sizeof *outputs);
  weft_attr_def_t *attrs = weft_arena_calloc(arena, (size_t)counts[4], sizeof *attrs);
  if (inputs == NULL || outputs == NULL || attrs == NULL) return no_memory();
  op.inputs = inputs;
  op.outputs = outputs;
  op.attrs = attrs;
  weft_status_t *s = NULL;
  r = weft_wire_reader(bytes);
  while (s == NULL && weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): s = keep(arena, f.bytes, &op.name); break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES): s = read_arg(arena, f.bytes, &inputs[op.num_inputs++]); break;
      case WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES): s = read_arg(arena, f.bytes, &outputs[op.num_outputs++]); break;
      case WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES): s = read_attr(arena, f.bytes, &attrs[op.num_attrs++]); break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): op.flags |= f.value != 0 ? WEFT_OP_AGGREGATE : 0; break;
      case WEFT_WIRE_TAG(17, WEFT_WIRE_VARINT): op.flags |= f.value != 0 ? WEFT_OP_STATEFUL : 0; break;
      case WEFT_WIRE_TAG(18, WEFT_WIRE_VARINT): op.flags |= f.value != 0 ? WEFT_OP_COMMUTATIVE : 0; break;
      case WEFT_WIRE_TAG(19, WEFT_WIRE_VARINT): op.flags |= f.value != 0 ? WEFT_OP_UNINIT_OK : 0; break;
      case WEFT_WIRE_TAG(21, WEFT_WIRE_VARINT): op.flags |= f.value != 0 ? WEFT_OP_COMMUNICATION : 0; break;
      default: break;
    }
  }
  for (int i = 0; i < op.num_inputs && s == NULL; i++) s = check_arg(&op, &inputs[i]);
  for (int i = 0; i < op.num_outputs && s == NULL; i++) s = check_arg(&op, &outputs[i]);
  if (s != NULL) {
    weft_op_def_release(&op);
    return s;
  }
  *out = op;
  return NULL;
}

/* ---- writing ---- */

static void write_arg(uint32_t number, const weft_arg_def_t *arg, weft_strbuf_t *out) {
  size_t mark = weft_wire_begin(out, number);
  weft_wire_put_bytes(out, 1, arg->name);
  if (arg->type_attr.length == 0) weft_wire_put_i64(out, 3, arg->dtype);
  if (arg->kind != WEFT_ARG_TYPE_LIST) weft_wire_put_bytes(out, 4, arg->type_attr);
  weft_wire_put_bytes(out, 5, arg->number_attr);
  if (arg->kind == WEFT_ARG_TYPE_LIST) weft_wire_put_bytes(out, 6, arg->type_attr);
  weft_wire_put_bool(out, 16, arg->is_ref);
  weft_wire_end(out, mark);
}

static weft_status_t *write_value(uint32_t number, const weft_attr_t *value, weft_strbuf_t *out) {
  size_t mark = weft_wire_begin(out, number);
  weft_status_t *s = weft_attr_to_proto(value, out);
  weft_wire_end(out, mark);
  return s;
}

static weft_status_t *write_attr(const weft_attr_def_t *def, weft_strbuf_t *out) {
  weft_status_t *s = NULL;
  size_t mark = weft_wire_begin(out, 4);
  weft_wire_put_bytes(out, 1, def->name);
  weft_wire_put_text(out, 2, weft_attr_kind_name(def->kind, def->is_list));
  if (def->has_default) s = write_value(3, &def->default_value, out);
  weft_wire_put_bool(out, 5, def->has_minimum);
  weft_wire_put_i64(out, 6, def->has_minimum ? def->minimum : 0);
  if (def->num_allowed > 0 && s == NULL) {
    weft_attr_t allowed = {.kind = def->kind, .is_list = true, .n = def->num_allowed};
    if (def->kind == WEFT_ATTR_TYPE) {
      allowed.list.types = def->allowed_type_list;
    } else {
      allowed.list.strings = def->allowed_strings;
    }
    s = write_value(7, &allowed, out);
  }
  weft_wire_end(out, mark);
  return s;
}

weft_status_t *weft_op_def_to_proto(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_wire_put_bytes(out, 1, op->name);
  for (int i = 0; i < op->num_inputs; i++) write_arg(2, &op->inputs[i], out);
  for (int i = 0; i < op->num_outputs; i++) write_arg(3, &op->outputs[i], out);
  for (int i = 0; i < op->num_attrs; i++) WEFT_RETURN_IF_ERROR(write_attr(&op->attrs[i], out));
  weft_wire_put_bool(out, 16, (op->flags & WEFT_OP_AGGREGATE) != 0);
  weft_wire_put_bool(out, 17, (op->flags & WEFT_OP_STATEFUL) != 0);
  weft_wire_put_bool(out, 18, (op->flags & WEFT_OP_COMMUTATIVE) != 0);
  weft_wire_put_bool(out, 19, (op->flags & WEFT_OP_UNINIT_OK) != 0);
  weft_wire_put_bool(out, 21, (op->flags & WEFT_OP_COMMUNICATION) != 0);
  return out->failed ? no_memory() : NULL;
}
