/* kernels/loaded/updates_together.c - _WeftUpdates: updates of variables that a library computes at once.
 *
 * Each member is a run of its own as the library sees it, with the node that it was. All variables are locked
 * together, in the order of their addresses. Where two members change the same variable, or one reads the
 * buffer of a reference that another writes, they run one by one, and so each as a whole. (Behind a handle a
 * value that something else holds is copied before it is changed.)
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/queue.h"
#include "kernels/loaded/context.h"
#include "kernels/state.h"
#include "kernels/updates.h"

/* Locks that are held at once. ThreadSanitizer ends a program that holds more than 64. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { MOST_LOCKS = 48 };
#else
enum { MOST_LOCKS = 1024 };
#endif

typedef struct joint_updates {
  const weft_kernel_t *kernel; /* of each member */
  void *state;                 /* likewise: their attributes are equal */
  weft_named_attr_t *attrs;
  int n, num_inputs, num_outputs, num_variables; /* num_...: of a member */
  weft_kernel_node_t nodes[];
} joint_updates_t;

/* ---- compiling ---- */

static void joint_destroy(void *state) {
  joint_updates_t *j = state;
  if (j->state != NULL && j->kernel->destroy != NULL) j->kernel->destroy(j->state);
  weft_free(j->attrs);
  weft_free(j);
}

static bool is_variable(int type) { return weft_dtype_is_ref(type) || type == WEFT_RESOURCE; }

static weft_status_t *describe_members(const weft_kernel_setup_t *setup, const weft_updates_t *u,
                                       joint_updates_t *j) {
  WEFT_RETURN_IF_ERROR(weft_updates_member_attrs(u->op, setup->attrs, setup->num_attrs, j->attrs));
  j->kernel = weft_kernel_find(setup->node.device->type, u->op->name, j->attrs, u->op->num_attrs);
  if (j->kernel == NULL || !j->kernel->joins)
    return WEFT_ERROR(INTERNAL, "updates of %.*s are not computed together", WEFT_STR_ARGS(u->op->name));
  for (int m = 0; m < u->n; m++) weft_updates_member_node(&setup->node, u, j->kernel, m, &j->nodes[m]);
  j->n = u->n;
  j->num_inputs = u->num_inputs;
  j->num_outputs = u->num_outputs;
  while (j->num_variables < u->num_inputs && is_variable(j->nodes[0].input_types[j->num_variables]))
    j->num_variables++;
  return weft_updates_members_prepare(setup, u, j->kernel, j->attrs, &j->state);
}

static weft_status_t *joint_prepare(const weft_kernel_setup_t *setup, void **out) {
  weft_updates_t u;
  WEFT_RETURN_IF_ERROR(weft_updates_read(setup->attrs, setup->num_attrs, &u));
  joint_updates_t *j = weft_calloc(1, sizeof *j + (size_t)u.n * sizeof j->nodes[0]);
  if (j == NULL) return WEFT_NO_MEMORY("preparing %d updates", u.n);
  j->attrs = weft_calloc((size_t)u.op->num_attrs + 1, sizeof *j->attrs);
  weft_status_t *s =
      j->attrs == NULL ? WEFT_NO_MEMORY("preparing %d updates", u.n) : describe_members(setup, &u, j);
  if (s != NULL) {
    joint_destroy(j);
    return s;
  }
  *out = j;
  return NULL;
}

/* ---- running ---- */

/* Some members that run together. */
typedef struct shared_launch {
  weft_kernel_ctx_t *ctx; /* of the node */
  const joint_updates_t *j;
  int first, n;            /* members */
  int num_variables;       /* of all of them */
  weft_arena_t arena;      /* all below */
  weft_kernel_ctx_t *ctxs; /* n */
  WEFT_KernelContext *runs, **run_pointers;
  weft_value_t *inputs;            /* of all: with the variables' values in their place */
  weft_variable_t **v, **in_order; /* num_variables; in_order: by address */
  weft_tensor_t **written;         /* num_variables */
} shared_launch_t;

static weft_status_t *allocate(shared_launch_t *r) {
  const size_t n = (size_t)r->n, v = (size_t)r->num_variables, in = n * (size_t)r->j->num_inputs;
  weft_arena_t *a = &r->arena;
  r->ctxs = weft_arena_calloc(a, n, sizeof *r->ctxs);
  r->runs = weft_arena_calloc(a, n, sizeof *r->runs);
  r->run_pointers = weft_arena_calloc(a, n, sizeof(WEFT_KernelContext *));
  r->inputs = weft_arena_calloc(a, in, sizeof *r->inputs);
  r->v = weft_arena_calloc(a, v + 1, sizeof(weft_variable_t *));
  r->in_order = weft_arena_calloc(a, v + 1, sizeof(weft_variable_t *));
  r->written = weft_arena_calloc(a, v + 1, sizeof(weft_tensor_t *));
  if (r->ctxs == NULL || r->runs == NULL || r->run_pointers == NULL || r->inputs == NULL || r->v == NULL ||
      r->in_order == NULL || r->written == NULL) {
    return WEFT_NO_MEMORY("%d updates", r->n);
  }
  return NULL;
}

