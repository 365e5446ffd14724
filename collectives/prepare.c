/* collectives/prepare.c - from a call to shapes, buffers and a plan. */
#include "base/alloc.h"
#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/run.h"

static bool has_root(weft_collective_kind_t k) {
  return k == WEFT_BROADCAST || k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_REDUCE;
}
static bool reduces(weft_collective_kind_t k) {
  return k == WEFT_REDUCE || k == WEFT_ALL_REDUCE || k == WEFT_REDUCE_SCATTER;
}
static bool has_rows(weft_collective_kind_t k) {
  return k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_ALL_GATHER || k == WEFT_ALL_TO_ALL ||
         k == WEFT_REDUCE_SCATTER;
}
static bool may_only_receive(weft_collective_kind_t k) { return k == WEFT_BROADCAST || k == WEFT_SCATTER; }

static weft_status_t *check_lists(const weft_collective_t *call) {
  int64_t rows = 0;
  for (int i = 0; call->kind == WEFT_ALL_TO_ALL && call->splits != NULL && i < call->group_size; i++) {
    if (call->splits[i] < 0 || call->splits[i] > call->shape.dims[0] - rows) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: split %d is %lld, of %lld rows",
                        WEFT_STR_ARGS(call->name), i, (long long)call->splits[i],
                        (long long)call->shape.dims[0]);
    }
    rows += call->splits[i];
  }
  if (call->kind == WEFT_ALL_TO_ALL && call->splits != NULL && rows != call->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: splits make %lld rows, the input has %lld",
                      WEFT_STR_ARGS(call->name), (long long)rows, (long long)call->shape.dims[0]);
  }
  if (call->kind == WEFT_ALL_TO_ALL && call->splits == NULL && call->shape.dims[0] % call->group_size != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: %lld rows cannot be cut in %d equal blocks",
                      WEFT_STR_ARGS(call->name), (long long)call->shape.dims[0], call->group_size);
  }
  if (call->kind != WEFT_PERMUTE) return NULL;
  if (call->targets == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no targets", WEFT_STR_ARGS(call->name));
  for (int i = 0; i < call->group_size; i++) {
    if (call->targets[i] < -1 || call->targets[i] >= call->group_size) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: rank %d has target %d, of %d",
                        WEFT_STR_ARGS(call->name), i, call->targets[i], call->group_size);
    }
    for (int j = 0; j < i; j++) {
      if (call->targets[i] < 0 || call->targets[j] != call->targets[i]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: ranks %d and %d have the same target %d",
                        WEFT_STR_ARGS(call->name), j, i, call->targets[i]);
    }
  }
  return NULL;
}

weft_status_t *weft_prepare_check(const weft_collective_t *call) {
  const int name_length = (int)call->name.length;
  const char *name = call->name.data == NULL ? "" : call->name.data;
  if ((unsigned)call->kind > WEFT_BARRIER)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: unknown kind %d", name_length, name, call->kind);
  if (call->group_size < 1 || call->rank < -1 || call->rank >= call->group_size || call->root < -1 ||
      call->root >= call->group_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: rank %d and root %d in a group of %d", name_length,
                      name, call->rank, call->root, call->group_size);
  }
  if (call->group_size > WEFT_MAX_GROUP) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: a group of %d; it can have %d members at most",
                      name_length, name, call->group_size, WEFT_MAX_GROUP);
  }
  if (call->device.length == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no device", name_length, name);
  if (call->kind == WEFT_BARRIER) return NULL;
  if (!weft_dtype_is_plain(call->dtype) || weft_dtype_size(call->dtype) == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: type %s cannot be sent", name_length, name,
                      weft_dtype_name(call->dtype));
  }
  if (reduces(call->kind) && weft_reduce_kernel(call->reduction, call->dtype) == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: there is no %s of type %s", name_length, name,
                      weft_reduction_name(call->reduction), weft_dtype_name(call->dtype));
  }
  if (call->is_mean && (!reduces(call->kind) || call->reduction != WEFT_REDUCE_SUM)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: a mean is made of a sum only", name_length, name);
  }
  if (!weft_shape_is_known(&call->shape) || weft_shape_count(&call->shape) < 0 ||
      (has_rows(call->kind) && call->shape.rank < 1)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: bad shape %s", name_length, name,
                      WEFT_SHAPE_TEXT(&call->shape));
  }
  if (call->input == NULL) {
    const bool is_giver =
        !may_only_receive(call->kind) || call->is_source || (call->rank >= 0 && call->rank == call->root);
    if (is_giver) return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no input", name_length, name);
  } else if (call->input->dtype != call->dtype || !weft_shape_eq(&call->input->shape, &call->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: the input is %s%s, not %s%s", name_length, name,
                      weft_dtype_name(call->input->dtype), WEFT_SHAPE_TEXT(&call->input->shape),
                      weft_dtype_name(call->dtype), WEFT_SHAPE_TEXT(&call->shape));
  }
  return check_lists(call);
}

