/* kernels/cpu/loops/cast_one.tmpl.h - the loops from one element type (each_dtype.tmpl.h's) to every other.
 */
#ifdef IS_COMPLEX
#define REAL(v) creal(v)
#else
#define REAL(v) (v)
#endif
#define TO uint16_t
#define TO_SUFFIX f16
#define TO_HALF(v) weft_f32_to_f16(v)
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint16_t
#define TO_SUFFIX bf16
#define TO_HALF(v) weft_f32_to_bf16(v)
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO float
#define TO_SUFFIX f32
#define TO_STORE(v) ((float)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO double
#define TO_SUFFIX f64
#define TO_STORE(v) ((double)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO int8_t
#define TO_SUFFIX i8
#define TO_STORE(v) ((int8_t)(int32_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO int16_t
#define TO_SUFFIX i16
#define TO_STORE(v) ((int16_t)(int32_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO int32_t
#define TO_SUFFIX i32
#define TO_STORE(v) ((int32_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO int64_t
#define TO_SUFFIX i64
#define TO_STORE(v) ((int64_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint8_t
#define TO_SUFFIX u8
#define TO_STORE(v) ((uint8_t)(int32_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint16_t
#define TO_SUFFIX u16
#define TO_STORE(v) ((uint16_t)(int32_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint32_t
#define TO_SUFFIX u32
#define TO_STORE(v) ((uint32_t)(int64_t)REAL(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint64_t
#define TO_SUFFIX u64
#if defined(IS_INTEGER) || defined(FROM_BOOL)
#define TO_STORE(v) ((uint64_t)REAL(v))
#else
#define TO_STORE(v) u64_of(REAL(v))
#endif
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO float _Complex
#define TO_SUFFIX c64
#define TO_STORE(v) ((float _Complex)(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO double _Complex
#define TO_SUFFIX c128
#define TO_STORE(v) ((double _Complex)(v))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
#define TO uint8_t
#define TO_SUFFIX bool
#define TO_STORE(v) ((uint8_t)(REAL(v) != 0))
#include "kernels/cpu/loops/cast_loop.tmpl.h"
static weft_cpu_cast_fn *const WEFT_CAT(casts, SUFFIX)[WEFT_DTYPE_COUNT] = {
    [WEFT_F16] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), f16),
    [WEFT_BF16] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), bf16),
    [WEFT_F32] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), f32),
    [WEFT_F64] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), f64),
    [WEFT_I8] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), i8),
    [WEFT_I16] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), i16),
    [WEFT_I32] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), i32),
    [WEFT_I64] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), i64),
    [WEFT_U8] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), u8),
    [WEFT_U16] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), u16),
    [WEFT_U32] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), u32),
    [WEFT_U64] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), u64),
    [WEFT_C64] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), c64),
    [WEFT_C128] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), c128),
    [WEFT_BOOL] = WEFT_CAT(WEFT_CAT(cast, SUFFIX), bool),
};
#undef REAL
