/* client/strategy/access.c - reading and writing variables, as the context wants it: the table of
 * weft/strategy.h. */
#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"

enum { MAX_STACK = 8 };

typedef struct access {
  TF_Graph *graph;
  weft_scope_t *scope;
  WEFT_Variable *v;
} access_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the use of a variable"); }

static weft_status_t *begin(TF_Graph *g, WEFT_Variable *v, access_t *out) {
  *out = (access_t){.graph = g, .v = v};
  if (v == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "the variable is NULL");
  if (v->graph != g)
    return WEFT_ERROR(INVALID_ARGUMENT, "variable '%.*s' is another graph's", WEFT_STR_ARGS(v->name));
  return weft_scope_of(g, &out->scope);
}

/* The component that code in this place has before it; -1: all of them. */
static int own_component(const access_t *a) {
  const weft_place_t *p = &a->scope->place;
  if (a->v->kind == WEFT_VARIABLE_PLAIN) return 0;
  if (p->context == WEFT_CONTEXT_UPDATE) return p->component < a->v->num_components ? p->component : 0;
  if (p->context == WEFT_CONTEXT_REPLICA && a->v->kind != WEFT_VARIABLE_PARTS) return p->replica;
  return -1;
}

/* Nodes of a replica carry its name. */
#define NAMED(a, what) "%.*s%.*s/" what, WEFT_STR_ARGS((a)->scope->place.prefix), WEFT_STR_ARGS((a)->v->name)

static weft_output_t emit_read(const access_t *a, weft_adding_t *b, int i) {
  weft_named_attr_t attr = weft_type_attr("dtype", a->v->dtype);
  weft_output_t handle = weft_client_output(a->v->components[i].handle);
  return weft_emit(&b->e, "ReadVariableOp", &handle, 1, &attr, 1, NAMED(a, "Read"));
}

/* Of a replica on the replica, else beside the component. */
static weft_str_t device_of(const access_t *a, int i) {
  return a->scope->place.device.length > 0 ? a->scope->place.device : a->v->components[i].device;
}

static weft_status_t *read_one(const access_t *a, int i, TF_Output *out) {
  weft_adding_t b;
  weft_adding_begin(&b, a->graph,
                    a->v->kind == WEFT_VARIABLE_PARTS || a->v->kind == WEFT_VARIABLE_PLAIN
                        ? a->v->components[i].device
                        : device_of(a, i));
  weft_output_t value = emit_read(a, &b, i);
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_output(&b, value);
  return s;
}

static weft_status_t *read_parts(const access_t *a, TF_Output *out) {
  weft_adding_t b;
  int n = a->v->num_components;
  weft_output_t *inputs = weft_calloc((size_t)n + 1, sizeof *inputs);
  if (inputs == NULL) return no_memory();
  weft_adding_begin(&b, a->graph, a->scope->place.device);
  for (int i = 0; i < n; i++) {
    b.e.device = a->v->components[i].device;
    inputs[i] = emit_read(a, &b, i);
  }
  b.e.device = a->scope->place.device;
  inputs[n] = weft_emit_int(&b.e, WEFT_I32, 0, NAMED(a, "axis"));
  weft_named_attr_t count = weft_int_attr("N", n);
  weft_output_t whole = weft_emit(&b.e, "ConcatV2", inputs, n + 1, &count, 1, NAMED(a, "whole"));
  weft_status_t *s = weft_adding_end(&b);
  weft_free(inputs);
  if (s == NULL) *out = weft_adding_output(&b, whole);
  return s;
}

static weft_status_t *read_aggregated(const access_t *a, TF_Output *out) {
  int n = a->v->num_components;
  if (a->v->aggregation == WEFT_AGGREGATION_ONLY_FIRST_REPLICA || n == 1) return read_one(a, 0, out);
  if (a->v->aggregation == WEFT_AGGREGATION_NONE) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "variable '%.*s' has a value per replica and no aggregation, so there is no one value "
                      "outside of replicas: "
                      "give it an aggregation, or read it inside a replica's function",
                      WEFT_STR_ARGS(a->v->name));
  }
  TF_Output *reads = weft_calloc((size_t)n, sizeof *reads);
  weft_status_t *s = reads == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++) s = read_one(a, i, &reads[i]);
  WEFT_ReduceOp op = a->v->aggregation == WEFT_AGGREGATION_MEAN ? WEFT_MEAN : WEFT_SUM;
  if (s == NULL) s = weft_reduce_to_one(a->graph, op, reads, n, a->v->components[0].device, out);
  weft_free(reads);
  return s;
}

static weft_status_t *read_variable(access_t *a, TF_Output *out) {
  int own = own_component(a);
  if (own >= 0) return read_one(a, own, out);
  if (a->v->kind == WEFT_VARIABLE_PARTS) return read_parts(a, out);
  return a->v->kind == WEFT_VARIABLE_ON_READ ? read_aggregated(a, out) : read_one(a, 0, out);
}

