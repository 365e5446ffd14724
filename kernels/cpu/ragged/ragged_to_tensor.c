/* kernels/cpu/ragged/ragged_to_tensor.c - RaggedTensorToTensor: rows padded, or cut, to one length.
 *
 * Dimension by dimension, outermost first, each row gets its place in the result, or none if it lies beyond a
 * dimension that is cut: as upstream does. Row ids that do not ascend put values one behind the other from
 * the place of the first, which is upstream's behaviour, too.
 */
#include <inttypes.h>

#include "kernels/cpu/ragged/ragged.h"

typedef enum partition_kind { FIRST_DIM_SIZE, VALUE_ROWIDS, ROW_SPLITS, OTHER_PARTITION } partition_kind_t;

typedef struct to_tensor_state {
  int num_partitions, ragged_rank;
  partition_kind_t kinds[];
} to_tensor_state_t;

enum { IN_SHAPE, IN_VALUES, IN_DEFAULT, IN_PARTITIONS };
enum { NO_PLACE = -1 };

/* The places of all rows of a dimension. Only those that the next dimension may ask for are kept. */
typedef struct row_places {
  int64_t *at; /* owned; `kept` of them, in units of one innermost row's element */
  int64_t kept, total;
} row_places_t;

typedef struct to_tensor {
  const to_tensor_state_t *state;
  const weft_tensor_t *values, *fallback;
  weft_ragged_ints_t *partitions; /* owned */
  int first;                      /* partition that divides dimension 0: 1 behind FIRST_DIM_SIZE */
  int64_t num_rows;               /* of dimension 0 */
  weft_shape_t shape;             /* of the result */
  int64_t inner;                  /* elements of one value */
  int64_t num_places;             /* of the result, of `inner` elements each */
} to_tensor_t;

/* ---- the shape of the result ---- */

static weft_status_t *read_shape(const weft_tensor_t *t, weft_shape_t *out) {
  *out = (weft_shape_t){.rank = -1};
  if (t->shape.rank == 0) {
    if (weft_cpu_int_at(t, 0) == -1) return NULL;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
  }
  if (t->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be a vector or -1, got a tensor of shape %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->count > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "a shape of %" PRId64 " dimensions is too large", t->count);
  out->rank = (int)t->count;
  for (int d = 0; d < out->rank; d++) {
    out->dims[d] = weft_cpu_int_at(t, d);
    if (out->dims[d] < -1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= -1", out->dims[d]);
  }
  return NULL;
}

static weft_status_t *check_default(const weft_shape_t *fallback, const weft_shape_t *values) {
  if (fallback->rank >= values->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible: "
                      "default_value.rank = %d  must be less than rt_input.flat_values.rank = %d",
                      WEFT_SHAPE_TEXT(fallback), WEFT_SHAPE_TEXT(values), fallback->rank, values->rank);
  }
  for (int d = 0; d < fallback->rank; d++) {
    if (fallback->dims[d] == 1 || fallback->dims[d] == values->dims[d + 1]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible: "
                      "default_value.shape[%d] = %" PRId64 " but rt_input.flat_values.shape[%d] = %" PRId64,
                      WEFT_SHAPE_TEXT(fallback), WEFT_SHAPE_TEXT(values), d - fallback->rank,
                      fallback->dims[d], d - fallback->rank, values->dims[d + 1]);
  }
  return NULL;
}

/* What is not given of `shape` comes from the values' dimensions. */
static weft_status_t *merge_shapes(const to_tensor_t *t, weft_shape_t *shape) {
  const weft_shape_t *values = &t->values->shape;
  int ragged = t->state->ragged_rank, rank = ragged + values->rank;
  if (shape->rank < 0) {
    if (rank > WEFT_MAX_DIMS)
      return WEFT_ERROR(INVALID_ARGUMENT, "a result of %d dimensions is too large", rank);
    shape->rank = rank;
    for (int d = 0; d < rank; d++) shape->dims[d] = -1;
  }
  if (shape->rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rt_input.shape and shape=%s are incompatible: rt_input.rank = %d but shape.rank = %d",
                      WEFT_SHAPE_TEXT(shape), rank, shape->rank);
  }
  for (int d = 1; d < values->rank; d++) {
    int64_t *dim = &shape->dims[ragged + d];
    if (*dim >= 0 && *dim != values->dims[d]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "rt_input.shape and shape=%s are incompatible: rt_input.shape[%d] = %" PRId64
                        " but shape[%d] = %" PRId64,
                        WEFT_SHAPE_TEXT(shape), ragged + d, values->dims[d], ragged + d, *dim);
    }
    *dim = values->dims[d];
  }
  return NULL;
}

