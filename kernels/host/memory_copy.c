/* kernels/host/memory_copy.c - _WeftMemoryCopy: its input's value in the memory of the node's device. */
#include "device/transfer.h"
#include "kernels/host/host_kernels.h"

static void on_there(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  weft_kernel_ctx_t *c = arg;
  weft_out_set(c, 0, tensor);
  c->done(c, status);
}

static void copy(weft_kernel_ctx_t *c) { weft_tensor_at(weft_in(c, 0), c->device->space, on_there, c); }

const weft_kernel_t weft_memory_copy_kernels[] = {
    {.op = "_WeftMemoryCopy", .type_attr = "T", .types = WEFT_SET_ALL, .compute_async = copy},
    {0},
};
