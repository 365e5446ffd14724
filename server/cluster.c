/* server/cluster.c - the forms in which a cluster is described.
 *
 * Every reader fills a list of tasks in the cluster's arena; finish() sorts it
 * and refuses what cannot be: bad job names, addresses without a port, twins.
 * Public functions put the name of what they read before a refusal; that of
 * weft_cluster_parse() begins with the culprit, as its caller knows the name.
 */
#include "server/cluster.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "protos/wire.h"

enum { MAX_TASKS = 100000, MAX_CONFIG_BYTES = 1 << 24 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a cluster's description"); }

void weft_cluster_deinit(weft_cluster_t *c) {
  weft_arena_deinit(&c->arena);
  weft_free(c->tasks);
  *c = (weft_cluster_t){.arena = WEFT_ARENA_INIT};
}

static bool is_job_name(weft_str_t job) {
  if (job.length == 0 || job.length > 200) return false;
  for (size_t i = 0; i < job.length; i++) {
    char c = job.data[i];
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && (i == 0 || !((c >= '0' && c <= '9') || c == '_'))) return false;
  }
  return true;
}

static bool is_address(weft_str_t address) {
  ptrdiff_t colon = weft_str_rfind(address, ':');
  uint64_t port;
  if (colon <= 0 || weft_str_find(address, '/') >= 0) return false;
  weft_str_t digits = weft_str_of(address.data + colon + 1, address.length - (size_t)colon - 1);
  return weft_str_to_u64(digits, &port) && port <= 65535;
}

static weft_status_t *add(weft_cluster_t *c, weft_str_t job, int64_t index, weft_str_t address) {
  if (!is_job_name(job)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' is not a job name (a letter, then letters, digits and _)",
                      WEFT_STR_ARGS(job));
  }
  if (index < 0 || index >= MAX_TASKS || c->num_tasks >= MAX_TASKS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "job '%.*s' has a task %" PRId64 "; indices are 0..%d",
                      WEFT_STR_ARGS(job), index, MAX_TASKS - 1);
  }
  if (!is_address(address)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' (job '%.*s', task %" PRId64 ") is not host:port",
                      WEFT_STR_ARGS(address), WEFT_STR_ARGS(job), index);
  }
  weft_cluster_task_t task = {weft_arena_str(&c->arena, job), (int)index, weft_arena_str(&c->arena, address)};
  weft_cluster_task_t *tasks = weft_realloc(c->tasks, (size_t)c->num_tasks + 1, sizeof *tasks);
  if (tasks != NULL) c->tasks = tasks;
  if (tasks == NULL || task.job.data == NULL || task.address.data == NULL) return no_memory();
  c->tasks[c->num_tasks++] = task;
  return NULL;
}

static int by_job_and_index(const void *a, const void *b) {
  const weft_cluster_task_t *x = a, *y = b;
  int jobs = weft_str_compare(x->job, y->job);
  return jobs != 0 ? jobs : (x->index > y->index) - (x->index < y->index);
}

static int by_address(const void *a, const void *b) {
  const weft_cluster_task_t *const *x = a, *const *y = b;
  int addresses = weft_str_compare((*x)->address, (*y)->address);
  return addresses != 0 ? addresses : (*x > *y) - (*x < *y);
}

/* Port 0 is any free port: many tasks may ask for it. */
static bool has_port(weft_str_t address) {
  uint64_t port = 0;
  ptrdiff_t colon = weft_str_rfind(address, ':');
  return weft_str_to_u64(weft_str_of(address.data + colon + 1, address.length - (size_t)colon - 1), &port) &&
         port != 0;
}

/* Two tasks at one address: calls to one would reach the other. The tasks are sorted. */
static weft_status_t *check_addresses(const weft_cluster_t *c) {
  const weft_cluster_task_t **by = weft_calloc((size_t)c->num_tasks + 1, sizeof(weft_cluster_task_t *));
  weft_status_t *s = by == NULL ? no_memory() : NULL;
  for (int i = 0; by != NULL && i < c->num_tasks; i++) by[i] = &c->tasks[i];
  if (by != NULL) qsort(by, (size_t)c->num_tasks, sizeof(weft_cluster_task_t *), by_address);
  for (int i = 1; s == NULL && i < c->num_tasks; i++) {
    const weft_cluster_task_t *a = by[i - 1], *b = by[i];
    if (!weft_str_eq(a->address, b->address) || !has_port(a->address)) continue;
    s = WEFT_ERROR(
        INVALID_ARGUMENT, "address %.*s is given to task %d of job '%.*s' and to task %d of job '%.*s'",
        WEFT_STR_ARGS(a->address), a->index, WEFT_STR_ARGS(a->job), b->index, WEFT_STR_ARGS(b->job));
  }
  weft_free(by);
  return s;
}

