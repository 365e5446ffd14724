/* tools/observe/profile.c - a map from device, op and node to a row. */
#include "tools/observe/profile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash_map.h"
#include "ops/op.h"
#include "protos/wire.h"
#include "worker/step_record.h"

/* Below this share of both peaks neither bounds. */
static const double small_share = 0.1;

struct weft_profile {
  weft_profile_by_t by;
  weft_arena_t arena;        /* keys, names, rows */
  weft_map_t rows_by_key;    /* -> weft_profile_row_t */
  weft_profile_row_t **rows; /* owned; n */
  int n, capacity;
};

/* One NodeExecStats. */
typedef struct node_cost {
  weft_str_t node, label;
  int64_t took_us, took_ns, input_bytes, output_bytes, flops; /* flops: -1: not counted */
} node_cost_t;

const char *weft_bound_name(weft_bound_t b) {
  static const char *const names[] = {"neither", "compute", "memory"};
  return names[b];
}

weft_status_t *weft_profile_create(weft_profile_by_t by, weft_profile_t **out) {
  weft_profile_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("a profile");
  p->by = by;
  p->arena = (weft_arena_t)WEFT_ARENA_INIT;
  *out = p;
  return NULL;
}

void weft_profile_destroy(weft_profile_t *p) {
  if (p == NULL) return;
  weft_map_deinit(&p->rows_by_key);
  weft_arena_deinit(&p->arena);
  weft_free(p->rows);
  weft_free(p);
}

/* ---- reading ---- */

/* Sums stay at the largest number instead of going beyond it. */
static void add(int64_t *sum, int64_t more) { *sum = *sum > INT64_MAX - more ? INT64_MAX : *sum + more; }

/* A peer may send any number. */
static int64_t sane(uint64_t value) { return value <= (uint64_t)1 << 53 ? (int64_t)value : 0; }

/* The last field of that tag; empty: there is none. */
static weft_str_t bytes_of(weft_str_t message, uint32_t number) {
  weft_str_t found = WEFT_STR("");
  weft_wire_field_t f;
  for (weft_wire_reader_t r = weft_wire_reader(message); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) found = f.bytes;
  }
  return found;
}

static int64_t number_of(weft_str_t message, uint32_t number) {
  int64_t found = 0;
  weft_wire_field_t f;
  for (weft_wire_reader_t r = weft_wire_reader(message); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_VARINT)) found = sane(f.value);
  }
  return found;
}

/* NodeOutput: tensor_description (3), allocation_description (4), requested_bytes (1). */
static int64_t bytes_of_output(weft_str_t output) { return number_of(bytes_of(bytes_of(output, 3), 4), 1); }

static bool read_node(weft_str_t bytes, node_cost_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (node_cost_t){.node = WEFT_STR(""), .label = WEFT_STR(""), .flops = -1};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): out->node = f.bytes; break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT): out->took_us = sane(f.value); break;
      case WEFT_WIRE_TAG(7, WEFT_WIRE_BYTES): add(&out->output_bytes, bytes_of_output(f.bytes)); break;
      case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES): out->label = f.bytes; break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): out->took_ns = sane(f.value); break;
      case WEFT_WIRE_TAG(WEFT_NODE_STATS_INPUT_BYTES, WEFT_WIRE_VARINT):
        out->input_bytes = sane(f.value);
        break;
      case WEFT_WIRE_TAG(WEFT_NODE_STATS_FLOPS, WEFT_WIRE_VARINT): out->flops = sane(f.value); break;
      default: break;
    }
  }
  if (out->took_ns == 0) out->took_ns = out->took_us * 1000;
  return !r.failed;
}

/* "name = Op(inputs)": Op. */
static weft_str_t op_of(weft_str_t label) {
  weft_str_t name, rest, op, inputs;
  if (!weft_str_split(label, '=', &name, &rest) || !weft_str_split(rest, '(', &op, &inputs))
    return WEFT_STR("");
  while (op.length > 0 && op.data[0] == ' ') op = weft_str_of(op.data + 1, op.length - 1);
  return op;
}

/* "[40000B] [2.2Gb/s] edge_8_x from SRC to DST": the tensor. */
static weft_str_t edge_of(weft_str_t label) {
  weft_str_t rest = label, skipped, edge;
  while (rest.length > 0 && rest.data[0] == '[' && weft_str_split(rest, ' ', &skipped, &rest)) {
  }
  return weft_str_split(rest, ' ', &edge, &skipped) ? edge : rest;
}

/* ---- rows ---- */

static bool moves_bytes(weft_str_t op) {
  const uint64_t moves_none = WEFT_OP_IDENTITY | WEFT_OP_BUNDLE | WEFT_OP_READ | WEFT_OP_VIEW |
                              WEFT_OP_METADATA | WEFT_OP_SHAPE | WEFT_OP_NOOP | WEFT_OP_CONST |
                              WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT |
                              WEFT_OP_NEXT_ITERATION;
  const weft_op_def_t *def = weft_op_find(op);
  return def == NULL || (def->flags & moves_none) == 0;
}

