/* rpc/tensor_message.c - tensors in messages, with at most one copy. */
#include "rpc/tensor_message.h"

#include "base/alloc.h"
#include "tensor/tensor_proto.h"

/* dtype and shape take less than this, if they come first, as in all known encoders. */
enum { PREFIX_BYTES = 512 };

/* The message lies in pieces and its payload comes last: into a new tensor at once. False: not so. */
static bool receive_in_place(const weft_message_t *m, const weft_message_field_t *f, weft_status_t **status,
                             weft_tensor_t **out) {
  char prefix[PREFIX_BYTES];
  size_t n = f->length < sizeof prefix ? f->length : sizeof prefix, payload_at = 0;
  weft_message_field_copy(m, f, 0, prefix, n);
  weft_tensor_head_t head;
  if (!weft_tensor_proto_peek(weft_str_of(prefix, n), f->length, &head, &payload_at)) return false;
  *status = weft_tensor_new(head.dtype, &head.shape, NULL, out);
  if (*status == NULL) weft_message_field_copy(m, f, payload_at, (*out)->data, (*out)->bytes);
  return true;
}

weft_status_t *weft_tensor_from_field(const weft_message_t *m, const weft_message_field_t *f,
                                      weft_tensor_t **out) {
  weft_str_t bytes;
  if (weft_message_field_view(m, f, &bytes)) return weft_tensor_from_proto(bytes, out);
  weft_status_t *s = NULL;
  if (receive_in_place(m, f, &s, out)) return s;
  char *whole = weft_malloc(f->length);
  if (whole == NULL) return WEFT_NO_MEMORY("a tensor of %zu bytes", f->length);
  weft_message_field_copy(m, f, 0, whole, f->length);
  s = weft_tensor_from_proto(weft_str_of(whole, f->length), out);
  weft_free(whole);
  return s;
}

static void release_tensor(void *arg) { weft_tensor_release(arg); }

weft_status_t *weft_tensor_to_field(const weft_tensor_t *t, uint32_t number, weft_strbuf_t *text,
                                    weft_message_t *m) {
  weft_wire_add_header(text, number, weft_tensor_proto_size(t));
  if (!weft_dtype_is_plain(t->dtype) || t->bytes < WEFT_TENSOR_MESSAGE_MIN_SHARE)
    return weft_tensor_to_proto(t, text);
  weft_tensor_proto_header(t, text);
  WEFT_RETURN_IF_ERROR(weft_message_take(m, text));
  /* The reference is ours until the transport drops the piece; the cast drops const for the count only. */
  weft_tensor_t *held = weft_tensor_retain((weft_tensor_t *)(uintptr_t)t);
  return weft_message_share(m, held->data, held->bytes, release_tensor, held);
}
