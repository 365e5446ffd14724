/* kernels/cpu/collective/collective.c - collective operations whose group is said by attributes or by
 * scalars.
 *
 * TensorFlow's ops of the first and second form, and Weft's own:
 *   WeftCollectiveBroadcast    each member gives a tensor of one shape and gets the root's
 *   WeftCollectiveScatter      member i gets the i-th part of the rows of the root's input; the others'
 *                              inputs are ignored. The output is like `like`, if that is given, else 1/N of
 *                              the rows of the own input
 *   WeftCollectiveGatherToOne  the root gets all rows in rank order, others none of them: [0, ...]
 *   WeftCollectiveReduceToOne  the root gets the reduction, others zeros
 *   WeftCollectiveAllToAllV    `splits` says how many rows go to each member; also tells how many came from
 *                              each
 *   WeftCollectivePermute      member i's input goes to member targets[i] (-1: to none); a member that is no
 *                              target gets zeros
 *   WeftCollectiveBarrier      ends when all have come
 */
#include "kernels/cpu/collective/collective.h"

#include <inttypes.h>

#include "base/alloc.h"

typedef enum special {
  PLAIN,
  SENDS,      /* the source of a broadcast */
  RECEIVES,   /* a destination of one */
  ROWS_ALIKE, /* TensorFlow's gather refuses members whose rows differ in number */
  ROWS_BY_INPUT,
  SCATTERS,
  LEAVES_ZEROS, /* a rank without a result gets zeros like its input */
  LEAVES_NO_ROWS,
  PERMUTES,
  WAITS, /* no tensor at all */
} special_t;

/* The param of a row. */
typedef struct collective_form {
  weft_collective_kind_t kind;
  bool has_key_inputs; /* group size, group key, instance key are inputs */
  special_t special;
} collective_form_t;

/* What the attributes say. */
typedef struct node_state {
  const collective_form_t *form;
  int64_t group_key, instance_key, timeout_ms;
  int group_size, rank, root;
  weft_reduction_t reduction;
  bool is_mean;
  weft_collective_algorithm_t algorithm;
  bool has_shape; /* declared, of a broadcast */
  weft_shape_t shape;
  int num_targets;
  int targets[];
} node_state_t;

/* ---- preparing ---- */

static weft_status_t *check_size(int64_t size) {
  if (size > 0 && size <= INT32_MAX) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "group_size must be positive integer but got %" PRId64, size);
}

static weft_status_t *read_rank(const weft_kernel_setup_t *setup, const char *name, int64_t rank, int size,
                                int *out) {
  if (rank < -1 || rank >= size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a rank of a group of %d but is %" PRId64 " in %.*s", name,
                      size, rank, WEFT_STR_ARGS(setup->node.name));
  }
  *out = (int)rank;
  return NULL;
}

static weft_status_t *read_targets(const weft_kernel_setup_t *setup, const weft_attr_t *a, node_state_t *st) {
  if (a == NULL) return NULL;
  if (a->n != st->group_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s has %d targets for a group of %d",
                      WEFT_STR_ARGS(setup->node.name), a->n, st->group_size);
  }
  for (int i = 0; i < a->n; i++) {
    WEFT_RETURN_IF_ERROR(read_rank(setup, "a target", a->list.ints[i], st->group_size, &st->targets[i]));
    for (int k = 0; k < i && st->targets[i] >= 0; k++) {
      if (st->targets[k] != st->targets[i]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT, "%.*s sends both rank %d and rank %d to rank %d",
                        WEFT_STR_ARGS(setup->node.name), k, i, st->targets[i]);
    }
  }
  st->num_targets = a->n;
  return NULL;
}