/* Consumes the status of the reading; on failure the cluster is emptied. */
static weft_status_t *finish(weft_cluster_t *c, weft_status_t *s, weft_cluster_t *out) {
  if (s == NULL && c->num_tasks == 0) s = WEFT_ERROR(INVALID_ARGUMENT, "there are no tasks in it");
  if (s == NULL) qsort(c->tasks, (size_t)c->num_tasks, sizeof *c->tasks, by_job_and_index);
  for (int i = 1; s == NULL && i < c->num_tasks; i++) {
    if (by_job_and_index(&c->tasks[i - 1], &c->tasks[i]) == 0) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "task %d of job '%.*s' is given twice", c->tasks[i].index,
                     WEFT_STR_ARGS(c->tasks[i].job));
    }
  }
  if (s != NULL) {
    weft_cluster_deinit(c);
    return s;
  }
  *out = *c;
  return NULL;
}

/* As above, of a cluster that servers are started in: a session's own may name what it likes, and
 * TensorFlow's words tell what is wrong with it (cluster_maker.c). */
static weft_status_t *finish_servers(weft_cluster_t *c, weft_status_t *s, weft_cluster_t *out) {
  WEFT_RETURN_IF_ERROR(finish(c, s, out));
  s = check_addresses(out);
  if (s != NULL) weft_cluster_deinit(out);
  return s;
}

static weft_status_t *parse_job(weft_cluster_t *c, weft_str_t text) {
  weft_str_t job, rest;
  if (!weft_str_split(text, '=', &job, &rest)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' is not job=host:port,host:port", WEFT_STR_ARGS(text));
  }
  for (int64_t index = 0; rest.data != NULL; index++) {
    weft_str_t address = rest, tail = {NULL, 0};
    (void)weft_str_split(rest, ',', &address, &tail);
    WEFT_RETURN_IF_ERROR(add(c, job, index, address));
    rest = tail;
  }
  return NULL;
}

weft_status_t *weft_cluster_parse(weft_str_t text, weft_cluster_t *out) {
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = NULL;
  while (s == NULL && text.length > 0) {
    weft_str_t job = text, tail = {NULL, 0};
    (void)weft_str_split(text, ';', &job, &tail);
    s = job.length == 0 ? NULL : parse_job(&c, job); /* a semicolon at the end is fine */
    text = tail;
  }
  return finish_servers(&c, s, out);
}

/* ---- TF_CONFIG ---- */

static weft_str_t text_of(const json_t *value) {
  return weft_str_of(json_string_value(value), json_string_length(value));
}

static weft_status_t *read_tasks(weft_cluster_t *c, const char *job, json_t *tasks) {
  size_t i;
  json_t *value;
  const char *key;
  if (json_is_array(tasks)) {
    json_array_foreach(tasks, i, value) {
      if (!json_is_string(value))
        return WEFT_ERROR(INVALID_ARGUMENT, "cluster.%s[%zu] is not a string", job, i);
      WEFT_RETURN_IF_ERROR(add(c, weft_str(job), (int64_t)i, text_of(value)));
    }
    return NULL;
  }
  if (!json_is_object(tasks))
    return WEFT_ERROR(INVALID_ARGUMENT, "cluster.%s is neither a list nor an object", job);
  json_object_foreach(tasks, key, value) {
    int64_t index;
    if (!weft_str_to_i64(weft_str(key), &index) || !json_is_string(value)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "cluster.%s.%s is not \"index\": \"host:port\"", job, key);
    }
    WEFT_RETURN_IF_ERROR(add(c, weft_str(job), index, text_of(value)));
  }
  return NULL;
}

static weft_status_t *read_own_task(weft_cluster_t *c, const json_t *task, weft_str_t *out_job,
                                    int *out_task) {
  const json_t *type = json_object_get(task, "type"), *index = json_object_get(task, "index");
  int64_t number = 0;
  if (!json_is_string(type)) return WEFT_ERROR(INVALID_ARGUMENT, "task.type is missing or not a string");
  bool is_number =
      json_is_integer(index) || (json_is_string(index) && weft_str_to_i64(text_of(index), &number));
  if (!is_number) return WEFT_ERROR(INVALID_ARGUMENT, "task.index is missing or not a number");
  if (json_is_integer(index)) number = json_integer_value(index);
  if (number < 0 || number >= MAX_TASKS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "task.index %" PRId64 " is out of range", number);
  }
  *out_job = weft_arena_str(&c->arena, text_of(type));
  *out_task = (int)number;
  return out_job->data == NULL ? no_memory() : NULL;
}

