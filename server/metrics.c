/* server/metrics.c - what a server tells of itself. */
#include "server/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/metrics.h"

/* ---- the process ---- */

/* Resident pages: the second number of /proc/self/statm; 0: not known. */
static int64_t resident_bytes(void) {
  char text[128] = "", *end = text;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f == NULL) return 0;
  if (fgets(text, sizeof text, f) != NULL) (void)strtoll(text, &end, 10);
  fclose(f);
  return strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}

static int64_t cpu_ns(void) {
  struct timespec t;
  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? t.tv_sec * INT64_C(1000000000) + t.tv_nsec : 0;
}

static void write_process(weft_strbuf_t *out) {
  weft_metrics_family(out, "process_cpu_seconds_total", "counter", "User and system time.");
  weft_metrics_seconds(out, "process_cpu_seconds_total", NULL, 0, cpu_ns());
  weft_metrics_family(out, "process_resident_memory_bytes", "gauge", "Memory in use, tensors and all else.");
  weft_metrics_int(out, "process_resident_memory_bytes", NULL, 0, resident_bytes());
}

/* ---- the cluster ---- */

static void write_members(weft_membership_t *members, weft_strbuf_t *out) {
  enum { MAX = 4096 };
  weft_member_t *all = weft_calloc(MAX, sizeof *all);
  const int n = all == NULL ? 0 : weft_membership_list(members, all, MAX);
  weft_metrics_family(out, "weft_cluster_epoch", "gauge",
                      "Grows when a task joins, is lost, or comes back as another process.");
  weft_metrics_int(out, "weft_cluster_epoch", NULL, 0, (int64_t)weft_membership_epoch(members));
  weft_metrics_family(out, "weft_task_up", "gauge", "1: this task knows the other to be alive.");
  for (int i = 0; i < n; i++) {
    const weft_metric_label_t label = {"task", all[i].task};
    weft_metrics_int(out, "weft_task_up", &label, 1, all[i].state == WEFT_MEMBER_ALIVE);
  }
  weft_metrics_family(out, "weft_task_losses_total", "counter",
                      "How often that process of the task was lost.");
  for (int i = 0; i < n; i++) {
    const weft_metric_label_t label = {"task", all[i].task};
    weft_metrics_int(out, "weft_task_losses_total", &label, 1, (int64_t)all[i].losses);
  }
  weft_free(all);
}

void weft_task_write_metrics(const weft_task_t *t, weft_membership_t *members, weft_strbuf_t *out) {
  write_process(out);
  weft_metrics_family(out, "weft_task_start_time_seconds", "gauge",
                      "When the task's server was made, since 1970.");
  weft_metrics_seconds(out, "weft_task_start_time_seconds", NULL, 0, t->made_micros * 1000);
  write_members(members, out);
  weft_worker_write_metrics(t->worker, out);
  weft_metrics_family(out, "weft_master_sessions", "gauge", "Sessions of clients at this task's master.");
  weft_metrics_int(out, "weft_master_sessions", NULL, 0, weft_master_num_sessions(t->master));
}
