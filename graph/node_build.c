/* graph/node_build.c - attributes and types of a new node. */
#include "graph/node_build.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/name_list.h"
#include "graph/attr_proto.h"

void weft_node_resolve_op(const weft_graph_t *g, weft_str_t name, const weft_op_def_t **out_op,
                          weft_function_t **out_function) {
  *out_function = weft_function_find(g->library, name);
  *out_op = *out_function != NULL ? &(*out_function)->signature : weft_op_find(name);
}

weft_status_t *weft_node_resolve_any_op(weft_graph_t *g, weft_str_t name, const weft_op_def_t **out_op,
                                        weft_function_t **out_function) {
  weft_node_resolve_op(g, name, out_op, out_function);
  if (name.length == 0) return WEFT_ERROR(NOT_FOUND, "Op type not registered ''");
  return *out_op != NULL ? NULL : weft_function_library_stand_in(g->library, name, out_op);
}

weft_status_t *weft_node_blame(weft_status_t *s, const weft_node_t *n) {
  weft_code_t code = weft_status_code(s);
  if (code == WEFT_OK || code == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, weft_status_message(s));
  weft_strbuf_printf(&text, "\n\t; NodeDef: {{node %s}}; ", n->name.data);
  weft_op_print(n->op, &text);
  weft_status_t *blamed =
      text.failed ? weft_status_clone(s) : weft_status_from_wire((int)code, text.data, text.length);
  weft_strbuf_deinit(&text);
  weft_status_free(s);
  return blamed;
}

/* ---- attributes ---- */

/* Bottom-up merge sort by name; stable, so that of equal names the last stays last. Few nodes have many. */
static void merge_runs(const weft_named_attr_t *from, weft_named_attr_t *to, int begin, int middle, int end) {
  int left = begin, right = middle;
  for (int at = begin; at < end; at++) {
    bool take_left =
        left < middle && (right >= end || weft_str_compare(from[left].name, from[right].name) <= 0);
    to[at] = from[take_left ? left++ : right++];
  }
}

static weft_status_t *sort_attrs(weft_named_attr_t *attrs, int n) {
  if (n <= 16) {
    for (int i = 1; i < n; i++) {
      weft_named_attr_t a = attrs[i];
      int at = i;
      while (at > 0 && weft_str_compare(attrs[at - 1].name, a.name) > 0) {
        attrs[at] = attrs[at - 1];
        at--;
      }
      attrs[at] = a;
    }
    return NULL;
  }
  weft_named_attr_t *other = weft_calloc((size_t)n, sizeof *other);
  if (other == NULL) return WEFT_NO_MEMORY("sorting %d attributes", n);
  weft_named_attr_t *from = attrs, *to = other;
  for (int width = 1; width < n; width *= 2) {
    for (int begin = 0; begin < n; begin += 2 * width) {
      int middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
      merge_runs(from, to, begin, middle, end);
    }
    weft_named_attr_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != attrs) memcpy(attrs, from, (size_t)n * sizeof *attrs);
  weft_free(other);
  return NULL;
}

static int drop_duplicates(weft_named_attr_t *attrs, int n) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (i + 1 < n && weft_str_eq(attrs[i].name, attrs[i + 1].name)) {
      weft_attr_release_tensors(&attrs[i].value);
    } else {
      attrs[kept++] = attrs[i];
    }
  }
  return kept;
}

static const weft_attr_t *find_sorted(const weft_named_attr_t *attrs, int n, weft_str_t name) {
  for (int i = 0; i < n; i++) {
    if (attrs[i].name.data == name.data || weft_str_eq(attrs[i].name, name)) return &attrs[i].value;
  }
  return NULL;
}

static weft_status_t *missing_attrs(const weft_node_t *n, const weft_named_attr_t *attrs, int num_attrs) {
  weft_name_list_t names = {0};
  weft_strbuf_t op = WEFT_STRBUF_INIT;
  for (int i = 0; i < n->op->num_attrs; i++) {
    const weft_attr_def_t *def = &n->op->attrs[i];
    if (def->has_default || find_sorted(attrs, num_attrs, def->name) != NULL) continue;
    weft_name_list_add(&names, "'%.*s'", WEFT_STR_ARGS(def->name));
  }
  weft_op_print(n->op, &op);
  weft_status_t *s =
      op.failed ? WEFT_NO_MEMORY("checking node '%s'", n->name.data)
                : WEFT_ERROR(INVALID_ARGUMENT, "NodeDef missing attr%s %s from %s; NodeDef: {{node %s}}",
                             names.n > 1 ? "s" : "", weft_name_list_text(&names), op.data, n->name.data);
  weft_strbuf_deinit(&op);
  return s;
}

