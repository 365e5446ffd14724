/* kernels/cpu/parsing/text_descriptor.h - a message's descriptor in the form that the parser of protobuf's
 * text format takes. */
#ifndef WEFT_KERNELS_CPU_PARSING_TEXT_DESCRIPTOR_H_
#define WEFT_KERNELS_CPU_PARSING_TEXT_DESCRIPTOR_H_

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "kernels/cpu/parsing/descriptor.h"

/* The message with all messages and enums that its fields refer to, in `arena`; good for weft_text_to_binary
 * alone. Without groups and extensions, which the parser does not read. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_text_descriptor_make(const weft_descriptor_t *m, weft_arena_t *arena,
                                                         const ProtobufCMessageDescriptor **out);

#endif /* WEFT_KERNELS_CPU_PARSING_TEXT_DESCRIPTOR_H_ */
