/* tools/drawing/level_arrows.c - what goes between the boxes of a picture, and between its frames. */
#include "base/alloc.h"
#include "strategies/traffic.h"
#include "tools/drawing/level.h"

typedef struct level_arrows {
  const weft_tree_t *t;
  weft_level_t *l;
  weft_map_t pairs, values,
      links; /* (box, box) -> arrow + 1; (output, box or frame); (frame, frame) -> link + 1 */
} level_arrows_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the arrows of a drawing"); }

/* Bytes of an output, a row of them if the first dimension is not known. False: of another kind, or unknown.
 */
static bool size_of(const weft_node_t *n, int output, int64_t *bytes, double *row_bytes) {
  *bytes = 0;
  *row_bytes = 0;
  if (output < 0 || output >= n->num_outputs || n->output_shapes == NULL) return false;
  const int dtype = weft_dtype_base(n->output_types[output]);
  const size_t size = weft_dtype_size(dtype);
  const weft_shape_t *shape = &n->output_shapes[output];
  double count = 1;
  if (size == 0 || shape->rank < 0) return false;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dims[i] < 0 && i > 0) return false;
    count *= shape->dims[i] < 0 ? 1 : (double)shape->dims[i];
  }
  count *= (double)size;
  if (count > 1e18) return false;
  if (shape->rank > 0 && shape->dims[0] < 0) {
    *row_bytes = count;
  } else {
    *bytes = (int64_t)count;
  }
  return true;
}

/* Room for one more of `size` bytes. */
static bool grow(void *array, int n, int *capacity, size_t size) {
  void **items = array;
  if (n < *capacity) return true;
  int more = *capacity == 0 ? 16 : 2 * *capacity;
  void *larger = weft_realloc(*items, (size_t)more, size);
  if (larger == NULL) return false;
  *items = larger;
  *capacity = more;
  return true;
}

static int box_of(const weft_tree_t *t, int node) {
  weft_tree_scope_t *s = weft_tree_resolve(t->leaf_of[node]);
  const weft_drawn_role_t role = t->step->nodes[node].role;
  for (; s != NULL; s = s->parent == NULL ? NULL : weft_tree_resolve(s->parent)) {
    if (s->stamp == t->num_marks && s->box[role] > 0) return s->box[role] - 1;
  }
  return -1;
}

/* ---- members of a fold ---- */

/* The number of the member of `fold` that a node is in. */
static int member_of(const weft_tree_t *t, int node, const weft_tree_scope_t *fold) {
  for (weft_tree_scope_t *s = t->leaf_of[node]; s != NULL; s = s->parent) {
    weft_tree_scope_t *drawn = weft_tree_resolve(s);
    if (drawn == fold || (drawn->member_paths != NULL && drawn->parent == fold)) return s->member;
  }
  return 0;
}

/* From one member of a fold to another: the inside of a member does not show that. */
static bool is_to_next(const level_arrows_t *a, int from, int to, int from_box, int to_box) {
  const weft_level_t *l = a->l;
  const weft_tree_scope_t *fold = l->scope != NULL && l->scope->members > 1 ? l->scope : NULL;
  const int group = l->boxes[from_box].group;
  if (group >= 0 && group == l->boxes[to_box].group) fold = l->groups[group].scope;
  if (fold == NULL || fold->parent == NULL) return false;
  return member_of(a->t, from, fold) != member_of(a->t, to, fold);
}

/* ---- arrows ---- */

static weft_status_t *find(weft_map_t *map, uint64_t a, uint64_t b, int next, int *out) {
  const uint64_t key = a << 32 | b;
  uintptr_t known = (uintptr_t)weft_map_get_u64(map, key);
  *out = known == 0 ? next : (int)known - 1;
  return known != 0 ? NULL : weft_map_put_u64(map, key, (void *)(uintptr_t)(next + 1), NULL);
}

static weft_status_t *arrow_of(level_arrows_t *a, int from, int to, weft_level_arrow_t **out) {
  weft_level_t *l = a->l;
  int at;
  if (!grow(&l->arrows, l->num_arrows, &l->arrow_capacity, sizeof *l->arrows)) return no_memory();
  WEFT_RETURN_IF_ERROR(find(&a->pairs, (unsigned)from, (unsigned)to, l->num_arrows, &at));
  if (at == l->num_arrows) {
    l->arrows[l->num_arrows++] =
        (weft_level_arrow_t){.from = from, .to = to, .is_control = true, .role = WEFT_DRAWN_ROLES};
  }
  *out = &l->arrows[at];
  return NULL;
}

