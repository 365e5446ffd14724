/* kernels/cpu/math/chain_maker.h - a layout (chain.h) while it is made. Private to chain_layout.c and
 * chain_phases.c.
 */
#ifndef WEFT_KERNELS_CPU_MATH_CHAIN_MAKER_H_
#define WEFT_KERNELS_CPU_MATH_CHAIN_MAKER_H_

#include "kernels/cpu/math/chain.h"

/* An index that there is not. */
enum { NONE = -1 };

typedef enum lies_in { IN_INPUT, IN_OUTPUT, IN_KEPT, IN_SLOT } lies_in_t;

typedef struct chain_value {
  weft_shape_t shape;
  int64_t count;
  lies_in_t where;
  int index;      /* which input, output or slot */
  size_t kept_at; /* IN_KEPT */
  int last_call;  /* the link that reads it last, in the layout's order; NONE */
} chain_value_t;

/* What a link of form CHAIN_FOLD or CHAIN_ROWS does with the shape that its operand has. */
typedef struct chain_fold {
  weft_reduced_dims_t dims; /* of a fold */
  int64_t rows;             /* that it goes through one by one; 0: it is whole */
} chain_fold_t;

typedef struct layout_maker {
  const cpu_chain_t *c;
  chain_layout_t *l;
  weft_arena_t arena; /* of what only making it takes */
  chain_value_t *values;
  chain_loop_form_t *forms; /* by link */
  chain_fold_t *folds;      /* by link */
  int *phase_of;            /* by link; NONE: its result has no elements, so that it is not run */
  int *order;               /* num_ordered links, by phase, producers first */
  int num_ordered;
} layout_maker_t;

static inline const chain_value_t *chain_result(const layout_maker_t *m, int link) {
  return &m->values[m->c->chain.num_inputs + link];
}

/* Does a link go through rows of elements? */
static inline bool chain_reads_rows(const layout_maker_t *m, int link) {
  return m->forms[link] == CHAIN_FOLD || m->forms[link] == CHAIN_ROWS;
}
static inline bool chain_is_fold(const layout_maker_t *m, int link) { return m->forms[link] == CHAIN_FOLD; }

/* Shapes of all values, forms and folds. `out_failed` as weft_cpu_chain_layout_create() has it. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_find_shapes(layout_maker_t *m,
                                                          const weft_tensor_t *const *inputs,
                                                          int *out_failed);
/* The layout's phases, with their units, and which links each has. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_chain_find_phases(layout_maker_t *m);

/* How `v` is read by the elements of `rows` rows that make up `shape`: one element for each row, or the same
 * row of elements for each. */
bool weft_cpu_chain_is_per_row(const chain_value_t *v, const weft_shape_t *shape, int64_t rows);
bool weft_cpu_chain_is_per_column(const chain_value_t *v, const weft_shape_t *shape, int64_t rows);

#endif /* WEFT_KERNELS_CPU_MATH_CHAIN_MAKER_H_ */
