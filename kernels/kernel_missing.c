/* kernels/kernel_missing.c - the failure of a node that no device has a kernel for, in TensorFlow's words. */
#include <stdlib.h>
#include <unistd.h>

#include "kernels/kernel.h"

static void print_attrs(const weft_named_attr_t *attrs, int num_attrs, weft_strbuf_t *out) {
  const char *comma = "";
  for (int i = 0; i < num_attrs; i++) {
    if (attrs[i].name.length > 0 && attrs[i].name.data[0] == '_') continue;
    weft_strbuf_printf(out, "%s%.*s=", comma, WEFT_STR_ARGS(attrs[i].name));
    comma = ", ";
    if (attrs[i].value.kind == WEFT_ATTR_TYPE && !attrs[i].value.is_list) {
      weft_strbuf_puts(out, weft_dtype_enum_name(attrs[i].value.type));
    } else {
      weft_attr_print(&attrs[i].value, out);
    }
  }
}

static void print_types(const char *attr, weft_dtype_set_t types, weft_strbuf_t *out) {
  const char *comma = "";
  if (attr == NULL) return;
  weft_strbuf_printf(out, "; %s in [", attr);
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    if (!weft_dtype_is_valid(d) || (types & WEFT_DTYPE_BIT(d)) == 0) continue;
    weft_strbuf_printf(out, "%s%s", comma, weft_dtype_enum_name(d));
    comma = ", ";
  }
  weft_strbuf_putc(out, ']');
}

/* A line for each kernel of the op, of every device type. */
static void print_kernels(weft_str_t op, weft_strbuf_t *out) {
  size_t before = out->length;
  const weft_kernel_table_t *table;
  for (int i = 0; (table = weft_kernel_table_at(i)) != NULL; i++) {
    for (int f = 0; table->families[f] != NULL; f++) {
      for (const weft_kernel_t *k = table->families[f]; k->op != NULL; k++) {
        if (!weft_str_is(op, k->op)) continue;
        weft_strbuf_printf(out, "  device='%s'", table->device_type);
        print_types(k->type_attr, k->types, out);
        print_types(k->type_attr2, k->types2, out);
        weft_strbuf_putc(out, '\n');
      }
    }
  }
  if (out->length == before) weft_strbuf_puts(out, "  <no registered kernels>\n");
}

static void print_device_types(weft_strbuf_t *out) {
  const weft_kernel_table_t *table;
  for (int i = 0; (table = weft_kernel_table_at(i)) != NULL; i++)
    weft_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", table->device_type);
}

static void print_no_kernel(const weft_op_def_t *op, weft_str_t node, const weft_named_attr_t *attrs,
                            int num_attrs, weft_strbuf_t *out) {
  weft_strbuf_printf(
      out, "No OpKernel was registered to support Op '%.*s' used by {{node %.*s}} with these attrs: [",
      WEFT_STR_ARGS(op->name), WEFT_STR_ARGS(node));
  print_attrs(attrs, num_attrs, out);
  weft_strbuf_puts(out, "]\nRegistered devices: [");
  print_device_types(out);
  weft_strbuf_puts(out, "]\nRegistered kernels:\n");
  print_kernels(op->name, out);
  if (op->absent != NULL) weft_strbuf_printf(out, "There is none because: %s\n", op->absent);
  weft_strbuf_printf(out, "\n\t [[%.*s]]", WEFT_STR_ARGS(node));
}

static void print_not_registered(const weft_op_def_t *op, weft_str_t node, weft_strbuf_t *out) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  weft_strbuf_printf(
      out,
      "Op type not registered '%.*s' in binary running on %s. Make sure the Op and Kernel are registered in "
      "the "
      "binary running in this process. Note that if you are loading a saved graph which used ops from "
      "tf.contrib (e.g. `tf.contrib.resampler`), accessing should be done before importing the graph, as "
      "contrib ops are lazily registered when the module is first accessed. Used by: {{node %.*s}}",
      WEFT_STR_ARGS(op->name), host, WEFT_STR_ARGS(node));
}

weft_status_t *weft_kernel_missing(const weft_op_def_t *op, weft_str_t node, const weft_named_attr_t *attrs,
                                   int num_attrs) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  bool is_registered = (op->flags & WEFT_OP_UNREGISTERED) == 0;
  if (is_registered) {
    print_no_kernel(op, node, attrs, num_attrs, &text);
  } else {
    print_not_registered(op, node, &text);
  }
  weft_status_t *s = NULL;
  if (text.failed) {
    s = WEFT_NO_MEMORY("a failure's text");
  } else if (op->absent != NULL && !is_registered) {
    s = weft_status_new(op->removed_in > 0 ? WEFT_UNIMPLEMENTED : WEFT_INVALID_ARGUMENT, __FILE__, __LINE__,
                        "%s\n\t [[{{node %.*s}}]]", op->absent, WEFT_STR_ARGS(node));
  } else if (is_registered) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s", text.data);
  } else {
    s = WEFT_ERROR(NOT_FOUND, "%s", text.data);
  }
  weft_strbuf_deinit(&text);
  return s;
}
