/* strategies/parameter_server_async.c - every worker updates the variables as soon as it has a gradient.
 *
 * async: worker loop 0 is the graph itself, under its own names; worker loop i is a copy of its
 * step under "worker_i/". ssp: all worker loops are copies; a worker loop reads after
 * WeftClockWait has let it, and ends with WeftClockAdvance after its last update.
 */
#include "strategies/emit.h"
#include "strategies/parameter_server.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copying a graph for workers"); }

/* Counters that several worker loops increment need a lock, or increments would be lost. */
static weft_status_t *lock_counter(weft_graph_t *g, weft_node_t *update) {
  const weft_attr_t locks = {.kind = WEFT_ATTR_BOOL, .b = true};
  int type = update->num_inputs > 1 ? weft_dtype_base(update->input_types[1]) : 0;
  if (weft_node_attr(update, "use_locking") == NULL || (type != WEFT_I32 && type != WEFT_I64)) return NULL;
  return weft_graph_set_attr(g, update, "use_locking", &locks);
}

static weft_status_t *copy_nodes(weft_ps_t *p, weft_placed_copier_t *c, bool only_step) {
  const weft_placed_graph_t *l = &p->placed;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    weft_node_t *copy = NULL;
    bool is_wanted = weft_ps_is_copied(p, &c->copier, n);
    if (only_step && (!is_wanted || (n->flags & WEFT_OP_VARIABLE) != 0)) continue;
    WEFT_RETURN_IF_ERROR(weft_placed_copy(c, n, &copy));
    if (l->in_step[n->id] && weft_placed_is_update(n))
      WEFT_RETURN_IF_ERROR(lock_counter(p->out->graph, copy));
  }
  return weft_copier_finish(&c->copier);
}

/* ---- bounded staleness ---- */

static weft_node_t *make_clock(weft_ps_t *p, weft_emitter_t *b) {
  weft_named_attr_t attrs[3] = {
      weft_int_attr("num_workers", p->places.num_workers),
      weft_ps_shared_name(p, WEFT_STR("parameter_server/clock")),
      {WEFT_STR("worker_tasks"), {.kind = WEFT_ATTR_STRING, .is_list = true, .n = p->places.num_workers}}};
  attrs[2].value.list.strings = p->places.worker_tasks;
  return weft_emit(b, "WeftClock", NULL, 0, attrs, 3, "parameter_server/clock").node;
}

static weft_node_t *add_gate(weft_ps_t *p, weft_emitter_t *b, weft_node_t *clock, int worker) {
  weft_output_t index = weft_emit_int(b, WEFT_I64, worker, "clock/worker");
  weft_output_t staleness = weft_emit_int(b, WEFT_I64, p->options.staleness, "clock/staleness");
  const weft_output_t in[3] = {{clock, 0}, index, staleness};
  const weft_named_attr_t seconds = {WEFT_STR("timeout_seconds"),
                                     {.kind = WEFT_ATTR_FLOAT, .f = (float)p->options.timeout_seconds}};
  return weft_emit(b, "WeftClockWait", in, 3, &seconds, 1, "clock/wait").node;
}

/* Runs after all writes of the worker loop. */
static weft_node_t *add_advance(weft_ps_t *p, weft_emitter_t *b, weft_node_t *clock,
                                const weft_placed_copier_t *c) {
  weft_output_t index = weft_emit_int(b, WEFT_I64, c->worker, "clock/worker");
  weft_node_t *advance =
      weft_emit2(b, "WeftClockAdvance", (weft_output_t){clock, 0}, index, "clock/advance").node;
  bool writes = false;
  for (int k = 0; k < p->placed.num_nodes; k++) {
    const weft_node_t *n = p->placed.order[k];
    if (!p->placed.in_step[n->id] || !weft_placed_is_update(n)) continue;
    weft_emit_control(b, c->copier.nodes[n->id], advance);
    writes = true;
  }
  if (!writes) weft_emit_control(b, c->gate, advance);
  return advance;
}

/* What takes the worker out of the clock, once its data have ended. */
static weft_status_t *add_leave(weft_ps_t *p, weft_emitter_t *b, weft_node_t *clock, int worker) {
  weft_output_t index = weft_emit_int(b, WEFT_I64, worker, "clock/worker");
  weft_node_t *leave = weft_emit2(b, "WeftClockRemove", (weft_output_t){clock, 0}, index, "clock/leave").node;
  WEFT_RETURN_IF_ERROR(weft_emitter_end(b));
  weft_str_t *name = &p->out->loops[p->out->num_loops - 1].leave;
  *name = weft_arena_str(&p->out->arena, leave->name);
  return name->data != NULL ? NULL : no_memory();
}

/* ---- worker loops ---- */

static weft_status_t *build_loop(weft_ps_t *p, const weft_placed_copier_t *base, weft_node_t *clock,
                                 int worker) {
  weft_placed_copier_t c;
  weft_str_t prefix = weft_ps_prefix(p, worker);
  if (prefix.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_placed_copier_init(&c, &p->placed, p->out->graph, &p->places, worker, prefix));
  weft_emitter_t b = {.g = p->out->graph, .scope = prefix, .device = p->places.servers[0]};
  weft_node_t *advance = NULL;
  c.caches = p->options.caches;
  weft_status_t *s = weft_placed_share_variables(&c, base);
  if (s == NULL && clock != NULL) c.gate = add_gate(p, &b, clock, worker);
  if (s == NULL) s = weft_emitter_end(&b);
  if (s == NULL) s = weft_ps_share_data(p, &c, base);
  if (s == NULL) s = copy_nodes(p, &c, true);
  if (s == NULL) s = weft_ps_shard_data(p, &c, base);
  if (s == NULL && clock != NULL) advance = add_advance(p, &b, clock, &c);
  if (s == NULL) s = weft_emitter_end(&b);
  if (s == NULL) s = weft_ps_add_loop(p, worker, &c.copier, advance);
  if (s == NULL && clock != NULL) s = add_leave(p, &b, clock, worker);
  weft_placed_copier_deinit(&c);
  return s;
}

weft_status_t *weft_ps_build_async(weft_ps_t *p) {
  weft_placed_copier_t base;
  WEFT_RETURN_IF_ERROR(
      weft_placed_copier_init(&base, &p->placed, p->out->graph, &p->places, 0, WEFT_STR("")));
  weft_emitter_t b = {.g = p->out->graph, .device = p->places.servers[0]};
  weft_node_t *clock = NULL, *reset = NULL;
  base.caches = p->options.caches;
  weft_status_t *s = weft_ps_find_data(p);
  if (s == NULL) s = copy_nodes(p, &base, false);
  if (s == NULL && p->options.mode == WEFT_PS_SSP) clock = make_clock(p, &b);
  if (clock != NULL)
    reset = weft_emit1(&b, "WeftClockReset", (weft_output_t){clock, 0}, "parameter_server/init").node;
  p->out->loops_wait = clock != NULL;
  if (s == NULL) s = weft_emitter_end(&b);
  if (s == NULL) s = weft_ps_set_inits(p, &base.copier, reset);
  if (s == NULL && clock == NULL) s = weft_ps_shard_data(p, &base, &base);
  if (s == NULL && clock == NULL) s = weft_ps_add_loop(p, 0, &base.copier, NULL);
  for (int i = clock == NULL ? 1 : 0; i < p->places.num_workers && s == NULL; i++)
    s = build_loop(p, &base, clock, i);
  weft_placed_copier_deinit(&base);
  return s;
}
