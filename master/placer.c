/* master/placer.c - colocation classes and the choice of their devices.
 *
 * A class's facts live at its root in the forest. Names of devices are parsed
 * once per distinct text: a million nodes ask for a handful of devices.
 */
#include "master/placer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/name_list.h"
#include "device/device_name.h"

typedef struct placer_member {
  int parent; /* in the forest; itself: a root */
  /* of a root: */
  uint32_t types;               /* device types that support all members; 0: no kernel, so no place */
  weft_device_name_t requested; /* merged from members' device strings; at least as narrow as resource */
  weft_device_name_t resource;  /* from variables' own: soft placement gives it up last */
  const weft_session_device_t *assigned; /* fixed by a stateful member that has run, or chosen */
} placer_member_t;

typedef struct placer {
  weft_graph_t *g;
  const weft_placer_options_t *o;
  placer_member_t *members; /* by node id */
  weft_map_t groups;        /* colocation group name -> node id + 1 */
  weft_arena_t arena;
  weft_map_t parsed; /* device text -> weft_device_name_t * */
} placer_t;

/* `before` the failure's text, and where it happened behind it. */
static weft_status_t *locate(weft_status_t *s, const char *before, const weft_node_t *n) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s%s\n\t [[{{node %.*s}}]]", before, weft_status_message(s),
                     WEFT_STR_ARGS(n->name));
  if (!text.failed) {
    weft_status_t *located = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s", text.data);
    weft_status_free(s);
    s = located;
  }
  weft_strbuf_deinit(&text);
  return s;
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
    if (name == NULL) return WEFT_NO_MEMORY("placing a graph");
    WEFT_RETURN_IF_ERROR(weft_device_name_parse(text, name));
    WEFT_RETURN_IF_ERROR(weft_map_put(&p->parsed, text, name, NULL));
  }
  *out = name;
  return NULL;
}

/* Joins the classes with these roots; `a` and `b` are the nodes to blame. */
static weft_status_t *join(placer_t *p, const weft_node_t *a, const weft_node_t *b) {
  int x = root_of(p, a->id), y = root_of(p, b->id);
  placer_member_t *to = &p->members[x], *from = &p->members[y];
  if (x == y || to->types == 0 || from->types == 0) return NULL;
  weft_device_name_t requested = to->requested, resource = to->resource;
  weft_status_t *s = NULL;
  if (to->assigned != NULL && from->assigned != NULL && to->assigned != from->assigned) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Cannot merge devices with incompatible names: '%.*s' and '%.*s'",
                   WEFT_STR_ARGS(to->assigned->attributes.name),
                   WEFT_STR_ARGS(from->assigned->attributes.name));
  }
  if (s == NULL) s = weft_device_name_merge(&resource, &from->resource, false);
  if (s == NULL) s = weft_device_name_merge(&requested, &from->requested, p->o->allow_soft_placement);
  if (s == NULL && (to->types & from->types) == 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "no device type has kernels for both");
  }
  if (s != NULL) {
    weft_status_t *told = WEFT_ERROR(
        INVALID_ARGUMENT, "Cannot colocate nodes {{colocation_node %.*s}} and {{colocation_node %.*s}}: %s",
        WEFT_STR_ARGS(a->name), WEFT_STR_ARGS(b->name), weft_status_message(s));
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

/* What `less` says replaces what *n says. */
static void ensure(weft_device_name_t *n, const weft_device_name_t *less) {
  if (less->has_job) n->job = less->job;
  if (less->has_replica) n->replica = less->replica;
  if (less->has_task) n->task = less->task;
  if (less->has_type) n->type = less->type;
  if (less->has_id) n->id = less->id;
  n->has_job |= less->has_job;
  n->has_replica |= less->has_replica;
  n->has_task |= less->has_task;
  n->has_type |= less->has_type;
  n->has_id |= less->has_id;
}

static weft_status_t *incompatible_edge(const char *what, const char *a, const char *b,
                                        const weft_node_t *src, const weft_node_t *dst) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Cannot place the graph because a reference or resource edge connects colocation groups "
                    "with incompatible "
                    "%s devices: %s vs %s. The edge src node is name='%.*s' (op='%.*s'), and the dst node is "
                    "name='%.*s' (op='%.*s').",
                    what, a, b, WEFT_STR_ARGS(src->name), WEFT_STR_ARGS(src->op->name),
                    WEFT_STR_ARGS(dst->name), WEFT_STR_ARGS(dst->op->name));
}

/* A reference never leaves its device: if the consumer requests another device, the producer's request wins.
 */
