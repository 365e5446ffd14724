/* Weft's own collective operations, and the gradients of all, between four CPU devices of one local session.
 * What stock clients can say is tested with them, in tests/conformance/test_collectives.py. */
#include <stdarg.h>
#include <stdio.h>

#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "server/server.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

enum { MEMBERS = 4, MOST = 16 };

static weft_master_client_t *master;

/* ---- graphs as text: one member per device ---- */

typedef struct text {
  weft_strbuf_t b;
} text_t;

/* A float vector or matrix as a Const. */
static void put_const(text_t *t, const char *name, int i, int rows, int columns, const float *values) {
  weft_strbuf_printf(
      &t->b,
      "node{name:\"%s%d\" op:\"Const\" device:\"/cpu:%d\" attr{key:\"dtype\" value{type:DT_FLOAT}} "
      "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{dim{size:%d}",
      name, i, i, rows);
  if (columns > 0) weft_strbuf_printf(&t->b, " dim{size:%d}", columns);
  weft_strbuf_puts(&t->b, "}");
  for (int k = 0; k < rows * (columns > 0 ? columns : 1); k++)
    weft_strbuf_printf(&t->b, " float_val:%g", (double)values[k]);
  weft_strbuf_puts(&t->b, "}}}} ");
}

static void put_int_attr(text_t *t, const char *name, long long value) {
  weft_strbuf_printf(&t->b, "attr{key:\"%s\" value{i:%lld}} ", name, value);
}

/* A scalar that an op of the second form takes: inputs "size<i>", "group<i>", "instance<i>". */
static void put_key(text_t *t, const char *name, int i, int value) {
  weft_strbuf_printf(
      &t->b,
      "node{name:\"%s%d\" op:\"Const\" device:\"/cpu:%d\" attr{key:\"dtype\" value{type:DT_INT32}} "
      "attr{key:\"value\" value{tensor{dtype:DT_INT32 tensor_shape{} int_val:%d}}}} ",
      name, i, i, value);
}

/* Member i of a group of `n`: op(`x`i), with attributes besides those that all have. */
static void put_member(text_t *t, const char *name, const char *op, int i, int n, int instance,
                       const char *inputs, const char *attrs) {
  weft_strbuf_printf(&t->b, "node{name:\"%s%d\" op:\"%s\" device:\"/cpu:%d\" %s %s", name, i, op, i, inputs,
                     attrs);
  bool is_ours = strncmp(op, "Weft", 4) == 0, has_key_inputs = strstr(op, "V2") != NULL;
  if (!has_key_inputs) {
    put_int_attr(t, "group_size", n);
    put_int_attr(t, "group_key", n);
  }
  if (is_ours) put_int_attr(t, "rank", i);
  if (instance > 0 && !has_key_inputs) put_int_attr(t, "instance_key", instance);
  weft_strbuf_puts(&t->b, "attr{key:\"T\" value{type:DT_FLOAT}}} ");
  if (!has_key_inputs) return;
  put_key(t, "size", i, n);
  put_key(t, "group", i, n);
  put_key(t, "instance", i, instance);
}

static weft_status_t *open_text(text_t *t, weft_test_session_t *s) {
  CU_ASSERT_FALSE_FATAL(t->b.failed);
  weft_status_t *status = weft_test_open(master, t->b.data, "", s);
  weft_strbuf_deinit(&t->b);
  return status;
}

/* Runs "y0".."y<n-1>" (or another name) with all of `more`; the vectors come in got[i], their lengths in
 * lengths[i]. */
