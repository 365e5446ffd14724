/* jobs/cluster_view.c - tasks from device names and from texts. */
#include "jobs/cluster_view.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/device_name.h"
#include "kernels/loaded/library.h"
#include "server/cluster.h"

enum { MAX_TASKS = 1 << 16 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a view of a cluster"); }

void weft_job_view_init(weft_job_view_t *v) { *v = (weft_job_view_t){.arena = WEFT_ARENA_INIT}; }

void weft_job_view_deinit(weft_job_view_t *v) {
  weft_arena_deinit(&v->arena);
  weft_free(v->tasks);
}

static int compare(const void *a, const void *b) {
  const weft_task_devices_t *x = a, *y = b;
  int by_job = weft_str_compare(x->job, y->job);
  return by_job != 0 ? by_job : (x->index > y->index) - (x->index < y->index);
}

/* The task, made if it is new. */
static weft_status_t *find_task(weft_job_view_t *v, weft_str_t job, int index, weft_str_t host,
                                weft_task_devices_t **out) {
  for (int i = 0; i < v->cluster.num_tasks; i++) {
    *out = &v->tasks[i];
    if (weft_str_eq((*out)->job, job) && (*out)->index == index) return NULL;
  }
  if (v->cluster.num_tasks == v->capacity) {
    int capacity = v->capacity == 0 ? 8 : 2 * v->capacity;
    weft_task_devices_t *more = weft_realloc(v->tasks, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory();
    v->tasks = more;
    v->capacity = capacity;
  }
  weft_device_text_t text;
  weft_device_name_t name = {
      .has_job = true, .has_replica = true, .has_task = true, .job = job, .task = index};
  weft_str_t task = weft_arena_str(&v->arena, weft_str(weft_device_name_print(&name, &text)));
  weft_str_t own_job = weft_arena_str(&v->arena, job), own_host = weft_arena_str(&v->arena, host);
  if (task.data == NULL || own_job.data == NULL || own_host.data == NULL) return no_memory();
  *out = &v->tasks[v->cluster.num_tasks++];
  **out = (weft_task_devices_t){.task = task, .job = own_job, .index = index, .host = own_host};
  return NULL;
}

static void finish(weft_job_view_t *v) {
  if (v->cluster.num_tasks > 1) qsort(v->tasks, (size_t)v->cluster.num_tasks, sizeof *v->tasks, compare);
  v->cluster.tasks = v->tasks;
}

weft_status_t *weft_job_view_add_device(weft_job_view_t *v, weft_str_t text) {
  weft_device_name_t name;
  weft_task_devices_t *task;
  WEFT_RETURN_IF_ERROR(weft_device_name_parse(text, &name));
  if (!weft_device_name_is_full(&name))
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' is not the whole name of a device", WEFT_STR_ARGS(text));
  if (weft_str_starts_with(name.type, "XLA_")) return NULL; /* TensorFlow's: the same device once more */
  WEFT_RETURN_IF_ERROR(find_task(v, name.job, name.task, WEFT_STR(""), &task));
  int *count = &task->num_cpus;
  if (!weft_str_is(name.type, WEFT_HOST_DEVICE_TYPE)) {
    count = &task->num_accelerators;
    if (!weft_str_eq(name.type, task->accelerator)) {
      task->accelerator = weft_arena_str(&v->arena, name.type);
      if (task->accelerator.data == NULL) return no_memory();
      *count = 0;
    }
  }
  if (name.id >= *count) *count = name.id + 1;
  finish(v);
  return NULL;
}

/* ---- texts ---- */

static weft_status_t *add_count(weft_job_view_t *v, weft_str_t part, int num_cpus) {
  weft_str_t job, number;
  int64_t n;
  if (!weft_str_split(part, '=', &job, &number) || job.length == 0 || !weft_str_to_i64(number, &n) || n < 1 ||
      n > MAX_TASKS) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "'%.*s' is no part of a cluster: give JOB=TASKS, or JOB=HOST:PORT,HOST:PORT;...",
                      WEFT_STR_ARGS(part));
  }
  for (int i = 0; i < (int)n; i++) {
    weft_task_devices_t *task;
    WEFT_RETURN_IF_ERROR(find_task(v, job, i, WEFT_STR(""), &task));
    task->num_cpus = num_cpus;
  }
  return NULL;
}

static weft_status_t *add_addresses(weft_job_view_t *v, weft_str_t text, int num_cpus) {
  weft_cluster_t cluster;
  WEFT_RETURN_IF_ERROR(weft_cluster_parse(text, &cluster));
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < cluster.num_tasks; i++) {
    const weft_cluster_task_t *t = &cluster.tasks[i];
    ptrdiff_t colon = weft_str_rfind(t->address, ':');
    weft_task_devices_t *task;
    s = find_task(v, t->job, t->index, weft_str_of(t->address.data, colon < 0 ? 0 : (size_t)colon), &task);
    if (s == NULL) task->num_cpus = num_cpus;
  }
  weft_cluster_deinit(&cluster);
  return s;
}

weft_status_t *weft_job_view_parse(weft_job_view_t *v, weft_str_t text, int num_cpus) {
  weft_status_t *s = NULL;
  if (weft_str_find(text, ':') >= 0) {
    s = add_addresses(v, text, num_cpus);
  } else {
    weft_str_t part, rest = text;
    while (s == NULL && weft_str_split(rest, ',', &part, &rest)) s = add_count(v, part, num_cpus);
    if (s == NULL) s = add_count(v, rest, num_cpus);
  }
  finish(v);
  return s;
}

weft_status_t *weft_job_view_local(weft_job_view_t *v, int num_cpus) {
  weft_task_devices_t *task;
  WEFT_RETURN_IF_ERROR(find_task(v, WEFT_STR("localhost"), 0, WEFT_STR(""), &task));
  weft_device_libraries_load();
  const weft_device_driver_t *driver = weft_device_accelerator();
  task->num_cpus = 1;
  if (driver != NULL) task->accelerator = weft_str(driver->type);
  if (driver != NULL) task->num_accelerators = weft_device_count(driver);
  v->cluster.num_local_cpus = num_cpus;
  finish(v);
  return NULL;
}
