/* Stacks, arrays, barriers and queues as objects: what they hold, how a wait for them ends, each failing
 * allocation. */
#include <string.h>

#include "base/cancellation.h"
#include "resources/barrier.h"
#include "resources/stack.h"
#include "resources/step_container.h"
#include "resources/tensor_array.h"
#include "resources/tensor_queue.h"
#include "tests/runner.h"

/* A call that notes its end. */
typedef struct ended {
  weft_value_t outputs[4];
  int times;
  weft_code_t code;
} ended_t;

static void note(void *arg, weft_status_t *status) {
  ended_t *e = arg;
  e->times++;
  e->code = weft_status_code(status);
  weft_status_free(status);
}

static weft_resource_call_t call_for(ended_t *e, weft_canceller_t *canceller) {
  *e = (ended_t){.times = 0};
  return (weft_resource_call_t){.canceller = canceller, .outputs = e->outputs, .done = note, .arg = e};
}

static void drop(ended_t *e) {
  for (int i = 0; i < 4; i++) weft_tensor_release(e->outputs[i].tensor);
}

static weft_tensor_t *scalar(float value) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &value, &t));
  return t;
}

static void a_stack_gives_back_what_came_last(void) {
  weft_stack_t *st = NULL;
  weft_tensor_t *a = scalar(1), *b = scalar(2), *out = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_stack_create("s", WEFT_F32, 2, &st));
  CU_ASSERT_PTR_NULL(weft_stack_push(st, a));
  CU_ASSERT_PTR_NULL(weft_stack_push(st, b));
  weft_status_t *s = weft_stack_push(st, a);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  CU_ASSERT_PTR_NULL_FATAL(weft_stack_pop(st, &out));
  CU_ASSERT_PTR_EQUAL(out, b);
  weft_stack_close(st);
  s = weft_stack_pop(st, &a);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_tensor_release(out);
  weft_tensor_release(a);
  weft_tensor_release(b);
  weft_object_release((weft_object_t *)st);
}

static void a_gradient_array_adds_up_and_reads_zeros(void) {
  const weft_tensor_array_config_t config = {.dtype = WEFT_F32, .element_shape = WEFT_UNKNOWN_SHAPE};
  weft_tensor_array_t *a = NULL, *g = NULL;
  weft_tensor_t *x = scalar(3), *out[2] = {NULL, NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_array_create("a", 2, &config, &a));
  CU_ASSERT_PTR_NULL(weft_tensor_array_write(a, 0, x, NULL));
  CU_ASSERT_PTR_NULL(weft_tensor_array_write(a, 1, x, NULL));
  weft_status_t *s = weft_tensor_array_write(a, 1, x, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT); /* written twice */
  weft_status_free(s);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_array_gradient(a, "a@g", &WEFT_SCALAR, &g));
  CU_ASSERT_PTR_NULL(weft_tensor_array_write(g, 0, x, NULL));
  CU_ASSERT_PTR_NULL(weft_tensor_array_write(g, 0, x, NULL));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_array_read(g, NULL, 2, out));
  CU_ASSERT_EQUAL(*(float *)out[0]->data, 6);
  CU_ASSERT_EQUAL(*(float *)out[1]->data, 0);
  CU_ASSERT_EQUAL(*(float *)x->data, 3); /* the sum is the array's own */
  weft_tensor_release(out[0]);
  weft_tensor_release(out[1]);
  weft_tensor_release(x);
  weft_object_release((weft_object_t *)g);
  weft_object_release((weft_object_t *)a);
}

static weft_object_t *fresh_queue(void) {
  weft_object_t *o = NULL;
  weft_tensor_queue_config_t config = {.kind = WEFT_QUEUE_FIFO,
                                       .num_components = 1,
                                       .capacity = 1,
                                       .dtypes = weft_calloc(1, sizeof *config.dtypes)};
  CU_ASSERT_PTR_NOT_NULL_FATAL(config.dtypes);
  config.dtypes[0] = WEFT_F32;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_queue_create("q", &config, &o));
  return o;
}

static void a_dequeue_waits_for_what_comes(void) {
  weft_object_t *o = fresh_queue();
  weft_tensor_queue_t *q = (weft_tensor_queue_t *)o;
  ended_t in, out;
  weft_resource_call_t put = call_for(&in, NULL), take = call_for(&out, NULL);
  weft_value_t x = {.tensor = scalar(5)};
  weft_tensor_queue_dequeue(q, &take);
  CU_ASSERT_EQUAL(out.times, 0);
  weft_tensor_queue_enqueue(q, &put, &x, 1, false);
  CU_ASSERT_EQUAL(in.times, 1);
  CU_ASSERT_EQUAL(out.times, 1);
  CU_ASSERT_EQUAL(out.code, WEFT_OK);
  CU_ASSERT_PTR_EQUAL(out.outputs[0].tensor, x.tensor); /* no copy */
  drop(&out);
  weft_tensor_release(x.tensor);
  weft_object_release(o);
}

