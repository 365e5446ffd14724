/* ops/random_grad.c - gradients of random numbers by the parameters of their distribution.
 *
 * Source: Figurnov et al., "Implicit reparameterization gradients" (2018): a number changes with a parameter
 * such that the distribution function keeps its value.
 */
#include <float.h>

#include "ops/grad.h"

/* ---- gamma ---- */

/* `by`: of the output by alpha, summed over the first dimensions, which alpha has not. */
static void sum_samples(weft_grad_t *g, int alpha, value_t by) {
  g->c->dx[alpha] = weft_grad_unbroadcast(g, weft_grad_op2(g, "Mul", g->c->dy[0], by), g->c->inputs[alpha],
                                          g->c->outputs[0], 0);
}

static weft_status_t *gamma_by(weft_grad_ctx_t *c, int alpha) {
  weft_grad_t g = {.c = c};
  sum_samples(&g, alpha, weft_grad_op2(&g, "RandomGammaGrad", c->inputs[alpha], c->outputs[0]));
  return g.s;
}

weft_status_t *weft_grad_random_gamma(weft_grad_ctx_t *c) { return gamma_by(c, 1); }
weft_status_t *weft_grad_stateless_gamma(weft_grad_ctx_t *c) { return gamma_by(c, c->num_inputs - 1); }

/* ---- truncated normal ---- */

/* The distribution function of the normal distribution. */
static value_t normal_cdf(weft_grad_t *g, value_t x, int dtype) {
  value_t half_root = weft_grad_scalar(g, dtype, 0.70710678118654752440), one = weft_grad_scalar(g, dtype, 1);
  value_t w = weft_grad_op2(g, "Mul", x, half_root), z = weft_grad_op1(g, "Abs", w);
  value_t zero = weft_grad_scalar(g, dtype, 0), tail = weft_grad_op1(g, "Erfc", z);
  value_t upper = weft_grad_op2(g, "Sub", weft_grad_scalar(g, dtype, 2), tail);
  value_t outside = weft_grad_op3(g, "SelectV2", weft_grad_op2(g, "Greater", w, zero), upper, tail);
  value_t inside = weft_grad_op2(g, "AddV2", one, weft_grad_op1(g, "Erf", w));
  value_t twice = weft_grad_op3(g, "SelectV2", weft_grad_op2(g, "Less", z, half_root), inside, outside);
  return weft_grad_op2(g, "Mul", weft_grad_scalar(g, dtype, 0.5), twice);
}

/* exp((s^2 - bound^2) / 2 + log_share) */
static value_t by_bound(weft_grad_t *g, value_t s, value_t bound, value_t log_share, int dtype) {
  value_t squares = weft_grad_op2(g, "Sub", weft_grad_op1(g, "Square", s), weft_grad_op1(g, "Square", bound));
  value_t exponent = weft_grad_op2(g, "Mul", weft_grad_scalar(g, dtype, 0.5), squares);
  return weft_grad_op1(g, "Exp", weft_grad_op2(g, "AddV2", exponent, log_share));
}

/* Inputs: shape, seed, means, deviations, minima, maxima. */
weft_status_t *weft_grad_truncated_normal(weft_grad_ctx_t *c) {
  weft_grad_t grad = {.c = c}, *g = &grad;
  int dtype = weft_grad_dtype(g, c->outputs[0]);
  value_t standard[3], cdf[3]; /* of minima, maxima, samples */
  for (int i = 0; i < 3; i++) {
    value_t x = i == 2 ? c->outputs[0] : c->inputs[4 + i];
    standard[i] = weft_grad_op2(g, "RealDiv", weft_grad_op2(g, "Sub", x, c->inputs[2]), c->inputs[3]);
    cdf[i] = normal_cdf(g, standard[i], dtype);
  }
  value_t share = weft_grad_op2(g, "RealDiv", weft_grad_op2(g, "Sub", cdf[2], cdf[0]),
                                weft_grad_op2(g, "Sub", cdf[1], cdf[0]));
  double least = dtype == WEFT_F16 ? 6.103515625e-05 : dtype == WEFT_F32 ? FLT_MIN : DBL_MIN;
  double epsilon = dtype == WEFT_F16 ? 0.0009765625 : dtype == WEFT_F32 ? FLT_EPSILON : DBL_EPSILON;
  share = weft_grad_op2(g, "Minimum", share, weft_grad_scalar(g, dtype, 1 - epsilon));
  share = weft_grad_op2(g, "Maximum", share, weft_grad_scalar(g, dtype, least));
  value_t rest = weft_grad_op1(g, "Log1p", weft_grad_op1(g, "Neg", share));
  sum_samples(g, 2, weft_grad_scalar(g, dtype, 1));
  sum_samples(g, 3, standard[2]);
  sum_samples(g, 4, by_bound(g, standard[2], standard[0], rest, dtype));
  sum_samples(g, 5, by_bound(g, standard[2], standard[1], weft_grad_op1(g, "Log", share), dtype));
  return grad.s;
}
