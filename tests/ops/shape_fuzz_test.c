/* tests/ops/shape_fuzz_test.c - no shape function breaks on what a hostile graph may hold.
 *
 * Every op is given attributes that its definition allows, but wild ones, and wild
 * shapes and constants. Whatever comes out must be an error or well-formed shapes.
 */
#include "ops/shape_inference.h"

#include <stdio.h>

#include "tests/runner.h"

enum { ROUNDS = 300, MAX_FLAT = 40, MAX_LIST = 5 };

static uint64_t state = 88172645463325252u; /* xorshift64: the same cases in every run */

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static int64_t pick(const int64_t *from, int n) { return from[next() % (uint64_t)n]; }

static int64_t wild_number(void) {
  static const int64_t numbers[] = {-1, 0,  1,  2,  3,         4,         5,         8,        -2,
                                    -3, 17, 63, 64, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  return pick(numbers, next() % 4 != 0 ? 7 : sizeof numbers / sizeof numbers[0]);
}

static weft_shape_t wild_shape(void) {
  static const int64_t dims[] = {-1, 0, 1, 2, 3, 4, 8, INT32_MAX, INT64_MAX};
  weft_shape_t s = {.rank = (int)(next() % 7) - 1};
  if (next() % 16 == 0) s.rank = WEFT_MAX_DIMS;
  for (int i = 0; i < s.rank; i++) s.dims[i] = pick(dims, next() % 4 != 0 ? 7 : sizeof dims / sizeof dims[0]);
  return s;
}

static int wild_type(const weft_attr_def_t *def) {
  if (def->num_allowed > 0) return def->allowed_type_list[next() % (uint64_t)def->num_allowed];
  return 1 + (int)(next() % (WEFT_DTYPE_COUNT - 1));
}

/* A value that the definition allows. */
static weft_attr_t wild_attr(weft_arena_t *arena, const weft_attr_def_t *def) {
  weft_attr_t a = {.kind = def->kind, .is_list = def->is_list};
  int64_t least = def->has_minimum ? def->minimum : 0;
  if (def->has_default && next() % 4 == 0) return def->default_value;
  if (def->is_list) {
    a.n = (int32_t)(least + (int64_t)(next() % MAX_LIST));
    int64_t *ints = weft_arena_calloc(arena, MAX_FLAT, sizeof *ints);
    int *types = weft_arena_calloc(arena, MAX_FLAT, sizeof *types);
    weft_shape_t *shapes = weft_arena_calloc(arena, MAX_FLAT, sizeof *shapes);
    for (int i = 0; i < a.n; i++) {
      ints[i] = wild_number();
      types[i] = wild_type(def);
      shapes[i] = wild_shape();
    }
    if (def->kind == WEFT_ATTR_INT) {
      a.list.ints = ints;
    } else if (def->kind == WEFT_ATTR_TYPE) {
      a.list.types = types;
    } else if (def->kind == WEFT_ATTR_SHAPE) {
      a.list.shapes = shapes;
    } else {
      a.n = 0;
    }
    return a;
  }
  switch (def->kind) {
    case WEFT_ATTR_INT:
      a.i = wild_number();
      if (def->has_minimum)
        a.i = least + (int64_t)(next() % MAX_LIST); /* it may say how many inputs there are */
      break;
    case WEFT_ATTR_BOOL: a.b = next() % 2 == 0; break;
    case WEFT_ATTR_TYPE: a.type = wild_type(def); break;
    case WEFT_ATTR_STRING:
      a.s =
          def->num_allowed > 0 ? def->allowed_strings[next() % (uint64_t)def->num_allowed] : WEFT_STR("text");
      break;
    case WEFT_ATTR_SHAPE: {
      weft_shape_t *shape = weft_arena_calloc(arena, 1, sizeof *shape);
      *shape = wild_shape();
      a.shape = shape;
      break;
    }
    case WEFT_ATTR_NONE:
    case WEFT_ATTR_FLOAT:
    case WEFT_ATTR_TENSOR:
    case WEFT_ATTR_FUNC:
    case WEFT_ATTR_PLACEHOLDER:
    case WEFT_ATTR_RAW: break;
  }
  return a;
}

/* A constant of at most 32 elements, of any rank; `shape` is set to its shape. NULL now and then. */
static weft_tensor_t *wild_constant(int type, weft_shape_t *shape) {
  static const weft_shape_t shapes[] = {{.rank = 0}, {.rank = 0}, {1, {0}},    {1, {1}},
                                        {1, {2}},    {1, {3}},    {1, {4}},    {1, {20}},
                                        {2, {1, 2}}, {2, {2, 2}}, {2, {3, 2}}, {3, {2, 2, 2}}};
  weft_tensor_t *t = NULL;
  if (next() % 2 == 0 || !weft_dtype_is_plain(type) || weft_dtype_is_ref(type)) return NULL;
  weft_shape_t chosen = shapes[next() % (sizeof shapes / sizeof shapes[0])];
  weft_status_t *s = weft_tensor_new((weft_dtype_t)type, &chosen, NULL, &t);
  if (s != NULL) {
    weft_status_free(s);
    return NULL;
  }
  size_t size = weft_dtype_size(type);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t v = wild_number();
    memset((char *)t->data + (size_t)i * size, 0, size);
    memcpy((char *)t->data + (size_t)i * size, &v, size < sizeof v ? size : sizeof v);
  }
  *shape = chosen;
  return t;
}

