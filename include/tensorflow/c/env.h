/* tensorflow/c/env.h - files, time, threads and shared libraries.
 *
 * Paths are local ones or "file://" URIs. Errors have the codes of the system call's: NOT_FOUND, ALREADY_EXISTS,
 * PERMISSION_DENIED, FAILED_PRECONDITION, ...
 */
#ifndef TENSORFLOW_C_ENV_H_
#define TENSORFLOW_C_ENV_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_WritableFileHandle TF_WritableFileHandle;
typedef struct TF_StringStream TF_StringStream;
typedef struct TF_Thread TF_Thread;

typedef struct TF_ThreadOptions {
  size_t stack_size; /* 0: the system's */
  size_t guard_size; /* 0: the system's */
  int numa_node;     /* is not looked at */
} TF_ThreadOptions;

/* ---- files ---- */

TF_CAPI_EXPORT extern void TF_CreateDir(const char *dirname, TF_Status *status);
/* It must be empty. */
TF_CAPI_EXPORT extern void TF_DeleteDir(const char *dirname, TF_Status *status);
/* And what is in it. The counts are of what could not be deleted. */
TF_CAPI_EXPORT extern void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count,
                                                int64_t *undeleted_dir_count, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteFile(const char *filename, TF_Status *status);
TF_CAPI_EXPORT extern void TF_FileStat(const char *filename, TF_FileStatistics *stats, TF_Status *status);

/* A new file, or an old one emptied. Closing it frees the handle. */
TF_CAPI_EXPORT extern void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle,
                                              TF_Status *status);
TF_CAPI_EXPORT extern void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status);
TF_CAPI_EXPORT extern void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status);
TF_CAPI_EXPORT extern void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status);
TF_CAPI_EXPORT extern void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data,
                                                 size_t length, TF_Status *status);

/* ---- lists of texts ---- */

/* False at the end. *result is lent until TF_StringStreamDone, which frees the list. */
TF_CAPI_EXPORT extern bool TF_StringStreamNext(TF_StringStream *list, const char **result);
TF_CAPI_EXPORT extern void TF_StringStreamDone(TF_StringStream *list);
/* The names in a directory. NULL on failure. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status);
/* Directories for temporary files, best first. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetLocalTempDirectories(void);
/* A name that no file has; free() it. `extension` may be "" or NULL. */
TF_CAPI_EXPORT extern char *TF_GetTempFileName(const char *extension);

/* ---- time, since 1970 ---- */

TF_CAPI_EXPORT extern uint64_t TF_NowNanos(void);
TF_CAPI_EXPORT extern uint64_t TF_NowMicros(void);
TF_CAPI_EXPORT extern uint64_t TF_NowSeconds(void);

/* ---- threads ---- */

TF_CAPI_EXPORT extern void TF_DefaultThreadOptions(TF_ThreadOptions *options);
/* NULL if the system gives no thread. `options` may be NULL. */
TF_CAPI_EXPORT extern TF_Thread *TF_StartThread(const TF_ThreadOptions *options, const char *thread_name,
                                                void (*work_func)(void *), void *param);
/* Waits for its end and frees it. */
TF_CAPI_EXPORT extern void TF_JoinThread(TF_Thread *thread);

/* ---- shared libraries ---- */

TF_CAPI_EXPORT extern void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status);
TF_CAPI_EXPORT extern void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name, TF_Status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_ENV_H_ */
