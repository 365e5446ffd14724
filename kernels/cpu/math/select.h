/* kernels/cpu/math/select.h - the loops that choose between two operands, element by element. */
#ifndef WEFT_KERNELS_CPU_MATH_SELECT_H_
#define WEFT_KERNELS_CPU_MATH_SELECT_H_

#include "kernels/kernel.h"

/* out[i] = c[i*cs] != 0 ? t[i*ts] : e[i*es]; steps are 0 or 1; out may be t or e where that one steps. */
typedef void weft_choose_fn(int64_t n, const uint8_t *c, int cs, const void *t, int ts, const void *e, int es,
                            void *out);
/* For elements of `size` bytes: 1, 2, 4, 8 or 16. */
weft_choose_fn *weft_choose_of(size_t size);
/* The failure of SelectV2 when its operands do not fit together. */
weft_status_t *weft_choose_mismatch(const weft_shape_t *c, const weft_shape_t *t, const weft_shape_t *e);
/* The failure of AddN and Select when input `i` has not the shape of input 0. */
weft_status_t *weft_shapes_mismatch(const weft_kernel_node_t *node, const weft_shape_t *first, int i,
                                    const weft_shape_t *other);

#endif /* WEFT_KERNELS_CPU_MATH_SELECT_H_ */
