/* Sessions on a cluster in one process: running, extending, closing, callables, partial runs, resets, shared
 * state. */
#include <stdio.h>

#include "device/device.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

#define PS "/job:ps"
#define W0 "/job:worker/task:0"
#define W1 "/job:worker/task:1"
#define VERSION "versions{producer:1882} "
#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define TYPE(attr, d) "attr{key:\"" attr "\" value{type:" d "}} "
#define T TYPE("T", "DT_FLOAT")
#define DTYPE TYPE("dtype", "DT_FLOAT")
#define SCALAR "attr{key:\"shape\" value{shape{}}} "
#define CONST(name, value, device) \
  NODE(name, "Const", "", device,  \
       DTYPE "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:" value "}}} ")
#define INT(name, value, device)                                                                       \
  NODE(name, "Const", "", device,                                                                      \
       TYPE("dtype",                                                                                   \
            "DT_INT32") "attr{key:\"value\" value{tensor{dtype:DT_INT32 tensor_shape{} int_val:" value \
                        "}}} ")
#define PLACEHOLDER(name) NODE(name, "Placeholder", "", "", DTYPE)
#define ADD(name, a, b, device) NODE(name, "AddV2", IN(a) IN(b), device, T)
#define VARIABLE(name, device) NODE(name, "VariableV2", "", device, DTYPE SCALAR)
#define ASSIGN(name, v, x) NODE(name, "Assign", IN(v) IN(x), "", T)
#define ASSIGN_ADD(name, v, x) NODE(name, "AssignAdd", IN(v) IN(x), "", T)
#define QUEUE(name, device)                                        \
  NODE(name, "FIFOQueueV2", "", device,                            \
       "attr{key:\"component_types\" value{list{type:DT_FLOAT}}} " \
       "attr{key:\"shapes\" value{list{shape{}}}} ")
#define DEQUEUE(name, q, device) \
  NODE(name, "QueueDequeueV2", IN(q), device, "attr{key:\"component_types\" value{list{type:DT_FLOAT}}} ")
#define ENQUEUE(name, q, x) \
  NODE(name, "QueueEnqueueV2", IN(q) IN(x), "", "attr{key:\"Tcomponents\" value{list{type:DT_FLOAT}}} ")
#define CLOSED "Step was cancelled by an explicit call to `Session::Close()`."

static const char sums[] = VERSION PLACEHOLDER("x") CONST("one", "1", W1) ADD("y", "x", "one", PS)
    ADD("z", "y", "one", W1) NODE("n", "NoOp", IN("^z"), W0, "");
static const char counter[] = VERSION VARIABLE("v", PS) CONST("zero", "0", "") CONST("one", "1", W1)
    ASSIGN("init", "v", "zero") ASSIGN_ADD("more", "v", "one") NODE("read", "Identity", IN("v"), W1, T);
static const char blocked[] = VERSION QUEUE("q", PS) DEQUEUE("deq", "q", PS) CONST("c", "4", "")
    ENQUEUE("enq", "q", "c") NODE("out", "Identity", IN("deq"), W1, T);

static weft_test_cluster_t *c;  /* of the running test */
static weft_master_client_t *m; /* of worker 0 */

static void begin(void) {
  c = weft_test_cluster_usual();
  m = weft_test_cluster_master(c, 1);
}

static weft_status_t *reset(weft_master_client_t *master, const char *container);

