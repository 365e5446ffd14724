/* protos/local_descriptors.h - the descriptors of the messages in this folder: what DecodeProtoV2 and
 * EncodeProto call local://. */
#ifndef WEFT_PROTOS_LOCAL_DESCRIPTORS_H_
#define WEFT_PROTOS_LOCAL_DESCRIPTORS_H_

#include "base/str.h"

/* A serialized FileDescriptorSet. Constant. */
weft_str_t weft_local_descriptors(void);

#endif /* WEFT_PROTOS_LOCAL_DESCRIPTORS_H_ */
