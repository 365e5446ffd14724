/* strategies/parameter_server_cost.c - the notes of a rewrite for parameter servers. */
#include "strategies/parameter_server.h"

static const char *how(const weft_ps_options_t *o) {
  switch (o->mode) {
    case WEFT_PS_ASYNC: return "each worker applies its gradients at once";
    case WEFT_PS_SYNC: return "gradients are averaged, then applied once";
    case WEFT_PS_SSP:
      return "each worker applies its gradients at once, but waits for workers that are far behind";
  }
  return "";
}

weft_status_t *weft_ps_explain(weft_ps_t *p) {
  const weft_placed_graph_t *l = &p->placed;
  WEFT_RETURN_IF_ERROR(weft_rewrite_note(p->out, "parameter servers: %d, workers: %d; %s",
                                         p->places.num_servers, p->places.num_workers, how(&p->options)));
  int draws = 0;
  for (int k = 0; k < l->num_nodes; k++) draws += weft_placed_draws(l, l->order[k]);
  if (draws > 0 && p->places.num_workers > 1) {
    WEFT_RETURN_IF_ERROR(weft_rewrite_note(
        p->out, "random numbers: each worker draws a sequence of its own, with a seed of its own (%d op%s)",
        draws, draws == 1 ? "" : "s"));
  }
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    bool normalises = (n->flags & WEFT_OP_BATCH_NORM) != 0 && weft_node_attr_bool(n, "is_training", true) &&
                      l->in_step[n->id];
    if (!normalises) continue;
    WEFT_RETURN_IF_ERROR(weft_rewrite_note(
        p->out, "'%.*s' normalises with the statistics of each worker's own batch", WEFT_STR_ARGS(n->name)));
  }
  return NULL;
}
