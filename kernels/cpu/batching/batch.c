/* kernels/cpu/batching/batch.c - Batch and BatchFunction, as TensorFlow's: rows of the requests of several
 * steps are joined; Batch hands them to one of the steps, BatchFunction calls a function with them and gives
 * each step its rows of the results.
 *
 * A batch whose size is not allowed is padded with copies of its first row.
 */
#include "base/alloc.h"
#include "base/random.h"
#include "kernels/function_call.h"
#include "kernels/state.h"
#include "resources/batcher.h"

typedef struct batch_node {
  weft_state_name_t name;
  weft_str_t queue; /* of the setup */
  weft_batcher_options_t options;
  const weft_attr_t *sizes; /* that are allowed; n == 0: all */
  int num_inputs;           /* that are joined; the others are captured */
  weft_callee_t *f;         /* NULL: Batch */
} batch_node_t;

/* ---- prepare ---- */

static void destroy(void *state) {
  batch_node_t *st = state;
  if (st == NULL) return;
  weft_state_name_deinit(&st->name);
  weft_free(st);
}

/* They rise, and the last is that of a full batch; where requests are split it is that by itself. */
static weft_status_t *check_sizes(const batch_node_t *st, int64_t max_rows) {
  const weft_attr_t *sizes = st->sizes;
  for (int i = 1; i < sizes->n; i++) {
    if (sizes->list.ints[i] <= sizes->list.ints[i - 1])
      return WEFT_ERROR(INVALID_ARGUMENT, "allowed_batch_sizes entries must be monotonically increasing");
  }
  if (sizes->n == 0 || sizes->list.ints[sizes->n - 1] == max_rows) return NULL;
  if (st->f == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "final entry in allowed_batch_sizes must equal max_batch_size");
  if (st->options.splits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "final entry in allowed_batch_sizes must equal max_batch_size when "
                    "enable_large_batch_splitting is False");
}

static weft_status_t *read(const weft_kernel_setup_t *setup, batch_node_t *st) {
  enum { ADAPTIVE_RUNNING = 64 }; /* TensorFlow's limit where it chooses one as it runs */
  const weft_attr_t *joined = weft_knode_attr(setup, st->f != NULL ? "Tin" : "T");
  const int64_t threads = weft_knode_int(setup, "num_batch_threads"),
                max_rows = weft_knode_int(setup, "max_batch_size");
  st->num_inputs = joined->n;
  st->queue = weft_knode_string(setup, "batching_queue");
  st->sizes = weft_knode_attr(setup, "allowed_batch_sizes");
  st->options = (weft_batcher_options_t){
      .max_running = threads,
      .max_request_rows = max_rows,
      .max_batch_rows = max_rows,
      .max_batches = weft_knode_int(setup, "max_enqueued_batches"),
      .timeout_micros = weft_knode_int(setup, "batch_timeout_micros"),
      .splits = st->f != NULL && weft_knode_bool(setup, "enable_large_batch_splitting")};
  WEFT_RETURN_IF_ERROR(check_sizes(st, max_rows));
  if (st->f != NULL && threads <= 0) {
    st->options.is_adaptive = st->options.splits = true;
    st->options.max_running = ADAPTIVE_RUNNING;
  }
  if (st->options.splits && st->sizes->n > 0) {
    st->options.max_batch_rows = st->sizes->list.ints[st->sizes->n - 1];
    st->options.leaves_rest =
        !st->options.is_adaptive &&
        weft_str_eq(weft_knode_string(setup, "batch_padding_policy"), WEFT_STR("BATCH_DOWN"));
    st->options.sizes = st->sizes->list.ints;
    st->options.num_sizes = st->sizes->n;
  }
  return weft_state_name_init(&st->name, setup, true);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  batch_node_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = NULL;
  if (setup->node.param != NULL) s = weft_knode_callee(setup, "f", &st->f);
  if (s == NULL) s = read(setup, st);
  if (s == NULL) *out_state = st;
  if (s != NULL) destroy(st);
  return s;
}

/* ---- a batch ---- */