static bool is_in_arg_types(const weft_op_def_t *op, weft_str_t attr) {
  for (int i = 0; i < op->num_inputs + op->num_outputs; i++) {
    const weft_arg_def_t *arg = i < op->num_inputs ? &op->inputs[i] : &op->outputs[i - op->num_inputs];
    if (weft_str_eq(arg->type_attr, attr) || weft_str_eq(arg->number_attr, attr)) return true;
  }
  return false;
}

/* An empty list does not say of what; the op does. */
static void settle_empty_list(const weft_attr_def_t *def, weft_attr_t *value) {
  if (value->is_list && value->n == 0 && def->is_list) value->kind = def->kind;
}

static weft_status_t *check_value(const weft_node_t *n, const weft_attr_def_t *def, weft_words_t words,
                                  weft_attr_t *value) {
  if (value->kind == WEFT_ATTR_RAW) {
    bool is_tensor = words == WEFT_WORDS_CLIENT && def->kind == WEFT_ATTR_TENSOR && !def->is_list;
    return weft_status_annotate(weft_attr_raw_check(value, is_tensor), "for attr '%s' of node '%s'",
                                def->name.data, n->name.data);
  }
  bool is_empty_list = value->is_list && value->n == 0;
  if (is_empty_list ? !def->is_list : value->kind == WEFT_ATTR_NONE && !value->is_list) {
    return weft_node_blame(
        WEFT_ERROR(INVALID_ARGUMENT, "AttrValue missing value with expected type '%s'\n\t for attr '%.*s'",
                   weft_attr_kind_name(def->kind, def->is_list), WEFT_STR_ARGS(def->name)),
        n);
  }
  settle_empty_list(def, value);
  weft_status_t *s = weft_op_check_attr(n->op, def, value);
  return s == NULL ? NULL : weft_node_blame(s, n);
}

/* Checks what is there and counts the defaults that must be added. */
static weft_status_t *check_attrs(const weft_node_t *n, weft_named_attr_t *attrs, int num_attrs,
                                  weft_words_t words, int *out_num_defaults) {
  int num_defaults = 0;
  for (int i = 0; i < n->op->num_attrs; i++) {
    const weft_attr_def_t *def = &n->op->attrs[i];
    weft_attr_t *value = (weft_attr_t *)find_sorted(attrs, num_attrs, def->name);
    if (value != NULL) {
      WEFT_RETURN_IF_ERROR(check_value(n, def, words, value));
    } else if (def->has_default) {
      num_defaults++;
    } else if (words == WEFT_WORDS_SERVER && is_in_arg_types(n->op, def->name)) {
      return WEFT_ERROR(NOT_FOUND, "No attr named '%.*s' in NodeDef:\n\t [[{{node %s}}]]\n\t [[%s]]",
                        WEFT_STR_ARGS(def->name), n->name.data, n->name.data);
    } else {
      return missing_attrs(n, attrs, num_attrs);
    }
  }
  *out_num_defaults = num_defaults;
  return NULL;
}

/* A default lives as long as its op, so only what is counted needs a copy of its own. */
static weft_status_t *share(weft_graph_t *g, const weft_attr_t *value, weft_attr_t *out) {
  if (value->kind == WEFT_ATTR_TENSOR || value->kind == WEFT_ATTR_FUNC)
    return weft_attr_copy(g->arena, value, out);
  *out = *value;
  return NULL;
}

weft_status_t *weft_node_set_attrs(weft_graph_t *g, weft_node_t *n, weft_named_attr_t *attrs, int num_attrs,
                                   weft_words_t words) {
  int num_defaults = 0;
  weft_named_attr_t *all = NULL;
  weft_status_t *s = sort_attrs(attrs, num_attrs);
  if (s != NULL) goto done;
  num_attrs = drop_duplicates(attrs, num_attrs);
  s = check_attrs(n, attrs, num_attrs, words, &num_defaults);
  if (s != NULL || num_attrs + num_defaults == 0) goto done;
  all = weft_arena_alloc(g->arena, (size_t)(num_attrs + num_defaults) * sizeof *all);
  if (all == NULL) {
    s = WEFT_NO_MEMORY("attributes of node '%s'", n->name.data);
    goto done;
  }
  if (num_attrs > 0) memcpy(all, attrs, (size_t)num_attrs * sizeof *all);
  n->attrs = all;
  n->num_attrs = num_attrs;
  for (int i = 0; num_defaults > 0 && i < n->op->num_attrs; i++) {
    const weft_attr_def_t *def = &n->op->attrs[i];
    if (!def->has_default || find_sorted(attrs, num_attrs, def->name) != NULL) continue;
    weft_named_attr_t added = {.name = def->name};
    s = share(g, &def->default_value, &added.value);
    if (s != NULL) break;
    int at = n->num_attrs++;
    while (at > 0 && weft_str_compare(all[at - 1].name, added.name) > 0) {
      all[at] = all[at - 1];
      at--;
    }
    all[at] = added;
  }
  num_attrs = 0; /* the node has them now, and its graph releases them */
done:
  for (int i = 0; s != NULL && i < num_attrs; i++) weft_attr_release_tensors(&attrs[i].value);
  return s;
}

