/* device/loaded/loaded_joint.c - collectives of a library's devices with those of other processes.
 *
 * The fences behind the parts say when they have passed; whether what they computed means anything, the
 * communicator: one that was broken off in the meantime has not done it.
 *
 * Locking: a communicator's `mu` is a leaf.
 */
#include "base/alloc.h"
#include "base/mutex.h"
#include "device/joint.h"
#include "device/loaded/loaded_device.h"

struct weft_device_communicator {
  const WEFT_DeviceCollectives *of;
  void *handle;
  int n;
  weft_device_t **devices; /* owned array */
  weft_mutex_t mu;
  bool is_broken; /* guarded by mu */
};

static const WEFT_DeviceCollectives *collectives_of(const weft_device_t *d) {
  return ((const weft_loaded_driver_t *)(const void *)d->driver)->type.collectives;
}

/* The library's devices; NULL without memory. */
static void **handles_of(weft_device_t *const *devices, int n) {
  void **handles = weft_calloc((size_t)n, sizeof *handles);
  for (int i = 0; handles != NULL && i < n; i++) handles[i] = weft_loaded_device(devices[i]);
  return handles;
}

static weft_status_t *make_id(weft_device_t *const *devices, int n, uint8_t *out) {
  void **handles = handles_of(devices, n);
  if (handles == NULL) return WEFT_NO_MEMORY("a communicator of %d devices", n);
  weft_status_t *s = weft_status_of_failure(collectives_of(devices[0])->unique_id(handles, n, out));
  weft_free(handles);
  return s;
}

static weft_status_t *identify(weft_device_t *const *devices, int n, uint8_t *out_ids) {
  const weft_device_driver_t *driver = devices[0]->driver;
  for (int i = 0; i < n; i++) {
    if (devices[i]->driver != driver || driver->sharing == NULL)
      return WEFT_ERROR(UNIMPLEMENTED, "the devices do not say what they are");
    WEFT_RETURN_IF_ERROR(driver->sharing->identify(devices[i], out_ids + (size_t)i * WEFT_DEVICE_ID_BYTES));
  }
  return make_id(devices, n, NULL);
}

static void free_communicator(weft_device_communicator_t *c) {
  weft_free(c->devices);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

static weft_status_t *join(weft_device_t *const *devices, const int *ranks, int num_devices, int n,
                           const uint8_t *id, weft_device_communicator_t **out) {
  weft_device_communicator_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a communicator of %d devices", n);
  weft_mutex_init(&c->mu);
  c->of = collectives_of(devices[0]);
  c->n = num_devices;
  c->devices = weft_calloc((size_t)num_devices, sizeof(weft_device_t *));
  void **handles = handles_of(devices, num_devices);
  weft_status_t *s =
      c->devices == NULL || handles == NULL
          ? WEFT_NO_MEMORY("a communicator of %d devices", n)
          : weft_status_of_failure(c->of->join_ranks(handles, ranks, num_devices, n, id, &c->handle));
  weft_free(handles);
  if (s != NULL) {
    free_communicator(c);
    return s;
  }
  for (int i = 0; i < num_devices; i++) c->devices[i] = devices[i];
  *out = c;
  return NULL;
}

static void leave(weft_device_communicator_t *c) {
  if (c == NULL) return;
  c->of->leave(c->handle);
  free_communicator(c);
}

static void break_off(weft_device_communicator_t *c) {
  weft_mutex_lock(&c->mu);
  c->is_broken = true;
  weft_mutex_unlock(&c->mu);
  weft_status_t *why = WEFT_ERROR(ABORTED, "a collective with other processes was ended");
  c->of->abort(c->handle, (const WEFT_Failure *)(const void *)why);
  weft_status_free(why);
}

/* ---- a collective ---- */

typedef struct joint_fence {
  weft_fence_waiter_t waiter;
  struct joint_wait *wait;
} joint_fence_t;

/* Of all the parts of one collective. */
typedef struct joint_wait {
  weft_device_communicator_t *communicator;
  void (*done)(void *arg, weft_status_t *status);
  void *arg;
  weft_mutex_t mu;
  int outstanding;       /* guarded by mu, as the next */
  weft_status_t *status; /* the first failure of a queue */
  joint_fence_t fences[];
} joint_wait_t;

static void free_wait(joint_wait_t *w) {
  weft_mutex_deinit(&w->mu);
  weft_free(w);
}

static void on_passed(void *arg, weft_status_t *s) {
  joint_fence_t *f = arg;
  joint_wait_t *w = f->wait;
  weft_mutex_lock(&w->mu);
  if (w->status == NULL) {
    w->status = s;
    s = NULL;
  }
  const bool is_last = --w->outstanding == 0;
  weft_mutex_unlock(&w->mu);
  weft_status_free(s);
  if (!is_last) return;
  weft_device_communicator_t *c = w->communicator;
  s = w->status;
  weft_mutex_lock(&c->mu);
  const bool is_broken = c->is_broken;
  weft_mutex_unlock(&c->mu);
  if (s == NULL && is_broken) s = WEFT_ERROR(ABORTED, "a collective with other processes was ended");
  void (*done)(void *, weft_status_t *) = w->done;
  void *done_arg = w->arg;
  free_wait(w);
  done(done_arg, s);
}

static weft_status_t *run(weft_device_communicator_t *c, const WEFT_Collective *what,
                          const weft_device_part_t *parts, void (*done)(void *arg, weft_status_t *status),
                          void *arg) {
  const size_t n = (size_t)c->n;
  joint_wait_t *w = weft_calloc(1, sizeof *w + n * sizeof w->fences[0]);
  WEFT_CollectiveRank *ranks = weft_calloc(n, sizeof *ranks);
  if (w == NULL || ranks == NULL) {
    weft_free(w);
    weft_free(ranks);
    return WEFT_NO_MEMORY("a collective of %d devices", c->n);
  }
  weft_mutex_init(&w->mu);
  w->communicator = c;
  w->done = done;
  w->arg = arg;
  w->outstanding = c->n;
  for (size_t i = 0; i < n; i++) {
    ranks[i] =
        (WEFT_CollectiveRank){parts[i].input == NULL ? NULL : parts[i].input->data, parts[i].output->data};
    weft_loaded_wait_for_part(&parts[i]);
  }
  weft_status_t *s = weft_status_of_failure(c->of->enqueue(c->handle, what, ranks));
  weft_free(ranks);
  if (s != NULL) {
    free_wait(w);
    return s;
  }
  for (size_t i = 0; i < n; i++) {
    const weft_fence_t f = weft_queue_mark(parts[i].device->compute);
    if (parts[i].output != parts[i].input) parts[i].output->fence = f;
    w->fences[i].wait = w;
    weft_fence_then(f, &w->fences[i].waiter, on_passed, &w->fences[i]);
  }
  return NULL;
}

const weft_device_joint_t weft_loaded_joint = {
    .identify = identify, .unique_id = make_id, .join = join, .run = run, .abort = break_off, .leave = leave};