static weft_status_t *read_attrs(const weft_kernel_setup_t *setup, node_state_t *st) {
  if (!st->form->has_key_inputs) {
    int64_t size = weft_knode_int(setup, "group_size");
    WEFT_RETURN_IF_ERROR(check_size(size));
    st->group_size = (int)size;
    st->group_key = weft_knode_int(setup, "group_key");
    st->instance_key = weft_knode_int(setup, "instance_key");
    WEFT_RETURN_IF_ERROR(
        read_rank(setup, "rank", weft_knode_int_or(setup, "rank", -1), st->group_size, &st->rank));
    WEFT_RETURN_IF_ERROR(
        read_rank(setup, "root", weft_knode_int_or(setup, "root", -1), st->group_size, &st->root));
  }
  if (st->form->special == SCATTERS && st->rank < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s needs the attribute rank: only the root's input is scattered",
                      WEFT_STR_ARGS(setup->node.name));
  }
  st->timeout_ms = weft_collective_timeout_ms(weft_knode_float(setup, "timeout_seconds"));
  st->algorithm = weft_collective_hint(weft_knode_string(setup, "communication_hint"));
  if (weft_knode_attr(setup, "merge_op") != NULL) {
    st->reduction = weft_collective_reduction(weft_knode_string(setup, "merge_op"));
    st->is_mean = weft_str_is(weft_knode_string(setup, "final_op"), "Div");
  }
  const weft_attr_t *shape = weft_knode_attr(setup, "shape");
  st->has_shape = shape != NULL;
  if (shape != NULL) st->shape = *shape->shape;
  return read_targets(setup, weft_knode_attr(setup, "targets"), st);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  const weft_attr_t *targets = weft_knode_attr(setup, "targets");
  node_state_t *st = weft_calloc(1, sizeof *st + (targets == NULL ? 0 : (size_t)targets->n) * sizeof(int));
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->form = setup->node.param;
  st->rank = st->root = -1;
  weft_status_t *s = read_attrs(setup, st);
  if (s != NULL) {
    weft_free(st);
    return s;
  }
  *out = st;
  return NULL;
}

/* ---- inputs ---- */

static weft_status_t *read_scalar(const weft_kernel_ctx_t *c, int i, const char *name, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unexpected dimensions on input %s, got %s", name,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = *(const int32_t *)t->data;
  return NULL;
}

/* Group size, group key and instance key from input `first` on. */
static weft_status_t *read_keys(const weft_kernel_ctx_t *c, int first, weft_collective_t *call) {
  int64_t size = 0;
  WEFT_RETURN_IF_ERROR(read_scalar(c, first, "group_size", &size));
  WEFT_RETURN_IF_ERROR(read_scalar(c, first + 1, "group_key", &call->group_key));
  WEFT_RETURN_IF_ERROR(read_scalar(c, first + 2, "instance_key", &call->instance_key));
  WEFT_RETURN_IF_ERROR(check_size(size));
  call->group_size = (int)size;
  return NULL;
}

/* The shape of what a broadcast brings: declared, or input 3. */
static weft_status_t *read_shape(const weft_kernel_ctx_t *c, const node_state_t *st, weft_shape_t *out) {
  if (st->has_shape) {
    if (!weft_shape_is_known(&st->shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Declared shape %s of op %.*s is not fully defined",
                        WEFT_SHAPE_TEXT(&st->shape), WEFT_STR_ARGS(c->node->name));
    }
    *out = st->shape;
    return NULL;
  }
  int64_t dims[WEFT_MAX_DIMS];
  int n = 0;
  WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 3), "shape", WEFT_MAX_DIMS, dims, &n));
  for (int i = 0; i < n; i++) {
    if (dims[i] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", dims[i]);
  }
  out->rank = n;
  memcpy(out->dims, dims, (size_t)n * sizeof dims[0]);
  int64_t count = 1;
  for (int i = 0; i < n; i++) {
    if (dims[i] > 0 && __builtin_mul_overflow(count, dims[i], &count)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a tensor of shape %s has too many elements", WEFT_SHAPE_TEXT(out));
    }
  }
  return NULL;
}

static weft_status_t *check_declared(const weft_kernel_ctx_t *c, const node_state_t *st) {
  if (!st->has_shape || weft_shape_eq(&st->shape, &weft_in(c, 0)->shape)) return NULL;
  return WEFT_ERROR(INTERNAL, "Declared shape of op %.*s: Broadcast(1) does not match shape of input",
                    WEFT_STR_ARGS(c->node->name));
}

static weft_status_t *needs_rows(const weft_kernel_ctx_t *c, const weft_tensor_t *t) {
  if (t->shape.rank > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s: the input has no rows: it is a scalar",
                    WEFT_STR_ARGS(c->node->name));
}

