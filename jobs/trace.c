/* jobs/trace.c - StepStats to events of a time line.
 *
 * Sources: the Trace Event Format ("X" complete events, "M" names, "s"/"f" flow
 * arrows); StepStats as in the reference, 2.5.
 */
#include "jobs/trace.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "ops/op.h"
#include "protos/wire.h"

/* Tracks below a device's threads. */
enum { TRACK_COLLECTIVES = 1000, TRACK_SENDS, TRACK_RECEIVES, TRACK_INPUT };

struct weft_job_trace {
  weft_mutex_t mu;
  json_t *events;     /* guarded by mu, like all below */
  weft_arena_t arena; /* names of devices */
  weft_map_t devices; /* name -> number + 1 */
  int num_devices, num_arrows;
};

/* One NodeExecStats. */
typedef struct span {
  weft_str_t node, label, op;
  int64_t start_ns, took_ns, scheduled_ns, bytes;
  uint64_t thread;
} span_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a trace"); }

weft_status_t *weft_job_trace_create(weft_job_trace_t **out) {
  weft_job_trace_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return no_memory();
  weft_mutex_init(&t->mu);
  t->events = json_array();
  t->devices = (weft_map_t)WEFT_MAP_INIT;
  t->arena = (weft_arena_t)WEFT_ARENA_INIT;
  *out = t;
  return NULL;
}

void weft_job_trace_destroy(weft_job_trace_t *t) {
  if (t == NULL) return;
  json_decref(t->events);
  weft_map_deinit(&t->devices);
  weft_arena_deinit(&t->arena);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static json_t *text(weft_str_t s) { return json_stringn_nocheck(s.data == NULL ? "" : s.data, s.length); }

static void name_track_locked(weft_job_trace_t *t, int device, int track, const char *kind, json_t *name) {
  json_array_append_new(t->events, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", kind, "pid",
                                             device, "tid", track, "args", "name", name));
}

/* The device's number; a new one gets its tracks. */
static weft_status_t *device_locked(weft_job_trace_t *t, weft_str_t name, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get(&t->devices, name);
  *out = (int)known - 1;
  if (known != 0) return NULL;
  name = weft_arena_str(&t->arena, name); /* the statistics go, the map stays */
  if (name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_map_put(&t->devices, name, (void *)(uintptr_t)(t->num_devices + 1), NULL));
  *out = t->num_devices++;
  name_track_locked(t, *out, 0, "process_name", text(name));
  name_track_locked(t, *out, TRACK_COLLECTIVES, "thread_name", json_string("collectives"));
  name_track_locked(t, *out, TRACK_SENDS, "thread_name", json_string("sends"));
  name_track_locked(t, *out, TRACK_RECEIVES, "thread_name", json_string("receives"));
  name_track_locked(t, *out, TRACK_INPUT, "thread_name", json_string("input"));
  return NULL;
}

/* ---- reading ---- */

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
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) bytes = (int64_t)f.value;
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

static bool read_span(weft_str_t bytes, span_t *out) {
  int64_t start_us = 0, took_us = 0;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (span_t){0};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): out->node = f.bytes; break;
      case WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT): start_us = (int64_t)f.value; break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT): took_us = (int64_t)f.value; break;
      case WEFT_WIRE_TAG(7, WEFT_WIRE_BYTES): out->bytes += output_bytes(f.bytes); break;
      case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES): out->label = f.bytes; break;
      case WEFT_WIRE_TAG(10, WEFT_WIRE_VARINT): out->thread = f.value; break;
      case WEFT_WIRE_TAG(13, WEFT_WIRE_VARINT): out->start_ns = (int64_t)f.value; break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): out->took_ns = (int64_t)f.value; break;
      case WEFT_WIRE_TAG(17, WEFT_WIRE_VARINT): out->scheduled_ns = (int64_t)f.value; break;
      default: break;
    }
  }
  if (out->start_ns == 0) out->start_ns = start_us * 1000;
  if (out->took_ns == 0) out->took_ns = took_us * 1000;
  out->op = op_of(out->label);
  return !r.failed;
}

/* ---- writing ---- */

static void add_event_locked(weft_job_trace_t *t, int device, int track, const char *kind, weft_str_t name,
                             const span_t *s) {
  json_t *args = json_pack("{s:o, s:I}", "label", text(s->label), "bytes", (json_int_t)s->bytes);
  if (s->scheduled_ns > 0) {
    json_object_set_new(args, "waited_us", json_real((double)(s->start_ns - s->scheduled_ns) / 1000));
  }
  json_array_append_new(
      t->events, json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", text(name), "cat",
                           kind, "pid", device, "tid", track, "ts", (double)s->start_ns / 1000, "dur",
                           (double)s->took_ns / 1000, "args", args));
}

static void add_arrow_locked(weft_job_trace_t *t, int from, int to, weft_str_t name, const span_t *s) {
  int id = t->num_arrows++;
  json_array_append_new(t->events, json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:f}", "ph", "s", "name",
                                             text(name), "cat", "transfer", "id", id, "pid", from, "tid",
                                             TRACK_SENDS, "ts", (double)s->start_ns / 1000));
  json_array_append_new(
      t->events, json_pack("{s:s, s:s, s:o, s:s, s:i, s:i, s:i, s:f}", "ph", "f", "bp", "e", "name",
                           text(name), "cat", "transfer", "id", id, "pid", to, "tid", TRACK_RECEIVES, "ts",
                           (double)(s->start_ns + s->took_ns) / 1000));
}

