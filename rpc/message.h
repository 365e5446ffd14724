/* rpc/message.h - the bytes of one RPC message, in pieces, without copies.
 *
 * A message that is sent is a list of owned or shared pieces (a header that was
 * encoded, then a tensor's bytes where they lie). A message that was received is
 * the transport's slices. Thread-compatible.
 */
#ifndef WEFT_RPC_MESSAGE_H_
#define WEFT_RPC_MESSAGE_H_

#include "base/str.h"

typedef struct weft_message weft_message_t;

WEFT_MUST_CHECK weft_status_t *weft_message_create(weft_message_t **out);
void weft_message_destroy(weft_message_t *m); /* NULL is fine */

/* Appends bytes: copied; taken over from a builder (which is left empty); or borrowed until release(arg),
 * which is called once, on any thread, also when appending fails. */
WEFT_MUST_CHECK weft_status_t *weft_message_append(weft_message_t *m, weft_str_t bytes);
WEFT_MUST_CHECK weft_status_t *weft_message_take(weft_message_t *m, weft_strbuf_t *b);
WEFT_MUST_CHECK weft_status_t *weft_message_share(weft_message_t *m, const void *data, size_t bytes,
                                                  void (*release)(void *arg), void *arg);

size_t weft_message_bytes(const weft_message_t *m);
int weft_message_num_pieces(const weft_message_t *m);
weft_str_t weft_message_piece(const weft_message_t *m, int i); /* lent while the message lives */
/* All bytes in one piece: the only piece itself, or a copy made once and kept by the message. */
WEFT_MUST_CHECK weft_status_t *weft_message_flatten(weft_message_t *m, weft_str_t *out);
/* Copies bytes [at, at+n) to `to`; false if they are not there. */
bool weft_message_read(const weft_message_t *m, size_t at, void *to, size_t n);

#endif /* WEFT_RPC_MESSAGE_H_ */
