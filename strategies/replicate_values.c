/* strategies/replicate_values.c - converts a value to the sharding that a consumer requires.
 *
 * With true = local * w^d (Replicate), rows of true = local * w^d (Shard) and true = sum of local * w^d
 * (Partial), every resharding is a scale by a power of w, a reduction, a concatenation of rows or a slice;
 * the table is weft_replication_value's switch.
 *
 * Copies of variables must stay equal to the last bit, so a true value that all replicas get is computed in
 * one place: a value of degree other than 0 is brought to degree 0 on the last replica (which has rows if any
 * replica has) and sent to all.
 *
 * Values are made once and remembered by (output, required sharding, device).
 */
#include "strategies/replication.h"

struct weft_replica_value {
  weft_replica_value_t *next;
  int index;
  weft_axis_sharding_t as;
  weft_str_t device; /* of true values */
  weft_output_t *of; /* by replica */
};

static void no_memory(weft_replication_t *r) {
  if (r->e.s == NULL) r->e.s = WEFT_NO_MEMORY("values of replicas");
}

weft_axis_sharding_t weft_replication_required(const weft_replication_t *r, const weft_node_t *n, int i) {
  weft_axis_sharding_t required = r->plan.required[n->id][i];
  bool is_value = required.kind == WEFT_SHARDING_REPLICATE || required.kind == WEFT_SHARDING_SHARD ||
                  required.kind == WEFT_SHARDING_PARTIAL || required.kind == WEFT_SHARDING_COUNTS;
  if (weft_replication_facts(r, n)->is_single && is_value)
    required = (weft_axis_sharding_t){.kind = WEFT_SHARDING_SINGLE};
  return required;
}

static bool is_same_sharding(const weft_axis_sharding_t *a, const weft_axis_sharding_t *b) {
  return a->kind == b->kind && a->dim == b->dim && a->degree == b->degree && a->rows == b->rows;
}

static weft_replica_value_t *find_value(const weft_replication_t *r, weft_output_t of,
                                        const weft_axis_sharding_t *as, weft_str_t device) {
  for (weft_replica_value_t *v = r->values[of.node->id]; v != NULL; v = v->next) {
    bool is_there = as->kind != WEFT_SHARDING_SINGLE || weft_str_eq(v->device, device);
    if (v->index == of.index && is_same_sharding(&v->as, as) && is_there) return v;
  }
  return NULL;
}

void weft_replication_remember(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *required,
                               weft_str_t device, const weft_output_t *values) {
  weft_replica_value_t *v = weft_arena_calloc(&r->arena, 1, sizeof *v);
  weft_output_t *copy = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *copy);
  if (v == NULL || copy == NULL) {
    no_memory(r);
    return;
  }
  memcpy(copy, values, (size_t)r->n * sizeof *copy);
  *v = (weft_replica_value_t){r->values[of.node->id], of.index, *required, device, copy};
  r->values[of.node->id] = v;
}

static void to_all(const weft_replication_t *r, weft_output_t value, weft_output_t *out) {
  for (int i = 0; i < r->n; i++) out[i] = value;
}

/* ---- true values ---- */

/* local * w^d of every replica. */
static void weigh_all(weft_replication_t *r, weft_output_t of, int exponent, weft_output_t *out) {
  bool is_part = weft_replication_sharding(r, of)->kind == WEFT_SHARDING_PARTIAL;
  for (int i = 0; i < r->n; i++) {
    weft_output_t local = weft_replication_local(r, of, i);
    out[i] = is_part ? weft_replication_part(r, of, local, exponent, i)
                     : weft_replication_scale(r, of, local, exponent, i);
  }
}

static weft_output_t add_up(weft_replication_t *r, weft_output_t of, const weft_output_t *parts) {
  int type = weft_base_type_of(of);
  if (type != WEFT_BOOL && weft_dtype_is_plain(type)) {
    return weft_emit(&r->e, "AddN", parts, r->n, NULL, 0, "weft/sum/%.*s", WEFT_STR_ARGS(of.node->name));
  }
  if (r->e.s == NULL) {
    r->e.s = WEFT_ERROR(
        INVALID_ARGUMENT,
        "node '%.*s' (%.*s) cannot be split over replicas: its value of type %s cannot be added up",
        WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name), weft_dtype_name(type));
  }
  return parts[0];
}

