/* client/statistics.c - memory accounts out of a RunMetadata (field numbers: reference 2.5), and rows of link
 * counters. */
#include "client/statistics.h"

#include <stdio.h>

#include "protos/wire.h"

#define FIELD(number) WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)

/* AllocatorMemoryUsed: "account/<tag>" (1), most (3), in use (4). */
static bool read_account(weft_str_t bytes, weft_str_t tag, WEFT_MemoryUse *out) {
  WEFT_MemoryUse use = {0, 0};
  weft_str_t name = WEFT_STR("");
  weft_wire_field_t f;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == FIELD(1)) name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_VARINT)) use.high_water = (int64_t)f.value;
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_VARINT)) use.in_use = (int64_t)f.value;
  }
  const size_t prefix = sizeof "account/" - 1;
  if (!weft_str_starts_with(name, "account/") ||
      !weft_str_eq(weft_str_of(name.data + prefix, name.length - prefix), tag))
    return false;
  *out = use;
  return true;
}

/* NodeExecStats.memory (6). */
static bool read_node(weft_str_t bytes, weft_str_t tag, WEFT_MemoryUse *out) {
  weft_wire_field_t f;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == FIELD(6) && read_account(f.bytes, tag, out)) return true;
  }
  return false;
}

/* DeviceStepStats: device (1), node_stats (2). */
static bool read_device(weft_str_t bytes, weft_str_t device, weft_str_t tag, WEFT_MemoryUse *out) {
  weft_wire_field_t f;
  bool is_it = false;
  for (weft_wire_reader_t r = weft_wire_reader(bytes); weft_wire_next(&r, &f);) {
    if (f.tag == FIELD(1)) is_it = weft_str_eq(f.bytes, device);
    if (is_it && f.tag == FIELD(2) && read_node(f.bytes, tag, out)) return true;
  }
  return false;
}

int WEFT_StepMemory(const TF_Buffer *run_metadata, const char *device, const char *tag, WEFT_MemoryUse *out) {
  weft_wire_field_t f, d;
  *out = (WEFT_MemoryUse){0, 0};
  weft_str_t all = weft_str_of(run_metadata->data, run_metadata->length);
  for (weft_wire_reader_t r = weft_wire_reader(all); weft_wire_next(&r, &f);) {
    if (f.tag != FIELD(1)) continue; /* step_stats */
    for (weft_wire_reader_t s = weft_wire_reader(f.bytes); weft_wire_next(&s, &d);) {
      if (d.tag == FIELD(1) && read_device(d.bytes, weft_str(device), weft_str(tag), out)) return 1;
    }
  }
  return 0;
}

/* ---- links ---- */

typedef struct statistics_rows {
  WEFT_TransportCount *counts;
  int n, max;
} statistics_rows_t;

static void add_row(void *arg, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                    weft_link_count_t count) {
  statistics_rows_t *rows = arg;
  if (rows->n++ >= rows->max) return;
  WEFT_TransportCount *c = &rows->counts[rows->n - 1];
  snprintf(c->source, sizeof c->source, "%.*s", WEFT_STR_ARGS(src));
  snprintf(c->destination, sizeof c->destination, "%.*s", WEFT_STR_ARGS(dst));
  snprintf(c->traffic, sizeof c->traffic, "%s", weft_traffic_name(traffic));
  c->messages = count.messages;
  c->bytes = count.bytes;
}

int weft_client_counts(weft_link_counters_t *counters, WEFT_TransportCount *counts, int max) {
  statistics_rows_t rows = {counts, 0, counts == NULL ? 0 : max};
  weft_link_counters_each(counters, add_row, &rows);
  return rows.n;
}
