/* tests/strategies/demo_graphs_test.c - the digits demo and training graphs of TensorFlow, some steps under
 * several strategies, against the same steps on the CPU alone.
 *
 * In demo_graphs_test_cuda the strategies' devices are emulated GPUs, and the reference is pinned to the CPU.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/device.h"
#include "tests/cuda/fake/fake.h"
#include "tests/strategies/training.h"

enum { STEPS = 3 };

typedef struct demo {
  const char *graph;
  const char *x, *y;
  TF_DataType type; /* of x */
  int columns, classes, rows;
  TF_DataType labels;
  double tolerance;
} demo_t;

static const demo_t demos[] = {
    {"digits", "images", "labels", TF_FLOAT, 64, 10, 6, TF_INT64, 1e-4},
    {"mlp_adam", "x", "y", TF_FLOAT, 32, 10, 8, TF_INT32, 1e-4},
    {"mlp64_momentum", "x", "y", TF_DOUBLE, 32, 10, 8, TF_INT32, 1e-9},
    {"embedding_sgd", "x", "y", TF_INT32, 1000, 4, 8, TF_INT32, 1e-4},
    {"transformer", "x", "y", TF_FLOAT, 32, 10, 4, TF_INT32, 1e-4},
};
enum { NUM_DEMOS = sizeof demos / sizeof *demos };

/* Launches of kernels on emulated GPUs so far; -1: there are none. */
static long launches(void) {
  const char *path = getenv("WEFT_CUDA_DRIVER");
  void *fake = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  weft_fake_cuda_calls_fn *calls = NULL;
  if (fake != NULL) *(void **)&calls = dlsym(fake, WEFT_FAKE_CUDA_CALLS);
  const long n = calls == NULL ? -1 : calls("cuLaunchKernel");
  if (fake != NULL) dlclose(fake);
  return n;
}

static use_t use_for(const demo_t *d, const char *strategy) {
  use_t u = {.graph = d->graph,
             .strategy = strategy,
             .feeds = {d->x, d->y},
             .fetches = {"loss:0"},
             .targets = {"train"},
             .inits = {"init"}};
  return u;
}

static job_t *start_on_cpu(const demo_t *d) {
  job_t *j = weft_calloc(1, sizeof *j);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  j->source = read_graph(d->graph);
  j->rewrite.arena = (weft_arena_t)WEFT_ARENA_INIT;
  for (int i = 0; i < j->source->num_nodes; i++) {
    if (j->source->nodes[i] != NULL) j->source->nodes[i]->requested_device = WEFT_STR("/device:CPU:0");
  }
  job_open(j, j->source, 1);
  step_t init = {.targets = {"init"}};
  job_step(j, &init);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(j->status), TF_OK);
  return j;
}

static TF_Tensor *labels_of(const demo_t *d, uint64_t *state) {
  TF_Tensor *ints = random_ints(state, d->rows, d->classes);
  if (d->labels == TF_INT32) return ints;
  const int64_t rows = d->rows;
  TF_Tensor *longs = TF_AllocateTensor(TF_INT64, &rows, 1, (size_t)rows * sizeof(int64_t));
  for (int64_t i = 0; i < rows; i++)
    ((int64_t *)TF_TensorData(longs))[i] = ((const int32_t *)TF_TensorData(ints))[i];
  TF_DeleteTensor(ints);
  return longs;
}

static void train(job_t *j, const demo_t *d, double losses[STEPS]) {
  uint64_t state = 11;
  for (int i = 0; i < STEPS; i++) {
    step_t s = {.feeds = {d->x, d->y}, .fetches = {"loss:0"}, .targets = {"train"}};
    s.values[0] = d->type == TF_INT32 ? random_ints(&state, d->rows, d->columns)
                                      : random_floats(&state, d->type, d->rows, d->columns);
    s.values[1] = labels_of(d, &state);
    job_step(j, &s);
    if (TF_GetCode(j->status) != TF_OK) fprintf(stderr, "%s: %s\n", d->graph, TF_Message(j->status));
    CU_ASSERT_EQUAL_FATAL(TF_GetCode(j->status), TF_OK);
    losses[i] = number_of(s.results[0]);
    step_end(&s);
  }
}

static void follow_the_cpu(const char *strategy) {
  for (int k = 0; k < NUM_DEMOS; k++) {
    const demo_t *d = &demos[k];
    double wanted[STEPS], losses[STEPS];
    job_t *cpu = start_on_cpu(d);
    const long before = launches();
    train(cpu, d, wanted);
    job_end(cpu);
    const long between = launches();
    const use_t u = use_for(d, strategy);
    job_t *j = job_start(&u);
    train(j, d, losses);
    job_end(j);
    const long after = launches();
    if (weft_device_accelerator() != NULL) {
      CU_ASSERT_EQUAL(between, before);        /* the reference is the CPU's */
      CU_ASSERT(after - between > 10 * STEPS); /* and this the GPU's */
    }
    double worst = 0;
    for (int i = 0; i < STEPS; i++) {
      const double off = fabs(losses[i] - wanted[i]) / fabs(wanted[i]);
      if (!(off <= worst)) worst = off;
    }
    if (!(worst <= d->tolerance))
      fprintf(stderr, "%s %s: losses differ by %g\n", d->graph, strategy == NULL ? "" : strategy, worst);
    CU_ASSERT(worst <= d->tolerance);
    CU_ASSERT(losses[STEPS - 1] != losses[0]);
  }
}

static void one_device_follows_the_cpu(void) { follow_the_cpu(NULL); }
static void mirrored_replicas_follow_the_cpu(void) { follow_the_cpu("mirrored:2"); }
static void central_storage_follows_the_cpu(void) { follow_the_cpu("central_storage:2"); }

static const CU_TestInfo tests[] = {
    {"one device follows the CPU", one_device_follows_the_cpu},
    {"mirrored replicas follow the CPU", mirrored_replicas_follow_the_cpu},
    {"central storage follows the CPU", central_storage_follows_the_cpu},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("demo_graphs", tests); }
