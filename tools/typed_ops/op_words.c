/* tools/typed_ops/op_words.c - names and types that declarations and definitions share. */
#include "tools/typed_ops/op_code.h"

weft_attr_place_t weft_op_code_place(const weft_op_def_t *op, const weft_attr_def_t *a) {
  for (int i = 0; i < op->num_inputs; i++) {
    if (weft_str_eq(op->inputs[i].type_attr, a->name) || weft_str_eq(op->inputs[i].number_attr, a->name))
      return WEFT_ATTR_FOLLOWS;
  }
  return a->has_default ? WEFT_ATTR_OPTION : WEFT_ATTR_ARGUMENT;
}

bool weft_op_code_is_list(const weft_arg_def_t *arg) {
  return arg->kind == WEFT_ARG_REPEATED || arg->kind == WEFT_ARG_TYPE_LIST;
}

weft_op_result_t weft_op_code_result(const weft_op_def_t *op) {
  if (op->num_outputs == 0) return WEFT_RESULT_NODE;
  return op->num_outputs == 1 && !weft_op_code_is_list(&op->outputs[0]) ? WEFT_RESULT_OUTPUT
                                                                        : WEFT_RESULT_STRUCT;
}

bool weft_op_code_has_options(const weft_op_def_t *op) {
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_op_code_place(op, &op->attrs[i]) == WEFT_ATTR_OPTION) return true;
  }
  return false;
}

void weft_op_code_name(weft_str_t name, weft_strbuf_t *out) {
  static const char *const taken[] = {
      "auto",    "bool",   "break",     "case",     "catch",  "char",     "class",   "const",    "continue",
      "default", "delete", "do",        "double",   "else",   "enum",     "export",  "extern",   "false",
      "float",   "for",    "friend",    "goto",     "if",     "inline",   "int",     "long",     "namespace",
      "new",     "not",    "operator",  "or",       "and",    "xor",      "private", "public",   "register",
      "return",  "short",  "signed",    "sizeof",   "static", "struct",   "switch",  "template", "this",
      "true",    "try",    "typedef",   "typename", "union",  "unsigned", "using",   "void",     "volatile",
      "while",   "graph",  "node_name", "options",  "status", "d",        "node",    "result",   "index"};
  weft_strbuf_append(out, name);
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
    if (weft_str_is(name, taken[i])) weft_strbuf_putc(out, '_');
  }
}

const char *weft_op_code_type(const weft_attr_def_t *a) {
  switch (a->kind) {
    case WEFT_ATTR_STRING:
    case WEFT_ATTR_FUNC: return "const char *";
    case WEFT_ATTR_INT: return "int64_t ";
    case WEFT_ATTR_FLOAT: return "float ";
    case WEFT_ATTR_BOOL: return "bool ";
    case WEFT_ATTR_TYPE: return "TF_DataType ";
    case WEFT_ATTR_SHAPE: return "WEFT_PartialShape ";
    case WEFT_ATTR_TENSOR: return "TF_Tensor *";
    default: return "?";
  }
}

static void put_input(const weft_arg_def_t *arg, weft_strbuf_t *out) {
  bool is_list = weft_op_code_is_list(arg);
  weft_strbuf_puts(out, is_list ? ", const TF_Output *" : ", TF_Output ");
  weft_op_code_name(arg->name, out);
  if (is_list) weft_strbuf_printf(out, ", int num_%.*s", WEFT_STR_ARGS(arg->name));
}

static void put_argument(const weft_attr_def_t *a, weft_strbuf_t *out) {
  const char *type = weft_op_code_type(a);
  weft_strbuf_puts(out, ", ");
  if (a->is_list && strncmp(type, "const ", 6) != 0 && a->kind != WEFT_ATTR_TENSOR)
    weft_strbuf_puts(out, "const ");
  weft_strbuf_puts(out, type);
  if (a->is_list) weft_strbuf_puts(out, type[strlen(type) - 1] == '*' ? "const *" : "*");
  weft_op_code_name(a->name, out);
  if (a->is_list) weft_strbuf_printf(out, ", int num_%.*s", WEFT_STR_ARGS(a->name));
}

void weft_op_code_prototype(const weft_op_def_t *op, weft_strbuf_t *out) {
  switch (weft_op_code_result(op)) {
    case WEFT_RESULT_NODE: weft_strbuf_puts(out, "TF_Operation *"); break;
    case WEFT_RESULT_OUTPUT: weft_strbuf_puts(out, "TF_Output "); break;
    case WEFT_RESULT_STRUCT: weft_strbuf_printf(out, "WEFT_Op%sOutputs ", op->name.data); break;
  }
  weft_strbuf_printf(out, "WEFT_Op%s(TF_Graph *graph, const char *node_name", op->name.data);
  for (int i = 0; i < op->num_inputs; i++) put_input(&op->inputs[i], out);
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_op_code_place(op, &op->attrs[i]) == WEFT_ATTR_ARGUMENT) put_argument(&op->attrs[i], out);
  }
  if (weft_op_code_has_options(op))
    weft_strbuf_printf(out, ", const WEFT_Op%sOptions *options", op->name.data);
  weft_strbuf_puts(out, ", TF_Status *status)");
}
