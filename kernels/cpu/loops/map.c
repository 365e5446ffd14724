/* kernels/cpu/loops/map.c - the drivers of elementwise kernels. */
#include "kernels/cpu/loops/map_shape.h"

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/cost.h"

static weft_unit_cost_t cost_of(uint32_t flags, size_t bytes) {
  return weft_cpu_element(bytes, (flags & WEFT_MAP_COSTLY) != 0);
}

static weft_status_t *unsupported(const weft_kernel_ctx_t *ctx, weft_dtype_t dtype) {
  return WEFT_ERROR(UNIMPLEMENTED, "%s of %s is not supported", ctx->node->op_name.data,
                    weft_dtype_name(dtype));
}

/* ---- one operand ---- */

typedef struct map1_job {
  weft_map1_fn *fn;
  const char *x;
  char *y;
  size_t x_size, y_size;
} map1_job_t;

static void map1_range(void *arg, int64_t begin, int64_t end) {
  const map1_job_t *j = arg;
  j->fn(end - begin, j->x + (size_t)begin * j->x_size, j->y + (size_t)begin * j->y_size);
}

weft_status_t *weft_map1_compute(weft_kernel_ctx_t *ctx) {
  const weft_map1_t *map = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_dtype_t dtype = x->dtype, out_dtype = weft_dtype_base(ctx->node->output_types[0]);
  weft_map1_fn *fn = map->fns[dtype];
  if (fn == NULL) return unsupported(ctx, dtype);
  int64_t n = x->count;
  const void *data = x->data; /* stays valid when the output takes x over */
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, out_dtype, &x->shape, &y));
  if (n == 0) return NULL;
  map1_job_t j = {fn, data, y->data, weft_dtype_size(dtype), weft_dtype_size(out_dtype)};
  weft_parallel_for_cost(ctx->device->pool, n, cost_of(map->flags, j.x_size + j.y_size), map1_range, &j);
  return NULL;
}

/* ---- two operands ---- */

typedef struct map2_job {
  weft_map2_fn *fn;
  const char *x, *y;
  char *z;
  size_t size, z_size;
} map2_job_t;

static void map2_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const map2_job_t *j = arg;
  j->fn(n, j->x + (size_t)at[0] * j->size, step[0], j->y + (size_t)at[1] * j->size, step[1],
        j->z + (size_t)out_at * j->z_size);
}

static void map2_range(void *arg, int64_t begin, int64_t end) {
  const map2_job_t *j = arg;
  const size_t at = (size_t)begin * j->size;
  j->fn(end - begin, j->x + at, 1, j->y + at, 1, j->z + (size_t)begin * j->z_size);
}

/* Rows that are shorter than NARROW are taken ROOM_BYTES at a time: an operand that repeats is written out
 * beside, so that a run of the loop has hundreds of elements and not a few. */
enum { NARROW = 48, ROOM_BYTES = 8192 };

typedef struct narrow_job {
  const map2_job_t *map;
  const weft_broadcast_t *b;
} narrow_job_t;

/* Where operand k's element of row `row` begins: rows are numbered over all dimensions but the last. */
static int64_t row_place(const weft_broadcast_t *b, int k, int64_t row) {
  int64_t at = 0;
  for (int d = b->rank - 2; d >= 0; d--) {
    at += row % b->dims[d] * b->strides[k][d];
    row /= b->dims[d];
  }
  return at;
}

#define WRITE_OUT(type)                                       \
  do {                                                        \
    const type *from = x;                                     \
    type *to = room;                                          \
    for (int64_t r = 0; r < rows; r++, from += stride) {      \
      for (int64_t i = 0; i < n; i++) *to++ = from[i * step]; \
    }                                                         \
  } while (0)

/* Operand x as `rows` rows of n elements one behind the other: where it is, or in `room`. */
static const void *written_out(const void *x, int64_t rows, int64_t stride, int64_t n, int64_t step,
                               size_t size, void *room) {
  if (step == 1 && stride == n) return x;
  switch (size) {
    case 1: WRITE_OUT(uint8_t); break;
    case 2: WRITE_OUT(uint16_t); break;
    case 4: WRITE_OUT(uint32_t); break;
    case 8: WRITE_OUT(uint64_t); break;
    default: WRITE_OUT(weft_c128_t); break;
  }
  return room;
}

