/* graph/sources.c - what nodes wait for that the graph does not show, what they are dead of, and what takes
 * time before them.
 *
 * Something received may come of what was sent, an iteration of a loop of the one before, the element of a
 * queue of what another node put there. Where such a dependence begins is a source. Of nodes that wait for
 * the same sources none waits for another in a hidden way: a source that depended on one of them would depend
 * on itself.
 *
 * A node is dead if any of its inputs is. That begins at a side of a predicate, at a receive, and at a Merge
 * or an Exit, which end what was before them. Nodes that have the same beginnings are dead together. These
 * are another set: behind a Merge a node waits for what both sides wait for, but is on neither.
 */
#include "graph/sources.h"

#include "base/alloc.h"

enum { MAX_SOURCES = 32 }; /* of a node */

/* What a wait, or being dead, begins at. */
typedef enum source_kind { A_NODE, A_FRAME_S_MERGES, A_FRAME_S_EXITS, A_PREDICATE } source_kind_t;

/* Sets of sources have numbers; 0 is the empty one. */
struct weft_source_set {
  uint32_t n;
  uint32_t sources[]; /* ascending */
};

typedef struct source_finder {
  const weft_graph_t *g;
  weft_node_sources_t *out;
  weft_is_free_fn *is_free;
  void *arg;
  weft_arena_t *arena;       /* of what is found, and of the sets */
  uint32_t *sources_in;      /* by frame: the sources in it and in the frames within; NULL: not asked for */
  weft_map_t set_numbers;    /* the bytes of a set -> its number + 1 */
  weft_map_t source_numbers; /* what is a source -> its number + 1 */
  weft_source_set_t **sets;
  uint32_t num_sets, sets_capacity, num_sources;
} source_finder_t;

static weft_status_t *no_memory(const source_finder_t *f) {
  return WEFT_NO_MEMORY("looking for what waits in a graph of %d nodes", f->g->num_live);
}

/* ---- sets ---- */

static weft_status_t *intern_set(source_finder_t *f, const uint32_t *sources, uint32_t n, uint32_t *out) {
  const weft_str_t key = weft_str_of((const char *)sources, n * sizeof *sources);
  const uintptr_t known = n == 0 ? 0 : (uintptr_t)weft_map_get(&f->set_numbers, key);
  if (known != 0) {
    *out = (uint32_t)(known - 1);
    return NULL;
  }
  weft_source_set_t *set = weft_arena_calloc(f->arena, 1, sizeof *set + n * sizeof *sources);
  if (set == NULL) return no_memory(f);
  set->n = n;
  if (n > 0) memcpy(set->sources, sources, n * sizeof *sources);
  if (f->num_sets == f->sets_capacity) {
    const uint32_t capacity = f->sets_capacity == 0 ? 64 : 2 * f->sets_capacity;
    weft_source_set_t **grown = weft_realloc(f->sets, capacity, sizeof(weft_source_set_t *));
    if (grown == NULL) return no_memory(f);
    f->sets = grown;
    f->sets_capacity = capacity;
  }
  f->sets[f->num_sets] = set;
  *out = f->num_sets++;
  if (n == 0) return NULL; /* made once */
  return weft_map_put(&f->set_numbers, weft_str_of((const char *)set->sources, n * sizeof *sources),
                      (void *)((uintptr_t)*out + 1), NULL);
}

/* *set becomes its union with `with`. */
static weft_status_t *unite(source_finder_t *f, uint32_t *set, uint32_t with) {
  uint32_t both[2 * MAX_SOURCES], n = 0;
  if (*set == with || with == 0 || *set == WEFT_TOO_MANY_SOURCES) return NULL;
  if (*set == 0 || with == WEFT_TOO_MANY_SOURCES) {
    *set = with;
    return NULL;
  }
  const weft_source_set_t *a = f->sets[*set], *b = f->sets[with];
  for (uint32_t i = 0, k = 0; i < a->n || k < b->n;) {
    const bool of_a = k == b->n || (i < a->n && a->sources[i] <= b->sources[k]);
    const bool of_b = i == a->n || (k < b->n && b->sources[k] <= a->sources[i]);
    both[n++] = of_a ? a->sources[i] : b->sources[k];
    i += of_a;
    k += of_b;
  }
  if (n > MAX_SOURCES) {
    *set = WEFT_TOO_MANY_SOURCES;
    return NULL;
  }
  return intern_set(f, both, n, set);
}

