/* A worker as its master and its peers see it: sessions, registered graphs, steps and what is left of them.
 */
#include "worker/worker.h"

#include <stdio.h>

#include "graph/passes.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"
#include "worker/worker_impl.h"

#define TASK "/job:w/replica:0/task:0"
#define DEVICE TASK "/device:CPU:0"
#define PEER "/job:w/replica:0/task:1/device:CPU:0"
#define KEY_ATTRS(name, from, to)                                                            \
  "attr{key:\"tensor_name\" value{s:\"" name "\"}} attr{key:\"send_device\" value{s:\"" from \
  "\"}} "                                                                                    \
  "attr{key:\"recv_device\" value{s:\"" to "\"}} attr{key:\"send_device_incarnation\" value{i:0}} "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
#define APART T "attr{key:\"" WEFT_NO_CHAIN_ATTR "\" value{b:true}} " /* no link of a chain */
#define RECV(name, from, to) \
  "node{name:\"r_" name      \
  "\" op:\"_Recv\" " KEY_ATTRS(name, from, to) "attr{key:\"tensor_type\" value{type:DT_FLOAT}}} "
#define CLIENT "attr{key:\"client_terminated\" value{b:true}} "
#define SEND(name, input, from, to) \
  "node{name:\"s_" name "\" op:\"_Send\" input:\"" input "\" " KEY_ATTRS(name, from, to) T "} "

/* in -> Neg -> out, both for the master; and one for a peer */
static const char through[] =
    RECV("in", DEVICE, DEVICE) "node{name:\"n\" op:\"Neg\" input:\"r_in\" " T
                               "} " SEND("out", "n", DEVICE, DEVICE) SEND("peer", "n", DEVICE, PEER);

typedef struct fixture {
  weft_worker_t *worker;
  weft_worker_client_t *client;
  char in[256], out[256], peer[256];
} fixture_t;

static void ok(weft_status_t *s) { weft_test_expect(s, WEFT_OK, ""); }

static void begin(fixture_t *f) {
  weft_worker_options_t o = {.task = WEFT_STR(TASK), .num_threads = 2};
  *f = (fixture_t){.worker = NULL};
  ok(weft_worker_create(&o, &f->worker));
  ok(weft_local_worker_client_create(f->worker, &f->client));
  /* the graph's attributes say incarnation 0; peers must say the real one */
  snprintf(f->in, sizeof f->in, DEVICE ";%016x;" DEVICE ";in;0:0", 0);
  snprintf(f->out, sizeof f->out, DEVICE ";%016x;" DEVICE ";out;0:0", 0);
  snprintf(f->peer, sizeof f->peer, DEVICE ";%016llx;" PEER ";peer;0:0",
           (unsigned long long)weft_worker_device(f->worker)->incarnation);
}

static size_t num_steps(fixture_t *f) {
  weft_mutex_lock(&f->worker->steps.mu);
  size_t n = f->worker->steps.steps.count;
  weft_mutex_unlock(&f->worker->steps.mu);
  return n;
}

static size_t num_sessions(fixture_t *f) {
  weft_mutex_lock(&f->worker->mu);
  size_t n = f->worker->sessions.count;
  weft_mutex_unlock(&f->worker->mu);
  return n;
}

static void finish(fixture_t *f) {
  CU_ASSERT_EQUAL(num_steps(f), 0);
  weft_worker_destroy(f->worker);
  weft_worker_client_release(f->client);
}

