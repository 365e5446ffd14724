/* client/import.c - a GraphDef into a graph that has nodes already.
 *
 * What the options ask for - a prefix, mapped inputs, control inputs, new names, a
 * device - is done to the bytes: a new GraphDef is written in which every name is
 * final, and imported as it is. Order and wording follow TensorFlow's
 * GraphConstructor.
 */
#include "client/import.h"

#include <ctype.h>

#include "base/alloc.h"
#include "client/status.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "protos/wire.h"

typedef struct import_entry {
  weft_str_t bytes, name, op, device; /* lent */
  weft_str_t new_name;                /* in the arena */
} import_entry_t;

typedef struct client_import {
  TF_Graph *g;
  const TF_ImportGraphDefOptions *o;
  weft_arena_t arena;
  weft_map_t entries;       /* name in the GraphDef -> import_entry_t */
  weft_map_t mappings;      /* "name:index" or "^name" -> weft_client_mapping_t */
  weft_map_t prefixes;      /* "a" and "a/b" for a node "a/b/c" of the graph; made when needed */
  weft_map_t new_functions; /* names that the library had not */
  bool has_prefixes;
  bool *is_used; /* by mapping */
  import_entry_t *all;
  int n;
  weft_str_t prefix; /* "" or without the slash */
  weft_strbuf_t out; /* the new GraphDef */
} client_import_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("importing a graph"); }
static weft_status_t *invalid(void) { return WEFT_ERROR(INVALID_ARGUMENT, "Invalid GraphDef"); }

static weft_str_t join(client_import_t *im, weft_str_t a, const char *between, weft_str_t b) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, a);
  weft_strbuf_puts(&text, between);
  weft_strbuf_append(&text, b);
  weft_str_t s =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&im->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- reading ---- */

static bool read_entry(weft_str_t bytes, import_entry_t *e) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *e = (import_entry_t){.bytes = bytes, .name = WEFT_STR(""), .op = WEFT_STR(""), .device = WEFT_STR("")};
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) e->name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) e->op = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) e->device = f.bytes;
  }
  return !r.failed;
}

static weft_status_t *read_functions(client_import_t *im, weft_str_t library) {
  weft_wire_reader_t r = weft_wire_reader(library), sig, op;
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    for (sig = weft_wire_reader(f.bytes); weft_wire_next(&sig, &f);) {
      if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
      for (op = weft_wire_reader(f.bytes); weft_wire_next(&op, &f);) {
        if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) ||
            weft_function_find(im->g->graph->library, f.bytes) != NULL)
          continue;
        weft_str_t name = weft_arena_str(&im->arena, f.bytes);
        if (name.data == NULL) return no_memory();
        WEFT_RETURN_IF_ERROR(weft_map_put(&im->new_functions, name, im, NULL));
      }
    }
  }
  return NULL;
}

static weft_status_t *read_nodes(client_import_t *im, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int n = 0;
  while (weft_wire_next(&r, &f)) n += f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES);
  if (r.failed) return invalid();
  im->all = weft_calloc((size_t)n + 1, sizeof *im->all);
  if (im->all == NULL) return no_memory();
  r = weft_wire_reader(bytes);
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(read_functions(im, f.bytes));
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    import_entry_t *e = &im->all[im->n++];
    void *old = NULL;
    if (!read_entry(f.bytes, e)) return invalid();
    WEFT_RETURN_IF_ERROR(weft_map_put(&im->entries, e->name, e, &old));
    if (old != NULL) return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s' is not unique", WEFT_STR_ARGS(e->name));
  }
  return NULL;
}

/* The text by which inputs name a mapping's source. */
static weft_str_t key_text(weft_strbuf_t *b, weft_str_t name, int index) {
  b->length = 0;
  if (index < 0) weft_strbuf_putc(b, '^');
  weft_strbuf_append(b, name);
  if (index >= 0) weft_strbuf_printf(b, ":%d", index);
  return b->failed ? (weft_str_t){NULL, 0} : weft_str_of(b->data, b->length);
}

