/* graph/partition.c - one graph per part, joined by transfers.
 *
 * Three walks: give every node its part; find crossing edges inside loops and
 * add control loops; clone every node into its part and wire it, making a
 * transfer where an edge crosses. Clones are found by the original's id.
 */
#include "graph/partition.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "graph/control_loop.h"
#include "graph/function.h"

/* One (output or control of a producer) sent to one part. */
typedef struct partition_transfer {
  struct partition_transfer *next; /* of the same producer */
  int output, part;                /* output -1: control */
  weft_node_t *received; /* in the destination part: the _Recv, or the Identity behind it for control */
} partition_transfer_t;

typedef struct cut {
  weft_graph_t *g;
  const weft_partition_options_t *o;
  weft_control_loops_t loops;
  weft_arena_t arena;
  int *part_of;                /* by node id */
  weft_node_t **clones;        /* by node id */
  partition_transfer_t **sent; /* by node id */
  int num_ids;                 /* size of the three */
  weft_partition_t *parts;
  int num_parts;
} cut_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("cutting a graph"); }

/* Numbers the locations in order of first appearance. */
static weft_status_t *assign_parts(cut_t *c) {
  weft_graph_t *g = c->g;
  weft_map_t by_location = WEFT_MAP_INIT;
  const char *last_device = NULL;
  int last_part = 0, capacity = 0;
  weft_status_t *s = NULL;
  for (int i = 0; i < g->num_nodes && s == NULL; i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL) continue;
    if (n->assigned_device.data == last_device && last_device != NULL) {
      c->part_of[i] = last_part;
      continue;
    }
    weft_str_t location = c->o->locate(n->assigned_device);
    uintptr_t known = (uintptr_t)weft_map_get(&by_location, location);
    if (known == 0) {
      if (c->num_parts == capacity) {
        capacity = capacity == 0 ? 8 : capacity * 2;
        weft_partition_t *parts = weft_realloc(c->parts, (size_t)capacity, sizeof *parts);
        if (parts == NULL) s = no_memory();
        if (parts != NULL) c->parts = parts;
      }
      if (s == NULL) s = weft_map_put(&by_location, location, (void *)(uintptr_t)(c->num_parts + 1), NULL);
      if (s != NULL) break;
      c->parts[c->num_parts++] = (weft_partition_t){location, NULL};
      known = (uintptr_t)c->num_parts;
    }
    last_device = n->assigned_device.data;
    last_part = c->part_of[i] = (int)known - 1;
  }
  weft_map_deinit(&by_location);
  return s;
}

static weft_status_t *allocate_by_id(cut_t *c) {
  c->num_ids = c->g->num_nodes;
  size_t n = (size_t)c->num_ids + 1;
  c->part_of = weft_arena_calloc(&c->arena, n, sizeof *c->part_of);
  c->clones = weft_arena_calloc(&c->arena, n, sizeof(weft_node_t *));
  c->sent = weft_arena_calloc(&c->arena, n, sizeof(partition_transfer_t *));
  return c->part_of == NULL || c->clones == NULL || c->sent == NULL ? no_memory() : NULL;
}

static weft_status_t *add_control_loops(cut_t *c) {
  if (!c->loops.has_loops) return NULL;
  int before =
      c->g->num_nodes; /* control loops themselves cross only with the condition, into their own loop */
  c->loops.num_parts = c->num_parts;
  for (int i = 0; i < before; i++) {
    weft_node_t *n = c->g->nodes[i];
    if (n == NULL) continue;
    for (int k = 0; k < n->num_inputs + n->num_controls; k++) {
      weft_node_t *from = k < n->num_inputs ? n->inputs[k].node : n->controls[k - n->num_inputs];
      if (c->part_of[from->id] == c->part_of[i]) continue;
      int frame = weft_control_loops_value_frame(&c->loops, from);
      WEFT_RETURN_IF_ERROR(weft_control_loops_need(&c->loops, c->part_of[i], frame, n->assigned_device));
    }
  }
  if (c->g->num_nodes == before) return NULL;
  /* The new nodes need a part, too. Their devices are those of nodes that have one. */
  int num_parts = c->num_parts;
  WEFT_RETURN_IF_ERROR(allocate_by_id(c));
  c->num_parts = 0;
  WEFT_RETURN_IF_ERROR(assign_parts(c));
  return c->num_parts == num_parts ? NULL : WEFT_ERROR(INTERNAL, "control loops changed the number of parts");
}

static weft_status_t *reserve_parts(cut_t *c) {
  int *sizes = weft_arena_calloc(&c->arena, (size_t)c->num_parts, sizeof *sizes);
  if (sizes == NULL) return no_memory();
  for (int i = 0; i < c->num_ids; i++) sizes[c->part_of[i]] += c->g->nodes[i] != NULL;
  for (int p = 0; p < c->num_parts; p++)
    WEFT_RETURN_IF_ERROR(weft_graph_reserve(c->parts[p].graph, sizes[p]));
  return NULL;
}

