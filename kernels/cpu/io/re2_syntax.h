/* kernels/cpu/io/re2_syntax.h - whether RE2 would take a pattern that PCRE2 is to match. */
#ifndef WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_
#define WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_

#include "base/status.h"
#include "base/str.h"

/* Refuses what PCRE2 knows and RE2 does not: look-around, back-references, recursion, conditions, atomic
 * groups, possessive quantifiers, verbs, callouts, other escapes, and counts that repeat more than 1000
 * times. What is left can be malformed; PCRE2 says so. Errors: INVALID_ARGUMENT, in RE2's words. Thread-safe.
 */
WEFT_MUST_CHECK weft_status_t *weft_re2_check(weft_str_t pattern);

#endif /* WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_ */
