/* tools/submit/job.c - graph, session, steps, results. */
#include "tools/submit/job.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/npy.h"
#include "tools/graph_file.h"
#include "tools/submit/feeds.h"
#include "tools/submit/master_probe.h"
#include "tools/submit/names.h"
#include "tools/submit/watch.h"

typedef struct save {
  int fetch; /* index */
  const char *path;
} save_t;

typedef struct job {
  const weft_job_spec_t *spec;
  weft_watch_t watch;
  TF_Graph *graph;
  TF_Session *session;
  TF_Status *status;
  weft_feeds_t feeds;
  int num_fetches;       /* those of --fetch, then those that are only saved */
  TF_Output *fetches;
  TF_Tensor **values;    /* of the last step; owned */
  weft_progress_value_t *shown; /* one per --fetch; owns its value, which looks at `values` */
  const TF_Operation **targets, **inits;
  save_t *saves;
  weft_status_t *failure; /* of the whole; owned */
} job_t;

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a job"); }

static weft_status_t *taken(TF_Status *s) {
  if (TF_GetCode(s) == TF_OK) return NULL;
  const char *message = TF_Message(s);
  return weft_status_from_wire((int)TF_GetCode(s), message, strlen(message));
}

/* ---- what the command line names ---- */

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

static weft_status_t *find_nodes(job_t *j, const char *option, const weft_texts_t *names, const TF_Operation **out) {
  for (int i = 0; i < names->n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_find_node(j->graph, option, weft_str(names->items[i]), &op));
    out[i] = op;
  }
  return NULL;
}

/* What is saved is fetched, also without --fetch. */
static weft_status_t *find_saves(job_t *j) {
  for (int i = 0; i < j->spec->saves.n; i++) {
    const char *text = j->spec->saves.items[i];
    weft_str_t name, path;
    TF_Output output;
    if (!weft_str_split(weft_str(text), '=', &name, &path) || name.length == 0 || path.length == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: give NAME=FILE.npy", text);
    }
    WEFT_RETURN_IF_ERROR(weft_find_output(j->graph, "--save-fetch", name, &output));
    int k = 0;
    while (k < j->num_fetches && (j->fetches[k].oper != output.oper || j->fetches[k].index != output.index)) k++;
    if (k == j->num_fetches) j->fetches[j->num_fetches++] = output;
    j->saves[i] = (save_t){k, path.data};
  }
  return NULL;
}

static weft_status_t *find_names(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  size_t most = (size_t)spec->fetches.n + (size_t)spec->saves.n + 1;
  j->fetches = weft_calloc(most, sizeof *j->fetches);
  j->values = weft_calloc(most, sizeof(TF_Tensor *));
  j->shown = weft_calloc(most, sizeof *j->shown);
  j->targets = weft_calloc((size_t)spec->targets.n + 1, sizeof(TF_Operation *));
  j->inits = weft_calloc((size_t)spec->inits.n + 1, sizeof(TF_Operation *));
  j->saves = weft_calloc((size_t)spec->saves.n + 1, sizeof *j->saves);
  bool ok = j->fetches != NULL && j->values != NULL && j->shown != NULL && j->targets != NULL && j->inits != NULL && j->saves != NULL;
  if (!ok) return no_memory();
  for (int i = 0; i < spec->fetches.n; i++) {
    WEFT_RETURN_IF_ERROR(weft_find_output(j->graph, "--fetch", weft_str(spec->fetches.items[i]), &j->fetches[i]));
    j->shown[i].name = spec->fetches.items[i];
  }
  j->num_fetches = spec->fetches.n;
  WEFT_RETURN_IF_ERROR(find_nodes(j, "--target", &spec->targets, j->targets));
  WEFT_RETURN_IF_ERROR(find_nodes(j, "--init", &spec->inits, j->inits));
  WEFT_RETURN_IF_ERROR(find_saves(j));
  return weft_feeds_init(&j->feeds, j->graph, spec->feeds.items, spec->feeds.n, spec->batch, spec->is_shuffled, spec->seed);
}

static weft_status_t *open_session(job_t *j) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (j->spec->master != NULL) TF_SetTarget(options, j->spec->master);
  j->session = TF_NewSession(j->graph, options, j->status);
  TF_DeleteSessionOptions(options);
  WEFT_RETURN_IF_ERROR(taken(j->status));
  weft_watch_session(&j->watch, j->session, j->spec->master);
  return NULL;
}

/* ---- steps ---- */

/* A tensor that looks at the C API's. */
static weft_status_t *look_at(TF_Tensor *value, weft_tensor_t **out) {
  int64_t dims[WEFT_MAX_DIMS];
  weft_shape_t shape;
  int rank = TF_NumDims(value);
  for (int d = 0; d < rank && d < WEFT_MAX_DIMS; d++) dims[d] = TF_Dim(value, d);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &shape));
  return weft_tensor_wrap((weft_dtype_t)TF_TensorType(value), &shape, TF_TensorData(value), TF_TensorByteSize(value), NULL, NULL, out);
}

