/* kernels/kernel_registry.c - finds the kernel for a node among the device types' tables.
 *
 * Each table has an index: pointers to its kernels, sorted by op name, made when
 * it is registered. Among the kernels of one op the table's order decides. The
 * tables of tables.def are registered by the first call of any function here;
 * if there is no memory for such an index then, the table is searched without.
 *
 * Locking: `mu` orders registrations. Look-ups take no lock: entries are only
 * ever added, at the end of a list, and published with release order.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/kernel.h"

typedef struct registry_entry {
  const weft_kernel_table_t *table;
  const weft_kernel_t **sorted; /* by op name, num of them; NULL: there was no memory for it */
  int num;
  struct registry_entry *_Atomic next;
} registry_entry_t;

#define WEFT_KERNEL_TABLE(name) const weft_kernel_table_t *weft_##name(void);
#include "kernels/tables.def"
#undef WEFT_KERNEL_TABLE

static const weft_kernel_table_t *(*const built_in[])(void) = {
#define WEFT_KERNEL_TABLE(name) weft_##name,
#include "kernels/tables.def"
#undef WEFT_KERNEL_TABLE
};
enum { NUM_BUILT_IN = sizeof built_in / sizeof built_in[0] };

static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static registry_entry_t built_in_entries[NUM_BUILT_IN]; /* in static storage: they cannot fail */
static registry_entry_t *_Atomic first;

/* Equal names keep the table's order: rows of one family are adjacent in memory, and no op is in two
 * families. */
static int by_name(const void *a, const void *b) {
  const weft_kernel_t *x = *(const weft_kernel_t *const *)a, *y = *(const weft_kernel_t *const *)b;
  int c = strcmp(x->op, y->op);
  if (c != 0) return c;
  return (uintptr_t)x < (uintptr_t)y ? -1 : (uintptr_t)x > (uintptr_t)y;
}

/* False: no memory. */
static bool build_index(registry_entry_t *e) {
  int n = 0;
  for (int f = 0; e->table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = e->table->families[f]; k->op != NULL; k++) n++;
  }
  const weft_kernel_t **sorted = weft_calloc((size_t)n + 1, sizeof *sorted);
  if (sorted == NULL) return false;
  for (int f = 0; e->table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = e->table->families[f]; k->op != NULL; k++) sorted[e->num++] = k;
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_name);
  e->sorted = sorted;
  return true;
}

static void append_locked(registry_entry_t *e) WEFT_REQUIRES(mu) {
  registry_entry_t *_Atomic *at = &first;
  for (registry_entry_t *next; (next = atomic_load_explicit(at, memory_order_acquire)) != NULL;)
    at = &next->next;
  atomic_store_explicit(at, e, memory_order_release);
}

static void add_built_in(void) {
  weft_mutex_lock(&mu);
  for (int i = 0; i < NUM_BUILT_IN; i++) {
    built_in_entries[i].table = built_in[i]();
    (void)build_index(&built_in_entries[i]);
    append_locked(&built_in_entries[i]);
  }
  weft_mutex_unlock(&mu);
}

static registry_entry_t *first_entry(void) {
  pthread_once(&once, add_built_in);
  return atomic_load_explicit(&first, memory_order_acquire);
}

static registry_entry_t *next_of(registry_entry_t *e) {
  return atomic_load_explicit(&e->next, memory_order_acquire);
}

static const registry_entry_t *entry_of(const char *device_type) {
  registry_entry_t *e = first_entry();
  while (e != NULL && strcmp(e->table->device_type, device_type) != 0) e = next_of(e);
  return e;
}

weft_status_t *weft_kernel_table_register(const weft_kernel_table_t *table) {
  (void)first_entry();
  registry_entry_t *e = weft_calloc(1, sizeof *e);
  if (e != NULL) e->table = table;
  if (e == NULL || !build_index(e)) {
    weft_free(e);
    return WEFT_NO_MEMORY("registering the kernels of device type %s", table->device_type);
  }
  weft_mutex_lock(&mu);
  bool is_new = entry_of(table->device_type) == NULL;
  if (is_new) append_locked(e);
  weft_mutex_unlock(&mu);
  if (is_new) return NULL;
  weft_free(e->sorted);
  weft_free(e);
  return WEFT_ERROR(ALREADY_EXISTS, "device type %s has kernels already", table->device_type);
}