static weft_output_t join_rows(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                               const weft_output_t *rows, int replica) {
  weft_output_t *inputs = weft_arena_calloc(&r->arena, (size_t)r->n + 1, sizeof *inputs);
  if (inputs == NULL) {
    no_memory(r);
    return rows[0];
  }
  memcpy(inputs, rows, (size_t)r->n * sizeof *inputs);
  inputs[r->n] = weft_emit_int(&r->e, WEFT_I32, has->dim, "replica_%d/weft/rows/%.*s/axis", replica,
                               WEFT_STR_ARGS(of.node->name));
  return weft_emit(&r->e, "ConcatV2", inputs, r->n + 1, NULL, 0, "replica_%d/weft/rows/%.*s", replica,
                   WEFT_STR_ARGS(of.node->name));
}

/* An integer tensor of n elements (a scalar if n < 0) with ones where the mask says so, or where it does not.
 */
static weft_output_t mask_of(weft_replication_t *r, uint64_t rows, bool inverted, int64_t n, int dtype) {
  int64_t ones[64];
  int64_t count = n < 0 ? 1 : n;
  for (int64_t i = 0; i < count; i++) ones[i] = (rows >> i & 1) != (inverted ? 1u : 0u);
  weft_output_t mask = n < 0 ? weft_emit_int(&r->e, WEFT_I64, ones[0], "weft/mask")
                             : weft_emit_ints(&r->e, WEFT_I64, ones, (int)n, "weft/mask");
  return weft_emit_cast(&r->e, mask, dtype, "weft/mask/cast");
}

/* Numbers computed from shapes: elements that count rows are added up, the others are equal everywhere. */
static weft_output_t add_up_rows(weft_replication_t *r, weft_output_t of, uint64_t rows, int n) {
  weft_output_t *parts = weft_arena_calloc(&r->arena, (size_t)r->n + 1, sizeof *parts),
                local0 = weft_replication_local(r, of, 0);
  if (parts == NULL) {
    no_memory(r);
    return local0;
  }
  weft_output_t counts = mask_of(r, rows, false, n, weft_base_type_of(of)),
                others = mask_of(r, rows, true, n, weft_base_type_of(of));
  for (int i = 0; i < r->n; i++) {
    parts[i] = weft_emit2(&r->e, "Mul", weft_replication_local(r, of, i), counts, "weft/counts/%.*s",
                          WEFT_STR_ARGS(of.node->name));
  }
  parts[r->n] = weft_emit2(&r->e, "Mul", local0, others, "weft/others/%.*s", WEFT_STR_ARGS(of.node->name));
  return weft_emit(&r->e, "AddN", parts, r->n + 1, NULL, 0, "weft/sum/%.*s", WEFT_STR_ARGS(of.node->name));
}

/* A batch that is fed is whole on the device where it is fed. */
static bool lies_whole(const weft_replication_t *r, weft_output_t of) {
  return weft_node_is_placeholder(of.node) && weft_replication_facts(r, of.node)->is_single;
}

static weft_output_t whole(const weft_replication_t *r, weft_output_t of) {
  return (weft_output_t){r->copiers[0].nodes[of.node->id], of.index};
}

/* The term of replica i in a sum over all: its own counts, and the replicated elements on replica 0 alone. */
static weft_output_t counts_of(weft_replication_t *r, weft_output_t of, uint64_t rows, int replica) {
  weft_shape_t shape = weft_static_shape_of(of);
  weft_output_t local = weft_replication_local(r, of, replica);
  if (r->first + replica == 0 || r->e.s != NULL) return local;
  if (shape.rank > 1 || (shape.rank == 1 && (shape.dims[0] < 0 || shape.dims[0] > 64)) || shape.rank < 0) {
    r->e.s = WEFT_ERROR(INVALID_ARGUMENT,
                        "node '%.*s' (%.*s) cannot be split over replicas: it counts rows in a vector of "
                        "unknown length",
                        WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name));
    return local;
  }
  weft_str_t device = r->e.device;
  r->e.device = r->o->devices[replica];
  weft_output_t mask = mask_of(r, rows, false, shape.rank == 0 ? -1 : shape.dims[0], weft_base_type_of(of));
  weft_output_t counts =
      weft_emit2(&r->e, "Mul", local, mask, "weft/counts/%.*s", WEFT_STR_ARGS(of.node->name));
  r->e.device = device;
  return counts;
}

