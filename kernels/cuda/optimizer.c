/* kernels/cuda/optimizer.c - rows of optimizer.def, dense and sparse, and AssignAdd and AssignSub by
 * reference and by handle.
 */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_OPTIMIZER(name, inputs) WEFT_CUDA_INSTANCES(name##_instances, name, FLOAT)
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name)
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

typedef struct cuda_rule {
  const char *inputs; /* as in optimizer.def */
  const weft_cuda_instances_t *instances;
} cuda_rule_t;

#define WEFT_CUDA_OPTIMIZER(name, inputs) static const cuda_rule_t name##_rule = {inputs, &name##_instances};
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name)
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
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

/* ---- sparse gradients ---- */

static weft_cuda_function_t rows_function = WEFT_CUDA_FUNCTION("weft_sparse_rows"),
                            next_function = WEFT_CUDA_FUNCTION("weft_sparse_next");

static WEFT_Failure *check_sparse(const WEFT_TensorView *var, const WEFT_TensorView *g,
                                  const WEFT_TensorView *indices) {
  if (var->rank < 1) return WEFT_CUDA_INVALID("var must be at least 1 dimensional");
  if (indices->rank != 1) return WEFT_CUDA_INVALID("indices must be one-dimensional");
  if (g->rank != var->rank) {
    return WEFT_CUDA_INVALID("var and grad must have the same number of dimensions: %s and %s",
                             WEFT_CUDA_SHAPE(var), WEFT_CUDA_SHAPE(g));
  }
  for (int d = 1; d < var->rank; d++) {
    if (var->dims[d] != g->dims[d]) return WEFT_CUDA_INVALID("var and grad must match in dimension %d", d);
  }
  if (g->dims[0] != indices->count)
    return WEFT_CUDA_INVALID("grad must be the same size as indices in the first dimension.");
  if (indices->count > INT32_MAX)
    return WEFT_CUDA_INVALID("a sparse gradient of %lld rows", (long long)indices->count);
  return NULL;
}

/* Links the gradient's rows that are for the same row of the variable. */
static WEFT_Failure *link_rows(WEFT_KernelContext *c, const WEFT_TensorView *var,
                               const WEFT_TensorView *indices, weft_cuda_update_t *u) {
  int64_t num = indices->count, num_rows = var->dims[0];
  const size_t row_bytes = (size_t)num_rows * sizeof(int32_t);
  void *first = NULL;
  u->indices = indices->data;
  u->index_bytes = (int32_t)weft_cuda_size(indices->dtype);
  u->num_rows = num_rows;
  u->row = weft_cuda_product(var->dims, 1, var->rank);
  u->n = num * u->row;
  if (u->n == 0 || num_rows == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, 2 * row_bytes + (size_t)num * sizeof(int32_t), &first));
  int32_t *last = (int32_t *)first + num_rows, *next = last + num_rows;
  WEFT_CUDA_TRY(weft_cuda_fill(c, first, 0x7f, row_bytes));
  WEFT_CUDA_TRY(weft_cuda_fill(c, last, 0xff, row_bytes));
  void *rows_args[] = {(void *)(uintptr_t)&indices->data, &u->index_bytes, &num, &num_rows, &first, &last};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &rows_function, num, 1, rows_args));
  void *next_args[] = {(void *)(uintptr_t)&indices->data, &u->index_bytes, &num, &num_rows, &last, &next};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &next_function, num, 1, next_args));
  u->first = first;
  u->next = next;
  return NULL;
}

/* ---- the rules ---- */

static WEFT_Failure *run_rule(WEFT_KernelContext *c, bool is_sparse) {
  const cuda_rule_t *rule = weft_cuda_host->param(c);
  const cuda_rule_flags_t *flags = weft_cuda_host->state(c);
  weft_cuda_update_t u = {.use_nesterov = flags->use_nesterov,
                          .update_slots = flags->update_slots,
                          .multiply_linear_by_lr = flags->multiply_linear_by_lr};
  WEFT_TensorView var, v, indices;
  int at = 0; /* the input */
  weft_cuda_host->input(c, 0, &var);
  u.n = var.count;
  for (int i = 0; rule->inputs[i] != '\0'; i++) {
    weft_cuda_host->input(c, at++, &v);
    if (v.dtype != var.dtype) return WEFT_CUDA_INVALID("input %d has another type than the variable", i);
    if (rule->inputs[i] == 's') {
      if (v.rank != 0) return WEFT_CUDA_INVALID("input %d is not a scalar: %s", i, WEFT_CUDA_SHAPE(&v));
      u.scalars[u.num_scalars++] = v.data;
      continue;
    }
    if (is_sparse && rule->inputs[i] == 'g') {
      weft_cuda_host->input(c, at++, &indices);
      WEFT_CUDA_TRY(check_sparse(&var, &v, &indices));
      u.gradient = v.data;
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
  if (is_sparse) WEFT_CUDA_TRY(link_rows(c, &var, &indices, &u));
  void *args[] = {&u};
  return weft_cuda_launch_over(c, weft_cuda_pick(rule->instances, var.dtype), u.n, 1, args);
}

static WEFT_Failure *apply(WEFT_KernelContext *c) { return run_rule(c, false); }
static WEFT_Failure *apply_sparse(WEFT_KernelContext *c) { return run_rule(c, true); }

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

#define SPARSE(op_, name)                                                                                    \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = apply_sparse, \
    .destroy = free, .param = &name##_rule, .updates = 1                                                     \
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
#define WEFT_CUDA_SPARSE_OPTIMIZER(name) \
  SPARSE("SparseApply" #name, name), SPARSE("ResourceSparseApply" #name, name),
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name) SPARSE("ResourceSparseApply" #name, name),
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER
    ASSIGN("AssignAdd", "T", add_instances),
    ASSIGN("AssignAddVariableOp", "dtype", add_instances),
    ASSIGN("AssignSub", "T", sub_instances),
    ASSIGN("AssignSubVariableOp", "dtype", sub_instances),
    {0},
};
