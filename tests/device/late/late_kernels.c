/* tests/device/late/late_kernels.c - ops on a LATE device: what the CPU's kernels do, later, behind the
 * pointers.
 *
 * All rows are one function. While the node runs it allocates the outputs, of the shapes that the op's shape
 * function says; the CPU's kernel runs on the queue, on the bytes behind the pointers.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/device/late/late.h"

enum { F32 = 1, F64 = 2, I64 = 9, I32 = 3 };

/* ---- a node ---- */

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  return weft_late_host->host_kernel(s, (WEFT_HostKernel **)out);
}

static void destroy(void *state) { weft_late_host->host_kernel_free(state); }

/* ---- on the queue ---- */

typedef struct late_run {
  WEFT_HostKernel *kernel;
  int num_inputs, num_outputs;
  WEFT_TensorView *inputs, *outputs; /* owned, as are the inputs' dims and host bytes */
} late_run_t;

static void free_run(late_run_t *r) {
  for (int i = 0; i < r->num_inputs; i++) {
    free((void *)(uintptr_t)r->inputs[i].dims);
    if (r->inputs[i].on_host) free(r->inputs[i].data);
  }
  free(r->inputs);
  free(r->outputs);
  free(r);
}

static WEFT_Failure *run(void *arg, const WEFT_Failure *poison) {
  late_run_t *r = arg;
  WEFT_Failure *f = NULL;
  if (poison == NULL)
    f = weft_late_host->host_kernel_run(r->kernel, r->inputs, r->num_inputs, r->outputs, r->num_outputs);
  free_run(r);
  return f;
}

/* ---- while the node runs ---- */

static WEFT_Failure *no_memory(void) {
  return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "out of memory: a late kernel");
}

static void *copy_of(const void *from, size_t bytes) {
  void *to = malloc(bytes == 0 ? 1 : bytes);
  if (to != NULL && bytes > 0) memcpy(to, from, bytes);
  return to;
}

/* What the work reads of an input: the bytes behind the pointer, or a copy of the host's. */
static WEFT_Failure *keep_input(WEFT_KernelContext *c, late_run_t *r, int i) {
  WEFT_TensorView *v = &r->inputs[i];
  WEFT_TensorView seen;
  weft_late_host->input(c, i, &seen);
  *v = seen;
  v->dims = copy_of(seen.dims, (size_t)seen.rank * sizeof seen.dims[0]);
  v->data =
      seen.on_host ? copy_of(seen.data, seen.bytes) : weft_late_bytes(weft_late_host->device(c), seen.data);
  r->num_inputs = i + 1;
  return v->dims == NULL || (seen.on_host && v->data == NULL) ? no_memory() : NULL;
}

static bool same_shape(const WEFT_TensorView *a, const WEFT_TensorView *b) {
  return a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0);
}

/* Elementwise, and the result has the shape of input 0: it may lie in its bytes. */
static bool may_forward(const WEFT_KernelContext *c, const late_run_t *r) {
  return weft_late_host->param(c) != NULL && !r->inputs[0].on_host &&
         (r->num_inputs == 1 || (r->num_inputs == 2 && same_shape(&r->inputs[0], &r->inputs[1])));
}

static WEFT_Failure *make_output(WEFT_KernelContext *c, late_run_t *r, int i) {
  WEFT_TensorView *v = &r->outputs[i];
  const WEFT_TensorView *in = &r->inputs[0];
  WEFT_Failure *f = i == 0 && may_forward(c, r)
                        ? weft_late_host->output_forwarded(c, 0, 0, in->rank, in->dims, v)
                        : weft_late_host->output_inferred(c, i, v);
  if (f != NULL) return f;
  v->data = weft_late_bytes(weft_late_host->device(c), v->data);
  r->num_outputs = i + 1;
  return NULL;
}

