/* tests/cuda/keras_test.c - layers of Keras with their gradients (tests/oracle/keras_graphs.py), on the GPU
 * and on the CPU: attention by Einsum, and an LSTM whose loops keep their values in tensor lists. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "io/file.h"
#include "protos/wire.h"
#include "tests/cuda/both.h"
#include "tests/cuda/fake/fake.h"

enum { MAX_FETCHES = 32, STEPS = 4 };

/* ConfigProto: allow_soft_placement = true */
static const unsigned char SOFT_PLACEMENT[] = {0x38, 1};
/* RunOptions: trace_level = FULL_TRACE */
static const unsigned char TRACE[] = {0x08, 3};

typedef struct model {
  world_t w;
  TF_Output x, fetches[MAX_FETCHES];
  int num_fetches;
} model_t;

static void add_fetch(model_t *m, const char *name) {
  TF_Operation *op = TF_GraphOperationByName(m->w.g, name);
  if (op != NULL) m->fetches[m->num_fetches++] = (TF_Output){op, 0};
}

static void open_model(model_t *m, const char *file, const char *device) {
  char *bytes = NULL, path[64], name[32];
  size_t length = 0;
  *m = (model_t){.num_fetches = 0};
  world_open(&m->w);
  snprintf(path, sizeof path, "tests/cuda/testdata/%s.pb", file);
  CU_ASSERT_PTR_NULL_FATAL(weft_file_read_all(path, &bytes, &length));
  TF_Buffer *graph = TF_NewBufferFromString(bytes, length);
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetDefaultDevice(o, device);
  TF_GraphImportGraphDef(m->w.g, graph, o, m->w.s);
  ASSERT_OK(&m->w);
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(graph);
  weft_free(bytes);
  m->x = (TF_Output){TF_GraphOperationByName(m->w.g, "x"), 0};
  add_fetch(m, "y");
  add_fetch(m, "loss");
  for (int i = 0; i < MAX_FETCHES - 2; i++) {
    snprintf(name, sizeof name, "gradient_%d", i);
    add_fetch(m, name);
  }
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, SOFT_PLACEMENT, sizeof SOFT_PLACEMENT, m->w.s);
  ASSERT_OK(&m->w);
  m->w.session = TF_NewSession(m->w.g, options, m->w.s);
  ASSERT_OK(&m->w);
  TF_DeleteSessionOptions(options);
}

static TF_Tensor *input_of(const model_t *m, int seed) {
  int64_t dims[3];
  TF_GraphGetTensorShape(m->w.g, m->x, dims, 3, m->w.s);
  ASSERT_OK(&m->w);
  return weft_both_values(TF_FLOAT, 3, dims, seed);
}

/* ---- where nodes ran: RunMetadata.step_stats.dev_stats[].node_stats[].timeline_label ---- */

static bool starts_with(weft_str_t label, const char *op) { /* "name = Op(inputs)" */
  const size_t n = strlen(op);
  for (size_t i = 0; i + 3 + n <= label.length; i++) {
    if (memcmp(label.data + i, " = ", 3) == 0) return memcmp(label.data + i + 3, op, n) == 0;
  }
  return false;
}

static bool is_gpu(weft_str_t device) {
  for (size_t i = 0; i + 4 < device.length; i++) {
    if (memcmp(device.data + i, "GPU:", 4) == 0) return true;
  }
  return false;
}

static void count_device(weft_str_t bytes, const char *op,
                         int *out) { /* out[0]: on the CPU, out[1]: on the GPU */
  weft_str_t device = WEFT_STR("");
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int found = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) device = f.bytes;
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t node = weft_wire_reader(f.bytes);
    while (weft_wire_next(&node, &f))
      found += f.tag == WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES) && starts_with(f.bytes, op);
  }
  out[is_gpu(device)] += found;
}

/* How often nodes of ops that begin so ran. */
static void count(const TF_Buffer *metadata, const char *op, int *out) {
  weft_wire_reader_t r = weft_wire_reader(weft_str_of(metadata->data, metadata->length));
  weft_wire_field_t f;
  out[0] = out[1] = 0;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t stats = weft_wire_reader(f.bytes);
    while (weft_wire_next(&stats, &f)) {
      if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) count_device(f.bytes, op, out);
    }
  }
}

