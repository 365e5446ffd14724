/* jobs/logging.c - from a job to its log. */
#include "jobs/logging.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "jobs/c_api.h"
#include "jobs/impl.h"
#include "jobs/reach.h"
#include "protos/wire.h"

/* How often iterators are asked how long steps waited: each time is a step of its own. */
static const int64_t ask_every_ns = INT64_C(5000000000);

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a job's log"); }

/* ---- what is asked for ---- */

void weft_job_log_spec_deinit(weft_job_log_spec_t *s) {
  weft_free(s->hparams);
  weft_free(s->tags);
  weft_free(s->wish_fetches);
  weft_job_log_wishes_deinit(&s->wishes);
}

weft_status_t *weft_job_log_spec_hparam(weft_job_log_spec_t *s, weft_arena_t *arena, weft_str_t name,
                                        weft_str_t value) {
  if (name.length == 0 || !weft_wire_is_utf8(name) || !weft_wire_is_utf8(value))
    return WEFT_ERROR(INVALID_ARGUMENT, "a hyperparameter needs a name, and texts that are UTF-8");
  int i = 0;
  while (i < s->num_hparams && !weft_str_eq(s->hparams[i].name, name)) i++;
  if (i == s->num_hparams) {
    weft_event_hparam_t *more = weft_realloc(s->hparams, (size_t)i + 1, sizeof *more);
    if (more == NULL) return no_memory();
    s->hparams = more;
  }
  const weft_event_hparam_t h = {weft_arena_str(arena, name), weft_arena_str(arena, value)};
  if (h.name.data == NULL || h.value.data == NULL) return no_memory();
  s->hparams[i] = h;
  if (i == s->num_hparams) s->num_hparams++;
  return NULL;
}

weft_status_t *weft_job_log_fetch_as(WEFT_Job *j, int fetch, weft_str_t name) {
  weft_job_log_spec_t *spec = &j->log_spec;
  if (fetch >= spec->num_tags) {
    weft_str_t *more = weft_realloc(spec->tags, (size_t)fetch + 1, sizeof *more);
    if (more == NULL) return no_memory();
    spec->tags = more;
    while (spec->num_tags <= fetch) spec->tags[spec->num_tags++] = weft_str_of("", 0);
  }
  if (spec->tags[fetch].length > 0) return NULL;
  const weft_str_t copy = weft_arena_str(&j->arena, name);
  if (copy.data == NULL) return no_memory();
  spec->tags[fetch] = copy;
  return NULL;
}

/* ---- what is fetched for it ---- */

static weft_status_t *find_wishes(WEFT_Job *j, weft_strbuf_t *nodes) {
  weft_job_log_spec_t *spec = &j->log_spec;
  int n = 0;
  const TF_Operation **roots =
      weft_calloc((size_t)j->fetches.n + (size_t)j->targets.n + 1, sizeof(TF_Operation *));
  if (roots == NULL) return no_memory();
  for (int i = 0; i < j->fetches.n; i++) roots[n++] = j->fetches.outputs[i].oper;
  for (int i = 0; i < j->targets.n; i++) roots[n++] = j->targets.outputs[i].oper;
  weft_status_t *s = weft_job_log_wishes_find(j->graph, roots, n, &j->inputs.names, spec->has_norms,
                                              &j->arena, nodes, &spec->wishes);
  weft_free(roots);
  return s;
}

weft_status_t *weft_job_logging_prepare(WEFT_Job *j, bool *out_grows) {
  weft_job_log_spec_t *spec = &j->log_spec;
  weft_strbuf_t nodes = WEFT_STRBUF_INIT;
  *out_grows = false;
  if (spec->directory == NULL || spec->has_wishes) return NULL;
  spec->has_wishes = true;
  spec->num_fetches = j->fetches.n;
  spec->graph_bytes = j->graph_def.length;
  weft_status_t *s = find_wishes(j, &nodes);
  if (s == NULL && nodes.length > 0) {
    weft_strbuf_append(&j->graph_def, weft_str_of(nodes.data, nodes.length)); /* the union of both */
    if (j->graph_def.failed) s = no_memory();
    *out_grows = true;
  }
  weft_strbuf_deinit(&nodes);
  return s;
}

