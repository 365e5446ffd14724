/* kernels/cpu/optimizer/optimizer.c - the kernels of all optimizers: checks, locks, and a rule for the
 * elements.
 *
 * A row's param names the rule, whose layout says which input is what. A sparse op
 * applies the rule to one row after the other, so a row that is named twice moves
 * twice. The rows are in optimizer_rules.c, behind the rules.
 *
 * Locking: all variables of the op, in address order, whatever use_locking says:
 * an update that is not seen half done costs nothing extra.
 */
#include "kernels/cpu/optimizer/optimizer.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "kernels/state.h"

typedef struct opt_state {
  const weft_opt_rule_t *rule;
  weft_opt_rule_fn *fn;
  weft_opt_flags_t flags;
  weft_dtype_t dtype;
  bool is_sparse, is_ref;
  int num_vars, num_scalars;
  int scalars[WEFT_OPT_MAX_SCALARS]; /* inputs */
  int grad, indices, step;           /* inputs; -1: none */
} opt_state_t;

/* ---- prepare ---- */

static void lay_out(opt_state_t *st) {
  int input = 0;
  st->grad = st->indices = st->step = -1;
  for (const char *p = st->rule->inputs; *p != '\0'; p++, input++) {
    if (*p == 'v') st->num_vars++;
    if (strchr("s+>0<", *p) != NULL) st->scalars[st->num_scalars++] = input;
    if (*p == 't') st->step = input;
    if (*p == 'g') {
      st->grad = input;
      if (st->is_sparse) st->indices = ++input;
    }
  }
}

weft_status_t *weft_opt_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_opt_op_t *op = setup->node.param;
  opt_state_t st = {.dtype = (weft_dtype_t)weft_knode_type(setup, "T"),
                    .rule = op->rule,
                    .is_ref = op->is_ref,
                    .is_sparse = op->is_sparse};
  st.fn = st.rule->fns[st.dtype];
  if (st.fn == NULL) {
    return WEFT_ERROR(UNIMPLEMENTED, "no kernel for %.*s of type %s", WEFT_STR_ARGS(setup->node.op_name),
                      weft_dtype_name(st.dtype));
  }
  st.flags.use_nesterov = weft_knode_bool_or(setup, "use_nesterov", false);
  st.flags.update_slots = weft_knode_bool_or(setup, "update_slots", true);
  st.flags.multiply_linear_by_lr = weft_knode_bool_or(setup, "multiply_linear_by_lr", false);
  lay_out(&st);
  opt_state_t *mine = weft_malloc(sizeof *mine);
  if (mine == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *mine = st;
  *out_state = mine;
  return NULL;
}

/* ---- inputs ---- */

/* What the op calls its input i; every input of an optimizer is one tensor. */
static weft_str_t input_name(const weft_kernel_ctx_t *c, int i) {
  return c->node->op != NULL && i < c->node->op->num_inputs ? c->node->op->inputs[i].name : WEFT_STR("input");
}

static double complex number(const weft_tensor_t *t) {
  switch (t->dtype) {
    case WEFT_F32: return *(const float *)t->data;
    case WEFT_F64: return *(const double *)t->data;
    case WEFT_F16: return weft_f16_to_f32(*(const uint16_t *)t->data);
    case WEFT_BF16: return weft_bf16_to_f32(*(const uint16_t *)t->data);
    case WEFT_C64: return *(const float complex *)t->data;
    case WEFT_C128: return *(const double complex *)t->data;
    default: return 0;
  }
}

static weft_status_t *check_scalar(const weft_kernel_ctx_t *c, int i, weft_dtype_t dtype) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank == 0 && t->dtype == dtype) return NULL;
  weft_str_t name = input_name(c, i);
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s is not a scalar%s: %s", WEFT_STR_ARGS(name),
                    weft_str_is(name, "lr") ? " " : "", WEFT_SHAPE_TEXT(&t->shape));
}