static weft_kernel_ctx_t *leader_of(const weft_batch_t *batch) { return batch->last->request->spec.call.arg; }

/* The size of a batch of that many rows, with what pads it. */
static int64_t padded_rows(const batch_node_t *st, int64_t rows) {
  for (int i = 0; i < st->sizes->n; i++) {
    if (st->sizes->list.ints[i] >= rows) return st->sizes->list.ints[i];
  }
  return rows;
}

/* The rows of `t`, and its first one `padding` times more. */
static weft_status_t *pad(const weft_tensor_t *t, int64_t padding, weft_allocator_t *allocator,
                          weft_tensor_t **out) {
  weft_shape_t shape = t->shape;
  shape.dims[0] += padding;
  weft_tensor_t *padded = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, &shape, allocator, &padded));
  const int64_t row = t->count / t->shape.dims[0];
  weft_status_t *s = weft_tensor_copy_elements(padded, 0, t, 0, t->count);
  for (int64_t i = 0; s == NULL && i < padding; i++)
    s = weft_tensor_copy_elements(padded, t->count + i * row, t, 0, row);
  if (s == NULL) *out = padded;
  if (s != NULL) weft_tensor_release(padded);
  return s;
}

/* Input i of all pieces, one behind the other, and padding. */
static weft_status_t *join(const weft_batch_t *batch, int i, weft_tensor_t **out) {
  weft_kernel_ctx_t *c = leader_of(batch);
  weft_allocator_t *allocator = weft_out_allocator(c, c->queue != NULL);
  const int64_t padding = padded_rows(c->state, batch->rows) - batch->rows;
  weft_tensor_t **parts = weft_calloc((size_t)batch->num_pieces, sizeof(*parts)), *joined = NULL;
  if (parts == NULL) return WEFT_NO_MEMORY("a batch of %lld rows", (long long)batch->rows);
  weft_status_t *s = NULL;
  int n = 0;
  for (const weft_batch_piece_t *p = batch->first; s == NULL && p != NULL; p = p->next, n++)
    s = weft_tensor_slice(p->request->inputs[i], p->first_row, p->rows, &parts[n]);
  if (s == NULL) s = weft_batch_join(parts, n, allocator, &joined);
  for (int k = 0; k < n; k++) weft_tensor_release(parts[k]);
  weft_free(parts);
  if (s != NULL || padding == 0) {
    *out = joined;
    return s;
  }
  s = pad(joined, padding, allocator, out);
  weft_tensor_release(joined);
  return s;
}

static void end(weft_batch_t *batch, weft_tensor_t **args, int n, weft_status_t *s) {
  for (int i = 0; i < n; i++) weft_tensor_release(args[i]);
  weft_free(args);
  weft_batch_end(batch, s);
}

/* All joined inputs; *out has room for n, of which those that are there are the caller's also after a
 * failure. */
static weft_status_t *join_all(const weft_batch_t *batch, int n, weft_tensor_t ***out) {
  const batch_node_t *st = leader_of(batch)->state;
  *out = weft_calloc((size_t)n, sizeof(**out));
  if (*out == NULL) return WEFT_NO_MEMORY("a batch of %lld rows", (long long)batch->rows);
  for (const weft_batch_piece_t *p = batch->first; p != NULL; p = p->next) {
    if (p->request->spec.num_inputs != st->num_inputs)
      return WEFT_ERROR(INVALID_ARGUMENT, "Batching inputs must have equal number of edges");
  }
  for (int i = 0; i < st->num_inputs; i++) WEFT_RETURN_IF_ERROR(join(batch, i, &(*out)[i]));
  return NULL;
}

/* ---- Batch ---- */

/* The leader gets all rows, and where the rows of each request are; the others get nothing but their numbers.
 */
