/* client/operation.h - a node in the making: inputs, attributes, and what is wrong with them so far. */
#ifndef WEFT_CLIENT_OPERATION_H_
#define WEFT_CLIENT_OPERATION_H_

#include "client/graph.h"

/* Confined. */
struct TF_OperationDescription {
  TF_Graph *graph;
  weft_arena_t arena;            /* all that follows, but tensors in attributes and the arrays */
  weft_str_t type, name, device; /* data NULL: there was no memory */
  const weft_op_def_t *op;       /* NULL: unknown */
  int num_args;                  /* of op's inputs, specified so far */
  weft_output_t *inputs;         /* owned */
  weft_node_t **controls;        /* owned */
  weft_named_attr_t *attrs;      /* owned; values in the arena */
  weft_str_t *colocations;       /* owned; sorted, without duplicates: the "_class" attribute */
  int num_inputs, num_controls, num_attrs, num_colocations;
  int inputs_capacity, controls_capacity, attrs_capacity, colocations_capacity;
  weft_strbuf_t reference_errors; /* about nodes and outputs that are none, a line each */
  weft_strbuf_t errors;           /* all others, a line each */
  int num_errors;
  bool is_out_of_memory;
};

/* Sets an attribute; copies the value. An attribute that has another value already is an error of the
 * description. */
void weft_client_set_attr(TF_OperationDescription *d, weft_str_t name, const weft_attr_t *value);
/* Adds a line to the errors. */
void weft_client_desc_error(TF_OperationDescription *d, const char *fmt, ...) WEFT_PRINTF(2, 3);
/* Replaces the colocation constraints. */
void weft_client_set_colocations(TF_OperationDescription *d, const weft_str_t *groups, int n);

#endif /* WEFT_CLIENT_OPERATION_H_ */
