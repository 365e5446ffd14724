/* jobs/trace.c - StepStats to events of a time line.
 *
 * Spans are kept until the file is written: only then is known where the time line begins, and which spans of
 * a track overlap. Viewers want the spans of a track to nest, and events in a number format that keeps
 * nanoseconds.
 *
 * Sources: the Trace Event Format ("X" complete events, "M" names, "s"/"f" flow
 * arrows); StepStats as in the reference, 2.5.
 */
#include "jobs/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "io/file.h"
#include "ops/op.h"
#include "protos/wire.h"

/* Fields of Weft's own in NodeExecStats: worker/step_record.h. */
enum { INPUT_BYTES = 1001, FLOPS = 1002 };

/* In the order in which they stand below each other. */
typedef enum track_kind {
  TRACK_STEPS,
  TRACK_THREAD,
  TRACK_INPUT,
  TRACK_COLLECTIVES,
  TRACK_SENDS,
  TRACK_RECEIVES,
} track_kind_t;

typedef struct trace_event {
  enum { EVENT_SPAN, EVENT_COUNTER, EVENT_ARROW } kind;
  int process;
  track_kind_t track;
  uint64_t thread; /* of TRACK_THREAD */
  int64_t start_ns, took_ns;
  size_t from, to;      /* of an arrow: the spans */
  int track_id;         /* of a span: given when all are there */
  const char *category; /* of a span */
  json_t *name, *args;  /* owned */
} trace_event_t;

struct weft_job_trace {
  weft_mutex_t mu;
  trace_event_t *events; /* guarded by mu, like all below; owned */
  size_t num_events, capacity;
  weft_arena_t arena;   /* names of processes */
  weft_map_t processes; /* name -> number + 1 */
  weft_str_t *names;    /* by number; in `arena`, like the texts */
  int num_processes, processes_capacity;
  weft_trace_counts_t counts;
  int64_t step; /* the number of the step that is being added; 0: not known */
};

/* One NodeExecStats. */
typedef struct node_span {
  weft_str_t node, label, op;
  int64_t start_ns, took_ns, scheduled_ns, bytes, input_bytes, flops; /* flops: -1: not known */
  uint64_t thread;
} node_span_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a trace"); }

weft_status_t *weft_job_trace_create(weft_job_trace_t **out) {
  weft_job_trace_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return no_memory();
  weft_mutex_init(&t->mu);
  t->processes = (weft_map_t)WEFT_MAP_INIT;
  t->arena = (weft_arena_t)WEFT_ARENA_INIT;
  *out = t;
  return NULL;
}

void weft_job_trace_destroy(weft_job_trace_t *t) {
  if (t == NULL) return;
  for (size_t i = 0; i < t->num_events; i++) {
    json_decref(t->events[i].name);
    json_decref(t->events[i].args);
  }
  weft_free(t->events);
  weft_free(t->names);
  weft_map_deinit(&t->processes);
  weft_arena_deinit(&t->arena);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

/* Bytes that are not UTF-8 would make the whole file invalid. */
static json_t *text(weft_str_t s) {
  json_t *j = json_stringn(s.data == NULL ? "" : s.data, s.length);
  return j != NULL ? j : json_string("(not UTF-8)");
}

/* The number of a device or task; new ones are added. */
static weft_status_t *process_locked(weft_job_trace_t *t, weft_str_t name, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get(&t->processes, name);
  *out = (int)known - 1;
  if (known != 0) return NULL;
  if (t->num_processes == t->processes_capacity) {
    int capacity = t->processes_capacity == 0 ? 16 : t->processes_capacity * 2;
    weft_str_t *grown = weft_realloc(t->names, (size_t)capacity, sizeof *grown);
    if (grown == NULL) return no_memory();
    t->names = grown;
    t->processes_capacity = capacity;
  }
  name = weft_arena_str(&t->arena, name); /* the statistics go, the map stays */
  if (name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_map_put(&t->processes, name, (void *)(uintptr_t)(t->num_processes + 1), NULL));
  *out = t->num_processes++;
  t->names[*out] = name;
  return NULL;
}

/* Consumes what the event owns. */
static weft_status_t *add_event_locked(weft_job_trace_t *t, trace_event_t e) {
  if (t->num_events == t->capacity) {
    size_t capacity = t->capacity == 0 ? 256 : t->capacity * 2;
    trace_event_t *grown = weft_realloc(t->events, capacity, sizeof *grown);
    if (grown == NULL) {
      json_decref(e.name);
      json_decref(e.args);
      return no_memory();
    }
    t->events = grown;
    t->capacity = capacity;
  }
  t->events[t->num_events++] = e;
  return NULL;
}

/* ---- reading ---- */

/* A peer may send any number: moments and durations such that sums of two do not overflow, and bytes
 * likewise. */
static int64_t sane(uint64_t value, int64_t largest) {
  return value <= (uint64_t)largest ? (int64_t)value : 0;
}
#define LARGEST_US INT64_C(4000000000000000)
#define LARGEST_NS (1000 * LARGEST_US)

/* Sums stay at the largest number instead of going beyond it. */
static void add(int64_t *sum, int64_t more) { *sum = *sum > INT64_MAX - more ? INT64_MAX : *sum + more; }

/* Bytes of NodeOutput: tensor_description (3), allocation_description (4), requested_bytes (1). */
static int64_t output_bytes(weft_str_t output) {
  static const uint32_t path[] = {WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES), WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)};
  weft_wire_field_t f;
  weft_str_t at = output;
  for (size_t k = 0; k < sizeof path / sizeof path[0]; k++) {
    weft_wire_reader_t r = weft_wire_reader(at);
    at = weft_str_of(NULL, 0);
    while (weft_wire_next(&r, &f)) {
      if (f.tag == path[k]) at = f.bytes;
    }
  }
  int64_t bytes = 0;
  weft_wire_reader_t r = weft_wire_reader(at);
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) bytes = sane(f.value, LARGEST_US);
  }
  return bytes;
}

