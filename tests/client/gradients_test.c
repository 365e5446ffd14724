/* tests/client/gradients_test.c - TF_AddGradients against central differences, through sessions. */
#include <math.h>

#include "tests/client/client_testing.h"

enum { MAX_XS = 4 };

/* loss = f(x0, x1, ...), all double. */
typedef struct problem {
  world_t w;
  TF_Output xs[MAX_XS];
  TF_Tensor *values[MAX_XS];
  int num_xs;
  TF_Output loss;
} problem_t;

static TF_Output add_x(problem_t *p, const char *name, int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  TF_Output x = placeholder(&p->w, p->w.g, name, TF_DOUBLE);
  TF_GraphSetTensorShape(p->w.g, x, dims, rank, p->w.s);
  ASSERT_OK(&p->w);
  TF_Tensor *t = new_doubles(rank, dims, NULL);
  for (int64_t i = 0; i < n; i++)
    ((double *)TF_TensorData(t))[i] = sin(1.7 * (double)(i + 1) + p->num_xs) * 0.8;
  p->xs[p->num_xs] = x;
  p->values[p->num_xs++] = t;
  return x;
}

static TF_Output reduce(problem_t *p, const char *op, const char *name, TF_Output x, int rank) {
  int32_t axes[8];
  const int64_t dims[1] = {rank};
  for (int i = 0; i < rank; i++) axes[i] = i;
  char axes_name[32] = "axes_";
  strncat(axes_name, name, 20);
  return binary(&p->w, p->w.g, op, name, x, constant(&p->w, p->w.g, axes_name, new_ints(1, dims, axes)));
}

static double loss_of(problem_t *p) {
  TF_Tensor *out = NULL;
  run(&p->w, p->xs, p->values, p->num_xs, &p->loss, &out, 1);
  ASSERT_OK(&p->w);
  double loss = *(const double *)TF_TensorData(out);
  TF_DeleteTensor(out);
  return loss;
}

static void check(problem_t *p) {
  TF_Output dx[MAX_XS];
  TF_Tensor *out[MAX_XS] = {NULL};
  const double h = 1e-5;
  TF_AddGradients(p->w.g, &p->loss, 1, p->xs, p->num_xs, NULL, p->w.s, dx);
  ASSERT_OK(&p->w);
  run(&p->w, p->xs, p->values, p->num_xs, dx, out, p->num_xs);
  ASSERT_OK(&p->w);
  for (int k = 0; k < p->num_xs; k++) {
    CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(out[k]), TF_TensorElementCount(p->values[k]));
    const double *exact = TF_TensorData(out[k]);
    for (int64_t i = 0; i < TF_TensorElementCount(out[k]); i++) {
      double *x = TF_TensorData(p->values[k]), old = x[i];
      x[i] = old + h;
      double above = loss_of(p);
      x[i] = old - h;
      double below = loss_of(p);
      x[i] = old;
      double numeric = (above - below) / (2 * h);
      CU_ASSERT(fabs(numeric - exact[i]) < 1e-6 * (1 + fabs(numeric)));
    }
    TF_DeleteTensor(out[k]);
  }
  for (int k = 0; k < p->num_xs; k++) TF_DeleteTensor(p->values[k]);
  world_close(&p->w);
}

static void those_of_a_perceptron_are_right(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t xd[2] = {3, 4}, wd[2] = {4, 5}, bd[1] = {5};
  TF_Output x = add_x(&p, "x", 2, xd), weights = add_x(&p, "w", 2, wd), bias = add_x(&p, "b", 1, bd);
  TF_Output y = binary(&p.w, p.w.g, "BiasAdd", "y", binary(&p.w, p.w.g, "MatMul", "xw", x, weights), bias);
  TF_Output t = binary(&p.w, p.w.g, "Mul", "mix", unary(&p.w, p.w.g, "Tanh", "tanh", y),
                       unary(&p.w, p.w.g, "Sigmoid", "sigmoid", y));
  p.loss = reduce(&p, "Sum", "loss", unary(&p.w, p.w.g, "Square", "square", t), 2);
  check(&p);
}

