/* kernels/cpu/math/reduce_entry.tmpl.h - one line of a table of reductions by dtype. */
[ELEM_ID] = &WEFT_CAT(RED_STEM, SUFFIX),
