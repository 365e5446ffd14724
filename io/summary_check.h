/* io/summary_check.h - summaries that come as bytes: are they what they say, all the way down? */
#ifndef WEFT_IO_SUMMARY_CHECK_H_
#define WEFT_IO_SUMMARY_CHECK_H_

#include "base/str.h"

/* Would protobuf parse `bytes` as a Summary? Looks into every message that Summary can hold: well formed,
 * packed lists of whole numbers of values, text in UTF-8, nested 100 deep at most. Unknown fields are fine.
 */
bool weft_summary_is_valid(weft_str_t bytes);
/* Is it a valid Summary of one value or more, each with a tag and something under it, and of nothing else?
 * Texts that are not meant to be one do not read so. */
bool weft_summary_has_values(weft_str_t bytes);
/* The fields of a SummaryMetadata in front of the first that is not valid. */
weft_str_t weft_summary_metadata_prefix(weft_str_t bytes);

#endif /* WEFT_IO_SUMMARY_CHECK_H_ */