static void make_session(fixture_t *f, const char *handle, const char *master, int64_t incarnation) {
  weft_worker_session_spec_t spec = {
      .session = weft_str(handle), .master_task = weft_str(master), .master_incarnation = incarnation};
  weft_test_step_t k;
  weft_test_step_begin(&k);
  f->client->ops->create_session(f->client, &spec, weft_test_on_done, &k);
  ok(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
}

static weft_graph_t *import(const char *text) {
  weft_strbuf_t def = weft_test_graph_def(text);
  weft_import_options_t options = {.allow_internal_ops = true};
  weft_graph_t *g = NULL;
  ok(weft_graph_create(&g));
  ok(weft_graph_import(g, weft_str_of(def.data, def.length), &options));
  weft_strbuf_deinit(&def);
  for (int i = 0; i < g->num_nodes; i++)
    g->nodes[i]->assigned_device = weft_graph_intern(g, WEFT_STR(DEVICE));
  return g;
}

static weft_status_t *enter_kept(fixture_t *f, const char *session, const char *text, bool keeps_graph,
                                 char handle[64]) {
  weft_test_step_t k;
  weft_test_step_begin(&k);
  f->client->ops->register_graph(f->client, weft_str(session), import(text), keeps_graph, weft_test_on_text,
                                 &k);
  weft_status_t *s = weft_test_step_wait(&k);
  memcpy(handle, k.text, sizeof k.text);
  weft_test_step_deinit(&k);
  return s;
}

static weft_status_t *enter(fixture_t *f, const char *session, const char *text, char handle[64]) {
  return enter_kept(f, session, text, false, handle);
}

static void on_run(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  weft_run_step_result_t r = {0};
  if (status == NULL)
    r = (weft_run_step_result_t){.fetches = result->recvs, .num_fetches = result->num_recvs};
  weft_test_on_run(arg, status, &r);
}

static void start(fixture_t *f, const char *session, const char *graph, int64_t step, const float *in,
                  weft_canceller_t *c, weft_test_step_t *k) {
  weft_tensor_t *t = NULL;
  if (in != NULL) ok(weft_tensor_scalar(WEFT_F32, in, &t));
  weft_named_tensor_t send = {weft_str(f->in), t};
  weft_str_t out = weft_str(f->out);
  weft_run_graph_t run = {.session = weft_str(session),
                          .graph_handle = weft_str(graph),
                          .step_id = step,
                          .sends = &send,
                          .num_sends = in != NULL};
  weft_test_step_begin(k);
  k->feeds[0] = t;
  /* keys are lent until the end: this one lives in the fixture, the array in the step */
  static weft_str_t keys[1];
  keys[0] = out;
  run.recv_keys = keys;
  run.num_recvs = 1;
  f->client->ops->run_graph(f->client, &run, c, on_run, k);
}

static void clean(fixture_t *f, int64_t step) {
  weft_test_step_t k;
  weft_test_step_begin(&k);
  f->client->ops->cleanup_graph(f->client, step, weft_test_on_done, &k);
  ok(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
}

typedef struct received {
  weft_test_step_t step;
  float value;
  bool has_value;
} received_t;

static void on_tensor(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  received_t *r = arg;
  r->has_value = tensor != NULL && !is_dead;
  if (r->has_value) r->value = *(const float *)tensor->data;
  weft_tensor_release(tensor);
  weft_test_on_done(&r->step, status);
}

static void receive(fixture_t *f, int64_t step, const char *key, weft_canceller_t *c, received_t *r) {
  *r = (received_t){.value = 0};
  weft_test_step_begin(&r->step);
  f->client->ops->recv_tensor(f->client, step, weft_key(weft_str(key)), c, on_tensor, r);
}

/* ---- tests ---- */

static void a_graph_runs_between_its_feeds_and_fetches(void) {
  fixture_t f;
  char graph[64];
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter(&f, "s", through, graph));
  for (int64_t step = 1; step <= 3; step++) {
    weft_test_step_t k;
    float in = (float)step;
    start(&f, "s", graph, step, &in, NULL, &k);
    ok(weft_test_step_wait(&k));
    CU_ASSERT_EQUAL(*(const float *)k.fetches[0]->data, -in);
    weft_test_step_deinit(&k);
    CU_ASSERT_EQUAL(num_steps(&f), 1); /* what it sent to a peer waits there */
    clean(&f, step);
    clean(&f, step); /* twice is fine */
  }
  finish(&f);
}

static void peers_may_ask_before_or_after(void) {
  fixture_t f;
  char graph[64];
  received_t early, late;
  weft_test_step_t k;
  float in = 5;
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  char text[4096];
  snprintf(text, sizeof text,
           "node{name:\"r_in\" op:\"_Recv\" " KEY_ATTRS("in", DEVICE, DEVICE) CLIENT
           "attr{key:\"tensor_type\" value{type:DT_FLOAT}}} "
           "node{name:\"n\" op:\"Neg\" input:\"r_in\" " T
           "} node{name:\"s_out\" op:\"_Send\" input:\"n\" " KEY_ATTRS("out", DEVICE, DEVICE) CLIENT T
           "} "
           "node{name:\"s_peer\" op:\"_Send\" input:\"n\" attr{key:\"tensor_name\" value{s:\"peer\"}} "
           "attr{key:\"send_device\" value{s:\"" DEVICE
           "\"}} "
           "attr{key:\"recv_device\" value{s:\"" PEER
           "\"}} attr{key:\"send_device_incarnation\" value{i:%lld}} " T "} ",
           (long long)weft_worker_device(f.worker)->incarnation);
  ok(enter(&f, "s", text, graph));
  receive(&f, 7, f.peer, NULL, &early);
  CU_ASSERT_FALSE(weft_test_step_is_done(&early.step));
  start(&f, "s", graph, 7, &in, NULL, &k);
  ok(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
  ok(weft_test_step_wait(&early.step));
  CU_ASSERT_TRUE(early.has_value && early.value == -5);
  weft_test_step_deinit(&early.step);
  CU_ASSERT_EQUAL(num_steps(&f), 0); /* it has ended by itself */
  start(&f, "s", graph, 8, &in, NULL, &k);
  ok(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
  CU_ASSERT_EQUAL(num_steps(&f), 1); /* what it sent to the peer waits there */
  receive(&f, 8, f.peer, NULL, &late);
  CU_ASSERT_EQUAL(num_steps(&f), 0);
  ok(weft_test_step_wait(&late.step));
  CU_ASSERT_TRUE(late.has_value && late.value == -5);
  weft_test_step_deinit(&late.step);
  clean(&f, 8); /* fine, too */
  finish(&f);
}

static void a_peer_that_gives_up_leaves_no_step_behind(void) {
  fixture_t f;
  received_t r;
  weft_canceller_t *c = weft_canceller_create(NULL);
  begin(&f);
  receive(&f, 7, f.peer, c, &r);
  CU_ASSERT_EQUAL(num_steps(&f), 1);
  weft_canceller_cancel(c);
  weft_test_expect(weft_test_step_wait(&r.step), WEFT_CANCELLED, "");
  weft_test_step_deinit(&r.step);
  weft_canceller_release(c);
  finish(&f);
}

static void cleaning_up_aborts_waiting_receives(void) {
  fixture_t f;
  received_t r;
  begin(&f);
  receive(&f, 7, f.peer, NULL, &r);
  clean(&f, 7);
  weft_test_expect(weft_test_step_wait(&r.step), WEFT_ABORTED, "Cleanup 7");
  weft_test_step_deinit(&r.step);
  finish(&f);
}

static void keys_of_others_are_refused(void) {
  fixture_t f;
  received_t r;
  begin(&f);
  const struct {
    const char *key;
    weft_code_t code;
    const char *text;
  } cases[] = {{"nonsense", WEFT_INVALID_ARGUMENT, "rendezvous key: nonsense"},
               {"", WEFT_INVALID_ARGUMENT, "rendezvous key"},
               {PEER ";0000000000000001;" DEVICE ";x;0:0", WEFT_ABORTED, "different device incarnation"},
               {DEVICE ";0000000000000001;" PEER ";x;0:0", WEFT_ABORTED,
                "RecvTensor expects a different device incarnation: 1 vs. "}};
  for (int i = 0; i < 4; i++) {
    receive(&f, 7, cases[i].key, NULL, &r);
    weft_test_expect(weft_test_step_wait(&r.step), cases[i].code, cases[i].text);
    weft_test_step_deinit(&r.step);
  }
  finish(&f);
}

static void unknown_handles_are_aborted(void) {
  fixture_t f;
  char graph[64];
  weft_test_step_t k;
  begin(&f);
  weft_test_expect(enter(&f, "absent", through, graph), WEFT_ABORTED, "absent");
  make_session(&f, "s", "/job:m", 1);
  start(&f, "s", "nothing", 1, NULL, NULL, &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_ABORTED, "nothing");
  weft_test_step_deinit(&k);
  start(&f, "absent", "nothing", 1, NULL, NULL, &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_ABORTED, "absent");
  weft_test_step_deinit(&k);
  finish(&f);
}

/* Marked as a client's, values go by place. Steps with other names go through the rendezvous, before and
 * after; steps that used nothing by name are kept for later ones. */
static void a_client_s_values_go_by_place(void) {
  static const char text[] = "node{name:\"r_in\" op:\"_Recv\" " KEY_ATTRS("in", DEVICE, DEVICE) CLIENT
      "attr{key:\"tensor_type\" value{type:DT_FLOAT}}} node{name:\"n\" op:\"Neg\" input:\"r_in\" " T
      "} "
      "node{name:\"s_out\" op:\"_Send\" input:\"n\" " KEY_ATTRS("out", DEVICE, DEVICE) CLIENT T "}";
  fixture_t f;
  char graph[64];
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter(&f, "s", text, graph));
  for (int64_t step = 1; step <= 6; step++) {
    weft_test_step_t k;
    const bool has_feed = step % 3 != 0;
    float in = (float)step;
    start(&f, "s", graph, step, has_feed ? &in : NULL, NULL, &k);
    if (!has_feed) { /* it comes later, by name */
      CU_ASSERT_FALSE(weft_test_step_is_done(&k));
      weft_worker_step_t *late = weft_step_table_find(&f.worker->steps, step);
      CU_ASSERT_PTR_NOT_NULL_FATAL(late);
      weft_tensor_t *t = NULL;
      ok(weft_tensor_scalar(WEFT_F32, &in, &t));
      ok(weft_rendezvous_send(late->rendezvous, weft_key(weft_str(f.in)), t, false));
      weft_tensor_release(t);
      weft_worker_step_release(late);
    }
    ok(weft_test_step_wait(&k));
    CU_ASSERT_EQUAL(*(const float *)k.fetches[0]->data, -in);
    weft_test_step_deinit(&k);
    clean(&f, step);
  }
  finish(&f);
}

typedef struct recorded {
  weft_test_step_t step;
  weft_strbuf_t stats;
  int num_graphs;
} recorded_t;

static void on_recorded(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  recorded_t *r = arg;
  if (result != NULL) weft_strbuf_append(&r->stats, result->step_stats);
  if (result != NULL) r->num_graphs = result->num_partition_graphs;
  weft_test_on_done(&r->step, status);
}

static weft_status_t *record(fixture_t *f, const char *graph, int64_t step, bool records_graphs,
                             recorded_t *r) {
  const weft_run_graph_t run = {.session = WEFT_STR("s"),
                                .graph_handle = weft_str(graph),
                                .step_id = step,
                                .record_timeline = true,
                                .record_partition_graphs = records_graphs};
  *r = (recorded_t){.stats = WEFT_STRBUF_INIT};
  weft_test_step_begin(&r->step);
  f->client->ops->run_graph(f->client, &run, NULL, on_recorded, r);
  weft_status_t *s = weft_test_step_wait(&r->step);
  weft_test_step_deinit(&r->step);
  clean(f, step);
  return s;
}

static bool has_text(const weft_strbuf_t *b, const char *text) {
  const size_t n = strlen(text);
  for (size_t at = 0; at + n <= b->length; at++) {
    if (memcmp(b->data + at, text, n) == 0) return true;
  }
  return false;
}

/* What a graph says of a step is known without it; the graph itself only where it was kept. */
static void statistics_name_inputs_and_graphs_are_there_if_kept(void) {
  static const char text[] =
      "node{name:\"x\" op:\"Const\" attr{key:\"dtype\" value{type:DT_FLOAT}} "
      "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:2}}}} "
      "node{name:\"p\" op:\"Const\" attr{key:\"dtype\" value{type:DT_BOOL}} "
      "attr{key:\"value\" value{tensor{dtype:DT_BOOL tensor_shape{} bool_val:true}}}} "
      "node{name:\"sw\" op:\"Switch\" input:\"x\" input:\"p\" " T
      "} "
      "node{name:\"a\" op:\"AddV2\" input:\"sw:1\" input:\"x\" " APART
      "} "
      "node{name:\"b\" op:\"Neg\" input:\"a\" input:\"^x\" " APART "} ";
  fixture_t f;
  char dropped[64], kept[64];
  recorded_t r;
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter_kept(&f, "s", text, false, dropped));
  ok(enter_kept(&f, "s", text, true, kept));
  ok(record(&f, dropped, 1, false, &r));
  CU_ASSERT_TRUE(has_text(&r.stats, "sw = Switch(x, p)"));
  CU_ASSERT_TRUE(has_text(&r.stats, "a = AddV2(sw:1, x)"));
  CU_ASSERT_TRUE(has_text(&r.stats, "b = Neg(a)"));
  weft_strbuf_deinit(&r.stats);
  weft_test_expect(record(&f, dropped, 2, true, &r), WEFT_FAILED_PRECONDITION, "without being kept");
  weft_strbuf_deinit(&r.stats);
  ok(record(&f, kept, 3, true, &r));
  CU_ASSERT_EQUAL(r.num_graphs, 1);
  CU_ASSERT_TRUE(has_text(&r.stats, "a = AddV2(sw:1, x)"));
  weft_strbuf_deinit(&r.stats);
  finish(&f);
}

static void a_run_whose_caller_is_gone_ends_and_leaves_nothing(void) {
  fixture_t f;
  char graph[64];
  weft_test_step_t k;
  weft_canceller_t *c = weft_canceller_create(NULL);
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter(&f, "s", through, graph));
  start(&f, "s", graph, 9, NULL, c, &k); /* its feed never comes */
  CU_ASSERT_FALSE(weft_test_step_is_done(&k));
  weft_canceller_cancel(c);
  weft_status_t *s = weft_test_step_wait(&k);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  CU_ASSERT_TRUE(weft_status_is_derived(s));
  weft_status_free(s);
  weft_test_step_deinit(&k);
  weft_canceller_release(c);
  while (num_steps(&f) >
         0) { /* the answer comes a moment before the step is dropped; a CleanupGraph never will */
  }
  finish(&f);
}