bool weft_prepare_has_counts(const weft_collective_t *call) {
  if (call->kind == WEFT_ALL_TO_ALL) return call->splits != NULL;
  return (call->kind == WEFT_ALL_GATHER || call->kind == WEFT_GATHER) && !call->is_uniform;
}

/* Does this rank hold what a scatter gives out? Its input then has the others' rows, too. */
static bool gives_all(const weft_collective_t *call) {
  return call->kind == WEFT_SCATTER &&
         (call->is_source || (call->root < 0 ? false : call->input != NULL && call->root == call->rank));
}

void weft_prepare_signature(const weft_collective_t *call, weft_coll_signature_t *out) {
  memset(out, 0, sizeof *out);
  out->kind = call->kind;
  out->group_size = call->group_size;
  out->algorithm = call->algorithm;
  if (call->kind == WEFT_BARRIER) return;
  out->dtype = call->dtype;
  out->reduction = reduces(call->kind) ? (int64_t)call->reduction : 0;
  out->is_mean = call->is_mean;
  out->root = has_root(call->kind) ? call->root : -1;
  out->is_uniform = call->is_uniform;
  int skipped = weft_prepare_has_counts(call) ? 1 : 0;
  out->rank_of_shape = call->shape.rank - skipped;
  for (int i = skipped; i < call->shape.rank; i++) out->dims[i - skipped] = call->shape.dims[i];
  if (gives_all(call)) {
    const int64_t rows = call->shape.dims[0];
    out->dims[0] =
        rows % call->group_size == 0 ? rows / call->group_size : WEFT_UNKNOWN_DIM; /* nobody else says that */
  }
  uint64_t hash = call->kind == WEFT_ALL_TO_ALL && call->splits != NULL ? 1 : 0;
  for (int i = 0; call->kind == WEFT_PERMUTE && i < call->group_size; i++) {
    hash = (hash ^ (uint64_t)(uint32_t)call->targets[i]) * 1099511628211u + 1;
  }
  out->details = (int64_t)(hash >> 2);
  if (call->kind == WEFT_ALL_TO_ALL) out->details = (int64_t)hash;
}

weft_status_t *weft_prepare_counts(weft_coll_run_t *r) {
  const size_t n = (size_t)r->group->size;
  r->counts_out = weft_arena_calloc(&r->arena, n, sizeof *r->counts_out);
  r->counts_in = weft_arena_calloc(&r->arena, n, sizeof *r->counts_in);
  if (r->counts_out == NULL || r->counts_in == NULL)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(r->call.name));
  for (size_t i = 0; i < n; i++)
    r->counts_out[i] = r->call.splits != NULL ? r->call.splits[i] : r->call.shape.dims[0];
  r->counts_in[r->rank] = r->counts_out[r->rank];
  weft_run_exchange(r, r->counts_out, r->counts_in, sizeof *r->counts_out);
  return NULL;
}

/* Everything about sizes. Bounds are byte offsets of the ranks' blocks. */
typedef struct layout {
  weft_shape_t out_shape;
  bool has_output;
  size_t *out_bounds, *in_bounds; /* owned; n+1 */
  size_t bytes;                   /* of what is moved or reduced, for the choice */
} layout_t;

/* Rows by rank -> byte bounds and the sum of rows. */
static weft_status_t *bounds_of(const weft_coll_run_t *r, const int64_t *rows, size_t row_bytes,
                                size_t *bounds, int64_t *out_total) {
  int64_t total = 0;
  bounds[0] = 0;
  for (int i = 0; i < r->group->size; i++) {
    size_t block = 0;
    const bool fits = rows[i] >= 0 && rows[i] <= INT64_MAX - total &&
                      weft_mul_size((size_t)rows[i], row_bytes, &block) &&
                      weft_add_size(bounds[i], block, &bounds[i + 1]);
    if (!fits) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: rank %d has %lld rows",
                        WEFT_STR_ARGS(r->call.name), i, (long long)rows[i]);
    }
    total += rows[i];
  }
  *out_total = total;
  return NULL;
}

