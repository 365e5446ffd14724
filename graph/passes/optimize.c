/* graph/passes/optimize.c - runs the passes over a graph, and makes good what one of them broke. */
#include "graph/passes/optimize.h"

#include "base/alloc.h"
#include "base/log.h"
#include "graph/passes/round.h"

/* A larger graph is gone over once: of a million nodes a round takes a second. */
enum { MOST_FOR_MORE_ROUNDS = 200000 };

typedef struct weft_pass {
  const char *name, *what;
  weft_pass_fn *run; /* NULL: workers run it */
} weft_pass_t;

static const weft_pass_t passes[WEFT_NUM_PASSES] = {
#define WEFT_PASS(id, name, field, means_off, function, what) [WEFT_PASS_##id] = {name, what, function},
#include "graph/passes/passes.def"
#undef WEFT_PASS
};

const char *weft_pass_name(int pass) { return passes[pass].name; }
const char *weft_pass_what(int pass) { return passes[pass].what; }

/* Drops what neither a kept node nor one that it reads needs. */
static weft_status_t *drop_unneeded(weft_pass_round_t *r) {
  weft_graph_t *g = r->g;
  weft_node_t **roots = weft_calloc((size_t)r->num_ids + 1, sizeof(*roots));
  weft_node_t **before = weft_calloc((size_t)g->num_nodes + 1, sizeof(*before));
  int n = 0;
  weft_status_t *s = NULL;
  if (roots == NULL || before == NULL) s = WEFT_NO_MEMORY("optimising a graph of %d nodes", g->num_live);
  for (int id = 0; s == NULL && id < r->num_ids; id++) {
    if (g->nodes[id] != NULL && r->is_kept[id]) roots[n++] = g->nodes[id];
  }
  if (s == NULL) memcpy(before, g->nodes, (size_t)g->num_nodes * sizeof(*before));
  if (s == NULL) s = weft_pass_prune(g, roots, n);
  for (int id = 0; s == NULL && r->options->note != NULL && id < g->num_nodes; id++) {
    if (before[id] != NULL && g->nodes[id] == NULL)
      weft_pass_round_note(r, before[id], "is not needed", (weft_str_t){NULL, 0});
  }
  weft_free(roots);
  weft_free(before);
  return s;
}

/* One after the other. *out_failed: the pass that failed; -1: it was none of them. */
static weft_status_t *run_round(weft_graph_t *g, const weft_optimize_options_t *o, uint32_t which,
                                bool *out_changed, int *out_failed) {
  weft_pass_round_t r;
  *out_failed = -1;
  weft_status_t *s = weft_pass_round_init(&r, g, o);
  for (int p = 0; s == NULL && p < WEFT_NUM_PASSES; p++) {
    if ((which & WEFT_PASS_BIT(p)) == 0 || passes[p].run == NULL) continue;
    const bool changed_before = r.has_changed;
    r.pass = passes[p].name;
    r.has_changed = false;
    s = passes[p].run(&r);
    if (s == NULL && r.has_changed) s = weft_pass_round_finish(&r);
    if (s == NULL && r.has_changed) s = drop_unneeded(&r);
    if (s != NULL) *out_failed = p;
    r.has_changed |= changed_before;
  }
  *out_changed = r.has_changed;
  weft_pass_round_deinit(&r);
  return s;
}

static weft_status_t *rebuild(const weft_optimize_options_t *o, weft_graph_t *kept_copy, weft_graph_t **g) {
  weft_graph_destroy(*g);
  *g = NULL;
  return o->rebuild != NULL ? o->rebuild(o->rebuild_arg, g) : weft_graph_copy(kept_copy, g);
}

static weft_status_t *optimize(weft_graph_t **g, const weft_optimize_options_t *o, weft_graph_t *kept_copy) {
  uint32_t which = o->settings.passes;
  int round = 0;
  while (round < o->settings.rounds && which != 0) {
    bool has_changed = false;
    int failed = -1;
    weft_status_t *s = run_round(*g, o, which, &has_changed, &failed);
    if (s == NULL) {
      const bool goes_on = has_changed && (*g)->num_live <= MOST_FOR_MORE_ROUNDS;
      round = goes_on ? round + 1 : o->settings.rounds;
      continue;
    }
    which = failed < 0 ? 0 : which & ~WEFT_PASS_BIT(failed);
    weft_log_status(WEFT_LOG_WARNING,
                    failed < 0 ? "The graph of a step is run as it is"
                               : "The graph of a step is optimised without one of the passes",
                    s);
    WEFT_RETURN_IF_ERROR(rebuild(o, kept_copy, g));
    round = 0;
  }
  return NULL;
}

weft_status_t *weft_optimize(weft_graph_t **g, const weft_optimize_options_t *o) {
  if ((*g)->num_live < o->settings.min_nodes || o->settings.passes == 0) return NULL;
  weft_graph_t *kept_copy = NULL;
  if (o->rebuild == NULL) {
    weft_status_t *s = weft_graph_copy(*g, &kept_copy);
    if (s != NULL) {
      weft_log_status(WEFT_LOG_WARNING, "The graph of a step is run as it is", s);
      return NULL;
    }
  }
  weft_status_t *s = optimize(g, o, kept_copy);
  weft_graph_destroy(kept_copy);
  return s;
}
