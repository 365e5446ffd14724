/* client/strategy/reduce.c - reductions across replicas: by collectives on all of them, or on one device.
 *
 * Several values are packed: in reverse order, because the last gradients are ready
 * first, values of one type and known shape are laid end to end up to bytes_per_pack
 * and reduced together (TensorFlow's cross_device_ops).
 */
#include <stdio.h>

#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"
#include "strategies/buckets.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a reduction"); }

static const char *merge_name(WEFT_ReduceOp op) {
  return op == WEFT_MIN ? "Min" : op == WEFT_MAX ? "Max" : "Add";
}

/* ---- on one device ---- */

static weft_output_t divide(weft_adding_t *b, weft_output_t sum, int n) {
  weft_output_t count = weft_emit_number(&b->e, weft_base_type_of(sum), n, "reduce/count");
  return weft_emit2(&b->e, weft_dtype_is_floating(weft_base_type_of(sum)) ? "RealDiv" : "FloorDiv", sum,
                    count, "reduce/mean");
}

weft_status_t *weft_reduce_to_one(TF_Graph *g, WEFT_ReduceOp op, const TF_Output *values, int n,
                                  weft_str_t device, TF_Output *out) {
  weft_adding_t b;
  weft_output_t *inputs = weft_calloc((size_t)n, sizeof *inputs), result;
  if (inputs == NULL) return no_memory();
  for (int i = 0; i < n; i++) inputs[i] = weft_client_output(values[i]);
  weft_adding_begin(&b, g, device);
  if (op == WEFT_MIN || op == WEFT_MAX) {
    result = inputs[0];
    for (int i = 1; i < n; i++)
      result = weft_emit2(&b.e, op == WEFT_MIN ? "Minimum" : "Maximum", result, inputs[i], "reduce/%s",
                          merge_name(op));
  } else {
    weft_named_attr_t count = weft_int_attr("N", n);
    result = n == 1 ? weft_emit1(&b.e, "Identity", inputs[0], "reduce/one")
                    : weft_emit(&b.e, "AddN", inputs, n, &count, 1, "reduce/sum");
    if (op == WEFT_MEAN && n > 1) result = divide(&b, result, n);
  }
  weft_status_t *s = weft_adding_end(&b);
  weft_free(inputs);
  if (s == NULL) *out = weft_adding_output(&b, result);
  return s;
}

/* ---- on all ---- */

typedef struct replica_reduction {
  weft_adding_t b;
  weft_scope_t *scope;
  WEFT_ReduceOp op;
  int n; /* replicas */
  int32_t group_key;
  weft_arena_t arena;
} replica_reduction_t;

static int32_t key_of(weft_str_t text, int64_t more) {
  uint64_t h = weft_str_hash64(text) ^ (uint64_t)more * 0x9e3779b97f4a7c15u;
  return (int32_t)((h ^ h >> 32) % 0x3fffffff) + 1;
}

/* The same for the same devices, whichever graph they are in. */
static weft_status_t *find_group_key(replica_reduction_t *r) {
  weft_strbuf_t all = WEFT_STRBUF_INIT;
  const WEFT_Strategy *s = r->scope->strategy;
  for (int i = 0; i < s->num_replicas; i++) weft_strbuf_printf(&all, "%s;", s->devices[i].data);
  bool ok = !all.failed;
  if (ok) r->group_key = key_of(weft_str_of(all.data, all.length), 0);
  weft_strbuf_deinit(&all);
  return ok ? NULL : no_memory();
}

