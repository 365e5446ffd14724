/* strategies/replicate_shares.c - rows per replica, slices, weights, checks of batches.
 *
 * Of a batch with B rows replica i has rows [i*B/N, (i+1)*B/N), in integers: never
 * more than one row of difference, and the last replica has rows if anybody has. All of
 * it is worked out once per step beside the batch, as vectors with an element per replica.
 *
 * A replica without rows: a mean over no rows is not a number, but its weight is
 * exactly zero, and MulNoNan makes exactly zero of any number times zero.
 *
 * Batches have equal numbers of rows. Each batch is compared with a leader that
 * every root needs that needs the batch, so that a fetch asks for no feed that it
 * does not need; the slices wait for the comparison. Where no batch can lead, the roots that need both
 * compare.
 */
#include <limits.h>

#include "strategies/replication.h"

enum {
  LAST_BIT = 63,
  MAX_EXPONENT = 16,
  HAS_ROWS = MAX_EXPONENT + 1 /* stands for an exponent: 1 with rows, 0 without */
};

struct weft_weights {
  weft_weights_t *next;
  int batch, exponent, dtype;
  weft_output_t *of; /* by replica */
};

static void no_memory(weft_replication_t *r) {
  if (r->e.s == NULL) r->e.s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for shares of a batch");
}

static weft_output_t *new_outputs(weft_replication_t *r) {
  weft_output_t *out = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *out);
  if (out == NULL) no_memory(r);
  return out;
}

static weft_str_t name_of(const weft_replication_t *r, int batch) {
  return r->plan.batches[batch].node->name;
}

/* The batch in the new graph, whole. */
static weft_output_t whole_batch(const weft_replication_t *r, int batch) {
  weft_output_t of = r->plan.batches[batch];
  return (weft_output_t){r->copiers[0].nodes[of.node->id], of.index};
}

static weft_str_t device_of_batch(const weft_replication_t *r, int batch) {
  return whole_batch(r, batch).node->requested_device;
}

static int axis_of(const weft_replication_t *r, int batch) {
  const weft_axis_sharding_t *s = weft_replication_sharding(r, r->plan.batches[batch]);
  return s->kind == WEFT_SHARDING_SHARD ? s->dim : 0;
}

/* int64 [1]: how long x is along an axis. */
static weft_output_t length_along(weft_emitter_t *e, weft_output_t x, int axis, weft_str_t name) {
  weft_named_attr_t as = weft_type_attr("out_type", WEFT_I64);
  weft_output_t shape = weft_emit(e, "Shape", &x, 1, &as, 1, "weft/%.*s/shape", WEFT_STR_ARGS(name));
  int64_t begin = axis, size = 1;
  weft_output_t from = weft_emit_ints(e, WEFT_I64, &begin, 1, "weft/%.*s/axis", WEFT_STR_ARGS(name));
  weft_output_t count = weft_emit_ints(e, WEFT_I64, &size, 1, "weft/%.*s/one", WEFT_STR_ARGS(name));
  return weft_emit3(e, "Slice", shape, from, count, "weft/%.*s/rows", WEFT_STR_ARGS(name));
}

