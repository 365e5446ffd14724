/* tensorflow/c/tf_buffer.h - bytes that cross the API: serialized messages, mostly. */
#ifndef TENSORFLOW_C_TF_BUFFER_H_
#define TENSORFLOW_C_TF_BUFFER_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* If data_deallocator is not NULL, deleting the buffer calls it with data and length. */
typedef struct TF_Buffer {
  const void *data;
  size_t length;
  void (*data_deallocator)(void *data, size_t length);
} TF_Buffer;

/* Copies the bytes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len);
/* Empty: for functions that fill a buffer. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBuffer(void);
TF_CAPI_EXPORT extern void TF_DeleteBuffer(TF_Buffer *);
TF_CAPI_EXPORT extern TF_Buffer TF_GetBuffer(TF_Buffer *buffer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_TF_BUFFER_H_ */