static weft_output_t collective(replica_reduction_t *r, weft_output_t value, int replica,
                                int32_t instance_key) {
  weft_emitter_t *e = &r->b.e;
  const WEFT_Strategy *s = r->scope->strategy;
  e->device = s->devices[replica];
  weft_output_t inputs[] = {value, weft_emit_int(e, WEFT_I32, r->n, "all_reduce/group_size"),
                            weft_emit_int(e, WEFT_I32, r->group_key, "all_reduce/group_key"),
                            weft_emit_int(e, WEFT_I32, instance_key, "all_reduce/instance_key")};
  weft_named_attr_t attrs[] = {
      weft_text_attr("merge_op", weft_str(merge_name(r->op))),
      weft_text_attr("final_op", weft_str(r->op == WEFT_MEAN ? "Div" : "Id")),
      weft_text_attr("communication_hint", s->algorithm),
      {WEFT_STR("timeout_seconds"), {.kind = WEFT_ATTR_FLOAT, .f = (float)s->timeout_s}}};
  return weft_emit(e, "CollectiveReduceV2", inputs, 4, attrs, 4, "replica_%d/all_reduce", replica);
}

/* Instances of different shapes in one group must differ, also between graphs: hence the shape in the key. */
static int32_t instance_of(replica_reduction_t *r, weft_output_t value) {
  weft_shape_t shape = weft_static_shape_of(value);
  return key_of(weft_str(WEFT_SHAPE_TEXT(&shape)), r->scope->next_instance++ * 64 + weft_base_type_of(value));
}

/* A fetch of one replica's result runs the whole collective: otherwise the members in the step would wait for
 * those outside of it. Results are separate nodes, so their control edges do not delay the members. */
static weft_output_t tie(replica_reduction_t *r, const weft_output_t *members, int replica) {
  weft_output_t named = weft_emit1(&r->b.e, "Identity", members[replica], "replica_%d/all_reduced", replica);
  for (int i = 0; i < r->n; i++) {
    if (i != replica) weft_emit_control(&r->b.e, members[i].node, named.node);
  }
  return named;
}

/* One value (of all replicas) alone. */
static weft_status_t *reduce_alone(replica_reduction_t *r, const TF_Output *values, weft_output_t *out) {
  int32_t instance = instance_of(r, weft_client_output(values[0]));
  weft_output_t *members = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *members);
  if (members == NULL) return no_memory();
  for (int i = 0; i < r->n; i++) members[i] = collective(r, weft_client_output(values[i]), i, instance);
  for (int i = 0; i < r->n; i++) {
    r->b.e.device = r->scope->strategy->devices[i];
    out[i] = tie(r, members, i);
  }
  return NULL;
}

/* Several of one type, end to end. `which` are values' numbers. */
static weft_status_t *reduce_packed(replica_reduction_t *r, const TF_Output *values, const int *which,
                                    int num, weft_output_t *out) {
  weft_emitter_t *e = &r->b.e;
  weft_output_t *flat = weft_arena_calloc(&r->arena, (size_t)num + 1, sizeof *flat);
  int64_t *sizes = weft_arena_calloc(&r->arena, (size_t)num, sizeof *sizes), total = 0;
  weft_output_t *members = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *members);
  if (flat == NULL || sizes == NULL || members == NULL) return no_memory();
  for (int k = 0; k < num; k++) {
    weft_output_t first = weft_client_output(values[which[k] * r->n]);
    sizes[k] = weft_static_bytes_of(first) / (int64_t)weft_dtype_size(weft_base_type_of(first));
    total += sizes[k];
  }
  char text[32];
  snprintf(text, sizeof text, "[%lld]", (long long)total);
  int32_t instance = key_of(weft_str(text), r->scope->next_instance++);
  for (int i = 0; i < r->n; i++) {
    e->device = r->scope->strategy->devices[i];
    int64_t whole = -1;
    for (int k = 0; k < num; k++) {
      flat[k] = weft_emit2(e, "Reshape", weft_client_output(values[which[k] * r->n + i]),
                           weft_emit_ints(e, WEFT_I64, &whole, 1, "pack/flat_shape"), "pack/flat");
    }
    flat[num] = weft_emit_int(e, WEFT_I32, 0, "pack/axis");
    weft_named_attr_t count = weft_int_attr("N", num);
    members[i] = collective(r, weft_emit(e, "ConcatV2", flat, num + 1, &count, 1, "pack/all"), i, instance);
  }
  for (int i = 0; i < r->n; i++) {
    weft_named_attr_t parts = weft_int_attr("num_split", num);
    e->device = r->scope->strategy->devices[i];
    weft_output_t sum = tie(r, members, i);
    weft_output_t inputs[] = {sum, weft_emit_ints(e, WEFT_I64, sizes, num, "pack/sizes"),
                              weft_emit_int(e, WEFT_I32, 0, "pack/split_axis")};
    weft_output_t pieces = weft_emit(e, "SplitV", inputs, 3, &parts, 1, "pack/pieces");
    for (int k = 0; k < num; k++) {
      weft_shape_t shape = weft_static_shape_of(weft_client_output(values[which[k] * r->n + i]));
      weft_output_t dims = weft_emit_ints(e, WEFT_I64, shape.dims, shape.rank, "pack/shape");
      out[which[k] * r->n + i] =
          weft_emit2(e, "Reshape", (weft_output_t){pieces.node, k}, dims, "pack/value");
    }
  }
  return NULL;
}

