/* Conformance of devices: what every driver's devices must do. Run on the host's and on a late one. */
#include "device/device.h"

#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/loaded/library.h"
#include "kernels/loaded/loaded_kernels.h"
#include "tests/device/late/late.h"
#include "tests/runner.h"

#define NAME "/job:a/replica:0/task:0/device:X:0"

/* Of LATE devices; one for the process. */
static const weft_device_driver_t *late_driver(void) {
  static weft_loaded_driver_t *driver;
  WEFT_Failure *failure = NULL;
  if (driver == NULL)
    CU_ASSERT_PTR_NULL_FATAL(
        weft_loaded_driver_create(weft_late_open(&weft_device_host, &failure)->device, &driver));
  return weft_loaded_driver_base(driver);
}

static void each(void (*test)(weft_device_t *d)) {
  const weft_device_driver_t *const drivers[] = {&weft_cpu_driver, late_driver()};
  const weft_device_spec_t spec = {.name = WEFT_STR(NAME), .incarnation = 7};
  for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
    weft_device_t *d = NULL;
    CU_ASSERT_PTR_NULL_FATAL(drivers[i]->create(drivers[i], &spec, 0, &d));
    test(d);
    weft_device_destroy(d);
  }
}

static void named(weft_device_t *d) {
  CU_ASSERT_STRING_EQUAL(d->name.data, NAME);
  CU_ASSERT_EQUAL(d->incarnation, 7);
  CU_ASSERT_STRING_EQUAL(d->type, d->driver->type);
  CU_ASSERT_TRUE(d->memory_limit > 0);
  CU_ASSERT_PTR_NULL(d->host_allocator->space);
  CU_ASSERT_PTR_EQUAL(d->allocator->space, d->space);
  CU_ASSERT_EQUAL(d->compute == NULL, d->space == NULL);
}
static void a_device_says_what_it_is(void) { each(named); }

static weft_tensor_t *numbers(int n, int first) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(n);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  for (int i = 0; i < n; i++) ((int32_t *)t->data)[i] = first + i;
  return t;
}

static bool are_numbers(const weft_tensor_t *t, int n, int first) {
  bool are = t->count == n;
  for (int i = 0; are && i < n; i++) are = ((const int32_t *)t->data)[i] == first + i;
  return are;
}

/* There and back, many at once, with memory that is used again. */
static void copies(weft_device_t *d) {
  for (int round = 0; round < 200; round++) {
    weft_tensor_t *from = numbers(1000, round), *there = NULL, *back = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(from, d->space, &there));
    weft_tensor_release(from); /* the copy holds it as long as it must */
    CU_ASSERT_PTR_EQUAL(there->space, d->space);
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(there, NULL, &back));
    weft_tensor_release(there);
    CU_ASSERT_PTR_NULL(back->space);
    CU_ASSERT_TRUE(weft_fence_has_passed(back->fence));
    CU_ASSERT_TRUE(are_numbers(back, 1000, round));
    weft_tensor_release(back);
  }
}
static void bytes_go_there_and_back(void) { each(copies); }

static void parts(weft_device_t *d) {
  weft_tensor_t *from = numbers(12, 0), *there = NULL, *rows = NULL, *back = NULL;
  weft_shape_t shape = {.rank = 2, .dims = {4, 3}};
  weft_tensor_t *matrix = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(from, d->space, &there));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_view(there, WEFT_I32, &shape, &matrix));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_slice(matrix, 1, 2, &rows));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(rows, NULL, &back));
  CU_ASSERT_TRUE(are_numbers(back, 6, 3));
  weft_tensor_release(from);
  weft_tensor_release(there);
  weft_tensor_release(matrix);
  weft_tensor_release(rows);
  weft_tensor_release(back);
}
static void views_are_where_their_owner_is(void) { each(parts); }

/* Strings and empty tensors have no bytes that a device could reach. */
static void stays(weft_device_t *d) {
  weft_tensor_t *text = NULL, *empty = numbers(0, 0), *there = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_string(WEFT_STR("a"), &text));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(text, d->space, &there));
  CU_ASSERT_PTR_EQUAL(there, text);
  weft_tensor_release(there);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(empty, d->space, &there));
  CU_ASSERT_PTR_EQUAL(there, empty);
  weft_tensor_release(there);
  weft_tensor_release(text);
  weft_tensor_release(empty);
}
static void what_has_no_plain_bytes_stays_with_the_host(void) { each(stays); }

static void aliased(weft_device_t *d) {
  const weft_device_spec_t spec = {.name = WEFT_STR("/job:b/replica:0/task:0/device:X:0"), .incarnation = 8};
  weft_device_t *alias = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_device_alias(d, &spec, &alias));
  CU_ASSERT_STRING_EQUAL(alias->name.data, spec.name.data);
  CU_ASSERT_PTR_EQUAL(alias->space, d->space);
  CU_ASSERT_PTR_EQUAL(alias->compute, d->compute);
  weft_tensor_t *from = numbers(100, 1), *there = NULL, *back = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(from, alias->space, &there));
  weft_device_destroy(alias); /* the memory is the device's */
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(there, NULL, &back));
  CU_ASSERT_TRUE(are_numbers(back, 100, 1));
  weft_tensor_release(from);
  weft_tensor_release(there);
  weft_tensor_release(back);
}
static void an_alias_shares_memory_and_queues(void) { each(aliased); }

/* ---- queues ---- */

static weft_device_t *late_device(void) {
  const weft_device_spec_t spec = {.name = WEFT_STR(NAME), .incarnation = 7};
  weft_device_t *d = NULL;
  CU_ASSERT_PTR_NULL_FATAL(late_driver()->create(late_driver(), &spec, 0, &d));
  return d;
}

