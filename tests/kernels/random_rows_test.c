/* Rows of a sequence of random numbers: what a replica draws for its part of a batch are slices of what one
 * device draws for the whole, for every op, type and place of the rows, from run to run. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/random/random_fill.h"
#include "tests/kernels/script.h"

static weft_bench_t bench;

static void ok(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static weft_tensor_t *parsed(const char *text) {
  weft_tensor_t *t = NULL;
  ok(weft_tensor_parse(&text, &t));
  return t;
}

/* ---- parts of what fills a tensor ---- */

static weft_tensor_t *new_vector(weft_dtype_t dtype, int64_t n) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(n);
  ok(weft_tensor_new(dtype, &shape, NULL, &t));
  return t;
}

static void check_part(weft_dtype_t dtype, weft_distribution_t distribution, const weft_tensor_t *all,
                       const weft_random_part_t *part, int64_t length) {
  size_t size = weft_dtype_size(dtype);
  for (int pooled = 0; pooled < 2; pooled++) {
    weft_tensor_t *some = new_vector(dtype, part->num * length);
    weft_random_fill_part(pooled ? bench.pool : NULL, weft_philox_seeded(5, -6), distribution, 10, 1000, part,
                          some);
    for (int64_t i = 0; i < part->num; i++) {
      const char *want = (const char *)all->data + (size_t)(part->first + i * part->stride) * size;
      CU_ASSERT_EQUAL(
          memcmp((const char *)some->data + (size_t)(i * length) * size, want, (size_t)length * size), 0);
    }
    weft_tensor_release(some);
  }
}

static void a_part_is_a_slice_of_the_whole(void) {
  static const struct {
    weft_dtype_t dtype;
    weft_distribution_t distribution;
  } kinds[] = {{WEFT_F16, WEFT_UNIFORM},          {WEFT_BF16, WEFT_UNIFORM},
               {WEFT_F32, WEFT_UNIFORM},          {WEFT_F64, WEFT_UNIFORM},
               {WEFT_F16, WEFT_NORMAL},           {WEFT_BF16, WEFT_NORMAL},
               {WEFT_F32, WEFT_NORMAL},           {WEFT_F64, WEFT_NORMAL},
               {WEFT_F16, WEFT_TRUNCATED_NORMAL}, {WEFT_BF16, WEFT_TRUNCATED_NORMAL},
               {WEFT_F32, WEFT_TRUNCATED_NORMAL}, {WEFT_F64, WEFT_TRUNCATED_NORMAL},
               {WEFT_I32, WEFT_UNIFORM_INT},      {WEFT_I64, WEFT_UNIFORM_INT},
               {WEFT_U32, WEFT_UNIFORM_INT},      {WEFT_U64, WEFT_UNIFORM_INT}};
  static const struct {
    weft_random_part_t part;
    int64_t length;
  } parts[] = {{{1, 0, 0}, 1},     {{1, 0, 0}, 203}, {{1, 1, 0}, 1},  {{1, 1, 0}, 2},    {{1, 3, 0}, 1},
               {{1, 3, 0}, 2},     {{1, 4, 0}, 8},   {{1, 5, 0}, 7},  {{1, 202, 0}, 1},  {{1, 7, 0}, 190},
               {{3, 0, 8}, 4},     {{3, 2, 7}, 3},   {{5, 1, 11}, 1}, {{20, 3, 10}, 10}, {{4, 6, 50}, 47},
               {{2, 0, 101}, 101}, {{50, 1, 4}, 2}};
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    weft_tensor_t *all = new_vector(kinds[k].dtype, 203);
    weft_random_fill(NULL, weft_philox_seeded(5, -6), kinds[k].distribution, 10, 1000, all);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
      check_part(kinds[k].dtype, kinds[k].distribution, all, &parts[i].part, parts[i].length);
    }
    weft_tensor_release(all);
  }
}