/* ---- types ---- */

/* A list of types that is nearly always short. */
typedef struct type_list {
  int few[32];
  int *types; /* few, or owned */
  int n, capacity;
} type_list_t;

static weft_status_t *push_types(type_list_t *l, int type, int count, bool is_ref) {
  if (l->n + count > l->capacity) {
    int capacity = l->n + count;
    int *types = weft_realloc(l->types == l->few ? NULL : l->types, (size_t)capacity, sizeof *types);
    if (types == NULL) return WEFT_NO_MEMORY("a list of %d types", capacity);
    if (l->types == l->few) memcpy(types, l->few, (size_t)l->n * sizeof *types);
    l->types = types;
    l->capacity = capacity;
  }
  for (int i = 0; i < count; i++)
    l->types[l->n++] = is_ref && !weft_dtype_is_ref(type) ? type + WEFT_REF : type;
  return NULL;
}

static weft_status_t *push_type_list(type_list_t *l, const weft_attr_t *list, bool is_ref) {
  for (int i = 0; i < list->n; i++) {
    int room = l->capacity == l->n && list->n - i > 1 ? list->n - i : 0;
    if (room > 0) { /* grow once */
      WEFT_RETURN_IF_ERROR(push_types(l, 0, room, false));
      l->n -= room;
    }
    WEFT_RETURN_IF_ERROR(push_types(l, list->list.types[i], 1, is_ref));
  }
  return NULL;
}

/* The node's attributes were checked, so each attribute that an arg names is there and of its kind. */
static weft_status_t *list_arg(const weft_node_t *n, const weft_arg_def_t *arg, int64_t limit,
                               type_list_t *l) {
  const weft_attr_t *type =
      arg->type_attr.length == 0 ? NULL : find_sorted(n->attrs, n->num_attrs, arg->type_attr);
  if (arg->kind == WEFT_ARG_TYPE_LIST) {
    if (type == NULL || !type->is_list) return NULL;
    return push_type_list(l, type, arg->is_ref);
  }
  int64_t count = 1;
  if (arg->kind == WEFT_ARG_REPEATED) {
    const weft_attr_t *number = find_sorted(n->attrs, n->num_attrs, arg->number_attr);
    count = number == NULL ? 0 : number->i;
  }
  if (count < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Value for number_attr() %" PRId64 " < 0\n\t [[{{node %s}}]]", count,
                      n->name.data);
  }
  if (count > limit) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of outputs is too big: %" PRId64 "\n\t [[{{node %s}}]]",
                      count, n->name.data);
  }
  return push_types(l, type == NULL ? arg->dtype : type->type, (int)count, arg->is_ref);
}

static weft_status_t *wrong_count(const weft_node_t *n, const type_list_t *expected, int num_given) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "NodeDef expected inputs '");
  for (int i = 0; i < expected->n && i < 100; i++) {
    weft_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", weft_dtype_name(expected->types[i]));
  }
  weft_strbuf_printf(&text, "' do not match %d inputs specified; ", num_given);
  weft_op_print(n->op, &text);
  weft_strbuf_printf(&text, "; NodeDef: {{node %s}}", n->name.data);
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("checking node '%s'", n->name.data)
                                 : weft_status_from_wire(WEFT_INVALID_ARGUMENT, text.data, text.length);
  weft_strbuf_deinit(&text);
  return s;
}

int weft_node_arg_count(const weft_node_t *n, const weft_arg_def_t *arg) {
  if (arg->kind == WEFT_ARG_FIXED || arg->kind == WEFT_ARG_ATTR) return 1;
  weft_str_t name = arg->kind == WEFT_ARG_REPEATED ? arg->number_attr : arg->type_attr;
  const weft_attr_t *a = find_sorted(n->attrs, n->num_attrs, name);
  if (a == NULL) return 0;
  return arg->kind == WEFT_ARG_REPEATED ? (int)a->i : a->n;
}

