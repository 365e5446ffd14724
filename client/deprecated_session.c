/* client/deprecated_session.c - sessions that get their graph as GraphDefs and name tensors by text. */
#include "base/alloc.h"
#include "client/device_list.h"
#include "client/session.h"
#include "client/status.h"

/* Thread-safe. */
struct TF_DeprecatedSession {
  weft_connection_t *connection;
  weft_mutex_t extending; /* held while a graph is sent */
};

static void destroy(TF_DeprecatedSession *s) {
  if (s == NULL) return;
  weft_connection_destroy(s->connection);
  weft_mutex_deinit(&s->extending);
  weft_free(s);
}

TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *opts, TF_Status *status) {
  TF_DeprecatedSession *s = weft_calloc(1, sizeof *s);
  if (s == NULL) {
    weft_client_end(status, WEFT_NO_MEMORY("a session"));
    return NULL;
  }
  weft_mutex_init(&s->extending);
  if (weft_client_end(status, weft_connection_open(opts, &s->connection))) return s;
  destroy(s);
  return NULL;
}

void TF_CloseDeprecatedSession(TF_DeprecatedSession *s, TF_Status *status) {
  weft_client_end(status, weft_connection_close(s->connection));
}

void TF_DeleteDeprecatedSession(TF_DeprecatedSession *s, TF_Status *status) {
  destroy(s);
  weft_client_end(status, NULL);
}

void TF_ExtendGraph(TF_DeprecatedSession *s, const void *proto, size_t proto_len, TF_Status *status) {
  weft_mutex_lock(&s->extending);
  weft_status_t *result = weft_connection_extend(s->connection, weft_str_of(proto, proto_len));
  weft_mutex_unlock(&s->extending);
  weft_client_end(status, result);
}

void TF_Reset(const TF_SessionOptions *opt, const char **containers, int ncontainers, TF_Status *status) {
  weft_connection_t *c = NULL;
  weft_str_t *names = ncontainers < 0 ? NULL : weft_calloc((size_t)ncontainers + 1, sizeof *names);
  weft_status_t *s = names == NULL ? WEFT_NO_MEMORY("a reset") : NULL;
  for (int i = 0; s == NULL && i < ncontainers; i++) names[i] = weft_str(containers[i]);
  if (s == NULL) s = weft_connection_open(opt, &c);
  if (s == NULL) s = weft_connection_reset(c, names, ncontainers);
  weft_connection_destroy(c);
  weft_free(names);
  weft_client_end(status, s);
}

static void run(TF_DeprecatedSession *s, const char *handle, const TF_Buffer *run_options,
                const char **input_names, TF_Tensor **inputs, int ninputs, const char **output_names,
                TF_Tensor **outputs, int noutputs, const char **target_oper_names, int ntargets,
                TF_Buffer *run_metadata, TF_Status *status) {
  weft_client_step_t step;
  for (int i = 0; i < noutputs; i++) outputs[i] = NULL;
  weft_status_t *result = weft_client_step_init(&step, ninputs, noutputs, ntargets);
  if (result == NULL) {
    for (int i = 0; i < ninputs && result == NULL; i++) {
      result = weft_client_step_feed(&step, weft_str(input_names[i]), inputs[i]);
    }
    for (int i = 0; i < noutputs; i++) weft_client_step_fetch(&step, weft_str(output_names[i]));
    for (int i = 0; i < ntargets; i++) weft_client_step_target(&step, weft_str(target_oper_names[i]));
    if (result == NULL)
      result = weft_client_step_run(&step, s->connection, handle, run_options, outputs, run_metadata);
    weft_client_step_deinit(&step);
  }
  weft_client_end(status, result);
}

void TF_Run(TF_DeprecatedSession *s, const TF_Buffer *run_options, const char **input_names,
            TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs, int noutputs,
            const char **target_oper_names, int ntargets, TF_Buffer *run_metadata, TF_Status *status) {
  run(s, NULL, run_options, input_names, inputs, ninputs, output_names, outputs, noutputs, target_oper_names,
      ntargets, run_metadata, status);
}

void TF_PRunSetup(TF_DeprecatedSession *s, const char **input_names, int ninputs, const char **output_names,
                  int noutputs, const char **target_oper_names, int ntargets, const char **handle,
                  TF_Status *status) {
  *handle = NULL;
  size_t n =
      ninputs < 0 || noutputs < 0 || ntargets < 0 ? 0 : (size_t)ninputs + (size_t)noutputs + (size_t)ntargets;
  weft_str_t *names = weft_calloc(n + 1, sizeof *names);
  weft_status_t *result = names == NULL ? WEFT_NO_MEMORY("a partial run") : NULL;
  if (result == NULL) {
    weft_str_t *fetches = names + ninputs, *targets = fetches + noutputs;
    for (int i = 0; i < ninputs; i++) names[i] = weft_str(input_names[i]);
    for (int i = 0; i < noutputs; i++) fetches[i] = weft_str(output_names[i]);
    for (int i = 0; i < ntargets; i++) targets[i] = weft_str(target_oper_names[i]);
    weft_partial_run_setup_t r = {.feeds = names,
                                  .fetches = fetches,
                                  .targets = targets,
                                  .num_feeds = ninputs,
                                  .num_fetches = noutputs,
                                  .num_targets = ntargets};
    char *text = NULL;
    result = weft_connection_partial_setup(s->connection, &r, &text);
    *handle = text;
  }
  weft_free(names);
  weft_client_end(status, result);
}

void TF_PRun(TF_DeprecatedSession *s, const char *handle, const char **input_names, TF_Tensor **inputs,
             int ninputs, const char **output_names, TF_Tensor **outputs, int noutputs,
             const char **target_oper_names, int ntargets, TF_Status *status) {
  run(s, handle, NULL, input_names, inputs, ninputs, output_names, outputs, noutputs, target_oper_names,
      ntargets, NULL, status);
}

TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session, TF_Status *status) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&session->extending);
  if (!weft_connection_has_session(session->connection))
    s = weft_connection_extend(session->connection, WEFT_STR(""));
  weft_mutex_unlock(&session->extending);
  return weft_client_end(status, s) ? weft_client_list_devices(session->connection, status) : NULL;
}
