/* tests/ops/notation.h - one node of a test written as text: "op", "attr=value;attr=value",
 * "shape;shape=values".
 *
 * An input is a shape, or shape=values if it is a constant; a resource is a handle to
 * a float variable of that shape. Mistakes in a test's text end the program.
 */
#ifndef WEFT_TESTS_OPS_NOTATION_H_
#define WEFT_TESTS_OPS_NOTATION_H_

#include <stdlib.h>

#include "ops/shape_inference.h"

enum { MAX_ITEMS = 32 };

/* One case, with everything in `arena` but the constants. */
typedef struct fixture {
  weft_arena_t arena;
  weft_named_attr_t attrs[MAX_ITEMS];
  int num_attrs;
  weft_shape_t inputs[MAX_ITEMS], outputs[MAX_ITEMS];
  weft_handle_data_t handles[MAX_ITEMS], out_handles[MAX_ITEMS];
  const weft_tensor_t *values[MAX_ITEMS];
  weft_shape_ctx_t ctx;
} fixture_t;

static weft_str_t next(weft_str_t *rest, char separator) {
  weft_str_t head = *rest, tail = {NULL, 0};
  if (!weft_str_split(*rest, separator, &head, &tail)) tail = (weft_str_t){NULL, 0};
  *rest = tail;
  return head;
}

static weft_str_t inside(weft_str_t s) { return weft_str_of(s.data + 1, s.length - 2); }

static weft_shape_t read_shape(weft_str_t s) {
  weft_shape_t shape = {.rank = 0};
  if (weft_str_is(s, "?")) return WEFT_UNKNOWN_SHAPE;
  weft_str_t dims = inside(s);
  while (dims.length > 0) {
    weft_str_t d = next(&dims, ',');
    int64_t dim = WEFT_UNKNOWN_DIM;
    if (!weft_str_is(d, "?") && !weft_str_to_i64(d, &dim)) abort();
    shape.dims[shape.rank++] = dim;
  }
  return shape;
}

static weft_attr_t read_attr(fixture_t *f, const weft_attr_def_t *def, weft_str_t s) {
  weft_attr_t a = {.kind = def->kind, .is_list = def->is_list};
  if (def->is_list) {
    int64_t *ints = weft_arena_calloc(&f->arena, MAX_ITEMS, sizeof *ints);
    int *types = weft_arena_calloc(&f->arena, MAX_ITEMS, sizeof *types);
    weft_str_t *strings = weft_arena_calloc(&f->arena, MAX_ITEMS, sizeof *strings);
    float *floats = weft_arena_calloc(&f->arena, MAX_ITEMS, sizeof *floats);
    weft_shape_t *shapes = weft_arena_calloc(&f->arena, MAX_ITEMS, sizeof *shapes);
    weft_str_t items = inside(s);
    while (items.length > 0) {
      weft_str_t item = next(&items, ' ');
      if (def->kind == WEFT_ATTR_INT) {
        if (!weft_str_to_i64(item, &ints[a.n])) abort();
      } else if (def->kind == WEFT_ATTR_STRING) {
        strings[a.n] = item;
      } else if (def->kind == WEFT_ATTR_FLOAT) {
        floats[a.n] = strtof(item.data, NULL);
      } else if (def->kind == WEFT_ATTR_SHAPE) {
        shapes[a.n] = read_shape(item);
      } else {
        types[a.n] = weft_dtype_from_name(item);
      }
      a.n++;
    }
    if (def->kind == WEFT_ATTR_INT) {
      a.list.ints = ints;
    } else if (def->kind == WEFT_ATTR_STRING) {
      a.list.strings = strings;
    } else if (def->kind == WEFT_ATTR_FLOAT) {
      a.list.floats = floats;
    } else if (def->kind == WEFT_ATTR_SHAPE) {
      a.list.shapes = shapes;
    } else {
      a.list.types = types;
    }
    return a;
  }
  switch (def->kind) {
    case WEFT_ATTR_INT:
      if (!weft_str_to_i64(s, &a.i)) abort();
      break;
    case WEFT_ATTR_BOOL: a.b = weft_str_is(s, "true"); break;
    case WEFT_ATTR_FLOAT: a.f = strtof(s.data, NULL); break;
    case WEFT_ATTR_TYPE: a.type = weft_dtype_from_name(s); break;
    case WEFT_ATTR_STRING: a.s = s; break;
    case WEFT_ATTR_SHAPE: {
      weft_shape_t *shape = weft_arena_calloc(&f->arena, 1, sizeof *shape);
      *shape = read_shape(s);
      a.shape = shape;
      break;
    }
    default: abort();
  }
  return a;
}

