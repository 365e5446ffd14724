/* ops/updates.h - updates of variables that are computed together: what a _WeftUpdates says of them.
 *
 * Its members were nodes of one op, whose attributes were equal. Its inputs are the first member's, then the
 * second's, and so on; so are its outputs.
 */
#ifndef WEFT_OPS_UPDATES_H_
#define WEFT_OPS_UPDATES_H_

#include "ops/op.h"

/* What a _WeftUpdates consists of. Lent by its attributes. */
typedef struct weft_updates {
  const weft_op_def_t *op;
  int n;                       /* members */
  const weft_str_t *nodes;     /* n names: what the nodes were called */
  int num_inputs, num_outputs; /* of a member */
} weft_updates_t;

/* Reads the attributes of a _WeftUpdates. Errors: INVALID_ARGUMENT: they describe none. */
WEFT_MUST_CHECK weft_status_t *weft_updates_read(const weft_named_attr_t *attrs, int num_attrs,
                                                 weft_updates_t *out);
/* The attributes that a member had, out of those of the _WeftUpdates: op->num_attrs of them in `out`, which
 * lend what `attrs` has. Errors: INVALID_ARGUMENT: one is missing. */
WEFT_MUST_CHECK weft_status_t *weft_updates_member_attrs(const weft_op_def_t *op,
                                                         const weft_named_attr_t *attrs, int num_attrs,
                                                         weft_named_attr_t *out);

/* The attributes of a _WeftUpdates, WEFT_UPDATES_NUM_ATTRS and op->num_attrs of them. `types` and `results`:
 * of all inputs and outputs. `member`: the attributes of each member. They lend what is given, and names in
 * `arena`. Errors: RESOURCE_EXHAUSTED. */
enum { WEFT_UPDATES_NUM_ATTRS = 4 };
WEFT_MUST_CHECK weft_status_t *weft_updates_attrs(weft_arena_t *arena, const weft_updates_t *u,
                                                  const int *types, const int *results,
                                                  const weft_named_attr_t *member, int num_member,
                                                  weft_named_attr_t *out);

#endif /* WEFT_OPS_UPDATES_H_ */