static weft_status_t *reduce_packs(replica_reduction_t *r, const TF_Output *values, int num_values,
                                   weft_output_t *out) {
  int64_t limit = r->scope->strategy->bytes_per_pack;
  weft_bucket_item_t *items = weft_arena_calloc(&r->arena, (size_t)num_values, sizeof *items);
  int *which = weft_arena_calloc(&r->arena, (size_t)num_values, sizeof *which);
  if (items == NULL || which == NULL) return no_memory();
  for (int k = 0; k < num_values; k++) { /* the last first */
    weft_output_t o = weft_client_output(values[(num_values - 1 - k) * r->n]);
    items[k] = (weft_bucket_item_t){.bytes = weft_static_bytes_of(o), .key = weft_base_type_of(o)};
  }
  weft_buckets_t packs;
  weft_bucket_rule_t rule = limit > 0 ? WEFT_BUCKETS_PACK : WEFT_BUCKETS_NONE;
  WEFT_RETURN_IF_ERROR(weft_buckets_form(rule, (weft_bucket_limits_t){.first = limit, .cap = limit}, items,
                                         num_values, &r->arena, &packs));
  for (int p = 0; p < packs.num_buckets; p++) {
    for (int k = 0; k < packs.num_items[p]; k++) which[k] = num_values - 1 - packs.items[p][k];
    if (packs.num_items[p] == 1) {
      WEFT_RETURN_IF_ERROR(reduce_alone(r, &values[which[0] * r->n], &out[which[0] * r->n]));
    } else {
      WEFT_RETURN_IF_ERROR(reduce_packed(r, values, which, packs.num_items[p], out));
    }
  }
  return NULL;
}

weft_status_t *weft_all_reduce(TF_Graph *g, weft_scope_t *scope, WEFT_ReduceOp op, const TF_Output *values,
                               int num_values, TF_Output *out) {
  replica_reduction_t r = {.scope = scope, .op = op, .n = scope->strategy->num_replicas};
  if (r.n == 1) {
    for (int k = 0; k < num_values; k++) {
      WEFT_RETURN_IF_ERROR(weft_reduce_to_one(g, op, &values[k], 1, scope->strategy->devices[0], &out[k]));
    }
    return NULL;
  }
  size_t all = (size_t)num_values * (size_t)r.n;
  weft_output_t *made = weft_arena_calloc(&r.arena, all + 1, sizeof *made);
  weft_status_t *s = made == NULL ? no_memory() : find_group_key(&r);
  if (s == NULL) {
    weft_adding_begin(&r.b, g, WEFT_STR(""));
    weft_status_t *failed = reduce_packs(&r, values, num_values, made);
    s = weft_adding_end(&r.b);
    if (failed != NULL) {
      weft_status_free(s);
      s = failed;
    }
  }
  for (size_t k = 0; s == NULL && k < all; k++) out[k] = weft_adding_output(&r.b, made[k]);
  weft_arena_deinit(&r.arena);
  return s;
}
