/* kernels/cuda/truncated.c - the row of StatelessParameterizedTruncatedNormal. Shape and seed lie in the
 * host's memory; whether the parameters on the device are those of distributions is known when it is done. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/random.h"
#include "kernels/cuda/truncated_args.h"

WEFT_CUDA_INSTANCES(truncated_instances, truncated, F32_F64_F16)

enum { NUM_PARAMETERS = 4, FIRST_PARAMETER = 2 };

/* A walk over the samples, to each the parameters of its set; *out_sets: how many sets there are. */
static WEFT_Failure *walk_over(WEFT_KernelContext *c, const WEFT_TensorView *y, weft_cuda_truncated_t *p,
                               weft_cuda_walk_t *out, int64_t *out_sets) {
  int64_t sets[WEFT_CUDA_DIMS];
  int rank = 0;
  WEFT_TensorView v[NUM_PARAMETERS];
  for (int d = 0; d < WEFT_CUDA_DIMS; d++) sets[d] = 1; /* from the last dimension on */
  for (int i = 0; i < NUM_PARAMETERS; i++) {
    weft_cuda_host->input(c, FIRST_PARAMETER + i, &v[i]);
    p->at[i] = v[i].data;
    if (v[i].rank > rank) rank = v[i].rank;
    for (int d = 0; d < v[i].rank; d++) {
      const int64_t dim = v[i].dims[v[i].rank - 1 - d];
      if (dim != 1 && sets[d] != 1 && sets[d] != dim) {
        return WEFT_CUDA_INVALID("means, stddevs, minvals, maxvals must have compatible batch dimensions: %s",
                                 WEFT_CUDA_SHAPE(&v[i]));
      }
      if (dim != 1) sets[d] = dim;
    }
  }
  bool fits = rank <= y->rank;
  *out_sets = 1;
  for (int d = 0; fits && d < rank; d++) {
    fits = y->dims[y->rank - 1 - d] == sets[d];
    *out_sets *= sets[d];
  }
  if (!fits) return WEFT_CUDA_INVALID("Shape passed in must end with broadcasted shape.");
  weft_cuda_walk_init(out, y->rank, y->dims);
  for (int i = 0; i < NUM_PARAMETERS; i++) (void)weft_cuda_walk_broadcast(out, i, v[i].rank, v[i].dims);
  return NULL;
}

static WEFT_Failure *draw(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  weft_cuda_generator_t g;
  weft_cuda_truncated_t p;
  weft_cuda_walk_t w;
  void *failed = NULL;
  int64_t sets = 0;
  int at = 1;
  WEFT_CUDA_TRY(weft_cuda_generator_read(c, WEFT_CUDA_FROM_SEED, &at, &g));
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  WEFT_CUDA_TRY(walk_over(c, &y, &p, &w, &sets));
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &failed));
  if (y.count == 0) return NULL;
  void *args[] = {&p, &y.data, &sets, &failed, &g.key, &g.low, &g.high, &w};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&truncated_instances, y.dtype), y.count, 1, args));
  return weft_cuda_note_send(c, failed);
}

static WEFT_Failure *finish(WEFT_KernelContext *c) {
  int32_t failed = 0;
  WEFT_CUDA_TRY(weft_cuda_note_value(c, &failed));
  switch (failed) {
    case 0: return NULL;
    case WEFT_CUDA_TRUNCATED_PARAMETERS: return WEFT_CUDA_INVALID("Invalid parameters");
    case WEFT_CUDA_TRUNCATED_NORMAL:
      return weft_cuda_host->failure(WEFT_CUDA_INTERNAL,
                                     "TruncatedNormal randn rejection sampler failed to accept a sample.");
    case WEFT_CUDA_TRUNCATED_UNIFORM:
      return weft_cuda_host->failure(WEFT_CUDA_INTERNAL,
                                     "TruncatedNormal uniform rejection sampler failed to  accept a sample.");
    default:
      return weft_cuda_host->failure(
          WEFT_CUDA_INTERNAL,
          "TruncatedNormal exponential distribution rejection sampler failed to accept a sample.");
  }
}

const WEFT_DeviceKernel weft_cuda_truncated_kernels[] = {
    {.op = "StatelessParameterizedTruncatedNormal",
     .type_attr = "dtype",
     .types = WEFT_CUDA_SET(F32_F64_F16),
     .compute = draw,
     .finish = finish,
     .host_inputs = 1 | 2},
    {.op = NULL},
};
