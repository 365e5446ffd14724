/* kernels/loaded/context.h - inside kernels/loaded/: a node and a run of it, as libraries see them.
 *
 * A WEFT_KernelSetup is a weft_kernel_setup_t.
 */
#ifndef WEFT_KERNELS_LOADED_CONTEXT_H_
#define WEFT_KERNELS_LOADED_CONTEXT_H_

#include "device/loaded/loaded.h"
#include "kernels/kernel.h"
#include "weft/device.h"

/* Of a node: the state of its kernel. */
typedef struct weft_loaded_state {
  const WEFT_DeviceKernel *row;
  void *own;    /* what the library's prepare() made */
  void *stream; /* of a node that has seeds: its random numbers (kernels/cpu/random/philox.h). Owned */
  const weft_named_attr_t *attrs; /* the plan's */
  int num_attrs;
} weft_loaded_state_t;

typedef struct weft_loaded_scratch weft_loaded_scratch_t;

/* A run of a node. Confined to compute() and then finish(). */
struct WEFT_KernelContext {
  weft_kernel_ctx_t *ctx;
  const weft_loaded_state_t *state;
  int num_variables;              /* the first inputs: variables' values, which compute() writes */
  weft_shape_t *shapes;           /* of the outputs, by the op's shape function; NULL: not asked yet. Owned */
  weft_loaded_scratch_t *scratch; /* owned, until the work is enqueued */
  bool may_finish;                /* the row has finish() */
  weft_tensor_t *host_scratch;    /* owned, until finish() has returned */
};

static inline const weft_kernel_setup_t *weft_loaded_setup(const WEFT_KernelSetup *s) {
  return (const weft_kernel_setup_t *)(const void *)s;
}

/* Frees what the run has taken. */
void weft_loaded_context_deinit(WEFT_KernelContext *c);
/* Works c->shapes out. Errors: those of the shape function, in TensorFlow's words; INTERNAL if they are not
 * known then; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_infer(WEFT_KernelContext *c);

/* compute_async of rows with finish(). */
void weft_loaded_begin(weft_kernel_ctx_t *ctx);
/* compute of rows that update variables, and of rows that read one. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_update(weft_kernel_ctx_t *ctx);
WEFT_MUST_CHECK weft_status_t *weft_loaded_read(weft_kernel_ctx_t *ctx);
/* Makes the value of `v` one that work on the compute queue may write. Errors: FAILED_PRECONDITION: it has
 * none; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_make_writable_locked(weft_kernel_ctx_t *c, weft_variable_t *v)
    WEFT_REQUIRES(v->mu);
/* Gives it the value `t`, which is consumed, behind the fence. */
void weft_loaded_set_value_locked(weft_variable_t *v, weft_tensor_t *t, weft_fence_t f) WEFT_REQUIRES(v->mu);
/* The row of _WeftUpdates. */
extern const weft_kernel_t weft_loaded_updates_kernel;
/* The row of Assign, but for its types. */
extern const weft_kernel_t weft_loaded_assign_kernel;
/* The param of rows that write tensor arrays (kernels/cpu/list/variant.h). */
typedef struct weft_device_add weft_device_add_t;
extern const weft_device_add_t weft_loaded_add;
/* AddN of tensor lists. */
extern const weft_kernel_t weft_loaded_add_lists_kernel;

/* The members of weft_device_host that stand in other files. */
void weft_loaded_input(WEFT_KernelContext *c, int i, WEFT_TensorView *out);
WEFT_Failure *weft_loaded_output(WEFT_KernelContext *c, int i, int rank, const int64_t *dims,
                                 WEFT_TensorView *out);
WEFT_Failure *weft_loaded_output_inferred(WEFT_KernelContext *c, int i, WEFT_TensorView *out);
WEFT_Failure *weft_loaded_output_forwarded(WEFT_KernelContext *c, int in, int i, int rank,
                                           const int64_t *dims, WEFT_TensorView *out);
WEFT_Failure *weft_loaded_output_is_input(WEFT_KernelContext *c, int in, int i, int rank,
                                          const int64_t *dims);
WEFT_Failure *weft_loaded_random_take(WEFT_KernelContext *c, uint64_t blocks, uint64_t *out_key,
                                      uint64_t out_counter[2]);
WEFT_Failure *weft_loaded_scratch(WEFT_KernelContext *c, size_t bytes, void **out);
WEFT_Failure *weft_loaded_host_scratch(WEFT_KernelContext *c, size_t bytes, void **out);
WEFT_Failure *weft_loaded_host_kernel(const WEFT_KernelSetup *s, WEFT_HostKernel **out);
void weft_loaded_host_kernel_free(WEFT_HostKernel *k);
WEFT_Failure *weft_loaded_host_kernel_run(WEFT_HostKernel *k, const WEFT_TensorView *inputs, int num_inputs,
                                          const WEFT_TensorView *outputs, int num_outputs);

#endif /* WEFT_KERNELS_LOADED_CONTEXT_H_ */
