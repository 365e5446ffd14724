/* protos/wire.c - the parts of the wire format that are not worth inlining. */
#include "protos/wire.h"

const uint8_t *weft_wire_get_varint_slow(const uint8_t *p, const uint8_t *end, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; p < end && shift < 7 * WEFT_WIRE_MAX_VARINT; shift += 7) {
    uint8_t byte = *p++;
    value |= (uint64_t)(byte & 0x7f) << shift; /* the tenth byte's high bits fall off, as in protobuf */
    if (byte < 0x80) {
      *out = value;
      return p;
    }
  }
  return NULL;
}

/* A tag: a varint of at most five bytes, field number 1 and up. */
static const uint8_t *get_tag(const uint8_t *p, const uint8_t *end, uint32_t *out) {
  uint64_t value;
  const uint8_t *next = weft_wire_get_varint(p, end, &value);
  if (next == NULL || value > UINT32_MAX || next - p > 5 || value >> 3 == 0) return NULL;
  *out = (uint32_t)value;
  return next;
}

/* The value behind `tag`, or NULL. A group's inside is not parsed here. */
static const uint8_t *get_value(const uint8_t *p, const uint8_t *end, weft_wire_field_t *f) {
  size_t left = (size_t)(end - p);
  switch (f->tag & 7) {
    case WEFT_WIRE_VARINT: return weft_wire_get_varint(p, end, &f->value);
    case WEFT_WIRE_FIXED32:
      if (left < 4) return NULL;
      f->value = weft_wire_load32(p);
      return p + 4;
    case WEFT_WIRE_FIXED64:
      if (left < 8) return NULL;
      f->value = weft_wire_load64(p);
      return p + 8;
    case WEFT_WIRE_BYTES: {
      uint64_t length;
      p = weft_wire_get_varint(p, end, &length);
      if (p == NULL || length > (uint64_t)(end - p)) return NULL;
      f->bytes = weft_str_of((const char *)p, (size_t)length);
      return p + length;
    }
    default: return NULL; /* 6 and 7 do not exist; groups are the caller's */
  }
}

/* Finds the end of the group that `number` opened just before `p`. The open
 * groups are kept in an array, not on the C stack. */
static const uint8_t *get_group(const uint8_t *p, const uint8_t *end, weft_wire_field_t *f) {
  uint32_t open[WEFT_WIRE_MAX_GROUP_DEPTH];
  int depth = 0;
  const uint8_t *start = p;
  open[depth++] = f->tag >> 3;
  for (;;) {
    const uint8_t *before = p;
    weft_wire_field_t inner;
    p = get_tag(p, end, &inner.tag);
    if (p == NULL) return NULL;
    switch (inner.tag & 7) {
      case WEFT_WIRE_GROUP:
        if (depth == WEFT_WIRE_MAX_GROUP_DEPTH) return NULL;
        open[depth++] = inner.tag >> 3;
        break;
      case WEFT_WIRE_END_GROUP:
        if (open[--depth] != inner.tag >> 3) return NULL;
        if (depth == 0) {
          f->bytes = weft_str_of((const char *)start, (size_t)(before - start));
          return p;
        }
        break;
      default:
        p = get_value(p, end, &inner);
        if (p == NULL) return NULL;
    }
  }
}

bool weft_wire_next_slow(weft_wire_reader_t *r, weft_wire_field_t *f) {
  if (r->failed || r->p == r->end) return false;
  const uint8_t *p = get_tag(r->p, r->end, &f->tag);
  if (p != NULL) p = (f->tag & 7) == WEFT_WIRE_GROUP ? get_group(p, r->end, f) : get_value(p, r->end, f);
  if (p == NULL) {
    r->failed = true;
    return false;
  }
  r->p = p;
  return true;
}

bool weft_wire_is_message(weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) continue;
  return !r.failed;
}

size_t weft_wire_count_values(const weft_wire_values_t *v) {
  size_t left = (size_t)(v->end - v->p), n = 0;
  if (left == 0) return v->has_single ? 1 : 0;
  if (v->type == WEFT_WIRE_FIXED32) return left / 4;
  if (v->type == WEFT_WIRE_FIXED64) return left / 8;
  for (const uint8_t *p = v->p; p < v->end; p++) n += *p < 0x80; /* each varint has one last byte */
  return n;
}

bool weft_wire_is_utf8(weft_str_t text) {
  const uint8_t *p = (const uint8_t *)text.data, *end = text.length == 0 ? p : p + text.length;
  while (p < end) {
    uint64_t eight;
    for (; end - p >= 8; p += 8) { /* most texts are ASCII */
      memcpy(&eight, p, sizeof eight);
      if ((eight & UINT64_C(0x8080808080808080)) != 0) break;
    }
    if (p == end) break;
    uint8_t lead = *p++;
    if (lead < 0x80) continue;
    int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - p < more) return false;
    uint32_t code = lead & (0x3fu >> more);
    for (int i = 0; i < more; i++, p++) {
      if ((*p & 0xc0) != 0x80) return false;
      code = code << 6 | (*p & 0x3f);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000)) return false;
  }
  return true;
}

size_t weft_wire_begin(weft_strbuf_t *b, uint32_t number) {
  weft_wire_add_header(b, number, 0);
  return b->length;
}

void weft_wire_end(weft_strbuf_t *b, size_t mark) {
  if (b->failed) return;
  size_t length = b->length - mark, more = weft_wire_varint_size(length) - 1;
  if (more > 0) {
    if (weft_wire_room(b, more) == NULL) return;
    memmove(b->data + mark + more, b->data + mark, length);
    weft_wire_advance(b, (const uint8_t *)b->data + b->length + more);
  }
  weft_wire_store_varint((uint8_t *)b->data + mark - 1, length);
}