static weft_status_t *new_row(weft_profile_t *p, weft_str_t key, weft_str_t device, weft_str_t name,
                              weft_str_t op, weft_profile_row_t **out) {
  if (p->n == p->capacity) {
    int capacity = p->capacity == 0 ? 64 : p->capacity * 2;
    weft_profile_row_t **grown = weft_realloc(p->rows, (size_t)capacity, sizeof(weft_profile_row_t *));
    if (grown == NULL) return WEFT_NO_MEMORY("a profile");
    p->rows = grown;
    p->capacity = capacity;
  }
  weft_profile_row_t *row = weft_arena_calloc(&p->arena, 1, sizeof *row);
  const weft_str_t kept = weft_arena_str(&p->arena, key);
  if (row == NULL || kept.data == NULL) return WEFT_NO_MEMORY("a profile");
  row->device = weft_arena_str(&p->arena, device);
  row->name = weft_arena_str(&p->arena, name);
  row->op = weft_arena_str(&p->arena, op);
  if (row->device.data == NULL || row->name.data == NULL || row->op.data == NULL)
    return WEFT_NO_MEMORY("a profile");
  row->moves_bytes = moves_bytes(op);
  WEFT_RETURN_IF_ERROR(weft_map_put(&p->rows_by_key, kept, row, NULL));
  p->rows[p->n++] = row;
  *out = row;
  return NULL;
}

static weft_status_t *find_row(weft_profile_t *p, weft_str_t device, weft_str_t name, weft_str_t op,
                               weft_profile_row_t **out) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_strbuf_append(&key, device);
  weft_strbuf_putc(&key, '\0');
  weft_strbuf_append(&key, op);
  weft_strbuf_putc(&key, '\0');
  weft_strbuf_append(&key, name);
  weft_status_t *s = key.failed ? WEFT_NO_MEMORY("a profile") : NULL;
  const weft_str_t text = weft_str_of(key.data, key.length);
  if (s == NULL) *out = weft_map_get(&p->rows_by_key, text);
  if (s == NULL && *out == NULL) s = new_row(p, text, device, name, op, out);
  weft_strbuf_deinit(&key);
  return s;
}

static weft_status_t *add_node(weft_profile_t *p, weft_str_t device, const node_cost_t *c) {
  bool is_transfer = weft_str_is(c->node, "RecvTensor");
  weft_str_t op = is_transfer ? c->node : op_of(c->label);
  weft_str_t name = p->by == WEFT_PROFILE_BY_OP ? WEFT_STR("") : is_transfer ? edge_of(c->label) : c->node;
  weft_profile_row_t *row = NULL;
  WEFT_RETURN_IF_ERROR(find_row(p, device, name, op, &row));
  row->count++;
  add(&row->time_ns, c->took_ns);
  if (c->took_ns > row->longest_ns) row->longest_ns = c->took_ns;
  add(&row->input_bytes, c->input_bytes);
  add(&row->output_bytes, c->output_bytes);
  if (c->flops >= 0) {
    add(&row->flops, c->flops);
    row->num_flops++;
  }
  return NULL;
}

weft_status_t *weft_profile_add(weft_profile_t *p, weft_str_t step_stats) {
  weft_wire_field_t d, n;
  for (weft_wire_reader_t stats = weft_wire_reader(step_stats); weft_wire_next(&stats, &d);) {
    if (d.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    const weft_str_t device = bytes_of(d.bytes, 1);
    for (weft_wire_reader_t nodes = weft_wire_reader(d.bytes); weft_wire_next(&nodes, &n);) {
      node_cost_t c;
      if (n.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) || !read_node(n.bytes, &c)) continue;
      WEFT_RETURN_IF_ERROR(add_node(p, device, &c));
    }
  }
  return NULL;
}

static int by_time(const void *a, const void *b) {
  const weft_profile_row_t *x = *(weft_profile_row_t *const *)a, *y = *(weft_profile_row_t *const *)b;
  if (x->time_ns != y->time_ns) return x->time_ns > y->time_ns ? -1 : 1;
  int order = weft_str_compare(x->device, y->device);
  if (order == 0) order = weft_str_compare(x->op, y->op);
  return order != 0 ? order : weft_str_compare(x->name, y->name);
}

const weft_profile_row_t *const *weft_profile_rows(weft_profile_t *p, int *out_n) {
  if (p->n > 0) qsort(p->rows, (size_t)p->n, sizeof p->rows[0], by_time);
  *out_n = p->n;
  return (const weft_profile_row_t *const *)p->rows;
}

weft_profile_rates_t weft_profile_row_rates(const weft_profile_row_t *r, double peak_flops,
                                            double peak_bytes) {
  const double seconds = (double)r->time_ns * 1e-9;
  weft_profile_rates_t rates = {.share_flops = -1, .share_bytes = -1};
  if (seconds <= 0) return rates;
  rates.flops = (double)r->flops / seconds;
  rates.bytes = ((double)r->input_bytes + (double)r->output_bytes) / seconds;
  if (peak_flops > 0 && r->num_flops > 0) rates.share_flops = rates.flops / peak_flops;
  if (peak_bytes > 0 && r->moves_bytes) rates.share_bytes = rates.bytes / peak_bytes;
  if (rates.share_flops >= small_share && rates.share_flops >= rates.share_bytes) {
    rates.bound = WEFT_BOUND_COMPUTE;
  } else if (rates.share_bytes >= small_share) {
    rates.bound = WEFT_BOUND_MEMORY;
  }
  return rates;
}