static void a_large_part_is_a_slice_whatever_threads_do(void) {
  enum { COUNT = 300007 };
  static const weft_random_part_t part = {3, 5, 100001};
  weft_tensor_t *all = new_vector(WEFT_F32, COUNT);
  weft_random_fill(NULL, weft_philox_seeded(5, -6), WEFT_NORMAL, 0, 0, all);
  check_part(WEFT_F32, WEFT_NORMAL, all, &part, 99990);
  weft_tensor_release(all);
}

/* ---- nodes ---- */

enum { MAX_INPUTS = 8, RUNS = 3, MAX_SHARES = 5 };

/* A batch of 11 rows, shared out; some shares have none. */
static const int shares[][MAX_SHARES] = {{11}, {5, 6}, {4, 3, 4}, {0, 11, 0}, {1, 1, 1, 1, 7}, {3, 0, 8}};
enum { ROWS = 11, NUM_SHARINGS = sizeof shares / sizeof shares[0] };

typedef struct node_case {
  const char *op, *attrs, *more; /* inputs behind the shape */
} node_case_t;

static const node_case_t cases[] = {
    {"RandomUniform", "dtype=half seed=1 seed2=2", ""},
    {"RandomUniform", "dtype=bfloat16 seed=1 seed2=2", ""},
    {"RandomUniform", "dtype=float seed=1 seed2=2", ""},
    {"RandomUniform", "dtype=double seed2=2", ""},
    {"RandomStandardNormal", "dtype=half seed=1", ""},
    {"RandomStandardNormal", "dtype=float seed=1", ""},
    {"RandomStandardNormal", "dtype=double seed=1", ""},
    {"TruncatedNormal", "dtype=bfloat16 seed=1", ""},
    {"TruncatedNormal", "dtype=float seed=1", ""},
    {"TruncatedNormal", "dtype=double seed=1", ""},
    {"RandomUniformInt", "seed=1", "int32[]:-5 int32[]:77"},
    {"RandomUniformInt", "seed=1", "int64[]:-5 int64[]:7777777777777"},
    {"StatelessRandomNormal", "dtype=float", "int64[2]:1,2"},
    {"StatelessRandomUniform", "dtype=double", "int32[2]:1,2"},
    {"StatelessTruncatedNormal", "dtype=half", "int64[2]:1,2"},
    {"StatelessRandomUniformInt", "dtype=int64", "int64[2]:1,2 int64[]:0 int64[]:9999"},
    {"StatelessRandomNormalV2", "dtype=float", "uint64[1]:1 uint64[2]:3,4 int32[]:1"},
    {"StatelessRandomUniformV2", "dtype=bfloat16", "uint64[1]:1 uint64[2]:3,4 int32[]:3"},
    {"StatelessTruncatedNormalV2", "dtype=double", "uint64[1]:1 uint64[2]:3,4 int32[]:1"},
    {"StatelessRandomUniformIntV2", "dtype=int64",
     "uint64[1]:1 uint64[2]:3,4 int32[]:1 int64[]:0 int64[]:12345678901"},
};

/* Where rows are: "[2,11,3]" is axis 1, factor 1. */
static const struct {
  int64_t dims[3];
  int rank, axis, factor;
} shapes[] = {{{11}, 1, 0, 1},    {{11, 3}, 2, 0, 1},    {{11, 4}, 2, 0, 1},    {{22, 3}, 2, 0, 2},
              {{3, 11}, 2, 1, 1}, {{2, 11, 3}, 3, 1, 1}, {{3, 5, 33}, 3, 2, 3}, {{0, 11}, 2, 1, 1}};
enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0] };

static weft_tensor_t *shape_input(const int64_t *dims, int rank) {
  weft_tensor_t *t = new_vector(WEFT_I32, rank);
  for (int i = 0; i < rank; i++) ((int32_t *)t->data)[i] = (int32_t)dims[i];
  return t;
}

static weft_tensor_t *place(int64_t begin, int64_t count, int64_t all) {
  weft_tensor_t *t = new_vector(WEFT_I64, 3);
  const int64_t values[3] = {begin, count, all};
  memcpy(t->data, values, sizeof values);
  return t;
}

