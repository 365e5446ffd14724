/* strategies/parameter_server.c - variables on servers, a worker loop of the training step on each worker.
 *
 * 1. The graph is copied, its functions are unfolded, its shapes worked out.
 * 2. Variables that the partitioner splits become shards (shard_graph.c).
 * 3. Variables get a server, with their slots; what reads and updates them goes there (placed_graph.c).
 * 4. The graph and a copy of its step per worker are built for the mode (parameter_server_async.c, _sync.c).
 * 5. Constants that only servers need move to them.
 *
 * Worker loops share only what lives on servers (variables, clocks, queues), so no edge leads from one worker
 * to another. Sources: reference 3.3, 3.27, 3.28.
 */
#include "strategies/parameter_server.h"
#include "strategies/strategy.h"

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/emit.h"
#include "strategies/lower.h"
#include "strategies/shard_graph.h"

enum { MAX_NAME = 32 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("rewriting a graph for parameter servers"); }

/* ---- worker loops ---- */

/* ---- constants ---- */

typedef struct constants {
  weft_ps_t *p;
  weft_fanout_t fanout;
  int num_old;
} constants_t;

static int server_index(const weft_ps_places_t *places, weft_str_t device) {
  for (int i = 0; i < places->num_servers; i++) {
    if (weft_str_eq(places->servers[i], device)) return i;
  }
  return -1;
}

/* Gives each server that uses constant n one of its own; workers keep n. */
static weft_status_t *copy_constant(constants_t *c, weft_node_t *n) {
  weft_graph_t *g = c->p->out->graph;
  const weft_ps_places_t *places = &c->p->places;
  int begin = c->fanout.begin[n->id], end = c->fanout.begin[n->id + 1];
  bool stays = begin == end;
  weft_str_t first = {NULL, 0};
  for (int e = begin; e < end; e++) {
    weft_str_t device = c->fanout.edges[e].to->requested_device;
    bool is_first = first.data == NULL || weft_str_eq(first, device);
    stays = stays || server_index(places, device) < 0 || c->fanout.edges[e].output < 0 || !is_first;
    first = device;
  }
  if (!stays) {
    n->requested_device = weft_graph_intern(g, first);
    return n->requested_device.data == NULL ? no_memory() : NULL;
  }
  for (int server = 0; server < places->num_servers; server++) {
    weft_output_t copy = {NULL, 0};
    for (int e = begin; e < end; e++) {
      const weft_fanout_edge_t *edge = &c->fanout.edges[e];
      if (edge->output < 0 || !weft_str_eq(edge->to->requested_device, places->servers[server])) continue;
      if (weft_str_eq(n->requested_device, places->servers[server])) continue;
      if (copy.node == NULL) {
        weft_emitter_t b = {.g = g, .scope = n->name, .device = places->servers[server]};
        weft_str_t name = weft_ps_numbered(&c->p->out->arena, "/server_", server, "");
        copy = weft_emit(&b, "Const", NULL, 0, n->attrs, n->num_attrs, "%.*s", WEFT_STR_ARGS(name));
        WEFT_RETURN_IF_ERROR(weft_emitter_end(&b));
      }
      weft_graph_set_input(edge->to, edge->input, copy);
    }
  }
  return NULL;
}

static weft_status_t *copy_constants(weft_ps_t *p) {
  constants_t c = {.p = p, .num_old = p->out->graph->num_nodes};
  WEFT_RETURN_IF_ERROR(weft_fanout_build(p->out->graph, &c.fanout));
  weft_status_t *s = NULL;
  for (int id = 0; id < c.num_old && s == NULL; id++) {
    weft_node_t *n = p->out->graph->nodes[id];
    if (n != NULL && (n->flags & WEFT_OP_CONST) != 0 && n->num_controls == 0) s = copy_constant(&c, n);
  }
  weft_fanout_deinit(&c.fanout);
  return s;
}

/* ---- the way ---- */

/* Analyses how gradients depend on the batch. Not needed where workers have batches of their own. */
static weft_status_t *analyse(weft_ps_t *p) {
  const weft_names_t *lists[2] = {&p->request->fetches, &p->request->targets};
  weft_node_t **roots =
      weft_arena_calloc(&p->out->arena, (size_t)lists[0]->n + (size_t)lists[1]->n + 1, sizeof(*roots));
  int n = 0;
  if (roots == NULL) return no_memory();
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < lists[k]->n; i++) {
      weft_output_t of;
      WEFT_RETURN_IF_ERROR(weft_placed_find(p->source, lists[k]->items[i], k == 0 ? "fetch" : "target", &of));
      roots[n++] = of.node;
    }
  }
  const weft_data_options_t o = {
      .roots = (const weft_node_t *const *)roots, .num_roots = n, .may_lack_batch = true};
  WEFT_RETURN_IF_ERROR(weft_graph_copy(p->source, &p->whole));
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(p->whole));
  for (int i = 0; i < n; i++) roots[i] = weft_graph_find(p->whole, roots[i]->name);
  weft_status_t *s = weft_data_analyse(p->whole, &o, &p->data);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  p->data = (weft_data_plan_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *noted = weft_rewrite_note(p->out, "gradients are averaged at the inputs of updates: %s",
                                           weft_status_message(s));
  weft_status_free(s);
  return noted;
}

