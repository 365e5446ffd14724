/* examples/digits/model.h - a small convolutional network for 8 x 8 images of handwritten digits.
 *
 * conv 3x3x16, relu, pool 2; conv 3x3x32, relu, pool 2; dense 10. Its variables
 * are listed once, in VARIABLES; the rest of the program walks the list.
 */
#ifndef WEFT_EXAMPLES_DIGITS_MODEL_H_
#define WEFT_EXAMPLES_DIGITS_MODEL_H_

#include "examples/digits/build.h"

enum { IMAGE_SIDE = 8, IMAGE_PIXELS = 64, NUM_CLASSES = 10, NUM_VARIABLES = 6 };

typedef struct variable_spec {
  const char *name;
  int rank;
  int64_t dims[4];
  int fan_in; /* weights start as normal(0, sqrt(2/fan_in)); 0: zeros */
} variable_spec_t;

extern const variable_spec_t VARIABLES[NUM_VARIABLES];

/* logits [B, NUM_CLASSES] of images [B, IMAGE_PIXELS] (float, 0..16); `weights` are NUM_VARIABLES values. */
TF_Output model_logits(build_t *b, TF_Output images, const TF_Output *weights);
/* Scalar: mean softmax cross-entropy of logits against labels [B] (int64). */
TF_Output model_loss(build_t *b, TF_Output logits, TF_Output labels);
/* Scalar: the share of images whose most likely class is the label. */
TF_Output model_accuracy(build_t *b, TF_Output logits, TF_Output labels);

#endif /* WEFT_EXAMPLES_DIGITS_MODEL_H_ */