static weft_status_t *between_kinds(weft_str_t from, const TF_Output *to) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_str_t key = key_text(&text, to->oper->node->name, to->index);
  weft_status_t *s =
      key.data == NULL
          ? no_memory()
          : WEFT_ERROR(INVALID_ARGUMENT, "input_map entry %s->%s between control edge and non-control edge",
                       from.data, key.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *read_mappings(client_import_t *im) {
  int n = im->o->mappings.n;
  const weft_client_mapping_t *all = im->o->mappings.items;
  im->is_used = weft_arena_calloc(&im->arena, (size_t)n + 1, sizeof *im->is_used);
  if (im->is_used == NULL) return no_memory();
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < n && s == NULL; i++) {
    TF_Operation *to = all[i].to.oper;
    weft_str_t key = key_text(&text, all[i].from.name, all[i].from.index);
    weft_str_t kept = key.data == NULL ? key : weft_arena_str(&im->arena, key);
    if (kept.data == NULL) {
      s = no_memory();
    } else if (to == NULL || to->graph != im->g) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "node '%s' in input_map does not exist in graph (input_map entry: %s)",
                     to == NULL ? "" : to->node->name.data, kept.data);
    } else if (all[i].to.index >= to->node->num_outputs) {
      s = WEFT_ERROR(INVALID_ARGUMENT,
                     "output %d of node '%s' in input_map does not exist (input_map entry: %s)",
                     all[i].to.index, to->node->name.data, kept.data);
    } else if ((all[i].from.index < 0) != (all[i].to.index < 0)) {
      s = between_kinds(kept, &all[i].to);
    } else {
      s = weft_map_put(&im->mappings, kept, (void *)(uintptr_t)&all[i], NULL);
    }
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- names ---- */

static weft_status_t *index_prefixes(client_import_t *im) {
  const weft_graph_t *g = im->g->graph;
  im->has_prefixes = true;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] == NULL) continue;
    weft_str_t name = g->nodes[id]->name;
    for (size_t i = name.length; i-- > 0;) {
      if (name.data[i] != '/') continue;
      weft_str_t prefix = weft_str_of(name.data, i);
      if (weft_map_get(&im->prefixes, prefix) != NULL) break; /* and so are those before it */
      WEFT_RETURN_IF_ERROR(weft_map_put(&im->prefixes, prefix, g->nodes[id], NULL));
    }
  }
  return NULL;
}

static weft_status_t *is_taken(client_import_t *im, weft_str_t name, bool *out) {
  if (!im->has_prefixes) WEFT_RETURN_IF_ERROR(index_prefixes(im));
  *out = weft_graph_find(im->g->graph, name) != NULL || weft_map_get(&im->prefixes, name) != NULL;
  return NULL;
}

static weft_status_t *unique_name(client_import_t *im, weft_str_t name, weft_str_t *out) {
  bool taken = true;
  WEFT_RETURN_IF_ERROR(is_taken(im, name, &taken));
  *out = name;
  for (int i = 1; taken; i++) {
    weft_strbuf_t number = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&number, "_%d", i);
    *out = number.failed ? (weft_str_t){NULL, 0} : join(im, name, number.data, WEFT_STR(""));
    weft_strbuf_deinit(&number);
    if (out->data == NULL) return no_memory();
    WEFT_RETURN_IF_ERROR(is_taken(im, *out, &taken));
    taken |= weft_map_get(&im->entries, *out) != NULL;
  }
  return NULL;
}

/* Could be the start of a node's name. */
static bool is_valid_prefix(weft_str_t prefix) {
  for (size_t i = 0; i < prefix.length; i++) {
    unsigned char c = (unsigned char)prefix.data[i];
    bool is_inner = i > 0 && (c == '_' || c == '/' || c == '-' || (c == '>' && i + 1 < prefix.length));
    bool is_ok = isalnum(c) || c == '.' || is_inner;
    if (!is_ok) return false;
  }
  return true;
}

static weft_status_t *choose_names(client_import_t *im) {
  const TF_ImportGraphDefOptions *o = im->o;
  bool is_empty = im->g->graph->num_live == 0;
  im->prefix = o->prefix;
  if (im->prefix.length > 0 && im->prefix.data[im->prefix.length - 1] == '/') im->prefix.length--;
  if (!is_valid_prefix(im->prefix)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Imported node name prefix '%.*s/' would lead to invalid node names",
                      WEFT_STR_ARGS(im->prefix));
  }
  if (im->prefix.length > 0 && o->uniquify_prefix)
    WEFT_RETURN_IF_ERROR(unique_name(im, im->prefix, &im->prefix));
  for (int i = 0; i < im->n; i++) {
    import_entry_t *e = &im->all[i];
    bool taken = false;
    e->new_name = im->prefix.length == 0 ? e->name : join(im, im->prefix, "/", e->name);
    if (e->new_name.data == NULL) return no_memory();
    if (is_empty) continue;
    if (o->uniquify_names && (im->prefix.length == 0 || !o->uniquify_prefix)) {
      WEFT_RETURN_IF_ERROR(unique_name(im, e->new_name, &e->new_name));
    } else if (im->prefix.length == 0) {
      WEFT_RETURN_IF_ERROR(is_taken(im, e->name, &taken));
    }
    if (taken)
      return WEFT_ERROR(INVALID_ARGUMENT, "Node name '%.*s' already exists in the Graph",
                        WEFT_STR_ARGS(e->name));
  }
  return NULL;
}

