/* strategies/replicate_weights.c - the position of a replica's rows in the batch, and their fraction of it.
 *
 * A replica without rows: a mean over no rows is not a number, but its weight is
 * exactly zero, and MulNoNan makes exactly zero of any number times zero.
 */
#include <limits.h>
#include "strategies/replication.h"

enum {
  MAX_EXPONENT = 16,
  HAS_ROWS = MAX_EXPONENT + 1 /* instead of an exponent: 1 with rows, 0 without */
};

struct weft_weights {
  weft_weights_t *next;
  int batch, exponent, dtype;
  weft_output_t *of; /* by replica */
};

static void no_memory(weft_replication_t *r) {
  if (r->e.s == NULL) r->e.s = WEFT_NO_MEMORY("shares of a batch");
}

static weft_output_t *new_outputs(weft_replication_t *r) {
  weft_output_t *out = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *out);
  if (out == NULL) no_memory(r);
  return out;
}

/* int64 [3] for each replica: begin, count, all. */
static void find_places(weft_replication_t *r, int batch, weft_output_t *out) {
  weft_emitter_t *e = &r->e;
  const weft_batch_shards_t *shards = weft_replication_batch_shards(r, batch);
  weft_str_t device = e->device, name = weft_replication_batch_name(r, batch);
  e->device = weft_replication_batch_device(r, batch);
  weft_output_t axis = weft_emit_int(e, WEFT_I32, 0, "weft/%.*s/sum_axis", WEFT_STR_ARGS(name));
  const weft_output_t summed[2] = {shards->sizes, axis};
  weft_named_attr_t exclusive = weft_bool_attr("exclusive", true);
  weft_output_t begins =
      weft_emit(e, "Cumsum", summed, 2, &exclusive, 1, "weft/%.*s/row_begins", WEFT_STR_ARGS(name));
  weft_output_t zeros =
      weft_emit2(e, "Sub", shards->sizes, shards->sizes, "weft/%.*s/zeros", WEFT_STR_ARGS(name));
  const weft_output_t columns[3] = {
      begins, shards->sizes,
      weft_emit2(e, "Add", zeros, shards->whole, "weft/%.*s/alls", WEFT_STR_ARGS(name))};
  weft_named_attr_t at = weft_int_attr("axis", 1), count = weft_int_attr("num", r->n);
  weft_output_t table = weft_emit(e, "Pack", columns, 3, &at, 1, "weft/%.*s/places", WEFT_STR_ARGS(name));
  weft_output_t first = weft_emit(e, "Unpack", &table, 1, &count, 1, "weft/%.*s/place", WEFT_STR_ARGS(name));
  for (int i = 0; i < r->n; i++) out[i] = (weft_output_t){first.node, i};
  e->device = device;
}

weft_output_t weft_replication_place(weft_replication_t *r, int batch, int replica) {
  weft_batch_shards_t *shards = &r->batch_shards[batch];
  if (shards->places == NULL && r->e.s == NULL) {
    weft_output_t *places = new_outputs(r);
    if (places == NULL) return (weft_output_t){NULL, 0};
    if (weft_replication_is_between(r)) {
      weft_replication_places_between(r, batch, places);
    } else {
      find_places(r, batch, places);
    }
    shards->places = places;
  }
  return r->e.s == NULL ? shards->places[replica] : (weft_output_t){NULL, 0};
}

/* Element k of a place, as a scalar. */
static weft_output_t of_place(weft_emitter_t *e, weft_output_t place, int64_t k, weft_str_t name) {
  int64_t size = 1, none = 0;
  weft_output_t at = weft_emit_ints(e, WEFT_I64, &k, 1, "weft/%.*s/at", WEFT_STR_ARGS(name));
  weft_output_t one = weft_emit_ints(e, WEFT_I64, &size, 1, "weft/%.*s/one", WEFT_STR_ARGS(name));
  weft_output_t scalar = weft_emit_ints(e, WEFT_I64, &none, 0, "weft/%.*s/scalar", WEFT_STR_ARGS(name));
  weft_output_t element = weft_emit3(e, "Slice", place, at, one, "weft/%.*s/element", WEFT_STR_ARGS(name));
  return weft_emit2(e, "Reshape", element, scalar, "weft/%.*s/number", WEFT_STR_ARGS(name));
}

