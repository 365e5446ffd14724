/* tensor/tstring.c - TF_TString's four layouts. */
#include "tensor/tstring.h"

#include "base/alloc.h"

enum { SMALL, LARGE, OFFSET, VIEW };

weft_str_t weft_tstring_get(const weft_tstring_t *s) {
  switch (s->bytes[0] & 3) {
    case SMALL: return weft_str_of((const char *)s->bytes + 1, s->bytes[0] >> 2);
    case LARGE: return weft_str_of((const char *)(uintptr_t)s->words[2], (size_t)(s->words[0] >> 2));
    case VIEW: return weft_str_of((const char *)(uintptr_t)s->words[1], (size_t)(s->words[0] >> 2));
    default: break;
  }
  uint32_t length = (uint32_t)s->words[0] >> 2, offset = (uint32_t)(s->words[0] >> 32);
  return weft_str_of((const char *)s + offset, length);
}

void weft_tstring_clear(weft_tstring_t *s) {
  if ((s->bytes[0] & 3) == LARGE) weft_free((void *)(uintptr_t)s->words[2]);
  *s = (weft_tstring_t){.words = {0, 0, 0}};
}

weft_status_t *weft_tstring_set(weft_tstring_t *s, weft_str_t text) {
  weft_tstring_t fresh = {.words = {0, 0, 0}};
  if (text.length <= WEFT_TSTRING_SMALL_MAX) {
    fresh.bytes[0] = (uint8_t)(text.length << 2);
    if (text.length > 0) memcpy(fresh.bytes + 1, text.data, text.length);
  } else {
    char *copy = weft_strndup(text.data, text.length);
    if (copy == NULL) return WEFT_NO_MEMORY("a string of %zu bytes", text.length);
    fresh.words[0] = ((uint64_t)text.length << 2) | LARGE;
    fresh.words[1] = text.length;
    fresh.words[2] = (uint64_t)(uintptr_t)copy;
  }
  weft_tstring_clear(s);
  *s = fresh;
  return NULL;
}
