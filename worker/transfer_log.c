/* worker/transfer_log.c - a table of steps, each with the encoded statistics of its transfers.
 *
 * Source: TensorFlow's WorkerCacheLogger: the name "RecvTensor", the label, and
 * that a log which grows too long is emptied.
 *
 * Locking: `mu` is a leaf. `interest` counts reasons to log (open runs, and one
 * for "enabled") and is read without it, so that steps that are not traced pay
 * one load.
 */
#include "worker/transfer_log.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "protos/wire.h"
#include "rendezvous/rendezvous.h"

enum { MAX_STEPS = 1024 }; /* of an enabled log that is not read */

typedef struct device_log {
  struct device_log *next;
  char *device;        /* owned */
  weft_strbuf_t nodes; /* DeviceStepStats' node_stats */
} device_log_t;

typedef struct step_log {
  bool is_open; /* a run will take it */
  device_log_t *devices;
} step_log_t;

struct weft_transfer_log {
  atomic_int interest;
  weft_mutex_t mu;
  bool enabled;     /* guarded by mu */
  weft_map_t steps; /* guarded by mu: id -> step_log_t */
  int num_steps;    /* guarded by mu */
};

weft_status_t *weft_transfer_log_create(weft_transfer_log_t **out) {
  weft_transfer_log_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("a log of transfers");
  weft_mutex_init(&l->mu);
  *out = l;
  return NULL;
}

static void free_devices(device_log_t *d) {
  while (d != NULL) {
    device_log_t *next = d->next;
    weft_strbuf_deinit(&d->nodes);
    weft_free(d->device);
    weft_free(d);
    d = next;
  }
}

static void free_step(step_log_t *s) {
  if (s != NULL) free_devices(s->devices);
  weft_free(s);
}

void weft_transfer_log_destroy(weft_transfer_log_t *l) {
  if (l == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&l->steps, &at, &e);) free_step(e.value);
  weft_map_deinit(&l->steps);
  weft_mutex_deinit(&l->mu);
  weft_free(l);
}

bool weft_transfer_log_wants(weft_transfer_log_t *l, int64_t step_id) {
  if (l == NULL || atomic_load_explicit(&l->interest, memory_order_relaxed) == 0) return false;
  weft_mutex_lock(&l->mu);
  bool yes = l->enabled || weft_map_get_u64(&l->steps, (uint64_t)step_id) != NULL;
  weft_mutex_unlock(&l->mu);
  return yes;
}

/* ---- adding ---- */

/* "[40000B] [2.2Gb/s] edge_8_x from /job:... to /job:..." */
static void put_label(const weft_transfer_t *t, const weft_key_parts_t *parts, weft_strbuf_t *out) {
  double bytes = (double)t->bytes, micros = (double)(t->end_micros - t->start_micros);
  double megabits = 8.0 * bytes / (micros < 1 ? 1 : micros);
  if (bytes >= 0.1 * 1048576.0) {
    weft_strbuf_printf(out, "[%.1fMB] ", bytes / 1048576.0);
  } else {
    weft_strbuf_printf(out, "[%lldB] ", (long long)t->bytes);
  }
  if (megabits >= 1000.0) {
    weft_strbuf_printf(out, "[%.1fGb/s] ", megabits / 1000.0);
  } else {
    weft_strbuf_printf(out, "[%.6gMb/s] ", megabits);
  }
  weft_strbuf_printf(out, "%.*s from %.*s to %.*s", WEFT_STR_ARGS(parts->edge),
                     WEFT_STR_ARGS(parts->src_device), WEFT_STR_ARGS(parts->dst_device));
}

