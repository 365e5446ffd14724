#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

#define CPU "device:'/job:localhost/replica:0/task:0/device:CPU:0' "
#define ON(name, op, in, attrs) "node{name:'" name "' op:'" op "' " in " " CPU attrs "} "
#define LAYER(activation)               \
  FED("x", "")                          \
  FED("w", "")                          \
  FED("b", "")                          \
  ON("p", "MatMul", IN2("x", "w"), T_F) \
  ON("s", "BiasAdd", IN2("p", "b"), T_F) ON("r", activation, IN1("s"), T_F) ON("y", "Neg", IN1("r"), T_F)

/* There is a kernel but of float16. */
static bool not_of_half(void *arg, const weft_node_t *n) {
  (void)arg;
  CU_ASSERT(weft_str_is(n->op->name, "_FusedMatMul"));
  return weft_node_attr_type(n, "T") != WEFT_F16;
}

/* What a placer would have done. */
static weft_graph_t *remapped_with(const char *text, const char *const *keep,
                                   bool (*has_kernel)(void *arg, const weft_node_t *n)) {
  enum { MOST_KEPT = 8 };
  weft_str_t names[MOST_KEPT];
  weft_graph_t *g = weft_test_graph(text);
  for (int id = 0; id < g->num_nodes; id++) g->nodes[id]->assigned_device = g->nodes[id]->requested_device;
  weft_optimize_options_t o = {.settings = weft_pass_defaults(), .keep = names, .has_kernel = has_kernel};
  o.settings.passes = WEFT_PASS_BIT(WEFT_PASS_REMAP);
  for (; keep[o.num_keep] != NULL; o.num_keep++) names[o.num_keep] = weft_str(keep[o.num_keep]);
  weft_test_expect(weft_optimize(&g, &o), WEFT_OK, "");
  return g;
}

static weft_graph_t *remapped(const char *text, const char *const *keep) {
  return remapped_with(text, keep, NULL);
}

/* A product with a bias, and maybe an activation, where the device has a kernel for it; no sum. */
static void on_other_devices_a_kernel_is_asked_for(void) {
#define GPU "device:'/job:localhost/replica:0/task:0/device:GPU:0' "
#define FED_OF(name, type) \
  NODE(name, "Placeholder", "", "attr{key:'dtype' value{type:" type "}} attr{key:'shape' value{shape{}}}")
#define ON_GPU(name, op, in, type) \
  "node{name:'" name "' op:'" op "' " in " " GPU "attr{key:'T' value{type:" type "}}} "
#define GPU_LAYER(type, then) \
  FED_OF("x", type)           \
  FED_OF("w", type)           \
  FED_OF("b", type)           \
  ON_GPU("p", "MatMul", IN2("x", "w"), type) ON_GPU("s", "BiasAdd", IN2("p", "b"), type) then
#define RELU(type) ON_GPU("r", "Relu", IN1("s"), type) ON_GPU("y", "Neg", IN1("r"), type)
#define SUM(type) ON_GPU("r", "AddV2", IN2("s", "x"), type) ON_GPU("y", "Relu", IN1("r"), type)
  const char *const keep[] = {"y", NULL};
  static const struct {
    const char *graph, *fused; /* which node is the fused one; NULL: none */
  } cases[] = {{GPU_LAYER("DT_FLOAT", RELU("DT_FLOAT")), "r"},
               {GPU_LAYER("DT_BFLOAT16", RELU("DT_BFLOAT16")), "r"},
               {GPU_LAYER("DT_HALF", RELU("DT_HALF")), NULL},
               {GPU_LAYER("DT_DOUBLE", RELU("DT_DOUBLE")), NULL},
               {GPU_LAYER("DT_FLOAT", SUM("DT_FLOAT")), "s"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_graph_t *g = remapped_with(cases[i].graph, keep, not_of_half);
    CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), cases[i].fused != NULL);
    if (cases[i].fused != NULL)
      CU_ASSERT(weft_str_is(weft_test_node(g, cases[i].fused)->op->name, "_FusedMatMul"));
    weft_graph_destroy(g);
    g = remapped(cases[i].graph, keep);
    CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), 0);
    weft_graph_destroy(g);
  }
}

