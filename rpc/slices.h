/* rpc/slices.h - between messages and gRPC's byte buffers; only for this folder. */
#ifndef WEFT_RPC_SLICES_H_
#define WEFT_RPC_SLICES_H_

#include <grpc/byte_buffer.h>

#include "rpc/message.h"

/* A buffer that shares the message's pieces; destroy it with grpc_byte_buffer_destroy. Never NULL: gRPC ends
 * the process where its own small objects find no memory. A NULL message is an empty one. Pieces that lie in
 * the message itself become slices of their own. */
grpc_byte_buffer *weft_message_to_buffer(weft_message_t *m);
/* Consumes `buffer` (NULL is an empty message). The message's pieces are the buffer's slices. */
WEFT_MUST_CHECK weft_status_t *weft_message_from_buffer(grpc_byte_buffer *buffer, weft_message_t **out);

#endif /* WEFT_RPC_SLICES_H_ */
