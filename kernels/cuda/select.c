/* kernels/cuda/select.c - rows of Select, SelectV2, ClipByValue, AddN and AccumulateNV2. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_SIZES(select_functions, select)
WEFT_CUDA_INSTANCES(clip_instances, clip, FLOAT_INDEX)
WEFT_CUDA_INSTANCES(add_n_instances, add_n, FLOAT_I64)
WEFT_CUDA_INSTANCES(complex_add_n_instances, add_n, COMPLEX)

static WEFT_Failure *launch_select(WEFT_KernelContext *c, const WEFT_TensorView *condition,
                                   const weft_cuda_shape_t *condition_shape, const WEFT_TensorView *then,
                                   const WEFT_TensorView *other, WEFT_TensorView *y) {
  weft_cuda_walk_t w;
  if (y->count == 0) return NULL;
  weft_cuda_walk_init(&w, y->rank, y->dims);
  if (!weft_cuda_walk_broadcast(&w, 0, condition_shape->rank, condition_shape->dims) ||
      !weft_cuda_walk_broadcast(&w, 1, then->rank, then->dims) ||
      !weft_cuda_walk_broadcast(&w, 2, other->rank, other->dims))
    return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "%s: shapes", weft_cuda_host->node_name(c));
  weft_cuda_walk_collapse(&w, 3);
  const void *p = condition->data, *t = then->data, *e = other->data;
  void *args[] = {&p, &t, &e, &y->data, &w};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(select_functions, y->dtype), w.n, 1, args);
}

static WEFT_Failure *select_v2(WEFT_KernelContext *c) {
  WEFT_TensorView condition, then, other, y;
  weft_cuda_host->input(c, 0, &condition);
  weft_cuda_host->input(c, 1, &then);
  weft_cuda_host->input(c, 2, &other);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  const weft_cuda_shape_t s = weft_cuda_shape_of(&condition);
  return launch_select(c, &condition, &s, &then, &other, &y);
}

/* The older rule: the condition is a scalar, or picks rows, or has the operands' shape. */
static WEFT_Failure *select_v1(WEFT_KernelContext *c) {
  WEFT_TensorView condition, then, other, y;
  weft_cuda_host->input(c, 0, &condition);
  weft_cuda_host->input(c, 1, &then);
  weft_cuda_host->input(c, 2, &other);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  weft_cuda_shape_t s = weft_cuda_shape_of(&condition);
  if (condition.rank == 1 && then.rank != 1) { /* [rows, 1, ...] */
    s.rank = then.rank;
    for (int d = 1; d < s.rank; d++) s.dims[d] = 1;
  }
  return launch_select(c, &condition, &s, &then, &other, &y);
}

static WEFT_Failure *clip(WEFT_KernelContext *c) {
  WEFT_TensorView x, low, high, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &low);
  weft_cuda_host->input(c, 2, &high);
  if ((low.rank != 0 && !weft_cuda_same_shape(&low, &x)) ||
      (high.rank != 0 && !weft_cuda_same_shape(&high, &x))) {
    return WEFT_CUDA_INVALID(
        "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. input "
        "shape: %sclip_value_min shape: %sclip_value_max shape: %s",
        WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&low), WEFT_CUDA_SHAPE(&high));
  }
  int32_t low_step = low.rank != 0, high_step = high.rank != 0;
  int64_t n = x.count;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&x.data, &low.data, &high.data, &y.data, &low_step, &high_step, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&clip_instances, x.dtype), n, 1, args);
}

/* ---- AddN: as many tensors as a launch takes, then the others on top ---- */

static WEFT_Failure *add_n(WEFT_KernelContext *c) {
  const int num = weft_cuda_host->num_inputs(c);
  WEFT_TensorView first, other, y;
  weft_cuda_list_t list = {.n = 1};
  weft_cuda_host->input(c, 0, &first);
  for (int i = 1; i < num; i++) {
    weft_cuda_host->input(c, i, &other);
    if (!weft_cuda_same_shape(&first, &other)) return weft_cuda_shapes_differ(c, i);
  }
  if (num == 1) return weft_cuda_host->output_is_input(c, 0, 0, first.rank, first.dims);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  weft_cuda_function_t *f = weft_cuda_pick(weft_cuda_host->param(c), first.dtype);
  int64_t n = first.count;
  void *args[] = {&list, &y.data, &n};
  list.at[0] = first.data;
  for (int i = 1; i < num; i++) {
    weft_cuda_host->input(c, i, &other);
    list.at[list.n++] = other.data;
    if (list.n < WEFT_CUDA_LIST && i < num - 1) continue;
    WEFT_CUDA_TRY(weft_cuda_launch_over(c, f, n, 1, args));
    list.at[0] = y.data;
    list.n = 1;
  }
  return NULL;
}

#define ADD_N_ROW(op_, set, name) \
  { .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(set), .compute = add_n, .param = &name##_instances }
const WEFT_DeviceKernel weft_cuda_select_kernels[] = {
    ADD_N_ROW("AccumulateNV2", FLOAT_I64, add_n),
    ADD_N_ROW("AccumulateNV2", COMPLEX, complex_add_n),
    ADD_N_ROW("AddN", FLOAT_I64, add_n),
    ADD_N_ROW("AddN", COMPLEX, complex_add_n),
    {.op = "ClipByValue", .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT_INDEX), .compute = clip},
    {.op = "Select", .type_attr = "T", .types = WEFT_CUDA_PLAIN, .compute = select_v1},
    {.op = "SelectV2", .type_attr = "T", .types = WEFT_CUDA_PLAIN, .compute = select_v2},
    {0},
};
