/* tools/strategy/rewrite_file.h - a graph file under a strategy. */
#ifndef WEFT_TOOLS_STRATEGY_REWRITE_FILE_H_
#define WEFT_TOOLS_STRATEGY_REWRITE_FILE_H_

#include "strategies/strategy.h"
#include "tools/options.h"

/* What the command line says is fed, fetched and run. */
typedef struct weft_run_names {
  const weft_option_texts_t *feeds; /* "NAME=VALUE", or just "NAME" */
  const bool *is_batch;      /* of each feed: a step is given rows of it; NULL: not known */
  const weft_option_texts_t *fetches, *more_fetches; /* the second: "NAME=FILE" */
  const weft_option_texts_t *targets, *inits;
  bool marks_variables; /* strategies/origin.h */
  bool is_one_session;  /* weft_strategy_request_t */
  uint64_t agreement;   /* weft_strategy_request_t */
} weft_run_names_t;

/* Reads a GraphDef and applies the strategy "name:options". Without any fetch, target or init in `names`, all nodes that
 * nobody consumes and that are made of placeholders are its targets, others without outputs its inits; without feeds, all
 * placeholders are fed. Errors: as the strategy's. */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_graph_def(weft_str_t graph_def, const char *strategy,
                                                      const weft_cluster_view_t *cluster,
                                                      const weft_run_names_t *names, weft_rewrite_t *out);

#endif /* WEFT_TOOLS_STRATEGY_REWRITE_FILE_H_ */
