/* strategies/replicate_reductions.c - reductions over replicas: buckets and collectives.
 *
 * All values to reduce are found first. Those of one type and weight, of known size,
 * outside of branches and loops may share a bucket if none can depend on another's result: either all have
 * equally many reductions before them (equal level), or no reduction depends on any of them (the gradients of
 * most models). Buckets are formed by the requested rule, in the order in which values become ready,
 * estimated by depth or taken from step statistics:
 *
 *   local values -> Reshape [count] each -> ConcatV2 -> weight -> CollectiveReduceV2 -> SplitV -> Reshape
 *
 * A collective starts when its bucket is full; only consumers of its results wait for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "strategies/replication.h"

typedef struct bucket_member {
  weft_output_t of;
  int at; /* place in the topological order */
  int depth, level, batch;
  int64_t bytes;
  bool is_alone;
  bool is_last; /* no other sum waits for it */
  double ready; /* below 0: not told */
} bucket_member_t;

typedef struct summing {
  weft_replication_t *r;
  bucket_member_t *members; /* owned; in the order in which they become ready */
  int n, capacity;
} summing_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("sums over replicas"); }

/* ---- members ---- */

static weft_status_t *add_member(summing_t *k, weft_output_t of, int at) {
  weft_replication_t *r = k->r;
  for (int i = 0; i < k->n; i++) {
    if (k->members[i].of.node == of.node && k->members[i].of.index == of.index) return NULL;
  }
  if (k->n == k->capacity) {
    int capacity = k->capacity == 0 ? 16 : k->capacity * 2;
    bucket_member_t *more = weft_realloc(k->members, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory();
    k->members = more;
    k->capacity = capacity;
  }
  const weft_node_facts_t *f = weft_replication_facts(r, of.node);
  k->members[k->n++] = (bucket_member_t){.of = of,
                                         .at = at,
                                         .depth = f->depth,
                                         .level = f->level,
                                         .batch = weft_replication_batch_of(r, of.node),
                                         .bytes = weft_static_bytes_of(of),
                                         .is_alone = f->branches > 0,
                                         .ready = -1};
  return NULL;
}

static weft_status_t *find_members(summing_t *k) {
  weft_replication_t *r = k->r;
  int *at = weft_arena_calloc(&r->arena, (size_t)r->source.graph->num_nodes + 1, sizeof *at);
  if (at == NULL) return no_memory();
  for (int i = 0; i < r->source.graph->num_live; i++) at[r->order[i]->id] = i;
  for (int i = 0; i < r->source.graph->num_live; i++) {
    const weft_node_t *n = r->order[i];
    for (int j = 0; j < n->num_inputs; j++) {
      weft_output_t of = n->inputs[j];
      weft_axis_sharding_t required = weft_replication_required(r, n, j);
      bool is_true = (required.kind == WEFT_SHARDING_REPLICATE && required.degree == 0) ||
                     required.kind == WEFT_SHARDING_SHARD ||
                     (required.kind == WEFT_SHARDING_SINGLE && weft_replication_is_between(r));
      if (weft_replication_sharding(r, of)->kind != WEFT_SHARDING_PARTIAL || !is_true) continue;
      if (weft_replication_facts(r, of.node)->frame != 0 || !weft_collective_takes(weft_base_type_of(of)))
        continue;
      WEFT_RETURN_IF_ERROR(add_member(k, of, at[of.node->id]));
    }
  }
  return NULL;
}

/* Marks members from which no path leads to another member. Two passes, for loops. */
static weft_status_t *find_last(summing_t *k) {
  weft_replication_t *r = k->r;
  size_t num = (size_t)r->source.graph->num_nodes + 1;
  bool *is_member = weft_arena_calloc(&r->arena, num, sizeof *is_member),
       *leads = weft_arena_calloc(&r->arena, num, sizeof *leads);
  if (is_member == NULL || leads == NULL) return no_memory();
  for (int i = 0; i < k->n; i++) is_member[k->members[i].of.node->id] = true;
  for (int walk = 0; walk < 2; walk++) {
    for (int at = r->source.graph->num_live - 1; at >= 0; at--) {
      const weft_node_t *n = r->order[at];
      if (!is_member[n->id] && !leads[n->id]) continue;
      for (int i = 0; i < n->num_inputs; i++) leads[n->inputs[i].node->id] = true;
      for (int i = 0; i < n->num_controls; i++) leads[n->controls[i]->id] = true;
    }
  }
  for (int i = 0; i < k->n; i++) k->members[i].is_last = !leads[k->members[i].of.node->id];
  return NULL;
}

static int by_readiness(const void *a, const void *b) {
  const bucket_member_t *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  if ((x->ready >= 0) != (y->ready >= 0))
    return x->ready >= 0 ? -1 : 1; /* those that were not seen come last */
  if (x->ready >= 0 && x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
  if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->of.index - y->of.index;
}

/* The estimated order comes first: names and the times of option `ready` use it. */
static weft_status_t *sort_members(summing_t *k) {
  weft_replication_t *r = k->r;
  const weft_replicate_options_t *o = r->o;
  if (k->n > 0) qsort(k->members, (size_t)k->n, sizeof *k->members, by_readiness);
  weft_str_t *names = weft_arena_calloc(&r->out->arena, (size_t)k->n + 1, sizeof *names);
  if (names == NULL) return no_memory();
  for (int i = 0; i < k->n; i++) {
    names[i] = weft_arena_str(&r->out->arena, weft_replication_local(r, k->members[i].of, 0).node->name);
    if (names[i].data == NULL) return no_memory();
  }
  r->out->reductions = (weft_names_t){names, k->n};
  if (o->ready == NULL) return NULL;
  if (o->num_ready != k->n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: option 'ready' has %d times, but %d values are summed over replicas", o->strategy,
                      o->num_ready, k->n);
  }
  for (int i = 0; i < k->n; i++) k->members[i].ready = o->ready[i];
  if (k->n > 0) qsort(k->members, (size_t)k->n, sizeof *k->members, by_readiness);
  return NULL;
}

/* ---- one collective ---- */

static weft_status_t *all_reduce(weft_replication_t *r, weft_output_t *values, weft_output_t *chain,
                                 weft_str_t what) {
  weft_named_attr_t attrs[2] = {weft_text_attr("merge_op", WEFT_STR("Add")),
                                weft_text_attr("final_op", WEFT_STR("Id"))};
  char name[48];
  snprintf(name, sizeof name, "all_reduce_%d", r->num_reductions);
  int32_t instance_key = r->instance_key;
  weft_replication_collective(r, "CollectiveReduceV2", attrs, 2, name, values);
  for (int i = 0; i < r->n && chain != NULL && r->e.s == NULL; i++) {
    weft_emit_control(&r->e, chain[i].node, values[i].node);
    chain[i] = values[i];
  }
  r->num_reductions++;
  WEFT_RETURN_IF_ERROR(weft_rewrite_collective(r->out, instance_key, what));
  return weft_emitter_end(&r->e);
}

/* ---- one bucket ---- */

/* As a vector; the step fails if the size differs from the inferred one. */
static weft_output_t flatten(weft_replication_t *r, weft_output_t of, int replica, int number) {
  weft_shape_t shape = weft_static_shape_of(of);
  int64_t count = weft_shape_count(&shape);
  weft_output_t flat =
      weft_emit_ints(&r->e, WEFT_I64, &count, 1, "replica_%d/weft/bucket_%d/flat", replica, number);
  return weft_emit2(&r->e, "Reshape", weft_replication_local(r, of, replica), flat,
                    "replica_%d/weft/bucket_%d/part", replica, number);
}

static weft_status_t *pack(weft_replication_t *r, bucket_member_t *const *members, int n, int number,
                           weft_output_t *out) {
  weft_output_t *parts = weft_arena_calloc(&r->arena, (size_t)n + 1, sizeof *parts);
  if (parts == NULL) return no_memory();
  for (int i = 0; i < r->n; i++) {
    r->e.device = r->o->devices[i];
    if (n == 1) {
      out[i] = weft_replication_local(r, members[0]->of, i);
      continue;
    }
    for (int m = 0; m < n; m++) parts[m] = flatten(r, members[m]->of, i, number);
    parts[n] = weft_emit_int(&r->e, WEFT_I32, 0, "replica_%d/weft/bucket_%d/axis", i, number);
    out[i] = weft_emit(&r->e, "ConcatV2", parts, n + 1, NULL, 0, "replica_%d/weft/bucket_%d", i, number);
  }
  return weft_emitter_end(&r->e);
}

/* The sums of all members, on every replica; remembered. */
static weft_status_t *unpack(weft_replication_t *r, bucket_member_t *const *members, int n, int number,
                             const weft_output_t *sums) {
  static const weft_axis_sharding_t same = {.kind = WEFT_SHARDING_REPLICATE};
  int64_t *sizes = weft_arena_calloc(&r->arena, (size_t)n, sizeof *sizes);
  weft_output_t *first = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *first);
  weft_output_t *whole = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *whole);
  if (sizes == NULL || first == NULL || whole == NULL) return no_memory();
  for (int m = 0; m < n; m++) {
    weft_shape_t shape = weft_static_shape_of(members[m]->of);
    sizes[m] = weft_shape_count(&shape);
  }
  for (int i = 0; i < r->n && n > 1; i++) {
    r->e.device = r->o->devices[i];
    weft_named_attr_t count = weft_int_attr("num_split", n);
    weft_output_t inputs[3] = {sums[i], {NULL, 0}, {NULL, 0}};
    inputs[1] = weft_emit_ints(&r->e, WEFT_I64, sizes, n, "replica_%d/weft/bucket_%d/sizes", i, number);
    inputs[2] = weft_emit_int(&r->e, WEFT_I32, 0, "replica_%d/weft/bucket_%d/split_axis", i, number);
    first[i] = weft_emit(&r->e, "SplitV", inputs, 3, &count, 1, "replica_%d/weft/bucket_%d/split", i, number);
  }
  for (int m = 0; m < n; m++) {
    weft_shape_t shape = weft_static_shape_of(members[m]->of);
    for (int i = 0; i < r->n; i++) {
      whole[i] = sums[i];
      if (n == 1) continue;
      r->e.device = r->o->devices[i];
      weft_output_t dims = weft_emit_ints(&r->e, WEFT_I64, shape.dims, shape.rank,
                                          "replica_%d/weft/bucket_%d/shape", i, number);
      whole[i] = weft_emit2(&r->e, "Reshape", (weft_output_t){first[i].node, m}, dims,
                            "replica_%d/weft/bucket_%d/sum", i, number);
    }
    weft_replication_remember(r, members[m]->of, &same, weft_str(""), whole);
  }
  return weft_emitter_end(&r->e);
}

