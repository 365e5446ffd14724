/* tools/top/view.h - what `weft top` shows of a cluster at one time. Filled by the poller and the node watch;
 * printed as lines (table.h) or JSON (view_json.h).
 */
#ifndef WEFT_TOOLS_TOP_VIEW_H_
#define WEFT_TOOLS_TOP_VIEW_H_

#include "tools/top/numbers.h"

typedef enum weft_top_state {
  WEFT_TOP_ASKED,       /* no answer yet, and no failure */
  WEFT_TOP_UP,          /* it answers */
  WEFT_TOP_SILENT,      /* it has a connection, and does not answer: it is stopped, or its host overloaded */
  WEFT_TOP_LOST,        /* it has answered before, and takes no connections now */
  WEFT_TOP_UNREACHABLE, /* it has never answered */
} weft_top_state_t;
const char *weft_top_state_name(weft_top_state_t s); /* "up" */

typedef enum weft_top_lag { WEFT_TOP_NO_LAG, WEFT_TOP_SLOW, WEFT_TOP_RARE } weft_top_lag_t;

typedef struct weft_top_task {
  weft_str_t job, name, full, address; /* "worker", "worker:1", "/job:worker/replica:0/task:1", "host:2222" */
  weft_top_state_t state;
  double since;     /* seconds since 1970: when an up task was made, and since when it is in another state */
  weft_str_t why;   /* of a state that is not up, in a line; "" */
  bool has_numbers; /* it has answered once: these are of its last answer */
  double running, worker_sessions, master_sessions, resident, losses;
  weft_top_tag_t tags[WEFT_TOP_TAGS];
  int num_tags;
  bool has_figures; /* it is up, and has answered twice */
  weft_top_figures_t figures;
  weft_top_lag_t lag; /* SLOW: its runs take `lag_by` times the median of its job; RARE: the median rate is
                         `lag_by` times its own (INFINITY: it has ended no run, and others have) */
  double lag_by;
} weft_top_task_t;

typedef struct weft_top_traffic { /* from one task to another in the last interval */
  weft_str_t from, to, kind;
  weft_top_rate_t rate;
} weft_top_traffic_t;

typedef struct weft_top_node { /* of one step */
  weft_str_t name, op, device;
  double seconds, share; /* in the step, and of the step's time; devices run beside each other */
  int runs;
} weft_top_node_t;

typedef struct weft_top_view {
  weft_arena_t arena;
  double time;  /* seconds since 1970 */
  double every; /* seconds between two views */
  double straggler_factor;
  weft_top_task_t *tasks; /* in the order of the cluster */
  int num_tasks;
  weft_top_traffic_t *traffic; /* the most bytes first */
  int num_traffic;
  bool has_nodes;         /* a step was recorded */
  weft_top_node_t *nodes; /* the slowest first */
  int num_nodes;
  double nodes_time, step_seconds; /* when that step ended, seconds since 1970; how long it took */
  int64_t step_id;
  weft_str_t nodes_trouble; /* why there are none; "" */
} weft_top_view_t;
void weft_top_view_deinit(weft_top_view_t *v);

/* Marks the tasks of a job that are off the median of their job by more than straggler_factor: runs
 * take longer, in the mean and at the 99th percentile, or come less often. Compared are those that are up and
 * have sessions; of an even number the lower one of the middle is the median. A task that other tasks' steps
 * pass through (the master's, which has a short part of each) is faster in the mean and runs more often than
 * its peers: the percentile and the lower median are there so that these are not taken for stragglers. A rate
 * is judged from 4 steps on; with 4 steps of another task, one without any is marked in any case. */
void weft_top_mark_stragglers(weft_top_view_t *v);

/* What tasks can be sorted by: "task" is the cluster's order, the others begin with the most. */
typedef enum weft_top_order {
  WEFT_TOP_BY_TASK,
  WEFT_TOP_BY_STEPS,
  WEFT_TOP_BY_TIME,
  WEFT_TOP_BY_CPU,
  WEFT_TOP_BY_MEMORY,
  WEFT_TOP_NUM_ORDERS,
} weft_top_order_t;
extern const char *const weft_top_order_names[WEFT_TOP_NUM_ORDERS];
/* Fills out[num_tasks] with the numbers of the tasks in that order. */
void weft_top_sort(const weft_top_view_t *v, weft_top_order_t by, int *out);

double weft_top_memory(const weft_top_task_t *t, bool is_peak); /* of all tags */

#endif /* WEFT_TOOLS_TOP_VIEW_H_ */
