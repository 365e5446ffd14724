/* Random streams: the generator, what runs and threads share, and what cannot be repeated. The numbers
 * themselves are in testdata/golden. */
#include <string.h>

#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_fill.h"
#include "tests/kernels/script.h"

static weft_bench_t bench;

/* Vectors of the paper's own library (Random123, kat_vectors, philox4x32-10). */
static void philox_agrees_with_its_authors(void) {
  static const struct {
    weft_philox_t p;
    uint32_t words[4];
  } cases[] = {
      {{{0, 0, 0, 0}, {0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_philox_t p = cases[i].p;
    uint32_t got[4];
    weft_philox_next(&p, got);
    CU_ASSERT_EQUAL(memcmp(got, cases[i].words, sizeof got), 0);
  }
}

static void a_skip_is_as_many_steps(void) {
  static const weft_philox_t starts[] = {
      {{0, 0, 0, 0}, {1, 2}},
      {{0xfffffffe, 0, 5, 6}, {1, 2}},
      {{0xfffffffe, 0xffffffff, 5, 6}, {1, 2}},
      {{0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff}, {1, 2}},
  };
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
    weft_philox_t stepped = starts[i], skipped = starts[i];
    uint32_t words[4];
    for (int k = 0; k < 5; k++) weft_philox_next(&stepped, words);
    weft_philox_skip(&skipped, 5);
    CU_ASSERT_EQUAL(memcmp(&stepped, &skipped, sizeof stepped), 0);
  }
}

static void words_come_in_the_order_of_blocks(void) {
  weft_philox_t p = weft_philox_seeded(3, 4);
  weft_philox_words_t words = weft_philox_words(p);
  for (int block = 0; block < 3; block++) {
    uint32_t want[4];
    weft_philox_next(&p, want);
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(weft_philox_word(&words), want[i]);
  }
}

/* What Eigen's parallelFor does, measured. */
static const struct {
  int64_t total;
  double cost;
  int threads;
  int64_t piece;
} pieces[] = {
    {7, 100, 1, 7},
    {7, 250000, 1, 7},
    {1000, 1, 1, 1000},
    {1, 2000, 2, 1},
    {2, 1, 2, 2},
    {7, 250000, 2, 2},
    {64, 17000, 2, 8},
    {64, 250000, 2, 8},
    {100, 17000, 2, 13},
    {100, 250000, 2, 13},
    {1000, 2000, 2, 125},
    {1000, 17000, 2, 125},
    {1000, 250000, 2, 125},
    {12345, 100, 2, 1544},
    {12345, 2000, 2, 1544},
    {12345, 17000, 2, 1544},
    {12345, 250000, 2, 1544},
    {1000000, 1, 2, 125000},
    {1000000, 100, 2, 125000},
    {1000000, 2000, 2, 125000},
    {1000000, 17000, 2, 125000},
    {1000000, 250000, 2, 125000},
    {7, 100, 3, 7},
    {64, 2000, 3, 64},
    {64, 17000, 3, 11},
    {64, 250000, 3, 11},
    {100, 17000, 3, 9},
    {100, 250000, 3, 9},
    {1000, 2000, 3, 84},
    {1000, 17000, 3, 84},
    {1000, 250000, 3, 84},
    {12345, 100, 3, 1029},
    {12345, 2000, 3, 1029},
    {12345, 17000, 3, 1029},
    {12345, 250000, 3, 1029},
    {1000000, 1, 3, 83334},
    {1000000, 100, 3, 83334},
    {1000000, 2000, 3, 83334},
    {1000000, 17000, 3, 83334},
    {1000000, 250000, 3, 83334},
    {1, 17000, 8, 1},
    {2, 250000, 8, 1},
    {64, 17000, 8, 2},
    {64, 250000, 8, 2},
    {100, 17000, 8, 7},
    {100, 250000, 8, 7},
    {1000, 2000, 8, 32},
    {1000, 17000, 8, 32},
    {1000, 250000, 8, 32},
    {12345, 100, 8, 515},
    {12345, 2000, 8, 386},
    {12345, 17000, 8, 386},
    {12345, 250000, 8, 386},
    {1000000, 1, 8, 41667},
    {1000000, 100, 8, 31250},
    {1000000, 2000, 8, 31250},
    {1000000, 17000, 8, 31250},
    {1000000, 250000, 8, 31250},
    {1, 100, 16, 1},
    {7, 100, 16, 7},
    {64, 17000, 16, 2},
    {100, 2000, 16, 100},
    {100, 17000, 16, 4},
    {100, 250000, 16, 4},
    {1000, 2000, 16, 21},
    {1000, 17000, 16, 21},
    {1000, 250000, 16, 21},
    {12345, 100, 16, 772},
    {12345, 2000, 16, 193},
    {12345, 17000, 16, 193},
    {12345, 250000, 16, 193},
    {1000000, 1, 16, 62500},
    {1000000, 100, 16, 15625},
    {1000000, 2000, 16, 15625},
    {1000000, 17000, 16, 15625},
    {1000000, 250000, 16, 15625},
};

static void work_is_cut_where_tensorflow_cuts_it(void) {
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    CU_ASSERT_EQUAL(weft_random_piece(pieces[i].total, pieces[i].cost, pieces[i].threads), pieces[i].piece);
  }
}

static weft_tensor_t *new_tensor(weft_dtype_t dtype, int64_t n) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(n);
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static void threads_do_not_show(void) {
  static const struct {
    weft_dtype_t dtype;
    weft_distribution_t distribution;
  } cases[] = {{WEFT_F32, WEFT_UNIFORM},          {WEFT_F64, WEFT_NORMAL},
               {WEFT_BF16, WEFT_NORMAL},          {WEFT_F16, WEFT_TRUNCATED_NORMAL},
               {WEFT_F64, WEFT_TRUNCATED_NORMAL}, {WEFT_I64, WEFT_UNIFORM_INT}};
  enum { COUNT = 50003 };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_tensor_t *one = new_tensor(cases[i].dtype, COUNT), *many = new_tensor(cases[i].dtype, COUNT);
    weft_philox_t p = weft_philox_seeded(5, -6);
    weft_random_fill(NULL, p, cases[i].distribution, 10, 1000, one);
    weft_random_fill(bench.pool, p, cases[i].distribution, 10, 1000, many);
    CU_ASSERT_EQUAL(memcmp(one->data, many->data, one->bytes), 0);
    weft_tensor_release(one);
    weft_tensor_release(many);
  }
}

