/* client/strategy/variable.c - how a variable comes to be: creators, copies, parts, first values.
 *
 * Copies are made outside of any replica, also when a replica's function asks for
 * the variable; all copies get the one initial value, computed where the first
 * copy lives. Parts ask the initial value's function for their own rows.
 */
#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"

struct WEFT_CreatorChain {
  weft_creator_t *creators; /* the next creator; NULL: the strategy */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a variable"); }

/* ---- one component ---- */

static weft_status_t *make_handle(TF_Graph *g, const WEFT_Variable *v, weft_component_t *c, weft_str_t name) {
  weft_adding_t b;
  weft_shape_t shape = v->shape;
  if (c->rows > 0) shape.dims[0] = c->rows;
  weft_adding_begin(&b, g, c->device);
  weft_status_t *taken =
      weft_graph_find(g->graph, name) == NULL
          ? NULL
          : WEFT_ERROR(ALREADY_EXISTS, "there is a node '%.*s' already", WEFT_STR_ARGS(name));
  const weft_named_attr_t attrs[] = {weft_type_attr("dtype", v->dtype), weft_shape_attr("shape", &shape),
                                     weft_text_attr("shared_name", name)};
  weft_output_t handle = {NULL, 0};
  if (taken == NULL) handle = weft_emit(&b.e, "VarHandleOp", NULL, 0, attrs, 3, "%.*s", WEFT_STR_ARGS(name));
  weft_status_t *s = weft_adding_end(&b);
  if (taken != NULL) {
    weft_status_free(s);
    return taken;
  }
  if (s == NULL) c->handle = weft_adding_output(&b, handle);
  return s;
}

static weft_status_t *zeros(TF_Graph *g, const WEFT_Variable *v, const weft_component_t *c, TF_Output *out) {
  weft_tensor_t *t = NULL;
  weft_adding_t b;
  weft_shape_t shape = v->shape;
  if (c->rows > 0) shape.dims[0] = c->rows;
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)v->dtype, &shape, NULL, &t));
  if (t->bytes > 0) memset(t->data, 0, t->bytes);
  weft_adding_begin(&b, g, c->device);
  weft_output_t value = weft_emit_const(&b.e, t, "%.*s/zeros", WEFT_STR_ARGS(v->name));
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_output(&b, value);
  return s;
}

static weft_status_t *initial_value(TF_Graph *g, weft_scope_t *scope, const WEFT_Variable *v,
                                    const weft_component_t *c, const WEFT_VariableOptions *o,
                                    TF_Output *out) {
  if (o->init == NULL) return zeros(g, v, c, out);
  weft_place_t place = weft_cross_place();
  place.device = c->device;
  weft_place_t before = weft_scope_go(g, scope, place);
  TF_Status *status = TF_NewStatus();
  int64_t rows = v->shape.rank == 0 ? 0 : c->rows > 0 ? c->rows : v->shape.dims[0];
  *out = o->init(g, o->dims, o->num_dims, o->dtype, c->begin, rows, o->init_user, status);
  weft_status_t *s = weft_status_taken(status);
  TF_DeleteStatus(status);
  weft_scope_go(g, scope, before);
  if (s == NULL && out->oper == NULL)
    s = WEFT_ERROR(INVALID_ARGUMENT, "the initial value of variable '%.*s' is missing",
                   WEFT_STR_ARGS(v->name));
  return s == NULL
             ? NULL
             : weft_status_annotate(s, "in the initial value of variable '%.*s'", WEFT_STR_ARGS(v->name));
}

static weft_status_t *make_assign(TF_Graph *g, const WEFT_Variable *v, weft_component_t *c, TF_Output value) {
  weft_adding_t b;
  weft_adding_begin(&b, g, c->device);
  weft_output_t inputs[] = {weft_client_output(c->handle), weft_client_output(value)};
  weft_output_t assign =
      weft_emit(&b.e, "AssignVariableOp", inputs, 2, NULL, 0, "%.*s/Assign", WEFT_STR_ARGS(v->name));
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) c->init = weft_adding_operation(&b, assign.node);
  return s;
}

