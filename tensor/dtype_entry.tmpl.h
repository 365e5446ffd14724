/* tensor/dtype_entry.tmpl.h - one line of a table of loops by dtype. */
[ELEM_ID] = WEFT_CAT(MAP_STEM, SUFFIX),
