/* kernels/cpu/math/chain.h - a chain compiled for the CPU, and for the shapes of its inputs. Private to the
 * chain*.c of this folder.
 *
 * The links of a chain are divided into phases, which follow each other. A phase runs over its elements in
 * blocks: a block passes through all links of the phase before the next one begins. There are three kinds:
 *
 *   of elements  all results have equally many elements;
 *   of rows      some links read rows of elements, and may fold them; results have an element for each row,
 * or for each element of each row, and a block is some whole rows; whole        one link folds its operand in
 * another way, with all of the device's threads.
 *
 * What is broadcast belongs to an earlier phase, so that it is computed once; but a value of a row is read by
 * the elements of that row within one phase. A unit of a phase is an element, or a row.
 *
 * A value lies in an input, in an output, in kept memory if a later phase reads it, or else in a slot: memory
 * for one block, which is used again when the last link has read it.
 */
#ifndef WEFT_KERNELS_CPU_MATH_CHAIN_H_
#define WEFT_KERNELS_CPU_MATH_CHAIN_H_

#include <stdatomic.h>

#include "base/parallel_for.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/math/reduce.h"
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
  CHAIN_FOLD,   /* a reduction */
  CHAIN_COPY,   /* a reduction along dimensions of 1: the operand */
  CHAIN_ROWS,   /* of rows.h */
  CHAIN_SPREAD, /* no link: a value that is broadcast, in the phase's shape */
} chain_loop_form_t;

typedef union chain_fn {
  weft_map1_fn *one;
  weft_map2_fn *two;
  weft_choose_fn *choose;
  weft_sum_fn *sum;
  const reduce_fns_t *fold;
  weft_rows_fn *rows;
} chain_fn_t;

typedef struct chain_loop {
  chain_loop_form_t form;
  chain_fn_t fn;
  uint32_t flags; /* weft_map_flags_t */
  size_t size;    /* of an element of the result */
  bool adds_bias; /* CHAIN_TWO: the second operand is a vector as long as a row of the first */
} chain_loop_t;

/* The loop of an op with these types; false: the CPU has none that a chain may run. `operand`: of
 * weft_chain_main_operand(). */
bool weft_cpu_chain_find_loop(const weft_op_def_t *op, weft_dtype_t operand, weft_dtype_t result,
                              chain_loop_t *out);

/* A chain as its plan knows it. */
typedef struct cpu_chain {
  weft_chain_t chain;
  const chain_loop_t *loops;       /* by link */
  const weft_kernel_node_t *nodes; /* by link: what its failure is of */
  const bool *is_axes;             /* by input: a reduction reads its value */
} cpu_chain_t;

/* ---- a layout: what a chain does for inputs of certain shapes ---- */

/* The value of unit `begin` lies at bases[base] + offset + begin * advance, that of the next ones behind it.
 */
typedef struct chain_place {
  size_t offset;
  uint32_t base, advance; /* advance: 0 for slots, and for what all units read */
} chain_place_t;

enum { CHAIN_BASE_SLOTS, CHAIN_BASE_KEPT, CHAIN_FIRST_BASE }; /* then the inputs, then the outputs */

typedef struct chain_operand {
  chain_place_t at;
  uint32_t row; /* of a call row by row: bytes from one row to the next */
  int step;     /* 0: one element for all */
} chain_operand_t;

typedef struct chain_call {
  chain_fn_t fn;
  chain_place_t to;
  uint32_t first_operand;
  uint32_t width;      /* elements of a unit: of the result, of a fold those of its operand */
  uint16_t form, size; /* size: of an element of the result, of a fold that of its operand */
  bool by_rows;        /* operands are broadcast along rows: a call of the loop for each row */
  union {
    uint32_t num_operands;
    uint32_t spread; /* which of the layout's broadcasts */
  } is;
} chain_call_t;

typedef struct chain_phase {
  int64_t count, block; /* units; block: at once, which threads share out */
  int64_t width;        /* elements of a unit: of a row, or 1 */
  uint32_t first_call, end_call;
  const weft_reduced_dims_t *whole; /* of a phase that is one whole reduction; NULL: it is another */
  size_t slot_bytes;                /* of all slots */
  bool is_serial;                   /* one thread does it */
  weft_unit_cost_t cost;            /* of a block */
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
  int64_t *shapes; /* of the inputs: a rank and that many dims, of axes their values; one after the other */
  chain_call_t *calls;
  chain_operand_t *operands;
  weft_broadcast_t *broadcasts;
  chain_phase_t *phases;
  chain_output_t *outputs; /* the chain's num_outputs */
  int num_phases, num_calls, num_operands, num_broadcasts;
  size_t kept_bytes;
  bool is_streamed; /* of attention.c: the last phase reads scores and writes its output where its block lies
                     */
} chain_layout_t;   /* Immutable once made. */

/* The layout for inputs of these shapes, and axes of these values. Errors: what the kernel of a link says of
 * shapes that do not fit, *out_failed is then that link; RESOURCE_EXHAUSTED, *out_failed is then -1. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_layout_create(const cpu_chain_t *c,
                                                            const weft_tensor_t *const *inputs,
                                                            chain_layout_t **out, int *out_failed);
void weft_cpu_chain_layout_destroy(chain_layout_t *l); /* NULL is fine */

/* ---- chains of a node ---- */

/* Sets of input shapes that are remembered. Further ones are laid out in each step. */
enum { CHAIN_MOST_LAYOUTS = 8 };

/* The chain that a node's attributes describe. Thread-safe: layouts are published once, with release order,
 * and live as long as this. */
typedef struct chain_state {
  cpu_chain_t c;
  weft_arena_t arena; /* of `c` */
  chain_layout_t *_Atomic layouts[CHAIN_MOST_LAYOUTS];
} chain_state_t;

/* Reads the attributes of the node, whose inputs and outputs are the chain's. `out` is zero. Errors:
 * INVALID_ARGUMENT; UNIMPLEMENTED: the CPU has no loop for a link; RESOURCE_EXHAUSTED. deinit in any case. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_init(const weft_kernel_setup_t *setup, chain_state_t *out);
void weft_cpu_chain_deinit(chain_state_t *st);

/* The layout for these inputs; *out_is_kept: it stays, else the caller destroys it. `finish` completes a new
 * one before it is published; NULL: there is nothing to do. Errors as weft_cpu_chain_layout_create's. */
typedef void chain_finish_fn(const void *arg, chain_layout_t *l);
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_find_layout(chain_state_t *st, const weft_value_t *inputs,
                                                          chain_finish_fn *finish, const void *arg,
                                                          const chain_layout_t **out, bool *out_is_kept,
                                                          int *out_failed);

/* Phases [begin, end) over values at `bases`, num_bases of them; that of slots need not be set. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_run(const chain_layout_t *l, weft_thread_pool_t *pool,
                                                  char *const *bases, int num_bases, int begin, int end);
/* Units [begin, begin + units) of a phase that is not whole, at most p->block of them, on the calling thread.
 * bases[CHAIN_BASE_SLOTS]: p->slot_bytes bytes, aligned to 16. */
void weft_cpu_chain_run_block(const chain_layout_t *l, const chain_phase_t *p, char *const *bases,
                              int64_t begin, int64_t units);

#endif /* WEFT_KERNELS_CPU_MATH_CHAIN_H_ */
