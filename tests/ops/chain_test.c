/* tests/ops/chain_test.c - the description of a chain: what is written is read, and what describes none is
 * refused. */
#include "ops/chain.h"

#include <stdio.h>

#include "tests/runner.h"

/* Cast(x) + y, and whether that is less than y: two inputs, three links, two outputs. */
static const int input_types[] = {WEFT_I32, WEFT_F32};
static const int64_t cast[] = {0}, sum[] = {2, 1}, less[] = {3, 1}, outputs[] = {3, 4};

typedef struct description {
  weft_chain_link_t links[3];
  weft_chain_t c;
  weft_arena_t arena;
  weft_named_attr_t attrs[WEFT_CHAIN_NUM_ATTRS];
} description_t;

static void describe(description_t *d) {
  *d = (description_t){
      .links = {{weft_op_find(WEFT_STR("Cast")), WEFT_STR("cast"), WEFT_F32, false, 1, cast},
                {weft_op_find(WEFT_STR("AddV2")), WEFT_STR("sum"), WEFT_F32, false, 2, sum},
                {weft_op_find(WEFT_STR("Less")), WEFT_STR("less"), WEFT_BOOL, false, 2, less}},
      .arena = WEFT_ARENA_INIT};
  d->c = (weft_chain_t){2, 3, 2, input_types, d->links, outputs};
}

/* The answer to what `d` says now. */
static weft_code_t read_back(description_t *d, weft_chain_t *out) {
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&d->arena, &d->c, d->attrs));
  weft_status_t *s = weft_chain_read(&d->arena, d->attrs, WEFT_CHAIN_NUM_ATTRS, out);
  const weft_code_t code = weft_status_code(s);
  weft_status_free(s);
  weft_arena_deinit(&d->arena);
  return code;
}

static void what_is_written_is_read(void) {
  description_t d;
  weft_chain_t c;
  describe(&d);
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&d.arena, &d.c, d.attrs));
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_read(&d.arena, d.attrs, WEFT_CHAIN_NUM_ATTRS, &c));
  CU_ASSERT(c.num_inputs == 2 && c.num_links == 3 && c.num_outputs == 2);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_PTR_EQUAL(c.links[i].op, d.links[i].op);
    CU_ASSERT(weft_str_eq(c.links[i].node, d.links[i].node) && c.links[i].type == d.links[i].type);
    CU_ASSERT_EQUAL_FATAL(c.links[i].num_operands, d.links[i].num_operands);
    for (int k = 0; k < c.links[i].num_operands; k++)
      CU_ASSERT_EQUAL(c.links[i].operands[k], d.links[i].operands[k]);
  }
  CU_ASSERT_EQUAL(c.outputs[1], 4);
  weft_arena_deinit(&d.arena);
}

static void shapes_follow_from_the_inputs(void) {
  description_t d;
  weft_shape_t values[5] = {weft_shape_vector(3), weft_shape_matrix(2, 1)};
  describe(&d);
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_infer(&d.c, &d.arena, NULL, values));
  const weft_shape_t vector = weft_shape_vector(3), matrix = weft_shape_matrix(2, 3);
  CU_ASSERT_TRUE(weft_shape_eq(&values[2], &vector));
  CU_ASSERT_TRUE(weft_shape_eq(&values[3], &matrix));
  CU_ASSERT_TRUE(weft_shape_eq(&values[4], &matrix));
  values[1] = weft_shape_vector(2);
  weft_status_t *s = weft_chain_infer(&d.c, &d.arena, NULL, values);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "Incompatible shapes: [3] vs. [2]"));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "{{node sum}}"));
  weft_status_free(s);
  weft_arena_deinit(&d.arena);
}