static void a_layer_becomes_one_node_with_the_last_ones_name(void) {
  const char *const keep[] = {"y", NULL};
  weft_graph_t *g = remapped(LAYER("Relu"), keep);
  const weft_node_t *fused = weft_test_node(g, "r");
  CU_ASSERT(weft_str_is(fused->op->name, "_FusedMatMul"));
  CU_ASSERT(weft_test_reads(g, "y", 0, "r"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y")->inputs[0].node, fused);
  CU_ASSERT(weft_test_reads(g, "r", 0, "x"));
  CU_ASSERT(weft_test_reads(g, "r", 1, "w"));
  CU_ASSERT(weft_test_reads(g, "r", 2, "b"));
  const weft_attr_t *ops = weft_node_attr(fused, "fused_ops");
  CU_ASSERT_EQUAL_FATAL(ops->n, 2);
  CU_ASSERT(weft_str_is(ops->list.strings[0], "BiasAdd"));
  CU_ASSERT(weft_str_is(ops->list.strings[1], "Relu"));
  CU_ASSERT(weft_test_is_gone(g, "p") && weft_test_is_gone(g, "s"));
  weft_graph_destroy(g);
}

static void another_activation_stays_behind(void) {
  const char *const keep[] = {"y", NULL};
  weft_graph_t *g = remapped(LAYER("Exp"), keep);
  CU_ASSERT(weft_str_is(weft_test_node(g, "s")->op->name, "_FusedMatMul"));
  CU_ASSERT_EQUAL(weft_node_attr(weft_test_node(g, "s"), "fused_ops")->n, 1);
  CU_ASSERT(weft_test_reads(g, "r", 0, "s"));
  weft_graph_destroy(g);
}

static void what_others_read_stays(void) {
  const char *const keep[] = {"y", "z", NULL}, *const all[] = {"y", "s", "p", NULL};
  weft_graph_t *g = remapped(LAYER("Relu") ON("z", "Neg", IN1("p"), T_F), keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), 0);
  weft_graph_destroy(g);
  g = remapped(LAYER("Relu"), all);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), 0);
  weft_graph_destroy(g);
}