/* NodeExecStats; field numbers: reference 2.5. */
static void put_node(const weft_transfer_t *t, const weft_key_parts_t *parts, weft_strbuf_t *out) {
  weft_strbuf_t label = WEFT_STRBUF_INIT;
  put_label(t, parts, &label);
  int64_t took = t->end_micros - t->start_micros;
  size_t node = weft_wire_begin(out, 2);
  weft_wire_put_text(out, 1, "RecvTensor");
  weft_wire_put_i64(out, 2, t->start_micros);
  weft_wire_put_i64(out, 4, took);
  weft_wire_put_i64(out, 5, took);
  size_t output = weft_wire_begin(out, 7);
  size_t description = weft_wire_begin(out, 3);
  size_t allocation = weft_wire_begin(out, 4);
  weft_wire_put_i64(out, 1, t->bytes);
  weft_wire_end(out, allocation);
  weft_wire_end(out, description);
  weft_wire_end(out, output);
  weft_wire_put_bytes(out, 8, weft_str_of(label.data, label.length));
  weft_wire_end(out, node);
  if (label.failed) out->failed = true;
  weft_strbuf_deinit(&label);
}

/* The step's log, made if the log is on for all; NULL if it is not wanted. */
static step_log_t *step_locked(weft_transfer_log_t *l, int64_t step_id, bool make) WEFT_REQUIRES(l->mu) {
  step_log_t *s = weft_map_get_u64(&l->steps, (uint64_t)step_id);
  if (s != NULL || !make) return s;
  s = weft_calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  weft_status_t *failed = weft_map_put_u64(&l->steps, (uint64_t)step_id, s, NULL);
  if (failed != NULL) {
    weft_status_free(failed);
    weft_free(s);
    return NULL;
  }
  l->num_steps++;
  return s;
}

static device_log_t *device_of(step_log_t *s, weft_str_t device) {
  device_log_t *d = s->devices;
  while (d != NULL && !weft_str_is(device, d->device)) d = d->next;
  if (d != NULL) return d;
  d = weft_calloc(1, sizeof *d);
  if (d != NULL) d->device = weft_strndup(device.data, device.length);
  if (d == NULL || d->device == NULL) {
    weft_free(d);
    return NULL;
  }
  d->next = s->devices;
  s->devices = d;
  return d;
}

static void clear_locked(weft_transfer_log_t *l) WEFT_REQUIRES(l->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&l->steps, &at, &e);) {
    step_log_t *s = e.value;
    free_devices(s->devices);
    s->devices = NULL;
    if (s->is_open) continue;
    weft_map_remove_u64(&l->steps, e.key.length);
    l->num_steps--;
    weft_free(s);
  }
}

void weft_transfer_log_add(weft_transfer_log_t *l, const weft_transfer_t *t) {
  weft_key_parts_t parts;
  weft_status_t *bad = weft_key_parse(t->key, &parts);
  weft_strbuf_t node = WEFT_STRBUF_INIT;
  if (bad == NULL) put_node(t, &parts, &node);
  if (bad == NULL && !node.failed) {
    weft_mutex_lock(&l->mu);
    if (l->num_steps >= MAX_STEPS) clear_locked(l);
    step_log_t *s = step_locked(l, t->step_id, l->enabled);
    device_log_t *d = s == NULL ? NULL : device_of(s, parts.dst_device);
    if (d != NULL) weft_strbuf_append(&d->nodes, weft_str_of(node.data, node.length));
    weft_mutex_unlock(&l->mu);
  }
  weft_strbuf_deinit(&node);
  weft_status_free(bad);
}

/* ---- reading ---- */

void weft_transfer_log_open(weft_transfer_log_t *l, int64_t step_id) {
  weft_mutex_lock(&l->mu);
  step_log_t *s = step_locked(l, step_id, true);
  if (s != NULL && !s->is_open) {
    s->is_open = true;
    atomic_fetch_add(&l->interest, 1);
  }
  weft_mutex_unlock(&l->mu);
}

static void put_devices(const step_log_t *s, weft_strbuf_t *out) {
  for (device_log_t *d = s == NULL ? NULL : s->devices; d != NULL; d = d->next) {
    if (d->nodes.failed) continue;
    size_t stats = weft_wire_begin(out, 1);
    weft_wire_put_text(out, 1, d->device);
    weft_strbuf_append(out, weft_str_of(d->nodes.data, d->nodes.length));
    weft_wire_end(out, stats);
  }
}