/* "name = Op(inputs)": Op. */
static weft_str_t op_of(weft_str_t label) {
  weft_str_t name, rest, op, inputs;
  if (!weft_str_split(label, '=', &name, &rest) || !weft_str_split(rest, '(', &op, &inputs))
    return weft_str_of("", 0);
  while (op.length > 0 && op.data[0] == ' ') op = weft_str_of(op.data + 1, op.length - 1);
  return op;
}

/* AllocatorMemoryUsed "account/param": most (3) and in use (4). */
typedef struct trace_account {
  weft_str_t name;
  int64_t most, in_use;
} trace_account_t;

static bool read_account(weft_str_t bytes, trace_account_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (trace_account_t){0};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) out->name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_VARINT)) out->most = (int64_t)f.value;
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_VARINT)) out->in_use = (int64_t)f.value;
  }
  if (!weft_str_starts_with(out->name, "account/")) return false;
  out->name = weft_str_of(out->name.data + 8, out->name.length - 8);
  return true;
}

static bool read_span(weft_str_t bytes, node_span_t *out) {
  int64_t start_us = 0, took_us = 0;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (node_span_t){.flops = -1};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): out->node = f.bytes; break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT): start_us = sane(f.value, LARGEST_US); break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT): took_us = sane(f.value, LARGEST_US); break;
      case WEFT_WIRE_TAG(7, WEFT_WIRE_BYTES): add(&out->bytes, output_bytes(f.bytes)); break;
      case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES): out->label = f.bytes; break;
      case WEFT_WIRE_TAG(10, WEFT_WIRE_VARINT): out->thread = f.value; break;
      case WEFT_WIRE_TAG(13, WEFT_WIRE_VARINT): out->start_ns = sane(f.value, LARGEST_NS); break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): out->took_ns = sane(f.value, LARGEST_NS); break;
      case WEFT_WIRE_TAG(17, WEFT_WIRE_VARINT): out->scheduled_ns = sane(f.value, LARGEST_NS); break;
      case WEFT_WIRE_TAG(INPUT_BYTES, WEFT_WIRE_VARINT): out->input_bytes = sane(f.value, LARGEST_US); break;
      case WEFT_WIRE_TAG(FLOPS, WEFT_WIRE_VARINT): out->flops = sane(f.value, LARGEST_NS); break;
      default: break;
    }
  }
  if (out->start_ns == 0) out->start_ns = start_us * 1000;
  if (out->took_ns == 0) out->took_ns = took_us * 1000;
  if (out->took_ns < 1) out->took_ns = 1; /* what takes no time has no place on a time line */
  out->op = op_of(out->label);
  return !r.failed;
}