/* ---- results ---- */

/* The rank has none: zeros like the input. */
static weft_status_t *zeros_or(weft_collective_run_t *r, weft_tensor_t *output) {
  weft_kernel_ctx_t *c = r->ctx;
  if (output == NULL) {
    weft_tensor_t *zeros = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, weft_in(c, 0)->dtype, &weft_in(c, 0)->shape, &zeros));
    if (zeros->bytes > 0) memset(zeros->data, 0, zeros->bytes);
    return NULL;
  }
  weft_out_set(c, 0, output);
  return NULL;
}

/* The rank has none: no rows like the input's. */
static weft_status_t *no_rows_or(weft_collective_run_t *r, weft_tensor_t *output) {
  weft_kernel_ctx_t *c = r->ctx;
  weft_shape_t shape = weft_in(c, 0)->shape;
  shape.dims[0] = 0;
  if (output == NULL) return weft_out_new(c, 0, weft_in(c, 0)->dtype, &shape, &output);
  weft_out_set(c, 0, output);
  return NULL;
}

/* What of a tensor the member gives or wants; sets the call's shape. */
static weft_status_t *read_scatter(const weft_kernel_ctx_t *c, const node_state_t *st,
                                   weft_collective_t *call) {
  const weft_tensor_t *in = weft_in(c, 0);
  if (st->rank == st->root) return needs_rows(c, in);
  if (c->node->num_inputs > 1) {
    call->shape = weft_in(c, 1)->shape;
  } else {
    WEFT_RETURN_IF_ERROR(needs_rows(c, in));
    call->shape.dims[0] = in->shape.dims[0] / call->group_size;
  }
  call->input = NULL; /* it only receives */
  call->takes_input = false;
  return NULL;
}

/* ---- rows by input: the members exchange how many rows come, then the rows ---- */

typedef struct row_counts {
  weft_tensor_t *sent, *received; /* int64 [N] */
} row_counts_t;

static weft_status_t *take_rows(weft_collective_run_t *r, weft_tensor_t *output) {
  row_counts_t *rows = r->extra;
  weft_out_set(r->ctx, 0, output);
  weft_out_set(r->ctx, 1, rows->received);
  rows->received = NULL;
  return NULL;
}

static void free_rows(row_counts_t *rows) {
  if (rows == NULL) return;
  weft_tensor_release(rows->sent);
  weft_tensor_release(rows->received);
  *rows = (row_counts_t){NULL, NULL};
}

static void rows_came(void *arg, weft_status_t *status, weft_tensor_t *output) {
  weft_collective_run_t *r = arg;
  weft_kernel_ctx_t *c = r->ctx;
  row_counts_t *rows = r->extra;
  if (status == NULL) {
    status = r->finish(r, output);
  } else {
    weft_tensor_release(output);
  }
  free_rows(rows);
  weft_collective_run_end(r, c, status);
}

enum { COUNTS_KEY = 1 << 28 }; /* added to the instance key for the exchange of counts */

static void counts_came(void *arg, weft_status_t *status, weft_tensor_t *output) {
  weft_collective_run_t *r = arg;
  row_counts_t *rows = r->extra;
  if (status != NULL) {
    weft_tensor_release(output);
    free_rows(rows);
    weft_collective_run_end(r, r->ctx, status);
    return;
  }
  rows->received = output;
  r->call.splits = (const int64_t *)rows->sent->data;
  weft_collectives_run(r->ctx->step->collectives, &r->call, r->ctx->step->canceller, rows_came, r);
}

