/* tools/typed_ops/generate.c - `generate header` and `generate source`: the typed functions of all ops. */
#include <stdio.h>
#include <string.h>

#include "tools/typed_ops/op_code.h"

static const char head[] =
    "/* weft/ops.h - one function for each op: its inputs and attributes are the function's, with their "
    "types.\n"
    " *\n"
    " * Made from the table of ops (docs/ops.md lists them, TensorFlow describes them). A function adds one "
    "node to\n"
    " * the graph:\n"
    " *\n"
    " *   TF_Output x = WEFT_OpPlaceholder(graph, \"x\", TF_FLOAT, NULL, status);\n"
    " *   TF_Output y = WEFT_OpRelu(graph, NULL, WEFT_OpMatMul(graph, NULL, x, w, NULL, status), status);\n"
    " *\n"
    " * Attributes that follow from the inputs (T, N) are not given. Those without a default are arguments, "
    "all\n"
    " * others are options: NULL for the defaults, or a copy of the defaults with changes:\n"
    " *\n"
    " *   WEFT_OpMatMulOptions o = WEFT_OpMatMulDefaults;\n"
    " *   o.transpose_b = true;\n"
    " *\n"
    " * `node_name` NULL: the op's name, with a number if that is taken. An op without outputs gives its "
    "node, one\n"
    " * with one output that output, others a struct; of a list of outputs the struct has the first, and how "
    "many\n"
    " * follow it by index. Texts, lists and tensors are copied or shared; they need not live on.\n"
    " *\n"
    " * If `status` is an error already, nothing is done: one look after many calls is enough. On failure "
    "the result\n"
    " * has NULL for the node, and `status` says why: INVALID_ARGUMENT, naming node and attribute.\n"
    " * The functions are thread-safe, except that the names they choose depend on the order of calls.\n"
    " */\n"
    "#ifndef WEFT_OPS_H_\n"
    "#define WEFT_OPS_H_\n"
    "\n"
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "\n"
    "#include \"tensorflow/c/c_api.h\"\n"
    "\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n"
    "\n"
    "typedef struct WEFT_PartialShape {\n"
    "  const int64_t *dims; /* num_dims; -1: not known */\n"
    "  int num_dims;        /* -1: not even the rank is known */\n"
    "} WEFT_PartialShape;\n"
    "\n";
static const char tail[] =
    "#ifdef __cplusplus\n"
    "} /* extern \"C\" */\n"
    "#endif\n"
    "\n"
    "#endif /* WEFT_OPS_H_ */\n";
static const char source_head[] =
    "/* The functions of weft/ops.h; made from the table of ops. */\n"
    "#include \"weft/ops.h\"\n"
    "\n"
    "#include <math.h>\n"
    "#include <stddef.h>\n"
    "\n"
    "#include \"client/typed_op.h\"\n"
    "\n";

int main(int argc, char **argv) {
  bool is_header = argc == 2 && strcmp(argv[1], "header") == 0;
  if (!is_header && (argc != 2 || strcmp(argv[1], "source") != 0)) {
    fprintf(stderr, "generate: give header or source\n");
    return 2;
  }
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&out, is_header ? head : source_head);
  for (int i = 0; i < n; i++) {
    if (ops[i]->name.data[0] == '_') continue; /* the runtime's own */
    if (is_header) {
      weft_op_code_declare(ops[i], &out);
    } else {
      weft_op_code_define(ops[i], &out);
    }
  }
  if (is_header) weft_strbuf_puts(&out, tail);
  bool ok = !out.failed && fwrite(out.data, 1, out.length, stdout) == out.length && fflush(stdout) == 0;
  weft_strbuf_deinit(&out);
  return ok ? 0 : 1;
}