/* A constant is made where it is required. */
static weft_output_t constant_on(weft_replication_t *r, weft_output_t of, weft_str_t device) {
  weft_output_t local = weft_replication_local(r, of, 0);
  bool is_there = (of.node->flags & WEFT_OP_CONST) == 0 || of.node->num_controls > 0 ||
                  weft_replication_facts(r, of.node)->branches > 0 ||
                  weft_str_eq(local.node->requested_device, device);
  if (is_there || r->e.s != NULL) return local;
  return weft_emit(&r->e, of.node->op->name.data, NULL, 0, of.node->attrs, of.node->num_attrs,
                   "weft/constant/%.*s", WEFT_STR_ARGS(of.node->name));
}

/* The value that one device would have, on the emitter's device. */
static weft_output_t true_value(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                                int replica) {
  weft_output_t *parts = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *parts);
  int last = r->n - 1;
  if (lies_whole(r, of)) return whole(r, of);
  if (parts == NULL) {
    no_memory(r);
    return (weft_output_t){NULL, 0};
  }
  if (weft_replication_is_between(r)) {
    static const weft_axis_sharding_t same = {.kind = WEFT_SHARDING_REPLICATE};
    if (has->kind == WEFT_SHARDING_SINGLE || is_same_sharding(has, &same))
      return weft_replication_local(r, of, 0);
    return weft_replication_value(r, of, &same, 0, r->o->devices[0]);
  }
  switch (has->kind) {
    case WEFT_SHARDING_REPLICATE:
      if (has->degree == 0) return constant_on(r, of, r->e.device);
      return weft_replication_scale(r, of, weft_replication_local(r, of, last), has->degree, last);
    case WEFT_SHARDING_PARTIAL: weigh_all(r, of, has->degree, parts); return add_up(r, of, parts);
    case WEFT_SHARDING_SHARD:
      weigh_all(r, of, has->degree, parts);
      return join_rows(r, of, has, parts, replica);
    case WEFT_SHARDING_COUNTS:
      if (has->rows != 0) return add_up_rows(r, of, has->rows, has->count);
      return weft_replication_local(r, of, 0);
    case WEFT_SHARDING_NONE:
    case WEFT_SHARDING_SINGLE:
    case WEFT_SHARDING_LOCAL: break;
  }
  return weft_replication_local(r, of, 0);
}

weft_output_t weft_replication_own_rows(weft_replication_t *r, weft_output_t of) {
  const weft_axis_sharding_t *has = weft_replication_sharding(r, of);
  weft_output_t *rows = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *rows);
  if (rows == NULL) {
    no_memory(r);
    return (weft_output_t){NULL, 0};
  }
  if (lies_whole(r, of)) return whole(r, of);
  weigh_all(r, of, has->degree, rows);
  r->e.device = r->o->devices[0];
  return r->n == 1 ? rows[0] : join_rows(r, of, has, rows, 0);
}

/* ---- between workers ---- */

static void fail_between(weft_replication_t *r, weft_output_t of) {
  if (r->e.s != NULL) return;
  r->e.s = WEFT_ERROR(INVALID_ARGUMENT,
                      "node '%.*s' (%.*s) cannot be split over workers with a client each; let one client "
                      "drive all",
                      WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name));
}

static void local_all(const weft_replication_t *r, weft_output_t of, weft_output_t *out) {
  for (int i = 0; i < r->n; i++) out[i] = weft_replication_local(r, of, i);
}

/* The true value on every replica here; values that are sharded over workers are exchanged by collectives. */
static void same_between(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                         weft_output_t *out) {
  local_all(r, of, out);
  switch (has->kind) {
    case WEFT_SHARDING_SINGLE: weft_replication_broadcast(r, of.node, 0, out); return;
    case WEFT_SHARDING_REPLICATE:
      if (has->degree == 0) return;
      weigh_all(r, of, has->degree, out);
      weft_replication_broadcast(r, of.node, r->total - 1, out);
      return;
    case WEFT_SHARDING_PARTIAL:
      if (!weft_collective_takes(weft_base_type_of(of))) {
        fail_between(r, of);
        return;
      }
      weigh_all(r, of, has->degree, out);
      weft_replication_add(r, out);
      return;
    case WEFT_SHARDING_SHARD:
      if (has->dim != 0) {
        fail_between(r, of);
        return;
      }
      weigh_all(r, of, has->degree, out);
      weft_replication_gather(r, out);
      return;
    case WEFT_SHARDING_COUNTS:
      if (has->rows == 0) return;
      for (int i = 0; i < r->n; i++) out[i] = counts_of(r, of, has->rows, i);
      weft_replication_add(r, out);
      return;
    case WEFT_SHARDING_NONE:
    case WEFT_SHARDING_LOCAL: return;
  }
}