static weft_status_t *run_members(weft_test_session_t *s, const char *name, int n, float got[][MOST],
                                  int lengths[]) {
  char names[MEMBERS][32];
  weft_test_run_t run = {.partial = NULL};
  weft_test_step_t k = {.is_done = false};
  for (int i = 0; i < n; i++) {
    snprintf(names[i], sizeof names[i], "%s%d:0", name, i);
    run.fetches[i] = names[i];
  }
  run.options.timeout_ms = 15000;
  weft_test_step_begin(&k);
  weft_test_start(s, &run, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  for (int i = 0; status == NULL && i < n; i++) {
    lengths[i] = (int)k.fetches[i]->count;
    for (int e = 0; e < lengths[i] && e < MOST; e++) got[i][e] = ((const float *)k.fetches[i]->data)[e];
  }
  weft_test_step_deinit(&k);
  return status;
}

static void expect_vector(const float *got, int length, int wanted_length, ...) {
  va_list wanted;
  CU_ASSERT_EQUAL(length, wanted_length);
  va_start(wanted, wanted_length);
  for (int e = 0; e < wanted_length && e < length; e++)
    CU_ASSERT_DOUBLE_EQUAL(got[e], va_arg(wanted, double), 1e-5);
  va_end(wanted);
}

/* y<i> = op(x<i>) at every member, x<i> a vector of `rows` that begins with 10 i. */
static weft_test_session_t vectors(const char *op, int n, int instance, int rows, const char *attrs) {
  text_t t = {WEFT_STRBUF_INIT};
  weft_test_session_t s;
  for (int i = 0; i < n; i++) {
    float values[MOST];
    char inputs[64];
    for (int e = 0; e < rows; e++) values[e] = (float)(10 * i + e);
    put_const(&t, "x", i, rows, 0, values);
    snprintf(inputs, sizeof inputs, "input:\"x%d\"", i);
    put_member(&t, "y", op, i, n, instance, inputs, attrs);
  }
  weft_test_expect(open_text(&t, &s), WEFT_OK, "");
  return s;
}

static void close_session(weft_test_session_t *s) { weft_test_expect(weft_test_close(s), WEFT_OK, ""); }

/* ---- the ops ---- */

static void broadcast_gives_the_roots(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s = vectors("WeftCollectiveBroadcast", 4, 1, 2, "attr{key:\"root\" value{i:2}} ");
  weft_test_expect(run_members(&s, "y", 4, got, lengths), WEFT_OK, "");
  for (int i = 0; i < 4; i++) expect_vector(got[i], lengths[i], 2, 20.0, 21.0);
  close_session(&s);
}

static void scatter_gives_each_its_rows(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s = vectors("WeftCollectiveScatter", 4, 2, 8, "attr{key:\"root\" value{i:1}} ");
  weft_test_expect(run_members(&s, "y", 4, got, lengths), WEFT_OK, "");
  for (int i = 0; i < 4; i++) expect_vector(got[i], lengths[i], 2, 10.0 + 2 * i, 11.0 + 2 * i);
  close_session(&s);
}

static void gather_to_one_leaves_others_nothing(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s = vectors("WeftCollectiveGatherToOne", 3, 3, 2, "attr{key:\"root\" value{i:2}} ");
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_OK, "");
  CU_ASSERT_EQUAL(lengths[0], 0);
  CU_ASSERT_EQUAL(lengths[1], 0);
  expect_vector(got[2], lengths[2], 6, 0.0, 1.0, 10.0, 11.0, 20.0, 21.0);
  close_session(&s);
}

static void reduce_to_one_leaves_others_zeros(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s =
      vectors("WeftCollectiveReduceToOne", 4, 4, 3, "attr{key:\"final_op\" value{s:\"Div\"}} ");
  weft_test_expect(run_members(&s, "y", 4, got, lengths), WEFT_OK, "");
  expect_vector(got[0], lengths[0], 3, 15.0, 16.0, 17.0);
  for (int i = 1; i < 4; i++) expect_vector(got[i], lengths[i], 3, 0.0, 0.0, 0.0);
  close_session(&s);
}

static void permute_sends_round_and_gives_zeros(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s =
      vectors("WeftCollectivePermute", 3, 5, 2, "attr{key:\"targets\" value{list{i:1 i:2 i:0}}} ");
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_OK, "");
  expect_vector(got[0], lengths[0], 2, 20.0, 21.0);
  expect_vector(got[1], lengths[1], 2, 0.0, 1.0);
  expect_vector(got[2], lengths[2], 2, 10.0, 11.0);
  close_session(&s);
  s = vectors("WeftCollectivePermute", 3, 6, 2, "attr{key:\"targets\" value{list{i:1 i:2 i:-1}}} ");
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_OK, "");
  expect_vector(got[0], lengths[0], 2, 0.0, 0.0);
  expect_vector(got[2], lengths[2], 2, 10.0, 11.0);
  close_session(&s);
}

