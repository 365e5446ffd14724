/* ops/attr.c - attribute values: comparison, copies, text. */
#include "ops/attr.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  LONGEST_STRING = 80, /* a longer one is printed as its first and last ten bytes */
  STRING_END = 10,
  LONGEST_LIST = 30, /* a longer one is printed as its first and last five elements */
  LIST_END = 5,
  SHOWN_ELEMENTS = 3, /* of a tensor */
  DEEPEST_FUNC = 16,  /* functions inside functions' attributes */
};

const char *weft_attr_kind_name(weft_attr_kind_t kind, bool is_list) {
  static const char *const names[][2] = {
      [WEFT_ATTR_NONE] = {"any", "list(any)"},      [WEFT_ATTR_STRING] = {"string", "list(string)"},
      [WEFT_ATTR_INT] = {"int", "list(int)"},       [WEFT_ATTR_FLOAT] = {"float", "list(float)"},
      [WEFT_ATTR_BOOL] = {"bool", "list(bool)"},    [WEFT_ATTR_TYPE] = {"type", "list(type)"},
      [WEFT_ATTR_SHAPE] = {"shape", "list(shape)"}, [WEFT_ATTR_TENSOR] = {"tensor", "list(tensor)"},
      [WEFT_ATTR_FUNC] = {"func", "list(func)"},    [WEFT_ATTR_PLACEHOLDER] = {"placeholder", "placeholder"},
      [WEFT_ATTR_RAW] = {"no value", "no value"},
  };
  return (size_t)kind < sizeof names / sizeof names[0] ? names[kind][is_list] : "invalid";
}

const weft_attr_t *weft_attr_find(const weft_named_attr_t *attrs, int n, const char *name) {
  weft_str_t wanted = weft_str(name);
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(attrs[i].name, wanted)) return &attrs[i].value;
  }
  return NULL;
}

/* Element i of a list as a value of its own. */
static weft_attr_t element(const weft_attr_t *a, int i) {
  weft_attr_t e = {.kind = a->kind};
  switch (a->kind) {
    case WEFT_ATTR_STRING: e.s = a->list.strings[i]; break;
    case WEFT_ATTR_INT: e.i = a->list.ints[i]; break;
    case WEFT_ATTR_FLOAT: e.f = a->list.floats[i]; break;
    case WEFT_ATTR_BOOL: e.b = a->list.bools[i]; break;
    case WEFT_ATTR_TYPE: e.type = a->list.types[i]; break;
    case WEFT_ATTR_SHAPE: e.shape = &a->list.shapes[i]; break;
    case WEFT_ATTR_TENSOR: e.tensor = a->list.tensors[i]; break;
    case WEFT_ATTR_FUNC: e.func = a->list.funcs[i]; break;
    case WEFT_ATTR_NONE:
    case WEFT_ATTR_PLACEHOLDER:
    case WEFT_ATTR_RAW: break;
  }
  return e;
}

/* ---- equality ---- */

static bool tensor_eq(const weft_tensor_t *a, const weft_tensor_t *b) {
  if (a == b) return true;
  if (a == NULL || b == NULL || a->dtype != b->dtype || !weft_shape_eq(&a->shape, &b->shape)) return false;
  if (a->dtype == WEFT_STRING) {
    for (int64_t i = 0; i < a->count; i++) {
      if (!weft_str_eq(weft_tensor_str_at(a, i), weft_tensor_str_at(b, i))) return false;
    }
    return true;
  }
  return a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0;
}

static bool func_eq(const weft_func_attr_t *a, const weft_func_attr_t *b) {
  if (a == b) return true;
  if (!weft_str_eq(a->name, b->name) || a->num_attrs != b->num_attrs) return false;
  for (int i = 0; i < a->num_attrs; i++) {
    if (!weft_str_eq(a->attrs[i].name, b->attrs[i].name)) return false;
    if (!weft_attr_eq(&a->attrs[i].value, &b->attrs[i].value)) return false;
  }
  return true;
}

