/* kernels/cpu/optimizer/optimizer_ordered_rules.tmpl.h - the update rules that compare numbers, for one real
 * dtype. Part of optimizer_rules.tmpl.h, which has its parameters.
 */
/* The sign of x; 0 of 0, NaN of NaN. */
static inline OPT_C OPT_JOIN(sign, OPT_STEM)(OPT_C x) { return x != x ? x : (OPT_C)((x > 0) - (x < 0)); }
/* x moved towards 0 by `by`, but not beyond it. */
static inline OPT_C OPT_JOIN(shrink, OPT_STEM)(OPT_C x, OPT_C by) {
  const OPT_C size = (x < 0 ? -x : x) - by;
  return OPT_JOIN(sign, OPT_STEM)(x) * (size > 0 ? size : 0);
}

/* Dual averaging, same paper, equation (3). */
OPT_RULE(adagrad_da) {
  OPT_T *var = OPT_VAR(0), *sum = OPT_VAR(1), *squares = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), l1 = OPT_SCALAR(1), l2 = OPT_SCALAR(2), step = (OPT_C)args->global_step;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), s = OPT_GET(sum[i]) + g, q = OPT_GET(squares[i]) + g * g;
    const OPT_C kept = l1 > 0 ? OPT_JOIN(shrink, OPT_STEM)(s, l1 * step) : s;
    sum[i] = OPT_PUT(s);
    squares[i] = OPT_PUT(q);
    var[i] = OPT_PUT(-lr * kept / (l2 * step * lr + OPT_SQRT(q)));
  }
}

/* Reddi, Kale, Kumar, "On the Convergence of Adam and Beyond" (2018). */
OPT_RULE(amsgrad) {
  OPT_T *var = OPT_VAR(0), *ms = OPT_VAR(1), *vs = OPT_VAR(2), *hats = OPT_VAR(3);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C beta1 = OPT_SCALAR(3), beta2 = OPT_SCALAR(4), epsilon = OPT_SCALAR(5);
  const OPT_C alpha = OPT_SCALAR(2) * OPT_SQRT(1 - OPT_SCALAR(1)) / (1 - OPT_SCALAR(0));
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), m0 = OPT_GET(ms[i]), v0 = OPT_GET(vs[i]), hat0 = OPT_GET(hats[i]);
    const OPT_C m = m0 + (g - m0) * (1 - beta1), v = v0 + (g * g - v0) * (1 - beta2),
                hat = v > hat0 ? v : hat0;
    ms[i] = OPT_PUT(m);
    vs[i] = OPT_PUT(v);
    hats[i] = OPT_PUT(hat);
    var[i] = OPT_PUT(OPT_GET(var[i]) - m * alpha / (OPT_SQRT(hat) + epsilon));
  }
}

/* Adam's section 7.1: the infinity norm. */
OPT_RULE(adamax) {
  OPT_T *var = OPT_VAR(0), *ms = OPT_VAR(1), *vs = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C beta1 = OPT_SCALAR(2), beta2 = OPT_SCALAR(3), epsilon = OPT_SCALAR(4);
  const OPT_C alpha = OPT_SCALAR(1) / (1 - OPT_SCALAR(0));
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), m0 = OPT_GET(ms[i]), decayed = OPT_GET(vs[i]) * beta2,
                size = g < 0 ? -g : g;
    const OPT_C m = m0 + (g - m0) * (1 - beta1), v = decayed > size ? decayed : size;
    ms[i] = OPT_PUT(m);
    vs[i] = OPT_PUT(v);
    var[i] = OPT_PUT(OPT_GET(var[i]) - alpha * (m / (v + epsilon)));
  }
}

/* McMahan et al., "Ad Click Prediction" (2013), algorithm 1. The shrinkage acts on the gradient that goes
 * into `linear`, not on its square. lr_power is -1/2 nearly always, and roots are faster than powers. */
