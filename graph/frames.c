/* graph/frames.c - the control-flow frame of every node.
 *
 * Producers come first, so a node's frame follows from its inputs: an Enter makes
 * the child of theirs that has its frame_name, an Exit's value is in the parent.
 */
#include "base/alloc.h"
#include "graph/passes.h"

typedef struct find {
  const weft_graph_t *g;
  weft_arena_t *arena;
  weft_frames_t frames;
  int capacity;
  weft_map_t *children; /* by parent frame: frame_name -> int: the frame; owned */
} find_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("finding the frames of a graph"); }

static weft_status_t *add_frame(find_t *f, int parent, weft_str_t name, int *out) {
  weft_frames_t *all = &f->frames;
  if (all->num_frames == f->capacity) {
    int capacity = f->capacity == 0 ? 8 : f->capacity * 2;
    int *parents = weft_arena_calloc(f->arena, (size_t)capacity, sizeof *parents);
    weft_str_t *names = weft_arena_calloc(f->arena, (size_t)capacity, sizeof *names);
    weft_node_t **conds = weft_arena_calloc(f->arena, (size_t)capacity, sizeof(*conds));
    weft_map_t *children = weft_realloc(f->children, (size_t)capacity, sizeof *children);
    if (children != NULL) f->children = children;
    if (parents == NULL || names == NULL || conds == NULL || children == NULL) return no_memory();
    memset(children + f->capacity, 0, (size_t)(capacity - f->capacity) * sizeof *children);
    if (all->num_frames > 0) {
      memcpy(parents, all->parent, (size_t)all->num_frames * sizeof *parents);
      memcpy(names, all->name, (size_t)all->num_frames * sizeof *names);
      memcpy(conds, all->loop_cond, (size_t)all->num_frames * sizeof(*conds));
    }
    all->parent = parents;
    all->name = names;
    all->loop_cond = conds;
    f->capacity = capacity;
  }
  all->parent[all->num_frames] = parent;
  all->name[all->num_frames] = name;
  *out = all->num_frames++;
  return NULL;
}

static weft_status_t *enter(find_t *f, int parent, weft_str_t name, int *out) {
  const int *known = weft_map_get(&f->children[parent], name);
  if (known != NULL) {
    *out = *known;
    return NULL;
  }
  int *frame = weft_arena_alloc(f->arena, sizeof *frame);
  if (frame == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(add_frame(f, parent, name, frame));
  *out = *frame;
  return weft_map_put(&f->children[parent], name, frame, NULL);
}

/* Where the value of `n` is. */
static int value_frame(const find_t *f, const weft_node_t *n) {
  int frame = f->frames.frame_of[n->id];
  return (n->flags & WEFT_OP_EXIT) != 0 ? f->frames.parent[frame] : frame;
}

static weft_status_t *differ(const find_t *f, const weft_node_t *n, const weft_node_t *a,
                             const weft_node_t *b) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "{{node %s}} has inputs from different frames. The input {{node %s}} is in frame '%.*s'. The input "
      "{{node %s}} is in frame '%.*s'.",
      n->name.data, a->name.data, WEFT_STR_ARGS(f->frames.name[value_frame(f, a)]), b->name.data,
      WEFT_STR_ARGS(f->frames.name[value_frame(f, b)]));
}

static weft_status_t *join(const find_t *f, const weft_node_t *n, const weft_node_t *from,
                           const weft_node_t **first) {
  if (*first != NULL && value_frame(f, *first) != value_frame(f, from)) return differ(f, n, *first, from);
  if (*first == NULL) *first = from;
  return NULL;
}

static weft_status_t *find_frame(find_t *f, const weft_node_t *n) {
  const weft_node_t *first = NULL;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if ((n->flags & WEFT_OP_MERGE) != 0 && (from->flags & WEFT_OP_NEXT_ITERATION) != 0) continue;
    WEFT_RETURN_IF_ERROR(join(f, n, from, &first));
  }
  for (int i = 0; i < n->num_controls; i++) WEFT_RETURN_IF_ERROR(join(f, n, n->controls[i], &first));
  int frame = first == NULL ? 0 : value_frame(f, first);
  if ((n->flags & WEFT_OP_ENTER) != 0) {
    WEFT_RETURN_IF_ERROR(enter(f, frame, weft_node_attr_string(n, "frame_name"), &frame));
  }
  if ((n->flags & WEFT_OP_EXIT) != 0 && frame == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "{{node %s}} leaves a loop, but is in none", n->name.data);
  }
  if ((n->flags & WEFT_OP_LOOP_COND) != 0) f->frames.loop_cond[frame] = (weft_node_t *)n;
  f->frames.frame_of[n->id] = frame;
  return NULL;
}

weft_status_t *weft_pass_find_frames(const weft_graph_t *g, weft_arena_t *arena, weft_frames_t *out) {
  find_t f = {.g = g, .arena = arena};
  weft_node_t **order = NULL;
  int root = 0;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  if (s == NULL) s = add_frame(&f, 0, WEFT_STR(""), &root);
  if (s == NULL) {
    f.frames.frame_of = weft_arena_calloc(arena, (size_t)g->num_nodes, sizeof(int));
    if (f.frames.frame_of == NULL) s = no_memory();
  }
  for (int i = 0; i < g->num_live && s == NULL; i++) s = find_frame(&f, order[i]);
  if (s == NULL) *out = f.frames;
  for (int i = 0; i < f.frames.num_frames; i++) weft_map_deinit(&f.children[i]);
  weft_free(f.children);
  weft_free(order);
  return s;
}
