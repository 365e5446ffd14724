/* protos/text_format.h - messages as text: .pbtxt files.
 *
 * Reads all that protobuf's text format allows: messages in { } or < >, lists in
 * [ ], the colon before a message left out, ';' or ',' between fields, comments,
 * strings in pieces and with every escape, enums by name or number, numbers in
 * decimal, hexadecimal and octal. An error says where, what was expected and what
 * was found: "graph.pbtxt:12:9: Expected \":\", found \"{\"."
 *
 * Writes what protobuf's Python printer writes (text_format.MessageToString with
 * as_utf8=False): fields by number, maps sorted by key, floats as short as they
 * can be read back, two spaces per level.
 *
 * All functions are thread-safe and do not depend on the process's locale.
 */
#ifndef WEFT_PROTOS_TEXT_FORMAT_H_
#define WEFT_PROTOS_TEXT_FORMAT_H_

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"
#include "base/str.h"

/* An enum's descriptor whose `reserved1` is not NULL is closed, as those of proto2 are for TensorFlow: it
 * takes no numbers but those of its values. */

/* Appends to `out` the wire bytes of the message `d` that `text` spells. `file_name` is for errors; NULL:
 * "<text>". A field that is absent or zero takes no bytes, lists of scalars are packed where they stand
 * together. Errors: INVALID_ARGUMENT with file, line and column; RESOURCE_EXHAUSTED. `out` may then hold a
 * part. */
WEFT_MUST_CHECK weft_status_t *weft_text_to_binary(const ProtobufCMessageDescriptor *d, weft_str_t text,
                                                   const char *file_name, weft_strbuf_t *out);
/* The same as a message; free it with weft_proto_free(). */
WEFT_MUST_CHECK weft_status_t *weft_text_parse(const ProtobufCMessageDescriptor *d, weft_str_t text,
                                               const char *file_name, ProtobufCMessage **out);

/* Appends the text of `m`, a line per field; nothing for an empty message. Unknown fields are left out.
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_text_print(const ProtobufCMessage *m, weft_strbuf_t *out);
/* The same from wire bytes. Errors: also INVALID_ARGUMENT if `bytes` are not a `d`. */
WEFT_MUST_CHECK weft_status_t *weft_text_from_binary(const ProtobufCMessageDescriptor *d, weft_str_t bytes,
                                                     weft_strbuf_t *out);

#endif /* WEFT_PROTOS_TEXT_FORMAT_H_ */
