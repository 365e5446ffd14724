/* ops/updates.c - the description of updates that are computed together, as attributes. */
#include "ops/updates.h"

static weft_status_t *no_updates(const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "the attributes of a _WeftUpdates describe none: %s", why);
}

static const weft_attr_t *list(const weft_named_attr_t *attrs, int num_attrs, const char *name,
                               weft_attr_kind_t kind) {
  static const weft_attr_t empty = {.kind = WEFT_ATTR_NONE, .is_list = true};
  const weft_attr_t *a = weft_attr_find(attrs, num_attrs, name);
  return a != NULL && a->is_list && a->kind == kind ? a : &empty;
}

weft_status_t *weft_updates_read(const weft_named_attr_t *attrs, int num_attrs, weft_updates_t *out) {
  const weft_attr_t *types = list(attrs, num_attrs, "Tin", WEFT_ATTR_TYPE),
                    *results = list(attrs, num_attrs, "Tout", WEFT_ATTR_TYPE),
                    *nodes = list(attrs, num_attrs, "nodes", WEFT_ATTR_STRING),
                    *op = weft_attr_find(attrs, num_attrs, "op");
  if (op == NULL || op->is_list || op->kind != WEFT_ATTR_STRING) return no_updates("it has no op");
  *out = (weft_updates_t){.op = weft_op_find(op->s), .n = nodes->n, .nodes = nodes->list.strings};
  if (out->op == NULL || (out->op->flags & WEFT_OP_UPDATE) == 0)
    return no_updates("an op that updates nothing");
  if (nodes->n < 1 || types->n < nodes->n || types->n % nodes->n != 0 || results->n % nodes->n != 0)
    return no_updates("the number of inputs or outputs");
  out->num_inputs = types->n / nodes->n;
  out->num_outputs = results->n / nodes->n;
  return NULL;
}

/* Does `name` end in `of`, behind an underscore? The names of attributes that an op's record does not have
 * begin so. */
static bool names(weft_str_t name, weft_str_t of) {
  return name.length == of.length + 1 && name.data[0] == '_' &&
         memcmp(name.data + 1, of.data, of.length) == 0;
}

weft_status_t *weft_updates_member_attrs(const weft_op_def_t *op, const weft_named_attr_t *attrs,
                                         int num_attrs, weft_named_attr_t *out) {
  for (int i = 0; i < op->num_attrs; i++) {
    int at = 0;
    while (at < num_attrs && !names(attrs[at].name, op->attrs[i].name)) at++;
    if (at == num_attrs) return no_updates("an attribute of its op is missing");
    out[i] = (weft_named_attr_t){op->attrs[i].name, attrs[at].value};
  }
  return NULL;
}

static weft_named_attr_t list_attr(const char *name, weft_attr_kind_t kind, int n) {
  return (weft_named_attr_t){weft_str(name), {.kind = kind, .is_list = true, .n = n}};
}

weft_status_t *weft_updates_attrs(weft_arena_t *arena, const weft_updates_t *u, const int *types,
                                  const int *results, const weft_named_attr_t *member, int num_member,
                                  weft_named_attr_t *out) {
  out[0] = list_attr("Tin", WEFT_ATTR_TYPE, u->n * u->num_inputs);
  out[0].value.list.types = types;
  out[1] = list_attr("Tout", WEFT_ATTR_TYPE, u->n * u->num_outputs);
  out[1].value.list.types = results;
  out[2] = list_attr("nodes", WEFT_ATTR_STRING, u->n);
  out[2].value.list.strings = u->nodes;
  out[3] = weft_text_attr("op", u->op->name);
  for (int i = 0; i < u->op->num_attrs; i++) {
    const weft_str_t name = u->op->attrs[i].name;
    char *text = weft_arena_calloc(arena, name.length + 2, 1);
    const weft_attr_t *value = weft_attr_find(member, num_member, name.data);
    if (text == NULL) return WEFT_NO_MEMORY("describing %d updates", u->n);
    if (value == NULL) return no_updates("an attribute of its op is missing");
    text[0] = '_';
    memcpy(text + 1, name.data, name.length);
    out[WEFT_UPDATES_NUM_ATTRS + i] = (weft_named_attr_t){weft_str_of(text, name.length + 1), *value};
  }
  return NULL;
}
