/* kernels/cpu/sparse/sparse_map.c - AddSparseToTensorsMap, AddManySparseToTensorsMap,
 * TakeManySparseFromTensorsMap; resources/sparse_map.h has the map. */
#include <inttypes.h>

#include "kernels/cpu/sparse/rows.h"
#include "kernels/state.h"

/* ---- the map of a node: its shared_name's, or that of the node that adds ---- */

typedef struct map_state {
  weft_state_name_t name;
  weft_resource_manager_t *resources;
} map_state_t;

static void map_destroy(void *state) {
  map_state_t *st = state;
  if (st == NULL) return;
  if (st->name.is_private) {
    weft_status_free(weft_resource_delete(st->resources, weft_str(st->name.container),
                                          weft_str(st->name.name), &weft_sparse_map_type));
  }
  weft_state_name_deinit(&st->name);
  weft_free(st);
}

/* The param of a row: does the node add? */
static const bool adds = true, takes = false;

static weft_status_t *map_prepare(const weft_kernel_setup_t *setup, void **out) {
  map_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->resources = setup->node.device->resources;
  weft_status_t *s = weft_state_name_init(&st->name, setup, *(const bool *)setup->node.param);
  if (s == NULL) *out = st;
  if (s != NULL) map_destroy(st);
  return s;
}

static weft_status_t *create_map(void *arg, weft_object_t **out) {
  (void)arg;
  return weft_sparse_map_create(out);
}

/* *out: retained. */
static weft_status_t *find_map(const weft_kernel_ctx_t *ctx, weft_object_t **out) {
  const map_state_t *st = ctx->state;
  return weft_resource_lookup_or_create(st->resources, weft_str(st->name.container), weft_str(st->name.name),
                                        &weft_sparse_map_type, create_map, NULL, out);
}

/* ---- adding ---- */

static weft_status_t *add_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_shape_t shape;
  weft_object_t *map = NULL;
  int64_t number = 0;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&x, &shape));
  WEFT_RETURN_IF_ERROR(find_map(ctx, &map));
  weft_sparse_parts_t parts = {weft_in(ctx, 0), weft_in(ctx, 1), weft_in(ctx, 2)};
  weft_status_t *s = weft_sparse_map_add((weft_sparse_map_t *)map, &parts, &number);
  weft_object_release(map);
  return s != NULL ? s : weft_tensor_scalar(WEFT_I64, &number, &ctx->outputs[0].tensor);
}

/* Adds the rows that have elements, or, in a second pass, those that have none. */
static weft_status_t *add_rows(weft_sparse_map_t *map, const weft_sparse_t *x, weft_tensor_t *row_shape,
                               bool are_empty, int64_t *numbers) {
  int64_t next = 0;
  for (int64_t row = 0; row < x->dims[0]; row++) {
    weft_sparse_parts_t parts;
    weft_status_t *s = NULL;
    WEFT_RETURN_IF_ERROR(weft_sparse_take_row(x, row, &next, &parts));
    parts.shape = weft_tensor_retain(row_shape);
    if ((parts.values->count == 0) == are_empty) s = weft_sparse_map_add(map, &parts, &numbers[row]);
    weft_sparse_parts_release(&parts);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *add_many_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_object_t *map = NULL;
  weft_tensor_t *out = NULL, *row_shape = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_read_rows(ctx, &x));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 0, WEFT_I64, x.dims[0], &out));
  WEFT_RETURN_IF_ERROR(weft_sparse_row_shape(&x, &row_shape));
  weft_status_t *s = find_map(ctx, &map);
  if (s == NULL) s = add_rows((weft_sparse_map_t *)map, &x, row_shape, false, out->data);
  if (s == NULL) s = add_rows((weft_sparse_map_t *)map, &x, row_shape, true, out->data);
  weft_object_release(map);
  weft_tensor_release(row_shape);
  return s;
}

/* ---- taking ---- */

static weft_status_t *take(weft_kernel_ctx_t *ctx, weft_sparse_map_t *map, weft_sparse_parts_t *rows) {
  const weft_tensor_t *numbers = weft_in(ctx, 0);
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[1]);
  weft_status_t *s = weft_sparse_map_take(map, numbers->data, numbers->count, rows);
  if (s != NULL) return s;
  for (int64_t i = 0; i < numbers->count && s == NULL; i++) s = weft_sparse_check_parts(&rows[i], dtype, i);
  if (s == NULL) s = weft_sparse_stack(ctx, dtype, rows, numbers->count, &numbers->shape);
  for (int64_t i = 0; i < numbers->count; i++) weft_sparse_parts_release(&rows[i]);
  return s;
}

static weft_status_t *take_many_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *numbers = weft_in(ctx, 0);
  weft_object_t *map = NULL;
  if (!weft_is_vector(numbers)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse_handles should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&numbers->shape));
  }
  if (numbers->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
  }
  WEFT_RETURN_IF_ERROR(find_map(ctx, &map));
  weft_sparse_parts_t *rows = weft_calloc((size_t)numbers->count, sizeof *rows);
  weft_status_t *s = rows == NULL ? WEFT_NO_MEMORY("%" PRId64 " sparse tensors", numbers->count)
                                  : take(ctx, (weft_sparse_map_t *)map, rows);
  weft_free(rows);
  weft_object_release(map);
  return s;
}

#define OF_MAP(op_, compute_, adds_) \
  { .op = op_, .prepare = map_prepare, .compute = compute_, .destroy = map_destroy, .param = &adds_ }
const weft_kernel_t weft_cpu_sparse_map_kernels[] = {
    OF_MAP("AddManySparseToTensorsMap", add_many_compute, adds),
    OF_MAP("AddSparseToTensorsMap", add_compute, adds),
    OF_MAP("TakeManySparseFromTensorsMap", take_many_compute, takes),
    {0},
};
