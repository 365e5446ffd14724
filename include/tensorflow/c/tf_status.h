/* tensorflow/c/tf_status.h - how a call went: a code, a message, and payloads by name. */
#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TSL_Status TF_Status;

/* The numbers are gRPC's. */
typedef enum TF_Code {
  TF_OK = 0,
  TF_CANCELLED = 1,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_NOT_FOUND = 5,
  TF_ALREADY_EXISTS = 6,
  TF_PERMISSION_DENIED = 7,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
  TF_OUT_OF_RANGE = 11,
  TF_UNIMPLEMENTED = 12,
  TF_INTERNAL = 13,
  TF_UNAVAILABLE = 14,
  TF_DATA_LOSS = 15,
  TF_UNAUTHENTICATED = 16,
} TF_Code;

/* TF_OK at first. */
TF_CAPI_EXPORT extern TF_Status *TF_NewStatus(void);
/* NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteStatus(TF_Status *);
/* Replaces code, message and payloads. The message of TF_OK is always "". */
TF_CAPI_EXPORT extern void TF_SetStatus(TF_Status *s, TF_Code code, const char *msg);
/* Adds or replaces a payload. A status that is OK takes none. */
TF_CAPI_EXPORT extern void TF_SetPayload(TF_Status *s, const char *key, const char *value);
typedef void (*TF_PayloadVisitor)(const char *key, const char *value, void *capture);
TF_CAPI_EXPORT extern void TF_ForEachPayload(const TF_Status *s, TF_PayloadVisitor visitor, void *capture);
/* `error_code` is an errno. */
TF_CAPI_EXPORT extern void TF_SetStatusFromIOError(TF_Status *s, int error_code, const char *context);
TF_CAPI_EXPORT extern TF_Code TF_GetCode(const TF_Status *s);
/* Lent until the status changes. */
TF_CAPI_EXPORT extern const char *TF_Message(const TF_Status *s);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_TF_STATUS_H_ */
