/* tests/tools/observe/profile_test.c - sums by op and by node, rates, what bounds them, bytes that are no
 * statistics. */
#include "tools/observe/profile.h"

#include <math.h>
#include <string.h>

#include "protos/wire.h"
#include "tests/runner.h"
#include "worker/step_record.h"

#define CPU0 "/job:worker/replica:0/task:0/device:CPU:0"
#define CPU1 "/job:worker/replica:0/task:1/device:CPU:0"

typedef struct node {
  const char *name, *label;
  int64_t took_ns, input_bytes, output_bytes, flops; /* flops: -1: none */
} node_t;

static void put_device(weft_strbuf_t *out, const char *device, const node_t *nodes, int n) {
  size_t stats = weft_wire_begin(out, 1);
  weft_wire_put_text(out, 1, device);
  for (int i = 0; i < n; i++) {
    size_t node = weft_wire_begin(out, 2);
    weft_wire_put_text(out, 1, nodes[i].name);
    weft_wire_put_i64(out, 5, nodes[i].took_ns / 1000);
    size_t output = weft_wire_begin(out, 7), description = weft_wire_begin(out, 3),
           allocation = weft_wire_begin(out, 4);
    weft_wire_put_i64(out, 1, nodes[i].output_bytes);
    weft_wire_end(out, allocation);
    weft_wire_end(out, description);
    weft_wire_end(out, output);
    weft_wire_put_text(out, 8, nodes[i].label);
    weft_wire_put_i64(out, 16, nodes[i].took_ns);
    weft_wire_put_i64(out, WEFT_NODE_STATS_INPUT_BYTES, nodes[i].input_bytes);
    if (nodes[i].flops >= 0) weft_wire_put_i64(out, WEFT_NODE_STATS_FLOPS, nodes[i].flops);
    weft_wire_end(out, node);
  }
  weft_wire_end(out, stats);
}

static const node_t nodes0[] = {
    {"layer/a", "layer/a = MatMul(x, w)", 3000, 100, 50, 600},
    {"layer/b", "layer/b = MatMul(h, w)", 1000, 10, 5, 60},
    {"r", "r = Reshape(a)", 10, 7, 7, -1},
    {"RecvTensor", "[4B] [2Mb/s] edge_4_h from " CPU1 " to " CPU0, 500, 0, 4, -1},
};
static const node_t nodes1[] = {{"layer/a", "layer/a = MatMul(x, w)", 2000, 100, 50, 600}};

static weft_profile_t *profile_of(weft_profile_by_t by, int times) {
  weft_profile_t *p = NULL;
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(weft_profile_create(by, &p));
  put_device(&stats, CPU0, nodes0, 4);
  put_device(&stats, CPU1, nodes1, 1);
  CU_ASSERT_FALSE_FATAL(stats.failed);
  for (int i = 0; i < times; i++)
    CU_ASSERT_PTR_NULL(weft_profile_add(p, weft_str_of(stats.data, stats.length)));
  weft_strbuf_deinit(&stats);
  return p;
}

static void ops_of_each_device_are_added_up(void) {
  weft_profile_t *p = profile_of(WEFT_PROFILE_BY_OP, 2);
  int n = 0;
  const weft_profile_row_t *const *rows = weft_profile_rows(p, &n);
  CU_ASSERT_EQUAL_FATAL(n, 4);
  CU_ASSERT_TRUE(weft_str_is(rows[0]->device, CPU0));
  CU_ASSERT_TRUE(weft_str_is(rows[0]->op, "MatMul"));
  CU_ASSERT_EQUAL(rows[0]->name.length, 0);
  CU_ASSERT_EQUAL(rows[0]->count, 4);
  CU_ASSERT_EQUAL(rows[0]->time_ns, 8000);
  CU_ASSERT_EQUAL(rows[0]->longest_ns, 3000);
  CU_ASSERT_EQUAL(rows[0]->input_bytes, 220);
  CU_ASSERT_EQUAL(rows[0]->output_bytes, 110);
  CU_ASSERT_EQUAL(rows[0]->flops, 1320);
  CU_ASSERT_EQUAL(rows[0]->num_flops, 4);
  CU_ASSERT_TRUE(weft_str_is(rows[1]->device, CPU1));
  CU_ASSERT_EQUAL(rows[1]->time_ns, 4000);
  CU_ASSERT_TRUE(weft_str_is(rows[2]->op, "RecvTensor"));
  CU_ASSERT_EQUAL(rows[2]->num_flops, 0);
  CU_ASSERT_TRUE(rows[2]->moves_bytes);
  CU_ASSERT_TRUE(weft_str_is(rows[3]->op, "Reshape"));
  CU_ASSERT_FALSE(rows[3]->moves_bytes);
  weft_profile_destroy(p);
}

