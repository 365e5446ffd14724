/* kernels/cuda/binary.c - rows of binary.def. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_BINARY(op, set, result, shapes) WEFT_CUDA_INSTANCES(op##_instances, binary_##op, set)
#include "kernels/cuda/binary.def"
#undef WEFT_CUDA_BINARY

static WEFT_Failure *launch(WEFT_KernelContext *c, const WEFT_TensorView *x, const WEFT_TensorView *y,
                            WEFT_TensorView *z) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, z->rank, z->dims);
  if (z->count == 0) return NULL;
  if (!weft_cuda_walk_broadcast(&w, 0, x->rank, x->dims) ||
      !weft_cuda_walk_broadcast(&w, 1, y->rank, y->dims))
    return WEFT_CUDA_INVALID("Incompatible shapes: %s vs. %s", WEFT_CUDA_SHAPE(x), WEFT_CUDA_SHAPE(y));
  weft_cuda_walk_collapse(&w, 2);
  const void *from_x = x->data, *from_y = y->data;
  void *args[] = {&from_x, &from_y, &z->data, &w};
  const int64_t per_thread = w.is_flat ? (int64_t)(16 / weft_cuda_size(x->dtype)) : 1;
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), x->dtype), w.n, per_thread, args);
}

/* An operand that has the result's shape is read exactly where the result is written. */
static WEFT_Failure *broadcast(WEFT_KernelContext *c, bool is_truth) {
  WEFT_TensorView x, y, z;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  if (!is_truth && (weft_cuda_same_shape(&x, &y) || y.rank == 0)) {
    WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &z));
  } else if (!is_truth && x.rank == 0) {
    WEFT_CUDA_TRY(weft_cuda_output_like(c, 1, 0, &z));
  } else {
    WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &z));
  }
  return launch(c, &x, &y, &z);
}

static WEFT_Failure *compute_SAME_BROADCAST(WEFT_KernelContext *c) { return broadcast(c, false); }
static WEFT_Failure *compute_TRUTH_BROADCAST(WEFT_KernelContext *c) { return broadcast(c, true); }

static WEFT_Failure *compute_SAME_EQUAL(WEFT_KernelContext *c) {
  WEFT_TensorView x, y, z;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  if (!weft_cuda_same_shape(&x, &y)) return weft_cuda_shapes_differ(c, 1);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &z));
  return launch(c, &x, &y, &z);
}

/* ---- Equal, NotEqual: where shapes need not fit and do not, no element equals another ---- */

static WEFT_Failure *equal_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char may_differ = 1;
  int must = 1;
  (void)param;
  weft_cuda_host->attr_bool(s, "incompatible_shape_error", &must);
  *out = must != 0 ? NULL : (void *)(uintptr_t)&may_differ;
  return NULL;
}

static WEFT_Failure *equal_compute(WEFT_KernelContext *c) {
  WEFT_TensorView x, y, z;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  bool fits = true;
  for (int d = 1; d <= x.rank && d <= y.rank; d++) {
    const int64_t a = x.dims[x.rank - d], b = y.dims[y.rank - d];
    fits = fits && (a == b || a == 1 || b == 1);
  }
  if (fits || weft_cuda_host->state(c) == NULL) return broadcast(c, true);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 0, NULL, &z));
  return weft_cuda_fill(c, z.data, weft_cuda_host->param(c) == &NotEqual_instances, 1);
}

/* An op of bools has no attribute for its type. */
#define TYPE_ATTR_BOOL NULL
#define TYPE_ATTR_FLOAT "T"
#define TYPE_ATTR_FLOAT_I64 "T"
#define TYPE_ATTR_FLOAT_INDEX "T"
#define TYPE_ATTR_INT "T"
#define TYPE_ATTR_REAL "T"
#define TYPE_ATTR_REAL_BOOL "T"
#define ADD_TYPES (WEFT_CUDA_SET(FLOAT_SIGNED) | UINT32_C(1) << WEFT_CUDA_u8)
#define ROW(op_, name, set, result, shapes)                               \
  {                                                                       \
    .op = op_, .type_attr = TYPE_ATTR_##set, .types = WEFT_CUDA_SET(set), \
    .compute = compute_##result##_##shapes, .param = &name##_instances    \
  }
#define EQUAL_ROW(op_)                                                                         \
  {                                                                                            \
    .op = #op_, .type_attr = "T", .types = WEFT_CUDA_SET(REAL_BOOL), .prepare = equal_prepare, \
    .compute = equal_compute, .param = &op_##_instances                                        \
  }
const WEFT_DeviceKernel weft_cuda_binary_kernels[] = {
    EQUAL_ROW(Equal), /* the first row that fits is taken */
    EQUAL_ROW(NotEqual),
#define WEFT_CUDA_BINARY(op, set, result, shapes) ROW(#op, op, set, result, shapes),
#include "kernels/cuda/binary.def"
#undef WEFT_CUDA_BINARY
    {.op = "Add",
     .type_attr = "T",
     .types = ADD_TYPES,
     .compute = compute_SAME_BROADCAST,
     .param = &AddV2_instances},
    ROW("InvGrad", ReciprocalGrad, FLOAT, SAME, EQUAL),
    ROW("Mod", TruncateMod, FLOAT_INDEX, SAME, BROADCAST),
    ROW("RealDiv", Div, REAL, SAME, BROADCAST),
    {0},
};
