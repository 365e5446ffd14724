/* kernels/cpu/session/session_tensor.c - tensors that a session keeps between its steps.
 *
 * A handle is "<node>;<number>;<device>", which TensorFlow's client takes apart to place the op that reads
 * it.
 */
#include "resources/session_tensor.h"

#include <inttypes.h>

#include "base/random.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

static weft_status_t *keep(weft_kernel_ctx_t *c, weft_strbuf_t *handle) {
  weft_strbuf_printf(handle, "%.*s;%" PRIu64 ";%.*s", WEFT_STR_ARGS(c->node->name),
                     weft_random_id() >> 1, /* the client may read it as an int64 */
                     WEFT_STR_ARGS(c->device->name));
  if (handle->failed) return WEFT_NO_MEMORY("naming a tensor");
  return weft_session_tensor_keep(c->device->resources, c->node->session,
                                  weft_str_of(handle->data, handle->length), weft_in(c, 0));
}

static weft_status_t *get_handle(weft_kernel_ctx_t *c) {
  weft_strbuf_t handle = WEFT_STRBUF_INIT;
  weft_status_t *s = keep(c, &handle);
  if (s == NULL) {
    s = weft_tensor_string(weft_str_of(handle.data, handle.length), &c->outputs[0].tensor);
  }
  weft_strbuf_deinit(&handle);
  return s;
}

static const weft_resource_type_t handle_type = {"TensorHandle", "TensorHandle", NULL};

static weft_status_t *get_handle_v2(weft_kernel_ctx_t *c) {
  weft_strbuf_t handle = WEFT_STRBUF_INIT;
  weft_status_t *s = keep(c, &handle);
  if (s == NULL) {
    s = weft_state_handle(c->device, "", handle.data, &handle_type, NULL, WEFT_DTYPE_INVALID, NULL,
                          &c->outputs[0].tensor);
  }
  weft_strbuf_deinit(&handle);
  return s;
}

static weft_status_t *in_handle(const weft_kernel_ctx_t *c, weft_str_t *out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "handle must be a scalar, got shape %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = weft_tensor_str_at(t, 0);
  return NULL;
}

static weft_status_t *get_tensor(weft_kernel_ctx_t *c) {
  weft_str_t handle;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_handle(c, &handle));
  WEFT_RETURN_IF_ERROR(weft_session_tensor_get(c->device->resources, c->node->session, handle, &t));
  weft_dtype_t want = weft_dtype_base(c->node->output_types[0]);
  if (t->dtype == want) {
    weft_out_set(c, 0, t);
    return NULL;
  }
  weft_status_t *s = WEFT_ERROR(
      INTERNAL, "Output 0 of type %s does not match declared output type %s for node {{node %.*s}}",
      weft_dtype_name(t->dtype), weft_dtype_name(want), WEFT_STR_ARGS(c->node->name));
  weft_tensor_release(t);
  return s;
}

static weft_status_t *delete_tensor(weft_kernel_ctx_t *c) {
  weft_str_t handle;
  WEFT_RETURN_IF_ERROR(in_handle(c, &handle));
  return weft_session_tensor_delete(c->device->resources, c->node->session, handle);
}

const weft_kernel_t weft_cpu_session_tensor_kernels[] = {
    {.op = "DeleteSessionTensor", .compute = delete_tensor},
    {.op = "GetSessionHandle", .compute = get_handle},
    {.op = "GetSessionHandleV2", .compute = get_handle_v2},
    {.op = "GetSessionTensor", .compute = get_tensor},
    {0},
};
