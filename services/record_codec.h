/* services/record_codec.h - what observers ask and are told, to and from the messages of weft.WorkerService.
 */
#ifndef WEFT_SERVICES_RECORD_CODEC_H_
#define WEFT_SERVICES_RECORD_CODEC_H_

#include "services/messages.h"
#include "worker/step_record.h"

/* Texts and arrays of the results are views of the arguments, or live in `arena`. Errors: RESOURCE_EXHAUSTED;
 * reading also INVALID_ARGUMENT naming the field. */
weft_record_request_msg_t weft_record_request_to_msg(const weft_record_request_t *r);
weft_record_request_t weft_record_request_from_msg(const weft_record_request_msg_t *m);
WEFT_MUST_CHECK weft_status_t *weft_record_answer_to_msg(const weft_record_answer_t *a, weft_arena_t *arena,
                                                         weft_record_response_msg_t *out);
WEFT_MUST_CHECK weft_status_t *weft_record_answer_from_msg(const weft_record_response_msg_t *m,
                                                           weft_arena_t *arena, weft_record_answer_t *out);

#endif /* WEFT_SERVICES_RECORD_CODEC_H_ */
