/* kernels/cpu/learn/sdca_loss.c - see the header. Shalev-Shwartz and Zhang, "Stochastic dual coordinate
 * ascent methods for regularized loss minimization" (2013), and Ma et al., "Adding vs. averaging in
 * distributed primal-dual optimization" (2015) for the number of partitions. */
#include "kernels/cpu/learn/sdca_loss.h"

#include <float.h>
#include <math.h>

enum { NEWTON_STEPS = 10 };

static double larger(double a, double b) { return a > b ? a : b; }
/* v log(v), which is 0 at 0. */
static double v_log_v(double v) { return v > 0 ? v * log(v) : 0; }

/* ---- logistic ---- */

static double logistic_update(const weft_sdca_example_t *e) {
  double x = 0, pull = e->norm * e->weight;
  for (int i = 0; i < NEWTON_STEPS; i++) {
    double t = tanh(x);
    double value = -2 * e->label * x - e->wx - pull * (0.5 * (1 + t) / e->label - e->dual);
    x -= value / (-2 * e->label - pull * (1 - t * t) * 0.5 / e->label);
  }
  return 0.5 * (1 + tanh(x)) / e->label;
}
static double logistic_dual(const weft_sdca_example_t *e) {
  double p = e->dual * e->label;
  return v_log_v(p) + v_log_v(1 - p);
}
static double logistic_primal(double wx, double label) {
  double margin = label * wx;
  return log1p(exp(-fabs(margin))) + larger(-margin, 0);
}
static double logistic_slope(double wx, double label) { return -label / (1 + exp(label * wx)); }

/* ---- squared ---- */

static double squared_update(const weft_sdca_example_t *e) {
  return e->dual + (e->label - e->dual - e->wx) / (1 + e->norm * e->weight);
}
static double squared_dual(const weft_sdca_example_t *e) { return e->dual * (0.5 * e->dual - e->label); }
static double squared_primal(double wx, double label) { return 0.5 * (wx - label) * (wx - label); }
static double squared_slope(double wx, double label) { return wx - label; }

/* ---- hinge, and with its corner rounded over a width of 1 ---- */

/* The dual variable times the label lies in [0, 1]. */
static double bounded(double dual, double label) {
  if (label * dual < 0) return 0;
  return label * dual > 1 ? label : dual;
}
static double hinge_update(const weft_sdca_example_t *e) {
  return bounded(e->dual + (e->label - e->wx) / (e->norm * e->weight), e->label);
}
static double hinge_dual(const weft_sdca_example_t *e) {
  double y = e->dual * e->label;
  return y < 0 || y > 1 ? DBL_MAX : -y;
}
static double hinge_primal(double wx, double label) { return larger(0, 1 - label * wx); }
static double hinge_slope(double wx, double label) { return label * wx < 1 ? -label : 0; }

static double smooth_update(const weft_sdca_example_t *e) {
  return bounded(e->dual + (e->label - e->wx - e->dual) / (e->norm * e->weight + 1), e->label);
}
static double smooth_dual(const weft_sdca_example_t *e) {
  double y = e->dual * e->label;
  return y < 0 || y > 1 ? DBL_MAX : -y + 0.5 * e->dual * e->dual;
}
static double smooth_primal(double wx, double label) {
  double margin = label * wx;
  if (margin >= 1) return 0;
  return margin <= 0 ? 0.5 - margin : 0.5 * (1 - margin) * (1 - margin);
}
static double smooth_slope(double wx, double label) {
  double margin = label * wx;
  if (margin >= 1) return 0;
  return margin <= 0 ? -label : wx - label;
}

/* ---- Poisson ---- */

static double poisson_update(const weft_sdca_example_t *e) {
  double rate = e->label - e->dual, x = rate > 0 ? log(rate) : 0, pull = e->norm * e->weight;
  for (int i = 0; i < NEWTON_STEPS; i++) {
    double v = exp(x);
    x -= (x - e->wx - pull * (rate - v)) / (1 + pull * v);
  }
  return e->label - exp(x);
}
static double poisson_dual(const weft_sdca_example_t *e) {
  double rate = e->label - e->dual;
  if (rate == 0) return 0;
  return rate < 0 ? DBL_MAX : rate * (log(rate) - 1);
}
static double poisson_primal(double wx, double label) { return exp(wx) - wx * label; }
static double poisson_slope(double wx, double label) { return exp(wx) - label; }

static const weft_sdca_loss_t losses[] = {
    {"logistic_loss", 4, logistic_update, logistic_dual, logistic_primal, logistic_slope, true, false},
    {"squared_loss", 1, squared_update, squared_dual, squared_primal, squared_slope, false, false},
    {"hinge_loss", 0, hinge_update, hinge_dual, hinge_primal, hinge_slope, true, false},
    {"smooth_hinge_loss", 1, smooth_update, smooth_dual, smooth_primal, smooth_slope, true, false},
    {"poisson_loss", 1, poisson_update, poisson_dual, poisson_primal, poisson_slope, false, true},
};

const weft_sdca_loss_t *weft_sdca_loss_find(weft_str_t name) {
  for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
    if (weft_str_is(name, losses[i].name)) return &losses[i];
  }
  return NULL;
}

weft_status_t *weft_sdca_label(const weft_sdca_loss_t *loss, float label, double *out) {
  if (loss->is_binary && label != 0 && label != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Only labels of 0.0 or 1.0 are supported right now. Found example with label: %g",
                      (double)label);
  }
  if (loss->is_count && label < 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Only non-negative labels can be used with the Poisson log loss. Found example with label: %g",
        (double)label);
  }
  *out = loss->is_binary && label == 0 ? -1 : (double)label;
  return NULL;
}
