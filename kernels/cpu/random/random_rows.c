/* kernels/cpu/random/random_rows.c - WeftRandomRows: what another random op would give for the rows of a part
 * of a batch.
 *
 * The attribute `op` names the other op, whose inputs are ours, before `rows`. Philox counts, so a replica of
 * a training graph gets its rows of the numbers that one device would draw without drawing the others.
 */
#include "kernels/cpu/random/random_rows.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_fill.h"

weft_status_t *weft_random_rows_read(const weft_tensor_t *t, weft_random_rows_t *out) {
  if (t->shape.rank != 1 || t->count != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rows must have shape [3], not %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  const int64_t *v = t->data;
  if (v[0] < 0 || v[1] < 0 || v[2] < v[1] || v[0] > v[2] - v[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%" PRId64 " rows from %" PRId64 " on are no part of a batch of %" PRId64, v[1], v[0],
                      v[2]);
  }
  *out = (weft_random_rows_t){v[0], v[1], v[2]};
  return NULL;
}

weft_status_t *weft_random_rows_along(const weft_random_rows_t *rows, int64_t factor, int64_t dim,
                                      weft_random_rows_t *out) {
  bool is_whole = factor == 0, fits = true;
  if (is_whole) {
    fits = rows->all == 0 ? dim == 0 : dim % rows->all == 0;
    factor = rows->all == 0 ? 0 : dim / rows->all;
  }
  fits = fits && weft_cpu_mul(factor, rows->begin, &out->begin) &&
         weft_cpu_mul(factor, rows->count, &out->count) && weft_cpu_mul(factor, rows->all, &out->all) &&
         (dim == out->all || (!is_whole && dim == out->count));
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "a dimension of %" PRId64 " does not go with %" PRId64 " of %" PRId64 " rows of a batch",
                    dim, rows->count, rows->all);
}

/* ---- which op ---- */

/* What `op` draws; NULL: nothing of which rows can be drawn. */
static const weft_drawn_t *find_drawn(weft_str_t op) {
  const weft_kernel_t *const families[] = {weft_cpu_random_kernels, weft_cpu_random_stateless_kernels};
  for (int f = 0; f < 2; f++) {
    for (const weft_kernel_t *k = families[f]; k->op != NULL; k++) {
      if (weft_str_is(op, k->op)) return k->param;
    }
  }
  return NULL;
}

typedef struct random_rows_state {
  weft_drawn_t drawn;
  void *stream; /* NULL: the op has none */
  int axis;
  int64_t factor;
  int bounds; /* the input that is the lower one of WEFT_UNIFORM_INT */
} random_rows_state_t;

static bool is_index(int type) { return type == WEFT_I32 || type == WEFT_I64; }

/* Are the inputs those of the op, by number and type? */
static bool fits(const weft_kernel_setup_t *setup, const random_rows_state_t *s) {
  const int *types = setup->node.input_types;
  int num_before = s->bounds, dtype = setup->node.output_types[0];
  bool is_int = s->drawn.distribution == WEFT_UNIFORM_INT;
  if (setup->node.num_inputs != num_before + (is_int ? 2 : 0) + 1 || !is_index(types[0])) return false;
  if (s->drawn.source == WEFT_RANDOM_SEED && !is_index(types[1])) return false;
  if (s->drawn.source == WEFT_RANDOM_KEY &&
      (types[1] != WEFT_U64 || types[2] != WEFT_U64 || types[3] != WEFT_I32))
    return false;
  if (!is_int) return (WEFT_SET_FLOATS & WEFT_DTYPE_BIT(dtype)) != 0;
  return is_index(dtype) && types[num_before] == dtype && types[num_before + 1] == dtype;
}