/* A graph without updates: one worker runs it, with the whole batch. */
static weft_status_t *evaluate_if_nothing_is_updated(weft_ps_t *p) {
  weft_placed_graph_t l;
  bool updates = false;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(p->request->graph, &p->source));
  WEFT_RETURN_IF_ERROR(weft_lower_for_clients(p->source));
  WEFT_RETURN_IF_ERROR(weft_placed_graph_init(p->source, p->request, &l));
  for (int k = 0; k < l.num_nodes; k++)
    updates = updates || (l.in_step[l.order[k]->id] && weft_placed_is_update(l.order[k]));
  weft_placed_graph_deinit(&l);
  if (updates || p->request->fetches.n + p->request->targets.n == 0) return NULL;
  p->options.mode = WEFT_PS_ASYNC;
  p->options.backup = 0;
  p->places.num_workers = 1;
  return weft_rewrite_note(p->out, "nothing is updated: one worker runs the whole graph");
}

static weft_status_t *prepare_source(weft_ps_t *p) {
  WEFT_RETURN_IF_ERROR(evaluate_if_nothing_is_updated(p));
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(p->source));
  if (p->options.mode == WEFT_PS_SYNC) WEFT_RETURN_IF_ERROR(analyse(p));
  if (p->options.partitioner.kind == WEFT_PARTITION_NONE) return NULL;
  weft_graph_t *sharded = NULL;
  WEFT_RETURN_IF_ERROR(weft_shard_graph(p->source, p->request, &p->options.partitioner, p->out, &sharded));
  weft_graph_destroy(p->source);
  p->source = sharded;
  return weft_pass_infer_shapes(p->source);
}

static weft_status_t *start(const weft_strategy_request_t *r, weft_rewrite_t *out, weft_ps_t *p) {
  *p = (weft_ps_t){.request = r, .out = out};
  int num_ps_tasks = 0;
  for (int i = 0; i < r->cluster->num_tasks; i++) num_ps_tasks += weft_str_is(r->cluster->tasks[i].job, "ps");
  WEFT_RETURN_IF_ERROR(weft_ps_options_parse(r->options, num_ps_tasks, &out->arena, &p->options));
  WEFT_RETURN_IF_ERROR(weft_ps_find_places(r->cluster, &p->options, &out->arena, &p->places));
  if (p->options.backup >= p->places.num_workers) {
    return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: backup=%d leaves none of %d workers",
                      p->options.backup, p->places.num_workers);
  }
  return NULL;
}

static void end(weft_ps_t *p) {
  if (p->placed.g != NULL) weft_placed_graph_deinit(&p->placed);
  if (p->data.graph != NULL) weft_data_plan_deinit(&p->data);
  weft_graph_destroy(p->whole);
  weft_graph_destroy(p->source);
}

static weft_status_t *build_loops(weft_ps_t *p) {
  WEFT_RETURN_IF_ERROR(prepare_source(p));
  WEFT_RETURN_IF_ERROR(weft_placed_graph_init(p->source, p->request, &p->placed));
  WEFT_RETURN_IF_ERROR(weft_placed_graph_place(&p->placed, p->places.num_servers, p->options.placement));
  WEFT_RETURN_IF_ERROR(weft_copier_new_graph(p->source, &p->out->graph));
  p->out->num_local_cpus = p->places.num_local_cpus;
  WEFT_RETURN_IF_ERROR(p->options.mode == WEFT_PS_SYNC ? weft_ps_build_sync(p) : weft_ps_build_async(p));
  WEFT_RETURN_IF_ERROR(copy_constants(p));
  return weft_ps_explain(p);
}

static weft_status_t *check(const weft_strategy_t *self, weft_str_t options) {
  (void)self;
  weft_ps_options_t o;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *s = weft_ps_options_parse(options, 0, &arena, &o);
  weft_arena_deinit(&arena);
  return s;
}

static weft_status_t *rewrite(const weft_strategy_t *self, const weft_strategy_request_t *r,
                              weft_rewrite_t *out) {
  (void)self;
  weft_ps_t p;
  weft_status_t *s = start(r, out, &p);
  bool shares_batches = p.options.mode == WEFT_PS_SYNC && p.options.splits;
  if (s == NULL) s = shares_batches ? weft_ps_replicate(&p) : build_loops(&p);
  end(&p);
  return s;
}

extern const char weft_ps_usage[];
extern const weft_strategy_t weft_parameter_server_strategy;
const weft_strategy_t weft_parameter_server_strategy = {
    .name = "parameter_server",
    .about = "variables on servers; workers push gradients: at once, in step, or with bounded staleness",
    .usage = weft_ps_usage,
    .check = check,
    .probe = weft_strategy_probe_by_trial,
    .rewrite = rewrite,
    .explain = weft_strategy_explain_rewrite,
};
