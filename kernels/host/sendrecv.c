/* kernels/host/sendrecv.c - values that leave a device and arrive on another: _Send and _Recv, and those that
 * a client's graph may hold.
 *
 * The key of top-level executions is made once, with its hash. Inside a frame
 * only the end of the key differs; it is printed for each execution.
 */
#include "base/alloc.h"
#include "device/transfer.h"
#include "kernels/host/host_kernels.h"
#include "tensor/memory_holders.h"

typedef struct channel {
  char *text;     /* owned; "src;incarnation;dst;name;0:0" */
  weft_key_t top; /* of the whole text */
  size_t prefix;  /* bytes of the text up to and with the last ';' */
  bool to_device; /* the output lies in the device's memory: executor/memory_copies.c says so */
} channel_t;

static void channel_free(void *state) {
  channel_t *ch = state;
  weft_free(ch->text);
  weft_free(ch);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  channel_t *ch = weft_calloc(1, sizeof *ch);
  if (ch == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.op_name.data);
  weft_key_print(&text, weft_knode_string(setup, "send_device"),
                 (uint64_t)weft_knode_int(setup, "send_device_incarnation"),
                 weft_knode_string(setup, "recv_device"), weft_knode_string(setup, "tensor_name"), 0, 0);
  size_t length = 0;
  weft_status_t *s = weft_strbuf_finish(&text, &ch->text, &length);
  weft_strbuf_deinit(&text);
  if (s != NULL) {
    weft_free(ch);
    return s;
  }
  ch->top = weft_key(weft_str_of(ch->text, length));
  ch->prefix = length - strlen("0:0");
  ch->to_device = weft_knode_bool_or(setup, WEFT_RECV_TO_DEVICE, false);
  *out_state = ch;
  return NULL;
}

/* The key of this execution. *buffer keeps the text of one inside a frame: deinit it when the key is no
 * longer used. */
static weft_status_t *key_of(const weft_kernel_ctx_t *c, weft_strbuf_t *buffer, weft_key_t *out) {
  const channel_t *ch = c->state;
  if (c->step->rendezvous == NULL)
    return WEFT_ERROR(INTERNAL, "Op kernel context needs to provide a rendezvous.");
  if (c->frame_id == 0 && c->iteration == 0) {
    *out = ch->top;
    return NULL;
  }
  weft_strbuf_append(buffer, weft_str_of(ch->text, ch->prefix));
  weft_strbuf_printf(buffer, "%llu:%lld", (unsigned long long)c->frame_id, (long long)c->iteration);
  if (buffer->failed) return WEFT_NO_MEMORY("making a rendezvous key");
  *out = weft_key(weft_str_of(buffer->data, buffer->length));
  return NULL;
}

static weft_status_t *send(weft_kernel_ctx_t *c) {
  weft_strbuf_t buffer = WEFT_STRBUF_INIT;
  weft_key_t key;
  weft_status_t *s = key_of(c, &buffer, &key);
  bool is_dead = c->is_dead || c->inputs[0].tensor == NULL;
  if (s == NULL)
    s = weft_rendezvous_send(c->step->rendezvous, key, is_dead ? NULL : c->inputs[0].tensor, is_dead);
  weft_strbuf_deinit(&buffer);
  return s;
}

/* The memory that the output is to lie in. */
static const weft_memory_space_t *wanted_space(const weft_kernel_ctx_t *c) {
  return ((const channel_t *)c->state)->to_device ? c->device->space : NULL;
}

static void on_there(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  weft_kernel_ctx_t *c = arg;
  weft_out_set(c, 0, tensor);
  c->done(c, status);
}

static void received(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  weft_kernel_ctx_t *c = arg;
  weft_dtype_t want = weft_dtype_base(c->node->output_types[0]);
  if (status != NULL || is_dead || tensor == NULL) {
    weft_tensor_release(tensor);
  } else if (tensor->dtype != want) {
    status = WEFT_ERROR(INTERNAL,
                        "Output 0 of type %s does not match declared output type %s for node {{node %.*s}}",
                        weft_dtype_name(tensor->dtype), weft_dtype_name(want), WEFT_STR_ARGS(c->node->name));
    weft_tensor_release(tensor);
  } else if (tensor->space != wanted_space(c)) {
    const weft_memory_holder_t before =
        weft_memory_hold_for((weft_memory_holder_t){WEFT_HELD_BY_NODE, c->node->name});
    weft_tensor_at(tensor, wanted_space(c), on_there, c);
    (void)weft_memory_hold_for(before);
    weft_tensor_release(tensor);
    return;
  } else {
    weft_out_set(c, 0, tensor);
  }
  c->done(c, status);
}

static void recv(weft_kernel_ctx_t *c) {
  weft_strbuf_t buffer = WEFT_STRBUF_INIT;
  weft_key_t key;
  weft_status_t *s = key_of(c, &buffer, &key);
  if (s == NULL) {
    key.space = wanted_space(c);
    weft_rendezvous_recv_async(c->step->rendezvous, key, c->step->canceller, received, c);
  }
  weft_strbuf_deinit(&buffer);
  if (s != NULL) c->done(c, s);
}

/* Arguments lie in the host's memory, but where executor/memory_copies.c has them in the device's: what is
 * sent to another task, and what is received for the device alone. */
#define SEND                                                                                             \
  .type_attr = "T", .types = WEFT_SET_ALL, .prepare = prepare, .compute = send, .destroy = channel_free, \
  .host_inputs = 1
#define RECV                                                                                    \
  .type_attr = "tensor_type", .types = WEFT_SET_ALL, .prepare = prepare, .compute_async = recv, \
  .destroy = channel_free, .host_outputs = 1

const weft_kernel_t weft_sendrecv_kernels[] = {
    {.op = "Recv", RECV},
    {.op = "Send", SEND},
    {.op = "_HostRecv", RECV},
    {.op = "_HostSend", SEND},
    {.op = "_Recv", RECV},
    {.op = "_Send", SEND},
    {0},
};