static inline void OPT_JOIN(ftrl_step, OPT_STEM)(const weft_opt_args_t *args, int64_t n, OPT_C shrinkage,
                                                 OPT_C lr_power) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1), *linear = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const bool in_linear = args->flags.multiply_linear_by_lr, is_root = lr_power == (OPT_C)-0.5;
  const OPT_C lr = OPT_SCALAR(0), l1 = in_linear ? OPT_SCALAR(1) * lr : OPT_SCALAR(1);
  const OPT_C l2 = in_linear ? OPT_SCALAR(2) * lr : OPT_SCALAR(2);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C x = OPT_GET(var[i]), g = OPT_GET(grad[i]), a0 = OPT_GET(accum[i]), a = a0 + g * g;
    const OPT_C shrunk = g + 2 * shrinkage * x;
    const OPT_C power = is_root ? OPT_SQRT(a) : OPT_POW(a, -lr_power);
    const OPT_C power0 = is_root ? OPT_SQRT(a0) : OPT_POW(a0, -lr_power);
    const OPT_C l = OPT_GET(linear[i]) +
                    (in_linear ? shrunk * lr - (power - power0) * x : shrunk - (power - power0) / lr * x);
    const OPT_C quadratic = (in_linear ? power : power / lr) + 2 * l2;
    accum[i] = OPT_PUT(a);
    linear[i] = OPT_PUT(l);
    var[i] = OPT_PUT((l < 0 ? -l : l) > l1 ? (OPT_JOIN(sign, OPT_STEM)(l) * l1 - l) / quadratic : 0);
  }
}
OPT_RULE(ftrl) { OPT_JOIN(ftrl_step, OPT_STEM)(args, n, 0, OPT_SCALAR(3)); }
OPT_RULE(ftrl_v2) { OPT_JOIN(ftrl_step, OPT_STEM)(args, n, OPT_SCALAR(3), OPT_SCALAR(4)); }

/* Duchi, Singer, "Efficient Online and Batch Learning Using Forward Backward Splitting" (2009). */
static inline OPT_C OPT_JOIN(proximal, OPT_STEM)(OPT_C x, OPT_C lr, OPT_C l1, OPT_C l2) {
  return (l1 > 0 ? OPT_JOIN(shrink, OPT_STEM)(x, lr * l1) : x) / (1 + l2 * lr);
}
OPT_RULE(proximal_gradient_descent) {
  OPT_T *var = OPT_VAR(0);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), l1 = OPT_SCALAR(1), l2 = OPT_SCALAR(2);
  for (int64_t i = 0; i < n; i++)
    var[i] = OPT_PUT(OPT_JOIN(proximal, OPT_STEM)(OPT_GET(var[i]) - lr * OPT_GET(grad[i]), lr, l1, l2));
}
OPT_RULE(proximal_adagrad) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), l1 = OPT_SCALAR(1), l2 = OPT_SCALAR(2);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), a = OPT_GET(accum[i]) + g * g, rate = lr * (1 / OPT_SQRT(a));
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_JOIN(proximal, OPT_STEM)(OPT_GET(var[i]) - g * rate, rate, l1, l2));
  }
}

/* Bello et al., "Neural Optimizer Search with Reinforcement Learning" (2017), section 4.3. */
OPT_RULE(add_sign) {
  OPT_T *var = OPT_VAR(0), *ms = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), alpha = OPT_SCALAR(1), decay = OPT_SCALAR(2), beta = OPT_SCALAR(3);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), m = OPT_GET(ms[i]) * beta + g * (1 - beta);
    const OPT_C agree = OPT_JOIN(sign, OPT_STEM)(g) * OPT_JOIN(sign, OPT_STEM)(m);
    ms[i] = OPT_PUT(m);
    var[i] = OPT_PUT(OPT_GET(var[i]) - lr * (alpha + decay * agree) * g);
  }
}
OPT_RULE(power_sign) {
  OPT_T *var = OPT_VAR(0), *ms = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), logbase = OPT_SCALAR(1), decay = OPT_SCALAR(2), beta = OPT_SCALAR(3);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), m = OPT_GET(ms[i]) * beta + g * (1 - beta);
    const OPT_C agree = OPT_JOIN(sign, OPT_STEM)(g) * OPT_JOIN(sign, OPT_STEM)(m);
    ms[i] = OPT_PUT(m);
    var[i] = OPT_PUT(OPT_GET(var[i]) - lr * OPT_EXP(logbase * decay * agree) * g);
  }
}
