/* tests/fuzz/uniform_conv_fuzz.c - the dimension numbers of a UniformQuantizedConvolution. */
#include "ops/uniform_conv.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES(
        "\x08\x00\x10\x03\x1a\x02\x01\x02\x20\x02\x28\x03\x32\x02\x00\x01\x38\x00\x40\x03\x4a\x02\x01\x02"),
    WEFT_FUZZ_BYTES("\x10\x01\x18\x02\x18\x03\x20\x01\x30\x02\x30\x03\x40\x01\x48\x02\x48\x03"),
    WEFT_FUZZ_BYTES("\x1a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    WEFT_FUZZ_BYTES("\x1a\x05\x80\x80"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  const weft_attr_t none = {.kind = WEFT_ATTR_INT, .is_list = true};
  const weft_attr_t one = {.kind = WEFT_ATTR_INT, .i = 1};
  const weft_attr_t padding = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("SAME")};
  const weft_attr_t numbers = {.kind = WEFT_ATTR_STRING, .s = weft_str_of((const char *)data, size)};
  const weft_named_attr_t attrs[] = {
      {weft_str("padding"), padding},       {weft_str("explicit_padding"), none},
      {weft_str("window_strides"), none},   {weft_str("lhs_dilation"), none},
      {weft_str("rhs_dilation"), none},     {weft_str("feature_group_count"), one},
      {weft_str("batch_group_count"), one}, {weft_str("dimension_numbers"), numbers},
  };
  const weft_shape_t shape = {.rank = 4, .dims = {3, 3, 3, 3}};
  weft_uniform_conv_t plan;
  weft_status_t *s = weft_uniform_conv_plan(attrs, 8, &shape, &shape, &plan);
  for (int i = 0; s == NULL && i < shape.rank; i++) {
    weft_fuzz_check(plan.lhs[i] >= 0 && plan.lhs[i] < 4 && plan.rhs[i] >= 0 && plan.rhs[i] < 4 &&
                        plan.out[i] >= 0 && plan.out[i] < 4,
                    "a dimension that there is not");
    weft_fuzz_check(plan.shape.dims[i] >= 0, "a negative dimension");
  }
  weft_status_free(s);
}
