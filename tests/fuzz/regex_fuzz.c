/* tests/fuzz/regex_fuzz.c - patterns and rewrites from outside. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/op_fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("(?P<n>a+)[^b-z]{2,5}?|\\pL\\d*$"),
    WEFT_FUZZ_BYTES("(a|b)*c\\1"),
    WEFT_FUZZ_BYTES("((a*)*)*b"),
    WEFT_FUZZ_BYTES("(?i:x)\\Q.\\E[[:alpha:]]\\x{41}\\C"),
    WEFT_FUZZ_BYTES("\\2-\\1\\0"),
    WEFT_FUZZ_END,
};

static const weft_fuzz_op_t ops[] = {
    {"RegexFullMatch", "", "string[3]:'aaaaaaaaaaaaaaaaaaaaaaaaaaaa','abcABC 12','' $"},
    {"RegexReplace", "", "string[2]:'aaaaaaaaaaaaaaaaaaaaaaaaaaaa','abcABC 12' $ string[]:'<\\1>'"},
    {"RegexReplace", "replace_global=false", "string[2]:'abc','' string[]:'(a)(b)' $"},
    {"RegexFullMatch", "", "$ string[]:'(a|[^b])*'"},
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  enum { LONGEST = 512 }; /* a pattern's machine grows faster than the pattern */
  weft_fuzz_ops(ops, sizeof ops / sizeof ops[0], data, size < LONGEST ? size : LONGEST);
}
