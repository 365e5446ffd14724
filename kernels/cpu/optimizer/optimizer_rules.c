/* kernels/cpu/optimizer/optimizer_rules.c - the update rules, a template per dtype, and the rows of all
 * optimizers. half and bfloat16 compute in float. */
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

#define RULE(stem, inputs)                                         \
  static const weft_opt_rule_t stem = {inputs,                     \
                                       {[WEFT_F16] = stem##_f16,   \
                                        [WEFT_BF16] = stem##_bf16, \
                                        [WEFT_F32] = stem##_f32,   \
                                        [WEFT_F64] = stem##_f64}}
RULE(adamax, "vvvsssssg");
RULE(adadelta, "vvvsssg");
RULE(adagrad, "vvsg");
RULE(adagrad_da, "vvvgssst");
RULE(adagrad_v2, "vvssg");
RULE(adam, "vvvssssssg");
RULE(amsgrad, "vvvvssssssg");
RULE(add_sign, "vvssssg");
RULE(centered_rmsprop, "vvvvssssg");
RULE(ftrl, "vvvgssss");
RULE(ftrl_v2, "vvvgsssss");
RULE(gradient_descent, "vsg");
RULE(keras_momentum, "vvsgs");
RULE(momentum, "vvsgs");
RULE(power_sign, "vvssssg");
RULE(proximal_adagrad, "vvsssg");
RULE(proximal_gradient_descent, "vsssg");
RULE(rmsprop, "vvvssssg");

#define OPT(op_, stem, is_ref, is_sparse)                                                \
  {                                                                                      \
    .op = op_, .type_attr = "T", .types = WEFT_SET_FLOATS, .prepare = weft_opt_prepare,  \
    .compute = weft_opt_compute, .destroy = weft_free, .param = &(const weft_opt_op_t) { \
      &stem, is_ref, is_sparse                                                           \
    }                                                                                    \
  }
#define RESOURCE_DENSE(word, stem) OPT("ResourceApply" word, stem, false, false)
#define RESOURCE_SPARSE(word, stem) OPT("ResourceSparseApply" word, stem, false, true)
#define DENSE(word, stem) OPT("Apply" word, stem, true, false), RESOURCE_DENSE(word, stem)
#define SPARSE(word, stem) OPT("SparseApply" word, stem, true, true), RESOURCE_SPARSE(word, stem)

const weft_kernel_t weft_cpu_optimizer_kernels[] = {
    DENSE("AdaMax", adamax),
    DENSE("Adadelta", adadelta),
    SPARSE("Adadelta", adadelta),
    DENSE("Adagrad", adagrad),
    SPARSE("Adagrad", adagrad),
    DENSE("AdagradDA", adagrad_da),
    SPARSE("AdagradDA", adagrad_da),
    DENSE("AdagradV2", adagrad_v2),
    SPARSE("AdagradV2", adagrad_v2),
    DENSE("Adam", adam),
    RESOURCE_DENSE("AdamWithAmsgrad", amsgrad),
    DENSE("AddSign", add_sign),
    DENSE("CenteredRMSProp", centered_rmsprop),
    SPARSE("CenteredRMSProp", centered_rmsprop),
    DENSE("Ftrl", ftrl),
    SPARSE("Ftrl", ftrl),
    DENSE("FtrlV2", ftrl_v2),
    SPARSE("FtrlV2", ftrl_v2),
    DENSE("GradientDescent", gradient_descent),
    RESOURCE_DENSE("KerasMomentum", keras_momentum),
    RESOURCE_SPARSE("KerasMomentum", keras_momentum),
    DENSE("Momentum", momentum),
    SPARSE("Momentum", momentum),
    DENSE("PowerSign", power_sign),
    DENSE("ProximalAdagrad", proximal_adagrad),
    SPARSE("ProximalAdagrad", proximal_adagrad),
    DENSE("ProximalGradientDescent", proximal_gradient_descent),
    SPARSE("ProximalGradientDescent", proximal_gradient_descent),
    DENSE("RMSProp", rmsprop),
    SPARSE("RMSProp", rmsprop),
    {0},
};
