/* tools/typed_ops/op_code.h - one op as C code: how it is declared, what its function does.
 *
 * A function takes what the node needs: the inputs, then the attributes that neither have a default nor
 * follow from the inputs, then all others in a struct of options.
 */
#ifndef WEFT_TOOLS_TYPED_OPS_OP_CODE_H_
#define WEFT_TOOLS_TYPED_OPS_OP_CODE_H_

#include "ops/op.h"

/* What an attribute is to the function. */
typedef enum weft_attr_place {
  WEFT_ATTR_FOLLOWS,  /* from the inputs */
  WEFT_ATTR_ARGUMENT, /* has no default */
  WEFT_ATTR_OPTION
} weft_attr_place_t;
weft_attr_place_t weft_op_code_place(const weft_op_def_t *op, const weft_attr_def_t *a);

/* What a function gives: the node, its one output, or a struct with all. */
typedef enum weft_op_result { WEFT_RESULT_NODE, WEFT_RESULT_OUTPUT, WEFT_RESULT_STRUCT } weft_op_result_t;
weft_op_result_t weft_op_code_result(const weft_op_def_t *op);

bool weft_op_code_is_list(const weft_arg_def_t *arg); /* several tensors under one name */
bool weft_op_code_has_options(const weft_op_def_t *op);
/* The name as a C identifier that is free among the function's own. */
void weft_op_code_name(weft_str_t name, weft_strbuf_t *out);
/* "const int64_t *", without the name; of one element of a list. */
const char *weft_op_code_type(const weft_attr_def_t *a);
/* "TF_Output WEFT_OpRelu(TF_Graph *graph, ...)". */
void weft_op_code_prototype(const weft_op_def_t *op, weft_strbuf_t *out);

void weft_op_code_declare(const weft_op_def_t *op, weft_strbuf_t *out); /* op_header.c */
void weft_op_code_define(const weft_op_def_t *op, weft_strbuf_t *out);  /* op_source.c */

#endif /* WEFT_TOOLS_TYPED_OPS_OP_CODE_H_ */
