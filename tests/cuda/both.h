/* tests/cuda/both.h - graphs that run on the CUDA device and on the CPU, and give the same. */
#ifndef WEFT_TESTS_CUDA_BOTH_H_
#define WEFT_TESTS_CUDA_BOTH_H_

#include "tests/client/client_testing.h"

/* float or double values that differ from each other, in [-1, 1]. */
TF_Tensor *weft_both_values(TF_DataType type, int rank, const int64_t *dims, int seed);

/* Makes a graph whose nodes are pinned to `device`; what it returns is fetched. */
typedef TF_Output weft_both_build_fn(world_t *w, const char *device);
/* The results on the device and on the CPU, float or double, differ by at most `tolerance` of their size. */
void weft_both_agree(weft_both_build_fn *build, double tolerance);

/* The emulated device, unless other libraries are named, as by tests/cuda/run. Before the first session. */
void weft_both_emulate(void);

#endif /* WEFT_TESTS_CUDA_BOTH_H_ */
