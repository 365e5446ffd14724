/* Accumulators and barriers, in TensorFlow's words. */
#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))
#define APPLY "ResourceAccumulatorApplyGradient", ""
#define TAKE "ResourceAccumulatorTakeGradient", "dtype=float"
#define COUNT "ResourceAccumulatorNumAccumulated", "", ""

static void dense_gradients_are_averaged(void) {
  static const weft_call_t calls[] = {
      {APPLY, "int64[]:0 float[2]:1,2", ""},
      {APPLY, "int64[]:0 float[2]:3,4", ""},
      {COUNT, "int32[]:2"},
      {APPLY, "int64[]:0 float[3]:1,2,3", "INVALID_ARGUMENT: Shape mismatch: expected [2], got [3]"},
      {APPLY, "int64[]:-1 float[2]:9,9", ""}, /* stale: dropped */
      {COUNT, "int32[]:2"},
      {TAKE, "int32[]:0", "INVALID_ARGUMENT: Argument num_required must be positive, but was 0"},
      {TAKE, "int32[]:2", "float[2]:2,3"},
      {COUNT, "int32[]:0"},
      {APPLY, "int64[]:0 float[2]:1,1", ""}, /* taking has moved it to step 1 */
      {COUNT, "int32[]:0"},
      {"ResourceAccumulatorSetGlobalStep", "", "int64[]:5", ""},
      {"ResourceAccumulatorSetGlobalStep", "", "int64[]:3", ""},
      {APPLY, "int64[]:3 float[2]:5,5", ""},
      {COUNT, "int32[]:1"},
      {APPLY, "int64[1]:1 float[2]:1,2",
       "INVALID_ARGUMENT: Argument local_step must be scalar, but had bad shape [1]"},
      {APPLY, "int64[]:1 double[2]:1,2",
       "INVALID_ARGUMENT: Signature mismatch, have: resource, int64, double-> expected: resource, int64, "
       "float->"},
  };
  begin();
  weft_made_t a = weft_make(&bench, "ResourceConditionalAccumulator", "dtype=float shape=[2]");
  RUN(a.value, calls);
  weft_made_drop(&a);
  end();
}

static void sums_are_not_divided(void) {
  static const weft_call_t calls[] = {
      {APPLY, "int64[]:0 float[1]:1", ""},
      {APPLY, "int64[]:0 float[1]:2", ""},
      {TAKE, "int32[]:1", "float[1]:3"},
  };
  begin();
  weft_made_t a =
      weft_make(&bench, "ResourceConditionalAccumulator", "dtype=float shape=? reduction_type=SUM");
  RUN(a.value, calls);
  weft_made_drop(&a);
  end();
}

#define SAPPLY "SparseAccumulatorApplyGradient", "has_known_shape=false"
#define SAPPLY_KNOWN "SparseAccumulatorApplyGradient", "has_known_shape=true"
#define STAKE "SparseAccumulatorTakeGradient", "dtype=float"

static void sparse_rows_are_averaged_by_their_own_count(void) {
  static const weft_call_t calls[] = {
      {SAPPLY, "int64[]:0 int64[2]:0,2 float[2,2]:1,1,2,2 int64[0]:", ""},
      {SAPPLY, "int64[]:0 int64[2]:2,3 float[2,2]:3,3,4,4 int64[0]:", ""},
      {STAKE, "int32[]:2", "int64[3]:0,2,3 float[3,2]:1,1,2.5,2.5,4,4 int64[2]:-1,2"},
      {SAPPLY, "int64[]:1 int64[3]:3,1,1 float[3,2]:1,1,2,2,5,5 int64[0]:", ""},
      {STAKE, "int32[]:1", "int64[3]:3,1,1 float[3,2]:1,1,2,2,5,5 int64[2]:-1,2"},
      {SAPPLY, "int64[]:2 int64[1,1]:1 float[1,2]:1,1 int64[0]:",
       "INVALID_ARGUMENT: Input indices should be vector but received shape: [1,1]"},
      {SAPPLY, "int64[]:2 int64[2]:1,2 float[1,2]:1,1 int64[0]:",
       "INVALID_ARGUMENT: Expected 2 non-empty input values, got 1"},
      {SAPPLY, "int64[]:2 int64[1]:1 float[1,3]:1,1,3 int64[0]:",
       "INVALID_ARGUMENT: Shape mismatch: expected values dim 1 to be 2, got 3"},
      {SAPPLY_KNOWN, "int64[]:2 int64[1]:1 float[1,2]:1,1 int64[2]:5,3",
       "INVALID_ARGUMENT: Shape mismatch: expected shape dim 1 to be 2, got 3"},
      {SAPPLY_KNOWN, "int64[]:2 int64[1]:1 float[1,2]:1,1 int64[2]:5,2", ""},
      {SAPPLY, "int64[]:2 int64[0]: float[0,2]: int64[0]:", ""},
      {"AccumulatorNumAccumulated", "", "", "int32[]:2"},
      {SAPPLY, "int64[]:2 int64[1]:1 float[1]:1 int64[0]:",
       "INVALID_ARGUMENT: Shape mismatch: expected values rank 2, got 1"},
  };
  begin();
  weft_made_t a = weft_make(&bench, "SparseConditionalAccumulator", "dtype=float shape=[?,2]");
  RUN(a.value, calls);
  weft_made_drop(&a);
  end();
}

