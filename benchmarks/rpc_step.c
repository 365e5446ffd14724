/* benchmarks/rpc_step.c - the time of one step over gRPC, seen by a client in C that does nothing else.
 *
 * The step's request is encoded anew each time, as by a client that feeds new
 * values. The clock runs from before the encoding until the answer is decoded.
 */
#include "benchmarks/rpc_step.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "protos/wire.h"
#include "services/remote_master.h"

enum { MAX_GRAPH_BYTES = 1 << 30, GRAPH_PRODUCER = 987 };

/* ---- the graph ---- */

/* Begins a NodeDef; the caller ends it. */
static size_t begin_node(weft_strbuf_t *b, const char *name, const char *op) {
  size_t mark = weft_wire_begin(b, 1);
  weft_wire_put_text(b, 1, name);
  weft_wire_put_text(b, 2, op);
  return mark;
}
/* An attribute with DT_FLOAT as its value. */
static void add_float_type(weft_strbuf_t *b, const char *name) {
  size_t entry = weft_wire_begin(b, 5);
  weft_wire_put_text(b, 1, name);
  size_t value = weft_wire_begin(b, 2);
  weft_wire_put_varint(b, 6, 1);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}
/* One with the scalar 1.0. */
static void add_one(weft_strbuf_t *b) {
  size_t entry = weft_wire_begin(b, 5);
  weft_wire_put_text(b, 1, "value");
  size_t value = weft_wire_begin(b, 2);
  size_t tensor = weft_wire_begin(b, 8);
  weft_wire_put_varint(b, 1, 1);
  weft_wire_end(b, weft_wire_begin(b, 2));
  weft_wire_add_bytes(b, 4, WEFT_STR("\x00\x00\x80\x3f"));
  weft_wire_end(b, tensor);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

void weft_rpc_step_write_graph(weft_strbuf_t *b) {
  size_t node = begin_node(b, "x", "Placeholder");
  add_float_type(b, "dtype");
  weft_wire_end(b, node);
  node = begin_node(b, "one", "Const");
  add_float_type(b, "dtype");
  add_one(b);
  weft_wire_end(b, node);
  node = begin_node(b, "y", "AddV2");
  weft_wire_put_text(b, 3, "x");
  weft_wire_put_text(b, 3, "one");
  add_float_type(b, "T");
  weft_wire_end(b, node);
  weft_wire_end(b, begin_node(b, "noop", "NoOp"));
  size_t versions = weft_wire_begin(b, 4);
  weft_wire_put_varint(b, 1, GRAPH_PRODUCER);
  weft_wire_end(b, versions);
}

static weft_status_t *read_graph(const char *path, weft_strbuf_t *b) {
  FILE *f = fopen(path, "rb");
  if (f == NULL) return WEFT_ERROR(NOT_FOUND, "cannot read '%s': %s", path, strerror(errno));
  char part[65536];
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0 && b->length < MAX_GRAPH_BYTES;)
    weft_strbuf_append(b, weft_str_of(part, n));
  fclose(f);
  return b->failed ? WEFT_NO_MEMORY("'%s'", path) : NULL;
}

/* ---- the steps ---- */

typedef struct step_answer {
  weft_status_t *status;
  char session[64];
} step_answer_t;

static void on_session(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  (void)version;
  step_answer_t *a = arg;
  a->status = status;
  if (status == NULL) snprintf(a->session, sizeof a->session, "%.*s", WEFT_STR_ARGS(session));
}
static void on_step(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  ((step_answer_t *)arg)->status = status;
  for (int i = 0; result != NULL && i < result->num_fetches; i++) weft_tensor_release(result->fetches[i]);
}
static void on_closed(void *arg, weft_status_t *status) { ((step_answer_t *)arg)->status = status; }

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static weft_status_t *time_steps(weft_master_client_t *m, const weft_run_step_t *run,
                                 const weft_rpc_step_t *step, weft_rpc_step_result_t *out) {
  double *us = weft_calloc((size_t)step->steps, sizeof *us), sum = 0;
  step_answer_t a = {.status = NULL};
  if (us == NULL) return WEFT_NO_MEMORY("%d times", step->steps);
  for (int i = -step->warmup; i < step->steps && a.status == NULL; i++) {
    int64_t begin = weft_clock_ns();
    m->ops->run_step(m, run, NULL, on_step, &a); /* on this thread; answered when it returns */
    if (i >= 0) us[i] = (double)(weft_clock_ns() - begin) / 1e3;
  }
  if (a.status == NULL) {
    for (int i = 0; i < step->steps; i++) sum += us[i];
    qsort(us, (size_t)step->steps, sizeof *us, compare);
    *out = (weft_rpc_step_result_t){.median_us = us[step->steps / 2],
                                    .mean_us = sum / step->steps,
                                    .min_us = us[0],
                                    .p99_us = us[(int)((double)step->steps * 0.99)]};
  }
  weft_free(us);
  return a.status;
}

/* "name=1.5" */
static weft_status_t *read_feed(const char *text, weft_named_tensor_t *out) {
  const char *equals = strrchr(text, '=');
  char *end = NULL;
  float value = equals == NULL ? 0 : strtof(equals + 1, &end);
  if (equals == NULL || end == equals + 1 || *end != '\0')
    return WEFT_ERROR(INVALID_ARGUMENT, "'%s' is not NAME=FLOAT", text);
  out->name = weft_str_of(text, (size_t)(equals - text));
  return weft_tensor_scalar(WEFT_F32, &value, &out->tensor);
}

