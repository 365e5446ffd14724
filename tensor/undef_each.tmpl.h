/* tensor/undef_each.tmpl.h - takes back the choice of types for each_dtype.tmpl.h. */
#undef EACH_HALFS
#undef EACH_FLOATS
#undef EACH_FLOAT
#undef EACH_I32_I64
#undef EACH_I8_I16
#undef EACH_UNSIGNED
#undef EACH_COMPLEX
#undef EACH_BOOL
