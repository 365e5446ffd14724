/* kernels/cuda/optimizer.c - rows of optimizer.def, dense and sparse, and AssignAdd and AssignSub by
 * reference and by handle.
 *
 * A dense step is an entry of a table that a launch takes as its argument; updates of several variables are
 * several entries of it.
 */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_OPTIMIZER(name, inputs) WEFT_CUDA_INSTANCES(name##_instances, name, FLOAT)
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name) WEFT_CUDA_INSTANCES(sparse_##name##_instances, sparse_##name, FLOAT)
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name) WEFT_CUDA_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

typedef struct cuda_rule {
  const char *inputs; /* as in optimizer.def */
  const weft_cuda_instances_t *instances;
} cuda_rule_t;

typedef struct cuda_sparse_rule {
  const cuda_rule_t *rule;
  const weft_cuda_instances_t *instances;
} cuda_sparse_rule_t;

#define WEFT_CUDA_OPTIMIZER(name, inputs) static const cuda_rule_t name##_rule = {inputs, &name##_instances};
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name) \
  static const cuda_sparse_rule_t sparse_##name##_rule = {&name##_rule, &sparse_##name##_instances};
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name) WEFT_CUDA_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  int use_nesterov = 0, update_slots = 1, multiply_linear_by_lr = 0;
  weft_cuda_rule_flags_t *f = calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: an optimizer");
  weft_cuda_host->attr_bool(s, "use_nesterov", &use_nesterov);
  weft_cuda_host->attr_bool(s, "update_slots", &update_slots);
  weft_cuda_host->attr_bool(s, "multiply_linear_by_lr", &multiply_linear_by_lr);
  *f = (weft_cuda_rule_flags_t){use_nesterov, update_slots, multiply_linear_by_lr};
  *out = f;
  return NULL;
}

/* What a node has, dense or sparse. */
typedef struct cuda_rule_operands {
  WEFT_TensorView var, gradient, indices; /* indices: of a sparse one */
  void *vars[WEFT_CUDA_VARS];
  weft_cuda_scalars_t scalars;
  int32_t num_vars, num_scalars;
} cuda_rule_operands_t;

static WEFT_Failure *read_operands(WEFT_KernelContext *c, const cuda_rule_t *rule, bool is_sparse,
                                   cuda_rule_operands_t *o) {
  WEFT_TensorView v;
  int at = 0; /* the input */
  *o = (cuda_rule_operands_t){.num_vars = 0};
  weft_cuda_host->input(c, 0, &o->var);
  for (int i = 0; rule->inputs[i] != '\0'; i++) {
    const char kind = rule->inputs[i];
    weft_cuda_host->input(c, at++, &v);
    if (v.dtype != o->var.dtype) return WEFT_CUDA_INVALID("input %d has another type than the variable", i);
    if (kind == 's') {
      if (v.rank != 0) return WEFT_CUDA_INVALID("input %d is not a scalar: %s", i, WEFT_CUDA_SHAPE(&v));
      o->scalars.at[o->num_scalars++] = v.data;
    } else if (is_sparse && kind == 'g') {
      o->gradient = v;
      weft_cuda_host->input(c, at++, &o->indices);
    } else if (!weft_cuda_same_shape(&o->var, &v)) {
      return WEFT_CUDA_INVALID("var and %s do not have the same shape%s %s", kind == 'g' ? "grad" : "accum",
                               WEFT_CUDA_SHAPE(&o->var), WEFT_CUDA_SHAPE(&v));
    } else if (kind == 'g') {
      o->gradient = v;
    } else {
      o->vars[o->num_vars++] = v.data;
    }
  }
  return NULL;
}

/* ---- dense gradients ---- */

/* The number of the update's scalars among the table's sets, appended if it is new; -1: there are too many.
 */
static int set_of(weft_cuda_updates_t *t, const cuda_rule_operands_t *o) {
  const size_t bytes = (size_t)o->num_scalars * sizeof o->scalars.at[0];
  for (int i = 0; i < t->num_sets; i++) {
    if (memcmp(t->scalars[i].at, o->scalars.at, bytes) == 0) return i;
  }
  if (t->num_sets == WEFT_CUDA_SCALAR_SETS) return -1;
  t->scalars[t->num_sets] = o->scalars;
  return t->num_sets++;
}