/* int64 [N]: floor((i+1)*B/N) - floor(i*B/N). */
static weft_output_t sizes_of(weft_replication_t *r, weft_output_t whole, weft_str_t name) {
  weft_emitter_t *e = &r->e;
  int64_t *i = weft_arena_calloc(&r->arena, (size_t)r->n + 1, sizeof *i), n = r->n, zero = 0, one = 1;
  if (i == NULL) {
    no_memory(r);
    return (weft_output_t){NULL, 0};
  }
  for (int k = 0; k <= r->n; k++) i[k] = k;
  weft_output_t ranks = weft_emit_ints(e, WEFT_I64, i, r->n + 1, "weft/%.*s/ranks", WEFT_STR_ARGS(name));
  weft_output_t count = weft_emit_ints(e, WEFT_I64, &n, 1, "weft/%.*s/replicas", WEFT_STR_ARGS(name));
  weft_output_t scaled = weft_emit2(e, "Mul", whole, ranks, "weft/%.*s/scaled", WEFT_STR_ARGS(name));
  weft_output_t bounds = weft_emit2(e, "FloorDiv", scaled, count, "weft/%.*s/bounds", WEFT_STR_ARGS(name));
  weft_output_t at0 = weft_emit_ints(e, WEFT_I64, &zero, 1, "weft/%.*s/zero", WEFT_STR_ARGS(name));
  weft_output_t at1 = weft_emit_ints(e, WEFT_I64, &one, 1, "weft/%.*s/one", WEFT_STR_ARGS(name));
  weft_output_t begins = weft_emit3(e, "Slice", bounds, at0, count, "weft/%.*s/begins", WEFT_STR_ARGS(name));
  weft_output_t ends = weft_emit3(e, "Slice", bounds, at1, count, "weft/%.*s/ends", WEFT_STR_ARGS(name));
  return weft_emit2(e, "Sub", ends, begins, "weft/%.*s/sizes", WEFT_STR_ARGS(name));
}

/* ---- checks ---- */

static bool needs(const weft_replication_t *r, const weft_root_t *root, int batch) {
  return (weft_replication_facts(r, root->node)->batches >> (batch < LAST_BIT ? batch : LAST_BIT) & 1) != 0;
}

/* Does every root that needs a need b? */
static bool goes_with(const weft_replication_t *r, int a, int b) {
  for (int i = 0; i < r->source.num_roots; i++) {
    if (needs(r, &r->source.roots[i], a) && !needs(r, &r->source.roots[i], b)) return false;
  }
  return true;
}

/* Only placeholders are compared: a reader's outputs come together. Those without a default lead: they are
 * copied first. */
static int find_leader(const weft_replication_t *r, int batch) {
  if (!weft_node_is_placeholder(r->plan.batches[batch].node)) return batch;
  for (int b = 0; b < r->plan.num_batches; b++) {
    if (b == batch || (r->plan.batches[b].node->flags & WEFT_OP_PLACEHOLDER) == 0 || !goes_with(r, batch, b))
      continue;
    if (b < batch || !goes_with(r, b, batch)) return b;
  }
  return batch;
}

static weft_share_t *share_of(weft_replication_t *r, int batch);

/* An Assert that a and b have equal numbers of rows. */
static weft_node_t *compare(weft_replication_t *r, int a, int b) {
  weft_emitter_t *e = &r->e;
  weft_str_t x = name_of(r, a), y = name_of(r, b);
  weft_output_t in_a = share_of(r, a)->whole, in_b = share_of(r, b)->whole;
  weft_output_t equal = weft_emit2(e, "Equal", in_a, in_b, "weft/%.*s/equal", WEFT_STR_ARGS(x));
  weft_output_t scalar = {NULL, 0};
  weft_named_attr_t dims = {WEFT_STR("squeeze_dims"), {.kind = WEFT_ATTR_INT, .is_list = true, .n = 0}};
  scalar = weft_emit(e, "Squeeze", &equal, 1, &dims, 1, "weft/%.*s/is_equal", WEFT_STR_ARGS(x));
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text,
                     "batches %.*s and %.*s have different numbers of rows (if one of them is no batch, name "
                     "those that are: "
                     "--strategy NAME:batch=%.*s); rows of each:",
                     WEFT_STR_ARGS(x), WEFT_STR_ARGS(y), WEFT_STR_ARGS(y));
  if (text.failed) no_memory(r);
  weft_output_t inputs[4] = {scalar, {NULL, 0}, in_a, in_b};
  inputs[1] = weft_emit_string(e, weft_str_of(text.data, text.length), "weft/%.*s/message", WEFT_STR_ARGS(x));
  weft_strbuf_deinit(&text);
  static const int types[3] = {WEFT_STRING, WEFT_I64, WEFT_I64};
  weft_named_attr_t t = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 3}};
  t.value.list.types = types;
  return weft_emit(e, "Assert", inputs, 4, &t, 1, "weft/%.*s/check", WEFT_STR_ARGS(x)).node;
}

