/* tools/top/numbers.h - the numbers of one task at one time (docs/metrics.md), and what two of them say of
 * the time between.
 */
#ifndef WEFT_TOOLS_TOP_NUMBERS_H_
#define WEFT_TOOLS_TOP_NUMBERS_H_

#include "base/arena.h"
#include "base/status.h"

enum { WEFT_TOP_BUCKETS = 64, WEFT_TOP_TAGS = 8, WEFT_TOP_LINKS = 1 << 16, WEFT_TOP_MEMBERS = 1 << 16 };

typedef struct weft_top_tag { /* memory of tensors by what it is for, over all devices */
  weft_str_t name;
  double now, peak; /* bytes */
} weft_top_tag_t;
typedef struct weft_top_link { /* that this task fetched */
  weft_str_t from, to, kind;   /* tasks; "tensor", "collective" */
  double bytes, messages;
} weft_top_link_t;
typedef struct weft_top_member { /* a task as this one sees it */
  weft_str_t task;
  bool is_up;
  double losses;
} weft_top_member_t;

typedef struct weft_top_numbers {
  weft_arena_t arena;           /* all texts and lists */
  int64_t taken_ns;             /* when, of weft_clock_ns() */
  double started;               /* seconds since 1970: when the task's server was made; 0: not told */
  double ok, cancelled, failed; /* runs of the task's part of a step */
  double running, worker_sessions, master_sessions;
  int num_buckets; /* of how long runs took, sorted by bound; counts are of all up to it */
  double bounds[WEFT_TOP_BUCKETS], counts[WEFT_TOP_BUCKETS];
  double run_seconds, run_count;
  double waited_seconds; /* for input */
  double cpu_seconds, resident;
  weft_top_tag_t tags[WEFT_TOP_TAGS];
  int num_tags;
  weft_top_link_t *links;
  int num_links, room_links;
  weft_top_member_t *members;
  int num_members, room_members;
  int next_link, next_member; /* while it is read: which of them the next sample is thought to be of */
  bool has_memory_failed;
} weft_top_numbers_t;

/* *out is to be given to weft_top_numbers_deinit, also on failure. Numbers that are not finite count as 0,
 * and names that a terminal would not show are shown as '?'. Errors: those of weft_metrics_text_read;
 * INVALID_ARGUMENT: nothing in it is of a Weft task, or too much. */
WEFT_MUST_CHECK weft_status_t *weft_top_numbers_read(weft_str_t text, int64_t taken_ns,
                                                     weft_top_numbers_t *out);
void weft_top_numbers_deinit(weft_top_numbers_t *n);

/* ---- between two times ---- */

typedef struct weft_top_figures {
  double seconds;     /* between the two */
  bool was_restarted; /* the task began anew: rates are those since */
  double steps;       /* runs that ended well, and how many a second */
  double steps_per_second;
  double failures_per_second;                    /* those that failed or were cancelled */
  double mean_seconds, p50_seconds, p99_seconds; /* of a run; -1: none ended */
  double wait_share;                             /* of the runs' time that they waited for input, 0 to 1 */
  double cpus;                                   /* processors that the task used */
  double bytes_in;                               /* a second, from other tasks */
} weft_top_figures_t;
/* Counters that have fallen began anew from 0. `before` and `now` are of one task. */
weft_top_figures_t weft_top_figures(const weft_top_numbers_t *before, const weft_top_numbers_t *now);

/* Did the task begin anew between the two? */
bool weft_top_was_restarted(const weft_top_numbers_t *before, const weft_top_numbers_t *now);
/* What link number `i` of `now` carried a second. */
typedef struct weft_top_rate {
  double bytes, messages;
} weft_top_rate_t;
weft_top_rate_t weft_top_link_rate(const weft_top_numbers_t *before, const weft_top_numbers_t *now, int i);

/* The q-quantile (0 to 1) of n buckets, `counts` those up to each bound: within a bucket the logarithm grows
 * evenly, as bounds do. -1: nothing is counted. What is above all bounds is at the highest. */
double weft_top_quantile(const double *bounds, const double *counts, int n, double q);

#endif /* WEFT_TOOLS_TOP_NUMBERS_H_ */
