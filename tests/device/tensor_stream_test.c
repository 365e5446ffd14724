/* tests/device/tensor_stream_test.c - a tensor that comes from a device in parts, on a queue that the test
 * moves by hand. */
#include "device/tensor_stream.h"

#include <pthread.h>

#include "base/alloc.h"
#include "device/queue.h"
#include "tests/runner.h"

enum { MAX_PARTS = 16, BYTES = (3 << 20) + 8 };

/* What the queue was asked for, in order. */
typedef struct hand {
  weft_queue_t queue; /* first */
  int num_copies, fail_at;
  struct {
    const char *from;
    char *to;
    size_t bytes;
  } copies[MAX_PARTS];
  int num_waiters;
  weft_fence_waiter_t *waiters[MAX_PARTS];
} hand_t;

static hand_t *hand_of(weft_queue_t *q) { return (hand_t *)(void *)q; }

static void wait_for(weft_queue_t *q, weft_fence_t f) { (void)q, (void)f; }
static bool has_passed(weft_queue_t *q, uint64_t value) {
  (void)q, (void)value;
  return false;
}
static void then(weft_queue_t *q, weft_fence_waiter_t *w) {
  hand_t *h = hand_of(q);
  h->waiters[h->num_waiters++] = w;
}
static weft_status_t *copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  hand_t *h = hand_of(q);
  if (h->num_copies == h->fail_at) return WEFT_ERROR(INTERNAL, "no");
  h->copies[h->num_copies].from = from->data;
  h->copies[h->num_copies].to = to->data;
  h->copies[h->num_copies++].bytes = from->bytes;
  return NULL;
}
static const weft_queue_ops_t ops = {.wait = wait_for, .has_passed = has_passed, .then = then, .copy = copy};

/* Part i has been copied, or failed. */
static void pass(hand_t *h, int i, weft_status_t *status) {
  if (status == NULL) memcpy(h->copies[i].to, h->copies[i].from, h->copies[i].bytes);
  h->waiters[i]->fn(h->waiters[i]->arg, status);
}

typedef struct scene {
  hand_t hand;
  weft_device_t device;
  weft_memory_space_t space;
  weft_tensor_t *t;
  weft_tensor_stream_t *stream;
} scene_t;

static void scene_init(scene_t *x, int fail_at) {
  const weft_shape_t shape = weft_shape_vector(BYTES / 4);
  *x = (scene_t){.hand = {.queue = {.ops = &ops, .device = &x->device}, .fail_at = fail_at}};
  x->device = (weft_device_t){.copies_out = &x->hand.queue, .host_allocator = weft_cpu_allocator()};
  x->space.device = &x->device;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &x->t));
  for (size_t i = 0; i < BYTES; i++) ((unsigned char *)x->t->data)[i] = (unsigned char)(i % 251);
  x->t->space = &x->space;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_stream_begin(x->t, &x->stream));
}

static void scene_deinit(scene_t *x) {
  weft_tensor_stream_release(x->stream);
  CU_ASSERT_EQUAL(atomic_load(&x->t->refs), 1); /* nothing holds it any more */
  x->t->space = NULL;
  weft_tensor_release(x->t);
}

static void the_first_parts_are_read_while_others_are_copied(void) {
  scene_t x;
  scene_init(&x, -1);
  CU_ASSERT_EQUAL_FATAL(x.hand.num_copies, 4);
  size_t all = 0;
  for (int i = 0; i < 4; i++) {
    CU_ASSERT_PTR_EQUAL(x.hand.copies[i].from, (const char *)x.t->data + all);
    all += x.hand.copies[i].bytes;
  }
  CU_ASSERT_EQUAL(all, BYTES);
  const size_t first = x.hand.copies[0].bytes;
  pass(&x.hand, 0, NULL);
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, 0), first); /* with three under way */
  CU_ASSERT_EQUAL(memcmp(weft_tensor_stream_data(x.stream), x.t->data, first), 0);
  memcpy(x.hand.copies[1].to, x.hand.copies[1].from, x.hand.copies[1].bytes);
  pass(&x.hand, 2, NULL); /* told before the second, which has come, too */
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, first), first + x.hand.copies[1].bytes * 2);
  pass(&x.hand, 1, NULL);
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, first), first + x.hand.copies[1].bytes * 2);
  CU_ASSERT_EQUAL(atomic_load(&x.t->refs), 2);
  pass(&x.hand, 3, NULL);
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, BYTES - 1), BYTES);
  CU_ASSERT_EQUAL(memcmp(weft_tensor_stream_data(x.stream), x.t->data, BYTES), 0);
  scene_deinit(&x);
}

