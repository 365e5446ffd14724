/* master/placer.c - colocation classes and the choice of their devices.
 *
 * A class's facts live at its root in the forest. Names of devices are parsed
 * once per distinct text: a million nodes ask for a handful of devices.
 */
#include "master/placer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "device/device_name.h"

typedef struct member {
  int parent; /* in the forest; itself: a root */
  /* of a root: */
  uint32_t types;              /* device types that support all members */
  weft_device_name_t requested; /* merged from members' device strings */
  weft_device_name_t resource;  /* from variables' own: never relaxed by soft placement */
  const weft_session_device_t *assigned; /* fixed by a stateful member that has run, or chosen */
} member_t;

typedef struct placer {
  weft_graph_t *g;
  const weft_placer_options_t *o;
  member_t *members; /* by node id */
  weft_map_t groups; /* colocation group name -> node id + 1 */
  weft_arena_t arena;
  weft_map_t parsed; /* device text -> weft_device_name_t * */
} placer_t;

static weft_status_t *at_node(weft_status_t *s, const weft_node_t *n) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (s == NULL) return NULL;
  weft_strbuf_printf(&text, "Cannot assign a device for operation %.*s: ", WEFT_STR_ARGS(n->name));
  if (!text.failed) s = weft_status_prefix(s, text.data);
  weft_strbuf_deinit(&text);
  weft_status_t *located = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s\n\t [[{{node %.*s}}]]",
                                           weft_status_message(s), WEFT_STR_ARGS(n->name));
  weft_status_free(s);
  return located;
}

static int root_of(placer_t *p, int i) {
  while (p->members[i].parent != i) {
    p->members[i].parent = p->members[p->members[i].parent].parent; /* halves the path */
    i = p->members[i].parent;
  }
  return i;
}

static weft_status_t *parse(placer_t *p, weft_str_t text, const weft_device_name_t **out) {
  weft_device_name_t *name = weft_map_get(&p->parsed, text);
  if (name == NULL) {
    name = weft_arena_calloc(&p->arena, 1, sizeof *name);
    if (name == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for placing a graph");
    WEFT_RETURN_IF_ERROR(weft_device_name_parse(text, name));
    WEFT_RETURN_IF_ERROR(weft_map_put(&p->parsed, text, name, NULL));
  }
  *out = name;
  return NULL;
}

/* Joins b's class to a's. `source_wins`: a conflict of requests is settled for a (a reference edge's producer). */
static weft_status_t *join(placer_t *p, int a, int b, bool source_wins) {
  int x = root_of(p, a), y = root_of(p, b);
  if (x == y) return NULL;
  member_t *to = &p->members[x], *from = &p->members[y];
  const weft_node_t *na = p->g->nodes[a], *nb = p->g->nodes[b];
  bool soft = p->o->allow_soft_placement;
  if (to->assigned != NULL && from->assigned != NULL && to->assigned != from->assigned) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot colocate nodes {{colocation_node %.*s}} and {{colocation_node %.*s}} because they have run on %.*s and %.*s",
                      WEFT_STR_ARGS(na->name), WEFT_STR_ARGS(nb->name), WEFT_STR_ARGS(to->assigned->attributes.name),
                      WEFT_STR_ARGS(from->assigned->attributes.name));
  }
  weft_device_name_t requested = to->requested, resource = to->resource;
  weft_status_t *s = weft_device_name_merge(&resource, &from->resource, false);
  if (s == NULL) {
    s = weft_device_name_merge(&requested, &from->requested, soft);
    if (s != NULL && source_wins) {
      weft_status_free(s);
      s = NULL;
      requested = to->requested;
    }
  }
  if (s != NULL) {
    weft_status_t *told = WEFT_ERROR(INVALID_ARGUMENT, "Cannot colocate nodes {{colocation_node %.*s}} and {{colocation_node %.*s}}: %s",
                                     WEFT_STR_ARGS(na->name), WEFT_STR_ARGS(nb->name), weft_status_message(s));
    weft_status_free(s);
    return told;
  }
  to->requested = requested;
  to->resource = resource;
  to->types &= from->types;
  if (to->assigned == NULL) to->assigned = from->assigned;
  from->parent = x;
  return NULL;
}

static bool makes_reference(const weft_node_t *n) {
  return n->num_inputs == 0 && n->num_outputs == 1 &&
         (weft_dtype_is_ref(n->output_types[0]) || n->output_types[0] == WEFT_RESOURCE);
}

