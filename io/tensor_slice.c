/* io/tensor_slice.c - boxes in tensors: as text, as messages, as keys, and the copying between them.
 *
 * Source: the keys are OrderedCode as TensorFlow uses it: the order of the bytes is that of what they stand
 * for.
 */
#include "io/tensor_slice.h"

#include <inttypes.h>

#include "protos/wire.h"

/* Field numbers of tensor_slice.proto. */
enum { SLICE_EXTENT = 1, EXTENT_START = 1, EXTENT_LENGTH = 2 };

weft_tensor_slice_t weft_tensor_slice_whole(const weft_shape_t *shape) {
  weft_tensor_slice_t s = {.rank = shape->rank};
  for (int d = 0; d < shape->rank; d++) {
    s.is_full[d] = true;
    s.length[d] = shape->dims[d];
  }
  return s;
}

/* ---- "10 20 0,5:-" ---- */

/* The next piece of *rest that is not empty. */
static bool next_piece(weft_str_t *rest, char separator, weft_str_t *out) {
  while (rest->length > 0) {
    weft_str_t head = *rest, tail = WEFT_STR("");
    weft_str_split(*rest, separator, &head, &tail);
    *rest = tail;
    *out = head;
    if (head.length > 0) return true;
  }
  return false;
}

static bool is_pair(weft_str_t text, int64_t *out_a, int64_t *out_b) {
  weft_str_t a, b, more;
  return next_piece(&text, ',', &a) && next_piece(&text, ',', &b) && !next_piece(&text, ',', &more) &&
         weft_str_to_i64(a, out_a) && weft_str_to_i64(b, out_b);
}

static weft_status_t *parse_extents(weft_str_t text, weft_tensor_slice_t *out) {
  weft_str_t rest = text, item;
  *out = (weft_tensor_slice_t){0};
  while (next_piece(&rest, ':', &item)) {
    if (out->rank == WEFT_MAX_DIMS) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a slice of more than %d dimensions: string = %.*s", WEFT_MAX_DIMS,
                        WEFT_STR_ARGS(text));
    }
    int d = out->rank++;
    out->is_full[d] = weft_str_is(item, "-");
    if (out->is_full[d]) continue;
    int64_t start = 0, length = 0;
    if (!is_pair(item, &start, &length)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected a pair of numbers or '-' but got '%.*s': string = %.*s",
                        WEFT_STR_ARGS(item), WEFT_STR_ARGS(text));
    }
    if (start < 0 || length <= 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Expected non-negative start and positive length but got start = %" PRId64
                        ", length = %" PRId64 ": string = %.*s",
                        start, length, WEFT_STR_ARGS(text));
    }
    out->start[d] = start;
    out->length[d] = length;
  }
  return NULL;
}

static weft_status_t *parse_dims(weft_str_t text, weft_str_t words, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS];
  int rank = 0;
  bool has_more = true;
  while (has_more) {
    weft_str_t word = words, tail = WEFT_STR("");
    has_more = weft_str_split(words, ' ', &word, &tail);
    words = tail;
    if (rank == WEFT_MAX_DIMS) {
      return WEFT_ERROR(INVALID_ARGUMENT, "more than %d dimensions in shape_and_slice: %.*s", WEFT_MAX_DIMS,
                        WEFT_STR_ARGS(text));
    }
    if (!weft_str_to_i64(word, &dims[rank++])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Non numerical dimension in shape_and_slice: %.*s",
                        WEFT_STR_ARGS(text));
    }
    if (dims[rank - 1] < 0) { /* TensorFlow's process ends here */
      return WEFT_ERROR(INVALID_ARGUMENT, "Negative dimension in shape_and_slice: %.*s", WEFT_STR_ARGS(text));
    }
  }
  return weft_shape_make(dims, rank, out);
}