static void *read_all(void *arg) {
  weft_tensor_stream_t *s = arg;
  size_t at = 0;
  for (size_t there; at < BYTES && (there = weft_tensor_stream_await(s, at)) > 0;) at = there;
  return at == BYTES ? s : NULL;
}

static void readers_wait_for_parts(void) {
  scene_t x;
  pthread_t reader;
  void *result = NULL;
  scene_init(&x, -1);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&reader, NULL, read_all, x.stream), 0);
  for (int i = 0; i < 4; i++) pass(&x.hand, i, NULL);
  pthread_join(reader, &result);
  CU_ASSERT_PTR_EQUAL(result, x.stream);
  scene_deinit(&x);
}

static void a_failure_ends_the_stream(void) {
  scene_t x;
  scene_init(&x, -1);
  pass(&x.hand, 0, NULL);
  pass(&x.hand, 1, WEFT_ERROR(UNAVAILABLE, "the device is gone"));
  const size_t first = x.hand.copies[0].bytes;
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, 0), first);
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, first), 0);
  pass(&x.hand, 2, WEFT_ERROR(UNAVAILABLE, "the device is gone"));
  pass(&x.hand, 3, WEFT_ERROR(UNAVAILABLE, "the device is gone"));
  scene_deinit(&x);
  scene_init(&x, 1); /* the second part cannot be enqueued */
  pass(&x.hand, 0, NULL);
  CU_ASSERT_EQUAL(weft_tensor_stream_await(x.stream, first), 0);
  scene_deinit(&x);
}

/* The owner is gone before the device is done. */
static void parts_under_way_hold_the_tensor(void) {
  scene_t x;
  scene_init(&x, -1);
  weft_tensor_stream_release(x.stream);
  CU_ASSERT_EQUAL(atomic_load(&x.t->refs), 2);
  for (int i = 0; i < 4; i++) pass(&x.hand, i, NULL);
  CU_ASSERT_EQUAL(atomic_load(&x.t->refs), 1);
  x.t->space = NULL;
  weft_tensor_release(x.t);
}

static weft_status_t *begin(weft_tensor_t *t) {
  weft_tensor_stream_t *s = NULL;
  hand_t *h = hand_of(t->space->device->copies_out);
  h->num_copies = h->num_waiters = 0;
  WEFT_RETURN_IF_ERROR(weft_tensor_stream_begin(t, &s));
  for (int i = 0; i < h->num_waiters; i++) pass(h, i, NULL);
  const bool is_whole = h->num_waiters == 4;
  weft_tensor_stream_release(s);
  return is_whole ? NULL : WEFT_NO_MEMORY("a part");
}

static void every_failing_allocation_ends_it(void) {
  scene_t x;
  scene_init(&x, -1);
  for (int i = 0; i < 4; i++) pass(&x.hand, i, NULL);
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, begin(x.t));
  scene_deinit(&x);
}

static const CU_TestInfo tests[] = {
    {"the first parts are read while others are copied", the_first_parts_are_read_while_others_are_copied},
    {"readers wait for parts", readers_wait_for_parts},
    {"a failure ends the stream", a_failure_ends_the_stream},
    {"parts under way hold the tensor", parts_under_way_hold_the_tensor},
    {"every failing allocation ends it", every_failing_allocation_ends_it},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/tensor_stream", tests); }