/* ---- the other ways ---- */

static void fail_as(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                    const weft_axis_sharding_t *required) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_axis_sharding_print(has, &b);
  weft_strbuf_puts(&b, ", and what takes it needs ");
  weft_axis_sharding_print(required, &b);
  if (r->e.s == NULL) {
    r->e.s = WEFT_ERROR(
        INVALID_ARGUMENT,
        "node '%.*s' (%.*s) cannot be split over replicas: its value is %.*s; name the feeds that are "
        "batches (batch=x+y), or train this graph on one device",
        WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name),
        WEFT_STR_ARGS(weft_str_of(b.data, b.length)));
  }
  weft_strbuf_deinit(&b);
}

static void scale_all(weft_replication_t *r, weft_output_t of, int exponent, weft_output_t *values) {
  for (int i = 0; i < r->n; i++) values[i] = weft_replication_scale(r, of, values[i], exponent, i);
}

/* As Replicate of degree 0 on all replicas, computed in one place. */
static void as_same(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                    weft_output_t *out) {
  weft_str_t device = r->e.device;
  if (weft_replication_is_between(r)) {
    same_between(r, of, has, out);
  } else if (has->kind == WEFT_SHARDING_SHARD &&
             !lies_whole(r, of)) { /* every replica concatenates the rows of all */
    weft_output_t *rows = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *rows);
    if (rows == NULL) {
      no_memory(r);
      return;
    }
    weigh_all(r, of, has->degree, rows);
    for (int i = 0; i < r->n; i++) {
      r->e.device = r->o->devices[i];
      out[i] = join_rows(r, of, has, rows, i);
    }
  } else {
    r->e.device = r->o->devices[0];
    to_all(r, true_value(r, of, has, 0), out);
  }
  r->e.device = device;
}

/* Rows of the true value. */
/* Each worker's reader gives a batch of its own, which is split over the worker's replicas. */
static bool is_read_batch(const weft_replication_t *r, weft_output_t of) {
  bool any = false;
  for (int b = 0; b < r->plan.num_batches; b++) {
    any = any || (r->plan.batches[b].node == of.node && r->plan.batches[b].index == of.index);
  }
  return any;
}

/* Is the true value on each replica, inside a loop, where nothing can be sent? */
static bool lies_whole_in_loop(const weft_replication_t *r, weft_output_t of,
                               const weft_axis_sharding_t *has) {
  return weft_replication_facts(r, of.node)->frame != 0 && has->kind == WEFT_SHARDING_REPLICATE &&
         has->degree == 0;
}

static void as_slices(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                      const weft_axis_sharding_t *required, weft_output_t *out) {
  static const weft_axis_sharding_t same = {.kind = WEFT_SHARDING_REPLICATE};
  bool is_between = weft_replication_is_between(r), is_read = is_read_batch(r, of);
  if (lies_whole_in_loop(r, of, has) || (is_between && !is_read)) {
    for (int i = 0; i < r->n && r->e.s == NULL; i++) {
      weft_output_t whole = weft_replication_value(r, of, &same, i, r->o->devices[i]);
      out[i] = weft_replication_slice_on(r, of, whole, required->dim, i);
    }
    return;
  }
  weft_output_t whole = is_between ? weft_replication_local(r, of, 0)
                                   : weft_replication_value(r, of, &same, 0, r->o->devices[0]);
  weft_str_t device = r->e.device;
  r->e.device = r->o->devices[0];
  weft_replication_slice(r, weft_replication_batch_of(r, of.node), whole, required->dim, out);
  r->e.device = device;
}

/* Of an output of an input that each task reads for itself, for every replica. */
static void make_own(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *required,
                     weft_output_t *out) {
  const weft_own_input_t *in = weft_replication_own_input(r, of.node);
  const weft_str_t device = r->e.device;
  if (weft_replication_own_ends(in))
    (void)weft_replication_batch_shards(r, weft_replication_batch_of(r, of.node));
  if (required->kind == WEFT_SHARDING_SHARD && required->dim == 0) {
    weft_replication_own_slices(r, in, of.index, out);
  } else if (required->kind == WEFT_SHARDING_SINGLE) {
    to_all(r, weft_replication_own_joined(r, in, of.index), out);
  } else {
    for (int i = 0; i < r->n; i++) {
      r->e.device = r->o->devices[i];
      out[i] = weft_replication_own_joined(r, in, of.index);
    }
    for (int i = 0; required->kind == WEFT_SHARDING_SHARD && i < r->n; i++)
      out[i] = weft_replication_slice_on(r, of, out[i], required->dim, i);
  }
  r->e.device = device;
  if (required->kind == WEFT_SHARDING_PARTIAL) {
    scale_all(r, of, 1 - required->degree, out); /* the weights of all replicas add up to 1 */
  } else if (required->kind == WEFT_SHARDING_SHARD || required->kind == WEFT_SHARDING_REPLICATE) {
    scale_all(r, of, -required->degree, out);
  }
}

