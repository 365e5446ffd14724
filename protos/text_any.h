/* protos/text_any.h - which types may stand inside a google.protobuf.Any. Only for protos/text_format*.c. */
#ifndef WEFT_PROTOS_TEXT_ANY_H_
#define WEFT_PROTOS_TEXT_ANY_H_

#include <protobuf-c/protobuf-c.h>

#include "base/str.h"

/* The message that a type URL ("type.googleapis.com/tensorflow.AssetFileDef") names; NULL if it is none of
 * those that TensorFlow's files hold. Static. */
const ProtobufCMessageDescriptor *weft_text_any_type(weft_str_t type_url);
bool weft_text_is_any(const ProtobufCMessageDescriptor *d);

#endif /* WEFT_PROTOS_TEXT_ANY_H_ */
