/* Queues of every kind: order, batches, closing, cancelling, sharing; in TensorFlow's words. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/runner.h"

static weft_bench_t bench;

static weft_tensor_t *parse(const char *text) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_parse(&text, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

/* A queue node and its handle. */
typedef struct queue {
  weft_harness_t *node;
  weft_tensor_t *handle;
} queue_t;

static weft_status_t *open_queue(const char *op, const char *attrs, queue_t *out) {
  *out = (queue_t){0};
  WEFT_RETURN_IF_ERROR(weft_harness_create(&bench, op, attrs, NULL, 0, &out->node));
  return weft_harness_run(out->node, NULL, &out->handle);
}

static queue_t make(const char *op, const char *attrs) {
  queue_t q;
  weft_status_t *s = open_queue(op, attrs, &q);
  if (s != NULL) fprintf(stderr, "%s %s: %s\n", op, attrs, weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  return q;
}

static void drop(queue_t *q) {
  weft_tensor_release(q->handle);
  weft_harness_destroy(q->node);
}

/* Runs an op on the queue with inputs as text ("" ends them); outputs as text, or the error's "CODE:
 * message". */
static void expect(queue_t *q, const char *op, const char *attrs, const char *inputs, const char *want) {
  weft_tensor_t *in[4] = {weft_tensor_retain(q->handle)}, *out[4] = {NULL};
  int n = 1, num_out = 0;
  for (const char *at = inputs; *at != '\0'; n++) {
    weft_status_t *s = weft_tensor_parse(&at, &in[n]);
    CU_ASSERT_PTR_NULL_FATAL(s);
    while (*at == ' ') at++;
  }
  weft_status_t *s = weft_run_op(&bench, op, attrs, in, n, out, 4, &num_out);
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  if (s != NULL) {
    weft_strbuf_printf(&got, "%s: %s", weft_code_name(weft_status_code(s)), weft_status_message(s));
  }
  for (int i = 0; s == NULL && i < num_out; i++) {
    if (i > 0) weft_strbuf_puts(&got, " ");
    weft_tensor_print(out[i], &got);
  }
  const char *text = got.data == NULL ? "" : got.data;
  if (strcmp(text, want) != 0) fprintf(stderr, "%s(%s)\n  gives %s\n  not   %s\n", op, inputs, text, want);
  CU_ASSERT_STRING_EQUAL(text, want);
  weft_strbuf_deinit(&got);
  weft_status_free(s);
  for (int i = 0; i < 4; i++) {
    weft_tensor_release(in[i]);
    weft_tensor_release(out[i]);
  }
}

#define F32 "component_types=[float]"

static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

static void fifo_keeps_order_and_closes_as_tensorflow_does(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[2]] capacity=4");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[3]:1,2,3",
         "INVALID_ARGUMENT: Shape mismatch in tuple component 0. Expected [2], got [3]");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[int32]", "int32[]:1",
         "INVALID_ARGUMENT: Signature mismatch, have: resource, int32-> expected: resource, float->");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[2]:1,2", "");
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[float]", "float[2,2]:3,4,5,6", "");
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[float]", "float[1,3]:3,4,5",
         "INVALID_ARGUMENT: Shape mismatch in tuple component 0. Expected [1,2], got [1,3]");
  expect(&q, "QueueSizeV2", "", "", "int32[]:3");
  expect(&q, "QueueDequeueV2", F32, "", "float[2]:1,2");
  expect(&q, "QueueDequeueV2", "component_types=[int32]", "",
         "INVALID_ARGUMENT: Signature mismatch, have: resource->int32 expected: resource->float");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:-1",
         "INVALID_ARGUMENT: DequeueManyOp requested -1 < 0 elements");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:0", "float[0,2]:");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:1", "float[1,2]:3,4");
  expect(&q, "QueueIsClosedV2", "", "", "bool[]:0");
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=false", "", "");
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=false", "",
         "CANCELLED: Queue '_0_n' is already closed.");
  expect(&q, "QueueIsClosedV2", "", "", "bool[]:1");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[2]:1,2",
         "CANCELLED: FIFOQueue '_0_n' is closed.");
  expect(
      &q, "QueueDequeueManyV2", F32, "int32[]:3",
      "OUT_OF_RANGE: FIFOQueue '_0_n' is closed and has insufficient elements (requested 3, current size 1)");
  expect(&q, "QueueDequeueUpToV2", F32, "int32[]:5", "float[1,2]:5,6");
  expect(
      &q, "QueueDequeueV2", F32, "",
      "OUT_OF_RANGE: FIFOQueue '_0_n' is closed and has insufficient elements (requested 1, current size 0)");
  expect(
      &q, "QueueDequeueUpToV2", F32, "int32[]:5",
      "OUT_OF_RANGE: FIFOQueue '_0_n' is closed and has insufficient elements (requested 5, current size 0)");
  drop(&q);
  end();
}

