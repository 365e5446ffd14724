/* kernels/cuda/binary.c - rows of binary.def, special_binary.def and complex_binary.def. */
#include "kernels/cuda/binary.h"

#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_BINARY(op, set, result, shapes) WEFT_CUDA_INSTANCES(op##_instances, binary_##op, set)
#include "kernels/cuda/binary.def"
#include "kernels/cuda/special_binary.def"
#undef WEFT_CUDA_BINARY

#define WEFT_CUDA_COMPLEX_BINARY(op, result, shapes) \
  WEFT_CUDA_INSTANCES(complex_##op##_instances, binary_##op, COMPLEX)
#include "kernels/cuda/complex_binary.def"
WEFT_CUDA_COMPLEX_BINARY(Equal, TRUTH, BROADCAST)
WEFT_CUDA_COMPLEX_BINARY(NotEqual, TRUTH, BROADCAST)
#undef WEFT_CUDA_COMPLEX_BINARY

typedef struct cuda_operands {
  int dtype;
  const void *x, *y; /* stay valid when the output takes one of them over */
  weft_cuda_shape_t x_shape, y_shape;
} cuda_operands_t;

static cuda_operands_t read_operands(const WEFT_TensorView *x, const WEFT_TensorView *y) {
  return (cuda_operands_t){x->dtype, x->data, y->data, weft_cuda_shape_of(x), weft_cuda_shape_of(y)};
}

static WEFT_Failure *launch_walk(WEFT_KernelContext *c, const weft_cuda_instances_t *instances, int dtype,
                                 const void *x, const void *y, void *z, weft_cuda_walk_t *w) {
  weft_cuda_walk_collapse(w, 2);
  void *args[] = {&x, &y, &z, w};
  const int64_t per_thread = w->is_flat ? (int64_t)(16 / weft_cuda_size(dtype)) : 1;
  return weft_cuda_launch_over(c, weft_cuda_pick(instances, dtype), w->n, per_thread, args);
}

WEFT_Failure *weft_cuda_multiply_elements(WEFT_KernelContext *c, int dtype, const void *x, const void *y,
                                          void *z, weft_cuda_walk_t *w) {
  return launch_walk(c, &Mul_instances, dtype, x, y, z, w);
}

static WEFT_Failure *launch(WEFT_KernelContext *c, const cuda_operands_t *o, WEFT_TensorView *z) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, z->rank, z->dims);
  if (z->count == 0) return NULL;
  if (!weft_cuda_walk_broadcast(&w, 0, o->x_shape.rank, o->x_shape.dims) ||
      !weft_cuda_walk_broadcast(&w, 1, o->y_shape.rank, o->y_shape.dims))
    return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "%s: shapes", weft_cuda_host->node_name(c));
  return launch_walk(c, weft_cuda_host->param(c), o->dtype, o->x, o->y, z->data, &w);
}

/* An operand that has the result's shape is read exactly where the result is written. */
static WEFT_Failure *broadcast(WEFT_KernelContext *c, bool is_truth) {
  WEFT_TensorView x, y, z;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  cuda_operands_t o = read_operands(&x, &y);
  if (!is_truth && (weft_cuda_same_shape(&x, &y) || y.rank == 0)) {
    WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &z));
  } else if (!is_truth && x.rank == 0) {
    WEFT_CUDA_TRY(weft_cuda_output_like(c, 1, 0, &z));
  } else {
    WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &z));
  }
  return launch(c, &o, &z);
}

static WEFT_Failure *compute_SAME_BROADCAST(WEFT_KernelContext *c) { return broadcast(c, false); }
static WEFT_Failure *compute_TRUTH_BROADCAST(WEFT_KernelContext *c) { return broadcast(c, true); }

