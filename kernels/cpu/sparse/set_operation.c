/* kernels/cpu/sparse/set_operation.c - rows of tensors as sets: DenseToDenseSetOperation,
 * DenseToSparseSetOperation, SparseToSparseSetOperation and SetSize.
 *
 * Operands have two dimensions or more, all but the last equal; each row of the last is a set. Of a sparse
 * operand a set is a run of neighbours with the same coordinates but for the last. The result is sparse:
 * indices, values in ascending order, and a shape whose last dimension is the size of the largest set.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/cpu/sparse/sparse.h"

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

/* Elements begin to begin + width in ascending order, each once; returns how many. */
static int64_t read_set(const weft_tensor_t *t, int64_t begin, int64_t width, set_element_t *out) {
  int64_t n = 0;
  for (int64_t i = 0; i < width; i++) {
    out[i] = (set_element_t){0};
    if (t->dtype == WEFT_STRING) {
      out[i].text = weft_tensor_str_at(t, begin + i);
      if (out[i].text.data == NULL) out[i].text = WEFT_STR("");
    } else {
      out[i].number = weft_cpu_int_at(t, begin + i);
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

/* ---- operands ---- */

typedef struct set_operand {
  weft_sparse_t sparse; /* of a dense one: values, rank and dims alone */
  bool is_sparse;
  int64_t next; /* element of the sparse one that has not been taken */
} set_operand_t;

static weft_status_t *check_rank(const set_operand_t *x) {
  if (x->sparse.rank >= 2) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid rank %d.", x->sparse.rank);
}

/* Inputs i to i + 2. */
static weft_status_t *sparse_operand(const weft_kernel_ctx_t *ctx, int i, bool validates,
                                     set_operand_t *out) {
  weft_shape_t shape;
  *out = (set_operand_t){.is_sparse = true};
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, i, 1, &out->sparse));
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&out->sparse, &shape));
  WEFT_RETURN_IF_ERROR(check_rank(out));
  return validates ? weft_sparse_check_order(&out->sparse) : NULL;
}

static weft_status_t *dense_operand(const weft_tensor_t *t, set_operand_t *out) {
  *out =
      (set_operand_t){.sparse = {.values = t, .n = t->count, .rank = t->shape.rank, .dims = t->shape.dims}};
  return check_rank(out);
}

static int64_t width_of(const set_operand_t *x) { return x->sparse.dims[x->sparse.rank - 1]; }

/* Coordinates of the set that comes next in a sparse operand; NULL at the end. */
static const int64_t *next_group(const set_operand_t *x) {
  return x->next < x->sparse.n ? weft_sparse_at(&x->sparse, x->next) : NULL;
}

/* Takes that set: elements *begin to x->next. Errors: INTERNAL: a coordinate is outside. */
static weft_status_t *take_group(set_operand_t *x, int64_t *begin) {
  const weft_sparse_t *s = &x->sparse;
  const int64_t *first = weft_sparse_at(s, x->next);
  *begin = x->next;
  while (x->next < s->n && weft_coordinates_compare(first, weft_sparse_at(s, x->next), s->rank - 1) == 0) {
    for (int d = 0; d < s->rank; d++) {
      int64_t at = weft_sparse_at(s, x->next)[d];
      if (at >= s->dims[d]) {
        return WEFT_ERROR(INTERNAL, "indices[%" PRId64 ", %d] expected < %" PRId64 ", got %" PRId64 ".",
                          x->next - *begin, d, s->dims[d], at);
      }
    }
    x->next++;
  }
  return NULL;
}

/* ---- results ---- */

typedef struct result {
  set_operation_t operation;
  int rank;
  set_element_t *values; /* owned; of all rows */
  int64_t *at;           /* owned; their coordinates */
  set_element_t *sets;   /* owned; room for both operands' elements of one row, twice */
  int64_t n, largest;
} result_t;

static void result_free(result_t *r) {
  weft_free(r->values);
  weft_free(r->at);
  weft_free(r->sets);
}

/* Room for all elements of both operands. The caller frees *r, whatever happens. */
static weft_status_t *result_init(result_t *r, const set_operand_t *a, const set_operand_t *b) {
  size_t n = (size_t)a->sparse.n + (size_t)b->sparse.n + 1;
  r->rank = a->sparse.rank;
  r->values = weft_calloc(n, sizeof *r->values);
  r->at = weft_calloc(n, (size_t)r->rank * sizeof *r->at);
  r->sets = weft_calloc(n, sizeof *r->sets);
  if (r->values == NULL || r->at == NULL || r->sets == NULL) return WEFT_NO_MEMORY("sets");
  return NULL;
}

