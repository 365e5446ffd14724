/* rpc/message_reader.c - a cursor over pieces.
 *
 * Invariant: a place's piece holds its byte, except at the very end of the message, where it is the last
 * piece.
 */
#include "rpc/message_reader.h"

/* Moves `p` to the piece that holds its byte. */
static void settle(const weft_message_t *m, weft_message_place_t *p) {
  while (p->piece + 1 < weft_message_num_pieces(m)) {
    size_t length = weft_message_piece(m, p->piece).length;
    if (p->at - p->piece_begin < length) return;
    p->piece_begin += length;
    p->piece++;
  }
}

/* Copies up to `n` bytes from `p` on; returns how many there were before `end`. */
static size_t copy(const weft_message_t *m, weft_message_place_t p, size_t end, void *to, size_t n) {
  if (n > end - p.at) n = end - p.at;
  size_t left = n;
  char *out = to;
  while (left > 0) {
    settle(m, &p);
    weft_str_t piece = weft_message_piece(m, p.piece);
    size_t offset = p.at - p.piece_begin;
    size_t part = piece.length - offset < left ? piece.length - offset : left;
    memcpy(out, piece.data + offset, part);
    out += part;
    left -= part;
    p.at += part;
  }
  return n;
}

weft_message_reader_t weft_message_reader(const weft_message_t *m) {
  return (weft_message_reader_t){m, {0, 0, 0}, weft_message_bytes(m), false};
}

weft_message_reader_t weft_message_field_reader(const weft_message_t *m, const weft_message_field_t *f) {
  return (weft_message_reader_t){m, f->begin, f->begin.at + f->length, false};
}

/* Reads one tag and, but for a group, its value. False at the end of a group, too: see f->tag. */
static bool read_field(weft_message_reader_t *r, weft_message_field_t *f) {
  uint8_t head[2 * WEFT_WIRE_MAX_VARINT];
  size_t have = copy(r->message, r->next, r->end, head, sizeof head);
  const uint8_t *end = head + have, *p;
  uint64_t tag = 0, length = 0;
  p = weft_wire_get_varint(head, end, &tag);
  if (p == NULL || tag > UINT32_MAX || tag >> 3 == 0) return false;
  f->tag = (uint32_t)tag;
  switch (tag & 7) {
    case WEFT_WIRE_VARINT: p = weft_wire_get_varint(p, end, &f->value); break;
    case WEFT_WIRE_FIXED32:
      if (end - p < 4) return false;
      f->value = weft_wire_load32(p);
      p += 4;
      break;
    case WEFT_WIRE_FIXED64:
      if (end - p < 8) return false;
      f->value = weft_wire_load64(p);
      p += 8;
      break;
    case WEFT_WIRE_BYTES: p = weft_wire_get_varint(p, end, &length); break;
    case WEFT_WIRE_GROUP:
    case WEFT_WIRE_END_GROUP: break;
    default: return false;
  }
  if (p == NULL) return false;
  r->next.at += (size_t)(p - head);
  if (length > r->end - r->next.at) return false;
  settle(r->message, &r->next);
  f->begin = r->next;
  f->length = (size_t)length;
  r->next.at += f->length;
  settle(r->message, &r->next);
  return true;
}

/* Skips a group's fields up to its end. No known message has groups, but an unknown field may be one. */
static bool skip_group(weft_message_reader_t *r, uint32_t number) {
  uint32_t open[WEFT_WIRE_MAX_GROUP_DEPTH];
  int depth = 0;
  open[depth++] = number;
  while (depth > 0) {
    weft_message_field_t f;
    if (r->next.at == r->end || !read_field(r, &f)) return false;
    if ((f.tag & 7) == WEFT_WIRE_GROUP) {
      if (depth == WEFT_WIRE_MAX_GROUP_DEPTH) return false;
      open[depth++] = f.tag >> 3;
    } else if ((f.tag & 7) == WEFT_WIRE_END_GROUP) {
      if (open[--depth] != f.tag >> 3) return false;
    }
  }
  return true;
}

bool weft_message_reader_next(weft_message_reader_t *r, weft_message_field_t *f) {
  if (r->failed || r->next.at == r->end) return false;
  bool ok = read_field(r, f) && (f->tag & 7) != WEFT_WIRE_END_GROUP;
  if (ok && (f->tag & 7) == WEFT_WIRE_GROUP) ok = skip_group(r, f->tag >> 3);
  r->failed = !ok;
  return ok;
}

bool weft_message_field_view(const weft_message_t *m, const weft_message_field_t *f, weft_str_t *out) {
  *out = weft_str_of("", 0);
  if (f->length == 0) return true;
  weft_str_t piece = weft_message_piece(m, f->begin.piece);
  size_t offset = f->begin.at - f->begin.piece_begin;
  if (f->length > piece.length - offset) return false;
  *out = weft_str_of(piece.data + offset, f->length);
  return true;
}

bool weft_message_field_bytes(const weft_message_t *m, const weft_message_field_t *f, weft_arena_t *arena,
                              weft_str_t *out) {
  if (weft_message_field_view(m, f, out)) return true;
  char *text = weft_arena_alloc(arena, f->length);
  if (text == NULL) return false;
  weft_message_field_copy(m, f, 0, text, f->length);
  *out = weft_str_of(text, f->length);
  return true;
}

void weft_message_field_copy(const weft_message_t *m, const weft_message_field_t *f, size_t at, void *to,
                             size_t n) {
  weft_message_place_t p = f->begin;
  p.at += at;
  settle(m, &p);
  copy(m, p, f->begin.at + f->length, to, n);
}
