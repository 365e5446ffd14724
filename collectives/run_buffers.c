/* collectives/run_buffers.c - from a call and the ranks' row counts to shapes, buffers and a plan. */
#include "base/alloc.h"
#include "collectives/algorithm_table.h"
#include "collectives/run.h"

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

static weft_status_t *lay_out(weft_coll_run_t *r, weft_coll_layout_t *l) {
  const weft_collective_t *call = &r->call;
  const int n = r->group->size;
  weft_status_t *s = NULL;
  l->out_shape = call->shape;
  l->has_output = call->kind != WEFT_BARRIER;
  if (call->kind == WEFT_GATHER || call->kind == WEFT_REDUCE) l->has_output = r->rank == r->source;
  if (call->kind == WEFT_BARRIER) return NULL;
  l->bytes = (size_t)weft_shape_count(&call->shape) * r->element;
  if (!weft_collective_has_rows(call->kind)) return NULL;
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
    s = WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(call->name));
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
  /* The choice must depend only on what all ranks know: of a ragged gather the mean size. */
  if (call->kind == WEFT_ALL_GATHER || call->kind == WEFT_GATHER) l->bytes = l->out_bounds[n] / (size_t)n;
done:
  weft_free(rows);
  return s;
}

static weft_status_t *make_plan(weft_coll_run_t *r, const weft_coll_layout_t *l, bool input_is_output) {
  const weft_collective_t *call = &r->call;
  const int n = r->group->size;
  weft_status_t *s = NULL;
  int *ranks = weft_calloc((size_t)n, sizeof *ranks), *hosts = weft_calloc((size_t)n, sizeof *hosts);
  if (ranks == NULL || hosts == NULL) {
    s = WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(call->name));
    goto done;
  }
  for (int i = 0; i < n; i++) ranks[i] = i;
  weft_algorithm_hosts(r->group, hosts);
  const weft_collective_algorithm_t a =
      weft_algorithm_choose(call->kind, call->algorithm, r->group, l->bytes);
  weft_planner_t p = {.rank = r->rank,
                      .size = n,
                      .element = r->element,
                      .field_bytes = weft_algorithm_field_bytes(r->group),
                      .is_mean = call->is_mean,
                      .input_is_output = input_is_output,
                      .owns_input = call->takes_input};
  const weft_algorithm_args_t args = {
      .m = {ranks, n, r->rank},
      .host_of = hosts,
      .root = r->source,
      .in = weft_region(WEFT_PLAN_INPUT, 0, call->input == NULL ? 0 : call->input->bytes),
      .out = weft_region(WEFT_PLAN_OUTPUT, 0, r->output == NULL ? 0 : r->output->bytes),
      .in_bounds = l->in_bounds,
      .out_bounds = l->out_bounds,
      .targets = call->targets};
  weft_algorithm_plan(call->kind, a, &p, &args);
  s = weft_plan_finish(&p, &r->plan);
done:
  weft_free(ranks);
  weft_free(hosts);
  return s;
}

/* One rank alone, and the root of a broadcast, have their result already. */
static bool output_is_input(const weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  if (call->kind == WEFT_BROADCAST) return r->rank == r->source;
  if (call->kind == WEFT_ALL_REDUCE || (call->kind == WEFT_REDUCE && r->rank == r->source)) {
    return call->takes_input || r->group->size == 1;
  }
  return r->group->size == 1 && call->kind != WEFT_BARRIER && call->kind != WEFT_PERMUTE;
}

void weft_coll_layout_deinit(weft_coll_layout_t *l) {
  weft_free(l->out_bounds);
  weft_free(l->in_bounds);
}

weft_status_t *weft_coll_run_lay_out(weft_coll_run_t *r, weft_coll_layout_t *out) {
  const weft_collective_t *call = &r->call;
  *out = (weft_coll_layout_t){.has_output = false};
  r->element = call->kind == WEFT_BARRIER ? 1 : weft_dtype_size(call->dtype);
  r->reduce = weft_reduce_kernel(call->reduction, call->dtype);
  r->divide = weft_divide_kernel(call->dtype);
  if (weft_collective_has_root(call->kind) && call->root >= 0) r->source = call->root;
  const bool needs_source = weft_collective_has_root(call->kind);
  if (needs_source && (r->source < 0 || r->source >= r->group->size)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no rank of the group is its root",
                      WEFT_STR_ARGS(call->name));
  }
  if (weft_collective_may_only_receive(call->kind) && r->rank == r->source && call->input == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: its root, rank %d, has no input",
                      WEFT_STR_ARGS(call->name), r->rank);
  }
  return lay_out(r, out);
}

weft_status_t *weft_coll_run_make_output(weft_coll_run_t *r, const weft_coll_layout_t *l) {
  const weft_collective_t *call = &r->call;
  const bool is_same = output_is_input(r);
  if (l->has_output && r->output == NULL) {
    if (!is_same) WEFT_RETURN_IF_ERROR(weft_tensor_new(call->dtype, &l->out_shape, NULL, &r->output));
    if (is_same) r->output = weft_tensor_retain(call->input);
  }
  if (call->input != NULL) r->base[WEFT_PLAN_INPUT] = call->input->data;
  if (r->output != NULL) r->base[WEFT_PLAN_OUTPUT] = r->output->data;
  return NULL;
}

weft_status_t *weft_coll_run_make_buffers(weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  weft_coll_layout_t l;
  weft_status_t *s = weft_coll_run_lay_out(r, &l);
  if (s == NULL) s = weft_coll_run_make_output(r, &l);
  if (s != NULL) goto done;
  if (r->plan == NULL) s = make_plan(r, &l, output_is_input(r));
  if (s != NULL) goto done;
  if (r->plan->scratch_bytes > 0) {
    weft_fence_t after = {NULL, 0};
    r->scratch = weft_cpu_allocator()->allocate(weft_cpu_allocator(), r->plan->scratch_bytes, &after);
    if (r->scratch == NULL) {
      s = WEFT_NO_MEMORY("collective %.*s: %zu bytes", WEFT_STR_ARGS(call->name), r->plan->scratch_bytes);
    }
  }
  r->base[WEFT_PLAN_SCRATCH] = r->scratch;
done:
  weft_coll_layout_deinit(&l);
  return s;
}
