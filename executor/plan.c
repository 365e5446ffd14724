/* executor/plan.c - compiles a graph to a plan; the plan's life. */
#include "executor/plan.h"

#include "base/alloc.h"
#include "executor/commands.h"
#include "graph/passes.h"
#include "graph/references.h"

/* Where the parts of an iteration's block lie. */
static bool lay_out(const weft_exec_plan_t *p, plan_frame_t *f) {
  size_t at = sizeof(iteration_t);
  struct part {
    size_t count, size, *at;
  } parts[] = {
      {f->num_nodes, sizeof(uint32_t), NULL},
      {f->num_merges, sizeof(uint32_t), &f->sides_at},
      {p->has_frames ? f->num_nodes : 0, sizeof(ready_t), &f->links_at},
      {f->num_tasks, sizeof(task_t), &f->tasks_at},
      {f->async_bytes, 1, &f->async_at},
      {(size_t)f->num_children, sizeof(frame_t *), &f->children_at},
      {f->num_slots, sizeof(weft_value_t), &f->slots_at},
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    size_t bytes;
    if (parts[i].at != NULL) *parts[i].at = at;
    if (!weft_mul_size(parts[i].count, parts[i].size, &bytes) || !weft_add_size(at, bytes, &at) ||
        !weft_add_size(at, 15, &at)) {
      return false;
    }
    at &= ~(size_t)15;
  }
  f->bytes = at;
  return true;
}

static weft_status_t *finish(weft_exec_plan_t *p) {
  uint32_t num_roots = 0;
  for (uint32_t i = 0; i < p->frames[0].num_nodes; i++) num_roots += p->words[i] == 0;
  p->costs = weft_calloc(p->num_costs, sizeof *p->costs);
  p->roots = weft_calloc(num_roots, sizeof *p->roots);
  if (p->costs == NULL || p->roots == NULL) return WEFT_NO_MEMORY("compiling a plan");
  for (uint32_t i = 0; i < p->num_costs; i++)
    atomic_init(&p->costs[i], (uint32_t)COST_UNKNOWN_NS << COST_COUNT_BITS);
  for (uint32_t i = 0; i < p->frames[0].num_nodes; i++) {
    if (p->words[i] == 0) p->roots[p->num_roots++] = i;
  }
  for (int f = 0; f < p->num_frames; f++) {
    if (!lay_out(p, &p->frames[f])) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a plan of too many nodes");
  }
  return NULL;
}

static weft_status_t *compile(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  size_t num_ids = (size_t)b->graph->num_nodes;
  p->num_nodes = (uint32_t)b->graph->num_live;
  b->number = weft_calloc(num_ids, sizeof *b->number);
  b->frame_of = weft_calloc(num_ids, sizeof *b->frame_of);
  b->entered = weft_calloc(num_ids, sizeof *b->entered);
  if (b->number == NULL || b->frame_of == NULL || b->entered == NULL)
    return WEFT_NO_MEMORY("compiling a plan");
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(b->graph, &b->order));
  WEFT_RETURN_IF_ERROR(weft_plan_assign_frames(b));
  WEFT_RETURN_IF_ERROR(weft_plan_add_nodes(b));
  if (!b->options->only_schedules) WEFT_RETURN_IF_ERROR(weft_plan_find_serial(p));
  return finish(p);
}

/* Functions are the session's, so that several plans share what is compiled. */
static weft_status_t *find_functions(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  weft_functions_t *f = b->options->functions;
  if (f == NULL && p->segment != NULL) f = weft_op_segment_functions(p->segment);
  if (f == NULL) {
    WEFT_RETURN_IF_ERROR(weft_functions_create(&p->functions));
    f = p->functions;
  }
  const weft_pass_settings_t passes = weft_pass_settings_of_calls(b->graph);
  weft_function_source_init(&b->functions, f, b->graph->library, b->options, &passes);
  return NULL;
}

static weft_status_t *create(const weft_graph_t *g, const weft_command_buffers_t *buffers,
                             const weft_plan_options_t *options, weft_exec_plan_t **out) {
  weft_exec_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("compiling a plan");
  atomic_init(&p->refs, 1);
  weft_mutex_init(&p->mu);
  p->device = options->device;
  p->store = weft_graph_store_retain(g->store);
  p->segment = weft_op_segment_retain(options->segment);
  weft_plan_options_t copy = *options;
  copy.session = weft_arena_str(&p->arena, options->session);
  plan_builder_t b = {.plan = p, .options = &copy, .graph = g, .buffers = buffers};
  weft_status_t *s = copy.session.data == NULL ? WEFT_NO_MEMORY("compiling a plan") : find_functions(&b);
  if (s == NULL) s = compile(&b);
  weft_free(b.order);
  weft_free(b.number);
  weft_free(b.frame_of);
  weft_free(b.entered);
  weft_free(b.feeds_update);
  if (s != NULL) {
    weft_plan_release(p);
    return s;
  }
  *out = p;
  return NULL;
}