/* The context of member m of the run, with its own inputs and outputs. */
static weft_kernel_ctx_t ctx_of(const shared_launch_t *r, int m) {
  weft_kernel_ctx_t c = *r->ctx;
  const int member = r->first + m;
  c.node = &r->j->nodes[member];
  c.state = r->j->state;
  c.inputs += (size_t)member * (size_t)r->j->num_inputs;
  c.outputs += (size_t)member * (size_t)r->j->num_outputs;
  return c;
}

static weft_status_t *blame(const shared_launch_t *r, int m, weft_status_t *s) {
  if (s != NULL && m >= 0 && m < r->n) r->ctx->failed = &r->j->nodes[r->first + m];
  return s;
}

static weft_status_t *find_variables(shared_launch_t *r) {
  const int per = r->j->num_variables;
  for (int m = 0; m < r->n; m++) {
    weft_kernel_ctx_t c = ctx_of(r, m);
    for (int i = 0; i < per; i++) {
      weft_status_t *s = weft_state_in_variable(&c, i, &r->v[m * per + i]);
      if (s != NULL) return blame(r, m, s);
    }
  }
  return NULL;
}

static int by_address(const void *a, const void *b) {
  weft_variable_t *const *x = a, *const *y = b;
  return (uintptr_t)*x < (uintptr_t)*y ? -1 : (uintptr_t)*x > (uintptr_t)*y;
}

/* False: some variable is there twice. */
static bool sort_variables(shared_launch_t *r) {
  memcpy(r->in_order, r->v, (size_t)r->num_variables * sizeof(weft_variable_t *));
  qsort(r->in_order, (size_t)r->num_variables, sizeof(weft_variable_t *), by_address);
  for (int i = 1; i < r->num_variables; i++) {
    if (r->in_order[i] == r->in_order[i - 1]) return false;
  }
  return true;
}

/* ---- what one reads and another writes ---- */

typedef struct written_bytes {
  const char *begin;
  size_t n;
} written_bytes_t;

static int by_begin(const void *a, const void *b) {
  const written_bytes_t *x = a, *y = b;
  return (uintptr_t)x->begin < (uintptr_t)y->begin ? -1 : (uintptr_t)x->begin > (uintptr_t)y->begin;
}

/* Does `t` lie in one of n buffers, which are sorted and apart? */
static bool lies_in(const weft_tensor_t *t, const written_bytes_t *all, int n) {
  int low = 0, high = n; /* the last that begins at or before it is in [low, high) */
  if (t == NULL || t->bytes == 0 || n == 0) return false;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if ((uintptr_t)all[middle].begin <= (uintptr_t)t->data) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const uintptr_t begin = (uintptr_t)all[low].begin, at = (uintptr_t)t->data;
  return at >= begin && at - begin < all[low].n;
}

/* *out: does a member read a buffer that is written in place, whatever else holds it? */
static weft_status_t *find_shared_reads(shared_launch_t *r, bool *out) WEFT_HOLDS_LOCKS_OF_ARRAY {
  const joint_updates_t *j = r->j;
  written_bytes_t *all = weft_arena_calloc(&r->arena, (size_t)r->num_variables + 1, sizeof *all);
  int n = 0;
  *out = false;
  if (all == NULL) return WEFT_NO_MEMORY("%d updates", r->n);
  for (int i = 0; i < r->num_variables; i++) {
    const weft_tensor_t *t = r->v[i]->is_shared ? r->v[i]->value : NULL;
    if (t != NULL && t->bytes > 0) all[n++] = (written_bytes_t){t->data, t->bytes};
  }
  if (n == 0) return NULL;
  qsort(all, (size_t)n, sizeof *all, by_begin);
  for (int m = 0; m < r->n && !*out; m++) {
    const weft_kernel_ctx_t c = ctx_of(r, m);
    for (int i = j->num_variables; i < j->num_inputs; i++) *out = *out || lies_in(weft_in(&c, i), all, n);
  }
  return NULL;
}

/* ---- all at once ---- */

