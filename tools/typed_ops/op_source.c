/* tools/typed_ops/op_source.c - the functions behind include/weft/ops.h, and the defaults of their options.
 */
#include <inttypes.h>
#include <math.h>

#include "tools/typed_ops/op_code.h"

/* ---- defaults ---- */

static void put_float(float f, weft_strbuf_t *out) {
  if (isnan(f)) {
    weft_strbuf_puts(out, "NAN");
  } else if (isinf(f)) {
    weft_strbuf_puts(out, f > 0 ? "INFINITY" : "-INFINITY");
  } else {
    weft_strbuf_printf(out, "(float)%.9g", (double)f);
  }
}

static void put_int(int64_t i, weft_strbuf_t *out) {
  if (i == INT64_MIN) {
    weft_strbuf_puts(out, "INT64_MIN");
  } else {
    weft_strbuf_printf(out, "INT64_C(%" PRId64 ")", i);
  }
}

static void put_text(weft_str_t text, weft_strbuf_t *out) {
  weft_strbuf_putc(out, '"');
  weft_strbuf_put_escaped(out, text);
  weft_strbuf_putc(out, '"');
}

static void put_shape(const weft_shape_t *s, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "{");
  if (s->rank <= 0) {
    weft_strbuf_puts(out, "NULL");
  } else {
    weft_strbuf_puts(out, "(const int64_t[]){");
    for (int d = 0; d < s->rank; d++) weft_strbuf_printf(out, "%s%" PRId64, d > 0 ? ", " : "", s->dims[d]);
    weft_strbuf_puts(out, "}");
  }
  weft_strbuf_printf(out, ", %d}", s->rank);
}

/* One value; of a tensor or function NULL: the op's own. */
static void put_value(const weft_attr_def_t *a, const weft_attr_t *v, weft_strbuf_t *out) {
  switch (a->kind) {
    case WEFT_ATTR_STRING: put_text(v->s, out); break;
    case WEFT_ATTR_INT: put_int(v->i, out); break;
    case WEFT_ATTR_FLOAT: put_float(v->f, out); break;
    case WEFT_ATTR_BOOL: weft_strbuf_puts(out, v->b ? "true" : "false"); break;
    case WEFT_ATTR_TYPE: weft_strbuf_printf(out, "(TF_DataType)%d", v->type); break;
    case WEFT_ATTR_SHAPE: put_shape(v->shape, out); break;
    default: weft_strbuf_puts(out, "NULL"); break;
  }
}

static void put_element(const weft_attr_def_t *a, const weft_attr_t *v, int i, weft_strbuf_t *out) {
  weft_attr_t one = {.kind = a->kind};
  switch (a->kind) {
    case WEFT_ATTR_STRING: one.s = v->list.strings[i]; break;
    case WEFT_ATTR_INT: one.i = v->list.ints[i]; break;
    case WEFT_ATTR_FLOAT: one.f = v->list.floats[i]; break;
    case WEFT_ATTR_BOOL: one.b = v->list.bools[i]; break;
    case WEFT_ATTR_TYPE: one.type = v->list.types[i]; break;
    case WEFT_ATTR_SHAPE: one.shape = &v->list.shapes[i]; break;
    default: break;
  }
  put_value(a, &one, out);
}

static void put_default(const weft_attr_def_t *a, weft_strbuf_t *out) {
  const weft_attr_t *v = &a->default_value;
  weft_strbuf_puts(out, "  .");
  weft_op_code_name(a->name, out);
  weft_strbuf_puts(out, " = ");
  if (!a->is_list) {
    put_value(a, v, out);
  } else if (v->n == 0) {
    weft_strbuf_puts(out, "NULL");
  } else {
    const char *type = weft_op_code_type(a);
    weft_strbuf_printf(out, "(%s%s[]){", type, type[strlen(type) - 1] == '*' ? "const " : "const ");
    for (int i = 0; i < v->n; i++) {
      if (i > 0) weft_strbuf_puts(out, ", ");
      put_element(a, v, i, out);
    }
    weft_strbuf_printf(out, "},\n  .num_%.*s = %d", WEFT_STR_ARGS(a->name), v->n);
  }
  weft_strbuf_puts(out, ",\n");
}

