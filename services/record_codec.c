/* services/record_codec.c - field by field. */
#include "services/record_codec.h"

#include <string.h>

weft_record_request_msg_t weft_record_request_to_msg(const weft_record_request_t *r) {
  return (weft_record_request_msg_t){.observer = r->observer,
                                     .is_first = r->is_first,
                                     .is_last = r->is_last,
                                     .wait_ms = r->wait_ms,
                                     .measures_peaks = r->measures_peaks};
}

weft_record_request_t weft_record_request_from_msg(const weft_record_request_msg_t *m) {
  return (weft_record_request_t){.observer = m->observer,
                                 .is_first = m->is_first,
                                 .is_last = m->is_last,
                                 .wait_ms = m->wait_ms,
                                 .measures_peaks = m->measures_peaks};
}

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Only what a rate can be: a peer may send any bits. */
static double rate_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value > 0 && value < 1e30 ? value : 0;
}

/* A moment or a count of a peer, which may send any number: such that sums of some, in nanoseconds, do not
 * overflow. */
static int64_t sane(int64_t value) { return value >= 0 && value <= INT64_C(4000000000000000) ? value : 0; }

/* The cast drops const: encoding only reads. */
static weft_i64s_t steps_of(const int64_t *ids, int n) {
  return (weft_i64s_t){(int64_t *)(uintptr_t)ids, n, n};
}

weft_status_t *weft_record_answer_to_msg(const weft_record_answer_t *a, weft_arena_t *arena,
                                         weft_record_response_msg_t *out) {
  *out = (weft_record_response_msg_t){.ended_step = steps_of(a->ended_steps, a->num_ended_steps),
                                      .partial_step = steps_of(a->partial_steps, a->num_partial_steps),
                                      .running_step = steps_of(a->running_steps, a->num_running_steps),
                                      .has_more = a->has_more,
                                      .num_dropped = a->num_dropped,
                                      .clock_micros = a->clock_micros,
                                      .peak_flops = bits_of(a->peak_flops),
                                      .peak_bytes = bits_of(a->peak_bytes)};
  for (int i = 0; i < a->num_records; i++) {
    const weft_step_record_t *r = &a->records[i];
    const weft_step_record_msg_t m = {.step_id = r->step_id,
                                      .start_micros = r->start_micros,
                                      .end_micros = r->end_micros,
                                      .calls = r->calls,
                                      .code = r->code,
                                      .message = r->message,
                                      .session = r->session,
                                      .graph = r->graph,
                                      .step_stats = r->step_stats};
    if (!weft_texts_add_message(&out->record, arena, &weft_step_record_type, &m))
      return WEFT_NO_MEMORY("%d records of steps", a->num_records);
  }
  return NULL;
}

static weft_status_t *record_from_bytes(weft_str_t bytes, weft_arena_t *arena, weft_step_record_t *out) {
  weft_step_record_msg_t m;
  memset(&m, 0, sizeof m);
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_step_record_type, bytes, arena, &m));
  if (m.code < 0 || m.code > WEFT_UNAUTHENTICATED) m.code = WEFT_UNKNOWN;
  *out = (weft_step_record_t){.step_id = m.step_id,
                              .start_micros = sane(m.start_micros),
                              .end_micros = sane(m.end_micros),
                              .calls = m.calls,
                              .code = (weft_code_t)m.code,
                              .message = m.message,
                              .session = m.session,
                              .graph = m.graph,
                              .step_stats = m.step_stats};
  return NULL;
}

weft_status_t *weft_record_answer_from_msg(const weft_record_response_msg_t *m, weft_arena_t *arena,
                                           weft_record_answer_t *out) {
  weft_step_record_t *records = weft_arena_calloc(arena, (size_t)m->record.n + 1, sizeof *records);
  if (records == NULL) return WEFT_NO_MEMORY("%d records of steps", m->record.n);
  for (int i = 0; i < m->record.n; i++)
    WEFT_RETURN_IF_ERROR(record_from_bytes(m->record.items[i], arena, &records[i]));
  *out = (weft_record_answer_t){.records = records,
                                .num_records = m->record.n,
                                .ended_steps = m->ended_step.items,
                                .num_ended_steps = m->ended_step.n,
                                .partial_steps = m->partial_step.items,
                                .num_partial_steps = m->partial_step.n,
                                .running_steps = m->running_step.items,
                                .num_running_steps = m->running_step.n,
                                .has_more = m->has_more,
                                .num_dropped = sane(m->num_dropped),
                                .clock_micros = sane(m->clock_micros),
                                .peak_flops = rate_of(m->peak_flops),
                                .peak_bytes = rate_of(m->peak_bytes)};
  return NULL;
}
