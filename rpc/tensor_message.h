/* rpc/tensor_message.h - tensors in messages, with at most one copy.
 *
 * A large tensor is sent from where it lies: the message holds a reference to it
 * until the transport is done. On the way in, its bytes are copied once, from
 * the transport's pieces into the new tensor.
 */
#ifndef WEFT_RPC_TENSOR_MESSAGE_H_
#define WEFT_RPC_TENSOR_MESSAGE_H_

#include "rpc/message_reader.h"
#include "tensor/tensor.h"

/* Below this many bytes a copy is cheaper than a piece of its own. */
enum { WEFT_TENSOR_MESSAGE_MIN_SHARE = 8192 };

/* Decodes the TensorProto in `f`. The caller owns one reference. Errors: as weft_tensor_from_proto. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_from_field(const weft_message_t *m, const weft_message_field_t *f,
                                                      weft_tensor_t **out);

/* Appends `t` (retained while needed; in host memory) as the message field `number` to `text`. If it is
 * large, `text` is moved into `m` first, so the two must be one message's pieces in order. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_to_field(const weft_tensor_t *t, uint32_t number,
                                                    weft_strbuf_t *text, weft_message_t *m);

#endif /* WEFT_RPC_TENSOR_MESSAGE_H_ */
