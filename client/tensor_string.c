/* client/tensor_string.c - TF_TString: elements of string tensors, in the same layout as weft_tstring_t. */
#include "base/alloc.h"
#include "tensor/tstring.h"
#include "tensorflow/c/tf_tstring.h"

_Static_assert(sizeof(TF_TString) == sizeof(weft_tstring_t),
               "string tensors cross the interface without a copy");

static weft_tstring_t *ours(TF_TString *t) { return (weft_tstring_t *)(void *)t; }
static weft_str_t text_of(const TF_TString *t) {
  return weft_tstring_get((const weft_tstring_t *)(const void *)t);
}

void TF_StringInit(TF_TString *t) { *t = (TF_TString){0}; }

void TF_StringCopy(TF_TString *dst, const char *src, size_t size) {
  weft_status_free(
      weft_tstring_set(ours(dst), weft_str_of(src, size))); /* without memory it stays as it was */
}

void TF_StringAssignView(TF_TString *dst, const char *src, size_t size) {
  weft_tstring_clear(ours(dst));
  dst->u.view = (TF_TString_View){size << 2 | TF_TSTR_VIEW, src};
}

const char *TF_StringGetDataPointer(const TF_TString *tstr) { return text_of(tstr).data; }
TF_TString_Type TF_StringGetType(const TF_TString *str) {
  return (TF_TString_Type)(str->u.raw.raw[0] & TF_TSTR_TYPE_MASK);
}
size_t TF_StringGetSize(const TF_TString *tstr) { return text_of(tstr).length; }

size_t TF_StringGetCapacity(const TF_TString *str) {
  switch (TF_StringGetType(str)) {
    case TF_TSTR_SMALL: return TF_TString_SmallCapacity;
    case TF_TSTR_LARGE: return str->u.large.cap;
    default: return 0;
  }
}

void TF_StringDealloc(TF_TString *tstr) {
  if (TF_StringGetType(tstr) == TF_TSTR_LARGE) weft_tstring_clear(ours(tstr));
}
