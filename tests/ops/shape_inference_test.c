/* tests/ops/shape_inference_test.c - every shape function against what TensorFlow infers.
 *
 * testdata/shapes.txt, one case a line: op | attributes | inputs | outcome, where an
 * input is a shape, or shape=values if it is a constant, and the outcome is "ok" and the
 * outputs' shapes, or "error" and TensorFlow's message.
 */
#include "ops/shape_inference.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/runner.h"

#define CASES "tests/ops/testdata/shapes.txt"

enum { MAX_ITEMS = 32 };

/* One case, with everything in `arena` but the constants. */
typedef struct fixture {
  weft_arena_t arena;
  weft_named_attr_t attrs[MAX_ITEMS];
  int num_attrs;
  weft_shape_t inputs[MAX_ITEMS], handles[MAX_ITEMS], outputs[MAX_ITEMS], out_handles[MAX_ITEMS];
  int handle_types[MAX_ITEMS], out_handle_types[MAX_ITEMS];
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
    weft_str_t items = inside(s);
    while (items.length > 0) {
      weft_str_t item = next(&items, ' ');
      if (def->kind == WEFT_ATTR_INT) {
        if (!weft_str_to_i64(item, &ints[a.n])) abort();
      } else {
        types[a.n] = weft_dtype_from_name(item);
      }
      a.n++;
    }
    if (def->kind == WEFT_ATTR_INT) {
      a.list.ints = ints;
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
    if (!is_set && def->has_default) f->attrs[f->num_attrs++] = (weft_named_attr_t){def->name, def->default_value};
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
      f->handles[i] = read_shape(input);
      f->handle_types[i] = WEFT_F32;
    } else {
      f->inputs[i] = read_shape(input);
    }
  }
}

static weft_status_t *setup(fixture_t *f, const weft_op_def_t *op, weft_str_t attrs, weft_str_t inputs) {
  int *in = NULL, *out = NULL, num_in = 0, num_out = 0;
  read_attrs(f, op, attrs);
  WEFT_RETURN_IF_ERROR(weft_op_arg_types(&f->arena, op->inputs, op->num_inputs, f->attrs, f->num_attrs, &in, &num_in));
  WEFT_RETURN_IF_ERROR(weft_op_arg_types(&f->arena, op->outputs, op->num_outputs, f->attrs, f->num_attrs, &out, &num_out));
  for (int i = 0; i < MAX_ITEMS; i++) f->outputs[i] = f->handles[i] = f->out_handles[i] = WEFT_UNKNOWN_SHAPE;
  f->ctx = (weft_shape_ctx_t){.op = op, .node_name = WEFT_STR("n"), .attrs = f->attrs, .num_attrs = f->num_attrs,
                              .num_inputs = num_in, .num_outputs = num_out, .input_types = in, .output_types = out,
                              .inputs = f->inputs, .values = f->values, .outputs = f->outputs,
                              .handle_shapes = f->handles, .handle_types = f->handle_types,
                              .out_handle_shapes = f->out_handles, .out_handle_types = f->out_handle_types};
  read_inputs(f, inputs);
  return NULL;
}

static void print_outcome(const fixture_t *f, const weft_status_t *s, weft_strbuf_t *out) {
  weft_strbuf_puts(out, s == NULL ? "ok " : "error ");
  for (const char *p = weft_status_message(s); *p != '\0'; p++) {
    if (*p == '\n') {
      weft_strbuf_puts(out, "\\n");
    } else {
      weft_strbuf_putc(out, *p);
    }
  }
  for (int i = 0; s == NULL && i < f->ctx.num_outputs; i++) {
    bool is_unknown = f->outputs[i].rank < 0;
    weft_strbuf_printf(out, "%s%s", i > 0 ? ";" : "", is_unknown ? "?" : WEFT_SHAPE_TEXT(&f->outputs[i]));
  }
}