/* What the rule asks of its scalar x, which input i is. */
static weft_status_t *check_sign(const weft_kernel_ctx_t *c, const opt_state_t *st, int i, double x) {
  weft_str_t name = input_name(c, i);
  const char *what = NULL, *zero = "";
  switch (st->rule->inputs[st->indices >= 0 && i > st->indices ? i - 1 : i]) {
    case '>': what = x > 0 ? NULL : "positive"; break;
    case '0': what = x >= 0 ? NULL : "non-negative"; break;
    case '<': what = x <= 0 ? NULL : "non-positive"; break;
    case '+':
      what = x > 0 || (x == 0 && st->flags.multiply_linear_by_lr) ? NULL : "positive";
      zero = " (or zero if multiply_linear_by_lr is set)";
      break;
    default: break;
  }
  if (what == NULL) return NULL;
  const bool is_strength = weft_str_is(name, "l1") || weft_str_is(name, "l2");
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s%s is not a %s scalar%s: []", WEFT_STR_ARGS(name),
                    is_strength ? " regularization strength" : "", what, zero);
}

static weft_status_t *read_scalars(const weft_kernel_ctx_t *c, const opt_state_t *st, weft_opt_args_t *args) {
  for (int i = 0; i < st->num_scalars; i++) {
    WEFT_RETURN_IF_ERROR(check_scalar(c, st->scalars[i], st->dtype));
    args->scalar[i] = number(weft_in(c, st->scalars[i]));
    WEFT_RETURN_IF_ERROR(check_sign(c, st, st->scalars[i], creal(args->scalar[i])));
  }
  if (st->step >= 0) {
    WEFT_RETURN_IF_ERROR(check_scalar(c, st->step, WEFT_I64));
    args->global_step = *(const int64_t *)weft_in(c, st->step)->data;
  }
  return NULL;
}

static weft_status_t *different_shapes(const weft_kernel_ctx_t *c, int i, const weft_tensor_t *var,
                                       const weft_tensor_t *other) {
  return WEFT_ERROR(INVALID_ARGUMENT, "var and %.*s do not have the same shape%s %s",
                    WEFT_STR_ARGS(input_name(c, i)), WEFT_SHAPE_TEXT(&var->shape),
                    WEFT_SHAPE_TEXT(&other->shape));
}

/* Whatever a handle's variable lacks. */
static weft_status_t *no_variable(void) { return WEFT_ERROR(INTERNAL, "Invalid variable reference."); }

/* All variables have values of one shape and the op's dtype. The caller holds their mutexes. */
static weft_status_t *check_vars(const weft_kernel_ctx_t *c, const opt_state_t *st,
                                 weft_variable_t *const *v) {
  for (int i = 0; i < st->num_vars; i++) {
    if (v[i]->value == NULL && st->is_ref) return weft_variable_uninitialized(v[i]);
    if (v[i]->value == NULL) return no_variable();
    if (v[i]->value->dtype != st->dtype) {
      return WEFT_ERROR(
          INVALID_ARGUMENT, "Trying to update variable %.*s with wrong dtype. Expected %s got %s",
          WEFT_STR_ARGS(v[i]->name), weft_dtype_name(v[i]->value->dtype), weft_dtype_name(st->dtype));
    }
    if (!weft_shape_eq(&v[0]->value->shape, &v[i]->value->shape)) {
      return different_shapes(c, i, v[0]->value, v[i]->value);
    }
  }
  return NULL;
}

static int64_t index_at(const weft_tensor_t *t, int64_t i) {
  return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static weft_status_t *check_sparse(const weft_kernel_ctx_t *c, const opt_state_t *st,
                                   const weft_tensor_t *var) {
  const weft_tensor_t *grad = weft_in(c, st->grad), *indices = weft_in(c, st->indices);
  if (var->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "var must be at least 1 dimensional");
  if (indices->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "indices must be one-dimensional");
  if (grad->shape.rank != var->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "var and grad must have the same number of dimensions: %s and %s",
                      WEFT_SHAPE_TEXT(&var->shape), WEFT_SHAPE_TEXT(&grad->shape));
  }
  int64_t row = 1;
  for (int d = 1; d < var->shape.rank; d++) {
    if (var->shape.dims[d] != grad->shape.dims[d]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "var and grad must match in dimension %d", d);
    }
    row *= var->shape.dims[d];
  }
  if (grad->shape.dims[0] != indices->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "grad must be the same size as indices in the first dimension.");
  }
  if (row == 0 && !st->rule->allows_empty_rows)
    return WEFT_ERROR(INVALID_ARGUMENT, "Inner dimension should be greater than zero.");
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t at = index_at(indices, i);
    if (at < 0 || at >= var->shape.dims[0]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Index %" PRId64 " at offset %" PRId64 " in indices is out of range", at, i);
    }
  }
  return NULL;
}

