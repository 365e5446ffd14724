/* kernels/cpu/array/set_operation.c - DenseToDenseSetOperation: the rows of two tensors as sets.
 *
 * Both have two dimensions or more, all but the last equal; each row of the last is a set. The result is
 * sparse: indices, values in ascending order, and a shape whose last dimension is the size of the largest
 * set.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"

typedef enum set_operation { A_MINUS_B, B_MINUS_A, INTERSECTION, UNION } set_operation_t;

typedef struct set_element {
  int64_t number;  /* of a whole number: it */
  weft_str_t text; /* of a string: it */
} set_element_t;

static int by_value(const void *a, const void *b) {
  const set_element_t *x = a, *y = b;
  if (x->text.data != NULL && y->text.data != NULL) return weft_str_compare(x->text, y->text);
  return (x->number > y->number) - (x->number < y->number);
}

/* Elements of one row in ascending order, each once; returns how many. */
static int64_t read_set(const weft_tensor_t *t, int64_t row, int64_t width, set_element_t *out) {
  int64_t n = 0;
  for (int64_t i = 0; i < width; i++) {
    out[i] = (set_element_t){0};
    if (t->dtype == WEFT_STRING) {
      out[i].text = weft_tensor_str_at(t, row * width + i);
      if (out[i].text.data == NULL) out[i].text = WEFT_STR("");
    } else {
      out[i].number = weft_cpu_int_at(t, row * width + i);
    }
  }
  if (width > 0) qsort(out, (size_t)width, sizeof *out, by_value);
  for (int64_t i = 0; i < width; i++) {
    if (n == 0 || by_value(&out[n - 1], &out[i]) != 0) out[n++] = out[i];
  }
  return n;
}

/* Merges two sets; returns the size of the result. */
static int64_t combine(set_operation_t operation, const set_element_t *a, int64_t na, const set_element_t *b,
                       int64_t nb, set_element_t *out) {
  int64_t i = 0, k = 0, n = 0;
  while (i < na || k < nb) {
    int order = i == na ? 1 : k == nb ? -1 : by_value(&a[i], &b[k]);
    bool in_a = order <= 0, in_b = order >= 0;
    bool is_in = operation == UNION || (operation == INTERSECTION ? in_a && in_b
                                        : operation == A_MINUS_B  ? !in_b
                                                                  : !in_a);
    if (is_in) out[n++] = in_a ? a[i] : b[k];
    i += in_a;
    k += in_b;
  }
  return n;
}

typedef struct result {
  set_element_t *values; /* owned; of all rows */
  int64_t *sizes;        /* owned; by row */
  int64_t n, largest;
} result_t;

static weft_status_t *put(weft_kernel_ctx_t *ctx, const weft_tensor_t *a, const result_t *r, int64_t rows) {
  weft_tensor_t *indices = NULL, *values = NULL, *shape = NULL;
  int rank = a->shape.rank;
  weft_shape_t of_indices = weft_shape_matrix(r->n, rank), of_values = weft_shape_vector(r->n),
               of_shape = weft_shape_vector(rank);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &of_indices, &indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, a->dtype, &of_values, &values));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_I64, &of_shape, &shape));
  for (int d = 0; d < rank; d++) ((int64_t *)shape->data)[d] = d == rank - 1 ? r->largest : a->shape.dims[d];
  size_t size = weft_dtype_size(a->dtype);
  int64_t at = 0;
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t i = 0; i < r->sizes[row]; i++, at++) {
      int64_t rest = row, *index = (int64_t *)indices->data + at * rank;
      index[rank - 1] = i;
      for (int d = rank - 2; d >= 0; d--) {
        index[d] = rest % a->shape.dims[d];
        rest /= a->shape.dims[d];
      }
      if (a->dtype == WEFT_STRING) {
        WEFT_RETURN_IF_ERROR(weft_tensor_set_str(values, at, r->values[at].text));
      } else { /* the low bytes of the number, which is little-endian */
        memcpy((char *)values->data + (size_t)at * size, &r->values[at].number, size);
      }
    }
  }
  return NULL;
}

static weft_status_t *check(const weft_tensor_t *a, const weft_tensor_t *b) {
  const weft_tensor_t *flat = a->shape.rank < 2 ? a : b->shape.rank < 2 ? b : NULL;
  if (flat != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s has rank %d < 2", WEFT_SHAPE_TEXT(&flat->shape),
                      flat->shape.rank);
  if (a->shape.rank != b->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Mismatched shapes: set1 is %s, set2 is %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  for (int d = 0; d + 1 < a->shape.rank; d++) {
    if (a->shape.dims[d] == b->shape.dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Mismatched group shapes: set1 is %s, set2 is %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1);
  WEFT_RETURN_IF_ERROR(check(a, b));
  set_operation_t operation = *(const set_operation_t *)ctx->state;
  int64_t wa = a->shape.dims[a->shape.rank - 1], wb = b->shape.dims[b->shape.rank - 1];
  int64_t rows = weft_cpu_product(&a->shape, 0, a->shape.rank - 1);
  result_t r = {weft_calloc((size_t)(a->count + b->count) + 1, sizeof *r.values),
                weft_calloc((size_t)rows + 1, sizeof *r.sizes), 0, 0};
  set_element_t *sets = weft_calloc((size_t)(wa + wb) + 1, sizeof *sets);
  weft_status_t *s = NULL;
  if (r.values == NULL || r.sizes == NULL || sets == NULL) s = WEFT_NO_MEMORY("sets");
  for (int64_t row = 0; row < rows && s == NULL; row++) {
    int64_t na = read_set(a, row, wa, sets), nb = read_set(b, row, wb, sets + wa);
    r.sizes[row] = combine(operation, sets, na, sets + wa, nb, r.values + r.n);
    r.n += r.sizes[row];
    if (r.sizes[row] > r.largest) r.largest = r.sizes[row];
  }
  if (s == NULL) s = put(ctx, a, &r, rows);
  weft_free(r.values);
  weft_free(r.sizes);
  weft_free(sets);
  return s;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  static const char *const names[] = {"a-b", "b-a", "intersection", "union"};
  weft_str_t name = weft_knode_string(setup, "set_operation");
  set_operation_t *operation = weft_calloc(1, sizeof *operation);
  if (operation == NULL) return WEFT_NO_MEMORY("a kernel");
  for (int i = 0; i < 4; i++) {
    if (!weft_str_is(name, names[i])) continue;
    *operation = (set_operation_t)i;
    *out = operation;
    return NULL;
  }
  weft_free(operation);
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid set_operation %.*s.", WEFT_STR_ARGS(name));
}

static void destroy(void *state) { weft_free(state); }

const weft_kernel_t weft_cpu_set_operation_kernels[] = {
    WEFT_KERNEL("DenseToDenseSetOperation", NULL, 0, prepare, compute, destroy),
    {0},
};
