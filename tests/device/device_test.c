/* Conformance of devices: what every implementation of weft_device_ops_t must do. */
#include "device/device.h"

#include "tests/runner.h"

#define NAME "/job:a/replica:0/task:0/device:CPU:0"

static void each(void (*test)(weft_device_t *d)) {
  weft_device_t *d = NULL;
  weft_status_t *s = weft_cpu_device_create(WEFT_STR(NAME), 7, NULL, NULL, &d);
  CU_ASSERT_PTR_NULL_FATAL(s);
  test(d);
  weft_device_destroy(d);
}

static void named(weft_device_t *d) {
  CU_ASSERT_STRING_EQUAL(d->name.data, NAME);
  CU_ASSERT_EQUAL(d->incarnation, 7);
  CU_ASSERT_PTR_NOT_NULL(d->type);
  CU_ASSERT_TRUE(d->memory_limit > 0);
  CU_ASSERT_TRUE(d->host_allocator->is_host);
}
static void a_device_says_what_it_is(void) { each(named); }

typedef struct ended {
  int calls;
  weft_code_t code;
} ended_t;

static void end(void *arg, weft_status_t *s) {
  ended_t *e = arg;
  e->calls++;
  e->code = weft_status_code(s);
  weft_status_free(s);
}

static void order(weft_device_t *d) {
  weft_stream_t *s = NULL;
  weft_event_t *e = NULL;
  ended_t ended = {0};
  CU_ASSERT_PTR_NULL(d->ops->stream_create(d, &s));
  CU_ASSERT_PTR_NULL(d->ops->event_record(d, d->stream, &e));
  CU_ASSERT_PTR_NULL(d->ops->stream_wait(d, s, e));
  d->ops->event_then(d, e, end, &ended);
  CU_ASSERT_EQUAL(ended.calls, 1);
  CU_ASSERT_EQUAL(ended.code, WEFT_OK);
  d->ops->event_destroy(d, e);
  d->ops->stream_destroy(d, s);
}
static void events_pass(void) { each(order); }

static void copies(weft_device_t *d) {
  weft_shape_t shape = weft_shape_vector(3), other = weft_shape_vector(4);
  weft_tensor_t *from = NULL, *there = NULL, *back = NULL, *wrong = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, d->host_allocator, &from));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, d->allocator, &there));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, d->host_allocator, &back));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &other, d->host_allocator, &wrong));
  int32_t *x = from->data, *y = back->data;
  for (int i = 0; i < 3; i++) x[i] = i + 1, y[i] = 0;
  ended_t ended = {0};
  d->ops->copy_from_host(d, d->stream, from, there, end, &ended);
  d->ops->copy_to_host(d, d->stream, there, back, end, &ended);
  CU_ASSERT_EQUAL(ended.calls, 2);
  CU_ASSERT_TRUE(y[0] == 1 && y[1] == 2 && y[2] == 3);
  d->ops->copy_to_host(d, d->stream, there, wrong, end, &ended);
  CU_ASSERT_EQUAL(ended.code, WEFT_INVALID_ARGUMENT);
  weft_tensor_release(from);
  weft_tensor_release(there);
  weft_tensor_release(back);
  weft_tensor_release(wrong);
}
static void bytes_go_there_and_back(void) { each(copies); }

static weft_status_t *create_and_destroy(void) {
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_device_create(WEFT_STR(NAME), 7, NULL, NULL, &d));
  weft_device_destroy(d);
  return NULL;
}

static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, create_and_destroy());
  CU_ASSERT_EQUAL(n, 3);
  weft_device_destroy(NULL);
}

static const CU_TestInfo tests[] = {
    {"a device says what it is", a_device_says_what_it_is},
    {"events pass", events_pass},
    {"bytes go there and back", bytes_go_there_and_back},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device", tests); }
