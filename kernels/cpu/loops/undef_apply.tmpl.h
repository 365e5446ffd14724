/* kernels/cpu/loops/undef_apply.tmpl.h - takes back what map_apply.tmpl.h defined. */
#undef MAP_APPLY
#undef IS_NEGATIVE
#undef IS_MINUS_ONE
#undef MAP_OUT
#undef MAP_STORE
#undef MAP_COMP