static uint32_t bits_of(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

bool weft_attr_eq(const weft_attr_t *a, const weft_attr_t *b) {
  if (a->is_list != b->is_list) return false;
  if (a->is_list) {
    if (a->n != b->n) return false;
    if (a->n == 0) return true; /* an empty list has the kind that one wants */
    if (a->kind != b->kind) return false;
    for (int i = 0; i < a->n; i++) {
      weft_attr_t x = element(a, i), y = element(b, i);
      if (!weft_attr_eq(&x, &y)) return false;
    }
    return true;
  }
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case WEFT_ATTR_NONE: return true;
    case WEFT_ATTR_STRING:
    case WEFT_ATTR_PLACEHOLDER:
    case WEFT_ATTR_RAW: return weft_str_eq(a->s, b->s);
    case WEFT_ATTR_INT: return a->i == b->i;
    case WEFT_ATTR_FLOAT: return bits_of(a->f) == bits_of(b->f); /* NaN equals itself here */
    case WEFT_ATTR_BOOL: return a->b == b->b;
    case WEFT_ATTR_TYPE: return a->type == b->type;
    case WEFT_ATTR_SHAPE: return weft_shape_eq(a->shape, b->shape);
    case WEFT_ATTR_TENSOR: return tensor_eq(a->tensor, b->tensor);
    case WEFT_ATTR_FUNC: return func_eq(a->func, b->func);
  }
  return false;
}

/* ---- copies ---- */

#define NO_MEMORY() WEFT_NO_MEMORY("copying an attribute")

static weft_status_t *copy_func(weft_arena_t *arena, const weft_func_attr_t *from,
                                const weft_func_attr_t **out) {
  weft_func_attr_t *f = weft_arena_calloc(arena, 1, sizeof *f);
  weft_named_attr_t *attrs = weft_arena_calloc(arena, (size_t)from->num_attrs + 1, sizeof *attrs);
  if (f == NULL || attrs == NULL) return NO_MEMORY();
  f->name = weft_arena_str(arena, from->name);
  if (f->name.data == NULL) return NO_MEMORY();
  f->attrs = attrs;
  for (int i = 0; i < from->num_attrs; i++) {
    weft_status_t *s = NULL;
    attrs[i].name = weft_arena_str(arena, from->attrs[i].name);
    s = attrs[i].name.data == NULL ? NO_MEMORY()
                                   : weft_attr_copy(arena, &from->attrs[i].value, &attrs[i].value);
    if (s != NULL) {
      for (int k = 0; k < i; k++) weft_attr_release_tensors(&attrs[k].value);
      return s;
    }
    f->num_attrs = i + 1;
  }
  *out = f;
  return NULL;
}

/* Copies n elements of `size` bytes that hold no pointers. */
static weft_status_t *copy_plain(weft_arena_t *arena, const void *from, int n, size_t size,
                                 const void **out) {
  void *to = weft_arena_calloc(arena, (size_t)n, size);
  if (to == NULL) return NO_MEMORY();
  if (n > 0) memcpy(to, from, (size_t)n * size);
  *out = to;
  return NULL;
}

