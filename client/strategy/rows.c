/* client/strategy/rows.c - rows of variables by index, also of those in parts: each part serves its own.
 *
 * For parts the ids are sorted by part (DynamicPartition), looked up beside each
 * part, and put back in order (DynamicStitch): only ids and rows travel.
 */
#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"

typedef struct row_access {
  weft_adding_t b;
  weft_scope_t *scope;
  const WEFT_Variable *v;
  weft_output_t *ids, *positions; /* by part */
  weft_output_t flat;             /* all ids, as int64 */
  weft_node_t *split;             /* of ids; also used for values */
  weft_output_t part_of;          /* which part each id belongs to */
} row_access_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("rows of a variable"); }

#define NAMED(r, what) "%.*s%.*s/" what, WEFT_STR_ARGS((r)->scope->place.prefix), WEFT_STR_ARGS((r)->v->name)

static weft_output_t vector_of_one(row_access_t *r, int64_t value) {
  return weft_emit_ints(&r->b.e, WEFT_I64, &value, 1, NAMED(r, "one"));
}

/* Which part: how many parts begin at or before the id, less one. */
static weft_output_t find_parts(row_access_t *r) {
  weft_emitter_t *e = &r->b.e;
  int n = r->v->num_components;
  int64_t *begins = weft_calloc((size_t)n, sizeof *begins);
  if (begins == NULL) return (weft_output_t){NULL, 0};
  for (int i = 1; i < n; i++) begins[i - 1] = r->v->components[i].begin;
  weft_output_t borders = weft_emit_ints(e, WEFT_I64, begins, n - 1, NAMED(r, "begins"));
  weft_free(begins);
  weft_output_t column = weft_emit2(e, "ExpandDims", r->flat, weft_emit_int(e, WEFT_I32, 1, NAMED(r, "axis")),
                                    NAMED(r, "ids_column"));
  weft_output_t behind = weft_emit_cast(e, weft_emit2(e, "GreaterEqual", column, borders, NAMED(r, "behind")),
                                        WEFT_I32, NAMED(r, "behind_as_int"));
  return weft_emit2(e, "Sum", behind, weft_emit_int(e, WEFT_I32, 1, NAMED(r, "sum_axis")), NAMED(r, "part"));
}

static weft_output_t part_values(row_access_t *r, weft_output_t values, const char *what) {
  weft_output_t inputs[] = {values, r->part_of};
  weft_named_attr_t count = weft_int_attr("num_partitions", r->v->num_components);
  return weft_emit(&r->b.e, "DynamicPartition", inputs, 2, &count, 1, "%.*s%.*s/%s",
                   WEFT_STR_ARGS(r->scope->place.prefix), WEFT_STR_ARGS(r->v->name), what);
}

/* The ids of each part, counted from its first row. */
static weft_output_t local_ids(row_access_t *r, weft_node_t *parted, int i) {
  return weft_emit2(&r->b.e, "Sub", (weft_output_t){parted, i},
                    weft_emit_int(&r->b.e, WEFT_I64, r->v->components[i].begin, NAMED(r, "first_row")),
                    NAMED(r, "local_ids"));
}

static void sort_ids(row_access_t *r, weft_output_t ids) {
  r->flat =
      weft_emit_cast(&r->b.e, weft_emit2(&r->b.e, "Reshape", ids, vector_of_one(r, -1), NAMED(r, "flat_ids")),
                     WEFT_I64, NAMED(r, "ids"));
  r->part_of = find_parts(r);
}

static weft_output_t gather_one(row_access_t *r, int i, weft_output_t ids) {
  weft_output_t inputs[] = {weft_client_output(r->v->components[i].handle), ids};
  weft_named_attr_t attr = weft_type_attr("dtype", r->v->dtype);
  return weft_emit(&r->b.e, "ResourceGather", inputs, 2, &attr, 1, NAMED(r, "rows"));
}