TF_Output WEFT_ReadVariable(TF_Graph *graph, WEFT_Variable *variable, TF_Status *status) {
  access_t a;
  TF_Output out = {NULL, 0};
  weft_status_t *s = begin(graph, variable, &a);
  if (s == NULL) s = read_variable(&a, &out);
  return weft_client_end(status, s) ? out : (TF_Output){NULL, 0};
}

/* ---- writing ---- */

typedef enum how { HOW_ASSIGN, HOW_ADD } how_t;
static const char *const write_ops[] = {"AssignVariableOp", "AssignAddVariableOp"};

static weft_node_t *emit_write(const access_t *a, weft_adding_t *b, how_t how, int i, weft_output_t value) {
  weft_output_t inputs[] = {weft_client_output(a->v->components[i].handle), value};
  return weft_emit(&b->e, write_ops[how], inputs, 2, NULL, 0, NAMED(a, "Write")).node;
}

static weft_status_t *write_one(const access_t *a, how_t how, int i, TF_Output value, TF_Operation **out) {
  weft_adding_t b;
  weft_adding_begin(&b, a->graph,
                    a->v->kind == WEFT_VARIABLE_PLAIN ? a->v->components[i].device : device_of(a, i));
  weft_node_t *write = emit_write(a, &b, how, i, weft_client_output(value));
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_operation(&b, write);
  return s;
}

/* values[i] goes to copy i; with n 1 the same to all, or, if `first_only`, zeros to the others. */
static weft_status_t *write_copies(const access_t *a, how_t how, const TF_Output *values, int n,
                                   bool first_only, TF_Operation **out) {
  weft_adding_t b;
  weft_adding_begin(&b, a->graph, WEFT_STR(""));
  weft_node_t *all = weft_emit_noop(&b.e, NULL, 0, NAMED(a, "written"));
  for (int i = 0; i < a->v->num_components; i++) {
    b.e.device = a->v->components[i].device;
    weft_output_t value = weft_client_output(values[n == 1 ? 0 : i]);
    if (first_only && i > 0) value = weft_emit1(&b.e, "ZerosLike", value, NAMED(a, "zeros"));
    weft_emit_control(&b.e, emit_write(a, &b, how, i, value), all);
  }
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_operation(&b, all);
  return s;
}

static weft_output_t rows_of(const access_t *a, weft_adding_t *b, weft_output_t value,
                             const weft_component_t *c) {
  int rank = a->v->shape.rank;
  int64_t begins[WEFT_MAX_DIMS] = {c->begin}, sizes[WEFT_MAX_DIMS] = {c->rows};
  for (int d = 1; d < rank; d++) sizes[d] = a->v->shape.dims[d];
  weft_output_t from = weft_emit_ints(&b->e, WEFT_I64, begins, rank, NAMED(a, "begin")),
                size = weft_emit_ints(&b->e, WEFT_I64, sizes, rank, NAMED(a, "size"));
  return weft_emit3(&b->e, "Slice", value, from, size, NAMED(a, "rows"));
}

static weft_status_t *write_parts(const access_t *a, how_t how, TF_Output value, TF_Operation **out) {
  weft_adding_t b;
  weft_adding_begin(&b, a->graph, WEFT_STR(""));
  weft_node_t *all = weft_emit_noop(&b.e, NULL, 0, NAMED(a, "written"));
  for (int i = 0; i < a->v->num_components; i++) {
    b.e.device = a->scope->place.device; /* cut where the value is: only a part's rows travel */
    weft_output_t rows = rows_of(a, &b, weft_client_output(value), &a->v->components[i]);
    b.e.device = a->v->components[i].device;
    weft_emit_control(&b.e, emit_write(a, &b, how, i, rows), all);
  }
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_operation(&b, all);
  return s;
}

typedef struct merged_write {
  WEFT_Variable *v;
  how_t how;
} merged_write_t;

/* All replicas write: aggregated, then to all copies. */
static weft_status_t *write_merged(TF_Graph *g, weft_scope_t *scope, const TF_Output *args, int num_args,
                                   TF_Output *results, int num_results, TF_Operation **op, void *user) {
  const merged_write_t *w = user;
  (void)num_args;
  (void)results;
  (void)num_results;
  access_t a = {.graph = g, .scope = scope, .v = w->v};
  int n = scope->strategy->num_replicas;
  if (w->v->aggregation == WEFT_AGGREGATION_ONLY_FIRST_REPLICA)
    return write_copies(&a, w->how, args, 1, false, op);
  TF_Output *reduced = weft_calloc((size_t)n, sizeof *reduced);
  if (reduced == NULL) return no_memory();
  WEFT_ReduceOp reduce = w->v->aggregation == WEFT_AGGREGATION_MEAN ? WEFT_MEAN : WEFT_SUM;
  weft_status_t *s;
  if (w->v->num_components == 1) {
    s = weft_reduce_to_one(g, reduce, args, n, w->v->components[0].device, reduced);
    if (s == NULL) s = write_one(&a, w->how, 0, reduced[0], op);
  } else {
    s = weft_all_reduce(g, scope, reduce, args, 1, reduced);
    if (s == NULL) s = write_copies(&a, w->how, reduced, n, false, op);
  }
  weft_free(reduced);
  return s;
}

