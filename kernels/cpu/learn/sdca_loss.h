/* kernels/cpu/learn/sdca_loss.h - the losses of stochastic dual coordinate ascent: SdcaOptimizer. */
#ifndef WEFT_KERNELS_CPU_LEARN_SDCA_LOSS_H_
#define WEFT_KERNELS_CPU_LEARN_SDCA_LOSS_H_

#include "base/status.h"
#include "base/str.h"

/* What is known of an example in one step. */
typedef struct weft_sdca_example {
  double label, weight, dual; /* the label as the loss wants it; the dual variable before the step */
  double wx;                  /* the prediction */
  double norm;                /* the squared norm of the features by l2, times the number of partitions */
} weft_sdca_example_t;

typedef struct weft_sdca_loss {
  const char *name;
  double smoothness;                              /* constant of the gradient; 0: it is not smooth */
  double (*update)(const weft_sdca_example_t *e); /* the new dual variable, the best for this example alone */
  double (*dual)(const weft_sdca_example_t *e);   /* the conjugate loss at the dual variable */
  double (*primal)(double wx, double label);
  double (*slope)(double wx, double label); /* of the primal loss */
  bool is_binary;                           /* labels are 0 and 1, and are computed with as -1 and 1 */
  bool is_count;                            /* labels are not negative */
} weft_sdca_loss_t;

/* NULL if there is none of that name. */
const weft_sdca_loss_t *weft_sdca_loss_find(weft_str_t name);
/* Brings a label into the form that the loss computes with. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_sdca_label(const weft_sdca_loss_t *loss, float label, double *out);

#endif /* WEFT_KERNELS_CPU_LEARN_SDCA_LOSS_H_ */
