/* executor/functions.h - the functions that nodes of a session's plans call; for this folder only.
 *
 * Each is compiled to a plan of its own at its first call. What owns what:
 *
 *   op segment, or a plan without one -> functions -> callee -> its plan -> states of kernels -..-> callees
 *
 * The last arrow is lent: a function may call itself.
 */
#ifndef WEFT_EXECUTOR_FUNCTIONS_H_
#define WEFT_EXECUTOR_FUNCTIONS_H_

#include "executor/executor.h"
#include "graph/passes/optimize.h"
#include "kernels/function_call.h"

/* Thread-safe. Refcounted. */
WEFT_MUST_CHECK weft_status_t *weft_functions_create(weft_functions_t **out);
void weft_functions_release(weft_functions_t *f);                  /* NULL is fine */
weft_functions_t *weft_op_segment_functions(weft_op_segment_t *s); /* lent */

/* What prepare functions of one graph's nodes get. */
typedef struct function_source {
  weft_graph_functions_t base;
  weft_functions_t *functions;
  weft_function_library_t *library;
  const weft_plan_options_t *options;
  weft_pass_settings_t passes; /* of the graphs of what is called */
} function_source_t;
/* A run of a plan whose results are `call`'s: a call of a function or of a graph. `name`, for messages, is
 * lent until it is done; the plan need not be. */
void weft_plan_call(weft_exec_plan_t *plan, weft_str_t name, const weft_function_call_t *call);

/* graph_runner.c */
WEFT_MUST_CHECK weft_status_t *weft_graph_runner_create(const weft_graph_functions_t *f,
                                                        weft_device_t *device, weft_graph_runner_t **out);
void weft_function_source_init(function_source_t *s, weft_functions_t *functions,
                               weft_function_library_t *library, const weft_plan_options_t *options,
                               const weft_pass_settings_t *passes);

/* called_graph.c: rewrites `g` by the passes that `settings` ask for and compiles it. Consumes g. Errors: as
 * weft_plan_create. */
WEFT_MUST_CHECK weft_status_t *weft_called_graph_compile(weft_graph_t *g,
                                                         const weft_pass_settings_t *settings,
                                                         const weft_plan_options_t *options,
                                                         weft_exec_plan_t **out);

#endif /* WEFT_EXECUTOR_FUNCTIONS_H_ */
