/* tools/server_place.c - where a server finds its cluster. */
#include "tools/server_place.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/pmi.h"
#include "server/pmix.h"

static int find_launcher(const weft_place_options_t *o, int from) {
  while (from < WEFT_NUM_LAUNCHERS && !o->is_started_by[from]) from++;
  return from;
}

/* What options say beside each other, whatever their values are. */
static const char *conflict(const weft_place_options_t *o) {
  int launcher = find_launcher(o, 0);
  bool is_launched = launcher < WEFT_NUM_LAUNCHERS;
  if (is_launched && find_launcher(o, launcher + 1) < WEFT_NUM_LAUNCHERS)
    return "give one of --slurm, --mpi and --kubernetes: what starts this process?";
  if (is_launched && o->cluster != NULL)
    return "--cluster says what --slurm, --mpi and --kubernetes find by themselves: leave one out";
  if (is_launched && (o->job != NULL || o->task >= 0))
    return "--slurm, --mpi and --kubernetes find --job and --task by themselves: leave these out";
  if (!is_launched && (o->jobs != NULL || o->port_base >= 0))
    return "--jobs and --port-base are for --slurm, --mpi and --kubernetes: which of them?";
  if (!is_launched && o->cluster == NULL && getenv("TF_CONFIG") == NULL)
    return "which cluster? give --cluster, --slurm, --mpi or --kubernetes, or set TF_CONFIG";
  if (o->cluster != NULL && o->job == NULL && !o->is_client)
    return "give --job: which of the cluster's tasks is this?";
  return NULL;
}

int weft_place_complain(const weft_place_options_t *o, const weft_command_line_t *line) {
  const char *trouble = conflict(o);
  if (trouble != NULL) return weft_options_complain(line, "%s", trouble);
  if (o->cluster == NULL || o->job == NULL) return 0;
  const int task = o->task < 0 ? 0 : (int)o->task;
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_cluster_parse(weft_str(o->cluster), &cluster);
  const bool is_there = s != NULL || weft_cluster_find(&cluster, weft_str(o->job), task) != NULL;
  weft_status_free(s); /* it was read before: there is no memory, which is found again */
  weft_cluster_deinit(&cluster);
  if (is_there) return 0;
  return weft_options_complain(line, "--job %s, --task %d: --cluster has no task %d of job '%s'", o->job,
                               task, task, o->job);
}

static const char *variable(void *arg, const char *name) {
  (void)arg;
  return getenv(name);
}

static weft_status_t *host(void *arg, char *name, size_t size) {
  (void)arg;
  if (gethostname(name, size) != 0 || memchr(name, '\0', size) == NULL)
    return WEFT_ERROR(FAILED_PRECONDITION, "this host has no name, or one that is too long; use --cluster");
  return NULL;
}

static weft_status_t *pmi_places(void *arg, int fd, int rank, const weft_rank_place_t *own, int num_ranks,
                                 weft_arena_t *arena, weft_rank_place_t *out) {
  (void)arg;
  return weft_pmi_places(fd, rank, own, num_ranks, arena, out);
}

static weft_status_t *of_launcher(const weft_place_options_t *o, weft_launcher_id_t id, weft_launch_t *out) {
  static const weft_launch_system_t system = {variable, host, weft_pmix_places, pmi_places, NULL};
  const weft_launch_options_t options = {
      .jobs = o->jobs,
      .port_base = o->port_base >= 0 ? (int)o->port_base : WEFT_DEFAULT_PORT_BASE,
      .is_client = o->is_client,
  };
  return weft_launch(id, &system, &options, out);
}

static weft_status_t *of_options(const weft_place_options_t *o, weft_launch_t *l) {
  const char *config = getenv("TF_CONFIG");
  if (o->cluster != NULL) {
    WEFT_RETURN_IF_ERROR(weft_cluster_parse(weft_str(o->cluster), &l->cluster));
  } else {
    WEFT_RETURN_IF_ERROR(
        weft_cluster_from_tf_config(weft_str(config == NULL ? "" : config), &l->cluster, &l->job, &l->task));
  }
  if (o->job != NULL) l->job = weft_str(o->job);
  if (o->task >= 0) l->task = (int)o->task;
  return NULL;
}

weft_status_t *weft_place_find(const weft_place_options_t *o, weft_launch_t *out) {
  int launcher = find_launcher(o, 0);
  weft_launch_t l = {.cluster = {.arena = WEFT_ARENA_INIT}, .job = {"", 0}};
  if (launcher < WEFT_NUM_LAUNCHERS) return of_launcher(o, (weft_launcher_id_t)launcher, out);
  weft_status_t *s = of_options(o, &l);
  if (s != NULL) {
    weft_launch_deinit(&l);
    return s;
  }
  *out = l;
  return NULL;
}

/* ---- as TF_CONFIG ---- */

static json_t *text_of(weft_str_t s) { return json_stringn(s.data, s.length); }

/* The tasks of one job, from *at on: a list, or an object where indices are missing. */
static json_t *tasks_of(const weft_cluster_t *c, int *at) {
  weft_str_t job = c->tasks[*at].job;
  int end = *at;
  bool is_list = true;
  for (; end < c->num_tasks && weft_str_eq(c->tasks[end].job, job); end++)
    is_list = is_list && c->tasks[end].index == end - *at;
  json_t *tasks = is_list ? json_array() : json_object();
  for (; *at < end; (*at)++) {
    char key[16];
    (void)snprintf(key, sizeof key, "%d", c->tasks[*at].index);
    json_t *address = text_of(c->tasks[*at].address);
    int failed = is_list ? json_array_append_new(tasks, address) : json_object_set_new(tasks, key, address);
    if (failed != 0) {
      json_decref(tasks);
      return NULL;
    }
  }
  return tasks;
}

/* NULL: no memory, or an address that is no UTF-8. */
static json_t *config_of(const weft_launch_t *place) {
  json_t *root = json_object(), *jobs = json_object(), *task = NULL;
  bool ok = json_object_set_new(root, "cluster", jobs) == 0;
  for (int i = 0; ok && i < place->cluster.num_tasks;) {
    weft_str_t job = place->cluster.tasks[i].job;
    ok = json_object_setn_new(jobs, job.data, job.length, tasks_of(&place->cluster, &i)) == 0;
  }
  if (ok && place->job.length > 0) {
    task = json_object();
    ok = json_object_set_new(task, "type", text_of(place->job)) == 0 &&
         json_object_set_new(task, "index", json_integer(place->task)) == 0;
    if (json_object_set_new(root, "task", task) != 0) ok = false;
  }
  if (ok) return root;
  json_decref(root);
  return NULL;
}

weft_status_t *weft_place_print(const weft_launch_t *place) {
  if (place->job.length > 0 && weft_cluster_find(&place->cluster, place->job, place->task) == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "the cluster has no task %d of job '%.*s'", place->task,
                      WEFT_STR_ARGS(place->job));
  json_t *root = config_of(place);
  char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (text == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "cannot write TF_CONFIG: an address is not UTF-8, or there is no memory");
  printf("%s\n", text);
  free(text);
  return NULL;
}
