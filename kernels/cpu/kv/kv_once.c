/* kernels/cpu/kv/kv_once.c - the kernels of guards; resources/kv_once.h says what they promise. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "kernels/cpu/kv/kv_common.h"
#include "resources/kv_once.h"
#include "tensor/update.h"

/* ---- the guard of a node ---- */

typedef struct once_state {
  weft_state_name_t name; /* of WeftOnce and WeftOnceDone */
  int64_t window;
} once_state_t;

static void once_destroy(void *state) {
  once_state_t *st = state;
  if (st == NULL) return;
  weft_state_name_deinit(&st->name);
  weft_free(st);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, bool is_named, void **out_state) {
  int64_t window = weft_knode_int(setup, "window");
  if (window > WEFT_ONCE_MAX_WINDOW) {
    return WEFT_ERROR(INVALID_ARGUMENT, "window must be at most %d, but is %" PRId64, WEFT_ONCE_MAX_WINDOW,
                      window);
  }
  if (is_named && weft_knode_string(setup, "shared_name").length == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s needs a shared_name: the guard outlives the graph",
                      WEFT_STR_ARGS(setup->node.name));
  }
  once_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->window = window;
  weft_status_t *s = is_named ? weft_state_name_init(&st->name, setup, true) : NULL;
  if (s == NULL) *out_state = st;
  if (s != NULL) once_destroy(st);
  return s;
}

static weft_status_t *once_prepare(const weft_kernel_setup_t *setup, void **out) {
  return prepare(setup, true, out);
}
static weft_status_t *update_prepare(const weft_kernel_setup_t *setup, void **out) {
  return prepare(setup, false, out);
}

static weft_status_t *once_make(void *arg, weft_object_t **out) {
  return weft_once_create(((const once_state_t *)arg)->window, out);
}

static weft_status_t *find_guard(weft_kernel_ctx_t *c, weft_str_t container, weft_str_t name,
                                 weft_once_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_resource_lookup_or_create(c->device->resources, container, name, &weft_once_type,
                                                      once_make, c->state, &o));
  *out = (weft_once_t *)o;
  return NULL;
}

static weft_status_t *node_guard(weft_kernel_ctx_t *c, weft_once_t **out) {
  const once_state_t *st = c->state;
  return find_guard(c, weft_str(st->name.container), weft_str(st->name.name), out);
}

/* ---- claims: what a step holds until it ends ---- */

typedef struct claim {
  weft_object_t object;
  weft_once_t *guard; /* retained */
  int64_t id;
  bool is_made, is_done; /* guarded by guard->room.mu */
} claim_t;

/* The step has ended. */
static void claim_destroy(weft_object_t *o) {
  claim_t *claim = (claim_t *)o;
  weft_once_t *guard = claim->guard;
  weft_mutex_lock(&guard->room.mu);
  if (claim->is_made && !claim->is_done) weft_once_finish_locked(guard, claim->id, false);
  weft_mutex_unlock(&guard->room.mu);
  weft_wait_flush(&guard->room);
  weft_object_release(&guard->object);
  weft_free(claim);
}

static void claim_name(const weft_kernel_ctx_t *c, int64_t id, char *out, size_t size) {
  const once_state_t *st = c->state;
  (void)snprintf(out, size, "weft_once %016" PRIx64 " %" PRId64,
                 weft_str_hash(weft_str(st->name.name)) ^ weft_str_hash(weft_str(st->name.container)), id);
}

typedef struct asking {
  weft_room_waiter_t waiter; /* first; waiter.owner is the guard */
  weft_kernel_ctx_t *ctx;
  int64_t id;
  claim_t *claim; /* to be made; one reference */
  bool is_new;
  weft_status_t *failure;
} asking_t;

/* Runs under the room's lock. */
static weft_wait_result_t try_claim(weft_room_waiter_t *w) {
  asking_t *a = (asking_t *)w;
  weft_once_t *guard = (weft_once_t *)w->owner;
  weft_once_state_t state = weft_once_state_locked(guard, a->id);
  a->is_new = state == WEFT_ONCE_NEW;
  if (state == WEFT_ONCE_CLAIMED) return WEFT_WAIT_STUCK;
  if (a->is_new) a->failure = weft_once_claim_locked(guard, a->id);
  if (a->is_new && a->failure == NULL) a->claim->is_made = true;
  return WEFT_WAIT_DONE;
}

static weft_status_t *set_bool(weft_kernel_ctx_t *c, bool value) {
  return weft_tensor_scalar(WEFT_BOOL, &value, &c->outputs[0].tensor);
}

static void finish_claim(weft_room_waiter_t *w) {
  asking_t *a = (asking_t *)w;
  weft_kernel_ctx_t *ctx = a->ctx;
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL) s = a->failure;
  if (s == NULL && a->is_new && ctx->step->fate != NULL && !weft_step_commit(ctx->step)) {
    s = WEFT_ERROR(ABORTED, "the step failed before it could claim id %" PRId64, a->id);
  }
  if (s == NULL && a->is_new) {
    char name[96];
    claim_name(ctx, a->id, name, sizeof name);
    s = weft_step_container_add(ctx->step->container, weft_str(name), &a->claim->object);
  }
  if (s == NULL) s = set_bool(ctx, a->is_new);
  weft_object_release(&a->claim->object); /* without the container's reference, the claim is given up */
  weft_free(a);
  ctx->done(ctx, s);
}

/* This step's own claim of the id; retained, or NULL. */
static claim_t *own_claim(weft_kernel_ctx_t *c, int64_t id) {
  char name[96];
  claim_name(c, id, name, sizeof name);
  return (claim_t *)weft_step_container_find(c->step->container, weft_str(name));
}

