/* client/typed_op.h - what the functions of weft/ops.h, which are generated, are made of. */
#ifndef WEFT_CLIENT_TYPED_OP_H_
#define WEFT_CLIENT_TYPED_OP_H_

#include "tensorflow/c/c_api.h"
#include "weft/ops.h"

/* A node in the making, or NULL if `status` is an error already: then the functions below do nothing. `name`
 * NULL: one that is free. */
TF_OperationDescription *weft_typed_op_begin(TF_Graph *graph, const char *op, const char *name,
                                             TF_Status *status);
/* Consumes `d`. NULL on failure. */
TF_Operation *weft_typed_op_end(TF_OperationDescription *d, TF_Status *status);
void weft_typed_op_input(TF_OperationDescription *d, TF_Output input);
void weft_typed_op_inputs(TF_OperationDescription *d, const TF_Output *inputs, int n);
/* How many outputs go by this name; 0 of no node. */
int weft_typed_op_outputs(TF_Operation *node, const char *name);

/* Attributes. A text, tensor or function that is NULL is left to the op's default. */
void weft_typed_op_set_text(TF_OperationDescription *d, const char *attr, const char *value);
void weft_typed_op_set_int(TF_OperationDescription *d, const char *attr, int64_t value);
void weft_typed_op_set_float(TF_OperationDescription *d, const char *attr, float value);
void weft_typed_op_set_bool(TF_OperationDescription *d, const char *attr, bool value);
void weft_typed_op_set_type(TF_OperationDescription *d, const char *attr, TF_DataType value);
void weft_typed_op_set_shape(TF_OperationDescription *d, const char *attr, WEFT_PartialShape value);
void weft_typed_op_set_tensor(TF_OperationDescription *d, const char *attr, TF_Tensor *value);
void weft_typed_op_set_func(TF_OperationDescription *d, const char *attr, const char *value);
void weft_typed_op_set_texts(TF_OperationDescription *d, const char *attr, const char *const *values, int n);
void weft_typed_op_set_ints(TF_OperationDescription *d, const char *attr, const int64_t *values, int n);
void weft_typed_op_set_floats(TF_OperationDescription *d, const char *attr, const float *values, int n);
void weft_typed_op_set_bools(TF_OperationDescription *d, const char *attr, const bool *values, int n);
void weft_typed_op_set_types(TF_OperationDescription *d, const char *attr, const TF_DataType *values, int n);
void weft_typed_op_set_shapes(TF_OperationDescription *d, const char *attr, const WEFT_PartialShape *values,
                              int n);
void weft_typed_op_set_tensors(TF_OperationDescription *d, const char *attr, TF_Tensor *const *values, int n);
void weft_typed_op_set_funcs(TF_OperationDescription *d, const char *attr, const char *const *values, int n);

#endif /* WEFT_CLIENT_TYPED_OP_H_ */