static weft_status_t *bad_fit(const weft_tensor_slice_t *slice, const weft_shape_t *full, int d) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_tensor_slice_print(slice, &text);
  weft_str_t words = weft_str_of(text.data, text.length);
  weft_status_t *s =
      d < 0 ? WEFT_ERROR(INTERNAL, "Mismatching ranks: shape = %s, slice = %.*s", WEFT_SHAPE_TEXT(full),
                         WEFT_STR_ARGS(words))
            : WEFT_ERROR(INTERNAL, "Extent in dimension %d out of bounds: shape = %s, slice = %.*s", d,
                         WEFT_SHAPE_TEXT(full), WEFT_STR_ARGS(words));
  weft_strbuf_deinit(&text);
  return s;
}

static bool fits(const weft_tensor_slice_t *s, const weft_shape_t *full, int d) {
  return s->start[d] >= 0 && s->length[d] >= 0 && s->start[d] <= full->dims[d] &&
         s->length[d] <= full->dims[d] - s->start[d];
}

weft_status_t *weft_tensor_slice_parse(weft_str_t text, weft_shape_t *out_full,
                                       weft_tensor_slice_t *out_slice, weft_shape_t *out_shape) {
  ptrdiff_t at = weft_str_rfind(text, ' ');
  if (at < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Need least two elements in shape_and_slice specification: %.*s",
                      WEFT_STR_ARGS(text));
  }
  weft_str_t extents = weft_str_of(text.data + at + 1, text.length - (size_t)at - 1);
  WEFT_RETURN_IF_ERROR(parse_extents(extents, out_slice));
  WEFT_RETURN_IF_ERROR(parse_dims(text, weft_str_of(text.data, (size_t)at), out_full));
  if (out_slice->rank != out_full->rank) return bad_fit(out_slice, out_full, -1);
  for (int d = 0; d < out_full->rank; d++) {
    if (out_slice->is_full[d]) out_slice->length[d] = out_full->dims[d];
    if (!fits(out_slice, out_full, d)) return bad_fit(out_slice, out_full, d);
  }
  return weft_shape_make(out_slice->length, out_slice->rank, out_shape);
}

void weft_tensor_slice_print(const weft_tensor_slice_t *slice, weft_strbuf_t *out) {
  for (int d = 0; d < slice->rank; d++) {
    if (d > 0) weft_strbuf_putc(out, ':');
    if (slice->is_full[d]) {
      weft_strbuf_putc(out, '-');
    } else {
      weft_strbuf_printf(out, "%" PRId64 ",%" PRId64, slice->start[d], slice->length[d]);
    }
  }
}

/* ---- common parts ---- */

bool weft_tensor_slice_intersect(const weft_tensor_slice_t *a, const weft_tensor_slice_t *b,
                                 weft_tensor_slice_t *out) {
  weft_tensor_slice_t common = {.rank = a->rank};
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++) {
    int64_t a_end = a->start[d] + a->length[d], b_end = b->start[d] + b->length[d];
    common.is_full[d] = a->is_full[d] && b->is_full[d];
    common.start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    common.length[d] = (a_end < b_end ? a_end : b_end) - common.start[d];
    if (common.length[d] <= 0 && !common.is_full[d]) return false;
  }
  if (out != NULL) *out = common;
  return true;
}

weft_status_t *weft_tensor_slice_copy(weft_tensor_t *to, const weft_tensor_slice_t *to_at,
                                      const weft_tensor_t *from, const weft_tensor_slice_t *from_at,
                                      int64_t *inout_n) {
  weft_tensor_slice_t common;
  int rank = to_at->rank;
  int64_t at[WEFT_MAX_DIMS] = {0}, n = 1;
  if (!weft_tensor_slice_intersect(to_at, from_at, &common)) return NULL;
  for (int d = 0; d < rank; d++) n *= common.length[d];
  int64_t run = rank == 0 ? 1 : common.length[rank - 1];
  for (int64_t done = 0; done < n; done += run) { /* one innermost run after the other */
    int64_t to_offset = 0, from_offset = 0;
    for (int d = 0; d < rank; d++) {
      to_offset = to_offset * to_at->length[d] + common.start[d] + at[d] - to_at->start[d];
      from_offset = from_offset * from_at->length[d] + common.start[d] + at[d] - from_at->start[d];
    }
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(to, to_offset, from, from_offset, run));
    for (int d = rank - 2; d >= 0 && ++at[d] == common.length[d]; d--) at[d] = 0;
  }
  *inout_n += n;
  return NULL;
}