static weft_harness_t *node(const char *op, const char *attrs, weft_tensor_t *const *inputs, int n) {
  int types[MAX_INPUTS];
  weft_harness_t *h = NULL;
  for (int i = 0; i < n; i++) types[i] = inputs[i]->dtype;
  ok(weft_harness_create(&bench, op, attrs, types, n, &h));
  return h;
}

static weft_tensor_t *run(weft_harness_t *h, weft_tensor_t *const *inputs) {
  weft_tensor_t *out = NULL;
  ok(weft_harness_run(h, inputs, &out));
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  return out;
}

/* Elements [begin, begin + count) along axis. */
static bool is_slice(const weft_tensor_t *got, const weft_tensor_t *whole, int axis, int64_t begin,
                     int64_t count) {
  size_t size = weft_dtype_size(whole->dtype);
  int64_t outer = 1, inner = 1, dim = whole->shape.dims[axis];
  for (int i = 0; i < axis; i++) outer *= whole->shape.dims[i];
  for (int i = axis + 1; i < whole->shape.rank; i++) inner *= whole->shape.dims[i];
  if (got->dtype != whole->dtype || got->shape.rank != whole->shape.rank || got->shape.dims[axis] != count)
    return false;
  if (got->count != outer * count * inner) return false;
  for (int64_t o = 0; o < outer && got->count > 0; o++) {
    const char *want = (const char *)whole->data + (size_t)((o * dim + begin) * inner) * size;
    if (memcmp((const char *)got->data + (size_t)(o * count * inner) * size, want,
               (size_t)(count * inner) * size) != 0)
      return false;
  }
  return true;
}

/* `told`: 0: the shape is that of a replica's rows; 1: that of the whole, with a factor; 2: the same without
 * one. */
static void check_node(const node_case_t *c, int at, int sharing, int told) {
  char attrs[256];
  weft_tensor_t *inputs[MAX_INPUTS] = {NULL}, *wholes[RUNS];
  int n = 1 + weft_tensors_parse(c->more, inputs + 1, MAX_INPUTS - 1), axis = shapes[at].axis;
  inputs[0] = shape_input(shapes[at].dims, shapes[at].rank);
  weft_harness_t *one = node(c->op, c->attrs, inputs, n);
  for (int r = 0; r < RUNS; r++) wholes[r] = run(one, inputs);
  weft_harness_destroy(one);
  (void)snprintf(attrs, sizeof attrs, "%s op=%s axis=%d factor=%d%s", c->attrs, c->op, axis,
                 told == 2 ? 0 : shapes[at].factor,
                 strcmp(c->op, "RandomUniformInt") == 0
                     ? (inputs[1]->dtype == WEFT_I32 ? " dtype=int32" : " dtype=int64")
                     : "");
  for (int i = 0, begin = 0; i < MAX_SHARES; begin += shares[sharing][i++]) {
    int64_t dims[3], count = shares[sharing][i];
    memcpy(dims, shapes[at].dims, sizeof dims);
    if (told == 0) dims[axis] = count * shapes[at].factor;
    weft_tensor_t *whole_shape = inputs[0];
    inputs[0] = shape_input(dims, shapes[at].rank);
    inputs[n] = place(begin, count, ROWS);
    weft_harness_t *own = node("WeftRandomRows", attrs, inputs, n + 1);
    for (int r = 0; r < RUNS; r++) {
      weft_tensor_t *got = run(own, inputs);
      bool is_right = is_slice(got, wholes[r], axis, begin * shapes[at].factor, count * shapes[at].factor);
      if (!is_right) printf("\n    %s %s, shape %d, share %d of %d, run %d", c->op, attrs, at, i, sharing, r);
      CU_ASSERT_TRUE(is_right);
      weft_tensor_release(got);
    }
    weft_harness_destroy(own);
    weft_tensor_release(inputs[0]);
    weft_tensor_release(inputs[n]);
    inputs[0] = whole_shape;
  }
  for (int i = 0; i < n; i++) weft_tensor_release(inputs[i]);
  for (int r = 0; r < RUNS; r++) weft_tensor_release(wholes[r]);
}