/* A copy of the graph as the plan runs it. */
static weft_status_t *rewrite(const weft_plan_options_t *options, chain_limits_finder_t *finder,
                              bool spans_memories, weft_graph_t *g, weft_command_buffers_t *buffers) {
  WEFT_RETURN_IF_ERROR(weft_pass_order_references(g, NULL, NULL));
  WEFT_RETURN_IF_ERROR(weft_pass_fuse_chains(g, weft_plan_chain_limits, finder));
  WEFT_RETURN_IF_ERROR(weft_pass_fuse_attention(g, weft_plan_may_attend, finder));
  WEFT_RETURN_IF_ERROR(weft_plan_merge_updates(options, g));
  if (!spans_memories) return NULL;
  WEFT_RETURN_IF_ERROR(weft_plan_insert_copies(options, g));
  return weft_plan_find_commands(options, g, buffers);
}

weft_status_t *weft_plan_create(const weft_graph_t *g, const weft_plan_options_t *options,
                                weft_exec_plan_t **out) {
  const bool spans_memories = weft_plan_spans_memories(options);
  chain_limits_finder_t finder = {.options = options};
  if (!spans_memories && !weft_pass_may_fuse_chains(g, weft_plan_chain_limits, &finder) &&
      !weft_plan_may_merge_updates(options, g) && !weft_pass_may_order_references(g)) {
    return create(g, NULL, options, out);
  }
  weft_graph_t *copy = NULL;
  weft_command_buffers_t buffers = {.num_buffers = 0};
  WEFT_RETURN_IF_ERROR(weft_graph_copy(g, &copy));
  weft_status_t *s = rewrite(options, &finder, spans_memories, copy, &buffers);
  if (s == NULL) s = create(copy, spans_memories ? &buffers : NULL, options, out);
  weft_command_buffers_deinit(&buffers);
  weft_graph_destroy(copy);
  return s;
}

weft_exec_plan_t *weft_plan_retain(weft_exec_plan_t *p) {
  if (p != NULL) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}

static void free_blocks(weft_exec_plan_t *p) {
  for (run_t *next; p->free_runs != NULL; p->free_runs = next) {
    next = p->free_runs->next_free;
    weft_run_free(p->free_runs);
  }
  for (int f = 0; f < p->num_frames; f++) {
    for (frame_t *next; p->frames[f].free != NULL; p->frames[f].free = next) {
      next = p->frames[f].free->next;
      weft_frame_free(p->frames[f].free);
    }
  }
}

void weft_plan_release(weft_exec_plan_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  free_blocks(p);
  for (uint32_t i = 0; p->instances != NULL && p->setups != NULL && i < p->num_nodes; i++) {
    op_instance_t *one = &p->instances[i];
    if (!p->setups[i].shares_state && one->state != NULL && one->kernel->destroy != NULL)
      one->kernel->destroy(one->state);
  }
  for (uint32_t i = 0; i < p->num_commands; i++) weft_commands_deinit(&p->commands[i]);
  for (uint32_t i = 0; p->setups != NULL && i < p->num_nodes; i++)
    weft_attrs_release_tensors(p->setups[i].attrs, p->setups[i].num_attrs);
  for (uint32_t i = 0; i < p->num_consts; i++) weft_tensor_release(p->consts[i]);
  weft_functions_release(p->functions); /* behind the states, which may point to them */
  weft_op_segment_release(p->segment);
  weft_free(p->nodes);
  weft_free(p->edges);
  weft_free(p->controls);
  weft_free(p->words);
  weft_free(p->setups);
  weft_free(p->instances);
  weft_free(p->consts);
  weft_free(p->commands);
  weft_free(p->costs);
  weft_free(p->roots);
  weft_free(p->frames);
  weft_arena_deinit(&p->arena);
  weft_graph_store_release(p->store);
  weft_mutex_deinit(&p->mu);
  weft_free(p);
}

int weft_plan_num_nodes(const weft_exec_plan_t *p) { return (int)p->num_nodes; }
