/* kernels/cpu/optimizer/optimizer_rules.c - the update rules, a template per dtype, and the rows of all
 * optimizers. half and bfloat16 compute in float. */
#include <complex.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/optimizer/optimizer.h"

#define SAME(x) (x)

#define OPT_STEM f32
#define OPT_T float
#define OPT_C float
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define OPT_STEM f64
#define OPT_T double
#define OPT_C double
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT sqrt
#define OPT_POW pow
#define OPT_EXP exp
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define OPT_STEM f16
#define OPT_T uint16_t
#define OPT_C float
#define OPT_GET weft_f16_to_f32
#define OPT_PUT weft_f32_to_f16
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define OPT_STEM bf16
#define OPT_T uint16_t
#define OPT_C float
#define OPT_GET weft_bf16_to_f32
#define OPT_PUT weft_f32_to_bf16
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define OPT_STEM c64
#define OPT_T float complex
#define OPT_C float complex
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT csqrtf
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define OPT_STEM c128
#define OPT_T double complex
#define OPT_C double complex
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT csqrt
#include "kernels/cpu/optimizer/optimizer_rules.tmpl.h"

#define REAL(stem) \
  [WEFT_F16] = stem##_f16, [WEFT_BF16] = stem##_bf16, [WEFT_F32] = stem##_f32, [WEFT_F64] = stem##_f64
#define ORDERED_RULE(name, stem, inputs) static const weft_opt_rule_t name = {inputs, {REAL(stem)}, false}
#define RULE(stem, inputs, allows_empty_rows) \
  static const weft_opt_rule_t stem = {       \
      inputs, {REAL(stem), [WEFT_C64] = stem##_c64, [WEFT_C128] = stem##_c128}, allows_empty_rows}
ORDERED_RULE(adamax, adamax, "vvvsssssg");
RULE(adadelta, "vvvsssg", true);
RULE(adagrad, "vvsg", false);
ORDERED_RULE(adagrad_da, adagrad_da, "vvvgssst");
RULE(adagrad_v2, "vvssg", false);
RULE(adam, "vvvssssssg", false);
ORDERED_RULE(amsgrad, amsgrad, "vvvvssssssg");
ORDERED_RULE(add_sign, add_sign, "vvssssg");
RULE(centered_rmsprop, "vvvvssssg", true);
ORDERED_RULE(ftrl, ftrl, "vvvgssss");
ORDERED_RULE(sparse_ftrl, ftrl, "vvvg+00<");
ORDERED_RULE(ftrl_v2, ftrl_v2, "vvvgsssss");
ORDERED_RULE(sparse_ftrl_v2, ftrl_v2, "vvvg+000<");
RULE(gradient_descent, "vsg", false);
RULE(keras_momentum, "vvsgs", true);
RULE(momentum, "vvsgs", true);
ORDERED_RULE(power_sign, power_sign, "vvssssg");
ORDERED_RULE(proximal_adagrad, proximal_adagrad, "vv>00g");
ORDERED_RULE(proximal_gradient_descent, proximal_gradient_descent, "vsssg");
RULE(rmsprop, "vvvssssg", true);

#define OPT(op_, stem, types_, is_ref, is_sparse)                                                           \
  {                                                                                                         \
    .op = op_, .type_attr = "T", .types = types_, .prepare = weft_opt_prepare, .compute = weft_opt_compute, \
    .destroy = weft_free, .param = &(const weft_opt_op_t){&stem, is_ref, is_sparse}, .joins = !(is_sparse)  \
  }
#define RESOURCE_DENSE(word, stem, types) OPT("ResourceApply" word, stem, types, false, false)
#define RESOURCE_SPARSE(word, stem, types) OPT("ResourceSparseApply" word, stem, types, false, true)
#define DENSE(word, stem, types) \
  OPT("Apply" word, stem, types, true, false), RESOURCE_DENSE(word, stem, types)
#define SPARSE(word, stem, types) \
  OPT("SparseApply" word, stem, types, true, true), RESOURCE_SPARSE(word, stem, types)
#define ORDERED WEFT_SET_FLOATS
#define ANY WEFT_SET_FIELD

const weft_kernel_t weft_cpu_optimizer_kernels[] = {
    DENSE("AdaMax", adamax, ORDERED),
    DENSE("Adadelta", adadelta, ANY),
    SPARSE("Adadelta", adadelta, ANY),
    DENSE("Adagrad", adagrad, ANY),
    SPARSE("Adagrad", adagrad, ANY),
    DENSE("AdagradDA", adagrad_da, ORDERED),
    SPARSE("AdagradDA", adagrad_da, ORDERED),
    DENSE("AdagradV2", adagrad_v2, ANY),
    SPARSE("AdagradV2", adagrad_v2, ANY),
    DENSE("Adam", adam, ANY),
    RESOURCE_DENSE("AdamWithAmsgrad", amsgrad, ORDERED),
    DENSE("AddSign", add_sign, ORDERED),
    DENSE("CenteredRMSProp", centered_rmsprop, ANY),
    SPARSE("CenteredRMSProp", centered_rmsprop, ANY),
    DENSE("Ftrl", ftrl, ORDERED),
    SPARSE("Ftrl", sparse_ftrl, ORDERED),
    DENSE("FtrlV2", ftrl_v2, ORDERED),
    SPARSE("FtrlV2", sparse_ftrl_v2, ORDERED),
    DENSE("GradientDescent", gradient_descent, ANY),
    RESOURCE_DENSE("KerasMomentum", keras_momentum, ANY),
    RESOURCE_SPARSE("KerasMomentum", keras_momentum, ANY),
    DENSE("Momentum", momentum, ANY),
    SPARSE("Momentum", momentum, ANY),
    DENSE("PowerSign", power_sign, ORDERED),
    DENSE("ProximalAdagrad", proximal_adagrad, ORDERED),
    SPARSE("ProximalAdagrad", proximal_adagrad, ORDERED),
    DENSE("ProximalGradientDescent", proximal_gradient_descent, ORDERED),
    SPARSE("ProximalGradientDescent", proximal_gradient_descent, ORDERED),
    DENSE("RMSProp", rmsprop, ANY),
    SPARSE("RMSProp", rmsprop, ANY),
    {0},
};