const weft_kernel_table_t *weft_kernel_table_at(int i) {
  registry_entry_t *e = first_entry();
  for (; e != NULL && i > 0; i--) e = next_of(e);
  return e == NULL ? NULL : e->table;
}

/* The first row for `op` in an index, or its end. */
static int first_of(const registry_entry_t *e, weft_str_t op) {
  int low = 0, high = e->num;
  while (low < high) {
    int mid = low + (high - low) / 2;
    if (weft_str_compare(weft_str(e->sorted[mid]->op), op) < 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static bool type_fits(const char *attr, weft_dtype_set_t types, const weft_named_attr_t *attrs,
                      int num_attrs) {
  if (attr == NULL) return true;
  const weft_attr_t *a = weft_attr_find(attrs, num_attrs, attr);
  if (a == NULL || a->kind != WEFT_ATTR_TYPE) return false;
  if (!a->is_list) {
    int t = weft_dtype_base(a->type);
    return t >= 0 && t < 32 && (types & WEFT_DTYPE_BIT(t)) != 0;
  }
  for (int i = 0; i < a->n; i++) {
    int t = weft_dtype_base(a->list.types[i]);
    if (t < 0 || t >= 32 || (types & WEFT_DTYPE_BIT(t)) == 0) return false;
  }
  return true;
}

static bool fits(const weft_kernel_t *k, const weft_named_attr_t *attrs, int num_attrs) {
  return type_fits(k->type_attr, k->types, attrs, num_attrs) &&
         type_fits(k->type_attr2, k->types2, attrs, num_attrs);
}

const weft_kernel_t *weft_kernel_table_find(const weft_kernel_table_t *table, weft_str_t op,
                                            const weft_named_attr_t *attrs, int num_attrs) {
  for (int f = 0; table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = table->families[f]; k->op != NULL; k++) {
      if (weft_str_is(op, k->op) && fits(k, attrs, num_attrs)) return k;
    }
  }
  return NULL;
}

const weft_kernel_t *weft_kernel_find(const char *device_type, weft_str_t op, const weft_named_attr_t *attrs,
                                      int num_attrs) {
  const registry_entry_t *e = entry_of(device_type);
  if (e == NULL) return NULL;
  if (e->sorted == NULL) return weft_kernel_table_find(e->table, op, attrs, num_attrs);
  for (int i = first_of(e, op); i < e->num && weft_str_is(op, e->sorted[i]->op); i++) {
    if (fits(e->sorted[i], attrs, num_attrs)) return e->sorted[i];
  }
  return NULL;
}

bool weft_kernel_may_link(const char *device_type, const char *op, int operand, int result) {
  const registry_entry_t *e = entry_of(device_type);
  return e != NULL && e->table->may_link != NULL && e->table->may_link(op, operand, result) != 0;
}

static void note(const weft_kernel_t *k, weft_dtype_set_t *types, bool *found, bool *any) {
  *found = true;
  *types |= k->types;
  if (k->type_attr == NULL) *any = true;
}

bool weft_kernel_exists(const char *device_type, weft_str_t op, weft_dtype_set_t *out_types) {
  const registry_entry_t *e = entry_of(device_type);
  weft_dtype_set_t types = 0;
  bool found = false, any = false;
  if (e == NULL) return false;
  for (int i = first_of(e, op); i < e->num && weft_str_is(op, e->sorted[i]->op); i++)
    note(e->sorted[i], &types, &found, &any);
  for (int f = 0; e->sorted == NULL && e->table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = e->table->families[f]; k->op != NULL; k++) {
      if (weft_str_is(op, k->op)) note(k, &types, &found, &any);
    }
  }
  if (found && out_types != NULL) *out_types = any ? 0 : types;
  return found;
}
