/* worker/transfer_log.h - which tensors a worker fetched from other tasks, by step: for step statistics.
 *
 * Callers of RecvTensor add to the log; a traced run takes out what
 * belongs to its step. A master may also switch the log on for all steps and
 * fetch them by the Logging call, as TensorFlow's masters do.
 */
#ifndef WEFT_WORKER_TRANSFER_LOG_H_
#define WEFT_WORKER_TRANSFER_LOG_H_

#include <stdbool.h>

#include "base/str.h"

typedef struct weft_transfer_log weft_transfer_log_t; /* Thread-safe. */

typedef struct weft_transfer {
  int64_t step_id;
  weft_str_t key; /* full rendezvous key */
  int64_t start_micros, end_micros, bytes;
} weft_transfer_t;

WEFT_MUST_CHECK weft_status_t *weft_transfer_log_create(weft_transfer_log_t **out);
void weft_transfer_log_destroy(weft_transfer_log_t *l); /* NULL is fine */

/* Are the transfers of this step logged? Cheap while no step is. NULL: no. */
bool weft_transfer_log_wants(weft_transfer_log_t *l, int64_t step_id);
/* Best effort: what cannot be parsed or stored is left out. */
void weft_transfer_log_add(weft_transfer_log_t *l, const weft_transfer_t *t);

/* A run wants the transfers of its step, until it takes them. */
void weft_transfer_log_open(weft_transfer_log_t *l, int64_t step_id);
/* Appends what there is as fields of a StepStats, and forgets it. */
void weft_transfer_log_take(weft_transfer_log_t *l, int64_t step_id, weft_strbuf_t *out);

/* The same, but keeps it. */
void weft_transfer_log_copy(weft_transfer_log_t *l, int64_t step_id, weft_strbuf_t *out);

void weft_transfer_log_enable(weft_transfer_log_t *l, bool enabled); /* for all steps */
bool weft_transfer_log_is_enabled(weft_transfer_log_t *l);
void weft_transfer_log_clear(weft_transfer_log_t *l); /* forgets all, but not that runs are open */

/* Answers a serialized LoggingRequest by appending a LoggingResponse. Errors: INVALID_ARGUMENT for other
 * bytes. */
WEFT_MUST_CHECK weft_status_t *weft_transfer_log_answer(weft_transfer_log_t *l, weft_str_t request,
                                                        weft_strbuf_t *out);

#endif /* WEFT_WORKER_TRANSFER_LOG_H_ */
