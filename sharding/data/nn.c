/* sharding/data/nn.c - batch normalisation. */
#include "sharding/data/axis.h"

static weft_status_t *give_up(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SHARDING_REPLICATE && kind != WEFT_SHARDING_SINGLE) return weft_data_replicate_all(c);
  }
  weft_status_t *s = weft_data_single(c);
  if (s == NULL && c->in[0].whole == 0) c->out[0].whole = 0;
  return s;
}

/* Training: each replica normalises its rows by their own mean and variance, as TensorFlow's MirroredStrategy
 * does; what moving averages get is the mean of the replicas'. */
weft_status_t *weft_data_batch_norm(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  if (c->in[0].s.kind != WEFT_SHARDING_SHARD || c->in[0].s.dim != 0) return give_up(c);
  c->required[0].degree = 0;
  for (int i = 1; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SHARD) return give_up(c);
    c->required[i] = weft_sharding_replicate(0);
  }
  bool is_training = weft_node_attr_bool(n, "is_training", true);
  c->out[0] = weft_data_value(weft_sharding_shard(0, 0));
  c->out[0].factor = c->in[0].factor;
  for (int o = 1; o < n->num_outputs; o++) {
    weft_axis_sharding_t s = weft_sharding_of_kind(WEFT_SHARDING_LOCAL);
    if (o <= 2) s = is_training ? weft_sharding_partial(1) : weft_sharding_replicate(0);
    c->out[o] = weft_data_value(s);
  }
  return NULL;
}

weft_status_t *weft_data_batch_norm_grad(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  bool fits = c->in[0].s.kind == WEFT_SHARDING_SHARD && c->in[1].s.kind == WEFT_SHARDING_SHARD &&
              c->in[0].s.dim == 0 && c->in[1].s.dim == 0;
  if (!fits) return give_up(c);
  int d = c->in[0].s.degree;
  c->required[1].degree = 0;
  for (int i = 2; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SHARD) return give_up(c);
    /* statistics come from the forward op of the same replica, as it has them */
    bool is_statistic =
        i >= 3 && (c->in[i].s.kind == WEFT_SHARDING_LOCAL || c->in[i].s.kind == WEFT_SHARDING_PARTIAL);
    if (!is_statistic) c->required[i] = weft_sharding_replicate(0);
  }
  for (int o = 0; o < n->num_outputs; o++) {
    weft_axis_sharding_t s = o == 0   ? weft_sharding_shard(0, d)
                             : o <= 2 ? weft_sharding_partial(d)
                                      : weft_sharding_of_kind(WEFT_SHARDING_LOCAL);
    c->out[o] = weft_data_value(s);
  }
  c->out[0].factor = c->in[0].factor;
  return NULL;
}
