/* ops/op_parse.c - reads an op's signature in the notation of ops.def.
 *
 *   args  = [ arg { "," arg } ]
 *   arg   = name ":" ( "Ref(" type ")" | type )        type = [ number "*" ] ( dtype | attribute )
 *   attrs = [ attr { "," attr } ]
 *   attr  = name ":" ( kind | "list(" kind ")" ) [ ">=" integer ] [ "=" default ]
 *   kind  = "int" | ... | "numbertype" | "realnumbertype" | "{" value { "," value } "}"
 *
 * Attributes are read first: a type that is the name of one means that attribute.
 */
#include <ctype.h>
#include <stdlib.h>

#include "ops/op.h"

enum {
  MAX_ARGS = 32, /* the longest signatures have 12 inputs and 30 attributes */
  MAX_ALLOWED = 32,
  MAX_LIST = 16,
};

typedef struct cursor {
  weft_arena_t *arena;
  const char *op, *text, *at;
} cursor_t;

static const int number_types[] = {WEFT_F32,    WEFT_F64,  WEFT_I32,    WEFT_U8,      WEFT_I16,
                                   WEFT_I8,     WEFT_C64,  WEFT_I64,    WEFT_QINT8,   WEFT_QUINT8,
                                   WEFT_QINT32, WEFT_BF16, WEFT_QINT16, WEFT_QUINT16, WEFT_U16,
                                   WEFT_C128,   WEFT_F16,  WEFT_U32,    WEFT_U64};
static const int real_number_types[] = {WEFT_F32, WEFT_F64,  WEFT_I32, WEFT_U8,  WEFT_I16, WEFT_I8,
                                        WEFT_I64, WEFT_BF16, WEFT_U16, WEFT_F16, WEFT_U32, WEFT_U64};

static weft_status_t *wrong(const cursor_t *c, const char *expected) {
  const char *at = c->at + strspn(c->at, " ");
  return WEFT_ERROR(INVALID_ARGUMENT, "op '%s': expected %s at column %d of \"%s\"", c->op, expected,
                    (int)(at - c->text) + 1, c->text);
}

static weft_status_t *no_memory(const cursor_t *c) {
  return WEFT_NO_MEMORY("reading the signature of op '%s'", c->op);
}

static void skip_space(cursor_t *c) {
  while (*c->at == ' ') c->at++;
}

static bool at_end(cursor_t *c) {
  skip_space(c);
  return *c->at == '\0';
}

static bool accept(cursor_t *c, const char *token) {
  size_t n = strlen(token);
  skip_space(c);
  if (strncmp(c->at, token, n) != 0) return false;
  c->at += n;
  return true;
}

/* A name; empty if there is none here. */
static weft_str_t word(cursor_t *c) {
  skip_space(c);
  const char *start = c->at;
  while (isalnum((unsigned char)*c->at) || *c->at == '_') c->at++;
  return weft_str_of(start, (size_t)(c->at - start));
}

static weft_status_t *expect(cursor_t *c, const char *token, const char *what) {
  return accept(c, token) ? NULL : wrong(c, what);
}

static weft_status_t *expect_name(cursor_t *c, weft_str_t *out) {
  *out = word(c);
  if (out->length == 0) return wrong(c, "a name");
  *out = weft_arena_str(c->arena, *out);
  if (out->data == NULL) return no_memory(c);
  return expect(c, ":", "':'");
}

static weft_status_t *expect_int(cursor_t *c, int64_t *out) {
  char *end = NULL;
  skip_space(c);
  long long v = strtoll(c->at, &end, 10);
  if (end == c->at) return wrong(c, "a whole number");
  c->at = end;
  *out = v;
  return NULL;
}

static weft_status_t *expect_dtype(cursor_t *c, int *out) {
  const char *start = c->at;
  *out = weft_dtype_from_name(word(c));
  if (*out == 0) {
    c->at = start;
    return wrong(c, "a dtype");
  }
  return NULL;
}

/* 'text', with \n, \' and \\ for what they always mean. */
static weft_status_t *expect_text(cursor_t *c, weft_str_t *out) {
  WEFT_RETURN_IF_ERROR(expect(c, "'", "a text in single quotes"));
  char *to = weft_arena_alloc(c->arena, strlen(c->at) + 1);
  if (to == NULL) return no_memory(c);
  size_t n = 0;
  for (; *c->at != '\'' && *c->at != '\0'; c->at++) {
    char b = *c->at;
    if (b == '\\' && c->at[1] != '\0') {
      b = *++c->at;
      if (b == 'n') b = '\n';
    }
    to[n++] = b;
  }
  to[n] = '\0';
  *out = weft_str_of(to, n);
  return expect(c, "'", "the closing quote");
}

