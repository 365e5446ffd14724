/* examples/digits/model.c - the network, written with the C API. */
#include "examples/digits/model.h"

const variable_spec_t VARIABLES[NUM_VARIABLES] = {
    {"conv1/kernel", 4, {3, 3, 1, 16}, 9},        {"conv1/bias", 1, {16}, 0},
    {"conv2/kernel", 4, {3, 3, 16, 32}, 144},     {"conv2/bias", 1, {32}, 0},
    {"dense/kernel", 2, {128, NUM_CLASSES}, 128}, {"dense/bias", 1, {NUM_CLASSES}, 0},
};

static TF_Output conv_relu_pool(build_t *b, const char *name, TF_Output x, TF_Output kernel, TF_Output bias) {
  static const int64_t one[4] = {1, 1, 1, 1}, two[4] = {1, 2, 2, 1};
  TF_OperationDescription *conv = begin(b, "Conv2D", name, "conv");
  TF_AddInput(conv, x);
  TF_AddInput(conv, kernel);
  TF_SetAttrIntList(conv, "strides", one, 4);
  TF_SetAttrString(conv, "padding", "SAME", 4);
  TF_Output y = end(b, conv);
  y = op2(b, "BiasAdd", name, "bias_add", y, bias);
  y = op1(b, "Relu", name, "relu", y);
  TF_OperationDescription *pool = begin(b, "MaxPool", name, "pool");
  TF_AddInput(pool, y);
  TF_SetAttrIntList(pool, "ksize", two, 4);
  TF_SetAttrIntList(pool, "strides", two, 4);
  TF_SetAttrString(pool, "padding", "VALID", 5);
  return end(b, pool);
}

TF_Output model_logits(build_t *b, TF_Output images, const TF_Output *weights) {
  static const int32_t image_shape[4] = {-1, IMAGE_SIDE, IMAGE_SIDE, 1}, flat_shape[2] = {-1, 128};
  TF_Output x = op2(b, "Mul", "model", "scaled", images, scalar(b, "model", "sixteenth", 1.0f / 16));
  x = op2(b, "Reshape", "model", "image", x, ints(b, "model", "image_shape", image_shape, 4));
  x = conv_relu_pool(b, "conv1", x, weights[0], weights[1]);
  x = conv_relu_pool(b, "conv2", x, weights[2], weights[3]);
  x = op2(b, "Reshape", "model", "flat", x, ints(b, "model", "flat_shape", flat_shape, 2));
  x = op2(b, "MatMul", "dense", "product", x, weights[4]);
  return op2(b, "BiasAdd", "dense", "logits", x, weights[5]);
}

TF_Output model_loss(build_t *b, TF_Output logits, TF_Output labels) {
  static const int32_t all[1] = {0};
  TF_Output each = op2(b, "SparseSoftmaxCrossEntropyWithLogits", "loss", "each", logits, labels);
  return op2(b, "Mean", "loss", "mean", each, ints(b, "loss", "axis", all, 1));
}

TF_Output model_accuracy(build_t *b, TF_Output logits, TF_Output labels) {
  static const int32_t classes[1] = {1}, all[1] = {0};
  TF_Output axis = ints(b, "accuracy", "classes", classes, 1);
  TF_Output axis0 = op2(b, "Reshape", "accuracy", "axis", axis, ints(b, "accuracy", "scalar", NULL, 0));
  TF_Output hit =
      op2(b, "Equal", "accuracy", "hit", op2(b, "ArgMax", "accuracy", "predicted", logits, axis0), labels);
  TF_OperationDescription *cast = begin(b, "Cast", "accuracy", "hits");
  TF_AddInput(cast, hit);
  TF_SetAttrType(cast, "DstT", TF_FLOAT);
  return op2(b, "Mean", "accuracy", "mean", end(b, cast), ints(b, "accuracy", "all", all, 1));
}
