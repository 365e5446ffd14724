/* kernels/cuda/window.h - the attributes and the arithmetic of sliding windows, for rows of convolution and
 * pooling. Formulas and errors are those of the CPU's kernels (kernels/cpu/nn/window.h). */
#ifndef WEFT_KERNELS_CUDA_WINDOW_H_
#define WEFT_KERNELS_CUDA_WINDOW_H_

#include "kernels/cuda/common.h"
#include "kernels/cuda/window_args.h"

typedef enum weft_cuda_padding { WEFT_CUDA_VALID, WEFT_CUDA_SAME, WEFT_CUDA_EXPLICIT } weft_cuda_padding_t;

/* Which ops' attributes: some refuse with INVALID_ARGUMENT what Conv2D has not implemented. */
typedef enum weft_cuda_window_op {
  WEFT_CUDA_CONV,
  WEFT_CUDA_STRICT_CONV,
  WEFT_CUDA_POOL
} weft_cuda_window_op_t;

/* What the attributes of a node say, of each spatial dimension. */
typedef struct weft_cuda_windows {
  bool channels_first;
  int num_space; /* 2 or 3 */
  weft_cuda_padding_t padding;
  int64_t ksize[WEFT_CUDA_SPACE], stride[WEFT_CUDA_SPACE], dilation[WEFT_CUDA_SPACE];
  int64_t pads[WEFT_CUDA_SPACE][2];
  int64_t ksize_channel, stride_channel; /* of pooling; else 1 */
  bool batch_in_index; /* of maxima whose places are an output: it counts the images before, too */
  bool is_centred;     /* SAME: what a stride leaves over is parted, too */
} weft_cuda_windows_t;

/* Errors: INVALID_ARGUMENT, UNIMPLEMENTED, in TensorFlow's words. */
WEFT_Failure *weft_cuda_windows_read(const WEFT_KernelSetup *s, weft_cuda_window_op_t op,
                                     weft_cuda_windows_t *out);
/* The state of a node is such a struct; free() destroys it. Also RESOURCE_EXHAUSTED. */
WEFT_Failure *weft_cuda_windows_prepare(const WEFT_KernelSetup *s, weft_cuda_window_op_t op,
                                        void **out_state);
/* n values in data_format's order, the attribute or input `what`: one for each spatial dimension, 1 for those
 * that are not there, and the channels'. */
WEFT_Failure *weft_cuda_windows_values(const weft_cuda_windows_t *a, const int64_t *values, int64_t n,
                                       const char *what, int64_t *out, int64_t *out_channel);

/* Dimension of a tensor of images where spatial dimension `dim` is, and where the channels are. */
static inline int weft_cuda_image_axis(const weft_cuda_windows_t *a, int dim) {
  return dim - (WEFT_CUDA_SPACE - a->num_space) + (a->channels_first ? 2 : 1);
}
static inline int weft_cuda_channel_axis(const weft_cuda_windows_t *a) {
  return a->channels_first ? 1 : a->num_space + 1;
}

/* Batch, channels, and the windows of k cells over images of `dims`, of the rank that they must have. Errors:
 * INVALID_ARGUMENT if a window does not fit. */
WEFT_Failure *weft_cuda_windows_plan(const weft_cuda_windows_t *a, const int64_t *dims, const int64_t *k,
                                     weft_cuda_images_t *out);
/* Writes the dimensions of the op's input (out = false) or output images of so many channels; returns the
 * rank. */
int weft_cuda_images_dims(const weft_cuda_windows_t *a, const weft_cuda_images_t *m, bool of_output,
                          int64_t channels, int64_t *dims);

#endif /* WEFT_KERNELS_CUDA_WINDOW_H_ */
