/* tests/device/tensor_intake_test.c - a tensor that comes to a device in parts, on a queue that the test
 * moves by hand. */
#include "device/tensor_intake.h"

#include "base/alloc.h"
#include "device/queue.h"
#include "tests/runner.h"

enum { BYTES = (3 << 20) + 8, MEGABYTE = 1 << 20 };

/* A device's memory that is the host's, but nothing here knows. */
static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  (void)self;
  return weft_cpu_allocator()->allocate(weft_cpu_allocator(), bytes, after);
}
static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  (void)self;
  weft_cpu_allocator()->deallocate(weft_cpu_allocator(), p, bytes);
}

typedef struct intake_scene {
  weft_queue_t queue; /* first */
  weft_device_t device;
  weft_memory_space_t space;
  weft_allocator_t memory;
  size_t copied;
  int num_copies, fail_at;
  weft_fence_waiter_t *waiter;
} intake_scene_t;

static intake_scene_t *scene_of(weft_queue_t *q) { return (intake_scene_t *)(void *)q; }

static void wait_for(weft_queue_t *q, weft_fence_t f) { (void)q, (void)f; }
static bool has_passed(weft_queue_t *q, uint64_t value) {
  (void)q, (void)value;
  return false;
}
static void then(weft_queue_t *q, weft_fence_waiter_t *w) { scene_of(q)->waiter = w; }
static weft_status_t *copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  intake_scene_t *x = scene_of(q);
  if (x->num_copies++ == x->fail_at) return WEFT_ERROR(INTERNAL, "no copy");
  memcpy(to->data, from->data, from->bytes);
  x->copied += from->bytes;
  return NULL;
}
static const weft_queue_ops_t ops = {.wait = wait_for, .has_passed = has_passed, .then = then, .copy = copy};

static void scene_init(intake_scene_t *x, int fail_at) {
  *x = (intake_scene_t){.queue = {.ops = &ops}, .fail_at = fail_at};
  x->space.device = &x->device;
  x->memory = (weft_allocator_t){.space = &x->space, .allocate = allocate, .deallocate = deallocate};
  x->device = (weft_device_t){.copies_in = &x->queue, .host_allocator = weft_cpu_allocator()};
  x->device.memory = weft_memory_accounts_create(&x->memory);
  CU_ASSERT_PTR_NOT_NULL_FATAL(x->device.memory);
}

/* The device is done. */
static void pass(intake_scene_t *x) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(x->waiter);
  x->waiter->fn(x->waiter->arg, NULL);
}

static void scene_deinit(intake_scene_t *x) {
  CU_ASSERT_EQUAL(weft_memory_in_use(x->device.memory, WEFT_MEMORY_COMM), 0); /* nothing is left */
  weft_memory_accounts_release(x->device.memory);
}

static weft_status_t *begin(intake_scene_t *x, weft_tensor_intake_t **out) {
  const weft_shape_t shape = weft_shape_vector(BYTES / 4);
  return weft_tensor_intake_begin(WEFT_F32, &shape, &x->space, out);
}

static void fill(weft_tensor_intake_t *in, size_t from, size_t to) {
  unsigned char *bytes = weft_tensor_intake_host(in)->data;
  for (size_t i = from; i < to; i++) bytes[i] = (unsigned char)(i % 251);
}

static void parts_are_copied_as_they_come(void) {
  intake_scene_t x;
  weft_tensor_intake_t *in = NULL;
  weft_tensor_t *out = NULL;
  scene_init(&x, -1);
  CU_ASSERT_PTR_NULL_FATAL(begin(&x, &in));
  fill(in, 0, MEGABYTE + 5);
  weft_tensor_intake_arrive(in, 100); /* not worth a copy */
  CU_ASSERT_EQUAL(x.num_copies, 0);
  weft_tensor_intake_arrive(in, MEGABYTE + 5);
  weft_tensor_intake_arrive(in, MEGABYTE + 5);
  CU_ASSERT_EQUAL(x.num_copies, 1);
  CU_ASSERT_EQUAL(x.copied, MEGABYTE + 5); /* the rest has not come yet */
  fill(in, MEGABYTE + 5, BYTES);
  CU_ASSERT_PTR_NULL(weft_tensor_intake_end(in, true, &out));
  CU_ASSERT_EQUAL(x.num_copies, 2);
  CU_ASSERT_EQUAL(x.copied, BYTES);
  CU_ASSERT_PTR_EQUAL(out->space, &x.space);
  CU_ASSERT_PTR_EQUAL(out->fence.queue, &x.queue);
  size_t wrong = 0;
  for (size_t i = 0; i < BYTES; i++) wrong += ((unsigned char *)out->data)[i] != i % 251;
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(atomic_load(&out->refs), 2); /* held until the device is done */
  pass(&x);
  CU_ASSERT_EQUAL(atomic_load(&out->refs), 1);
  weft_tensor_release(out);
  scene_deinit(&x);
}

static void what_does_not_come_as_a_whole_is_given_up(void) {
  intake_scene_t x;
  weft_tensor_intake_t *in = NULL;
  weft_tensor_t *out = NULL;
  scene_init(&x, -1);
  CU_ASSERT_PTR_NULL_FATAL(begin(&x, &in));
  weft_tensor_intake_arrive(in, 2 * MEGABYTE);
  weft_tensor_t *host = weft_tensor_retain(weft_tensor_intake_host(in));
  CU_ASSERT_PTR_NULL(weft_tensor_intake_end(in, false, &out));
  CU_ASSERT_PTR_NULL(out);
  CU_ASSERT_TRUE(weft_memory_in_use(x.device.memory, WEFT_MEMORY_COMM) > 0); /* a copy is under way */
  pass(&x);
  CU_ASSERT_EQUAL(atomic_load(&host->refs), 1);
  weft_tensor_release(host);
  scene_deinit(&x);
}

static void a_copy_that_fails_is_told_at_the_end(void) {
  intake_scene_t x;
  weft_tensor_intake_t *in = NULL;
  weft_tensor_t *out = NULL;
  scene_init(&x, 1);
  CU_ASSERT_PTR_NULL_FATAL(begin(&x, &in));
  weft_tensor_intake_arrive(in, MEGABYTE);
  weft_tensor_intake_arrive(in, 2 * MEGABYTE);
  weft_tensor_intake_arrive(in, 3 * MEGABYTE);
  CU_ASSERT_EQUAL(x.num_copies, 2); /* none behind the failure */
  weft_status_t *s = weft_tensor_intake_end(in, true, &out);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
  CU_ASSERT_PTR_NULL(out);
  weft_status_free(s);
  pass(&x);
  scene_deinit(&x);
}

static weft_status_t *once(intake_scene_t *x) {
  weft_tensor_intake_t *in = NULL;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(begin(x, &in));
  weft_tensor_intake_arrive(in, MEGABYTE);
  weft_status_t *s = weft_tensor_intake_end(in, true, &out);
  pass(x);
  weft_tensor_release(out);
  return s;
}

static void every_failing_allocation_is_told(void) {
  intake_scene_t x;
  long n = 0;
  scene_init(&x, -1);
  WEFT_FAIL_EACH_ALLOCATION(n, s, once(&x));
  CU_ASSERT_TRUE(n > 4);
  scene_deinit(&x);
}

static const CU_TestInfo tests[] = {
    {"parts are copied as they come", parts_are_copied_as_they_come},
    {"what does not come as a whole is given up", what_does_not_come_as_a_whole_is_given_up},
    {"a copy that fails is told at the end", a_copy_that_fails_is_told_at_the_end},
    {"every failing allocation is told", every_failing_allocation_is_told},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/tensor_intake", tests); }
