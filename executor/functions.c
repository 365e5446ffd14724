/* executor/functions.c - functions as kernels call them: found by name, compiled once, run any number of
 * times.
 *
 * Locking: the table's `mu` is a leaf. A callee's `mu` is held while its function is compiled; that finds
 * other callees, but compiles none.
 */
#include "executor/functions.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "protos/wire.h"

enum { NODE_OP = 2, NODE_ATTR = 5, ATTR_INT = 3 }; /* fields of NodeDef and AttrValue */

struct weft_functions {
  atomic_int refs;
  weft_mutex_t mu;
  weft_map_t callees; /* guarded by mu; device, function and attributes as text -> callee_t */
};

/* Does the function draw random numbers from a stream with a given seed? Found out at the first question. */
typedef enum draws { UNKNOWN, NO, YES } draws_t;

typedef struct callee {
  weft_callee_t base;
  weft_functions_t *of;
  weft_arena_t arena;
  weft_str_t key;
  weft_attr_t func; /* in `arena` */
  weft_function_library_t *library;
  weft_plan_options_t options;
  weft_pass_settings_t passes;
  weft_mutex_t mu;
  weft_exec_plan_t *plan; /* guarded by mu while NULL: not compiled; constant from then on, as what follows */
  int num_args, num_results;
  atomic_int draws; /* draws_t */
} callee_t;

/* ---- the table ---- */

weft_status_t *weft_functions_create(weft_functions_t **out) {
  weft_functions_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return WEFT_NO_MEMORY("a table of functions");
  atomic_init(&f->refs, 1);
  weft_mutex_init(&f->mu);
  *out = f;
  return NULL;
}

static void callee_free(callee_t *c) {
  if (c == NULL) return;
  weft_plan_release(c->plan);
  weft_attr_release_tensors(&c->func);
  weft_function_library_release(c->library);
  weft_mutex_deinit(&c->mu);
  weft_arena_deinit(&c->arena);
  weft_free(c);
}

void weft_functions_release(weft_functions_t *f) {
  if (f == NULL || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&f->callees, &at, &each);) callee_free(each.value);
  weft_map_deinit(&f->callees);
  weft_mutex_deinit(&f->mu);
  weft_free(f);
}

static void retain(weft_callee_t *callee) {
  atomic_fetch_add_explicit(&((callee_t *)callee)->of->refs, 1, memory_order_relaxed);
}

static void release(weft_callee_t *callee) { weft_functions_release(((callee_t *)callee)->of); }

static void run(weft_callee_t *callee, const weft_function_call_t *call);
static weft_status_t *num_results(weft_callee_t *callee, int *out);
static bool holds(weft_callee_t *callee, uint64_t flag);
static weft_status_t *on(weft_callee_t *callee, weft_device_t *device, weft_callee_t **out);
static weft_status_t *apart(weft_callee_t *callee, weft_callee_t **out);
static weft_status_t *save(weft_callee_t *callee, weft_strbuf_t *out);
static weft_status_t *load(weft_callee_t *callee, weft_str_t from);
static weft_status_t *write(weft_callee_t *callee, weft_map_t *written, weft_strbuf_t *out);

static weft_status_t *callee_new(const function_source_t *from, const weft_attr_t *func,
                                 weft_device_t *device, weft_str_t key, callee_t **out) {
  static const weft_callee_ops_t ops = {.run = run,
                                        .retain = retain,
                                        .release = release,
                                        .num_results = num_results,
                                        .holds = holds,
                                        .on = on,
                                        .apart = apart,
                                        .save = save,
                                        .load = load,
                                        .write = write};
  callee_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a function");
  c->base.ops = &ops;
  c->of = from->functions;
  weft_mutex_init(&c->mu);
  c->library = weft_function_library_retain(from->library);
  c->passes = from->passes;
  c->key = weft_arena_str(&c->arena, key);
  c->options = (weft_plan_options_t){.device = device,
                                     .functions = from->functions,
                                     .session = weft_arena_str(&c->arena, from->options->session),
                                     .kernels = from->options->kernels};
  weft_status_t *s = c->key.data == NULL || c->options.session.data == NULL
                         ? WEFT_NO_MEMORY("a function")
                         : weft_attr_copy(&c->arena, func, &c->func);
  if (s != NULL) {
    c->func = (weft_attr_t){.kind = WEFT_ATTR_NONE};
    callee_free(c);
    return s;
  }
  *out = c;
  return NULL;
}