static weft_status_t *clone_nodes(cut_t *c) {
  for (int p = 0; p < c->num_parts; p++) {
    WEFT_RETURN_IF_ERROR(weft_graph_create(&c->parts[p].graph));
    weft_graph_t *part = c->parts[p].graph;
    weft_function_library_release(part->library);
    part->library = weft_function_library_retain(c->g->library);
    part->producer = c->g->producer;
    part->min_consumer = c->g->min_consumer;
  }
  WEFT_RETURN_IF_ERROR(reserve_parts(c));
  for (int i = 0; i < c->num_ids; i++) {
    if (c->g->nodes[i] == NULL) continue;
    WEFT_RETURN_IF_ERROR(
        weft_graph_clone_node(c->parts[c->part_of[i]].graph, c->g, c->g->nodes[i], &c->clones[i]));
  }
  return NULL;
}

/* ---- transfers ---- */

static weft_named_attr_t text_attr(const char *name, weft_str_t text) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_STRING, .s = text}};
}
static weft_named_attr_t type_attr(const char *name, int dtype) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_TYPE, .type = dtype}};
}

/* Adds "<producer><suffix>_S<n>" to part `p`. */
static weft_status_t *add(cut_t *c, int p, const char *op, const weft_node_t *producer, weft_str_t device,
                          const weft_output_t *input, const weft_named_attr_t *attrs, int num_attrs,
                          weft_node_t **out) {
  weft_graph_t *g = c->parts[p].graph;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s_S%" PRId64, WEFT_STR_ARGS(producer->name), ++*c->o->next_edge);
  weft_str_t unique =
      name.failed ? (weft_str_t){NULL, 0} : weft_graph_unique_name(g, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  weft_str_t where = weft_graph_intern(g, device);
  if (unique.data == NULL || where.data == NULL) return no_memory();
  weft_node_spec_t spec = {.name = unique,
                           .op = weft_str(op),
                           .device = where,
                           .inputs = input,
                           .num_inputs = input == NULL ? 0 : 1,
                           .attrs = attrs,
                           .num_attrs = num_attrs};
  WEFT_RETURN_IF_ERROR(weft_graph_add(g, &spec, out));
  (*out)->assigned_device = where;
  return NULL;
}

/* The empty tensor that carries "src has finished". */
static weft_status_t *add_token(cut_t *c, const weft_node_t *src, weft_output_t *out) {
  weft_tensor_t *empty = NULL;
  weft_shape_t none = weft_shape_vector(0);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &none, NULL, &empty));
  weft_named_attr_t attrs[] = {type_attr("dtype", WEFT_F32),
                               {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = empty}}};
  int p = c->part_of[src->id];
  weft_node_t *token = NULL;
  weft_status_t *s = add(c, p, "Const", src, src->assigned_device, NULL, attrs, 2, &token);
  weft_tensor_release(empty);
  if (s == NULL) s = weft_graph_add_control(c->parts[p].graph, c->clones[src->id], token);
  *out = (weft_output_t){token, 0};
  return s;
}

static weft_status_t *add_pair(cut_t *c, weft_node_t *src, int output, const weft_node_t *dst,
                               weft_node_t **out_recv) {
  int from_part = c->part_of[src->id], to_part = c->part_of[dst->id];
  weft_output_t value = {c->clones[src->id], output};
  int dtype = WEFT_F32;
  if (output < 0) {
    WEFT_RETURN_IF_ERROR(add_token(c, src, &value));
  } else {
    dtype = weft_dtype_base(src->output_types[output]);
  }
  weft_strbuf_t edge = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&edge, "edge_%" PRId64 "_%.*s", ++*c->o->next_edge, WEFT_STR_ARGS(src->name));
  if (edge.failed) return no_memory();
  int64_t incarnation = (int64_t)c->o->incarnation(c->o->arg, src->assigned_device);
  weft_named_attr_t attrs[] = {
      text_attr("tensor_name", weft_str_of(edge.data, edge.length)),
      text_attr("send_device", src->assigned_device),
      text_attr("recv_device", dst->assigned_device),
      {WEFT_STR("send_device_incarnation"), {.kind = WEFT_ATTR_INT, .i = incarnation}},
      {WEFT_STR("client_terminated"), {.kind = WEFT_ATTR_BOOL, .b = false}},
      type_attr("T", dtype),
  };
  weft_node_t *send = NULL;
  weft_status_t *s = add(c, from_part, "_Send", src, src->assigned_device, &value, attrs, 6, &send);
  attrs[5].name = WEFT_STR("tensor_type");
  if (s == NULL) s = add(c, to_part, "_Recv", src, dst->assigned_device, NULL, attrs, 6, out_recv);
  weft_strbuf_deinit(&edge);
  int frame = weft_control_loops_value_frame(&c->loops, src);
  if (s == NULL && frame != 0) {
    weft_node_t *merge = c->loops.merges[to_part * c->loops.frames.num_frames + frame];
    s = weft_graph_add_control(c->parts[to_part].graph, c->clones[merge->id], *out_recv);
  }
  return s;
}

