/* strategies/copy.c - copies of nodes under new names.
 *
 * Invariant: outputs[id] and nodes[id] are set together by weft_copier_copy and
 * weft_copier_set_node; weft_copier_set alone may leave outputs of a node open
 * ({NULL, 0}), which is an error only if a consumer asks for them.
 *
 * Colocations are renamed at the end, when it is known what stands for each node.
 */
#include "strategies/copy.h"

#include "base/alloc.h"
#include "graph/function.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copying nodes of a graph"); }

weft_status_t *weft_copier_init(weft_copier_t *c, const weft_graph_t *from, weft_graph_t *to,
                                weft_str_t prefix, weft_str_t device) {
  *c = (weft_copier_t){.arena = WEFT_ARENA_INIT, .from = from, .to = to};
  size_t n = (size_t)from->num_nodes + 1;
  c->prefix = weft_arena_str(&c->arena, prefix);
  c->device = weft_arena_str(&c->arena, device);
  c->outputs = weft_arena_calloc(&c->arena, n, sizeof *c->outputs);
  c->nodes = weft_arena_calloc(&c->arena, n, sizeof(*c->nodes));
  c->copies = weft_arena_calloc(&c->arena, n, sizeof(*c->copies));
  if (c->prefix.data == NULL || c->device.data == NULL || c->outputs == NULL || c->nodes == NULL ||
      c->copies == NULL) {
    weft_copier_deinit(c);
    return no_memory();
  }
  return NULL;
}

void weft_copier_deinit(weft_copier_t *c) {
  weft_arena_deinit(&c->arena);
  *c = (weft_copier_t){.arena = WEFT_ARENA_INIT};
}

static weft_status_t *make_outputs(weft_copier_t *c, const weft_node_t *of) {
  if (c->outputs[of->id] != NULL) return NULL;
  c->outputs[of->id] = weft_arena_calloc(&c->arena, (size_t)of->num_outputs + 1, sizeof *c->outputs[of->id]);
  return c->outputs[of->id] == NULL ? no_memory() : NULL;
}

weft_status_t *weft_copier_set(weft_copier_t *c, weft_output_t of, weft_output_t with) {
  WEFT_RETURN_IF_ERROR(make_outputs(c, of.node));
  c->outputs[of.node->id][of.index] = with;
  if (c->nodes[of.node->id] == NULL) c->nodes[of.node->id] = with.node;
  return NULL;
}

weft_status_t *weft_copier_set_node(weft_copier_t *c, const weft_node_t *of, weft_node_t *with) {
  WEFT_RETURN_IF_ERROR(make_outputs(c, of));
  for (int i = 0; i < of->num_outputs; i++) {
    c->outputs[of->id][i] = i < with->num_outputs ? (weft_output_t){with, i} : (weft_output_t){NULL, 0};
  }
  c->nodes[of->id] = with;
  return NULL;
}

weft_output_t weft_copier_output(const weft_copier_t *c, weft_output_t of) {
  const weft_output_t *outputs = c->outputs[of.node->id];
  return outputs == NULL ? (weft_output_t){NULL, 0} : outputs[of.index];
}

/* Sets a string attribute to prefix + its value. */
static weft_status_t *prefix_attr(weft_copier_t *c, weft_node_t *n, const char *name) {
  weft_str_t old = weft_node_attr_string(n, name);
  if (old.length == 0) return NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, c->prefix);
  weft_strbuf_append(&b, old);
  weft_attr_t value = {.kind = WEFT_ATTR_STRING, .s = weft_str_of(b.data, b.length)};
  weft_status_t *s = b.failed ? no_memory() : weft_graph_set_attr(c->to, n, name, &value);
  weft_strbuf_deinit(&b);
  return s;
}

/* Names that identify an object must differ between copies: frames, resources, temporary variables. */
static weft_status_t *rename_things(weft_copier_t *c, weft_node_t *n) {
  if (c->prefix.length == 0) return NULL;
  if ((n->flags & WEFT_OP_ENTER) != 0) WEFT_RETURN_IF_ERROR(prefix_attr(c, n, "frame_name"));
  if ((n->flags & WEFT_OP_STATEFUL) != 0 && (n->flags & WEFT_OP_VARIABLE) == 0) {
    WEFT_RETURN_IF_ERROR(prefix_attr(c, n, "shared_name"));
    WEFT_RETURN_IF_ERROR(prefix_attr(c, n, "var_name"));
  }
  return NULL;
}

static bool comes_round_a_loop(const weft_node_t *producer, const weft_node_t *consumer) {
  return (producer->flags & WEFT_OP_NEXT_ITERATION) != 0 && (consumer->flags & WEFT_OP_MERGE) != 0;
}

static weft_status_t *nothing_stands(const weft_node_t *producer, const weft_node_t *consumer) {
  return WEFT_ERROR(INTERNAL, "copying node '%.*s': its input '%.*s' was not copied before",
                    WEFT_STR_ARGS(consumer->name), WEFT_STR_ARGS(producer->name));
}

