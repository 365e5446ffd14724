/* tensorflow/c/tf_tstring.h - the elements of string tensors.
 *
 * 24 bytes; the lowest two bits of the first byte tell which member of the union
 * holds. Sizes are shifted left by two to make room for them. Little-endian.
 */
#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TF_TString_Type {
  TF_TSTR_SMALL = 0x00,  /* up to 22 bytes, in place */
  TF_TSTR_LARGE = 0x01,  /* its own memory, from malloc */
  TF_TSTR_OFFSET = 0x02, /* at a distance from the element itself; not owned */
  TF_TSTR_VIEW = 0x03,   /* somewhere else; not owned */
  TF_TSTR_TYPE_MASK = 0x03
} TF_TString_Type;

typedef struct TF_TString_Large {
  size_t size;
  size_t cap;
  char *ptr;
} TF_TString_Large;

typedef struct TF_TString_Offset {
  uint32_t size;
  uint32_t offset;
  uint32_t count;
} TF_TString_Offset;

typedef struct TF_TString_View {
  size_t size;
  const char *ptr;
} TF_TString_View;

typedef struct TF_TString_Raw {
  uint8_t raw[24];
} TF_TString_Raw;

enum { TF_TString_SmallCapacity = 22 };

typedef struct TF_TString_Small {
  uint8_t size;
  char str[TF_TString_SmallCapacity + 1];
} TF_TString_Small;

typedef struct TF_TString {
  union {
    TF_TString_Small smll;
    TF_TString_Large large;
    TF_TString_Offset offset;
    TF_TString_View view;
    TF_TString_Raw raw;
  } u;
} TF_TString;

/* Makes an empty string of memory that holds none yet. */
TF_CAPI_EXPORT extern void TF_StringInit(TF_TString *t);
/* Makes `dst` a copy of `size` bytes. */
TF_CAPI_EXPORT extern void TF_StringCopy(TF_TString *dst, const char *src, size_t size);
/* Makes `dst` point to bytes that must outlive it. */
TF_CAPI_EXPORT extern void TF_StringAssignView(TF_TString *dst, const char *src, size_t size);
/* Not '\0'-ended for views. */
TF_CAPI_EXPORT extern const char *TF_StringGetDataPointer(const TF_TString *tstr);
TF_CAPI_EXPORT extern TF_TString_Type TF_StringGetType(const TF_TString *str);
TF_CAPI_EXPORT extern size_t TF_StringGetSize(const TF_TString *tstr);
TF_CAPI_EXPORT extern size_t TF_StringGetCapacity(const TF_TString *str);
/* Frees; leaves an empty string. */
TF_CAPI_EXPORT extern void TF_StringDealloc(TF_TString *tstr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_TF_TSTRING_H_ */