static weft_shape_t packed_shape(bucket_member_t *const *members, int n) {
  int64_t count = 0;
  if (n == 1) return weft_static_shape_of(members[0]->of);
  for (int m = 0; m < n; m++) {
    weft_shape_t shape = weft_static_shape_of(members[m]->of);
    count += weft_shape_count(&shape);
  }
  return weft_shape_vector(count);
}

static weft_status_t *sum_bucket(weft_replication_t *r, bucket_member_t *const *members, int n,
                                 weft_output_t *chain) {
  weft_output_t of = members[0]->of, *values = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *values);
  int degree = weft_replication_sharding(r, of)->degree, number = r->num_reductions;
  bool is_ordered = r->o->is_ordered && !members[0]->is_alone;
  bool accumulates = r->o->accumulate > 1 && !members[0]->is_alone;
  if (values == NULL) return no_memory();
  weft_strbuf_t what = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&what, "bucket %d:", number);
  for (int m = 0; m < n; m++) weft_strbuf_printf(&what, " %.*s", WEFT_STR_ARGS(members[m]->of.node->name));
  weft_status_t *s = what.failed ? no_memory() : pack(r, members, n, number, values);
  if (s != NULL) goto done;
  weft_output_t hollow = of; /* one member that may be NaN without rows decides for the bucket */
  for (int m = 0; m < n; m++)
    hollow = weft_replication_sharding(r, members[m]->of)->is_hollow ? members[m]->of : hollow;
  for (int i = 0; i < r->n && (!accumulates || degree == 0); i++)
    values[i] = weft_replication_part(r, hollow, values[i], degree, i);
  if (accumulates) {
    weft_shape_t shape = packed_shape(members, n);
    weft_replication_accumulate(r, of, &shape, values, degree);
  }
  s = weft_emitter_end(&r->e);
  if (s != NULL) goto done;
  s = all_reduce(r, values, is_ordered ? chain : NULL, weft_str_of(what.data, what.length));
  if (s != NULL) goto done;
  if (accumulates) weft_replication_per_row(r, of, values, degree);
  s = weft_emitter_end(&r->e);
  if (s == NULL) s = unpack(r, members, n, number, values);
