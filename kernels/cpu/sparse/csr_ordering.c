/* kernels/cpu/sparse/csr_ordering.c - SparseMatrixOrderingAMD: an order of a symmetric sparse matrix' rows in
 * which its Cholesky factor fills little.
 *
 * Rows are eliminated by least approximate degree, the last that got that degree first. An eliminated row
 * becomes an element, which stands for the clique of its neighbours and absorbs the elements that it touches.
 * Source: Amestoy, Davis, Duff, "An approximate minimum degree ordering algorithm", 1996, without
 * supervariables. Among rows of one degree TensorFlow may choose others: the order is as good, not the same.
 */
#include <inttypes.h>

#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/sparse/sparse.h"

/* A growing list of row numbers. */
typedef struct node_list {
  int32_t *at; /* owned */
  int32_t n, capacity;
} node_list_t;

static weft_status_t *push(node_list_t *l, int32_t v) {
  if (l->n == l->capacity) {
    int32_t capacity = l->capacity == 0 ? 4 : 2 * l->capacity;
    int32_t *more = weft_realloc(l->at, (size_t)capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("an order of rows");
    l->at = more;
    l->capacity = capacity;
  }
  l->at[l->n++] = v;
  return NULL;
}

typedef struct elimination {
  int32_t n;
  node_list_t *rows;                    /* of a row, its neighbours that are rows; of an element, its rows */
  node_list_t *elements;                /* of a row, the elements that it is in */
  bool *is_row;                         /* not eliminated */
  bool *is_dead;                        /* an element that another one has absorbed */
  int32_t *degree, *next, *last, *head; /* rows by degree, in lists that are linked both ways; -1: none */
  int32_t *mark, *outside, *seen;       /* in the new element; of an element, how many rows it has outside */
} elimination_t;

enum { NUM_INTS = 7 };

static void elimination_free(elimination_t *e) {
  for (int32_t i = 0; i < e->n; i++) {
    if (e->rows != NULL) weft_free(e->rows[i].at);
    if (e->elements != NULL) weft_free(e->elements[i].at);
  }
  weft_free(e->rows);
  weft_free(e->elements);
  weft_free(e->is_row);
  weft_free(e->is_dead);
  weft_free(e->degree);
}

static weft_status_t *elimination_init(elimination_t *e, int64_t rows) {
  size_t n = (size_t)rows + 1;
  *e = (elimination_t){.n = (int32_t)rows,
                       .rows = weft_calloc(n, sizeof *e->rows),
                       .elements = weft_calloc(n, sizeof *e->elements),
                       .is_row = weft_calloc(n, sizeof *e->is_row),
                       .is_dead = weft_calloc(n, sizeof *e->is_dead),
                       .degree = weft_calloc(n, NUM_INTS * sizeof *e->degree)};
  bool has_all =
      e->rows != NULL && e->elements != NULL && e->is_row != NULL && e->is_dead != NULL && e->degree != NULL;
  if (!has_all) return WEFT_NO_MEMORY("an order of %" PRId64 " rows", rows);
  int32_t **ints[] = {&e->next, &e->last, &e->head, &e->mark, &e->outside, &e->seen};
  for (int i = 0; i < NUM_INTS - 1; i++) *ints[i] = e->degree + (size_t)(i + 1) * n;
  for (int32_t i = 0; i < e->n; i++) {
    e->is_row[i] = true;
    e->head[i] = e->mark[i] = e->seen[i] = -1;
  }
  return NULL;
}

/* ---- rows by degree ---- */

static void link_row(elimination_t *e, int32_t i) {
  int32_t d = e->degree[i];
  e->next[i] = e->head[d];
  e->last[i] = -1;
  if (e->head[d] >= 0) e->last[e->head[d]] = i;
  e->head[d] = i;
}

static void unlink_row(elimination_t *e, int32_t i) {
  if (e->last[i] >= 0) {
    e->next[e->last[i]] = e->next[i];
  } else {
    e->head[e->degree[i]] = e->next[i];
  }
  if (e->next[i] >= 0) e->last[e->next[i]] = e->last[i];
}

/* Matrix b of `m`: neighbours are the pairs in its lower triangle, each once. */
static weft_status_t *read_neighbours(elimination_t *e, const weft_csr_t *m, int64_t b) {
  for (int32_t r = 0; r < e->n; r++) {
    int64_t i = 0, end = weft_csr_row(m, b, r, &i);
    for (; i < end; i++) {
      int32_t c = m->columns[i];
      if (c >= r || e->mark[c] == r) continue;
      e->mark[c] = r;
      WEFT_RETURN_IF_ERROR(push(&e->rows[r], c));
      WEFT_RETURN_IF_ERROR(push(&e->rows[c], r));
    }
  }
  for (int32_t i = 0; i < e->n; i++) {
    e->mark[i] = -1;
    e->degree[i] = e->rows[i].n;
    link_row(e, i);
  }
  return NULL;
}

/* ---- elimination ---- */

/* Takes those of element p and what is eliminated off a list. */
static void drop_marked(elimination_t *e, node_list_t *rows, int32_t p) {
  int32_t n = 0;
  for (int32_t k = 0; k < rows->n; k++) {
    int32_t j = rows->at[k];
    if (e->is_row[j] && e->mark[j] != p) rows->at[n++] = j;
  }
  rows->n = n;
}

/* Row p's neighbours, direct and by elements, which p absorbs: the rows of element p. */
static weft_status_t *make_element(elimination_t *e, int32_t p, node_list_t *out) {
  e->mark[p] = p;
  for (int32_t k = -1; k < e->elements[p].n; k++) {
    const node_list_t *from = k < 0 ? &e->rows[p] : &e->rows[e->elements[p].at[k]];
    if (k >= 0 && e->is_dead[e->elements[p].at[k]]) continue;
    for (int32_t i = 0; i < from->n; i++) {
      int32_t j = from->at[i];
      if (!e->is_row[j] || e->mark[j] == p) continue;
      e->mark[j] = p;
      WEFT_RETURN_IF_ERROR(push(out, j));
    }
    if (k >= 0) e->is_dead[e->elements[p].at[k]] = true;
  }
  return NULL;
}

/* Of each element that row i is in, how many of its rows are outside of element p. */
static void count_outside(elimination_t *e, int32_t p, int32_t i) {
  node_list_t *own = &e->elements[i];
  int32_t n = 0;
  for (int32_t k = 0; k < own->n; k++) {
    int32_t element = own->at[k];
    if (e->is_dead[element]) continue;
    own->at[n++] = element;
    if (e->seen[element] != p) {
      e->seen[element] = p;
      e->outside[element] = 0;
      for (int32_t j = 0; j < e->rows[element].n; j++)
        e->outside[element] += e->is_row[e->rows[element].at[j]] && e->mark[e->rows[element].at[j]] != p;
    }
  }
  own->n = n;
}

static weft_status_t *eliminate(elimination_t *e, int32_t p, int32_t left, int32_t *least) {
  node_list_t rows = {0};
  unlink_row(e, p);
  e->is_row[p] = false;
  weft_status_t *s = make_element(e, p, &rows);
  for (int32_t k = 0; k < rows.n && s == NULL; k++) {
    int32_t i = rows.at[k], d = rows.n - 1;
    unlink_row(e, i);
    drop_marked(e, &e->rows[i], p);
    count_outside(e, p, i);
    d += e->rows[i].n;
    for (int32_t j = 0; j < e->elements[i].n && d < left; j++) d += e->outside[e->elements[i].at[j]];
    e->degree[i] = d < left ? d : left - 1;
    s = push(&e->elements[i], p);
    link_row(e, i);
    if (e->degree[i] < *least) *least = e->degree[i];
  }
  weft_free(e->rows[p].at);
  e->rows[p] = rows;
  return s;
}

static weft_status_t *order_rows(const weft_csr_t *m, int64_t b, int32_t *out) {
  elimination_t e;
  int32_t least = 0;
  weft_status_t *s = elimination_init(&e, m->rows);
  if (s == NULL) s = read_neighbours(&e, m, b);
  for (int32_t k = 0; k < e.n && s == NULL; k++) {
    while (e.head[least] < 0) least++;
    out[k] = e.head[least];
    s = eliminate(&e, out[k], e.n - k - 1, &least);
  }
  elimination_free(&e);
  return s;
}

static weft_status_t *ordering_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, WEFT_DTYPE_INVALID, &m));
  if (m.rows != m.cols)
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse matrix must be square; got: %" PRId64 " != %" PRId64, m.rows,
                      m.cols);
  weft_shape_t shape = m.rank == 2 ? weft_shape_vector(m.rows) : weft_shape_matrix(m.batch, m.rows);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &shape, &out));
  for (int64_t b = 0; b < m.batch; b++)
    WEFT_RETURN_IF_ERROR(order_rows(&m, b, (int32_t *)out->data + b * m.rows));
  return NULL;
}

const weft_kernel_t weft_cpu_csr_ordering_kernels[] = {
    {.op = "SparseMatrixOrderingAMD", .compute = ordering_compute},
    {0},
};
