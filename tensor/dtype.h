/* tensor/dtype.h - element types, with TensorFlow's numbers. */
#ifndef WEFT_TENSOR_DTYPE_H_
#define WEFT_TENSOR_DTYPE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "tensor/half.h" /* half and bfloat16 to float and back */

typedef enum weft_dtype {
  WEFT_DTYPE_INVALID = 0,
#define WEFT_DTYPE(id, number, name, bytes, ctype) WEFT_##id = number,
#include "tensor/dtype.def"
#undef WEFT_DTYPE
  WEFT_DTYPE_COUNT,
  WEFT_REF = 100 /* DT_FLOAT_REF = WEFT_F32 + WEFT_REF: an edge that carries a variable, not a value */
} weft_dtype_t;

typedef struct weft_c64 {
  float re, im;
} weft_c64_t;
typedef struct weft_c128 {
  double re, im;
} weft_c128_t;

/* Sets of base types, for attribute constraints and kernel tables. */
typedef uint32_t weft_dtype_set_t;
#define WEFT_DTYPE_BIT(dtype) ((weft_dtype_set_t)1 << (dtype))
_Static_assert(WEFT_DTYPE_COUNT <= 32, "a weft_dtype_set_t has no bit for the last element type");

/* All take base types or ref types; an unknown number gives 0, false or "invalid". */
bool weft_dtype_is_valid(int dtype); /* a known base or ref type */
static inline bool weft_dtype_is_ref(int dtype) { return dtype > WEFT_REF; }
static inline weft_dtype_t weft_dtype_base(int dtype) {
  return (weft_dtype_t)(dtype > WEFT_REF ? dtype - WEFT_REF : dtype);
}
size_t weft_dtype_size(int dtype);      /* bytes of one element */
const char *weft_dtype_name(int dtype); /* "float", "int32", "float_ref": as TensorFlow's messages print it */
const char *weft_dtype_enum_name(int dtype); /* "DT_FLOAT", "DT_FLOAT_REF" */
int weft_dtype_from_name(
    weft_str_t name); /* from either spelling, also "float32", "float64", "float16"; 0 if unknown */
/* True when elements are plain bytes: not string, resource, variant. */
bool weft_dtype_is_plain(int dtype);
bool weft_dtype_is_floating(int dtype); /* half, bfloat16, float, double */
bool weft_dtype_is_complex(int dtype);
bool weft_dtype_is_integer(int dtype); /* signed and unsigned; not quantized, not bool */

/* The name of a loop for one type: WEFT_CAT(add, f32) is add_f32, with both sides expanded first. */
#define WEFT_CAT_(a, b) a##_##b
#define WEFT_CAT(a, b) WEFT_CAT_(a, b)

#endif /* WEFT_TENSOR_DTYPE_H_ */