static weft_status_t *link_of(level_arrows_t *a, int from, int to, weft_level_link_t **out) {
  weft_level_t *l = a->l;
  int at;
  if (!grow(&l->links, l->num_links, &l->link_capacity, sizeof *l->links)) return no_memory();
  WEFT_RETURN_IF_ERROR(find(&a->links, (unsigned)from, (unsigned)to, l->num_links, &at));
  if (at == l->num_links) l->links[l->num_links++] = (weft_level_link_t){.from = from, .to = to};
  *out = &l->links[at];
  return NULL;
}

static void add_value(weft_flow_t *flow, const weft_node_t *n, int output) {
  int64_t bytes;
  double row_bytes;
  flow->num_unknown += !size_of(n, output, &bytes, &row_bytes);
  flow->messages++;
  flow->bytes += bytes;
  flow->row_bytes += row_bytes;
}

/* The largest value says what an arrow is for. */
static void name_arrow(weft_level_arrow_t *arrow, const weft_step_node_t *from, int output) {
  int64_t bytes, most = -1;
  double row_bytes, most_rows = -1;
  size_of(from->node, output, &bytes, &row_bytes);
  if (arrow->of != NULL) size_of(arrow->of, arrow->output, &most, &most_rows);
  if (row_bytes < most_rows || (row_bytes == most_rows && bytes <= most)) return;
  arrow->of = from->node;
  arrow->output = output;
  arrow->role = from->role;
}

static bool is_value(const weft_node_t *n, int output) {
  return output >= 0 && weft_dtype_base(n->output_types[output]) != WEFT_RESOURCE;
}

/* Each value counts once for each box, or frame, that it goes to. */
static weft_status_t *is_new(level_arrows_t *a, const weft_node_t *n, int output, int to, bool *out) {
  void *old = NULL;
  const uint64_t key = (uint64_t)(unsigned)n->id << 32 | (uint64_t)((unsigned)output & 0xffff) << 16 |
                       (uint64_t)((unsigned)to & 0xffff);
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&a->values, key, a->l, &old));
  *out = old == NULL;
  return NULL;
}

static weft_status_t *add_edge(level_arrows_t *a, weft_output_t of, int to, int to_box) {
  const weft_level_t *l = a->l;
  const int from = of.node == NULL ? -1 : a->t->step->index_of[of.node->id];
  const int from_box = from < 0 ? -1 : box_of(a->t, from);
  bool counts;
  if (from_box < 0 || from_box == to_box || is_to_next(a, from, to, from_box, to_box)) return NULL;
  const int from_frame = l->boxes[from_box].frame, to_frame = l->boxes[to_box].frame;
  if (from_frame != to_frame) {
    enum { FRAMES = 0x8000 }; /* boxes are fewer */
    weft_level_link_t *link = NULL;
    if (l->scope == NULL || !is_value(of.node, of.index)) return NULL; /* between places: crossings */
    WEFT_RETURN_IF_ERROR(link_of(a, from_frame, to_frame, &link));
    WEFT_RETURN_IF_ERROR(is_new(a, of.node, of.index, FRAMES + to_frame, &counts));
    if (counts) add_value(&link->flow, of.node, of.index);
    return NULL;
  }
  weft_level_arrow_t *arrow = NULL;
  WEFT_RETURN_IF_ERROR(arrow_of(a, from_box, to_box, &arrow));
  if (!is_value(of.node, of.index)) return NULL;
  arrow->is_control = false;
  WEFT_RETURN_IF_ERROR(is_new(a, of.node, of.index, to_box, &counts));
  if (!counts) return NULL;
  add_value(&arrow->flow, of.node, of.index);
  name_arrow(arrow, &a->t->step->nodes[from], of.index);
  return NULL;
}

/* A bundle only passes values on together: what it is given goes to its consumers. */
static weft_output_t source_of(weft_output_t of) {
  if (of.node != NULL && (of.node->flags & WEFT_OP_BUNDLE) != 0 && of.index < of.node->num_inputs)
    return of.node->inputs[of.index];
  return of;
}

static weft_status_t *add_inputs(level_arrows_t *a, int node) {
  const weft_node_t *n = a->t->step->nodes[node].node;
  const int box = box_of(a->t, node);
  if (box < 0 || a->t->step->nodes[node].is_fed || (n->flags & WEFT_OP_BUNDLE) != 0) return NULL;
  for (int i = 0; i < n->num_inputs; i++)
    WEFT_RETURN_IF_ERROR(add_edge(a, source_of(n->inputs[i]), node, box));
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(add_edge(a, (weft_output_t){n->controls[i], -1}, node, box));
  return NULL;
}

