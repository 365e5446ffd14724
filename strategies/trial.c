/* strategies/trial.c - the checks after every rewrite, and the cost of a strategy by a trial rewrite. */
#include "strategies/trial.h"

#include "graph/passes.h"
#include "strategies/gradient_shapes.h"
#include "strategies/traffic.h"

weft_status_t *weft_strategy_finish(const weft_strategy_t *strategy, const weft_strategy_request_t *r,
                                    weft_rewrite_t *out) {
  weft_status_t *s = weft_status_annotate(weft_pass_infer_shapes(out->graph),
                                          "in the graph that strategy %s made", strategy->name);
  if (s == NULL) s = weft_infer_gradient_shapes(out->graph);
  return s == NULL ? weft_rewrite_measure(out, r->cluster, WEFT_ROWS_UNKNOWN) : s;
}

weft_status_t *weft_strategy_probe_by_trial(const weft_strategy_t *self, const weft_strategy_request_t *r,
                                            weft_cost_t *out) {
  weft_rewrite_t trial = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = self->rewrite(self, r, &trial);
  if (s == NULL) s = weft_strategy_finish(self, r, &trial);
  if (s == NULL) *out = trial.cost;
  weft_rewrite_deinit(&trial);
  return s;
}