static void a_master_that_was_restarted_loses_its_old_sessions(void) {
  fixture_t f;
  begin(&f);
  make_session(&f, "a", "/job:m/replica:0/task:0", 1);
  make_session(&f, "b", "/job:m/replica:0/task:0", 1);
  make_session(&f, "c", "/job:m/replica:0/task:1", 7);
  CU_ASSERT_EQUAL(num_sessions(&f), 3);
  make_session(&f, "d", "/job:m/replica:0/task:0", 2);
  CU_ASSERT_EQUAL(num_sessions(&f), 2);
  finish(&f);
}

static void a_session_that_is_deleted_while_it_runs_goes_on_to_the_end(void) {
  fixture_t f;
  char graph[64];
  weft_test_step_t k, gone;
  float in = 1;
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter(&f, "s", through, graph));
  start(&f, "s", graph, 3, NULL, NULL, &k);
  weft_test_step_begin(&gone);
  f.client->ops->delete_session(f.client, WEFT_STR("s"), weft_test_on_done, &gone);
  ok(weft_test_step_wait(&gone));
  weft_test_step_deinit(&gone);
  weft_worker_step_t *step = weft_step_table_find(&f.worker->steps, 3);
  CU_ASSERT_PTR_NOT_NULL_FATAL(step);
  weft_tensor_t *t = NULL;
  ok(weft_tensor_scalar(WEFT_F32, &in, &t));
  ok(weft_rendezvous_send(step->rendezvous, weft_key(weft_str(f.in)), t, false)); /* the feed, late */
  ok(weft_test_step_wait(&k));
  CU_ASSERT_EQUAL(*(const float *)k.fetches[0]->data, -1);
  weft_test_step_deinit(&k);
  weft_tensor_release(t);
  weft_worker_step_release(step);
  clean(&f, 3);
  finish(&f);
}

