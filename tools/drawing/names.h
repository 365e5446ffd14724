/* tools/drawing/names.h - what the name of a node says: which copy it is of, what it is a gradient of,
 * whether a strategy has added it. */
#ifndef WEFT_TOOLS_DRAWING_NAMES_H_
#define WEFT_TOOLS_DRAWING_NAMES_H_

#include "base/str.h"
#include "tools/drawing/step.h"

/* The name without what tells copies apart: "dense/MatMul" of "replica_1/dense/MatMul", "dense/kernel" of
 * "dense/kernel/replica_1". */
weft_str_t weft_drawn_plain_name(weft_str_t name);
/* Has `plain` the scope of gradients? Then *out_before and *out_behind are what stands around it: "train" and
 * "dense/MatMul/MatMul_1" of "train/gradient_tape/dense/MatMul/MatMul_1". */
bool weft_drawn_is_gradient(weft_str_t plain, weft_str_t *out_before, weft_str_t *out_behind);
/* What a strategy has added, and the name behind its scope; WEFT_DRAWN_USER: it has not. */
weft_drawn_kind_t weft_drawn_kind_of(weft_str_t plain, weft_str_t *out_behind);
/* "a/b" of "a/b/c"; "" of "a". */
weft_str_t weft_drawn_parent(weft_str_t path);
/* "c" of "a/b/c". */
weft_str_t weft_drawn_last(weft_str_t path);
/* Is `path` equal to `scope` or below it? Everything is below "". */
bool weft_drawn_is_below(weft_str_t path, weft_str_t scope);
/* "block" of "block_3" and of "block_3_1": without the numbers at its end. */
weft_str_t weft_drawn_stem(weft_str_t name);

#endif /* WEFT_TOOLS_DRAWING_NAMES_H_ */