/* Nothing may be left behind by what has ended. A reset returns when all steps have been cleaned up. */
static void finish(void) {
  weft_test_expect(reset(m, NULL), WEFT_OK, "");
  weft_test_expect(reset(weft_test_cluster_master(c, 2), NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  CU_ASSERT_EQUAL(weft_test_cluster_steps(c), 0);
  weft_test_cluster_destroy(c);
}

static weft_test_run_t feed_x(float x, const char *fetch) {
  return (weft_test_run_t){.feeds = {"x:0"}, .values = {x}, .fetches = {fetch}};
}

static void a_step_goes_over_all_tasks(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_run_t run = {.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0", "y:0", "z:0"}, .targets = {"n"}};
  for (int i = 0; i < 3; i++) {
    double out[3];
    weft_test_expect(weft_test_run(&s, &run, out), WEFT_OK, "");
    CU_ASSERT_TRUE(out[0] == 4 && out[1] == 3 && out[2] == 4);
  }
  CU_ASSERT_EQUAL(weft_test_cluster_count(c, 2, WEFT_TEST_REGISTER_GRAPH), 1); /* once per signature */
  CU_ASSERT_EQUAL(weft_test_cluster_count(c, 2, WEFT_TEST_RUN_GRAPH), 3);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_cluster_count(c, 2, WEFT_TEST_CLEANUP_GRAPH), 0); /* they end by themselves */
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  finish();
}

static void wrong_names_leave_the_session_usable(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_run_t unfed = {.fetches = {"y:0"}}, unknown = {.fetches = {"zz:0"}}, nothing = {.feeds = {"x:0"}};
  weft_test_expect(weft_test_run(&s, &unknown, NULL), WEFT_NOT_FOUND, "FetchOutputs node zz:0: not found");
  weft_test_expect(weft_test_run(&s, &nothing, NULL), WEFT_INVALID_ARGUMENT,
                   "Must specify at least one target");
  weft_test_expect(weft_test_run(&s, &unfed, NULL), WEFT_INVALID_ARGUMENT,
                   "You must feed a value for placeholder tensor 'x'");
  weft_test_run_t run = feed_x(1, "y:0");
  double out = 0;
  weft_test_expect(weft_test_run(&s, &run, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 2);
  finish();
}

/* Two names, and one that looks like both: their signatures must not be taken for each other. */
static void names_with_separators_are_not_confused(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_run_t two = {.feeds = {"x:0"}, .values = {1}, .fetches = {"y:0", "z:0"}};
  weft_test_expect(weft_test_run(&s, &two, (double[2]){0}), WEFT_OK, "");
  static const char *const names[] = {"y:0,z:0", "y:0|z:0", "y:0;z:0", "y:0\nz:0"};
  for (int i = 0; i < 4; i++) {
    weft_test_run_t one = feed_x(1, names[i]);
    weft_test_expect(weft_test_run(&s, &one, NULL), WEFT_NOT_FOUND, names[i]);
  }
  finish();
}

static void a_feed_of_another_type_is_refused(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  int32_t number = 1;
  weft_tensor_t *t = NULL;
  weft_test_expect(weft_tensor_scalar(WEFT_I32, &number, &t), WEFT_OK, "");
  weft_status_t *status =
      weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .tensors = {t}, .fetches = {"y:0"}}, NULL);
  CU_ASSERT_NOT_EQUAL(weft_status_code(status), WEFT_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(status), "int32"));
  weft_status_free(status);
  weft_tensor_release(t);
  finish();
}

static void failures_tell_where_they_are_from(void) {
  begin();
  weft_test_session_t s = weft_test_opened(
      m, VERSION INT("zero", "0", PS) NODE("dz", "FloorDiv", IN("zero") IN("zero"), PS, TYPE("T", "DT_INT32"))
             NODE("out", "Identity", IN("dz"), W1, TYPE("T", "DT_INT32")));
  weft_status_t *status = weft_test_run(&s, &(weft_test_run_t){.fetches = {"out:0"}}, NULL);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(status), "From /job:ps/replica:0/task:0:\n"));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(status), "{{node dz}}"));
  weft_test_expect(status, WEFT_INVALID_ARGUMENT, "ivision by zero");
  finish();
}

static void a_dead_tensor_cannot_be_fetched(void) {
  begin();
  weft_test_session_t s = weft_test_opened(
      m, VERSION CONST("x", "1", "") NODE(
             "p", "Const", "", "",
             TYPE("dtype",
                  "DT_BOOL") "attr{key:\"value\" value{tensor{dtype:DT_BOOL tensor_shape{} bool_val:true}}} ")
             NODE("sw", "Switch", IN("x") IN("p"), "", T) NODE("dead", "Identity", IN("sw"), PS, T));
  weft_status_t *status = weft_test_run(&s, &(weft_test_run_t){.fetches = {"dead:0"}}, NULL);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(status), ";dead:0;0:0 was not valid.)"));
  weft_test_expect(status, WEFT_INTERNAL,
                   "From /job:worker/replica:0/task:0:\nFailed to fetch outputs for step ");
  finish();
}

/* ---- state ---- */

static void sessions_of_all_masters_share_variables(void) {
  begin();
  weft_test_session_t a = weft_test_opened(m, counter),
                      b = weft_test_opened(weft_test_cluster_master(c, 2), counter);
  weft_status_t *status = weft_test_run(&a, &(weft_test_run_t){.fetches = {"read:0"}}, NULL);
  weft_test_expect(status, WEFT_FAILED_PRECONDITION, "Attempting to use uninitialized value v");
  weft_test_target(&a, "init");
  weft_test_target(&a, "more");
  weft_test_target(&b, "more");
  CU_ASSERT_EQUAL(weft_test_fetch(&b, "read:0"), 2);
  weft_test_expect(weft_test_close(&a), WEFT_OK, "");
  weft_test_expect(weft_test_close(&b), WEFT_OK, "");
  weft_test_session_t later = weft_test_opened(m, counter); /* variables outlive their sessions */
  CU_ASSERT_EQUAL(weft_test_fetch(&later, "read:0"), 2);
  finish();
}