static weft_status_t *read_splits(const weft_kernel_ctx_t *c, int group_size, weft_tensor_t **out) {
  const weft_tensor_t *in = weft_in(c, 0), *splits = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(needs_rows(c, in));
  if (splits->shape.rank != 1 || splits->count != group_size) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%.*s: splits must hold one number for each of %d members but have shape %s",
                      WEFT_STR_ARGS(c->node->name), group_size, WEFT_SHAPE_TEXT(&splits->shape));
  }
  weft_shape_t shape = weft_shape_vector(group_size);
  weft_tensor_t *rows = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &shape, NULL, &rows));
  int64_t *to = (int64_t *)rows->data, left = in->shape.dims[0];
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < group_size; i++) {
    to[i] =
        splits->dtype == WEFT_I32 ? ((const int32_t *)splits->data)[i] : ((const int64_t *)splits->data)[i];
    if (to[i] < 0 || to[i] > left) {
      s = WEFT_ERROR(INVALID_ARGUMENT,
                     "%.*s: split %d is %" PRId64 ", but %" PRId64 " of the input's %" PRId64
                     " rows are left",
                     WEFT_STR_ARGS(c->node->name), i, to[i], left, in->shape.dims[0]);
    }
    left -= s == NULL ? to[i] : 0;
  }
  if (s == NULL && left > 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "%.*s: the splits leave %" PRId64 " of the input's %" PRId64 " rows without a member",
                   WEFT_STR_ARGS(c->node->name), left, in->shape.dims[0]);
  }
  if (s != NULL) {
    weft_tensor_release(rows);
    return s;
  }
  *out = rows;
  return NULL;
}

static weft_status_t *start_rows(weft_collective_run_t *r) {
  row_counts_t *rows = r->extra = weft_calloc(1, sizeof *rows);
  if (rows == NULL) return WEFT_NO_MEMORY("the collective %.*s", WEFT_STR_ARGS(r->ctx->node->name));
  WEFT_RETURN_IF_ERROR(read_splits(r->ctx, r->call.group_size, &rows->sent));
  r->finish = take_rows;
  weft_collective_t counts = r->call;
  counts.instance_key += COUNTS_KEY;
  counts.input = rows->sent;
  counts.dtype = WEFT_I64;
  counts.shape = rows->sent->shape;
  counts.takes_input = false;
  weft_collectives_run(r->ctx->step->collectives, &counts, r->ctx->step->canceller, counts_came, r);
  return NULL;
}

/* ---- running ---- */

/* Completes the call by what is special about the op. */
static weft_status_t *specialize(weft_collective_run_t *r, const node_state_t *st) {
  weft_kernel_ctx_t *c = r->ctx;
  weft_collective_t *call = &r->call;
  switch (st->form->special) {
    case PLAIN:
      if (call->kind == WEFT_ALL_REDUCE || call->kind == WEFT_BROADCAST) return NULL;
      return needs_rows(c, weft_in(c, 0));
    case ROWS_ALIKE: call->is_uniform = true; return needs_rows(c, weft_in(c, 0));
    case SENDS: call->is_source = true; return check_declared(c, st);
    case RECEIVES:
      call->dtype = (weft_dtype_t)c->node->output_types[0];
      return read_shape(c, st, &call->shape);
    case SCATTERS: return read_scatter(c, st, call);
    case LEAVES_ZEROS: r->finish = zeros_or; return NULL;
    case LEAVES_NO_ROWS: r->finish = no_rows_or; return needs_rows(c, weft_in(c, 0));
    case PERMUTES: call->targets = st->targets; return NULL;
    case ROWS_BY_INPUT:
    case WAITS: return NULL;
  }
  return NULL;
}

static void run(weft_kernel_ctx_t *c) {
  const node_state_t *st = c->state;
  special_t special = st->form->special;
  bool has_input = special != RECEIVES && special != WAITS;
  weft_collective_run_t *r = NULL;
  weft_status_t *s = weft_collective_run_new(c, st->form->kind, has_input, &r);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  weft_collective_t *call = &r->call;
  call->group_key = st->group_key;
  call->instance_key = st->instance_key;
  call->group_size = st->group_size;
  call->rank = st->rank;
  call->root = st->root;
  call->reduction = st->reduction;
  call->is_mean = st->is_mean;
  call->algorithm = st->algorithm;
  call->timeout_ms = st->timeout_ms;
  if (st->form->has_key_inputs) s = read_keys(c, special == RECEIVES ? 0 : 1, call);
  if (s == NULL) s = specialize(r, st);
  if (s == NULL && special == ROWS_BY_INPUT) {
    s = start_rows(r);
    if (s == NULL) return;
    free_rows(r->extra);
  }
  if (s != NULL) {
    weft_collective_run_end(r, c, s);
  } else {
    weft_collective_run_start(r);
  }
}

/* ---- CollectiveAssignGroupV2: which row of the assignment names the device ---- */

