/* executor/commands_find.c - which nodes become a command buffer.
 *
 * A buffer is a node of the plan: it waits for all that its members wait for, and is dead as a whole. So
 * members must not wait for each other by way of anything outside, and must be dead together.
 *
 * What the graph shows: nodes are taken in topological order, and a node joins the open buffer of its group
 * unless it depends on that through another node; then the next buffer is opened. A buffer is closed for good
 * when one of another group depends on it, so that no two depend on each other.
 *
 * What the graph does not show, and what is dead: the members of a group wait for the same sources and are
 * dead together (sources.c).
 *
 * A node that computes in the host's memory alone is a member where it takes something of one, a shape
 * mostly: the recording has its result as a constant. Others stay outside, since their inputs are part of the
 * signature.
 *
 * A buffer ends behind a node whose output is to be sent, copied or reduced, so that this begins early.
 */
#include "base/alloc.h"
#include "executor/commands.h"
#include "graph/sources.h"

enum {
  LEAST_MEMBERS = 4, /* fewer are not worth a recording */
  MAX_GROUPS = 16,
};

/* Nodes that may be together. */
typedef struct command_group {
  int num_nodes;
  int slot;      /* among those that are large enough; -1: none of them */
  uint32_t open; /* the number of its open buffer; 0: none */
} command_group_t;

typedef struct command_finder {
  const weft_plan_options_t *o;
  weft_graph_t *g;
  weft_command_buffers_t *out;
  weft_arena_t arena; /* all below */
  weft_node_t **order;
  int num_nodes, num_live;
  weft_fanout_t fanout;
  weft_node_sources_t sources;
  command_group_t **groups; /* by node id; NULL: the node joins nothing */
  weft_map_t group_of;      /* key -> command_group_t */
  command_group_t *slots[MAX_GROUPS];
  int num_slots;
  uint32_t *depends;    /* by node id, and slot: the last buffer that it depends on */
  uint32_t *buffer_of;  /* by node id; 0: none */
  uint32_t num_buffers; /* the last number */
} command_finder_t;

static weft_status_t *no_memory(const command_finder_t *f) {
  return WEFT_NO_MEMORY("looking for command buffers in a graph of %d nodes", f->num_live);
}

/* ---- groups ---- */

static bool are_plain(const int *types, int n) {
  for (int i = 0; i < n; i++) {
    if (weft_dtype_is_ref(types[i]) || !weft_dtype_is_plain((weft_dtype_t)types[i])) return false;
  }
  return true;
}

/* All that the kernel reads and writes lies in the host's memory. */
static bool is_on_host(const weft_kernel_t *k, const weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    if (!weft_kernel_input_is_host(k, i, n->num_inputs)) return false;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    if (!weft_kernel_is_host(k->host_outputs, i)) return false;
  }
  return true;
}

/* May the node be a member? Then on that device. *out_on_host: it enqueues nothing. */
static bool may_join(const command_finder_t *f, const weft_node_t *n, weft_device_t **out,
                     bool *out_on_host) {
  const uint64_t never = WEFT_OP_STATEFUL | WEFT_OP_BLOCKING | WEFT_OP_UPDATE | WEFT_OP_EFFECT |
                         WEFT_OP_SEND | WEFT_OP_RECV | WEFT_OP_ARG | WEFT_OP_RETVAL | WEFT_OP_SWITCH |
                         WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION |
                         WEFT_OP_LOOP_COND | WEFT_OP_CONTROL_TRIGGER | WEFT_OP_COMMUNICATION | WEFT_OP_COPY |
                         WEFT_OP_NOOP | WEFT_OP_FUNCTIONAL | WEFT_OP_CALL | WEFT_OP_CONST;
  if ((n->flags & never) != 0 || n->function != NULL || n->num_outputs == 0 ||
      !are_plain(n->input_types, n->num_inputs) || !are_plain(n->output_types, n->num_outputs)) {
    return false;
  }
  weft_status_t *s = weft_plan_find_device(f->o, n, out);
  if (s != NULL) {
    weft_status_free(s); /* adding the node will say it */
    return false;
  }
  const weft_device_t *d = *out;
  if (d->space == NULL || d->compute->ops->record_begin == NULL) return false;
  const weft_kernel_t *k = weft_plan_find_kernel(f->o, n, d);
  *out_on_host = k != NULL && is_on_host(k, n);
  return k != NULL && k->compute != NULL && k->keeping == NULL;
}

