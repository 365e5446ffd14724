/* strategies/parameter_server_loops.c - the worker loops of a rewritten graph, with the names of their feeds,
 * fetches and targets. */
#include "strategies/parameter_server.h"

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/emit.h"
#include "strategies/lower.h"
#include "strategies/shard_graph.h"
#include "strategies/strategy.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("rewriting a graph for parameter servers"); }

weft_str_t weft_ps_numbered(weft_arena_t *arena, const char *before, int i, const char *after) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%s%d%s", before, i, after);
  weft_str_t out = {NULL, 0};
  if (!b.failed) out = weft_arena_str(arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return out;
}

weft_str_t weft_ps_prefix(weft_ps_t *p, int worker) {
  return weft_ps_numbered(&p->out->arena, "worker_", worker, "/");
}

weft_named_attr_t weft_ps_shared_name(const weft_ps_t *p, weft_str_t name) {
  return weft_text_attr("shared_name", p->request->is_one_session ? WEFT_STR("") : name);
}

static weft_status_t *append_name(weft_ps_t *p, weft_names_t *names, weft_str_t name) {
  weft_str_t *items = weft_arena_calloc(&p->out->arena, (size_t)names->n + 1, sizeof *items);
  weft_str_t copy = weft_arena_str(&p->out->arena, name);
  if (items == NULL || copy.data == NULL) return no_memory();
  if (names->n > 0) memcpy(items, names->items, (size_t)names->n * sizeof *items);
  items[names->n] = copy;
  *names = (weft_names_t){items, names->n + 1};
  return NULL;
}

weft_status_t *weft_ps_add_loop(weft_ps_t *p, int worker, const weft_copier_t *names,
                                const weft_node_t *more) {
  weft_rewrite_t *out = p->out;
  if (out->loops == NULL)
    out->loops = weft_arena_calloc(&out->arena, (size_t)p->places.num_workers + 1, sizeof *out->loops);
  if (out->loops == NULL) return no_memory();
  weft_worker_loop_t *loop = &out->loops[out->num_loops];
  *loop = (weft_worker_loop_t){.kind = worker >= 0 ? WEFT_WORKER_LOOP_STEP : WEFT_WORKER_LOOP_UPDATE};
  loop->name = worker >= 0 ? weft_ps_numbered(&out->arena, "worker ", worker, "") : WEFT_STR("update");
  loop->task = worker >= 0 ? p->places.worker_tasks[worker] : p->places.server_tasks[0];
  if (loop->name.data == NULL) return no_memory();
  if (names != NULL) WEFT_RETURN_IF_ERROR(weft_placed_names(names, p->request, out, loop));
  if (more != NULL) WEFT_RETURN_IF_ERROR(append_name(p, &loop->targets, more->name));
  out->num_loops++;
  return NULL;
}

weft_status_t *weft_ps_set_inits(weft_ps_t *p, const weft_copier_t *names, const weft_node_t *more) {
  const weft_strategy_request_t inits = {.targets = p->request->inits};
  weft_worker_loop_t as_loop = {0};
  WEFT_RETURN_IF_ERROR(weft_placed_names(names, &inits, p->out, &as_loop));
  p->out->inits = as_loop.targets;
  return more == NULL ? NULL : append_name(p, &p->out->inits, more->name);
}
