/* kernels/cpu/cpu_kernels.c - all kernels of the CPU, by family: those of families.def, of the
 * instruction-set level of this processor, and those of kernels/ that are the same on every device. */
#include "kernels/kernel.h"

#include "base/isa.h"
#include "kernels/host/host_kernels.h"

#ifdef WEFT_ISA_LEVELS
#define WEFT_EACH_LEVEL(X, name) X(name, _kernels), X(name, _kernels_v3), X(name, _kernels_v4)
#define WEFT_MAY_LINK_BY_LEVEL weft_cpu_may_link, weft_cpu_may_link_v3, weft_cpu_may_link_v4
#else
#define WEFT_EACH_LEVEL(X, name) X(name, _kernels), X(name, _kernels), X(name, _kernels)
#define WEFT_MAY_LINK_BY_LEVEL weft_cpu_may_link, weft_cpu_may_link, weft_cpu_may_link
#endif

/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define WEFT_TABLE(name, suffix) weft_cpu_##name##suffix
#define WEFT_DECLARED(name, suffix) WEFT_TABLE(name, suffix)[]
#define WEFT_FAMILY(name) extern const weft_kernel_t WEFT_DECLARED(name, _kernels);
#define WEFT_NUMBERS(name) extern const weft_kernel_t WEFT_EACH_LEVEL(WEFT_DECLARED, name);
#include "kernels/cpu/families.def"
#undef WEFT_FAMILY
#undef WEFT_NUMBERS
/* NOLINTEND(bugprone-macro-parentheses) */

/* A family's tables, by level; of those that have no levels, the one three times. */
typedef const weft_kernel_t *const by_level_t[WEFT_ISA_COUNT];

static const by_level_t families[] = {
#define WEFT_FAMILY(name) \
  {WEFT_TABLE(name, _kernels), WEFT_TABLE(name, _kernels), WEFT_TABLE(name, _kernels)},
#define WEFT_NUMBERS(name) {WEFT_EACH_LEVEL(WEFT_TABLE, name)},
#include "kernels/cpu/families.def"
#undef WEFT_FAMILY
#undef WEFT_NUMBERS
};

static const weft_kernel_t *const on_every_device[] = {
    weft_control_flow_kernels, weft_graph_kernels,       weft_sendrecv_kernels,
    weft_args_kernels,         weft_memory_copy_kernels,
};

enum {
  NUM_FAMILIES = sizeof families / sizeof families[0],
  NUM_ON_EVERY_DEVICE = sizeof on_every_device / sizeof on_every_device[0]
};

/* Of the level whose kernels a chain runs: math/chain_loops.c. */
typedef int may_link_fn(const char *op, int operand, int result);
extern may_link_fn WEFT_MAY_LINK_BY_LEVEL;

static int may_link(const char *op, int operand, int result) {
  static may_link_fn *const by_level[WEFT_ISA_COUNT] = {WEFT_MAY_LINK_BY_LEVEL};
  return by_level[weft_isa()](op, operand, result);
}

const weft_kernel_table_t *weft_cpu_kernels(void); /* kernels/tables.def names it; called once */

const weft_kernel_table_t *weft_cpu_kernels(void) {
  static const weft_kernel_t *all[NUM_ON_EVERY_DEVICE + NUM_FAMILIES + 1];
  static const weft_kernel_table_t table = {"CPU", all, may_link};
  const weft_isa_t isa = weft_isa();
  for (int i = 0; i < NUM_ON_EVERY_DEVICE; i++) all[i] = on_every_device[i];
  for (int i = 0; i < NUM_FAMILIES; i++) all[NUM_ON_EVERY_DEVICE + i] = families[i][isa];
  return &table;
}