static weft_status_t *copy_list(weft_arena_t *arena, const weft_attr_t *from, weft_attr_t *to) {
  size_t n = (size_t)from->n;
  weft_status_t *s = NULL;
  const void *plain = NULL;
  if (n == 0) return NULL;
  switch (from->kind) {
    case WEFT_ATTR_NONE:
    case WEFT_ATTR_PLACEHOLDER:
    case WEFT_ATTR_RAW: return NULL;
    case WEFT_ATTR_INT:
      s = copy_plain(arena, from->list.ints, from->n, sizeof(int64_t), &plain);
      to->list.ints = plain;
      return s;
    case WEFT_ATTR_FLOAT:
      s = copy_plain(arena, from->list.floats, from->n, sizeof(float), &plain);
      to->list.floats = plain;
      return s;
    case WEFT_ATTR_BOOL:
      s = copy_plain(arena, from->list.bools, from->n, sizeof(bool), &plain);
      to->list.bools = plain;
      return s;
    case WEFT_ATTR_TYPE:
      s = copy_plain(arena, from->list.types, from->n, sizeof(int), &plain);
      to->list.types = plain;
      return s;
    case WEFT_ATTR_SHAPE:
      s = copy_plain(arena, from->list.shapes, from->n, sizeof(weft_shape_t), &plain);
      to->list.shapes = plain;
      return s;
    case WEFT_ATTR_STRING: {
      weft_str_t *strings = weft_arena_calloc(arena, n, sizeof *strings);
      if (strings == NULL) return NO_MEMORY();
      for (size_t i = 0; i < n; i++) {
        strings[i] = weft_arena_str(arena, from->list.strings[i]);
        if (strings[i].data == NULL) return NO_MEMORY();
      }
      to->list.strings = strings;
      return NULL;
    }
    case WEFT_ATTR_TENSOR: {
      weft_tensor_t **tensors = weft_arena_calloc(arena, n, sizeof *tensors);
      if (tensors == NULL) return NO_MEMORY();
      for (size_t i = 0; i < n; i++) tensors[i] = weft_tensor_retain(from->list.tensors[i]);
      to->list.tensors = tensors;
      return NULL;
    }
    case WEFT_ATTR_FUNC: {
      const weft_func_attr_t **funcs = weft_arena_calloc(arena, n, sizeof *funcs);
      if (funcs == NULL) return NO_MEMORY();
      for (size_t i = 0; i < n; i++) {
        s = copy_func(arena, from->list.funcs[i], &funcs[i]);
        if (s == NULL) continue;
        for (size_t k = 0; k < i; k++) {
          weft_attr_release_tensors(&(weft_attr_t){.kind = WEFT_ATTR_FUNC, .func = funcs[k]});
        }
        return s;
      }
      to->list.funcs = funcs;
      return NULL;
    }
  }
  return NULL;
}

weft_status_t *weft_attr_copy(weft_arena_t *arena, const weft_attr_t *from, weft_attr_t *out) {
  weft_attr_t to = *from;
  if (from->is_list) {
    WEFT_RETURN_IF_ERROR(copy_list(arena, from, &to));
  } else if (from->kind == WEFT_ATTR_STRING || from->kind == WEFT_ATTR_PLACEHOLDER ||
             from->kind == WEFT_ATTR_RAW) {
    to.s = weft_arena_str(arena, from->s);
    if (to.s.data == NULL) return NO_MEMORY();
  } else if (from->kind == WEFT_ATTR_SHAPE) {
    const void *shape = NULL;
    WEFT_RETURN_IF_ERROR(copy_plain(arena, from->shape, 1, sizeof *from->shape, &shape));
    to.shape = shape;
  } else if (from->kind == WEFT_ATTR_TENSOR) {
    to.tensor = weft_tensor_retain(from->tensor);
  } else if (from->kind == WEFT_ATTR_FUNC) {
    WEFT_RETURN_IF_ERROR(copy_func(arena, from->func, &to.func));
  }
  *out = to;
  return NULL;
}

void weft_attr_release_tensors(weft_attr_t *a) {
  if (a->kind != WEFT_ATTR_TENSOR && a->kind != WEFT_ATTR_FUNC) return;
  for (int i = 0; i < (a->is_list ? a->n : 1); i++) {
    weft_attr_t e = a->is_list ? element(a, i) : *a;
    if (e.kind == WEFT_ATTR_TENSOR) {
      weft_tensor_release(e.tensor);
    } else if (e.func != NULL) {
      for (int k = 0; k < e.func->num_attrs; k++) {
        weft_attr_t value = e.func->attrs[k].value;
        weft_attr_release_tensors(&value);
      }
    }
  }
  if (a->kind == WEFT_ATTR_TENSOR) {
    if (a->is_list) {
      a->n = 0;
    } else {
      a->tensor = NULL;
    }
  }
}