static weft_str_t component_name(weft_scope_t *scope, const WEFT_Variable *v, int i) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, v->name);
  if (v->kind == WEFT_VARIABLE_PARTS) weft_strbuf_printf(&text, "/part_%d", i);
  if (v->kind != WEFT_VARIABLE_PARTS && i > 0) weft_strbuf_printf(&text, "/replica_%d", i);
  weft_str_t name = text.failed ? (weft_str_t){NULL, 0}
                                : weft_arena_str(&scope->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return name;
}

static weft_status_t *make_components(TF_Graph *g, weft_scope_t *scope, WEFT_Variable *v,
                                      const WEFT_VariableOptions *o) {
  TF_Output value = {NULL, 0};
  for (int i = 0; i < v->num_components; i++) {
    weft_component_t *c = &v->components[i];
    weft_str_t name = component_name(scope, v, i);
    if (name.data == NULL) return no_memory();
    WEFT_RETURN_IF_ERROR(make_handle(g, v, c, name));
    if (i == 0 || v->kind == WEFT_VARIABLE_PARTS)
      WEFT_RETURN_IF_ERROR(initial_value(g, scope, v, c, o, &value));
    WEFT_RETURN_IF_ERROR(make_assign(g, v, c, value));
  }
  return NULL;
}

/* ---- what a strategy makes ---- */

static weft_status_t *make_room(weft_scope_t *scope, WEFT_Variable *v, int n) {
  v->components = weft_arena_calloc(&scope->arena, (size_t)n, sizeof *v->components);
  v->num_components = n;
  for (int i = 0; v->components != NULL && i < n; i++) v->components[i].device = WEFT_STR("");
  return v->components == NULL ? no_memory() : NULL;
}

static weft_status_t *plan_like(weft_scope_t *scope, WEFT_Variable *v, const WEFT_Variable *other) {
  bool has_same_rows = v->shape.rank > 0 && other->shape.rank > 0 && v->shape.dims[0] == other->shape.dims[0];
  bool is_whole = other->kind == WEFT_VARIABLE_PARTS && !has_same_rows; /* a scalar beside a table in parts */
  v->kind = is_whole ? WEFT_VARIABLE_PLAIN : other->kind;
  WEFT_RETURN_IF_ERROR(make_room(scope, v, is_whole ? 1 : other->num_components));
  for (int i = 0; i < v->num_components; i++) {
    v->components[i].device = other->components[i].device;
    if (v->kind != WEFT_VARIABLE_PARTS) continue;
    v->components[i].begin = other->components[i].begin;
    v->components[i].rows = other->components[i].rows;
  }
  return NULL;
}

static weft_status_t *plan_parts(weft_scope_t *scope, WEFT_Variable *v) {
  const WEFT_Strategy *strategy = scope->strategy;
  int64_t n = v->shape.rank == 0
                  ? 1
                  : weft_partitioner_count(&strategy->partitioner, &v->shape, (weft_dtype_t)v->dtype);
  v->kind = n > 1 ? WEFT_VARIABLE_PARTS : WEFT_VARIABLE_PLAIN;
  WEFT_RETURN_IF_ERROR(make_room(scope, v, (int)n));
  for (int i = 0; i < (int)n; i++) {
    weft_component_t *c = &v->components[i];
    c->device = strategy->parameter_devices[scope->next_server++ % strategy->num_parameter_devices];
    if (n > 1) weft_shard_rows(v->shape.dims[0], n, i, &c->begin, &c->rows);
  }
  return NULL;
}

static weft_status_t *plan(weft_scope_t *scope, WEFT_Variable *v, const WEFT_VariableOptions *o) {
  const WEFT_Strategy *strategy = scope->strategy;
  if (o->colocate_with != NULL) return plan_like(scope, v, o->colocate_with);
  if (strategy != NULL && strategy->kind == WEFT_KIND_PARTS) return plan_parts(scope, v);
  bool is_plain = strategy == NULL || o->synchronization == WEFT_SYNC_NONE ||
                  (strategy->kind == WEFT_KIND_CENTRAL && o->synchronization != WEFT_SYNC_ON_READ);
  if (is_plain) {
    v->kind = WEFT_VARIABLE_PLAIN;
    WEFT_RETURN_IF_ERROR(make_room(scope, v, 1));
    if (strategy != NULL)
      v->components[0].device =
          strategy->kind == WEFT_KIND_CENTRAL ? strategy->parameter_devices[0] : strategy->devices[0];
    return NULL;
  }
  v->kind = o->synchronization == WEFT_SYNC_ON_READ ? WEFT_VARIABLE_ON_READ : WEFT_VARIABLE_MIRRORED;
  WEFT_RETURN_IF_ERROR(make_room(scope, v, strategy->num_replicas));
  for (int i = 0; i < v->num_components; i++) v->components[i].device = strategy->devices[i];
  return NULL;
}

