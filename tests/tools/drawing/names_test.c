/* tests/tools/drawing/names_test.c - what names of nodes say. */
#include "tools/drawing/names.h"

#include "tests/runner.h"

static void copies_have_the_name_of_the_original(void) {
  static const char *const names[][2] = {{"replica_1/dense/MatMul", "dense/MatMul"},
                                         {"dense/kernel/replica_12", "dense/kernel"},
                                         {"worker_0/x", "x"},
                                         {"replica_1", "replica_1"},
                                         {"replica_x/y", "replica_x/y"},
                                         {"dense/replica_1/MatMul", "dense/replica_1/MatMul"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    CU_ASSERT_TRUE(weft_str_is(weft_drawn_plain_name(weft_str(names[i][0])), names[i][1]));
}

static void gradients_are_known_by_their_scope(void) {
  static const char *const names[][3] = {
      {"gradients/dense/MatMul_grad/MatMul", "", "dense/MatMul_grad/MatMul"},
      {"gradients_2/Mul", "", "Mul"},
      {"train/gradient_tape/net/dense/MatMul", "train", "net/dense/MatMul"},
      {"gradients", NULL, NULL},
      {"my_gradients/x", NULL, NULL},
      {"dense/gradients", NULL, NULL}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    weft_str_t before, behind;
    const bool is_gradient = weft_drawn_is_gradient(weft_str(names[i][0]), &before, &behind);
    CU_ASSERT_EQUAL(is_gradient, names[i][1] != NULL);
    if (is_gradient) CU_ASSERT_TRUE(weft_str_is(before, names[i][1]) && weft_str_is(behind, names[i][2]));
  }
}

static void what_strategies_add_is_known(void) {
  static const struct {
    const char *name;
    weft_drawn_kind_t kind;
  } cases[] = {{"dense/MatMul", WEFT_DRAWN_USER},
               {"my/weft_like/x", WEFT_DRAWN_USER},
               {"weft/train/x/rows", WEFT_DRAWN_SPLIT},
               {"weft/train/x/share", WEFT_DRAWN_WEIGHTS},
               {"weft/weighted/train/sgd/Mul_5", WEFT_DRAWN_WEIGHTS},
               {"weft/bucket_0/flat", WEFT_DRAWN_COLLECTIVE},
               {"weft/all_reduce_0", WEFT_DRAWN_COLLECTIVE},
               {"weft/sum/loss", WEFT_DRAWN_SUM},
               {"weft/kept_step_0/read", WEFT_DRAWN_KEPT},
               {"parameter_server/pick/x", WEFT_DRAWN_TRANSFER},
               {"weft/axes/x", WEFT_DRAWN_OTHER}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_str_t behind;
    CU_ASSERT_EQUAL(weft_drawn_kind_of(weft_str(cases[i].name), &behind), cases[i].kind);
  }
}

static void numbers_at_the_end_are_no_part_of_a_stem(void) {
  static const char *const names[][2] = {{"block_3", "block"}, {"block_3_1", "block"}, {"conv2d", "conv2d"},
                                         {"conv2", "conv"},    {"12", "12"},           {"", ""}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    CU_ASSERT_TRUE(weft_str_is(weft_drawn_stem(weft_str(names[i][0])), names[i][1]));
}

static void paths_are_below_their_scopes(void) {
  CU_ASSERT_TRUE(weft_drawn_is_below(WEFT_STR("a/b"), WEFT_STR("a")) &&
                 weft_drawn_is_below(WEFT_STR("a"), WEFT_STR("")));
  CU_ASSERT_FALSE(weft_drawn_is_below(WEFT_STR("ab/c"), WEFT_STR("a")) ||
                  weft_drawn_is_below(WEFT_STR("a"), WEFT_STR("a/b")));
  CU_ASSERT_TRUE(weft_str_is(weft_drawn_parent(WEFT_STR("a/b/c")), "a/b") &&
                 weft_str_is(weft_drawn_last(WEFT_STR("a/b/c")), "c"));
  CU_ASSERT_TRUE(weft_str_is(weft_drawn_parent(WEFT_STR("a")), "") &&
                 weft_str_is(weft_drawn_last(WEFT_STR("a")), "a"));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"copies have the name of the original", copies_have_the_name_of_the_original},
      {"gradients are known by their scope", gradients_are_known_by_their_scope},
      {"what strategies add is known", what_strategies_add_is_known},
      {"numbers at the end are no part of a stem", numbers_at_the_end_are_no_part_of_a_stem},
      {"paths are below their scopes", paths_are_below_their_scopes},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("tools/drawing/names", tests);
}