static weft_status_t *run_session(weft_master_client_t *m, const weft_rpc_step_t *step, weft_str_t graph,
                                  weft_rpc_step_result_t *out) {
  bool is_default = step->num_feeds + step->num_fetches + step->num_targets == 0;
  weft_named_tensor_t feeds[WEFT_RPC_STEP_MAX_NAMES] = {{{NULL, 0}, NULL}};
  weft_str_t fetches[WEFT_RPC_STEP_MAX_NAMES], targets[WEFT_RPC_STEP_MAX_NAMES] = {WEFT_STR("noop")};
  step_answer_t a = {.status = NULL};
  weft_create_session_t create = {.graph_def = graph, .target = weft_str(step->master)};
  m->ops->create_session(m, &create, NULL, on_session, &a);
  weft_status_t *s = a.status;
  if (s != NULL) return s;
  for (int i = 0; i < step->num_feeds && s == NULL; i++) s = read_feed(step->feeds[i], &feeds[i]);
  for (int i = 0; i < step->num_fetches; i++) fetches[i] = weft_str(step->fetches[i]);
  for (int i = 0; i < step->num_targets; i++) targets[i] = weft_str(step->targets[i]);
  weft_run_step_t run = {.session = weft_str(a.session),
                         .feeds = feeds,
                         .num_feeds = step->num_feeds,
                         .fetches = fetches,
                         .num_fetches = step->num_fetches,
                         .targets = targets,
                         .num_targets = is_default ? 1 : step->num_targets};
  if (s == NULL) s = time_steps(m, &run, step, out);
  for (int i = 0; i < step->num_feeds; i++) weft_tensor_release(feeds[i].tensor);
  m->ops->close_session(m, weft_str(a.session), on_closed, &a);
  return weft_status_join(s, a.status);
}

weft_status_t *weft_rpc_step_measure(const weft_rpc_step_t *step, weft_rpc_step_result_t *out) {
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  weft_rpc_client_t *rpc = NULL;
  weft_rpc_channel_t *channel = NULL;
  weft_master_client_t *master = NULL;
  weft_str_t target = weft_str(step->master);
  if (weft_str_starts_with(target, "grpc://")) target = weft_str(step->master + strlen("grpc://"));
  weft_status_t *s = NULL;
  if (step->graph_file != NULL) {
    s = read_graph(step->graph_file, &graph);
  } else {
    weft_rpc_step_write_graph(&graph);
  }
  if (s == NULL) s = weft_rpc_client_create(1, &rpc);
  if (s == NULL) s = weft_rpc_channel_create(rpc, target, &channel);
  if (s == NULL) s = weft_remote_master_client_create(channel, 0, &master);
  if (s == NULL) s = run_session(master, step, weft_str_of(graph.data, graph.length), out);
  weft_master_client_release(master);
  weft_rpc_channel_release(channel);
  weft_rpc_client_destroy(rpc);
  weft_strbuf_deinit(&graph);
  return s;
}

/* ---- `weft bench` ---- */

/* Starts `weft server` on a free port; *out_line gets the address it prints. */
static weft_status_t *start_server(const char *weft, pid_t *child, char *line, size_t size) {
  int says[2];
  if (pipe(says) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  *child = fork();
  if (*child == 0) {
    dup2(says[1], STDOUT_FILENO);
    close(says[0]);
    close(says[1]);
    execl(weft, weft, "server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", "--task", "0",
          (char *)NULL);
    _exit(127);
  }
  close(says[1]);
  size_t n = 0;
  while (*child > 0 && n + 1 < size && read(says[0], line + n, 1) == 1 && line[n] != '\n') n++;
  line[n] = '\0';
  close(says[0]);
  const char *address = strstr(line, "grpc://");
  if (address == NULL) return WEFT_ERROR(INTERNAL, "'%s server' did not start", weft);
  memmove(line, address, strlen(address) + 1);
  return NULL;
}

/* In a child, as gRPC does not survive the forks of benchmarks to come. */
static weft_status_t *measure_in_child(const weft_rpc_step_t *step, double *out_value) {
  int says[2];
  weft_rpc_step_result_t r;
  if (pipe(says) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  pid_t child = fork();
  if (child == 0) {
    close(says[0]);
    weft_status_t *s = weft_rpc_step_measure(step, &r);
    if (s != NULL) fprintf(stderr, "rpc_step: %s\n", weft_status_message(s));
    _exit(s != NULL || write(says[1], &r.median_us, sizeof r.median_us) != sizeof r.median_us);
  }
  close(says[1]);
  bool ok = child > 0 && read(says[0], out_value, sizeof *out_value) == sizeof *out_value;
  close(says[0]);
  if (child > 0) waitpid(child, NULL, 0);
  return ok ? NULL : WEFT_ERROR(INTERNAL, "the client failed: see above");
}

weft_status_t *weft_bench_rpc_step(const weft_bench_options_t *o, double *out_value) {
  char address[256] = "";
  pid_t server = -1;
  if (o->weft_path == NULL) return WEFT_ERROR(UNIMPLEMENTED, "needs the weft command");
  weft_status_t *s = start_server(o->weft_path, &server, address, sizeof address);
  weft_rpc_step_t step = {.feeds = {"x:0=2"},
                          .num_feeds = 1,
                          .fetches = {"y:0"},
                          .num_fetches = 1,
                          .master = address,
                          .steps = o->is_quick ? 200 : 5000,
                          .warmup = o->is_quick ? 20 : 500};
  if (s == NULL) s = measure_in_child(&step, out_value);
  if (server > 0) {
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
  }
  return s;
}