static WEFT_Failure *compute_SAME_EQUAL(WEFT_KernelContext *c) {
  WEFT_TensorView x, y, z;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  if (!weft_cuda_same_shape(&x, &y)) return weft_cuda_shapes_differ(c, 1);
  cuda_operands_t o = read_operands(&x, &y);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &z));
  return launch(c, &o, &z);
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
  const void *f = weft_cuda_host->param(c);
  return weft_cuda_fill(c, z.data, f == &NotEqual_instances || f == &complex_NotEqual_instances, 1);
}

/* ---- BiasAdd: the bias repeats but along the channels ---- */

static WEFT_Failure *bias_compute(WEFT_KernelContext *c) {
  WEFT_TensorView x, bias, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &bias);
  if (x.rank < 2) return WEFT_CUDA_INVALID("Input tensor must be at least 2D: %s", WEFT_CUDA_SHAPE(&x));
  if (bias.rank != 1) return WEFT_CUDA_INVALID("Biases must be 1D: %s", WEFT_CUDA_SHAPE(&bias));
  const int at = weft_cuda_host->state(c) != NULL ? 1 : x.rank - 1;
  if (bias.dims[0] != x.dims[at]) {
    return WEFT_CUDA_INVALID(
        "Must provide as many biases as the last dimension of the input tensor: %s vs. %s",
        WEFT_CUDA_SHAPE(&bias), WEFT_CUDA_SHAPE(&x));
  }
  cuda_operands_t o = read_operands(&x, &bias);
  o.y_shape.rank = x.rank - at; /* [channels, 1, 1] */
  for (int d = 1; d < o.y_shape.rank; d++) o.y_shape.dims[d] = 1;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  return launch(c, &o, &y);
}

/* An op of bools has no attribute for its type. */
#define TYPE_ATTR_BOOL NULL
#define TYPE_ATTR_FLOAT "T"
#define TYPE_ATTR_COMPLEX "T"
#define TYPE_ATTR_F32_F64 "T"
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
#define EQUAL_ROW(op_, name, set)                                                       \
  {                                                                                     \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(set), .prepare = equal_prepare, \
    .compute = equal_compute, .param = &name##_instances                                \
  }
const WEFT_DeviceKernel weft_cuda_binary_kernels[] = {
    EQUAL_ROW("Equal", Equal, REAL_BOOL), /* the first row that fits is taken */
    EQUAL_ROW("Equal", complex_Equal, COMPLEX),
    EQUAL_ROW("NotEqual", NotEqual, REAL_BOOL),
    EQUAL_ROW("NotEqual", complex_NotEqual, COMPLEX),
#define WEFT_CUDA_BINARY(op, set, result, shapes) ROW(#op, op, set, result, shapes),
#include "kernels/cuda/binary.def"
#include "kernels/cuda/special_binary.def"
#undef WEFT_CUDA_BINARY
    {.op = "BiasAdd",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(REAL),
     .prepare = weft_cuda_prepare_channels,
     .compute = bias_compute,
     .param = &AddV2_instances},
    {.op = "BiasAddV1",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(REAL),
     .compute = bias_compute,
     .param = &AddV2_instances},
    {.op = "Add",
     .type_attr = "T",
     .types = ADD_TYPES,
     .compute = compute_SAME_BROADCAST,
     .param = &AddV2_instances},
#define WEFT_CUDA_COMPLEX_BINARY(op, result, shapes) ROW(#op, complex_##op, COMPLEX, result, shapes),
#include "kernels/cuda/complex_binary.def"
#undef WEFT_CUDA_COMPLEX_BINARY
    ROW("Add", complex_AddV2, COMPLEX, SAME, BROADCAST),
    ROW("InvGrad", ReciprocalGrad, FLOAT, SAME, EQUAL),
    ROW("InvGrad", complex_ReciprocalGrad, COMPLEX, SAME, EQUAL),
    ROW("Mod", TruncateMod, FLOAT_INDEX, SAME, BROADCAST),
    ROW("RealDiv", Div, REAL, SAME, BROADCAST),
    ROW("RealDiv", complex_Div, COMPLEX, SAME, BROADCAST),
    {0},
};