weft_status_t *weft_job_logging_fetch(WEFT_Job *j) {
  weft_job_log_spec_t *spec = &j->log_spec;
  if (spec->directory == NULL || spec->wish_fetches != NULL) return NULL;
  spec->wish_fetches = weft_calloc((size_t)spec->wishes.n + 1, sizeof *spec->wish_fetches);
  if (spec->wish_fetches == NULL) return no_memory();
  for (int i = 0; i < spec->wishes.n; i++) spec->wish_fetches[i] = -1;
  for (int i = 0; i < spec->wishes.n; i++) {
    if (spec->wishes.items[i].name.length == 0) continue;
    WEFT_RETURN_IF_ERROR(
        weft_job_add_fetch(j, j->words->log, spec->wishes.items[i].name, &spec->wish_fetches[i]));
  }
  return NULL;
}

/* ---- opening ---- */

/* Rows of the batches that a step reads itself, if the graph says how many. */
static weft_status_t *look_for_rows(void *arg, TF_Operation *op, bool *out_stops) {
  WEFT_Job *j = arg;
  int64_t dims[WEFT_MAX_DIMS];
  if (!weft_job_is_reader(op)) return NULL;
  for (int i = 0; i < TF_OperationNumOutputs(op); i++) {
    const TF_Output output = {op, i};
    int rank = TF_GraphGetTensorNumDims(j->graph, output, j->status);
    if (rank < 1 || rank > WEFT_MAX_DIMS) continue;
    TF_GraphGetTensorShape(j->graph, output, dims, rank, j->status);
    if (TF_GetCode(j->status) == TF_OK && dims[0] > j->logging.rows) j->logging.rows = dims[0];
  }
  *out_stops = j->logging.rows > 0;
  return NULL;
}

static weft_status_t *find_rows(WEFT_Job *j) {
  const weft_job_names_t *lists[] = {&j->fetches, &j->targets};
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < lists[k]->n && j->logging.rows == 0; i++) {
      const TF_Operation *op = lists[k]->outputs[i].oper;
      WEFT_RETURN_IF_ERROR(weft_job_visit(&op, 1, look_for_rows, j));
    }
  }
  return NULL;
}

/* What the fetch is called: of output 0 of a node the node's name. */
static weft_str_t tag_of(const WEFT_Job *j, int fetch) {
  const weft_job_log_spec_t *spec = &j->log_spec;
  const bool is_called = fetch < spec->num_tags && spec->tags[fetch].length > 0;
  const weft_str_t name = is_called ? spec->tags[fetch] : j->fetches.names[fetch];
  return weft_str_ends_with(name, ":0") ? weft_str_of(name.data, name.length - 2) : name;
}

static weft_status_t *log_rewritten(WEFT_Job *j) {
  TF_Buffer *bytes = TF_NewBuffer();
  if (bytes == NULL) return no_memory();
  TF_GraphToGraphDef(j->rewritten, bytes, j->status);
  weft_status_t *s = weft_job_c_api_status(j->status);
  if (s == NULL) s = weft_job_log_rewritten(j->logging.log, weft_str_of(bytes->data, bytes->length));
  TF_DeleteBuffer(bytes);
  return s;
}

weft_status_t *weft_job_logging_open(WEFT_Job *j) {
  weft_job_logging_t *g = &j->logging;
  if (j->log_spec.directory == NULL || j->plan.is_follower) return NULL; /* another client writes it */
  weft_status_t *s = weft_job_log_create(j->log_spec.directory, j->log_spec.every, &g->log);
  if (s != NULL) return weft_status_annotate(s, "%s %s", j->words->log, j->log_spec.directory);
  const weft_job_log_spec_t *spec = &j->log_spec;
  g->values = weft_calloc((size_t)(spec->num_fetches + spec->wishes.n) + 1, sizeof *g->values);
  if (g->values == NULL) return no_memory();
  for (int i = 0; i < spec->num_fetches; i++) g->values[i].tag = tag_of(j, i);
  for (int i = 0; i < spec->wishes.n; i++) g->values[spec->num_fetches + i].tag = spec->wishes.items[i].tag;
  if (j->plan.reads_data) WEFT_RETURN_IF_ERROR(find_rows(j));
  WEFT_RETURN_IF_ERROR(weft_job_log_graph(g->log, weft_str_of(j->graph_def.data, spec->graph_bytes)));
  return j->rewritten == NULL ? NULL : log_rewritten(j);
}