static void an_isolated_session_has_variables_of_its_own(void) {
  begin();
  weft_test_session_t a = weft_test_opened(m, counter), b;
  weft_test_target(&a, "init");
  weft_test_expect(weft_test_open(m, counter, "isolate_session_state: true", &b), WEFT_OK, "");
  weft_test_expect(weft_test_run(&b, &(weft_test_run_t){.fetches = {"read:0"}}, NULL),
                   WEFT_FAILED_PRECONDITION, "uninitialized value v");
  weft_test_target(&b, "init");
  weft_test_target(&b, "more");
  CU_ASSERT_EQUAL(weft_test_fetch(&b, "read:0"), 1);
  CU_ASSERT_EQUAL(weft_test_fetch(&a, "read:0"), 0);
  finish();
}

static weft_status_t *reset(weft_master_client_t *master, const char *container) {
  weft_str_t containers[1] = {weft_str(container)};
  weft_test_step_t k;
  weft_test_step_begin(&k);
  master->ops->reset(master, containers, container != NULL, NULL, 0, weft_test_on_done, &k);
  weft_status_t *s = weft_test_step_wait(&k);
  weft_test_step_deinit(&k);
  return s;
}

static void a_reset_closes_sessions_and_empties_containers_everywhere(void) {
  begin();
  weft_test_session_t a = weft_test_opened(m, counter), b;
  weft_test_target(&a, "init");
  weft_test_expect(reset(m, "elsewhere"), WEFT_OK, "");
  b = weft_test_opened(m, counter);
  CU_ASSERT_EQUAL(weft_test_fetch(&b, "read:0"), 0); /* another container's reset spares it */
  weft_test_expect(reset(m, NULL), WEFT_OK, "");
  weft_test_expect(weft_test_run(&b, &(weft_test_run_t){.fetches = {"read:0"}}, NULL), WEFT_ABORTED,
                   "s ago: a client reset the cluster");
  a = weft_test_opened(m, counter);
  weft_test_expect(weft_test_run(&a, &(weft_test_run_t){.fetches = {"read:0"}}, NULL),
                   WEFT_FAILED_PRECONDITION, "uninitialized");
  finish();
}

static void a_reset_ends_blocked_steps(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked);
  weft_test_step_t k;
  weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}}, &k);
  weft_test_expect(reset(m, NULL), WEFT_OK, "");
  weft_test_expect(weft_test_step_wait(&k), WEFT_CANCELLED, CLOSED);
  weft_test_step_deinit(&k);
  finish();
}

/* ---- the end ---- */

static void closing_cancels_blocked_steps(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked);
  weft_test_step_t k[3];
  for (int i = 0; i < 3; i++) weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}}, &k[i]);
  for (int i = 0; i < 3; i++) CU_ASSERT_FALSE(weft_test_step_is_done(&k[i]));
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  for (int i = 0; i < 3; i++) {
    weft_test_expect(weft_test_step_wait(&k[i]), WEFT_CANCELLED, CLOSED);
    weft_test_step_deinit(&k[i]);
  }
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  weft_test_expect(weft_test_close(&s), WEFT_ABORTED, "is not found. It ended at 20");
  weft_test_expect(weft_test_run(&s, &(weft_test_run_t){.fetches = {"out:0"}}, NULL), WEFT_ABORTED,
                   "s ago: its client closed it.");
  weft_test_expect(weft_test_extend(&s, VERSION CONST("k", "1", "")), WEFT_ABORTED,
                   "s ago: its client closed it.");
  weft_test_session_t stranger = {.master = m, .handle = "0123456789abcdef"};
  weft_test_expect(weft_test_close(&stranger), WEFT_ABORTED,
                   "is not found. Possibly, this master has restarted. The master "
                   "/job:worker/replica:0/task:0 has run since 20");
  finish();
}

static void a_blocked_step_does_not_stop_others(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked);
  weft_test_step_t k;
  weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}}, &k);
  weft_test_target(&s, "enq");
  weft_test_expect(weft_test_step_wait(&k), WEFT_OK, "");
  weft_test_step_deinit(&k);
  finish();
}

static void a_step_ends_at_its_deadline(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked), t;
  weft_test_run_t run = {.fetches = {"out:0"}, .options = {.timeout_ms = 20}};
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_DEADLINE_EXCEEDED, "");
  weft_test_expect(weft_test_open(m, blocked, "operation_timeout_in_ms: 20", &t), WEFT_OK, "");
  weft_test_expect(weft_test_run(&t, &(weft_test_run_t){.fetches = {"out:0"}}, NULL), WEFT_DEADLINE_EXCEEDED,
                   "");
  weft_test_target(&s, "enq"); /* the session goes on, and nothing was taken */
  CU_ASSERT_EQUAL(weft_test_fetch(&s, "out:0"), 4);
  finish();
}

