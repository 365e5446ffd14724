/* tests/client/tensor_test.c - tensors, strings, buffers and statuses as a caller sees them. */
#include <errno.h>

#include "tests/client/client_testing.h"

static int num_freed;
static void count_free(void *data, size_t len, void *arg) {
  (void)data;
  num_freed++;
  *(size_t *)arg = len;
}

static void a_wrapped_tensor_shows_the_callers_bytes(void) {
  static float data[6] __attribute__((aligned(64))) = {1, 2, 3, 4, 5, 6};
  const int64_t dims[2] = {2, 3};
  size_t told = 0;
  num_freed = 0;
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, dims, 2, data, sizeof data, count_free, &told);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  CU_ASSERT_PTR_EQUAL(TF_TensorData(t), data);
  CU_ASSERT_EQUAL(TF_TensorType(t), TF_FLOAT);
  CU_ASSERT_EQUAL(TF_NumDims(t), 2);
  CU_ASSERT_EQUAL(TF_Dim(t, 1), 3);
  CU_ASSERT_EQUAL(TF_TensorByteSize(t), sizeof data);
  CU_ASSERT_EQUAL(TF_TensorElementCount(t), 6);
  CU_ASSERT(TF_TensorIsAligned(t));
  CU_ASSERT_EQUAL(num_freed, 0);
  TF_DeleteTensor(t);
  CU_ASSERT_EQUAL(num_freed, 1);
  CU_ASSERT_EQUAL(told, sizeof data);
}

static void the_deallocator_is_called_on_failure_and_told_the_given_length(void) {
  static float data[8];
  const int64_t dims[1] = {6}, negative[1] = {-2};
  size_t told = 0;
  num_freed = 0;
  CU_ASSERT_PTR_NULL(TF_NewTensor(TF_FLOAT, dims, 1, data, 8, count_free, &told));
  CU_ASSERT_PTR_NULL(TF_NewTensor(TF_FLOAT, negative, 1, data, 8, count_free, &told));
  CU_ASSERT_PTR_NULL(TF_NewTensor((TF_DataType)99, dims, 1, data, 24, count_free, &told));
  CU_ASSERT_EQUAL(num_freed, 3);
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, dims, 1, data, sizeof data, count_free, &told);
  CU_ASSERT_EQUAL(TF_TensorByteSize(t), sizeof data);
  TF_DeleteTensor(t);
  CU_ASSERT_EQUAL(num_freed, 4);
  CU_ASSERT_EQUAL(told, sizeof data);
}

static void unaligned_bytes_are_copied_and_given_back_at_once(void) {
  static char raw[64] __attribute__((aligned(8)));
  const float value = 7.5f;
  size_t told = 0;
  memcpy(raw + 1, &value, sizeof value);
  num_freed = 0;
  TF_Tensor *t = TF_NewTensor(TF_FLOAT, NULL, 0, raw + 1, 4, count_free, &told);
  CU_ASSERT_EQUAL(num_freed, 1);
  memset(raw, 0, sizeof raw);
  CU_ASSERT_EQUAL(float_at(t, 0), 7.5f);
  TF_DeleteTensor(t);
  CU_ASSERT_EQUAL(num_freed, 1);
}

static void empty_tensors_have_no_elements(void) {
  const int64_t dims[3] = {2, 0, 3};
  TF_Tensor *t = TF_AllocateTensor(TF_INT32, dims, 3, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  CU_ASSERT_EQUAL(TF_TensorElementCount(t), 0);
  CU_ASSERT_EQUAL(TF_TensorByteSize(t), 0);
  CU_ASSERT_EQUAL(TF_Dim(t, 2), 3);
  CU_ASSERT_PTR_NOT_NULL(TF_TensorData(t)); /* as TensorFlow's */
  TF_DeleteTensor(t);
  TF_DeleteTensor(NULL);
}

static void allocation_wants_enough_bytes(void) {
  const int64_t dims[1] = {4};
  CU_ASSERT_PTR_NULL(TF_AllocateTensor(TF_FLOAT, dims, 1, 15));
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, 1, 32);
  CU_ASSERT_EQUAL(TF_TensorByteSize(t), 32);
  memset(TF_TensorData(t), 1, 32);
  TF_DeleteTensor(t);
}

static void strings_take_every_layout(void) {
  static const char *const texts[3] = {"", "twenty-two bytes long!",
                                       "more than twenty-two bytes do not fit in place"};
  TF_TString s;
  TF_StringInit(&s);
  for (int i = 0; i < 3; i++) {
    TF_StringCopy(&s, texts[i], strlen(texts[i]));
    CU_ASSERT_EQUAL(TF_StringGetType(&s), i < 2 ? TF_TSTR_SMALL : TF_TSTR_LARGE);
    CU_ASSERT_EQUAL(TF_StringGetSize(&s), strlen(texts[i]));
    CU_ASSERT_EQUAL(memcmp(TF_StringGetDataPointer(&s), texts[i], strlen(texts[i])), 0);
    CU_ASSERT(TF_StringGetCapacity(&s) >= strlen(texts[i]));
  }
  TF_StringAssignView(&s, texts[2], 4);
  CU_ASSERT_EQUAL(TF_StringGetType(&s), TF_TSTR_VIEW);
  CU_ASSERT_PTR_EQUAL(TF_StringGetDataPointer(&s), texts[2]);
  CU_ASSERT_EQUAL(TF_StringGetSize(&s), 4);
  TF_StringDealloc(&s);
}

