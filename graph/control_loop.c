/* graph/control_loop.c - frames of a graph that is being cut, and the loops added to its parts. */
#include "graph/control_loop.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the loops of a graph"); }

/* The device of each node's first data consumer, by producer id. */
static weft_status_t *follow_consumers(weft_graph_t *g, weft_arena_t *arena) {
  weft_node_t **first = weft_arena_calloc(arena, (size_t)g->num_nodes + 1, sizeof *first);
  if (first == NULL) return no_memory();
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    for (int k = 0; n != NULL && k < n->num_inputs; k++) {
      weft_node_t *from = n->inputs[k].node;
      if (first[from->id] == NULL) first[from->id] = n;
    }
  }
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL || (n->flags & (WEFT_OP_ENTER | WEFT_OP_NEXT_ITERATION)) == 0 || first[i] == NULL) continue;
    if (!weft_dtype_is_ref(n->output_types[0])) n->assigned_device = first[i]->assigned_device;
  }
  return NULL;
}

static weft_status_t *move_control_flow(weft_graph_t *g, weft_arena_t *arena) {
  weft_node_t **order = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &order));
  for (int i = 0; i < g->num_live; i++) {
    weft_node_t *n = order[i];
    if ((n->flags & (WEFT_OP_SWITCH | WEFT_OP_EXIT)) != 0 && n->num_inputs > 0) {
      n->assigned_device = n->inputs[0].node->assigned_device;
    }
  }
  weft_free(order);
  return follow_consumers(g, arena);
}

weft_status_t *weft_control_loops_init(weft_control_loops_t *c, weft_graph_t *g) {
  *c = (weft_control_loops_t){.g = g, .arena = WEFT_ARENA_INIT};
  for (int i = 0; i < g->num_nodes && !c->has_loops; i++) {
    c->has_loops = g->nodes[i] != NULL && (g->nodes[i]->flags & WEFT_OP_ENTER) != 0;
  }
  if (!c->has_loops) return NULL;
  WEFT_RETURN_IF_ERROR(move_control_flow(g, &c->arena));
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(g, &c->arena, &c->frames));
  c->enter_of = weft_arena_calloc(&c->arena, (size_t)c->frames.num_frames, sizeof(weft_node_t *));
  if (c->enter_of == NULL) return no_memory();
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n != NULL && (n->flags & WEFT_OP_ENTER) != 0) c->enter_of[c->frames.frame_of[i]] = n;
  }
  return NULL;
}

void weft_control_loops_deinit(weft_control_loops_t *c) {
  weft_arena_deinit(&c->arena);
  *c = (weft_control_loops_t){.arena = WEFT_ARENA_INIT};
}

int weft_control_loops_value_frame(const weft_control_loops_t *c, const weft_node_t *n) {
  if (!c->has_loops) return 0;
  int frame = c->frames.frame_of[n->id];
  return (n->flags & WEFT_OP_EXIT) != 0 ? c->frames.parent[frame] : frame;
}

/* Adds a node named after the loop, on `device`. */
static weft_status_t *add(weft_control_loops_t *c, const char *op, weft_str_t device,
                          const weft_output_t *inputs, int n, const weft_named_attr_t *attrs, int num_attrs,
                          weft_node_t **out) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "_cloop/%s", op);
  weft_str_t unique =
      name.failed ? (weft_str_t){NULL, 0} : weft_graph_unique_name(c->g, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  if (unique.data == NULL) return no_memory();
  weft_node_spec_t spec = {.name = unique,
                           .op = weft_str(op),
                           .device = device,
                           .inputs = inputs,
                           .num_inputs = n,
                           .attrs = attrs,
                           .num_attrs = num_attrs};
  WEFT_RETURN_IF_ERROR(weft_graph_add(c->g, &spec, out));
  (*out)->assigned_device = device;
  return NULL;
}

static weft_status_t *empty_constant(weft_control_loops_t *c, weft_str_t device, weft_node_t **out) {
  weft_tensor_t *empty = NULL;
  weft_shape_t none = weft_shape_vector(0);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &none, NULL, &empty));
  weft_named_attr_t attrs[] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                               {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = empty}}};
  weft_status_t *s = add(c, "Const", device, NULL, 0, attrs, 2, out);
  weft_tensor_release(empty);
  return s;
}

static weft_status_t *build(weft_control_loops_t *c, weft_node_t *outside, int frame, weft_str_t device,
                            weft_node_t **out_merge) {
  weft_node_t *enter = NULL, *merge = NULL, *branch = NULL, *next = NULL;
  weft_node_t *model = c->enter_of[frame], *condition = c->frames.loop_cond[frame];
  if (condition == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "A cross-device loop must have a pivot predicate: %.*s",
                      WEFT_STR_ARGS(c->frames.name[frame]));
  }
  weft_named_attr_t attrs[] = {
      {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
      {WEFT_STR("frame_name"), {.kind = WEFT_ATTR_STRING, .s = c->frames.name[frame]}},
      {WEFT_STR("parallel_iterations"),
       {.kind = WEFT_ATTR_INT, .i = weft_node_attr_int(model, "parallel_iterations", 10)}}};
  weft_output_t from = {outside, 0};
  WEFT_RETURN_IF_ERROR(add(c, "Enter", device, &from, 1, attrs, 3, &enter));
  weft_output_t twice[2] = {{enter, 0}, {enter, 0}}; /* the second becomes the NextIteration below */
  WEFT_RETURN_IF_ERROR(add(c, "Merge", device, twice, 2, NULL, 0, &merge));
  weft_output_t data_and_condition[2] = {{merge, 0}, {condition, 0}};
  WEFT_RETURN_IF_ERROR(add(c, "Switch", device, data_and_condition, 2, NULL, 0, &branch));
  weft_output_t again = {branch, 1};
  WEFT_RETURN_IF_ERROR(add(c, "NextIteration", device, &again, 1, NULL, 0, &next));
  weft_graph_set_input(merge, 1, (weft_output_t){next, 0});
  *out_merge = merge;
  return NULL;
}

weft_status_t *weft_control_loops_need(weft_control_loops_t *c, int part, int frame, weft_str_t device) {
  if (frame == 0) return NULL;
  if (c->merges == NULL) {
    c->merges = weft_arena_calloc(&c->arena, (size_t)c->num_parts * (size_t)c->frames.num_frames,
                                  sizeof(weft_node_t *));
    if (c->merges == NULL) return no_memory();
  }
  /* Outermost first: a loop is entered from the control loop around it. */
  int depth = 0;
  for (int f = frame; f != 0; f = c->frames.parent[f]) depth++;
  for (; depth > 0; depth--) {
    int f = frame;
    for (int up = 1; up < depth; up++) f = c->frames.parent[f];
    weft_node_t **slot = &c->merges[part * c->frames.num_frames + f];
    if (*slot != NULL) continue;
    weft_node_t *outside = NULL;
    int around = c->frames.parent[f];
    if (around != 0) {
      outside = c->merges[part * c->frames.num_frames + around];
    } else {
      WEFT_RETURN_IF_ERROR(empty_constant(c, device, &outside));
    }
    WEFT_RETURN_IF_ERROR(build(c, outside, f, device, slot));
  }
  return NULL;
}
