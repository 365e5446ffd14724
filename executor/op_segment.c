/* executor/op_segment.c - states of stateful kernels that several plans share, by node name.
 *
 * Locking: `mu` is a leaf but for prepare functions, which run outside it: of two
 * plans that make the same state at once, one finds the other's and drops its own.
 */
#include "base/alloc.h"
#include "executor/plan.h"

typedef struct shared {
  weft_arena_t arena;
  weft_kernel_setup_t setup; /* in `arena`: what `state` may point to */
  const weft_kernel_t *kernel;
  void *state;
} shared_t;

struct weft_op_segment {
  atomic_int refs;
  weft_mutex_t mu;
  weft_map_t by_name; /* guarded by mu; shared_t, never removed */
  weft_functions_t *functions;
};

weft_status_t *weft_op_segment_create(weft_op_segment_t **out) {
  weft_op_segment_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("creating an op segment");
  atomic_init(&s->refs, 1);
  weft_mutex_init(&s->mu);
  weft_status_t *status = weft_functions_create(&s->functions);
  if (status != NULL) {
    weft_op_segment_release(s);
    return status;
  }
  *out = s;
  return NULL;
}

weft_functions_t *weft_op_segment_functions(weft_op_segment_t *s) { return s->functions; }

weft_op_segment_t *weft_op_segment_retain(weft_op_segment_t *s) {
  if (s != NULL) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

static void shared_free(shared_t *one) {
  if (one == NULL) return;
  if (one->state != NULL && one->kernel->destroy != NULL) one->kernel->destroy(one->state);
  weft_kernel_setup_release(&one->setup);
  weft_arena_deinit(&one->arena);
  weft_free(one);
}

void weft_op_segment_release(weft_op_segment_t *s) {
  if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&s->by_name, &at, &each);) shared_free(each.value);
  weft_map_deinit(&s->by_name);
  weft_functions_release(s->functions); /* behind the states, which may point to them */
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

static weft_status_t *shared_new(const weft_kernel_t *kernel, const weft_kernel_setup_t *setup,
                                 shared_t **out) {
  shared_t *one = weft_calloc(1, sizeof *one);
  if (one == NULL) return WEFT_NO_MEMORY("keeping node %s", setup->node.name.data);
  one->kernel = kernel;
  weft_status_t *s = weft_kernel_setup_copy(&one->arena, setup, &one->setup);
  if (s == NULL && kernel->prepare != NULL) s = kernel->prepare(&one->setup, &one->state);
  if (s != NULL) {
    shared_free(one);
    return s;
  }
  *out = one;
  return NULL;
}

/* The same op with the same attributes: may they share what prepare makes? */
static bool same_node(const weft_kernel_setup_t *a, const weft_kernel_setup_t *b) {
  bool same = a->num_attrs == b->num_attrs && a->node.device == b->node.device;
  for (int i = 0; same && i < a->num_attrs; i++) {
    same = weft_str_eq(a->attrs[i].name, b->attrs[i].name) &&
           weft_attr_eq(&a->attrs[i].value, &b->attrs[i].value);
  }
  return same;
}

weft_status_t *weft_op_segment_instance(weft_op_segment_t *s, const weft_kernel_t *kernel,
                                        const weft_kernel_setup_t *setup, op_instance_t *out,
                                        bool *out_is_shared) {
  weft_mutex_lock(&s->mu);
  shared_t *one = weft_map_get(&s->by_name, setup->node.name);
  weft_mutex_unlock(&s->mu);
  if (one == NULL) {
    shared_t *mine = NULL;
    WEFT_RETURN_IF_ERROR(shared_new(kernel, setup, &mine));
    weft_status_t *failed = NULL;
    weft_mutex_lock(&s->mu);
    one = weft_map_get(&s->by_name, setup->node.name);
    if (one == NULL) {
      failed = weft_map_put(&s->by_name, mine->setup.node.name, mine, NULL);
      if (failed == NULL) {
        one = mine;
        mine = NULL;
      }
    }
    weft_mutex_unlock(&s->mu);
    shared_free(mine);
    if (failed != NULL) return failed;
  }
  if (one->kernel == kernel && same_node(&one->setup, setup)) {
    *out = (op_instance_t){.kernel = kernel, .state = one->state};
    *out_is_shared = true;
    return NULL;
  }
  /* Something else of that name: nothing to share. */
  *out = (op_instance_t){.kernel = kernel};
  *out_is_shared = false;
  return kernel->prepare == NULL ? NULL : kernel->prepare(setup, &out->state);
}
