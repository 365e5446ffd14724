/* kernels/cpu/optimizer/optimizer.h - the kernels of all optimizers: one update rule per optimizer, by
 * element.
 *
 * A rule changes n elements of a variable and its slots by n elements of the
 * gradient. It is the same for the whole of a dense gradient and for one row of
 * a sparse one: the caller sets the pointers.
 */
#ifndef WEFT_KERNELS_CPU_OPTIMIZER_OPTIMIZER_H_
#define WEFT_KERNELS_CPU_OPTIMIZER_OPTIMIZER_H_

#include <complex.h>

#include "kernels/kernel.h"

enum { WEFT_OPT_MAX_VARS = 4, WEFT_OPT_MAX_SCALARS = 7 };

/* What a node says once. */
typedef struct weft_opt_flags {
  bool use_nesterov, update_slots, multiply_linear_by_lr;
} weft_opt_flags_t;

typedef struct weft_opt_args {
  void *var[WEFT_OPT_MAX_VARS]; /* the variable, then its slots in the op's order; elements of the rule's
                                   dtype */
  const void *grad;
  double complex scalar[WEFT_OPT_MAX_SCALARS]; /* in the op's order: learning rate, decay, ... */
  int64_t global_step;                         /* of AdagradDA */
  weft_opt_flags_t flags;
} weft_opt_args_t;

typedef void weft_opt_rule_fn(const weft_opt_args_t *a, int64_t n);

typedef struct weft_opt_rule {
  /* In order: v variable, g gradient, t int64 scalar, s scalar; + a positive one, or 0 where
     multiply_linear_by_lr is set, > positive, 0 not negative, < not positive. A sparse op has its indices
     behind g. */
  const char *inputs;
  weft_opt_rule_fn *fns[WEFT_DTYPE_COUNT];
  bool allows_empty_rows; /* of a sparse gradient */
} weft_opt_rule_t;

/* The param of a row. */
typedef struct weft_opt_op {
  const weft_opt_rule_t *rule;
  bool is_ref, is_sparse;
} weft_opt_op_t;

/* Functions of a row whose param is a weft_opt_op_t. */
WEFT_MUST_CHECK weft_status_t *weft_opt_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_opt_compute(weft_kernel_ctx_t *c);

/* The rows of all optimizers, ended by {0}. */
extern const weft_kernel_t weft_cpu_optimizer_kernels[];

#endif /* WEFT_KERNELS_CPU_OPTIMIZER_OPTIMIZER_H_ */
