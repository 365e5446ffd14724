/* tests/client/partial_run_test.c - a step in pieces. */
#include "tests/client/client_testing.h"

typedef struct parts {
  world_t w;
  TF_Output a, b, first, second;
  const char *handle;
} parts_t;

static void prepare(parts_t *p) {
  world_open(&p->w);
  world_t *w = &p->w;
  p->a = placeholder(w, w->g, "a", TF_INT32);
  p->b = placeholder(w, w->g, "b", TF_INT32);
  TF_Output two = constant(w, w->g, "two", new_int(2));
  p->first = binary(w, w->g, "AddV2", "first", p->a, two);
  p->second = binary(w, w->g, "Mul", "second", p->first, p->b);
  TF_Tensor *warm = run1(w, (TF_Output){NULL, 0}, NULL, two);
  TF_DeleteTensor(warm);
  const TF_Output feeds[2] = {p->a, p->b}, fetches[2] = {p->first, p->second};
  TF_SessionPRunSetup(w->session, feeds, 2, fetches, 2, NULL, 0, &p->handle, w->s);
  ASSERT_OK(w);
}

static TF_Tensor *piece(parts_t *p, TF_Output feed, int32_t value, TF_Output fetch) {
  TF_Tensor *in = new_int(value), *out = NULL;
  TF_SessionPRun(p->w.session, p->handle, &feed, &in, 1, &fetch, &out, 1, NULL, 0, p->w.s);
  TF_DeleteTensor(in);
  return out;
}

static void pieces_share_one_step(void) {
  parts_t p;
  prepare(&p);
  TF_Tensor *t = piece(&p, p.a, 3, p.first);
  ASSERT_OK(&p.w);
  CU_ASSERT_EQUAL(int_at(t, 0), 5);
  TF_DeleteTensor(t);
  t = piece(&p, p.b, 10, p.second);
  ASSERT_OK(&p.w);
  CU_ASSERT_EQUAL(int_at(t, 0), 50);
  TF_DeleteTensor(t);
  CU_ASSERT_PTR_NULL(piece(&p, p.b, 10, p.second)); /* all is done: the handle is dead */
  ASSERT_FAILS(&p.w, TF_INVALID_ARGUMENT, "Must run 'setup' before performing partial runs!");
  TF_DeletePRunHandle(p.handle);
  world_close(&p.w);
}

static void a_fetch_waits_for_its_feeds(void) {
  parts_t p;
  prepare(&p);
  CU_ASSERT_PTR_NULL(piece(&p, p.a, 3, p.second));
  CU_ASSERT_EQUAL(TF_GetCode(p.w.s), TF_INVALID_ARGUMENT);
  TF_DeletePRunHandle(p.handle);
  world_close(&p.w);
}

static void outputs_that_are_not_there_are_refused(void) {
  parts_t p;
  prepare(&p);
  const TF_Output feed = {p.a.oper, 5}, fetch = {p.first.oper, 3};
  const char *handle = NULL;
  TF_SessionPRunSetup(p.w.session, &p.a, 1, &fetch, 1, NULL, 0, &handle, p.w.s);
  ASSERT_FAILS(&p.w, TF_INVALID_ARGUMENT, "FetchOutputs first:3: output index too large, must be < 1");
  TF_SessionPRunSetup(p.w.session, &feed, 1, &p.first, 1, NULL, 0, &handle, p.w.s);
  ASSERT_FAILS(&p.w, TF_INVALID_ARGUMENT, "FeedInputs: a:5 should have output index < 1");
  CU_ASSERT_PTR_NULL(piece(&p, p.a, 3, fetch));
  ASSERT_FAILS(&p.w, TF_INVALID_ARGUMENT, "The fetch first:3 was not specified in partial_run_setup.");
  CU_ASSERT_PTR_NULL(piece(&p, feed, 3, p.first));
  ASSERT_FAILS(&p.w, TF_INVALID_ARGUMENT, "The feed a:5 was not specified in partial_run_setup.");
  TF_DeletePRunHandle(p.handle);
  world_close(&p.w);
}

static void what_was_not_announced_is_refused(void) {
  parts_t p;
  prepare(&p);
  TF_Output stranger = placeholder(&p.w, p.w.g, "stranger", TF_INT32);
  CU_ASSERT_PTR_NULL(piece(&p, stranger, 3, p.first));
  CU_ASSERT_EQUAL(TF_GetCode(p.w.s), TF_INVALID_ARGUMENT);
  TF_DeletePRunHandle(p.handle);
  TF_DeletePRunHandle(NULL);
  world_close(&p.w);
}

static const CU_TestInfo tests[] = {
    {"pieces share one step", pieces_share_one_step},
    {"a fetch waits for its feeds", a_fetch_waits_for_its_feeds},
    {"what was not announced is refused", what_was_not_announced_is_refused},
    {"outputs that are not there are refused", outputs_that_are_not_there_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/partial_run", tests); }
