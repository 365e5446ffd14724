/* kernels/loaded/host_kernel.c - the CPU's kernel of a node, for devices whose work the host can do.
 *
 * It runs behind the executor's back, on bytes that the library names, and allocates its own outputs, which
 * are then copied to where the library wants them. A variable that the op changes is made up for the run:
 * behind a reference, with the bytes as its value, which the kernel then writes in place.
 */
#include "base/alloc.h"
#include "kernels/loaded/context.h"

struct WEFT_HostKernel {
  const weft_kernel_t *kernel;
  void *state;
  weft_kernel_node_t node; /* its names and types are the plan's */
};

static weft_status_t *create(const weft_kernel_setup_t *setup, WEFT_HostKernel **out) {
  const weft_kernel_node_t *n = &setup->node;
  const weft_kernel_t *k = weft_kernel_find("CPU", n->op_name, setup->attrs, setup->num_attrs);
  if (k == NULL || k->compute == NULL)
    return WEFT_ERROR(NOT_FOUND, "the CPU has no kernel for %.*s that computes at once",
                      WEFT_STR_ARGS(n->op_name));
  WEFT_HostKernel *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(n->name));
  weft_kernel_setup_t own = *setup;
  own.node.param = k->param;
  own.reads = k->reads;
  weft_status_t *s = k->prepare != NULL ? k->prepare(&own, &h->state) : NULL;
  if (s != NULL) {
    weft_free(h);
    return s;
  }
  h->kernel = k;
  h->node = own.node;
  h->node.device = weft_loaded_host(n->device);
  h->node.allocator = NULL;
  h->node.host_outputs = 0;
  *out = h;
  return NULL;
}

WEFT_Failure *weft_loaded_host_kernel(const WEFT_KernelSetup *s, WEFT_HostKernel **out) {
  return weft_failure_of_status(create(weft_loaded_setup(s), out));
}

void weft_loaded_host_kernel_free(WEFT_HostKernel *k) {
  if (k == NULL) return;
  if (k->kernel->destroy != NULL && k->state != NULL) k->kernel->destroy(k->state);
  weft_free(k);
}

/* ---- a run ---- */

static void keep(void *data, size_t bytes, void *arg) { /* the bytes are the library's */
  (void)data;
  (void)bytes;
  (void)arg;
}

static bool is_variable(const weft_kernel_node_t *n, int i) {
  return weft_dtype_is_ref(n->input_types[i]) || n->input_types[i] == WEFT_RESOURCE;
}

static weft_status_t *wrap(const WEFT_HostKernel *k, int i, const WEFT_TensorView *view, weft_value_t *out) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_shape_make(view->dims, view->rank, &shape));
  WEFT_RETURN_IF_ERROR(
      weft_tensor_wrap((weft_dtype_t)view->dtype, &shape, view->data, view->bytes, keep, NULL, &t));
  if (!is_variable(&k->node, i) || view->dtype == WEFT_RESOURCE) {
    out->tensor = t;
    return NULL;
  }
  weft_status_t *s = weft_variable_create(k->node.name, t->dtype, &t->shape, &out->ref);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  out->ref->is_shared = true;
  out->ref->value = t;
  return NULL;
}

static weft_status_t *copy_output(const WEFT_HostKernel *k, int i, const weft_value_t *from,
                                  const WEFT_TensorView *to) {
  const weft_tensor_t *t = from->tensor;
  if (from->ref != NULL) return NULL; /* was written in place */
  if (t == NULL) return WEFT_ERROR(INTERNAL, "the CPU's kernel has not made output %d", i);
  if (t->bytes != to->bytes) {
    return WEFT_ERROR(INTERNAL,
                      "output %d of {{node %.*s}} has %zu bytes, not the %zu that its shape function says", i,
                      WEFT_STR_ARGS(k->node.name), t->bytes, to->bytes);
  }
  if (t->bytes > 0) memcpy(to->data, t->data, t->bytes);
  return NULL;
}

static weft_status_t *run(WEFT_HostKernel *k, const WEFT_TensorView *inputs, const WEFT_TensorView *outputs,
                          int num_outputs, weft_value_t *in, weft_value_t *out) {
  const weft_step_t step = {.id = 0};
  weft_kernel_ctx_t c = {.node = &k->node,
                         .device = k->node.device,
                         .state = k->state,
                         .inputs = in,
                         .outputs = out,
                         .step = &step};
  for (int i = 0; i < k->node.num_inputs; i++) WEFT_RETURN_IF_ERROR(wrap(k, i, &inputs[i], &in[i]));
  WEFT_RETURN_IF_ERROR(k->kernel->compute(&c));
  for (int i = 0; i < num_outputs; i++) WEFT_RETURN_IF_ERROR(copy_output(k, i, &out[i], &outputs[i]));
  return NULL;
}

static weft_status_t *run_with_room(WEFT_HostKernel *k, const WEFT_TensorView *inputs,
                                    const WEFT_TensorView *outputs, int num_outputs) {
  const int num_in = k->node.num_inputs, num_values = num_in + k->node.num_outputs;
  weft_value_t *values = weft_calloc((size_t)num_values + 1, sizeof *values);
  if (values == NULL) return WEFT_NO_MEMORY("a run of a kernel");
  weft_status_t *s = run(k, inputs, outputs, num_outputs, values, values + num_in);
  for (int i = 0; i < num_values; i++) {
    weft_tensor_release(values[i].tensor);
    if (values[i].ref != NULL) weft_object_release(&values[i].ref->object);
  }
  weft_free(values);
  return s;
}

WEFT_Failure *weft_loaded_host_kernel_run(WEFT_HostKernel *k, const WEFT_TensorView *inputs, int num_inputs,
                                          const WEFT_TensorView *outputs, int num_outputs) {
  weft_status_t *s = NULL;
  if (num_inputs != k->node.num_inputs || num_outputs > k->node.num_outputs) {
    s = WEFT_ERROR(INTERNAL, "%d inputs and %d outputs for a kernel of %d and %d", num_inputs, num_outputs,
                   k->node.num_inputs, k->node.num_outputs);
  } else {
    s = run_with_room(k, inputs, outputs, num_outputs);
  }
  if (s != NULL) s = weft_status_annotate(s, "{{node %.*s}}", WEFT_STR_ARGS(k->node.name));
  return weft_failure_of_status(s);
}