/* Makes the variables of member m writable, and its context as the library sees it. */
static weft_status_t *begin_member(shared_launch_t *r, int m) WEFT_HOLDS_LOCKS_OF_ARRAY {
  const joint_updates_t *j = r->j;
  weft_variable_t **v = &r->v[m * j->num_variables];
  weft_tensor_t **written = &r->written[m * j->num_variables];
  weft_kernel_ctx_t *c = &r->ctxs[m];
  weft_value_t *inputs = &r->inputs[m * j->num_inputs];
  *c = ctx_of(r, m);
  memcpy(inputs, c->inputs, (size_t)j->num_inputs * sizeof *inputs);
  c->inputs = inputs;
  for (int i = 0; i < j->num_variables; i++) WEFT_RETURN_IF_ERROR(weft_loaded_make_writable_locked(c, v[i]));
  for (int i = 1; i < j->num_variables; i++)
    weft_variable_is_slot_locked(v[i]); /* only optimizers take several */
  for (int i = 0; i < j->num_variables; i++) {
    const weft_tensor_t *old = v[i]->value;
    WEFT_RETURN_IF_ERROR(weft_tensor_view(v[i]->value, old->dtype, &old->shape, &written[i]));
    inputs[i] = (weft_value_t){.tensor = written[i]};
  }
  r->runs[m] = (WEFT_KernelContext){.ctx = c, .state = j->state, .num_variables = j->num_variables};
  r->run_pointers[m] = &r->runs[m];
  return weft_loaded_infer(&r->runs[m]); /* checks the shapes */
}

/* Enqueues the work. The variables' locks are held. */
static weft_status_t *update_all(shared_launch_t *r) WEFT_HOLDS_LOCKS_OF_ARRAY {
  weft_status_t *s = NULL;
  int failed = -1;
  for (int m = 0; s == NULL && m < r->n; m++) s = blame(r, m, begin_member(r, m));
  if (s != NULL) {
    for (int i = 0; i < r->num_variables; i++) weft_tensor_release(r->written[i]);
    return s;
  }
  const WEFT_DeviceKernel *row = r->runs[0].state->row;
  s = weft_status_of_failure(row->compute_together(r->run_pointers, r->n, &failed));
  const weft_fence_t f = weft_queue_mark(r->ctx->queue); /* what fails may have enqueued something */
  for (int i = 0; i < r->num_variables; i++) weft_loaded_set_value_locked(r->v[i], r->written[i], f);
  return blame(r, failed, s);
}

/* Each takes the locks that it needs itself. */
static weft_status_t *run_one_by_one(shared_launch_t *r) {
  for (int m = 0; m < r->n; m++) {
    weft_kernel_ctx_t c = ctx_of(r, m);
    weft_status_t *s = weft_loaded_update(&c);
    if (s != NULL) return blame(r, m, s);
  }
  return NULL;
}

static void pass_references(const shared_launch_t *r) {
  for (int m = 0; m < r->n && r->j->num_outputs > 0; m++) {
    const weft_kernel_ctx_t c = ctx_of(r, m);
    if (c.inputs[0].ref != NULL && c.outputs[0].ref == NULL)
      c.outputs[0].ref = (weft_variable_t *)weft_object_retain(&c.inputs[0].ref->object);
  }
}

static weft_status_t *run_members(shared_launch_t *r) {
  WEFT_RETURN_IF_ERROR(allocate(r));
  weft_status_t *s = find_variables(r);
  bool apart = s == NULL && !sort_variables(r);
  if (s == NULL && !apart) {
    weft_variables_lock_sorted(r->in_order, r->num_variables);
    s = find_shared_reads(r, &apart);
    if (s == NULL && !apart) s = update_all(r);
    weft_variables_unlock_sorted(r->in_order, r->num_variables);
  }
  if (s == NULL && apart) s = run_one_by_one(r);
  for (int m = 0; m < r->n; m++) weft_loaded_context_deinit(&r->runs[m]);
  for (int i = 0; i < r->num_variables; i++) {
    if (r->v[i] != NULL) weft_object_release(&r->v[i]->object);
  }
  if (s == NULL) pass_references(r);
  return s;
}

static weft_status_t *joint_compute(weft_kernel_ctx_t *ctx) {
  const joint_updates_t *j = ctx->state;
  const int most = j->num_variables > 0 ? MOST_LOCKS / j->num_variables : j->n;
  for (int at = 0; at < j->n; at += most) {
    const int n = j->n - at < most ? j->n - at : most;
    shared_launch_t r = {.ctx = ctx,
                         .j = j,
                         .first = at,
                         .n = n,
                         .num_variables = n * j->num_variables,
                         .arena = WEFT_ARENA_INIT};
    weft_status_t *s = run_members(&r);
    weft_arena_deinit(&r.arena);
    WEFT_RETURN_IF_ERROR(s);
  }
  return NULL;
}

const weft_kernel_t weft_loaded_updates_kernel = {
    .op = "_WeftUpdates", .prepare = joint_prepare, .compute = joint_compute, .destroy = joint_destroy};