/* ? or [2,?,3] */
static weft_status_t *expect_shape(cursor_t *c, weft_shape_t *out) {
  weft_shape_t shape = WEFT_UNKNOWN_SHAPE;
  if (!accept(c, "?")) {
    shape.rank = 0;
    WEFT_RETURN_IF_ERROR(expect(c, "[", "a shape"));
    while (!accept(c, "]")) {
      if (shape.rank == WEFT_MAX_DIMS) return wrong(c, "fewer dimensions");
      if (shape.rank > 0) WEFT_RETURN_IF_ERROR(expect(c, ",", "','"));
      int64_t dim = WEFT_UNKNOWN_DIM;
      if (!accept(c, "?")) WEFT_RETURN_IF_ERROR(expect_int(c, &dim));
      shape.dims[shape.rank++] = dim;
    }
  }
  *out = shape;
  return NULL;
}

/* uint8[4]{255, 0, 0, 255} */
static weft_status_t *expect_tensor(cursor_t *c, weft_tensor_t **out) {
  int dtype = 0;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(expect_dtype(c, &dtype));
  WEFT_RETURN_IF_ERROR(expect_shape(c, &shape));
  if (dtype != WEFT_U8) return wrong(c, "a tensor of uint8; no other default is known");
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_U8, &shape, NULL, &t);
  if (s == NULL) s = expect(c, "{", "'{'");
  for (int64_t i = 0; s == NULL && i < t->count; i++) {
    int64_t v = 0;
    if (i > 0) s = expect(c, ",", "','");
    if (s == NULL) s = expect_int(c, &v);
    if (s == NULL) ((uint8_t *)t->data)[i] = (uint8_t)v;
  }
  if (s == NULL) s = expect(c, "}", "'}'");
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}

static weft_status_t *expect_value(cursor_t *c, weft_attr_kind_t kind, weft_attr_t *out) {
  out->kind = kind;
  switch (kind) {
    case WEFT_ATTR_STRING: return expect_text(c, &out->s);
    case WEFT_ATTR_INT: return expect_int(c, &out->i);
    case WEFT_ATTR_FLOAT: {
      char *end = NULL;
      skip_space(c);
      out->f = strtof(c->at, &end);
      if (end == c->at) return wrong(c, "a number");
      c->at = end;
      return NULL;
    }
    case WEFT_ATTR_BOOL:
      out->b = accept(c, "true");
      return out->b || accept(c, "false") ? NULL : wrong(c, "true or false");
    case WEFT_ATTR_TYPE: return expect_dtype(c, &out->type);
    case WEFT_ATTR_SHAPE: {
      weft_shape_t *shape = weft_arena_calloc(c->arena, 1, sizeof *shape);
      if (shape == NULL) return no_memory(c);
      out->shape = shape;
      return expect_shape(c, shape);
    }
    case WEFT_ATTR_TENSOR: return expect_tensor(c, &out->tensor);
    case WEFT_ATTR_NONE:
    case WEFT_ATTR_FUNC:
    case WEFT_ATTR_PLACEHOLDER:
    case WEFT_ATTR_RAW: break;
  }
  return wrong(c, "no default");
}

static weft_status_t *expect_list(cursor_t *c, weft_attr_kind_t kind, weft_attr_t *out) {
  weft_attr_t values[MAX_LIST];
  int n = 0;
  WEFT_RETURN_IF_ERROR(expect(c, "[", "'['"));
  while (!accept(c, "]")) {
    if (n == MAX_LIST) return wrong(c, "a shorter list");
    if (n > 0) WEFT_RETURN_IF_ERROR(expect(c, ",", "','"));
    WEFT_RETURN_IF_ERROR(expect_value(c, kind, &values[n++]));
  }
  *out = (weft_attr_t){.kind = kind, .is_list = true, .n = n};
  if (n == 0) return NULL;
  if (kind == WEFT_ATTR_INT) {
    int64_t *ints = weft_arena_calloc(c->arena, (size_t)n, sizeof *ints);
    if (ints == NULL) return no_memory(c);
    for (int i = 0; i < n; i++) ints[i] = values[i].i;
    out->list.ints = ints;
  } else if (kind == WEFT_ATTR_TYPE) {
    int *types = weft_arena_calloc(c->arena, (size_t)n, sizeof *types);
    if (types == NULL) return no_memory(c);
    for (int i = 0; i < n; i++) types[i] = values[i].type;
    out->list.types = types;
  } else if (kind == WEFT_ATTR_FLOAT) {
    float *floats = weft_arena_calloc(c->arena, (size_t)n, sizeof *floats);
    if (floats == NULL) return no_memory(c);
    for (int i = 0; i < n; i++) floats[i] = values[i].f;
    out->list.floats = floats;
  } else if (kind == WEFT_ATTR_STRING) {
    weft_str_t *strings = weft_arena_calloc(c->arena, (size_t)n, sizeof *strings);
    if (strings == NULL) return no_memory(c);
    for (int i = 0; i < n; i++) strings[i] = values[i].s;
    out->list.strings = strings;
  } else {
    return wrong(c, "an empty list");
  }
  return NULL;
}