static void a_caller_can_give_up(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked);
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  weft_test_step_t k;
  weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}, .canceller = canceller}, &k);
  weft_canceller_cancel(canceller);
  weft_test_expect(weft_test_step_wait(&k), WEFT_CANCELLED,
                   "Step was cancelled: its client has cancelled the call, or is gone");
  weft_test_step_deinit(&k);
  weft_test_expect(weft_test_run(&s, &(weft_test_run_t){.fetches = {"out:0"}, .canceller = canceller}, NULL),
                   WEFT_CANCELLED, "");
  weft_canceller_release(canceller);
  finish();
}

static void a_master_that_stops_ends_what_runs(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, blocked);
  weft_test_step_t k;
  weft_test_start(&s, &(weft_test_run_t){.fetches = {"out:0"}}, &k);
  weft_test_cluster_destroy(c);
  weft_test_expect(weft_test_step_wait(&k), WEFT_ABORTED,
                   "The task /job:worker/replica:0/task:0, the master of this session, was shut down");
  weft_test_step_deinit(&k);
}

/* ---- extending ---- */

static void a_graph_grows_by_extending(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_expect(weft_test_extend(&s, VERSION ADD("zz", "z", "one", PS)), WEFT_OK, "");
  CU_ASSERT_EQUAL(s.version, 1);
  weft_test_run_t run = feed_x(1, "zz:0");
  double out = 0;
  weft_test_expect(weft_test_run(&s, &run, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 4);
  weft_test_session_t old = s;
  old.version = 0;
  weft_test_expect(weft_test_extend(&old, VERSION CONST("k", "1", "")), WEFT_ABORTED,
                   "Current version is 1 but caller expected 0.");
  finish();
}

static void a_failed_extend_changes_nothing(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_expect(weft_test_extend(&s, VERSION PLACEHOLDER("new") CONST("x", "1", "")),
                   WEFT_INVALID_ARGUMENT, "'x'");
  weft_test_expect(weft_test_extend(&s, VERSION NODE("k", "Identity", IN("absent"), "", T)),
                   WEFT_INVALID_ARGUMENT, "absent");
  weft_test_expect(weft_test_extend(&s, VERSION NODE("k", "Identity", IN("x"), "/job:absent", T)),
                   WEFT_INVALID_ARGUMENT, "/job:absent");
  CU_ASSERT_EQUAL(s.version, 0);
  weft_test_expect(weft_test_extend(&s, VERSION ADD("new", "z", "one", PS)), WEFT_OK, "");
  weft_test_run_t run = feed_x(1, "new:0");
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_OK, "");
  finish();
}

static void an_empty_graph_can_be_extended(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, "");
  weft_test_expect(weft_test_extend(&s, sums), WEFT_OK, "");
  weft_test_run_t run = feed_x(1, "z:0");
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_OK, "");
  finish();
}

/* Foo is not registered, RiscAbs has no kernel; y is behind both. */
#define UNABLE                      \
  PLACEHOLDER("a")                  \
  NODE("k", "Foo", IN("a"), "", "") \
  NODE("l", "RiscAbs", IN("k"), "", T) NODE("y2", "Identity", IN("l"), "", T)