static void narrow_range(void *arg, int64_t begin, int64_t end) {
  const narrow_job_t *j = arg;
  const weft_broadcast_t *b = j->b;
  const map2_job_t *map = j->map;
  _Alignas(64) char room[2][ROOM_BYTES];
  const int last = b->rank - 1;
  const int64_t n = b->dims[last], near = b->dims[last - 1], most = ROOM_BYTES / (n * (int64_t)map->size);
  for (int64_t row = begin, rows = 0; row < end; row += rows) {
    const int64_t left = near - row % near, wanted = end - row < most ? end - row : most;
    rows = left < wanted ? left : wanted;
    const void *operands[2];
    for (int k = 0; k < 2; k++) {
      const char *x = (k == 0 ? map->x : map->y) + (size_t)row_place(b, k, row) * map->size;
      operands[k] = written_out(x, rows, b->strides[k][last - 1], n, b->strides[k][last], map->size, room[k]);
    }
    map->fn(rows * n, operands[0], 1, operands[1], 1, map->z + (size_t)(row * n) * map->z_size);
  }
}

static void map2_repeated(const weft_broadcast_t *b, weft_thread_pool_t *pool, uint32_t flags,
                          map2_job_t *j) {
  const weft_unit_cost_t element = cost_of(flags, 2 * j->size + j->z_size);
  const int64_t n = b->dims[b->rank - 1];
  if (b->rank > 1 && n < NARROW && b->dims[b->rank - 2] > 1) {
    narrow_job_t narrow = {j, b};
    const weft_unit_cost_t row = {.bytes = element.bytes * (double)n, .cycles = element.cycles * (double)n};
    weft_parallel_for_cost(pool, b->count / n, row, narrow_range, &narrow);
  } else {
    weft_broadcast_run_cost(b, pool, element, map2_run, j);
  }
}

/* Operands of one shape, by far the most usual case: nothing is repeated. */
static weft_status_t *map2_same(weft_kernel_ctx_t *ctx, uint32_t flags, map2_job_t *j) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  const int64_t n = x->count;
  const int in = weft_tensor_is_exclusive(x) ? 0 : 1;
  weft_tensor_t *z = NULL;
  WEFT_RETURN_IF_ERROR(
      weft_out_forward(ctx, in, 0, weft_dtype_base(ctx->node->output_types[0]), &x->shape, &z));
  j->z = z->data;
  weft_parallel_for_cost(ctx->device->pool, n, cost_of(flags, 2 * j->size + j->z_size), map2_range, j);
  return NULL;
}

/* One element each, of whatever ranks: the result has the higher one. Most of what a small step computes. */
static weft_status_t *map2_one(weft_kernel_ctx_t *ctx, weft_map2_fn *fn) {
  const weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1);
  const void *x_data = x->data, *y_data = y->data; /* stay valid when the output takes one over */
  const bool takes_y =
      x->shape.rank < y->shape.rank || (x->shape.rank == y->shape.rank && !weft_tensor_is_exclusive(x));
  weft_tensor_t *z = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, takes_y, 0, weft_dtype_base(ctx->node->output_types[0]),
                                        takes_y ? &y->shape : &x->shape, &z));
  fn(1, x_data, 1, y_data, 1, z->data);
  return NULL;
}

/* Is there an element that `test` holds for? In blocks, of which the compiler makes vectors. */
#define ANY(type, test)                                              \
  do {                                                               \
    const type *x = t->data;                                         \
    for (int64_t i = 0; i < t->count; i += 1024) {                   \
      const int64_t end = t->count - i < 1024 ? t->count : i + 1024; \
      int found = 0;                                                 \
      for (int64_t k = i; k < end; k++) found |= x[k] test 0;        \
      if (found) return true;                                        \
    }                                                                \
    return false;                                                    \
  } while (0)

static bool any_zero(const weft_tensor_t *t) {
  switch (weft_dtype_size(t->dtype)) {
    case 1: ANY(int8_t, ==);
    case 2: ANY(int16_t, ==);
    case 4: ANY(int32_t, ==);
    default: ANY(int64_t, ==);
  }
}

static bool any_negative(const weft_tensor_t *t) {
  switch (t->dtype) {
    case WEFT_I8: ANY(int8_t, <);
    case WEFT_I16: ANY(int16_t, <);
    case WEFT_I32: ANY(int32_t, <);
    case WEFT_I64: ANY(int64_t, <);
    default: return false;
  }
}