/* "[40000B] [2.2Gb/s] EDGE from SRC to DST": a send there and a receive here. */
static weft_status_t *add_transfer_locked(weft_job_trace_t *t, const span_t *s) {
  weft_str_t rest = s->label, skipped, edge, word, src, dst;
  while (rest.length > 0 && rest.data[0] == '[' && weft_str_split(rest, ' ', &skipped, &rest)) {
  }
  int from = 0, to = 0;
  bool ok = weft_str_split(rest, ' ', &edge, &rest) && weft_str_split(rest, ' ', &word, &rest) &&
            weft_str_is(word, "from") && weft_str_split(rest, ' ', &src, &rest) &&
            weft_str_split(rest, ' ', &word, &dst) && weft_str_is(word, "to");
  if (!ok) return NULL;
  WEFT_RETURN_IF_ERROR(device_locked(t, src, &from));
  WEFT_RETURN_IF_ERROR(device_locked(t, dst, &to));
  add_event_locked(t, from, TRACK_SENDS, "send", edge, s);
  add_event_locked(t, to, TRACK_RECEIVES, "receive", edge, s);
  add_arrow_locked(t, from, to, edge, s);
  return NULL;
}

/* Memory by what it is for, as a counter of the device. */
static void add_accounts_locked(weft_job_trace_t *t, int device, weft_str_t node, const span_t *s) {
  weft_wire_field_t f;
  json_t *in_use = json_object(), *most = json_object();
  for (weft_wire_reader_t r = weft_wire_reader(node); weft_wire_next(&r, &f);) {
    trace_account_t a;
    if (f.tag != WEFT_WIRE_TAG(6, WEFT_WIRE_BYTES) || !read_account(f.bytes, &a)) continue;
    json_object_setn_new_nocheck(in_use, a.name.data, a.name.length, json_integer(a.in_use));
    json_object_setn_new_nocheck(most, a.name.data, a.name.length, json_integer(a.most));
  }
  const char *const names[] = {"memory in use", "memory, at most"};
  json_t *const values[] = {in_use, most};
  for (int i = 0; i < 2; i++) {
    bool has_any = json_object_size(values[i]) > 0;
    if (has_any) {
      json_array_append_new(
          t->events, json_pack("{s:s, s:s, s:i, s:f, s:O}", "ph", "C", "name", names[i], "pid", device, "ts",
                               (double)s->start_ns / 1000, "args", values[i]));
    }
    json_decref(values[i]);
  }
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

static weft_status_t *add_device_locked(weft_job_trace_t *t, weft_str_t bytes) {
  weft_str_t device = weft_str_of("", 0);
  weft_wire_field_t f;
  int number = -1;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) device = f.bytes;
  }
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    span_t s;
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) || !read_span(f.bytes, &s)) continue;
    if (weft_str_is(s.node, "RecvTensor")) {
      WEFT_RETURN_IF_ERROR(add_transfer_locked(t, &s));
      continue;
    }
    if (number < 0) WEFT_RETURN_IF_ERROR(device_locked(t, device, &number));
    add_accounts_locked(t, number, f.bytes, &s);
    if (is_collective(s.op)) {
      add_event_locked(t, number, TRACK_COLLECTIVES, "collective", s.node, &s);
    } else if (waits_for_input(s.op)) {
      add_event_locked(t, number, TRACK_INPUT, "wait for input", s.node, &s);
    } else {
      add_event_locked(t, number, (int)(s.thread % TRACK_COLLECTIVES) + 1, "compute", s.node, &s);
    }
  }
  return NULL;
}

weft_status_t *weft_job_trace_add(weft_job_trace_t *t, weft_str_t run_metadata) {
  weft_wire_reader_t metadata = weft_wire_reader(run_metadata);
  weft_wire_field_t f, d;
  weft_status_t *s = NULL;
  weft_mutex_lock(&t->mu);
  while (s == NULL && weft_wire_next(&metadata, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    for (weft_wire_reader_t stats = weft_wire_reader(f.bytes); s == NULL && weft_wire_next(&stats, &d);) {
      if (d.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) s = add_device_locked(t, d.bytes);
    }
  }
  weft_mutex_unlock(&t->mu);
  if (s == NULL && metadata.failed)
    s = WEFT_ERROR(INVALID_ARGUMENT, "a step's statistics are no RunMetadata");
  return s;
}

weft_status_t *weft_job_trace_write(weft_job_trace_t *t, const char *option, const char *path) {
  weft_mutex_lock(&t->mu);
  json_t *all = json_pack("{s:O, s:s}", "traceEvents", t->events, "displayTimeUnit", "ms");
  weft_mutex_unlock(&t->mu);
  int failed = all == NULL ? -1 : json_dump_file(all, path, JSON_COMPACT);
  json_decref(all);
  return failed == 0 ? NULL : WEFT_ERROR(UNKNOWN, "%s %s: the file cannot be written", option, path);
}