static void batches_need_shapes(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32);
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[float]", "float[2]:1,2", "");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:1",
         "INVALID_ARGUMENT: FIFOQueue's DequeueMany and DequeueUpTo require the components to have specified "
         "shapes.");
  expect(&q, "QueueDequeueV2", F32, "", "float[]:1");
  drop(&q);
  end();
}

static void a_padding_queue_pads_to_the_largest(void) {
  begin();
  queue_t q = make("PaddingFIFOQueueV2", F32 " shapes=[[?,2]] capacity=5");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[1,2]:1,2", "");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[2,2]:3,4,5,6", "");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:2", "float[2,2,2]:1,2,0,0,3,4,5,6");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[2]:1,2",
         "INVALID_ARGUMENT: Shape mismatch in tuple component 0. Expected [?,2], got [2]");
  drop(&q);
  end();
}

static void a_priority_queue_gives_the_smallest_first(void) {
  begin();
  queue_t q = make("PriorityQueueV2", F32 " shapes=[[]] capacity=9");
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[int64,float]",
         "int64[5]:3,1,2,1,-4 float[5]:30,10,20,11,-40", "");
  expect(&q, "QueueDequeueV2", "component_types=[int64,float]", "", "int64[]:-4 float[]:-40");
  expect(&q, "QueueDequeueManyV2", "component_types=[int64,float]", "int32[]:4",
         "int64[4]:1,1,2,3 float[4]:10,11,20,30");
  drop(&q);
  end();
}

static void a_shuffling_queue_keeps_some_back_until_closed(void) {
  begin();
  queue_t q = make("RandomShuffleQueueV2", F32 " shapes=[[]] capacity=9 min_after_dequeue=2 seed=5 seed2=6");
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[float]", "float[4]:1,1,1,1", "");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:2", "float[2]:1,1");
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=false", "", "");
  expect(&q, "QueueDequeueManyV2", F32, "int32[]:3",
         "OUT_OF_RANGE: RandomShuffleQueue '_0_n' is closed and has insufficient elements (requested 3, "
         "current size 2)");
  expect(&q, "QueueDequeueV2", F32, "", "float[]:1");
  drop(&q);
  end();
}

static void sharing_nodes_must_agree(void) {
  static const struct {
    const char *op, *attrs, *message;
  } others[] = {
      {"FIFOQueueV2", "component_types=[int32] shapes=[[2]] capacity=3 shared_name=s",
       "Shared queue 's' has component types float but requested component types were int32"},
      {"FIFOQueueV2", F32 " shapes=[[3]] capacity=3 shared_name=s",
       "Shared queue 's' has component shapes [[2]] but requested component shapes were [[3]]"},
      {"FIFOQueueV2", F32 " shapes=[[2]] capacity=4 shared_name=s",
       "Shared queue 's' has capacity 3 but requested capacity was 4"},
      {"RandomShuffleQueueV2", F32 " shapes=[[2]] capacity=3 shared_name=s",
       "Expected FIFOQueue, found RandomShuffleQueueV2"},
      {"FIFOQueueV2", F32 " shared_name=_x", "shared_name cannot start with '_':_x"},
      {"FIFOQueueV2", F32 " container='a b'", "container contains invalid characters: a b"},
      {"FIFOQueueV2", F32 " shapes=[[2],[3]]",
       "Different number of component types.  Types: float, Shapes: [[2], [3]]"},
  };
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[2]] capacity=3 shared_name=s");
  queue_t same = make("FIFOQueueV2", F32 " shapes=[[2]] capacity=3 shared_name=s");
  expect(&q, "QueueEnqueueV2", "Tcomponents=[float]", "float[2]:1,2", "");
  expect(&same, "QueueDequeueV2", F32, "", "float[2]:1,2");
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    queue_t other;
    weft_status_t *s = open_queue(others[i].op, others[i].attrs, &other);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), others[i].message));
    weft_status_free(s);
    drop(&other);
  }
  drop(&same);
  drop(&q);
  end();
}

