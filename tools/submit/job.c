/* tools/submit/job.c - graph, session, steps, results. */
#define _GNU_SOURCE
#include "tools/submit/job.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/npy.h"
#include "tools/graph_file.h"
#include "tools/submit/feeds.h"

typedef struct save {
  int fetch;        /* index */
  const char *path;
} save_t;

typedef struct job {
  const weft_job_spec_t *spec;
  TF_Graph *graph;
  TF_Session *session;
  TF_Status *status;
  weft_feeds_t feeds;
  TF_Output *fetches;
  TF_Tensor **values;     /* of the last step */
  weft_progress_value_t *shown;
  const TF_Operation **targets;
  save_t *saves;
} job_t;

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a job"); }

static weft_status_t *taken(TF_Status *s) {
  if (TF_GetCode(s) == TF_OK) return NULL;
  const char *message = TF_Message(s);
  return weft_status_from_wire((int)TF_GetCode(s), message, strlen(message));
}

/* A session waits for its master for ever, as TensorFlow's does; a person who mistyped a port should not. */
static weft_status_t *check_master(const char *master) {
  enum { PATIENCE_MS = 5000 };
  if (strncmp(master, "grpc://", 7) != 0) return WEFT_ERROR(INVALID_ARGUMENT, "--master %s: give grpc://HOST:PORT", master);
  weft_str_t address = weft_str(master + 7);
  ptrdiff_t colon = weft_str_rfind(address, ':');
  if (colon <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "--master %s: give grpc://HOST:PORT", master);
  char *host = weft_strndup(address.data, (size_t)colon);
  if (host == NULL) return no_memory();
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  int failed = getaddrinfo(host, address.data + colon + 1, &hints, &found);
  weft_free(host);
  if (failed != 0) return WEFT_ERROR(INVALID_ARGUMENT, "--master %s: %s", master, gai_strerror(failed));
  bool ok = false;
  for (struct addrinfo *a = found; a != NULL && !ok; a = a->ai_next) {
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
         (poll(&ready, 1, PATIENCE_MS) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    close(fd);
  }
  freeaddrinfo(found);
  return ok ? NULL : WEFT_ERROR(UNAVAILABLE, "nobody listens at %s; is `weft server` running there?", master);
}

static weft_status_t *load_graph(job_t *j) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_graph_file_read(j->spec->graph_path, &bytes);
  if (s == NULL) {
    TF_Buffer *buffer = TF_NewBufferFromString(bytes.data == NULL ? "" : bytes.data, bytes.length);
    TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(j->graph, buffer, options, j->status);
    TF_DeleteImportGraphDefOptions(options);
    TF_DeleteBuffer(buffer);
    s = taken(j->status);
    if (s != NULL) s = weft_status_annotate(s, "in %s", j->spec->graph_path);
  }
  weft_strbuf_deinit(&bytes);
  return s;
}

static weft_status_t *find_op(job_t *j, const char *name, const TF_Operation **out) {
  *out = TF_GraphOperationByName(j->graph, name);
  return *out != NULL ? NULL : WEFT_ERROR(NOT_FOUND, "the graph has no node '%s'; `weft inspect` lists inputs and outputs", name);
}

static weft_status_t *find_saves(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  for (int i = 0; i < spec->num_saves; i++) {
    const char *equals = strchr(spec->saves[i], '=');
    if (equals == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: give NAME=FILE.npy", spec->saves[i]);
    weft_str_t name = weft_str_of(spec->saves[i], (size_t)(equals - spec->saves[i]));
    int k = 0;
    while (k < spec->num_fetches && !weft_str_is(name, spec->fetches[k])) k++;
    if (k == spec->num_fetches) {
      return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: add --fetch %.*s", spec->saves[i], WEFT_STR_ARGS(name));
    }
    j->saves[i] = (save_t){k, equals + 1};
  }
  return NULL;
}

static weft_status_t *find_names(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  j->fetches = weft_calloc((size_t)spec->num_fetches + 1, sizeof *j->fetches);
  j->values = weft_calloc((size_t)spec->num_fetches + 1, sizeof(TF_Tensor *));
  j->shown = weft_calloc((size_t)spec->num_fetches + 1, sizeof *j->shown);
  j->targets = weft_calloc((size_t)spec->num_targets + (size_t)spec->num_inits + 1, sizeof(TF_Operation *));
  j->saves = weft_calloc((size_t)spec->num_saves + 1, sizeof *j->saves);
  if (j->fetches == NULL || j->values == NULL || j->shown == NULL || j->targets == NULL || j->saves == NULL) return no_memory();
  for (int i = 0; i < spec->num_fetches; i++) {
    WEFT_RETURN_IF_ERROR(weft_find_output(j->graph, spec->fetches[i], &j->fetches[i]));
    j->shown[i].name = spec->fetches[i];
  }
  for (int i = 0; i < spec->num_targets; i++) WEFT_RETURN_IF_ERROR(find_op(j, spec->targets[i], &j->targets[i]));
  for (int i = 0; i < spec->num_inits; i++) WEFT_RETURN_IF_ERROR(find_op(j, spec->inits[i], &j->targets[spec->num_targets + i]));
  WEFT_RETURN_IF_ERROR(find_saves(j));
  return weft_feeds_init(&j->feeds, j->graph, spec->feeds, spec->num_feeds, spec->batch, spec->is_shuffled, spec->seed);
}

static weft_status_t *open_session(job_t *j) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (j->spec->master != NULL) TF_SetTarget(options, j->spec->master);
  j->session = TF_NewSession(j->graph, options, j->status);
  TF_DeleteSessionOptions(options);
  return taken(j->status);
}