static const weft_ragged_ints_t *partition_of(const to_tensor_t *t, int d, partition_kind_t *kind) {
  *kind = t->state->kinds[t->first + d];
  return &t->partitions[t->first + d];
}

/* The longest row of ragged dimension d. Row ids: the longest run of one. */
static int64_t widest(const to_tensor_t *t, int d) {
  partition_kind_t kind;
  const weft_ragged_ints_t *p = partition_of(t, d, &kind);
  int64_t most = 0, run = 0;
  for (int64_t i = kind == ROW_SPLITS ? 1 : 0; i < p->n; i++) {
    if (kind == ROW_SPLITS) {
      if (__builtin_sub_overflow(p->at[i], p->at[i - 1], &run)) run = 0;
    } else {
      run = i > 0 && p->at[i] == p->at[i - 1] ? run + 1 : 1;
    }
    if (run > most) most = run;
  }
  return most;
}

static weft_status_t *find_shape(const weft_kernel_ctx_t *ctx, to_tensor_t *t) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(check_default(&t->fallback->shape, &t->values->shape));
  WEFT_RETURN_IF_ERROR(read_shape(weft_in(ctx, IN_SHAPE), &shape));
  WEFT_RETURN_IF_ERROR(merge_shapes(t, &shape));
  if (shape.dims[0] < 0) shape.dims[0] = t->num_rows;
  for (int d = 1; d <= t->state->ragged_rank; d++) {
    if (shape.dims[d] < 0) shape.dims[d] = widest(t, d - 1);
  }
  WEFT_RETURN_IF_ERROR(weft_shape_make(shape.dims, shape.rank, &t->shape));
  t->inner = weft_cpu_product(&t->shape, t->state->ragged_rank + 1, t->shape.rank);
  t->num_places = 1;
  for (int d = 0; d <= t->state->ragged_rank; d++) {
    if (!weft_cpu_mul(t->num_places, t->shape.dims[d], &t->num_places))
      return WEFT_ERROR(INVALID_ARGUMENT, "the shape %s is too large", WEFT_SHAPE_TEXT(&t->shape));
  }
  return NULL;
}

/* ---- places ---- */

static weft_status_t *new_places(int64_t n, row_places_t *out) {
  *out = (row_places_t){.at = weft_malloc(((size_t)n + 1) * sizeof *out->at)};
  return out->at == NULL ? WEFT_NO_MEMORY("the places of %" PRId64 " rows", n) : NULL;
}

/* How many rows of dimension d the next step looks at; they are `total` in all. */
static int64_t wanted_of(const to_tensor_t *t, int d, int64_t total) {
  int64_t n = t->values->shape.dims[0];
  if (d < t->state->ragged_rank) {
    partition_kind_t kind;
    const weft_ragged_ints_t *p = partition_of(t, d, &kind);
    n = kind == ROW_SPLITS ? p->n - 1 : 0;
    for (int64_t i = 0; kind == VALUE_ROWIDS && i < p->n; i++) {
      if (p->at[i] >= n) n = p->at[i] == INT64_MAX ? INT64_MAX : p->at[i] + 1;
    }
  }
  return n < total ? n : total;
}

static weft_status_t *outermost(const to_tensor_t *t, int64_t step, row_places_t *out) {
  int64_t wanted = wanted_of(t, 0, t->num_rows);
  WEFT_RETURN_IF_ERROR(new_places(wanted, out));
  out->total = t->num_rows;
  out->kept = wanted;
  for (int64_t i = 0; i < wanted; i++) out->at[i] = i < t->shape.dims[0] ? i * step : NO_PLACE;
  return NULL;
}

static weft_status_t *more_values(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "the row partition has more values than there are");
}

static weft_status_t *bad_splits(void) { return WEFT_ERROR(INVALID_ARGUMENT, "Invalid row split size."); }

static weft_status_t *by_splits(const to_tensor_t *t, int d, const weft_ragged_ints_t *p,
                                const row_places_t *parent, int64_t step, row_places_t *out) {
  if (p->n == 0 || p->n - 1 > parent->total) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Row partition size is greater than output size: %" PRId64 " > %" PRId64, p->n - 1,
                      parent->total);
  }
  int64_t size = t->shape.dims[d], end = p->at[p->n - 1];
  int64_t wanted = wanted_of(t, d, end < 0 ? 0 : end);
  WEFT_RETURN_IF_ERROR(new_places(wanted, out));
  for (int64_t i = 0; i + 1 < p->n; i++) {
    int64_t length = 0;
    if (__builtin_sub_overflow(p->at[i + 1], p->at[i], &length)) return bad_splits();
    if (length <= 0) continue;
    int64_t place = parent->at[i], real = place == NO_PLACE ? 0 : length < size ? length : size;
    if (__builtin_add_overflow(out->total, length, &out->total) || out->total > end) return bad_splits();
    if (d == t->state->ragged_rank && real > wanted - out->kept) return more_values();
    for (int64_t k = 0; k < length && out->kept < wanted; k++) {
      out->at[out->kept++] = k < real ? place + k * step : NO_PLACE;
    }
  }
  return out->total == end ? NULL : bad_splits();
}