done:
  weft_strbuf_deinit(&what);
  return s;
}

/* ---- accumulation ---- */

/* Only gradients can wait for the end of a round: a sum that the step itself needs cannot, nor can rows that
 * are joined. */
static weft_status_t *check_accumulation(const summing_t *k) {
  const weft_replication_t *r = k->r;
  for (int i = 0; i < k->n; i++) {
    const bucket_member_t *m = &k->members[i];
    if (m->level == k->members[0].level && !m->is_alone) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' (%.*s) cannot be accumulated over steps: %s",
                      WEFT_STR_ARGS(m->of.node->name), WEFT_STR_ARGS(m->of.node->op->name),
                      m->is_alone ? "it is in a branch" : "other sums over replicas depend on sums");
  }
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    for (int i = 0; i < n->num_inputs && r->plan.run[n->id] == WEFT_RUN_UPDATE; i++) {
      if (weft_replication_sharding(r, n->inputs[i])->kind != WEFT_SHARDING_SHARD) continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "node '%.*s' (%.*s) cannot be accumulated over steps: it takes rows",
                        WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name));
    }
  }
  return NULL;
}

/* ---- all buckets ---- */

static int64_t key_of(const summing_t *k, const bucket_member_t *m) {
  int64_t degree = weft_replication_sharding(k->r, m->of)->degree, type = weft_base_type_of(m->of);
  int64_t level = m->is_last ? 0 : m->level + 1;
  return ((level * (int64_t)64 + type) * 256 + (degree + 128)) * 64 +
         (degree == 0 && k->r->o->accumulate <= 1 ? 0 : m->batch);
}

