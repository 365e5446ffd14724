/* kernels/cpu/stack.c - stacks of tensors: what a loop's forward pass keeps for its gradient. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/step_resource.h"

typedef struct stack {
  weft_object_t object;
  char *name;
  weft_dtype_t dtype;
  int64_t max_size; /* < 0: no limit */
  weft_mutex_t mu;
  weft_tensor_t **items; /* guarded by mu, with what follows */
  size_t count, capacity;
  bool is_closed;
} tensor_stack_t;

static const weft_resource_type_t stack_type = {"N10tensorflow5StackE", "_stacks", NULL};

static void clear_locked(tensor_stack_t *st) WEFT_REQUIRES(st->mu) {
  for (size_t i = 0; i < st->count; i++) weft_tensor_release(st->items[i]);
  st->count = 0;
}

static void destroy(weft_object_t *o) {
  tensor_stack_t *st = (tensor_stack_t *)o;
  weft_mutex_lock(&st->mu);
  clear_locked(st);
  weft_mutex_unlock(&st->mu);
  weft_mutex_deinit(&st->mu);
  weft_free(st->items);
  weft_free(st->name);
  weft_free(st);
}

static weft_status_t *stack_make(weft_kernel_ctx_t *c) {
  int64_t max_size = -1;
  int n = 0;
  if (c->node->num_inputs > 0)
    WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 0), "Stack size", 1, &max_size, &n));
  char *name = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_name(c, "stack_name", &name));
  tensor_stack_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) {
    weft_free(name);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "creating a stack");
  }
  atomic_init(&st->object.refs, 1);
  st->object.destroy = destroy;
  st->name = name;
  st->dtype = (weft_dtype_t)weft_knode_type(c->node, "elem_type");
  st->max_size = max_size;
  weft_mutex_init(&st->mu);
  weft_status_t *s = weft_step_resource_output(c, &stack_type, name, &st->object);
  weft_object_release(&st->object);
  return s;
}

static weft_status_t *in_stack(weft_kernel_ctx_t *c, tensor_stack_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_in(c, 0, &stack_type, &o));
  *out = (tensor_stack_t *)o;
  return NULL;
}

static weft_status_t *closed(const tensor_stack_t *st) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] has already been closed.", st->name);
}

static weft_status_t *push_locked(tensor_stack_t *st, weft_tensor_t *t) WEFT_REQUIRES(st->mu) {
  if (st->is_closed) return closed(st);
  if (st->max_size >= 0 && (int64_t)st->count >= st->max_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] overflowed its max_size (%" PRId64 ")", st->name,
                      st->max_size);
  }
  if (st->count == st->capacity) {
    size_t capacity = st->capacity == 0 ? 16 : st->capacity * 2;
    weft_tensor_t **more = weft_realloc(st->items, capacity, sizeof *more);
    if (more == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "growing stack %s", st->name);
    st->items = more;
    st->capacity = capacity;
  }
  st->items[st->count++] = weft_tensor_retain(t);
  return NULL;
}

static weft_status_t *stack_push(weft_kernel_ctx_t *c) {
  tensor_stack_t *st = NULL;
  weft_tensor_t *t = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_status_t *s = NULL;
  if (t->dtype != st->dtype) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Must have type %s but got %s", weft_dtype_name(st->dtype),
                   weft_dtype_name(t->dtype));
  } else {
    weft_mutex_lock(&st->mu);
    s = push_locked(st, t);
    weft_mutex_unlock(&st->mu);
  }
  weft_object_release(&st->object);
  if (s == NULL) weft_out_set(c, 0, weft_tensor_retain(t));
  return s;
}

static weft_status_t *stack_pop(weft_kernel_ctx_t *c) {
  tensor_stack_t *st = NULL;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_mutex_lock(&st->mu);
  if (st->is_closed) {
    s = closed(st);
  } else if (st->count == 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] is empty when calling Pop().", st->name);
  } else {
    weft_out_set(c, 0, st->items[--st->count]);
  }
  weft_mutex_unlock(&st->mu);
  weft_object_release(&st->object);
  return s;
}

static weft_status_t *stack_close(weft_kernel_ctx_t *c) {
  tensor_stack_t *st = NULL;
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_mutex_lock(&st->mu);
  clear_locked(st);
  st->is_closed = true;
  weft_mutex_unlock(&st->mu);
  weft_object_release(&st->object);
  return NULL;
}

const weft_kernel_t weft_cpu_stack_kernels[] = {
    {.op = "Stack", .compute = stack_make},
    {.op = "StackClose", .compute = stack_close},
    {.op = "StackCloseV2", .compute = stack_close},
    {.op = "StackPop", .compute = stack_pop},
    {.op = "StackPopV2", .compute = stack_pop},
    {.op = "StackPush", .type_attr = "T", .types = WEFT_SET_ALL, .compute = stack_push},
    {.op = "StackPushV2", .type_attr = "T", .types = WEFT_SET_ALL, .compute = stack_push},
    {.op = "StackV2", .compute = stack_make},
    {0},
};