void weft_job_logging_close(WEFT_Job *j) {
  weft_status_t *s = weft_job_log_close(j->logging.log, WEFT_JobGetState(j) != WEFT_JOB_FAILED);
  weft_status_free(s); /* the steps were flushed when they ended, and that was told */
  weft_free(j->logging.values);
  j->logging = (weft_job_logging_t){0};
}

/* ---- hyperparameters ---- */

static weft_status_t *add(weft_job_log_spec_t *all, WEFT_Job *j, const char *name, const char *value) {
  return weft_job_log_spec_hparam(all, &j->arena, weft_str(name), weft_str(value));
}

static weft_status_t *add_number(weft_job_log_spec_t *all, WEFT_Job *j, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  return add(all, j, name, text);
}

/* How many devices the nodes of the rewritten graph are on. */
static weft_status_t *count_devices(const TF_Graph *graph, int64_t *out) {
  weft_map_t seen = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  size_t at = 0;
  *out = 0;
  for (TF_Operation *op;
       s == NULL && (op = TF_GraphNextOperation((TF_Graph *)(uintptr_t)graph, &at)) != NULL;) {
    const weft_str_t device = weft_str(TF_OperationDevice(op));
    if (device.length == 0 || weft_map_get(&seen, device) != NULL) continue;
    s = weft_map_put(&seen, device, op, NULL);
    ++*out;
  }
  weft_map_deinit(&seen);
  return s;
}

static weft_status_t *add_own(weft_job_log_spec_t *all, WEFT_Job *j, int64_t steps) {
  int64_t devices = 0;
  WEFT_RETURN_IF_ERROR(add(all, j, "strategy", j->strategy == NULL ? "none" : j->strategy));
  WEFT_RETURN_IF_ERROR(add(all, j, "cluster", j->master == NULL ? "this process" : j->master));
  if (j->rewritten != NULL) {
    WEFT_RETURN_IF_ERROR(count_devices(j->rewritten, &devices));
    WEFT_RETURN_IF_ERROR(add_number(all, j, "devices", devices));
  }
  if (j->inputs.batch > 0) {
    WEFT_RETURN_IF_ERROR(add_number(all, j, "batch", j->inputs.batch));
    WEFT_RETURN_IF_ERROR(add(all, j, "shuffle", j->inputs.is_shuffled ? "true" : "false"));
    if (j->inputs.is_shuffled) WEFT_RETURN_IF_ERROR(add_number(all, j, "seed", (int64_t)j->inputs.seed));
  }
  if (j->run_end > 0 && steps != INT64_MAX) WEFT_RETURN_IF_ERROR(add_number(all, j, "steps", steps));
  for (int i = 0; i < j->log_spec.num_hparams; i++) { /* the program's win */
    const weft_event_hparam_t *h = &j->log_spec.hparams[i];
    WEFT_RETURN_IF_ERROR(weft_job_log_spec_hparam(all, &j->arena, h->name, h->value));
  }
  return NULL;
}

static weft_status_t *log_hparams(WEFT_Job *j, int64_t steps) {
  weft_job_log_spec_t all = {0};
  weft_status_t *s = add_own(&all, j, steps);
  if (s == NULL) s = weft_job_log_hparams(j->logging.log, all.hparams, all.num_hparams);
  weft_job_log_spec_deinit(&all);
  j->logging.has_hparams = true;
  return s;
}

/* ---- steps ---- */

weft_status_t *weft_job_logging_run(WEFT_Job *j, int64_t steps) {
  weft_job_logging_t *g = &j->logging;
  const int64_t done = WEFT_JobStepsDone(j);
  if (g->log == NULL) return NULL;
  if (!g->has_hparams) {
    WEFT_RETURN_IF_ERROR(weft_job_log_begin(g->log, done));
    WEFT_RETURN_IF_ERROR(log_hparams(j, steps));
    WEFT_RETURN_IF_ERROR(
        weft_job_log_flush(g->log)); /* the graph can be looked at while the first step runs */
  }
  weft_job_log_start_clock(g->log, done);
  g->asked_ns = weft_clock_ns();
  g->asked_step = done;
  return NULL;
}

int64_t weft_job_logging_profiles(const WEFT_Job *j) {
  return j->logging.log == NULL ? 0 : j->log_spec.profile_every;
}

