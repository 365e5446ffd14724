/* graph/gradient_levels.c - the steps of each level of a graph that is differentiated, in an order in which
 * producers come first, and the branches of conditionals in which values are alive. */
#include "base/alloc.h"
#include "graph/gradient_build.h"

/* ---- branches ---- */

static bool is_steered_by_loop(const weft_node_t *n) {
  return (n->flags & WEFT_OP_SWITCH) != 0 && n->num_inputs == 2 &&
         (n->inputs[1].node->flags & WEFT_OP_LOOP_COND) != 0;
}

static bool merges_loop(const weft_node_t *n) {
  for (int i = 0; (n->flags & WEFT_OP_MERGE) != 0 && i < n->num_inputs; i++) {
    if ((n->inputs[i].node->flags & WEFT_OP_NEXT_ITERATION) != 0) return true;
  }
  return false;
}

bool weft_gradient_is_structure(const weft_gradient_build_t *b, const weft_node_t *n) {
  if (!b->has_loops) return false;
  return (n->flags & (WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION | WEFT_OP_LOOP_COND)) != 0 ||
         merges_loop(n) || is_steered_by_loop(n);
}

static int depth_of(const weft_gradient_branch_t *branch) { return branch == NULL ? 0 : branch->depth; }

static const weft_gradient_branch_t *deeper(const weft_gradient_branch_t *a,
                                            const weft_gradient_branch_t *b) {
  return depth_of(a) >= depth_of(b) ? a : b;
}

static bool are_same(const weft_gradient_branch_t *a, const weft_gradient_branch_t *b) {
  return a->which.node == b->which.node && a->which.index == b->which.index && a->branch == b->branch;
}

/* What both are within. */
static const weft_gradient_branch_t *common(const weft_gradient_branch_t *a,
                                            const weft_gradient_branch_t *b) {
  while (depth_of(a) > depth_of(b)) a = a->outer;
  while (depth_of(b) > depth_of(a)) b = b->outer;
  const weft_gradient_branch_t *same = a;
  for (; a != NULL; a = a->outer, b = b->outer) {
    if (!are_same(a, b)) same = a->outer;
  }
  return same;
}

/* The branch of output `port` of a conditional's Switch. */
static weft_status_t *port_of(weft_gradient_build_t *b, const weft_node_t *n, int port,
                              const weft_gradient_branch_t **out) {
  weft_gradient_fact_t *fact = &b->facts[n->id];
  if (fact->ports == NULL) {
    fact->ports = weft_arena_calloc(&b->scratch, (size_t)n->num_outputs, sizeof(*fact->ports));
    if (fact->ports == NULL) return weft_gradient_no_memory();
  }
  if (fact->ports[port] == NULL) {
    weft_gradient_branch_t *branch = weft_arena_alloc(&b->scratch, sizeof *branch);
    if (branch == NULL) return weft_gradient_no_memory();
    *branch = (weft_gradient_branch_t){.outer = fact->branch,
                                       .which = n->inputs[1],
                                       .branch = port,
                                       .num_branches = n->num_outputs,
                                       .depth = depth_of(fact->branch) + 1};
    fact->ports[port] = branch;
  }
  *out = fact->ports[port];
  return NULL;
}

weft_status_t *weft_gradient_branch_of(weft_gradient_build_t *b, weft_output_t o,
                                       const weft_gradient_branch_t **out) {
  const weft_node_t *n = o.node;
  *out = b->facts[n->id].branch;
  if ((n->flags & WEFT_OP_EXIT) != 0) {
    *out = b->levels[b->facts[n->id].frame].branch;
  } else if ((n->flags & WEFT_OP_SWITCH) != 0 && n->num_inputs == 2 && !is_steered_by_loop(n)) {
    return port_of(b, n, o.index, out);
  }
  return NULL;
}

weft_status_t *weft_gradient_find_branch(weft_gradient_build_t *b, const weft_node_t *n) {
  const weft_gradient_branch_t *found = NULL, *of_input = NULL;
  bool is_merge = (n->flags & WEFT_OP_MERGE) != 0;
  if (merges_loop(n)) return NULL;
  for (int i = 0; i < n->num_inputs; i++) {
    WEFT_RETURN_IF_ERROR(weft_gradient_branch_of(b, n->inputs[i], &of_input));
    found = i == 0 ? of_input : is_merge ? common(found, of_input) : deeper(found, of_input);
  }
  for (int i = 0; i < n->num_controls; i++) {
    const weft_node_t *from = n->controls[i];
    bool is_exit = (from->flags & WEFT_OP_EXIT) != 0;
    found = deeper(found, is_exit ? b->levels[b->facts[from->id].frame].branch : b->facts[from->id].branch);
  }
  if ((n->flags & WEFT_OP_ENTER) != 0) { /* inside, what counts begins anew */
    weft_gradient_level_t *level = &b->levels[b->facts[n->id].frame];
    level->branch = deeper(level->branch, found);
    found = NULL;
  }
  b->facts[n->id].branch = found;
  return NULL;
}

/* ---- steps ---- */

static weft_status_t *append(weft_gradient_build_t *b, void **list, int *num, int *capacity, size_t size,
                             const void *item) {
  if (*num == *capacity) {
    int wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = weft_arena_alloc(&b->scratch, (size_t)wanted * size);
    if (grown == NULL) return weft_gradient_no_memory();
    if (*num > 0) memcpy(grown, *list, (size_t)*num * size);
    *list = grown;
    *capacity = wanted;
  }
  memcpy((char *)*list + (size_t)*num * size, item, size);
  ++*num;
  return NULL;
}

