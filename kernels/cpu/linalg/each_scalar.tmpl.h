/* kernels/cpu/linalg/each_scalar.tmpl.h - includes EACH_FILE once for each scalar type of linear algebra,
 * behind dense.tmpl.h, the functions that all of them are made of (one_scalar.tmpl.h).
 *
 *   FN(name)      name_f32, name_f64, name_c64, name_c128
 *   SCALAR, REAL  the type, and that of its absolute value; COMPLEX, DTYPE, IS_COMPLEX
 *   CONJ, RE, IM, ABS, ABS2, NORM1   of a SCALAR
 *   REAL_MIN, REAL_EPS, REAL_MAX     the smallest normal number, the distance from 1 to the next, the largest
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <tgmath.h>

#include "kernels/cpu/linalg/linalg.h"
#include "kernels/cpu/math/gemm.h"

#define FN_PASTE(name, suffix) name##suffix
#define FN_OF(name, suffix) FN_PASTE(name, suffix)
#define FN(name) FN_OF(name, SUFFIX)

#define IS_COMPLEX 0
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) ((REAL)0)
#define ABS(x) fabs(x)
#define ABS2(x) ((x) * (x))
#define NORM1(x) fabs(x)
#define MAKE(re, im) ((SCALAR)(re))

#define SCALAR float
#define REAL float
#define COMPLEX float complex
#define SUFFIX _f32
#define DTYPE WEFT_F32
#define REAL_MIN FLT_MIN
#define REAL_EPS FLT_EPSILON
#define REAL_MAX FLT_MAX
#include "kernels/cpu/linalg/one_scalar.tmpl.h"

#define SCALAR double
#define REAL double
#define COMPLEX double complex
#define SUFFIX _f64
#define DTYPE WEFT_F64
#define REAL_MIN DBL_MIN
#define REAL_EPS DBL_EPSILON
#define REAL_MAX DBL_MAX
#include "kernels/cpu/linalg/one_scalar.tmpl.h"

#undef IS_COMPLEX
#undef CONJ
#undef RE
#undef IM
#undef ABS
#undef ABS2
#undef NORM1
#undef MAKE
#define IS_COMPLEX 1
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define ABS(x) fabs(x)
#define ABS2(x) (creal(x) * creal(x) + cimag(x) * cimag(x))
#define NORM1(x) (fabs(creal(x)) + fabs(cimag(x)))

#define SCALAR float complex
#define REAL float
#define COMPLEX float complex
#define SUFFIX _c64
#define DTYPE WEFT_C64
#define REAL_MIN FLT_MIN
#define REAL_EPS FLT_EPSILON
#define REAL_MAX FLT_MAX
#define MAKE(re, im) __builtin_complex((float)(re), (float)(im))
#include "kernels/cpu/linalg/one_scalar.tmpl.h"
#undef MAKE

#define SCALAR double complex
#define REAL double
#define COMPLEX double complex
#define SUFFIX _c128
#define DTYPE WEFT_C128
#define REAL_MIN DBL_MIN
#define REAL_EPS DBL_EPSILON
#define REAL_MAX DBL_MAX
#define MAKE(re, im) __builtin_complex((double)(re), (double)(im))
#include "kernels/cpu/linalg/one_scalar.tmpl.h"
#undef MAKE
#undef IS_COMPLEX
#undef CONJ
#undef RE
#undef IM
#undef ABS
#undef ABS2
#undef NORM1
#undef EACH_FILE
