/* tests/client/experimental_test.c - c_api_experimental.h, env.h, logging.h. */
#include "tensorflow/c/c_api_experimental.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/c/env.h"
#include "tensorflow/c/logging.h"
#include "tests/client/client_testing.h"
#include "tests/directory.h"
#include "weft/ops.h"

static TF_Output text(world_t *w, const char *value) {
  TF_Tensor *t = new_string(value);
  TF_Output c = WEFT_OpConst(w->g, NULL, t, TF_STRING, w->s);
  TF_DeleteTensor(t);
  return c;
}

static TF_Output texts(world_t *w, const char *a, const char *b) {
  const TF_Output both[] = {text(w, a), text(w, b)};
  return WEFT_OpPack(w->g, NULL, both, 2, NULL, w->s);
}

static void save(world_t *w, const char *prefix, bool is_first_format) {
  const int64_t dims[] = {2, 3};
  TF_Tensor *a = new_floats(2, dims, (const float[]){1, 2, 3, 4, 5, 6}), *b = new_int(7);
  const TF_Output values[] = {WEFT_OpConst(w->g, NULL, b, TF_INT32, w->s),
                              WEFT_OpConst(w->g, NULL, a, TF_FLOAT, w->s)};
  TF_DeleteTensor(a);
  TF_DeleteTensor(b);
  TF_Output path = text(w, prefix), names = texts(w, "number", "matrix");
  TF_Operation *op = is_first_format
                         ? WEFT_OpSave(w->g, NULL, path, names, values, 2, w->s)
                         : WEFT_OpSaveV2(w->g, NULL, path, names, texts(w, "", ""), values, 2, w->s);
  ASSERT_OK(w);
  run_target(w, op);
  ASSERT_OK(w);
}