/* Fills out[i] for every replica. */
static void make(weft_replication_t *r, weft_output_t of, const weft_axis_sharding_t *has,
                 const weft_axis_sharding_t *required, weft_output_t *out) {
  bool is_value = has->kind == WEFT_SHARDING_REPLICATE || has->kind == WEFT_SHARDING_SINGLE;
  int has_degree = has->kind == WEFT_SHARDING_SINGLE ? 0 : has->degree;
  local_all(r, of, out);
  if (weft_replication_own_input(r, of.node) != NULL) {
    make_own(r, of, required, out);
    return;
  }
  switch (required->kind) {
    case WEFT_SHARDING_NONE:
    case WEFT_SHARDING_LOCAL:
    case WEFT_SHARDING_COUNTS: return;
    case WEFT_SHARDING_SINGLE: to_all(r, true_value(r, of, has, 0), out); return;
    case WEFT_SHARDING_REPLICATE:
      if (has->kind == WEFT_SHARDING_SINGLE &&
          !weft_replication_is_between(r)) { /* all read the same output */
        scale_all(r, of, -required->degree, out);
        return;
      }
      if (has->kind == WEFT_SHARDING_LOCAL || has->kind == WEFT_SHARDING_NONE) return;
      if (has->kind == WEFT_SHARDING_COUNTS && has->rows == 0) return;
      if (has->kind == WEFT_SHARDING_REPLICATE && required->degree != 0) {
        scale_all(r, of, has->degree - required->degree, out);
        return;
      }
      as_same(r, of, has, out);
      scale_all(r, of, -required->degree, out);
      return;
    case WEFT_SHARDING_SHARD:
      if (has->kind == WEFT_SHARDING_SHARD && has->dim == required->dim) {
        scale_all(r, of, has->degree - required->degree, out);
      } else if (is_value || has->kind == WEFT_SHARDING_PARTIAL) { /* a Partial is reduced, then sliced */
        as_slices(r, of, has, required, out);
        scale_all(r, of, -required->degree, out);
      } else {
        fail_as(r, of, has, required);
      }
      return;
    case WEFT_SHARDING_PARTIAL:
      if (has->kind == WEFT_SHARDING_PARTIAL) {
        scale_all(r, of, has->degree - required->degree, out);
      } else if (is_value) { /* the weights of all replicas add up to 1 */
        scale_all(r, of, has_degree + 1 - required->degree, out);
      } else {
        fail_as(r, of, has, required);
      }
      return;
  }
}

weft_output_t weft_replication_value(weft_replication_t *r, weft_output_t of,
                                     const weft_axis_sharding_t *required, int replica, weft_str_t device) {
  const weft_axis_sharding_t *has = weft_replication_sharding(r, of);
  weft_output_t local = weft_replication_local(r, of, replica);
  const bool is_own = weft_replication_own_input(r, of.node) != NULL;
  if (r->e.s != NULL || r->total == 1 || (is_same_sharding(has, required) && !is_own)) return local;
  weft_replica_value_t *known = find_value(r, of, required, device);
  if (known != NULL) return known->of[replica];
  weft_output_t *out = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *out);
  if (out == NULL) {
    no_memory(r);
    return local;
  }
  weft_str_t before = r->e.device;
  r->e.device = device;
  int num_nodes = r->to->num_nodes;
  make(r, of, has, required, out);
  r->e.device = before;
  bool is_local =
      required->kind == WEFT_SHARDING_SHARD && lies_whole_in_loop(r, of, has) && required->degree == 0;
  bool is_made = r->to->num_nodes != num_nodes && !is_local;
  if (is_made && weft_replication_facts(r, of.node)->frame != 0 && r->e.s == NULL) {
    r->e.s =
        WEFT_ERROR(INVALID_ARGUMENT,
                   "node '%.*s' (%.*s) cannot be split over replicas: replicas would have to exchange its "
                   "value in every round of a loop; compute it before the loop, or after it",
                   WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name));
  }
  if (r->e.s == NULL) weft_replication_remember(r, of, required, device, out);
  return out[replica];
}