static void a_worker_that_stops_ends_what_runs(void) {
  fixture_t f;
  char graph[64];
  weft_test_step_t k, late;
  received_t r;
  begin(&f);
  make_session(&f, "s", "/job:m", 1);
  ok(enter(&f, "s", through, graph));
  start(&f, "s", graph, 3, NULL, NULL, &k);
  receive(&f, 4, f.peer, NULL, &r);
  weft_worker_stop(f.worker);
  weft_status_t *s = weft_test_step_wait(&k);
  CU_ASSERT_NOT_EQUAL(weft_status_code(s), WEFT_OK);
  weft_status_free(s);
  weft_test_step_deinit(&k);
  weft_test_expect(weft_test_step_wait(&r.step), WEFT_UNAVAILABLE, "shut down");
  weft_test_step_deinit(&r.step);
  start(&f, "s", graph, 5, NULL, NULL, &late);
  weft_test_expect(weft_test_step_wait(&late), WEFT_UNAVAILABLE, "shut down");
  weft_test_step_deinit(&late);
  finish(&f);
}

/* ---- observers ---- */

typedef struct told {
  weft_mutex_t mu;
  weft_cond_t changed;
  int answers; /* guarded by mu, like the rest */
  weft_code_t code, last_code;
  int num_records, num_ended, num_partial;
  int64_t step, partial;
  bool has_costs, names_node;
  double peak_flops, peak_bytes;
} told_t;