static weft_status_t *lay_out(weft_coll_run_t *r, layout_t *l) {
  const weft_collective_t *call = &r->call;
  const int n = r->group->size;
  weft_status_t *s = NULL;
  l->out_shape = call->shape;
  l->has_output = call->kind != WEFT_BARRIER;
  if (call->kind == WEFT_GATHER || call->kind == WEFT_REDUCE) l->has_output = r->rank == r->source;
  if (call->kind == WEFT_BARRIER) return NULL;
  l->bytes = (size_t)weft_shape_count(&call->shape) * r->element;
  if (!has_rows(call->kind)) return NULL;
  size_t row_bytes = r->element;
  for (int i = 1; i < call->shape.rank; i++) {
    if (!weft_mul_size(row_bytes, (size_t)call->shape.dims[i], &row_bytes)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: shape %s is too large", WEFT_STR_ARGS(call->name),
                        WEFT_SHAPE_TEXT(&call->shape));
    }
  }
  l->out_bounds = weft_calloc((size_t)n + 1, sizeof *l->out_bounds);
  l->in_bounds = weft_calloc((size_t)n + 1, sizeof *l->in_bounds);
  int64_t *rows = weft_calloc((size_t)n, sizeof *rows), total = 0;
  if (l->out_bounds == NULL || l->in_bounds == NULL || rows == NULL) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(call->name));
    goto done;
  }
  const int64_t d0 = call->kind == WEFT_SCATTER ? r->signature.dims[0] : call->shape.dims[0];
  for (int i = 0; i < n; i++) {
    rows[i] = d0;
    if (call->kind == WEFT_ALL_TO_ALL) rows[i] = d0 / n;
    if (call->kind == WEFT_REDUCE_SCATTER) { /* floor(d0*(i+1)/n) - floor(d0*i/n) without overflow */
      rows[i] = d0 / n + (d0 % n * (i + 1) / n - d0 % n * i / n);
    }
    if (r->counts_out != NULL) rows[i] = r->counts_out[i];
  }
  s = bounds_of(r, rows, row_bytes, l->in_bounds, &total);
  if (s != NULL) goto done;
  for (int i = 0; r->counts_in != NULL && i < n; i++) rows[i] = r->counts_in[i];
  s = bounds_of(r, rows, row_bytes, l->out_bounds, &total);
  if (s != NULL) goto done;
  if (call->kind == WEFT_REDUCE_SCATTER) total = rows[r->rank];
  if (call->kind == WEFT_SCATTER) total = d0;
  l->out_shape.dims[0] = total;
  if (weft_shape_count(&l->out_shape) < 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: shape %s is too large", WEFT_STR_ARGS(call->name),
                   WEFT_SHAPE_TEXT(&l->out_shape));
  }
  /* Ranks of a ragged gather choose alike only by what all of them know. */
  if (call->kind == WEFT_ALL_GATHER || call->kind == WEFT_GATHER) l->bytes = l->out_bounds[n] / (size_t)n;
done:
  weft_free(rows);
  return s;
}

