/* protos/wire.h - the protobuf wire format, read and written in place.
 *
 * Generated code copies every string and allocates every submessage. Where that
 * is too slow (graphs of a million nodes, tensors, the messages of every step)
 * we walk the bytes ourselves. The reader is a cursor over borrowed bytes: it
 * copies nothing, allocates nothing, never looks past the end, and refuses what
 * TensorFlow's parser refuses: truncated values, varints of more than ten bytes,
 * field number 0, wire types 6 and 7, groups that do not match or nest too deep.
 *
 *   weft_wire_reader_t r = weft_wire_reader(bytes);
 *   weft_wire_field_t f;
 *   while (weft_wire_next(&r, &f)) {
 *     switch (f.tag) {
 *       case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): name = f.bytes; break;
 *       case WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT): version = (int32_t)f.value; break;
 *       default: break;        // unknown fields are skipped by not looking at them
 *     }
 *   }
 *   if (r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "...");
 *
 * A known field with the wrong wire type falls into `default`, as protobuf wants.
 *
 * The writer appends to a weft_strbuf_t, which remembers a failed allocation, so
 * one check at the end is enough. put_x leaves out the default value, as proto3
 * does for plain fields; add_x always writes, for repeated fields and oneofs.
 * A nested message is written between begin and end; where the message is large
 * and its size is known, write weft_wire_add_header() and then its fields.
 */
#ifndef WEFT_PROTOS_WIRE_H_
#define WEFT_PROTOS_WIRE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

enum {
  WEFT_WIRE_VARINT = 0,
  WEFT_WIRE_FIXED64 = 1,
  WEFT_WIRE_BYTES = 2, /* strings, bytes, messages, packed lists, map entries */
  WEFT_WIRE_GROUP = 3, /* `bytes` is what lies between the start and its end */
  WEFT_WIRE_END_GROUP = 4,
  WEFT_WIRE_FIXED32 = 5,
  WEFT_WIRE_MAX_GROUP_DEPTH = 100, /* protobuf's own recursion limit; for messages, too */
  WEFT_WIRE_MAX_VARINT = 10,       /* bytes of the longest varint */
};
#define WEFT_WIRE_TAG(number, type) ((uint32_t)(number) << 3 | (uint32_t)(type))

/* Confined. Copy it freely: it is a pair of pointers. */
typedef struct weft_wire_reader {
  const uint8_t *p, *end; /* borrowed; what is still to be read */
  bool failed;            /* the bytes are not a message; p stays where the bad field began */
} weft_wire_reader_t;

typedef struct weft_wire_field {
  uint32_t tag;     /* WEFT_WIRE_TAG(number, type) */
  uint64_t value;   /* of a varint or a fixed field, raw */
  weft_str_t bytes; /* of a length-delimited field or a group; lent as long as the message's bytes */
} weft_wire_field_t;

static inline weft_wire_reader_t weft_wire_reader(weft_str_t bytes) {
  const uint8_t *p = (const uint8_t *)bytes.data;
  return (weft_wire_reader_t){p, bytes.length == 0 ? p : p + bytes.length, false};
}
static inline uint32_t weft_wire_number(const weft_wire_field_t *f) { return f->tag >> 3; }
static inline uint32_t weft_wire_type(const weft_wire_field_t *f) { return f->tag & 7; }
/* What is left, as a view. */
static inline weft_str_t weft_wire_rest(const weft_wire_reader_t *r) {
  return weft_str_of((const char *)r->p, (size_t)(r->end - r->p));
}

/* The slow ends of the functions below; not for others. */
bool weft_wire_next_slow(weft_wire_reader_t *r, weft_wire_field_t *f);
const uint8_t *weft_wire_get_varint_slow(const uint8_t *p, const uint8_t *end, uint64_t *out);

/* Reads one varint at `p`; returns what follows it, or NULL if it is cut off or longer than ten bytes. */
static inline const uint8_t *weft_wire_get_varint(const uint8_t *p, const uint8_t *end, uint64_t *out) {
  if (p < end && *p < 0x80) {
    *out = *p;
    return p + 1;
  }
  return weft_wire_get_varint_slow(p, end, out);
}

/* Reads the next field. False at the end of the message and on bad bytes (r->failed). */
static inline bool weft_wire_next(weft_wire_reader_t *r, weft_wire_field_t *f) {
  /* Nearly every field of a graph is a short string, a short message or a small number. */
  const uint8_t *p = r->p;
  if (r->end - p >= 2 && p[0] >= 8 && p[0] < 0x80 && p[1] < 0x80) {
    if ((p[0] & 7) == WEFT_WIRE_BYTES && (size_t)(r->end - p) - 2 >= p[1]) {
      f->tag = p[0];
      f->bytes = weft_str_of((const char *)p + 2, p[1]);
      r->p = p + 2 + p[1];
      return true;
    }
    if ((p[0] & 7) == WEFT_WIRE_VARINT) {
      f->tag = p[0];
      f->value = p[1];
      r->p = p + 2;
      return true;
    }
  }
  return weft_wire_next_slow(r, f);
}