static weft_status_t *set_types(cursor_t *c, const int *types, int n, weft_attr_def_t *out) {
  int *list = weft_arena_calloc(c->arena, (size_t)n, sizeof *list);
  if (list == NULL) return no_memory(c);
  for (int i = 0; i < n; i++) {
    list[i] = types[i];
    out->allowed_types |= WEFT_DTYPE_BIT(types[i]);
  }
  out->kind = WEFT_ATTR_TYPE;
  out->allowed_type_list = list;
  out->num_allowed = n;
  return NULL;
}

/* The values after '{': dtypes or texts. */
static weft_status_t *expect_allowed(cursor_t *c, weft_attr_def_t *out) {
  int types[MAX_ALLOWED], n = 0;
  weft_str_t strings[MAX_ALLOWED];
  skip_space(c);
  bool is_text = *c->at == '\'';
  do {
    if (n == MAX_ALLOWED) return wrong(c, "fewer allowed values");
    if (is_text) {
      WEFT_RETURN_IF_ERROR(expect_text(c, &strings[n++]));
    } else {
      WEFT_RETURN_IF_ERROR(expect_dtype(c, &types[n++]));
    }
  } while (accept(c, ","));
  WEFT_RETURN_IF_ERROR(expect(c, "}", "',' or '}'"));
  if (!is_text) return set_types(c, types, n, out);
  weft_str_t *list = weft_arena_calloc(c->arena, (size_t)n, sizeof *list);
  if (list == NULL) return no_memory(c);
  memcpy(list, strings, (size_t)n * sizeof *list);
  out->kind = WEFT_ATTR_STRING;
  out->allowed_strings = list;
  out->num_allowed = n;
  return NULL;
}

static weft_status_t *expect_kind(cursor_t *c, weft_attr_def_t *out) {
  static const struct {
    const char *name;
    weft_attr_kind_t kind;
  } kinds[] = {{"string", WEFT_ATTR_STRING}, {"int", WEFT_ATTR_INT},   {"float", WEFT_ATTR_FLOAT},
               {"bool", WEFT_ATTR_BOOL},     {"type", WEFT_ATTR_TYPE}, {"shape", WEFT_ATTR_SHAPE},
               {"tensor", WEFT_ATTR_TENSOR}, {"func", WEFT_ATTR_FUNC}};
  if (accept(c, "{")) return expect_allowed(c, out);
  const char *start = c->at;
  weft_str_t name = word(c);
  if (weft_str_is(name, "numbertype")) {
    return set_types(c, number_types, sizeof number_types / sizeof number_types[0], out);
  }
  if (weft_str_is(name, "realnumbertype")) {
    return set_types(c, real_number_types, sizeof real_number_types / sizeof real_number_types[0], out);
  }
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (weft_str_is(name, kinds[i].name)) {
      out->kind = kinds[i].kind;
      return NULL;
    }
  }
  c->at = start;
  return wrong(c, "an attribute kind");
}

static weft_status_t *expect_attr(cursor_t *c, weft_attr_def_t *out) {
  WEFT_RETURN_IF_ERROR(expect_name(c, &out->name));
  out->is_list = accept(c, "list(");
  WEFT_RETURN_IF_ERROR(expect_kind(c, out));
  if (out->is_list) WEFT_RETURN_IF_ERROR(expect(c, ")", "')'"));
  if (accept(c, ">=")) {
    if (!out->is_list && out->kind != WEFT_ATTR_INT) return wrong(c, "no minimum");
    out->has_minimum = true;
    WEFT_RETURN_IF_ERROR(expect_int(c, &out->minimum));
  }
  if (!accept(c, "=")) return NULL;
  out->has_default = true;
  return out->is_list ? expect_list(c, out->kind, &out->default_value)
                      : expect_value(c, out->kind, &out->default_value);
}

static void release_defaults(weft_attr_def_t *attrs, int n) {
  for (int i = 0; i < n; i++) {
    if (attrs[i].has_default) weft_attr_release_tensors(&attrs[i].default_value);
  }
}

