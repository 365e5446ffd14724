/* kernels/loaded/host.c - what Weft gives to device libraries: failures, attributes, a run's surroundings. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "kernels/loaded/context.h"
#include "kernels/loaded/loaded_kernels.h"
#include "ops/chain.h"

/* ---- failures ---- */

static weft_status_t *status_of(const WEFT_Failure *f) {
  return weft_status_of_failure((WEFT_Failure *)(uintptr_t)f);
}

static WEFT_Failure *failure(int code, const char *format, ...) WEFT_PRINTF(2, 3);
static WEFT_Failure *failure(int code, const char *format, ...) {
  char text[1024]; /* a longer one is cut */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return weft_failure_of_status(
      weft_status_from_wire(code == WEFT_OK ? WEFT_UNKNOWN : code, text, strlen(text)));
}

static WEFT_Failure *failure_copy(const WEFT_Failure *f) {
  return weft_failure_of_status(weft_status_clone(status_of(f)));
}
static int failure_code(const WEFT_Failure *f) { return (int)weft_status_code(status_of(f)); }
static const char *failure_message(const WEFT_Failure *f) { return weft_status_message(status_of(f)); }
static void failure_free(WEFT_Failure *f) { weft_status_free(weft_status_of_failure(f)); }

static void log_message(int level, const char *message) {
  weft_log(level <= 0 ? WEFT_LOG_INFO : level == 1 ? WEFT_LOG_WARNING : WEFT_LOG_ERROR, "%s", message);
}

/* ---- in prepare() ---- */

static const char *setup_op(const WEFT_KernelSetup *s) { return weft_loaded_setup(s)->node.op_name.data; }
static const char *setup_name(const WEFT_KernelSetup *s) { return weft_loaded_setup(s)->node.name.data; }
static void *setup_device(const WEFT_KernelSetup *s) {
  return weft_loaded_device(weft_loaded_setup(s)->node.device);
}

static int setup_input_type(const WEFT_KernelSetup *s, int i) {
  const weft_kernel_node_t *n = &weft_loaded_setup(s)->node;
  return i < 0 || i >= n->num_inputs ? -1 : (int)weft_dtype_base(n->input_types[i]);
}

static int setup_output_type(const WEFT_KernelSetup *s, int i) {
  const weft_kernel_node_t *n = &weft_loaded_setup(s)->node;
  return i < 0 || i >= n->num_outputs ? -1 : (int)weft_dtype_base(n->output_types[i]);
}

/* The attribute, which is one value of that kind, or NULL. */
static const weft_attr_t *find(const WEFT_KernelSetup *s, const char *name, weft_attr_kind_t kind) {
  const weft_attr_t *a = weft_knode_attr(weft_loaded_setup(s), name);
  return a != NULL && !a->is_list && a->kind == kind ? a : NULL;
}

static int setup_link(const WEFT_KernelSetup *s, int i, WEFT_ChainLink *out) {
  const weft_kernel_setup_t *setup = weft_loaded_setup(s);
  weft_chain_t c;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *status = weft_chain_read(&arena, setup->attrs, setup->num_attrs, &c);
  const bool is_there = status == NULL && i >= 0 && i < c.num_links;
  if (is_there) {
    *out = (WEFT_ChainLink){c.links[i].op->name.data, c.links[i].type, c.links[i].num_operands,
                            c.links[i].operands};
  }
  weft_status_free(status);
  weft_arena_deinit(&arena);
  return is_there;
}

static int attr_int(const WEFT_KernelSetup *s, const char *name, int64_t *out) {
  const weft_attr_t *a = find(s, name, WEFT_ATTR_INT);
  if (a != NULL) *out = a->i;
  return a != NULL;
}

static int attr_bool(const WEFT_KernelSetup *s, const char *name, int *out) {
  const weft_attr_t *a = find(s, name, WEFT_ATTR_BOOL);
  if (a != NULL) *out = a->b;
  return a != NULL;
}

static int attr_float(const WEFT_KernelSetup *s, const char *name, float *out) {
  const weft_attr_t *a = find(s, name, WEFT_ATTR_FLOAT);
  if (a != NULL) *out = a->f;
  return a != NULL;
}

static int attr_type(const WEFT_KernelSetup *s, const char *name, int *out) {
  const weft_attr_t *a = find(s, name, WEFT_ATTR_TYPE);
  if (a != NULL) *out = a->type;
  return a != NULL;
}