static bool agrees(weft_str_t line) {
  weft_str_t rest = line;
  weft_str_t name = next(&rest, '|'), attrs = next(&rest, '|'), inputs = next(&rest, '|'), wanted = rest;
  const weft_op_def_t *op = weft_op_find(name);
  if (op == NULL) return false;
  fixture_t *f = calloc(1, sizeof *f);
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  weft_status_t *s = setup(f, op, attrs, inputs);
  if (s == NULL) s = op->infer_shapes(&f->ctx);
  print_outcome(f, s, &got);
  bool is_equal = weft_str_eq(weft_str_of(got.data, got.length), wanted);
  if (!is_equal) fprintf(stderr, "%.*s\n    got %s\n", WEFT_STR_ARGS(line), got.data);
  weft_strbuf_deinit(&got);
  weft_status_free(s);
  for (int i = 0; i < f->ctx.num_inputs; i++) weft_tensor_release((weft_tensor_t *)(uintptr_t)f->values[i]);
  weft_arena_deinit(&f->arena);
  free(f);
  return is_equal;
}

static void shapes_are_inferred_as_in_tensorflow(void) {
  char line[1024];
  int n = 0, wrong = 0;
  FILE *file = fopen(CASES, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] == '#') continue;
    n++;
    if (!agrees(weft_str_of(line, strcspn(line, "\n")))) wrong++;
  }
  fclose(file);
  if (wrong > 0) fprintf(stderr, "%d of %d cases differ\n", wrong, n);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_TRUE(n > 1000);
}

static void windows_are_placed_as_the_padding_says(void) {
  static const struct {
    int64_t in, window, dilation, stride;
    const char *padding;
    int64_t size, before, after;
  } cases[] = {
      {8, 3, 1, 2, "SAME", 4, 0, 1},  {8, 3, 1, 1, "SAME", 8, 1, 1},     {7, 2, 1, 2, "SAME", 4, 0, 1},
      {8, 3, 1, 2, "VALID", 3, 0, 0}, {8, 3, 2, 1, "VALID", 4, 0, 0},    {5, 1, 1, 2, "SAME", 3, 0, 0},
      {0, 3, 1, 1, "SAME", 0, 0, 0},  {-1, 3, 1, 1, "SAME", -1, 0, 0},   {8, 3, 1, 1, "EXPLICIT", 9, 1, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t size = 0, before = 0, after = 0;
    weft_status_t *s = weft_window_size(cases[i].in, cases[i].window, cases[i].dilation, cases[i].stride,
                                        weft_str(cases[i].padding), 1, 2, &size, &before, &after);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(size, cases[i].size);
    CU_ASSERT_EQUAL(before, cases[i].before);
    CU_ASSERT_EQUAL(after, cases[i].after);
    weft_status_free(s);
  }
}

static void hostile_windows_are_refused(void) {
  static const int64_t cases[][4] = {{8, 3, 1, 0}, {8, 3, 0, 1}, {8, INT64_MAX, 2, 1}, {2, 5, 1, 1}, {INT64_MAX, 1, 1, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t size = 0;
    weft_status_t *s = /* a window that is too large by more than a stride gives less than nothing */
        weft_window_size(cases[i][0], cases[i][1], cases[i][2], cases[i][3], WEFT_STR("VALID"), 0, 0, &size, NULL, NULL);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
}

static void a_handle_tells_the_shape_behind_it(void) {
  fixture_t *f = calloc(1, sizeof *f);
  CU_ASSERT_PTR_NULL(setup(f, weft_op_find(WEFT_STR("VarHandleOp")), WEFT_STR("dtype=float;shape=[2,3]"), WEFT_STR("")));
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  CU_ASSERT_EQUAL(f->outputs[0].rank, 0);
  CU_ASSERT_EQUAL(f->out_handle_types[0], WEFT_F32);
  CU_ASSERT_TRUE(weft_shape_eq(&f->out_handles[0], &(weft_shape_t){.rank = 2, .dims = {2, 3}}));
  weft_arena_deinit(&f->arena);
  memset(f, 0, sizeof *f);
  CU_ASSERT_PTR_NULL(setup(f, weft_op_find(WEFT_STR("Identity")), WEFT_STR("T=resource"), WEFT_STR("[2]")));
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  CU_ASSERT_TRUE(weft_shape_eq(&f->out_handles[0], &f->handles[0]));
  weft_arena_deinit(&f->arena);
  free(f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"shapes are inferred as in TensorFlow", shapes_are_inferred_as_in_tensorflow},
      {"windows are placed as the padding says", windows_are_placed_as_the_padding_says},
      {"hostile windows are refused", hostile_windows_are_refused},
      {"a handle tells the shape behind it", a_handle_tells_the_shape_behind_it},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("shape inference", tests);
}