static weft_status_t *by_row_ids(const to_tensor_t *t, int d, const weft_ragged_ints_t *p,
                                 const row_places_t *parent, int64_t step, row_places_t *out) {
  int64_t size = t->shape.dims[d], column = 0, place = NO_PLACE;
  WEFT_RETURN_IF_ERROR(new_places(p->n, out));
  out->total = out->kept = p->n;
  for (int64_t i = 0; i < p->n; i++) {
    if (i == 0 || p->at[i] != p->at[i - 1]) {
      if (p->at[i] < 0 || p->at[i] >= parent->total) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Got next_value_rowid=%" PRId64 " which is not less than %" PRId64, p->at[i],
                          parent->total);
      }
      place = parent->at[p->at[i]];
      column = 0;
    } else if (place != NO_PLACE) {
      place = ++column < size ? place + step : NO_PLACE;
    }
    if (d == t->state->ragged_rank && place != NO_PLACE && i >= t->values->shape.dims[0])
      return more_values();
    out->at[i] = place;
  }
  return NULL;
}

/* Places of all values: *out. */
static weft_status_t *find_places(const to_tensor_t *t, row_places_t *out) {
  int64_t step = t->num_places / t->shape.dims[0];
  WEFT_RETURN_IF_ERROR(outermost(t, step, out));
  for (int d = 1; d <= t->state->ragged_rank; d++) {
    partition_kind_t kind;
    const weft_ragged_ints_t *p = partition_of(t, d - 1, &kind);
    row_places_t next = {0};
    step /= t->shape.dims[d];
    weft_status_t *s =
        kind == ROW_SPLITS ? by_splits(t, d, p, out, step, &next) : by_row_ids(t, d, p, out, step, &next);
    weft_free(out->at);
    *out = next;
    WEFT_RETURN_IF_ERROR(s);
  }
  return NULL;
}

/* ---- the result ---- */

/* The default for each element of one value: *out is owned by the caller. */
static weft_status_t *spread_default(const to_tensor_t *t, weft_tensor_t **out) {
  const weft_tensor_t *from = t->fallback;
  weft_shape_t shape = weft_shape_vector(t->inner);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(from->dtype, &shape, NULL, out));
  int rank = t->shape.rank - t->state->ragged_rank - 1, missing = rank - from->shape.rank;
  const int64_t *dims = t->shape.dims + t->state->ragged_rank + 1;
  for (int64_t i = 0; i < t->inner; i++) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = rank - 1; d >= missing; d--) {
      int64_t size = from->shape.dims[d - missing];
      if (size != 1 && size != dims[d])
        return WEFT_ERROR(INVALID_ARGUMENT, "Error broadcasting default_value");
      at += size == 1 ? 0 : rest % dims[d] * stride;
      stride *= size;
      rest /= dims[d];
    }
    if (from->count == t->inner) at = i; /* no matter how its dimensions are divided */
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(*out, i, from, at, 1));
  }
  return NULL;
}

static weft_status_t *pad(const to_tensor_t *t, const weft_tensor_t *fallback, weft_tensor_t *out,
                          int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, i * t->inner, fallback, 0, t->inner));
  return NULL;
}

static weft_status_t *put_values(const to_tensor_t *t, const row_places_t *places,
                                 const weft_tensor_t *fallback, weft_tensor_t *out) {
  int64_t end = 0;
  for (int64_t i = 0; i < places->kept;) {
    if (places->at[i] == NO_PLACE) {
      i++;
      continue;
    }
    if (places->at[i] > end) {
      WEFT_RETURN_IF_ERROR(pad(t, fallback, out, end, places->at[i]));
      end = places->at[i];
    }
    int64_t n = 1; /* values that follow each other there as here */
    while (i + n < places->kept && places->at[i + n] == end + n) n++;
    if (n > t->num_places - end)
      return WEFT_ERROR(INVALID_ARGUMENT, "the row ids do not ascend, and the values do not fit");
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, end * t->inner, t->values, i * t->inner, n * t->inner));
    end += n;
    i += n;
  }
  return pad(t, fallback, out, end, t->num_places);
}

static weft_status_t *fill(const to_tensor_t *t, weft_tensor_t *out) {
  row_places_t places = {0};
  weft_tensor_t *fallback = NULL;
  weft_status_t *s = find_places(t, &places);
  if (s == NULL && out->count > 0) s = spread_default(t, &fallback);
  if (s == NULL && out->count > 0) s = put_values(t, &places, fallback, out);
  weft_tensor_release(fallback);
  weft_free(places.at);
  return s;
}

