/* tests/kernels/table_check.h - whether tables of kernels and the op table agree.
 *
 * Found are: a kernel without a record of its op; a row for a dtype that the op does not allow; the same op
 * twice for a dtype; a row without a compute function or with two; an attribute that prepare reads and the
 * record lacks or has with another kind. For the last, each row's prepare runs on nodes made up from the
 * record, once per value of each attribute that has few. Compute reads no attribute by name: what it needs,
 * prepare has read (kernels/attrs.h).
 */
#ifndef WEFT_TESTS_KERNELS_TABLE_CHECK_H_
#define WEFT_TESTS_KERNELS_TABLE_CHECK_H_

#include "tests/kernels/harness.h"

/* Writes one line to `faults` for each fault of the table; returns how many. */
int weft_table_check(const weft_kernel_table_t *table, weft_device_t *device, weft_strbuf_t *faults);

#endif /* WEFT_TESTS_KERNELS_TABLE_CHECK_H_ */
