/* rpc/message_reader.h - the fields of a protobuf message that lies in pieces.
 *
 * A received message is cut wherever the network cut it. The reader walks its
 * fields without putting it together; only a field that is asked for and lies
 * across a cut is copied. The rules are those of protos/wire.h.
 */
#ifndef WEFT_RPC_MESSAGE_READER_H_
#define WEFT_RPC_MESSAGE_READER_H_

#include "base/arena.h"
#include "protos/wire.h"
#include "rpc/message.h"

/* A place in a message: a byte, and the piece it lies in. */
typedef struct weft_message_place {
  size_t at;          /* of the whole message */
  size_t piece_begin; /* where `piece` begins */
  int piece;
} weft_message_place_t;

/* Confined. Copy it freely. */
typedef struct weft_message_reader {
  const weft_message_t *message; /* borrowed */
  weft_message_place_t next;
  size_t end;
  bool failed; /* the bytes are not a message */
} weft_message_reader_t;

typedef struct weft_message_field {
  uint32_t tag;               /* as in protos/wire.h */
  uint64_t value;             /* of a varint or a fixed field */
  weft_message_place_t begin; /* of a length-delimited field */
  size_t length;
} weft_message_field_t;

weft_message_reader_t weft_message_reader(const weft_message_t *m);
/* The fields of a field that is a message. */
weft_message_reader_t weft_message_field_reader(const weft_message_t *m, const weft_message_field_t *f);
/* False at the end and on bad bytes. */
bool weft_message_reader_next(weft_message_reader_t *r, weft_message_field_t *f);

/* The field's bytes as they lie; false if they lie in several pieces. */
bool weft_message_field_view(const weft_message_t *m, const weft_message_field_t *f, weft_str_t *out);
/* The same, with a copy in `arena` if there is no other way. False without memory. */
bool weft_message_field_bytes(const weft_message_t *m, const weft_message_field_t *f, weft_arena_t *arena,
                              weft_str_t *out);
/* Copies `n` bytes of the field from its byte `at` on; they must be there. */
void weft_message_field_copy(const weft_message_t *m, const weft_message_field_t *f, size_t at, void *to,
                             size_t n);

#endif /* WEFT_RPC_MESSAGE_READER_H_ */