static weft_output_t gather_parts(row_access_t *r, weft_output_t ids) {
  weft_emitter_t *e = &r->b.e;
  weft_str_t here = e->device;
  int n = r->v->num_components;
  weft_output_t *inputs = weft_calloc((size_t)n * 2, sizeof *inputs), whole = {NULL, 0};
  if (inputs == NULL) return whole;
  sort_ids(r, ids);
  weft_output_t count = weft_emit1(e, "Size", r->flat, NAMED(r, "count"));
  weft_output_t zero = weft_emit_int(e, WEFT_I32, 0, NAMED(r, "zero")),
                one = weft_emit_int(e, WEFT_I32, 1, NAMED(r, "step"));
  weft_node_t *parted = part_values(r, r->flat, "parted_ids").node;
  weft_node_t *places =
      part_values(r, weft_emit3(e, "Range", zero, count, one, NAMED(r, "positions")), "parted_positions")
          .node;
  for (int i = 0; i < n; i++) {
    inputs[i] = (weft_output_t){places, i};
    weft_output_t local = local_ids(r, parted, i);
    e->device = r->v->components[i].device;
    inputs[n + i] = gather_one(r, i, local);
    e->device = here;
  }
  weft_named_attr_t number = weft_int_attr("N", n);
  weft_output_t stitched = weft_emit(e, "DynamicStitch", inputs, 2 * n, &number, 1, NAMED(r, "stitched"));
  weft_output_t ids_shape =
      weft_emit_cast(e, weft_emit1(e, "Shape", ids, NAMED(r, "ids_shape")), WEFT_I64, NAMED(r, "ids_dims"));
  weft_output_t row =
      weft_emit_ints(e, WEFT_I64, r->v->shape.dims + 1, r->v->shape.rank - 1, NAMED(r, "row_shape"));
  weft_output_t joined[] = {ids_shape, row, weft_emit_int(e, WEFT_I32, 0, NAMED(r, "shape_axis"))};
  weft_named_attr_t two = weft_int_attr("N", 2);
  whole = weft_emit2(e, "Reshape", stitched, weft_emit(e, "ConcatV2", joined, 3, &two, 1, NAMED(r, "shape")),
                     NAMED(r, "gathered"));
  weft_free(inputs);
  return whole;
}

static weft_status_t *begin(row_access_t *r, TF_Graph *g, WEFT_Variable *v, TF_Output ids) {
  *r = (row_access_t){.v = v};
  if (v == NULL || v->graph != g || ids.oper == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "rows of a variable: no variable of this graph, or no ids");
  if (v->shape.rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "variable '%.*s' is a scalar and has no rows",
                      WEFT_STR_ARGS(v->name));
  return weft_scope_of(g, &r->scope);
}

static int own_component(const row_access_t *r) {
  const weft_place_t *p = &r->scope->place;
  int i = p->context == WEFT_CONTEXT_UPDATE    ? p->component
          : p->context == WEFT_CONTEXT_REPLICA ? p->replica
                                               : 0;
  return i < r->v->num_components ? i : 0;
}

static bool is_in_parts(const row_access_t *r) {
  return r->v->kind == WEFT_VARIABLE_PARTS && r->scope->place.context != WEFT_CONTEXT_UPDATE;
}

static weft_status_t *gather(TF_Graph *g, WEFT_Variable *v, TF_Output ids, TF_Output *out) {
  row_access_t r;
  WEFT_RETURN_IF_ERROR(begin(&r, g, v, ids));
  int own = own_component(&r);
  weft_adding_begin(&r.b, g, is_in_parts(&r) ? r.scope->place.device : v->components[own].device);
  weft_output_t rows = is_in_parts(&r) ? gather_parts(&r, weft_client_output(ids))
                                       : gather_one(&r, own, weft_client_output(ids));
  WEFT_RETURN_IF_ERROR(weft_adding_end(&r.b));
  if (rows.node == NULL) return no_memory();
  *out = weft_adding_output(&r.b, rows);
  return NULL;
}

