/* tensorflow/c/logging.h - lines of the log, which is standard error. */
#ifndef TENSORFLOW_C_LOGGING_H_
#define TENSORFLOW_C_LOGGING_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TF_LogLevel { TF_INFO = 0, TF_WARNING = 1, TF_ERROR = 2, TF_FATAL = 3 } TF_LogLevel;

/* A line; `fmt` as printf's. After TF_FATAL the process is aborted. */
TF_CAPI_EXPORT extern void TF_Log(TF_LogLevel level, const char *fmt, ...);
/* Lines for debugging: shown if WEFT_LOG_LEVEL is "debug". The second is the same: builds do not differ. */
TF_CAPI_EXPORT extern void TF_VLog(int level, const char *fmt, ...);
TF_CAPI_EXPORT extern void TF_DVLog(int level, const char *fmt, ...);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_LOGGING_H_ */
