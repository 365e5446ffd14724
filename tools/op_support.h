/* tools/op_support.h - which ops run on which devices, how many cases of each agree with TensorFlow, and why
 * the rest is not there. */
#ifndef WEFT_TOOLS_OP_SUPPORT_H_
#define WEFT_TOOLS_OP_SUPPORT_H_

#include "ops/op.h"

/* How many random cases of an op give what TensorFlow gives (tests/conformance/test_properties.py). */
typedef struct weft_verified {
  const char *op;
  int values, gradients, shapes; /* cases of each kind that were compared, all of them equal */
  const char *suite; /* the conformance test that verifies an op without random cases; else NULL */
} weft_verified_t;

typedef struct weft_op_support {
  bool is_there;                   /* some device has a kernel, or the graph is rewritten before it runs */
  uint64_t devices;                /* bit i: weft_kernel_table_at(i) has a kernel; 0: the op is rewritten */
  weft_dtype_set_t types;          /* of all of them together; 0: any */
  const char *gradient;            /* "yes", "none" (declared not differentiable) or "-" (none registered) */
  const char *absent;              /* why it is not there; NULL if it is */
  const weft_verified_t *verified; /* NULL: by no case */
} weft_op_support_t;

/* Thread-safe. */
weft_op_support_t weft_op_support(const weft_op_def_t *op);

#endif /* WEFT_TOOLS_OP_SUPPORT_H_ */
