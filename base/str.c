/* base/str.c - views and builders. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

bool weft_str_starts_with(weft_str_t s, const char *prefix) {
  size_t n = strlen(prefix);
  return s.length >= n && memcmp(s.data, prefix, n) == 0;
}

bool weft_str_ends_with(weft_str_t s, const char *suffix) {
  size_t n = strlen(suffix);
  return s.length >= n && memcmp(s.data + s.length - n, suffix, n) == 0;
}

int weft_str_compare(weft_str_t a, weft_str_t b) {
  size_t n = a.length < b.length ? a.length : b.length;
  int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
  if (c != 0) return c;
  return a.length < b.length ? -1 : a.length > b.length;
}

ptrdiff_t weft_str_find(weft_str_t s, char c) {
  const char *p = s.length == 0 ? NULL : memchr(s.data, c, s.length);
  return p == NULL ? -1 : p - s.data;
}

ptrdiff_t weft_str_rfind(weft_str_t s, char c) {
  for (size_t i = s.length; i > 0; i--) {
    if (s.data[i - 1] == c) return (ptrdiff_t)i - 1;
  }
  return -1;
}

bool weft_str_to_u64(weft_str_t s, uint64_t *out) {
  enum { FITS = 19 }; /* digits that are never too large */
  uint64_t value = 0;
  size_t i = 0;
  if (s.length == 0) return false;
  for (; i < s.length && i < FITS; i++) {
    if (s.data[i] < '0' || s.data[i] > '9') return false;
    value = value * 10 + (uint64_t)(s.data[i] - '0');
  }
  for (; i < s.length; i++) {
    if (s.data[i] < '0' || s.data[i] > '9') return false;
    if (__builtin_mul_overflow(value, (uint64_t)10, &value)) return false;
    if (__builtin_add_overflow(value, (uint64_t)(s.data[i] - '0'), &value)) return false;
  }
  *out = value;
  return true;
}

bool weft_str_to_i64(weft_str_t s, int64_t *out) {
  bool negative = s.length > 0 && s.data[0] == '-';
  uint64_t magnitude;
  if (negative) s = weft_str_of(s.data + 1, s.length - 1);
  if (!weft_str_to_u64(s, &magnitude)) return false;
  if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
  *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
  return true;
}

bool weft_str_split(weft_str_t s, char c, weft_str_t *head, weft_str_t *tail) {
  ptrdiff_t at = weft_str_find(s, c);
  if (at < 0) return false;
  *tail = weft_str_of(s.data + at + 1, s.length - (size_t)at - 1);
  *head = weft_str_of(s.data, (size_t)at);
  return true;
}

/* A multiplication per eight bytes: hashing names is most of what reading a large graph costs. */
static uint64_t hash_step(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32); /* the multiply leaves the low bits weak, and tables use the low bits */
}

uint64_t weft_str_hash(weft_str_t s) {
  uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)s.length, word = 0;
  size_t i = 0;
  for (; s.length - i >= sizeof word; i += sizeof word) {
    memcpy(&word, s.data + i, sizeof word);
    h = hash_step(h, word);
  }
  word = 0;
  if (i < s.length) memcpy(&word, s.data + i, s.length - i);
  return hash_step(hash_step(h, word), 0x100000001b3u);
}

/* MurmurHash64A by Austin Appleby (public domain), with TensorFlow's seed. */
uint64_t weft_str_hash64(weft_str_t s) {
  const uint64_t m = 0xc6a4a7935bd1e995u;
  const int shift = 47;
  uint64_t h = 0xDECAFCAFFEu ^ (s.length * m);
  size_t at = 0;
  for (; at + 8 <= s.length; at += 8) {
    uint64_t k = 0;
    for (int i = 0; i < 8; i++) k |= (uint64_t)(uint8_t)s.data[at + (size_t)i] << (8 * i);
    k *= m;
    k ^= k >> shift;
    h = (h ^ (k * m)) * m;
  }
  if (at < s.length) {
    for (size_t i = at; i < s.length; i++) h ^= (uint64_t)(uint8_t)s.data[i] << (8 * (i - at));
    h *= m;
  }
  h ^= h >> shift;
  h *= m;
  return h ^ (h >> shift);
}

void weft_strbuf_deinit(weft_strbuf_t *b) {
  weft_free(b->data);
  *b = (weft_strbuf_t)WEFT_STRBUF_INIT;
}

char *weft_strbuf_reserve(weft_strbuf_t *b, size_t extra) {
  size_t need;
  if (b->failed || !weft_add_size(b->length, extra, &need) || !weft_add_size(need, 1, &need)) {
    b->failed = true;
    return NULL;
  }
  if (need > b->capacity) {
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < need) capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *data = weft_realloc(b->data, capacity, 1);
    if (data == NULL) {
      b->failed = true;
      return NULL;
    }
    b->data = data;
    b->capacity = capacity;
  }
  return b->data + b->length;
}

void weft_strbuf_append(weft_strbuf_t *b, weft_str_t s) {
  char *to = weft_strbuf_reserve(b, s.length);
  if (to == NULL) return;
  if (s.length > 0) memcpy(to, s.data, s.length);
  b->length += s.length;
  b->data[b->length] = '\0';
}

void weft_strbuf_puts(weft_strbuf_t *b, const char *text) { weft_strbuf_append(b, weft_str(text)); }
void weft_strbuf_putc(weft_strbuf_t *b, char c) { weft_strbuf_append(b, weft_str_of(&c, 1)); }

void weft_strbuf_put_escaped(weft_strbuf_t *b, weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    unsigned char c = (unsigned char)s.data[i];
    switch (c) {
      case '\n': weft_strbuf_puts(b, "\\n"); break;
      case '\r': weft_strbuf_puts(b, "\\r"); break;
      case '\t': weft_strbuf_puts(b, "\\t"); break;
      case '"': weft_strbuf_puts(b, "\\\""); break;
      case '\'': weft_strbuf_puts(b, "\\'"); break;
      case '\\': weft_strbuf_puts(b, "\\\\"); break;
      default:
        if (c < 0x20 || c >= 0x7f) {
          weft_strbuf_printf(b, "\\%03o", c);
        } else {
          weft_strbuf_putc(b, (char)c);
        }
    }
  }
}

void weft_strbuf_printf(weft_strbuf_t *b, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *to = n < 0 ? NULL : weft_strbuf_reserve(b, (size_t)n);
  if (to != NULL) {
    vsnprintf(to, (size_t)n + 1, fmt, again);
    b->length += (size_t)n;
  }
  va_end(again);
}

weft_status_t *weft_strbuf_finish(weft_strbuf_t *b, char **out, size_t *out_length) {
  if (weft_strbuf_reserve(b, 0) == NULL) {
    weft_strbuf_deinit(b);
    return WEFT_NO_MEMORY("building a text");
  }
  b->data[b->length] = '\0';
  *out = b->data;
  if (out_length != NULL) *out_length = b->length;
  *b = (weft_strbuf_t)WEFT_STRBUF_INIT;
  return NULL;
}
