/* kernels/cuda/common.h - what the rows of several families are made of. */
#ifndef WEFT_KERNELS_CUDA_COMMON_H_
#define WEFT_KERNELS_CUDA_COMMON_H_

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/launch.h"
#include "kernels/cuda/args.h"
#include "kernels/cuda/types.h"

/* Codes of TF_Code. */
enum {
  WEFT_CUDA_INVALID_ARGUMENT = 3,
  WEFT_CUDA_EXHAUSTED = 8,
  WEFT_CUDA_UNIMPLEMENTED = 12,
  WEFT_CUDA_INTERNAL = 13
};

#define WEFT_CUDA_TRY(call)                \
  do {                                     \
    WEFT_Failure *failure_ = (call);       \
    if (failure_ != NULL) return failure_; \
  } while (0)
#define WEFT_CUDA_INVALID(...) weft_cuda_host->failure(WEFT_CUDA_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- functions by element type ---- */

/* The instances of a kernel, in the order of the types' numbers. */
typedef struct weft_cuda_instances {
  uint32_t types;
  weft_cuda_function_t *functions;
} weft_cuda_instances_t;

#define WEFT_CUDA_INSTANCE_(stem, type) WEFT_CUDA_FUNCTION("weft_" #stem "_" #type),
/* Defines `name`, the instances weft_<stem>_<type> for the types of `set`. */
#define WEFT_CUDA_INSTANCES(name, stem, set)                                                     \
  static weft_cuda_function_t name##_functions[] = {WEFT_CUDA_##set(WEFT_CUDA_INSTANCE_, stem)}; \
  static const weft_cuda_instances_t name = {WEFT_CUDA_SET(set), name##_functions};

/* Defines `name`, the instances weft_<stem>_<bytes> for the sizes of elements. */
#define WEFT_CUDA_SIZES(name, stem) \
  static weft_cuda_function_t name[] = {WEFT_CUDA_SIZED(WEFT_CUDA_INSTANCE_, stem)};
/* The one of those for elements of a plain type. */
weft_cuda_function_t *weft_cuda_pick_size(weft_cuda_function_t *functions, int dtype);
/* The instance for `dtype`, or NULL. */
weft_cuda_function_t *weft_cuda_pick(const weft_cuda_instances_t *instances, int dtype);
size_t weft_cuda_size(int dtype); /* bytes of an element of a plain type */
/* The real type of a complex type's parts; the type itself where it is real. What adds complex numbers adds
 * twice as many of these. */
int weft_cuda_part_type(int dtype);
/* Types whose elements are plain bytes, as bits. */
#define WEFT_CUDA_PLAIN (WEFT_CUDA_SET(EVERY) | UINT32_C(1) << WEFT_CUDA_c64 | UINT32_C(1) << WEFT_CUDA_c128)
/* The same without int32, for ops that Weft runs in the host's memory for it. */
#define WEFT_CUDA_PLAIN_BUT_I32 (WEFT_CUDA_PLAIN & ~(UINT32_C(1) << WEFT_CUDA_i32))

/* ---- tensors ---- */

enum { WEFT_CUDA_TEXT = 256 };
typedef struct weft_cuda_text {
  char s[WEFT_CUDA_TEXT];
} weft_cuda_text_t;
/* "[2,3]", as TensorFlow prints a shape. */
weft_cuda_text_t weft_cuda_shape_text(const WEFT_TensorView *v);
#define WEFT_CUDA_SHAPE(v) (weft_cuda_shape_text(v).s)

bool weft_cuda_same_shape(const WEFT_TensorView *a, const WEFT_TensorView *b);
int64_t weft_cuda_product(const int64_t *dims, int begin, int end);
/* Element i of an int32 or int64 tensor in the host's memory. */
int64_t weft_cuda_int_at(const WEFT_TensorView *v, int64_t i);
/* The size of an image that an input in the host's memory says, a vector of two. Failures: INVALID_ARGUMENT,
 * in TensorFlow's words, which call it `what`. */
WEFT_Failure *weft_cuda_size_read(const WEFT_TensorView *v, const char *what, int64_t out[2]);
/* A copy of a view with dimensions of its own, for those that are needed when an output has taken over the
 * input. */
typedef struct weft_cuda_shape {
  int rank;
  int64_t dims[WEFT_CUDA_DIMS];
} weft_cuda_shape_t;
weft_cuda_shape_t weft_cuda_shape_of(const WEFT_TensorView *v);
/* The failure of inputs 0 and `other` whose shapes should be the same, in TensorFlow's words. */
WEFT_Failure *weft_cuda_shapes_differ(WEFT_KernelContext *c, int other);
/* Output i in the shape and, if possible, in the bytes of input `in`. */
WEFT_Failure *weft_cuda_output_like(WEFT_KernelContext *c, int in, int i, WEFT_TensorView *out);

/* ---- launches ---- */

/* Threads that share a row of so many elements, as rows.cuh has them. */
int32_t weft_cuda_sharers(int64_t elements);

/* Enough blocks for n items at `per_thread` each, but no more than keep the device busy: kernels step on. */
weft_cuda_geometry_t weft_cuda_geometry(WEFT_KernelContext *c, int64_t n, int64_t per_thread);
/* Launches f for n items; nothing if n is 0. */
WEFT_Failure *weft_cuda_launch_over(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t n,
                                    int64_t per_thread, void **args);

/* ---- what is known when the device is done ---- */

/* A word in the device's memory, 0, in which kernels of a row with finish() note that a value is refused. At
 * most one for a run. */
WEFT_Failure *weft_cuda_note_new(WEFT_KernelContext *c, void **out);
/* Behind the kernels that write it. */
WEFT_Failure *weft_cuda_note_send(WEFT_KernelContext *c, const void *note);
/* In finish(): was it written? Not where there is none. */
WEFT_Failure *weft_cuda_note_read(WEFT_KernelContext *c, bool *out);
/* What was written; 0 where there is none. */
WEFT_Failure *weft_cuda_note_value(WEFT_KernelContext *c, int32_t *out);

/* ---- walks over several tensors ---- */

/* Begins a walk over `dims`. */
void weft_cuda_walk_init(weft_cuda_walk_t *w, int rank, const int64_t *dims);
/* Gives tensor k dense steps for the dims [rank] it has, lined up at the right; where it has 1, it repeats.
 * False: it does not fit. */
bool weft_cuda_walk_broadcast(weft_cuda_walk_t *w, int k, int rank, const int64_t *dims);
/* Dense steps of a tensor of these dimensions. */
void weft_cuda_dense_steps(int rank, const int64_t *dims, int64_t *steps);
/* Joins dimensions that all of the first num_tensors tensors cross as one, and drops those of 1. */
void weft_cuda_walk_collapse(weft_cuda_walk_t *w, int num_tensors);

/* A prepare(): the state is not NULL where the attribute data_format puts the channels behind the batch
 * ("NCHW"), NULL where they come last. There is nothing to destroy. */
WEFT_Failure *weft_cuda_prepare_channels(const WEFT_KernelSetup *s, const void *param, void **out_state);

#endif /* WEFT_KERNELS_CUDA_COMMON_H_ */
