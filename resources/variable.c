/* resources/variable.c - values that ops change.
 *
 * Locking: a variable's `mu` is taken alone, or several in address order.
 * Under it we allocate only to copy a value that a reader still holds.
 */
#include "resources/variable.h"

#include <assert.h>

#include "base/alloc.h"
#include "tensor/memory_holders.h"

enum { MAX_LOCKED = 8 };

/* Its value goes at once, so that old handles and references find it uninitialised. */
static void abandon(weft_object_t *o) {
  weft_variable_t *v = (weft_variable_t *)o;
  atomic_store_explicit(&v->is_gone, true, memory_order_release);
  weft_variable_write(v, NULL);
}

const weft_resource_type_t weft_variable_type = {"N10tensorflow3VarE", "Variable", abandon, true};
const weft_resource_type_t weft_legacy_variable_type = {"N10tensorflow9LegacyVarE", "Variable", abandon,
                                                        false};

static void destroy(weft_object_t *o) {
  weft_variable_t *v = (weft_variable_t *)o;
  weft_tensor_release(v->value);
  weft_memory_accounts_release(v->accounts);
  weft_mutex_deinit(&v->mu);
  weft_free((void *)v->name.data);
  weft_free(v);
}

weft_status_t *weft_variable_create(weft_str_t name, weft_dtype_t dtype, const weft_shape_t *shape,
                                    weft_variable_t **out) {
  weft_variable_t *v = weft_calloc(1, sizeof *v);
  char *copy = weft_strndup(name.data, name.length);
  if (v == NULL || copy == NULL) {
    weft_free(v);
    weft_free(copy);
    return WEFT_NO_MEMORY("creating variable %.*s", WEFT_STR_ARGS(name));
  }
  atomic_init(&v->object.refs, 1);
  v->object.destroy = destroy;
  weft_mutex_init(&v->mu);
  v->dtype = dtype;
  v->shape = *shape;
  v->tag = WEFT_MEMORY_PARAM;
  v->name = weft_str_of(copy, name.length);
  *out = v;
  return NULL;
}

void weft_variable_count(weft_variable_t *v, weft_memory_accounts_t *accounts, weft_memory_tag_t tag) {
  v->accounts = weft_memory_accounts_retain(accounts);
  weft_mutex_lock(&v->mu);
  v->tag = tag;
  weft_mutex_unlock(&v->mu);
}

weft_allocator_t *weft_variable_account_locked(weft_variable_t *v) {
  weft_allocator_t *of_value = v->value == NULL ? NULL : weft_memory_account_of(v->value);
  if (of_value != NULL || v->accounts == NULL) return of_value;
  return weft_memory_account(v->accounts, v->tag);
}

void weft_variable_is_slot_locked(weft_variable_t *v) {
  if (v->tag == WEFT_MEMORY_OPT_STATE) return;
  v->tag = WEFT_MEMORY_OPT_STATE;
  if (v->value != NULL)
    weft_memory_becomes_variable(v->value->owner != NULL ? v->value->owner : v->value, v->tag);
}

weft_tensor_t *weft_variable_read(weft_variable_t *v) {
  weft_mutex_lock(&v->mu);
  weft_tensor_t *t = weft_tensor_retain(v->value);
  weft_mutex_unlock(&v->mu);
  return t;
}

void weft_variable_write(weft_variable_t *v, weft_tensor_t *value) {
  weft_tensor_retain(value);
  weft_memory_belongs_to(value, (weft_memory_holder_t){WEFT_HELD_BY_VARIABLE, v->name});
  weft_mutex_lock(&v->mu);
  weft_tensor_t *old = v->value;
  if (value != NULL) weft_memory_becomes_variable(value, v->tag);
  v->value = value;
  if (value != NULL) v->dtype = value->dtype;
  weft_mutex_unlock(&v->mu);
  weft_tensor_release(old);
}

/* A value that it alone holds. */
static weft_status_t *copy_locked(weft_variable_t *v, const weft_tensor_t *from, weft_tensor_t **out)
    WEFT_REQUIRES(v->mu) {
  weft_allocator_t *account = weft_memory_account_of(from);
  weft_tensor_t *copy = NULL;
  if (account == NULL) account = weft_variable_account_locked(v);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(from->dtype, &from->shape, account, &copy));
  weft_status_t *s = weft_tensor_copy_elements(copy, 0, from, 0, from->count);
  if (s == NULL) *out = copy;
  if (s != NULL) weft_tensor_release(copy);
  return s;
}