/* ---- messages ---- */

void weft_tensor_slice_put(const weft_tensor_slice_t *slice, uint32_t number, weft_strbuf_t *out) {
  size_t mark = weft_wire_begin(out, number);
  for (int d = 0; d < slice->rank; d++) {
    size_t extent = weft_wire_begin(out, SLICE_EXTENT);
    if (!slice->is_full[d]) {
      weft_wire_put_i64(out, EXTENT_START, slice->start[d]);
      weft_wire_add_varint(out, EXTENT_LENGTH, (uint64_t)slice->length[d]);
    }
    weft_wire_end(out, extent);
  }
  weft_wire_end(out, mark);
}

bool weft_tensor_slice_get(weft_str_t bytes, const weft_shape_t *full, weft_tensor_slice_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f, g;
  *out = (weft_tensor_slice_t){0};
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(SLICE_EXTENT, WEFT_WIRE_BYTES)) continue;
    int d = out->rank++;
    if (d >= full->rank) return false;
    out->is_full[d] = true;
    out->length[d] = full->dims[d];
    weft_wire_reader_t e = weft_wire_reader(f.bytes);
    while (weft_wire_next(&e, &g)) {
      if (g.tag == WEFT_WIRE_TAG(EXTENT_START, WEFT_WIRE_VARINT)) out->start[d] = weft_wire_i64(g.value);
      if (g.tag != WEFT_WIRE_TAG(EXTENT_LENGTH, WEFT_WIRE_VARINT)) continue;
      out->length[d] = weft_wire_i64(g.value);
      out->is_full[d] = false;
    }
    if (e.failed || !fits(out, full, d)) return false;
  }
  return !r.failed && out->rank == full->rank;
}

/* ---- keys: bytes whose order is that of what they stand for ---- */

/* Zero bytes and 0xff are followed by the other one; 00 01 ends the text. */
static void put_text(weft_str_t s, weft_strbuf_t *out) {
  for (size_t i = 0; i < s.length; i++) {
    weft_strbuf_putc(out, s.data[i]);
    if (s.data[i] == '\0') weft_strbuf_putc(out, '\xff');
    if (s.data[i] == '\xff') weft_strbuf_putc(out, '\0');
  }
  weft_strbuf_append(out, WEFT_STR("\0\1"));
}

/* The number of bytes, then the bytes, largest first. */
static void put_unsigned(uint64_t value, weft_strbuf_t *out) {
  int n = 0;
  while (n < 8 && value >> (8 * n) != 0) n++;
  weft_strbuf_putc(out, (char)n);
  while (n-- > 0) weft_strbuf_putc(out, (char)(value >> (8 * n)));
}

/* As few bytes as hold the number; as many leading bits as there are bytes are turned. */
static void put_signed(int64_t value, weft_strbuf_t *out) {
  uint64_t size = (uint64_t)(value < 0 ? ~value : value);
  int bits = 0;
  while (bits < 64 && size >> bits != 0) bits++;
  int n = bits / 7 + 1;
  uint8_t bytes[10];
  for (int i = 0; i < 10; i++)
    bytes[9 - i] = (uint8_t)(i < 8 ? (uint64_t)value >> (8 * i) : value < 0 ? 0xff : 0);
  unsigned mask = (0xffffu << (16 - n)) & 0xffffu;
  uint8_t *first = bytes + 10 - n;
  first[0] ^= (uint8_t)(mask >> 8);
  if (n > 1) first[1] ^= (uint8_t)mask;
  weft_strbuf_append(out, weft_str_of((const char *)first, (size_t)n));
}

void weft_tensor_slice_key(weft_str_t name, const weft_tensor_slice_t *slice, weft_strbuf_t *out) {
  put_unsigned(0, out);
  put_text(name, out);
  put_unsigned((uint64_t)slice->rank, out);
  for (int i = 0; i < slice->rank; i++) {
    put_signed(slice->is_full[i] ? 0 : slice->start[i], out);
    put_signed(slice->is_full[i] ? -1 : slice->length[i], out);
  }
}
