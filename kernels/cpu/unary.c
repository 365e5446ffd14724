/* kernels/cpu/unary.c - functions of one operand that the C library or one expression gives. */
#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "base/alloc.h"
#include "kernels/cpu/map.h"
#include "kernels/cpu/vector_math.h"

/* Integers wrap: the absolute value of the lowest number is that number. */
#define MAP_STEM neg
#define MAP_EXPR(x) (0 - (x))
#define MAP_WRAPS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM float_neg
#define MAP_EXPR(x) (-(x))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM square
#define MAP_EXPR(x) ((x) * (x))
#define MAP_WRAPS
#include "kernels/cpu/map1_numbers.tmpl.h"
#define MAP_STEM abs
#define MAP_EXPR(x) ((x) < 0 ? 0 - (WRAP)(x) : (WRAP)(x))
#define EACH_I32_I64
#define EACH_I8_I16
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM float_abs
#define MAP_EXPR(x) fabs(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM sign
#define MAP_EXPR(x) (((x) > 0) - ((x) < 0))
#define EACH_I32_I64
#define EACH_I8_I16
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM float_sign
#define MAP_EXPR(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x))
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM complex_sign
#define MAP_EXPR(x) ((x) == 0 ? 0 : (x) / fabs(x))
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM reciprocal
#define MAP_EXPR(x) (1 / (x))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
/* An integer has no infinity; 1/0 gives 0 here, where TensorFlow would trap. */
#define MAP_STEM int_reciprocal
#define MAP_EXPR(x) ((x) == 0 ? 0 : 1 / (x))
#define EACH_I32_I64
#define EACH_I8_I16
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM same
#define MAP_EXPR(x) (x)
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM floor
#define MAP_EXPR(x) floor(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM ceil
#define MAP_EXPR(x) ceil(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM rint
#define MAP_EXPR(x) rint(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM is_nan
#define MAP_EXPR(x) ((x) != (x))
#define MAP_BOOL
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM is_inf
#define MAP_EXPR(x) (isinf(x) != 0)
#define MAP_BOOL
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM is_finite
#define MAP_EXPR(x) (isfinite(x) != 0)
#define MAP_BOOL
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM logical_not
#define MAP_EXPR(x) ((x) == 0)
#define EACH_BOOL
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM conj
#define MAP_EXPR(x) conj(x)
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"

/* Real and complex alike: the type-generic macros choose. */
#define MAP_STEM sqrt
#define MAP_EXPR(x) sqrt(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM rsqrt
#define MAP_EXPR(x) (1 / sqrt(x))
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM exp
#define MAP_EXPR(x) WEFT_CAT(weft_exp, SUFFIX)(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM log
#define MAP_EXPR(x) WEFT_CAT(weft_log, SUFFIX)(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM sin
#define MAP_EXPR(x) sin(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM cos
#define MAP_EXPR(x) cos(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM tan
#define MAP_EXPR(x) tan(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM asin
#define MAP_EXPR(x) asin(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM acos
#define MAP_EXPR(x) acos(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM atan
#define MAP_EXPR(x) atan(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM sinh
#define MAP_EXPR(x) sinh(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM cosh
#define MAP_EXPR(x) cosh(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM tanh
#define MAP_EXPR(x) WEFT_CAT(weft_tanh, SUFFIX)(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM asinh
#define MAP_EXPR(x) asinh(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM acosh
#define MAP_EXPR(x) acosh(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM atanh
#define MAP_EXPR(x) atanh(x)
#include "kernels/cpu/map1_field.tmpl.h"
#define MAP_STEM expm1
#define MAP_EXPR(x) expm1(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM complex_expm1
#define MAP_EXPR(x) (exp(x) - 1)
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM log1p
#define MAP_EXPR(x) log1p(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM complex_log1p
#define MAP_EXPR(x) log(1 + (x))
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM sigmoid
#define MAP_EXPR(x) WEFT_CAT(weft_sigmoid, SUFFIX)(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM complex_sigmoid
#define MAP_EXPR(x) (1 / (1 + exp(-(x))))
#define EACH_COMPLEX
#include "kernels/cpu/map1.tmpl.h"
#define MAP_STEM erf
#define MAP_EXPR(x) erf(x)
#include "kernels/cpu/map1_floats.tmpl.h"
#define MAP_STEM erfc
#define MAP_EXPR(x) erfc(x)
#include "kernels/cpu/map1_floats.tmpl.h"