static weft_status_t *make_plan(weft_coll_run_t *r, const layout_t *l, bool input_is_output) {
  const weft_collective_t *call = &r->call;
  const int n = r->group->size;
  weft_status_t *s = NULL;
  int *ranks = weft_calloc((size_t)n, sizeof *ranks), *hosts = weft_calloc((size_t)n, sizeof *hosts);
  if (ranks == NULL || hosts == NULL) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(call->name));
    goto done;
  }
  for (int i = 0; i < n; i++) ranks[i] = i;
  weft_algorithm_hosts(r->group, hosts);
  const weft_members_t m = {ranks, n, r->rank};
  const weft_collective_algorithm_t a =
      weft_algorithm_choose(call->kind, call->algorithm, r->group, l->bytes);
  weft_planner_t p = {.rank = r->rank,
                      .size = n,
                      .element = r->element,
                      .field_bytes = weft_algorithm_field_bytes(r->group),
                      .is_mean = call->is_mean,
                      .input_is_output = input_is_output,
                      .owns_input = call->takes_input};
  const weft_region_t in = weft_region(WEFT_PLAN_INPUT, 0, call->input == NULL ? 0 : call->input->bytes);
  const weft_region_t out = weft_region(WEFT_PLAN_OUTPUT, 0, r->output == NULL ? 0 : r->output->bytes);
  switch (call->kind) {
    case WEFT_BROADCAST:
      if (a == WEFT_ALGORITHM_RING)
        weft_ring_broadcast(&p, m, r->source, in, out);
      else if (a == WEFT_ALGORITHM_HIERARCHICAL)
        weft_hierarchical_broadcast(&p, m, hosts, r->source, in, out);
      else if (a == WEFT_ALGORITHM_DIRECT)
        weft_direct_broadcast(&p, m, r->source, in, out);
      else
        weft_tree_broadcast(&p, m, r->source, in, out);
      break;
    case WEFT_SCATTER: weft_tree_scatter(&p, m, r->source, in, out, l->in_bounds); break;
    case WEFT_GATHER: weft_tree_gather(&p, m, r->source, in, out, l->out_bounds); break;
    case WEFT_ALL_GATHER:
      if (a == WEFT_ALGORITHM_DIRECT)
        weft_direct_all_gather(&p, m, in, out, l->out_bounds);
      else
        weft_ring_all_gather(&p, m, in, out, l->out_bounds);
      break;
    case WEFT_ALL_TO_ALL: weft_pairwise_all_to_all(&p, m, in, out, l->in_bounds, l->out_bounds); break;
    case WEFT_REDUCE: weft_tree_reduce(&p, m, r->source, in, out, true); break;
    case WEFT_ALL_REDUCE:
      if (a == WEFT_ALGORITHM_TREE) {
        weft_tree_reduce(&p, m, 0, in, out, true);
        weft_tree_broadcast(&p, m, 0, out, out);
      } else if (a == WEFT_ALGORITHM_HALVING_DOUBLING) {
        weft_halving_doubling_all_reduce(&p, m, in, out);
      } else if (a == WEFT_ALGORITHM_HIERARCHICAL) {
        weft_hierarchical_all_reduce(&p, m, hosts, in, out);
      } else if (a == WEFT_ALGORITHM_DIRECT) {
        weft_direct_all_reduce(&p, m, in, out);
      } else {
        weft_ring_all_reduce(&p, m, in, out);
      }
      break;
    case WEFT_REDUCE_SCATTER:
      if (a == WEFT_ALGORITHM_DIRECT)
        weft_direct_reduce_scatter(&p, m, in, out, l->in_bounds);
      else
        weft_ring_reduce_scatter(&p, m, in, out, l->in_bounds);
      break;
    case WEFT_PERMUTE: weft_exchange_permute(&p, m, call->targets, in, out); break;
    case WEFT_BARRIER: weft_exchange_barrier(&p, m); break;
  }
  s = weft_plan_finish(&p, &r->plan);
done:
  weft_free(ranks);
  weft_free(hosts);
  return s;
}

/* One rank alone, and who gives to all, have their result already. */
static bool output_is_input(const weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  if (call->kind == WEFT_BROADCAST) return r->rank == r->source;
  if (call->kind == WEFT_ALL_REDUCE || (call->kind == WEFT_REDUCE && r->rank == r->source)) {
    return call->takes_input || r->group->size == 1;
  }
  return r->group->size == 1 && call->kind != WEFT_BARRIER && call->kind != WEFT_PERMUTE;
}

weft_status_t *weft_prepare_buffers(weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  r->element = call->kind == WEFT_BARRIER ? 1 : weft_dtype_size(call->dtype);
  r->reduce = weft_reduce_kernel(call->reduction, call->dtype);
  r->divide = weft_divide_kernel(call->dtype);
  if (has_root(call->kind) && call->root >= 0) r->source = call->root;
  const bool needs_source = has_root(call->kind);
  if (needs_source && (r->source < 0 || r->source >= r->group->size)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no rank of the group is its root",
                      WEFT_STR_ARGS(call->name));
  }
  if (may_only_receive(call->kind) && r->rank == r->source && call->input == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: its root, rank %d, has no input",
                      WEFT_STR_ARGS(call->name), r->rank);
  }
  layout_t l = {.has_output = false};
  weft_status_t *s = lay_out(r, &l);
  if (s != NULL) goto done;
  const bool is_same = output_is_input(r);
  if (l.has_output && is_same) r->output = weft_tensor_retain(call->input);
  if (l.has_output && !is_same) s = weft_tensor_new(call->dtype, &l.out_shape, NULL, &r->output);
  if (s != NULL) goto done;
  if (r->plan == NULL) s = make_plan(r, &l, is_same);
  if (s != NULL) goto done;
  if (r->plan->scratch_bytes > 0) {
    weft_fence_t after = {NULL, 0};
    r->scratch = weft_cpu_allocator()->allocate(weft_cpu_allocator(), r->plan->scratch_bytes, &after);
    if (r->scratch == NULL) {
      s = WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s: %zu bytes", WEFT_STR_ARGS(call->name),
                     r->plan->scratch_bytes);
    }
  }
  if (call->input != NULL) r->base[WEFT_PLAN_INPUT] = call->input->data;
  if (r->output != NULL) r->base[WEFT_PLAN_OUTPUT] = r->output->data;
  r->base[WEFT_PLAN_SCRATCH] = r->scratch;
done:
  weft_free(l.out_bounds);
  weft_free(l.in_bounds);
  return s;
}
