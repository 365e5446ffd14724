/* tools/op_support.c - from the records of ops, the kernels' registry, and verified.def. */
#include "tools/op_support.h"

#include <stdlib.h>

#include "kernels/kernel.h"

static const weft_verified_t verified[] = {
#define WEFT_VERIFIED(op, values, gradients, shapes) {op, values, gradients, shapes, NULL},
#define WEFT_VERIFIED_BY(op, suite) {op, 0, 0, 0, suite},
#include "tools/verified.def"
#undef WEFT_VERIFIED
#undef WEFT_VERIFIED_BY
};

static int by_name(const void *key, const void *item) {
  return weft_str_compare(*(const weft_str_t *)key, weft_str(((const weft_verified_t *)item)->op));
}

static const char *gradient_of(const weft_op_def_t *op) {
  if (op->gradient == NULL) return "-";
  return op->gradient == weft_grad_none ? "none" : "yes";
}

weft_op_support_t weft_op_support(const weft_op_def_t *op) {
  weft_op_support_t s = {.gradient = gradient_of(op)};
  const weft_kernel_table_t *table;
  bool takes_any = false;
  for (int i = 0; (table = weft_kernel_table_at(i)) != NULL; i++) {
    weft_dtype_set_t types = 0;
    if (!weft_kernel_exists(table->device_type, op->name, &types)) continue;
    s.devices |= UINT64_C(1) << i;
    s.types |= types;
    takes_any = takes_any || types == 0;
  }
  if (takes_any) s.types = 0;
  s.is_there = s.devices != 0 || (op->flags & WEFT_OP_FUNCTIONAL) != 0;
  s.verified =
      bsearch(&op->name, verified, sizeof verified / sizeof verified[0], sizeof verified[0], by_name);
  if (!s.is_there) s.absent = op->absent != NULL ? op->absent : "not there yet";
  return s;
}
