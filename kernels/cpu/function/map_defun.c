/* kernels/cpu/function/map_defun.c - MapDefun: a function of each row of the arguments, as TensorFlow's.
 *
 * All rows are called at once; each call copies its results to its row of the outputs. The first result of
 * all settles what the attributes leave open of an output's shape.
 */
#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/function_call.h"

typedef struct map_defun {
  weft_callee_t *f;
  int num_args; /* the other inputs are captured: each call gets them whole */
  const weft_attr_t *shapes;
} map_defun_t;

/* One execution; lives until its last call has ended. */
typedef struct map_run {
  weft_kernel_ctx_t *c;
  int64_t num_rows;
  atomic_llong pending; /* calls, and the loop that starts them */
  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu; the first failure. And outputs are made under it */
} map_run_t;

/* The call for one row. */
typedef struct map_call {
  map_run_t *run;
  int64_t row;
  weft_tensor_t *args[]; /* one for each input, retained */
} map_call_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *args = weft_knode_attr(setup, "Targuments"),
                    *shapes = weft_knode_attr(setup, "output_shapes");
  if (args == NULL || shapes == NULL || shapes->n != setup->node.num_outputs)
    return WEFT_ERROR(INVALID_ARGUMENT, "Length of output_shapes and output_types must match.");
  map_defun_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->num_args = args->n;
  st->shapes = shapes;
  weft_status_t *s = weft_knode_callee(setup, "f", &st->f);
  if (s != NULL) {
    weft_free(st);
    return s;
  }
  *out_state = st;
  return NULL;
}

static weft_status_t *check_args(const weft_kernel_ctx_t *c, int num_args, int64_t *out_rows) {
  for (int i = 0; i < num_args; i++) {
    const weft_shape_t *shape = &weft_in(c, i)->shape;
    if (shape->rank == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "All inputs must have rank at least 1. Input %d has a rank of 0.",
                        i);
    }
    if (i == 0) *out_rows = shape->dims[0];
    if (shape->dims[0] != *out_rows) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "All inputs must have the same dimension 0. Input %d has leading dimension %lld, "
                        "while all previous inputs have leading dimension %lld",
                        i, (long long)shape->dims[0], (long long)*out_rows);
    }
  }
  return NULL;
}

/* ---- results ---- */

static weft_status_t *make_output(const map_run_t *run, int i, const weft_shape_t *row) {
  weft_shape_t shape = {.rank = row->rank + 1};
  if (shape.rank > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "output %d has too many dimensions", i);
  shape.dims[0] = run->num_rows;
  for (int d = 0; d < row->rank; d++) shape.dims[d + 1] = row->dims[d];
  weft_tensor_t *made = NULL;
  return weft_out_new(run->c, i, weft_dtype_base(run->c->node->output_types[i]), &shape, &made);
}

/* Those whose shapes are known; there may be no call that settles them. */
static weft_status_t *make_outputs(const map_run_t *run) {
  const map_defun_t *st = run->c->state;
  for (int i = 0; i < run->c->node->num_outputs; i++) {
    const weft_shape_t *shape = &st->shapes->list.shapes[i];
    if (weft_shape_is_known(shape)) WEFT_RETURN_IF_ERROR(make_output(run, i, shape));
  }
  return NULL;
}

/* Does a result of that shape fit the output, which it settles if nothing has? The caller holds run->mu. */
static weft_status_t *settle(map_run_t *run, int i, const weft_tensor_t *result) {
  const map_defun_t *st = run->c->state;
  const weft_shape_t *wanted = &st->shapes->list.shapes[i];
  const weft_tensor_t *out = run->c->outputs[i].tensor;
  if (result->dtype != weft_dtype_base(run->c->node->output_types[i])) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Mismatch in function return type and expected output type for output: %d", i);
  }
  bool fits = weft_shape_compatible(wanted, &result->shape);
  if (fits && out != NULL) {
    fits = out->shape.rank == result->shape.rank + 1;
    for (int d = 0; fits && d < result->shape.rank; d++)
      fits = out->shape.dims[d + 1] == result->shape.dims[d];
  }
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Mismatch in function retval shape, %s, and expected output shape, %s.",
                      WEFT_SHAPE_TEXT(&result->shape), WEFT_SHAPE_TEXT(wanted));
  }
  return out != NULL ? NULL : make_output(run, i, &result->shape);
}