/* ---- writing ---- */

static void write_ref(weft_strbuf_t *out, bool is_control, weft_str_t name, int index) {
  size_t mark = weft_wire_begin(out, 3);
  if (is_control) weft_strbuf_putc(out, '^');
  weft_strbuf_append(out, name);
  if (index > 0) weft_strbuf_printf(out, ":%d", index);
  weft_wire_end(out, mark);
}

/* One input. *is_ours: it comes from the imported graph (and not from a NextIteration, whose edge closes a
 * loop). */
static weft_status_t *write_input(client_import_t *im, const import_entry_t *e, weft_str_t input,
                                  bool *is_ours) {
  weft_str_t name = input;
  int index = -1;
  bool is_control = input.length > 0 && input.data[0] == '^';
  if (is_control) {
    name = weft_str_of(input.data + 1, input.length - 1);
  } else if (!weft_tensor_name_parse(input, &name, &index)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s': Unknown input node '%.*s'", WEFT_STR_ARGS(e->name),
                      WEFT_STR_ARGS(input));
  }
  if (im->mappings.count > 0) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_str_t key = key_text(&text, name, index);
    const weft_client_mapping_t *m = key.data == NULL ? NULL : weft_map_get(&im->mappings, key);
    weft_strbuf_deinit(&text);
    if (m != NULL) {
      im->is_used[m - (const weft_client_mapping_t *)im->o->mappings.items] = true;
      write_ref(&im->out, is_control, m->to.oper->node->name, m->to.index);
      return NULL;
    }
  }
  const import_entry_t *from = weft_map_get(&im->entries, name);
  if (from == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%.*s': Unknown input node '%.*s'", WEFT_STR_ARGS(e->name),
                      WEFT_STR_ARGS(input));
  }
  if (!weft_str_is(from->op, "NextIteration") && !weft_str_is(from->op, "RefNextIteration")) *is_ours = true;
  write_ref(&im->out, is_control, from->new_name, index);
  return NULL;
}

/* The list of "_class": groups named after imported nodes follow their names. */
static void write_groups(client_import_t *im, weft_str_t list, weft_strbuf_t *out) {
  static const char colocated[] = "loc:@";
  weft_wire_reader_t r = weft_wire_reader(list);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    size_t mark = weft_wire_begin(out, 2);
    if (weft_str_starts_with(f.bytes, colocated)) {
      weft_str_t name =
          weft_str_of(f.bytes.data + sizeof colocated - 1, f.bytes.length - (sizeof colocated - 1));
      const import_entry_t *e = weft_map_get(&im->entries, name);
      weft_strbuf_puts(out, colocated);
      if (e == NULL && im->prefix.length > 0) {
        weft_strbuf_append(out, im->prefix);
        weft_strbuf_putc(out, '/');
      }
      weft_strbuf_append(out, e != NULL ? e->new_name : name);
    } else {
      weft_strbuf_append(out, f.bytes);
    }
    weft_wire_end(out, mark);
  }
}

static void write_attr(client_import_t *im, weft_str_t entry) {
  weft_wire_reader_t r = weft_wire_reader(entry);
  weft_wire_field_t f;
  weft_str_t key = WEFT_STR(""), value = WEFT_STR(""), list = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) key = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) value = f.bytes;
  }
  if (!weft_str_is(key, "_class")) {
    weft_wire_add_bytes(&im->out, 5, entry);
    return;
  }
  for (r = weft_wire_reader(value); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) list = f.bytes; /* AttrValue.list */
  }
  size_t in_attr = weft_wire_begin(&im->out, 5);
  weft_wire_add_bytes(&im->out, 1, key);
  size_t in_value = weft_wire_begin(&im->out, 2), in_list = weft_wire_begin(&im->out, 1);
  write_groups(im, list, &im->out);
  weft_wire_end(&im->out, in_list);
  weft_wire_end(&im->out, in_value);
  weft_wire_end(&im->out, in_attr);
}