static WEFT_Failure *launch_updates(WEFT_KernelContext *c, weft_cuda_function_t *f, weft_cuda_updates_t *t) {
  void *args[] = {t};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, f, (int64_t)t->num_pieces * WEFT_CUDA_BLOCK, 1, args));
  t->num = t->num_sets = t->num_pieces = 0;
  return NULL;
}

/* Adds n updates of one type; what does not fit into one launch goes into the next. */
static WEFT_Failure *update_all(WEFT_KernelContext *const *c, const weft_cuda_instances_t *instances,
                                const weft_cuda_rule_flags_t *flags, const cuda_rule_operands_t *o, int n) {
  weft_cuda_updates_t t = {.num_vars = o[0].num_vars, .num_scalars = o[0].num_scalars, .flags = *flags};
  weft_cuda_function_t *f = weft_cuda_pick(instances, o[0].var.dtype);
  int first = 0; /* of the table */
  for (int i = 0; i < n; i++) {
    if (o[i].var.count == 0) continue;
    int set = t.num < WEFT_CUDA_UPDATES ? set_of(&t, &o[i]) : -1;
    if (set < 0) {
      WEFT_CUDA_TRY(launch_updates(c[first], f, &t));
      set = set_of(&t, &o[i]);
    }
    if (t.num == 0) first = i;
    weft_cuda_update_t *u = &t.updates[t.num++];
    *u = (weft_cuda_update_t){
        .gradient = o[i].gradient.data, .n = o[i].var.count, .first_piece = t.num_pieces, .scalars = set};
    memcpy(u->vars, o[i].vars, sizeof u->vars);
    t.num_pieces += (int32_t)((u->n + WEFT_CUDA_PIECE - 1) / WEFT_CUDA_PIECE);
  }
  return launch_updates(c[first], f, &t);
}

static WEFT_Failure *apply(WEFT_KernelContext *c) {
  const cuda_rule_t *rule = weft_cuda_host->param(c);
  cuda_rule_operands_t o;
  WEFT_CUDA_TRY(read_operands(c, rule, false, &o));
  return update_all(&c, rule->instances, weft_cuda_host->state(c), &o, 1);
}