static weft_status_t *parse_attrs(cursor_t *c, weft_op_def_t *op) {
  weft_attr_def_t attrs[MAX_ARGS];
  weft_status_t *s = NULL;
  int n = 0;
  while (s == NULL && !at_end(c)) {
    if (n > 0) s = expect(c, ",", "',' or the end");
    if (s == NULL && n == MAX_ARGS) s = wrong(c, "fewer attributes");
    if (s != NULL) break;
    attrs[n] = (weft_attr_def_t){.kind = WEFT_ATTR_NONE};
    s = expect_attr(c, &attrs[n]);
    for (int i = 0; s == NULL && i < n; i++) {
      if (weft_str_eq(attrs[i].name, attrs[n].name)) s = wrong(c, "no second attribute of that name");
    }
    n++;
  }
  weft_attr_def_t *list = NULL; /* one longer: it may be empty, and NULL means no memory */
  if (s == NULL) {
    list = weft_arena_calloc(c->arena, (size_t)n + 1, sizeof *list);
    if (list == NULL) s = no_memory(c);
  }
  if (s != NULL) {
    release_defaults(attrs, n);
    return s;
  }
  memcpy(list, attrs, (size_t)n * sizeof *list);
  op->attrs = list;
  op->num_attrs = n;
  return NULL;
}

/* The attribute called `name` if it is one and of that kind; its name lives as long as the table. */
static weft_str_t attr_named(const weft_op_def_t *op, weft_str_t name, weft_attr_kind_t kind, bool *is_list) {
  const weft_attr_def_t *a = weft_op_attr(op, name);
  if (a == NULL || a->kind != kind) return (weft_str_t){NULL, 0};
  *is_list = a->is_list;
  return a->name;
}

static weft_status_t *expect_arg(cursor_t *c, const weft_op_def_t *op, weft_arg_def_t *out) {
  bool is_list = false;
  WEFT_RETURN_IF_ERROR(expect_name(c, &out->name));
  out->is_ref = accept(c, "Ref(");
  const char *start = c->at;
  weft_str_t name = word(c);
  if (accept(c, "*")) {
    out->number_attr = attr_named(op, name, WEFT_ATTR_INT, &is_list);
    if (out->number_attr.length == 0 || is_list) return wrong(c, "an int attribute before '*'");
    start = c->at;
    name = word(c);
  }
  out->type_attr = attr_named(op, name, WEFT_ATTR_TYPE, &is_list);
  if (out->type_attr.length == 0) {
    c->at = start;
    WEFT_RETURN_IF_ERROR(expect_dtype(c, &out->dtype));
  }
  bool is_repeated = out->number_attr.length > 0;
  if (is_list && is_repeated) return wrong(c, "one type, not a list, after '*'");
  out->kind = is_list                     ? WEFT_ARG_TYPE_LIST
              : is_repeated               ? WEFT_ARG_REPEATED
              : out->type_attr.length > 0 ? WEFT_ARG_ATTR
                                          : WEFT_ARG_FIXED;
  return out->is_ref ? expect(c, ")", "')'") : NULL;
}

/* Args up to `end` (a token) or the end of the text. */
static weft_status_t *parse_args(cursor_t *c, const weft_op_def_t *op, const char *end,
                                 const weft_arg_def_t **out, int *out_n) {
  weft_arg_def_t args[MAX_ARGS];
  int n = 0;
  while (end == NULL ? !at_end(c) : !accept(c, end)) {
    if (n > 0) WEFT_RETURN_IF_ERROR(expect(c, ",", end == NULL ? "',' or the end" : "',' or '->'"));
    if (n == MAX_ARGS) return wrong(c, "fewer arguments");
    args[n] = (weft_arg_def_t){.kind = WEFT_ARG_FIXED};
    WEFT_RETURN_IF_ERROR(expect_arg(c, op, &args[n++]));
  }
  weft_arg_def_t *list = weft_arena_calloc(c->arena, (size_t)n + 1, sizeof *list); /* it may be empty */
  if (list == NULL) return no_memory(c);
  memcpy(list, args, (size_t)n * sizeof *list);
  *out = list;
  *out_n = n;
  return NULL;
}

weft_status_t *weft_op_parse(weft_arena_t *arena, const char *name, const char *signature, const char *attrs,
                             weft_op_def_t *out) {
  weft_op_def_t op = {.update_grad_input = -1};
  cursor_t c = {.arena = arena, .op = name, .text = attrs, .at = attrs};
  op.name = weft_arena_str(arena, weft_str(name));
  if (op.name.data == NULL) return no_memory(&c);
  WEFT_RETURN_IF_ERROR(parse_attrs(&c, &op));
  c.text = c.at = signature;
  weft_status_t *s = parse_args(&c, &op, "->", &op.inputs, &op.num_inputs);
  if (s == NULL) s = parse_args(&c, &op, NULL, &op.outputs, &op.num_outputs);
  if (s != NULL) {
    for (int i = 0; i < op.num_attrs; i++) {
      weft_attr_t value = op.attrs[i].default_value;
      if (op.attrs[i].has_default) weft_attr_release_tensors(&value);
    }
    return s;
  }
  *out = op;
  return NULL;
}
