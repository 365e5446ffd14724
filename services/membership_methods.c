/* services/membership_methods.c - the methods of weft.MembershipService. */
#include "services/membership_methods.h"

const char *const weft_store_paths[WEFT_STORE_NUM_OPS] = {
    [WEFT_STORE_SET] = WEFT_MEMBERSHIP_METHOD("Set"),
    [WEFT_STORE_GET] = WEFT_MEMBERSHIP_METHOD("Get"),
    [WEFT_STORE_ADD] = WEFT_MEMBERSHIP_METHOD("Add"),
    [WEFT_STORE_COMPARE_SET] = WEFT_MEMBERSHIP_METHOD("CompareSet"),
    [WEFT_STORE_DELETE] = WEFT_MEMBERSHIP_METHOD("Delete"),
    [WEFT_STORE_BARRIER] = WEFT_MEMBERSHIP_METHOD("Barrier"),
};