static void those_of_softmax_cross_entropy_are_right(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t dims[2] = {3, 4};
  TF_Output logits = add_x(&p, "logits", 2, dims);
  double one_hot[12] = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};
  TF_Output labels = constant(&p.w, p.w.g, "labels", new_doubles(2, dims, one_hot));
  TF_Output each = binary(&p.w, p.w.g, "SoftmaxCrossEntropyWithLogits", "each", logits, labels);
  TF_Output more =
      reduce(&p, "Mean", "more",
             unary(&p.w, p.w.g, "Square", "squares", unary(&p.w, p.w.g, "Softmax", "soft", logits)), 2);
  p.loss = binary(&p.w, p.w.g, "AddV2", "loss", reduce(&p, "Mean", "mean", each, 1), more);
  check(&p);
}

static TF_Output conv(problem_t *p, const char *name, TF_Output x, TF_Output filter, int64_t stride) {
  const int64_t strides[4] = {1, stride, stride, 1};
  TF_OperationDescription *d = TF_NewOperation(p->w.g, "Conv2D", name);
  TF_AddInput(d, x);
  TF_AddInput(d, filter);
  TF_SetAttrIntList(d, "strides", strides, 4);
  TF_SetAttrString(d, "padding", "SAME", 4);
  TF_Operation *o = TF_FinishOperation(d, p->w.s);
  ASSERT_OK(&p->w);
  return (TF_Output){o, 0};
}

static TF_Output pool(problem_t *p, const char *name, TF_Output x) {
  const int64_t two[4] = {1, 2, 2, 1};
  TF_OperationDescription *d = TF_NewOperation(p->w.g, "MaxPool", name);
  TF_AddInput(d, x);
  TF_SetAttrIntList(d, "ksize", two, 4);
  TF_SetAttrIntList(d, "strides", two, 4);
  TF_SetAttrString(d, "padding", "VALID", 5);
  TF_Operation *o = TF_FinishOperation(d, p->w.s);
  ASSERT_OK(&p->w);
  return (TF_Output){o, 0};
}

static void those_of_a_convolutional_net_are_right(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t xd[4] = {2, 6, 6, 1}, fd[4] = {3, 3, 1, 2}, gd[4] = {3, 3, 2, 2}, flat[1] = {2};
  const int32_t rows[2] = {2, -1};
  TF_Output x = add_x(&p, "x", 4, xd), f = add_x(&p, "f", 4, fd), g = add_x(&p, "g", 4, gd);
  TF_Output h = unary(&p.w, p.w.g, "Softplus", "h", conv(&p, "conv1", x, f, 1));
  TF_Output k = unary(&p.w, p.w.g, "Relu", "k", conv(&p, "conv2", pool(&p, "pool", h), g, 2));
  TF_Output r =
      binary(&p.w, p.w.g, "Reshape", "r", k, constant(&p.w, p.w.g, "rows", new_ints(1, flat, rows)));
  p.loss = reduce(&p, "Mean", "loss", unary(&p.w, p.w.g, "Square", "square", r), 2);
  check(&p);
}

static void those_of_broadcast_arithmetic_are_right(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t ad[2] = {3, 2}, bd[1] = {2};
  TF_Output a = add_x(&p, "a", 2, ad), b = add_x(&p, "b", 1, bd);
  TF_Output e = unary(&p.w, p.w.g, "Exp", "e", b);
  TF_Output q = binary(&p.w, p.w.g, "RealDiv", "q", binary(&p.w, p.w.g, "Sub", "d", a, b), e);
  TF_Output m = binary(&p.w, p.w.g, "Maximum", "m", q, b);
  p.loss = reduce(&p, "Sum", "loss", binary(&p.w, p.w.g, "SquaredDifference", "sd", m, a), 2);
  check(&p);
}

static void names_and_given_gradients_are_honoured(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = unary(&w, w.g, "Square", "y", x), dx;
  TF_Output dy = constant(&w, w.g, "dy", new_float(10));
  TF_AddGradientsWithPrefix(w.g, "mine", &y, 1, &x, 1, &dy, w.s, &dx);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(strncmp(TF_OperationName(dx.oper), "mine/", 5), 0);
  TF_Tensor *three = new_float(3), *t = run1(&w, x, three, dx);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(t, 0), 60);
  TF_DeleteTensor(t);
  TF_DeleteTensor(three);
  TF_AddGradientsWithPrefix(w.g, "mine", &y, 1, &x, 1, NULL, w.s, &dx);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "prefix [mine] conflicts with existing node in the graph");
  TF_Output other = placeholder(&w, w.g, "other", TF_FLOAT);
  TF_AddGradients(w.g, &y, 1, &other, 1, NULL, w.s, &dx);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT,
               "Cannot compute the partial derivative for node 'other' as it's unreachable");
  TF_AddGradients(w.g, &y, 1, &x, 1, NULL, w.s, &dx);
  TF_AddGradients(w.g, &y, 1, &x, 1, NULL, w.s, &dx);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(strncmp(TF_OperationName(dx.oper), "gradients_1/", 12), 0);
  world_close(&w);
}