static void drop_values(job_t *j) {
  for (int i = 0; i < j->num_fetches; i++) {
    if (i < j->spec->fetches.n) {
      weft_tensor_release(j->shown[i].value);
      j->shown[i].value = NULL;
    }
    TF_DeleteTensor(j->values[i]);
    j->values[i] = NULL;
  }
}

static weft_status_t *run_step(job_t *j) {
  WEFT_RETURN_IF_ERROR(weft_feeds_next(&j->feeds));
  drop_values(j);
  TF_SessionRun(j->session, NULL, j->feeds.outputs, j->feeds.tensors, j->feeds.n, j->fetches, j->values, j->num_fetches, j->targets,
                j->spec->targets.n, NULL, j->status);
  weft_watch_progress(&j->watch);
  WEFT_RETURN_IF_ERROR(taken(j->status));
  for (int i = 0; i < j->spec->fetches.n; i++) WEFT_RETURN_IF_ERROR(look_at(j->values[i], &j->shown[i].value));
  return NULL;
}

static weft_status_t *run_inits(job_t *j) {
  for (int i = 0; i < j->spec->inits.n; i++) { /* one after the other: a later one may need an earlier one */
    TF_SessionRun(j->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &j->inits[i], 1, NULL, j->status);
    weft_watch_progress(&j->watch);
    weft_status_t *s = taken(j->status);
    if (s != NULL) return weft_status_annotate(s, "while running --init %s", j->spec->inits.items[i]);
  }
  return NULL;
}

/* If a signal ended the job, that is what happened, whatever the step says. */
static weft_status_t *cause(job_t *j, weft_status_t *s, int64_t done) {
  if (weft_watch_signal(&j->watch) == 0) return s;
  weft_status_free(s);
  return WEFT_ERROR(CANCELLED, "interrupted after %" PRId64 " of %" PRId64 " steps", done, j->spec->steps);
}

static weft_status_t *save_fetches(job_t *j) {
  for (int i = 0; i < j->spec->saves.n; i++) {
    weft_tensor_t *t = NULL;
    TF_Tensor *value = j->values[j->saves[i].fetch];
    if (value == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: without a step there is no value", j->spec->saves.items[i]);
    WEFT_RETURN_IF_ERROR(look_at(value, &t));
    weft_status_t *s = weft_npy_write(j->saves[i].path, t);
    weft_tensor_release(t);
    if (s != NULL) return weft_status_annotate(s, "while saving --save-fetch %s", j->spec->saves.items[i]);
  }
  return NULL;
}

static weft_status_t *run_steps(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  weft_progress_t progress;
  weft_status_t *s = run_inits(j);
  if (s != NULL) return cause(j, s, 0);
  weft_progress_start(&progress, spec->style, spec->steps, j->shown, spec->fetches.n);
  int64_t done = 0;
  while (s == NULL && done < spec->steps && weft_watch_signal(&j->watch) == 0) {
    s = run_step(j);
    if (s == NULL) weft_progress_step(&progress, ++done);
  }
  if (done < spec->steps) s = cause(j, s, done);
  if (s == NULL) s = save_fetches(j);
  weft_progress_end(&progress, done, s);
  return s;
}

static void deinit(job_t *j) {
  if (j->values != NULL) drop_values(j);
  if (j->session != NULL) {
    TF_CloseSession(j->session, j->status); /* a failure here hides nothing: the results are in */
    weft_watch_forget(&j->watch);
    TF_DeleteSession(j->session, j->status);
  }
  weft_feeds_deinit(&j->feeds);
  weft_free(j->fetches);
  weft_free(j->values);
  weft_free(j->shown);
  weft_free(j->targets);
  weft_free(j->inits);
  weft_free(j->saves);
  TF_DeleteGraph(j->graph);
  TF_DeleteStatus(j->status);
}

static void run(void *arg) {
  job_t *j = arg;
  weft_status_t *s = load_graph(j);
  if (s == NULL) s = find_names(j);
  if (s == NULL && j->spec->master != NULL) s = weft_master_probe(j->spec->master);
  if (s == NULL) s = open_session(j);
  if (s == NULL) s = run_steps(j);
  deinit(j);
  j->failure = s;
}

weft_status_t *weft_job_run(const weft_job_spec_t *spec, int *out_signal) {
  job_t j = {.spec = spec, .graph = TF_NewGraph(), .status = TF_NewStatus()};
  *out_signal = 0;
  weft_status_t *s = weft_watch_run(&j.watch, spec->style == WEFT_PROGRESS_BAR, run, &j);
  if (s != NULL) return s; /* the process ends; what was made for the job ends with it */
  *out_signal = j.watch.signal_number;
  return j.failure;
}
