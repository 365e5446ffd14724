/* kernels/function_call.h - how a kernel runs a function of its graph's library, or a graph that it is given.
 *
 * A kernel finds its function in prepare and calls it as often as it likes, from
 * any thread:
 *
 *   prepare    weft_knode_callee(setup, "f", &state->f)     nothing is compiled yet
 *   compute    weft_callee_run(state->f, &call)             compiles at the first call of all
 *                 `-> call.done(arg, status, results, n)    once, on any thread
 *
 * There is one callee for each function, its attributes and a device, in all of a session; so what the
 * function's nodes keep between calls, such as the state of a random generator, goes on from call to call. A
 * pass through a data set has callees of its own (weft_callee_apart).
 * The executor implements this (executor/functions.c).
 */
#ifndef WEFT_KERNELS_FUNCTION_CALL_H_
#define WEFT_KERNELS_FUNCTION_CALL_H_

#include "base/hash_map.h"
#include "kernels/kernel.h"

/* Calls that are made within calls. A function that calls itself ends with an error before memory does. */
enum { WEFT_MAX_CALL_DEPTH = 200 };

/* One call. What it points to is lent until done is called. */
typedef struct weft_function_call {
  weft_tensor_t *const *args; /* num_args, in the order of the flat signature */
  int num_args, num_results;
  weft_canceller_t *canceller; /* ends the call with CANCELLED; NULL: nothing does */
  const weft_step_t *step;     /* that the call is part of: its collectives are the call's, too, and its depth
                                  counts; NULL: of none. A failure of the call does not end the step. Looked at
                                  only until weft_callee_run returns */
  bool runs_here; /* starts on the caller's thread, which must be one that may take its time, instead of on
                     the pool; done may be called before weft_callee_run returns */
  /* Called once, on any thread, with no lock held; owns `status`, the first failure of a node, which it names
   * as "function/node". `results`: num_results tensors; what the callee sets to NULL is its own, the others
   * are released. NULL after a failure. */
  void (*done)(void *arg, weft_status_t *status, weft_tensor_t **results);
  void *arg;
} weft_function_call_t;

typedef struct weft_callee weft_callee_t; /* Thread-safe. */
typedef struct weft_callee_ops {
  void (*run)(weft_callee_t *callee, const weft_function_call_t *call);
  void (*retain)(weft_callee_t *callee);
  void (*release)(weft_callee_t *callee);
  weft_status_t *(*num_results)(weft_callee_t *callee, int *out);
  bool (*holds)(weft_callee_t *callee, uint64_t flag);
  weft_status_t *(*on)(weft_callee_t *callee, weft_device_t *device, weft_callee_t **out);
  weft_status_t *(*apart)(weft_callee_t *callee, weft_callee_t **out);
  weft_status_t *(*save)(weft_callee_t *callee, weft_strbuf_t *out);
  weft_status_t *(*load)(weft_callee_t *callee, weft_str_t from);
  weft_status_t *(*write)(weft_callee_t *callee, weft_map_t *written, weft_strbuf_t *out);
} weft_callee_ops_t;
struct weft_callee {
  const weft_callee_ops_t *ops;
};

/* Errors (through done): NOT_FOUND (there is no such function), INVALID_ARGUMENT (it is not valid, takes
 * other arguments, returns more results, or calls are nested too deep), INTERNAL (fewer results), CANCELLED,
 * what its nodes fail with. The function runs on the pool of its device, never on the caller's stack but with
 * runs_here. */
static inline void weft_callee_run(weft_callee_t *callee, const weft_function_call_t *call) {
  callee->ops->run(callee, call);
}
/* For those that keep it longer than the kernel's state lives. Its device must outlive it. */
static inline weft_callee_t *weft_callee_retain(weft_callee_t *callee) {
  callee->ops->retain(callee);
  return callee;
}
static inline void weft_callee_release(weft_callee_t *callee) { /* NULL is fine */
  if (callee != NULL) callee->ops->release(callee);
}

/* How many results the function has. Errors: those of a call that was not valid. */
static inline weft_status_t *weft_callee_num_results(weft_callee_t *callee, int *out) {
  return callee->ops->num_results(callee, out);
}
/* Does the function hold a node whose op has that flag (WEFT_OP_...)? It may do so in a function that it
 * names. */
