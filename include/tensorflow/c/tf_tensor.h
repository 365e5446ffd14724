/* tensorflow/c/tf_tensor.h - a tensor: type, shape and dense row-major bytes.
 *
 * A tensor of TF_STRING is an array of TF_TString (tf_tstring.h).
 */
#ifndef TENSORFLOW_C_TF_TENSOR_H_
#define TENSORFLOW_C_TF_TENSOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_AllocatorAttributes {
  size_t struct_size;
  TF_Bool on_host; /* 1: host memory */
} TF_AllocatorAttributes;

#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)

typedef struct TF_Tensor TF_Tensor;

/* Wraps the caller's bytes without a copy where they are aligned as the type needs; deallocator(data, len,
 * arg) is called when they are not needed any more, at once if they were copied or on failure (NULL). */
TF_CAPI_EXPORT extern TF_Tensor *TF_NewTensor(TF_DataType, const int64_t *dims, int num_dims, void *data,
                                              size_t len,
                                              void (*deallocator)(void *data, size_t len, void *arg),
                                              void *deallocator_arg);
/* The alignment that never needs a copy, in bytes. */
TF_CAPI_EXPORT extern size_t TF_TensorDefaultAlignment(void);
/* `len` bytes of its own, not initialised; strings are empty. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTensor(TF_DataType, const int64_t *dims, int num_dims,
                                                   size_t len);
/* `tensor` itself if no other tensor shares its bytes, else NULL. */
TF_CAPI_EXPORT extern TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor);
/* NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteTensor(TF_Tensor *);
TF_CAPI_EXPORT extern TF_DataType TF_TensorType(const TF_Tensor *);
/* Another shape for the same elements. */
TF_CAPI_EXPORT extern void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern int TF_NumDims(const TF_Tensor *);
TF_CAPI_EXPORT extern int64_t TF_Dim(const TF_Tensor *tensor, int dim_index);
TF_CAPI_EXPORT extern size_t TF_TensorByteSize(const TF_Tensor *);
/* Never NULL, also without elements. */
TF_CAPI_EXPORT extern void *TF_TensorData(const TF_Tensor *);
TF_CAPI_EXPORT extern int64_t TF_TensorElementCount(const TF_Tensor *tensor);
/* Makes `to` show the bytes of `from` as another type and shape of the same size. */
TF_CAPI_EXPORT extern void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                                                const int64_t *new_dims, int num_new_dims, TF_Status *status);
TF_CAPI_EXPORT extern bool TF_TensorIsAligned(const TF_Tensor *);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_TF_TENSOR_H_ */
