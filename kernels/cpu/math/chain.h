/* kernels/cpu/math/chain.h - a chain compiled for the CPU, and for the shapes of its inputs. Private to the
 * chain*.c of this folder.
 *
 * Links whose results have equally many elements are a phase, which runs over them in blocks: a block passes
 * through all links of the phase before the next one begins. Links with fewer elements are of an earlier
 * phase, so that what is broadcast is computed once. Phases follow in ascending order, links of a phase in
 * the chain's.
 *
 * A value lies in an input, in an output, in kept memory if a later phase reads it, or else in a slot: memory
 * for one block, which is used again when the last link has read it.
 */
#ifndef WEFT_KERNELS_CPU_MATH_CHAIN_H_
#define WEFT_KERNELS_CPU_MATH_CHAIN_H_

#include "base/parallel_for.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/select.h"
#include "kernels/cpu/math/sum.h"
#include "ops/chain.h"

/* ---- what computes a link ---- */

typedef enum chain_loop_form {
  CHAIN_ONE,    /* of map1.tmpl.h */
  CHAIN_CAST,   /* likewise, but operand and result may not overlap */
  CHAIN_TWO,    /* of map2.tmpl.h */
  CHAIN_CHOICE, /* SelectV2 */
  CHAIN_SUM,    /* AddN */
  CHAIN_SPREAD, /* no link: a value that is broadcast, in the phase's shape */
} chain_loop_form_t;

typedef union chain_fn {
  weft_map1_fn *one;
  weft_map2_fn *two;
  weft_choose_fn *choose;
  weft_sum_fn *sum;
} chain_fn_t;

typedef struct chain_loop {
  chain_loop_form_t form;
  chain_fn_t fn;
  uint32_t flags; /* weft_map_flags_t */
  size_t size;    /* of an element of the result */
} chain_loop_t;

/* The loop of an op with these types; false: the CPU has none that a chain may run. `operand`: of the last
 * operand. */
bool weft_cpu_chain_find_loop(const weft_op_def_t *op, weft_dtype_t operand, weft_dtype_t result,
                              chain_loop_t *out);

/* A chain as its plan knows it. */
typedef struct cpu_chain {
  weft_chain_t chain;
  const chain_loop_t *loops;       /* by link */
  const weft_kernel_node_t *nodes; /* by link: what its failure is of */
} cpu_chain_t;

/* ---- a layout: what a chain does for inputs of certain shapes ---- */

/* Element `begin + i` of a value lies at bases[base] + offset + begin * advance + i * its size. */
typedef struct chain_place {
  size_t offset;
  uint32_t base, advance; /* advance: 0 for slots, and for single elements */
} chain_place_t;

enum { CHAIN_BASE_SLOTS, CHAIN_BASE_KEPT, CHAIN_FIRST_BASE }; /* then the inputs, then the outputs */

typedef struct chain_operand {
  chain_place_t at;
  int step; /* 0: one element for all */
} chain_operand_t;

typedef struct chain_call {
  chain_fn_t fn;
  chain_place_t to;
  uint32_t first_operand;
  uint16_t form, size; /* size: of an element of the result */
  union {
    uint32_t num_operands;
    uint32_t spread; /* which of the layout's broadcasts */
  } is;
} chain_call_t;

typedef struct chain_phase {
  int64_t count, block; /* elements; block: at once, which threads share out */
  uint32_t first_call, end_call;
  size_t slot_bytes;     /* of all slots */
  bool is_serial;        /* one thread does it */
  weft_unit_cost_t cost; /* of a block */
} chain_phase_t;

enum { CHAIN_MAX_CANDIDATES = 4 };

typedef struct chain_output {
  weft_dtype_t type;
  weft_shape_t shape;
  /* Inputs whose memory it may take over, where nothing else holds it: they are read for the last time
   * before, or exactly where, the output is written. */
  int num_candidates, candidates[CHAIN_MAX_CANDIDATES];
} chain_output_t;

typedef struct chain_layout {
  weft_arena_t arena; /* of all that follows */
  int64_t *shapes;    /* of the inputs: a rank and that many dims, one input after the other */
  chain_call_t *calls;
  chain_operand_t *operands;
  weft_broadcast_t *broadcasts;
  chain_phase_t *phases;
  chain_output_t *outputs; /* the chain's num_outputs */
  int num_phases, num_calls, num_operands, num_broadcasts;
  size_t kept_bytes;
} chain_layout_t; /* Immutable once made. */

/* The layout for inputs of these shapes. Errors: what the kernel of a link says of shapes that do not fit,
 * *out_failed is then that link; RESOURCE_EXHAUSTED, *out_failed is then -1. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_layout_create(const cpu_chain_t *c,
                                                            const weft_shape_t *const *inputs,
                                                            chain_layout_t **out, int *out_failed);
void weft_cpu_chain_layout_destroy(chain_layout_t *l); /* NULL is fine */

#endif /* WEFT_KERNELS_CPU_MATH_CHAIN_H_ */