static weft_status_t *add_step(weft_gradient_build_t *b, int frame, weft_gradient_step_t step) {
  weft_gradient_level_t *l = &b->levels[frame];
  void *steps = l->steps;
  weft_status_t *s = append(b, &steps, &l->num, &l->capacity, sizeof step, &step);
  l->steps = steps;
  return s;
}

static weft_status_t *add_structure(weft_gradient_build_t *b, int frame, weft_node_t *n) {
  weft_gradient_level_t *l = &b->levels[frame];
  void *all = l->structure;
  weft_status_t *s = append(b, &all, &l->num_structure, &l->structure_capacity, sizeof(weft_node_t *), &n);
  l->structure = all;
  return s;
}

/* In the graph's order, which may have nodes of other levels between those of one loop. */
static weft_status_t *collect_steps(weft_gradient_build_t *b) {
  for (int f = 1; f < b->frames.num_frames; f++) {
    WEFT_RETURN_IF_ERROR(add_step(b, b->frames.parent[f], (weft_gradient_step_t){NULL, f}));
  }
  for (int i = 0; i < b->num_order; i++) {
    weft_node_t *n = b->order[i];
    int frame = b->facts[n->id].frame;
    if (weft_gradient_is_structure(b, n)) {
      WEFT_RETURN_IF_ERROR(add_structure(b, frame, n));
    } else {
      WEFT_RETURN_IF_ERROR(add_step(b, frame, (weft_gradient_step_t){n, 0}));
    }
  }
  return NULL;
}

/* A walk from steps to those before them; by id of a node, or of a loop, behind all nodes. */
typedef struct walk {
  weft_gradient_build_t *b;
  int frame;
  uint8_t *is_seen;
  weft_gradient_step_t *stack; /* on the way, from the first step to the one that is looked at */
  int *next; /* which of its inputs is to be looked at next; those of loops are counted on */
  int depth;
  weft_gradient_step_t *done;
  int num_done;
} walk_t;

static int key_of(const walk_t *w, weft_gradient_step_t step) {
  return step.node != NULL ? step.node->id : w->b->num_old + step.loop;
}

static void visit(walk_t *w, weft_gradient_step_t step) {
  int key = key_of(w, step);
  if (w->is_seen[key] != 0) return;
  w->is_seen[key] = 1;
  w->stack[w->depth] = step;
  w->next[w->depth++] = 0;
}

/* The step of the walk's level that a tensor comes from, if it is one. */
static void visit_producer(walk_t *w, const weft_node_t *from) {
  const weft_gradient_build_t *b = w->b;
  int frame = b->facts[from->id].frame;
  if ((from->flags & WEFT_OP_EXIT) != 0 && b->frames.parent[frame] == w->frame) {
    visit(w, (weft_gradient_step_t){NULL, frame});
  } else if (frame == w->frame && !weft_gradient_is_structure(b, from)) {
    visit(w, (weft_gradient_step_t){(weft_node_t *)from, 0});
  }
}

/* Looks at one more input of the last step; false if it has no more. */
static bool visit_next(walk_t *w) {
  int at = w->depth - 1, i = w->next[at]++;
  weft_gradient_step_t step = w->stack[at];
  if (step.node != NULL) {
    if (i >= step.node->num_inputs) return false;
    visit_producer(w, step.node->inputs[i].node);
    return true;
  }
  const weft_gradient_level_t *inside = &w->b->levels[step.loop];
  if (i >= inside->num_structure) return false;
  const weft_node_t *n = inside->structure[i];
  if ((n->flags & WEFT_OP_ENTER) != 0) visit_producer(w, n->inputs[0].node);
  return true;
}

static void sort_level(walk_t *w, weft_gradient_level_t *level) {
  w->num_done = w->depth = 0;
  for (int i = 0; i < level->num; i++) {
    visit(w, level->steps[i]);
    while (w->depth > 0) {
      if (!visit_next(w)) w->done[w->num_done++] = w->stack[--w->depth];
    }
  }
  memcpy(level->steps, w->done, (size_t)level->num * sizeof *w->done);
}

static weft_status_t *sort_steps(weft_gradient_build_t *b) {
  size_t most = (size_t)b->num_old + (size_t)b->frames.num_frames;
  walk_t w = {.b = b};
  w.is_seen = weft_arena_calloc(&b->scratch, most, 1);
  w.stack = weft_arena_alloc(&b->scratch, most * sizeof *w.stack);
  w.next = weft_arena_alloc(&b->scratch, most * sizeof *w.next);
  w.done = weft_arena_alloc(&b->scratch, most * sizeof *w.done);
  if (w.is_seen == NULL || w.stack == NULL || w.next == NULL || w.done == NULL)
    return weft_gradient_no_memory();
  for (int f = 0; f < b->frames.num_frames; f++) {
    w.frame = f;
    if (b->levels[f].num > 0) sort_level(&w, &b->levels[f]);
  }
  return NULL;
}

weft_status_t *weft_gradient_find_levels(weft_gradient_build_t *b) {
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(b->g, &b->scratch, &b->frames));
  b->has_loops = true;
  b->levels = weft_arena_calloc(&b->scratch, (size_t)b->frames.num_frames, sizeof *b->levels);
  if (b->levels == NULL) return weft_gradient_no_memory();
  for (int i = 0; i < b->num_order; i++) {
    const weft_node_t *n = b->order[i];
    b->facts[n->id].frame = b->frames.frame_of[n->id];
    WEFT_RETURN_IF_ERROR(weft_gradient_find_branch(b, n));
  }
  WEFT_RETURN_IF_ERROR(collect_steps(b));
  return sort_steps(b);
}