/* ---- the tests ---- */

/* How many recordings the driver has replayed. */
static long replays(void) {
  weft_fake_cuda_calls_fn *calls = NULL;
  void *driver = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  if (driver != NULL) *(void **)&calls = dlsym(driver, WEFT_FAKE_CUDA_CALLS);
  return calls == NULL ? 0 : calls("cuGraphLaunch");
}

static void step(model_t *m, int seed, TF_Tensor **out, TF_Buffer *metadata) {
  TF_Tensor *x = input_of(m, seed);
  TF_Buffer *options = metadata == NULL ? NULL : TF_NewBufferFromString(TRACE, sizeof TRACE);
  TF_SessionRun(m->w.session, options, &m->x, &x, 1, m->fetches, out, m->num_fetches, NULL, 0, metadata,
                m->w.s);
  if (TF_GetCode(m->w.s) != TF_OK) fprintf(stderr, "%s\n", TF_Message(m->w.s));
  ASSERT_OK(&m->w);
  TF_DeleteTensor(x);
  if (options != NULL) TF_DeleteBuffer(options);
}

static void compare(const model_t *m, TF_Tensor *const *a, TF_Tensor *const *b) {
  for (int i = 0; i < m->num_fetches; i++) {
    int wrong = TF_TensorByteSize(a[i]) != TF_TensorByteSize(b[i]);
    for (int64_t k = 0; wrong == 0 && k < TF_TensorElementCount(a[i]); k++) {
      const float want = float_at(b[i], (int)k);
      wrong += !(fabsf(float_at(a[i], (int)k) - want) <= 2e-5f * (1 + fabsf(want)));
    }
    if (wrong != 0) fprintf(stderr, "%s differs\n", TF_OperationName(m->fetches[i].oper));
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

/* An op, and how often its nodes run on the GPU in a step; they never do on the CPU. */
typedef struct model_op {
  const char *op;
  int times;
} model_op_t;

/* Several steps on both, the last of which is traced. */
static void agrees(const char *file, int num_fetches, const model_op_t *ops) {
  model_t gpu, cpu;
  int ran[2];
  open_model(&gpu, file, "/device:GPU:0");
  open_model(&cpu, file, "/device:CPU:0");
  CU_ASSERT_EQUAL(gpu.num_fetches, num_fetches);
  TF_Buffer *metadata = TF_NewBuffer();
  for (int i = 0; i < STEPS; i++) {
    TF_Tensor *a[MAX_FETCHES] = {NULL}, *b[MAX_FETCHES] = {NULL};
    step(&gpu, i, a, i == STEPS - 1 ? metadata : NULL);
    step(&cpu, i, b, NULL);
    compare(&gpu, a, b);
    for (int k = 0; k < gpu.num_fetches; k++) {
      TF_DeleteTensor(a[k]);
      TF_DeleteTensor(b[k]);
    }
  }
  for (; ops->op != NULL; ops++) {
    count(metadata, ops->op, ran);
    CU_ASSERT_EQUAL(ran[0], 0);
    CU_ASSERT_EQUAL(ran[1], ops->times);
  }
  TF_DeleteBuffer(metadata);
  world_close(&gpu.w);
  world_close(&cpu.w);
}

static void attention_gives_what_the_cpu_gives(void) {
  static const model_op_t ops[] = {{"Einsum(", 6}, {"Softmax(", 1}, {"BatchMatMulV2(", 15}, {NULL, 0}};
  const long before = replays();
  agrees("attention", 19, ops);
  if (strstr(getenv("WEFT_CUDA_DRIVER"), "emulated") != NULL) CU_ASSERT(replays() > before);
}

/* Two layers, whose loops go round seven times forwards and backwards. */
static void an_lstm_gives_what_the_cpu_gives(void) {
  static const model_op_t ops[] = {
      {"TensorListGetItem(", 2 * 7 * 2}, {"TensorListStack(", 4}, {"TensorListFromTensor(", 4}, {NULL, 0}};
  agrees("lstm", 9, ops);
}

static const CU_TestInfo tests[] = {
    {"attention gives what the CPU gives", attention_gives_what_the_cpu_gives},
    {"an LSTM gives what the CPU gives", an_lstm_gives_what_the_cpu_gives},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("layers of Keras on a GPU", tests);
}
