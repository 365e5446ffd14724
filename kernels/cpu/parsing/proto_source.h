/* kernels/cpu/parsing/proto_source.h - the descriptors and fields that a node of DecodeProtoV2 or EncodeProto
 * names in its attributes. */
#ifndef WEFT_KERNELS_CPU_PARSING_PROTO_SOURCE_H_
#define WEFT_KERNELS_CPU_PARSING_PROTO_SOURCE_H_

#include "kernels/cpu/parsing/descriptor.h"
#include "kernels/kernel.h"

typedef struct weft_proto_fields {
  char *owned;                     /* the set, if it was read from a file; else NULL */
  weft_descriptor_t message;       /* lends its texts from the set */
  weft_descriptor_field_t *fields; /* owned; n of them, in the order of the attribute field_names */
  int *order;                      /* owned; their indices by ascending number */
  int n;
} weft_proto_fields_t;

/* From descriptor_source ("local://", "bytes://..." or a file's name), message_type and field_names;
 * `takes_extensions`: a name may be an extension's full name. The caller deinitialises *out, whatever
 * happens. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_proto_fields_init(weft_proto_fields_t *out,
                                                      const weft_kernel_setup_t *setup,
                                                      bool takes_extensions);
void weft_proto_fields_deinit(weft_proto_fields_t *p);

#endif /* WEFT_KERNELS_CPU_PARSING_PROTO_SOURCE_H_ */