static void bitcast_shares_bytes_of_equal_size(void) {
  const int64_t two[1] = {2}, four[1] = {4};
  const int32_t bits[2] = {0x3f800000, 0x40000000};
  TF_Status *s = TF_NewStatus();
  TF_Tensor *from = new_ints(1, two, bits), *to = new_float(0);
  TF_TensorBitcastFrom(from, TF_FLOAT, to, two, 1, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  CU_ASSERT_PTR_EQUAL(TF_TensorData(to), TF_TensorData(from));
  CU_ASSERT_EQUAL(float_at(to, 1), 2.0f);
  TF_TensorBitcastFrom(from, TF_DOUBLE, to, two, 1, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  TF_TensorBitcastFrom(from, TF_HALF, to, four, 1, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  TF_TensorBitcastFrom(from, TF_STRING, to, two, 1, s);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "specified output type is zero-sized");
  CU_ASSERT_PTR_NULL(TF_TensorMaybeMove(from)); /* shared with `to` */
  TF_DeleteTensor(to);
  CU_ASSERT_PTR_EQUAL(TF_TensorMaybeMove(from), from);
  TF_DeleteTensor(from);
  TF_DeleteStatus(s);
}

static void a_tensor_comes_from_its_message(void) {
  static const char proto[] = "\x08\x03\x12\x04\x12\x02\x08\x02\x3a\x02\x05\x06"; /* int32[2]: 5, 6 */
  TF_Status *s = TF_NewStatus();
  TF_Buffer *b = TF_NewBufferFromString(proto, sizeof proto - 1), *bad = TF_NewBufferFromString("\xff", 1);
  TF_Tensor *t = new_float(0);
  TF_TensorFromProto(b, t, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  CU_ASSERT_EQUAL(TF_TensorType(t), TF_INT32);
  CU_ASSERT_EQUAL(int_at(t, 1), 6);
  TF_TensorFromProto(bad, t, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  CU_ASSERT_EQUAL(int_at(t, 0), 5);
  TF_DeleteTensor(t);
  TF_DeleteBuffer(b);
  TF_DeleteBuffer(bad);
  TF_DeleteStatus(s);
}

static void show_payload(const char *key, const char *value, void *capture) {
  strncat(capture, key, 8);
  strncat(capture, value, 8);
}

static void a_status_keeps_code_message_and_payloads(void) {
  TF_Status *s = TF_NewStatus();
  char seen[64] = "";
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "");
  TF_SetPayload(s, "k", "v"); /* a success takes none */
  TF_ForEachPayload(s, show_payload, seen);
  CU_ASSERT_STRING_EQUAL(seen, "");
  TF_SetStatus(s, TF_ABORTED, "why");
  TF_SetPayload(s, "a", "1");
  TF_SetPayload(s, "b", "2");
  TF_SetPayload(s, "a", "3");
  TF_ForEachPayload(s, show_payload, seen);
  CU_ASSERT_STRING_EQUAL(seen, "a3b2");
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "why");
  TF_SetStatus(s, TF_NOT_FOUND, TF_Message(s));
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "why");
  TF_SetStatusFromIOError(s, ENOENT, "file");
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_NOT_FOUND);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "file; No such file or directory");
  TF_SetStatus(s, TF_OK, "ignored");
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "");
  TF_DeleteStatus(s);
  TF_DeleteStatus(NULL);
}

static void sizes_of_types_are_tensorflows(void) {
  static const struct {
    TF_DataType type;
    size_t size;
  } sizes[] = {{TF_FLOAT, 4},        {TF_DOUBLE, 8},      {TF_STRING, 0},       {TF_COMPLEX128, 16},
               {TF_HALF, 2},         {TF_RESOURCE, 0},    {TF_VARIANT, 0},      {TF_QINT32, 4},
               {TF_UINT64, 8},       {(TF_DataType)0, 0}, {(TF_DataType)77, 0}, {(TF_DataType)101, 0},
               {(TF_DataType)102, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    CU_ASSERT_EQUAL(TF_DataTypeSize(sizes[i].type), sizes[i].size);
  }
}

static const CU_TestInfo tests[] = {
    {"a wrapped tensor shows the caller's bytes", a_wrapped_tensor_shows_the_callers_bytes},
    {"the deallocator is called on failure, with the given length",
     the_deallocator_is_called_on_failure_and_told_the_given_length},
    {"unaligned bytes are copied and given back at once", unaligned_bytes_are_copied_and_given_back_at_once},
    {"empty tensors have no elements", empty_tensors_have_no_elements},
    {"allocation wants enough bytes", allocation_wants_enough_bytes},
    {"strings take every layout", strings_take_every_layout},
    {"a bitcast shares bytes of equal size", bitcast_shares_bytes_of_equal_size},
    {"a tensor comes from its message", a_tensor_comes_from_its_message},
    {"a status keeps code, message and payloads", a_status_keeps_code_message_and_payloads},
    {"sizes of types are TensorFlow's", sizes_of_types_are_tensorflows},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/tensor", tests); }
