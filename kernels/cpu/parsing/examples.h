/* kernels/cpu/parsing/examples.h - the features of serialized Examples as dense, sparse and ragged tensors,
 * as TensorFlow's ParseExample makes them.
 */
#ifndef WEFT_KERNELS_CPU_PARSING_EXAMPLES_H_
#define WEFT_KERNELS_CPU_PARSING_EXAMPLES_H_

#include "base/thread_pool.h"
#include "tensor/tensor.h"

typedef enum weft_example_kind {
  WEFT_EXAMPLE_DENSE,
  WEFT_EXAMPLE_SPARSE,
  WEFT_EXAMPLE_RAGGED,
} weft_example_kind_t;

/* A feature that is asked for. All that it points to is lent. */
typedef struct weft_example_feature {
  weft_str_t key;
  weft_example_kind_t kind;
  weft_dtype_t dtype;       /* WEFT_I64, WEFT_F32 or WEFT_STRING */
  weft_dtype_t split_dtype; /* of a ragged one: WEFT_I32 or WEFT_I64 */
  /* Of a dense one: */
  const weft_shape_t *shape;     /* of one example */
  int64_t stride;                /* elements; of a row where the first dimension is not known */
  bool is_variable;              /* the first dimension is not known */
  const weft_tensor_t *fallback; /* for examples that lack it; empty: they must not */
} weft_example_feature_t;

/* Sets *out to dense feature i of that shape, but for its key, dtype and fallback. Errors: INVALID_ARGUMENT:
 * the rank or an inner dimension is not known. */
WEFT_MUST_CHECK weft_status_t *weft_example_dense(const weft_shape_t *shape, int i,
                                                  weft_example_feature_t *out);
/* Does the fallback of dense feature i fit its shape? Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_example_check_default(const weft_example_feature_t *f, int i);

typedef struct weft_example_job {
  const weft_example_feature_t *features; /* a key is there once; of two, the last is read */
  int num_features;
  const weft_tensor_t *serialized; /* strings; a scalar: no tensor gets a dimension for the batch */
  const weft_tensor_t *names;      /* of the examples, for messages; as many; NULL: without */
  weft_thread_pool_t *pool;
  /* A new tensor for a part of feature i; *out is lent. Parts of a dense feature: 0; of a sparse one:
   * indices, values, dense shape; of a ragged one: values, row splits. Called once for each, on the caller's
   * thread. */
  weft_status_t *(*new_part)(void *arg, int i, int part, weft_dtype_t dtype, const weft_shape_t *shape,
                             weft_tensor_t **out);
  void *arg;
} weft_example_job_t;

/* Errors: INVALID_ARGUMENT, with the example and the key, in TensorFlow's words; RESOURCE_EXHAUSTED; those of
 * new_part. */
WEFT_MUST_CHECK weft_status_t *weft_examples_parse(const weft_example_job_t *job);

#endif /* WEFT_KERNELS_CPU_PARSING_EXAMPLES_H_ */
