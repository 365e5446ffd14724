/* Optimizers and AssignAdd, against the CPU's kernels: variables by reference and by handle. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Inputs by the layout of optimizer.def. All numbers are above 0, as the second moments of all rules are;
 * scalars below 1. */
static void add_scalar(weft_row_case_t *c, int sign) {
  const weft_shape_t scalar = WEFT_SCALAR;
  weft_tensor_t *t = weft_row_add(c, c->dtype, &scalar, WEFT_ROW_POSITIVE);
  const double v = sign * (double)weft_row_int(c, 2, 14) / 16;
  if (c->dtype == WEFT_F32) *(float *)t->data = (float)v;
  if (c->dtype == WEFT_F64) *(double *)t->data = v;
  if (c->dtype == WEFT_F16) *(uint16_t *)t->data = weft_f32_to_f16((float)v);
  if (c->dtype == WEFT_BF16) *(uint16_t *)t->data = weft_f32_to_bf16((float)v);
}

static void arguments(weft_row_case_t *c, const char *layout) {
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  for (const char *p = layout; *p != '\0'; p++) {
    if (*p == 'v') weft_row_add_variable(c, &s, WEFT_ROW_POSITIVE);
    if (*p == 'g') weft_row_add(c, c->dtype, &s, WEFT_ROW_NONZERO);
    if (*p == 's') add_scalar(c, 1);
  }
}

/* Most rows are named several times. Ftrl's last scalar must not be positive. */
static void sparse_arguments(weft_row_case_t *c, const char *layout) {
  weft_shape_t s = weft_row_shape(c, 1, 3);
  for (int d = 0; d < s.rank; d++) s.dims[d] += s.dims[d] == 0;
  weft_shape_t g = s;
  int64_t indices[12];
  const bool is_half = c->dtype == WEFT_F16 || c->dtype == WEFT_BF16; /* rounding adds up from step to step */
  const int n = (int)weft_row_int(c, c->round == 2 ? 0 : 1, is_half ? 3 : 12);
  for (int i = 0; i < n; i++) indices[i] = weft_row_int(c, 0, s.dims[0] - 1);
  g.dims[0] = n + (c->round == 7);
  for (const char *p = layout; *p != '\0'; p++) {
    if (*p == 'v') weft_row_add_variable(c, &s, WEFT_ROW_POSITIVE);
    if (*p == 's') add_scalar(c, layout[3] == 'g' && p[1] == '\0' ? -1 : 1);
    if (*p != 'g') continue;
    weft_row_add(c, c->dtype, &g, WEFT_ROW_NONZERO);
    weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, n, indices);
  }
}

#define WEFT_CUDA_OPTIMIZER(name, inputs)                               \
  static void make_##name(weft_row_case_t *c) { arguments(c, inputs); } \
  __attribute__((unused)) static void make_sparse_##name(weft_row_case_t *c) { sparse_arguments(c, inputs); }
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name)
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

/* The flags that some rules have. */
static void nesterov(weft_row_case_t *c, const char *layout) {
  arguments(c, layout);
  weft_row_attr(c, "use_nesterov=true");
}
static void momentum(weft_row_case_t *c) { nesterov(c, "vvsgs"); }
static void adam(weft_row_case_t *c) { nesterov(c, "vvvssssssg"); }
static void adagrad(weft_row_case_t *c) {
  arguments(c, "vvsg");
  weft_row_attr(c, "update_slots=false");
}
static void ftrl(weft_row_case_t *c) {
  arguments(c, "vvvgssss");
  weft_row_attr(c, "multiply_linear_by_lr=true");
}

static void assign(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add_variable(c, &s, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static const weft_row_op_t ops[] = {
#define WEFT_CUDA_OPTIMIZER(name, inputs)                              \
  {"Apply" #name, WEFT_CUDA_SET(FLOAT), make_##name, .tolerance = 20}, \
      {"ResourceApply" #name, WEFT_CUDA_SET(FLOAT), make_##name, .tolerance = 20},
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) \
  {"ResourceApply" #name, WEFT_CUDA_SET(FLOAT), make_##name, .tolerance = 20},
#define WEFT_CUDA_SPARSE_OPTIMIZER(name)                                            \
  {"SparseApply" #name, WEFT_CUDA_SET(FLOAT), make_sparse_##name, .tolerance = 40}, \
      {"ResourceSparseApply" #name, WEFT_CUDA_SET(FLOAT), make_sparse_##name, .tolerance = 40},
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name) \
  {"ResourceSparseApply" #name, WEFT_CUDA_SET(FLOAT), make_sparse_##name, .tolerance = 40},
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER
    {"ApplyMomentum", WEFT_CUDA_SET(FLOAT), momentum, .tolerance = 20},
    {"ApplyAdam", WEFT_CUDA_SET(FLOAT), adam, .tolerance = 20},
    {"ApplyAdagrad", WEFT_CUDA_SET(FLOAT), adagrad, .tolerance = 20},
    {"ApplyFtrl", WEFT_CUDA_SET(FLOAT), ftrl, .tolerance = 20},
    {"AssignAdd", WEFT_CUDA_SET(REAL), assign},
    {"AssignAddVariableOp", WEFT_CUDA_SET(REAL), assign},
    {"AssignSub", WEFT_CUDA_SET(REAL), assign},
    {"AssignSubVariableOp", WEFT_CUDA_SET(REAL), assign},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_optimizer_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_optimizer_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("optimizer", tests);
}
