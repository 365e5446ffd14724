/* kernels/cpu/session/lock.c - the kernels of MutexV2: its handle, taking it, giving it back. */
#include "resources/lock.h"

#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

/* The node knows the lock by name only: the first step that takes it makes it. */
typedef struct lock_node {
  weft_state_name_t name;
  weft_tensor_t *handle;
} lock_node_t;

static void destroy(void *state) {
  lock_node_t *n = state;
  if (n == NULL) return;
  weft_state_name_deinit(&n->name);
  weft_tensor_release(n->handle);
  weft_free(n);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  lock_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = weft_state_name_init(&n->name, setup, true);
  if (s == NULL) {
    s = weft_state_handle(setup->node.device, n->name.container, n->name.name, &weft_lock_type, NULL,
                          WEFT_DTYPE_INVALID, NULL, &n->handle);
  }
  if (s == NULL) *out_state = n;
  if (s != NULL) destroy(n);
  return s;
}

static weft_status_t *lock_handle(weft_kernel_ctx_t *c) {
  const lock_node_t *n = c->state;
  weft_out_set(c, 0, weft_tensor_retain(n->handle));
  return NULL;
}

static weft_status_t *create(void *arg, weft_object_t **out) {
  (void)arg;
  return weft_lock_create(out);
}

static weft_status_t *in_lock(weft_kernel_ctx_t *c, weft_object_t **out) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  if (!weft_str_is(h->type_name, weft_lock_type.name)) return weft_state_wrong_type(h, &weft_lock_type);
  return weft_resource_lookup_or_create(c->device->resources, h->container, h->name, &weft_lock_type, create,
                                        NULL, out);
}

static void acquire(weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  weft_status_t *s = in_lock(c, &o);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  weft_resource_call_t call = weft_state_call(c);
  weft_lock_acquire((weft_lock_t *)o, &call);
  weft_object_release(o);
}

/* The lock goes back when the tensor does, which is in this op's input alone. */
static weft_status_t *consume(weft_kernel_ctx_t *c) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected input to be a scalar, saw shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  const weft_variant_t *v = ((weft_variant_t *const *)t->data)[0];
  if (v == NULL || v->type != &weft_lock_hold_type) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected input to contain a SharedLockReleaser object, but saw variant: '%s'",
                      v == NULL ? "<empty>" : v->type->name);
  }
  int uses = atomic_load_explicit(&v->refs, memory_order_acquire);
  if (uses == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected use count of lock to be 1, but saw: %d", uses);
}

const weft_kernel_t weft_cpu_lock_kernels[] = {
    {.op = "ConsumeMutexLock", .compute = consume},
    {.op = "MutexLock", .compute_async = acquire},
    {.op = "MutexV2", .prepare = prepare, .compute = lock_handle, .destroy = destroy},
    {0},
};