static void read_checkpoint(bool is_first_format) {
  world_t w;
  char prefix[300];
  world_open(&w);
  snprintf(prefix, sizeof prefix, "%s/saved%d", weft_test_directory(), is_first_format);
  save(&w, prefix, is_first_format);
  TF_CheckpointReader *r = TF_NewCheckpointReader(prefix, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_CheckpointReaderSize(r), 2);
  CU_ASSERT_STRING_EQUAL(TF_CheckpointReaderGetVariable(r, 0), "matrix");
  CU_ASSERT_PTR_NULL(TF_CheckpointReaderGetVariable(r, 2));
  CU_ASSERT_TRUE(TF_CheckpointReaderHasTensor(r, "number"));
  CU_ASSERT_FALSE(TF_CheckpointReaderHasTensor(r, "other"));
  CU_ASSERT_EQUAL(TF_CheckpointReaderGetVariableDataType(r, "matrix"), TF_FLOAT);
  CU_ASSERT_EQUAL(TF_CheckpointReaderGetVariableNumDims(r, "matrix"), 2);
  CU_ASSERT_EQUAL(TF_CheckpointReaderGetVariableNumDims(r, "other"), -1);
  int64_t dims[2] = {0, 0};
  TF_CheckpointReaderGetVariableShape(r, "matrix", dims, 2, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(dims[1], 3);
  TF_CheckpointReaderGetVariableShape(r, "matrix", dims, 1, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "actual rank is 2");
  TF_Tensor *t = TF_CheckpointReaderGetTensor(r, "matrix", w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(t, 5), 6);
  TF_DeleteTensor(t);
  CU_ASSERT_PTR_NULL(TF_CheckpointReaderGetTensor(r, "other", w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "other");
  TF_DeleteCheckpointReader(r);
  CU_ASSERT_PTR_NULL(TF_NewCheckpointReader("/nowhere/at/all", w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "Failed to find any matching files for /nowhere/at/all");
  world_close(&w);
}

static void checkpoints_of_both_formats_are_read(void) {
  read_checkpoint(false);
  read_checkpoint(true);
}

static char heard[200];
static void hear(const char *line) { snprintf(heard, sizeof heard, "%s", line); }

static void listeners_get_what_graphs_print(void) {
  world_t w;
  world_open(&w);
  TF_RegisterLogListener(hear);
  run_target(&w, WEFT_OpPrintV2(w.g, NULL, text(&w, "hello"), NULL, w.s));
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(heard, "hello\n");
  TF_Log(TF_INFO, "a line of %s", "the log");
  TF_VLog(1, "not shown");
  world_close(&w);
}

static void queues_go_by_number(void) {
  world_t w;
  world_open(&w);
  const TF_DataType types[] = {TF_FLOAT};
  TF_Output q = WEFT_OpFIFOQueueV2(w.g, NULL, types, 1, NULL, w.s);
  const TF_Output in[] = {WEFT_OpPlaceholder(w.g, "arg_tensor_enqueue_3", TF_FLOAT, NULL, w.s)};
  WEFT_OpQueueEnqueueV2(w.g, "fifo_queue_enqueue_3", q, in, 1, NULL, w.s);
  WEFT_OpQueueDequeueV2(w.g, "fifo_queue_dequeue_3", q, types, 1, NULL, w.s);
  ASSERT_OK(&w);
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(w.g, options, w.s);
  TF_Tensor *value = new_float(2.5F);
  TF_EnqueueNamedTensor(session, 3, value, w.s);
  ASSERT_OK(&w);
  TF_Tensor *back = TF_DequeueNamedTensor(session, 3, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(back, 0), 2.5F);
  CU_ASSERT_PTR_NULL(TF_DequeueNamedTensor(session, 4, w.s));
  ASSERT_FAILS(&w, TF_INTERNAL, "Unable to find the dequeue node in the TF graph.");
  TF_DeleteTensor(value);
  TF_DeleteTensor(back);
  TF_DeleteSession(session, w.s);
  TF_DeleteSessionOptions(options);
  world_close(&w);
}

static void ops_and_graphs_are_told(void) {
  world_t w;
  size_t n = 0;
  world_open(&w);
  CU_ASSERT_TRUE(TF_OpIsStateful("VarHandleOp", w.s));
  CU_ASSERT_FALSE(TF_OpIsStateful("Add", w.s));
  CU_ASSERT_STRING_EQUAL(TF_GetNumberAttrForOpListInput("Pack", 0, w.s), "N");
  CU_ASSERT_PTR_NULL(TF_GetNumberAttrForOpListInput("Add", 0, w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "Add does not have number_attr() defined.");
  CU_ASSERT_PTR_NULL(TF_GetNumberAttrForOpListInput("Add", 2, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "2 out of range for Add");
  CU_ASSERT_FALSE(TF_OpIsStateful("NoSuchOp", w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "NoSuchOp");
  TF_SetStatus(w.s, TF_OK, "");
  WEFT_OpNoOp(w.g, "nothing", w.s);
  char *told = (char *)(uintptr_t)TF_GraphDebugString(w.g, &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(told);
  CU_ASSERT_EQUAL(n, strlen(told));
  CU_ASSERT_PTR_NOT_NULL(strstr(told, "name: \"nothing\""));
  free(told);
  TF_GraphRemoveFunction(w.g, "none", w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "non-existent function 'none'");
  TF_MakeInternalErrorStatus(w.s, "made");
  ASSERT_FAILS(&w, TF_INTERNAL, "made");
  CU_ASSERT_TRUE(TF_PickUnusedPortOrDie() > 0);
  world_close(&w);
}

static void configurations_are_made(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *config = TF_CreateConfig(0, 1, 3), *options = TF_CreateRunOptions(1);
  TF_SessionOptions *session_options = TF_NewSessionOptions();
  TF_SetConfig(session_options, config->data, config->length, w.s);
  ASSERT_OK(&w);
  TF_Session *session = TF_NewSession(w.g, session_options, w.s);
  ASSERT_OK(&w);
  TF_DeviceList *devices = TF_SessionListDevices(session, w.s);
  CU_ASSERT_EQUAL(TF_DeviceListCount(devices), 3);
  TF_DeleteDeviceList(devices);
  CU_ASSERT_EQUAL(options->length, 2);
  TF_DeleteSession(session, w.s);
  TF_DeleteSessionOptions(session_options);
  TF_DeleteBuffer(config);
  TF_DeleteBuffer(options);
  TF_EnableXLACompilation(NULL, 1);
  CU_ASSERT_EQUAL(TF_SetTfXlaCpuGlobalJit(1), 0);
  CU_ASSERT_EQUAL(TF_SetTfXlaCpuGlobalJit(0), 1);
  CU_ASSERT_EQUAL(TF_GetXlaAutoJitEnabled(), 0);
  world_close(&w);
}

static void shapes_are_listed(void) {
  TF_ShapeAndTypeList *l = TF_NewShapeAndTypeList(2);
  const int64_t dims[] = {4, -1};
  CU_ASSERT_PTR_NOT_NULL_FATAL(l);
  TF_ShapeAndTypeListSetShape(l, 0, dims, 2);
  TF_ShapeAndTypeListSetDtype(l, 0, TF_INT8);
  TF_ShapeAndTypeListSetUnknownShape(l, 1);
  CU_ASSERT_EQUAL(l->items[0].dims[0], 4);
  CU_ASSERT_EQUAL(l->items[0].dtype, TF_INT8);
  CU_ASSERT_EQUAL(l->items[1].num_dims, -1);
  TF_DeleteShapeAndTypeList(l);
}

static void write_file(const char *path, TF_Status *s) {
  TF_WritableFileHandle *f = NULL;
  TF_NewWritableFile(path, &f, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  TF_AppendWritableFile(f, "abc", 3, s);
  TF_FlushWritableFile(f, s);
  TF_SyncWritableFile(f, s);
  TF_CloseWritableFile(f, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
}

static void files_are_made_and_deleted(void) {
  char dir[300], inner[400], path[500];
  world_t w;
  world_open(&w);
  snprintf(dir, sizeof dir, "%s/tree", weft_test_directory());
  snprintf(inner, sizeof inner, "%s/inner", dir);
  snprintf(path, sizeof path, "%s/file", inner);
  TF_CreateDir(dir, w.s);
  TF_CreateDir(inner, w.s);
  ASSERT_OK(&w);
  TF_CreateDir(dir, w.s);
  ASSERT_FAILS(&w, TF_ALREADY_EXISTS, "tree");
  write_file(path, w.s);
  TF_FileStatistics stats;
  TF_FileStat(path, &stats, w.s);
  CU_ASSERT_EQUAL(stats.length, 3);
  CU_ASSERT_FALSE(stats.is_directory);
  TF_StringStream *names = TF_GetChildren(inner, w.s);
  const char *name = NULL;
  CU_ASSERT_TRUE(TF_StringStreamNext(names, &name));
  CU_ASSERT_STRING_EQUAL(name, "file");
  CU_ASSERT_FALSE(TF_StringStreamNext(names, &name));
  TF_StringStreamDone(names);
  TF_DeleteDir(inner, w.s);
  ASSERT_FAILS(&w, TF_FAILED_PRECONDITION, "inner");
  int64_t files = 1, dirs = 1;
  TF_DeleteRecursively(dir, &files, &dirs, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(files + dirs, 0);
  TF_FileStat(path, &stats, w.s);
  ASSERT_FAILS(&w, TF_NOT_FOUND, "file");
  TF_DeleteRecursively(dir, &files, &dirs, w.s);
  ASSERT_FAILS(&w, TF_NOT_FOUND, "tree");
  TF_DeleteFile(path, w.s);
  ASSERT_FAILS(&w, TF_NOT_FOUND, "file");
  CU_ASSERT_PTR_NULL(TF_GetChildren(dir, w.s));
  char *temporary = TF_GetTempFileName("txt");
  CU_ASSERT_PTR_NOT_NULL_FATAL(temporary);
  CU_ASSERT_PTR_NOT_NULL(strstr(temporary, ".txt"));
  free(temporary);
  world_close(&w);
}

static atomic_int worked;
static void work(void *arg) { atomic_fetch_add(&worked, *(int *)arg); }

static void threads_time_and_libraries(void) {
  world_t w;
  int by = 5;
  TF_ThreadOptions options;
  world_open(&w);
  TF_DefaultThreadOptions(&options);
  TF_Thread *t = TF_StartThread(&options, "a rather long name of a thread", work, &by);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  TF_JoinThread(t);
  CU_ASSERT_EQUAL(atomic_load(&worked), 5);
  uint64_t now = TF_NowSeconds();
  CU_ASSERT_TRUE(now > 1600000000 && TF_NowMicros() / 1000000 - now <= 1);
  CU_ASSERT_PTR_NULL(TF_LoadSharedLibrary("/nowhere.so", w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "/nowhere.so");
  CU_ASSERT_PTR_NULL(TF_LoadPluggableDeviceLibrary("x.so", w.s));
  ASSERT_FAILS(&w, TF_UNIMPLEMENTED, "x.so");
  world_close(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"checkpoints of both formats are read", checkpoints_of_both_formats_are_read},
      {"listeners get what graphs print", listeners_get_what_graphs_print},
      {"queues go by number", queues_go_by_number},
      {"ops and graphs are told", ops_and_graphs_are_told},
      {"configurations are made", configurations_are_made},
      {"shapes are listed", shapes_are_listed},
      {"files are made and deleted", files_are_made_and_deleted},
      {"threads, time and libraries", threads_time_and_libraries},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("the other headers of the C API", tests);
}
