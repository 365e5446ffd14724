/* protos/unpack.h - generated messages from and to bytes, safely.
 *
 * protobuf-c's unpacking trusts its input in two ways that a server cannot
 * afford: it recurses as deep as the message nests, and it takes any bytes for
 * text. These functions look first, then unpack, with our allocator.
 */
#ifndef WEFT_PROTOS_UNPACK_H_
#define WEFT_PROTOS_UNPACK_H_

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"
#include "base/str.h"

enum { WEFT_PROTO_MAX_DEPTH = 100 }; /* of messages in messages; protobuf's own limit */

/* INVALID_ARGUMENT, naming message and field, unless `bytes` are a `d`: well formed all the way down, its
 * strings UTF-8, nested WEFT_PROTO_MAX_DEPTH deep at most. Unknown fields are fine. */
WEFT_MUST_CHECK weft_status_t *weft_proto_check(const ProtobufCMessageDescriptor *d, weft_str_t bytes);

/* Checks, then unpacks. The caller frees *out with weft_proto_free().
 * Errors: INVALID_ARGUMENT as above; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_proto_unpack(const ProtobufCMessageDescriptor *d, weft_str_t bytes,
                                                 ProtobufCMessage **out);
void weft_proto_free(ProtobufCMessage *m); /* NULL is fine */

/* Appends the message's bytes. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_proto_pack(const ProtobufCMessage *m, weft_strbuf_t *out);

/* Is this the hidden message type behind a map<> field? The descriptors do not say; the compiler's naming
 * does. */
bool weft_proto_is_map_field(const ProtobufCFieldDescriptor *f);

#endif /* WEFT_PROTOS_UNPACK_H_ */
