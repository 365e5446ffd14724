/* kernels/cpu/batching/unbatch.c - Unbatch and UnbatchGrad, as TensorFlow's: each step gets its rows of a
 * batch, and the batch's step the rows of all steps' gradients.
 */
#include "base/alloc.h"
#include "kernels/state.h"
#include "resources/unbatcher.h"

typedef struct unbatch_node {
  weft_state_name_t name;
  int64_t timeout_micros; /* of Unbatch */
} unbatch_node_t;

/* The param of a row. */
typedef struct unbatch_op {
  const weft_resource_type_t *type;
  void (*run)(weft_kernel_ctx_t *c, weft_unbatcher_t *u); /* ends with c->done */
} unbatch_op_t;

static void destroy(void *state) {
  unbatch_node_t *st = state;
  if (st == NULL) return;
  weft_state_name_deinit(&st->name);
  weft_free(st);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  unbatch_node_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->timeout_micros = weft_knode_int_or(setup, "timeout_micros", 0);
  weft_status_t *s = weft_state_name_init(&st->name, setup, true);
  if (s == NULL) *out_state = st;
  if (s != NULL) destroy(st);
  return s;
}

static weft_status_t *create(void *arg, weft_object_t **out) {
  (void)arg;
  return weft_unbatcher_create(out);
}

static void compute(weft_kernel_ctx_t *c) {
  const unbatch_node_t *st = c->state;
  const unbatch_op_t *op = c->node->param;
  weft_object_t *o = NULL;
  weft_status_t *s = weft_resource_lookup_or_create(c->device->resources, weft_str(st->name.container),
                                                    weft_str(st->name.name), op->type, create, NULL, &o);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  op->run(c, (weft_unbatcher_t *)o);
  weft_object_release(o);
}

/* ---- Unbatch ---- */

static weft_status_t *check_index(const weft_tensor_t *data, const weft_tensor_t *index) {
  if (data->shape.rank < 1 || index->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Wrong shapes of a batch and its index: %s and %s",
                      WEFT_SHAPE_TEXT(&data->shape), WEFT_SHAPE_TEXT(&index->shape));
  }
  if (index->shape.dims[0] > data->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Wrong shape for index tensor. Expected 0th dimension size to be no greater than %lld; "
                      "Got: %lld.",
                      (long long)data->shape.dims[0], (long long)index->shape.dims[0]);
  }
  if (index->shape.dims[1] == 3) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: %lld.",
                    (long long)index->shape.dims[1]);
}

/* The rows of each request, one behind the other: the index counts only how many they are. */
static weft_status_t *slice(weft_tensor_t *data, const weft_tensor_t *index, weft_unbatched_t *out) {
  const int64_t *at = index->data;
  int64_t row = 0;
  for (int64_t i = 0; i < index->shape.dims[0]; i++, at += 3) {
    int64_t rows = 0;
    if (__builtin_sub_overflow(at[2], at[1], &rows) || rows < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "batch_index has a request with less than no rows");
    if (rows > data->shape.dims[0] - row)
      return WEFT_ERROR(INVALID_ARGUMENT, "Sum of split sizes must not exceed dim0-size of input tensor");
    out[i].key = at[0];
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(data, row, rows, &out[i].tensor));
    row += rows;
  }
  return NULL;
}

static void unbatch(weft_kernel_ctx_t *c, weft_unbatcher_t *u) {
  const unbatch_node_t *st = c->state;
  const weft_tensor_t *index = weft_in(c, 1), *id = weft_in(c, 2);
  weft_status_t *s = check_index(weft_in(c, 0), index);
  if (s == NULL && id->shape.rank != 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Input id should be scalar; Got shape: %s.",
                   WEFT_SHAPE_TEXT(&id->shape));
  }
  const int64_t n = s == NULL ? index->shape.dims[0] : 0;
  weft_unbatched_t *left = weft_calloc((size_t)n + 1, sizeof *left);
  if (s == NULL && (left == NULL || n > INT32_MAX)) s = WEFT_NO_MEMORY("%lld requests", (long long)n);
  if (s == NULL) s = slice(weft_in(c, 0), index, left);
  if (s != NULL) {
    c->done(c, s);
  } else {
    const weft_resource_call_t call = weft_state_call(c);
    weft_unbatcher_take(u, &call, *(const int64_t *)id->data, left, (int)n, st->timeout_micros,
                        weft_resource_timer(c->device->resources));
  }
  for (int64_t i = 0; left != NULL && i < n; i++) weft_tensor_release(left[i].tensor);
  weft_free(left);
}

/* ---- UnbatchGrad ---- */

/* Of a step that has the batch. */
static weft_status_t *check_grad_index(const weft_tensor_t *index) {
  const bool is_scalar = index->shape.rank == 0;
  const int64_t rows = is_scalar ? 1 : index->shape.dims[0];
  if (index->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "batch_index is empty while the tensor isn't.");
  if (!is_scalar && index->count % 3 == 0 && index->count / 3 == rows) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "batch_index should contain %lld elements. Received %lld",
                    (long long)rows * 3, (long long)index->count);
}

/* Waits for the gradients of all steps in the batch. */
static void join(weft_kernel_ctx_t *c, weft_unbatcher_t *u) {
  const weft_tensor_t *index = weft_in(c, 1);
  const int64_t n = index->shape.dims[0], *at = index->data;
  int64_t *keys = weft_calloc((size_t)n, sizeof *keys);
  if (keys == NULL || n > INT32_MAX) {
    c->done(c, WEFT_NO_MEMORY("%lld requests", (long long)n));
  } else {
    for (int64_t i = 0; i < n; i++) keys[i] = at[3 * i];
    const weft_resource_call_t call = weft_state_call(c);
    weft_unbatcher_join(u, &call, keys, (int)n);
  }
  weft_free(keys);
}

static void unbatch_grad(weft_kernel_ctx_t *c, weft_unbatcher_t *u) {
  const bool has_batch = weft_in(c, 0)->count > 0;
  const weft_tensor_t *id = weft_in(c, 3);
  weft_tensor_t *grad = weft_in(c, 2);
  weft_status_t *s = NULL;
  if (id->shape.rank != 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected `id` to be scalar. Received shape %s",
                   WEFT_SHAPE_TEXT(&id->shape));
  } else if (grad->shape.rank == 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "`grad` must have at least one dimension");
  }
  if (s == NULL) s = weft_unbatcher_leave(u, *(const int64_t *)id->data, grad);
  if (s == NULL && has_batch) s = check_grad_index(weft_in(c, 1));
  if (s == NULL && has_batch) {
    join(c, u);
    return;
  }
  if (s == NULL) s = weft_tensor_slice(grad, 0, 0, &c->outputs[0].tensor);
  c->done(c, s);
}

#define OP(name, of, fn)                                                          \
  {                                                                               \
    .op = name, .prepare = prepare, .compute_async = compute, .destroy = destroy, \
    .param = &(const unbatch_op_t) {                                              \
      &of, fn                                                                     \
    }                                                                             \
  }

const weft_kernel_t weft_cpu_unbatch_kernels[] = {
    OP("Unbatch", weft_unbatcher_type, unbatch),
    OP("UnbatchGrad", weft_unbatch_grad_type, unbatch_grad),
    {0},
};
