/* kernels/kernel_registry.c - finds the kernel for a node among the devices' tables.
 *
 * Each device type has one index: pointers to its kernels, sorted by op name,
 * made at the first look-up in static storage, so that it can neither fail nor
 * leak. Among the kernels of one op the table's order decides.
 */
#include "kernels/kernel.h"

#include <pthread.h>
#include <stdlib.h>

enum { MAX_KERNELS = 8192 };

typedef struct kernel_index {
  const weft_kernel_t *sorted[MAX_KERNELS];
  int count;
} kernel_index_t;

static kernel_index_t cpu_index;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

/* Equal names keep the table's order: entries of one family are adjacent in memory, families are not
 * compared with each other, and no op is in two families. */
static int by_name(const void *a, const void *b) {
  const weft_kernel_t *x = *(const weft_kernel_t *const *)a, *y = *(const weft_kernel_t *const *)b;
  int c = strcmp(x->op, y->op);
  if (c != 0) return c;
  return (uintptr_t)x < (uintptr_t)y ? -1 : (uintptr_t)x > (uintptr_t)y;
}

static void build(const weft_kernel_table_t *table, kernel_index_t *index) {
  for (int f = 0; table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = table->families[f]; k->op != NULL && index->count < MAX_KERNELS; k++) {
      index->sorted[index->count++] = k;
    }
  }
  qsort(index->sorted, (size_t)index->count, sizeof index->sorted[0], by_name);
}

static void build_cpu(void) { build(weft_cpu_kernels(), &cpu_index); }

static const kernel_index_t *index_of(const char *device_type) {
  if (strcmp(device_type, "CPU") != 0) return NULL;
  pthread_once(&cpu_once, build_cpu);
  return &cpu_index;
}

/* The first entry for `op`, or index->count. */
static int first_of(const kernel_index_t *index, weft_str_t op) {
  int low = 0, high = index->count;
  while (low < high) {
    int mid = low + (high - low) / 2;
    if (weft_str_compare(weft_str(index->sorted[mid]->op), op) < 0) {
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
  const kernel_index_t *index = index_of(device_type);
  if (index == NULL) return NULL;
  for (int i = first_of(index, op); i < index->count && weft_str_is(op, index->sorted[i]->op); i++) {
    if (fits(index->sorted[i], attrs, num_attrs)) return index->sorted[i];
  }
  return NULL;
}

bool weft_kernel_exists(const char *device_type, weft_str_t op, weft_dtype_set_t *out_types) {
  const kernel_index_t *index = index_of(device_type);
  weft_dtype_set_t types = 0;
  bool found = false, any = false;
  for (int i = index == NULL ? 0 : first_of(index, op);
       index != NULL && i < index->count && weft_str_is(op, index->sorted[i]->op); i++) {
    found = true;
    if (index->sorted[i]->type_attr == NULL) any = true;
    types |= index->sorted[i]->types;
  }
  if (found && out_types != NULL) *out_types = any ? 0 : types;
  return found;
}