static int attr_string(const WEFT_KernelSetup *s, const char *name, const char **out, size_t *out_length) {
  const weft_attr_t *a = find(s, name, WEFT_ATTR_STRING);
  if (a == NULL) return 0;
  *out = a->s.data;
  *out_length = a->s.length;
  return 1;
}

static int attr_ints(const WEFT_KernelSetup *s, const char *name, int64_t *out, int max) {
  const weft_attr_t *a = weft_knode_attr(weft_loaded_setup(s), name);
  const bool is_empty = a != NULL && a->is_list && a->n == 0; /* then its kind may not be known */
  if (a == NULL || !a->is_list || (a->kind != WEFT_ATTR_INT && !is_empty)) return -1;
  for (int i = 0; i < a->n && i < max; i++) out[i] = a->list.ints[i];
  return a->n;
}

static int attr_floats(const WEFT_KernelSetup *s, const char *name, float *out, int max) {
  const weft_attr_t *a = weft_knode_attr(weft_loaded_setup(s), name);
  const bool is_empty = a != NULL && a->is_list && a->n == 0;
  if (a == NULL || !a->is_list || (a->kind != WEFT_ATTR_FLOAT && !is_empty)) return -1;
  for (int i = 0; i < a->n && i < max; i++) out[i] = a->list.floats[i];
  return a->n;
}

static int attr_strings(const WEFT_KernelSetup *s, const char *name, const char **out, size_t *out_lengths,
                        int max) {
  const weft_attr_t *a = weft_knode_attr(weft_loaded_setup(s), name);
  const bool is_empty = a != NULL && a->is_list && a->n == 0;
  if (a == NULL || !a->is_list || (a->kind != WEFT_ATTR_STRING && !is_empty)) return -1;
  for (int i = 0; i < a->n && i < max; i++) {
    out[i] = a->list.strings[i].data;
    out_lengths[i] = a->list.strings[i].length;
  }
  return a->n;
}

/* ---- in compute() ---- */

static void *state(const WEFT_KernelContext *c) { return c->state->own; }
static const void *param(const WEFT_KernelContext *c) { return c->state->row->param; }
static void *device(const WEFT_KernelContext *c) { return weft_loaded_device(c->ctx->device); }
static void *queue(const WEFT_KernelContext *c) { return weft_loaded_queue(c->ctx->queue); }
static const char *node_name(const WEFT_KernelContext *c) { return c->ctx->node->name.data; }
static int64_t step(const WEFT_KernelContext *c) { return c->ctx->step->id; }
static int num_inputs(const WEFT_KernelContext *c) { return c->ctx->node->num_inputs; }
static int num_outputs(const WEFT_KernelContext *c) { return c->ctx->node->num_outputs; }

const WEFT_DeviceHost weft_device_host = {
    .size = sizeof(WEFT_DeviceHost),
    .major = WEFT_DEVICE_MAJOR,
    .minor = WEFT_DEVICE_MINOR,
    .failure = failure,
    .failure_copy = failure_copy,
    .failure_code = failure_code,
    .failure_message = failure_message,
    .failure_free = failure_free,
    .log = log_message,
    .setup_op = setup_op,
    .setup_name = setup_name,
    .setup_device = setup_device,
    .setup_input_type = setup_input_type,
    .setup_output_type = setup_output_type,
    .attr_int = attr_int,
    .attr_bool = attr_bool,
    .attr_float = attr_float,
    .attr_type = attr_type,
    .attr_string = attr_string,
    .attr_ints = attr_ints,
    .attr_strings = attr_strings,
    .setup_link = setup_link,
    .host_kernel = weft_loaded_host_kernel,
    .host_kernel_free = weft_loaded_host_kernel_free,
    .host_kernel_run = weft_loaded_host_kernel_run,
    .state = state,
    .param = param,
    .device = device,
    .queue = queue,
    .node_name = node_name,
    .step = step,
    .num_inputs = num_inputs,
    .num_outputs = num_outputs,
    .input = weft_loaded_input,
    .output = weft_loaded_output,
    .output_inferred = weft_loaded_output_inferred,
    .output_forwarded = weft_loaded_output_forwarded,
    .output_is_input = weft_loaded_output_is_input,
    .scratch = weft_loaded_scratch,
    .random_take = weft_loaded_random_take,
    .host_scratch = weft_loaded_host_scratch,
    .attr_floats = attr_floats,
};