/* ---- which loops make up an op ---- */

typedef struct unary_row {
  const char *op;
  weft_map1_fn *const *reals, *const *ints, *const *complexes;
  uint32_t flags;
} unary_row_t;

static const unary_row_t unary[] = {
    {"Abs", float_abs_fns, abs_fns, NULL, 0},
    {"Acos", acos_fns, NULL, acos_fns, WEFT_MAP_COSTLY},
    {"Acosh", acosh_fns, NULL, acosh_fns, WEFT_MAP_COSTLY},
    {"Asin", asin_fns, NULL, asin_fns, WEFT_MAP_COSTLY},
    {"Asinh", asinh_fns, NULL, asinh_fns, WEFT_MAP_COSTLY},
    {"Atan", atan_fns, NULL, atan_fns, WEFT_MAP_COSTLY},
    {"Atanh", atanh_fns, NULL, atanh_fns, WEFT_MAP_COSTLY},
    {"Ceil", ceil_fns, NULL, NULL, 0},
    {"Conj", NULL, NULL, conj_fns, 0},
    {"Cos", cos_fns, NULL, cos_fns, WEFT_MAP_COSTLY},
    {"Cosh", cosh_fns, NULL, cosh_fns, WEFT_MAP_COSTLY},
    {"Erf", erf_fns, NULL, NULL, WEFT_MAP_COSTLY},
    {"Erfc", erfc_fns, NULL, NULL, WEFT_MAP_COSTLY},
    {"Exp", exp_fns, NULL, exp_fns, WEFT_MAP_COSTLY},
    {"Expm1", expm1_fns, NULL, complex_expm1_fns, WEFT_MAP_COSTLY},
    {"Floor", floor_fns, NULL, NULL, 0},
    {"Inv", reciprocal_fns, int_reciprocal_fns, reciprocal_fns, 0},
    {"IsFinite", is_finite_fns, NULL, NULL, WEFT_MAP_BOOL_OUT},
    {"IsInf", is_inf_fns, NULL, NULL, WEFT_MAP_BOOL_OUT},
    {"IsNan", is_nan_fns, NULL, NULL, WEFT_MAP_BOOL_OUT},
    {"Log", log_fns, NULL, log_fns, WEFT_MAP_COSTLY},
    {"Log1p", log1p_fns, NULL, complex_log1p_fns, WEFT_MAP_COSTLY},
    {"LogicalNot", logical_not_fns, NULL, NULL, WEFT_MAP_BOOL_OUT},
    {"Neg", float_neg_fns, neg_fns, float_neg_fns, 0},
    {"Reciprocal", reciprocal_fns, int_reciprocal_fns, reciprocal_fns, 0},
    {"Rint", rint_fns, NULL, NULL, 0},
    {"Round", rint_fns, same_fns, NULL, 0},
    {"Rsqrt", rsqrt_fns, NULL, rsqrt_fns, 0},
    {"Sigmoid", sigmoid_fns, NULL, complex_sigmoid_fns, WEFT_MAP_COSTLY},
    {"Sign", float_sign_fns, sign_fns, complex_sign_fns, 0},
    {"Sin", sin_fns, NULL, sin_fns, WEFT_MAP_COSTLY},
    {"Sinh", sinh_fns, NULL, sinh_fns, WEFT_MAP_COSTLY},
    {"Sqrt", sqrt_fns, NULL, sqrt_fns, 0},
    {"Square", square_fns, square_fns, square_fns, 0},
    {"Tan", tan_fns, NULL, tan_fns, WEFT_MAP_COSTLY},
    {"Tanh", tanh_fns, NULL, tanh_fns, WEFT_MAP_COSTLY},
};