/* True if the whole message is well formed, its submessages not looked into. */
bool weft_wire_is_message(weft_str_t bytes);

static inline uint32_t weft_wire_load32(const void *p) {
  const uint8_t *b = p;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t weft_wire_load64(const void *p) {
  return weft_wire_load32(p) | (uint64_t)weft_wire_load32((const uint8_t *)p + 4) << 32;
}
static inline float weft_wire_float(uint64_t value) {
  uint32_t bits = (uint32_t)value;
  float f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}
static inline double weft_wire_double(uint64_t value) {
  double d;
  memcpy(&d, &value, sizeof(d));
  return d;
}
/* int32 and enum fields travel as sign-extended 64 bits; these cut them as protobuf does. */
static inline int32_t weft_wire_i32(uint64_t value) { return (int32_t)(uint32_t)value; }
static inline int64_t weft_wire_i64(uint64_t value) { return (int64_t)value; }

/* The values that one occurrence of a repeated scalar field brings: many when it
 * is packed, one when not. Readers must take both. For f.tag == TAG(n, BYTES) or
 * TAG(n, type):
 *   weft_wire_values_t v = weft_wire_values(&f, WEFT_WIRE_VARINT);
 *   while (weft_wire_next_value(&v, &x)) ...
 *   if (v.failed) ...
 */
typedef struct weft_wire_values {
  const uint8_t *p, *end;
  uint32_t type;   /* of one value: VARINT, FIXED32, FIXED64 */
  uint64_t single; /* the unpacked value */
  bool has_single, failed;
} weft_wire_values_t;

static inline weft_wire_values_t weft_wire_values(const weft_wire_field_t *f, uint32_t type) {
  weft_wire_values_t v = {NULL, NULL, type, 0, false, false};
  if (weft_wire_type(f) == WEFT_WIRE_BYTES) {
    v.p = (const uint8_t *)f->bytes.data;
    v.end = v.p + f->bytes.length;
  } else if (weft_wire_type(f) == type) {
    v.single = f->value;
    v.has_single = true;
  } /* any other type is an unknown field: no values */
  return v;
}
static inline bool weft_wire_next_value(weft_wire_values_t *v, uint64_t *out) {
  if (v->p == v->end) {
    bool has = v->has_single;
    v->has_single = false;
    if (has) *out = v->single;
    return has;
  }
  size_t left = (size_t)(v->end - v->p), width = 0;
  const uint8_t *next = NULL;
  if (v->type == WEFT_WIRE_VARINT) {
    next = weft_wire_get_varint(v->p, v->end, out);
  } else {
    width = v->type == WEFT_WIRE_FIXED32 ? 4 : 8;
    if (left >= width) {
      *out = width == 4 ? weft_wire_load32(v->p) : weft_wire_load64(v->p);
      next = v->p + width;
    }
  }
  v->failed = next == NULL;
  v->p = next == NULL ? v->end : next;
  return next != NULL;
}
/* How many values will come, for allocating once; the bytes may still be bad. */
size_t weft_wire_count_values(const weft_wire_values_t *v);

/* proto3 wants its `string` fields to be UTF-8 (no surrogates, no overlong forms, up to U+10FFFF). */
bool weft_wire_is_utf8(weft_str_t text);

/* ---- writing ---- */

static inline size_t weft_wire_varint_size(uint64_t value) {
  return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}
static inline size_t weft_wire_tag_size(uint32_t number) {
  return weft_wire_varint_size((uint64_t)number << 3);
}
/* A whole field, tag included. bytes: `length` of a string or a nested message, or of a packed list. */
static inline size_t weft_wire_size_varint(uint32_t number, uint64_t value) {
  return weft_wire_tag_size(number) + weft_wire_varint_size(value);
}
static inline size_t weft_wire_size_bytes(uint32_t number, size_t length) {
  return weft_wire_tag_size(number) + weft_wire_varint_size(length) + length;
}

/* Writes at `to` (up to ten bytes) and returns what follows. */
static inline uint8_t *weft_wire_store_varint(uint8_t *to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *to++ = (uint8_t)value;
  return to;
}
static inline uint8_t *weft_wire_store32(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; i++) *to++ = (uint8_t)(value >> (8 * i));
  return to;
}
static inline uint8_t *weft_wire_store64(uint8_t *to, uint64_t value) {
  return weft_wire_store32(weft_wire_store32(to, (uint32_t)value), (uint32_t)(value >> 32));
}
static inline uint64_t weft_wire_float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}
static inline uint64_t weft_wire_double_bits(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof(bits));
  return bits;
}

