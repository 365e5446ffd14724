/* master/config.h - what the master honours of a ConfigProto. */
#ifndef WEFT_MASTER_CONFIG_H_
#define WEFT_MASTER_CONFIG_H_

#include "base/arena.h"
#include "device/device_name.h"
#include "graph/passes/optimize.h"

typedef struct weft_session_config {
  bool allow_soft_placement, log_device_placement, isolate_session_state;
  bool share_state_in_cluster; /* experimental.share_session_state_in_clusterspec_propagation */
  int64_t operation_timeout_ms;
  const weft_device_name_t *device_filters; /* num_device_filters */
  int num_device_filters;
  weft_str_t cluster_def;      /* serialized ClusterDef; empty: the server's own */
  weft_pass_settings_t passes; /* graph_options */
} weft_session_config_t;

/* Reads a serialized ConfigProto; what it points to is in `arena`. `passes`: what holds without a word.
 * Unknown fields and those that mean nothing to this runtime are ignored. Errors: INVALID_ARGUMENT for bytes
 * that are none, a filter that is none, and for per-session threads, which TensorFlow's master refuses, too.
 */
WEFT_MUST_CHECK weft_status_t *weft_session_config_read(weft_arena_t *arena, weft_str_t bytes,
                                                        const weft_pass_settings_t *passes,
                                                        weft_session_config_t *out);

#endif /* WEFT_MASTER_CONFIG_H_ */