typedef struct turn { /* of a bucket, to be launched */
  int bucket, level, place;
} turn_t;

static int by_turn(const void *a, const void *b) {
  const turn_t *x = a, *y = b;
  return x->level != y->level ? x->level - y->level : x->place - y->place;
}

/* A bucket comes after all buckets that its members may depend on: those of lower levels than its last
 * member's. */
static turn_t turn_of(const weft_buckets_t *buckets, const bucket_member_t *members, int num_members,
                      int bucket, bool is_reversed) {
  turn_t turn = {.bucket = bucket, .place = is_reversed ? -bucket : bucket};
  for (int i = 0; i < buckets->num_items[bucket]; i++) {
    int item = buckets->items[bucket][i];
    int level = members[is_reversed ? num_members - 1 - item : item].level;
    if (level > turn.level) turn.level = level;
  }
  return turn;
}

static weft_status_t *sum_all(summing_t *k) {
  weft_replication_t *r = k->r;
  weft_bucket_item_t *items = weft_arena_calloc(&r->arena, (size_t)k->n, sizeof *items);
  bucket_member_t **in_bucket = weft_arena_calloc(&r->arena, (size_t)k->n, sizeof(*in_bucket));
  weft_output_t *chain = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *chain);
  if (items == NULL || in_bucket == NULL || chain == NULL) return no_memory();
  /* DDP forms buckets over the parameters from the first layer to the last and launches them the other way;
   * once it knows when gradients are ready, it forms them in that order. */
  bool is_reversed = r->o->fusion == WEFT_BUCKETS_DDP && r->o->ready == NULL;
  for (int i = 0; i < k->n; i++) {
    const bucket_member_t *m = &k->members[is_reversed ? k->n - 1 - i : i];
    items[i] = (weft_bucket_item_t){m->is_alone ? -1 : m->bytes, key_of(k, m)};
  }
  weft_buckets_t buckets = {0};
  WEFT_RETURN_IF_ERROR(weft_buckets_form(r->o->fusion, r->o->limits, items, k->n, &r->arena, &buckets));
  turn_t *turns = weft_arena_calloc(&r->arena, (size_t)buckets.num_buckets + 1, sizeof *turns);
  if (turns == NULL) return no_memory();
  for (int b = 0; b < buckets.num_buckets; b++)
    turns[b] = turn_of(&buckets, k->members, k->n, b, is_reversed);
  qsort(turns, (size_t)buckets.num_buckets, sizeof *turns, by_turn);
  for (int i = 0; i < buckets.num_buckets; i++) {
    int b = turns[i].bucket;
    for (int m = 0; m < buckets.num_items[b]; m++) {
      int item = buckets.items[b][m];
      in_bucket[m] = &k->members[is_reversed ? k->n - 1 - item : item];
    }
    WEFT_RETURN_IF_ERROR(sum_bucket(r, in_bucket, buckets.num_items[b], chain));
  }
  return NULL;
}

