/* services/membership_methods.h - the methods of weft.MembershipService. */
#ifndef WEFT_SERVICES_MEMBERSHIP_METHODS_H_
#define WEFT_SERVICES_MEMBERSHIP_METHODS_H_

#include "membership/store.h"

#define WEFT_MEMBERSHIP_METHOD(name) "/weft.MembershipService/" name
/* Of each operation on keys and values; each takes a StoreRequest. WEFT_STORE_METHOD(name, op) is the user's.
 */
#define WEFT_STORE_METHODS                                \
  WEFT_STORE_METHOD("Set", WEFT_STORE_SET)                \
  WEFT_STORE_METHOD("Get", WEFT_STORE_GET)                \
  WEFT_STORE_METHOD("Add", WEFT_STORE_ADD)                \
  WEFT_STORE_METHOD("CompareSet", WEFT_STORE_COMPARE_SET) \
  WEFT_STORE_METHOD("Delete", WEFT_STORE_DELETE)          \
  WEFT_STORE_METHOD("Barrier", WEFT_STORE_BARRIER)

#endif /* WEFT_SERVICES_MEMBERSHIP_METHODS_H_ */
