/* tools/typed_ops/op_header.c - what include/weft/ops.h says of an op. */
#include "tools/typed_ops/op_code.h"

static void put_option(const weft_attr_def_t *a, weft_strbuf_t *out) {
  const char *type = weft_op_code_type(a);
  weft_strbuf_puts(out, "  ");
  if (a->is_list && strncmp(type, "const ", 6) != 0 && a->kind != WEFT_ATTR_TENSOR)
    weft_strbuf_puts(out, "const ");
  weft_strbuf_puts(out, type);
  if (a->is_list) weft_strbuf_puts(out, type[strlen(type) - 1] == '*' ? "const *" : "*");
  weft_op_code_name(a->name, out);
  weft_strbuf_puts(out, ";\n");
  if (a->is_list) weft_strbuf_printf(out, "  int num_%.*s;\n", WEFT_STR_ARGS(a->name));
}

static void declare_options(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "typedef struct WEFT_Op%sOptions {\n", op->name.data);
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_op_code_place(op, &op->attrs[i]) == WEFT_ATTR_OPTION) put_option(&op->attrs[i], out);
  }
  weft_strbuf_printf(out,
                     "} WEFT_Op%sOptions;\nTF_CAPI_EXPORT extern const WEFT_Op%sOptions WEFT_Op%sDefaults;\n",
                     op->name.data, op->name.data, op->name.data);
}

static void declare_outputs(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "typedef struct WEFT_Op%sOutputs {\n", op->name.data);
  for (int i = 0; i < op->num_outputs; i++) {
    weft_strbuf_puts(out, "  TF_Output ");
    weft_op_code_name(op->outputs[i].name, out);
    weft_strbuf_puts(out, ";\n");
    if (weft_op_code_is_list(&op->outputs[i]))
      weft_strbuf_printf(out, "  int num_%.*s;\n", WEFT_STR_ARGS(op->outputs[i].name));
  }
  weft_strbuf_printf(out, "} WEFT_Op%sOutputs;\n", op->name.data);
}

/* A long declaration on several lines. */
static void put_wrapped(weft_str_t text, weft_strbuf_t *out) {
  enum { WIDTH = 110, INDENT = 4 };
  int column = 0;
  for (size_t begin = 0; begin < text.length;) {
    ptrdiff_t comma = weft_str_find(weft_str_of(text.data + begin, text.length - begin), ',');
    size_t n = comma < 0 ? text.length - begin : (size_t)comma + 1;
    if (column + (int)n > WIDTH && column > INDENT) {
      weft_strbuf_printf(out, "\n%*s", INDENT - 1, "");
      column = INDENT - 1;
    }
    weft_strbuf_append(out, weft_str_of(text.data + begin, n));
    column += (int)n;
    begin += n;
  }
}

void weft_op_code_declare(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "/* %s", op->name.data);
  if (op->absent != NULL) weft_strbuf_printf(out, ": no device has a kernel: %s", op->absent);
  weft_strbuf_puts(out, " */\n");
  if (weft_op_code_has_options(op)) declare_options(op, out);
  if (weft_op_code_result(op) == WEFT_RESULT_STRUCT) declare_outputs(op, out);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "TF_CAPI_EXPORT extern ");
  weft_op_code_prototype(op, &text);
  weft_strbuf_puts(&text, ";\n\n");
  if (!text.failed) put_wrapped(weft_str_of(text.data, text.length), out);
  out->failed |= text.failed;
  weft_strbuf_deinit(&text);
}
