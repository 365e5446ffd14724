/* tensorflow/c/c_api_experimental.h - what may change between releases: what of it makes sense for graphs.
 *
 * Functions for eager execution (TFE_..., TF_AttrBuilder...) are not here: docs/c_api.md.
 */
#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- XLA: there is none, so that these change nothing but what the others answer ---- */

TF_CAPI_EXPORT extern void TF_EnableXLACompilation(TF_SessionOptions *options, unsigned char enable);
/* The three with a result return the former value. */
TF_CAPI_EXPORT extern unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable);
TF_CAPI_EXPORT extern unsigned char TF_SetTfXlaCpuGlobalJit(unsigned char enable);
TF_CAPI_EXPORT extern void TF_SetXlaAutoJitMode(const char *mode);
TF_CAPI_EXPORT extern unsigned char TF_GetXlaAutoJitEnabled(void);
TF_CAPI_EXPORT extern void TF_SetXlaMinClusterSize(int size);
TF_CAPI_EXPORT extern unsigned char TF_GetXlaConstantFoldingDisabled(void);
TF_CAPI_EXPORT extern void TF_SetXlaConstantFoldingDisabled(unsigned char should_enable);

/* ---- messages; delete the buffers ---- */

/* A ConfigProto. `num_cpu_devices`: CPU devices of a session in this process. */
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateConfig(unsigned char enable_xla_compilation,
                                                 unsigned char gpu_memory_allow_growth,
                                                 unsigned int num_cpu_devices);
/* A RunOptions. */
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateRunOptions(unsigned char enable_full_trace);
/* The GraphDef, the FunctionDef as text of *len bytes; free() it. NULL on failure. */
TF_CAPI_EXPORT extern const char *TF_GraphDebugString(TF_Graph *graph, size_t *len);
TF_CAPI_EXPORT extern char *TF_FunctionDebugString(TF_Function *func, size_t *len);

/* ---- queues of a session, by number ---- */

/* Runs "fifo_queue_dequeue_<tensor_id>" and gives what it fetched. */
TF_CAPI_EXPORT extern TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id, TF_Status *status);
/* Runs "fifo_queue_enqueue_<tensor_id>", with `tensor` fed to "arg_tensor_enqueue_<tensor_id>". */
TF_CAPI_EXPORT extern void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor,
                                                 TF_Status *status);

/* ---- checkpoints ---- */

/* One checkpoint of either format, by its prefix. Names and shapes are read at once, tensors when they are asked
 * for. A reader is not thread-safe. */
typedef struct TF_CheckpointReader TF_CheckpointReader;
TF_CAPI_EXPORT extern TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteCheckpointReader(TF_CheckpointReader *reader);
TF_CAPI_EXPORT extern int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name);
/* Tensors by number, from 0: the name, lent until the reader is deleted. */
TF_CAPI_EXPORT extern const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index);
TF_CAPI_EXPORT extern int TF_CheckpointReaderSize(TF_CheckpointReader *reader);
/* Of a tensor that is there; else 0 (no type), -1. */
TF_CAPI_EXPORT extern TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader,
                                                                         const char *name);
TF_CAPI_EXPORT extern int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name);
/* INVALID_ARGUMENT if `num_dims` is not its rank. */
TF_CAPI_EXPORT extern void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name,
                                                               int64_t *dims, int num_dims, TF_Status *status);
/* The caller's. */
TF_CAPI_EXPORT extern TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader, const char *name,
                                                              TF_Status *status);

/* ---- ops ---- */

/* The attribute that says how long the list is which is input `input_index`; NULL if it is no such list. Lent for
 * ever. */
TF_CAPI_EXPORT extern const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index,
                                                                 TF_Status *status);
TF_CAPI_EXPORT extern int TF_OpIsStateful(const char *op_type, TF_Status *status);

/* ---- the process ---- */

/* Does nothing: there are no command line options of the library. */
TF_CAPI_EXPORT extern void TF_InitMain(const char *usage, int *argc, char ***argv);
TF_CAPI_EXPORT extern int TF_PickUnusedPortOrDie(void);
TF_CAPI_EXPORT extern void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg);

/* ---- shapes and types, in lists ---- */

typedef struct TF_ShapeAndType {
  int num_dims; /* -1: not known */
  int64_t *dims;
  TF_DataType dtype;
} TF_ShapeAndType;
typedef struct TF_ShapeAndTypeList {
  int num_items;
  TF_ShapeAndType *items;
} TF_ShapeAndTypeList;
TF_CAPI_EXPORT extern TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index,
                                                       const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index,
                                                       TF_DataType dtype);
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list);
/* The array and the lists in it. */
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array, int num_items);

/* ---- graphs ---- */

/* Colocation with nodes that are not imported: an error (1, the default), or left as it is (0). */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
                                                                                     unsigned char enable);
TF_CAPI_EXPORT extern void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status);
/* UNIMPLEMENTED: devices are built in (docs/adding_an_op.md). */
TF_CAPI_EXPORT extern TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_C_API_EXPERIMENTAL_H_ */