/* One run of a node without inputs but a shape of n. */
static weft_tensor_t *draw(weft_harness_t *h, int32_t n) {
  weft_tensor_t *sizes = new_tensor(WEFT_I32, 1), *out = NULL;
  *(int32_t *)sizes->data = n;
  weft_status_t *s = weft_harness_run(h, &sizes, &out);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  weft_tensor_release(sizes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  return out;
}

static weft_harness_t *new_node(const char *attrs) {
  weft_harness_t *h = NULL;
  int types[] = {WEFT_I32};
  weft_status_t *s = weft_harness_create(&bench, "RandomUniform", attrs, types, 1, &h);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return h;
}

static bool same(const weft_tensor_t *a, const weft_tensor_t *b) {
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static void without_seeds_nothing_repeats(void) {
  weft_harness_t *nodes[] = {new_node("dtype=float"), new_node("dtype=float")};
  weft_tensor_t *drawn[] = {draw(nodes[0], 8), draw(nodes[0], 8), draw(nodes[1], 8), draw(nodes[1], 8)};
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < i; k++) CU_ASSERT_FALSE(same(drawn[i], drawn[k]));
  }
  for (int i = 0; i < 4; i++) weft_tensor_release(drawn[i]);
  for (int i = 0; i < 2; i++) weft_harness_destroy(nodes[i]);
}