static weft_status_t *find_by_key(const function_source_t *from, const weft_attr_t *func,
                                  weft_device_t *device, weft_str_t key, callee_t **out) {
  weft_functions_t *f = from->functions;
  weft_status_t *s = NULL;
  weft_mutex_lock(&f->mu);
  *out = weft_map_get(&f->callees, key);
  if (*out == NULL) {
    s = callee_new(from, func, device, key, out);
    if (s == NULL) s = weft_map_put(&f->callees, (*out)->key, *out, NULL);
    if (s != NULL) callee_free(*out);
  }
  weft_mutex_unlock(&f->mu);
  return s;
}

static weft_status_t *find(const weft_graph_functions_t *base, const weft_func_attr_t *func,
                           weft_device_t *device, weft_callee_t **out) {
  const weft_attr_t value = {.kind = WEFT_ATTR_FUNC, .func = func};
  const weft_pass_settings_t *passes = &((const function_source_t *)base)->passes;
  callee_t *c = NULL;
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_strbuf_append(&key, device->name);
  weft_strbuf_printf(&key, " %" PRIu32 " %d %d %" PRId64 " ", passes->passes, passes->min_nodes,
                     passes->rounds, passes->max_folded_bytes);
  weft_status_t *s = weft_attr_to_proto(&value, &key);
  if (s == NULL && key.failed) s = WEFT_NO_MEMORY("function '%.*s'", WEFT_STR_ARGS(func->name));
  if (s == NULL)
    s = find_by_key((const function_source_t *)base, &value, device, weft_str_of(key.data, key.length), &c);
  weft_strbuf_deinit(&key);
  if (s == NULL) *out = &c->base;
  return s;
}

static weft_status_t *write_node(const weft_graph_functions_t *base, const weft_kernel_setup_t *setup,
                                 weft_strbuf_t *out) {
  (void)base;
  weft_wire_put_bytes(out, 2, setup->node.op_name);
  for (int i = 0; i < setup->num_attrs; i++) {
    const weft_named_attr_t *a = &setup->attrs[i];
    if (a->name.data[0] == '_') continue;
    WEFT_RETURN_IF_ERROR(weft_attr_map_to_proto(5, a->name, &a->value, out));
  }
  return out->failed ? WEFT_NO_MEMORY("writing node '%.*s'", WEFT_STR_ARGS(setup->node.name)) : NULL;
}

void weft_function_source_init(function_source_t *s, weft_functions_t *functions,
                               weft_function_library_t *library, const weft_plan_options_t *options,
                               const weft_pass_settings_t *passes) {
  *s =
      (function_source_t){{find, write_node, weft_graph_runner_create}, functions, library, options, *passes};
}

static weft_status_t *on(weft_callee_t *callee, weft_device_t *device, weft_callee_t **out) {
  const callee_t *c = (const callee_t *)callee;
  function_source_t source;
  weft_function_source_init(&source, c->of, c->library, &c->options, &c->passes);
  return find(&source.base, c->func.func, device, out);
}

/* ---- a call ---- */

static weft_status_t *compile(callee_t *c) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_function_graph(c->library, c->func.func, &g));
  c->num_args = c->num_results = 0;
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] == NULL) continue;
    c->num_args += (g->nodes[i]->flags & WEFT_OP_ARG) != 0;
    c->num_results += (g->nodes[i]->flags & WEFT_OP_RETVAL) != 0;
  }
  return weft_called_graph_compile(g, &c->passes, &c->options, &c->plan);
}

/* A failure is not kept: the next call tries again. */
static weft_status_t *make_ready(callee_t *c) {
  weft_mutex_lock(&c->mu);
  weft_status_t *s = c->plan == NULL ? compile(c) : NULL;
  weft_mutex_unlock(&c->mu);
  return s;
}

