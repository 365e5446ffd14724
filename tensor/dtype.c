/* tensor/dtype.c - facts of each element type, from dtype.def. */
#include "tensor/dtype.h"

#include "tensor/handle.h"
#include "tensor/tstring.h"

typedef struct dtype_info {
  const char *name, *ref_name, *enum_name, *ref_enum_name;
  size_t size;
} dtype_info_t;

static const dtype_info_t infos[WEFT_DTYPE_COUNT] = {
#define WEFT_DTYPE(id, number, text, bytes, ctype) [WEFT_##id] = {text, text "_ref", "", "", bytes},
#include "tensor/dtype.def"
#undef WEFT_DTYPE
};

#define WEFT_DTYPE(id, number, text, bytes, ctype) \
  _Static_assert(sizeof(ctype) == bytes, "the size in dtype.def is wrong for " text);
#include "tensor/dtype.def"
#undef WEFT_DTYPE

/* TensorFlow's enum spells some types otherwise than its names do. */
static const char *const enum_names[WEFT_DTYPE_COUNT][2] = {
    [WEFT_F32] = {"DT_FLOAT", "DT_FLOAT_REF"},         [WEFT_F64] = {"DT_DOUBLE", "DT_DOUBLE_REF"},
    [WEFT_I32] = {"DT_INT32", "DT_INT32_REF"},         [WEFT_U8] = {"DT_UINT8", "DT_UINT8_REF"},
    [WEFT_I16] = {"DT_INT16", "DT_INT16_REF"},         [WEFT_I8] = {"DT_INT8", "DT_INT8_REF"},
    [WEFT_STRING] = {"DT_STRING", "DT_STRING_REF"},    [WEFT_C64] = {"DT_COMPLEX64", "DT_COMPLEX64_REF"},
    [WEFT_I64] = {"DT_INT64", "DT_INT64_REF"},         [WEFT_BOOL] = {"DT_BOOL", "DT_BOOL_REF"},
    [WEFT_QINT8] = {"DT_QINT8", "DT_QINT8_REF"},       [WEFT_QUINT8] = {"DT_QUINT8", "DT_QUINT8_REF"},
    [WEFT_QINT32] = {"DT_QINT32", "DT_QINT32_REF"},    [WEFT_BF16] = {"DT_BFLOAT16", "DT_BFLOAT16_REF"},
    [WEFT_QINT16] = {"DT_QINT16", "DT_QINT16_REF"},    [WEFT_QUINT16] = {"DT_QUINT16", "DT_QUINT16_REF"},
    [WEFT_U16] = {"DT_UINT16", "DT_UINT16_REF"},       [WEFT_C128] = {"DT_COMPLEX128", "DT_COMPLEX128_REF"},
    [WEFT_F16] = {"DT_HALF", "DT_HALF_REF"},           [WEFT_RESOURCE] = {"DT_RESOURCE", "DT_RESOURCE_REF"},
    [WEFT_VARIANT] = {"DT_VARIANT", "DT_VARIANT_REF"}, [WEFT_U32] = {"DT_UINT32", "DT_UINT32_REF"},
    [WEFT_U64] = {"DT_UINT64", "DT_UINT64_REF"},
};

static const dtype_info_t *info(int dtype) {
  int base = dtype > WEFT_REF ? dtype - WEFT_REF : dtype;
  if (base <= 0 || base >= WEFT_DTYPE_COUNT || infos[base].name == NULL) return NULL;
  return &infos[base];
}

bool weft_dtype_is_valid(int dtype) { return info(dtype) != NULL; }
size_t weft_dtype_size(int dtype) { return info(dtype) == NULL ? 0 : info(dtype)->size; }

const char *weft_dtype_name(int dtype) {
  const dtype_info_t *i = info(dtype);
  if (i == NULL) return "invalid";
  return weft_dtype_is_ref(dtype) ? i->ref_name : i->name;
}

const char *weft_dtype_enum_name(int dtype) {
  if (info(dtype) == NULL) return "DT_INVALID";
  return enum_names[weft_dtype_base(dtype)][weft_dtype_is_ref(dtype)];
}

int weft_dtype_from_name(weft_str_t name) {
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    if (infos[d].name == NULL) continue;
    if (weft_str_is(name, infos[d].name) || weft_str_is(name, enum_names[d][0])) return d;
    if (weft_str_is(name, infos[d].ref_name) || weft_str_is(name, enum_names[d][1])) return d + WEFT_REF;
  }
  if (weft_str_is(name, "float32")) return WEFT_F32;
  if (weft_str_is(name, "float64")) return WEFT_F64;
  if (weft_str_is(name, "float16")) return WEFT_F16;
  return WEFT_DTYPE_INVALID;
}

bool weft_dtype_is_plain(int dtype) {
  weft_dtype_t d = weft_dtype_base(dtype);
  return info(dtype) != NULL && d != WEFT_STRING && d != WEFT_RESOURCE && d != WEFT_VARIANT;
}

#define BITS4(a, b, c, d) (WEFT_DTYPE_BIT(a) | WEFT_DTYPE_BIT(b) | WEFT_DTYPE_BIT(c) | WEFT_DTYPE_BIT(d))
static bool in(int dtype, weft_dtype_set_t set) {
  return info(dtype) != NULL && (WEFT_DTYPE_BIT(weft_dtype_base(dtype)) & set) != 0;
}

bool weft_dtype_is_floating(int dtype) { return in(dtype, BITS4(WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64)); }
bool weft_dtype_is_complex(int dtype) {
  return in(dtype, WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128));
}
bool weft_dtype_is_integer(int dtype) {
  return in(dtype,
            BITS4(WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64) | BITS4(WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64));
}
