/* tests/executor/graphs.h - small graphs in few words, and kernels to watch the executor with.
 *
 * The test kernels, which are the host's, stand in for ops whose real kernels live on a higher floor:
 *   Add, Less, Mul    of int32 scalars, wrapping; Mul takes 20 us, which makes it costly
 *   Square            int32 scalar; writes in place if it may, and counts how often it could
 *   Neg               as Add of its input to itself, but asynchronous: ends on another thread
 *   Abs               fails with INVALID_ARGUMENT "negative" below 0
 *   Sign              fails with UNAVAILABLE
 *   Maximum        sets no output
 *   Minimum         sets an output of type bool
 *   VariableV2        a reference to harness_t.variable
 */
#ifndef WEFT_TESTS_EXECUTOR_GRAPHS_H_
#define WEFT_TESTS_EXECUTOR_GRAPHS_H_

#include <stdatomic.h>

#include "executor/executor.h"
#include "tests/device/test_devices.h"

enum { MAX_RESULTS = 16 };

typedef struct harness {
  weft_graph_t *g;
  weft_thread_pool_t *pool;
  test_devices_t devices;
  weft_device_t *device; /* the host's */
  weft_exec_plan_t *plan;
  weft_rendezvous_t *rendezvous;
  weft_canceller_t *canceller;
  weft_tensor_t *args[MAX_RESULTS];
  weft_tensor_t *results[MAX_RESULTS];
  int num_results;
  bool only_schedules; /* nothing is run serially */
  int64_t step_id;
} harness_t;

/* Counters of the test kernels and the variable of VariableV2; reset by harness_init. */
extern atomic_int test_in_place, test_not_in_place, test_runs;
extern weft_variable_t *test_variable;

void harness_init(harness_t *h, int num_threads); /* 0: no pool */
void harness_deinit(harness_t *h);
/* Is there a device with a memory of its own? Then values are copied on their way between nodes. */
static inline bool harness_has_copies(const harness_t *h) { return h->devices.n > 1; }

/* Nodes. All abort the test program when the graph refuses them: that is a mistake in the test. */
weft_node_t *add_const(harness_t *h, const char *name, int32_t value);
weft_node_t *add_bool(harness_t *h, const char *name, bool value);
weft_node_t *add_vector(harness_t *h, const char *name); /* int32 [1], of one element */
weft_node_t *add_op(harness_t *h, const char *op, const char *name, int n, const weft_output_t *inputs);
weft_node_t *add_enter(harness_t *h, const char *name, weft_output_t in, const char *frame, bool is_constant,
                       int parallel);
weft_node_t *add_merge(harness_t *h, const char *name, weft_output_t a, weft_output_t b);
weft_node_t *add_variable(harness_t *h, const char *name);
weft_node_t *add_send(harness_t *h, const char *name, const char *key, weft_output_t in);
weft_node_t *add_recv(harness_t *h, const char *name, const char *key);
weft_node_t *add_arg(harness_t *h, const char *name, int index);
void add_control(harness_t *h, weft_node_t *from, weft_node_t *to);
/* Adds a _Retval; returns its index. */
int add_fetch(harness_t *h, weft_output_t out);
static inline weft_output_t out(weft_node_t *n, int index) { return (weft_output_t){n, index}; }
static inline weft_output_t out0(weft_node_t *n) { return out(n, 0); }
#define INPUTS(...) \
  (int)(sizeof((weft_output_t[]){__VA_ARGS__}) / sizeof(weft_output_t)), (weft_output_t[]) { __VA_ARGS__ }

/* Compiles if need be and runs a step to its end. Results of an earlier one are dropped. */
weft_status_t *harness_run(harness_t *h);
/* Only compiles. */
weft_status_t *harness_compile(harness_t *h);
weft_run_options_t harness_options(harness_t *h);
/* Result i as int32; INT32_MIN if there is none. */
int32_t result(const harness_t *h, int i);

#endif /* WEFT_TESTS_EXECUTOR_GRAPHS_H_ */