void weft_transfer_log_copy(weft_transfer_log_t *l, int64_t step_id, weft_strbuf_t *out) {
  weft_mutex_lock(&l->mu);
  put_devices(weft_map_get_u64(&l->steps, (uint64_t)step_id), out);
  weft_mutex_unlock(&l->mu);
}

void weft_transfer_log_take(weft_transfer_log_t *l, int64_t step_id, weft_strbuf_t *out) {
  weft_mutex_lock(&l->mu);
  step_log_t *s = weft_map_remove_u64(&l->steps, (uint64_t)step_id);
  if (s != NULL) l->num_steps--;
  if (s != NULL && s->is_open) atomic_fetch_sub(&l->interest, 1);
  weft_mutex_unlock(&l->mu);
  put_devices(s, out);
  free_step(s);
}

void weft_transfer_log_enable(weft_transfer_log_t *l, bool enabled) {
  weft_mutex_lock(&l->mu);
  if (enabled != l->enabled) atomic_fetch_add(&l->interest, enabled ? 1 : -1);
  l->enabled = enabled;
  weft_mutex_unlock(&l->mu);
}

bool weft_transfer_log_is_enabled(weft_transfer_log_t *l) {
  weft_mutex_lock(&l->mu);
  bool yes = l->enabled;
  weft_mutex_unlock(&l->mu);
  return yes;
}

void weft_transfer_log_clear(weft_transfer_log_t *l) {
  weft_mutex_lock(&l->mu);
  clear_locked(l);
  weft_mutex_unlock(&l->mu);
}

/* ---- LoggingRequest {enable = 1, clear = 2, fetch_step_id = 3, disable = 4} ---- */

static void put_step(weft_transfer_log_t *l, int64_t step_id, weft_strbuf_t *out) {
  size_t step = weft_wire_begin(out, 1);
  weft_wire_put_i64(out, 1, step_id);
  size_t stats = weft_wire_begin(out, 2);
  weft_transfer_log_take(l, step_id, out);
  weft_wire_end(out, stats);
  weft_wire_end(out, step);
}

weft_status_t *weft_transfer_log_answer(weft_transfer_log_t *l, weft_str_t request, weft_strbuf_t *out) {
  bool enable = false, disable = false, clear = false, fetches = false;
  weft_wire_reader_t r = weft_wire_reader(request);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    bool is_varint = weft_wire_type(&f) == WEFT_WIRE_VARINT;
    if (weft_wire_number(&f) == 1 && is_varint) enable = f.value != 0;
    if (weft_wire_number(&f) == 2 && is_varint) clear = f.value != 0;
    if (weft_wire_number(&f) == 3 && (is_varint || weft_wire_type(&f) == WEFT_WIRE_BYTES)) fetches = true;
    if (weft_wire_number(&f) == 4 && is_varint) disable = f.value != 0;
  }
  if (r.failed) return WEFT_ERROR(INVALID_ARGUMENT, "LoggingRequest: malformed message");
  if (enable) weft_transfer_log_enable(l, true);
  /* Old masters switch off by a request that says nothing. */
  if (disable || (!enable && !fetches)) weft_transfer_log_enable(l, false);
  r = weft_wire_reader(request);
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != 3) continue;
    if (weft_wire_type(&f) == WEFT_WIRE_VARINT) put_step(l, (int64_t)f.value, out);
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES) continue;
    const uint8_t *p = (const uint8_t *)f.bytes.data, *end = p + f.bytes.length;
    uint64_t id;
    while (p != end && (p = weft_wire_get_varint(p, end, &id)) != NULL) put_step(l, (int64_t)id, out);
  }
  if (clear) weft_transfer_log_clear(l);
  return out->failed ? WEFT_NO_MEMORY("answering a LoggingRequest") : NULL;
}