/* What each node alone says; also finds ops without a kernel, all of them. */
static weft_status_t *gather(placer_t *p) {
  weft_strbuf_t unsupported = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  const weft_node_t *first = NULL;
  int num_unsupported = 0;
  for (int i = 0; i < p->g->num_nodes && s == NULL; i++) {
    const weft_node_t *n = p->g->nodes[i];
    if (n == NULL) continue;
    member_t *m = &p->members[i];
    m->parent = i;
    m->types = p->o->supports(n);
    if (m->types == 0) {
      if (first == NULL) first = n;
      if (num_unsupported++ < 50) {
        weft_strbuf_printf(&unsupported, "%s%.*s ({{node %.*s}})", unsupported.length > 0 ? ", " : "",
                           WEFT_STR_ARGS(n->op->name), WEFT_STR_ARGS(n->name));
      }
    }
    const weft_device_name_t *asked = NULL;
    if (n->requested_device.length > 0) {
      s = at_node(parse(p, n->requested_device, &asked), n);
      if (s == NULL) *(makes_reference(n) ? &m->resource : &m->requested) = *asked;
    }
    if (n->assigned_device.length > 0 && (n->flags & WEFT_OP_STATEFUL) != 0) {
      m->assigned = weft_device_set_find(p->o->devices, n->assigned_device);
    }
  }
  if (s == NULL && first != NULL) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "No OpKernel was registered to support Op '%.*s' with these attributes. Without a kernel are: %s%s [[{{node %.*s}}]]",
                   WEFT_STR_ARGS(first->op->name), unsupported.failed ? "" : unsupported.data,
                   num_unsupported > 50 ? ", ..." : "", WEFT_STR_ARGS(first->name));
  }
  weft_strbuf_deinit(&unsupported);
  return s;
}

static weft_status_t *join_reference_edges(placer_t *p) {
  for (int i = 0; i < p->g->num_nodes; i++) {
    const weft_node_t *n = p->g->nodes[i];
    if (n == NULL || (n->flags & WEFT_OP_COLOCATE_EXEMPT) != 0) continue;
    for (int k = 0; k < n->num_inputs; k++) {
      if (!weft_dtype_is_ref(n->input_types[k]) && n->input_types[k] != WEFT_RESOURCE) continue;
      WEFT_RETURN_IF_ERROR(at_node(join(p, n->inputs[k].node->id, i, true), n));
    }
  }
  return NULL;
}

static weft_status_t *join_group(placer_t *p, const weft_node_t *n, weft_str_t group) {
  uintptr_t known = (uintptr_t)weft_map_get(&p->groups, group);
  if (known == 0) {
    /* A node belongs to the group named after it, whether or not it says so. */
    const weft_node_t *leader = weft_graph_find(p->g, group);
    known = (uintptr_t)(leader != NULL ? leader->id : n->id) + 1;
    WEFT_RETURN_IF_ERROR(weft_map_put(&p->groups, group, (void *)known, NULL));
  }
  weft_status_t *s = join(p, (int)known - 1, n->id, false);
  if (s != NULL && p->o->allow_soft_placement) {
    weft_log(WEFT_LOG_DEBUG, "colocation skipped: %s", weft_status_message(s));
    weft_status_free(s);
    return NULL;
  }
  return at_node(s, n);
}

static weft_status_t *join_colocated(placer_t *p) {
  for (int i = 0; i < p->g->num_nodes; i++) {
    const weft_node_t *n = p->g->nodes[i];
    const weft_attr_t *groups = n == NULL ? NULL : weft_node_attr(n, "_class");
    if (groups == NULL || !groups->is_list || groups->kind != WEFT_ATTR_STRING) continue;
    for (int k = 0; k < groups->n; k++) {
      weft_str_t text = groups->list.strings[k];
      if (!weft_str_starts_with(text, "loc:@")) continue;
      WEFT_RETURN_IF_ERROR(join_group(p, n, weft_str_of(text.data + 5, text.length - 5)));
    }
  }
  return NULL;
}

/* ---- choosing ---- */

static weft_status_t *nothing_fits(placer_t *p, const weft_device_name_t *pattern) {
  weft_device_text_t text;
  weft_strbuf_t devices = WEFT_STRBUF_INIT;
  weft_device_set_print(p->o->devices, &devices);
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT,
                 "Operation was explicitly assigned to %s but available devices are [ %s ]. Make sure the device "
                 "specification refers to a valid device.",
                 weft_device_name_print(pattern, &text), devices.failed ? "..." : devices.data);
  weft_strbuf_deinit(&devices);
  return s;
}