static weft_status_t *write_node(client_import_t *im, const import_entry_t *e) {
  weft_wire_reader_t r = weft_wire_reader(e->bytes);
  weft_wire_field_t f;
  bool is_ours = false;
  weft_wire_put_bytes(&im->out, 1, e->new_name);
  weft_wire_put_bytes(&im->out, 2, e->op);
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES))
      WEFT_RETURN_IF_ERROR(write_input(im, e, f.bytes, &is_ours));
  }
  TF_Operation *const *controls = im->o->controls.items;
  for (int i = 0; !is_ours && i < im->o->controls.n; i++)
    write_ref(&im->out, true, controls[i]->node->name, -1);
  weft_wire_put_bytes(&im->out, 4, e->device.length == 0 ? im->o->device : e->device);
  for (r = weft_wire_reader(e->bytes); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) write_attr(im, f.bytes);
  }
  return NULL;
}

static bool is_skipped(const client_import_t *im, const import_entry_t *e) {
  if (!im->o->skip_mapped_placeholders || !weft_str_is(e->op, "Placeholder")) return false;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_str_t key = key_text(&text, e->name, 0);
  bool is_mapped = key.data != NULL && weft_map_get(&im->mappings, key) != NULL;
  weft_strbuf_deinit(&text);
  return is_mapped;
}

static weft_status_t *write_graph(client_import_t *im, weft_str_t bytes) {
  for (int i = 0; i < im->n; i++) {
    if (is_skipped(im, &im->all[i])) continue;
    size_t mark = weft_wire_begin(&im->out, 1);
    WEFT_RETURN_IF_ERROR(write_node(im, &im->all[i]));
    weft_wire_end(&im->out, mark);
  }
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) { /* functions and versions as they came */
    uint32_t field = weft_wire_number(&f);
    if ((field == 2 || field == 4) && weft_wire_type(&f) == WEFT_WIRE_BYTES)
      weft_wire_add_bytes(&im->out, field, f.bytes);
  }
  return im->out.failed ? no_memory() : NULL;
}

/* ---- entering ---- */

static bool is_plain(const TF_ImportGraphDefOptions *o) {
  return o->prefix.length == 0 && o->device.length == 0 && o->mappings.n == 0 && o->controls.n == 0 &&
         !o->uniquify_names;
}

/* Shapes that the GraphDef brings are merged with those inferred, then dropped. */
static weft_status_t *take_output_shapes(TF_Graph *g, weft_node_t *n) WEFT_REQUIRES(g->mu) {
  const weft_attr_t *a = weft_node_attr(n, "_output_shapes");
  if (a == NULL || !a->is_list || (a->n > 0 && a->kind != WEFT_ATTR_SHAPE)) return NULL;
  if (a->n < n->num_outputs) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Node '%s' has %d outputs but the _output_shapes attribute specifies shapes for %d outputs",
        n->name.data, n->num_outputs, a->n);
  }
  for (int i = 0; i < n->num_outputs; i++) {
    weft_status_t *s = weft_client_set_shape_locked(g, (weft_output_t){n, i}, &a->list.shapes[i]);
    if (s == NULL) continue;
    weft_status_t *told = WEFT_ERROR(INVALID_ARGUMENT,
                                     "Node '%s' has an _output_shapes attribute inconsistent with the "
                                     "GraphDef for output #%d: %s",
                                     n->name.data, i, weft_status_message(s));
    weft_status_free(s);
    return told;
  }
  return weft_graph_clear_attr(g->graph, n, "_output_shapes");
}

/* A node can only be colocated with one that comes with it. */
static weft_status_t *check_groups(const weft_graph_t *g, const weft_node_t *n, int first_id) {
  static const char colocated[] = "loc:@";
  const weft_attr_t *groups = weft_node_attr(n, "_class");
  bool is_list = groups != NULL && groups->is_list && groups->kind == WEFT_ATTR_STRING;
  for (int i = 0; is_list && i < groups->n; i++) {
    weft_str_t group = groups->list.strings[i];
    if (!weft_str_starts_with(group, colocated)) continue;
    size_t length = sizeof colocated - 1;
    weft_str_t name = weft_str_of(group.data + length, group.length - length);
    const weft_node_t *with = weft_graph_find(g, name);
    if (with != NULL && with->id >= first_id) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s' expects to be colocated with unknown node '%.*s'",
                      n->name.data, WEFT_STR_ARGS(name));
  }
  return NULL;
}