static bool takes_of(const command_finder_t *f, const weft_node_t *n, const command_group_t *group) {
  for (int i = 0; i < n->num_inputs; i++) {
    if (f->groups[n->inputs[i].node->id] == group) return true;
  }
  return false;
}

static weft_status_t *find_group(command_finder_t *f, const weft_node_t *n) {
  weft_device_t *d = NULL;
  bool on_host = false;
  const uint32_t waits = f->sources.waits_of[n->id], dead = f->sources.dead_of[n->id];
  if (waits == WEFT_TOO_MANY_SOURCES || dead == WEFT_TOO_MANY_SOURCES || !may_join(f, n, &d, &on_host))
    return NULL;
  const struct {
    const weft_device_t *device;
    int64_t frame, waits, dead;
  } key = {d, f->sources.frames.frame_of[n->id], waits, dead};
  command_group_t *group = weft_map_get(&f->group_of, weft_str_of((const char *)&key, sizeof key));
  if (group == NULL) {
    group = weft_arena_calloc(&f->arena, 1, sizeof *group);
    char *kept = weft_arena_calloc(&f->arena, 1, sizeof key);
    if (group == NULL || kept == NULL) return no_memory(f);
    memcpy(kept, &key, sizeof key);
    group->slot = -1;
    WEFT_RETURN_IF_ERROR(weft_map_put(&f->group_of, weft_str_of(kept, sizeof key), group, NULL));
  }
  /* A loop's counter would make each iteration another signature; shapes of members are constants. */
  if (on_host && !takes_of(f, n, group)) return NULL;
  group->num_nodes++;
  f->groups[n->id] = group;
  return NULL;
}

/* The largest groups get slots. */
static void choose_groups(command_finder_t *f) {
  weft_map_entry_t e;
  for (;;) {
    command_group_t *largest = NULL;
    for (size_t at = 0; weft_map_next(&f->group_of, &at, &e);) {
      command_group_t *g = e.value;
      if (g->slot < 0 && g->num_nodes >= LEAST_MEMBERS &&
          (largest == NULL || g->num_nodes > largest->num_nodes)) {
        largest = g;
      }
    }
    if (largest == NULL || f->num_slots == MAX_GROUPS) return;
    largest->slot = f->num_slots;
    f->slots[f->num_slots++] = largest;
  }
}

/* ---- buffers ---- */

static uint32_t *depends_of(const command_finder_t *f, const weft_node_t *n) {
  return &f->depends[(size_t)n->id * (size_t)f->num_slots];
}

/* `d` gets what a node depends on that takes something of `from`; `inside`: a buffer that it may be in. */
static void depend_on(const command_finder_t *f, const weft_node_t *from, uint32_t inside, uint32_t *d) {
  const uint32_t *of = depends_of(f, from), buffer = f->buffer_of[from->id];
  for (int s = 0; s < f->num_slots; s++) {
    if (of[s] > d[s]) d[s] = of[s];
  }
  if (buffer == 0 || buffer == inside) return;
  const int slot = f->groups[from->id]->slot;
  if (buffer > d[slot]) d[slot] = buffer;
}

static void depend_on_all(const command_finder_t *f, const weft_node_t *n, uint32_t inside, uint32_t *d) {
  for (int i = 0; i < n->num_inputs; i++) depend_on(f, n->inputs[i].node, inside, d);
  for (int i = 0; i < n->num_controls; i++) depend_on(f, n->controls[i], inside, d);
}

/* Something waits for the node's output that takes long, and runs beside the device. */
static bool is_awaited(const command_finder_t *f, const weft_node_t *n) {
  const uint64_t beside =
      WEFT_OP_COPY | WEFT_OP_SEND | WEFT_OP_COMMUNICATION | WEFT_OP_BLOCKING | WEFT_OP_RETVAL;
  for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
    if ((f->fanout.edges[e].to->flags & beside) != 0) return true;
  }
  return false;
}