/* One row: na and nb elements from a_begin and b_begin on. `group`: its coordinates. */
static void add_row(result_t *r, const set_operand_t *a, int64_t a_begin, int64_t na, const set_operand_t *b,
                    int64_t b_begin, int64_t nb, const int64_t *group) {
  set_element_t *set_b = r->sets + na;
  na = read_set(a->sparse.values, a_begin, na, r->sets);
  nb = read_set(b->sparse.values, b_begin, nb, set_b);
  int64_t size = combine(r->operation, r->sets, na, set_b, nb, r->values + r->n);
  for (int64_t i = 0; i < size; i++) {
    int64_t *at = r->at + (r->n + i) * r->rank;
    for (int d = 0; d < r->rank - 1; d++) at[d] = group[d];
    at[r->rank - 1] = i;
  }
  r->n += size;
  if (size > r->largest) r->largest = size;
}

/* The rows of a dense a without elements, however many rows it has: the sets of b, as long as they come in
 * order and inside. */
static weft_status_t *rows_of_b(result_t *r, const set_operand_t *a, set_operand_t *b) {
  const int64_t *last = NULL, *group;
  while (b->is_sparse && (group = next_group(b)) != NULL) {
    int64_t begin = 0;
    bool is_inside = true;
    for (int d = 0; d < r->rank - 1; d++)
      is_inside = is_inside && group[d] >= 0 && group[d] < b->sparse.dims[d];
    if (!is_inside || (last != NULL && weft_coordinates_compare(last, group, r->rank - 1) >= 0)) break;
    WEFT_RETURN_IF_ERROR(take_group(b, &begin));
    add_row(r, a, 0, 0, b, begin, b->next - begin, group);
    last = group;
  }
  return NULL;
}

/* The rows of a dense a, and of a dense b or those that come next in a sparse one. */
static weft_status_t *dense_rows(result_t *r, const set_operand_t *a, set_operand_t *b) {
  weft_shape_t groups;
  int64_t at[WEFT_MAX_DIMS] = {0};
  if (a->sparse.n == 0 && (b->is_sparse || b->sparse.n == 0)) return rows_of_b(r, a, b);
  WEFT_RETURN_IF_ERROR(weft_shape_make(a->sparse.dims, r->rank - 1, &groups));
  int64_t rows = weft_cpu_product(&groups, 0, groups.rank);
  for (int64_t row = 0; row < rows; row++) {
    int64_t begin = row * width_of(b), n = width_of(b);
    if (b->is_sparse) {
      const int64_t *next = next_group(b);
      n = 0;
      if (next != NULL && weft_coordinates_compare(next, at, r->rank - 1) == 0) {
        WEFT_RETURN_IF_ERROR(take_group(b, &begin));
        n = b->next - begin;
      }
    }
    add_row(r, a, row * width_of(a), width_of(a), b, begin, n, at);
    for (int d = r->rank - 2; d >= 0 && ++at[d] == groups.dims[d]; d--) at[d] = 0;
  }
  return NULL;
}

static weft_status_t *sparse_rows(result_t *r, set_operand_t *a, set_operand_t *b) {
  const int64_t *of_a, *of_b;
  while (of_a = next_group(a), of_b = next_group(b), of_a != NULL || of_b != NULL) {
    int order = of_a == NULL ? 1 : of_b == NULL ? -1 : weft_coordinates_compare(of_a, of_b, r->rank - 1);
    int64_t a_begin = a->next, b_begin = b->next;
    if (order <= 0) WEFT_RETURN_IF_ERROR(take_group(a, &a_begin));
    if (order >= 0) WEFT_RETURN_IF_ERROR(take_group(b, &b_begin));
    add_row(r, a, a_begin, a->next - a_begin, b, b_begin, b->next - b_begin, order <= 0 ? of_a : of_b);
  }
  return NULL;
}

static weft_status_t *put(weft_kernel_ctx_t *ctx, const set_operand_t *a, const result_t *r) {
  weft_tensor_t *values = NULL;
  int64_t *indices = NULL, dims[WEFT_MAX_DIMS];
  weft_shape_t shape;
  for (int d = 0; d < r->rank; d++) dims[d] = d == r->rank - 1 ? r->largest : a->sparse.dims[d];
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, r->rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, r->n, r->rank, &indices));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 1, a->sparse.values->dtype, r->n, &values));
  if (r->n > 0) memcpy(indices, r->at, (size_t)r->n * (size_t)r->rank * sizeof *indices);
  size_t size = weft_dtype_size(values->dtype);
  for (int64_t i = 0; i < r->n; i++) {
    if (values->dtype == WEFT_STRING) {
      WEFT_RETURN_IF_ERROR(weft_tensor_set_str(values, i, r->values[i].text));
    } else { /* the low bytes of the number, which is little-endian */
      memcpy((char *)values->data + (size_t)i * size, &r->values[i].number, size);
    }
  }
  return weft_sparse_put_shape(ctx, 2, dims, r->rank);
}

