/* kernels/cpu/linalg/one_scalar.tmpl.h - what each_scalar.tmpl.h includes for one type; ends the names of the
 * type. */
#include "kernels/cpu/linalg/dense.tmpl.h"
#include EACH_FILE
#undef SCALAR
#undef REAL
#undef COMPLEX
#undef SUFFIX
#undef DTYPE
#undef REAL_MIN
#undef REAL_EPS
#undef REAL_MAX
