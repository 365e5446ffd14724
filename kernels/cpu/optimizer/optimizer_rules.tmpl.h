/* kernels/cpu/optimizer/optimizer_rules.tmpl.h - the update rules for one dtype, real or complex; those that
 * compare numbers are in optimizer_ordered_rules.tmpl.h.
 *
 * Parameters: OPT_STEM suffix of the names, OPT_T how an element is stored,
 * OPT_C the type to compute with, OPT_GET and OPT_PUT from one to the other,
 * OPT_SQRT, and for numbers that have an order OPT_POW, OPT_EXP of OPT_C.
 * Names in the formulas are those of the papers: g gradient, a accumulator,
 * m and v first and second moment.
 */
#define OPT_JOIN2(a, b) a##_##b
#define OPT_JOIN(a, b) OPT_JOIN2(a, b)
#define OPT_RULE(name) static void OPT_JOIN(name, OPT_STEM)(const weft_opt_args_t *args, int64_t n)
#define OPT_VAR(i) ((OPT_T *)args->var[i])
#define OPT_GRAD ((const OPT_T *)args->grad)
#define OPT_SCALAR(i) ((OPT_C)args->scalar[i])

OPT_RULE(gradient_descent) {
  OPT_T *var = OPT_VAR(0);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0);
  for (int64_t i = 0; i < n; i++) var[i] = OPT_PUT(OPT_GET(var[i]) - lr * OPT_GET(grad[i]));
}

OPT_RULE(momentum) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), momentum = OPT_SCALAR(1);
  const bool nesterov = args->flags.use_nesterov;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), a = OPT_GET(accum[i]) * momentum + g;
    const OPT_C step = nesterov ? g * lr + a * momentum * lr : a * lr;
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_GET(var[i]) - step);
  }
}

/* As Keras has it: the learning rate is inside the accumulator. */
OPT_RULE(keras_momentum) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), momentum = OPT_SCALAR(1);
  const bool nesterov = args->flags.use_nesterov;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), a = OPT_GET(accum[i]) * momentum - g * lr;
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_GET(var[i]) + (nesterov ? a * momentum - g * lr : a));
  }
}

/* Duchi, Hazan, Singer, "Adaptive Subgradient Methods" (2011); no epsilon: slots start above 0. */
OPT_RULE(adagrad) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0);
  const bool update_slots = args->flags.update_slots;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), old = OPT_GET(accum[i]), a = update_slots ? old + g * g : old;
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_GET(var[i]) - lr * g * (1 / OPT_SQRT(a)));
  }
}

OPT_RULE(adagrad_v2) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), epsilon = OPT_SCALAR(1);
  const bool update_slots = args->flags.update_slots;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), old = OPT_GET(accum[i]), a = update_slots ? old + g * g : old;
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_GET(var[i]) - lr * g / (OPT_SQRT(a) + epsilon));
  }
}

/* Zeiler, "ADADELTA" (2012), algorithm 1, with a learning rate. */
OPT_RULE(adadelta) {
  OPT_T *var = OPT_VAR(0), *accum = OPT_VAR(1), *updates = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), rho = OPT_SCALAR(1), epsilon = OPT_SCALAR(2);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), u = OPT_GET(updates[i]);
    const OPT_C a = OPT_GET(accum[i]) * rho + g * g * (1 - rho);
    const OPT_C step = OPT_SQRT(u + epsilon) * (1 / OPT_SQRT(a + epsilon)) * g;
    accum[i] = OPT_PUT(a);
    var[i] = OPT_PUT(OPT_GET(var[i]) - step * lr);
    updates[i] = OPT_PUT(u * rho + step * step * (1 - rho));
  }
}

/* Kingma, Ba, "Adam" (2015), with the efficient form of section 2: the correction is in the learning rate. */
OPT_RULE(adam) {
  OPT_T *var = OPT_VAR(0), *ms = OPT_VAR(1), *vs = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C beta1 = OPT_SCALAR(3), beta2 = OPT_SCALAR(4), epsilon = OPT_SCALAR(5);
  const OPT_C alpha = OPT_SCALAR(2) * OPT_SQRT(1 - OPT_SCALAR(1)) / (1 - OPT_SCALAR(0));
  const bool nesterov = args->flags.use_nesterov;
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), m0 = OPT_GET(ms[i]), v0 = OPT_GET(vs[i]);
    const OPT_C m = m0 + (g - m0) * (1 - beta1), v = v0 + (g * g - v0) * (1 - beta2);
    const OPT_C direction = nesterov ? g * (1 - beta1) + beta1 * m : m;
    ms[i] = OPT_PUT(m);
    vs[i] = OPT_PUT(v);
    var[i] = OPT_PUT(OPT_GET(var[i]) - direction * alpha / (OPT_SQRT(v) + epsilon));
  }
}

/* Tieleman, Hinton, lecture 6.5 of "Neural Networks for Machine Learning" (2012); epsilon is inside the root.
 */
OPT_RULE(rmsprop) {
  OPT_T *var = OPT_VAR(0), *squares = OPT_VAR(1), *moms = OPT_VAR(2);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), rho = OPT_SCALAR(1), momentum = OPT_SCALAR(2), epsilon = OPT_SCALAR(3);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), s0 = OPT_GET(squares[i]), s = s0 + (g * g - s0) * (1 - rho);
    const OPT_C m = OPT_GET(moms[i]) * momentum + lr * g / OPT_SQRT(s + epsilon);
    squares[i] = OPT_PUT(s);
    moms[i] = OPT_PUT(m);
    var[i] = OPT_PUT(OPT_GET(var[i]) - m);
  }
}

/* The same with the variance in place of the second moment. */
OPT_RULE(centered_rmsprop) {
  OPT_T *var = OPT_VAR(0), *means = OPT_VAR(1), *squares = OPT_VAR(2), *moms = OPT_VAR(3);
  const OPT_T *grad = OPT_GRAD;
  const OPT_C lr = OPT_SCALAR(0), rho = OPT_SCALAR(1), momentum = OPT_SCALAR(2), epsilon = OPT_SCALAR(3);
  for (int64_t i = 0; i < n; i++) {
    const OPT_C g = OPT_GET(grad[i]), s0 = OPT_GET(squares[i]), mean0 = OPT_GET(means[i]);
    const OPT_C s = s0 + (g * g - s0) * (1 - rho), mean = mean0 + (g - mean0) * (1 - rho);
    const OPT_C m = OPT_GET(moms[i]) * momentum + lr * g / OPT_SQRT(s - mean * mean + epsilon);
    squares[i] = OPT_PUT(s);
    means[i] = OPT_PUT(mean);
    moms[i] = OPT_PUT(m);
    var[i] = OPT_PUT(OPT_GET(var[i]) - m);
  }
}

#ifdef OPT_POW
#include "kernels/cpu/optimizer/optimizer_ordered_rules.tmpl.h"
#endif

#undef OPT_JOIN2
#undef OPT_JOIN
#undef OPT_RULE
#undef OPT_VAR
#undef OPT_GRAD
#undef OPT_SCALAR
#undef OPT_STEM
#undef OPT_T
#undef OPT_C
#undef OPT_GET
#undef OPT_PUT
#undef OPT_SQRT
#undef OPT_POW
#undef OPT_EXP
