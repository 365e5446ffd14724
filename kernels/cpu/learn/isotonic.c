/* kernels/cpu/learn/isotonic.c - IsotonicRegression: the closest decreasing sequence to each row, by pooling
 * adjacent violators (Best and Chakravarti, Mathematical Programming 47, 1990). */
#include "kernels/cpu/loops/common.h"

typedef struct isotonic_job {
  const void *x;
  void *y;
  int32_t *segments;
  int64_t width;
} isotonic_job_t;

#define SAME(v) (v)
#define TO_F32(v) ((float)(v))
#define TO_F16(v) weft_f32_to_f16((float)(v))
#define TO_BF16(v) weft_f32_to_bf16((float)(v))

#define ISOTONIC_NAME f16
#define ISOTONIC_IN uint16_t
#define ISOTONIC_OUT uint16_t
#define ISOTONIC_LOAD weft_f16_to_f32
#define ISOTONIC_STORE TO_F16
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME bf16
#define ISOTONIC_IN uint16_t
#define ISOTONIC_OUT uint16_t
#define ISOTONIC_LOAD weft_bf16_to_f32
#define ISOTONIC_STORE TO_BF16
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME f32
#define ISOTONIC_IN float
#define ISOTONIC_OUT float
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE TO_F32
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME f64
#define ISOTONIC_IN double
#define ISOTONIC_OUT double
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE SAME
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME i8
#define ISOTONIC_IN int8_t
#define ISOTONIC_OUT float
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE TO_F32
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME i16
#define ISOTONIC_IN int16_t
#define ISOTONIC_OUT float
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE TO_F32
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME i32
#define ISOTONIC_IN int32_t
#define ISOTONIC_OUT double
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE SAME
#include "kernels/cpu/learn/isotonic_one.tmpl.h"
#define ISOTONIC_NAME i64
#define ISOTONIC_IN int64_t
#define ISOTONIC_OUT double
#define ISOTONIC_LOAD SAME
#define ISOTONIC_STORE SAME
#include "kernels/cpu/learn/isotonic_one.tmpl.h"

typedef void isotonic_fn(const isotonic_job_t *j, int64_t row, double *sums, int64_t *starts);

static weft_status_t *isotonic(weft_kernel_ctx_t *ctx) {
  isotonic_fn *const *fn = ctx->node->param;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL, *segments = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &x->shape, &y));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_I32, &x->shape, &segments));
  isotonic_job_t j = {x->data, y->data, segments->data,
                      x->shape.rank == 0 ? 1 : x->shape.dims[x->shape.rank - 1]};
  if (x->count == 0) return NULL;
  double *sums = weft_calloc((size_t)j.width, sizeof *sums);
  int64_t *starts = weft_calloc((size_t)j.width, sizeof *starts);
  weft_status_t *s = sums == NULL || starts == NULL ? WEFT_NO_MEMORY("blocks of a row") : NULL;
  for (int64_t row = 0; s == NULL && row < x->count / j.width; row++) (*fn)(&j, row, sums, starts);
  weft_free(sums);
  weft_free(starts);
  return s;
}

#define ISOTONIC(in, out, name)                                                                              \
  {                                                                                                          \
    .op = "IsotonicRegression", .type_attr = "T", .types = WEFT_DTYPE_BIT(in), .type_attr2 = "output_dtype", \
    .types2 = WEFT_DTYPE_BIT(out), .compute = isotonic, .param = &(isotonic_fn *const) {                     \
      isotonic_##name                                                                                        \
    }                                                                                                        \
  }
const weft_kernel_t weft_cpu_isotonic_kernels[] = {
    ISOTONIC(WEFT_F16, WEFT_F16, f16),
    ISOTONIC(WEFT_BF16, WEFT_BF16, bf16),
    ISOTONIC(WEFT_F32, WEFT_F32, f32),
    ISOTONIC(WEFT_F64, WEFT_F64, f64),
    ISOTONIC(WEFT_I8, WEFT_F32, i8),
    ISOTONIC(WEFT_I16, WEFT_F32, i16),
    ISOTONIC(WEFT_I32, WEFT_F64, i32),
    ISOTONIC(WEFT_I64, WEFT_F64, i64),
    {0},
};