/* ---- adding ---- */

static weft_status_t *add_span_locked(weft_job_trace_t *t, int process, track_kind_t track,
                                      const char *category, weft_str_t name, const node_span_t *s) {
  json_t *args = json_pack("{s:o, s:I}", "label", text(s->label), "bytes", (json_int_t)s->bytes);
  if (t->step > 0) json_object_set_new(args, "step", json_integer(t->step));
  if (s->scheduled_ns > 0)
    json_object_set_new(args, "waited_us", json_real((double)(s->start_ns - s->scheduled_ns) / 1000));
  if (s->input_bytes > 0) json_object_set_new(args, "input_bytes", json_integer(s->input_bytes));
  if (s->flops > 0) {
    json_object_set_new(args, "flops", json_integer(s->flops));
    json_object_set_new(args, "gflops_per_second", json_real((double)s->flops / (double)s->took_ns));
  }
  return add_event_locked(t, (trace_event_t){.kind = EVENT_SPAN,
                                             .process = process,
                                             .track = track,
                                             .thread = track == TRACK_THREAD ? s->thread : 0,
                                             .start_ns = s->start_ns,
                                             .took_ns = s->took_ns,
                                             .category = category,
                                             .name = text(name),
                                             .args = args});
}

/* "[40000B] [2.2Gb/s] EDGE from SRC to DST": a send there and a receive here. */
static weft_status_t *add_transfer_locked(weft_job_trace_t *t, const node_span_t *s) {
  weft_str_t rest = s->label, skipped, edge, word, src, dst;
  while (rest.length > 0 && rest.data[0] == '[' && weft_str_split(rest, ' ', &skipped, &rest)) {
  }
  int from = 0, to = 0;
  bool ok = weft_str_split(rest, ' ', &edge, &rest) && weft_str_split(rest, ' ', &word, &rest) &&
            weft_str_is(word, "from") && weft_str_split(rest, ' ', &src, &rest) &&
            weft_str_split(rest, ' ', &word, &dst) && weft_str_is(word, "to");
  if (!ok) return NULL;
  WEFT_RETURN_IF_ERROR(process_locked(t, src, &from));
  WEFT_RETURN_IF_ERROR(process_locked(t, dst, &to));
  WEFT_RETURN_IF_ERROR(add_span_locked(t, from, TRACK_SENDS, "send", edge, s));
  WEFT_RETURN_IF_ERROR(add_span_locked(t, to, TRACK_RECEIVES, "receive", edge, s));
  t->counts.num_arrows++;
  add(&t->counts.moved_bytes, s->bytes);
  return add_event_locked(t, (trace_event_t){.kind = EVENT_ARROW,
                                             .start_ns = s->start_ns,
                                             .took_ns = s->took_ns,
                                             .from = t->num_events - 2,
                                             .to = t->num_events - 1,
                                             .name = text(edge)});
}

/* Memory by what it is for, as a counter of the device. */
static weft_status_t *add_accounts_locked(weft_job_trace_t *t, int process, weft_str_t node,
                                          const node_span_t *s) {
  weft_wire_field_t f;
  weft_status_t *failed = NULL;
  json_t *in_use = json_object(), *most = json_object();
  for (weft_wire_reader_t r = weft_wire_reader(node); weft_wire_next(&r, &f);) {
    trace_account_t a;
    if (f.tag != WEFT_WIRE_TAG(6, WEFT_WIRE_BYTES) || !read_account(f.bytes, &a)) continue;
    (void)json_object_setn_new(in_use, a.name.data, a.name.length, json_integer(a.in_use));
    (void)json_object_setn_new(most, a.name.data, a.name.length, json_integer(a.most));
  }
  const char *const names[] = {"memory in use", "memory, at most"};
  json_t *const values[] = {in_use, most};
  for (int i = 0; i < 2; i++) {
    if (failed != NULL || json_object_size(values[i]) == 0) {
      json_decref(values[i]);
      continue;
    }
    failed = add_event_locked(t, (trace_event_t){.kind = EVENT_COUNTER,
                                                 .process = process,
                                                 .start_ns = s->start_ns,
                                                 .name = json_string(names[i]),
                                                 .args = values[i]});
  }
  return failed;
}

static bool is_collective(weft_str_t op) {
  return weft_str_starts_with(op, "Collective") || weft_str_starts_with(op, "WeftCollective");
}

