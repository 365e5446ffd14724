/* rpc/message.c - a message is a row of gRPC slices.
 *
 * A slice counts references to its bytes, so the transport may go on sending a
 * tensor after the message has been destroyed; the release callback of a shared
 * piece runs when the last reference goes. gRPC stores up to 23 bytes inside the
 * slice itself; such a piece would move when the row grows, so texts that are
 * copied get bytes outside.
 *
 * The first OWN_BYTES of copied texts lie in the message: most messages within a host are no longer, and so
 * are one block. gRPC may keep what it sends for longer than the message lives, and gets a copy of these.
 */
#include "rpc/message.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "base/alloc.h"
#include "rpc/slices.h"

enum { INLINE_PIECES = 4, OWN_BYTES = 320 };

struct weft_message {
  grpc_slice *pieces; /* owned; `few` or an allocated row */
  int num_pieces, capacity;
  size_t bytes;
  char *flat; /* owned; NULL until asked for */
  int own_used;
  grpc_slice few[INLINE_PIECES];
  char own[OWN_BYTES];
};

weft_status_t *weft_message_create(weft_message_t **out) {
  weft_message_t *m = weft_malloc(sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("a message");
  m->pieces = m->few;
  m->num_pieces = 0;
  m->capacity = INLINE_PIECES;
  m->bytes = 0;
  m->flat = NULL;
  m->own_used = 0;
  *out = m;
  return NULL;
}

void weft_message_destroy(weft_message_t *m) {
  if (m == NULL) return;
  for (int i = 0; i < m->num_pieces; i++) grpc_slice_unref(m->pieces[i]);
  if (m->pieces != m->few) weft_free(m->pieces);
  weft_free(m->flat);
  weft_free(m);
}

/* Room for one more piece. */
static weft_status_t *grow(weft_message_t *m, size_t bytes) {
  size_t total;
  if (!weft_add_size(m->bytes, bytes, &total)) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a message is too long");
  if (m->num_pieces < m->capacity) return NULL;
  if (m->capacity > INT32_MAX / 2) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a message has too many pieces");
  int capacity = m->capacity * 2;
  grpc_slice *row = m->pieces == m->few ? NULL : m->pieces;
  row = weft_realloc(row, (size_t)capacity, sizeof *row);
  if (row == NULL) return WEFT_NO_MEMORY("a message of %zu bytes", total);
  if (m->pieces == m->few) memcpy(row, m->few, sizeof m->few);
  m->pieces = row;
  m->capacity = capacity;
  return NULL;
}

static void push(weft_message_t *m, grpc_slice slice) {
  m->bytes += GRPC_SLICE_LENGTH(slice);
  m->pieces[m->num_pieces++] = slice;
}

weft_status_t *weft_message_append(weft_message_t *m, weft_str_t bytes) {
  if (bytes.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(grow(m, bytes.length));
  const bool fits = bytes.length <= (size_t)(OWN_BYTES - m->own_used);
  grpc_slice slice = fits ? grpc_slice_from_static_buffer(m->own + m->own_used, bytes.length)
                          : grpc_slice_malloc_large(bytes.length);
  memcpy(GRPC_SLICE_START_PTR(slice), bytes.data, bytes.length);
  if (fits) m->own_used += (int)bytes.length;
  push(m, slice);
  return NULL;
}

weft_status_t *weft_message_take(weft_message_t *m, weft_strbuf_t *b) {
  /* A slice that owns foreign bytes costs an allocation of its own: below this a copy is cheaper. */
  enum { COPY_BELOW = 1024 };
  if (b->length < COPY_BELOW && !b->failed) {
    weft_status_t *s = weft_message_append(m, weft_str_of(b->data, b->length));
    weft_strbuf_deinit(b);
    return s;
  }
  char *text = NULL;
  size_t length = 0;
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(b, &text, &length));
  return weft_message_share(m, text, length, weft_free, text);
}

weft_status_t *weft_message_share(weft_message_t *m, const void *data, size_t bytes,
                                  void (*release)(void *arg), void *arg) {
  weft_status_t *s = bytes == 0 ? NULL : grow(m, bytes);
  if (s != NULL || bytes == 0) {
    if (release != NULL) release(arg);
    return s;
  }
  /* The cast drops const: gRPC never writes into a slice that it sends. */
  push(m, release == NULL ? grpc_slice_from_static_buffer(data, bytes)
                          : grpc_slice_new_with_user_data((void *)(uintptr_t)data, bytes, release, arg));
  return NULL;
}

size_t weft_message_bytes(const weft_message_t *m) { return m->bytes; }
int weft_message_num_pieces(const weft_message_t *m) { return m->num_pieces; }

weft_str_t weft_message_piece(const weft_message_t *m, int i) {
  return weft_str_of((const char *)GRPC_SLICE_START_PTR(m->pieces[i]), GRPC_SLICE_LENGTH(m->pieces[i]));
}

weft_status_t *weft_message_flatten(weft_message_t *m, weft_str_t *out) {
  if (m->num_pieces <= 1) {
    *out = m->num_pieces == 0 ? weft_str_of("", 0) : weft_message_piece(m, 0);
    return NULL;
  }
  if (m->flat == NULL) {
    m->flat = weft_malloc(m->bytes);
    if (m->flat == NULL) return WEFT_NO_MEMORY("a message of %zu bytes", m->bytes);
    (void)weft_message_read(m, 0, m->flat, m->bytes);
  }
  *out = weft_str_of(m->flat, m->bytes);
  return NULL;
}

bool weft_message_read(const weft_message_t *m, size_t at, void *to, size_t n) {
  if (at > m->bytes || n > m->bytes - at) return false;
  char *p = to;
  for (int i = 0; n > 0; i++) {
    weft_str_t piece = weft_message_piece(m, i);
    if (at >= piece.length) {
      at -= piece.length;
      continue;
    }
    size_t part = piece.length - at < n ? piece.length - at : n;
    memcpy(p, piece.data + at, part);
    p += part;
    n -= part;
    at = 0;
  }
  return true;
}

static bool is_own(const weft_message_t *m, int piece) {
  const uintptr_t at = (uintptr_t)GRPC_SLICE_START_PTR(m->pieces[piece]), own = (uintptr_t)m->own;
  return at >= own && at < own + OWN_BYTES;
}

grpc_byte_buffer *weft_message_to_buffer(weft_message_t *m) {
  for (int i = 0; m != NULL && m->own_used > 0 && i < m->num_pieces; i++) {
    if (!is_own(m, i)) continue;
    const weft_str_t piece = weft_message_piece(m, i);
    m->pieces[i] = grpc_slice_malloc_large(piece.length);
    memcpy(GRPC_SLICE_START_PTR(m->pieces[i]), piece.data, piece.length);
  }
  return grpc_raw_byte_buffer_create(m == NULL ? NULL : m->pieces, m == NULL ? 0 : (size_t)m->num_pieces);
}

weft_status_t *weft_message_from_buffer(grpc_byte_buffer *buffer, weft_message_t **out) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  if (s != NULL || buffer == NULL) goto done;
  if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE) {
    s = WEFT_ERROR(UNIMPLEMENTED, "a message came compressed in a way that we do not know");
    goto done;
  }
  const grpc_slice_buffer *from = &buffer->data.raw.slice_buffer;
  for (size_t i = 0; i < from->count && s == NULL; i++) {
    if (GRPC_SLICE_LENGTH(from->slices[i]) == 0) continue;
    s = grow(m, GRPC_SLICE_LENGTH(from->slices[i]));
    if (s == NULL) push(m, grpc_slice_ref(from->slices[i]));
  }
done:
  if (s == NULL) {
    *out = m;
    m = NULL;
  }
  weft_message_destroy(m);
  grpc_byte_buffer_destroy(buffer);
  return s;
}
