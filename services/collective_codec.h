/* services/collective_codec.h - groups, instances and buffers of collectives, to and from WorkerService's
 * messages.
 *
 * Where TensorFlow's messages have no place for what Weft's tasks tell each other
 * (ranks, hosts, times), it goes into fields that TensorFlow skips; without them, a
 * message means what it means there.
 */
#ifndef WEFT_SERVICES_COLLECTIVE_CODEC_H_
#define WEFT_SERVICES_COLLECTIVE_CODEC_H_

#include "rpc/message_reader.h"
#include "services/messages.h"
#include "worker/worker_client.h"

/* Texts of the results are views of the arguments, or live in `arena`. Errors: RESOURCE_EXHAUSTED; reading
 * also INVALID_ARGUMENT naming the field. */
WEFT_MUST_CHECK weft_status_t *weft_group_request_to_msg(const weft_group_request_t *r, weft_arena_t *arena,
                                                         weft_complete_group_request_msg_t *out);
WEFT_MUST_CHECK weft_status_t *weft_group_request_from_msg(const weft_complete_group_request_msg_t *m,
                                                           weft_arena_t *arena, weft_group_request_t *out);
WEFT_MUST_CHECK weft_status_t *weft_group_to_msg(const weft_group_t *g, weft_arena_t *arena,
                                                 weft_complete_group_response_msg_t *out);
/* *out: one reference. */
WEFT_MUST_CHECK weft_status_t *weft_group_from_msg(const weft_complete_group_response_msg_t *m,
                                                   weft_group_t **out);
WEFT_MUST_CHECK weft_status_t *weft_instance_to_msg(const weft_instance_request_t *r, weft_arena_t *arena,
                                                    weft_complete_instance_request_msg_t *out);
WEFT_MUST_CHECK weft_status_t *weft_instance_from_msg(const weft_complete_instance_request_msg_t *m,
                                                      weft_instance_request_t *out);

/* A RecvBufResponse that shares the bytes where they lie. Takes over buf->release in every case. */
WEFT_MUST_CHECK weft_status_t *weft_buf_to_message(const weft_buf_t *buf, weft_message_t **out);
/* The chunks of a RecvBufResponse. Borrows the message; `buf` reads them. */
typedef struct weft_buf_reader {
  weft_buf_t buf;
  const weft_message_t *message;
  weft_message_field_t *chunks; /* in the arena */
  int num_chunks, capacity;
  int at_chunk; /* of the last read, and where it begins in all the bytes */
  size_t chunk_at;
  bool require_ack;
} weft_buf_reader_t;
WEFT_MUST_CHECK weft_status_t *weft_buf_reader_init(weft_buf_reader_t *r, const weft_message_t *m,
                                                    weft_arena_t *arena);

#endif /* WEFT_SERVICES_COLLECTIVE_CODEC_H_ */