static weft_status_t *enqueue(weft_queue_t *q, weft_late_work_fn *fn, void *arg) {
  return weft_status_of_failure(weft_late_enqueue(weft_loaded_queue(q), fn, arg));
}

static WEFT_Failure *append(void *arg, const WEFT_Failure *poison) {
  char *text = arg;
  if (poison == NULL) strcat(text, "a");
  return NULL;
}

static WEFT_Failure *fail(void *arg, const WEFT_Failure *poison) {
  (void)arg;
  return poison == NULL ? weft_device_host.failure(WEFT_DATA_LOSS, "{{node n}} broke") : NULL;
}

typedef struct ended {
  weft_mutex_t mu;
  weft_cond_t has_come;
  int calls;        /* guarded by mu */
  weft_code_t code; /* guarded by mu */
  weft_fence_waiter_t waiter;
} ended_t;

static void end(void *arg, weft_status_t *s) {
  ended_t *e = arg;
  weft_mutex_lock(&e->mu);
  e->calls++;
  e->code = weft_status_code(s);
  weft_cond_signal(&e->has_come);
  weft_mutex_unlock(&e->mu);
  weft_status_free(s);
}

/* Waits for the fence by callback. */
static weft_code_t code_at(weft_fence_t f) {
  ended_t e = {.calls = 0};
  weft_mutex_init(&e.mu);
  weft_cond_init(&e.has_come);
  weft_fence_then(f, &e.waiter, end, &e);
  weft_mutex_lock(&e.mu);
  while (e.calls == 0) weft_cond_wait(&e.has_come, &e.mu);
  weft_mutex_unlock(&e.mu);
  weft_cond_deinit(&e.has_come);
  weft_mutex_deinit(&e.mu);
  CU_ASSERT_EQUAL(e.calls, 1);
  return e.code;
}

static void a_fence_passes_when_the_work_before_it_is_done(void) {
  weft_device_t *d = late_device();
  char text[16] = "";
  CU_ASSERT_EQUAL(code_at((weft_fence_t){NULL, 0}), WEFT_OK);
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->compute, append, text));
  weft_fence_t one = weft_queue_mark(d->compute);
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->compute, append, text));
  weft_fence_t two = weft_queue_mark(d->compute);
  CU_ASSERT_TRUE(two.value > one.value);
  CU_ASSERT_EQUAL(code_at(two), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(text, "aa");
  CU_ASSERT_TRUE(weft_fence_has_passed(one) && weft_fence_has_passed(two));
  CU_ASSERT_EQUAL(code_at(one), WEFT_OK);
  weft_device_destroy(d);
}

static void a_failure_poisons_what_is_behind_it(void) {
  weft_device_t *d = late_device();
  char text[16] = "";
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->compute, append, text));
  weft_fence_t before = weft_queue_mark(d->compute);
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->compute, fail, NULL));
  weft_fence_t at = weft_queue_mark(d->compute);
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->compute, append, text));
  weft_fence_t behind = weft_queue_mark(d->compute);
  weft_queue_wait(d->copies_out, behind);
  CU_ASSERT_PTR_NULL_FATAL(enqueue(d->copies_out, append, text));
  weft_fence_t elsewhere = weft_queue_mark(d->copies_out);
  CU_ASSERT_EQUAL(code_at(before), WEFT_OK);
  CU_ASSERT_EQUAL(code_at(at), WEFT_DATA_LOSS);
  CU_ASSERT_EQUAL(code_at(behind), WEFT_DATA_LOSS);
  CU_ASSERT_EQUAL(code_at(elsewhere), WEFT_DATA_LOSS);
  CU_ASSERT_FALSE(weft_fence_has_passed(behind));
  CU_ASSERT_STRING_EQUAL(text, "a");
  weft_device_destroy(d);
}

/* ---- drivers ---- */

static void drivers_are_listed_by_type(void) {
  CU_ASSERT_PTR_EQUAL(weft_device_drivers()[0], &weft_cpu_driver);
  CU_ASSERT_EQUAL(weft_device_driver_index(WEFT_STR("CPU")), 0);
  CU_ASSERT_EQUAL(weft_device_driver_index(WEFT_STR("LATE")), -1);
  CU_ASSERT_PTR_NULL(weft_device_register(late_driver()));
  CU_ASSERT_EQUAL(weft_device_driver_index(WEFT_STR("LATE")), 1);
  weft_status_t *s = weft_device_register(late_driver());
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_status_free(s);
}

static weft_status_t *create_and_destroy(const weft_device_driver_t *driver) {
  const weft_device_spec_t spec = {.name = WEFT_STR(NAME), .incarnation = 7};
  weft_device_t *d = NULL;
  WEFT_RETURN_IF_ERROR(driver->create(driver, &spec, 0, &d));
  weft_device_destroy(d);
  return NULL;
}

static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, create_and_destroy(&weft_cpu_driver));
  CU_ASSERT_EQUAL(n, 3);
  WEFT_FAIL_EACH_ALLOCATION(n, s, create_and_destroy(late_driver()));
  weft_device_destroy(NULL);
}

static const CU_TestInfo tests[] = {
    {"a device says what it is", a_device_says_what_it_is},
    {"bytes go there and back", bytes_go_there_and_back},
    {"views are where their owner is", views_are_where_their_owner_is},
    {"what has no plain bytes stays with the host", what_has_no_plain_bytes_stays_with_the_host},
    {"an alias shares memory and queues", an_alias_shares_memory_and_queues},
    {"a fence passes when the work before it is done", a_fence_passes_when_the_work_before_it_is_done},
    {"a failure poisons what is behind it", a_failure_poisons_what_is_behind_it},
    {"drivers are listed by type", drivers_are_listed_by_type},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device", tests); }