static bool holds(weft_str_t text, const char *part) {
  size_t n = strlen(part);
  for (size_t i = 0; i + n <= text.length; i++) {
    if (memcmp(text.data + i, part, n) == 0) return true;
  }
  return false;
}

static void on_told(void *arg, weft_status_t *status, const weft_record_answer_t *a) {
  told_t *t = arg;
  weft_mutex_lock(&t->mu);
  t->code = weft_status_code(status);
  weft_status_free(status);
  for (int i = 0; a != NULL && i < a->num_records; i++) {
    t->num_records++;
    t->step = a->records[i].step_id;
    t->last_code = a->records[i].code;
    t->names_node = holds(a->records[i].step_stats, "n = Neg(r_in)");
    t->has_costs = holds(a->records[i].step_stats, "\xc8\x3e\x04\xd0\x3e\x01"); /* 1001: 4 bytes; 1002: 1 */
  }
  if (a != NULL) {
    t->num_ended += a->num_ended_steps;
    t->num_partial += a->num_partial_steps;
    if (a->num_partial_steps > 0) t->partial = a->partial_steps[0];
    t->peak_flops = a->peak_flops;
    t->peak_bytes = a->peak_bytes;
  }
  t->answers++;
  weft_cond_broadcast(&t->changed);
  weft_mutex_unlock(&t->mu);
}