/* Keys that differ from those of other graphs on these devices; every rank computes the same ones. */
static weft_status_t *choose_keys(summing_t *k) {
  weft_replication_t *r = k->r;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  const weft_str_t *devices = weft_replication_is_between(r) ? r->o->all_devices : r->o->devices;
  for (int i = 0; i < r->total; i++) weft_strbuf_printf(&b, "%.*s;", WEFT_STR_ARGS(devices[i]));
  uint64_t group = weft_str_hash64(weft_str_of(b.data, b.length));
  weft_strbuf_printf(&b, "%d %" PRId64 " %" PRId64 " %d;", (int)r->o->fusion, r->o->limits.first,
                     r->o->limits.cap, r->o->local_batch_norm);
  for (int i = 0; i < k->n; i++) {
    weft_strbuf_printf(&b, "%.*s:%d %" PRId64 ";", WEFT_STR_ARGS(k->members[i].of.node->name),
                       k->members[i].of.index, k->members[i].bytes);
  }
  uint64_t all = weft_str_hash64(weft_str_of(b.data, b.length));
  bool failed = b.failed;
  weft_strbuf_deinit(&b);
  r->fingerprint = all;
  r->group_key = (int32_t)(group % 0x3fffffff) + 1;
  r->instance_key = (int32_t)(all % 0x3fffffff) + 1;
  return failed ? no_memory() : NULL;
}

weft_status_t *weft_replication_reduce(weft_replication_t *r) {
  if (r->total == 1 || r->o->sum != WEFT_SUM_BY_COLLECTIVES) return NULL;
  summing_t k = {.r = r};
  weft_status_t *s = find_members(&k);
  if (s == NULL) s = find_last(&k);
  if (s == NULL) s = sort_members(&k);
  if (s == NULL) s = choose_keys(&k);
  if (s == NULL && r->o->accumulate > 1) s = check_accumulation(&k);
  if (s == NULL && k.n > 0) s = sum_all(&k);
  weft_free(k.members);
  return s;
}