/* Member i sends i + j rows to member j. */
static weft_test_session_t all_to_all(int n, bool is_wrong) {
  text_t t = {WEFT_STRBUF_INIT};
  weft_test_session_t s;
  for (int i = 0; i < n; i++) {
    float values[MOST];
    char inputs[64];
    int rows = n * i + n * (n - 1) / 2;
    for (int e = 0; e < rows; e++) values[e] = (float)(100 * i + e);
    put_const(&t, "x", i, rows, 0, values);
    weft_strbuf_printf(
        &t.b,
        "node{name:\"splits%d\" op:\"Const\" device:\"/cpu:%d\" attr{key:\"dtype\" value{type:DT_INT64}} "
        "attr{key:\"value\" value{tensor{dtype:DT_INT64 tensor_shape{dim{size:%d}}",
        i, i, n);
    for (int j = 0; j < n; j++)
      weft_strbuf_printf(&t.b, " int64_val:%d", i + j + (is_wrong && i == 1 && j == 0));
    weft_strbuf_puts(&t.b, "}}}} ");
    snprintf(inputs, sizeof inputs, "input:\"x%d\" input:\"splits%d\"", i, i);
    put_member(&t, "y", "WeftCollectiveAllToAllV", i, n, 7, inputs, "");
  }
  weft_test_expect(open_text(&t, &s), WEFT_OK, "");
  return s;
}

static void all_to_all_by_splits(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s = all_to_all(3, false);
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_OK, "");
  expect_vector(got[0], lengths[0], 3, 100.0, 200.0, 201.0);
  expect_vector(got[1], lengths[1], 6, 0.0, 101.0, 102.0, 202.0, 203.0, 204.0);
  CU_ASSERT_EQUAL(lengths[2], 9);
  close_session(&s);
  s = all_to_all(3, true);
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_INVALID_ARGUMENT, "of the input's 6 rows");
  close_session(&s);
}

static void a_barrier_ends_when_all_have_come(void) {
  text_t t = {WEFT_STRBUF_INIT};
  weft_test_session_t s;
  char all[128] = "";
  for (int i = 0; i < 3; i++) {
    weft_strbuf_printf(&t.b, "node{name:\"b%d\" op:\"WeftCollectiveBarrier\" device:\"/cpu:%d\" ", i, i);
    put_int_attr(&t, "group_size", 3);
    put_int_attr(&t, "group_key", 3);
    put_int_attr(&t, "rank", i);
    put_int_attr(&t, "instance_key", 8);
    weft_strbuf_puts(&t.b, "} ");
    snprintf(all + strlen(all), sizeof all - strlen(all), "input:\"^b%d\" ", i);
  }
  weft_strbuf_printf(&t.b, "node{name:\"all\" op:\"NoOp\" %s} ", all);
  weft_test_expect(open_text(&t, &s), WEFT_OK, "");
  weft_test_target(&s, "all");
  weft_test_target(&s, "all");
  close_session(&s);
}

static void named_reductions_need_no_order(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s =
      vectors("WeftNamedAllReduce", 4, 0, 3, "attr{key:\"tensor_name\" value{s:\"gradient\"}} ");
  for (int step = 0; step < 5; step++) {
    weft_test_expect(run_members(&s, "y", 4, got, lengths), WEFT_OK, "");
    for (int i = 0; i < 4; i++) expect_vector(got[i], lengths[i], 3, 60.0, 64.0, 68.0);
  }
  close_session(&s);
  s = vectors("WeftNamedAllReduce", 4, 0, 1,
              "attr{key:\"tensor_name\" value{s:\"delta\"}} attr{key:\"adasum\" value{b:true}} ");
  weft_test_expect(run_members(&s, "y", 4, got, lengths), WEFT_OK, "");
  for (int i = 1; i < 4; i++) CU_ASSERT_EQUAL(got[i][0], got[0][0]);
  close_session(&s);
}

static void a_named_reduction_can_be_cancelled(void) {
  weft_test_session_t s =
      vectors("WeftNamedAllReduce", 2, 0, 1, "attr{key:\"tensor_name\" value{s:\"never\"}} ");
  weft_test_run_t run = {.fetches = {"y0:0"}, .options = {.timeout_ms = 300}};
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_DEADLINE_EXCEEDED, "");
  close_session(&s);
}

/* ---- what is refused ---- */

static void expect_bad(const char *op, const char *attrs, const char *message) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  weft_test_session_t s = vectors(op, 3, 9, 3, attrs);
  weft_test_expect(run_members(&s, "y", 3, got, lengths), WEFT_INVALID_ARGUMENT, message);
  close_session(&s);
}