static void a_wait_ends_when_it_is_cancelled_or_the_queue_goes(void) {
  weft_object_t *o = fresh_queue();
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  ended_t first, second;
  CU_ASSERT_PTR_NOT_NULL_FATAL(canceller);
  weft_resource_call_t a = call_for(&first, canceller), b = call_for(&second, NULL);
  weft_tensor_queue_dequeue((weft_tensor_queue_t *)o, &a);
  weft_tensor_queue_dequeue((weft_tensor_queue_t *)o, &b);
  weft_canceller_cancel(canceller);
  CU_ASSERT_EQUAL(first.times, 1);
  CU_ASSERT_EQUAL(first.code, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(second.times, 0);
  weft_tensor_queue_type.abandon(o);
  CU_ASSERT_EQUAL(second.times, 1);
  CU_ASSERT_EQUAL(second.code, WEFT_OUT_OF_RANGE); /* closed, and empty */
  weft_canceller_release(canceller);
  weft_object_release(o);
}

/* A failed allocation is no cancellation. */
static weft_status_t *wait_and_cancel(weft_tensor_queue_t *q) {
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  if (canceller == NULL) return WEFT_NO_MEMORY("a canceller");
  ended_t e;
  weft_resource_call_t call = call_for(&e, canceller);
  weft_tensor_queue_dequeue(q, &call);
  if (e.times == 0) {
    weft_canceller_cancel(canceller);
    CU_ASSERT_EQUAL(e.code, WEFT_CANCELLED);
    e.code = WEFT_OK;
  }
  CU_ASSERT_EQUAL(e.times, 1);
  weft_canceller_release(canceller);
  return weft_status_from_wire((int)e.code, "", 0);
}

static void without_memory_a_wait_is_not_cancelled(void) {
  int n = 0;
  weft_object_t *o = fresh_queue();
  WEFT_FAIL_EACH_ALLOCATION(n, s, wait_and_cancel((weft_tensor_queue_t *)o));
  CU_ASSERT_TRUE(n > 0);
  weft_object_release(o);
}

static void a_barrier_gives_what_is_whole(void) {
  const weft_dtype_t dtypes[2] = {WEFT_F32, WEFT_F32};
  const weft_shape_t one = weft_shape_vector(1);
  weft_barrier_config_t config;
  weft_object_t *o = NULL;
  weft_tensor_t *keys = NULL, *values = NULL;
  ended_t e;
  weft_resource_call_t take = call_for(&e, NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_barrier_config_init(&config, dtypes, NULL, 2));
  CU_ASSERT_PTR_NULL_FATAL(weft_barrier_create("b", &config, &o));
  weft_barrier_config_deinit(&config);
  weft_barrier_t *b = (weft_barrier_t *)o;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_STRING, &one, NULL, &keys));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_set_str(keys, 0, WEFT_STR("k")));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &one, NULL, &values));
  *(float *)values->data = 7;
  weft_barrier_take(b, &take, 1, false);
  CU_ASSERT_PTR_NULL(weft_barrier_insert(b, keys, values, 1));
  CU_ASSERT_EQUAL(e.times, 0); /* component 0 is missing */
  CU_ASSERT_PTR_NULL(weft_barrier_insert(b, keys, values, 0));
  CU_ASSERT_EQUAL(e.times, 1);
  CU_ASSERT_EQUAL(e.code, WEFT_OK);
  CU_ASSERT_TRUE(weft_str_is(weft_tensor_str_at(e.outputs[1].tensor, 0), "k"));
  CU_ASSERT_EQUAL(*(float *)e.outputs[3].tensor->data, 7);
  drop(&e);
  weft_tensor_release(keys);
  weft_tensor_release(values);
  weft_object_release(o);
}

static weft_status_t *keep_two(void) {
  weft_step_container_t *c = NULL;
  weft_stack_t *st = NULL;
  weft_status_t *s = weft_step_container_create(&c);
  if (s == NULL) s = weft_stack_create("s", WEFT_F32, -1, &st);
  if (s == NULL) s = weft_step_container_add(c, WEFT_STR("s"), (weft_object_t *)st);
  if (s == NULL) {
    weft_object_t *found = weft_step_container_find(c, WEFT_STR("s"));
    CU_ASSERT_PTR_EQUAL(found, (weft_object_t *)st);
    weft_object_release(found);
  }
  weft_object_release((weft_object_t *)st);
  weft_step_container_destroy(c);
  return s;
}

static void every_failed_allocation_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, keep_two());
  CU_ASSERT_TRUE(n > 0);
}

static const CU_TestInfo tests[] = {
    {"a stack gives back what came last", a_stack_gives_back_what_came_last},
    {"a gradient array adds up and reads zeros", a_gradient_array_adds_up_and_reads_zeros},
    {"a dequeue waits for what comes", a_dequeue_waits_for_what_comes},
    {"a wait ends when it is cancelled or the queue goes",
     a_wait_ends_when_it_is_cancelled_or_the_queue_goes},
    {"without memory a wait is not cancelled", without_memory_a_wait_is_not_cancelled},
    {"a barrier gives what is whole", a_barrier_gives_what_is_whole},
    {"every failed allocation is reported", every_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("objects", tests); }
