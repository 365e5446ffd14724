/* strategies/replicate_nodes.c - copies nodes onto replicas; inputs are resharded later.
 *
 * A node that is single is copied once, onto replica 0 (or where its variable
 * lives), and is used by all replicas. All others are copied once per replica. Required shardings of inputs
 * are produced later, when all copies exist.
 */
#include <stdio.h>

#include "strategies/replication.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copies of nodes"); }

/* prefix + middle + suffix, unique in the new graph. data NULL without memory. */
static weft_str_t make_name(weft_replication_t *r, const char *prefix, weft_str_t middle, int replica) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, prefix);
  weft_strbuf_append(&b, middle);
  if (replica > 0) weft_strbuf_printf(&b, "/replica_%d", replica);
  weft_str_t name =
      b.failed ? weft_str_of(NULL, 0) : weft_graph_unique_name(r->to, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return name;
}

/* The copy of a variable on replica i > 0 is a variable of its own. */
static weft_status_t *rename_variable(weft_replication_t *r, weft_node_t *copy, int replica) {
  weft_str_t shared = weft_node_attr_string(copy, "shared_name");
  if (shared.length == 0 && copy->output_types[0] != WEFT_RESOURCE) return NULL; /* the node's name counts */
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%.*s/replica_%d", WEFT_STR_ARGS(shared), replica);
  weft_attr_t value = {.kind = WEFT_ATTR_STRING, .s = weft_str_of(b.data, b.length)};
  weft_status_t *s = b.failed ? no_memory() : weft_graph_set_attr(r->to, copy, "shared_name", &value);
  weft_strbuf_deinit(&b);
  return s;
}

static weft_status_t *copy_variable(weft_replication_t *r, const weft_node_t *n, int replica) {
  weft_node_t *copy = NULL;
  weft_str_t name = make_name(r, "", n->name, replica);
  if (name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_copier_copy_as(&r->copiers[replica], n, name, weft_str(""), &copy));
  return replica > 0 ? rename_variable(r, copy, replica) : NULL;
}

/* An earlier read that `n` may share: of the same variable, and neither waits for anything; NULL: none. */
static weft_node_t *read_before(weft_replication_t *r, const weft_node_t *n) {
  const weft_node_facts_t *f = weft_replication_facts(r, n);
  bool is_plain = f->read != NULL && n->num_controls == 0 && n->inputs[0].node == f->read && f->root == NULL;
  if (!r->o->caches || !is_plain) return NULL;
  weft_node_t **first = &weft_replication_facts(r, f->read)->first_read;
  if (*first == NULL) {
    *first = (weft_node_t *)n;
    return NULL;
  }
  return r->copiers[0].nodes[(*first)->id];
}

