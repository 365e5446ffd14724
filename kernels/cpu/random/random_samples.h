/* kernels/cpu/random/random_samples.h - distributions with parameters: a number of samples for each set of
 * parameters.
 *
 * The output is [samples..., sets...]. Sample s of set p is number p * samples + s: each number has blocks of
 * the generator for itself, so that the threads that share the work do not show.
 */
#ifndef WEFT_KERNELS_CPU_RANDOM_RANDOM_SAMPLES_H_
#define WEFT_KERNELS_CPU_RANDOM_RANDOM_SAMPLES_H_

#include "kernels/cpu/random/random_fill.h"

enum { WEFT_SAMPLES_MAX_PARAMETERS = 4 };

typedef struct weft_samples weft_samples_t;
/* Number `number`, which is one of set `set`. The result is rounded to the output's type. */
typedef double weft_sample_fn(const weft_samples_t *s, int64_t set, int64_t number);

struct weft_samples {
  weft_philox_t generator;
  weft_sample_fn *draw;
  double *parameters[WEFT_SAMPLES_MAX_PARAMETERS]; /* owned; one for each set */
  weft_dtype_t type;                               /* that the parameters had */
  int64_t num_sets, num_samples;                   /* samples of each set */
  weft_tensor_t *out;
};

/* The values of `t`, broadcast to `sets`, as doubles; the caller frees *out. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_samples_parameter(const weft_tensor_t *t, const weft_shape_t *sets,
                                                      double **out);
/* num_samples, and num_sets, of an output that is to end in the shape of the sets.
 * Errors: INVALID_ARGUMENT: it does not. */
WEFT_MUST_CHECK weft_status_t *weft_samples_plan(weft_samples_t *s, const weft_shape_t *output,
                                                 const weft_shape_t *sets);
/* Draws all of s->out. */
void weft_samples_fill(const weft_samples_t *s, weft_thread_pool_t *pool);
/* Frees the parameters. */
void weft_samples_deinit(weft_samples_t *s);

/* ---- ops with one parameter ---- */

/* Inputs: shape, parameter; the sets' shape is appended. From the stream of the node's state.
 * Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_samples_of_stream(weft_kernel_ctx_t *ctx, weft_sample_fn *draw);
/* Inputs: shape, seed, parameter. */
WEFT_MUST_CHECK weft_status_t *weft_samples_of_seed(weft_kernel_ctx_t *ctx, weft_sample_fn *draw);
/* Inputs: shape, key, counter, algorithm, parameter. */
WEFT_MUST_CHECK weft_status_t *weft_samples_of_key(weft_kernel_ctx_t *ctx, weft_sample_fn *draw);

#endif /* WEFT_KERNELS_CPU_RANDOM_RANDOM_SAMPLES_H_ */