/* ---- the ops ---- */

static weft_status_t *check_groups(const set_operand_t *a, const set_operand_t *b) {
  bool fits = a->sparse.rank == b->sparse.rank;
  for (int d = 0; fits && d + 1 < a->sparse.rank; d++) fits = a->sparse.dims[d] == b->sparse.dims[d];
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Mismatched shapes: rows of two sets of rank %d and %d do not fit",
                    a->sparse.rank, b->sparse.rank);
}

/* The param of a row: which operands are sparse. */
typedef struct operands {
  bool a, b;
} operands_t;

WEFT_ATTRS(set_compute, (STRING, set_operation), (BOOL, validate_indices))

static bool find_operation(weft_str_t name, set_operation_t *out) {
  static const char *const names[] = {"a-b", "b-a", "intersection", "union"};
  for (int i = 0; i < 4; i++) {
    bool is_it = strlen(names[i]) == name.length;
    for (size_t k = 0; is_it && k < name.length; k++)
      is_it = tolower((unsigned char)name.data[k]) == names[i][k];
    if (is_it) {
      *out = (set_operation_t)i;
      return true;
    }
  }
  return false;
}

static weft_status_t *set_compute(weft_kernel_ctx_t *ctx, const set_compute_attrs_t *attrs) {
  const operands_t *sparse = ctx->node->param;
  set_operand_t a, b;
  result_t r = {0};
  int second = sparse->a ? 3 : 1;
  (void)find_operation(attrs->set_operation, &r.operation); /* prepare has found it */
  WEFT_RETURN_IF_ERROR(sparse->a ? sparse_operand(ctx, 0, attrs->validate_indices, &a)
                                 : dense_operand(weft_in(ctx, 0), &a));
  WEFT_RETURN_IF_ERROR(sparse->b ? sparse_operand(ctx, second, attrs->validate_indices, &b)
                                 : dense_operand(weft_in(ctx, second), &b));
  WEFT_RETURN_IF_ERROR(check_groups(&a, &b));
  weft_status_t *s = result_init(&r, &a, &b);
  if (s == NULL) s = sparse->a ? sparse_rows(&r, &a, &b) : dense_rows(&r, &a, &b);
  if (s == NULL) s = put(ctx, &a, &r);
  result_free(&r);
  return s;
}

static weft_status_t *set_prepare(const weft_kernel_setup_t *setup, void **out) {
  set_operation_t operation;
  weft_str_t name = weft_knode_string(setup, "set_operation");
  if (!find_operation(name, &operation))
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid set_operation %.*s.", WEFT_STR_ARGS(name));
  return weft_attrs_prepare(setup, out);
}

/* ---- SetSize ---- */

static weft_status_t *put_sizes(set_operand_t *x, const weft_shape_t *groups, set_element_t *set,
                                weft_tensor_t *out) {
  for (const int64_t *group; (group = next_group(x)) != NULL;) {
    int64_t begin = 0, place = 0;
    WEFT_RETURN_IF_ERROR(take_group(x, &begin));
    for (int d = 0; d < groups->rank; d++) {
      if (group[d] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Index out of range: %" PRId64, group[d]);
      place = place * groups->dims[d] + group[d];
    }
    ((int32_t *)out->data)[place] = (int32_t)read_set(x->sparse.values, begin, x->next - begin, set);
  }
  return NULL;
}

WEFT_ATTRS(size_compute, (BOOL, validate_indices))
static weft_status_t *size_compute(weft_kernel_ctx_t *ctx, const size_compute_attrs_t *attrs) {
  set_operand_t x;
  weft_shape_t groups;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(sparse_operand(ctx, 0, attrs->validate_indices, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_make(x.sparse.dims, x.sparse.rank - 1, &groups));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &groups, &out));
  weft_cpu_zero(out);
  set_element_t *set = weft_calloc((size_t)x.sparse.n + 1, sizeof *set);
  if (set == NULL) return WEFT_NO_MEMORY("a set of %" PRId64 " elements", x.sparse.n);
  weft_status_t *s = put_sizes(&x, &groups, set, out);
  weft_free(set);
  return s;
}

#define SET(op_, a_, b_)                                                                               \
  {                                                                                                    \
    .op = op_, WEFT_COMPUTE_CHECKED(set_compute, set_prepare), .param = &(const operands_t) { a_, b_ } \
  }
const weft_kernel_t weft_cpu_set_operation_kernels[] = {
    SET("DenseToDenseSetOperation", false, false),
    SET("DenseToSparseSetOperation", false, true),
    {.op = "SetSize", WEFT_COMPUTE(size_compute)},
    SET("SparseToSparseSetOperation", true, true),
    {0},
};