static void destroy(void *state) {
  random_rows_state_t *s = state;
  if (s == NULL) return;
  weft_random_stream_destroy(s->stream);
  weft_free(s);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t op = weft_knode_string(setup, "op");
  const weft_drawn_t *drawn = find_drawn(op);
  random_rows_state_t found = {.axis = (int)weft_knode_int(setup, "axis"),
                               .factor = weft_knode_int(setup, "factor")};
  if (drawn != NULL) found.drawn = *drawn;
  found.bounds = found.drawn.source == WEFT_RANDOM_STREAM ? 1
                 : found.drawn.source == WEFT_RANDOM_SEED ? 2
                                                          : 4;
  if (drawn == NULL || !fits(setup, &found)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s draws no rows of '%.*s' with such inputs",
                      WEFT_STR_ARGS(setup->node.name), WEFT_STR_ARGS(op));
  }
  random_rows_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *s = found;
  if (found.drawn.source == WEFT_RANDOM_STREAM) {
    weft_status_t *status = weft_random_stream_prepare(setup, &s->stream);
    if (status != NULL) {
      destroy(s);
      return status;
    }
  }
  *out_state = s;
  return NULL;
}

/* ---- drawing ---- */

/* The output's shape and, of the tensor for the whole batch, the part that it is and the elements in all. */
static weft_status_t *plan(const weft_kernel_ctx_t *ctx, weft_shape_t *shape, weft_random_part_t *part,
                           int64_t *total) {
  const random_rows_state_t *s = ctx->state;
  const weft_tensor_t *sizes = weft_in(ctx, 0);
  weft_random_rows_t rows, along;
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be a vector of {int32,int64}, got shape %s",
                      WEFT_SHAPE_TEXT(&sizes->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "shape", shape));
  if (s->axis >= shape->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "no axis %d in shape %s", s->axis, WEFT_SHAPE_TEXT(shape));
  }
  WEFT_RETURN_IF_ERROR(weft_random_rows_read(weft_in(ctx, ctx->node->num_inputs - 1), &rows));
  WEFT_RETURN_IF_ERROR(weft_random_rows_along(&rows, s->factor, shape->dims[s->axis], &along));
  *total = along.all;
  for (int i = 0; i < shape->rank; i++) {
    if (i != s->axis && !weft_cpu_mul(*total, shape->dims[i], total)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "too many numbers for shape %s", WEFT_SHAPE_TEXT(shape));
    }
  }
  shape->dims[s->axis] = along.count;
  int64_t inner = weft_cpu_product(shape, s->axis + 1, shape->rank);
  *part = (weft_random_part_t){weft_cpu_product(shape, 0, s->axis), along.begin * inner, along.all * inner};
  return NULL;
}

static weft_status_t *generator(const weft_kernel_ctx_t *ctx, int64_t total, weft_philox_t *out) {
  const random_rows_state_t *s = ctx->state;
  int32_t alg = 0;
  switch (s->drawn.source) {
    case WEFT_RANDOM_SEED: return weft_random_from_seed(weft_in(ctx, 1), out);
    case WEFT_RANDOM_KEY:
      WEFT_RETURN_IF_ERROR(
          weft_random_from_key(weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), &alg, out));
      return weft_random_check_alg(alg);
    case WEFT_RANDOM_STREAM: break;
  }
  *out = weft_random_stream_take(s->stream, (uint64_t)total * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  const random_rows_state_t *s = ctx->state;
  weft_tensor_t *y = NULL;
  weft_shape_t shape;
  weft_random_part_t part;
  weft_philox_t mine;
  int64_t total = 0;
  uint64_t low = 0, range = 0;
  WEFT_RETURN_IF_ERROR(plan(ctx, &shape, &part, &total));
  if (s->drawn.distribution == WEFT_UNIFORM_INT) {
    WEFT_RETURN_IF_ERROR(
        weft_random_bounds(weft_in(ctx, s->bounds), weft_in(ctx, s->bounds + 1), total == 0, &low, &range));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &y));
  if (total == 0) return NULL;
  WEFT_RETURN_IF_ERROR(generator(ctx, total, &mine));
  weft_random_fill_part(ctx->device->pool, mine, s->drawn.distribution, low, range, &part, y);
  return NULL;
}

const weft_kernel_t weft_cpu_random_rows_kernels[] = {
    WEFT_KERNEL("WeftRandomRows", "dtype", WEFT_SET_FLOATS | WEFT_SET_INDEX, prepare, compute, destroy),
    {0},
};
