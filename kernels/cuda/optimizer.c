/* kernels/cuda/optimizer.c - rows of optimizer.def, and AssignAdd and AssignSub by reference and by handle.
 */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_OPTIMIZER(name, inputs) WEFT_CUDA_INSTANCES(name##_instances, name, FLOAT)
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

typedef struct cuda_rule {
  const char *inputs; /* as in optimizer.def */
  const weft_cuda_instances_t *instances;
} cuda_rule_t;

#define WEFT_CUDA_OPTIMIZER(name, inputs) static const cuda_rule_t name##_rule = {inputs, &name##_instances};
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

typedef struct cuda_rule_flags {
  int use_nesterov, update_slots, multiply_linear_by_lr;
} cuda_rule_flags_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_rule_flags_t *f = calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: an optimizer");
  f->update_slots = 1;
  weft_cuda_host->attr_bool(s, "use_nesterov", &f->use_nesterov);
  weft_cuda_host->attr_bool(s, "update_slots", &f->update_slots);
  weft_cuda_host->attr_bool(s, "multiply_linear_by_lr", &f->multiply_linear_by_lr);
  *out = f;
  return NULL;
}

static WEFT_Failure *apply(WEFT_KernelContext *c) {
  const cuda_rule_t *rule = weft_cuda_host->param(c);
  const cuda_rule_flags_t *flags = weft_cuda_host->state(c);
  weft_cuda_update_t u = {.use_nesterov = flags->use_nesterov,
                          .update_slots = flags->update_slots,
                          .multiply_linear_by_lr = flags->multiply_linear_by_lr};
  WEFT_TensorView var, v;
  weft_cuda_host->input(c, 0, &var);
  u.n = var.count;
  for (int i = 0; rule->inputs[i] != '\0'; i++) {
    weft_cuda_host->input(c, i, &v);
    if (v.dtype != var.dtype) return WEFT_CUDA_INVALID("input %d has another type than the variable", i);
    if (rule->inputs[i] == 's') {
      if (v.rank != 0) return WEFT_CUDA_INVALID("input %d is not a scalar: %s", i, WEFT_CUDA_SHAPE(&v));
      u.scalars[u.num_scalars++] = v.data;
      continue;
    }
    if (!weft_cuda_same_shape(&var, &v)) {
      return WEFT_CUDA_INVALID("var and %s do not have the same shape%s %s",
                               rule->inputs[i] == 'g' ? "grad" : "accum", WEFT_CUDA_SHAPE(&var),
                               WEFT_CUDA_SHAPE(&v));
    }
    if (rule->inputs[i] == 'g') {
      u.gradient = v.data;
    } else {
      u.vars[u.num_vars++] = v.data;
    }
  }
  void *args[] = {&u};
  return weft_cuda_launch_over(c, weft_cuda_pick(rule->instances, var.dtype), u.n, 1, args);
}

/* ---- AssignAdd, AssignSub: functions of binary.cu that write over their first operand ---- */

WEFT_CUDA_INSTANCES(add_instances, binary_AddV2, REAL)
WEFT_CUDA_INSTANCES(sub_instances, binary_Sub, REAL)

static WEFT_Failure *assign(WEFT_KernelContext *c) {
  WEFT_TensorView var, value;
  weft_cuda_walk_t w;
  weft_cuda_host->input(c, 0, &var);
  weft_cuda_host->input(c, 1, &value);
  if (!weft_cuda_same_shape(&var, &value)) {
    return WEFT_CUDA_INVALID(
        "Cannot update variable with shape %s using a Tensor with shape %s, shapes must "
        "be equal.",
        WEFT_CUDA_SHAPE(&var), WEFT_CUDA_SHAPE(&value));
  }
  weft_cuda_walk_init(&w, 1, &var.count);
  w.steps[0][0] = w.steps[1][0] = 1;
  weft_cuda_walk_collapse(&w, 2);
  void *args[] = {&var.data, &value.data, &var.data, &w};
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), var.dtype), w.n,
                               (int64_t)(16 / weft_cuda_size(var.dtype)), args);
}

#define APPLY(op_, name)                                                                              \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = apply, \
    .destroy = free, .param = &name##_rule, .updates = 1                                              \
  }
#define ASSIGN(op_, attr, instances)                                                                    \
  {                                                                                                     \
    .op = op_, .type_attr = attr, .types = WEFT_CUDA_SET(REAL), .compute = assign, .param = &instances, \
    .updates = 1                                                                                        \
  }
const WEFT_DeviceKernel weft_cuda_optimizer_kernels[] = {
#define WEFT_CUDA_OPTIMIZER(name, inputs) APPLY("Apply" #name, name), APPLY("ResourceApply" #name, name),
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) APPLY("ResourceApply" #name, name),
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER
    ASSIGN("AssignAdd", "T", add_instances),
    ASSIGN("AssignAddVariableOp", "dtype", add_instances),
    ASSIGN("AssignSub", "T", sub_instances),
    ASSIGN("AssignSubVariableOp", "dtype", sub_instances),
    {0},
};