static weft_status_t *copy_single(weft_replication_t *r, const weft_node_t *n) {
  weft_node_t *copy = read_before(r, n);
  for (int i = 0; i < r->n && copy != NULL; i++)
    WEFT_RETURN_IF_ERROR(weft_copier_set_node(&r->copiers[i], n, copy));
  if (copy != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(
      weft_copier_copy_as(&r->copiers[0], n, n->name, weft_replication_device_of(r, n), &copy));
  for (int i = 1; i < r->n; i++) WEFT_RETURN_IF_ERROR(weft_copier_set_node(&r->copiers[i], n, copy));
  return NULL;
}

/* Names the dims that a Squeeze removes: a dimension of rows must stay even where it is 1. */
static weft_status_t *name_squeezed(weft_replication_t *r, const weft_node_t *n, weft_node_t *copy) {
  int64_t dims[WEFT_DATA_DIMS];
  const weft_data_named_t *named = &r->plan.named[n->id];
  if (!named->is_named || weft_node_attr(n, "squeeze_dims") == NULL) return NULL;
  const weft_attr_t attr = {.kind = WEFT_ATTR_INT,
                            .is_list = true,
                            .n = weft_data_list_dims(named->dims, dims),
                            .list = {.ints = dims}};
  return weft_graph_set_attr(r->to, copy, "squeeze_dims", &attr);
}

/* The copy of a printing node on replicas other than the first: it passes its first input on, or does
 * nothing. */
static weft_status_t *copy_silent(weft_replication_t *r, const weft_node_t *n, weft_str_t name, int replica) {
  weft_copier_t *c = &r->copiers[replica];
  weft_node_t *copy = NULL,
              **controls = weft_arena_calloc(&r->arena, (size_t)n->num_controls + 1, sizeof(*controls));
  if (controls == NULL) return no_memory();
  const weft_output_t passed = weft_copier_output(c, n->inputs[0]);
  const weft_named_attr_t type = weft_type_attr("T", weft_dtype_base(n->input_types[0]));
  int num_passed = n->num_outputs, num_controls = 0;
  if (num_passed == 0) controls[num_controls++] = passed.node; /* so that it lies in the same loop */
  for (int i = 0; i < n->num_controls; i++) controls[num_controls++] = c->nodes[n->controls[i]->id];
  const weft_node_spec_t spec = {.name = name,
                                 .op = weft_str(num_passed > 0 ? "Identity" : "NoOp"),
                                 .device = r->o->devices[replica],
                                 .inputs = &passed,
                                 .num_inputs = num_passed,
                                 .controls = controls,
                                 .num_controls = num_controls,
                                 .attrs = &type,
                                 .num_attrs = num_passed};
  WEFT_RETURN_IF_ERROR(weft_graph_add(r->to, &spec, &copy));
  WEFT_RETURN_IF_ERROR(weft_copier_set_node(c, n, copy));
  c->copies[n->id] = copy;
  return NULL;
}

static weft_status_t *copy_on(weft_replication_t *r, const weft_node_t *n, int replica) {
  weft_node_t *copy = NULL;
  if (r->plan.run[n->id] == WEFT_RUN_STATE) return copy_variable(r, n, replica);
  char prefix[32] = "";
  bool keeps_name = replica == 0 && !weft_replication_facts(r, n)->needs_final;
  if (!keeps_name) snprintf(prefix, sizeof prefix, "replica_%d/", replica);
  weft_str_t name = make_name(r, prefix, n->name, 0);
  if (name.data == NULL) return no_memory();
  if (r->plan.draws[n->id].kind == WEFT_DRAW_SHARD) return weft_replication_copy_draw(r, n, name, replica);
  if (r->plan.prints_once[n->id] && r->first + replica > 0) return copy_silent(r, n, name, replica);
  WEFT_RETURN_IF_ERROR(
      weft_copier_copy_as(&r->copiers[replica], n, name, weft_replication_device_of(r, n), &copy));
  WEFT_RETURN_IF_ERROR(weft_replication_share_seed(r, n, copy));
  return name_squeezed(r, n, copy);
}

/* The batches that n's outputs are, if it is a placeholder. */
static weft_status_t *split_batches(weft_replication_t *r, const weft_node_t *n) {
  for (int b = 0; b < r->plan.num_batches; b++) {
    if (r->plan.batches[b].node == n && weft_node_is_placeholder(n))
      WEFT_RETURN_IF_ERROR(weft_replication_split_batch(r, b));
  }
  return NULL;
}

weft_status_t *weft_replication_copy_nodes(weft_replication_t *r) {
  int num_live = r->source.graph->num_live;
  for (int i = 0; i < num_live; i++) { /* batches are compared with each other before they are split */
    if ((r->order[i]->flags & WEFT_OP_PLACEHOLDER) != 0) WEFT_RETURN_IF_ERROR(copy_single(r, r->order[i]));
  }
  for (int i = 0; i < num_live; i++) {
    const weft_node_t *n = r->order[i];
    if (weft_replication_facts(r, n)->is_single) {
      if ((n->flags & WEFT_OP_PLACEHOLDER) == 0) WEFT_RETURN_IF_ERROR(copy_single(r, n));
      if (r->total > 1) WEFT_RETURN_IF_ERROR(split_batches(r, n));
      continue;
    }
    for (int k = 0; k < r->n; k++) WEFT_RETURN_IF_ERROR(copy_on(r, n, k));
  }
  for (int k = 0; k < r->n; k++) WEFT_RETURN_IF_ERROR(weft_copier_finish(&r->copiers[k]));
  return NULL;
}