static WEFT_Failure *apply_together(WEFT_KernelContext *const *c, int n, int *out_failed) {
  const cuda_rule_t *rule = weft_cuda_host->param(c[0]);
  WEFT_Failure *f = NULL;
  cuda_rule_operands_t *o = calloc((size_t)n, sizeof *o);
  if (o == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: %d updates", n);
  for (int i = 0; i < n && f == NULL; i++) {
    *out_failed = i;
    f = read_operands(c[i], rule, false, &o[i]);
  }
  if (f == NULL) f = update_all(c, rule->instances, weft_cuda_host->state(c[0]), o, n);
  free(o);
  return f;
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
                               const WEFT_TensorView *indices, weft_cuda_sparse_update_t *u) {
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

static WEFT_Failure *apply_sparse(WEFT_KernelContext *c) {
  const cuda_sparse_rule_t *rule = weft_cuda_host->param(c);
  const weft_cuda_rule_flags_t *flags = weft_cuda_host->state(c);
  cuda_rule_operands_t o;
  WEFT_CUDA_TRY(read_operands(c, rule->rule, true, &o));
  WEFT_CUDA_TRY(check_sparse(&o.var, &o.gradient, &o.indices));
  weft_cuda_sparse_update_t u = {.scalars = o.scalars,
                                 .gradient = o.gradient.data,
                                 .num_vars = o.num_vars,
                                 .num_scalars = o.num_scalars,
                                 .flags = *flags};
  memcpy(u.vars, o.vars, sizeof u.vars);
  WEFT_CUDA_TRY(link_rows(c, &o.var, &o.indices, &u));
  void *args[] = {&u};
  return weft_cuda_launch_over(c, weft_cuda_pick(rule->instances, o.var.dtype), u.n, 1, args);
}

/* ---- AssignAdd, AssignSub: functions of binary.cu that write over their first operand; of several variables
 * at once, of floating-point numbers, rules of an optimizer ---- */

WEFT_CUDA_INSTANCES(add_instances, binary_AddV2, REAL)
WEFT_CUDA_INSTANCES(sub_instances, binary_Sub, REAL)
WEFT_CUDA_INSTANCES(add_all_instances, AssignAdd, FLOAT)
WEFT_CUDA_INSTANCES(sub_all_instances, AssignSub, FLOAT)

typedef struct cuda_assign {
  const weft_cuda_instances_t *one, *all;
} cuda_assign_t;
static const cuda_assign_t assign_add = {&add_instances, &add_all_instances},
                           assign_sub = {&sub_instances, &sub_all_instances};

static WEFT_Failure *read_value(WEFT_KernelContext *c, WEFT_TensorView *var, WEFT_TensorView *value) {
  weft_cuda_host->input(c, 0, var);
  weft_cuda_host->input(c, 1, value);
  if (weft_cuda_same_shape(var, value)) return NULL;
  return WEFT_CUDA_INVALID(
      "Cannot update variable with shape %s using a Tensor with shape %s, shapes must "
      "be equal.",
      WEFT_CUDA_SHAPE(var), WEFT_CUDA_SHAPE(value));
}

static WEFT_Failure *assign(WEFT_KernelContext *c) {
  const cuda_assign_t *a = weft_cuda_host->param(c);
  WEFT_TensorView var, value;
  weft_cuda_walk_t w;
  WEFT_CUDA_TRY(read_value(c, &var, &value));
  weft_cuda_walk_init(&w, 1, &var.count);
  w.steps[0][0] = w.steps[1][0] = 1;
  weft_cuda_walk_collapse(&w, 2);
  void *args[] = {&var.data, &value.data, &var.data, &w};
  return weft_cuda_launch_over(c, weft_cuda_pick(a->one, var.dtype), w.n,
                               (int64_t)(16 / weft_cuda_size(var.dtype)), args);
}

static WEFT_Failure *assign_all(WEFT_KernelContext *const *c, cuda_rule_operands_t *o, int n,
                                int *out_failed) {
  const cuda_assign_t *a = weft_cuda_host->param(c[0]);
  const weft_cuda_rule_flags_t flags = {0};
  for (int i = 0; i < n; i++) {
    *out_failed = i;
    o[i].num_vars = 1;
    WEFT_CUDA_TRY(read_value(c[i], &o[i].var, &o[i].gradient));
    o[i].vars[0] = o[i].var.data;
  }
  if (weft_cuda_pick(a->all, o[0].var.dtype) != NULL) return update_all(c, a->all, &flags, o, n);
  for (int i = 0; i < n; i++) {
    *out_failed = i;
    WEFT_CUDA_TRY(assign(c[i]));
  }
  return NULL;
}

static WEFT_Failure *assign_together(WEFT_KernelContext *const *c, int n, int *out_failed) {
  cuda_rule_operands_t *o = calloc((size_t)n, sizeof *o);
  if (o == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: %d updates", n);
  WEFT_Failure *f = assign_all(c, o, n, out_failed);
  free(o);
  return f;
}

#define SPARSE(op_, name)                                                                                    \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = apply_sparse, \
    .destroy = free, .param = &sparse_##name##_rule, .updates = 1                                            \
  }
#define APPLY(op_, name)                                                                              \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = apply, \
    .destroy = free, .param = &name##_rule, .updates = 1, .compute_together = apply_together          \
  }
#define ASSIGN(op_, attr, rule)                                                                    \
  {                                                                                                \
    .op = op_, .type_attr = attr, .types = WEFT_CUDA_SET(REAL), .compute = assign, .param = &rule, \
    .updates = 1, .compute_together = assign_together                                              \
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
    ASSIGN("AssignAdd", "T", assign_add),
    ASSIGN("AssignAddVariableOp", "dtype", assign_add),
    ASSIGN("AssignSub", "T", assign_sub),
    ASSIGN("AssignSubVariableOp", "dtype", assign_sub),
    {0},
};