static weft_status_t *check_values(uint32_t flags, const weft_tensor_t *y) {
  if (!weft_dtype_is_integer(y->dtype)) return NULL;
  if ((flags & WEFT_MAP_CHECK_DIVISOR) != 0 && any_zero(y)) {
    if ((flags & WEFT_MAP_ZERO_IS_INTERNAL) != 0) {
      return WEFT_ERROR(INTERNAL,
                        "Unexpected error in binary operator (only integer div and mod should have errors)");
    }
    return WEFT_ERROR(INVALID_ARGUMENT, "Integer division by zero");
  }
  if ((flags & WEFT_MAP_CHECK_EXPONENT) != 0 && any_negative(y)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Integers to negative integer powers are not allowed");
  }
  return NULL;
}

weft_status_t *weft_map2_broadcast(const weft_kernel_node_t *node, uint32_t flags, const weft_shape_t *x,
                                   const weft_shape_t *y, weft_broadcast_t *out) {
  const bool by_count = (flags & WEFT_MAP_SAME_COUNT) != 0;
  const weft_shape_t *shapes[2] = {x, by_count ? x : y};
  if ((flags & WEFT_MAP_SAME_SHAPE) != 0 && !weft_shape_eq(x, y)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Inputs to operation %s of type %s must have the same size and shape.  Input 0: %s != input 1: %s",
        node->name.data, node->op_name.data, WEFT_SHAPE_TEXT(x), WEFT_SHAPE_TEXT(y));
  }
  if (by_count && weft_shape_count(x) != weft_shape_count(y)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The two arguments to a cwise op must have same number of elements, got %lld and %lld",
                      (long long)weft_shape_count(x), (long long)weft_shape_count(y));
  }
  if (weft_broadcast_init(out, shapes, 2)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(x),
                    WEFT_SHAPE_TEXT(y));
}

weft_status_t *weft_map2_compute(weft_kernel_ctx_t *ctx) {
  const weft_map2_t *map = ctx->node->param;
  const uint32_t flags = map->flags;
  weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *z = NULL;
  weft_map2_fn *fn = map->fns[weft_cpu_stored_as(x->dtype)];
  if (fn == NULL || x->dtype != y->dtype) return unsupported(ctx, x->dtype);
  const bool any_value = (flags & (WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_CHECK_EXPONENT)) == 0;
  if (any_value && x->count == 1 && y->count == 1 &&
      (x->shape.rank == y->shape.rank || (flags & (WEFT_MAP_SAME_SHAPE | WEFT_MAP_SAME_COUNT)) == 0))
    return map2_one(ctx, fn);
  weft_dtype_t out_dtype = weft_dtype_base(ctx->node->output_types[0]);
  map2_job_t j = {fn, x->data, y->data, NULL, weft_dtype_size(x->dtype), weft_dtype_size(out_dtype)};
  if (any_value && weft_shape_eq(&x->shape, &y->shape)) return map2_same(ctx, flags, &j);
  weft_broadcast_t b;
  WEFT_RETURN_IF_ERROR(weft_map2_broadcast(ctx->node, flags, &x->shape, &y->shape, &b));
  const weft_shape_t *shapes[2] = {&x->shape, (flags & WEFT_MAP_SAME_COUNT) != 0 ? &x->shape : &y->shape};
  if (b.count > 0 && (flags & (WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_CHECK_EXPONENT)) != 0) {
    WEFT_RETURN_IF_ERROR(check_values(flags, y));
  }
  /* An operand that is not repeated and has the result's size is read exactly where the result is written. */
  if (x->count == b.count && weft_shape_eq(shapes[0], &b.shape)) {
    bool try_y = y->count == b.count && weft_shape_eq(shapes[1], &b.shape) && !weft_tensor_is_exclusive(x);
    WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, try_y ? 1 : 0, 0, out_dtype, &b.shape, &z));
  } else if (y->count == b.count && weft_shape_eq(shapes[1], &b.shape)) {
    WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 1, 0, out_dtype, &b.shape, &z));
  } else {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, out_dtype, &b.shape, &z));
  }
  j.z = z->data;
  if (b.count > 0) map2_repeated(&b, ctx->device->pool, flags, &j);
  return NULL;
}
