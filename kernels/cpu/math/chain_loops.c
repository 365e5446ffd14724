/* kernels/cpu/math/chain_loops.c - which ops may be links of a chain on the CPU, and the loops of their
 * kernels. */
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/math/chain.h"

/* Ops whose kernels are no rows of map.h. */
typedef enum other_form { BIAS, CAST, CHOICE, EQUALITY, FOLD, ROWS, SUM } other_form_t;
static const struct {
  const char *op;
  other_form_t form;
} others[] = {
    {"AddN", SUM},       {"All", FOLD},        {"Any", FOLD},       {"BiasAdd", BIAS},
    {"BiasAddV1", BIAS}, {"Cast", CAST},       {"Equal", EQUALITY}, {"LogSoftmax", ROWS},
    {"Max", FOLD},       {"Mean", FOLD},       {"Min", FOLD},       {"NotEqual", EQUALITY},
    {"Prod", FOLD},      {"SelectV2", CHOICE}, {"Softmax", ROWS},   {"Sum", FOLD},
};

enum { TYPES = WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) };

static bool find_other(other_form_t form, const weft_kernel_t *k, weft_dtype_t operand, weft_dtype_t result,
                       chain_loop_t *out) {
  switch (form) {
    case BIAS: /* its kernel runs the loop of AddV2 */
      out->form = CHAIN_TWO;
      out->fn.two = weft_map2_add[operand];
      out->adds_bias = true;
      return out->fn.two != NULL;
    case EQUALITY: { /* its param begins with a weft_map2_t */
      const weft_map2_t *map = k->param;
      out->form = CHAIN_TWO;
      out->fn.two = map->fns[operand];
      return out->fn.two != NULL;
    }
    case CAST:
      out->form = CHAIN_CAST;
      out->fn.one = operand == result ? NULL : weft_cpu_cast_loop(operand, result);
      return out->fn.one != NULL;
    case CHOICE:
      out->form = CHAIN_CHOICE;
      out->fn.choose = weft_choose_of(out->size);
      return true;
    case SUM:
      out->form = CHAIN_SUM;
      out->fn.sum = weft_sum_of(operand);
      return out->fn.sum != NULL;
    case FOLD: {
      const reduce_fns_t *const *fns = k->param;
      out->form = CHAIN_FOLD;
      out->fn.fold = fns[operand];
      return out->fn.fold != NULL;
    }
    case ROWS: { /* its param begins with a weft_rows_t */
      const weft_rows_t *rows = k->param;
      out->form = CHAIN_ROWS;
      out->flags = WEFT_MAP_COSTLY;
      out->fn.rows = rows->fns[operand];
      return out->fn.rows != NULL;
    }
  }
  return false;
}

bool weft_cpu_chain_find_loop(const weft_op_def_t *op, weft_dtype_t operand, weft_dtype_t result,
                              chain_loop_t *out) {
  const uint32_t checks = WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_CHECK_EXPONENT;
  if (((TYPES >> operand) & 1) == 0 || ((TYPES >> result) & 1) == 0) return false;
  const weft_named_attr_t types[] = {weft_type_attr("DstT", (int)result),
                                     weft_type_attr("SrcT", (int)operand), weft_type_attr("T", (int)operand)};
  const weft_kernel_t *k = weft_kernel_find("CPU", op->name, types, 3);
  *out = (chain_loop_t){.size = weft_dtype_size(result)};
  if (k == NULL) return false;
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (weft_str_is(op->name, others[i].op)) return find_other(others[i].form, k, operand, result, out);
  }
  if (k->compute == weft_map1_compute) {
    const weft_map1_t *map = k->param;
    out->form = CHAIN_ONE;
    out->fn.one = map->fns[operand];
    out->flags = map->flags;
    return out->fn.one != NULL;
  }
  if (k->compute != weft_map2_compute) return false;
  const weft_map2_t *map = k->param;
  out->form = CHAIN_TWO;
  out->fn.two = map->fns[operand];
  out->flags = map->flags;
  const bool may_fail = weft_dtype_is_integer(operand) && (map->flags & checks) != 0;
  return out->fn.two != NULL && !may_fail;
}

int weft_cpu_may_link(const char *op, int operand, int result); /* kernels/cpu/cpu_kernels.c names it */

int weft_cpu_may_link(const char *op, int operand, int result) {
  const weft_op_def_t *def = weft_op_find(weft_str(op));
  chain_loop_t loop;
  return def != NULL && operand > 0 && operand < 32 && result > 0 && result < 32 &&
         weft_cpu_chain_find_loop(def, (weft_dtype_t)operand, (weft_dtype_t)result, &loop);
}