static weft_status_t *write_in_replica(access_t *a, how_t how, TF_Output value, TF_Operation **out) {
  if (a->v->kind == WEFT_VARIABLE_ON_READ) return write_one(a, how, a->scope->place.replica, value, out);
  if (a->v->kind == WEFT_VARIABLE_PARTS) return write_parts(a, how, value, out);
  if (a->scope->strategy->kind == WEFT_KIND_PARTS)
    return write_one(a, how, 0, value, out); /* its one replica is not in sync with any other */
  if (a->v->aggregation == WEFT_AGGREGATION_NONE) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "variable '%.*s' is written by every replica but has no aggregation: give it one when it is created "
        "(WEFT_AGGREGATION_SUM, _MEAN or _ONLY_FIRST_REPLICA), or write it in cross-replica context",
        WEFT_STR_ARGS(a->v->name));
  }
  merged_write_t w = {a->v, how};
  return weft_merge(a->scope->place.replica_run, write_merged, &w, &value, 1, NULL, 0, out);
}

static weft_status_t *write_variable(access_t *a, how_t how, TF_Output value, TF_Operation **out) {
  weft_context_t context = a->scope->strategy == NULL ? WEFT_CONTEXT_NONE : a->scope->place.context;
  if (value.oper == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "the value for variable '%.*s' is missing",
                      WEFT_STR_ARGS(a->v->name));
  if (context == WEFT_CONTEXT_UPDATE) return write_one(a, how, own_component(a), value, out);
  if (context == WEFT_CONTEXT_REPLICA) return write_in_replica(a, how, value, out);
  if (a->v->kind == WEFT_VARIABLE_PLAIN) return write_one(a, how, 0, value, out);
  if (a->v->kind == WEFT_VARIABLE_PARTS) return write_parts(a, how, value, out);
  bool is_total = a->v->kind == WEFT_VARIABLE_ON_READ && a->v->aggregation == WEFT_AGGREGATION_SUM;
  if (is_total && how == HOW_ADD) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "variable '%.*s' is a sum over replicas: outside of a replica's function it can be "
                      "assigned, not added to",
                      WEFT_STR_ARGS(a->v->name));
  }
  return write_copies(a, how, &value, 1, is_total, out);
}

static TF_Operation *write_public(TF_Graph *graph, WEFT_Variable *variable, how_t how, TF_Output value,
                                  TF_Status *status) {
  access_t a;
  TF_Operation *out = NULL;
  weft_status_t *s = begin(graph, variable, &a);
  if (s == NULL) s = write_variable(&a, how, value, &out);
  return weft_client_end(status, s) ? out : NULL;
}

TF_Operation *WEFT_AssignVariable(TF_Graph *graph, WEFT_Variable *variable, TF_Output value,
                                  TF_Status *status) {
  return write_public(graph, variable, HOW_ASSIGN, value, status);
}
TF_Operation *WEFT_AssignAddVariable(TF_Graph *graph, WEFT_Variable *variable, TF_Output value,
                                     TF_Status *status) {
  return write_public(graph, variable, HOW_ADD, value, status);
}

/* ---- checkpoints ---- */

/* The whole variable, in any context, as outside of scopes. */
TF_Output WEFT_VariableSaveValue(TF_Graph *graph, WEFT_Variable *variable, TF_Status *status) {
  access_t a;
  TF_Output out = {NULL, 0};
  weft_status_t *s = begin(graph, variable, &a);
  if (s == NULL) {
    weft_place_t before = weft_scope_go(graph, a.scope, weft_cross_place());
    bool is_first = variable->kind == WEFT_VARIABLE_ON_READ && variable->aggregation == WEFT_AGGREGATION_NONE;
    s = is_first ? read_one(&a, 0, &out) : read_variable(&a, &out);
    weft_scope_go(graph, a.scope, before);
  }
  return weft_client_end(status, s) ? out : (TF_Output){NULL, 0};
}

TF_Operation *WEFT_RestoreVariable(TF_Graph *graph, WEFT_Variable *variable, TF_Output value,
                                   TF_Status *status) {
  access_t a;
  TF_Operation *out = NULL;
  weft_status_t *s = begin(graph, variable, &a);
  if (s == NULL) {
    weft_place_t before = weft_scope_go(graph, a.scope, weft_cross_place());
    s = write_variable(&a, HOW_ASSIGN, value, &out);
    weft_scope_go(graph, a.scope, before);
  }
  return weft_client_end(status, s) ? out : NULL;
}