static weft_status_t *num_results(weft_callee_t *callee, int *out) {
  callee_t *c = (callee_t *)callee;
  WEFT_RETURN_IF_ERROR(make_ready(c));
  *out = c->num_results;
  return NULL;
}

/* ---- what is in it ---- */

/* The op of a NodeDef; NULL: it is none of the table's. */
static const weft_op_def_t *op_of(weft_str_t node) {
  weft_wire_reader_t in = weft_wire_reader(node);
  const weft_op_def_t *op = NULL;
  for (weft_wire_field_t f; weft_wire_next(&in, &f);) {
    if (f.tag == WEFT_WIRE_TAG(NODE_OP, WEFT_WIRE_BYTES)) op = weft_op_find(f.bytes);
  }
  return op;
}

static bool has_flag(void *arg, weft_str_t node) {
  const weft_op_def_t *op = op_of(node);
  return op != NULL && (op->flags & *(const uint64_t *)arg) != 0;
}

/* Does it draw random numbers from a stream with a given seed? */
static bool draws_in_order(void *arg, weft_str_t node) {
  const weft_op_def_t *op = op_of(node);
  weft_wire_reader_t in = weft_wire_reader(node);
  weft_str_t key, value;
  (void)arg;
  if (op == NULL || (op->flags & WEFT_OP_STATEFUL) == 0) return false;
  for (weft_wire_field_t f, of_value; weft_wire_next(&in, &f);) {
    if (f.tag != WEFT_WIRE_TAG(NODE_ATTR, WEFT_WIRE_BYTES) || !weft_map_entry_read(f.bytes, &key, &value))
      continue;
    if (!weft_str_is(key, "seed") && !weft_str_is(key, "seed2")) continue;
    weft_wire_reader_t attr = weft_wire_reader(value);
    while (weft_wire_next(&attr, &of_value)) {
      if (of_value.tag == WEFT_WIRE_TAG(ATTR_INT, WEFT_WIRE_VARINT) && of_value.value != 0) return true;
    }
  }
  return false;
}

/* A function that is not there holds nothing; a call says that it is not. */
static bool any_node(const callee_t *c, weft_function_node_test_fn *test, void *arg) {
  bool found = false;
  weft_status_free(weft_function_any_node(c->library, c->func.func->name, test, arg, &found));
  return found;
}

static bool holds(weft_callee_t *callee, uint64_t flag) {
  const callee_t *c = (const callee_t *)callee;
  return any_node(c, has_flag, &flag);
}

static weft_status_t *write(weft_callee_t *callee, weft_map_t *written, weft_strbuf_t *out) {
  const callee_t *c = (const callee_t *)callee;
  return weft_function_write_reachable(c->library, c->func.func->name, written, out);
}

/* ---- apart from the session ---- */

static weft_status_t *apart(weft_callee_t *callee, weft_callee_t **out) {
  callee_t *c = (callee_t *)callee;
  int known = atomic_load_explicit(&c->draws, memory_order_relaxed);
  if (known == UNKNOWN) {
    known = any_node(c, draws_in_order, NULL) ? YES : NO;
    atomic_store_explicit(&c->draws, known, memory_order_relaxed);
  }
  if (known == NO) {
    *out = weft_callee_retain(callee);
    return NULL;
  }
  weft_functions_t *table = NULL;
  WEFT_RETURN_IF_ERROR(weft_functions_create(&table));
  function_source_t source;
  weft_function_source_init(&source, table, c->library, &c->options, &c->passes);
  weft_status_t *s = find(&source.base, c->func.func, c->options.device, out);
  if (s != NULL) weft_functions_release(table); /* else it is the caller's hold of *out */
  return s;
}

/* ---- what its nodes keep ---- */

static weft_status_t *save(weft_callee_t *callee, weft_strbuf_t *out) {
  callee_t *c = (callee_t *)callee;
  weft_mutex_lock(&c->mu);
  const weft_exec_plan_t *plan = c->plan;
  weft_mutex_unlock(&c->mu);
  return plan != NULL ? weft_plan_save_kept(plan, out) : NULL; /* else it was never called */
}

static weft_status_t *load(weft_callee_t *callee, weft_str_t from) {
  callee_t *c = (callee_t *)callee;
  WEFT_RETURN_IF_ERROR(make_ready(c));
  return weft_status_annotate(weft_plan_load_kept(c->plan, from), "function '%s'", c->func.func->name.data);
}