static void a_take_that_waits_is_cancelled(void) {
  begin();
  weft_made_t a = weft_make(&bench, "ResourceConditionalAccumulator", "dtype=float shape=[2]");
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, a.value, TAKE, "int32[]:1", "CANCELLED: TakeGrad operation was cancelled");
  weft_made_drop(&a);
  end();
}

#define INSERT0 "BarrierInsertMany", "component_index=0"
#define INSERT1 "BarrierInsertMany", "component_index=1"
#define TAKE_MANY "BarrierTakeMany", "component_types=[float,int32]"

static void a_barrier_puts_tuples_together(void) {
  static const weft_call_t calls[] = {
      {INSERT0, "string[2]:'a','b' float[2]:1,2", ""},
      {"BarrierIncompleteSize", "", "", "int32[]:2"},
      {"BarrierReadySize", "", "", "int32[]:0"},
      {INSERT1, "string[1]:'b' int32[1,2]:3,4", ""},
      {"BarrierIncompleteSize", "", "", "int32[]:1"},
      {"BarrierReadySize", "", "", "int32[]:1"},
      {INSERT0, "string[1]:'a' float[1]:1",
       "INVALID_ARGUMENT: Key a already has a value for component 0 in barrier _0_n"},
      {INSERT1, "string[1]:'c' int32[1,3]:3,4,5", ""},
      {INSERT0, "string[1]:'c' float[1]:1",
       "INVALID_ARGUMENT: Shape mismatch in tuple component 3. Expected [2], got [3]"},
      {"BarrierInsertMany", "component_index=5", "string[1]:'q' float[1]:1",
       "INVALID_ARGUMENT: The component ID is out of range 5 > num_components (= 2)"},
      {TAKE_MANY, "int32[]:1", "int64[1]:-9223372036854775808 string[1]:'b' float[1]:2 int32[1,2]:3,4"},
      {TAKE_MANY, "int32[]:0", "int64[0]: string[0]: float[0]: int32[0,2]:"},
      {"BarrierClose", "", "", ""},
      {INSERT0, "string[1]:'zz' float[1]:1",
       "CANCELLED: Barrier _0_n is closed, but attempted to insert a brand new key: zz.  Pending enqueues "
       "cancelled: 0. "
       " Insertion index: 0.  Number of incomplete keys: 2."},
      {INSERT1, "string[1]:'a' int32[1,2]:5,6", ""},
      {TAKE_MANY " allow_small_batch=true", "int32[]:7",
       "int64[1]:-9223372036854775808 string[1]:'a' float[1]:1 int32[1,2]:5,6"},
      {"BarrierClose", "", "", "CANCELLED: Barrier '_0_n' is already closed."},
      {"BarrierClose", "cancel_pending_enqueues=true", "", ""},
      {INSERT1, "string[1]:'a' int32[1,2]:1,2",
       "CANCELLED: Barrier _0_n is closed.  Pending enqueues cancelled: 1.  Number of new insertions: 1.  "
       "Number of "
       "incomplete keys: 0."},
      {TAKE_MANY, "int32[]:1",
       "OUT_OF_RANGE: Barrier '_0_n' is closed and has insufficient elements (requested 1, total size 0)"},
  };
  begin();
  weft_made_t b = weft_make(&bench, "Barrier", "component_types=[float,int32] shapes=[[],[2]]");
  RUN(b.value, calls);
  weft_made_drop(&b);
  end();
}

static const CU_TestInfo tests[] = {
    {"dense gradients are averaged", dense_gradients_are_averaged},
    {"sums are not divided", sums_are_not_divided},
    {"sparse rows are averaged by their own count", sparse_rows_are_averaged_by_their_own_count},
    {"a take that waits is cancelled", a_take_that_waits_is_cancelled},
    {"a barrier puts tuples together", a_barrier_puts_tuples_together},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("accumulator", tests); }
