/* jobs/log.c - events of a job. */
#include "jobs/log.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/event_file.h"
#include "io/summary_check.h"
#include "protos/wire.h"

enum { MAX_QUEUE = 1000, FLUSH_MS = 2000, MICROS = 1000000 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

struct weft_job_log {
  weft_event_file_t *file; /* owned */
  int64_t every;
  int64_t last_step, last_ns, rows; /* of the last event of steps; rows since then */
  bool has_described;               /* tags of speed have their descriptions */
  bool has_session;                 /* its start is written */
  weft_strbuf_t rewritten;          /* a GraphDef; empty: steps run the graph itself */
  weft_strbuf_t statistics;         /* of step statistics_step, not yet written */
  int64_t statistics_step;
  weft_strbuf_t event; /* one at a time */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("an event of a job"); }

static weft_str_t bytes_of(const weft_strbuf_t *b) {
  return weft_str_of(b->data == NULL ? "" : b->data, b->length);
}

static double seconds_now(void) { return (double)weft_clock_micros() / MICROS; }

/* ---- an event ---- */

static weft_strbuf_t *begin(weft_job_log_t *l, int64_t step) {
  l->event.length = 0;
  l->event.failed = false;
  weft_event_begin(&l->event, step);
  return &l->event;
}

static weft_status_t *end(weft_job_log_t *l) {
  return l->event.failed ? no_memory() : weft_event_file_add(l->file, bytes_of(&l->event));
}

static weft_status_t *end_summary(weft_job_log_t *l, size_t summary) {
  weft_wire_end(&l->event, summary);
  return end(l);
}

/* ---- life ---- */

weft_status_t *weft_job_log_create(const char *directory, int64_t every, weft_job_log_t **out) {
  weft_job_log_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return no_memory();
  l->every = every;
  weft_status_t *s =
      weft_event_file_create(weft_str(directory), WEFT_STR(".v2"), MAX_QUEUE, FLUSH_MS, &l->file);
  if (s == NULL) *out = l;
  if (s != NULL) weft_free(l);
  return s;
}

/* What has come of the statistics is all of them. */
static weft_status_t *write_statistics(weft_job_log_t *l) {
  char tag[40];
  if (l->statistics.length == 0) return NULL;
  weft_strbuf_t *b = begin(l, l->statistics_step);
  snprintf(tag, sizeof tag, "step_%" PRId64, l->statistics_step);
  if (l->rewritten.length > 0) {
    size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
    weft_event_put_graph(b, weft_str(tag), bytes_of(&l->rewritten), bytes_of(&l->statistics));
    weft_wire_end(b, summary);
  } else {
    weft_event_put_run_metadata(b, weft_str(tag), bytes_of(&l->statistics));
  }
  l->statistics.length = 0;
  return end(l);
}

weft_status_t *weft_job_log_flush(weft_job_log_t *l) {
  WEFT_RETURN_IF_ERROR(write_statistics(l));
  return weft_event_file_flush(l->file);
}

static weft_status_t *write_end(weft_job_log_t *l, bool is_success) {
  if (!l->has_session) return NULL;
  weft_strbuf_t *b = begin(l, 0);
  size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
  weft_event_put_session_end(b, is_success, seconds_now());
  return end_summary(l, summary);
}

weft_status_t *weft_job_log_close(weft_job_log_t *l, bool is_success) {
  if (l == NULL) return NULL;
  weft_status_t *s = write_statistics(l);
  s = weft_status_join(s, write_end(l, is_success));
  s = weft_status_join(s, weft_event_file_close(l->file));
  weft_strbuf_deinit(&l->rewritten);
  weft_strbuf_deinit(&l->statistics);
  weft_strbuf_deinit(&l->event);
  weft_free(l);
  return s;
}

/* ---- the start ---- */

weft_status_t *weft_job_log_begin(weft_job_log_t *l, int64_t first) {
  weft_strbuf_t *b = begin(l, first + 1);
  size_t log = weft_wire_begin(b, WEFT_EVENT_SESSION_LOG);
  weft_wire_put_i64(b, SESSION_STATUS, SESSION_START);
  weft_wire_end(b, log);
  return end(l);
}

weft_status_t *weft_job_log_graph(weft_job_log_t *l, weft_str_t graph_def) {
  weft_wire_add_bytes(begin(l, 0), WEFT_EVENT_GRAPH, graph_def);
  return end(l);
}

weft_status_t *weft_job_log_rewritten(weft_job_log_t *l, weft_str_t graph_def) {
  weft_strbuf_append(&l->rewritten, graph_def);
  if (l->rewritten.failed) return no_memory();
  weft_strbuf_t *b = begin(l, 0);
  size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
  weft_event_put_graph(b, WEFT_STR("rewritten"), graph_def, weft_str_of("", 0));
  return end_summary(l, summary);
}

/* A cell of a table: '|' would end it. */
static void put_cell(weft_strbuf_t *text, weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '|' || s.data[i] == '\\') weft_strbuf_putc(text, '\\');
    weft_strbuf_putc(text, s.data[i] == '\n' ? ' ' : s.data[i]);
  }
}