static weft_status_t *make_asking(weft_kernel_ctx_t *c, weft_once_t *guard, int64_t id, asking_t **out) {
  asking_t *a = weft_calloc(1, sizeof *a);
  claim_t *claim = weft_calloc(1, sizeof *claim);
  if (a == NULL || claim == NULL) {
    weft_free(a);
    weft_free(claim);
    return WEFT_NO_MEMORY("asking for id %" PRId64, id);
  }
  atomic_init(&claim->object.refs, 1);
  claim->object.destroy = claim_destroy;
  claim->guard = guard;
  weft_object_retain(&guard->object);
  claim->id = id;
  *a = (asking_t){.ctx = c, .id = id, .claim = claim};
  a->waiter.call = weft_state_call(c);
  a->waiter.owner = weft_object_retain(&guard->object);
  a->waiter.cancelled = "The wait for another step that does the same was cancelled";
  a->waiter.attempt = try_claim;
  a->waiter.finish = finish_claim;
  *out = a;
  return NULL;
}

static void once(weft_kernel_ctx_t *c) {
  weft_once_t *guard = NULL;
  asking_t *a = NULL;
  int64_t id = 0;
  weft_status_t *s = weft_kv_scalar(c, 0, "id", &id);
  if (s == NULL && (c->step == NULL || c->step->container == NULL)) {
    s = WEFT_ERROR(FAILED_PRECONDITION, "%.*s runs in no step that could end", WEFT_STR_ARGS(c->node->name));
  }
  if (s == NULL) {
    claim_t *mine = own_claim(c, id);
    if (mine != NULL) { /* the step has claimed it elsewhere: all its updates belong together */
      weft_object_release(&mine->object);
      c->done(c, set_bool(c, true));
      return;
    }
    s = node_guard(c, &guard);
  }
  if (s == NULL) s = make_asking(c, guard, id, &a);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_wait(&guard->room, &a->waiter);
  }
  if (guard != NULL) weft_object_release(&guard->object);
}

static weft_status_t *once_done(weft_kernel_ctx_t *c) {
  int64_t id = 0;
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, 0, "id", &id));
  claim_t *claim = c->step == NULL || c->step->container == NULL ? NULL : own_claim(c, id);
  if (claim == NULL) {
    return WEFT_ERROR(FAILED_PRECONDITION, "this step has not claimed id %" PRId64 " of '%s'", id,
                      ((const once_state_t *)c->state)->name.name);
  }
  weft_once_t *guard = claim->guard;
  weft_mutex_lock(&guard->room.mu);
  if (!claim->is_done) weft_once_finish_locked(guard, id, true);
  claim->is_done = true;
  weft_mutex_unlock(&guard->room.mu);
  weft_wait_flush(&guard->room);
  weft_object_release(&claim->object);
  return NULL;
}

/* ---- asking, updating and remembering in one ---- */

static weft_status_t *update_locked(weft_variable_t *v, weft_update_t kind, const weft_tensor_t *value) {
  weft_mutex_lock(&v->mu);
  weft_status_t *s = weft_variable_make_writable_locked(v);
  if (s == NULL && v->value->dtype != value->dtype) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "variable %.*s is of %s, not of %s", WEFT_STR_ARGS(v->name),
                   weft_dtype_name(v->value->dtype), weft_dtype_name(value->dtype));
  }
  if (s == NULL && !weft_shape_eq(&v->value->shape, &value->shape)) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "Cannot update variable with shape %s using a Tensor with shape %s, shapes must be equal.",
                   WEFT_SHAPE_TEXT(&v->value->shape), WEFT_SHAPE_TEXT(&value->shape));
  }
  if (s == NULL) weft_update_find(kind, value->dtype)(v->value->data, value->data, value->count, false);
  weft_mutex_unlock(&v->mu);
  return s;
}

static weft_status_t *once_update(weft_kernel_ctx_t *c, weft_update_t kind) {
  const weft_handle_t *h = NULL;
  weft_variable_t *v = NULL;
  weft_once_t *guard = NULL;
  int64_t id = 0;
  bool is_new = false;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_status_t *s = weft_kv_scalar(c, 1, "id", &id);
  if (s == NULL) s = find_guard(c, h->container, h->name, &guard);
  if (s == NULL) {
    weft_mutex_lock(&guard->room.mu); /* before the variable's */
    is_new = weft_once_state_locked(guard, id) == WEFT_ONCE_NEW;
    if (is_new) s = weft_once_claim_locked(guard, id);
    if (is_new && s == NULL) {
      s = update_locked(v, kind, weft_in(c, 2));
      weft_once_finish_locked(guard, id, s == NULL);
    }
    weft_mutex_unlock(&guard->room.mu);
    weft_object_release(&guard->object);
  }
  weft_object_release(&v->object);
  return s != NULL ? s : set_bool(c, is_new);
}

static weft_status_t *once_add(weft_kernel_ctx_t *c) { return once_update(c, WEFT_UPDATE_ADD); }
static weft_status_t *once_sub(weft_kernel_ctx_t *c) { return once_update(c, WEFT_UPDATE_SUB); }

#define UPDATE(name, fn)                                                                                   \
  {                                                                                                        \
    .op = name, .type_attr = "dtype", .types = WEFT_SET_NUMBERS, .prepare = update_prepare, .compute = fn, \
    .destroy = once_destroy                                                                                \
  }

const weft_kernel_t weft_cpu_kv_once_kernels[] = {
    {.op = "WeftOnce", .prepare = once_prepare, .compute_async = once, .destroy = once_destroy},
    UPDATE("WeftOnceAssignAdd", once_add),
    UPDATE("WeftOnceAssignSub", once_sub),
    {.op = "WeftOnceDone", .prepare = once_prepare, .compute = once_done, .destroy = once_destroy},
    {0},
};
