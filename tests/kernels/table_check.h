/* tests/kernels/table_check.h - whether tables of kernels and the op table agree.
 *
 * Found are: a kernel without a record of its op; a row for a dtype that the op does not allow; the same op
 * twice for a dtype; a row without a compute function or with two; an attribute that prepare reads and the
 * record lacks or has with another kind. For the last, each row's prepare runs on nodes made up from the
 * record, once per value of each attribute that has few. What compute reads is found in the text of the
 * sources.
 */
#ifndef WEFT_TESTS_KERNELS_TABLE_CHECK_H_
#define WEFT_TESTS_KERNELS_TABLE_CHECK_H_

#include "tests/kernels/harness.h"

/* Writes one line to `faults` for each fault of the table; returns how many. */
int weft_table_check(const weft_kernel_table_t *table, weft_device_t *device, weft_strbuf_t *faults);

/* The same for the attributes that the text of a source file reads by weft_knode_...(..., "name"): an op that
 * the text names must have each, of that kind; any op at all where the text has no table of kernels. `path`
 * is for the lines. */
int weft_source_check(const char *path, const char *text, weft_strbuf_t *faults);

#endif /* WEFT_TESTS_KERNELS_TABLE_CHECK_H_ */