static weft_status_t *keep(map_run_t *run, int64_t row, weft_tensor_t **results) {
  for (int i = 0; i < run->c->node->num_outputs; i++) {
    weft_mutex_lock(&run->mu);
    weft_status_t *s = settle(run, i, results[i]);
    weft_mutex_unlock(&run->mu);
    const int64_t n = results[i]->count;
    if (s == NULL) s = weft_tensor_copy_elements(run->c->outputs[i].tensor, row * n, results[i], 0, n);
    if (s != NULL) return s;
  }
  return NULL;
}

/* ---- calls ---- */

/* A call has ended, or the loop; consumes `status`. */
static void end_one(map_run_t *run, weft_status_t *status) {
  weft_mutex_lock(&run->mu);
  if (run->status == NULL) {
    run->status = status;
    status = NULL;
  }
  weft_mutex_unlock(&run->mu);
  weft_status_free(status);
  if (atomic_fetch_sub(&run->pending, 1) != 1) return;
  weft_kernel_ctx_t *c = run->c;
  status = run->status;
  weft_mutex_deinit(&run->mu);
  weft_free(run);
  c->done(c, status);
}

static void call_free(map_call_t *call) {
  for (int i = 0; i < call->run->c->node->num_inputs; i++) weft_tensor_release(call->args[i]);
  weft_free(call);
}

static void called(void *arg, weft_status_t *status, weft_tensor_t **results) {
  map_call_t *call = arg;
  map_run_t *run = call->run;
  if (status == NULL) status = keep(run, call->row, results);
  call_free(call);
  end_one(run, status);
}

/* Row `row` of a tensor, without the dimension of rows. */
static weft_status_t *row_of(weft_tensor_t *t, int64_t row, weft_tensor_t **out) {
  weft_tensor_t *slice = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_slice(t, row, 1, &slice));
  weft_shape_t shape = {.rank = t->shape.rank - 1};
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = t->shape.dims[d + 1];
  weft_status_t *s = weft_tensor_view(slice, t->dtype, &shape, out);
  weft_tensor_release(slice);
  return s;
}

static weft_status_t *start(map_run_t *run, int64_t row) {
  weft_kernel_ctx_t *c = run->c;
  const map_defun_t *st = c->state;
  const int n = c->node->num_inputs;
  map_call_t *call = weft_calloc(1, sizeof *call + (size_t)n * sizeof(weft_tensor_t *));
  if (call == NULL) return WEFT_NO_MEMORY("a call for a row");
  call->run = run;
  call->row = row;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    if (i < st->num_args) s = row_of(weft_in(c, i), row, &call->args[i]);
    if (i >= st->num_args) call->args[i] = weft_tensor_retain(weft_in(c, i));
  }
  if (s != NULL) {
    call_free(call);
    return s;
  }
  const weft_function_call_t made = {.args = call->args,
                                     .num_args = n,
                                     .num_results = c->node->num_outputs,
                                     .canceller = c->step->canceller,
                                     .step = c->step,
                                     .done = called,
                                     .arg = call};
  atomic_fetch_add(&run->pending, 1);
  weft_callee_run(st->f, &made);
  return NULL;
}

static void compute(weft_kernel_ctx_t *c) {
  const map_defun_t *st = c->state;
  int64_t num_rows = 0;
  weft_status_t *s = check_args(c, st->num_args, &num_rows);
  map_run_t *run = s != NULL ? NULL : weft_calloc(1, sizeof *run);
  if (s == NULL && run == NULL) s = WEFT_NO_MEMORY("MapDefun");
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  run->c = c;
  run->num_rows = num_rows;
  atomic_init(&run->pending, 1);
  weft_mutex_init(&run->mu);
  s = make_outputs(run);
  for (int64_t row = 0; s == NULL && row < num_rows; row++) s = start(run, row);
  end_one(run, s);
}

const weft_kernel_t weft_cpu_map_defun_kernels[] = {
    {.op = "MapDefun", .prepare = prepare, .compute_async = compute, .destroy = weft_free},
    {0},
};