static int last_leader(weft_replication_t *r, int batch) {
  while (share_of(r, batch)->leader != batch) batch = share_of(r, batch)->leader;
  return batch;
}

void weft_replication_check_joined(weft_replication_t *r, const weft_node_t *source, weft_node_t *made) {
  int first = -1;
  uint64_t batches = weft_replication_facts(r, source)->batches;
  for (int b = 0; b < r->plan.num_batches && r->e.s == NULL; b++) {
    if ((batches >> (b < LAST_BIT ? b : LAST_BIT) & 1) == 0 ||
        !weft_node_is_placeholder(r->plan.batches[b].node))
      continue;
    int leader = last_leader(r, b);
    if (first < 0) first = leader;
    if (leader == first) continue;
    weft_str_t device = r->e.device;
    r->e.device = device_of_batch(r, b);
    weft_emit_control(&r->e, compare(r, b, first), made);
    r->e.device = device;
  }
}

/* ---- shares ---- */

static weft_share_t *share_of(weft_replication_t *r, int batch) {
  weft_share_t *share = &r->shares[batch];
  if (share->whole.node != NULL || r->e.s != NULL) return share;
  weft_str_t device = r->e.device, name = name_of(r, batch);
  r->e.device = device_of_batch(r, batch);
  share->leader = find_leader(r, batch);
  share->whole = length_along(&r->e, whole_batch(r, batch), axis_of(r, batch), name);
  share->sizes = sizes_of(r, share->whole, name);
  if (share->leader != batch) { /* all that is done with the batch waits for the comparison */
    share->sizes =
        weft_emit1(&r->e, "Identity", share->sizes, "weft/%.*s/checked_sizes", WEFT_STR_ARGS(name));
    weft_emit_control(&r->e, compare(r, batch, share->leader), share->sizes.node);
  }
  r->e.device = device;
  return share;
}

static void split(weft_replication_t *r, weft_output_t whole, weft_output_t sizes, int axis, weft_str_t name,
                  weft_output_t *out) {
  weft_output_t inputs[3] = {whole, sizes, {NULL, 0}};
  weft_named_attr_t count = weft_int_attr("num_split", r->n);
  inputs[2] = weft_emit_int(&r->e, WEFT_I32, axis, "weft/%.*s/split_axis", WEFT_STR_ARGS(name));
  weft_output_t first =
      weft_emit(&r->e, "SplitV", inputs, 3, &count, 1, "weft/%.*s/split", WEFT_STR_ARGS(name));
  for (int i = 0; i < r->n; i++) out[i] = (weft_output_t){first.node, i};
}

weft_status_t *weft_replication_split_batch(weft_replication_t *r, int batch) {
  weft_output_t of = r->plan.batches[batch], *slices = new_outputs(r);
  if (slices == NULL) return weft_emitter_end(&r->e);
  weft_output_t sizes = share_of(r, batch)->sizes;
  r->e.device = device_of_batch(r, batch);
  split(r, whole_batch(r, batch), sizes, axis_of(r, batch), name_of(r, batch), slices);
  for (int i = 0; i < r->n && r->e.s == NULL; i++) r->e.s = weft_copier_set(&r->copiers[i], of, slices[i]);
  return weft_emitter_end(&r->e);
}

int weft_replication_batch_of(const weft_replication_t *r, const weft_node_t *n) {
  uint64_t batches = weft_replication_facts(r, n)->batches;
  for (int b = 0; b < r->plan.num_batches; b++) {
    if ((batches >> (b < LAST_BIT ? b : LAST_BIT) & 1) != 0) return b;
  }
  return 0;
}