static void an_op_that_cannot_run_fails_the_steps_that_need_it(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_expect(weft_test_extend(&s, VERSION UNABLE), WEFT_OK, "");
  weft_test_run_t good = feed_x(1, "z:0"), foo = {.fetches = {"k:0"}}, third = {.fetches = {"k:2"}},
                  target = {.targets = {"k"}}, both = {.fetches = {"y2:0"}},
                  behind = {.feeds = {"k:0"}, .values = {2}, .fetches = {"y2:0"}},
                  cut = {.feeds = {"l:0"}, .values = {2}, .fetches = {"y2:0"}};
  double out = 0;
  weft_test_expect(weft_test_run(&s, &good, NULL), WEFT_OK, "");
  weft_test_expect(weft_test_run(&s, &foo, NULL), WEFT_NOT_FOUND,
                   "Op type not registered 'Foo' in binary running on ");
  weft_test_expect(weft_test_run(&s, &third, NULL), WEFT_NOT_FOUND, "Used by: {{node k}}");
  weft_test_expect(weft_test_run(&s, &target, NULL), WEFT_NOT_FOUND, "'Foo'");
  weft_test_expect(weft_test_run(&s, &both, NULL), WEFT_INVALID_ARGUMENT, "RiscAbs");
  weft_test_expect(weft_test_run(&s, &behind, NULL), WEFT_INVALID_ARGUMENT,
                   "No OpKernel was registered to support Op 'RiscAbs' used by {{node l}} with these attrs: "
                   "[T=DT_FLOAT]\nRegistered devices: [CPU");
  weft_test_expect(weft_test_run(&s, &cut, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 2);
  finish();
}

/* ---- devices ---- */

static void list_devices(const char *session, weft_test_step_t *k) {
  weft_test_step_begin(k);
  m->ops->list_devices(m, weft_str(session), NULL, weft_test_on_devices, k);
}

static void devices_are_those_of_the_session_s_tasks(void) {
  begin();
  weft_test_session_t all = weft_test_opened(m, ""), some;
  weft_test_expect(weft_test_open(m, "", "device_filters: \"/job:ps\"", &some), WEFT_OK, "");
  const char *const sessions[] = {all.handle, some.handle, ""};
  const int expected[] = {3, 2, 3};
  for (int i = 0; i < 3; i++) {
    weft_test_step_t k;
    list_devices(sessions[i], &k);
    weft_test_expect(weft_test_step_wait(&k), WEFT_OK, "");
    int num_drivers = 0;
    while (weft_device_drivers()[num_drivers] != NULL) num_drivers++;
    CU_ASSERT_EQUAL(k.devices.n, expected[i] * num_drivers);
    for (int d = 0; d < k.devices.n; d++) {
      CU_ASSERT_TRUE(weft_device_driver_index(k.devices.devices[d].type) >= 0);
      CU_ASSERT_NOT_EQUAL(k.devices.devices[d].incarnation, 0);
    }
    weft_test_step_deinit(&k);
  }
  weft_test_step_t k;
  list_devices("0123456789abcdef", &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_INVALID_ARGUMENT, "Session 0123456789abcdef is not found.");
  weft_test_step_deinit(&k);
  weft_status_t *status = weft_test_extend(&some, VERSION CONST("k", "1", W1));
  weft_test_expect(status, WEFT_INVALID_ARGUMENT,
                   weft_device_drivers()[1] == NULL
                       ? "available devices are [ /job:ps/replica:0/task:0/device:CPU:0, "
                         "/job:worker/replica:0/task:0/device:CPU:0 ]"
                       : "available devices are [ /job:ps/replica:0/task:0/device:CPU:0, ");
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 3 + 2);
  finish();
}

static void threads_of_a_session_s_own_are_refused(void) {
  begin();
  weft_test_session_t s;
  const char *message = "Distributed session does not support session thread pool options.";
  weft_test_expect(weft_test_open(m, sums, "use_per_session_threads: true", &s), WEFT_INVALID_ARGUMENT,
                   message);
  weft_test_expect(weft_test_open(m, sums, "session_inter_op_thread_pool {}", &s), WEFT_INVALID_ARGUMENT,
                   message);
  weft_test_expect(weft_test_open(m, sums, "device_filters: \"nonsense\"", &s), WEFT_INVALID_ARGUMENT,
                   "nonsense");
  finish();
}

/* ---- callables ---- */

