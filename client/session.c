/* client/session.c - sessions on a graph: creating, following the graph, running. */
#include "client/session.h"

#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"

static void destroy(TF_Session *s) {
  if (s == NULL) return;
  weft_connection_destroy(s->connection);
  weft_client_graph_release(s->graph);
  weft_mutex_deinit(&s->extending);
  weft_free(s);
}

weft_status_t *weft_client_session_new(TF_Graph *graph, weft_connection_t *c, int size, TF_Session **out) {
  TF_Session *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a session");
  weft_mutex_init(&s->extending);
  weft_client_graph_retain(graph);
  s->graph = graph;
  s->connection = c;
  atomic_init(&s->size, size);
  *out = s;
  return NULL;
}

TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts, TF_Status *status) {
  TF_Session *session = NULL;
  weft_connection_t *c = NULL;
  weft_status_t *s = weft_connection_open(opts, &c);
  if (s == NULL) s = weft_client_session_new(graph, c, 0, &session);
  if (s != NULL) weft_connection_destroy(c);
  weft_client_end(status, s);
  return session;
}

void TF_CloseSession(TF_Session *s, TF_Status *status) {
  weft_client_end(status, weft_connection_close(s->connection));
}

void TF_DeleteSession(TF_Session *s, TF_Status *status) {
  weft_client_end(status, s == NULL ? NULL : weft_connection_close(s->connection));
  destroy(s);
}

/* ---- following the graph ---- */

static weft_status_t *send_new_nodes(TF_Session *s) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  int first = atomic_load_explicit(&s->size, memory_order_relaxed), end = 0;
  weft_mutex_lock(&s->graph->mu);
  end = s->graph->num_operations;
  weft_status_t *status = NULL;
  if (first < end) status = weft_client_export_locked(s->graph, first, &text);
  weft_mutex_unlock(&s->graph->mu);
  if (status == NULL && (first < end || !weft_connection_has_session(s->connection))) {
    status = weft_connection_extend(s->connection, weft_str_of(text.data, text.length));
  }
  if (status == NULL) atomic_store_explicit(&s->size, end, memory_order_release);
  weft_strbuf_deinit(&text);
  return status;
}

weft_status_t *weft_client_session_extend(TF_Session *s) {
  int sent = atomic_load_explicit(&s->size, memory_order_acquire);
  if (sent > 0 && sent == atomic_load_explicit(&s->graph->size, memory_order_acquire)) return NULL;
  weft_mutex_lock(&s->extending);
  weft_status_t *status = send_new_nodes(s);
  weft_mutex_unlock(&s->extending);
  return status;
}

void TF_ExtendSession(TF_Session *session, TF_Status *status) {
  weft_client_end(status, weft_client_session_extend(session));
}

/* ---- running ---- */

weft_status_t *weft_client_no_such_output(TF_Output o, bool is_feed) {
  if (o.oper == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "a %s names no operation", is_feed ? "feed" : "fetch");
  const weft_node_t *n = o.oper->node;
  if (o.index < 0 && is_feed)
    return WEFT_ERROR(NOT_FOUND, "FeedInputs: unable to find feed output %s:%d", n->name.data, o.index);
  if (o.index < 0) return WEFT_ERROR(NOT_FOUND, "FetchOutputs node %s:%d: not found", n->name.data, o.index);
  return is_feed ? WEFT_ERROR(INVALID_ARGUMENT, "FeedInputs: %s:%d should have output index < %d",
                              n->name.data, o.index, n->num_outputs)
                 : WEFT_ERROR(INVALID_ARGUMENT, "FetchOutputs %s:%d: output index too large, must be < %d",
                              n->name.data, o.index, n->num_outputs);
}

/* A session in this process looks at the graph itself, and says it in other words. */
static weft_status_t *no_such_output(TF_Output o, bool is_feed, const weft_connection_t *c) {
  if (o.oper == NULL || !weft_connection_is_local(c)) return weft_client_no_such_output(o, is_feed);
  const weft_node_t *n = o.oper->node;
  if (o.index >= 0) {
    return WEFT_ERROR(OUT_OF_RANGE, "Node '%s' (type: '%s', num of outputs: %d) does not have output %d",
                      n->name.data, n->op->name.data, n->num_outputs, o.index);
  }
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Tensor %s:%d:0, specified in either feed_devices or fetch_devices was not found in the Graph",
      n->name.data, o.index);
}

bool weft_client_is_output(TF_Output o) {
  return o.oper != NULL && o.index >= 0 && o.index < o.oper->node->num_outputs;
}

/* A session in this process looks at feeds before it runs; a far one leaves that to its server. */
static weft_status_t *check_feed(const TF_Output *inputs, int ninputs, int i, const weft_tensor_t *given) {
  int wanted = (int)weft_dtype_base(inputs[i].oper->node->output_types[inputs[i].index]), place = 0;
  if ((int)given->dtype == wanted) return NULL;
  weft_str_t name = weft_client_tensor_name(inputs[i]);
  for (int k = 0; k < ninputs; k++) { /* TensorFlow numbers arguments by the names' order */
    if (k != i && weft_client_is_output(inputs[k]))
      place += weft_str_compare(weft_client_tensor_name(inputs[k]), name) < 0;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "Expects arg[%d] to be %s but %s is provided", place,
                    weft_dtype_name(wanted), weft_dtype_name((int)given->dtype));
}

weft_status_t *weft_client_step_add(weft_client_step_t *step, const weft_connection_t *c,
                                    const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs,
                                    const TF_Output *outputs, int noutputs,
                                    const TF_Operation *const *target_opers, int ntargets) {
  for (int i = 0; i < ninputs; i++) {
    if (!weft_client_is_output(inputs[i])) return no_such_output(inputs[i], true, c);
    WEFT_RETURN_IF_ERROR(weft_client_step_feed(step, weft_client_tensor_name(inputs[i]), input_values[i]));
    if (weft_connection_is_local(c))
      WEFT_RETURN_IF_ERROR(check_feed(inputs, ninputs, i, step->feeds[i].tensor));
  }
  for (int i = 0; i < noutputs; i++) {
    if (!weft_client_is_output(outputs[i])) return no_such_output(outputs[i], false, c);
    weft_str_t name = weft_client_tensor_name(outputs[i]);
    if (name.data == NULL) return WEFT_NO_MEMORY("a step");
    weft_client_step_fetch(step, name);
  }
  for (int i = 0; i < ntargets; i++) {
    if (target_opers[i] == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "a target names no operation");
    weft_client_step_target(step, target_opers[i]->node->name);
  }
  return NULL;
}

void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options, const TF_Output *inputs,
                   TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                   TF_Tensor **output_values, int noutputs, const TF_Operation *const *target_opers,
                   int ntargets, TF_Buffer *run_metadata, TF_Status *status) {
  weft_client_step_t step;
  for (int i = 0; i < noutputs; i++) output_values[i] = NULL;
  weft_status_t *s = weft_client_session_extend(session);
  if (s == NULL) s = weft_client_step_init(&step, ninputs, noutputs, ntargets);
  if (s == NULL) {
    s = weft_client_step_add(&step, session->connection, inputs, input_values, ninputs, outputs, noutputs,
                             target_opers, ntargets);
    if (s == NULL)
      s = weft_client_step_run(&step, session->connection, NULL, run_options, output_values, run_metadata);
    weft_client_step_deinit(&step);
  }
  weft_client_end(status, s);
}
