/* services/local_transport.h - what Weft's workers add to RecvTensor's transport_options: how to transfer
 * without gRPC on one host, and in parts between hosts. TensorFlow's workers do not send it and ignore it. */
#ifndef WEFT_SERVICES_LOCAL_TRANSPORT_H_
#define WEFT_SERVICES_LOCAL_TRANSPORT_H_

#include "services/messages.h"

#define WEFT_LOCAL_TRANSPORT_URL "type.googleapis.com/weft.LocalTransport"

/* Appends a google.protobuf.Any that holds `m`. */
void weft_local_transport_to_any(const weft_local_transport_msg_t *m, weft_strbuf_t *out);
/* False if `any` is something else, or nothing. */
bool weft_local_transport_from_any(weft_str_t bytes, weft_arena_t *arena, weft_local_transport_msg_t *out);

#endif /* WEFT_SERVICES_LOCAL_TRANSPORT_H_ */