static weft_status_t *convert(weft_kernel_ctx_t *ctx, to_tensor_t *t) {
  const weft_tensor_t *first = weft_in(ctx, IN_PARTITIONS);
  if (first->count == 0)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid first partition input. Tensor requires at least one element.");
  t->num_rows = t->first == 1 ? t->partitions[0].at[0] : first->count - 1;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(find_shape(ctx, t));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, t->values->dtype, &t->shape, &out));
  return t->num_places > 0 ? fill(t, out) : NULL;
}

static weft_status_t *check_partitions(const weft_kernel_ctx_t *ctx) {
  const to_tensor_state_t *state = ctx->state;
  for (int i = 0; i < state->num_partitions; i++) {
    const weft_shape_t *s = &weft_in(ctx, IN_PARTITIONS + i)->shape;
    if (state->kinds[i] == FIRST_DIM_SIZE ? s->rank == 0 : s->rank == 1) continue;
    return state->kinds[i] == FIRST_DIM_SIZE
               ? WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be a scalar.")
               : WEFT_ERROR(INVALID_ARGUMENT, "Row partition must be a vector.");
  }
  return NULL;
}

static weft_status_t *to_tensor_compute(weft_kernel_ctx_t *ctx) {
  const to_tensor_state_t *state = ctx->state;
  to_tensor_t t = {.state = state,
                   .values = weft_in(ctx, IN_VALUES),
                   .fallback = weft_in(ctx, IN_DEFAULT),
                   .first = state->kinds[0] == FIRST_DIM_SIZE};
  WEFT_RETURN_IF_ERROR(check_partitions(ctx));
  weft_status_t *s = weft_ragged_open_all(ctx, IN_PARTITIONS, state->num_partitions, &t.partitions);
  if (s == NULL) s = convert(ctx, &t);
  weft_ragged_close_all(t.partitions, state->num_partitions);
  return s;
}

/* ---- row_partition_types ---- */

static weft_status_t *kind_of(weft_str_t name, partition_kind_t *out) {
  static const struct {
    const char *name;
    partition_kind_t kind;
  } kinds[] = {{"FIRST_DIM_SIZE", FIRST_DIM_SIZE}, {"VALUE_ROWIDS", VALUE_ROWIDS},
               {"ROW_SPLITS", ROW_SPLITS},         {"ROW_LENGTHS", OTHER_PARTITION},
               {"ROW_LIMITS", OTHER_PARTITION},    {"ROW_STARTS", OTHER_PARTITION}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!weft_str_is(name, kinds[i].name)) continue;
    *out = kinds[i].kind;
    return NULL;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "Unknown string for partition info type: %.*s", WEFT_STR_ARGS(name));
}

static weft_status_t *read_kinds(const weft_attr_t *types, int n, to_tensor_state_t *state) {
  for (int i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(kind_of(types->list.strings[i], &state->kinds[i]));
    if (state->kinds[i] == OTHER_PARTITION) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported partition type: %.*s",
                        WEFT_STR_ARGS(types->list.strings[i]));
    }
    if (i > 0 && state->kinds[i] == FIRST_DIM_SIZE)
      return WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be first");
  }
  if (state->kinds[0] == VALUE_ROWIDS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot handle VALUE_ROWIDS in first dimension.");
  if (state->kinds[0] == FIRST_DIM_SIZE && (n < 2 || state->kinds[1] != VALUE_ROWIDS))
    return WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be followed by VALUE_ROWIDS");
  state->num_partitions = n;
  state->ragged_rank = n - (state->kinds[0] == FIRST_DIM_SIZE);
  return NULL;
}

static weft_status_t *to_tensor_prepare(const weft_kernel_setup_t *setup, void **out) {
  const weft_attr_t *types = weft_knode_attr(setup, "row_partition_types");
  int n = setup->node.num_inputs - IN_PARTITIONS;
  if (types == NULL || n != types->n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of row partition tensors (%d) does not equal the number of row partition types",
                      n);
  }
  to_tensor_state_t *state = weft_calloc(1, sizeof *state + (size_t)n * sizeof state->kinds[0]);
  if (state == NULL) return WEFT_NO_MEMORY("a kernel");
  weft_status_t *s = read_kinds(types, n, state);
  if (s != NULL) {
    weft_free(state);
    return s;
  }
  *out = state;
  return NULL;
}

const weft_kernel_t weft_cpu_ragged_to_tensor_kernels[] = {
    {.op = "RaggedTensorToTensor",
     .prepare = to_tensor_prepare,
     .compute = to_tensor_compute,
     .destroy = weft_free},
    {0},
};
