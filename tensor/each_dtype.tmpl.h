/* tensor/each_dtype.tmpl.h - includes EACH_FILE once per element type, with these names defined:
 *   ELEM        how an element is stored            COMP   how it is computed with (half and bfloat16: float)
 *   WRAP        like COMP, but unsigned for integers, so that overflow wraps and is defined
 *   LOAD(v)     ELEM to COMP                        STORE(v)  COMP or WRAP to ELEM
 *   SUFFIX      f32, i64, ...                       ELEM_ID   WEFT_F32, WEFT_I64, ...
 *   ACC         what long sums of it are kept in
 *   IS_INTEGER, IS_UNSIGNED, IS_COMPLEX   defined for such types only
 * Which types: EACH_HALFS (half, bfloat16), EACH_FLOATS (float, double), EACH_FLOAT (float), EACH_I32_I64,
 * EACH_I8_I16, EACH_UNSIGNED, EACH_COMPLEX, EACH_BOOL, each defined as 1 where wanted. EACH_FILE is
 * undefined at the end; undef_each.tmpl.h undefines the choices.
 */
#ifdef EACH_HALFS
#define ELEM uint16_t
#define COMP float
#define WRAP float
#define ACC float
#define SUFFIX f16
#define ELEM_ID WEFT_F16
#define LOAD(v) weft_f16_to_f32(v)
#define STORE(v) weft_f32_to_f16((float)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM uint16_t
#define COMP float
#define WRAP float
#define ACC float
#define SUFFIX bf16
#define ELEM_ID WEFT_BF16
#define LOAD(v) weft_bf16_to_f32(v)
#define STORE(v) weft_f32_to_bf16((float)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#endif
#if defined(EACH_FLOATS) || defined(EACH_FLOAT)
#define ELEM float
#define COMP float
#define WRAP float
#define ACC double
#define SUFFIX f32
#define ELEM_ID WEFT_F32
#define LOAD(v) (v)
#define STORE(v) ((float)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#endif
#ifdef EACH_FLOATS
#define ELEM double
#define COMP double
#define WRAP double
#define ACC double
#define SUFFIX f64
#define ELEM_ID WEFT_F64
#define LOAD(v) (v)
#define STORE(v) (v)
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#endif
#ifdef EACH_I32_I64
#define IS_INTEGER
#define ELEM int32_t
#define COMP int32_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX i32
#define ELEM_ID WEFT_I32
#define LOAD(v) (v)
#define STORE(v) ((int32_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM int64_t
#define COMP int64_t
#define WRAP uint64_t
#define ACC uint64_t
#define SUFFIX i64
#define ELEM_ID WEFT_I64
#define LOAD(v) (v)
#define STORE(v) ((int64_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#undef IS_INTEGER
#endif
#ifdef EACH_I8_I16
#define IS_INTEGER
#define ELEM int8_t
#define COMP int8_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX i8
#define ELEM_ID WEFT_I8
#define LOAD(v) (v)
#define STORE(v) ((int8_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM int16_t
#define COMP int16_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX i16
#define ELEM_ID WEFT_I16
#define LOAD(v) (v)
#define STORE(v) ((int16_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#undef IS_INTEGER
#endif
#ifdef EACH_UNSIGNED
#define IS_INTEGER
#define IS_UNSIGNED
#define ELEM uint8_t
#define COMP uint8_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX u8
#define ELEM_ID WEFT_U8
#define LOAD(v) (v)
#define STORE(v) ((uint8_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM uint16_t
#define COMP uint16_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX u16
#define ELEM_ID WEFT_U16
#define LOAD(v) (v)
#define STORE(v) ((uint16_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM uint32_t
#define COMP uint32_t
#define WRAP uint32_t
#define ACC uint64_t
#define SUFFIX u32
#define ELEM_ID WEFT_U32
#define LOAD(v) (v)
#define STORE(v) ((uint32_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM uint64_t
#define COMP uint64_t
#define WRAP uint64_t
#define ACC uint64_t
#define SUFFIX u64
#define ELEM_ID WEFT_U64
#define LOAD(v) (v)
#define STORE(v) ((uint64_t)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#undef IS_UNSIGNED
#undef IS_INTEGER
#endif
#ifdef EACH_COMPLEX
#define IS_COMPLEX
#define ELEM float _Complex
#define COMP float _Complex
#define WRAP float _Complex
#define ACC double _Complex
#define SUFFIX c64
#define ELEM_ID WEFT_C64
#define LOAD(v) (v)
#define STORE(v) ((float _Complex)(v))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#define ELEM double _Complex
#define COMP double _Complex
#define WRAP double _Complex
#define ACC double _Complex
#define SUFFIX c128
#define ELEM_ID WEFT_C128
#define LOAD(v) (v)
#define STORE(v) (v)
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#undef IS_COMPLEX
#endif
#ifdef EACH_BOOL
#define ELEM uint8_t
#define COMP uint8_t
#define WRAP uint8_t
#define ACC uint8_t
#define SUFFIX bool
#define ELEM_ID WEFT_BOOL
#define LOAD(v) ((uint8_t)((v) != 0))
#define STORE(v) ((uint8_t)((v) != 0))
#include EACH_FILE
#include "tensor/undef_dtype.tmpl.h"
#endif
#undef EACH_FILE
