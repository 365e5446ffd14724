/* sharding/rule.h - what shardings an op allows, along one axis of a mesh.
 *
 * A rule is made for a node: from its op's factor notation (ops/factors.h) and the inputs in which the op is
 * linear. It has choices. In each, the inputs must have certain shardings, and the outputs then have others:
 *
 *   replicate   everything is Replicate
 *   factor f    dimensions that have f are Shard; outputs that lack it are Partial
 *   linear i    input i is Partial(sum), the others Replicate: outputs are Partial(sum)
 *   together    all inputs of a mask are Partial(sum), the others Replicate: outputs are Partial(sum)
 *
 * The axes of a mesh are independent: any combination of choices, one for each axis, is legal as long as two
 * axes that choose one factor divide it together. An operand that has sizes (ops/factors.h: []) is Replicate,
 * and each device scales its element of the factor to the part; indices of a masked factor are Replicate,
 * too.
 */
#ifndef WEFT_SHARDING_RULE_H_
#define WEFT_SHARDING_RULE_H_

#include "ops/factors.h"
#include "ops/shape_inference.h"
#include "sharding/reshard.h"

typedef enum weft_rule_choice_kind {
  WEFT_RULE_REPLICATE,
  WEFT_RULE_FACTOR,
  WEFT_RULE_LINEAR,
  WEFT_RULE_TOGETHER,
} weft_rule_choice_kind_t;

typedef struct weft_rule_choice {
  weft_rule_choice_kind_t kind;
  int index; /* the factor or the input */
} weft_rule_choice_t;

enum { WEFT_RULE_CHOICES = WEFT_FACTORS + WEFT_OP_MAX_LINEAR + 2 };

/* An input (a variable, where it is a handle) or an output. */
typedef struct weft_rule_operand {
  weft_shape_t shape;
  size_t element_bytes;
} weft_rule_operand_t;

/* Lives as long as the arena that it was made in. */
typedef struct weft_rule {
  const weft_op_def_t *op;
  const char *text; /* its factor notation */
  int num_inputs, num_outputs;
  weft_rule_operand_t *inputs, *outputs;
  weft_factors_t factors;
  int linear;        /* bits: linear in this input, the others being constant */
  bool *is_together; /* by input: linear in all of these together; NULL: not */
} weft_rule_t;

/* The factor notation of a node: the op's, or what its function writes. "" if it has none: everything must be
 * Replicate. In the arena. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_rule_text(const weft_shape_ctx_t *c, weft_arena_t *arena,
                                              const char **out);
/* A rule with the given notation; weft_rule_text's normally. `c` has the shapes of the outputs. Errors:
 * INVALID_ARGUMENT and FAILED_PRECONDITION of weft_factors_make; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_rule_make(const weft_shape_ctx_t *c, const char *text,
                                              weft_arena_t *arena, weft_rule_t *out);

/* All choices on an axis of `size` devices: factors that it divides. Returns how many. */
int weft_rule_choices(const weft_rule_t *rule, int size, weft_rule_choice_t out[WEFT_RULE_CHOICES]);
/* What a choice asks of the inputs, and makes of the outputs. */
void weft_rule_apply(const weft_rule_t *rule, weft_rule_choice_t choice, weft_axis_sharding_t *inputs,
                     weft_axis_sharding_t *outputs);
/* About how many floating-point operations the whole node has: twice the product of its factors' sizes, times
 * the dimensions of its largest operand that must be whole; and the part of them that each device has left.
 */
double weft_rule_flops(const weft_rule_t *rule);
double weft_rule_work(weft_rule_choice_t choice, int size); /* 1 or 1/size */

/* What surrounds a node on a mesh. A sharding that is NONE along an axis is open there: it may become
 * anything, at no cost. With all outputs open the cheapest choice is the one that follows from the inputs
 * (forward); with inputs open, the one that gives the outputs (backward). */
typedef struct weft_rule_use {
  const weft_mesh_t *mesh;
  const weft_reshard_link_t *link;   /* NULL: the default of sharding/reshard */
  const weft_sharding_t *inputs;     /* what they have */
  const weft_sharding_t *outputs;    /* what is wanted of them */
  const weft_rule_choice_t *choices; /* of the other axes of the mesh, as far as they are made */
} weft_rule_use_t;

typedef struct weft_rule_pick {
  weft_rule_choice_t choice, second; /* the cheapest, and the cheapest that is not that */
  double seconds, second_seconds;    /* second_seconds is infinite where there is one choice only */
} weft_rule_pick_t;

/* The cheapest choice along `axis`: what resharding costs from the inputs to what the choice asks of them,
 * and from what it makes to the outputs (a Partial that goes to an open output costs its all-reduce), plus
 * the time of the floating-point operations that a device has left, at WEFT_RULE_GIGAFLOPS. Errors:
 * RESOURCE_EXHAUSTED. */
enum { WEFT_RULE_GIGAFLOPS = 1000 };
WEFT_MUST_CHECK weft_status_t *weft_rule_choose(const weft_rule_t *rule, const weft_rule_use_t *use, int axis,
                                                weft_rule_pick_t *out);

#endif /* WEFT_SHARDING_RULE_H_ */