static weft_status_t *prepare(const weft_kernel_node_t *node, void **out_state) {
  int dtype = weft_dtype_base(node->input_types[0]);
  for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++) {
    if (!weft_str_is(node->op_name, unary[i].op)) continue;
    weft_map1_row_t *row = weft_calloc(1, sizeof *row);
    if (row == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "preparing %s", unary[i].op);
    *row = (weft_map1_row_t){unary[i].op, unary[i].reals, unary[i].flags};
    if (weft_dtype_is_integer(dtype)) row->fns = unary[i].ints;
    if (weft_dtype_is_complex(dtype)) row->fns = unary[i].complexes;
    *out_state = row;
    return NULL;
  }
  return WEFT_ERROR(INTERNAL, "op %s has no row", node->op_name.data);
}

/* Conj of a real number is that number. */
static weft_status_t *conj_compute(weft_kernel_ctx_t *ctx) {
  if (weft_dtype_is_complex(weft_in(ctx, 0)->dtype)) return weft_map1_compute(ctx);
  weft_cpu_out_same(ctx, 0, 0);
  return NULL;
}

#define SIGNED \
  (WEFT_DTYPE_BIT(WEFT_I8) | WEFT_DTYPE_BIT(WEFT_I16) | WEFT_DTYPE_BIT(WEFT_I32) | WEFT_DTYPE_BIT(WEFT_I64))
#define FIELD (WEFT_SET_FLOATS | WEFT_SET_COMPLEX)
#define UNARY(op, types) WEFT_KERNEL(op, "T", types, prepare, weft_map1_compute, weft_free)
const weft_kernel_t weft_cpu_unary_kernels[] = {
    UNARY("Abs", WEFT_SET_FLOATS | SIGNED),
    UNARY("Acos", FIELD),
    UNARY("Acosh", FIELD),
    UNARY("Asin", FIELD),
    UNARY("Asinh", FIELD),
    UNARY("Atan", FIELD),
    UNARY("Atanh", FIELD),
    UNARY("Ceil", WEFT_SET_FLOATS),
    WEFT_KERNEL("Conj", "T", WEFT_SET_COMPLEX | WEFT_SET_FLOATS, prepare, conj_compute, weft_free),
    UNARY("Cos", FIELD),
    UNARY("Cosh", FIELD),
    UNARY("Erf", WEFT_SET_FLOATS),
    UNARY("Erfc", WEFT_SET_FLOATS),
    UNARY("Exp", FIELD),
    UNARY("Expm1", FIELD),
    UNARY("Floor", WEFT_SET_FLOATS),
    UNARY("Inv", FIELD | SIGNED),
    UNARY("IsFinite", WEFT_SET_FLOATS),
    UNARY("IsInf", WEFT_SET_FLOATS),
    UNARY("IsNan", WEFT_SET_FLOATS),
    UNARY("Log", FIELD),
    UNARY("Log1p", FIELD),
    WEFT_KERNEL("LogicalNot", NULL, 0, prepare, weft_map1_compute, weft_free),
    UNARY("Neg", FIELD | WEFT_SET_INTS),
    UNARY("Reciprocal", FIELD | SIGNED),
    UNARY("Rint", WEFT_SET_FLOATS),
    UNARY("Round", WEFT_SET_FLOATS | WEFT_SET_INTS),
    UNARY("Rsqrt", FIELD),
    UNARY("Sigmoid", FIELD),
    UNARY("Sign", FIELD | SIGNED),
    UNARY("Sin", FIELD),
    UNARY("Sinh", FIELD),
    UNARY("Sqrt", FIELD),
    UNARY("Square", WEFT_SET_NUMBERS),
    UNARY("Tan", FIELD),
    UNARY("Tanh", FIELD),
    {0},
};