/* *out is owned by the caller; NULL: there is none. */
static weft_status_t *value_of(const WEFT_Job *j, int i, weft_tensor_t **out) {
  const weft_job_log_spec_t *spec = &j->log_spec;
  const int wish = i - spec->num_fetches, fetch = wish < 0 ? i : spec->wish_fetches[wish];
  *out = NULL;
  const weft_tensor_t *constant = wish < 0 ? NULL : spec->wishes.items[wish].constant;
  if (constant != NULL) *out = weft_tensor_retain((weft_tensor_t *)(uintptr_t)constant);
  if (fetch < 0 || j->values[fetch] == NULL) return NULL;
  return weft_job_c_api_look_at(j->values[fetch], out);
}

static weft_status_t *log_step(WEFT_Job *j, int64_t done) {
  weft_job_logging_t *g = &j->logging;
  const int n = j->log_spec.num_fetches + j->log_spec.wishes.n;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    weft_tensor_t *value = NULL;
    s = value_of(j, i, &value);
    g->values[i].value = value;
  }
  if (s == NULL) s = weft_job_log_step(g->log, done, g->values, n);
  for (int i = 0; i < n; i++) {
    weft_tensor_release((weft_tensor_t *)(uintptr_t)g->values[i].value);
    g->values[i].value = NULL;
  }
  return s;
}

/* What iterators said: of the device that waited most. */
static weft_status_t *log_waits(WEFT_Job *j, const weft_job_wait_t *waits, int n) {
  weft_job_logging_t *g = &j->logging;
  const int64_t now_ns = weft_clock_ns(), done = WEFT_JobStepsDone(j);
  const double steps = (double)(done - g->asked_step) / weft_job_num_sharing(&j->plan);
  double waited = 0;
  for (int i = 0; i < n; i++) {
    if ((double)waits[i].waited_ns > waited) waited = (double)waits[i].waited_ns;
  }
  const double lately = waited - g->waited_ns, share = lately / (double)(now_ns - g->asked_ns + 1);
  g->waited_ns = waited;
  g->asked_ns = now_ns;
  g->asked_step = done;
  if (steps <= 0) return NULL;
  return weft_job_log_waits(g->log, done, share < 1 ? share : 1, lately * 1e-6 / steps);
}

static weft_status_t *ask_waits(WEFT_Job *j) {
  weft_job_wait_t *waits = NULL;
  int n = 0;
  if (j->iterators.n == 0 || weft_clock_ns() - j->logging.asked_ns < ask_every_ns) return NULL;
  WEFT_RETURN_IF_ERROR(weft_job_iterators_wait(&j->iterators, j->session, &waits, &n));
  weft_status_t *s = log_waits(j, waits, n);
  weft_free(waits);
  return s;
}

weft_status_t *weft_job_logging_ran(WEFT_Job *j, const weft_job_ran_t *run) {
  weft_job_logging_t *g = &j->logging;
  if (g->log == NULL) return NULL;
  weft_job_log_rows(g->log, run->rows > 0 || !run->counts ? run->rows : g->rows);
  if (run->statistics.length > 0)
    WEFT_RETURN_IF_ERROR(weft_job_log_statistics(g->log, run->traced_step, run->statistics));
  if (!run->counts) return NULL;
  if (weft_job_log_wants(g->log, run->done, false)) WEFT_RETURN_IF_ERROR(log_step(j, run->done));
  return ask_waits(j);
}

weft_status_t *weft_job_logging_paused(WEFT_Job *j, int64_t paused_ns) {
  if (j->logging.log == NULL) return NULL;
  weft_job_log_skip(j->logging.log, paused_ns);
  return weft_job_log_flush(j->logging.log);
}

weft_status_t *weft_job_logging_ended(WEFT_Job *j, bool asks) {
  weft_job_logging_t *g = &j->logging;
  const int64_t done = WEFT_JobStepsDone(j);
  if (g->log == NULL || j->run_end == 0) return NULL; /* a program that asks for single steps goes on */
  weft_status_t *s = weft_job_log_wants(g->log, done, true) ? log_step(j, done) : NULL;
  if (s == NULL && asks && j->num_waits > 0) s = log_waits(j, j->waits, j->num_waits);
  return weft_status_join(s, weft_job_log_flush(g->log));
}