weft_output_t weft_replication_slice_on(weft_replication_t *r, weft_output_t of, weft_output_t whole,
                                        int axis, int replica) {
  weft_emitter_t *e = &r->e;
  int64_t none = 0;
  int frame = weft_replication_facts(r, of.node)->frame;
  weft_str_t device = e->device, name = of.node->name;
  weft_output_t place = weft_replication_place(r, weft_replication_batch_of(r, of.node), replica);
  place = weft_replication_enter(r, place, frame, replica);
  if (e->s != NULL) return whole;
  e->device = r->o->devices[replica];
  e->after = frame == 0 ? NULL : whole.node; /* constants must be in the frame, too */
  weft_output_t scalar = weft_emit_ints(e, WEFT_I64, &none, 0, "weft/%.*s/scalar", WEFT_STR_ARGS(name));
  weft_output_t dim = weft_emit2(e, "Reshape", weft_replication_length(e, whole, axis, name), scalar,
                                 "weft/%.*s/dim", WEFT_STR_ARGS(name));
  weft_output_t one = weft_emit_int(e, WEFT_I64, 1, "weft/%.*s/step", WEFT_STR_ARGS(name));
  weft_output_t all =
      weft_emit2(e, "Maximum", of_place(e, place, 2, name), one, "weft/%.*s/all", WEFT_STR_ARGS(name));
  weft_output_t first = of_place(e, place, 0, name);
  weft_output_t last =
      weft_emit2(e, "Add", first, of_place(e, place, 1, name), "weft/%.*s/last", WEFT_STR_ARGS(name));
  weft_output_t bounds[2] = {first, last};
  for (int k = 0; k < 2; k++) {
    weft_output_t scaled = weft_emit2(e, "Mul", bounds[k], dim, "weft/%.*s/scaled", WEFT_STR_ARGS(name));
    bounds[k] = weft_emit2(e, "FloorDiv", scaled, all, "weft/%.*s/bound", WEFT_STR_ARGS(name));
  }
  weft_output_t rows =
      weft_emit3(e, "Range", bounds[0], bounds[1], one, "weft/%.*s/which", WEFT_STR_ARGS(name));
  weft_output_t at = weft_emit_int(e, WEFT_I32, axis, "weft/%.*s/axis", WEFT_STR_ARGS(name));
  weft_output_t slice = weft_emit3(e, "GatherV2", whole, rows, at, "weft/%.*s/own_rows", WEFT_STR_ARGS(name));
  e->after = NULL;
  e->device = device;
  return slice;
}

/* double [N]: (B_i/B)^exponent; (B/B_i)^-exponent, 0 without rows, below 0; for HAS_ROWS 1, and 0 without
 * rows. */
static weft_output_t weight_vector(weft_replication_t *r, const weft_batch_shards_t *shards, int exponent,
                                   weft_str_t name) {
  weft_emitter_t *e = &r->e;
  if (exponent == HAS_ROWS) {
    weft_output_t one = weft_emit_int(e, WEFT_I64, 1, "weft/%.*s/one_row", WEFT_STR_ARGS(name));
    return weft_emit_cast(
        e, weft_emit2(e, "Minimum", shards->sizes, one, "weft/%.*s/has_rows", WEFT_STR_ARGS(name)), WEFT_F64,
        "weft/%.*s/presence", WEFT_STR_ARGS(name));
  }
  weft_output_t rows = weft_emit_cast(e, shards->sizes, WEFT_F64, "weft/%.*s/rows_each", WEFT_STR_ARGS(name));
  weft_output_t whole = weft_emit_cast(e, shards->whole, WEFT_F64, "weft/%.*s/rows_all", WEFT_STR_ARGS(name));
  weft_output_t once =
      exponent > 0 ? weft_emit2(e, "RealDiv", rows, whole, "weft/%.*s/share", WEFT_STR_ARGS(name))
                   : weft_emit2(e, "DivNoNan", whole, rows, "weft/%.*s/inverse_share", WEFT_STR_ARGS(name));
  weft_output_t power = once;
  int times = exponent > 0 ? exponent : -exponent;
  for (int i = 1; i < times; i++)
    power = weft_emit2(e, "Mul", power, once, "weft/%.*s/power", WEFT_STR_ARGS(name));
  return power;
}

/* The same on each replica, from the rows of all workers: each participant of a collective also consumes its
 * result. */