/* ---- text ---- */

static void print_string(weft_str_t s, weft_strbuf_t *out) {
  weft_strbuf_putc(out, '"');
  if (s.length > LONGEST_STRING) {
    weft_strbuf_put_escaped(out, weft_str_of(s.data, STRING_END));
    weft_strbuf_puts(out, "...");
    weft_strbuf_put_escaped(out, weft_str_of(s.data + s.length - STRING_END, STRING_END));
  } else {
    weft_strbuf_put_escaped(out, s);
  }
  weft_strbuf_putc(out, '"');
}

/* The shortest text of two that reads back as the same number. */
static void print_float(float f, weft_strbuf_t *out) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", (double)f);
  if (strtof(text, NULL) != f) snprintf(text, sizeof text, "%.8g", (double)f);
  if (strtof(text, NULL) != f) snprintf(text, sizeof text, "%.9g", (double)f);
  weft_strbuf_puts(out, text);
}

static void print_number(const weft_tensor_t *t, int64_t i, weft_strbuf_t *out) {
  switch (t->dtype) {
    case WEFT_F32: print_float(((const float *)t->data)[i], out); break;
    case WEFT_F64: weft_strbuf_printf(out, "%.15g", ((const double *)t->data)[i]); break;
    case WEFT_F16: print_float(weft_f16_to_f32(((const uint16_t *)t->data)[i]), out); break;
    case WEFT_BF16: print_float(weft_bf16_to_f32(((const uint16_t *)t->data)[i]), out); break;
    case WEFT_I32:
    case WEFT_QINT32: weft_strbuf_printf(out, "%" PRId32, ((const int32_t *)t->data)[i]); break;
    case WEFT_I64: weft_strbuf_printf(out, "%" PRId64, ((const int64_t *)t->data)[i]); break;
    case WEFT_U32: weft_strbuf_printf(out, "%" PRIu32, ((const uint32_t *)t->data)[i]); break;
    case WEFT_U64: weft_strbuf_printf(out, "%" PRIu64, ((const uint64_t *)t->data)[i]); break;
    case WEFT_I16:
    case WEFT_QINT16: weft_strbuf_printf(out, "%d", ((const int16_t *)t->data)[i]); break;
    case WEFT_U16:
    case WEFT_QUINT16: weft_strbuf_printf(out, "%d", ((const uint16_t *)t->data)[i]); break;
    case WEFT_I8:
    case WEFT_QINT8: weft_strbuf_printf(out, "%d", ((const int8_t *)t->data)[i]); break;
    case WEFT_U8:
    case WEFT_QUINT8: weft_strbuf_printf(out, "%d", ((const uint8_t *)t->data)[i]); break;
    case WEFT_BOOL: weft_strbuf_printf(out, "%d", ((const uint8_t *)t->data)[i] != 0); break;
    case WEFT_C64: {
      weft_c64_t c = ((const weft_c64_t *)t->data)[i];
      weft_strbuf_printf(out, "(%g,%g)", (double)c.re, (double)c.im);
      break;
    }
    case WEFT_C128: {
      weft_c128_t c = ((const weft_c128_t *)t->data)[i];
      weft_strbuf_printf(out, "(%g,%g)", c.re, c.im);
      break;
    }
    default: weft_strbuf_putc(out, '?');
  }
}

static void print_element(const weft_tensor_t *t, int64_t i, weft_strbuf_t *out) {
  if (t->dtype == WEFT_STRING) {
    weft_str_t s = weft_tensor_str_at(t, i);
    if (s.length > LONGEST_STRING) s.length = LONGEST_STRING;
    weft_strbuf_put_escaped(out, s);
  } else {
    print_number(t, i, out);
  }
}