/* while (i < 3) { i += 1; y = tanh(y * w) + x } */
static void those_of_a_loop_are_right(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t dims[1] = {3};
  TF_Output x = add_x(&p, "x", 1, dims), w = add_x(&p, "w", 1, dims);
  TF_Output in[4] = {constant(&p.w, p.w.g, "i", new_int(0)), x, w, x}, out[4];
  TF_WhileParams loop = TF_NewWhile(p.w.g, in, 4, p.w.s);
  ASSERT_OK(&p.w);
  TF_Output three = constant(&p.w, loop.cond_graph, "three", new_int(3));
  TF_Output one = constant(&p.w, loop.body_graph, "one", new_int(1));
  const TF_Output *v = loop.body_inputs;
  loop.cond_output = binary(&p.w, loop.cond_graph, "Less", "less", loop.cond_inputs[0], three);
  loop.body_outputs[0] = binary(&p.w, loop.body_graph, "AddV2", "next", v[0], one);
  TF_Output yw = binary(&p.w, loop.body_graph, "Mul", "yw", v[1], v[2]);
  loop.body_outputs[1] =
      binary(&p.w, loop.body_graph, "AddV2", "sum", unary(&p.w, loop.body_graph, "Tanh", "tanh", yw), v[3]);
  loop.body_outputs[2] = v[2];
  loop.body_outputs[3] = v[3];
  loop.name = "loop";
  TF_FinishWhile(&loop, p.w.s, out);
  ASSERT_OK(&p.w);
  p.loss = reduce(&p, "Sum", "loss", unary(&p.w, p.w.g, "Square", "square", out[1]), 1);
  check(&p);
}

/* y = f(x), f(a) = tanh(a). The session has run the call as one before it became nodes. */
static void those_of_a_call_are_right_in_a_session_that_ran(void) {
  problem_t p = {.num_xs = 0};
  world_open(&p.w);
  const int64_t dims[1] = {3};
  TF_Graph *body = TF_NewGraph();
  TF_Output a = placeholder(&p.w, body, "a", TF_DOUBLE), r = unary(&p.w, body, "Tanh", "r", a);
  TF_Function *f = TF_GraphToFunction(body, "f", 0, -1, NULL, 1, &a, 1, &r, NULL, NULL, NULL, p.w.s);
  TF_GraphCopyFunction(p.w.g, f, NULL, p.w.s);
  ASSERT_OK(&p.w);
  TF_Output x = add_x(&p, "x", 1, dims), y = unary(&p.w, p.w.g, "f", "call", x);
  p.loss = reduce(&p, "Sum", "loss", unary(&p.w, p.w.g, "Square", "square", y), 1);
  double before = loss_of(&p);
  TF_Output dx;
  TF_AddGradients(p.w.g, &p.loss, 1, &x, 1, NULL, p.w.s, &dx);
  ASSERT_OK(&p.w);
  CU_ASSERT_EQUAL(loss_of(&p), before);
  CU_ASSERT_STRING_EQUAL(TF_OperationOpType(y.oper), "IdentityN");
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(y), 2); /* Square, and its gradient */
  TF_Output from = TF_OperationInput((TF_Input){y.oper, 0});
  CU_ASSERT_STRING_EQUAL(TF_OperationName(from.oper), "gradients/call/r_0");
  TF_Input consumers[8];
  int n = TF_OperationOutputConsumers(x, consumers, 8);
  for (int i = 0; i < n; i++) CU_ASSERT_PTR_NOT_EQUAL(consumers[i].oper, y.oper);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
  check(&p);
}

static const CU_TestInfo tests[] = {
    {"those of a perceptron are right", those_of_a_perceptron_are_right},
    {"those of softmax cross entropy are right", those_of_softmax_cross_entropy_are_right},
    {"those of a convolutional net are right", those_of_a_convolutional_net_are_right},
    {"those of broadcast arithmetic are right", those_of_broadcast_arithmetic_are_right},
    {"those of a loop are right", those_of_a_loop_are_right},
    {"those of a call are right in a session that ran", those_of_a_call_are_right_in_a_session_that_ran},
    {"names and given gradients are honoured", names_and_given_gradients_are_honoured},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/gradients", tests); }