static void rows_are_slices_of_what_one_device_draws(void) {
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    for (int at = 0; at < NUM_SHAPES; at++) {
      for (int sharing = 0; sharing < NUM_SHARINGS; sharing++) {
        for (int told = 0; told < 3; told++) check_node(&cases[c], at, sharing, told);
      }
    }
  }
}

/* ---- Multinomial ---- */

/* Enough rows and classes for several pieces, if `rows` is large. */
static void check_choice(int64_t rows, int64_t classes, int samples, const char *type, const int64_t *ends) {
  char text[64], attrs[64];
  weft_shape_t shape = weft_shape_matrix(rows, classes);
  weft_tensor_t *inputs[3] = {NULL}, *wholes[RUNS], *logits = NULL;
  ok(weft_tensor_new(WEFT_F32, &shape, NULL, &logits));
  for (int64_t i = 0; i < logits->count; i++) ((float *)logits->data)[i] = (float)(i * 7919 % 13) / 5.0f;
  (void)snprintf(text, sizeof text, "int32[]:%d", samples);
  (void)snprintf(attrs, sizeof attrs, "seed=3 seed2=4 output_dtype=%s", type);
  inputs[0] = logits;
  inputs[1] = parsed(text);
  weft_harness_t *one = node("Multinomial", attrs, inputs, 2);
  for (int r = 0; r < RUNS; r++) wholes[r] = run(one, inputs);
  weft_harness_destroy(one);
  for (int64_t i = 0, begin = 0; begin < rows; begin = ends[i++]) {
    int64_t count = ends[i] - begin;
    weft_shape_t own_shape = weft_shape_matrix(count, classes);
    ok(weft_tensor_new(WEFT_F32, &own_shape, NULL, &inputs[0]));
    if (count > 0) memcpy(inputs[0]->data, (float *)logits->data + begin * classes, inputs[0]->bytes);
    inputs[2] = place(begin, count, rows);
    weft_harness_t *own = node("WeftMultinomialRows", attrs, inputs, 3);
    for (int r = 0; r < RUNS; r++) {
      weft_tensor_t *got = run(own, inputs);
      CU_ASSERT_TRUE(is_slice(got, wholes[r], 0, begin, count));
      weft_tensor_release(got);
    }
    weft_harness_destroy(own);
    weft_tensor_release(inputs[0]);
    weft_tensor_release(inputs[2]);
  }
  weft_tensor_release(logits);
  weft_tensor_release(inputs[1]);
  for (int r = 0; r < RUNS; r++) weft_tensor_release(wholes[r]);
}

static void choices_for_rows_are_those_of_the_whole(void) {
  static const int64_t few[] = {0, 3, 4, 4, 11}, many[] = {1, 777, 778, 1999, 2003};
  static const int samples[] = {1, 2, 3, 4, 5};
  for (int i = 0; i < 5; i++) {
    check_choice(11, 5, samples[i], "int64", few);
    check_choice(2003, 40, samples[i], i % 2 == 0 ? "int32" : "int64", many);
  }
}

/* ---- what is refused ---- */

