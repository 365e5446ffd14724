/* rpc/fields.h - messages by table: one line per field, for both directions.
 *
 * A message is described once, as a table from field numbers to members of a
 * plain struct; the table decodes it, encodes it, and names the field in errors.
 * Texts are views into the received message or, across a cut, copies in the
 * arena. Unknown fields and fields of another wire type are skipped, as protobuf
 * does; of a field that may come once, the last occurrence counts.
 */
#ifndef WEFT_RPC_FIELDS_H_
#define WEFT_RPC_FIELDS_H_

#include "base/arena.h"
#include "rpc/message.h"
#include "tensor/tensor.h"

typedef enum weft_field_kind {
  WEFT_FIELD_TEXT,          /* string: weft_str_t, valid UTF-8 */
  WEFT_FIELD_BYTES,         /* bytes or a message: weft_str_t */
  WEFT_FIELD_I64,           /* int32, int64, enum: int64_t */
  WEFT_FIELD_I64S,          /* repeated int32, int64: weft_i64s_t; packed when written, either when read */
  WEFT_FIELD_FIXED64,       /* fixed64: uint64_t */
  WEFT_FIELD_BOOL,          /* bool */
  WEFT_FIELD_TEXTS,         /* repeated string: weft_texts_t */
  WEFT_FIELD_MESSAGES,      /* repeated message: weft_texts_t */
  WEFT_FIELD_TENSOR,        /* TensorProto: weft_tensor_t *, NULL if absent */
  WEFT_FIELD_TENSORS,       /* repeated TensorProto: weft_tensors_t */
  WEFT_FIELD_NAMED_TENSORS, /* repeated NamedTensorProto: weft_tensors_t with names */
} weft_field_kind_t;

typedef struct weft_texts {
  weft_str_t *items; /* in the arena */
  int n, capacity;
} weft_texts_t;
typedef struct weft_i64s {
  int64_t *items; /* in the arena */
  int n, capacity;
} weft_i64s_t;
typedef struct weft_tensors {
  weft_str_t *names;     /* in the arena; NULL for tensors without names */
  weft_tensor_t **items; /* in the arena; each one reference, owned when decoded, borrowed when encoding */
  int n, capacity;
} weft_tensors_t;

typedef struct weft_field {
  uint32_t number;
  weft_field_kind_t kind;
  const char *name;
  size_t offset; /* of the member */
} weft_field_t;
typedef struct weft_message_type {
  const char *name; /* "RunStepRequest" */
  const weft_field_t *fields;
  int num_fields;
} weft_message_type_t;
#define WEFT_MESSAGE_TYPE(name, table) \
  { (name), (table), (int)(sizeof(table) / sizeof((table)[0])) }

/* Requests and responses without fields. */
typedef struct weft_empty_msg {
  char unused;
} weft_empty_msg_t;
extern const weft_message_type_t weft_empty_type;

/* Fills the zeroed struct at `out`. On failure, too, weft_fields_release(type, out) gives back its tensors.
 * Errors: INVALID_ARGUMENT naming message and field; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_fields_decode(const weft_message_type_t *type, const weft_message_t *m,
                                                  weft_arena_t *arena, void *out);
/* The same for bytes in one piece; no tensors. */
WEFT_MUST_CHECK weft_status_t *weft_fields_decode_bytes(const weft_message_type_t *type, weft_str_t bytes,
                                                        weft_arena_t *arena, void *out);
void weft_fields_release(const weft_message_type_t *type, void *decoded);

/* Makes a message of the struct. Large tensors are shared, not copied. The caller owns it. */
WEFT_MUST_CHECK weft_status_t *weft_fields_encode(const weft_message_type_t *type, const void *in,
                                                  weft_message_t **out);
/* The same as bytes behind what `text` holds; no tensors. */
void weft_fields_encode_bytes(const weft_message_type_t *type, const void *in, weft_strbuf_t *text);

/* Appends to a list; false without memory. */
bool weft_texts_add(weft_texts_t *list, weft_arena_t *arena, weft_str_t text);
/* The same with the bytes of a nested message. */
bool weft_texts_add_message(weft_texts_t *list, weft_arena_t *arena, const weft_message_type_t *type,
                            const void *message);

#endif /* WEFT_RPC_FIELDS_H_ */