/* ---- a run of its plan ---- */

typedef struct function_run {
  weft_function_call_t call;
  weft_canceller_t *canceller; /* its own: a failure of the call cancels what is in it, and nothing else */
  weft_step_container_t *container;
  weft_str_t name; /* lent by the caller */
  weft_tensor_t *results[];
} function_run_t;

static void run_free(function_run_t *r) {
  if (r == NULL) return;
  for (int i = 0; i < r->call.num_results; i++) weft_tensor_release(r->results[i]);
  weft_step_container_destroy(r->container);
  weft_canceller_release(r->canceller);
  weft_free(r);
}

static void ended(void *arg, weft_status_t *status) {
  function_run_t *r = arg;
  for (int i = 0; status == NULL && i < r->call.num_results; i++) {
    if (r->results[i] == NULL)
      status = WEFT_ERROR(INTERNAL, "Retval[%d] of function %s does not have value", i, r->name.data);
  }
  r->call.done(r->call.arg, status, status == NULL ? r->results : NULL);
  run_free(r);
}

static weft_status_t *run_new(weft_str_t name, const weft_function_call_t *call, function_run_t **out) {
  function_run_t *r = weft_calloc(1, sizeof *r + (size_t)call->num_results * sizeof(weft_tensor_t *));
  if (r == NULL) return WEFT_NO_MEMORY("a call of function %s", name.data);
  r->call = *call;
  r->name = name;
  r->canceller = weft_canceller_create(call->canceller);
  weft_status_t *s = weft_step_container_create(&r->container);
  if (s == NULL && r->canceller == NULL) s = WEFT_NO_MEMORY("a call of function %s", name.data);
  if (s != NULL) {
    run_free(r);
    return s;
  }
  *out = r;
  return NULL;
}

void weft_plan_call(weft_exec_plan_t *plan, weft_str_t name, const weft_function_call_t *call) {
  function_run_t *r = NULL;
  weft_status_t *s = run_new(name, call, &r);
  if (s != NULL) {
    call->done(call->arg, s, NULL);
    return;
  }
  weft_run_options_t options = {.run_inline = call->runs_here,
                                .step = {.canceller = r->canceller,
                                         .container = r->container,
                                         .args = call->args,
                                         .results = r->results,
                                         .num_args = call->num_args,
                                         .num_results = call->num_results,
                                         .depth = 1}};
  if (call->step != NULL) {
    options.step.id = call->step->id;
    options.step.collectives = call->step->collectives;
    options.step.negotiators = call->step->negotiators;
    options.step.depth = call->step->depth + 1;
  }
  weft_plan_run(plan, &options, ended, r);
}

static weft_status_t *check(const callee_t *c, const weft_function_call_t *call) {
  const char *name = c->func.func->name.data;
  if (weft_canceller_is_cancelled(call->canceller))
    return WEFT_ERROR(CANCELLED, "Function %s was cancelled before it was started", name);
  if (call->step != NULL && call->step->depth >= WEFT_MAX_CALL_DEPTH)
    return WEFT_ERROR(INVALID_ARGUMENT, "Function %s is called within %d calls", name, WEFT_MAX_CALL_DEPTH);
  if (call->num_args != c->num_args) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Function %s takes %d argument(s) but %d argument(s) were passed",
                      name, c->num_args, call->num_args);
  }
  if (call->num_results < c->num_results) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Function %s returns %d result(s) but only %d are expected", name,
                      c->num_results, call->num_results);
  }
  if (call->num_results > c->num_results) {
    return WEFT_ERROR(INTERNAL, "Function %s returns only %d of %d expected result(s)", name, c->num_results,
                      call->num_results);
  }
  return NULL;
}

static void run(weft_callee_t *callee, const weft_function_call_t *call) {
  callee_t *c = (callee_t *)callee;
  weft_status_t *s = make_ready(c);
  if (s == NULL) s = check(c, call);
  if (s != NULL) {
    call->done(call->arg, s, NULL);
    return;
  }
  weft_plan_call(c->plan, c->func.func->name, call);
}