/* Room for `n` more bytes, or NULL. With weft_wire_advance it brackets direct writes. */
static inline uint8_t *weft_wire_room(weft_strbuf_t *b, size_t n) {
  if (!b->failed && b->capacity - b->length > n)
    return (uint8_t *)b->data + b->length; /* keeps a byte for '\0' */
  return (uint8_t *)weft_strbuf_reserve(b, n);
}
static inline void weft_wire_advance(weft_strbuf_t *b, const uint8_t *to) {
  b->length = (size_t)(to - (const uint8_t *)b->data);
  b->data[b->length] = '\0';
}

static inline void weft_wire_add_raw_varint(weft_strbuf_t *b,
                                            uint64_t value) { /* no tag: inside packed lists */
  uint8_t *to = weft_wire_room(b, WEFT_WIRE_MAX_VARINT);
  if (to != NULL) weft_wire_advance(b, weft_wire_store_varint(to, value));
}
static inline void weft_wire_add_varint(weft_strbuf_t *b, uint32_t number, uint64_t value) {
  uint8_t *to = weft_wire_room(b, (size_t)2 * WEFT_WIRE_MAX_VARINT);
  if (to == NULL) return;
  to = weft_wire_store_varint(to, WEFT_WIRE_TAG(number, WEFT_WIRE_VARINT));
  weft_wire_advance(b, weft_wire_store_varint(to, value));
}
static inline void weft_wire_add_fixed32(weft_strbuf_t *b, uint32_t number, uint32_t value) {
  uint8_t *to = weft_wire_room(b, WEFT_WIRE_MAX_VARINT + 4);
  if (to == NULL) return;
  to = weft_wire_store_varint(to, WEFT_WIRE_TAG(number, WEFT_WIRE_FIXED32));
  weft_wire_advance(b, weft_wire_store32(to, value));
}
static inline void weft_wire_add_fixed64(weft_strbuf_t *b, uint32_t number, uint64_t value) {
  uint8_t *to = weft_wire_room(b, WEFT_WIRE_MAX_VARINT + 8);
  if (to == NULL) return;
  to = weft_wire_store_varint(to, WEFT_WIRE_TAG(number, WEFT_WIRE_FIXED64));
  weft_wire_advance(b, weft_wire_store64(to, value));
}
/* Tag and length; `length` bytes must follow, in `b` or sent behind it from where they lie. */
static inline void weft_wire_add_header(weft_strbuf_t *b, uint32_t number, size_t length) {
  uint8_t *to = weft_wire_room(b, (size_t)2 * WEFT_WIRE_MAX_VARINT);
  if (to == NULL) return;
  to = weft_wire_store_varint(to, WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES));
  weft_wire_advance(b, weft_wire_store_varint(to, length));
}
/* A string, bytes, or a message that lies ready. */
static inline void weft_wire_add_bytes(weft_strbuf_t *b, uint32_t number, weft_str_t bytes) {
  weft_wire_add_header(b, number, bytes.length);
  weft_strbuf_append(b, bytes);
}

static inline void weft_wire_put_varint(weft_strbuf_t *b, uint32_t number, uint64_t value) {
  if (value != 0) weft_wire_add_varint(b, number, value);
}
static inline void weft_wire_put_i64(weft_strbuf_t *b, uint32_t number,
                                     int64_t value) { /* int32, int64, enum */
  weft_wire_put_varint(b, number, (uint64_t)value);
}
static inline void weft_wire_put_bool(weft_strbuf_t *b, uint32_t number, bool value) {
  weft_wire_put_varint(b, number, value ? 1 : 0);
}
static inline void weft_wire_put_float(weft_strbuf_t *b, uint32_t number, float value) {
  if (weft_wire_float_bits(value) != 0)
    weft_wire_add_fixed32(b, number, (uint32_t)weft_wire_float_bits(value));
}
static inline void weft_wire_put_double(weft_strbuf_t *b, uint32_t number, double value) {
  if (weft_wire_double_bits(value) != 0) weft_wire_add_fixed64(b, number, weft_wire_double_bits(value));
}
static inline void weft_wire_put_bytes(weft_strbuf_t *b, uint32_t number, weft_str_t bytes) {
  if (bytes.length > 0) weft_wire_add_bytes(b, number, bytes);
}
static inline void weft_wire_put_text(weft_strbuf_t *b, uint32_t number, const char *text) { /* NULL is "" */
  weft_wire_put_bytes(b, number, weft_str(text));
}

/* A nested message, or a packed list, of unknown size:
 *   size_t mark = weft_wire_begin(b, 5); ...its fields...; weft_wire_end(b, mark);
 * One byte is kept for the length; a message of 128 bytes and more is moved up
 * once when it ends, so bytes are moved at most once per level of nesting. */
size_t weft_wire_begin(weft_strbuf_t *b, uint32_t number);
void weft_wire_end(weft_strbuf_t *b, size_t mark);

#endif /* WEFT_PROTOS_WIRE_H_ */
