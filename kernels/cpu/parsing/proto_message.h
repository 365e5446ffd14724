/* kernels/cpu/parsing/proto_message.h - serialized messages put into order, by their descriptors. */
#ifndef WEFT_KERNELS_CPU_PARSING_PROTO_MESSAGE_H_
#define WEFT_KERNELS_CPU_PARSING_PROTO_MESSAGE_H_

#include "kernels/cpu/parsing/descriptor.h"

/* Appends the message as protobuf writes it after reading it: fields by ascending number, of those that are
 * not repeated the last value, of a oneof the last member, messages merged, lists packed or not as the
 * descriptor says, zeros of proto3 left out, what the descriptor lacks behind all that. Errors: DATA_LOSS: no
 * message, texts of proto3 that are no UTF-8, a required field that is not there, too deep;
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_proto_normalize(const weft_descriptor_t *m, weft_str_t bytes,
                                                    weft_strbuf_t *out);
/* Appends what a C-escaped text means, as the defaults of bytes stand in descriptors. */
void weft_proto_unescape(weft_str_t text, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_PARSING_PROTO_MESSAGE_H_ */