static void place(command_finder_t *f, const weft_node_t *n) {
  command_group_t *group = f->groups[n->id];
  uint32_t *d = depends_of(f, n);
  if (group == NULL || group->slot < 0) {
    depend_on_all(f, n, 0, d);
    return;
  }
  if (group->open != 0) depend_on_all(f, n, group->open, d);
  if (group->open == 0 || d[group->slot] == group->open) {
    group->open = ++f->num_buffers;
    depend_on_all(f, n, 0, d); /* also on the buffer that was open */
  }
  for (int s = 0; s < f->num_slots; s++) {
    if (f->slots[s] != group && f->slots[s]->open != 0 && d[s] == f->slots[s]->open) f->slots[s]->open = 0;
  }
  f->buffer_of[n->id] = group->open;
  if (is_awaited(f, n)) group->open = 0;
}

/* ---- a buffer becomes a node ---- */

/* What a buffer takes from outside. */
typedef struct buffer_inputs {
  weft_output_t *outputs;
  weft_map_t numbers; /* output -> number + 1 */
  int n;
} buffer_inputs_t;

static uint64_t output_key(weft_output_t of) {
  return (uint64_t)(uint32_t)of.node->id << 32 | (uint32_t)of.index;
}

static weft_status_t *add_input(buffer_inputs_t *in, weft_output_t of) {
  if (weft_map_get_u64(&in->numbers, output_key(of)) != NULL) return NULL;
  in->outputs[in->n++] = of;
  return weft_map_put_u64(&in->numbers, output_key(of), (void *)(uintptr_t)in->n, NULL);
}

static bool is_member(const command_finder_t *f, const weft_node_t *n, uint32_t buffer) {
  return n->id < f->num_nodes && f->buffer_of[n->id] == buffer;
}

/* The outputs of members that others take, in `b`. */
static weft_status_t *find_outputs(command_finder_t *f, found_commands_t *b, uint32_t buffer) {
  int most = 0;
  for (int m = 0; m < b->num_members; m++) most += b->members[m]->num_outputs;
  b->outputs = weft_arena_calloc(&f->out->arena, (size_t)most, sizeof *b->outputs);
  bool *is_taken = weft_arena_calloc(&f->arena, (size_t)most, sizeof *is_taken);
  if (b->outputs == NULL || is_taken == NULL) return no_memory(f);
  for (int m = 0, at = 0; m < b->num_members; at += b->members[m++]->num_outputs) {
    weft_node_t *n = b->members[m];
    for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
      const weft_fanout_edge_t *edge = &f->fanout.edges[e];
      if (edge->output >= 0 && !is_member(f, edge->to, buffer)) is_taken[at + edge->output] = true;
    }
    for (int i = 0; i < n->num_outputs; i++) {
      if (is_taken[at + i]) b->outputs[b->num_outputs++] = (weft_output_t){n, i};
    }
  }
  return NULL;
}

static weft_status_t *find_inputs(const command_finder_t *f, const found_commands_t *b, uint32_t buffer,
                                  buffer_inputs_t *in) {
  for (int m = 0; m < b->num_members; m++) {
    const weft_node_t *n = b->members[m];
    for (int i = 0; i < n->num_inputs; i++) {
      if (!is_member(f, n->inputs[i].node, buffer)) WEFT_RETURN_IF_ERROR(add_input(in, n->inputs[i]));
    }
  }
  return NULL;
}

static weft_status_t *types_of(weft_arena_t *arena, const weft_output_t *outputs, int n, weft_attr_t *out) {
  int *types = weft_arena_calloc(arena, (size_t)n, sizeof *types);
  if (types == NULL) return WEFT_NO_MEMORY("the types of a command buffer");
  for (int i = 0; i < n; i++) types[i] = weft_dtype_base(outputs[i].node->output_types[outputs[i].index]);
  *out = (weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n, .list.types = types};
  return NULL;
}