weft_status_t *weft_job_log_hparams(weft_job_log_t *l, const weft_event_hparam_t *hparams, int n) {
  weft_strbuf_t *b = begin(l, 0), text = WEFT_STRBUF_INIT;
  size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
  weft_event_put_session_start(b, hparams, n, seconds_now());
  weft_strbuf_puts(&text, "| hyperparameter | value |\n| --- | --- |\n");
  for (int i = 0; i < n; i++) {
    weft_strbuf_puts(&text, "| ");
    put_cell(&text, hparams[i].name);
    weft_strbuf_puts(&text, " | ");
    put_cell(&text, hparams[i].value);
    weft_strbuf_puts(&text, " |\n");
  }
  weft_event_put_text(b, WEFT_STR("job"), bytes_of(&text));
  b->failed = b->failed || text.failed;
  weft_strbuf_deinit(&text);
  l->has_session = true;
  return end_summary(l, summary);
}

/* ---- values ---- */

/* A number rounded once to a float; false: it is none. */
static bool read_number(const weft_tensor_t *t, float *out) {
  const void *p = t->data;
  switch (t->dtype) {
    case WEFT_F32: *out = *(const float *)p; return true;
    case WEFT_F64: *out = (float)*(const double *)p; return true;
    case WEFT_F16: *out = weft_f16_to_f32(*(const uint16_t *)p); return true;
    case WEFT_BF16: *out = weft_bf16_to_f32(*(const uint16_t *)p); return true;
    case WEFT_I8: *out = *(const int8_t *)p; return true;
    case WEFT_I16: *out = *(const int16_t *)p; return true;
    case WEFT_I32: *out = (float)*(const int32_t *)p; return true;
    case WEFT_I64: *out = (float)*(const int64_t *)p; return true;
    case WEFT_BOOL:
    case WEFT_U8: *out = *(const uint8_t *)p; return true;
    case WEFT_U16: *out = *(const uint16_t *)p; return true;
    case WEFT_U32: *out = (float)*(const uint32_t *)p; return true;
    case WEFT_U64: *out = (float)*(const uint64_t *)p; return true;
    default: return false;
  }
}

static void put_value(weft_strbuf_t *b, const weft_job_log_value_t *v) {
  float number = 0;
  if (v->value == NULL || v->value->count != 1) return;
  if (read_number(v->value, &number)) {
    weft_event_put_scalar(b, v->tag, number, NULL);
    return;
  }
  if (v->value->dtype != WEFT_STRING) return;
  weft_str_t text = weft_tensor_str_at(v->value, 0);
  if (weft_summary_has_values(text)) {
    weft_strbuf_append(b, text); /* messages one behind the other are their union */
  } else if (weft_wire_is_utf8(text)) {
    weft_event_put_text(b, v->tag, text);
  }
}

/* ---- steps ---- */

void weft_job_log_start_clock(weft_job_log_t *l, int64_t done) {
  l->last_step = done;
  l->last_ns = weft_clock_ns();
  l->rows = 0;
}

void weft_job_log_skip(weft_job_log_t *l, int64_t paused_ns) { l->last_ns += paused_ns; }

void weft_job_log_rows(weft_job_log_t *l, int64_t rows) { l->rows += rows; }

bool weft_job_log_wants(const weft_job_log_t *l, int64_t step, bool is_last) {
  return step > l->last_step && (is_last || step % l->every == 0);
}

static void put_speed(weft_job_log_t *l, weft_strbuf_t *b, int64_t steps, double seconds) {
  bool tells = !l->has_described;
  double n = (double)steps;
  if (steps <= 0 || seconds <= 0) return;
  l->has_described = true;
  weft_event_put_scalar(b, WEFT_STR("performance/steps_per_second"), (float)(n / seconds),
                        tells ? "Steps per second since the last event." : NULL);
  weft_event_put_scalar(b, WEFT_STR("performance/step_ms"), (float)(1000 * seconds / n),
                        tells ? "Milliseconds of a step, on average since the last event." : NULL);
  if (l->rows > 0) {
    weft_event_put_scalar(b, WEFT_STR("performance/examples_per_second"), (float)((double)l->rows / seconds),
                          tells ? "Rows of batches per second, over all replicas." : NULL);
  }
}

weft_status_t *weft_job_log_step(weft_job_log_t *l, int64_t step, const weft_job_log_value_t *values, int n) {
  int64_t now = weft_clock_ns();
  weft_strbuf_t *b = begin(l, step);
  size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
  for (int i = 0; i < n; i++) put_value(b, &values[i]);
  put_speed(l, b, step - l->last_step, (double)(now - l->last_ns) * 1e-9);
  l->last_step = step;
  l->last_ns = now;
  l->rows = 0;
  return end_summary(l, summary);
}

weft_status_t *weft_job_log_waits(weft_job_log_t *l, int64_t step, double share, double ms) {
  weft_strbuf_t *b = begin(l, step);
  size_t summary = weft_wire_begin(b, WEFT_EVENT_SUMMARY);
  weft_event_put_scalar(b, WEFT_STR("input/wait_share"), (float)share,
                        "Share of the time that steps waited for input, of the device that waited most.");
  weft_event_put_scalar(b, WEFT_STR("input/wait_ms_per_step"), (float)ms,
                        "Milliseconds that a step waited for input.");
  return end_summary(l, summary);
}

weft_status_t *weft_job_log_statistics(weft_job_log_t *l, int64_t step, weft_str_t run_metadata) {
  if (l->statistics_step != step) WEFT_RETURN_IF_ERROR(write_statistics(l));
  size_t before = l->statistics.length;
  l->statistics_step = step;
  weft_strbuf_append(&l->statistics, run_metadata); /* the union of both */
  if (!l->statistics.failed) return NULL;
  l->statistics.failed = false;
  l->statistics.length = before;
  return no_memory();
}
