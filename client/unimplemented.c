/* client/unimplemented.c - what exists so that programs link, and says that it does nothing. */
#include "base/alloc.h"
#include "client/status.h"
#include "tensorflow/c/c_api_experimental.h"

TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status) {
  weft_client_end(status,
                  WEFT_ERROR(UNIMPLEMENTED,
                             "TF_LoadLibrary: '%s' is a plug-in for TensorFlow's own library; it cannot "
                             "be loaded here",
                             library_filename));
  return NULL;
}

TF_Buffer TF_GetOpList(TF_Library *lib_handle) {
  (void)lib_handle;
  return (TF_Buffer){NULL, 0, NULL};
}

void TF_DeleteLibraryHandle(TF_Library *lib_handle) { (void)lib_handle; }

TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename, TF_Status *status) {
  weft_client_end(
      status, WEFT_ERROR(UNIMPLEMENTED,
                         "TF_LoadPluggableDeviceLibrary: '%s' cannot be loaded here: devices are built in",
                         library_filename));
  return NULL;
}

void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle) { (void)lib_handle; }

void TF_RegisterFilesystemPlugin(const char *plugin_filename, TF_Status *status) {
  weft_client_end(status, WEFT_ERROR(UNIMPLEMENTED, "TF_RegisterFilesystemPlugin: '%s' cannot be loaded here",
                                     plugin_filename));
}

TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResultsNoSerialization(
    TF_Graph *graph, const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options, TF_Status *status) {
  (void)graph;
  (void)graph_def;
  (void)options;
  weft_client_end(status,
                  WEFT_ERROR(UNIMPLEMENTED,
                             "TF_GraphImportGraphDefWithResultsNoSerialization: graphs in the memory of "
                             "another library cannot be read; pass a serialized GraphDef to "
                             "TF_GraphImportGraphDefWithResults"));
  return NULL;
}