/* Takes the member out of the graph; it keeps its attributes. */
static void remove_member(command_finder_t *f, found_commands_t *b) {
  weft_node_t *n = b->members[b->num_removed];
  const weft_named_attr_t *attrs = n->attrs;
  const int num_attrs = n->num_attrs;
  weft_attrs_retain_tensors(attrs, num_attrs);
  weft_graph_remove(f->g, n);
  n->attrs = attrs;
  n->num_attrs = num_attrs;
  b->num_removed++;
}

static weft_status_t *add_buffer_node(command_finder_t *f, found_commands_t *b, const buffer_inputs_t *in) {
  weft_named_attr_t attrs[] = {{.name = WEFT_STR("Tin")}, {.name = WEFT_STR("Tout")}};
  const weft_node_t *last = b->members[b->num_members - 1];
  WEFT_RETURN_IF_ERROR(types_of(&f->arena, in->outputs, in->n, &attrs[0].value));
  WEFT_RETURN_IF_ERROR(types_of(&f->arena, b->outputs, b->num_outputs, &attrs[1].value));
  while (b->num_removed < b->num_members) remove_member(f, b);
  const weft_node_spec_t spec = {.name = last->name,
                                 .op = WEFT_STR("_WeftCommands"),
                                 .device = last->requested_device,
                                 .inputs = in->outputs,
                                 .num_inputs = in->n,
                                 .attrs = attrs,
                                 .num_attrs = 2};
  WEFT_RETURN_IF_ERROR(weft_graph_add(f->g, &spec, &b->node));
  b->node->assigned_device = last->assigned_device;
  return NULL;
}

/* Other nodes take the buffer's outputs instead of the members', and wait for it. */
static weft_status_t *hand_over(command_finder_t *f, const found_commands_t *b, uint32_t buffer) {
  for (int m = 0, output = 0; m < b->num_members; m++) {
    weft_node_t *n = b->members[m];
    const int first = output;
    while (output < b->num_outputs && b->outputs[output].node == n) output++;
    for (int e = f->fanout.begin[n->id]; e < f->fanout.begin[n->id + 1]; e++) {
      const weft_fanout_edge_t *edge = &f->fanout.edges[e];
      int at = -1;
      if (is_member(f, edge->to, buffer)) continue;
      if (edge->output >= 0) {
        int i = first;
        while (b->outputs[i].index != edge->output) i++;
        weft_graph_set_input(edge->to, edge->input, (weft_output_t){b->node, i});
        continue;
      }
      WEFT_RETURN_IF_ERROR(weft_graph_find_control(f->g, edge->to, n, &at));
      if (at >= 0) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(f->g, edge->to, at, b->node));
    }
    for (int k = 0; k < n->num_controls; k++) {
      if (!is_member(f, n->controls[k], buffer))
        WEFT_RETURN_IF_ERROR(weft_graph_add_control(f->g, n->controls[k], b->node));
    }
  }
  return NULL;
}

static weft_status_t *replace(command_finder_t *f, found_commands_t *b, uint32_t buffer) {
  buffer_inputs_t in = {.n = 0};
  int most = 0;
  for (int m = 0; m < b->num_members; m++) most += b->members[m]->num_inputs;
  in.outputs = weft_arena_calloc(&f->arena, (size_t)most, sizeof *in.outputs);
  if (in.outputs == NULL) return no_memory(f);
  WEFT_RETURN_IF_ERROR(find_outputs(f, b, buffer));
  weft_status_t *s = find_inputs(f, b, buffer, &in);
  if (s == NULL) s = add_buffer_node(f, b, &in);
  weft_map_deinit(&in.numbers);
  return s != NULL ? s : hand_over(f, b, buffer);
}

/* In the order of their last members: a buffer comes behind those that it depends on, whose outputs its
 * members then take. */
