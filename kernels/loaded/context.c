/* kernels/loaded/context.c - what compute() of a library asks for: inputs, outputs, scratch memory. */
#include "kernels/loaded/context.h"

#include "base/alloc.h"
#include "device/queue.h"
#include "kernels/cpu/random/philox.h"
#include "ops/shape_inference.h"
#include "tensor/memory_holders.h"

struct weft_loaded_scratch {
  weft_loaded_scratch_t *next;
  weft_tensor_t *bytes;
};

void weft_loaded_context_deinit(WEFT_KernelContext *c) {
  for (weft_loaded_scratch_t *s = c->scratch, *next; s != NULL; s = next) {
    next = s->next;
    weft_tensor_release(s->bytes);
    weft_free(s);
  }
  c->scratch = NULL;
  weft_free(c->shapes);
  c->shapes = NULL;
  weft_tensor_release(c->host_scratch);
  c->host_scratch = NULL;
}

/* ---- inputs ---- */

static void view(const weft_tensor_t *t, WEFT_TensorView *out) {
  *out = (WEFT_TensorView){.dtype = (int)t->dtype,
                           .rank = t->shape.rank,
                           .dims = t->shape.dims,
                           .count = t->count,
                           .bytes = t->bytes,
                           .data = t->data,
                           .on_host = t->space == NULL};
}

void weft_loaded_input(WEFT_KernelContext *c, int i, WEFT_TensorView *out) {
  const weft_kernel_ctx_t *ctx = c->ctx;
  *out = (WEFT_TensorView){.dtype = 0};
  if (i < 0 || i >= ctx->node->num_inputs) return;
  if (ctx->inputs[i].tensor != NULL) view(ctx->inputs[i].tensor, out);
}

/* ---- shapes ---- */

/* What the shape function gets and gives; all in one block. */
typedef struct inference {
  weft_shape_t *outputs, *inputs; /* outputs first: the block's begin */
  weft_handle_data_t *handles, *out_handles;
  const weft_tensor_t **values;
} inference_t;

static weft_status_t *inference_init(inference_t *x, int num_inputs, int num_outputs) {
  const size_t in = (size_t)num_inputs, out = (size_t)num_outputs, all = in + out;
  char *block = weft_calloc(
      1, all * (sizeof(weft_shape_t) + sizeof(weft_handle_data_t)) + (in + 1) * sizeof *x->values);
  if (block == NULL) return WEFT_NO_MEMORY("inferring shapes");
  x->outputs = (weft_shape_t *)(void *)block;
  x->inputs = x->outputs + out;
  x->handles = (weft_handle_data_t *)(void *)(x->inputs + in);
  x->out_handles = x->handles + in;
  x->values = (const weft_tensor_t **)(void *)(x->out_handles + out);
  return NULL;
}

static weft_status_t *infer(const WEFT_KernelContext *c, const inference_t *x) {
  const weft_kernel_ctx_t *ctx = c->ctx;
  const weft_kernel_node_t *n = ctx->node;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_tensor_t *t = ctx->inputs[i].tensor;
    x->handles[i] = WEFT_NO_HANDLE_DATA;
    x->inputs[i] = t == NULL ? WEFT_UNKNOWN_SHAPE : t->shape;
    x->values[i] = t != NULL && t->space == NULL && i >= c->num_variables ? t : NULL;
    if (t != NULL && i < c->num_variables) x->handles[i].shape = t->shape;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    x->outputs[i] = WEFT_UNKNOWN_SHAPE;
    x->out_handles[i] = WEFT_NO_HANDLE_DATA;
  }
  weft_shape_ctx_t s = {.op = n->op,
                        .node_name = n->name,
                        .attrs = c->state->attrs,
                        .num_attrs = c->state->num_attrs,
                        .num_inputs = n->num_inputs,
                        .num_outputs = n->num_outputs,
                        .input_types = n->input_types,
                        .output_types = n->output_types,
                        .inputs = x->inputs,
                        .values = x->values,
                        .outputs = x->outputs,
                        .handles = x->handles,
                        .out_handles = x->out_handles};
  weft_status_t *status = n->op->infer_shapes == NULL ? NULL : n->op->infer_shapes(&s);
  if (status != NULL && n->num_inputs == 2 && (n->op->flags & WEFT_OP_ELEMENTWISE) != 0) {
    weft_status_free(status); /* while a step runs, TensorFlow's kernels say it so */
    status = WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&x->inputs[0]),
                        WEFT_SHAPE_TEXT(&x->inputs[1]));
  }
  return status;
}

