/* sharding/data/elementwise.c - elementwise ops, where they are more than their factor notation: lists,
 * values of which only the shape matters, what passes on as it is.
 */
#include "sharding/data/rules.h"

typedef weft_data_value_t value_t;

/* Only the shape matters: a value of the same shape, whatever the input is worth. */
static weft_status_t *like(weft_data_ctx_t *c) {
  value_t v = c->in[0];
  if (v.s.kind == WEFT_SHARDING_PARTIAL || v.s.kind == WEFT_SHARDING_COUNTS) v.s = weft_sharding_replicate(0);
  v.s.degree = 0;
  v.ints = NULL;
  v.is_state = false;
  v.zero = c->node->op->batch == WEFT_BATCH_ZEROS_LIKE;
  c->out[0] = v;
  if (v.s.kind == WEFT_SHARDING_SINGLE) c->run = WEFT_RUN_SINGLE;
  return NULL;
}

/* Linear in its only input, without losing fractions: as it comes. */
static bool passes_on(const weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  bool is_linear = (n->op->flags & WEFT_OP_LINEAR_IN(0)) != 0 || (n->op->linear_together & 1) != 0;
  return n->num_inputs == 1 && is_linear && c->in[0].s.kind != WEFT_SHARDING_COUNTS &&
         weft_data_has_fraction(n->input_types[0]) == weft_data_has_fraction(n->output_types[0]);
}

/* Is an input a thing of each replica's own? So is the result then. */
static bool is_local(weft_data_ctx_t *c) {
  bool any = false;
  for (int i = 0; i < c->node->num_inputs; i++) any = any || c->in[i].s.kind == WEFT_SHARDING_LOCAL;
  for (int i = 0; any && i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    bool is_true =
        kind != WEFT_SHARDING_PARTIAL && kind != WEFT_SHARDING_SINGLE && kind != WEFT_SHARDING_COUNTS;
    if (!is_true) c->required[i] = weft_sharding_replicate(0);
  }
  for (int o = 0; any && o < c->node->num_outputs; o++)
    c->out[o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
  return any;
}

weft_status_t *weft_data_elementwise(weft_data_ctx_t *c) {
  const weft_op_def_t *op = c->node->op;
  bool is_shape = op->batch == WEFT_BATCH_ZEROS_LIKE || op->batch == WEFT_BATCH_ONES_LIKE;
  bool is_list = c->node->num_inputs > 0 && c->node->input_types[0] == WEFT_VARIANT &&
                 c->in[0].s.kind == WEFT_SHARDING_LOCAL;
  if (is_list && is_shape) return weft_data_list_zeros(c);
  if (is_list && (op->linear_together & 1) != 0) return weft_data_list_sum(c);
  if (is_list) return weft_data_refuse(c->node, "its effect on the elements of a list is unknown");
  if (is_shape) return like(c);
  if (passes_on(c)) {
    weft_data_pass(c, 0, 0);
    c->out[0].ints = NULL;
    c->out[0].is_state = false;
    return NULL;
  }
  return is_local(c) ? NULL : weft_data_by_factors(c);
}