static weft_status_t *make_buffers(command_finder_t *f) {
  weft_arena_t *arena = &f->out->arena;
  int *sizes = weft_arena_calloc(&f->arena, (size_t)f->num_buffers + 1, sizeof *sizes);
  found_commands_t *all = weft_arena_calloc(&f->arena, (size_t)f->num_buffers + 1, sizeof *all);
  f->out->buffers = weft_arena_calloc(arena, (size_t)f->num_buffers + 1, sizeof *all);
  if (sizes == NULL || all == NULL || f->out->buffers == NULL) return no_memory(f);
  for (int i = 0; i < f->num_live; i++) sizes[f->buffer_of[f->order[i]->id]]++;
  for (uint32_t b = 1; b <= f->num_buffers; b++) {
    if (sizes[b] < LEAST_MEMBERS) continue;
    all[b].members = weft_arena_calloc(arena, (size_t)sizes[b], sizeof(weft_node_t *));
    if (all[b].members == NULL) return no_memory(f);
  }
  for (int i = 0; i < f->num_live; i++) {
    const uint32_t number = f->buffer_of[f->order[i]->id];
    found_commands_t *b = &all[number];
    if (b->members == NULL) continue;
    b->members[b->num_members++] = f->order[i];
    if (b->num_members < sizes[number]) continue;
    weft_status_t *s = replace(f, b, number);
    f->out->buffers[f->out->num_buffers++] = *b;
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *find(command_finder_t *f) {
  const size_t ids = (size_t)f->num_nodes + 1;
  f->groups = weft_arena_calloc(&f->arena, ids, sizeof(command_group_t *));
  f->buffer_of = weft_arena_calloc(&f->arena, ids, sizeof *f->buffer_of);
  if (f->groups == NULL || f->buffer_of == NULL) return no_memory(f);
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(f->g, &f->order));
  WEFT_RETURN_IF_ERROR(weft_pass_find_sources(f->g, f->order, false, NULL, NULL, &f->arena, &f->sources));
  for (int i = 0; i < f->num_live; i++) WEFT_RETURN_IF_ERROR(find_group(f, f->order[i]));
  choose_groups(f);
  if (f->num_slots == 0) return NULL;
  f->depends = weft_arena_calloc(&f->arena, ids * (size_t)f->num_slots, sizeof *f->depends);
  if (f->depends == NULL) return no_memory(f);
  WEFT_RETURN_IF_ERROR(weft_fanout_build(f->g, &f->fanout));
  for (int i = 0; i < f->num_live; i++) place(f, f->order[i]);
  return make_buffers(f);
}

/* Has any device a queue that records? */
static bool any_records(const weft_plan_options_t *o) {
  bool any = o->device->space != NULL && o->device->compute->ops->record_begin != NULL;
  for (int i = 0; i < o->num_devices && !any; i++)
    any = o->devices[i]->space != NULL && o->devices[i]->compute->ops->record_begin != NULL;
  return any;
}

weft_status_t *weft_plan_find_commands(const weft_plan_options_t *o, weft_graph_t *g,
                                       weft_command_buffers_t *out) {
  *out = (weft_command_buffers_t){.arena = WEFT_ARENA_INIT};
  if (!any_records(o)) return NULL;
  command_finder_t f = {.o = o,
                        .g = g,
                        .out = out,
                        .arena = WEFT_ARENA_INIT,
                        .num_nodes = g->num_nodes,
                        .num_live = g->num_live};
  weft_status_t *s = find(&f);
  weft_fanout_deinit(&f.fanout);
  weft_map_deinit(&f.group_of);
  weft_free(f.order);
  weft_arena_deinit(&f.arena);
  return s;
}

void weft_command_buffers_deinit(weft_command_buffers_t *b) {
  for (int i = 0; i < b->num_buffers; i++) {
    for (int m = 0; m < b->buffers[i].num_removed; m++) {
      const weft_node_t *n = b->buffers[i].members[m];
      weft_attrs_release_tensors(n->attrs, n->num_attrs);
    }
  }
  weft_arena_deinit(&b->arena);
}

const found_commands_t *weft_command_buffers_find(const weft_command_buffers_t *b, const weft_node_t *n) {
  for (int i = 0; b != NULL && i < b->num_buffers; i++) {
    if (b->buffers[i].node == n) return &b->buffers[i];
  }
  return NULL;
}