static WEFT_Failure *fill_run(WEFT_KernelContext *c, int num_outputs, late_run_t *r) {
  const int num_inputs = weft_late_host->num_inputs(c);
  WEFT_Failure *f = NULL;
  r->inputs = calloc((size_t)num_inputs + 1, sizeof *r->inputs);
  r->outputs = calloc((size_t)num_outputs + 1, sizeof *r->outputs);
  if (r->inputs == NULL || r->outputs == NULL) return no_memory();
  r->kernel = weft_late_host->state(c);
  for (int i = 0; f == NULL && i < num_inputs; i++) f = keep_input(c, r, i);
  for (int i = 0; f == NULL && i < num_outputs; i++) f = make_output(c, r, i);
  return f;
}

static WEFT_Failure *enqueue(WEFT_KernelContext *c, int num_outputs) {
  late_run_t *r = calloc(1, sizeof *r);
  if (r == NULL) return no_memory();
  WEFT_Failure *f = fill_run(c, num_outputs, r);
  if (f == NULL) f = weft_late_enqueue(weft_late_host->queue(c), run, r);
  if (f != NULL) free_run(r);
  return f;
}

static WEFT_Failure *compute(WEFT_KernelContext *c) { return enqueue(c, weft_late_host->num_outputs(c)); }

/* The variables are written in place; a reference is passed on by Weft. */
static WEFT_Failure *update(WEFT_KernelContext *c) { return enqueue(c, 0); }

/* Of AssignAdd and AssignSub: a variable and its value. */
static WEFT_Failure *update_together(WEFT_KernelContext *const *c, int n, int *out_failed) {
  WEFT_Failure *f = NULL;
  WEFT_TensorView var, value;
  for (int i = 0; i < n; i++) {
    *out_failed = i;
    weft_late_host->input(c[i], 0, &var);
    weft_late_host->input(c[i], 1, &value);
    if (!same_shape(&var, &value))
      return weft_late_host->failure(WEFT_LATE_INVALID_ARGUMENT, "the value has not the variable's shape");
  }
  for (int i = 0; i < n && f == NULL; i++) {
    *out_failed = i;
    f = update(c[i]);
  }
  return f;
}

/* ---- a row with finish(): DeepCopy, by way of the host ---- */

typedef struct late_move {
  const void *from;
  void *to, *owned; /* owned: freed afterwards, or NULL */
  size_t bytes;
} late_move_t;

static WEFT_Failure *run_move(void *arg, const WEFT_Failure *poison) {
  late_move_t *m = arg;
  if (poison == NULL && m->bytes > 0) memcpy(m->to, m->from, m->bytes);
  free(m->owned);
  free(m);
  return NULL;
}

/* Consumes `owned`. */
static WEFT_Failure *enqueue_move(WEFT_KernelContext *c, const void *from, void *to, size_t bytes,
                                  void *owned) {
  late_move_t *m = malloc(sizeof *m);
  WEFT_Failure *f = m == NULL ? no_memory() : NULL;
  if (m != NULL) {
    *m = (late_move_t){from, to, owned, bytes};
    f = weft_late_enqueue(weft_late_host->queue(c), run_move, m);
  }
  if (f == NULL) return NULL;
  free(owned);
  free(m);
  return f;
}

static WEFT_Failure *begin_copy(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  void *seen = NULL;
  weft_late_host->input(c, 0, &x);
  WEFT_Failure *f = weft_late_host->host_scratch(c, x.bytes + 1, &seen);
  return f != NULL ? f
                   : enqueue_move(c, weft_late_bytes(weft_late_host->device(c), x.data), seen, x.bytes, NULL);
}

static WEFT_Failure *finish_copy(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  void *seen = NULL;
  weft_late_host->input(c, 0, &x);
  WEFT_Failure *f = weft_late_host->host_scratch(c, 0, &seen);
  if (f == NULL) f = weft_late_host->output(c, 0, x.rank, x.dims, &y);
  if (f != NULL) return f;
  void *kept = copy_of(seen, x.bytes);
  if (kept == NULL) return no_memory();
  return enqueue_move(c, kept, weft_late_bytes(weft_late_host->device(c), y.data), x.bytes, kept);
}

/* ---- the table ---- */