static void define_defaults(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "const WEFT_Op%sOptions WEFT_Op%sDefaults = {\n", op->name.data, op->name.data);
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_op_code_place(op, &op->attrs[i]) == WEFT_ATTR_OPTION) put_default(&op->attrs[i], out);
  }
  weft_strbuf_puts(out, "};\n");
}

/* ---- functions ---- */

static const char *setter(const weft_attr_def_t *a) {
  switch (a->kind) {
    case WEFT_ATTR_STRING: return "text";
    case WEFT_ATTR_INT: return "int";
    case WEFT_ATTR_FLOAT: return "float";
    case WEFT_ATTR_BOOL: return "bool";
    case WEFT_ATTR_TYPE: return "type";
    case WEFT_ATTR_SHAPE: return "shape";
    case WEFT_ATTR_TENSOR: return "tensor";
    default: return "func";
  }
}

static void set_attr(const weft_attr_def_t *a, bool is_option, weft_strbuf_t *out) {
  const char *from = is_option ? "options->" : "";
  weft_strbuf_printf(out, "  weft_typed_op_set_%s%s(d, \"%.*s\", %s", setter(a), a->is_list ? "s" : "",
                     WEFT_STR_ARGS(a->name), from);
  weft_op_code_name(a->name, out);
  if (a->is_list) weft_strbuf_printf(out, ", %snum_%.*s", from, WEFT_STR_ARGS(a->name));
  weft_strbuf_puts(out, ");\n");
}

static void add_input(const weft_arg_def_t *arg, weft_strbuf_t *out) {
  bool is_list = weft_op_code_is_list(arg);
  weft_strbuf_printf(out, "  weft_typed_op_%s(d, ", is_list ? "inputs" : "input");
  weft_op_code_name(arg->name, out);
  if (is_list) weft_strbuf_printf(out, ", num_%.*s", WEFT_STR_ARGS(arg->name));
  weft_strbuf_puts(out, ");\n");
}

static void give_outputs(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "  WEFT_Op%sOutputs result = {0};\n  int index = 0;\n", op->name.data);
  for (int i = 0; i < op->num_outputs; i++) {
    const weft_arg_def_t *arg = &op->outputs[i];
    weft_strbuf_puts(out, "  result.");
    weft_op_code_name(arg->name, out);
    weft_strbuf_puts(out, " = (TF_Output){node, index};\n");
    if (weft_op_code_is_list(arg)) {
      weft_strbuf_printf(
          out, "  result.num_%.*s = weft_typed_op_outputs(node, \"%.*s\");\n  index += result.num_%.*s;\n",
          WEFT_STR_ARGS(arg->name), WEFT_STR_ARGS(arg->name), WEFT_STR_ARGS(arg->name));
    } else {
      weft_strbuf_puts(out, "  index++;\n");
    }
  }
  weft_strbuf_puts(out, "  (void)index;\n  return result;\n");
}

void weft_op_code_define(const weft_op_def_t *op, weft_strbuf_t *out) {
  bool has_options = weft_op_code_has_options(op);
  if (has_options) define_defaults(op, out);
  weft_op_code_prototype(op, out);
  weft_strbuf_puts(out, " {\n");
  if (has_options)
    weft_strbuf_printf(out, "  if (options == NULL) options = &WEFT_Op%sDefaults;\n", op->name.data);
  weft_strbuf_printf(
      out, "  TF_OperationDescription *d = weft_typed_op_begin(graph, \"%s\", node_name, status);\n",
      op->name.data);
  for (int i = 0; i < op->num_inputs; i++) add_input(&op->inputs[i], out);
  for (int i = 0; i < op->num_attrs; i++) {
    weft_attr_place_t place = weft_op_code_place(op, &op->attrs[i]);
    if (place != WEFT_ATTR_FOLLOWS) set_attr(&op->attrs[i], place == WEFT_ATTR_OPTION, out);
  }
  weft_op_result_t result = weft_op_code_result(op);
  if (result == WEFT_RESULT_NODE) {
    weft_strbuf_puts(out, "  return weft_typed_op_end(d, status);\n");
  } else if (result == WEFT_RESULT_OUTPUT) {
    weft_strbuf_puts(out, "  return (TF_Output){weft_typed_op_end(d, status), 0};\n");
  } else {
    weft_strbuf_puts(out, "  TF_Operation *node = weft_typed_op_end(d, status);\n");
    give_outputs(op, out);
  }
  weft_strbuf_puts(out, "}\n\n");
}