static void weigh_between(weft_replication_t *r, int batch, int exponent, int dtype, weft_output_t *of) {
  weft_emitter_t *e = &r->e;
  weft_output_t *totals = new_outputs(r);
  if (totals == NULL) return;
  weft_replication_total_rows(r, batch, totals);
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    int64_t none = 0;
    weft_output_t scalar = weft_emit_ints(e, WEFT_I64, &none, 0, "replica_%d/weft/scalar", i);
    weft_output_t total = weft_emit2(e, "Reshape", totals[i], scalar, "replica_%d/weft/total_rows", i);
    weft_batch_shards_t shards = {.whole = total, .sizes = weft_replication_rows_on(r, batch, i)};
    of[i] = weft_emit_cast(e, weight_vector(r, &shards, exponent, weft_replication_batch_name(r, batch)),
                           dtype, "replica_%d/weft/weight", i);
  }
}

static weft_weights_t *find_weights(weft_replication_t *r, int batch, int exponent, int dtype) {
  for (weft_weights_t *w = r->weights; w != NULL; w = w->next) {
    if (w->batch == batch && w->exponent == exponent && w->dtype == dtype) return w;
  }
  weft_weights_t *w = weft_arena_calloc(&r->arena, 1, sizeof *w);
  weft_output_t *of = new_outputs(r);
  if (w == NULL || of == NULL) {
    no_memory(r);
    return NULL;
  }
  weft_emitter_t *e = &r->e;
  const weft_batch_shards_t *shards = weft_replication_batch_shards(r, batch);
  weft_str_t device = e->device, name = weft_replication_batch_name(r, batch);
  e->device = weft_replication_batch_device(r, batch);
  if (weft_replication_is_between(r)) {
    weigh_between(r, batch, exponent, dtype, of);
    e->device = device;
    *w = (weft_weights_t){r->weights, batch, exponent, dtype, of};
    r->weights = w;
    return w;
  }
  weft_output_t all = weft_emit_cast(e, weight_vector(r, shards, exponent, name), dtype, "weft/%.*s/weights",
                                     WEFT_STR_ARGS(name));
  weft_named_attr_t count = weft_int_attr("num", r->n);
  weft_output_t first = weft_emit(e, "Unpack", &all, 1, &count, 1, "weft/%.*s/weight", WEFT_STR_ARGS(name));
  for (int i = 0; i < r->n; i++) of[i] = (weft_output_t){first.node, i};
  e->device = device;
  *w = (weft_weights_t){r->weights, batch, exponent, dtype, of};
  r->weights = w;
  return w;
}

static weft_output_t scale(weft_replication_t *r, weft_output_t of, weft_output_t local, int exponent,
                           int replica) {
  int dtype = weft_base_type_of(of);
  if (exponent == 0 || r->e.s != NULL) return local;
  bool is_possible = (weft_dtype_is_floating(dtype) || weft_dtype_is_complex(dtype)) &&
                     r->plan.num_batches > 0 && exponent <= HAS_ROWS && exponent >= -MAX_EXPONENT;
  if (!is_possible) {
    r->e.s =
        WEFT_ERROR(INVALID_ARGUMENT,
                   "node '%.*s' (%.*s) cannot be split over replicas: its value of type %s cannot be "
                   "weighted by rows",
                   WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name), weft_dtype_name(dtype));
    return local;
  }
  const weft_weights_t *w = find_weights(r, weft_replication_batch_of(r, of.node), exponent, dtype);
  if (w == NULL) return local;
  weft_str_t device = r->e.device;
  r->e.device = r->o->devices[replica];
  weft_output_t scaled = weft_emit2(&r->e, "MulNoNan", local, w->of[replica], "replica_%d/weft/weighted/%.*s",
                                    replica, WEFT_STR_ARGS(of.node->name));
  r->e.device = device;
  return scaled;
}

weft_output_t weft_replication_scale(weft_replication_t *r, weft_output_t of, weft_output_t local,
                                     int exponent, int replica) {
  return scale(r, of, local, exponent == HAS_ROWS ? INT_MAX : exponent, replica);
}

weft_output_t weft_replication_part(weft_replication_t *r, weft_output_t of, weft_output_t local, int degree,
                                    int replica) {
  bool is_hollow =
      weft_replication_sharding(r, of)->is_hollow && weft_dtype_is_floating(weft_base_type_of(of));
  return scale(r, of, local, degree == 0 && is_hollow ? HAS_ROWS : degree, replica);
}