/* ---- several threads ---- */

enum { THREADS = 4, EACH = 200 };

typedef struct client {
  pthread_t thread;
  weft_harness_t *node;
  weft_tensor_t *handle;
  weft_code_t code; /* of the last run */
  char message[160];
  int count;
  double sum;
} client_t;

static void client_open(client_t *c, queue_t *q, const char *op, const char *attrs) {
  int types[] = {WEFT_RESOURCE, WEFT_F32};
  bool puts = strstr(op, "Enqueue") != NULL, batch = strstr(op, "Many") != NULL;
  if (!puts && batch) types[1] = WEFT_I32;
  *c = (client_t){.handle = q->handle};
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, op, attrs, types, puts || batch ? 2 : 1, &c->node));
}

static void client_close(client_t *c) { weft_harness_destroy(c->node); }

static bool run(client_t *c, weft_tensor_t *second) {
  weft_tensor_t *in[2] = {c->handle, second}, *out = NULL;
  weft_status_t *s = weft_harness_run(c->node, in, &out);
  c->code = weft_status_code(s);
  snprintf(c->message, sizeof c->message, "%s", weft_status_message(s));
  weft_status_free(s);
  for (int64_t i = 0; out != NULL && i < out->count; i++, c->count++)
    c->sum += weft_tensor_number(out, i, false);
  weft_tensor_release(out);
  return c->code == WEFT_OK;
}

static void *produce(void *arg) {
  client_t *c = arg;
  for (int i = 0; i < EACH; i++) {
    float value = (float)i;
    weft_tensor_t *t = NULL;
    weft_status_free(weft_tensor_scalar(WEFT_F32, &value, &t));
    bool ok = run(c, t);
    weft_tensor_release(t);
    if (!ok) break;
  }
  return NULL;
}

static void *consume(void *arg) {
  while (run(arg, NULL)) continue;
  return NULL;
}

static void many_producers_and_consumers_lose_nothing(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[]] capacity=3");
  client_t in[THREADS], out[THREADS];
  for (int i = 0; i < THREADS; i++) {
    client_open(&in[i], &q, "QueueEnqueueV2", "Tcomponents=[float]");
    client_open(&out[i], &q, "QueueDequeueV2", F32);
    pthread_create(&in[i].thread, NULL, produce, &in[i]);
    pthread_create(&out[i].thread, NULL, consume, &out[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(in[i].thread, NULL);
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=false", "",
         ""); /* ends the consumers when it is empty */
  int count = 0;
  double sum = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(out[i].thread, NULL);
    CU_ASSERT_EQUAL(in[i].code, WEFT_OK);
    CU_ASSERT_EQUAL(out[i].code, WEFT_OUT_OF_RANGE);
    count += out[i].count;
    sum += out[i].sum;
    client_close(&in[i]);
    client_close(&out[i]);
  }
  CU_ASSERT_EQUAL(count, THREADS * EACH);
  CU_ASSERT_DOUBLE_EQUAL(sum, THREADS * EACH * (EACH - 1) / 2.0, 0);
  drop(&q);
  end();
}

static void *take_three(void *arg) {
  weft_tensor_t *n = NULL;
  int32_t three = 3;
  weft_status_free(weft_tensor_scalar(WEFT_I32, &three, &n));
  run(arg, n);
  weft_tensor_release(n);
  return NULL;
}

static void a_batch_that_is_cut_short_gives_back_what_it_took(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[]] capacity=5");
  client_t c;
  client_open(&c, &q, "QueueDequeueManyV2", F32);
  expect(&q, "QueueEnqueueManyV2", "Tcomponents=[float]", "float[2]:1,2", "");
  pthread_create(&c.thread, NULL, take_three, &c);
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=false", "", "");
  pthread_join(c.thread, NULL);
  CU_ASSERT_EQUAL(c.code, WEFT_OUT_OF_RANGE); /* whether it came before or after the close */
  expect(&q, "QueueDequeueV2", F32, "", "float[]:1");
  expect(&q, "QueueDequeueV2", F32, "", "float[]:2");
  client_close(&c);
  drop(&q);
  end();
}