/* ---- compute ---- */

enum { SMALL_COUNT = 4096 }; /* elements; not worth a second thread, nor the question */

typedef struct dense_job {
  const opt_state_t *st;
  const weft_opt_args_t *args;
  size_t size; /* of an element */
} dense_job_t;

static void run_dense(void *arg, int64_t begin, int64_t end) {
  const dense_job_t *job = arg;
  weft_opt_args_t args = *job->args;
  size_t at = (size_t)begin * job->size;
  for (int i = 0; i < job->st->num_vars; i++) args.var[i] = (char *)args.var[i] + at;
  args.grad = (const char *)args.grad + at;
  job->st->fn(&args, end - begin);
}

static void run_sparse(const opt_state_t *st, const weft_opt_args_t *args, const weft_tensor_t *var,
                       const weft_tensor_t *indices) {
  int64_t row = var->shape.dims[0] == 0 ? 0 : var->count / var->shape.dims[0];
  size_t bytes = (size_t)row * weft_dtype_size(st->dtype);
  for (int64_t r = 0; r < indices->count; r++) {
    weft_opt_args_t at = *args;
    size_t offset = (size_t)index_at(indices, r) * bytes;
    for (int i = 0; i < st->num_vars; i++) at.var[i] = (char *)at.var[i] + offset;
    at.grad = (const char *)args->grad + (size_t)r * bytes;
    st->fn(&at, row);
  }
}

/* The caller holds the variables' mutexes. */
static weft_status_t *apply(weft_kernel_ctx_t *c, const opt_state_t *st,
                            weft_variable_t *const *v) WEFT_HOLDS_LOCKS_OF_ARRAY {
  weft_opt_args_t args = {.flags = st->flags};
  const weft_tensor_t *grad = weft_in(c, st->grad);
  WEFT_RETURN_IF_ERROR(check_vars(c, st, v));
  WEFT_RETURN_IF_ERROR(read_scalars(c, st, &args));
  if (grad->dtype != st->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the gradient is of type %s, not %s", weft_dtype_name(grad->dtype),
                      weft_dtype_name(st->dtype));
  }
  if (st->is_sparse) {
    WEFT_RETURN_IF_ERROR(check_sparse(c, st, v[0]->value));
  } else if (!weft_shape_eq(&v[0]->value->shape, &grad->shape)) {
    return different_shapes(c, st->grad, v[0]->value, grad);
  }
  WEFT_RETURN_IF_ERROR(weft_variables_make_writable_locked(v, st->num_vars));
  for (int i = 1; i < st->num_vars; i++) weft_variable_is_slot_locked(v[i]);
  for (int i = 0; i < st->num_vars; i++) args.var[i] = v[i]->value->data;
  args.grad = grad->data;
  if (st->is_sparse) {
    run_sparse(st, &args, v[0]->value, weft_in(c, st->indices));
  } else if (grad->count <= SMALL_COUNT) {
    if (grad->count > 0) st->fn(&args, grad->count);
  } else {
    dense_job_t job = {st, &args, weft_dtype_size(st->dtype)};
    const weft_unit_cost_t element = {.bytes = (double)(2 * st->num_vars + 1) * (double)job.size,
                                      .cycles = 8};
    weft_parallel_for_cost(c->device->pool, grad->count, element, run_dense, &job);
  }
  return NULL;
}

weft_status_t *weft_opt_compute(weft_kernel_ctx_t *c) {
  const opt_state_t *st = c->state;
  weft_variable_t *v[WEFT_OPT_MAX_VARS] = {NULL};
  weft_status_t *s = NULL;
  int n = 0;
  for (; s == NULL && n < st->num_vars; n++) s = weft_state_in_any_variable(c, n, &v[n]);
  if (s == NULL) {
    weft_variables_lock(v, st->num_vars);
    s = apply(c, st, v);
    weft_variables_unlock(v, st->num_vars);
  } else if (!st->is_ref && weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    s = no_variable();
  }
  for (int i = 0; i < n; i++) {
    if (v[i] != NULL) weft_object_release(&v[i]->object);
  }
  if (s == NULL && st->is_ref) {
    c->outputs[0].ref = (weft_variable_t *)weft_object_retain(&c->inputs[0].ref->object);
  }
  return s;
}