static void rows_that_do_not_fit_are_refused(void) {
  static const struct {
    const char *op, *attrs, *inputs, *message;
  } bad[] = {
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[2]:0,3",
       "rows must have shape [3]"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[3]:-1,3,9", "no part of a batch"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[3]:0,-3,9", "no part of a batch"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[3]:7,3,9", "no part of a batch"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[3]:9223372036854775807,3,9",
       "no part of a batch"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:10 int64[3]:0,3,9",
       "does not go with 3 of 9 rows"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[1]:3 int64[3]:0,0,0",
       "does not go with 0 of 0 rows"},
      {"WeftRandomRows", "op=RandomUniform dtype=float factor=2", "int32[1]:3 int64[3]:0,3,9",
       "does not go with"},
      {"WeftRandomRows", "op=RandomUniform dtype=float factor=9223372036854775807",
       "int32[1]:3 int64[3]:0,3,9", "does not go with"},
      {"WeftRandomRows", "op=RandomUniform dtype=float axis=1", "int32[1]:9 int64[3]:0,3,9",
       "no axis 1 in shape [9]"},
      {"WeftRandomRows", "op=RandomUniform dtype=float", "int32[]:9 int64[3]:0,3,9",
       "shape must be a vector"},
      {"WeftRandomRows", "op=Multinomial dtype=int32", "int32[1]:9 int64[3]:0,3,9",
       "draws no rows of 'Multinomial'"},
      {"WeftRandomRows", "op=RandomUniform dtype=int32", "int32[1]:9 int64[3]:0,3,9", "with such inputs"},
      {"WeftRandomRows", "op=RandomUniformInt dtype=int32", "int32[1]:9 int64[3]:0,3,9", "with such inputs"},
      {"WeftRandomRows", "op=RandomUniformInt dtype=int32", "int32[1]:9 int32[]:0 int64[]:5 int64[3]:0,3,9",
       "with such inputs"},
      {"WeftRandomRows", "op=RandomUniformInt dtype=int32", "int32[1]:9 int32[]:5 int32[]:5 int64[3]:0,3,9",
       "minval < maxval"},
      {"WeftRandomRows", "op=StatelessRandomUniform dtype=float", "int32[1]:9 float[2]:1,2 int64[3]:0,3,9",
       "with such inputs"},
      {"WeftRandomRows", "op=StatelessRandomUniform dtype=float", "int32[1]:9 int64[3]:1,2,3 int64[3]:0,3,9",
       "seed must have shape [2]"},
      {"WeftMultinomialRows", "factor=1", "float[2,2]:1,2,3,4 int32[]:1 int64[3]:0,3,9", "does not go with"},
      {"WeftMultinomialRows", "factor=1", "float[2,2]:1,2,3,4 int32[]:1 int64[3]:0,1,2",
       "logits have 2 rows, not 1"},
      {"WeftMultinomialRows", "factor=1", "float[4]:1,2,3,4 int32[]:1 int64[3]:0,1,2",
       "logits should be a matrix"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weft_tensor_t *inputs[MAX_INPUTS] = {NULL}, *out = NULL;
    int n = weft_tensors_parse(bad[i].inputs, inputs, MAX_INPUTS), num_outputs = 0;
    weft_status_t *s = weft_run_op(&bench, bad[i].op, bad[i].attrs, inputs, n, &out, 1, &num_outputs);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    bool says = s != NULL && strstr(weft_status_message(s), bad[i].message) != NULL;
    if (!says) printf("\n    %s: %s", bad[i].message, s == NULL ? "passed" : weft_status_message(s));
    CU_ASSERT_TRUE(says);
    weft_status_free(s);
    for (int k = 0; k < n; k++) weft_tensor_release(inputs[k]);
    weft_tensor_release(out);
  }
}

static void without_memory_they_say_so(void) {
  static const weft_call_t calls[] = {
      {"WeftRandomRows", "op=RandomUniform dtype=float seed=1", "int32[1]:9 int64[3]:0,3,9"},
      {"WeftMultinomialRows", "seed=1", "float[2,2]:1,2,3,4 int32[]:3 int64[3]:0,2,3"},
  };
  weft_fail_allocations(&bench, calls, sizeof calls / sizeof calls[0]);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"a part is a slice of the whole", a_part_is_a_slice_of_the_whole},
      {"a large part is a slice whatever threads do", a_large_part_is_a_slice_whatever_threads_do},
      {"rows are slices of what one device draws", rows_are_slices_of_what_one_device_draws},
      {"choices for rows are those of the whole", choices_for_rows_are_those_of_the_whole},
      {"rows that do not fit are refused", rows_that_do_not_fit_are_refused},
      {"without memory they say so", without_memory_they_say_so},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("random_rows", tests, &bench);
}
