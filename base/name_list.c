#include "base/name_list.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weft_name_list_add(weft_name_list_t *l, const char *fmt, ...) {
  if (l->n++ >= WEFT_LISTED_NAMES) return;
  if (l->n > 1) {
    memcpy(l->text + l->length, ", ", 2);
    l->length += 2;
  }
  va_list ap;
  va_start(ap, fmt);
  const int n = vsnprintf(l->text + l->length, WEFT_LISTED_BYTES + 1, fmt, ap);
  va_end(ap);
  const bool is_long = n < 0 || n > WEFT_LISTED_BYTES;
  if (n > 0) l->length += is_long ? WEFT_LISTED_BYTES : (size_t)n;
  if (is_long) {
    for (int i = 0; i < 3 && ((unsigned char)l->text[l->length - 1] & 0xc0) == 0x80; i++) l->length--;
    if ((unsigned char)l->text[l->length - 1] >= 0xc0) l->length--; /* no half character of UTF-8 */
    memcpy(l->text + l->length, "...", 3);
    l->length += 3;
  }
}

const char *weft_name_list_text(weft_name_list_t *l) {
  char *end = l->text + l->length;
  *end = '\0';
  if (l->n > WEFT_LISTED_NAMES) {
    snprintf(end, sizeof l->text - l->length, " and %" PRId64 " more", l->n - WEFT_LISTED_NAMES);
  }
  return l->text;
}
