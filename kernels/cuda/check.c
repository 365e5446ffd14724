/* kernels/cuda/check.c - rows of CheckNumerics and CheckNumericsV2: whether they fail is known when the
 * device has looked at all elements. */
#include "base/alloc.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(check_instances, check, FLOAT)

enum { HAS_NAN, HAS_LOW, HAS_HIGH, NUM_FOUND };

typedef struct check_state {
  const char *message; /* not ended by '\0' */
  size_t length;
} check_state_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  (void)param;
  check_state_t *state = weft_calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: CheckNumerics");
  (void)weft_cuda_host->attr_string(s, "message", &state->message, &state->length);
  *out_state = state;
  return NULL;
}

static WEFT_Failure *check(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  void *found = NULL, *told = NULL;
  const size_t bytes = NUM_FOUND * sizeof(int32_t);
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, bytes, &told));
  if (x.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &found));
  WEFT_CUDA_TRY(weft_cuda_fill(c, found, 0, bytes));
  void *args[] = {&x.data, &x.count, &found};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&check_instances, x.dtype), x.count, 4, args));
  return weft_cuda_read(c, told, found, bytes);
}

/* What was found, in TensorFlow's words; NULL: nothing. */
static const char *words(const int32_t *found, bool has_signs) {
  static const char *const plain[2][2] = {{NULL, "NaN"}, {"Inf", "Inf and NaN"}};
  static const char *const with_signs[2][2][2] = {
      {{NULL, "NaN"}, {"+Inf", "+Inf and NaN"}},
      {{"-Inf", "-Inf and NaN"}, {"-Inf and +Inf", "-Inf, +Inf, and NaN"}}};
  const int nan = found[HAS_NAN] != 0, low = found[HAS_LOW] != 0, high = found[HAS_HIGH] != 0;
  return has_signs ? with_signs[low][high][nan] : plain[low | high][nan];
}

static WEFT_Failure *finish(WEFT_KernelContext *c) {
  const check_state_t *state = weft_cuda_host->state(c);
  WEFT_TensorView x;
  void *told = NULL;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, 0, &told));
  const char *what = words(told, weft_cuda_host->param(c) != NULL);
  if (what == NULL) return weft_cuda_host->output_is_input(c, 0, 0, x.rank, x.dims);
  return WEFT_CUDA_INVALID("%.*s : Tensor had %s values", (int)state->length, state->message, what);
}

#define ROW(op_, param_)                                                                              \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = check, \
    .finish = finish, .destroy = weft_free, .param = param_                                           \
  }
const WEFT_DeviceKernel weft_cuda_check_kernels[] = {
    ROW("CheckNumerics", NULL),
    ROW("CheckNumericsV2", "signs"), /* they are told apart */
    {.op = NULL},
};