static void bad_attributes_are_refused(void) {
  expect_bad("WeftCollectiveBroadcast", "attr{key:\"root\" value{i:3}} ",
             "root must be a rank of a group of 3 but is 3");
  expect_bad("WeftCollectivePermute", "attr{key:\"targets\" value{list{i:1 i:2}}} ",
             "2 targets for a group of 3");
  expect_bad("WeftCollectivePermute", "attr{key:\"targets\" value{list{i:1 i:1 i:0}}} ",
             "sends both rank 0 and rank 1 to rank 1");
  expect_bad("WeftCollectivePermute", "attr{key:\"targets\" value{list{i:7 i:1 i:0}}} ",
             "a target must be a rank of a group of 3 but is 7");
}

/* ---- gradients of the sum of w<i> * y<i>, with respect to x<i> ---- */

static weft_status_t *with_gradients(text_t *t, int n, weft_strbuf_t *out) {
  weft_graph_t *g = weft_test_graph(t->b.data);
  weft_output_t ys[MEMBERS], xs[MEMBERS], dys[MEMBERS], dxs[MEMBERS];
  char name[32];
  weft_strbuf_deinit(&t->b);
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "y%d", i);
    ys[i] = (weft_output_t){weft_test_node(g, name), 0};
    snprintf(name, sizeof name, "x%d", i);
    xs[i] = (weft_output_t){weft_test_node(g, name), 0};
    snprintf(name, sizeof name, "w%d", i);
    dys[i] = (weft_output_t){weft_test_node(g, name), 0};
  }
  weft_status_t *s = weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, ys, n, xs, n, dys, dxs);
  for (int i = 0; s == NULL && i < n; i++) {
    weft_node_t *node = NULL;
    weft_named_attr_t type = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
    snprintf(name, sizeof name, "dx%d", i);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dxs[i].node);
    weft_node_spec_t spec = {.name = weft_str(name),
                             .op = WEFT_STR("Identity"),
                             .inputs = &dxs[i],
                             .num_inputs = 1,
                             .attrs = &type,
                             .num_attrs = 1};
    s = weft_graph_add(g, &spec, &node);
  }
  if (s == NULL) s = weft_graph_export(g, false, out);
  weft_graph_destroy(g);
  return s;
}

/* Members of `op` with x<i> of x_rows and w<i> of w_rows[i] rows; w<i> begins with 10 i + 1. */
static void gradients_of(const char *op, int n, int instance, int x_rows, const int *w_rows,
                         const char *attrs, float got[][MOST], int lengths[]) {
  text_t t = {WEFT_STRBUF_INIT};
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  weft_test_session_t s;
  for (int i = 0; i < n; i++) {
    float x[MOST], w[MOST];
    char inputs[128];
    for (int e = 0; e < MOST; e++) {
      x[e] = (float)(e + i);
      w[e] = (float)(10 * i + e + 1);
    }
    put_const(&t, "x", i, x_rows, 0, x);
    put_const(&t, "w", i, w_rows[i], 0, w);
    snprintf(inputs, sizeof inputs, "input:\"x%d\"", i);
    if (strstr(op, "V2") != NULL) {
      snprintf(inputs, sizeof inputs, "input:\"x%d\" input:\"size%d\" input:\"group%d\" input:\"instance%d\"",
               i, i, i, i);
    }
    put_member(&t, "y", op, i, n, instance, inputs, attrs);
  }
  weft_test_expect(with_gradients(&t, n, &def), WEFT_OK, "");
  weft_test_expect(weft_test_open_bytes(master, weft_str_of(def.data, def.length), "", &s), WEFT_OK, "");
  weft_strbuf_deinit(&def);
  weft_test_expect(run_members(&s, "dx", n, got, lengths), WEFT_OK, "");
  close_session(&s);
}

#define ADD(final) "attr{key:\"merge_op\" value{s:\"Add\"}} attr{key:\"final_op\" value{s:\"" final "\"}} "
#define OFFSETS "attr{key:\"subdiv_offsets\" value{list{i:0}}} "