/* What takes an element from a pipeline, or from a queue, does nothing but wait for it. */
static bool waits_for_input(weft_str_t op) {
  const weft_op_def_t *def = weft_op_find(op);
  return (def != NULL && def->batch == WEFT_BATCH_BATCH_READER) ||
         weft_str_is(op, "IteratorGetNextAsOptional") ||
         weft_str_is(op, "MultiDeviceIteratorGetNextFromShard");
}

static weft_status_t *add_node_locked(weft_job_trace_t *t, int process, const node_span_t *s) {
  t->counts.num_spans++;
  if (is_collective(s->op)) return add_span_locked(t, process, TRACK_COLLECTIVES, "collective", s->node, s);
  if (waits_for_input(s->op)) return add_span_locked(t, process, TRACK_INPUT, "wait for input", s->node, s);
  return add_span_locked(t, process, TRACK_THREAD, "compute", s->node, s);
}

static weft_status_t *add_device_locked(weft_job_trace_t *t, weft_str_t bytes, int64_t offset_ns) {
  weft_str_t device = weft_str_of("", 0);
  weft_wire_field_t f;
  int process = -1;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) device = f.bytes;
  }
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    node_span_t s;
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) || !read_span(f.bytes, &s)) continue;
    s.start_ns += offset_ns;
    if (s.scheduled_ns > 0) s.scheduled_ns += offset_ns;
    if (weft_str_is(s.node, "RecvTensor")) {
      WEFT_RETURN_IF_ERROR(add_transfer_locked(t, &s));
      continue;
    }
    if (process < 0) WEFT_RETURN_IF_ERROR(process_locked(t, device, &process));
    WEFT_RETURN_IF_ERROR(add_accounts_locked(t, process, f.bytes, &s));
    WEFT_RETURN_IF_ERROR(add_node_locked(t, process, &s));
  }
  return NULL;
}

static weft_status_t *add_stats_locked(weft_job_trace_t *t, weft_str_t step_stats, int64_t offset_ns) {
  weft_wire_field_t d;
  for (weft_wire_reader_t stats = weft_wire_reader(step_stats); weft_wire_next(&stats, &d);) {
    if (d.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES))
      WEFT_RETURN_IF_ERROR(add_device_locked(t, d.bytes, offset_ns));
  }
  return NULL;
}

weft_status_t *weft_job_trace_add(weft_job_trace_t *t, weft_str_t run_metadata) {
  weft_wire_reader_t metadata = weft_wire_reader(run_metadata);
  weft_wire_field_t f;
  weft_status_t *s = NULL;
  weft_mutex_lock(&t->mu);
  while (s == NULL && weft_wire_next(&metadata, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) s = add_stats_locked(t, f.bytes, 0);
  }
  weft_mutex_unlock(&t->mu);
  if (s == NULL && metadata.failed)
    s = WEFT_ERROR(INVALID_ARGUMENT, "a step's statistics are no RunMetadata");
  return s;
}

weft_status_t *weft_job_trace_add_part(weft_job_trace_t *t, const weft_trace_part_t *p) {
  char name[32];
  snprintf(name, sizeof name, "step %" PRId64, p->number);
  const int64_t start_us = sane((uint64_t)p->start_micros, LARGEST_US);
  const int64_t took_ns = (sane((uint64_t)p->end_micros, LARGEST_US) - start_us) * 1000;
  const int64_t most = LARGEST_US / 4, offset_us = p->offset_micros > most    ? most
                                                   : p->offset_micros < -most ? -most
                                                                              : p->offset_micros;
  json_t *args = json_pack("{s:I, s:o, s:o}", "step_id", (json_int_t)p->step_id, "session", text(p->session),
                           "graph", text(p->graph));
  if (p->failure.length > 0) json_object_set_new(args, "failure", text(p->failure));
  trace_event_t step = {.kind = EVENT_SPAN,
                        .track = TRACK_STEPS,
                        .start_ns = (start_us + offset_us) * 1000,
                        .took_ns = took_ns < 1 ? 1 : took_ns,
                        .category = "step",
                        .name = json_string(name),
                        .args = args};
  weft_mutex_lock(&t->mu);
  weft_status_t *s = process_locked(t, p->task, &step.process);
  if (s == NULL) {
    s = add_event_locked(t, step);
  } else {
    json_decref(step.name);
    json_decref(step.args);
  }
  t->step = p->number;
  if (s == NULL) s = add_stats_locked(t, p->step_stats, offset_us * 1000);
  t->step = 0;
  weft_mutex_unlock(&t->mu);
  return s;
}

