/* strategies/parameter_server_cost.c - what a step sends: each worker fetches what it reads and sends what it found. */
#include "strategies/parameter_server.h"

#define DEFAULT_LINK_SECONDS 100e-6
#define DEFAULT_LINK_BYTES 1e9 /* per second */

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "counting what a step sends"); }

/* Does worker `w` differ in its task from server `s`? Nothing crosses otherwise. */
static bool is_apart(const weft_ps_t *p, int w, int s) {
  return !weft_str_eq(p->places.workers[w], p->places.servers[s]);
}

static int64_t bytes_of(const weft_node_t *n, int output) {
  const weft_shape_t *shape = n->output_shapes == NULL ? NULL : &n->output_shapes[output];
  int64_t count = shape == NULL ? -1 : weft_shape_count(shape);
  int64_t size = (int64_t)weft_dtype_size(n->output_types[output]);
  return count < 0 || size == 0 ? -1 : count * size;
}

typedef struct edge { /* A value that crosses between a worker and a server. */
  const weft_node_t *from;
  int output, server;
  int64_t bytes; /* -1: unknown */
  bool to_worker;
} edge_t;

typedef struct walk {
  weft_ps_t *p;
  weft_arena_t arena;
  uint8_t **seen; /* by node id and output: bit 0 to the worker, bit 1 to some server */
} walk_t;

static weft_status_t *count_edge(walk_t *w, const edge_t *e) {
  weft_ps_t *p = w->p;
  for (int i = 0; i < p->places.num_workers; i++) {
    if (!is_apart(p, i, e->server)) continue;
    weft_str_t worker = p->places.workers[i], server = p->places.servers[e->server];
    WEFT_RETURN_IF_ERROR(weft_rewrite_crossing(p->out, e->to_worker ? server : worker,
                                               e->to_worker ? worker : server, e->from->name, e->bytes));
    p->out->cost.bytes += e->bytes > 0 ? e->bytes : 0;
    p->out->cost.messages++;
  }
  return NULL;
}

/* A dense gradient is as large as its variable, whatever is known of its shape. */
static int64_t bytes_for(const weft_lane_graph_t *l, const weft_node_t *n, int input) {
  const weft_output_t from = n->inputs[input];
  int64_t bytes = bytes_of(from.node, from.index);
  if (bytes >= 0 || !weft_lane_is_update(n) || input != n->op->update_grad_input) return bytes;
  int v = weft_lane_variable_behind(l, n, 0);
  return v >= 0 && weft_lane_input_named(n, "indices") < 0 ? l->variables[v].bytes : -1;
}

static weft_status_t *pass_edge(walk_t *w, const weft_node_t *n, int input) {
  const weft_output_t from = n->inputs[input];
  int producer_server = w->p->lanes.server_of[from.node->id], consumer_server = w->p->lanes.server_of[n->id];
  const edge_t e = {from.node, from.index, producer_server >= 0 ? producer_server : consumer_server,
                    bytes_for(&w->p->lanes, n, input), producer_server >= 0};
  uint8_t bit = e.to_worker ? 1 : 2;
  if (w->seen[from.node->id] == NULL) {
    w->seen[from.node->id] = weft_arena_calloc(&w->arena, (size_t)from.node->num_outputs + 1, 1);
    if (w->seen[from.node->id] == NULL) return no_memory();
  }
  if ((w->seen[from.node->id][from.index] & bit) != 0) return NULL;
  w->seen[from.node->id][from.index] |= bit;
  return count_edge(w, &e);
}

/* Every value of the step that goes between the worker and a server, once. */
static weft_status_t *walk_edges(walk_t *w) {
  const weft_lane_graph_t *l = &w->p->lanes;
  weft_status_t *s = NULL;
  w->arena = (weft_arena_t)WEFT_ARENA_INIT;
  w->seen = weft_arena_calloc(&w->arena, (size_t)l->g->num_nodes + 1, sizeof *w->seen);
  if (w->seen == NULL) s = no_memory();
  for (int k = 0; k < l->num_nodes && s == NULL; k++) {
    const weft_node_t *n = l->order[k];
    for (int i = 0; i < n->num_inputs && l->in_step[n->id] && s == NULL; i++) {
      const weft_output_t from = n->inputs[i];
      bool is_constant = (from.node->flags & WEFT_OP_CONST) != 0;
      if ((l->server_of[from.node->id] < 0) == (l->server_of[n->id] < 0) || is_constant) continue;
      s = pass_edge(w, n, i);
    }
  }
  weft_arena_deinit(&w->arena);
  return s;
}

static weft_status_t *count_step(weft_ps_t *p) {
  walk_t w = {.p = p};
  const weft_cluster_view_t *c = p->request->cluster;
  double seconds = c->link_seconds > 0 ? c->link_seconds : DEFAULT_LINK_SECONDS;
  double rate = c->link_bytes_per_second > 0 ? c->link_bytes_per_second : DEFAULT_LINK_BYTES;
  WEFT_RETURN_IF_ERROR(walk_edges(&w));
  /* Servers work side by side, and all workers share them; messages of one step overlap, but for reading and
   * sending. */
  p->out->cost.seconds = 2 * seconds + (double)p->out->cost.bytes / rate / p->places.num_servers;
  return NULL;
}

static const char *how(const weft_ps_options_t *o) {
  switch (o->mode) {
    case WEFT_PS_ASYNC: return "each worker applies its gradients at once";
    case WEFT_PS_SYNC: return "gradients are averaged, then applied once";
    case WEFT_PS_SSP: return "each worker applies its gradients at once, but waits for workers that are far behind";
  }
  return "";
}

weft_status_t *weft_ps_explain(weft_ps_t *p) {
  const weft_lane_graph_t *l = &p->lanes;
  WEFT_RETURN_IF_ERROR(weft_rewrite_note(p->out, "parameter servers: %d, workers: %d; %s", p->places.num_servers,
                                         p->places.num_workers, how(&p->options)));
  for (int s = 0; s < p->places.num_servers; s++) {
    int64_t bytes = 0;
    int n = 0;
    for (int v = 0; v < l->num_variables; v++) {
      if (l->variables[v].server != s) continue;
      n++;
      bytes += l->variables[v].bytes > 0 ? l->variables[v].bytes : 0;
    }
    WEFT_RETURN_IF_ERROR(weft_rewrite_note(p->out, "%.*s keeps %d variables, %lld bytes", WEFT_STR_ARGS(p->places.servers[s]),
                                           n, (long long)bytes));
  }
  return count_step(p);
}