static void gradients_of_reductions(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  static const int two[] = {2, 2, 2};
  gradients_of("CollectiveReduce", 2, 20, 2, two, ADD("Id") OFFSETS, got, lengths);
  expect_vector(got[0], lengths[0], 2, 1.0, 2.0);
  expect_vector(got[1], lengths[1], 2, 11.0, 12.0);
  gradients_of("CollectiveReduceV2", 2, 21, 2, two, ADD("Div"), got, lengths);
  expect_vector(got[1], lengths[1], 2, 5.5, 6.0);
  gradients_of("CollectiveReduceV2", 2, 22, 2, two,
               "attr{key:\"merge_op\" value{s:\"Max\"}} attr{key:\"final_op\" value{s:\"Id\"}} ", got,
               lengths);
  expect_vector(got[0], lengths[0], 2, 0.0, 0.0);
  expect_vector(got[1], lengths[1], 2, 11.0, 12.0);
  gradients_of("WeftCollectiveReduceToOne", 2, 23, 2, two, "attr{key:\"root\" value{i:1}} ", got, lengths);
  expect_vector(got[0], lengths[0], 2, 11.0, 12.0);
  expect_vector(got[1], lengths[1], 2, 11.0, 12.0);
  gradients_of("WeftNamedAllReduce", 2, 0, 2, two, "attr{key:\"tensor_name\" value{s:\"g\"}} ", got, lengths);
  expect_vector(got[0], lengths[0], 2, 1.0, 2.0);
}

static void gradients_of_what_moves(void) {
  float got[MEMBERS][MOST];
  int lengths[MEMBERS];
  static const int four[] = {4, 4}, two[] = {2, 2}, at_root[] = {4, 0}, three[] = {3, 3, 3};
  gradients_of("CollectiveGather", 2, 24, 2, four, "attr{key:\"shape\" value{shape{dim{size:4}}}} ", got,
               lengths);
  expect_vector(got[0], lengths[0], 2, 12.0, 14.0);
  expect_vector(got[1], lengths[1], 2, 16.0, 18.0);
  gradients_of("CollectiveReduceScatterV2", 2, 25, 4, two, ADD("Id"), got, lengths);
  for (int i = 0; i < 2; i++) expect_vector(got[i], lengths[i], 4, 1.0, 2.0, 11.0, 12.0);
  gradients_of("CollectiveAllToAllV2", 2, 26, 2, two, "", got, lengths);
  expect_vector(got[0], lengths[0], 2, 1.0, 11.0);
  expect_vector(got[1], lengths[1], 2, 2.0, 12.0);
  gradients_of("WeftCollectiveBroadcast", 2, 27, 2, two, "", got, lengths);
  expect_vector(got[0], lengths[0], 2, 12.0, 14.0);
  expect_vector(got[1], lengths[1], 2, 0.0, 0.0);
  gradients_of("WeftCollectiveGatherToOne", 2, 28, 2, at_root, "", got, lengths);
  expect_vector(got[0], lengths[0], 2, 1.0, 2.0);
  expect_vector(got[1], lengths[1], 2, 3.0, 4.0);
  gradients_of("WeftCollectiveScatter", 2, 29, 4, two, "", got, lengths);
  expect_vector(got[0], lengths[0], 4, 1.0, 2.0, 11.0, 12.0);
  expect_vector(got[1], lengths[1], 4, 0.0, 0.0, 0.0, 0.0);
  gradients_of("WeftCollectivePermute", 3, 30, 3, three, "attr{key:\"targets\" value{list{i:1 i:2 i:0}}} ",
               got, lengths);
  expect_vector(got[0], lengths[0], 3, 11.0, 12.0, 13.0);
  expect_vector(got[1], lengths[1], 3, 21.0, 22.0, 23.0);
  expect_vector(got[2], lengths[2], 3, 1.0, 2.0, 3.0);
}

static const CU_TestInfo tests[] = {
    {"broadcast gives the root's", broadcast_gives_the_roots},
    {"scatter gives each its rows", scatter_gives_each_its_rows},
    {"gather to one leaves others nothing", gather_to_one_leaves_others_nothing},
    {"reduce to one leaves others zeros", reduce_to_one_leaves_others_zeros},
    {"permute sends round and gives zeros", permute_sends_round_and_gives_zeros},
    {"all to all by splits", all_to_all_by_splits},
    {"a barrier ends when all have come", a_barrier_ends_when_all_have_come},
    {"named reductions need no order", named_reductions_need_no_order},
    {"a named reduction can be cancelled", a_named_reduction_can_be_cancelled},
    {"bad attributes are refused", bad_attributes_are_refused},
    {"gradients of reductions", gradients_of_reductions},
    {"gradients of what moves", gradients_of_what_moves},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_status_t *s = weft_local_master_create(2, MEMBERS, NULL, &master);
  if (s != NULL) {
    fprintf(stderr, "%s\n", weft_status_message(s));
    weft_status_free(s);
    return 1;
  }
  int failed = weft_run_tests("collective", tests);
  weft_master_client_release(master);
  return failed;
}