static weft_status_t *add_all_inputs(level_arrows_t *a, const weft_tree_scope_t *s) {
  const weft_tree_t *t = a->t;
  weft_status_t *status = NULL;
  for (int i = s->leaf < 0 ? -1 : t->first_node[s->leaf]; i >= 0 && status == NULL; i = t->next_node[i])
    status = add_inputs(a, i);
  for (int i = 0; i < s->num_children && status == NULL; i++) status = add_all_inputs(a, s->children[i]);
  return status;
}

weft_status_t *weft_level_find_arrows(const weft_tree_t *t, weft_level_t *l) {
  level_arrows_t a = {t, l, WEFT_MAP_INIT, WEFT_MAP_INIT, WEFT_MAP_INIT};
  weft_status_t *s = NULL;
  if (l->scope != NULL) s = add_all_inputs(&a, l->scope);
  for (int p = 0; p < t->num_roots && l->scope == NULL && s == NULL; p++) s = add_all_inputs(&a, t->roots[p]);
  weft_map_deinit(&a.pairs);
  weft_map_deinit(&a.values);
  weft_map_deinit(&a.links);
  return s;
}

/* ---- between places ---- */

static int frame_of(const weft_tree_t *t, const weft_level_t *l, weft_str_t device) {
  const weft_step_nodes_t *s = t->step;
  const weft_str_t name = device.length == 0 ? WEFT_STR("any device")
                          : s->is_by_task    ? weft_traffic_task(device)
                                             : device;
  for (int p = 0; p < s->num_places; p++) {
    if (!weft_str_eq(s->places[p], name)) continue;
    const weft_tree_scope_t *root = weft_tree_resolve(t->root_of[p]);
    for (int f = 0; f < l->num_frames; f++) {
      if (l->frames[f].root == root) return f;
    }
  }
  return -1;
}

static void add_crossing(weft_flow_t *f, const weft_crossing_t *c) {
  f->bytes += c->bytes > 0 ? c->bytes : 0;
  f->num_unknown += c->bytes < 0;
  f->row_bytes += c->row_bytes;
  f->messages += c->messages;
}

static bool are_one_place(const weft_tree_t *t, const weft_crossing_t *c) {
  if (!t->step->is_by_task) return weft_str_eq(c->from, c->to);
  return weft_str_eq(weft_traffic_task(c->from), weft_traffic_task(c->to));
}

static int num_places_of(const weft_tree_t *t, const weft_tree_scope_t *root) {
  int n = 0;
  for (int p = 0; p < t->step->num_places; p++) n += weft_tree_resolve(t->root_of[p]) == root;
  return n;
}

/* Messages of one line start together, so that it takes their latency once. Where a frame stands for several
 * places, they have links of their own, and the line has no time. */
static double seconds_of(const weft_tree_t *t, const weft_cost_t *cost, const weft_level_t *l,
                         const weft_level_link_t *a) {
  if (num_places_of(t, l->frames[a->from].root) > 1 || num_places_of(t, l->frames[a->to].root) > 1) return 0;
  return cost->link_seconds + (double)a->flow.bytes / cost->link_bytes_per_second;
}

weft_status_t *weft_level_find_links(const weft_tree_t *t, const weft_rewrite_t *r, weft_level_t *l) {
  level_arrows_t a = {t, l, WEFT_MAP_INIT, WEFT_MAP_INIT, WEFT_MAP_INIT};
  weft_status_t *s = NULL;
  for (int i = 0; i < r->num_crossings && s == NULL; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    const int from = frame_of(t, l, c->from), to = frame_of(t, l, c->to);
    if (from < 0 || to < 0 || are_one_place(t, c)) continue;
    if (from == to) {
      add_crossing(&l->frames[from].among, c);
      continue;
    }
    weft_level_link_t *link = NULL;
    s = link_of(&a, from, to, &link);
    if (s != NULL) break;
    add_crossing(&link->flow, c);
    link->num_collectives += c->kind == WEFT_CROSSING_COLLECTIVE;
  }
  for (int i = 0; i < l->num_links && s == NULL; i++)
    l->links[i].seconds = seconds_of(t, &r->cost, l, &l->links[i]);
  weft_map_deinit(&a.links);
  return s;
}
