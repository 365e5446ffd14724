/* kernels/cpu/nn/direct.h - convolutions of float and double without columns.
 *
 * A row of output pixels is a sum of products, one for each tap of the window: pixels of an input row, as
 * they lie in memory, times a panel of the filter (kernels/cpu/tile). Where a window reaches into padding or
 * a group has a part of the channels, the input rows that a task needs are laid out with their padding first,
 * for all the panels that the task computes.
 *
 * Forward and the gradient of the input are the same computation: the gradient with stride s is s
 * convolutions of stride 1, each with every s-th tap of the filter, turned round.
 * The gradient of the filter multiplies input rows, turned, with rows of the output's gradient.
 *
 * Tasks are cut along images, rows and output channels. Results do not depend on how.
 */
#ifndef WEFT_KERNELS_CPU_NN_DIRECT_H_
#define WEFT_KERNELS_CPU_NN_DIRECT_H_

#include "kernels/cpu/nn/convolve.h"

/* Is v one of those that are computed here? Not so: other types; windows whose rows with padding, or filters
 * whose panels, would be many times what they are made of. All dimensions of v are 1 or more. */
bool weft_direct_fits(const weft_conv_t *v);
/* Is the addend of an epilogue read, in each place, before the result is written there? */
bool weft_direct_sums_in_place(const weft_conv_t *v);
/* Is the gradient of its input? With one, two or three channels the vectors would be nearly empty. */
bool weft_direct_fits_input(const weft_conv_t *v);
/* The functions of convolve.h for these. */
WEFT_MUST_CHECK weft_status_t *weft_direct_forward(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                   const void *x, const void *f, void *y);
WEFT_MUST_CHECK weft_status_t *weft_direct_input(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                 const void *dy, const void *f, void *dx);
WEFT_MUST_CHECK weft_status_t *weft_direct_filter(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                  const void *x, const void *dy, void *df);

#endif /* WEFT_KERNELS_CPU_NN_DIRECT_H_ */