static weft_status_t *choose(placer_t *p, member_t *m) {
  const weft_device_set_t *devices = p->o->devices;
  weft_device_name_t pattern = m->requested;
  weft_status_t *s = weft_device_name_merge(&pattern, &m->resource, true);
  if (s != NULL) return s;
  if (m->resource.has_type) { /* a variable's own type and id are not negotiable at first */
    pattern.has_type = true;
    pattern.type = m->resource.type;
    pattern.has_id = m->resource.has_id;
    pattern.id = m->resource.id;
  }
  m->assigned = weft_device_set_choose(devices, &pattern, m->types);
  if (m->assigned == NULL && p->o->allow_soft_placement) {
    weft_device_name_t relaxed = pattern;
    relaxed.has_type = relaxed.has_id = false;
    m->assigned = weft_device_set_choose(devices, &relaxed, m->types);
  }
  return m->assigned != NULL ? NULL : nothing_fits(p, &pattern);
}

static member_t *class_of(placer_t *p, const weft_node_t *n) { return &p->members[root_of(p, n->id)]; }

static weft_status_t *settle(placer_t *p, const weft_node_t *n) {
  member_t *m = class_of(p, n);
  return m->assigned != NULL ? NULL : at_node(choose(p, m), n);
}

/* Follows another device if the class could sit there. */
static void try_follow(member_t *m, const weft_session_device_t *d) {
  if (d == NULL || m->assigned != NULL || (d->type_bit & m->types) == 0) return;
  if (weft_device_name_matches(&m->requested, &d->name) && weft_device_name_matches(&m->resource, &d->name)) m->assigned = d;
}

static bool is_generator(const weft_node_t *n) {
  return n->num_inputs == 0 && n->num_outputs == 1 && !makes_reference(n);
}

/* Generators wait for their consumers: consumer[id] is the device that all of them share, `several` if they differ. */
static const weft_session_device_t several;

static weft_status_t *choose_all(placer_t *p) {
  const weft_session_device_t **consumer = weft_calloc((size_t)p->g->num_nodes, sizeof(void *));
  if (consumer == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for placing a graph");
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(p->g, &order);
  for (int i = 0; s == NULL && i < p->g->num_live; i++) {
    const weft_node_t *n = order[i];
    if (is_generator(n)) continue;
    if ((n->flags & WEFT_OP_METADATA) != 0 && n->num_inputs > 0) {
      if (!is_generator(n->inputs[0].node)) try_follow(class_of(p, n), class_of(p, n->inputs[0].node)->assigned);
    }
    s = settle(p, n);
    for (int k = 0; s == NULL && k < n->num_inputs; k++) {
      const weft_node_t *from = n->inputs[k].node;
      const weft_session_device_t *mine = class_of(p, n)->assigned;
      if (!is_generator(from)) continue;
      consumer[from->id] = consumer[from->id] == NULL || consumer[from->id] == mine ? mine : &several;
    }
  }
  for (int i = 0; s == NULL && i < p->g->num_live; i++) {
    const weft_node_t *n = order[i];
    if (!is_generator(n)) continue;
    if (consumer[n->id] != &several) try_follow(class_of(p, n), consumer[n->id]);
    s = settle(p, n);
  }
  weft_free(order);
  weft_free(consumer);
  return s;
}

static weft_status_t *assign(placer_t *p) {
  const weft_session_device_t *last = NULL;
  weft_str_t text = {NULL, 0};
  for (int i = 0; i < p->g->num_nodes; i++) {
    weft_node_t *n = p->g->nodes[i];
    if (n == NULL) continue;
    const weft_session_device_t *d = class_of(p, n)->assigned;
    if (d != last) {
      text = weft_graph_intern(p->g, d->attributes.name);
      if (text.data == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for placing a graph");
      last = d;
    }
    n->assigned_device = text;
    if (p->o->log_device_placement) {
      weft_log(WEFT_LOG_INFO, "%.*s: (%.*s): %.*s", WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), WEFT_STR_ARGS(text));
    }
  }
  return NULL;
}

weft_status_t *weft_place(weft_graph_t *g, const weft_placer_options_t *o) {
  placer_t p = {.g = g, .o = o, .groups = WEFT_MAP_INIT, .parsed = WEFT_MAP_INIT, .arena = WEFT_ARENA_INIT};
  p.members = weft_calloc((size_t)g->num_nodes, sizeof *p.members);
  weft_status_t *s = p.members == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for placing a graph") : NULL;
  if (s == NULL) s = gather(&p);
  if (s == NULL) s = join_reference_edges(&p);
  if (s == NULL) s = join_colocated(&p);
  if (s == NULL) s = choose_all(&p);
  if (s == NULL) s = assign(&p);
  weft_map_deinit(&p.groups);
  weft_map_deinit(&p.parsed);
  weft_arena_deinit(&p.arena);
  weft_free(p.members);
  return s;
}
