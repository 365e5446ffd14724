/* kernels/cpu/nn/activation.c - activation functions and their gradients. */
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/loops/narrow.h"
#include "kernels/cpu/loops/vector_math.h"

#define SELU_SCALE 1.0507009873554805
#define SELU_SCALE_ALPHA 1.7580993408473768 /* scale times alpha, 1.6732632423543772 */

/* In a vector it is computed of every element. */
#define EXPM1_BELOW_0(x) expm1((x) < 0 ? (x) : 0)

/* NaN goes through: the comparison is false and x itself is taken. */
#define MAP_STEM relu
#define MAP_EXPR(x) (IS_NEGATIVE(x) ? 0 : (x))
#include "kernels/cpu/loops/map1_reals.tmpl.h"
#define MAP_STEM relu6
#define MAP_EXPR(x) (IS_NEGATIVE(x) ? 0 : (x) > 6 ? 6 : (x))
#include "kernels/cpu/loops/map1_reals.tmpl.h"
#define MAP_STEM elu
#define MAP_LIBM
#define MAP_EXPR(x) ((x) < 0 ? EXPM1_BELOW_0(x) : (x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM selu
#define MAP_LIBM
#define MAP_EXPR(x) ((x) < 0 ? (COMP)SELU_SCALE_ALPHA * EXPM1_BELOW_0(x) : (COMP)SELU_SCALE * (x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM softplus
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_softplus, SUFFIX)(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM softsign
#define MAP_EXPR(x) ((x) / (1 + fabs(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"

/* Gradients: of (dy, x) where the argument is called features, of (dy, y) where it is called outputs. */
/* Products, so that a gradient that is no number stays none. */
#define MAP_STEM relu_grad
#define MAP_EXPR(dy, x) ((dy) * ((x) > 0))
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM relu6_grad
#define MAP_EXPR(dy, x) ((dy) * ((x) > 0 && (x) < 6))
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM elu_grad
#define MAP_EXPR(dy, y) ((y) < 0 ? (dy) * ((y) + 1) : (dy))
#include "kernels/cpu/loops/map2_floats.tmpl.h"
#define MAP_STEM selu_grad
#define MAP_EXPR(dy, y) ((y) < 0 ? (dy) * ((y) + (COMP)SELU_SCALE_ALPHA) : (dy) * (COMP)SELU_SCALE)
#include "kernels/cpu/loops/map2_floats.tmpl.h"
#define MAP_STEM softplus_grad
#define MAP_LIBM
#define MAP_EXPR(dy, x) ((dy) / (exp(-(x)) + 1))
#include "kernels/cpu/loops/map2_floats.tmpl.h"
#define MAP_STEM softsign_grad
#define MAP_EXPR(dy, x) ((dy) / ((1 + fabs(x)) * (1 + fabs(x))))
#include "kernels/cpu/loops/map2_floats.tmpl.h"

/* ---- LeakyRelu: x where x > 0, alpha x elsewhere; its gradient has the same slopes ---- */

#define EACH_FILE "kernels/cpu/nn/leaky_one.tmpl.h"
#define EACH_FLOATS
#include "tensor/each_dtype.tmpl.h"
#define EACH_FILE "kernels/cpu/nn/leaky_half.tmpl.h"
#undef EACH_FLOATS
#define EACH_HALFS
#include "tensor/each_dtype.tmpl.h"
#define EACH_FLOATS
typedef void leaky_fn(int64_t n, double alpha, const void *value, const void *x, void *y);
#define MAP_STEM leaky
static leaky_fn *const leaky_fns[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

typedef struct leaky_job {
  leaky_fn *fn;
  double alpha;
  const char *value, *x;
  char *y;
  size_t size;
} leaky_job_t;

static void leaky_range(void *arg, int64_t begin, int64_t end) {
  const leaky_job_t *j = arg;
  size_t at = (size_t)begin * j->size;
  j->fn(end - begin, j->alpha, j->value + at, j->x + at, j->y + at);
}

/* LeakyRelu: of the features alone; LeakyReluGrad: of gradients, by the features. */
WEFT_ATTRS(leaky_compute, (FLOAT, alpha))
static weft_status_t *leaky_compute(weft_kernel_ctx_t *ctx, const leaky_compute_attrs_t *attrs) {
  weft_tensor_t *value = weft_in(ctx, 0), *x = weft_in(ctx, ctx->node->num_inputs - 1), *y = NULL;
  if (!weft_shape_eq(&value->shape, &x->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Inputs to operation %s of type %s must have the same size and shape.  Input 0: %s != input 1: %s",
        ctx->node->name.data, ctx->node->op_name.data, WEFT_SHAPE_TEXT(&value->shape),
        WEFT_SHAPE_TEXT(&x->shape));
  }
  leaky_job_t j = {leaky_fns[value->dtype],      (double)attrs->alpha, value->data, x->data, NULL,
                   weft_dtype_size(value->dtype)};
  int64_t n = value->count;
  weft_shape_t shape = value->shape;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, value->dtype, &shape, &y));
  j.y = y->data;
  weft_parallel_for_cost(ctx->device->pool, n, weft_cpu_element(3 * j.size, false), leaky_range, &j);
  return NULL;
}

const weft_kernel_t weft_cpu_activation_kernels[] = {
    WEFT_MAP1("Elu", WEFT_SET_FLOATS, elu, WEFT_MAP_COSTLY),
    WEFT_MAP2("EluGrad", WEFT_SET_FLOATS, elu_grad, WEFT_MAP_SAME_SHAPE),
    WEFT_KERNEL_ATTRS("LeakyRelu", "T", WEFT_SET_FLOATS, leaky_compute),
    WEFT_KERNEL_ATTRS("LeakyReluGrad", "T", WEFT_SET_FLOATS, leaky_compute),
    WEFT_MAP1("Relu", WEFT_SET_REAL, relu, 0),
    WEFT_MAP1("Relu6", WEFT_SET_REAL, relu6, 0),
    WEFT_MAP2("Relu6Grad", WEFT_SET_REAL, relu6_grad, WEFT_MAP_SAME_SHAPE),
    WEFT_MAP2("ReluGrad", WEFT_SET_REAL, relu_grad, WEFT_MAP_SAME_SHAPE),
    WEFT_MAP1("Selu", WEFT_SET_FLOATS, selu, WEFT_MAP_COSTLY),
    WEFT_MAP2("SeluGrad", WEFT_SET_FLOATS, selu_grad, WEFT_MAP_SAME_SHAPE),
    WEFT_MAP1("Softplus", WEFT_SET_FLOATS, softplus, WEFT_MAP_COSTLY),
    WEFT_MAP2("SoftplusGrad", WEFT_SET_FLOATS, softplus_grad, WEFT_MAP_SAME_SHAPE | WEFT_MAP_COSTLY),
    WEFT_MAP1("Softsign", WEFT_SET_FLOATS, softsign, 0),
    WEFT_MAP2("SoftsignGrad", WEFT_SET_FLOATS, softsign_grad, WEFT_MAP_SAME_SHAPE),
    {0},
};
