/* tests/ops/shape_inference_test.c - every shape function against what TensorFlow infers.
 *
 * testdata/shapes.txt, one case a line: op | attributes | inputs | outcome, where an
 * input is a shape, or shape=values if it is a constant, and the outcome is "ok" and the
 * outputs' shapes, or "error" and TensorFlow's message.
 */
#include "ops/shape_inference.h"

#include <stdio.h>

#include "tests/ops/notation.h"
#include "tests/runner.h"

#define CASES "tests/ops/testdata/shapes.txt"

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
  teardown(f);
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
      {8, 3, 1, 2, "SAME", 4, 0, 1},  {8, 3, 1, 1, "SAME", 8, 1, 1},   {7, 2, 1, 2, "SAME", 4, 0, 1},
      {8, 3, 1, 2, "VALID", 3, 0, 0}, {8, 3, 2, 1, "VALID", 4, 0, 0},  {5, 1, 1, 2, "SAME", 3, 0, 0},
      {0, 3, 1, 1, "SAME", 0, 0, 0},  {-1, 3, 1, 1, "SAME", -1, 0, 0}, {8, 3, 1, 1, "EXPLICIT", 9, 1, 2},
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
  static const int64_t cases[][4] = {
      {8, 3, 1, 0}, {8, 3, 0, 1}, {8, INT64_MAX, 2, 1}, {2, 5, 1, 1}, {INT64_MAX, 1, 1, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t size = 0;
    weft_status_t *s = /* a window that is too large by more than a stride gives less than nothing */
        weft_window_size(cases[i][0], cases[i][1], cases[i][2], cases[i][3], WEFT_STR("VALID"), 0, 0, &size,
                         NULL, NULL);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
}

static void a_handle_tells_the_shape_behind_it(void) {
  fixture_t *f = calloc(1, sizeof *f);
  CU_ASSERT_PTR_NULL(
      setup(f, weft_op_find(WEFT_STR("VarHandleOp")), WEFT_STR("dtype=float;shape=[2,3]"), WEFT_STR("")));
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  CU_ASSERT_EQUAL(f->outputs[0].rank, 0);
  CU_ASSERT_EQUAL(f->out_handles[0].dtype, WEFT_F32);
  CU_ASSERT_TRUE(weft_shape_eq(&f->out_handles[0].shape, &(weft_shape_t){.rank = 2, .dims = {2, 3}}));
  teardown(f);
  CU_ASSERT_PTR_NULL(setup(f, weft_op_find(WEFT_STR("Identity")), WEFT_STR("T=resource"), WEFT_STR("[2]")));
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  CU_ASSERT_TRUE(weft_shape_eq(&f->out_handles[0].shape, &f->handles[0].shape));
  teardown(f);
  free(f);
}

/* Keys [2, 3] of a table of keys [3] and values [5, ?]: values [2, 5, ?]. */
static void a_table_tells_what_it_holds(void) {
  fixture_t *f = calloc(1, sizeof *f);
  const weft_op_def_t *make = weft_op_find(WEFT_STR("MutableDenseHashTableV2")),
                      *find = weft_op_find(WEFT_STR("LookupTableFindV2"));
  CU_ASSERT_PTR_NULL(
      setup(f, make, WEFT_STR("key_dtype=int64;value_dtype=float;value_shape=[5,?]"), WEFT_STR("[3];[3]")));
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  const weft_handle_data_t table = f->out_handles[0];
  teardown(f);
  CU_ASSERT_PTR_NULL(setup(f, find, WEFT_STR("Tin=int64;Tout=float"), WEFT_STR("[];[2,3];[]")));
  f->handles[0] = table;
  CU_ASSERT_PTR_NULL(f->ctx.op->infer_shapes(&f->ctx));
  CU_ASSERT_TRUE(weft_shape_eq(&f->outputs[0], &(weft_shape_t){.rank = 3, .dims = {2, 5, -1}}));
  teardown(f);
  CU_ASSERT_PTR_NULL(setup(f, find, WEFT_STR("Tin=int32;Tout=float"), WEFT_STR("[];[2,3];[]")));
  f->handles[0] = table;
  weft_status_t *s = f->ctx.op->infer_shapes(&f->ctx);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s),
                         "Trying to read value with wrong dtype. Expected int64 got int32");
  weft_status_free(s);
  teardown(f);
  free(f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"shapes are inferred as in TensorFlow", shapes_are_inferred_as_in_tensorflow},
      {"windows are placed as the padding says", windows_are_placed_as_the_padding_says},
      {"hostile windows are refused", hostile_windows_are_refused},
      {"a handle tells the shape behind it", a_handle_tells_the_shape_behind_it},
      {"a table tells what it holds", a_table_tells_what_it_holds},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("shape inference", tests);
}