weft_status_t *weft_loaded_infer(WEFT_KernelContext *c) {
  inference_t x = {.outputs = NULL};
  if (c->shapes != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(inference_init(&x, c->ctx->node->num_inputs, c->ctx->node->num_outputs));
  weft_status_t *s = infer(c, &x);
  if (s != NULL) {
    weft_free(x.outputs);
    return s;
  }
  c->shapes = x.outputs;
  return NULL;
}

/* ---- outputs ---- */

/* May output i be made now? */
static weft_status_t *check(const WEFT_KernelContext *c, int i) {
  const weft_kernel_node_t *n = c->ctx->node;
  if (i < 0 || i >= n->num_outputs)
    return WEFT_ERROR(INTERNAL, "the kernel of %.*s makes output %d of %d", WEFT_STR_ARGS(n->op_name), i,
                      n->num_outputs);
  if (c->ctx->outputs[i].tensor != NULL || c->ctx->outputs[i].ref != NULL)
    return WEFT_ERROR(INTERNAL, "the kernel of %.*s makes output %d twice", WEFT_STR_ARGS(n->op_name), i);
  return NULL;
}

static weft_status_t *check_both(const WEFT_KernelContext *c, int in, int i) {
  const weft_kernel_node_t *n = c->ctx->node;
  WEFT_RETURN_IF_ERROR(check(c, i));
  if (in < 0 || in >= n->num_inputs || c->ctx->inputs[in].tensor == NULL)
    return WEFT_ERROR(INTERNAL, "the kernel of %.*s hands on input %d, which it does not have",
                      WEFT_STR_ARGS(n->op_name), in);
  return NULL;
}

static weft_dtype_t type_of(const WEFT_KernelContext *c, int i) {
  return weft_dtype_base(c->ctx->node->output_types[i]);
}

static weft_status_t *make(WEFT_KernelContext *c, int i, const weft_shape_t *shape, WEFT_TensorView *out) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c->ctx, i, type_of(c, i), shape, &t));
  view(t, out);
  return NULL;
}

static weft_status_t *output(WEFT_KernelContext *c, int i, int rank, const int64_t *dims,
                             WEFT_TensorView *out) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(check(c, i));
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &shape));
  return make(c, i, &shape, out);
}

WEFT_Failure *weft_loaded_output(WEFT_KernelContext *c, int i, int rank, const int64_t *dims,
                                 WEFT_TensorView *out) {
  return weft_failure_of_status(output(c, i, rank, dims, out));
}

static weft_status_t *output_inferred(WEFT_KernelContext *c, int i, WEFT_TensorView *out) {
  WEFT_RETURN_IF_ERROR(check(c, i));
  WEFT_RETURN_IF_ERROR(weft_loaded_infer(c));
  if (!weft_shape_is_known(&c->shapes[i])) {
    return WEFT_ERROR(INTERNAL,
                      "the shape of output %d of %.*s depends on values in the device's memory: %s is known "
                      "of it",
                      i, WEFT_STR_ARGS(c->ctx->node->op_name), WEFT_SHAPE_TEXT(&c->shapes[i]));
  }
  return make(c, i, &c->shapes[i], out);
}

WEFT_Failure *weft_loaded_output_inferred(WEFT_KernelContext *c, int i, WEFT_TensorView *out) {
  return weft_failure_of_status(output_inferred(c, i, out));
}

static weft_status_t *output_forwarded(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims,
                                       WEFT_TensorView *out) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(check_both(c, in, i));
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_forward(c->ctx, in, i, type_of(c, i), &shape, &t));
  view(t, out);
  return NULL;
}

WEFT_Failure *weft_loaded_output_forwarded(WEFT_KernelContext *c, int in, int i, int rank,
                                           const int64_t *dims, WEFT_TensorView *out) {
  return weft_failure_of_status(output_forwarded(c, in, i, rank, dims, out));
}

static weft_status_t *output_is_input(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(check_both(c, in, i));
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_tensor_view(c->ctx->inputs[in].tensor, type_of(c, i), &shape, &t));
  weft_out_set(c->ctx, i, t);
  return NULL;
}

WEFT_Failure *weft_loaded_output_is_input(WEFT_KernelContext *c, int in, int i, int rank,
                                          const int64_t *dims) {
  return weft_failure_of_status(output_is_input(c, in, i, rank, dims));
}

/* ---- random numbers ---- */

WEFT_Failure *weft_loaded_random_take(WEFT_KernelContext *c, uint64_t blocks, uint64_t *out_key,
                                      uint64_t out_counter[2]) {
  if (c->state->stream == NULL) {
    return weft_failure_of_status(
        WEFT_ERROR(FAILED_PRECONDITION, "%s has no seeds", c->ctx->node->name.data));
  }
  const weft_philox_t p = weft_random_stream_take(c->state->stream, blocks);
  *out_key = (uint64_t)p.key[1] << 32 | p.key[0];
  out_counter[0] = (uint64_t)p.counter[1] << 32 | p.counter[0];
  out_counter[1] = (uint64_t)p.counter[3] << 32 | p.counter[2];
  return NULL;
}

/* ---- scratch memory ---- */

static weft_status_t *scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  if (bytes > (size_t)INT64_MAX) return WEFT_NO_MEMORY("%zu bytes for a kernel", bytes);
  const weft_shape_t shape = weft_shape_vector((int64_t)bytes);
  weft_loaded_scratch_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("memory for a kernel");
  const weft_memory_holder_t before =
      weft_memory_hold_for((weft_memory_holder_t){WEFT_HELD_BY_SCRATCH, c->ctx->node->name});
  weft_status_t *status = weft_tensor_new(WEFT_U8, &shape, weft_out_allocator(c->ctx, false), &s->bytes);
  (void)weft_memory_hold_for(before);
  if (status != NULL) {
    weft_free(s);
    return status;
  }
  weft_queue_wait(c->ctx->queue, s->bytes->fence); /* the last use of its memory */
  s->next = c->scratch;
  c->scratch = s;
  *out = s->bytes->data;
  return NULL;
}

WEFT_Failure *weft_loaded_scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  return weft_failure_of_status(scratch(c, bytes, out));
}