/* ---- all inputs ---- */

/* A constant of these dims, for a reduction's axes. */
static weft_output_t emit_dims(weft_replication_t *r, const weft_node_t *n, uint32_t dims) {
  int64_t list[WEFT_DATA_DIMS];
  int count = weft_data_list_dims(dims, list);
  return weft_emit_ints(&r->e, n->input_types[1], list, count, "weft/axes/%.*s", WEFT_STR_ARGS(n->name));
}

/* The axes for a reduction's copy, computed from its axes `all`. */
static weft_output_t axes_of(weft_replication_t *r, const weft_node_t *n, weft_node_t *copy,
                             weft_output_t all) {
  const weft_data_named_t *named = &r->plan.named[n->id];
  if (!named->is_named && (named->dims | named->kept) == 0) return all;
  weft_str_t device = r->e.device;
  r->e.device = copy->requested_device;
  r->e.after = weft_replication_facts(r, n)->frame == 0
                   ? NULL
                   : copy->inputs[0].node; /* constants must be in the frame, too */
  weft_output_t axes = emit_dims(r, n, named->dims);
  if (!named->is_named) {
    weft_output_t left = weft_emit2(&r->e, "ListDiff", all, emit_dims(r, n, named->dims | named->kept),
                                    "weft/axes/%.*s", WEFT_STR_ARGS(n->name));
    axes = weft_emit3(&r->e, "ConcatV2", axes, left,
                      weft_emit_int(&r->e, WEFT_I32, 0, "weft/axes/%.*s", WEFT_STR_ARGS(n->name)),
                      "weft/axes/%.*s", WEFT_STR_ARGS(n->name));
  }
  r->e.after = NULL;
  r->e.device = device;
  return axes;
}

static weft_status_t *connect_copy(weft_replication_t *r, const weft_node_t *n, int replica) {
  weft_node_t *copy = r->copiers[replica].copies[n->id];
  weft_str_t device = copy->requested_device;
  for (int i = 0; i < n->num_inputs && i < copy->num_inputs && r->e.s == NULL; i++) {
    weft_axis_sharding_t required = weft_replication_required(r, n, i);
    bool is_named = i == 1 && r->plan.named[n->id].is_named;
    weft_output_t value =
        is_named ? n->inputs[i] : weft_replication_value(r, n->inputs[i], &required, replica, device);
    if (i == 1) value = axes_of(r, n, copy, value);
    if (r->e.s == NULL && (value.node != copy->inputs[i].node || value.index != copy->inputs[i].index)) {
      weft_graph_set_input(copy, i, value);
    }
  }
  return weft_emitter_end(&r->e);
}

/* A node that lives once waits for the copies on all replicas. An update waits for all its control inputs on
 * all of them: replicas may have to read before it writes. */
static void follow_all(weft_replication_t *r, const weft_node_t *n, const weft_node_t *producer,
                       bool is_told) {
  const weft_node_facts_t *from = weft_replication_facts(r, producer);
  bool waits = from->has_effect || (is_told && r->plan.run[n->id] == WEFT_RUN_UPDATE);
  if (from->is_single || !waits || from->frame != 0 || weft_replication_facts(r, n)->frame != 0) return;
  for (int k = 1; k < r->n; k++)
    weft_emit_control(&r->e, r->copiers[k].nodes[producer->id], r->copiers[0].nodes[n->id]);
}

weft_status_t *weft_replication_connect(weft_replication_t *r) {
  for (int at = 0; at < r->source.graph->num_live && r->total > 1; at++) {
    const weft_node_t *n = r->order[at];
    if (weft_replication_facts(r, n)->is_single) {
      if (r->copiers[0].copies[n->id] == NULL) continue; /* another read stands for it */
      WEFT_RETURN_IF_ERROR(connect_copy(r, n, 0));
      for (int i = 0; i < n->num_inputs; i++) follow_all(r, n, n->inputs[i].node, false);
      for (int i = 0; i < n->num_controls; i++) follow_all(r, n, n->controls[i], true);
      WEFT_RETURN_IF_ERROR(weft_emitter_end(&r->e));
      continue;
    }
    for (int k = 0; k < r->n; k++) WEFT_RETURN_IF_ERROR(connect_copy(r, n, k));
  }
  return NULL;
}