static inline bool weft_callee_holds(weft_callee_t *callee, uint64_t flag) {
  return callee->ops->holds(callee, flag);
}

/* The same function on another device of the task. *out lives as long as `callee`. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK static inline weft_status_t *weft_callee_on(weft_callee_t *callee, weft_device_t *device,
                                                            weft_callee_t **out) {
  return callee->ops->on(callee, device, out);
}

/* The same function with random numbers that begin anew, its own and those of the functions that it calls.
 * *out: owned by the caller; `callee` itself if it draws none. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK static inline weft_status_t *weft_callee_apart(weft_callee_t *callee, weft_callee_t **out) {
  return callee->ops->apart(callee, out);
}

/* Appends what the function's nodes keep between calls (weft_kernel_keeping_t), or nothing; and sets it. No
 * call runs meanwhile. Errors of load: those of a call that was not valid; INVALID_ARGUMENT: it is of another
 * function; DATA_LOSS. */
WEFT_MUST_CHECK static inline weft_status_t *weft_callee_save(weft_callee_t *callee, weft_strbuf_t *out) {
  return callee->ops->save(callee, out);
}
WEFT_MUST_CHECK static inline weft_status_t *weft_callee_load(weft_callee_t *callee, weft_str_t from) {
  return callee->ops->load(callee, from);
}

/* Appends the function, and all those that it may call, as fields of a FunctionDefLibrary. `written`: the
 * names that are there already, which grows; its keys live as long as the callees. Errors: NOT_FOUND,
 * INVALID_ARGUMENT (another function of that name is there), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK static inline weft_status_t *weft_callee_write(weft_callee_t *callee, weft_map_t *written,
                                                               weft_strbuf_t *out) {
  return callee->ops->write(callee, written, out);
}

/* ---- graphs that a kernel runs ---- */

/* Runs graphs that come as bytes, on one device, with the functions of the node's own graph behind those that
 * they bring. Thread-safe. */
typedef struct weft_graph_runner weft_graph_runner_t;
typedef struct weft_graph_runner_ops {
  void (*run)(weft_graph_runner_t *runner, weft_str_t graph_def, const weft_function_call_t *call);
  void (*destroy)(weft_graph_runner_t *runner);
} weft_graph_runner_ops_t;
struct weft_graph_runner {
  const weft_graph_runner_ops_t *ops;
};
/* Compiles the graph and runs what its last _Retval needs, whose value is the one result of the call; it has
 * no arguments. `graph_def` is lent until this returns. The graph is gone when the call is done, but for what
 * its values hold. Errors (through done): INVALID_ARGUMENT "Could not parse GraphDef", or what importing,
 * compiling and running it fails with; CANCELLED. */
static inline void weft_graph_runner_run(weft_graph_runner_t *runner, weft_str_t graph_def,
                                         const weft_function_call_t *call) {
  runner->ops->run(runner, graph_def, call);
}
static inline void weft_graph_runner_destroy(weft_graph_runner_t *runner) { /* NULL is fine */
  if (runner != NULL) runner->ops->destroy(runner);
}

/* The functions of a node's graph, as its prepare sees them. */
struct weft_graph_functions {
  weft_status_t *(*find)(const weft_graph_functions_t *f, const weft_func_attr_t *func, weft_device_t *device,
                         weft_callee_t **out);
  /* The op and the attributes of a node, but for those whose names begin with '_', as fields of a NodeDef,
   * appended. */
  weft_status_t *(*write_node)(const weft_graph_functions_t *f, const weft_kernel_setup_t *setup,
                               weft_strbuf_t *out);
  /* Owned by the caller; to be destroyed before the plan. */
  weft_status_t *(*runner)(const weft_graph_functions_t *f, weft_device_t *device, weft_graph_runner_t **out);
};

/* For prepare: the function in the attribute `name`, to run on the node's device. *out is lent: it lives as
 * long as the state that prepare makes. Errors: INVALID_ARGUMENT (the node has no functions to call, as where
 * kernels run without a graph), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_knode_callee(const weft_kernel_setup_t *setup, const char *name,
                                                 weft_callee_t **out);

#endif /* WEFT_KERNELS_FUNCTION_CALL_H_ */
