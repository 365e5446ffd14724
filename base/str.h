/* base/str.h - text that is not ours (a view) and text that we build (a builder). */
#ifndef WEFT_BASE_STR_H_
#define WEFT_BASE_STR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* A borrowed piece of text; may hold any bytes, need not end with '\0'. */
typedef struct weft_str {
  const char *data;
  size_t length;
} weft_str_t;

#define WEFT_STR(literal) ((weft_str_t){("" literal), sizeof(literal) - 1})
#define WEFT_STR_ARGS(s) (int)(s).length, (s).data /* for "%.*s" */

static inline weft_str_t weft_str(const char *text) {
  return (weft_str_t){text, text == NULL ? 0 : strlen(text)};
}
static inline weft_str_t weft_str_of(const char *data, size_t length) { return (weft_str_t){data, length}; }
static inline bool weft_str_eq(weft_str_t a, weft_str_t b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}
static inline bool weft_str_is(weft_str_t a, const char *text) { return weft_str_eq(a, weft_str(text)); }
bool weft_str_starts_with(weft_str_t s, const char *prefix);
bool weft_str_ends_with(weft_str_t s, const char *suffix);
int weft_str_compare(weft_str_t a, weft_str_t b); /* bytewise, shorter first */
/* Index of the first / last `c`, or -1. */
ptrdiff_t weft_str_find(weft_str_t s, char c);
ptrdiff_t weft_str_rfind(weft_str_t s, char c);
/* The whole of `s` as a decimal number; false on anything else, overflow included. */
bool weft_str_to_i64(weft_str_t s, int64_t *out);
bool weft_str_to_u64(weft_str_t s, uint64_t *out);
/* Splits at the first `c`: *head before it, *tail behind it. False if there is none. */
bool weft_str_split(weft_str_t s, char c, weft_str_t *head, weft_str_t *tail);
uint64_t weft_str_hash(
    weft_str_t s); /* the same in every process; not for hostile keys beyond table size limits */
uint64_t weft_str_hash64(weft_str_t s); /* the one that TensorFlow makes numbers of frames and types with */

/* A growing text. Confined. Failure to allocate is remembered: check `failed`
 * (or weft_strbuf_finish) once at the end instead of after every call. */
typedef struct weft_strbuf {
  char *data; /* owned; ends with '\0' when length > 0 */
  size_t length, capacity;
  bool failed;
} weft_strbuf_t;

#define WEFT_STRBUF_INIT \
  { NULL, 0, 0, false }
void weft_strbuf_deinit(weft_strbuf_t *b);
void weft_strbuf_append(weft_strbuf_t *b, weft_str_t s);
void weft_strbuf_puts(weft_strbuf_t *b, const char *text);
void weft_strbuf_putc(weft_strbuf_t *b, char c);
/* As a C string holds it, without quotes: \n, \r, \t, \", \', \\, three octal digits for other bytes that are
 * not printable ASCII. */
void weft_strbuf_put_escaped(weft_strbuf_t *b, weft_str_t s);
void weft_strbuf_printf(weft_strbuf_t *b, const char *fmt, ...) WEFT_PRINTF(2, 3);
/* Makes room for `extra` more bytes and returns where they go (caller adds to length); NULL on failure. */
char *weft_strbuf_reserve(weft_strbuf_t *b, size_t extra);
/* Hands the text over (owned by the caller, '\0'-ended, free with weft_free) and empties the builder.
 * Errors: RESOURCE_EXHAUSTED if any append failed. */
WEFT_MUST_CHECK weft_status_t *weft_strbuf_finish(weft_strbuf_t *b, char **out, size_t *out_length);

#endif /* WEFT_BASE_STR_H_ */