/* Adds the source that `kind` and `id` name, a node or a frame; of a predicate its output and the side. */
static weft_status_t *add_source(source_finder_t *f, uint32_t *set, source_kind_t kind, int id, int output,
                                 int side) {
  if (output > 0xffff || side > 0xfff) {
    *set = WEFT_TOO_MANY_SOURCES;
    return NULL;
  }
  const uint64_t key = (uint64_t)(uint32_t)id << 32 | (uint64_t)output << 16 | (uint64_t)side << 4 | kind;
  uintptr_t number = (uintptr_t)weft_map_get_u64(&f->source_numbers, key);
  if (number == 0) {
    number = ++f->num_sources;
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&f->source_numbers, key, (void *)number, NULL));
  }
  const uint32_t source = (uint32_t)number;
  uint32_t one = 0;
  WEFT_RETURN_IF_ERROR(intern_set(f, &source, 1, &one));
  return unite(f, set, one);
}

/* A feed is there before the step begins. */
static bool is_feed(const weft_node_t *n) {
  return (n->flags & WEFT_OP_ARG) != 0 || weft_node_attr_bool(n, "client_terminated", false);
}

/* Does it begin an iteration of a loop? */
static bool is_of_loop(const weft_node_t *merge) {
  for (int i = 0; i < merge->num_inputs; i++) {
    if ((merge->inputs[i].node->flags & WEFT_OP_NEXT_ITERATION) != 0) return true;
  }
  return false;
}

/* What the inputs of the node wait for, those of this iteration. */
static weft_status_t *find_input_waits(source_finder_t *f, const weft_node_t *n, uint32_t *set) {
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if ((from->flags & WEFT_OP_NEXT_ITERATION) != 0) continue; /* of the iteration before */
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->waits_of[from->id]));
  }
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->waits_of[n->controls[i]->id]));
  return NULL;
}

/* The last nodes of a loop that is whole in the order. */
static weft_status_t *find_exit_waits(source_finder_t *f, int frame, uint32_t *set) {
  uint32_t *loop = &f->out->loops_wait[frame];
  WEFT_RETURN_IF_ERROR(unite(f, loop, f->sources_in[frame]));
  WEFT_RETURN_IF_ERROR(unite(f, &f->sources_in[f->out->frames.parent[frame]], f->sources_in[frame]));
  *set = *loop;
  return NULL;
}

/* What the node's outputs wait for. */
static weft_status_t *find_waits(source_finder_t *f, const weft_node_t *n) {
  const uint64_t waits =
      WEFT_OP_BLOCKING | WEFT_OP_RECV | WEFT_OP_COMMUNICATION | WEFT_OP_FUNCTIONAL | WEFT_OP_CALL;
  const int frame = f->out->frames.frame_of[n->id];
  uint32_t *set = &f->out->waits_of[n->id];
  const bool is_exit = (n->flags & WEFT_OP_EXIT) != 0;
  if (is_exit && f->out->loops_wait != NULL) return find_exit_waits(f, frame, set);
  WEFT_RETURN_IF_ERROR(find_input_waits(f, n, set));
  if ((n->flags & WEFT_OP_ENTER) != 0 && f->out->loops_wait != NULL)
    WEFT_RETURN_IF_ERROR(unite(f, &f->out->loops_wait[frame], *set));
  if (is_exit) return add_source(f, set, A_FRAME_S_EXITS, frame, 0, 0);
  if ((n->flags & WEFT_OP_MERGE) != 0 && is_of_loop(n))
    return add_source(f, set, A_FRAME_S_MERGES, frame, 0, 0);
  const bool is_copy = (n->flags & WEFT_OP_COPY) != 0;
  if (((n->flags & waits) == 0 && n->function == NULL) || is_copy || is_feed(n)) return NULL;
  if (f->sources_in != NULL) WEFT_RETURN_IF_ERROR(add_source(f, &f->sources_in[frame], A_NODE, n->id, 0, 0));
  return add_source(f, set, A_NODE, n->id, 0, 0);
}

/* Where it begins that the node's outputs are dead. Of a Switch it is an output's consumers that have its
 * side. */