static weft_status_t *make(weft_test_session_t *s, weft_make_callable_t *r, int64_t *out) {
  weft_test_step_t k;
  weft_test_step_begin(&k);
  r->session = weft_str(s->handle);
  m->ops->make_callable(m, r, NULL, weft_test_on_number, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  *out = k.number;
  weft_test_step_deinit(&k);
  return status;
}

static weft_status_t *call(weft_test_session_t *s, int64_t handle, float x, int num_feeds, double *out) {
  weft_tensor_t *t = NULL;
  weft_test_expect(weft_tensor_scalar(WEFT_F32, &x, &t), WEFT_OK, "");
  weft_run_callable_t r = {
      .session = weft_str(s->handle), .handle = handle, .feeds = &t, .num_feeds = num_feeds};
  weft_test_step_t k;
  weft_test_step_begin(&k);
  m->ops->run_callable(m, &r, NULL, weft_test_on_run, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  if (status == NULL) *out = (double)*(const float *)k.fetches[0]->data;
  weft_test_step_deinit(&k);
  weft_tensor_release(t);
  return status;
}

static void callables_run_until_they_are_released(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  const weft_str_t feeds[] = {WEFT_STR("x:0")}, fetches[] = {WEFT_STR("z:0")}, unknown[] = {WEFT_STR("zz:0")};
  weft_make_callable_t good = {.feeds = feeds, .num_feeds = 1, .fetches = fetches, .num_fetches = 1};
  weft_make_callable_t bad = {.fetches = unknown, .num_fetches = 1}, empty = {0}, devices = good;
  devices.has_device_options = true;
  int64_t first = -1, second = -1, none;
  weft_test_expect(make(&s, &good, &first), WEFT_OK, "");
  weft_test_expect(make(&s, &good, &second), WEFT_OK, "");
  CU_ASSERT_TRUE(first == 0 && second == 1);
  weft_test_expect(make(&s, &bad, &none), WEFT_NOT_FOUND, "zz:0");
  weft_test_expect(make(&s, &empty, &none), WEFT_INVALID_ARGUMENT, "Must specify at least one target");
  weft_test_expect(make(&s, &devices, &none), WEFT_UNIMPLEMENTED, "feed_devices");
  double out = 0;
  weft_test_expect(call(&s, first, 5, 1, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 7);
  weft_test_expect(call(&s, first, 5, 0, &out), WEFT_INVALID_ARGUMENT, "feeds");
  weft_test_expect(call(&s, 77, 5, 1, &out), WEFT_INVALID_ARGUMENT, "No such callable handle: 77");
  weft_test_expect(call(&s, -1, 5, 1, &out), WEFT_INVALID_ARGUMENT, "No such callable handle: -1");
  weft_test_step_t k;
  weft_test_step_begin(&k);
  m->ops->release_callable(m, weft_str(s.handle), first, weft_test_on_done, &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_OK, "");
  weft_test_step_deinit(&k);
  weft_test_expect(call(&s, first, 5, 1, &out), WEFT_INVALID_ARGUMENT, "No such callable handle: 0");
  weft_test_expect(call(&s, second, 6, 1, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 8);
  finish();
}

static void callables_can_connect_tensors(void) {
  begin();
  weft_test_session_t s =
      weft_test_opened(m, VERSION PLACEHOLDER("x") CONST("one", "1", W1) ADD("y", "x", "one", PS)
                              PLACEHOLDER("a") ADD("b", "a", "one", W1));
  const weft_str_t feeds[] = {WEFT_STR("x:0")}, fetches[] = {WEFT_STR("b:0")}, from[] = {WEFT_STR("y:0")},
                   to[] = {WEFT_STR("a:0")};
  weft_make_callable_t r = {.feeds = feeds,
                            .num_feeds = 1,
                            .fetches = fetches,
                            .num_fetches = 1,
                            .connections_from = from,
                            .connections_to = to,
                            .num_connections = 1};
  int64_t handle = -1;
  double out = 0;
  weft_test_expect(make(&s, &r, &handle), WEFT_OK, "");
  weft_test_expect(call(&s, handle, 3, 1, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 5);
  finish();
}

/* ---- partial runs ---- */

static const char parts[] = VERSION PLACEHOLDER("a") PLACEHOLDER("b") CONST("one", "1", W1)
    ADD("fa", "a", "one", PS) ADD("fb", "b", "fa", W1) CONST("free", "9", PS);

static weft_status_t *setup(weft_test_session_t *s, weft_test_run_t names, char handle[64]) {
  weft_str_t feeds[4], fetches[4];
  weft_partial_run_setup_t r = {.session = weft_str(s->handle), .feeds = feeds, .fetches = fetches};
  for (; names.feeds[r.num_feeds] != NULL; r.num_feeds++)
    feeds[r.num_feeds] = weft_str(names.feeds[r.num_feeds]);
  for (; names.fetches[r.num_fetches] != NULL; r.num_fetches++)
    fetches[r.num_fetches] = weft_str(names.fetches[r.num_fetches]);
  weft_test_step_t k;
  weft_test_step_begin(&k);
  m->ops->partial_run_setup(m, &r, NULL, weft_test_on_text, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  snprintf(handle, 64, "%s", k.text);
  weft_test_step_deinit(&k);
  return status;
}

#define ALL_PARTS ((weft_test_run_t){.feeds = {"a:0", "b:0"}, .fetches = {"fa:0", "fb:0", "free:0"}})

static weft_status_t *piece(weft_test_session_t *s, const char *handle, const char *feed, float value,
                            const char *fetch, double *out) {
  return weft_test_run(
      s, &(weft_test_run_t){.partial = handle, .feeds = {feed}, .values = {value}, .fetches = {fetch}}, out);
}

static void a_step_can_be_fed_piece_by_piece(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, parts);
  for (int i = 0; i < 3; i++) {
    char handle[64];
    double out = 0;
    weft_test_expect(setup(&s, ALL_PARTS, handle), WEFT_OK, "");
    weft_test_expect(piece(&s, handle, NULL, 0, "free:0", &out), WEFT_OK, "");
    CU_ASSERT_EQUAL(out, 9);
    weft_test_expect(piece(&s, handle, "a:0", 1, "fa:0", &out), WEFT_OK, "");
    CU_ASSERT_EQUAL(out, 2);
    weft_test_expect(piece(&s, handle, "b:0", 5, "fb:0", &out), WEFT_OK, "");
    CU_ASSERT_EQUAL(out, 7);
    weft_test_expect(piece(&s, handle, NULL, 0, "fa:0", &out), WEFT_INVALID_ARGUMENT,
                     "Must run PartialRunSetup before performing partial runs");
  }
  finish();
}

static void a_wrong_piece_changes_nothing(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, parts);
  char handle[64];
  double out = 0;
  weft_test_expect(setup(&s, (weft_test_run_t){.feeds = {"zz:0"}, .fetches = {"fa:0"}}, handle),
                   WEFT_NOT_FOUND, "zz:0");
  weft_test_expect(setup(&s, (weft_test_run_t){.feeds = {NULL}}, handle), WEFT_INVALID_ARGUMENT,
                   "Must specify at least one target");
  weft_test_expect(setup(&s, ALL_PARTS, handle), WEFT_OK, "");
  weft_test_expect(piece(&s, handle, "one:0", 1, "fa:0", &out), WEFT_INVALID_ARGUMENT,
                   "The feed one:0 was not specified in partial_run_setup.");
  weft_test_expect(piece(&s, handle, "a:0", 1, "one:0", &out), WEFT_INVALID_ARGUMENT,
                   "The fetch one:0 was not specified in partial_run_setup.");
  weft_test_expect(piece(&s, handle, "a:0", 1, "fb:0", &out), WEFT_INVALID_ARGUMENT,
                   "Fetch b:0 can't be computed from the feeds that have been fed so far.");
  weft_test_expect(piece(&s, "99", "a:0", 1, "fa:0", &out), WEFT_INVALID_ARGUMENT,
                   "Must run PartialRunSetup");
  weft_test_expect(piece(&s, handle, "a:0", 1, "fa:0", &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 2);
  weft_test_expect(piece(&s, handle, "a:0", 1, "free:0", &out), WEFT_INVALID_ARGUMENT,
                   "The feed a:0 has already been fed.");
  weft_test_expect(piece(&s, handle, NULL, 0, "fa:0", &out), WEFT_INVALID_ARGUMENT,
                   "The fetch fa:0 has already been fetched.");
  weft_test_run_t last = {.partial = handle, .feeds = {"b:0"}, .values = {1}, .fetches = {"fb:0", "free:0"}};
  weft_test_expect(weft_test_run(&s, &last, (double[2]){0}), WEFT_OK, "");
  finish();
}

static void an_abandoned_partial_run_ends_with_its_session(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, parts);
  char handle[64];
  double out = 0;
  for (int i = 0; i < 3; i++) {
    weft_test_expect(setup(&s, ALL_PARTS, handle), WEFT_OK, "");
    weft_test_expect(piece(&s, handle, "a:0", 1, i == 0 ? NULL : "fa:0", &out), WEFT_OK, "");
  }
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  finish();
}

static void a_failed_piece_ends_its_partial_run(void) {
  begin();
  weft_test_session_t s = weft_test_opened(
      m, VERSION NODE("d", "Placeholder", "", "", TYPE("dtype", "DT_INT32")) INT("one", "1", PS)
             NODE("q", "FloorDiv", IN("one") IN("d"), PS, TYPE("T", "DT_INT32")) CONST("free", "9", ""));
  char handle[64];
  int32_t zero = 0;
  weft_tensor_t *t = NULL;
  weft_test_expect(weft_tensor_scalar(WEFT_I32, &zero, &t), WEFT_OK, "");
  weft_test_expect(setup(&s, (weft_test_run_t){.feeds = {"d:0"}, .fetches = {"q:0", "free:0"}}, handle),
                   WEFT_OK, "");
  weft_test_run_t run = {.partial = handle, .feeds = {"d:0"}, .tensors = {t}, .fetches = {"q:0"}};
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_INVALID_ARGUMENT, "ivision by zero");
  weft_test_expect(piece(&s, handle, NULL, 0, "free:0", NULL), WEFT_INVALID_ARGUMENT,
                   "Must run PartialRunSetup");
  weft_tensor_release(t);
  finish();
}

/* ---- many ---- */

static void many_steps_run_at_once(void) {
  enum { STEPS = 100 };
  static weft_test_step_t k[STEPS];
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  for (int i = 0; i < STEPS; i++) {
    weft_test_run_t run = feed_x((float)i, "z:0");
    weft_test_start(&s, &run, &k[i]);
  }
  for (int i = 0; i < STEPS; i++) {
    weft_test_expect(weft_test_step_wait(&k[i]), WEFT_OK, "");
    if (k[i].num_fetches == 1) CU_ASSERT_EQUAL(*(const float *)k[i].fetches[0]->data, (float)i + 2);
    weft_test_step_deinit(&k[i]);
  }
  finish();
}

static void partition_graphs_and_statistics_come_with_the_step(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, sums);
  weft_test_run_t run = {.feeds = {"x:0"},
                         .values = {2},
                         .fetches = {"z:0"},
                         .options = {.trace_level = 3, .output_partition_graphs = true}};
  weft_test_step_t k;
  weft_test_start(&s, &run, &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_OK, "");
  const weft_device_driver_t *there = weft_device_accelerator();
  const bool is_gpu = there != NULL && weft_str_is(weft_str("GPU"), there->type);
  char ps[64], worker[64]; /* where all nodes run */
  snprintf(ps, sizeof ps, "/job:ps/replica:0/task:0/device:%s:0", there == NULL ? "CPU" : there->type);
  snprintf(worker, sizeof worker, "/job:worker/replica:0/task:1/device:%s:0",
           there == NULL ? "CPU" : there->type);
  const char *const names[] = {ps, worker, "z = AddV2(",
                               is_gpu ? "\x09GPU_0_bfc" : "\x04late" /* the allocator of outputs there */};
  weft_str_t metadata = weft_str_of(k.metadata, k.metadata_length);
  for (int i = 0; i < (weft_device_drivers()[1] == NULL ? 3 : 4); i++) {
    bool found = false;
    size_t n = strlen(names[i]);
    for (size_t at = 0; !found && at + n <= metadata.length; at++)
      found = memcmp(metadata.data + at, names[i], n) == 0;
    CU_ASSERT_TRUE(found);
  }
  weft_test_step_deinit(&k);
  finish();
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_step_goes_over_all_tasks", a_step_goes_over_all_tasks},
      {"wrong_names_leave_the_session_usable", wrong_names_leave_the_session_usable},
      {"names_with_separators_are_not_confused", names_with_separators_are_not_confused},
      {"a_feed_of_another_type_is_refused", a_feed_of_another_type_is_refused},
      {"failures_tell_where_they_are_from", failures_tell_where_they_are_from},
      {"a_dead_tensor_cannot_be_fetched", a_dead_tensor_cannot_be_fetched},
      {"sessions_of_all_masters_share_variables", sessions_of_all_masters_share_variables},
      {"an_isolated_session_has_variables_of_its_own", an_isolated_session_has_variables_of_its_own},
      {"a_reset_closes_sessions_and_empties_containers_everywhere",
       a_reset_closes_sessions_and_empties_containers_everywhere},
      {"a_reset_ends_blocked_steps", a_reset_ends_blocked_steps},
      {"closing_cancels_blocked_steps", closing_cancels_blocked_steps},
      {"a_blocked_step_does_not_stop_others", a_blocked_step_does_not_stop_others},
      {"a_step_ends_at_its_deadline", a_step_ends_at_its_deadline},
      {"a_caller_can_give_up", a_caller_can_give_up},
      {"a_graph_grows_by_extending", a_graph_grows_by_extending},
      {"a_failed_extend_changes_nothing", a_failed_extend_changes_nothing},
      {"an_empty_graph_can_be_extended", an_empty_graph_can_be_extended},
      {"an op that cannot run fails the steps that need it",
       an_op_that_cannot_run_fails_the_steps_that_need_it},
      {"devices_are_those_of_the_session_s_tasks", devices_are_those_of_the_session_s_tasks},
      {"threads_of_a_session_s_own_are_refused", threads_of_a_session_s_own_are_refused},
      {"callables_run_until_they_are_released", callables_run_until_they_are_released},
      {"callables_can_connect_tensors", callables_can_connect_tensors},
      {"a_step_can_be_fed_piece_by_piece", a_step_can_be_fed_piece_by_piece},
      {"a_wrong_piece_changes_nothing", a_wrong_piece_changes_nothing},
      {"an_abandoned_partial_run_ends_with_its_session", an_abandoned_partial_run_ends_with_its_session},
      {"a_failed_piece_ends_its_partial_run", a_failed_piece_ends_its_partial_run},
      {"many_steps_run_at_once", many_steps_run_at_once},
      {"partition_graphs_and_statistics_come_with_the_step",
       partition_graphs_and_statistics_come_with_the_step},
      {"a_master_that_stops_ends_what_runs", a_master_that_stops_ends_what_runs},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("session", tests);
}