static void what_describes_none_is_refused(void) {
  static const int64_t ahead[] = {4, 1}, below[] = {-1, 1}, beyond[] = {99, 1}, of_ints[] = {0, 1},
                       one[] = {2}, three[] = {2, 1, 1}, unsorted[] = {4, 3}, twice[] = {3, 3},
                       of_input[] = {1, 3}, too_far[] = {3, 5};
  static const int64_t *const sums[] = {ahead, below, beyond, of_ints};
  static const int64_t *const wrong_outputs[] = {unsorted, twice, of_input, too_far};
  description_t d;
  weft_chain_t c;
  for (int i = 0; i < 4; i++) {
    describe(&d);
    d.links[1].operands = sums[i];
    CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  }
  for (int n = 1; n <= 3; n += 2) {
    describe(&d);
    d.links[1].operands = n == 1 ? one : three;
    d.links[1].num_operands = n;
    CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  }
  static const int types[] = {WEFT_F64, WEFT_I32, WEFT_BOOL, 0, 999, WEFT_F32 + 100};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    describe(&d);
    d.links[1].type = types[i];
    CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  }
  describe(&d);
  d.links[2].type = WEFT_F32; /* of a comparison */
  CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  describe(&d);
  d.links[1].op = weft_op_find(WEFT_STR("MatMul"));
  CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  /* Outputs: their types are printed from values, so that only values that exist can be tried. */
  for (int i = 0; i < 3; i++) {
    describe(&d);
    d.c.outputs = wrong_outputs[i];
    CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
  }
  describe(&d);
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&d.arena, &d.c, d.attrs));
  d.attrs[7].value.list.ints = wrong_outputs[3];
  weft_status_t *s = weft_chain_read(&d.arena, d.attrs, WEFT_CHAIN_NUM_ATTRS, &c);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  for (int i = 0; i < WEFT_CHAIN_NUM_ATTRS; i++) { /* each attribute left out */
    weft_named_attr_t without[WEFT_CHAIN_NUM_ATTRS];
    int n = 0;
    for (int k = 0; k < WEFT_CHAIN_NUM_ATTRS; k++) {
      if (k != i) without[n++] = d.attrs[k];
    }
    s = weft_chain_read(&d.arena, without, n, &c);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
  weft_arena_deinit(&d.arena);
}

/* x less its greatest element of each row, by two inputs: x and the axes. */
static const int fold_types[] = {WEFT_F32, WEFT_I32};
static const int64_t max_of[] = {0, 1}, less_max[] = {0, 2}, squares_of[] = {1}, by_squares[] = {0, 2},
                     fold_outputs[] = {3};

static void describe_fold(description_t *d) {
  *d = (description_t){
      .links = {{weft_op_find(WEFT_STR("Max")), WEFT_STR("max"), WEFT_F32, true, 2, max_of},
                {weft_op_find(WEFT_STR("Sub")), WEFT_STR("sub"), WEFT_F32, false, 2, less_max}},
      .arena = WEFT_ARENA_INIT};
  d->c = (weft_chain_t){2, 2, 1, fold_types, d->links, fold_outputs};
}

static void reductions_have_axes_and_keep_their_dimensions(void) {
  description_t d;
  weft_chain_t c;
  describe_fold(&d);
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&d.arena, &d.c, d.attrs));
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_read(&d.arena, d.attrs, WEFT_CHAIN_NUM_ATTRS, &c));
  CU_ASSERT(c.links[0].keeps_dims && !c.links[1].keeps_dims);
  int32_t axis = -1;
  const weft_shape_t one = weft_shape_vector(1), column = weft_shape_matrix(4, 1);
  weft_tensor_t *axes = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &one, NULL, &axes));
  memcpy(axes->data, &axis, sizeof axis);
  weft_shape_t shapes[4] = {weft_shape_matrix(4, 3), one};
  const weft_tensor_t *values[2] = {NULL, axes};
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_infer(&c, &d.arena, values, shapes));
  CU_ASSERT_TRUE(weft_shape_eq(&shapes[2], &column));
  CU_ASSERT_TRUE(weft_shape_eq(&shapes[3], &shapes[0]));
  axis = 2;
  memcpy(axes->data, &axis, sizeof axis);
  weft_status_t *s = weft_chain_infer(&c, &d.arena, values, shapes);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "Invalid reduction dimension"));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "{{node max}}"));
  weft_status_free(s);
  weft_tensor_release(axes);
  weft_arena_deinit(&d.arena);
}

static void axes_are_an_input_of_the_chain(void) {
  description_t d;
  weft_chain_t c;
  describe_fold(&d);
  d.links[0] =
      (weft_chain_link_t){weft_op_find(WEFT_STR("Square")), WEFT_STR("axes"), WEFT_I32, false, 1, squares_of};
  d.links[1] =
      (weft_chain_link_t){weft_op_find(WEFT_STR("Max")), WEFT_STR("max"), WEFT_F32, false, 2, by_squares};
  CU_ASSERT_EQUAL(read_back(&d, &c), WEFT_INVALID_ARGUMENT);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"what is written is read", what_is_written_is_read},
      {"shapes follow from the inputs", shapes_follow_from_the_inputs},
      {"what describes none is refused", what_describes_none_is_refused},
      {"reductions have axes and keep their dimensions", reductions_have_axes_and_keep_their_dimensions},
      {"axes are an input of the chain", axes_are_an_input_of_the_chain},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("chain", tests);
}