static weft_status_t *connect(weft_copier_t *c, const weft_node_t *n, weft_node_t *copy) {
  for (int i = 0; i < n->num_inputs; i++) {
    weft_output_t with = weft_copier_output(c, n->inputs[i]);
    if (with.node != NULL) {
      weft_graph_set_input(copy, i, with);
    } else if (!comes_round_a_loop(n->inputs[i].node, n)) {
      return nothing_stands(n->inputs[i].node, n);
    }
  }
  for (int i = 0; i < n->num_controls; i++) {
    weft_node_t *with = c->nodes[n->controls[i]->id];
    if (with == NULL) return nothing_stands(n->controls[i], n);
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(c->to, with, copy));
  }
  return NULL;
}

weft_status_t *weft_copier_copy_as(weft_copier_t *c, const weft_node_t *n, weft_str_t name, weft_str_t device,
                                   weft_node_t **out) {
  weft_node_t like = *n; /* clone_node reads it only */
  weft_node_t *copy = NULL;
  like.name = name.data == n->name.data ? name : weft_arena_str(c->to->arena, name);
  if (like.name.data == NULL) return no_memory();
  like.requested_device = device.length > 0 ? device : c->device.length > 0 ? c->device : n->requested_device;
  like.assigned_device = weft_str("");
  WEFT_RETURN_IF_ERROR(weft_graph_clone_node(c->to, c->from, &like, &copy));
  WEFT_RETURN_IF_ERROR(connect(c, n, copy));
  WEFT_RETURN_IF_ERROR(rename_things(c, copy));
  WEFT_RETURN_IF_ERROR(weft_copier_set_node(c, n, copy));
  c->copies[n->id] = copy;
  *out = copy;
  return NULL;
}

weft_status_t *weft_copier_copy(weft_copier_t *c, const weft_node_t *n, weft_node_t **out) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, c->prefix);
  weft_strbuf_append(&b, n->name);
  if (b.failed) {
    weft_strbuf_deinit(&b);
    return no_memory();
  }
  weft_str_t name = weft_graph_unique_name(c->to, weft_str_of(b.data, b.length));
  weft_status_t *s = name.data == NULL ? no_memory() : weft_copier_copy_as(c, n, name, weft_str(""), out);
  weft_strbuf_deinit(&b);
  return s;
}

static weft_status_t *wire_back_edges(weft_copier_t *c, const weft_node_t *n, weft_node_t *copy) {
  for (int i = 0; i < n->num_inputs && i < copy->num_inputs;
       i++) { /* the replacement of a node may have fewer inputs */
    if (copy->inputs[i].node != NULL) continue;
    weft_output_t with = weft_copier_output(c, n->inputs[i]);
    if (with.node == NULL) return nothing_stands(n->inputs[i].node, n);
    weft_graph_set_input(copy, i, with);
  }
  return NULL;
}

/* "loc:@" and the name of what stands for `name`; data NULL: nothing does. */
static weft_str_t relocated(weft_copier_t *c, weft_str_t class_text) {
  static const char mark[] = "loc:@";
  weft_str_t none = {NULL, 0};
  if (!weft_str_starts_with(class_text, mark)) return class_text;
  weft_str_t name = weft_str_of(class_text.data + sizeof mark - 1, class_text.length - (sizeof mark - 1));
  const weft_node_t *of = weft_graph_find(c->from, name);
  const weft_node_t *with = of == NULL ? NULL : c->nodes[of->id];
  if (with == NULL) return none;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, mark);
  weft_strbuf_append(&b, with->name);
  weft_str_t text = b.failed ? none : weft_arena_str(&c->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return text;
}

static weft_status_t *relocate(weft_copier_t *c, weft_node_t *copy) {
  const weft_attr_t *old = weft_node_attr(copy, "_class");
  if (old == NULL || !old->is_list || old->n == 0) return NULL;
  weft_str_t *texts = weft_arena_calloc(&c->arena, (size_t)old->n, sizeof *texts);
  if (texts == NULL) return no_memory();
  int n = 0;
  for (int i = 0; i < old->n; i++) {
    weft_str_t text = c->drops_colocation ? weft_str_of(NULL, 0) : relocated(c, old->list.strings[i]);
    if (text.data != NULL) texts[n++] = text;
  }
  weft_attr_t value = {.kind = WEFT_ATTR_STRING, .is_list = true, .n = n};
  value.list.strings = texts;
  return weft_graph_set_attr(c->to, copy, "_class", &value);
}

weft_status_t *weft_copier_finish(weft_copier_t *c) {
  for (int id = 0; id < c->from->num_nodes; id++) {
    if (c->from->nodes[id] == NULL || c->copies[id] == NULL) continue;
    WEFT_RETURN_IF_ERROR(wire_back_edges(c, c->from->nodes[id], c->copies[id]));
    WEFT_RETURN_IF_ERROR(relocate(c, c->copies[id]));
  }
  return NULL;
}

weft_status_t *weft_copier_new_graph(const weft_graph_t *from, weft_graph_t **out) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_function_library_release(g->library);
  g->library = weft_function_library_retain(from->library);
  g->producer = from->producer;
  g->min_consumer = from->min_consumer;
  *out = g;
  return NULL;
}
