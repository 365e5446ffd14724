/* jobs/c_api.c - the C API's answers, read. */
#include "jobs/c_api.h"

#include <string.h>

weft_status_t *weft_job_c_api_status(const TF_Status *status) {
  if (TF_GetCode(status) == TF_OK) return NULL;
  const char *message = TF_Message(status);
  return weft_status_from_wire((int)TF_GetCode(status), message, strlen(message));
}

/* The elements are the TF_Tensor's, too: with a function of its own, releasing the view leaves them alone. */
static void keep(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  (void)arg;
}

weft_status_t *weft_job_c_api_look_at(const TF_Tensor *value, weft_tensor_t **out) {
  int64_t dims[WEFT_MAX_DIMS];
  weft_shape_t shape;
  int rank = TF_NumDims(value);
  for (int d = 0; d < rank && d < WEFT_MAX_DIMS; d++) dims[d] = TF_Dim(value, d);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &shape));
  return weft_tensor_wrap((weft_dtype_t)TF_TensorType(value), &shape, TF_TensorData(value),
                          TF_TensorByteSize(value), keep, NULL, out);
}

weft_status_t *weft_job_c_api_import(weft_str_t graph_def, TF_Graph *graph) {
  TF_Status *status = TF_NewStatus();
  TF_Buffer *bytes = TF_NewBufferFromString(graph_def.data == NULL ? "" : graph_def.data, graph_def.length);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  weft_status_t *s = NULL;
  if (status == NULL || bytes == NULL || options == NULL) {
    s = WEFT_NO_MEMORY("a graph");
  } else {
    TF_GraphImportGraphDef(graph, bytes, options, status);
    s = weft_job_c_api_status(status);
  }
  if (options != NULL) TF_DeleteImportGraphDefOptions(options);
  if (bytes != NULL) TF_DeleteBuffer(bytes);
  TF_DeleteStatus(status);
  return s;
}
