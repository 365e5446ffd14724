/* tools/submit/lane.h - what one thread of a job runs over and over: feeds, fetches, targets of a graph.
 *
 * A graph as it is has one lane. Under a strategy (strategies/strategy.h) it may
 * have several: each worker of an asynchronous strategy runs its own.
 */
#ifndef WEFT_TOOLS_SUBMIT_LANE_H_
#define WEFT_TOOLS_SUBMIT_LANE_H_

#include <stdbool.h>
#include <tensorflow/c/c_api.h>

#include "strategies/strategy.h"

typedef struct weft_run_lane {
  bool is_update;    /* fed nothing, shows nothing: the chief's side of a synchronous update */
  TF_Output *feeds;  /* num_feeds */
  TF_Output *fetches;
  const TF_Operation **targets;
  int num_feeds, num_fetches, num_targets;
} weft_run_lane_t;

typedef struct weft_run_plan {
  TF_Graph *graph;   /* borrowed */
  weft_run_lane_t *lanes;
  const TF_Operation **inits; /* one after the other */
  const char **init_names;
  int num_lanes, num_inits;
  bool in_step;      /* each lane runs once for each update */
  bool lanes_wait;   /* a lane may wait until others have run as often, or nearly */
  bool is_follower;  /* another client runs the first replica: it saves */
  int round_steps;   /* updates come after so many steps each */
  int num_local_cpus; /* of a local session; 0: as it comes */
  int64_t collective_graph_key; /* of every run; 0: none */
} weft_run_plan_t;

#endif /* WEFT_TOOLS_SUBMIT_LANE_H_ */