static bool is_well_formed(const weft_shape_t *s) {
  if (s->rank < WEFT_UNKNOWN_DIM || s->rank > WEFT_MAX_DIMS) return false;
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < WEFT_UNKNOWN_DIM) return false;
  }
  return true;
}

/* False if a shape came out that cannot be. */
static bool survives(const weft_op_def_t *op) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_named_attr_t attrs[MAX_FLAT];
  weft_shape_t inputs[MAX_FLAT], outputs[MAX_FLAT];
  weft_handle_data_t handles[MAX_FLAT], out_handles[MAX_FLAT];
  weft_tensor_t *values[MAX_FLAT] = {NULL};
  int *in = NULL, *out = NULL, num_in = 0, num_out = 0;
  bool is_good = true;
  for (int i = 0; i < op->num_attrs; i++)
    attrs[i] = (weft_named_attr_t){op->attrs[i].name, wild_attr(&arena, &op->attrs[i])};
  weft_status_t *s =
      weft_op_arg_types(&arena, op->inputs, op->num_inputs, attrs, op->num_attrs, &in, &num_in);
  if (s == NULL)
    s = weft_op_arg_types(&arena, op->outputs, op->num_outputs, attrs, op->num_attrs, &out, &num_out);
  if (s == NULL && num_in <= MAX_FLAT && num_out <= MAX_FLAT) {
    for (int i = 0; i < MAX_FLAT; i++) {
      outputs[i] = WEFT_UNKNOWN_SHAPE;
      out_handles[i] = WEFT_NO_HANDLE_DATA;
      inputs[i] = wild_shape();
      handles[i] = (weft_handle_data_t){.shape = wild_shape(), .keys = wild_shape()};
      handles[i].dtype = next() % 2 == 0 ? 0 : WEFT_F32;
      handles[i].key_dtype = next() % 2 == 0 ? 0 : WEFT_F32;
      if (i < num_in) values[i] = wild_constant(in[i], &inputs[i]);
    }
    weft_shape_ctx_t c = {.op = op,
                          .node_name = WEFT_STR("n"),
                          .attrs = attrs,
                          .num_attrs = op->num_attrs,
                          .num_inputs = num_in,
                          .num_outputs = num_out,
                          .input_types = in,
                          .output_types = out,
                          .inputs = inputs,
                          .values = (const weft_tensor_t *const *)values,
                          .outputs = outputs,
                          .handles = handles,
                          .out_handles = out_handles};
    s = op->infer_shapes == NULL ? NULL : op->infer_shapes(&c);
    for (int i = 0; s == NULL && i < num_out; i++) is_good = is_good && is_well_formed(&outputs[i]);
  }
  weft_status_free(s);
  for (int i = 0; i < MAX_FLAT; i++) weft_tensor_release(values[i]);
  weft_arena_deinit(&arena);
  return is_good;
}

static void every_shape_function_survives_hostile_nodes(void) {
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    bool is_good = true;
    for (int round = 0; round < ROUNDS; round++) is_good = survives(ops[i]) && is_good;
    if (!is_good) fprintf(stderr, "impossible shapes from %.*s\n", WEFT_STR_ARGS(ops[i]->name));
    CU_ASSERT_TRUE(is_good);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every shape function survives hostile nodes", every_shape_function_survives_hostile_nodes},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("shape fuzz", tests);
}