weft_status_t *weft_cluster_from_tf_config(weft_str_t json, weft_cluster_t *out, weft_str_t *out_job,
                                           int *out_task) {
  if (json.length > MAX_CONFIG_BYTES)
    return WEFT_ERROR(INVALID_ARGUMENT, "TF_CONFIG: %zu bytes are too many", json.length);
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = NULL;
  json_error_t error;
  json_t *root = json_loadb(json.data, json.length, JSON_REJECT_DUPLICATES, &error);
  json_t *cluster = json_object_get(root, "cluster"), *tasks;
  const char *job;
  if (root == NULL)
    s = WEFT_ERROR(INVALID_ARGUMENT, "line %d, column %d: %s", error.line, error.column, error.text);
  if (s == NULL && !json_is_object(cluster))
    s = WEFT_ERROR(INVALID_ARGUMENT, "cluster is missing or not an object");
  if (s == NULL) {
    json_object_foreach(cluster, job, tasks) {
      if (s == NULL) s = read_tasks(&c, job, tasks);
    }
  }
  if (s == NULL) s = read_own_task(&c, json_object_get(root, "task"), out_job, out_task);
  json_decref(root);
  return weft_status_prefix(finish_servers(&c, s, out), "TF_CONFIG: ");
}

/* ---- protos: ClusterDef {job = 1: JobDef {name = 1, tasks = 2: map<int32, string>}} ---- */

static weft_status_t *bad_proto(const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: malformed message", what);
}

static weft_status_t *read_job_def(weft_cluster_t *c, weft_str_t bytes) {
  weft_str_t name = {"", 0};
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) == 1 && weft_wire_type(&f) == WEFT_WIRE_BYTES) name = f.bytes;
  }
  if (r.failed) return bad_proto("JobDef");
  r = weft_wire_reader(bytes);
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) != 2 || weft_wire_type(&f) != WEFT_WIRE_BYTES) continue;
    weft_wire_reader_t e = weft_wire_reader(f.bytes);
    weft_wire_field_t g;
    int64_t index = 0;
    weft_str_t address = {"", 0};
    while (weft_wire_next(&e, &g)) {
      if (weft_wire_number(&g) == 1 && weft_wire_type(&g) == WEFT_WIRE_VARINT) index = weft_wire_i32(g.value);
      if (weft_wire_number(&g) == 2 && weft_wire_type(&g) == WEFT_WIRE_BYTES) address = g.bytes;
    }
    if (e.failed) return bad_proto("JobDef.tasks");
    WEFT_RETURN_IF_ERROR(add(c, name, index, address));
  }
  return NULL;
}

static weft_status_t *read_cluster_def(weft_cluster_t *c, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_number(&f) == 1 && weft_wire_type(&f) == WEFT_WIRE_BYTES)
      WEFT_RETURN_IF_ERROR(read_job_def(c, f.bytes));
  }
  return r.failed ? bad_proto("ClusterDef") : NULL;
}

weft_status_t *weft_cluster_from_cluster_def(weft_str_t bytes, weft_cluster_t *out) {
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  return weft_status_prefix(finish(&c, read_cluster_def(&c, bytes), out), "cluster: ");
}

/* ServerDef {cluster = 1, job_name = 2, task_index = 3, ..., port = 6}. A port there replaces the task's own.
 */
weft_status_t *weft_cluster_from_server_def(weft_str_t bytes, weft_cluster_t *out, weft_str_t *out_job,
                                            int *out_task) {
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  weft_str_t job = {"", 0};
  weft_status_t *s = NULL;
  int task = 0;
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (s == NULL && weft_wire_next(&r, &f)) {
    bool is_bytes = weft_wire_type(&f) == WEFT_WIRE_BYTES;
    if (weft_wire_number(&f) == 1 && is_bytes) s = read_cluster_def(&c, f.bytes);
    if (weft_wire_number(&f) == 2 && is_bytes) job = f.bytes;
    if (weft_wire_number(&f) == 3 && !is_bytes) task = weft_wire_i32(f.value);
  }
  if (s == NULL && r.failed) s = bad_proto("ServerDef");
  if (s == NULL) {
    *out_job = weft_arena_str(&c.arena, job);
    *out_task = task;
    if (out_job->data == NULL) s = no_memory();
  }
  return weft_status_prefix(finish(&c, s, out), "cluster: ");
}

const weft_cluster_task_t *weft_cluster_find(const weft_cluster_t *c, weft_str_t job, int index) {
  for (int i = 0; i < c->num_tasks; i++) {
    if (c->tasks[i].index == index && weft_str_eq(c->tasks[i].job, job)) return &c->tasks[i];
  }
  return NULL;
}

weft_status_t *weft_cluster_copy(const weft_cluster_t *from, weft_cluster_t *out) {
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < from->num_tasks; i++) {
    s = add(&c, from->tasks[i].job, from->tasks[i].index, from->tasks[i].address);
  }
  return finish_servers(&c, s, out);
}
