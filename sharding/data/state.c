/* sharding/data/state.c - where values come from and where they stay: placeholders, constants, variables,
 * updates, readers. */
#include "sharding/data/analysis.h"

typedef weft_data_value_t value_t;

/* Scans no more than this much of a constant for zeros. */
enum { ZERO_SCAN_BYTES = 1 << 16 };

weft_status_t *weft_data_constant(weft_data_ctx_t *c) {
  const weft_attr_t *a = weft_node_attr(c->node, "value");
  const weft_tensor_t *t = a == NULL || a->kind != WEFT_ATTR_TENSOR ? NULL : a->tensor;
  c->out[0] = weft_data_value(weft_sharding_replicate(0));
  if (t == NULL) return NULL;
  c->out[0].ints = weft_data_ints_of_tensor(c, t);
  if (!weft_data_has_fraction(t->dtype) || t->bytes > ZERO_SCAN_BYTES || t->data == NULL) return NULL;
  c->out[0].zero = true;
  for (size_t i = 0; i < t->bytes && c->out[0].zero; i++)
    c->out[0].zero = ((const unsigned char *)t->data)[i] == 0;
  return NULL;
}

weft_status_t *weft_data_state(weft_data_ctx_t *c) {
  c->run = WEFT_RUN_STATE;
  for (int o = 0; o < c->node->num_outputs; o++) c->out[o].is_state = true;
  return NULL;
}

weft_status_t *weft_data_read(weft_data_ctx_t *c) {
  if (c->in[0].s.kind == WEFT_SHARDING_SINGLE) return weft_data_single(c);
  return NULL; /* each replica reads its copy */
}

weft_status_t *weft_data_look_on(weft_data_ctx_t *c) { /* Assert, CheckNumerics: on what is there */
  bool is_once = c->node->num_inputs > 0;
  for (int i = 0; i < c->node->num_inputs; i++) is_once = is_once && c->in[i].s.kind == WEFT_SHARDING_SINGLE;
  if (is_once) return weft_data_single(c);
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    bool is_condition = c->node->op->batch == WEFT_BATCH_ASSERT && i == 0;
    bool is_none = c->in[i].is_hollow; /* a mean over no rows: nothing is wrong with that */
    if (kind == WEFT_SHARDING_SINGLE || is_none || (is_condition && kind != WEFT_SHARDING_REPLICATE))
      c->required[i] = weft_sharding_replicate(0);
  }
  if (c->node->num_outputs > 0) {
    c->out[0] = c->in[0];
    if (c->required[0].kind != c->in[0].s.kind) c->out[0] = weft_data_value(c->required[0]);
  }
  return NULL;
}

/* What one device prints, once. Replicas exchange nothing
 * inside a loop: each prints there what it has, unless all have the same. */
weft_status_t *weft_data_show(weft_data_ctx_t *c) {
  int first = c->node->op->batch == WEFT_BATCH_PRINT ? 1 : 0; /* so many are passed on */
  bool can_gather = !weft_data_in_loop(c), has_all = true;
  WEFT_RETURN_IF_ERROR(weft_data_look_on(c));
  if (c->run == WEFT_RUN_SINGLE) return NULL;
  for (int i = first; i < c->node->num_inputs; i++) {
    const weft_data_value_t *v = &c->in[i];
    bool is_true = v->s.kind == WEFT_SHARDING_REPLICATE && v->s.degree == 0 && !v->is_hollow;
    has_all = has_all && (is_true || (can_gather && v->s.kind != WEFT_SHARDING_LOCAL));
  }
  for (int i = first; i < c->node->num_inputs && has_all; i++)
    c->required[i] = weft_sharding_of_kind(WEFT_SHARDING_SINGLE);
  c->prints_once = has_all;
  return NULL;
}

/* Variables are written with true values only, so that all copies stay equal. */
weft_status_t *weft_data_update(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  c->run = WEFT_RUN_UPDATE;
  if (n->num_inputs > 0 && c->in[0].s.kind == WEFT_SHARDING_SINGLE) return weft_data_single(c);
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].is_state) continue;
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) {
      return weft_data_refuse(
          n, "it would write a value that is local to each replica into a variable (input %d)", i);
    }
    c->required[i] = weft_sharding_replicate(0);
  }
  for (int o = 0; o < n->num_outputs; o++) {
    c->out[o] = weft_data_value(weft_sharding_replicate(0));
    c->out[o].is_state = n->output_types[o] >= WEFT_REF;
  }
  return NULL;
}

/* QueueDequeueMany and its like: a batch, read once and split. */
weft_status_t *weft_data_batch_reader(weft_data_ctx_t *c) {
  weft_status_t *s = weft_data_single(c);
  for (int o = 0; s == NULL && o < c->node->num_outputs; o++) {
    if (weft_data_out_shape(c, o)->rank == 0) continue;
    c->out[o].is_batch = true;
    c->out[o].whole = 0;
    c->out[o].factor = 1;
  }
  return s;
}

bool weft_data_is_batch_placeholder(const weft_data_analysis_t *a, const weft_node_t *n) {
  const weft_data_options_t *o = a->options;
  for (int i = 0; i < o->num_batch; i++) {
    if (o->batch[i] == n) return true;
  }
  if (o->num_batch > 0 || n->output_shapes == NULL) return false;
  return n->output_shapes[0].rank > 0 && n->output_shapes[0].dims[0] == WEFT_UNKNOWN_DIM;
}

weft_status_t *weft_data_placeholder(weft_data_ctx_t *c) {
  if (!weft_data_is_batch_placeholder(c->analysis, c->node)) {
    if (c->node->num_inputs > 0 && c->in[0].s.kind != WEFT_SHARDING_REPLICATE)
      c->required[0] = weft_sharding_replicate(0);
    return NULL;
  }
  if (c->node->num_inputs > 0) c->required[0] = weft_sharding_shard(0, 0);
  c->out[0] = weft_data_value(weft_sharding_shard(0, 0));
  c->out[0].factor = 1;
  return NULL;
}
