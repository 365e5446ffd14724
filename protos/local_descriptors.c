/* protos/local_descriptors.c - the descriptors, as bytes that the build makes. */
#include "protos/local_descriptors.h"

static const unsigned char bytes[] = {
#include "protos/local_descriptors.inc"
};

weft_str_t weft_local_descriptors(void) { return weft_str_of((const char *)bytes, sizeof bytes); }