static void layers_behind_each_other_are_fused_each(void) {
  const char *const keep[] = {"end", NULL};
  weft_graph_t *g =
      remapped(LAYER("Relu6") FED("w2", "") FED("b2", "") ON("p2", "MatMul", IN2("r", "w2"), T_F)
                   ON("y2", "BiasAdd", IN2("p2", "b2"), T_F) ON("end", "Neg", IN1("y2"), T_F),
               keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), 2);
  CU_ASSERT(weft_test_reads(g, "y2", 0, "r"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y2")->inputs[0].node, weft_test_node(g, "r"));
  weft_graph_destroy(g);
}

static void convolutions_keep_their_attributes(void) {
  const char *const keep[] = {"y", NULL};
  weft_graph_t *g = remapped(
      FED("x", "") FED("w", "") FED("b", "")
          ON("p", "Conv2D", IN2("x", "w"),
             T_F "attr{key:'strides' value{list{i:1 i:2 i:2 i:1}}} attr{key:'padding' value{s:'SAME'}}")
              ON("s", "BiasAdd", IN2("p", "b"), T_F)
                  ON("r", "LeakyRelu", IN1("s"), T_F "attr{key:'alpha' value{f:0.5}}")
                      ON("y", "Neg", IN1("r"), T_F),
      keep);
  const weft_node_t *fused = weft_test_node(g, "r");
  CU_ASSERT(weft_str_is(fused->op->name, "_FusedConv2D"));
  CU_ASSERT_EQUAL(weft_node_attr(fused, "strides")->list.ints[1], 2);
  CU_ASSERT_EQUAL(weft_node_attr(fused, "leakyrelu_alpha")->f, 0.5f);
  CU_ASSERT_EQUAL(weft_node_attr(fused, "TArgs")->n, 1);
  weft_graph_destroy(g);
}

static void expect_ops(const weft_node_t *n, const char *const *names, int num) {
  const weft_attr_t *ops = weft_node_attr(n, "fused_ops");
  CU_ASSERT_EQUAL_FATAL(ops->n, num);
  for (int i = 0; i < num; i++) CU_ASSERT(weft_str_is(ops->list.strings[i], names[i]));
}

#define VECTOR(n) "dim{size:" n "}"
#define SIX                                 \
  "attr{key:'dtype' value{type:DT_FLOAT}} " \
  "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{dim{size:5}} float_val:6}}}"
static void an_added_vector_of_the_channels_is_a_bias(void) {
  const char *const keep[] = {"y", NULL}, *const names[] = {"BiasAdd", "Relu"};
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g =
        remapped(i == 0 ? FED("x", "") FED("w", VECTOR("3") VECTOR("5")) FED("b", VECTOR("5"))
                              ON("p", "MatMul", IN2("x", "w"), T_F) ON("s", "AddV2", IN2("b", "p"), T_F)
                                  ON("r", "Relu", IN1("s"), T_F) ON("y", "Neg", IN1("r"), T_F)
                        : FED("x", "") FED("w", VECTOR("3") VECTOR("5")) FED("b", VECTOR("1"))
                              ON("p", "MatMul", IN2("x", "w"), T_F) ON("s", "AddV2", IN2("b", "p"), T_F)
                                  ON("r", "Relu", IN1("s"), T_F) ON("y", "Neg", IN1("r"), T_F),
                 keep);
    CU_ASSERT_EQUAL(weft_test_count(g, "_FusedMatMul"), i == 0);
    if (i == 0) expect_ops(weft_test_node(g, "r"), names, 2);
    if (i == 0) CU_ASSERT(weft_test_reads(g, "r", 2, "b"));
    weft_graph_destroy(g);
  }
}

static void loops_of_other_kernels_go_along(void) {
  const char *const keep[] = {"y", NULL};
  const char *const texts[] = {LAYER("Tanh"), LAYER("Elu"), LAYER("Sigmoid")};
  const char *const names[][2] = {{"BiasAdd", "Tanh"}, {"BiasAdd", "Elu"}, {"BiasAdd", "Sigmoid"}};
  for (int i = 0; i < 3; i++) {
    weft_graph_t *g = remapped(texts[i], keep);
    expect_ops(weft_test_node(g, "r"), names[i], 2);
    weft_graph_destroy(g);
  }
}

#define SWISH(inputs, more)                    \
  FED("x", "")                                 \
  FED("w", "")                                 \
  FED("b", "")                                 \
  ON("p", "Conv2D", IN2("x", "w"), CONV_ATTRS) \
  ON("s", "BiasAdd", IN2("p", "b"), T_F)       \
  ON("g", "Sigmoid", IN1("s"), T_F) ON("r", "Mul", inputs, T_F) ON("y", "Neg", IN1("r"), T_F) more
#define CONV_ATTRS T_F "attr{key:'strides' value{list{i:1 i:1 i:1 i:1}}} attr{key:'padding' value{s:'SAME'}}"

/* Unless something else reads x or the sigmoid, or the two are of different values. */
static void x_times_its_sigmoid_goes_along(void) {
  const char *const keep[] = {"y", "z", NULL}, *const names[] = {"BiasAdd", "Swish"};
  const char *const fused[] = {SWISH(IN2("s", "g"), ""), SWISH(IN2("g", "s"), "")};
  const char *const plain[] = {SWISH(IN2("s", "g"), ON("z", "Neg", IN1("s"), T_F)),
                               SWISH(IN2("s", "g"), ON("z", "Neg", IN1("g"), T_F)),
                               SWISH(IN2("x", "g"), ON("z", "Neg", IN1("s"), T_F))};
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g = remapped(fused[i], keep);
    expect_ops(weft_test_node(g, "r"), names, 2);
    CU_ASSERT(weft_test_is_gone(g, "g") && weft_test_is_gone(g, "s") && weft_test_is_gone(g, "p"));
    weft_graph_destroy(g);
  }
  for (int i = 0; i < 3; i++) {
    weft_graph_t *g = remapped(plain[i], keep);
    CU_ASSERT_EQUAL(weft_test_count(g, "Sigmoid"), 1);
    CU_ASSERT(weft_str_is(weft_test_node(g, "r")->op->name, "Mul"));
    weft_graph_destroy(g);
  }
}