weft_trace_counts_t weft_job_trace_counts(weft_job_trace_t *t) {
  weft_mutex_lock(&t->mu);
  weft_trace_counts_t counts = t->counts;
  weft_mutex_unlock(&t->mu);
  return counts;
}

/* ---- tracks ---- */

/* By track, then by start; of two that start at once the longer one first. */
static int compare_spans(const void *a, const void *b) {
  const trace_event_t *x = *(trace_event_t *const *)a, *y = *(trace_event_t *const *)b;
  if (x->process != y->process) return x->process < y->process ? -1 : 1;
  if (x->track != y->track) return x->track < y->track ? -1 : 1;
  if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
  if (x->took_ns != y->took_ns) return x->took_ns > y->took_ns ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool is_same_track(const trace_event_t *x, const trace_event_t *y) {
  return x->process == y->process && x->track == y->track && x->thread == y->thread;
}

static void name_track(json_t *out, int process, int track, const char *kind, const char *key,
                       json_t *value) {
  json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", kind, "pid",
                                       process + 1, "tid", track, "args", key, value));
}

/* A new track; `band` counts those beside each other. */
static void open_track(json_t *out, const trace_event_t *e, int track, int band) {
  static const char *const names[] = {"steps", "", "input", "collectives", "sends", "receives"};
  enum { NAME_BYTES = 64 };
  char name[NAME_BYTES];
  if (e->track == TRACK_THREAD) {
    snprintf(name, sizeof name, "thread %" PRIu64, e->thread);
  } else {
    snprintf(name, sizeof name, "%s", names[e->track]);
  }
  if (band > 0) snprintf(name + strlen(name), sizeof name - strlen(name), " (%d)", band + 1);
  name_track(out, e->process, track, "thread_name", "name", json_string(name));
  name_track(out, e->process, track, "thread_sort_index", "sort_index", json_integer(track));
}

/* Gives each span a track on which nothing overlaps it; numbers are unique in the trace. `ends`: room for an
 * end of each track, num_spans of them. */
static void assign_tracks(trace_event_t **spans, size_t num_spans, int64_t *ends, json_t *out) {
  int first = 1, num_bands = 0;
  for (size_t i = 0; i < num_spans; i++) {
    trace_event_t *e = spans[i];
    if (i > 0 && !is_same_track(spans[i - 1], e)) {
      first += num_bands;
      num_bands = 0;
    }
    int band = 0;
    while (band < num_bands && ends[band] > e->start_ns) band++;
    if (band == num_bands) {
      num_bands++;
      open_track(out, e, first + band, band);
    }
    ends[band] = e->start_ns + e->took_ns;
    e->track_id = first + band;
  }
}

static weft_status_t *make_tracks(weft_job_trace_t *t, json_t *out) {
  trace_event_t **spans = weft_calloc(t->num_events + 1, sizeof(trace_event_t *));
  int64_t *ends = weft_calloc(t->num_events + 1, sizeof *ends);
  size_t n = 0;
  if (spans == NULL || ends == NULL) {
    weft_free(spans);
    weft_free(ends);
    return no_memory();
  }
  for (size_t i = 0; i < t->num_events; i++) {
    if (t->events[i].kind == EVENT_SPAN) spans[n++] = &t->events[i];
  }
  qsort(spans, n, sizeof spans[0], compare_spans);
  assign_tracks(spans, n, ends, out);
  weft_free(spans);
  weft_free(ends);
  return NULL;
}

/* ---- writing ---- */

static double micros(int64_t ns) { return (double)ns / 1000; }

static void put_span(json_t *out, const trace_event_t *e, int64_t origin_ns) {
  json_array_append_new(
      out, json_pack("{s:s, s:O, s:s, s:i, s:i, s:f, s:f, s:O}", "ph", "X", "name", e->name, "cat",
                     e->category, "pid", e->process + 1, "tid", e->track_id, "ts",
                     micros(e->start_ns - origin_ns), "dur", micros(e->took_ns), "args", e->args));
}

