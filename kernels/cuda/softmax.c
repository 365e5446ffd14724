/* kernels/cuda/softmax.c - rows of Softmax, LogSoftmax and the cross entropies. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(softmax_instances, softmax, FLOAT)
WEFT_CUDA_INSTANCES(cross_instances, cross, FLOAT)
WEFT_CUDA_INSTANCES(sparse_instances, sparse_cross, FLOAT)

static WEFT_Failure *launch(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t rows, int32_t sharers,
                            void **args) {
  return weft_cuda_launch_over(c, f, rows * sharers, 1, args);
}

static WEFT_Failure *softmax(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 1) return WEFT_CUDA_INVALID("logits must have >= 1 dimension, got %s", WEFT_CUDA_SHAPE(&x));
  int64_t classes = x.dims[x.rank - 1], rows = classes > 0 ? x.count / classes : 0;
  int32_t is_log = *(const int32_t *)weft_cuda_host->param(c), sharers = weft_cuda_sharers(classes);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&x.data, &y.data, &rows, &classes, &is_log, &sharers};
  return launch(c, weft_cuda_pick(&softmax_instances, y.dtype), rows, sharers, args);
}

/* Of an operand: the step from row to row, and from class to class. */
static void steps_of(const WEFT_TensorView *v, int64_t *row, int64_t *step) {
  const int64_t width = v->rank >= 1 ? v->dims[v->rank - 1] : 1;
  *row = v->rank == 2 && v->dims[0] > 1 ? width : 0;
  *step = width > 1;
}

static WEFT_Failure *cross(WEFT_KernelContext *c) {
  WEFT_TensorView x, labels, loss, back;
  int64_t dims[2] = {1, 1}, x_row, x_step, label_row, label_step;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &labels);
  bool fits = true;
  const WEFT_TensorView *both[2] = {&x, &labels};
  for (int k = 0; k < 2 && x.rank <= 2 && labels.rank <= 2; k++) {
    for (int d = 0; d < both[k]->rank; d++) {
      int64_t *to = &dims[2 - both[k]->rank + d], dim = both[k]->dims[d];
      fits = fits && (dim == *to || dim == 1 || *to == 1);
      if (dim != 1) *to = dim;
    }
  }
  if (!fits) {
    return WEFT_CUDA_INVALID("logits and labels must be broadcastable: logits_size=%s labels_size=%s",
                             WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&labels));
  }
  if ((x.rank > labels.rank ? x.rank : labels.rank) != 2) {
    return WEFT_CUDA_INVALID(
        "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional");
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, dims, &loss));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 2, dims, &back));
  steps_of(&x, &x_row, &x_step);
  steps_of(&labels, &label_row, &label_step);
  int64_t rows = dims[0], classes = dims[1];
  int32_t sharers = weft_cuda_sharers(classes);
  if (rows > 0 && classes == 0) return weft_cuda_fill(c, loss.data, 0, loss.bytes);
  void *args[] = {&x.data, &labels.data, &loss.data, &back.data,  &rows,   &classes,
                  &x_row,  &x_step,      &label_row, &label_step, &sharers};
  return launch(c, weft_cuda_pick(&cross_instances, x.dtype), rows, sharers, args);
}

static WEFT_Failure *sparse_cross(WEFT_KernelContext *c) {
  WEFT_TensorView x, labels, loss, back;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &labels);
  if (x.rank != 2) return WEFT_CUDA_INVALID("logits must be 2-D, but got shape %s", WEFT_CUDA_SHAPE(&x));
  if (labels.rank != 1)
    return WEFT_CUDA_INVALID("labels must be 1-D, but got shape %s", WEFT_CUDA_SHAPE(&labels));
  if (x.dims[0] != labels.count) {
    return WEFT_CUDA_INVALID(
        "logits and labels must have the same first dimension, got logits shape %s and labels shape %s",
        WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&labels));
  }
  int64_t rows = x.dims[0], classes = x.dims[1];
  if (classes == 0) {
    return WEFT_CUDA_INVALID("Must have at least one class, but got logits shape %s", WEFT_CUDA_SHAPE(&x));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &rows, &loss));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 2, x.dims, &back));
  int32_t label_bytes = (int32_t)weft_cuda_size(labels.dtype), sharers = weft_cuda_sharers(classes);
  void *args[] = {&x.data, &labels.data, &label_bytes, &loss.data, &back.data, &rows, &classes, &sharers};
  return launch(c, weft_cuda_pick(&sparse_instances, x.dtype), rows, sharers, args);
}

static const int32_t is_softmax = 0, is_log_softmax = 1;
#define ROW(op_, fn, param_) \
  { .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .compute = fn, .param = param_ }
const WEFT_DeviceKernel weft_cuda_softmax_kernels[] = {
    ROW("LogSoftmax", softmax, &is_log_softmax),
    ROW("Softmax", softmax, &is_softmax),
    ROW("SoftmaxCrossEntropyWithLogits", cross, NULL),
    {.op = "SparseSoftmaxCrossEntropyWithLogits",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .type_attr2 = "Tlabels",
     .types2 = WEFT_CUDA_SET(INDEX),
     .compute = sparse_cross},
    {0},
};