#define SCALED(op, attrs, scale, sum)                       \
  FED("x", "")                                              \
  FED("w", VECTOR("3") VECTOR("3") VECTOR("4") VECTOR("5")) \
  FED("f", VECTOR("5"))                                     \
  FED("t", VECTOR("5"))                                     \
  ON("p", op, IN2("x", "w"), attrs)                         \
  ON("m", "Mul", scale, T_F)                                \
  ON("a", "AddV2", sum, T_F) ON("r", "Relu", IN1("a"), T_F) ON("y", "Neg", IN1("r"), T_F)

/* As tf.nn.batch_normalization writes it. */
static void a_factor_and_a_shift_of_channels_go_along(void) {
  const char *const keep[] = {"y", NULL}, *const names[] = {"Mul", "BiasAdd", "Relu"};
  const char *const texts[] = {SCALED("Conv2D", CONV_ATTRS, IN2("p", "f"), IN2("m", "t")),
                               SCALED("Conv2D", CONV_ATTRS, IN2("f", "p"), IN2("t", "m"))};
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g = remapped(texts[i], keep);
    expect_ops(weft_test_node(g, "r"), names, 3);
    CU_ASSERT(weft_test_reads(g, "r", 2, "f") && weft_test_reads(g, "r", 3, "t"));
    weft_graph_destroy(g);
  }
}

/* What stands behind an Add may have no second input: a constant, or a function of one tensor. */
static void a_sum_of_what_is_no_product_stays(void) {
  const char *const keep[] = {"y", NULL};
  weft_graph_t *g = remapped(FED("x", VECTOR("5")) ON("n", "Neg", IN1("x"), T_F) ON("c", "Const", "", SIX)
                                 ON("s", "AddV2", IN2("n", "c"), T_F) ON("t", "AddV2", IN2("c2", "s"), T_F)
                                     ON("c2", "Const", "", SIX) ON("y", "Relu", IN1("t"), T_F),
                             keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "AddV2"), 2);
  weft_graph_destroy(g);
}

/* A convolution, its normalisation `n` with given moments, and the sum `a` with `z`. `norm`: attributes of n.
 */
#define GIVEN_MOMENTS "attr{key:'is_training' value{b:false}} attr{key:'epsilon' value{f:0.5}}"
#define NORM(name, of, attrs)                                                                         \
  ON(name, "FusedBatchNormV3", IN1(of) " input:'scale' input:'offset' input:'mean' input:'variance'", \
     T_F "attr{key:'U' value{type:DT_FLOAT}} " attrs)
#define RESIDUAL(norm, sum_inputs)             \
  FED("x", "")                                 \
  FED("w", "")                                 \
  FED("b", "")                                 \
  FED("z", "")                                 \
  FED("scale", "")                             \
  FED("offset", "")                            \
  FED("mean", "")                              \
  FED("variance", "")                          \
  ON("p", "Conv2D", IN2("x", "w"), CONV_ATTRS) \
  NORM("n", "p", norm)                         \
  ON("a", "AddV2", sum_inputs, T_F) ON("r", "Relu", IN1("a"), T_F) ON("y", "Neg", IN1("r"), T_F)

