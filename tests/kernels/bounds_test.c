/* Sizes that an input or an attribute asks for are checked before memory is taken for them. */
#include "tests/kernels/script.h"

static weft_bench_t bench;

/* 2^39 rows of one float would be 2 TB. */
#define HUGE_ROWS "549755813888"

static void ids_are_checked_before_rows_are_made(void) {
  static const weft_call_t calls[] = {
      {"SparseSegmentMeanGrad", "", "float[1,1]:1 int32[1]:7 int32[1]:3 int32[]:2000000000",
       "INVALID_ARGUMENT: Segment id 3 out of range [0, 1)."},
      {"UnsortedSegmentSum", "", "float[1]:1 int64[1]:" HUGE_ROWS " int64[]:" HUGE_ROWS,
       "INVALID_ARGUMENT: segment_ids[0] = " HUGE_ROWS " is out of range [0, " HUGE_ROWS ")"},
      {"SegmentSum", "", "float[2]:1,2 int64[2]:" HUGE_ROWS ",1",
       "INVALID_ARGUMENT: segment ids are not increasing"},
  };
  weft_expect_all(&bench, (weft_value_t){0}, calls, sizeof calls / sizeof calls[0]);
}

static void an_axis_may_be_any_number(void) {
  static const weft_call_t calls[] = {
      {"OneHot", "axis=9223372036854775807", "int32[2]:0,1 int32[]:2 float[]:1 float[]:0",
       "INVALID_ARGUMENT: Expected axis to be -1 or between [0, 2).  But received: 9223372036854775807"},
      {"OneHot", "axis=4294967296", "int32[2]:0,1 int32[]:2 float[]:1 float[]:0",
       "INVALID_ARGUMENT: Expected axis to be -1 or between [0, 2).  But received: 4294967296"},
      {"OneHot", "axis=-1", "int32[2]:0,1 int32[]:2 float[]:1 float[]:0", "float[2,2]:1,0,0,1"},
  };
  weft_expect_all(&bench, (weft_value_t){0}, calls, sizeof calls / sizeof calls[0]);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"ids are checked before rows are made", ids_are_checked_before_rows_are_made},
      {"an axis may be any number", an_axis_may_be_any_number},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("bounds", tests, &bench);
}
