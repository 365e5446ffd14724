/* tools/top/top.h - `weft top`: watches a cluster, on a terminal, as text or as JSON. */
#ifndef WEFT_TOOLS_TOP_TOP_H_
#define WEFT_TOOLS_TOP_TOP_H_

#include "tools/top/view.h"

typedef struct weft_top_spec {
  const char *cluster; /* "worker=h:1,h:2;ps=h:3" */
  double every;        /* seconds between two views */
  double straggler_factor;
  weft_top_order_t order; /* at first */
  bool is_once, is_json, shows_nodes;
} weft_top_spec_t;

/* Until it is told to end. *out_signal: the signal that ended it, or 0. Once in a process, which ends soon
 * after. Errors: INVALID_ARGUMENT (the cluster), UNAVAILABLE (once: no task has answered),
 * FAILED_PRECONDITION (the terminal), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_top_run(const weft_top_spec_t *spec, int *out_signal);

#endif /* WEFT_TOOLS_TOP_TOP_H_ */
