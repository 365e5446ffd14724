/* resources/stack.c - a stack of tensors. */
#include "resources/stack.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/mutex.h"

struct weft_stack {
  weft_object_t object;
  char *name;
  weft_dtype_t dtype;
  int64_t max_size; /* < 0: no limit */
  weft_mutex_t mu;
  weft_tensor_t **items; /* guarded by mu, with what follows */
  size_t count, capacity;
  bool is_closed;
};

const weft_resource_type_t weft_stack_type = {"N10tensorflow5StackE", "_stacks", NULL};

static void clear_locked(weft_stack_t *st) WEFT_REQUIRES(st->mu) {
  for (size_t i = 0; i < st->count; i++) weft_tensor_release(st->items[i]);
  st->count = 0;
}

static void destroy(weft_object_t *o) {
  weft_stack_t *st = (weft_stack_t *)o;
  weft_mutex_lock(&st->mu);
  clear_locked(st);
  weft_mutex_unlock(&st->mu);
  weft_mutex_deinit(&st->mu);
  weft_free(st->items);
  weft_free(st->name);
  weft_free(st);
}

weft_status_t *weft_stack_create(const char *name, weft_dtype_t dtype, int64_t max_size, weft_stack_t **out) {
  weft_stack_t *st = weft_calloc(1, sizeof *st);
  char *copy = weft_strdup(name);
  if (st == NULL || copy == NULL) {
    weft_free(st);
    weft_free(copy);
    return WEFT_NO_MEMORY("creating a stack");
  }
  atomic_init(&st->object.refs, 1);
  st->object.destroy = destroy;
  st->name = copy;
  st->dtype = dtype;
  st->max_size = max_size;
  weft_mutex_init(&st->mu);
  *out = st;
  return NULL;
}

static weft_status_t *closed(const weft_stack_t *st) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] has already been closed.", st->name);
}

static weft_status_t *push_locked(weft_stack_t *st, weft_tensor_t *t) WEFT_REQUIRES(st->mu) {
  if (st->is_closed) return closed(st);
  if (st->max_size >= 0 && (int64_t)st->count >= st->max_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] overflowed its max_size (%" PRId64 ")", st->name,
                      st->max_size);
  }
  if (st->count == st->capacity) {
    size_t capacity = st->capacity == 0 ? 16 : st->capacity * 2;
    weft_tensor_t **more = weft_realloc(st->items, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("growing stack %s", st->name);
    st->items = more;
    st->capacity = capacity;
  }
  st->items[st->count++] = weft_tensor_retain(t);
  return NULL;
}

weft_status_t *weft_stack_push(weft_stack_t *st, weft_tensor_t *t) {
  if (t->dtype != st->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Must have type %s but got %s", weft_dtype_name(st->dtype),
                      weft_dtype_name(t->dtype));
  }
  weft_mutex_lock(&st->mu);
  weft_status_t *s = push_locked(st, t);
  weft_mutex_unlock(&st->mu);
  return s;
}

weft_status_t *weft_stack_pop(weft_stack_t *st, weft_tensor_t **out) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&st->mu);
  if (st->is_closed) {
    s = closed(st);
  } else if (st->count == 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Stack[%s] is empty when calling Pop().", st->name);
  } else {
    *out = st->items[--st->count];
  }
  weft_mutex_unlock(&st->mu);
  return s;
}

void weft_stack_close(weft_stack_t *st) {
  weft_mutex_lock(&st->mu);
  clear_locked(st);
  st->is_closed = true;
  weft_mutex_unlock(&st->mu);
}
