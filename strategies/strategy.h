/* strategies/strategy.h - a strategy: a rewrite of a single-device training graph for a cluster.
 *
 * Strategies know no transport and run nothing. A strategy is one const struct in a
 * file of its own, and one line of strategies.def. What most have in common, probing
 * by a rewrite that is thrown away and explaining by the notes of the rewrite, stands
 * here for all. The text form is "name", "name:4", "name:key=value,key=value".
 */
#ifndef WEFT_STRATEGIES_STRATEGY_H_
#define WEFT_STRATEGIES_STRATEGY_H_

#include "strategies/rewrite.h"

typedef struct weft_strategy weft_strategy_t;
struct weft_strategy {      /* Functions are given the strategy itself. */
  const char *name, *about; /* a line for lists */
  const char *usage;        /* "mirrored:N[,bytes_per_pack=BYTES,...]", then a line per option */
  /* Are these options that it has, and can they be given together? Looks at no graph and no cluster.
   * Errors: INVALID_ARGUMENT naming the option. */
  weft_status_t *(*check)(const weft_strategy_t *self, weft_str_t options);
  /* May it run here, and at what cost? Errors: as rewrite's. */
  weft_status_t *(*probe)(const weft_strategy_t *self, const weft_strategy_request_t *r, weft_cost_t *out);
  /* *out is empty (an arena alone); the caller deinits it in any case.
   * Errors: INVALID_ARGUMENT naming the option, or the node and why it cannot be rewritten correctly. */
  weft_status_t *(*rewrite)(const weft_strategy_t *self, const weft_strategy_request_t *r,
                            weft_rewrite_t *out);
  /* A text for people about a rewrite of its own. */
  weft_status_t *(*explain)(const weft_strategy_t *self, const weft_rewrite_t *r, weft_strbuf_t *out);
};

/* The default probe: rewrites the graph and discards the result.
 */
WEFT_MUST_CHECK weft_status_t *weft_strategy_probe_by_trial(const weft_strategy_t *self,
                                                            const weft_strategy_request_t *r,
                                                            weft_cost_t *out);
/* The default explanation: a summary of variables, batch, collectives, what each task receives and
 * sends, the cost, and the notes. Not a line per edge. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_explain_rewrite(const weft_strategy_t *self,
                                                             const weft_rewrite_t *r, weft_strbuf_t *out);

/* NULL-ended, in the order of strategies.def. */
extern const weft_strategy_t *const weft_strategies[];
/* Splits "name:options"; NOT_FOUND listing what there is. `*options` views into text. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_find(weft_str_t text, const weft_strategy_t **out,
                                                  weft_str_t *options);
/* Is "name:options" the text of a strategy? Errors: NOT_FOUND as above, or its check's. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_check(weft_str_t text);
/* Finds, rewrites, checks the result's shapes. The way for callers. *out is empty on failure. An error of a
 * graph that cannot be split over replicas names a strategy that takes it, if there is one. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_apply(weft_str_t text, const weft_strategy_request_t *r,
                                                   weft_rewrite_t *out);
/* The details: a line for every collective, and for every value that is sent. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_print_details(const weft_rewrite_t *r, weft_strbuf_t *out);
/* Explains a rewrite by the strategy that made it. */
WEFT_MUST_CHECK weft_status_t *weft_strategy_explain(const weft_rewrite_t *r, weft_strbuf_t *out);

#endif /* WEFT_STRATEGIES_STRATEGY_H_ */