#define BIT(dt) WEFT_DEVICE_TYPE(dt)
#define FLOAT .type_attr = "T", .types = BIT(F32)
#define NUMBER .type_attr = "T", .types = BIT(F32) | BIT(F64) | BIT(I32) | BIT(I64)
#define LATE .prepare = prepare, .compute = compute, .destroy = destroy
#define ELEMENTWISE LATE, .param = "elementwise"
#define UPDATE .prepare = prepare, .compute = update, .destroy = destroy, .updates = 1
#define TOGETHER .compute_together = update_together
#define VALUE .type_attr = "dtype", .types = BIT(F32)
enum { FIRST = 1, SECOND = 2, THIRD = 4, FIFTH = 16, FOURTH_TO_NINTH = 0x1f8, ALL = ~0 };

/* The rows whose result has the shape and type of its operands. */
int weft_late_may_link(const char *op, int operand, int result) {
  for (const WEFT_DeviceKernel *k = weft_late_kernels; k->op != NULL; k++) {
    if (strcmp(k->op, op) == 0) return k->param != NULL && operand == F32 && result == F32;
  }
  return 0;
}

const WEFT_DeviceKernel weft_late_kernels[] = {
    {.op = "Add", NUMBER, ELEMENTWISE},
    {.op = "AddN", NUMBER, LATE},
    {.op = "AddV2", NUMBER, ELEMENTWISE},
    {.op = "ApplyAdam", FLOAT, UPDATE, .host_inputs = FOURTH_TO_NINTH},
    {.op = "ApplyGradientDescent", FLOAT, UPDATE, .host_inputs = SECOND},
    {.op = "ApplyMomentum", FLOAT, UPDATE, .host_inputs = THIRD | FIFTH},
    {.op = "AssignAdd", FLOAT, UPDATE, TOGETHER},
    {.op = "AssignAddVariableOp", VALUE, UPDATE, TOGETHER},
    {.op = "AssignSub", FLOAT, UPDATE, TOGETHER},
    {.op = "AssignSubVariableOp", VALUE, UPDATE, TOGETHER},
    {.op = "BiasAdd", FLOAT, LATE},
    {.op = "BiasAddGrad", FLOAT, LATE},
    {.op = "ConcatV2", FLOAT, LATE, .last_input_on_host = 1},
    {.op = "DeepCopy", FLOAT, .compute = begin_copy, .finish = finish_copy},
    {.op = "Exp", FLOAT, ELEMENTWISE},
    {.op = "Fill", FLOAT, LATE, .host_inputs = ALL},
    {.op = "LogSoftmax", FLOAT, LATE},
    {.op = "MatMul", FLOAT, LATE},
    {.op = "Maximum", NUMBER, ELEMENTWISE},
    {.op = "Mean", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "Minimum", NUMBER, ELEMENTWISE},
    {.op = "Mul", NUMBER, ELEMENTWISE},
    {.op = "Neg", NUMBER, ELEMENTWISE},
    {.op = "RealDiv", FLOAT, ELEMENTWISE},
    {.op = "Relu", FLOAT, ELEMENTWISE},
    {.op = "ReluGrad", FLOAT, ELEMENTWISE},
    {.op = "ResourceApplyAdam", FLOAT, UPDATE, .host_inputs = FIRST | SECOND | THIRD | FOURTH_TO_NINTH},
    {.op = "ResourceApplyGradientDescent", FLOAT, UPDATE, .host_inputs = FIRST | SECOND},
    {.op = "ResourceApplyMomentum", FLOAT, UPDATE, .host_inputs = FIRST | SECOND | THIRD | FIFTH},
    {.op = "Sigmoid", FLOAT, ELEMENTWISE},
    {.op = "SigmoidGrad", FLOAT, ELEMENTWISE},
    {.op = "Softmax", FLOAT, LATE},
    {.op = "SparseSoftmaxCrossEntropyWithLogits", FLOAT, LATE},
    {.op = "Square", NUMBER, ELEMENTWISE},
    {.op = "Sub", NUMBER, ELEMENTWISE},
    {.op = "Sum", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "Tanh", FLOAT, ELEMENTWISE},
    {.op = "TanhGrad", FLOAT, ELEMENTWISE},
    {.op = "Tile", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "Transpose", FLOAT, LATE, .host_inputs = SECOND},
    {.op = "ZerosLike", NUMBER, LATE},
    {.op = "_WeftChain", LATE},
    {0},
};
