/* kernels/cpu/io/re2_syntax.h - patterns of RE2 in the syntax of PCRE2. */
#ifndef WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_
#define WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_

#include "base/status.h"
#include "base/str.h"

/* Appends to `out` a pattern that means to PCRE2, compiled with PCRE2_UTF, PCRE2_ALT_CIRCUMFLEX and
 * PCRE2_DOLLAR_ENDONLY for lines that end with \n, what `pattern` means to RE2 by default: with the same
 * capturing groups, without their names. The scripts and the properties of characters are those of PCRE2's
 * Unicode.
 *
 * Errors: INVALID_ARGUMENT, in RE2's words, for what RE2 refuses; RESOURCE_EXHAUSTED is left in out->failed.
 * Thread-safe.
 */
WEFT_MUST_CHECK weft_status_t *weft_re2_translate(weft_str_t pattern, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_IO_RE2_SYNTAX_H_ */
