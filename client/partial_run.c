/* client/partial_run.c - a step in pieces. */
#include "base/alloc.h"
#include "client/session.h"
#include "client/status.h"

static weft_status_t *names_of(const TF_Output *all, int n, bool is_feed, weft_str_t *out) {
  for (int i = 0; i < n; i++) {
    if (!weft_client_is_output(all[i])) return weft_client_no_such_output(all[i], is_feed);
    out[i] = weft_client_tensor_name(all[i]);
    if (out[i].data == NULL) return WEFT_NO_MEMORY("a partial run");
  }
  return NULL;
}

void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs, const TF_Output *outputs,
                         int noutputs, const TF_Operation *const *target_opers, int ntargets,
                         const char **handle, TF_Status *status) {
  *handle = NULL;
  weft_status_t *s = weft_client_session_extend(session);
  weft_str_t *names = NULL;
  if (s == NULL && (ninputs < 0 || noutputs < 0 || ntargets < 0))
    s = WEFT_ERROR(INVALID_ARGUMENT, "a negative number of names");
  if (s == NULL) {
    names = weft_calloc((size_t)ninputs + (size_t)noutputs + (size_t)ntargets + 1, sizeof *names);
    if (names == NULL) s = WEFT_NO_MEMORY("a partial run");
  }
  if (s == NULL) s = names_of(inputs, ninputs, true, names);
  if (s == NULL) s = names_of(outputs, noutputs, false, names + ninputs);
  if (s == NULL) {
    weft_str_t *targets = names + ninputs + noutputs;
    for (int i = 0; i < ntargets; i++) targets[i] = target_opers[i]->node->name;
    weft_partial_run_setup_t r = {.feeds = names,
                                  .fetches = names + ninputs,
                                  .targets = targets,
                                  .num_feeds = ninputs,
                                  .num_fetches = noutputs,
                                  .num_targets = ntargets};
    char *text = NULL;
    s = weft_connection_partial_setup(session->connection, &r, &text);
    *handle = text;
  }
  weft_free(names);
  weft_client_end(status, s);
}

/* What is no tensor of the graph cannot have been named at setup. */
static weft_status_t *check_specified(const TF_Output *all, int n, const char *what) {
  for (int i = 0; i < n; i++) {
    if (all[i].oper == NULL || weft_client_is_output(all[i])) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "The %s %s:%d was not specified in partial_run_setup.", what,
                      all[i].oper->node->name.data, all[i].index);
  }
  return NULL;
}

void TF_DeletePRunHandle(const char *handle) { weft_free((void *)(uintptr_t)handle); }

void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs,
                    TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                    TF_Tensor **output_values, int noutputs, const TF_Operation *const *target_opers,
                    int ntargets, TF_Status *status) {
  weft_client_step_t step;
  for (int i = 0; i < noutputs; i++) output_values[i] = NULL;
  weft_status_t *s = weft_client_session_extend(session);
  if (s == NULL) s = check_specified(inputs, ninputs, "feed");
  if (s == NULL) s = check_specified(outputs, noutputs, "fetch");
  if (s == NULL) s = weft_client_step_init(&step, ninputs, noutputs, ntargets);
  if (s == NULL) {
    s = weft_client_step_add(&step, session->connection, inputs, input_values, ninputs, outputs, noutputs,
                             target_opers, ntargets);
    if (s == NULL) s = weft_client_step_run(&step, session->connection, handle, NULL, output_values, NULL);
    weft_client_step_deinit(&step);
  }
  weft_client_end(status, s);
}