TF_Output WEFT_GatherRows(TF_Graph *graph, WEFT_Variable *variable, TF_Output ids, TF_Status *status) {
  TF_Output out = {NULL, 0};
  return weft_client_end(status, gather(graph, variable, ids, &out)) ? out : (TF_Output){NULL, 0};
}

/* ---- adding ---- */

static weft_node_t *add_one(row_access_t *r, int i, weft_output_t ids, weft_output_t values) {
  weft_output_t inputs[] = {weft_client_output(r->v->components[i].handle), ids, values};
  return weft_emit(&r->b.e, "ResourceScatterAdd", inputs, 3, NULL, 0, NAMED(r, "add_rows")).node;
}

static weft_node_t *add_parts(row_access_t *r, weft_output_t ids, weft_output_t values) {
  weft_emitter_t *e = &r->b.e;
  weft_str_t here = e->device;
  int64_t dims[WEFT_MAX_DIMS] = {-1};
  for (int d = 1; d < r->v->shape.rank; d++) dims[d] = r->v->shape.dims[d];
  weft_node_t *all = weft_emit_noop(e, NULL, 0, NAMED(r, "rows_added"));
  sort_ids(r, ids);
  weft_output_t flat = weft_emit2(e, "Reshape", values,
                                  weft_emit_ints(e, WEFT_I64, dims, r->v->shape.rank, NAMED(r, "rows_shape")),
                                  NAMED(r, "flat_rows"));
  weft_node_t *parted = part_values(r, r->flat, "parted_ids").node,
              *parted_rows = part_values(r, flat, "parted_rows").node;
  for (int i = 0; i < r->v->num_components; i++) {
    weft_output_t local = local_ids(r, parted, i);
    e->device = r->v->components[i].device;
    weft_emit_control(e, add_one(r, i, local, (weft_output_t){parted_rows, i}), all);
    e->device = here;
  }
  return all;
}

static weft_node_t *add_copies(row_access_t *r, weft_output_t ids, weft_output_t values) {
  weft_node_t *all = weft_emit_noop(&r->b.e, NULL, 0, NAMED(r, "rows_added"));
  for (int i = 0; i < r->v->num_components; i++) {
    r->b.e.device = r->v->components[i].device;
    weft_emit_control(&r->b.e, add_one(r, i, ids, values), all);
  }
  return all;
}

static weft_status_t *scatter(TF_Graph *g, WEFT_Variable *v, TF_Output ids, TF_Output values,
                              TF_Operation **out) {
  row_access_t r;
  WEFT_RETURN_IF_ERROR(begin(&r, g, v, ids));
  if (values.oper == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "rows for variable '%.*s' are missing", WEFT_STR_ARGS(v->name));
  const weft_place_t *p = &r.scope->place;
  bool in_replica =
      p->context == WEFT_CONTEXT_REPLICA && r.scope->strategy != NULL && r.scope->strategy->num_replicas > 1;
  if (in_replica && v->kind != WEFT_VARIABLE_ON_READ) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rows of variable '%.*s' are added by every replica: add them in cross-replica "
                      "context, after a merge call",
                      WEFT_STR_ARGS(v->name));
  }
  bool is_one = v->num_components == 1 || in_replica || p->context == WEFT_CONTEXT_UPDATE;
  weft_output_t i = weft_client_output(ids), x = weft_client_output(values);
  weft_adding_begin(&r.b, g, is_one ? v->components[own_component(&r)].device : p->device);
  weft_node_t *done = is_one            ? add_one(&r, own_component(&r), i, x)
                      : is_in_parts(&r) ? add_parts(&r, i, x)
                                        : add_copies(&r, i, x);
  WEFT_RETURN_IF_ERROR(weft_adding_end(&r.b));
  *out = weft_adding_operation(&r.b, done);
  return NULL;
}

TF_Operation *WEFT_ScatterAddRows(TF_Graph *graph, WEFT_Variable *variable, TF_Output ids, TF_Output values,
                                  TF_Status *status) {
  TF_Operation *out = NULL;
  return weft_client_end(status, scatter(graph, variable, ids, values, &out)) ? out : NULL;
}
