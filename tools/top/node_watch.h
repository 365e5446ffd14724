/* tools/top/node_watch.h - records a step of the cluster now and then, and tells its slowest nodes.
 *
 * What it costs the jobs is bounded: it records only while it is shown, from the opening of the recordings
 * until one step is whole, or for two seconds; then it rests for twenty times as long as that took, and two
 * seconds at least. So less than one step in twenty is recorded, which costs such a step some percents.
 */
#ifndef WEFT_TOOLS_TOP_NODE_WATCH_H_
#define WEFT_TOOLS_TOP_NODE_WATCH_H_

#include "base/hash_map.h"
#include "server/cluster.h"
#include "tools/top/view.h"

typedef struct weft_top_node_watch weft_top_node_watch_t; /* Thread-safe. */

/* Starts a thread, which connects when it is shown for the first time. `cluster` (borrowed) must outlive it.
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_top_node_watch_create(const weft_cluster_t *cluster,
                                                          weft_top_node_watch_t **out);
/* Ends a recording that is open and the thread: takes two seconds at most. NULL is fine. */
void weft_top_node_watch_destroy(weft_top_node_watch_t *w);
void weft_top_node_watch_show(weft_top_node_watch_t *w, bool is_shown); /* false at first */
/* Fills what `v` says of nodes: those of the last step. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_top_node_watch_look(weft_top_node_watch_t *w, weft_top_view_t *v);
/* Waits until a step was recorded or there was none to record, until weft_clock_ns() is `deadline_ns`, or
 * until `stop_fd` is readable. */
void weft_top_node_watch_wait(weft_top_node_watch_t *w, int64_t deadline_ns, int stop_fd);

/* Nodes of a step, by name and device. */
typedef struct weft_top_node_list {
  weft_arena_t *arena;    /* of texts; borrowed */
  weft_top_node_t *nodes; /* room for `room`; borrowed */
  int n, room;
  weft_map_t known; /* where a node is; owned */
} weft_top_node_list_t;
/* Adds what the nodes of a task's part of a step took. Nodes that wait for others (receives) and transfers
 * are left out; so is what there is no room for. Bytes that are no StepStats end it. */
void weft_top_nodes_add(weft_top_node_list_t *l, weft_str_t step_stats);
void weft_top_nodes_deinit(weft_top_node_list_t *l);

#endif /* WEFT_TOOLS_TOP_NODE_WATCH_H_ */