static void observe(fixture_t *f, const weft_record_request_t *r, told_t *t) {
  weft_mutex_lock(&t->mu);
  int before = t->answers;
  weft_mutex_unlock(&t->mu);
  f->client->ops->record(f->client, r, NULL, on_told, t);
  weft_mutex_lock(&t->mu);
  while (t->answers == before)
    weft_cond_wait(&t->changed, &t->mu); /* woken by on_told; the test's limit ends it */
  weft_mutex_unlock(&t->mu);
}

static void told_begin(told_t *t) {
  *t = (told_t){.answers = 0};
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->changed);
}
static void told_end(told_t *t) {
  weft_cond_deinit(&t->changed);
  weft_mutex_deinit(&t->mu);
}

#define OBSERVER .observer = {"me", 2}

static void runs_are_told_to_observers(void) {
  fixture_t f;
  told_t t;
  weft_test_step_t k;
  char graph[64];
  const float two = 2;
  begin(&f);
  told_begin(&t);
  make_session(&f, "s", "", 1);
  ok(enter(&f, "s", through, graph));
  /* One that began before, and is not cleaned up yet. */
  start(&f, "s", graph, 6, &two, NULL, &k);
  ok(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
  observe(&f, &(weft_record_request_t){OBSERVER, .is_first = true}, &t);
  CU_ASSERT_EQUAL(t.num_partial, 1);
  CU_ASSERT_EQUAL(t.partial, 6);
  clean(&f, 6);
  start(&f, "s", graph, 7, &two, NULL, &k);
  ok(weft_test_step_wait(&k));
  CU_ASSERT_EQUAL(*(const float *)k.fetches[0]->data, -2.0f);
  weft_test_step_deinit(&k);
  clean(&f, 7);
  while (t.num_ended == 0) observe(&f, &(weft_record_request_t){OBSERVER, .wait_ms = 1000}, &t);
  CU_ASSERT_EQUAL(t.num_records, 1);
  CU_ASSERT_EQUAL(t.num_ended, 1);
  CU_ASSERT_EQUAL(t.step, 7);
  CU_ASSERT_EQUAL(t.last_code, WEFT_OK);
  CU_ASSERT_TRUE(t.names_node);
  CU_ASSERT_TRUE(t.has_costs);
  /* One that fails. */
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_canceller_cancel(c);
  start(&f, "s", graph, 8, NULL, c, &k);
  weft_status_free(weft_test_step_wait(&k));
  weft_test_step_deinit(&k);
  weft_canceller_release(c);
  while (t.num_records < 2 || t.num_ended < 2)
    observe(&f, &(weft_record_request_t){OBSERVER, .wait_ms = 1000}, &t);
  CU_ASSERT_EQUAL(t.step, 8);
  CU_ASSERT_TRUE(t.last_code != WEFT_OK);
  observe(&f, &(weft_record_request_t){OBSERVER, .is_last = true}, &t);
  CU_ASSERT_EQUAL(t.code, WEFT_OK);
  told_end(&t);
  finish(&f);
}

static void the_machines_peaks_are_told(void) {
  fixture_t f;
  told_t t;
  begin(&f);
  told_begin(&t);
  observe(&f, &(weft_record_request_t){OBSERVER, .measures_peaks = true}, &t);
  CU_ASSERT_EQUAL(t.code, WEFT_OK);
  CU_ASSERT_TRUE(t.peak_flops > 1e7);
  CU_ASSERT_TRUE(t.peak_bytes > 1e6);
  double flops = t.peak_flops, bytes = t.peak_bytes;
  observe(&f, &(weft_record_request_t){OBSERVER, .measures_peaks = true}, &t); /* not again */
  CU_ASSERT_EQUAL(t.peak_flops, flops);
  CU_ASSERT_EQUAL(t.peak_bytes, bytes);
  CU_ASSERT_EQUAL(weft_step_recordings_count(f.worker->recordings), 0);
  weft_worker_stop(f.worker);
  observe(&f, &(weft_record_request_t){OBSERVER, .measures_peaks = true}, &t);
  CU_ASSERT_EQUAL(t.code, WEFT_UNAVAILABLE);
  told_end(&t);
  finish(&f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_graph_runs_between_its_feeds_and_fetches", a_graph_runs_between_its_feeds_and_fetches},
      {"peers_may_ask_before_or_after", peers_may_ask_before_or_after},
      {"a_peer_that_gives_up_leaves_no_step_behind", a_peer_that_gives_up_leaves_no_step_behind},
      {"cleaning_up_aborts_waiting_receives", cleaning_up_aborts_waiting_receives},
      {"keys_of_others_are_refused", keys_of_others_are_refused},
      {"unknown_handles_are_aborted", unknown_handles_are_aborted},
      {"statistics name inputs, and graphs are there if kept",
       statistics_name_inputs_and_graphs_are_there_if_kept},
      {"a client's values go by place", a_client_s_values_go_by_place},
      {"a_run_whose_caller_is_gone_ends_and_leaves_nothing",
       a_run_whose_caller_is_gone_ends_and_leaves_nothing},
      {"a_master_that_was_restarted_loses_its_old_sessions",
       a_master_that_was_restarted_loses_its_old_sessions},
      {"a_session_that_is_deleted_while_it_runs_goes_on_to_the_end",
       a_session_that_is_deleted_while_it_runs_goes_on_to_the_end},
      {"a_worker_that_stops_ends_what_runs", a_worker_that_stops_ends_what_runs},
      {"runs_are_told_to_observers", runs_are_told_to_observers},
      {"the_machines_peaks_are_told", the_machines_peaks_are_told},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("worker", tests);
}
