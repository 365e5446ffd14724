/* kernels/cpu/lookup/table.h - what the kernels of lookup tables share. */
#ifndef WEFT_KERNELS_CPU_LOOKUP_TABLE_H_
#define WEFT_KERNELS_CPU_LOOKUP_TABLE_H_

#include "kernels/state.h"
#include "resources/lookup_table.h"

/* The table behind input 0, by handle or by reference; retained. Errors: as weft_state_in(). */
WEFT_MUST_CHECK weft_status_t *weft_lookup_in(weft_kernel_ctx_t *c, weft_lookup_table_t **out);
void weft_lookup_release(weft_lookup_table_t *t); /* NULL is fine */
/* INVALID_ARGUMENT "Signature mismatch, have: resource, int32-> expected: resource, int64->" unless inputs 1
 * and 2, as far as the node has them, are of the table's key and value types, and output 0 of its value type.
 */
WEFT_MUST_CHECK weft_status_t *weft_lookup_check_types(const weft_kernel_ctx_t *c,
                                                       const weft_lookup_table_t *t);

#endif /* WEFT_KERNELS_CPU_LOOKUP_TABLE_H_ */