void weft_replication_slice(weft_replication_t *r, int batch, weft_output_t whole, int axis,
                            weft_output_t *out) {
  if (r->e.s != NULL) return;
  weft_emitter_t *e = &r->e;
  weft_str_t name = whole.node->name;
  weft_output_t batch_rows = share_of(r, batch)->whole, batch_sizes = share_of(r, batch)->sizes;
  weft_output_t rows = length_along(e, whole, axis, name);
  int64_t one = 1; /* a batch of no rows has no rows of anything: 0 * 0 / 1 */
  weft_output_t at_least = weft_emit2(
      e, "Maximum", batch_rows, weft_emit_ints(e, WEFT_I64, &one, 1, "weft/%.*s/one", WEFT_STR_ARGS(name)),
      "weft/%.*s/batch_rows", WEFT_STR_ARGS(name));
  weft_output_t scaled =
      weft_emit2(e, "Mul", batch_sizes, rows, "weft/%.*s/scaled_sizes", WEFT_STR_ARGS(name));
  weft_output_t sizes = weft_emit2(e, "FloorDiv", scaled, at_least, "weft/%.*s/sizes", WEFT_STR_ARGS(name));
  split(r, whole, sizes, axis, name, out); /* fails in the step if these are no fractions of the batch */
}

weft_output_t weft_replication_rows(weft_replication_t *r, int batch) { return share_of(r, batch)->whole; }

weft_output_t weft_replication_rows_on(weft_replication_t *r, int batch, int replica) {
  weft_output_t sizes = share_of(r, batch)->sizes;
  if (r->shares[batch].each == NULL && r->e.s == NULL) {
    weft_str_t device = r->e.device, name = name_of(r, batch);
    r->e.device = device_of_batch(r, batch);
    weft_named_attr_t count = weft_int_attr("num", r->n);
    r->shares[batch].each =
        weft_emit(&r->e, "Unpack", &sizes, 1, &count, 1, "weft/%.*s/rows_on", WEFT_STR_ARGS(name)).node;
    r->e.device = device;
  }
  return (weft_output_t){r->shares[batch].each, replica};
}

/* ---- places ---- */

/* int64 [3] for each replica: begin, count, all. */
static void find_places(weft_replication_t *r, int batch, weft_output_t *out) {
  weft_emitter_t *e = &r->e;
  const weft_share_t *share = share_of(r, batch);
  weft_str_t device = e->device, name = name_of(r, batch);
  e->device = device_of_batch(r, batch);
  weft_output_t axis = weft_emit_int(e, WEFT_I32, 0, "weft/%.*s/sum_axis", WEFT_STR_ARGS(name));
  const weft_output_t summed[2] = {share->sizes, axis};
  weft_named_attr_t exclusive = weft_bool_attr("exclusive", true);
  weft_output_t begins =
      weft_emit(e, "Cumsum", summed, 2, &exclusive, 1, "weft/%.*s/row_begins", WEFT_STR_ARGS(name));
  weft_output_t zeros =
      weft_emit2(e, "Sub", share->sizes, share->sizes, "weft/%.*s/zeros", WEFT_STR_ARGS(name));
  const weft_output_t columns[3] = {
      begins, share->sizes, weft_emit2(e, "Add", zeros, share->whole, "weft/%.*s/alls", WEFT_STR_ARGS(name))};
  weft_named_attr_t at = weft_int_attr("axis", 1), count = weft_int_attr("num", r->n);
  weft_output_t table = weft_emit(e, "Pack", columns, 3, &at, 1, "weft/%.*s/places", WEFT_STR_ARGS(name));
  weft_output_t first = weft_emit(e, "Unpack", &table, 1, &count, 1, "weft/%.*s/place", WEFT_STR_ARGS(name));
  for (int i = 0; i < r->n; i++) out[i] = (weft_output_t){first.node, i};
  e->device = device;
}