static weft_status_t *share_out(const weft_batch_t *batch, weft_tensor_t **joined, int n) {
  weft_tensor_t **leaders = batch->last->results;
  for (const weft_batch_piece_t *p = batch->first; p != NULL; p = p->next) {
    const bool is_leader = p == batch->last;
    for (int i = 0; i < n; i++) {
      if (is_leader) p->results[i] = weft_tensor_retain(joined[i]);
      if (!is_leader) WEFT_RETURN_IF_ERROR(weft_tensor_slice(joined[i], 0, 0, &p->results[i]));
    }
    const weft_shape_t index = weft_shape_matrix(is_leader ? batch->num_pieces : 0, 3);
    WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &index, NULL, &p->results[n]));
    WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I64, &p->request->spec.id, &p->results[n + 1]));
  }
  int64_t *index = leaders[n]->data, row = 0;
  for (const weft_batch_piece_t *p = batch->first; p != NULL; p = p->next) {
    *index++ = p->request->spec.id;
    *index++ = row;
    *index++ = row += p->rows;
  }
  return NULL;
}

static void hand_over(void *arg) {
  weft_batch_t *batch = arg;
  const int n = ((const batch_node_t *)leader_of(batch)->state)->num_inputs;
  weft_tensor_t **joined = NULL;
  weft_status_t *s = join_all(batch, n, &joined);
  if (s == NULL) s = share_out(batch, joined, n);
  end(batch, joined, joined == NULL ? 0 : n, s);
}

/* ---- BatchFunction ---- */

typedef struct batch_call {
  weft_batch_t *batch;
  weft_tensor_t **args;
} batch_call_t;

/* Each piece's rows of the results. */
static weft_status_t *split(const weft_batch_t *batch, weft_tensor_t **results) {
  const weft_kernel_ctx_t *c = leader_of(batch);
  const int64_t padding = padded_rows(c->state, batch->rows) - batch->rows;
  for (int i = 0; i < c->node->num_outputs; i++) {
    int64_t row = 0;
    if (results[i]->shape.rank == 0)
      return WEFT_ERROR(FAILED_PRECONDITION, "Batched output tensor has 0 dimensions");
    if (results[i]->shape.dims[0] != batch->rows + padding) {
      return WEFT_ERROR(FAILED_PRECONDITION,
                        "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
                        "sizes of the input tensors. 0th dimension size: %lld; batch size: %lld; unbatched "
                        "tasks size: 0; padding size: %lld",
                        (long long)results[i]->shape.dims[0], (long long)batch->rows, (long long)padding);
    }
    for (const weft_batch_piece_t *p = batch->first; p != NULL; p = p->next) {
      WEFT_RETURN_IF_ERROR(weft_tensor_slice(results[i], row, p->rows, &p->results[i]));
      row += p->rows;
    }
  }
  return NULL;
}

static void called(void *arg, weft_status_t *status, weft_tensor_t **results) {
  const batch_call_t call = *(batch_call_t *)arg;
  const int n = leader_of(call.batch)->node->num_inputs;
  weft_free(arg);
  if (status == NULL) status = split(call.batch, results);
  end(call.batch, call.args, n, status);
}

static void call_function(void *arg) {
  weft_batch_t *batch = arg;
  weft_kernel_ctx_t *c = leader_of(batch);
  const batch_node_t *st = c->state;
  const int n = c->node->num_inputs;
  weft_tensor_t **args = NULL;
  weft_status_t *s = join_all(batch, n, &args);
  batch_call_t *call = weft_calloc(1, sizeof *call);
  if (s == NULL && call == NULL) s = WEFT_NO_MEMORY("a batch of %lld rows", (long long)batch->rows);
  if (s != NULL) {
    weft_free(call);
    end(batch, args, args == NULL ? 0 : n, s);
    return;
  }
  for (int i = st->num_inputs; i < n; i++) args[i] = weft_tensor_retain(weft_in(c, i));
  *call = (batch_call_t){batch, args};
  const weft_function_call_t made = {.args = args,
                                     .num_args = n,
                                     .num_results = c->node->num_outputs,
                                     .canceller = c->step->canceller,
                                     .step = c->step,
                                     .done = called,
                                     .arg = call};
  weft_callee_run(st->f, &made);
}

/* ---- a request ---- */

