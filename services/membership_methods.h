/* services/membership_methods.h - the methods of weft.MembershipService. */
#ifndef WEFT_SERVICES_MEMBERSHIP_METHODS_H_
#define WEFT_SERVICES_MEMBERSHIP_METHODS_H_

#include "membership/store.h"

#define WEFT_MEMBERSHIP_METHOD(name) "/weft.MembershipService/" name
/* The path of each operation on keys and values, by weft_store_op_t. Each takes a StoreRequest. */
extern const char *const weft_store_paths[WEFT_STORE_NUM_OPS];

#endif /* WEFT_SERVICES_MEMBERSHIP_METHODS_H_ */