static weft_status_t *find_dead(source_finder_t *f, const weft_node_t *n) {
  const int frame = f->out->frames.frame_of[n->id];
  uint32_t *set = &f->out->dead_of[n->id];
  if ((n->flags & WEFT_OP_CONTROL_TRIGGER) != 0) return NULL; /* never */
  if ((n->flags & WEFT_OP_EXIT) != 0) return add_source(f, set, A_FRAME_S_EXITS, frame, 0, 0);
  if ((n->flags & WEFT_OP_MERGE) != 0) {
    const bool is_loop = is_of_loop(n);
    return add_source(f, set, is_loop ? A_FRAME_S_MERGES : A_NODE, is_loop ? frame : n->id, 0, 0);
  }
  if ((n->flags & WEFT_OP_RECV) != 0 && !is_feed(n))
    WEFT_RETURN_IF_ERROR(add_source(f, set, A_NODE, n->id, 0, 0));
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->dead_of[from->id]));
    if ((from->flags & WEFT_OP_SWITCH) == 0) continue;
    const weft_output_t by = from->inputs[from->num_inputs - 1]; /* whatever else is switched by it */
    WEFT_RETURN_IF_ERROR(add_source(f, set, A_PREDICATE, by.node->id, by.index, n->inputs[i].index));
  }
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->dead_of[n->controls[i]->id]));
  return NULL;
}

/* Behind which nodes of some cost the node's outputs come. */
static weft_status_t *find_costs(source_finder_t *f, const weft_node_t *n) {
  uint32_t *set = &f->out->costs_of[n->id];
  if (!f->is_free(f->arg, n)) return add_source(f, set, A_NODE, n->id, 0, 0);
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if ((from->flags & WEFT_OP_NEXT_ITERATION) != 0) continue; /* of the iteration before */
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->costs_of[from->id]));
  }
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(unite(f, set, f->out->costs_of[n->controls[i]->id]));
  return NULL;
}

/* ---- all of it ---- */

static weft_status_t *find(source_finder_t *f, weft_node_t *const *order, bool loops_are_whole) {
  const size_t ids = (size_t)f->g->num_nodes + 1;
  uint32_t none = 0;
  f->out->waits_of = weft_arena_calloc(f->arena, ids, sizeof *f->out->waits_of);
  f->out->dead_of = weft_arena_calloc(f->arena, ids, sizeof *f->out->dead_of);
  f->out->costs_of = f->is_free == NULL ? NULL : weft_arena_calloc(f->arena, ids, sizeof *f->out->costs_of);
  if (f->out->waits_of == NULL || f->out->dead_of == NULL) return no_memory(f);
  if (f->is_free != NULL && f->out->costs_of == NULL) return no_memory(f);
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(f->g, f->arena, &f->out->frames));
  const size_t num_frames = (size_t)f->out->frames.num_frames;
  f->sources_in = !loops_are_whole ? NULL : weft_arena_calloc(f->arena, num_frames, sizeof *f->sources_in);
  f->out->loops_wait =
      !loops_are_whole ? NULL : weft_arena_calloc(f->arena, num_frames, sizeof *f->out->loops_wait);
  if (loops_are_whole && (f->sources_in == NULL || f->out->loops_wait == NULL)) return no_memory(f);
  WEFT_RETURN_IF_ERROR(intern_set(f, NULL, 0, &none));
  for (int i = 0; i < f->g->num_live; i++) {
    WEFT_RETURN_IF_ERROR(find_waits(f, order[i]));
    WEFT_RETURN_IF_ERROR(find_dead(f, order[i]));
    if (f->is_free != NULL) WEFT_RETURN_IF_ERROR(find_costs(f, order[i]));
  }
  weft_source_set_t **sets = weft_arena_calloc(f->arena, f->num_sets, sizeof(weft_source_set_t *));
  if (sets == NULL) return no_memory(f);
  memcpy(sets, f->sets, f->num_sets * sizeof(weft_source_set_t *));
  f->out->sets = (const weft_source_set_t *const *)sets;
  return NULL;
}

bool weft_sources_include(const weft_node_sources_t *s, uint32_t whole, uint32_t part) {
  if (whole == WEFT_TOO_MANY_SOURCES || part == WEFT_TOO_MANY_SOURCES) return false;
  if (whole == part) return true;
  const weft_source_set_t *a = s->sets[whole], *b = s->sets[part];
  uint32_t i = 0, k = 0;
  for (; i < a->n && k < b->n && a->sources[i] <= b->sources[k]; i++) k += a->sources[i] == b->sources[k];
  return k == b->n;
}

weft_status_t *weft_pass_find_sources(const weft_graph_t *g, weft_node_t *const *order, bool loops_are_whole,
                                      weft_is_free_fn *is_free, void *arg, weft_arena_t *arena,
                                      weft_node_sources_t *out) {
  source_finder_t f = {.g = g, .out = out, .is_free = is_free, .arg = arg, .arena = arena};
  weft_status_t *s = find(&f, order, loops_are_whole);
  weft_map_deinit(&f.set_numbers);
  weft_map_deinit(&f.source_numbers);
  weft_free(f.sets);
  return s;
}
