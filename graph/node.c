/* graph/node.c - reading a node: its attributes, its text, names of tensors. */
#include "graph/graph.h"
#include "graph/node_build.h"

/* ---- names ---- */

static bool is_alnum_dot(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
}

/* How far a name reaches; 0 if `s` does not start with one. Stops at the first character that is not part of
 * it. */
static size_t name_length(weft_str_t s, bool is_internal) {
  size_t i = 0;
  for (;;) {
    if (i >= s.length || !(is_alnum_dot(s.data[i]) || (is_internal && s.data[i] == '_'))) return 0;
    while (i < s.length &&
           (is_alnum_dot(s.data[i]) || s.data[i] == '_' || s.data[i] == '/' || s.data[i] == '-'))
      i++;
    if (i >= s.length || s.data[i] != '>') return i;
    i++;
  }
}

/* "__dbg_<node>:<output>_<number>_<op>": the debugger's client takes the name apart. */
static bool is_debug_name(weft_str_t name) {
  static const char prefix[] = "__dbg_";
  size_t n = sizeof prefix - 1;
  if (name.length <= n || memcmp(name.data, prefix, n) != 0) return false;
  const char *colon = memchr(name.data, ':', name.length);
  if (colon == NULL) return false;
  size_t node = name_length(name, true), rest = name.length - node - 1;
  return node == (size_t)(colon - name.data) && name_length(weft_str_of(colon + 1, rest), true) == rest;
}

bool weft_name_is_valid(weft_str_t name, bool is_internal) {
  if (name.length > 0 && name_length(name, is_internal) == name.length) return true;
  return is_internal && is_debug_name(name);
}

bool weft_input_is_valid(weft_str_t input) {
  if (input.length > 0 && input.data[0] == '^') {
    return weft_name_is_valid(weft_str_of(input.data + 1, input.length - 1), false);
  }
  size_t n = name_length(input, false);
  if (n == 0 || n == input.length) return n > 0;
  weft_str_t digits = weft_str_of(input.data + n + 1, input.length - n - 1);
  if (input.data[n] != ':' || digits.length == 0) return false;
  if (digits.data[0] == '0') return digits.length == 1;
  for (size_t i = 0; i < digits.length; i++) {
    if (digits.data[i] < '0' || digits.data[i] > '9') return false;
  }
  return true;
}

bool weft_tensor_name_parse(weft_str_t text, weft_str_t *name, int *index) {
  if (text.length == 0 || text.data[0] == '^') return false;
  size_t at = text.length;
  while (at > 0 && text.data[at - 1] >= '0' && text.data[at - 1] <= '9') at--;
  if (at == 0 || text.data[at - 1] != ':') {
    if (memchr(text.data, ':', text.length) != NULL) return false;
    *name = text;
    *index = 0;
    return true;
  }
  if (at == text.length || at == 1) return false;
  int64_t value = 0;
  if (!weft_str_to_i64(weft_str_of(text.data + at, text.length - at), &value) || value > INT32_MAX)
    value = INT32_MAX;
  *name = weft_str_of(text.data, at - 1);
  *index = (int)value;
  return memchr(text.data, ':', at - 1) == NULL;
}

/* ---- attributes ---- */

static void retain_func(const weft_func_attr_t *f) {
  if (f != NULL) weft_attrs_retain_tensors(f->attrs, f->num_attrs);
}

void weft_attrs_retain_tensors(const weft_named_attr_t *attrs, int num_attrs) {
  for (int i = 0; i < num_attrs; i++) {
    const weft_attr_t *a = &attrs[i].value;
    if (a->kind == WEFT_ATTR_TENSOR && !a->is_list) weft_tensor_retain(a->tensor);
    if (a->kind == WEFT_ATTR_FUNC && !a->is_list) retain_func(a->func);
    for (int k = 0; a->kind == WEFT_ATTR_TENSOR && a->is_list && k < a->n; k++)
      weft_tensor_retain(a->list.tensors[k]);
    for (int k = 0; a->kind == WEFT_ATTR_FUNC && a->is_list && k < a->n; k++) retain_func(a->list.funcs[k]);
  }
}

void weft_attrs_release_tensors(const weft_named_attr_t *attrs, int num_attrs) {
  for (int i = 0; i < num_attrs; i++) {
    weft_attr_t value = attrs[i].value; /* a release changes the value, and the list is shared */
    weft_attr_release_tensors(&value);
  }
}

const weft_attr_t *weft_node_attr(const weft_node_t *n, const char *name) {
  return weft_attr_find(n->attrs, n->num_attrs, name);
}

static const weft_attr_t *single(const weft_node_t *n, const char *name, weft_attr_kind_t kind) {
  const weft_attr_t *a = weft_node_attr(n, name);
  return a != NULL && a->kind == kind && !a->is_list ? a : NULL;
}

int64_t weft_node_attr_int(const weft_node_t *n, const char *name, int64_t otherwise) {
  const weft_attr_t *a = single(n, name, WEFT_ATTR_INT);
  return a == NULL ? otherwise : a->i;
}

bool weft_node_attr_bool(const weft_node_t *n, const char *name, bool otherwise) {
  const weft_attr_t *a = single(n, name, WEFT_ATTR_BOOL);
  return a == NULL ? otherwise : a->b;
}

weft_str_t weft_node_attr_string(const weft_node_t *n, const char *name) {
  const weft_attr_t *a = single(n, name, WEFT_ATTR_STRING);
  return a == NULL ? WEFT_STR("") : a->s;
}

int weft_node_attr_type(const weft_node_t *n, const char *name) {
  const weft_attr_t *a = single(n, name, WEFT_ATTR_TYPE);
  return a == NULL ? 0 : a->type;
}

/* ---- text ---- */

static void print_inputs(const weft_node_t *n, weft_strbuf_t *out) {
  const char *comma = "";
  for (int i = 0; i < n->num_inputs; i++) {
    weft_strbuf_puts(out, comma);
    comma = ", ";
    if (n->inputs[i].node == NULL) continue;
    weft_strbuf_append(out, n->inputs[i].node->name);
    if (n->inputs[i].index > 0) weft_strbuf_printf(out, ":%d", n->inputs[i].index);
  }
  for (int i = 0; i < n->num_controls; i++) {
    weft_strbuf_puts(out, comma);
    comma = ", ";
    weft_strbuf_putc(out, '^');
    weft_strbuf_append(out, n->controls[i]->name);
  }
}

void weft_node_print(const weft_node_t *n, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "{{node %s}} = %.*s[", n->name.data, WEFT_STR_ARGS(n->op->name));
  const char *comma = "";
  for (int i = 0; i < n->num_attrs; i++) {
    weft_strbuf_puts(out, comma);
    comma = ", ";
    weft_strbuf_append(out, n->attrs[i].name);
    weft_strbuf_putc(out, '=');
    weft_attr_print(&n->attrs[i].value, out);
  }
  weft_str_t device = n->assigned_device.length > 0 ? n->assigned_device : n->requested_device;
  if (device.length > 0) weft_strbuf_printf(out, "%s_device=\"%.*s\"", comma, WEFT_STR_ARGS(device));
  weft_strbuf_puts(out, "](");
  print_inputs(n, out);
  weft_strbuf_putc(out, ')');
}