weft_output_t weft_replication_place(weft_replication_t *r, int batch, int replica) {
  weft_share_t *share = &r->shares[batch];
  if (share->places == NULL && r->e.s == NULL) {
    weft_output_t *places = new_outputs(r);
    if (places == NULL) return (weft_output_t){NULL, 0};
    if (weft_replication_is_between(r)) {
      weft_replication_places_between(r, batch, places);
    } else {
      find_places(r, batch, places);
    }
    share->places = places;
  }
  return r->e.s == NULL ? share->places[replica] : (weft_output_t){NULL, 0};
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
  e->after = frame == 0 ? NULL : whole.node; /* constants belong into the frame, too */
  weft_output_t scalar = weft_emit_ints(e, WEFT_I64, &none, 0, "weft/%.*s/scalar", WEFT_STR_ARGS(name));
  weft_output_t dim = weft_emit2(e, "Reshape", length_along(e, whole, axis, name), scalar, "weft/%.*s/dim",
                                 WEFT_STR_ARGS(name));
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

/* ---- weights ---- */

/* double [N]: (B_i/B)^exponent; (B/B_i)^-exponent, 0 without rows, below 0; for HAS_ROWS 1, and 0 without
 * rows. */
static weft_output_t weight_vector(weft_replication_t *r, const weft_share_t *share, int exponent,
                                   weft_str_t name) {
  weft_emitter_t *e = &r->e;
  if (exponent == HAS_ROWS) {
    weft_output_t one = weft_emit_int(e, WEFT_I64, 1, "weft/%.*s/one_row", WEFT_STR_ARGS(name));
    return weft_emit_cast(
        e, weft_emit2(e, "Minimum", share->sizes, one, "weft/%.*s/has_rows", WEFT_STR_ARGS(name)), WEFT_F64,
        "weft/%.*s/presence", WEFT_STR_ARGS(name));
  }
  weft_output_t rows = weft_emit_cast(e, share->sizes, WEFT_F64, "weft/%.*s/rows_each", WEFT_STR_ARGS(name));
  weft_output_t whole = weft_emit_cast(e, share->whole, WEFT_F64, "weft/%.*s/rows_all", WEFT_STR_ARGS(name));
  weft_output_t once =
      exponent > 0 ? weft_emit2(e, "RealDiv", rows, whole, "weft/%.*s/share", WEFT_STR_ARGS(name))
                   : weft_emit2(e, "DivNoNan", whole, rows, "weft/%.*s/inverse_share", WEFT_STR_ARGS(name));
  weft_output_t power = once;
  int times = exponent > 0 ? exponent : -exponent;
  for (int i = 1; i < times; i++)
    power = weft_emit2(e, "Mul", power, once, "weft/%.*s/power", WEFT_STR_ARGS(name));
  return power;
}

/* The same on each replica, from the rows of all workers: who takes part in a collective needs its result,
 * too. */
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
    weft_share_t share = {.whole = total, .sizes = weft_replication_rows_on(r, batch, i)};
    of[i] = weft_emit_cast(e, weight_vector(r, &share, exponent, name_of(r, batch)), dtype,
                           "replica_%d/weft/weight", i);
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
  const weft_share_t *share = share_of(r, batch);
  weft_str_t device = e->device, name = name_of(r, batch);
  e->device = device_of_batch(r, batch);
  if (weft_replication_is_between(r)) {
    weigh_between(r, batch, exponent, dtype, of);
    e->device = device;
    *w = (weft_weights_t){r->weights, batch, exponent, dtype, of};
    r->weights = w;
    return w;
  }
  weft_output_t all = weft_emit_cast(e, weight_vector(r, share, exponent, name), dtype, "weft/%.*s/weights",
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
                   "node '%.*s' (%.*s) cannot be shared out over replicas: its value of type %s cannot be "
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