static void put_counter(json_t *out, const trace_event_t *e, int64_t origin_ns) {
  json_array_append_new(
      out, json_pack("{s:s, s:O, s:i, s:f, s:O}", "ph", "C", "name", e->name, "pid", e->process + 1, "ts",
                     micros(e->start_ns - origin_ns), "args", e->args));
}

/* From the begin of the send to the last moment of the receive, so that both ends are on their spans. */
static void put_arrow(json_t *out, const weft_job_trace_t *t, const trace_event_t *e, int id,
                      int64_t origin_ns) {
  const trace_event_t *from = &t->events[e->from], *to = &t->events[e->to];
  json_array_append_new(out, json_pack("{s:s, s:O, s:s, s:i, s:i, s:i, s:f}", "ph", "s", "name", e->name,
                                       "cat", "transfer", "id", id, "pid", from->process + 1, "tid",
                                       from->track_id, "ts", micros(from->start_ns - origin_ns)));
  json_array_append_new(
      out, json_pack("{s:s, s:s, s:O, s:s, s:i, s:i, s:i, s:f}", "ph", "f", "bp", "e", "name", e->name, "cat",
                     "transfer", "id", id, "pid", to->process + 1, "tid", to->track_id, "ts",
                     micros(to->start_ns + to->took_ns - 1 - origin_ns)));
}

/* Tasks and devices in the order of their names: a task's devices follow it. */
static void put_processes(json_t *out, const weft_job_trace_t *t) {
  for (int i = 0; i < t->num_processes; i++) {
    int place = 0;
    for (int k = 0; k < t->num_processes; k++) place += weft_str_compare(t->names[k], t->names[i]) < 0;
    name_track(out, i, 0, "process_name", "name", text(t->names[i]));
    name_track(out, i, 0, "process_sort_index", "sort_index", json_integer(place));
  }
}

static weft_status_t *make_events(weft_job_trace_t *t, json_t *out, int64_t *origin_ns) {
  int num_arrows = 0;
  *origin_ns = t->num_events > 0 ? t->events[0].start_ns : 0;
  for (size_t i = 0; i < t->num_events; i++) {
    if (t->events[i].start_ns < *origin_ns) *origin_ns = t->events[i].start_ns;
  }
  put_processes(out, t);
  WEFT_RETURN_IF_ERROR(make_tracks(t, out));
  for (size_t i = 0; i < t->num_events; i++) {
    const trace_event_t *e = &t->events[i];
    switch (e->kind) {
      case EVENT_SPAN: put_span(out, e, *origin_ns); break;
      case EVENT_COUNTER: put_counter(out, e, *origin_ns); break;
      case EVENT_ARROW: put_arrow(out, t, e, num_arrows++, *origin_ns); break;
    }
  }
  return NULL;
}

typedef struct json_file {
  weft_file_writer_t *writer;
  weft_status_t *status; /* of the first piece that was not written */
} json_file_t;

static int put_piece(const char *text, size_t n, void *arg) {
  json_file_t *file = arg;
  file->status = weft_file_writer_append(file->writer, text, n);
  return file->status == NULL ? 0 : -1;
}

static weft_status_t *write_json(const json_t *value, const char *path) {
  json_file_t file = {NULL, NULL};
  WEFT_RETURN_IF_ERROR(weft_file_writer_create(path, &file.writer));
  const bool is_whole = json_dump_callback(value, put_piece, &file, JSON_COMPACT) == 0;
  if (is_whole) return weft_file_writer_finish(file.writer);
  weft_file_writer_abandon(file.writer);
  return file.status != NULL ? file.status : WEFT_NO_MEMORY("writing %s", path);
}

weft_status_t *weft_job_trace_write(weft_job_trace_t *t, const char *option, const char *path) {
  json_t *events = json_array();
  int64_t origin_ns = 0;
  weft_mutex_lock(&t->mu);
  weft_status_t *s = make_events(t, events, &origin_ns);
  weft_mutex_unlock(&t->mu);
  json_t *all = json_pack("{s:o, s:s, s:{s:I}}", "traceEvents", events, "displayTimeUnit", "ms", "otherData",
                          "begins_at_unix_us", (json_int_t)(origin_ns / 1000));
  if (s == NULL) s = all == NULL ? WEFT_NO_MEMORY("writing %s", path) : write_json(all, path);
  json_decref(all);
  return s == NULL ? NULL : weft_status_annotate(s, "%s %s", option, path);
}
