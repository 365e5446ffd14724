/* device/cuda/dnn.h - convolutions, by cuDNN.
 *
 * The library is opened at the first convolution: WEFT_CUDNN names it, else it is libcudnn.so.9, of the
 * loader's path or of /usr/local/cuda. The algorithms that it proposes for a convolution of given sizes are
 * kept for each card.
 */
#ifndef WEFT_DEVICE_CUDA_DNN_H_
#define WEFT_DEVICE_CUDA_DNN_H_

#include <stdbool.h>
#include <stdint.h>

#include "weft/device.h"

enum { WEFT_CUDA_DNN_SPACE = 3 };

typedef enum weft_cuda_conv_kind {
  WEFT_CUDA_CONV_FORWARD,   /* out: y, of x and the filter */
  WEFT_CUDA_CONV_OF_INPUT,  /* out: dx, of dy and the filter */
  WEFT_CUDA_CONV_OF_FILTER, /* out: df, of x and dy */
} weft_cuda_conv_kind_t;

/* x: [batch, in_channels, in...], y: [batch, out_channels, out...], with channels_last the channels behind
 * the space. The filter: [out_channels, in_channels / groups, k...], or with those behind the space. Cell i
 * of a dimension's output begins at i * stride - pad; as much padding as in front may be behind. */
typedef struct weft_cuda_conv {
  weft_cuda_conv_kind_t kind;
  int dtype;     /* TF_HALF, TF_BFLOAT16, TF_FLOAT or TF_DOUBLE; the first two are summed in float */
  int num_space; /* 2 or 3: the last of the arrays' members */
  bool channels_last;
  int64_t batch, in_channels, out_channels, groups; /* none of them 0 */
  int64_t in[WEFT_CUDA_DNN_SPACE], out[WEFT_CUDA_DNN_SPACE], k[WEFT_CUDA_DNN_SPACE];
  int64_t stride[WEFT_CUDA_DNN_SPACE], dilation[WEFT_CUDA_DNN_SPACE], pad[WEFT_CUDA_DNN_SPACE];
} weft_cuda_conv_t;

/* Has cuDNN an algorithm for it? Errors: UNAVAILABLE where there is no cuDNN; INVALID_ARGUMENT for sizes
 * beyond int32; RESOURCE_EXHAUSTED; INTERNAL, the library's. Thread-safe, as is the other one. */
WEFT_Failure *weft_cuda_conv_is_known(WEFT_KernelContext *c, const weft_cuda_conv_t *p, bool *out);

/* Enqueues it on the context's compute queue. float is multiplied in TF32, as TensorFlow does, unless the
 * variable NVIDIA_TF32_OVERRIDE or WEFT_TF32 is 0. Errors: as above; UNIMPLEMENTED where cuDNN has no
 * algorithm. */
WEFT_Failure *weft_cuda_convolve(WEFT_KernelContext *c, const weft_cuda_conv_t *p, const void *a,
                                 const void *b, void *out);

#endif /* WEFT_DEVICE_CUDA_DNN_H_ */