/* A reference is read when it is sent, so each consumer has a receive of its own, which waits for what the
 * consumer waits for: else the value could be older than the consumer's control inputs allow. */
static weft_status_t *wait_like(cut_t *c, const weft_node_t *dst, weft_node_t *recv) {
  int p = c->part_of[dst->id];
  for (int i = 0; i < dst->num_controls; i++) {
    if (c->part_of[dst->controls[i]->id] != p) continue;
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(c->parts[p].graph, c->clones[dst->controls[i]->id], recv));
  }
  return NULL;
}

static weft_status_t *receive(cut_t *c, weft_node_t *src, int output, const weft_node_t *dst,
                              weft_node_t **out) {
  int part = c->part_of[dst->id];
  bool is_ref = output >= 0 && weft_dtype_is_ref(src->output_types[output]);
  for (partition_transfer_t *t = c->sent[src->id]; t != NULL && !is_ref; t = t->next) {
    if (t->output == output && t->part == part) {
      *out = t->received;
      return NULL;
    }
  }
  weft_node_t *recv = NULL;
  WEFT_RETURN_IF_ERROR(add_pair(c, src, output, dst, &recv));
  if (is_ref) {
    *out = recv;
    return wait_like(c, dst, recv);
  }
  if (output < 0) {
    weft_output_t token = {recv, 0};
    weft_named_attr_t attr = type_attr("T", WEFT_F32);
    WEFT_RETURN_IF_ERROR(add(c, part, "Identity", src, dst->assigned_device, &token, &attr, 1, &recv));
  }
  partition_transfer_t *t = weft_arena_calloc(&c->arena, 1, sizeof *t);
  if (t == NULL) return no_memory();
  *t = (partition_transfer_t){c->sent[src->id], output, part, recv};
  c->sent[src->id] = t;
  *out = recv;
  return NULL;
}

static weft_status_t *wire_nodes(cut_t *c) {
  for (int i = 0; i < c->num_ids; i++) {
    weft_node_t *n = c->g->nodes[i], *clone = c->clones[i];
    if (n == NULL) continue;
    for (int k = 0; k < n->num_inputs; k++) {
      weft_output_t in = n->inputs[k], local = {c->clones[in.node->id], in.index};
      if (c->part_of[in.node->id] != c->part_of[i]) {
        WEFT_RETURN_IF_ERROR(receive(c, in.node, in.index, n, &local.node));
        local.index = 0;
      }
      weft_graph_set_input(clone, k, local);
    }
    for (int k = 0; k < n->num_controls; k++) {
      weft_node_t *from = n->controls[k], *local = c->clones[from->id];
      if (c->part_of[from->id] != c->part_of[i]) WEFT_RETURN_IF_ERROR(receive(c, from, -1, n, &local));
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(c->parts[c->part_of[i]].graph, local, clone));
    }
  }
  return NULL;
}

void weft_partitions_free(weft_partition_t *parts, int n) {
  for (int i = 0; i < n; i++) weft_graph_destroy(parts[i].graph);
  weft_free(parts);
}

weft_status_t *weft_graph_partition(weft_graph_t **g, const weft_partition_options_t *o,
                                    weft_partition_t **out_parts, int *out_num_parts) {
  cut_t c = {.g = *g, .o = o, .arena = WEFT_ARENA_INIT, .loops = {.arena = WEFT_ARENA_INIT}};
  weft_status_t *s = allocate_by_id(&c);
  if (s == NULL) s = assign_parts(&c);
  if (s == NULL && c.num_parts > 1) {
    s = weft_control_loops_init(&c.loops, *g);
    if (s == NULL && c.loops.has_loops) { /* nodes may have moved to other devices */
      c.num_parts = 0;
      s = assign_parts(&c);
    }
  }
  if (s != NULL) goto done;
  if (c.num_parts == 1) {
    c.parts[0].graph = *g;
    *g = NULL;
  } else if (c.num_parts > 1) {
    s = add_control_loops(&c);
    if (s == NULL) s = clone_nodes(&c);
    if (s == NULL) s = wire_nodes(&c);
    if (s != NULL) goto done;
  }
  *out_parts = c.parts;
  *out_num_parts = c.num_parts;
  c.parts = NULL;
done:
  if (c.parts != NULL) weft_partitions_free(c.parts, c.num_parts);
  weft_control_loops_deinit(&c.loops);
  weft_arena_deinit(&c.arena);
  return s;
}
