/* master/collective_members.c - counts the members of each instance. */
#include "master/collective_members.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct instance {
  const weft_node_t *node; /* one of its members */
  int64_t group_key, instance_key, size;
  int members;
} instance_t;

/* An attribute (first form), or a constant input (second form), of that name. */
static bool read_key(const weft_node_t *n, const char *name, int64_t *out) {
  const weft_attr_t *attr = weft_node_attr(n, name);
  if (attr != NULL && attr->kind == WEFT_ATTR_INT) {
    *out = attr->i;
    return true;
  }
  for (int i = 0; i < n->op->num_inputs && i < n->num_inputs; i++) {
    if (!weft_str_is(n->op->inputs[i].name, name)) continue;
    const weft_node_t *from = n->inputs[i].node;
    const weft_attr_t *value = (from->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(from, "value") : NULL;
    bool is_scalar = value != NULL && value->kind == WEFT_ATTR_TENSOR && value->tensor->dtype == WEFT_I32 && value->tensor->bytes == 4;
    if (is_scalar) *out = *(const int32_t *)value->tensor->data;
    return is_scalar;
  }
  return false;
}

static weft_status_t *count(const weft_node_t *n, weft_arena_t *arena, weft_map_t *instances) {
  instance_t found = {.node = n};
  const weft_attr_t *timeout = weft_node_attr(n, "timeout_seconds");
  if (timeout != NULL && timeout->f > 0) return NULL;
  if (!read_key(n, "group_size", &found.size) || !read_key(n, "group_key", &found.group_key) || !read_key(n, "instance_key", &found.instance_key)) {
    return NULL;
  }
  char key[64];
  snprintf(key, sizeof key, "%" PRId64 "/%" PRId64, found.group_key, found.instance_key);
  instance_t *known = weft_map_get(instances, weft_str(key));
  if (known == NULL) {
    known = weft_arena_calloc(arena, 1, sizeof *known);
    weft_str_t own = weft_arena_str(arena, weft_str(key));
    if (known == NULL || own.data == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for counting members of collectives");
    *known = found;
    WEFT_RETURN_IF_ERROR(weft_map_put(instances, own, known, NULL));
  }
  known->members++;
  return NULL;
}

static weft_str_t describe(const instance_t *x, weft_arena_t *arena) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "Collective %.*s {{node %.*s}} has %" PRId64 " members (group_key %" PRId64 ", instance_key %" PRId64
                     "), but only %d of them %s part of this step: it would wait for ever. Run all of them in one step, or give all clients' "
                     "steps the same collective_graph_key in RunOptions",
                     WEFT_STR_ARGS(x->node->op->name), WEFT_STR_ARGS(x->node->name), x->size, x->group_key, x->instance_key, x->members,
                     x->members == 1 ? "is" : "are");
  weft_str_t own = text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return own;
}

weft_status_t *weft_collective_members_check(const weft_graph_t *g, weft_arena_t *arena, weft_str_t *out) {
  weft_map_t instances = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  *out = (weft_str_t){NULL, 0};
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n != NULL && (n->flags & WEFT_OP_COMMUNICATION) != 0 && (n->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) == 0) s = count(n, arena, &instances);
  }
  weft_map_entry_t e;
  for (size_t at = 0; s == NULL && out->data == NULL && weft_map_next(&instances, &at, &e);) {
    const instance_t *x = e.value;
    if (x->members < x->size) *out = describe(x, arena);
  }
  weft_map_deinit(&instances);
  return s;
}
