/* base/fault.h - for the functions of base/ that get memory: must this one fail? */
#ifndef WEFT_BASE_FAULT_H_
#define WEFT_BASE_FAULT_H_

#include <stdbool.h>

/* Counts an allocation. True if it is the one that weft_fault_arm() (base/alloc.h) has chosen. */
bool weft_fault_strikes(void);

#endif /* WEFT_BASE_FAULT_H_ */