static void a_normalisation_and_a_sum_go_along(void) {
  const char *const keep[] = {"y", NULL}, *const names[] = {"FusedBatchNorm", "Add", "Relu"};
  const char *const sums[] = {RESIDUAL(GIVEN_MOMENTS, IN2("n", "z")), RESIDUAL(GIVEN_MOMENTS, IN2("z", "n"))};
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g = remapped(sums[i], keep);
    const weft_node_t *fused = weft_test_node(g, "r");
    CU_ASSERT(weft_str_is(fused->op->name, "_FusedConv2D"));
    CU_ASSERT_EQUAL_FATAL(fused->num_inputs, 7);
    CU_ASSERT(weft_test_reads(g, "r", 2, "scale"));
    CU_ASSERT(weft_test_reads(g, "r", 5, "variance"));
    CU_ASSERT(weft_test_reads(g, "r", 6, "z"));
    expect_ops(fused, names, 3);
    CU_ASSERT_EQUAL(weft_node_attr(fused, "epsilon")->f, 0.5f);
    CU_ASSERT_EQUAL(weft_node_attr_int(fused, "num_args", 0), 5);
    CU_ASSERT(weft_str_is(weft_node_attr_string(fused, "_sum_node"), "a"));
    CU_ASSERT(weft_test_is_gone(g, "p") && weft_test_is_gone(g, "n") && weft_test_is_gone(g, "a"));
    weft_graph_destroy(g);
  }
}

static void a_bias_before_a_normalisation_goes_along(void) {
  const char *const keep[] = {"y", NULL}, *const names[] = {"BiasAdd", "FusedBatchNorm"};
  weft_graph_t *g = remapped(RESIDUAL(GIVEN_MOMENTS, IN2("m", "z")) ON("s", "BiasAdd", IN2("p", "b"), T_F)
                                 NORM("m", "s", GIVEN_MOMENTS) ON("k", "Neg", IN1("a"), T_F),
                             (const char *const[]){"y", "k", NULL});
  CU_ASSERT(weft_str_is(weft_test_node(g, "a")->op->name, "AddV2")); /* p has two readers */
  weft_graph_destroy(g);
  g = remapped(FED("x", "") FED("w", "") FED("b", "") FED("scale", "") FED("offset", "") FED("mean", "")
                   FED("variance", "") ON("p", "Conv2D", IN2("x", "w"), CONV_ATTRS)
                       ON("s", "BiasAdd", IN2("p", "b"), T_F) NORM("m", "s", GIVEN_MOMENTS)
                           ON("y", "Neg", IN1("m"), T_F),
               keep);
  expect_ops(weft_test_node(g, "m"), names, 2);
  weft_graph_destroy(g);
}