/* The same bytes under the value's shape: readers that hold the old tensor see what is written now. */
static weft_status_t *write_into_locked(weft_variable_t *v, weft_tensor_t *value) WEFT_REQUIRES(v->mu) {
  if (!weft_shape_eq(&v->value->shape, &value->shape)) {
    weft_tensor_t *reshaped = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_view(v->value, value->dtype, &value->shape, &reshaped));
    weft_tensor_release(v->value); /* the view keeps the bytes */
    v->value = reshaped;
  }
  if (value->bytes > 0 && v->value->data != value->data) memmove(v->value->data, value->data, value->bytes);
  return NULL;
}

weft_status_t *weft_variable_assign_shared(weft_variable_t *v, weft_tensor_t *value) {
  weft_status_t *s = NULL;
  bool is_plain = weft_dtype_is_plain(value->dtype);
  weft_mutex_lock(&v->mu);
  bool fits =
      is_plain && v->value != NULL && v->value->dtype == value->dtype && v->value->count == value->count;
  if (fits) s = write_into_locked(v, value);
  weft_mutex_unlock(&v->mu);
  if (fits) return s;
  weft_tensor_t *mine = weft_tensor_retain(value);
  bool was_alone = atomic_load_explicit(&value->refs, memory_order_acquire) == 2 && value->owner == NULL &&
                   value->dealloc == NULL;
  if (!was_alone) { /* a constant's or another variable's bytes must not change with this one */
    weft_tensor_release(mine);
    weft_mutex_lock(&v->mu);
    s = copy_locked(v, value, &mine);
    weft_mutex_unlock(&v->mu);
    WEFT_RETURN_IF_ERROR(s);
  }
  weft_variable_write(v, mine);
  weft_tensor_release(mine);
  return NULL;
}

weft_status_t *weft_variable_uninitialized(const weft_variable_t *v) {
  return WEFT_ERROR(FAILED_PRECONDITION, "Attempting to use uninitialized value %.*s",
                    WEFT_STR_ARGS(v->name));
}

weft_status_t *weft_variable_make_writable_locked(weft_variable_t *v) {
  if (v->value == NULL) return weft_variable_uninitialized(v);
  if (weft_tensor_is_exclusive(v->value) || (v->is_shared && weft_dtype_is_plain(v->value->dtype)))
    return NULL;
  weft_tensor_t *mine = NULL;
  WEFT_RETURN_IF_ERROR(copy_locked(v, v->value, &mine));
  weft_tensor_release(v->value); /* others hold it still, so nothing is freed under the lock */
  v->value = mine;
  return NULL;
}

/* The variables in address order without repeats; returns how many. */
static int in_order(weft_variable_t *const *v, int n, weft_variable_t **sorted) {
  assert(n <= MAX_LOCKED);
  int m = 0;
  for (int i = 0; i < n; i++) {
    int at = 0;
    while (at < m && (uintptr_t)sorted[at] < (uintptr_t)v[i]) at++;
    if (at < m && sorted[at] == v[i]) continue;
    for (int k = m; k > at; k--) sorted[k] = sorted[k - 1];
    sorted[at] = v[i];
    m++;
  }
  return m;
}

#if defined(__clang__)
#define NO_ANALYSIS __attribute__((no_thread_safety_analysis)) /* a run-time set of locks is beyond it */
#else
#define NO_ANALYSIS
#endif

NO_ANALYSIS void weft_variables_lock(weft_variable_t *const *v, int n) {
  weft_variable_t *sorted[MAX_LOCKED];
  int m = in_order(v, n, sorted);
  for (int i = 0; i < m; i++) weft_mutex_lock(&sorted[i]->mu);
}

NO_ANALYSIS void weft_variables_unlock(weft_variable_t *const *v, int n) {
  weft_variable_t *sorted[MAX_LOCKED];
  int m = in_order(v, n, sorted);
  for (int i = m - 1; i >= 0; i--) weft_mutex_unlock(&sorted[i]->mu);
}

NO_ANALYSIS void weft_variables_lock_sorted(weft_variable_t *const *v, int n) {
  for (int i = 0; i < n; i++) weft_mutex_lock(&v[i]->mu);
}

NO_ANALYSIS void weft_variables_unlock_sorted(weft_variable_t *const *v, int n) {
  for (int i = n - 1; i >= 0; i--) weft_mutex_unlock(&v[i]->mu);
}

NO_ANALYSIS weft_status_t *weft_variables_make_writable_locked(weft_variable_t *const *v, int n) {
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_variable_make_writable_locked(v[i]));
  return NULL;
}