static void read_attrs(fixture_t *f, const weft_op_def_t *op, weft_str_t text) {
  while (text.length > 0) {
    weft_str_t pair = next(&text, ';'), name, value;
    if (!weft_str_split(pair, '=', &name, &value)) abort();
    const weft_attr_def_t *def = weft_op_attr(op, name);
    if (def == NULL) abort();
    f->attrs[f->num_attrs++] = (weft_named_attr_t){name, read_attr(f, def, value)};
  }
  for (int i = 0; i < op->num_attrs; i++) {
    const weft_attr_def_t *def = &op->attrs[i];
    bool is_set = false;
    for (int k = 0; k < f->num_attrs; k++) is_set = is_set || weft_str_eq(f->attrs[k].name, def->name);
    if (!is_set && def->has_default)
      f->attrs[f->num_attrs++] = (weft_named_attr_t){def->name, def->default_value};
  }
}

static const weft_tensor_t *read_constant(const weft_shape_t *shape, int dtype, weft_str_t values) {
  weft_tensor_t *t = NULL;
  if (weft_tensor_new((weft_dtype_t)dtype, shape, NULL, &t) != NULL) abort();
  for (int64_t i = 0; i < t->count; i++) {
    char text[32] = "";
    weft_str_t v = next(&values, ',');
    memcpy(text, v.data, v.length < sizeof text - 1 ? v.length : sizeof text - 1);
    if (dtype == WEFT_F32) {
      ((float *)t->data)[i] = strtof(text, NULL);
    } else if (dtype == WEFT_I64) {
      ((int64_t *)t->data)[i] = strtoll(text, NULL, 10);
    } else {
      ((int32_t *)t->data)[i] = (int32_t)strtol(text, NULL, 10);
    }
  }
  return t;
}

static void read_inputs(fixture_t *f, weft_str_t text) {
  for (int i = 0; i < f->ctx.num_inputs; i++) {
    weft_str_t input = next(&text, ';'), shape, values;
    if (weft_str_split(input, '=', &shape, &values)) {
      f->inputs[i] = read_shape(shape);
      f->values[i] = read_constant(&f->inputs[i], f->ctx.input_types[i], values);
    } else if (f->ctx.input_types[i] == WEFT_RESOURCE) { /* a variable of float */
      f->handles[i].shape = read_shape(input);
      f->handles[i].dtype = WEFT_F32;
    } else {
      f->inputs[i] = read_shape(input);
    }
  }
}

static weft_status_t *setup(fixture_t *f, const weft_op_def_t *op, weft_str_t attrs, weft_str_t inputs) {
  int *in = NULL, *out = NULL, num_in = 0, num_out = 0;
  read_attrs(f, op, attrs);
  WEFT_RETURN_IF_ERROR(
      weft_op_arg_types(&f->arena, op->inputs, op->num_inputs, f->attrs, f->num_attrs, &in, &num_in));
  WEFT_RETURN_IF_ERROR(
      weft_op_arg_types(&f->arena, op->outputs, op->num_outputs, f->attrs, f->num_attrs, &out, &num_out));
  for (int i = 0; i < MAX_ITEMS; i++) {
    f->outputs[i] = WEFT_UNKNOWN_SHAPE;
    f->handles[i] = f->out_handles[i] = WEFT_NO_HANDLE_DATA;
  }
  f->ctx = (weft_shape_ctx_t){.op = op,
                              .node_name = WEFT_STR("n"),
                              .attrs = f->attrs,
                              .num_attrs = f->num_attrs,
                              .num_inputs = num_in,
                              .num_outputs = num_out,
                              .input_types = in,
                              .output_types = out,
                              .inputs = f->inputs,
                              .values = f->values,
                              .outputs = f->outputs,
                              .handles = f->handles,
                              .out_handles = f->out_handles};
  read_inputs(f, inputs);
  return NULL;
}

static void teardown(fixture_t *f) {
  for (int i = 0; i < f->ctx.num_inputs; i++) weft_tensor_release((weft_tensor_t *)(uintptr_t)f->values[i]);
  weft_arena_deinit(&f->arena);
  memset(f, 0, sizeof *f);
}

#endif /* WEFT_TESTS_OPS_NOTATION_H_ */