/* The numbers of requested outputs, now that one knows how many there are. */
static weft_status_t *check_indexes(client_import_t *im) {
  const weft_client_key_t *keys = im->o->return_outputs.items;
  for (int i = 0; i < im->o->return_outputs.n; i++) {
    const import_entry_t *e = weft_map_get(&im->entries, keys[i].name);
    const weft_node_t *n = e == NULL ? NULL : weft_graph_find(im->g->graph, e->new_name);
    if (n == NULL || (keys[i].index >= 0 && keys[i].index < n->num_outputs)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid return output %d of node '%.*s', which has %d output(s)",
                      keys[i].index, WEFT_STR_ARGS(keys[i].name), n->num_outputs);
  }
  return NULL;
}

static weft_status_t *enter(client_import_t *im, weft_str_t bytes, int first_id) WEFT_REQUIRES(im->g->mu) {
  weft_graph_t *g = im->g->graph;
  const weft_import_options_t options = {.allow_existing = !is_plain(im->o), .is_client_api = true};
  WEFT_RETURN_IF_ERROR(weft_graph_import(g, bytes, &options));
  WEFT_RETURN_IF_ERROR(check_indexes(im));
  for (int id = first_id; id < g->num_nodes && !im->o->allows_unknown_groups; id++)
    WEFT_RETURN_IF_ERROR(check_groups(g, g->nodes[id], first_id));
  WEFT_RETURN_IF_ERROR(weft_client_graph_infer(g, im->g->inference, first_id));
  for (int id = first_id; id < g->num_nodes; id++)
    WEFT_RETURN_IF_ERROR(take_output_shapes(im->g, g->nodes[id]));
  return weft_client_graph_sync_locked(im->g);
}

/* A graph is as old as the oldest part of it. */
static void merge_versions(weft_graph_t *g, int producer, int min_consumer) {
  if (producer < g->producer) g->producer = producer;
  if (min_consumer > g->min_consumer) g->min_consumer = min_consumer;
}

static weft_status_t *enter_or_undo(client_import_t *im, weft_str_t bytes) WEFT_REQUIRES(im->g->mu) {
  weft_graph_t *g = im->g->graph;
  int first_id = g->num_nodes, producer = g->producer, min_consumer = g->min_consumer;
  weft_status_t *s = enter(im, bytes, first_id);
  if (s == NULL) {
    merge_versions(g, producer, min_consumer);
    weft_client_note_functions_locked(im->g);
    return NULL;
  }
  g->producer = producer;
  g->min_consumer = min_consumer;
  for (int id = first_id; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) weft_graph_remove(g, g->nodes[id]);
  }
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&im->new_functions, &at, &e);)
    weft_map_remove(&g->library->by_name, e.key);
  return s;
}

/* ---- results ---- */

static weft_status_t *find_output(client_import_t *im, const weft_client_key_t *k, TF_Output *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_str_t key = key_text(&text, k->name, k->index);
  const weft_client_mapping_t *m = key.data == NULL ? NULL : weft_map_get(&im->mappings, key);
  weft_strbuf_deinit(&text);
  if (m != NULL) {
    *out = m->to;
    im->is_used[m - (const weft_client_mapping_t *)im->o->mappings.items] = true;
    return NULL;
  }
  const import_entry_t *e = weft_map_get(&im->entries, k->name);
  const weft_node_t *n = e == NULL ? NULL : weft_graph_find(im->g->graph, e->new_name);
  if (n == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requested return tensor '%.*s:%d' not found in graph def",
                      WEFT_STR_ARGS(k->name), k->index);
  }
  *out = (TF_Output){weft_client_operation(im->g, n), k->index};
  return NULL;
}

