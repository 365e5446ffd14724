/* strategies/replicate_batch_shards.c - rows per replica, slices, checks of batches.
 *
 * Of a batch with B rows replica i has rows [i*B/N, (i+1)*B/N), in integers: never
 * more than one row of difference, and the last replica has rows if any replica has. These numbers are
 * computed once per step on the batch's device, as vectors with an element per replica.
 *
 * Batches have equal numbers of rows. Each batch is compared with a leading batch that all roots with that
 * batch need, so that a fetch requires no further feed; the slices wait for the comparison. Where no batch
 * can lead, the roots that need both batches compare them.
 */
#include "strategies/replication.h"

enum { LAST_BIT = 63 };

static void no_memory(weft_replication_t *r) {
  if (r->e.s == NULL) r->e.s = WEFT_NO_MEMORY("shares of a batch");
}

static weft_output_t *new_outputs(weft_replication_t *r) {
  weft_output_t *out = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *out);
  if (out == NULL) no_memory(r);
  return out;
}

weft_str_t weft_replication_batch_name(const weft_replication_t *r, int batch) {
  return r->plan.batches[batch].node->name;
}

/* The batch in the new graph, whole. */
static weft_output_t whole_batch(const weft_replication_t *r, int batch) {
  weft_output_t of = r->plan.batches[batch];
  return (weft_output_t){r->copiers[0].nodes[of.node->id], of.index};
}

weft_str_t weft_replication_batch_device(const weft_replication_t *r, int batch) {
  return whole_batch(r, batch).node->requested_device;
}

static int axis_of(const weft_replication_t *r, int batch) {
  const weft_axis_sharding_t *s = weft_replication_sharding(r, r->plan.batches[batch]);
  return s->kind == WEFT_SHARDING_SHARD ? s->dim : 0;
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

/* An Assert that a and b have equal numbers of rows. */
static weft_node_t *compare(weft_replication_t *r, int a, int b) {
  weft_emitter_t *e = &r->e;
  weft_str_t x = weft_replication_batch_name(r, a), y = weft_replication_batch_name(r, b);
  weft_output_t in_a = weft_replication_batch_shards(r, a)->whole,
                in_b = weft_replication_batch_shards(r, b)->whole;
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
  while (weft_replication_batch_shards(r, batch)->leader != batch)
    batch = weft_replication_batch_shards(r, batch)->leader;
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
    r->e.device = weft_replication_batch_device(r, b);
    weft_emit_control(&r->e, compare(r, b, first), made);
    r->e.device = device;
  }
}

/* ---- shares ---- */

weft_batch_shards_t *weft_replication_batch_shards(weft_replication_t *r, int batch) {
  weft_batch_shards_t *shards = &r->batch_shards[batch];
  if (shards->whole.node != NULL || r->e.s != NULL) return shards;
  if (weft_replication_own_input(r, r->plan.batches[batch].node) != NULL) {
    weft_replication_own_shards(r, batch, shards);
    return shards;
  }
  weft_str_t device = r->e.device, name = weft_replication_batch_name(r, batch);
  r->e.device = weft_replication_batch_device(r, batch);
  shards->leader = find_leader(r, batch);
  shards->whole = weft_replication_length(&r->e, whole_batch(r, batch), axis_of(r, batch), name);
  shards->sizes = weft_replication_sizes(r, shards->whole, r->n, name);
  if (shards->leader != batch) { /* every use of the batch waits for the comparison */
    shards->sizes =
        weft_emit1(&r->e, "Identity", shards->sizes, "weft/%.*s/checked_sizes", WEFT_STR_ARGS(name));
    weft_emit_control(&r->e, compare(r, batch, shards->leader), shards->sizes.node);
  }
  r->e.device = device;
  return shards;
}

weft_status_t *weft_replication_split_batch(weft_replication_t *r, int batch) {
  weft_output_t of = r->plan.batches[batch], *slices = new_outputs(r);
  if (slices == NULL) return weft_emitter_end(&r->e);
  weft_output_t sizes = weft_replication_batch_shards(r, batch)->sizes;
  r->e.device = weft_replication_batch_device(r, batch);
  weft_replication_split(r, whole_batch(r, batch), sizes, r->n, axis_of(r, batch),
                         weft_replication_batch_name(r, batch), slices);
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
  weft_output_t batch_rows = weft_replication_batch_shards(r, batch)->whole,
                batch_sizes = weft_replication_batch_shards(r, batch)->sizes;
  weft_output_t rows = weft_replication_length(e, whole, axis, name);
  int64_t one = 1; /* a batch of no rows has no rows of anything: 0 * 0 / 1 */
  weft_output_t at_least = weft_emit2(
      e, "Maximum", batch_rows, weft_emit_ints(e, WEFT_I64, &one, 1, "weft/%.*s/one", WEFT_STR_ARGS(name)),
      "weft/%.*s/batch_rows", WEFT_STR_ARGS(name));
  weft_output_t scaled =
      weft_emit2(e, "Mul", batch_sizes, rows, "weft/%.*s/scaled_sizes", WEFT_STR_ARGS(name));
  weft_output_t sizes = weft_emit2(e, "FloorDiv", scaled, at_least, "weft/%.*s/sizes", WEFT_STR_ARGS(name));
  weft_replication_split(r, whole, sizes, r->n, axis, name,
                         out); /* the step fails if the dimension is not a multiple of the batch */
}

weft_output_t weft_replication_rows(weft_replication_t *r, int batch) {
  return weft_replication_batch_shards(r, batch)->whole;
}

weft_output_t weft_replication_rows_on(weft_replication_t *r, int batch, int replica) {
  weft_output_t sizes = weft_replication_batch_shards(r, batch)->sizes;
  if (r->batch_shards[batch].each == NULL && r->e.s == NULL) {
    weft_str_t device = r->e.device, name = weft_replication_batch_name(r, batch);
    r->e.device = weft_replication_batch_device(r, batch);
    weft_named_attr_t count = weft_int_attr("num", r->n);
    r->batch_shards[batch].each =
        weft_emit(&r->e, "Unpack", &sizes, 1, &count, 1, "weft/%.*s/rows_on", WEFT_STR_ARGS(name)).node;
    r->e.device = device;
  }
  return (weft_output_t){r->batch_shards[batch].each, replica};
}

/* ---- weights ---- */