static weft_status_t *join_reference(placer_t *p, const weft_node_t *src, const weft_node_t *dst) {
  int x = root_of(p, src->id), y = root_of(p, dst->id);
  placer_member_t *from = &p->members[x], *to = &p->members[y];
  if (x == y || to->types == 0 || from->types == 0) return NULL;
  weft_device_text_t a, b;
  if (from->assigned != NULL && to->assigned != NULL && from->assigned != to->assigned) {
    return incompatible_edge("assigned", from->assigned->attributes.name.data,
                             to->assigned->attributes.name.data, src, dst);
  }
  if (!weft_device_name_intersects(&from->resource, &to->resource)) {
    return incompatible_edge("resource", weft_device_name_print(&from->resource, &a),
                             weft_device_name_print(&to->resource, &b), src, dst);
  }
  if (!weft_device_name_intersects(&from->requested, &to->requested)) {
    weft_device_name_t was = to->resource;
    to->requested = from->requested;
    ensure(&to->requested, &was);
    if (to->assigned != NULL) to->requested = to->assigned->name;
  }
  weft_status_t *s = join(p, src, dst);
  return s == NULL ? NULL
                   : locate(s,
                            "Nodes were connected by a reference or resource connection (requiring them to "
                            "be on the same "
                            "device), but the two nodes were assigned two different devices: ",
                            dst);
}

static bool makes_reference(const weft_node_t *n) {
  return n->num_inputs == 0 && n->num_outputs == 1 &&
         (weft_dtype_is_ref(n->output_types[0]) || n->output_types[0] == WEFT_RESOURCE);
}

static weft_status_t *malformed(weft_status_t *s, const weft_node_t *n) {
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  weft_node_print(n, &def);
  weft_status_t *told = WEFT_ERROR(
      INVALID_ARGUMENT,
      "%s in node: {name:'%.*s' id:%d op device:{requested: '%.*s', assigned: ''} def:{%s}}\n\t [[%.*s]]",
      weft_status_message(s), WEFT_STR_ARGS(n->name), n->id + 2, WEFT_STR_ARGS(n->requested_device),
      def.failed ? "" : def.data, WEFT_STR_ARGS(n->name));
  weft_strbuf_deinit(&def);
  weft_status_free(s);
  return told;
}

/* What each node alone says. Nodes without a kernel get no place, and are told of. */
static weft_status_t *gather(placer_t *p) {
  weft_name_list_t unsupported = {0};
  weft_status_t *s = NULL;
  for (int i = 0; i < p->g->num_nodes && s == NULL; i++) {
    const weft_node_t *n = p->g->nodes[i];
    if (n == NULL) continue;
    placer_member_t *m = &p->members[i];
    m->parent = i;
    m->types = p->o->kernels->types(n);
    if (m->types == 0) {
      weft_name_list_add(&unsupported, "%.*s ({{node %.*s}})", WEFT_STR_ARGS(n->op->name),
                         WEFT_STR_ARGS(n->name));
    }
    const weft_device_name_t *asked = NULL;
    if (n->requested_device.length > 0) {
      s = parse(p, n->requested_device, &asked);
      if (s != NULL) s = malformed(s, n);
      if (s == NULL) m->requested = *asked;
      if (s == NULL && makes_reference(n)) m->resource = *asked;
    }
    if (n->assigned_device.length > 0 && (n->flags & WEFT_OP_STATEFUL) != 0) {
      m->assigned = weft_device_set_find(p->o->devices, n->assigned_device);
    }
  }
  if (s == NULL && unsupported.n > 0) {
    weft_log(WEFT_LOG_INFO, "steps that need them will fail: no device has a kernel for %s",
             weft_name_list_text(&unsupported));
  }
  return s;
}