/* What can be wrong with the results is found before the graph is changed. */
static weft_status_t *check_returns(client_import_t *im) {
  const weft_client_key_t *keys = im->o->return_outputs.items;
  const weft_str_t *nodes = im->o->return_nodes.items;
  for (int i = 0; i < im->o->return_outputs.n; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_str_t key = key_text(&text, keys[i].name, keys[i].index);
    bool is_known = (key.data != NULL && weft_map_get(&im->mappings, key) != NULL) ||
                    weft_map_get(&im->entries, keys[i].name) != NULL;
    weft_strbuf_deinit(&text);
    if (!is_known) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Requested return tensor '%.*s:%d' not found in graph def",
                        WEFT_STR_ARGS(keys[i].name), keys[i].index);
    }
  }
  for (int i = 0; i < im->o->return_nodes.n; i++) {
    if (weft_map_get(&im->entries, nodes[i]) != NULL) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Requested return node '%.*s' not found in graph def",
                      WEFT_STR_ARGS(nodes[i]));
  }
  return NULL;
}

static bool is_missing(client_import_t *im, const weft_client_mapping_t *m) {
  const import_entry_t *e = weft_map_get(&im->entries, m->from.name);
  const weft_node_t *n = e == NULL ? NULL : weft_graph_find(im->g->graph, e->new_name);
  return n == NULL || m->from.index >= n->num_outputs;
}

static weft_status_t *collect(client_import_t *im, TF_ImportGraphDefResults *r) {
  const weft_client_key_t *keys = im->o->return_outputs.items;
  const weft_str_t *nodes = im->o->return_nodes.items;
  const weft_client_mapping_t *mappings = im->o->mappings.items;
  size_t num_mappings = (size_t)im->o->mappings.n;
  r->outputs = weft_arena_calloc(&r->arena, (size_t)im->o->return_outputs.n, sizeof *r->outputs);
  r->operations = weft_arena_calloc(&r->arena, (size_t)im->o->return_nodes.n, sizeof(*r->operations));
  r->missing_names = weft_arena_calloc(&r->arena, num_mappings, sizeof(*r->missing_names));
  r->missing_indexes = weft_arena_calloc(&r->arena, num_mappings, sizeof *r->missing_indexes);
  if (r->outputs == NULL || r->operations == NULL || r->missing_names == NULL || r->missing_indexes == NULL)
    return no_memory();
  for (int i = 0; i < im->o->return_outputs.n; i++) {
    WEFT_RETURN_IF_ERROR(find_output(im, &keys[i], &r->outputs[i]));
    r->num_outputs++;
  }
  for (int i = 0; i < im->o->return_nodes.n; i++) {
    const import_entry_t *e = weft_map_get(&im->entries, nodes[i]);
    r->operations[r->num_operations++] =
        weft_client_operation(im->g, weft_graph_find(im->g->graph, e->new_name));
  }
  for (size_t i = 0; i < num_mappings; i++) {
    if (im->is_used[i] || !is_missing(im, &mappings[i])) continue;
    weft_str_t name = weft_arena_str(&r->arena, mappings[i].from.name);
    if (name.data == NULL) return no_memory();
    r->missing_names[r->num_missing] = name.data;
    r->missing_indexes[r->num_missing++] = mappings[i].from.index;
  }
  return NULL;
}

static weft_status_t *run(client_import_t *im, weft_str_t graph_def, TF_ImportGraphDefResults *out)
    WEFT_REQUIRES(im->g->mu) {
  if (im->o->is_out_of_memory) return no_memory();
  WEFT_RETURN_IF_ERROR(read_nodes(im, graph_def));
  WEFT_RETURN_IF_ERROR(read_mappings(im));
  WEFT_RETURN_IF_ERROR(choose_names(im));
  WEFT_RETURN_IF_ERROR(check_returns(im));
  weft_str_t bytes = graph_def;
  if (!is_plain(im->o)) {
    WEFT_RETURN_IF_ERROR(write_graph(im, graph_def));
    bytes = weft_str_of(im->out.data, im->out.length);
  }
  WEFT_RETURN_IF_ERROR(enter_or_undo(im, bytes));
  return collect(im, out);
}

weft_status_t *weft_client_import_locked(TF_Graph *g, weft_str_t graph_def, const TF_ImportGraphDefOptions *o,
                                         TF_ImportGraphDefResults *out) WEFT_TSA(no_thread_safety_analysis) {
  client_import_t im = {.g = g, .o = o};
  weft_status_t *s = run(&im, graph_def, out);
  weft_map_deinit(&im.entries);
  weft_map_deinit(&im.mappings);
  weft_map_deinit(&im.prefixes);
  weft_map_deinit(&im.new_functions);
  weft_strbuf_deinit(&im.out);
  weft_free(im.all);
  weft_arena_deinit(&im.arena);
  return s;
}