/* The nodes from `first` on belong to no replica, though a replica's function is being traced. */
static weft_status_t *mark_shared(TF_Graph *g, weft_scope_t *scope, int first) {
  weft_mutex_lock(&g->mu);
  int end = g->graph->num_nodes;
  weft_mutex_unlock(&g->mu);
  for (int id = first; id < end; id++)
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&scope->shared, (uint64_t)id + 1, scope, NULL));
  return NULL;
}

static weft_status_t *create(TF_Graph *g, weft_scope_t *scope, const WEFT_VariableOptions *o,
                             WEFT_Variable **out) {
  WEFT_Variable *v = weft_arena_calloc(&scope->arena, 1, sizeof *v);
  if (v == NULL) return no_memory();
  v->graph = g;
  v->name = weft_arena_str(&scope->arena, weft_str(o->name));
  v->dtype = (int)o->dtype;
  v->aggregation = o->aggregation;
  if (v->name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_shape_make(o->dims, o->num_dims, &v->shape));
  for (int d = 0; d < v->shape.rank; d++) {
    if (v->shape.dims[d] < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "variable '%s' has an unknown dimension", o->name);
  }
  if (!weft_dtype_is_plain((weft_dtype_t)v->dtype))
    return WEFT_ERROR(INVALID_ARGUMENT, "variable '%s': no variables of that data type", o->name);
  WEFT_RETURN_IF_ERROR(plan(scope, v, o));
  weft_mutex_lock(&g->mu);
  int first = g->graph->num_nodes;
  weft_mutex_unlock(&g->mu);
  weft_place_t before = weft_scope_go(g, scope, weft_cross_place());
  weft_status_t *s = make_components(g, scope, v, o);
  if (s == NULL && before.context == WEFT_CONTEXT_REPLICA) s = mark_shared(g, scope, first);
  weft_scope_go(g, scope, before);
  if (s != NULL) return s;
  *scope->last_variable = v;
  scope->last_variable = &v->next;
  scope->num_variables++;
  *out = v;
  return NULL;
}

/* ---- the public calls ---- */

static weft_status_t *next_creator(WEFT_CreatorChain *chain, TF_Graph *g, const WEFT_VariableOptions *o,
                                   WEFT_Variable **out) {
  weft_scope_t *scope;
  WEFT_RETURN_IF_ERROR(weft_scope_of(g, &scope));
  if (chain->creators == NULL) return create(g, scope, o, out);
  weft_creator_t *c = chain->creators;
  WEFT_CreatorChain rest = {c->below};
  TF_Status *status = TF_NewStatus();
  *out = c->fn(g, o, &rest, c->user, status);
  weft_status_t *s = weft_status_taken(status);
  TF_DeleteStatus(status);
  return s;
}

WEFT_Variable *WEFT_CallNextCreator(WEFT_CreatorChain *next, TF_Graph *graph,
                                    const WEFT_VariableOptions *options, TF_Status *status) {
  WEFT_Variable *v = NULL;
  return weft_client_end(status, next_creator(next, graph, options, &v)) ? v : NULL;
}

static weft_status_t *check_options(const WEFT_VariableOptions *o) {
  if (o->name == NULL || o->name[0] == '\0') return WEFT_ERROR(INVALID_ARGUMENT, "a variable needs a name");
  if (o->num_dims < 0 || (o->num_dims > 0 && o->dims == NULL))
    return WEFT_ERROR(INVALID_ARGUMENT, "variable '%s' has no dims", o->name);
  if (o->synchronization < WEFT_SYNC_AUTO || o->synchronization > WEFT_SYNC_ON_READ ||
      o->aggregation < WEFT_AGGREGATION_NONE || o->aggregation > WEFT_AGGREGATION_ONLY_FIRST_REPLICA) {
    return WEFT_ERROR(INVALID_ARGUMENT, "variable '%s' has an unknown synchronization or aggregation",
                      o->name);
  }
  return NULL;
}