static void one_seed_is_enough_to_repeat(void) {
  static const char *const attrs[] = {"dtype=float seed=1", "dtype=float seed2=1",
                                      "dtype=float seed=1 seed2=1"};
  for (int i = 0; i < 3; i++) {
    weft_harness_t *a = new_node(attrs[i]), *b = new_node(attrs[i]);
    for (int run = 0; run < 3; run++) {
      weft_tensor_t *x = draw(a, 5), *y = draw(b, 5);
      CU_ASSERT_TRUE(same(x, y));
      weft_tensor_release(x);
      weft_tensor_release(y);
    }
    weft_harness_destroy(a);
    weft_harness_destroy(b);
  }
}

static void an_empty_run_takes_nothing(void) {
  weft_harness_t *a = new_node("dtype=float seed=1"), *b = new_node("dtype=float seed=1");
  weft_tensor_t *empty = draw(a, 0), *x = draw(a, 5), *y = draw(b, 5);
  CU_ASSERT_EQUAL(empty->count, 0);
  CU_ASSERT_TRUE(same(x, y));
  weft_tensor_release(empty);
  weft_tensor_release(x);
  weft_tensor_release(y);
  weft_harness_destroy(a);
  weft_harness_destroy(b);
}

enum { TAKES = 512 };
typedef struct takes {
  weft_random_stream_t stream;
  weft_philox_t got[TAKES];
} takes_t;

static void take(void *arg, int64_t begin, int64_t end) {
  takes_t *t = arg;
  for (int64_t i = begin; i < end; i++) t->got[i] = weft_random_stream_take(&t->stream, 1);
}

static void runs_at_once_share_no_block(void) {
  static takes_t t;
  bool seen[TAKES] = {false};
  weft_mutex_init(&t.stream.mu);
  t.stream.next = weft_philox_seeded(1, 2);
  weft_parallel_for(bench.pool, TAKES, 1, take, &t);
  for (int i = 0; i < TAKES; i++) {
    CU_ASSERT_FATAL(t.got[i].counter[0] < TAKES);
    CU_ASSERT_FALSE(seen[t.got[i].counter[0]]);
    seen[t.got[i].counter[0]] = true;
  }
  weft_mutex_deinit(&t.stream.mu);
}

static void without_memory_they_say_so(void) {
  static const weft_call_t calls[] = {
      {"RandomUniform", "dtype=float seed=1", "int32[1]:100"},
      {"StatelessRandomNormal", "dtype=float", "int32[1]:100 int64[2]:1,2"},
      {"StatelessRandomGetKeyCounterAlg", "", "int64[2]:1,2"},
      {"RandomShuffle", "seed=1", "string[3]:'a','a string that is too long to lie inline','c'"},
      {"Multinomial", "seed=1", "float[2,2]:1,2,3,4 int32[]:20"},
      {"ParameterizedTruncatedNormal", "seed=1", "int32[1]:4 float[]:0 float[]:1 float[]:-1 float[]:1"},
      {"ScalarSummary", "", "string[]:'a tag that is too long to lie inline' float[]:1"},
      {"HistogramSummary", "", "string[]:'h' float[3]:1,2,3"},
      {"MergeSummary", "N=1", "string[2]:'\\x0a\\x03\\x0a\\x01a','\\x0a\\x03\\x0a\\x01b'"},
      {"TensorSummary", "", "float[3]:1,2,3"},
      {"AudioSummaryV2", "", "string[]:'a' float[2,3]:1,2,3,4,5,6 float[]:8000"},
  };
  weft_fail_allocations(&bench, calls, sizeof calls / sizeof calls[0]);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"Philox agrees with its authors", philox_agrees_with_its_authors},
      {"a skip is as many steps", a_skip_is_as_many_steps},
      {"words come in the order of blocks", words_come_in_the_order_of_blocks},
      {"work is cut where TensorFlow cuts it", work_is_cut_where_tensorflow_cuts_it},
      {"threads do not show", threads_do_not_show},
      {"without seeds nothing repeats", without_seeds_nothing_repeats},
      {"one seed is enough to repeat", one_seed_is_enough_to_repeat},
      {"an empty run takes nothing", an_empty_run_takes_nothing},
      {"runs at once share no block", runs_at_once_share_no_block},
      {"without memory they say so", without_memory_they_say_so},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("random", tests, &bench);
}
