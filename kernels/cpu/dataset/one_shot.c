/* kernels/cpu/dataset/one_shot.c - OneShotIterator: an iterator over the data set that a function makes,
 * which is called once, when the iterator is first needed.
 *
 * A strategy whose workers read for themselves gives each worker's copy of the node two attributes,
 * _weft_workers and _weft_worker: then the iterator goes over this worker's part of the data set.
 * _weft_policy says how it is cut. */
#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/cpu/dataset/auto_shard.h"
#include "kernels/cpu/dataset/iterator_ops.h"

enum { POLICY_OF_OPTIONS = -2 }; /* auto_shard.h */

typedef struct one_shot {
  weft_callee_t *factory;
  weft_element_spec_t *spec;
  weft_state_name_t name;
  int64_t num_workers, worker; /* 1, 0: the whole data set is read */
  int64_t policy;              /* of auto_shard.h */
  weft_mutex_t mu;
  weft_object_t *resource;          /* guarded by mu, as what follows; NULL: not made yet */
  weft_resource_manager_t *manager; /* where it has its name; to take a private one away */
  bool is_calling, is_ready;
  weft_kernel_ctx_t **waiting; /* executions that need it meanwhile; num_waiting of them */
  size_t num_waiting;
} one_shot_t;

static void destroy(void *state) {
  one_shot_t *o = state;
  if (o == NULL) return;
  if (o->resource != NULL && o->name.is_private) {
    weft_status_free(weft_resource_delete(o->manager, weft_str(o->name.container), weft_str(o->name.name),
                                          &weft_iterator_resource_type));
  }
  weft_object_release(o->resource);
  weft_element_spec_release(o->spec);
  weft_state_name_deinit(&o->name);
  weft_free(o->waiting);
  weft_mutex_deinit(&o->mu);
  weft_free(o);
}

/* An attribute that the op does not have, and a strategy may have set. */
static int64_t marked(const weft_kernel_setup_t *setup, const char *name, int64_t absent) {
  const weft_attr_t *a = weft_attr_find(setup->attrs, setup->num_attrs, name);
  return a != NULL && a->kind == WEFT_ATTR_INT && !a->is_list ? a->i : absent;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  one_shot_t *o = weft_calloc(1, sizeof *o);
  if (o == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  weft_mutex_init(&o->mu);
  o->num_workers = marked(setup, "_weft_workers", 1);
  o->worker = marked(setup, "_weft_worker", 0);
  o->policy = marked(setup, "_weft_policy", POLICY_OF_OPTIONS);
  weft_status_t *s = o->worker >= 0 && o->worker < o->num_workers
                         ? weft_iterator_spec_read(setup, &o->spec)
                         : WEFT_ERROR(INVALID_ARGUMENT, "_weft_worker is not below _weft_workers");
  if (s == NULL) s = weft_state_name_init(&o->name, setup, false);
  if (s == NULL) s = weft_knode_callee(setup, "dataset_factory", &o->factory);
  if (s != NULL) {
    destroy(o);
    return s;
  }
  *out_state = o;
  return NULL;
}

static weft_status_t *create(void *arg, weft_object_t **out) {
  const one_shot_t *o = arg;
  return weft_iterator_resource_create(o->spec, (weft_iterator_resource_t **)out);
}

static void hand_out(weft_kernel_ctx_t *c) {
  const one_shot_t *o = c->state;
  weft_tensor_t *t = NULL;
  weft_status_t *s =
      weft_state_handle(c->device, o->name.container, o->name.name, &weft_iterator_resource_type, o->resource,
                        WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &t);
  if (s == NULL) weft_out_set(c, 0, t);
  c->done(c, s);
}

/* Begins the pass through the data set that the function made, or through the worker's part of it. */
static weft_status_t *begin(const one_shot_t *o, const weft_tensor_t *made, weft_device_t *device) {
  weft_iterator_resource_t *r = (weft_iterator_resource_t *)o->resource;
  weft_dataset_t *all = NULL, *mine = NULL;
  weft_tensor_t *t = NULL;
  if (o->num_workers == 1) return weft_iterator_resource_begin(r, made, device);
  WEFT_RETURN_IF_ERROR(weft_dataset_of(made, &all));
  WEFT_RETURN_IF_ERROR(weft_auto_shard(all, o->policy, o->num_workers, o->worker, &mine));
  WEFT_RETURN_IF_ERROR(weft_dataset_tensor(mine, &t));
  weft_status_t *s = weft_iterator_resource_begin(r, t, device);
  weft_tensor_release(t);
  return s;
}

/* The function has ended: for all executions that wait. After a failure the next execution calls it again. */
static void called(void *arg, weft_status_t *s, weft_tensor_t **results) {
  weft_kernel_ctx_t *c = arg;
  one_shot_t *o = c->state;
  if (s == NULL) s = begin(o, results[0], c->device);
  weft_mutex_lock(&o->mu);
  weft_kernel_ctx_t **waiting = o->waiting;
  const size_t n = o->num_waiting;
  o->waiting = NULL;
  o->num_waiting = 0;
  o->is_calling = false;
  o->is_ready = s == NULL;
  weft_mutex_unlock(&o->mu);
  for (size_t i = 0; i < n; i++) {
    if (s == NULL) {
      hand_out(waiting[i]);
    } else {
      waiting[i]->done(waiting[i], weft_status_clone(s));
    }
  }
  weft_free(waiting);
  if (s == NULL) {
    hand_out(c);
  } else {
    c->done(c, s);
  }
}

static weft_status_t *wait_too(one_shot_t *o, weft_kernel_ctx_t *c) WEFT_REQUIRES(&o->mu) {
  weft_kernel_ctx_t **more = weft_realloc(o->waiting, o->num_waiting + 1, sizeof(weft_kernel_ctx_t *));
  if (more == NULL) return WEFT_NO_MEMORY("an iterator");
  o->waiting = more;
  o->waiting[o->num_waiting++] = c;
  return NULL;
}

static weft_status_t *need_resource(one_shot_t *o, weft_kernel_ctx_t *c) WEFT_REQUIRES(&o->mu) {
  if (o->resource != NULL) return NULL;
  o->manager = c->device->resources;
  return weft_resource_lookup_or_create(o->manager, weft_str(o->name.container), weft_str(o->name.name),
                                        &weft_iterator_resource_type, create, o, &o->resource);
}

static void compute(weft_kernel_ctx_t *c) {
  one_shot_t *o = c->state;
  weft_mutex_lock(&o->mu);
  const bool is_ready = o->is_ready, is_calling = o->is_calling;
  weft_status_t *s = is_ready ? NULL : is_calling ? wait_too(o, c) : need_resource(o, c);
  if (s == NULL && !is_ready) o->is_calling = true;
  weft_mutex_unlock(&o->mu);
  if (s != NULL) {
    c->done(c, s);
  } else if (is_ready) {
    hand_out(c);
  } else if (!is_calling) {
    const weft_function_call_t call = {
        .num_results = 1, .canceller = c->step->canceller, .step = c->step, .done = called, .arg = c};
    weft_callee_run(o->factory, &call);
  }
}

const weft_kernel_t weft_cpu_dataset_one_shot_kernels[] = {
    {.op = "OneShotIterator", .prepare = prepare, .compute_async = compute, .destroy = destroy},
    {0},
};