/* On the pool: rows are copied. */
static void run(weft_batch_t *batch) {
  const weft_kernel_ctx_t *c = leader_of(batch);
  weft_work_fn *work = ((const batch_node_t *)c->state)->f != NULL ? call_function : hand_over;
  weft_thread_pool_t *pool = c->device->pool;
  if (pool == NULL || !weft_thread_pool_submit(pool, work, batch)) work(batch);
}

static weft_status_t *check_inputs(const weft_kernel_ctx_t *c, const batch_node_t *st) {
  const char *wrong = NULL;
  for (int i = 0; st->f != NULL && i < st->num_inputs; i++) {
    if (weft_in(c, i)->dtype != WEFT_RESOURCE) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "BatchFunction cannot take resource inputs but input %d is a resource.", i);
  }
  for (int i = 0; wrong == NULL && i < st->num_inputs; i++) {
    const weft_shape_t *shape = &weft_in(c, i)->shape;
    if (shape->rank == 0) {
      wrong = "Batching input tensors must have at least one dimension.";
    } else if (shape->dims[0] != weft_in(c, 0)->shape.dims[0]) {
      wrong = "Batching input tensors supplied in a given op invocation must have equal 0th-dimension size.";
    }
  }
  if (wrong == NULL) return NULL;
  weft_strbuf_t shapes = WEFT_STRBUF_INIT;
  for (int i = 0; i < st->num_inputs; i++)
    weft_strbuf_printf(&shapes, "\n - input %d has shape %s", i, WEFT_SHAPE_TEXT(&weft_in(c, i)->shape));
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "%s\nBelow are the input tensors: %s", wrong,
                                shapes.data == NULL ? "" : shapes.data);
  weft_strbuf_deinit(&shapes);
  return s;
}

/* No rows, no batch: TensorFlow gives vectors without elements, whatever the inputs' other dimensions are. */
static weft_status_t *give_nothing(weft_kernel_ctx_t *c) {
  const weft_shape_t empty = weft_shape_vector(0);
  for (int i = 0; i < c->node->num_outputs; i++) {
    weft_tensor_t *made = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(c, i, weft_dtype_base(c->node->output_types[i]), &empty, &made));
  }
  return NULL;
}

typedef struct batcher_wish {
  const weft_batcher_options_t *options;
  weft_timer_t *timer;
} batcher_wish_t;

static weft_status_t *create(void *arg, weft_object_t **out) {
  const batcher_wish_t *wish = arg;
  return weft_batcher_create(wish->options, wish->timer, out);
}

static void compute(weft_kernel_ctx_t *c) {
  const batch_node_t *st = c->state;
  weft_resource_manager_t *resources = c->device->resources;
  batcher_wish_t wish = {&st->options, weft_resource_timer(resources)};
  weft_object_t *o = NULL;
  weft_status_t *s =
      weft_resource_lookup_or_create(resources, weft_str(st->name.container), weft_str(st->name.name),
                                     &weft_batcher_type, create, &wish, &o);
  if (s == NULL) s = check_inputs(c, st);
  const int64_t rows = s == NULL ? weft_in(c, 0)->shape.dims[0] : 0;
  if (s == NULL && rows == 0) s = give_nothing(c);
  if (rows == 0) {
    weft_object_release(o);
    c->done(c, s);
    return;
  }
  const weft_batch_spec_t spec = {.call = weft_state_call(c),
                                  .inputs = c->inputs,
                                  .num_inputs = st->num_inputs,
                                  .num_results = c->node->num_outputs,
                                  .rows = rows,
                                  .id = (int64_t)weft_random_id(),
                                  .run = run};
  weft_batcher_add((weft_batcher_t *)o, st->queue, &spec);
  weft_object_release(o);
}

static const bool calls = true; /* the param of what calls a function */

const weft_kernel_t weft_cpu_batch_kernels[] = {
    {.op = "Batch", .prepare = prepare, .compute_async = compute, .destroy = destroy},
    {.op = "BatchFunction",
     .prepare = prepare,
     .compute_async = compute,
     .destroy = destroy,
     .param = &calls},
    {0},
};
