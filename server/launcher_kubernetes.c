/* server/launcher_kubernetes.c - the pods of StatefulSets behind a headless Service.
 *
 * Each job is a StatefulSet, and its name ends with the job's: of jobs ps and worker, pod "digits-worker-1"
 * is worker 1, and ps 0 is at "digits-ps-0.SERVICE". A single job may have a set with any name. The number of
 * replicas is not something that a pod can ask for without rights at the API server, so that the manifest
 * says it: in WEFT_JOBS, beside `replicas`.
 *
 * Source: StatefulSet's "stable network ID": a pod's host name is SET-ORDINAL, its DNS name
 * SET-ORDINAL.SERVICE.
 */
#include <stdio.h>

#include "server/launcher_ranks.h"

#define FIELD "set it to the field metadata.name in the manifest"

/* A pod's name in parts: PREFIX, which all sets share, the job, the ordinal. */
typedef struct pod {
  weft_str_t set, prefix;
  int job, ordinal;
} pod_t;

/* Letters, digits, '-' and '.': what a DNS name has. */
static bool is_dns_name(weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    char c = s.data[i];
    bool is_inner = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_inner && (i == 0 || i + 1 == s.length || (c != '-' && c != '.'))) return false;
  }
  return s.length > 0 && s.length <= 253;
}

static weft_status_t *no_set(weft_str_t set) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "StatefulSet '%.*s' has no job: with several jobs, end its name with one of WEFT_JOBS, as in "
      "digits-worker",
      WEFT_STR_ARGS(set));
}

static weft_status_t *find_job(const weft_ranks_t *r, pod_t *p) {
  p->prefix = p->set;
  for (p->job = 0; p->job < r->num_jobs; p->job++) {
    weft_str_t name = r->jobs[p->job].name, set = p->set;
    if (name.length > set.length ||
        !weft_str_eq(weft_str_of(set.data + set.length - name.length, name.length), name))
      continue;
    p->prefix.length = set.length - name.length;
    if (p->prefix.length == 0 || p->prefix.data[p->prefix.length - 1] == '-') return NULL;
  }
  if (r->num_jobs > 1) return no_set(p->set);
  p->job = 0; /* the only one, with a set of another name */
  p->prefix = (weft_str_t){NULL, 0};
  return NULL;
}

static weft_status_t *read_pod(const weft_ranks_t *r, pod_t *p) {
  const char *variable = "WEFT_POD_NAME";
  weft_str_t name = weft_ranks_variable(r, variable);
  if (name.length == 0) name = weft_ranks_variable(r, variable = "HOSTNAME");
  if (name.length == 0) return WEFT_ERROR(FAILED_PRECONDITION, "WEFT_POD_NAME is not set: " FIELD);
  ptrdiff_t dash = weft_str_rfind(name, '-');
  uint64_t ordinal = 0;
  if (dash <= 0 || !is_dns_name(name) ||
      !weft_str_to_u64(weft_str_of(name.data + dash + 1, name.length - (size_t)dash - 1), &ordinal))
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "%s is '%.*s', not a StatefulSet's name and a number, as in digits-worker-0: WEFT_POD_NAME "
        "belongs to the field metadata.name of a pod of a StatefulSet",
        variable, name.length > 255 ? 255 : (int)name.length, name.data);
  p->set = weft_str_of(name.data, (size_t)dash);
  WEFT_RETURN_IF_ERROR(find_job(r, p));
  int num_tasks = r->jobs[p->job].num_tasks;
  if (ordinal >= (uint64_t)num_tasks)
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "pod '%.*s' is over the %d tasks of job '%.*s': change WEFT_JOBS when you change replicas",
        WEFT_STR_ARGS(name), num_tasks, WEFT_STR_ARGS(r->jobs[p->job].name));
  p->ordinal = (int)ordinal;
  return NULL;
}

static weft_status_t *set_pod(weft_ranks_t *r, const pod_t *own, int rank, int job, int ordinal,
                              weft_str_t service) {
  char host[600];
  weft_str_t name = r->jobs[job].name;
  if (own->prefix.data == NULL) {
    (void)snprintf(host, sizeof host, "%.*s-%d.%.*s", WEFT_STR_ARGS(own->set), ordinal,
                   WEFT_STR_ARGS(service));
  } else {
    (void)snprintf(host, sizeof host, "%.*s%.*s-%d.%.*s", WEFT_STR_ARGS(own->prefix), WEFT_STR_ARGS(name),
                   ordinal, WEFT_STR_ARGS(service));
  }
  return weft_ranks_set(r, rank, weft_str(host), 0);
}

weft_status_t *weft_find_kubernetes_ranks(weft_ranks_t *r) {
  weft_str_t service = weft_ranks_variable(r, "WEFT_SERVICE");
  pod_t pod = {.job = 0};
  int num_ranks = 0, rank = 0;
  if (r->num_jobs == 0)
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "WEFT_JOBS is not set: set it to the jobs and their replicas, as in ps=1,worker=2");
  if (service.length == 0)
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "WEFT_SERVICE is not set: set it to the name of the headless Service of the pods");
  if (!is_dns_name(service))
    return WEFT_ERROR(INVALID_ARGUMENT, "WEFT_SERVICE is '%.*s', not the DNS name of a Service",
                      service.length > 255 ? 255 : (int)service.length, service.data);
  for (int i = 0; i < r->num_jobs; i++) {
    if (!is_dns_name(r->jobs[i].name) && r->num_jobs > 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "job '%.*s' cannot be a part of the name of a StatefulSet",
                        WEFT_STR_ARGS(r->jobs[i].name));
    num_ranks += r->jobs[i].num_tasks;
  }
  WEFT_RETURN_IF_ERROR(read_pod(r, &pod));
  WEFT_RETURN_IF_ERROR(weft_ranks_reserve(r, num_ranks));
  for (int i = 0; i < r->num_jobs; i++) {
    for (int t = 0; t < r->jobs[i].num_tasks; t++, rank++) {
      if (i == pod.job && t == pod.ordinal) r->own = rank;
      WEFT_RETURN_IF_ERROR(set_pod(r, &pod, rank, i, t, service));
    }
  }
  return NULL;
}