static weft_status_t *join_reference_edges(placer_t *p) {
  for (int i = 0; i < p->g->num_nodes; i++) {
    const weft_node_t *n = p->g->nodes[i];
    if (n == NULL || (n->flags & WEFT_OP_COLOCATE_EXEMPT) != 0) continue;
    for (int k = 0; k < n->num_inputs; k++) {
      if (!weft_dtype_is_ref(n->input_types[k]) && n->input_types[k] != WEFT_RESOURCE) continue;
      WEFT_RETURN_IF_ERROR(join_reference(p, n->inputs[k].node, n));
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
  weft_status_t *s = join(p, n, p->g->nodes[known - 1]);
  if (s != NULL && p->o->allow_soft_placement) {
    weft_log(WEFT_LOG_DEBUG, "colocation skipped: %s", weft_status_message(s));
    weft_status_free(s);
    return NULL;
  }
  return s == NULL ? NULL : locate(s, "", n);
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

static weft_status_t *nothing_fits(placer_t *p, const weft_device_name_t *pattern, const weft_node_t *n) {
  weft_device_text_t text;
  weft_name_list_t devices = {0};
  weft_device_set_list(p->o->devices, &devices);
  bool is_gpu = pattern->has_type && weft_str_is(pattern->type, "GPU");
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Cannot assign a device for operation %.*s: {{node %.*s}} was explicitly assigned to %s "
                    "but available devices are "
                    "[ %s ]. Make sure the device specification refers to a valid device.%s\n\t [[%.*s]]",
                    WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->name), weft_device_name_print(pattern, &text),
                    weft_name_list_text(&devices),
                    is_gpu ? " The requested device appears to be a GPU, but CUDA is not enabled." : "",
                    WEFT_STR_ARGS(n->name));
}

/* The best device for a class. *out_pattern is what all that are allowed match: what was asked for, or, under
 * soft placement, what was left of it where that is not there. */
static const weft_session_device_t *best(placer_t *p, const placer_member_t *m,
                                         weft_device_name_t *out_pattern) {
  const weft_device_set_t *devices = p->o->devices;
  *out_pattern = m->requested;
  const weft_session_device_t *d = weft_device_set_choose(devices, out_pattern, m->types);
  if (d != NULL || !p->o->allow_soft_placement) return d;
  out_pattern->has_type = out_pattern->has_id = false;
  ensure(out_pattern, &m->resource);
  d = weft_device_set_choose(devices, out_pattern, m->types);
  if (d != NULL) return d;
  out_pattern->has_type = out_pattern->has_id = false;
  return weft_device_set_choose(devices, out_pattern, m->types);
}

static placer_member_t *class_of(placer_t *p, const weft_node_t *n) { return &p->members[root_of(p, n->id)]; }

/* Chooses for n's class, if that was not done: `wanted` (may be NULL) if it is allowed, else the best. */
static weft_status_t *settle(placer_t *p, const weft_node_t *n, const weft_session_device_t *wanted) {
  placer_member_t *m = class_of(p, n);
  weft_device_name_t pattern;
  if (m->assigned != NULL || m->types == 0) return NULL;
  m->assigned = best(p, m, &pattern);
  if (m->assigned == NULL) return nothing_fits(p, &m->requested, n);
  bool is_allowed = wanted != NULL && (wanted->type_bit & m->types) != 0 &&
                    weft_device_name_matches(&pattern, &wanted->name);
  if (is_allowed) m->assigned = wanted;
  return NULL;
}

static bool is_generator(const weft_node_t *n) {
  return n->num_inputs == 0 && n->num_outputs == 1 && !makes_reference(n);
}

/* Generators wait for their consumers: consumer[id] is the device that all of them share, `several` if they
 * differ. */
static const weft_session_device_t several;

static void note_consumer(placer_t *p, const weft_session_device_t **consumer, const weft_node_t *from,
                          const weft_node_t *to) {
  if (!is_generator(from)) return;
  const weft_session_device_t *mine = is_generator(to) ? &several : class_of(p, to)->assigned;
  consumer[from->id] = consumer[from->id] == NULL || consumer[from->id] == mine ? mine : &several;
}

static weft_status_t *choose_all(placer_t *p) {
  const weft_session_device_t **consumer = weft_calloc((size_t)p->g->num_nodes, sizeof(void *));
  if (consumer == NULL) return WEFT_NO_MEMORY("placing a graph");
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(p->g, &order);
  for (int i = 0; s == NULL && i < p->g->num_live; i++) {
    const weft_node_t *n = order[i], *data = n->num_inputs > 0 ? n->inputs[0].node : NULL;
    if (!is_generator(n)) {
      /* A node that looks at shapes alone sits where they are. */
      bool follows = (n->flags & WEFT_OP_METADATA) != 0 && data != NULL && !is_generator(data);
      s = settle(p, n, follows ? class_of(p, data)->assigned : NULL);
    }
    for (int k = 0; s == NULL && k < n->num_inputs; k++) note_consumer(p, consumer, n->inputs[k].node, n);
    for (int k = 0; s == NULL && k < n->num_controls; k++) note_consumer(p, consumer, n->controls[k], n);
  }
  for (int i = 0; s == NULL && i < p->g->num_live; i++) {
    const weft_node_t *n = order[i];
    if (is_generator(n)) s = settle(p, n, consumer[n->id] == &several ? NULL : consumer[n->id]);
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
    if (d == NULL) continue;
    if (d != last) {
      text = weft_graph_intern(p->g, d->attributes.name);
      if (text.data == NULL) return WEFT_NO_MEMORY("placing a graph");
      last = d;
    }
    n->assigned_device = text;
    if (p->o->log_device_placement) {
      weft_log(WEFT_LOG_INFO, "%.*s: (%.*s): %.*s", WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name),
               WEFT_STR_ARGS(text));
    }
  }
  return NULL;
}

weft_status_t *weft_place(weft_graph_t *g, const weft_placer_options_t *o) {
  placer_t p = {.g = g, .o = o, .groups = WEFT_MAP_INIT, .parsed = WEFT_MAP_INIT, .arena = WEFT_ARENA_INIT};
  p.members = weft_calloc((size_t)g->num_nodes, sizeof *p.members);
  weft_status_t *s = p.members == NULL ? WEFT_NO_MEMORY("placing a graph") : NULL;
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