static weft_status_t *create_by_chain(TF_Graph *g, const WEFT_VariableOptions *o, WEFT_Variable **out) {
  weft_scope_t *scope;
  WEFT_RETURN_IF_ERROR(weft_scope_of(g, &scope));
  WEFT_RETURN_IF_ERROR(check_options(o));
  if (scope->place.context == WEFT_CONTEXT_UPDATE)
    return WEFT_ERROR(FAILED_PRECONDITION, "variable '%s' cannot be created inside an update", o->name);
  WEFT_Variable *known = WEFT_FindVariable(g, o->name);
  if (known != NULL && scope->place.context == WEFT_CONTEXT_REPLICA) {
    *out = known;
    return NULL;
  }
  if (known != NULL) return WEFT_ERROR(ALREADY_EXISTS, "there is a variable '%s' already", o->name);
  WEFT_CreatorChain all = {scope->creators};
  return next_creator(&all, g, o, out);
}

WEFT_Variable *WEFT_CreateVariable(TF_Graph *graph, const WEFT_VariableOptions *options, TF_Status *status) {
  WEFT_Variable *v = NULL;
  return weft_client_end(status, create_by_chain(graph, options, &v)) ? v : NULL;
}

void WEFT_PushVariableCreator(TF_Graph *graph, WEFT_VariableCreator fn, void *user, TF_Status *status) {
  weft_scope_t *scope;
  weft_status_t *s = weft_scope_of(graph, &scope);
  weft_creator_t *c = s == NULL ? weft_arena_calloc(&scope->arena, 1, sizeof *c) : NULL;
  if (s == NULL && c == NULL) s = no_memory();
  if (s == NULL) {
    *c = (weft_creator_t){.below = scope->creators, .fn = fn, .user = user};
    scope->creators = c;
  }
  weft_client_end(status, s);
}

void WEFT_PopVariableCreator(TF_Graph *graph, TF_Status *status) {
  weft_scope_t *scope;
  weft_status_t *s = weft_scope_of(graph, &scope);
  if (s == NULL && scope->creators == NULL)
    s = WEFT_ERROR(FAILED_PRECONDITION, "no creator of variables was pushed");
  if (s == NULL) scope->creators = scope->creators->below;
  weft_client_end(status, s);
}

WEFT_Variable *WEFT_FindVariable(TF_Graph *graph, const char *name) {
  const weft_scope_t *scope = graph->strategy_scope;
  for (WEFT_Variable *v = scope == NULL ? NULL : scope->variables; v != NULL; v = v->next) {
    if (weft_str_is(v->name, name)) return v;
  }
  return NULL;
}

int WEFT_VariableNumComponents(const WEFT_Variable *v) { return v->num_components; }
TF_Output WEFT_VariableComponent(const WEFT_Variable *v, int i) {
  return i < 0 || i >= v->num_components ? (TF_Output){NULL, 0} : v->components[i].handle;
}
const char *WEFT_VariableDevice(const WEFT_Variable *v, int i) {
  return i < 0 || i >= v->num_components ? NULL : v->components[i].device.data;
}

static weft_status_t *initializer(TF_Graph *g, TF_Operation **out) {
  weft_scope_t *scope;
  weft_adding_t b;
  WEFT_RETURN_IF_ERROR(weft_scope_of(g, &scope));
  if (scope->num_variables == 0)
    return WEFT_ERROR(FAILED_PRECONDITION, "the graph has no variables to give first values to");
  weft_adding_begin(&b, g, WEFT_STR(""));
  weft_node_t *all = weft_emit_noop(&b.e, NULL, 0, "init_variables");
  for (const WEFT_Variable *v = scope->variables; v != NULL; v = v->next) {
    for (int i = 0; i < v->num_components; i++) weft_emit_control(&b.e, v->components[i].init->node, all);
  }
  weft_status_t *s = weft_adding_end(&b);
  if (s == NULL) *out = weft_adding_operation(&b, all);
  return s;
}

TF_Operation *WEFT_Initializer(TF_Graph *graph, TF_Status *status) {
  TF_Operation *op = NULL;
  return weft_client_end(status, initializer(graph, &op)) ? op : NULL;
}