weft_status_t *weft_node_reserve_inputs(weft_graph_t *g, weft_node_t *n) {
  n->inputs = NULL;
  if (n->num_inputs == 0) return NULL;
  n->inputs = weft_arena_calloc(&g->records, (size_t)n->num_inputs, sizeof *n->inputs);
  if (n->inputs != NULL) return NULL;
  n->num_inputs = 0;
  return WEFT_NO_MEMORY("node '%.*s'", WEFT_STR_ARGS(n->name));
}

weft_status_t *weft_node_set_types(weft_graph_t *g, weft_node_t *n, int num_given) {
  type_list_t in = {.capacity = 32}, out = {.capacity = 32};
  in.types = in.few;
  out.types = out.few;
  weft_status_t *s = NULL;
  for (int i = 0; i < n->op->num_inputs && s == NULL; i++) {
    s = list_arg(n, &n->op->inputs[i], WEFT_MAX_OUTPUTS, &in);
  }
  if ((n->flags & WEFT_OP_UNREGISTERED) != 0) {
    if (num_given > 0) s = push_types(&in, 0, num_given, false);
  } else if (s == NULL && num_given >= 0 && in.n != num_given)
    s = wrong_count(n, &in, num_given);
  for (int i = 0; i < n->op->num_outputs && s == NULL; i++) {
    s = list_arg(n, &n->op->outputs[i], WEFT_MAX_OUTPUTS - out.n, &out);
  }
  if (s != NULL) goto done;
  n->input_types = weft_graph_intern_types(g, in.types, in.n);
  n->output_types = weft_graph_intern_types(g, out.types, out.n);
  if (n->input_types == NULL || n->output_types == NULL) {
    s = WEFT_NO_MEMORY("node '%s'", n->name.data);
    goto done;
  }
  n->num_inputs = in.n;
  n->num_outputs = out.n;
  s = weft_node_reserve_inputs(g, n);
done:
  if (in.types != in.few) weft_free(in.types);
  if (out.types != out.few) weft_free(out.types);
  return s;
}

bool weft_types_fit(int from, int to) {
  return weft_dtype_base(from) == weft_dtype_base(to) && (!weft_dtype_is_ref(to) || weft_dtype_is_ref(from));
}

/* The output of an op that is not registered is there because it is asked for; its type is what the first
 * consumer that knows it says. */
static weft_status_t *show_output(weft_graph_t *g, weft_node_t *src, int index, int wanted) {
  if (index < 0 || index >= WEFT_MAX_OUTPUTS) return NULL; /* refused by the caller */
  int n = index < src->num_outputs ? src->num_outputs : index + 1;
  if (n == src->num_outputs && (src->output_types[index] != 0 || wanted == 0)) return NULL;
  int *types = weft_calloc((size_t)n, sizeof *types);
  const int *kept = NULL;
  if (types != NULL) {
    if (src->num_outputs > 0) memcpy(types, src->output_types, (size_t)src->num_outputs * sizeof *types);
    types[index] = wanted;
    kept = weft_graph_intern_types(g, types, n);
  }
  weft_free(types);
  if (kept == NULL) return WEFT_NO_MEMORY("node '%s'", src->name.data);
  src->output_types = kept;
  src->num_outputs = n;
  return NULL;
}

weft_status_t *weft_node_connect(weft_graph_t *g, weft_node_t *n, int input, weft_output_t from) {
  weft_node_t *src = from.node;
  bool takes_any = (n->flags & WEFT_OP_UNREGISTERED) != 0;
  if ((src->flags & WEFT_OP_UNREGISTERED) != 0) {
    WEFT_RETURN_IF_ERROR(show_output(g, src, from.index, takes_any ? 0 : n->input_types[input]));
    if (from.index >= 0 && from.index < src->num_outputs) takes_any = true;
  }
  if (from.index < 0 || from.index >= src->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Node '%s': Connecting to invalid output %d of source node %s which has %d outputs.",
                      n->name.data, from.index, src->name.data, src->num_outputs);
  }
  int given = src->output_types[from.index], wanted = n->input_types[input];
  if (!takes_any && !weft_types_fit(given, wanted)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT, "Input %d of node %s was passed %s from %s:%d incompatible with expected %s.",
        input, n->name.data, weft_dtype_name(given), src->name.data, from.index, weft_dtype_name(wanted));
  }
  n->inputs[input] = from;
  return NULL;
}