static void of_two_products_one_is_added_to_the_other(void) {
  const char *const keep[] = {"y", NULL};
  weft_graph_t *g = remapped(RESIDUAL(GIVEN_MOMENTS, IN2("n", "n2")) FED("w2", "") ON(
                                 "p2", "Conv2D", IN2("x", "w2"), CONV_ATTRS) NORM("n2", "p2", GIVEN_MOMENTS),
                             keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedConv2D"), 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "AddV2"), 0);
  CU_ASSERT(weft_test_reads(g, "r", 6, "n2"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "r")->inputs[6].node, weft_test_node(g, "n2"));
  weft_graph_destroy(g);
}

static void a_normalisation_by_the_batch_or_with_other_readers_stays(void) {
  const char *const keep[] = {"y", "k", NULL};
  weft_graph_t *g = remapped(RESIDUAL("attr{key:'is_training' value{b:true}}", IN2("n", "z")), keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedConv2D"), 0);
  weft_graph_destroy(g);
  g = remapped(RESIDUAL(GIVEN_MOMENTS, IN2("n", "z")) ON("k", "Neg", IN1("n:1"), T_F), keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "_FusedConv2D"), 0);
  weft_graph_destroy(g);
}

/* A convolution of a padded image of rank 4: `filter` is a constant's values, `pads` those of the paddings.
 */
#define PADDED(op, image, filter, pads, attrs)                                                   \
  FED("x", "dim{size:-1} dim{size:-1} dim{size:-1} dim{size:1}")                                 \
  FED("any", "")                                                                                 \
  CONST("w", "DT_FLOAT", "dim{size:1} dim{size:1} dim{size:1} dim{size:1}", "float_val:" filter) \
  CONST("pads", "DT_INT32", "dim{size:4} dim{size:2}", pads)                                     \
  NODE("pad", "Pad", IN2(image, "pads"), T_F) NODE("y", op, IN2("pad", "w"), T_F STRIDES attrs)
#define STRIDES "attr{key:'strides' value{list{i:1 i:2 i:2 i:1}}} "
#define VALID "attr{key:'padding' value{s:'VALID'}} "
#define SIDES "int_val:0 int_val:0 int_val:1 int_val:2 int_val:0 int_val:1 int_val:0 int_val:0"

static void check_padded(const char *text, bool is_folded) {
  weft_graph_t *g = remapped(text, (const char *const[]){"y", NULL});
  const weft_node_t *y = weft_test_node(g, "y");
  CU_ASSERT_EQUAL(weft_test_is_gone(g, "pad"), is_folded);
  CU_ASSERT(weft_test_reads(g, "y", 0, is_folded ? "x" : "pad"));
  if (is_folded) {
    static const int64_t sides[] = {0, 0, 1, 2, 0, 1, 0, 0};
    const weft_attr_t *pads = weft_node_attr(y, "explicit_paddings");
    CU_ASSERT(weft_str_is(weft_node_attr_string(y, "padding"), "EXPLICIT"));
    CU_ASSERT_EQUAL_FATAL(pads->n, 8);
    for (int i = 0; i < 8; i++) CU_ASSERT_EQUAL(pads->list.ints[i], sides[i]);
  }
  weft_graph_destroy(g);
}

static void a_convolution_pads_its_images_itself(void) {
  check_padded(PADDED("Conv2D", "x", "2", SIDES, VALID), true);
  check_padded(PADDED("DepthwiseConv2dNative", "x", "2", SIDES, VALID), true);
}

static void a_pad_stays_that_a_convolution_cannot_be_given(void) {
  check_padded(PADDED("Conv2D", "x", "inf", SIDES, VALID), false);
  check_padded(PADDED("Conv2D", "x", "nan", SIDES, VALID), false);
  check_padded(PADDED("Conv2D", "x", "2", SIDES, "attr{key:'padding' value{s:'SAME'}} "), false);
  check_padded(PADDED("Conv2D", "any", "2", SIDES, VALID), false);
  check_padded(PADDED("Conv2D", "x", "2", "int_val:1", VALID), false); /* images and channels, too */
  check_padded(PADDED("Conv2D", "x", "2", SIDES, VALID "attr{key:'data_format' value{s:'NCHW'}} "), false);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"a layer becomes one node with the last one's name", a_layer_becomes_one_node_with_the_last_ones_name},
      {"another activation stays behind", another_activation_stays_behind},
      {"loops of other kernels go along", loops_of_other_kernels_go_along},
      {"x times its sigmoid goes along", x_times_its_sigmoid_goes_along},
      {"a factor and a shift of channels go along", a_factor_and_a_shift_of_channels_go_along},
      {"what others read stays", what_others_read_stays},
      {"layers behind each other are fused each", layers_behind_each_other_are_fused_each},
      {"convolutions keep their attributes", convolutions_keep_their_attributes},
      {"an added vector of the channels is a bias", an_added_vector_of_the_channels_is_a_bias},
      {"a sum of what is no product stays", a_sum_of_what_is_no_product_stays},
      {"a normalisation and a sum go along", a_normalisation_and_a_sum_go_along},
      {"a bias before a normalisation goes along", a_bias_before_a_normalisation_goes_along},
      {"of two products one is added to the other", of_two_products_one_is_added_to_the_other},
      {"a normalisation by the batch, or with other readers, stays",
       a_normalisation_by_the_batch_or_with_other_readers_stays},
      {"on other devices a kernel is asked for", on_other_devices_a_kernel_is_asked_for},
      {"a convolution pads its images itself", a_convolution_pads_its_images_itself},
      {"a Pad stays that a convolution cannot be given", a_pad_stays_that_a_convolution_cannot_be_given},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("remap", tests);
}