static weft_status_t *must_be_scalar(const weft_tensor_t *t, const char *name) {
  if (t->shape.rank == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, but received tensor of shape: %s", name,
                    WEFT_SHAPE_TEXT(&t->shape));
}

static weft_status_t *not_assigned(int32_t device, const weft_tensor_t *groups) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_attr_t value = {.kind = WEFT_ATTR_TENSOR, .tensor = (weft_tensor_t *)(uintptr_t)groups};
  weft_attr_print(&value, &text);
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT, "device_index %" PRId32 " is not found in group_assignment %s", device,
                 text.failed || text.data == NULL ? "" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *assign_group(weft_kernel_ctx_t *c) {
  const weft_tensor_t *groups = weft_in(c, 0), *device = weft_in(c, 1), *base = weft_in(c, 2);
  if (groups->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "group_assignment must be a 2-d Tensor, but received tensor of shape: %s",
                      WEFT_SHAPE_TEXT(&groups->shape));
  }
  WEFT_RETURN_IF_ERROR(must_be_scalar(device, "device_index"));
  WEFT_RETURN_IF_ERROR(must_be_scalar(base, "base_key"));
  const int32_t *of = (const int32_t *)groups->data, mine = *(const int32_t *)device->data;
  int64_t size = groups->shape.dims[1], at = 0;
  while (at < groups->count && of[at] != mine) at++;
  if (at == groups->count) return not_assigned(mine, groups);
  int32_t out_size = (int32_t)size;
  int32_t out_key = (int32_t)((uint32_t) * (const int32_t *)base->data + (uint32_t)(at / size));
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &out_size, &t));
  weft_out_set(c, 0, t);
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &out_key, &t));
  weft_out_set(c, 1, t);
  return NULL;
}

#define COLLECTIVE(op_, kind, has_key_inputs, special)                         \
  {                                                                            \
    .op = op_, .prepare = prepare, .compute_async = run, .destroy = weft_free, \
    .param = &(const collective_form_t) {                                      \
      kind, has_key_inputs, special                                            \
    }                                                                          \
  }
const weft_kernel_t weft_cpu_collective_kernels[] = {
    {.op = "CollectiveAssignGroupV2", .compute = assign_group},
    COLLECTIVE("CollectiveAllToAllV2", WEFT_ALL_TO_ALL, true, PLAIN),
    COLLECTIVE("CollectiveBcastRecv", WEFT_BROADCAST, false, RECEIVES),
    COLLECTIVE("CollectiveBcastRecvV2", WEFT_BROADCAST, true, RECEIVES),
    COLLECTIVE("CollectiveBcastSend", WEFT_BROADCAST, false, SENDS),
    COLLECTIVE("CollectiveBcastSendV2", WEFT_BROADCAST, true, SENDS),
    COLLECTIVE("CollectiveGather", WEFT_ALL_GATHER, false, ROWS_ALIKE),
    COLLECTIVE("CollectiveGatherV2", WEFT_ALL_GATHER, true, ROWS_ALIKE),
    COLLECTIVE("CollectiveReduce", WEFT_ALL_REDUCE, false, PLAIN),
    COLLECTIVE("CollectiveReduceScatterV2", WEFT_REDUCE_SCATTER, true, PLAIN),
    COLLECTIVE("CollectiveReduceV2", WEFT_ALL_REDUCE, true, PLAIN),
    COLLECTIVE("WeftCollectiveAllToAllV", WEFT_ALL_TO_ALL, false, ROWS_BY_INPUT),
    COLLECTIVE("WeftCollectiveBarrier", WEFT_BARRIER, false, WAITS),
    COLLECTIVE("WeftCollectiveBroadcast", WEFT_BROADCAST, false, PLAIN),
    COLLECTIVE("WeftCollectiveGatherToOne", WEFT_GATHER, false, LEAVES_NO_ROWS),
    COLLECTIVE("WeftCollectivePermute", WEFT_PERMUTE, false, PERMUTES),
    COLLECTIVE("WeftCollectiveReduceToOne", WEFT_REDUCE, false, LEAVES_ZEROS),
    COLLECTIVE("WeftCollectiveScatter", WEFT_SCATTER, false, SCATTERS),
    {0},
};
