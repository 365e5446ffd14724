/* tensor/undef_dtype.tmpl.h - takes back what each_dtype.tmpl.h defined for one type. */
#undef ELEM
#undef COMP
#undef WRAP
#undef ACC
#undef SUFFIX
#undef ELEM_ID
#undef LOAD
#undef STORE
