/* kernels/loaded/finish.c - runs of rows with finish(): what comes out depends on values in the device's
 * memory.
 *
 *   1. begin()     the queue waits for the inputs, compute() enqueues the work
 *   2. on_there()  the queue's fence has passed: finish() reads what came to the host, makes the outputs
 *   3. end()       done(); the executor marks the outputs with the fence behind what finish() has enqueued
 *
 * A run that fails in 1 waits for the fence, too, if the device may write into the host's memory that it has.
 */
#include "base/alloc.h"
#include "device/queue.h"
#include "kernels/loaded/context.h"
#include "tensor/memory_holders.h"

typedef struct later {
  WEFT_KernelContext c; /* first */
  weft_fence_waiter_t waiter;
  weft_status_t *failure; /* owned; of compute() */
} later_t;

static void end(later_t *l, weft_status_t *status) {
  weft_kernel_ctx_t *ctx = l->c.ctx;
  weft_loaded_context_deinit(&l->c);
  weft_free(l);
  ctx->done(ctx, status);
}

static void on_there(void *arg, weft_status_t *status) {
  later_t *l = arg;
  if (l->failure != NULL) {
    weft_status_free(status); /* what poisoned the queue has a step of its own that says so */
    status = l->failure;
  } else if (status == NULL) {
    const weft_memory_holder_t before =
        weft_memory_hold_for((weft_memory_holder_t){WEFT_HELD_BY_NODE, l->c.ctx->node->name});
    status = weft_status_of_failure(l->c.state->row->finish(&l->c));
    (void)weft_memory_hold_for(before);
  }
  end(l, status);
}

void weft_loaded_begin(weft_kernel_ctx_t *ctx) {
  later_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) {
    ctx->done(ctx, WEFT_NO_MEMORY("running %.*s", WEFT_STR_ARGS(ctx->node->name)));
    return;
  }
  l->c = (WEFT_KernelContext){.ctx = ctx, .state = ctx->state, .may_finish = true};
  for (int i = 0; i < ctx->node->num_inputs; i++) {
    if (ctx->inputs[i].tensor != NULL) weft_queue_wait(ctx->queue, ctx->inputs[i].tensor->fence);
  }
  l->failure = weft_status_of_failure(l->c.state->row->compute(&l->c));
  if (l->failure != NULL && l->c.host_scratch == NULL) {
    end(l, l->failure);
  } else {
    weft_fence_then(weft_queue_mark(ctx->queue), &l->waiter, on_there, l);
  }
}

/* ---- memory of the host ---- */

static weft_status_t *host_scratch(WEFT_KernelContext *c, size_t bytes) {
  if (!c->may_finish)
    return WEFT_ERROR(INTERNAL, "the kernel of %.*s has no finish()", WEFT_STR_ARGS(c->ctx->node->op_name));
  if (bytes > (size_t)INT64_MAX) return WEFT_NO_MEMORY("%zu bytes for a kernel", bytes);
  const weft_shape_t shape = weft_shape_vector((int64_t)bytes);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_U8, &shape, c->ctx->device->host_allocator, &c->host_scratch));
  memset(c->host_scratch->data, 0, bytes);
  return NULL;
}

WEFT_Failure *weft_loaded_host_scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  weft_status_t *s = c->host_scratch != NULL ? NULL : host_scratch(c, bytes);
  if (s == NULL) *out = c->host_scratch->data;
  return weft_failure_of_status(s);
}