static void nodes_are_rows_of_their_own(void) {
  weft_profile_t *p = profile_of(WEFT_PROFILE_BY_NODE, 3);
  int n = 0;
  const weft_profile_row_t *const *rows = weft_profile_rows(p, &n);
  CU_ASSERT_EQUAL_FATAL(n, 5);
  CU_ASSERT_TRUE(weft_str_is(rows[0]->name, "layer/a"));
  CU_ASSERT_EQUAL(rows[0]->count, 3);
  CU_ASSERT_TRUE(weft_str_is(rows[2]->name, "layer/b"));
  CU_ASSERT_TRUE(weft_str_is(rows[3]->name, "edge_4_h"));
  CU_ASSERT_TRUE(weft_str_is(rows[3]->op, "RecvTensor"));
  /* It may go on after it was read. */
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  put_device(&stats, CPU1, nodes1, 1);
  for (int i = 0; i < 5; i++) CU_ASSERT_PTR_NULL(weft_profile_add(p, weft_str_of(stats.data, stats.length)));
  rows = weft_profile_rows(p, &n);
  CU_ASSERT_EQUAL(n, 5);
  CU_ASSERT_TRUE(weft_str_is(rows[0]->device, CPU1));
  CU_ASSERT_EQUAL(rows[0]->count, 8);
  weft_strbuf_deinit(&stats);
  weft_profile_destroy(p);
}

static void the_peak_that_is_closer_bounds(void) {
  static const struct {
    weft_profile_row_t row;
    double peak_flops, peak_bytes, share_flops, share_bytes;
    const char *bound;
  } cases[] = {
      {{.time_ns = 1000, .flops = 500, .num_flops = 1, .input_bytes = 20, .moves_bytes = true},
       1e9,
       1e9,
       .5,
       .02,
       "compute"},
      {{.time_ns = 1000, .flops = 500, .num_flops = 1, .input_bytes = 900, .moves_bytes = true},
       1e9,
       1e9,
       .5,
       .9,
       "memory"},
      {{.time_ns = 1000, .flops = 5, .num_flops = 1, .output_bytes = 5, .moves_bytes = true},
       1e9,
       1e9,
       .005,
       .005,
       "neither"},
      {{.time_ns = 1000, .flops = 500, .num_flops = 1, .input_bytes = 900},
       1e9,
       1e9,
       .5,
       -1,
       "compute"}, /* moves none */
      {{.time_ns = 1000, .input_bytes = 900, .moves_bytes = true}, 1e9, 1e9, -1, .9, "memory"}, /* not counted
                                                                                                 */
      {{.time_ns = 1000, .flops = 500, .num_flops = 1, .input_bytes = 900, .moves_bytes = true},
       0,
       0,
       -1,
       -1,
       "neither"},
      {{.time_ns = 0, .flops = 500, .num_flops = 1, .input_bytes = 900, .moves_bytes = true},
       1e9,
       1e9,
       -1,
       -1,
       "neither"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_profile_rates_t r = weft_profile_row_rates(&cases[i].row, cases[i].peak_flops, cases[i].peak_bytes);
    CU_ASSERT_TRUE(fabs(r.share_flops - cases[i].share_flops) < 1e-9);
    CU_ASSERT_TRUE(fabs(r.share_bytes - cases[i].share_bytes) < 1e-9);
    CU_ASSERT_STRING_EQUAL(weft_bound_name(r.bound), cases[i].bound);
  }
}

static void bytes_that_are_no_statistics_do_no_harm(void) {
  weft_profile_t *p = profile_of(WEFT_PROFILE_BY_NODE, 0);
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  put_device(&stats, CPU0, nodes0, 4);
  for (size_t cut = 0; cut < stats.length; cut++)
    CU_ASSERT_PTR_NULL(weft_profile_add(p, weft_str_of(stats.data, cut)));
  for (size_t i = 0; i < stats.length; i++) {
    stats.data[i] = (char)~stats.data[i];
    CU_ASSERT_PTR_NULL(weft_profile_add(p, weft_str_of(stats.data, stats.length)));
    stats.data[i] = (char)~stats.data[i];
  }
  int n = 0;
  (void)weft_profile_rows(p, &n);
  CU_ASSERT_TRUE(n > 0);
  weft_strbuf_deinit(&stats);
  weft_profile_destroy(p);
}

static void without_memory_it_says_so(void) {
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  put_device(&stats, CPU0, nodes0, 4);
  int n = 0;
  weft_profile_t *p = NULL;
  WEFT_FAIL_EACH_ALLOCATION(n, s,
                            (weft_profile_destroy(p), p = NULL, weft_profile_create(WEFT_PROFILE_BY_OP, &p)));
  CU_ASSERT_TRUE(n > 0);
  WEFT_FAIL_EACH_ALLOCATION(n, s, weft_profile_add(p, weft_str_of(stats.data, stats.length)));
  CU_ASSERT_TRUE(n > 3);
  weft_profile_destroy(p);
  weft_strbuf_deinit(&stats);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"ops of each device are added up", ops_of_each_device_are_added_up},
      {"nodes are rows of their own", nodes_are_rows_of_their_own},
      {"the peak that is closer bounds", the_peak_that_is_closer_bounds},
      {"bytes that are no statistics do no harm", bytes_that_are_no_statistics_do_no_harm},
      {"without memory it says so", without_memory_it_says_so},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("profile", tests);
}