/* ---- steps ---- */

static void show(weft_progress_value_t *v, const TF_Tensor *t) {
  v->is_known = TF_TensorElementCount(t) == 1;
  const void *data = TF_TensorData(t);
  switch (v->is_known ? TF_TensorType(t) : TF_STRING) {
    case TF_FLOAT: v->value = *(const float *)data; break;
    case TF_DOUBLE: v->value = *(const double *)data; break;
    case TF_INT32: v->value = *(const int32_t *)data; break;
    case TF_INT64: v->value = (double)*(const int64_t *)data; break;
    case TF_BOOL: v->value = *(const uint8_t *)data; break;
    default: v->is_known = false;
  }
}

static weft_status_t *run_step(job_t *j) {
  int n = j->spec->num_fetches;
  WEFT_RETURN_IF_ERROR(weft_feeds_next(&j->feeds));
  for (int i = 0; i < n; i++) {
    TF_DeleteTensor(j->values[i]);
    j->values[i] = NULL;
  }
  TF_SessionRun(j->session, NULL, j->feeds.outputs, j->feeds.tensors, j->feeds.n, j->fetches, j->values, n, j->targets,
                j->spec->num_targets, NULL, j->status);
  WEFT_RETURN_IF_ERROR(taken(j->status));
  for (int i = 0; i < n; i++) show(&j->shown[i], j->values[i]);
  return NULL;
}

static weft_status_t *run_steps(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  for (int i = 0; i < spec->num_inits; i++) { /* one after the other: a later one may need an earlier one */
    TF_SessionRun(j->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &j->targets[spec->num_targets + i], 1, NULL, j->status);
    weft_status_t *s = taken(j->status);
    if (s != NULL) return weft_status_annotate(s, "while running --init %s", spec->inits[i]);
  }
  weft_progress_t progress;
  weft_progress_start(&progress, spec->style, spec->steps, j->shown, spec->num_fetches);
  int64_t done = 0;
  weft_status_t *s = NULL;
  while (s == NULL && done < spec->steps) {
    s = run_step(j);
    if (s == NULL) weft_progress_step(&progress, ++done);
  }
  weft_progress_end(&progress, done);
  return s;
}

static weft_status_t *save_fetches(job_t *j) {
  for (int i = 0; i < j->spec->num_saves; i++) {
    TF_Tensor *value = j->values[j->saves[i].fetch];
    weft_shape_t shape = {.rank = TF_NumDims(value)};
    for (int d = 0; d < shape.rank; d++) shape.dims[d] = TF_Dim(value, d);
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_wrap((weft_dtype_t)TF_TensorType(value), &shape, TF_TensorData(value), TF_TensorByteSize(value), NULL, NULL, &t));
    weft_status_t *s = weft_npy_write(j->saves[i].path, t);
    weft_tensor_release(t);
    if (s != NULL) return s;
  }
  return NULL;
}

/* Values that no bar can show. */
static void print_results(const job_t *j) {
  for (int i = 0; i < j->spec->num_fetches && j->spec->style != WEFT_PROGRESS_JSON; i++) {
    if (j->shown[i].is_known) {
      printf("%s = %.9g\n", j->shown[i].name, j->shown[i].value);
      continue;
    }
    weft_shape_t shape = {.rank = TF_NumDims(j->values[i])};
    for (int d = 0; d < shape.rank; d++) shape.dims[d] = TF_Dim(j->values[i], d);
    printf("%s = a %s of shape %s (--save-fetch %s=FILE.npy keeps it)\n", j->shown[i].name,
           weft_dtype_name((int)TF_TensorType(j->values[i])), WEFT_SHAPE_TEXT(&shape), j->shown[i].name);
  }
}

static void deinit(job_t *j) {
  if (j->session != NULL) {
    TF_CloseSession(j->session, j->status); /* a failure here hides nothing: the results are in */
    TF_DeleteSession(j->session, j->status);
  }
  for (int i = 0; j->values != NULL && i < j->spec->num_fetches; i++) TF_DeleteTensor(j->values[i]);
  weft_feeds_deinit(&j->feeds);
  weft_free(j->fetches);
  weft_free(j->values);
  weft_free(j->shown);
  weft_free(j->targets);
  weft_free(j->saves);
  TF_DeleteGraph(j->graph);
  TF_DeleteStatus(j->status);
}

weft_status_t *weft_job_run(const weft_job_spec_t *spec) {
  job_t j = {.spec = spec, .graph = TF_NewGraph(), .status = TF_NewStatus()};
  weft_status_t *s = load_graph(&j);
  if (s == NULL) s = find_names(&j);
  if (s == NULL && spec->master != NULL) s = check_master(spec->master);
  if (s == NULL) s = open_session(&j);
  if (s == NULL) s = run_steps(&j);
  if (s == NULL) s = save_fetches(&j);
  if (s == NULL) print_results(&j);
  deinit(&j);
  return s;
}