static void *consume_one(void *arg) {
  run(arg, NULL);
  return NULL;
}

static void cancelling_the_step_ends_those_that_wait(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[]] capacity=1");
  client_t in, out[2];
  client_open(&in, &q, "QueueEnqueueV2", "Tcomponents=[float]");
  for (int i = 0; i < 2; i++) client_open(&out[i], &q, "QueueDequeueV2", F32);
  for (int i = 0; i < 2; i++) pthread_create(&out[i].thread, NULL, consume_one, &out[i]);
  weft_canceller_cancel(bench.canceller);
  for (int i = 0; i < 2; i++) {
    pthread_join(out[i].thread, NULL);
    CU_ASSERT_EQUAL(out[i].code, WEFT_CANCELLED);
    CU_ASSERT_STRING_EQUAL(out[i].message, "Dequeue operation was cancelled");
    client_close(&out[i]);
  }
  weft_tensor_t *t = parse("float[]:1");
  CU_ASSERT_FALSE(run(&in, t));
  CU_ASSERT_STRING_EQUAL(in.message, "Enqueue operation was cancelled");
  weft_tensor_release(t);
  client_close(&in);
  drop(&q);
  end();
}

static void clearing_the_container_ends_those_that_wait(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shared_name=s");
  client_t c;
  client_open(&c, &q, "QueueDequeueV2", F32);
  pthread_create(&c.thread, NULL, consume_one, &c);
  weft_resource_clear(bench.resources, WEFT_STR(""));
  pthread_join(c.thread, NULL);
  CU_ASSERT_TRUE(c.code == WEFT_CANCELLED || c.code == WEFT_OUT_OF_RANGE);
  client_close(&c);
  drop(&q);
  end();
}

static void closing_may_cancel_blocked_enqueues(void) {
  begin();
  queue_t q = make("FIFOQueueV2", F32 " shapes=[[]] capacity=2");
  client_t c;
  client_open(&c, &q, "QueueEnqueueV2", "Tcomponents=[float]");
  pthread_create(&c.thread, NULL, produce, &c); /* blocks at the third */
  expect(&q, "QueueCloseV2", "cancel_pending_enqueues=true", "", "");
  pthread_join(c.thread, NULL);
  CU_ASSERT_EQUAL(c.code, WEFT_CANCELLED);
  client_close(&c);
  drop(&q);
  end();
}

static void old_references_name_the_queue(void) {
  begin();
  weft_harness_t *node = NULL;
  weft_value_t out = {0};
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, "FIFOQueue", F32, NULL, 0, &node));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(node, NULL, &out));
  CU_ASSERT_PTR_NOT_NULL_FATAL(out.ref);
  queue_t q = {.node = node, .handle = weft_variable_read(out.ref)};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_tensor_print(q.handle, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "string[2]:'localhost','_0_n'");
  weft_strbuf_deinit(&text);
  weft_object_release(&out.ref->object);
  drop(&q);
  end();
}

static const CU_TestInfo tests[] = {
    {"FIFO keeps order and closes as TensorFlow does", fifo_keeps_order_and_closes_as_tensorflow_does},
    {"batches need shapes", batches_need_shapes},
    {"a padding queue pads to the largest", a_padding_queue_pads_to_the_largest},
    {"a priority queue gives the smallest first", a_priority_queue_gives_the_smallest_first},
    {"a shuffling queue keeps some back until closed", a_shuffling_queue_keeps_some_back_until_closed},
    {"sharing nodes must agree", sharing_nodes_must_agree},
    {"many producers and consumers lose nothing", many_producers_and_consumers_lose_nothing},
    {"a batch that is cut short gives back what it took", a_batch_that_is_cut_short_gives_back_what_it_took},
    {"cancelling the step ends those that wait", cancelling_the_step_ends_those_that_wait},
    {"clearing the container ends those that wait", clearing_the_container_ends_those_that_wait},
    {"closing may cancel blocked enqueues", closing_may_cancel_blocked_enqueues},
    {"old references name the queue", old_references_name_the_queue},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("queue", tests); }