/* Elements from *at on, in the brackets of dimension `dim` and those inside it; stops at the limit. */
static void print_dim(const weft_tensor_t *t, int dim, int64_t *at, weft_strbuf_t *out) {
  for (int64_t i = 0; i < t->shape.dims[dim] && *at < SHOWN_ELEMENTS; i++) {
    if (dim + 1 < t->shape.rank) {
      weft_strbuf_putc(out, '[');
      print_dim(t, dim + 1, at, out);
      weft_strbuf_putc(out, ']');
      continue;
    }
    if (i > 0) weft_strbuf_putc(out, ' ');
    print_element(t, (*at)++, out);
    if (dim > 0 && *at == SHOWN_ELEMENTS && i + 1 < t->shape.dims[dim]) weft_strbuf_puts(out, "...");
  }
}

static void print_tensor(const weft_tensor_t *t, weft_strbuf_t *out) {
  if (t == NULL) {
    weft_strbuf_puts(out, "<Invalid TensorProto>");
    return;
  }
  weft_strbuf_printf(out, "Tensor<type: %s shape: %s values: ", weft_dtype_name(t->dtype),
                     WEFT_SHAPE_TEXT(&t->shape));
  int64_t at = 0;
  if (t->shape.rank > 0 && t->count > 0) {
    print_dim(t, 0, &at, out);
  } else if (t->count > 0) {
    print_element(t, 0, out);
  }
  if (t->count > SHOWN_ELEMENTS) weft_strbuf_puts(out, "...");
  weft_strbuf_putc(out, '>');
}

static void print_attr(const weft_attr_t *a, int depth, weft_strbuf_t *out);

static void print_func(const weft_func_attr_t *f, int depth, weft_strbuf_t *out) {
  weft_strbuf_append(out, f->name);
  if (f->num_attrs == 0 || depth >= DEEPEST_FUNC) return;
  weft_strbuf_putc(out, '[');
  for (int i = 0; i < f->num_attrs; i++) {
    if (i > 0) weft_strbuf_puts(out, ", ");
    weft_strbuf_append(out, f->attrs[i].name);
    weft_strbuf_putc(out, '=');
    print_attr(&f->attrs[i].value, depth + 1, out);
  }
  weft_strbuf_putc(out, ']');
}

static void print_attr(const weft_attr_t *a, int depth, weft_strbuf_t *out) {
  if (a->is_list) {
    bool is_cut = a->n > LONGEST_LIST;
    weft_strbuf_putc(out, '[');
    for (int i = 0; i < a->n; i++) {
      if (i > 0) weft_strbuf_puts(out, ", ");
      if (is_cut && i == LIST_END) {
        weft_strbuf_puts(out, "..., ");
        i = a->n - LIST_END;
      }
      weft_attr_t e = element(a, i);
      print_attr(&e, depth, out);
    }
    weft_strbuf_putc(out, ']');
    return;
  }
  switch (a->kind) {
    case WEFT_ATTR_NONE: weft_strbuf_puts(out, "<Unknown AttrValue type>"); break;
    case WEFT_ATTR_STRING: print_string(a->s, out); break;
    case WEFT_ATTR_INT: weft_strbuf_printf(out, "%" PRId64, a->i); break;
    case WEFT_ATTR_FLOAT: print_float(a->f, out); break;
    case WEFT_ATTR_BOOL: weft_strbuf_puts(out, a->b ? "true" : "false"); break;
    case WEFT_ATTR_TYPE: weft_strbuf_puts(out, weft_dtype_enum_name(a->type)); break;
    case WEFT_ATTR_SHAPE: weft_strbuf_puts(out, WEFT_SHAPE_TEXT(a->shape)); break;
    case WEFT_ATTR_TENSOR: print_tensor(a->tensor, out); break;
    case WEFT_ATTR_FUNC: print_func(a->func, depth, out); break;
    case WEFT_ATTR_RAW: weft_strbuf_puts(out, "<no value>"); break;
    case WEFT_ATTR_PLACEHOLDER:
      weft_strbuf_putc(out, '$');
      weft_strbuf_append(out, a->s);
      break;
  }
}

void weft_attr_print(const weft_attr_t *a, weft_strbuf_t *out) { print_attr(a, 0, out); }
