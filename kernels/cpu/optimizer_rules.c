/* kernels/cpu/optimizer_rules.c - the table of update rules: a template per dtype. half and bfloat16 compute in float. */
#include <math.h>

#include "kernels/cpu/optimizer.h"

#define SAME(x) (x)

#define OPT_STEM f32
#define OPT_T float
#define OPT_C float
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer_rules.tmpl.h"

#define OPT_STEM f64
#define OPT_T double
#define OPT_C double
#define OPT_GET SAME
#define OPT_PUT SAME
#define OPT_SQRT sqrt
#define OPT_POW pow
#define OPT_EXP exp
#include "kernels/cpu/optimizer_rules.tmpl.h"

#define OPT_STEM f16
#define OPT_T uint16_t
#define OPT_C float
#define OPT_GET weft_f16_to_f32
#define OPT_PUT weft_f32_to_f16
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer_rules.tmpl.h"

#define OPT_STEM bf16
#define OPT_T uint16_t
#define OPT_C float
#define OPT_GET weft_bf16_to_f32
#define OPT_PUT weft_f32_to_bf16
#define OPT_SQRT sqrtf
#define OPT_POW powf
#define OPT_EXP expf
#include "kernels/cpu/optimizer_rules.tmpl.h"

#define RULE(name, inputs, stem) {name, inputs, stem##_f16, stem##_bf16, stem##_f32, stem##_f64}

static const weft_opt_rule_t rules[] = {
    RULE("AdaMax", "vvvsssssg", adamax),
    RULE("Adadelta", "vvvsssg", adadelta),
    RULE("Adagrad", "vvsg", adagrad),
    RULE("AdagradDA", "vvvgssst", adagrad_da),
    RULE("AdagradV2", "vvssg", adagrad_v2),
    RULE("Adam", "vvvssssssg", adam),
    RULE("AdamWithAmsgrad", "vvvvssssssg", amsgrad),
    RULE("AddSign", "vvssssg", add_sign),
    RULE("CenteredRMSProp", "vvvvssssg", centered_rmsprop),
    RULE("Ftrl", "vvvgssss", ftrl),
    RULE("FtrlV2", "vvvgsssss", ftrl_v2),
    RULE("GradientDescent", "vsg", gradient_descent),
    RULE("KerasMomentum", "vvsgs", keras_momentum),
    RULE("Momentum", "vvsgs", momentum),
    RULE("PowerSign", "vvssssg", power_sign),
    RULE("ProximalAdagrad", "vvsssg", proximal_adagrad),
    RULE("ProximalGradientDescent", "vsssg", proximal_gradient_descent),
    RULE("RMSProp", "vvvssssg", rmsprop),
};

const weft_opt_rule_t *weft_opt_rule_find(weft_str_t name) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (weft_str_is(name, rules[i].name)) return &rules[i];
  }
  return NULL;
}
