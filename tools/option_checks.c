/* tools/option_checks.c - each asks the module that reads the value later. */
#include "tools/option_checks.h"

#include "base/str.h"
#include "device/device_name.h"
#include "graph/passes/optimize.h"
#include "jobs/cluster_view.h"
#include "jobs/container.h"
#include "jobs/master_probe.h"
#include "server/cluster.h"
#include "strategies/strategy.h"

weft_status_t *weft_check_cluster(const char *value) {
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_cluster_parse(weft_str(value), &cluster);
  weft_cluster_deinit(&cluster);
  return s;
}

weft_status_t *weft_check_sizes(const char *value) {
  weft_job_view_t view;
  weft_job_view_init(&view);
  weft_status_t *s = weft_job_view_parse(&view, weft_str(value), 1);
  weft_job_view_deinit(&view);
  return s;
}

weft_status_t *weft_check_strategy(const char *value) { return weft_strategy_check(weft_str(value)); }

weft_status_t *weft_check_passes(const char *value) {
  weft_pass_settings_t settings = weft_pass_defaults();
  return weft_pass_settings_parse(weft_str(value), &settings);
}

weft_status_t *weft_check_master(const char *value) {
  return weft_job_is_master(value) ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give grpc://HOST:PORT");
}

weft_status_t *weft_check_container(const char *value) { return weft_job_container_check(weft_str(value)); }

weft_status_t *weft_check_task(const char *value) {
  weft_device_name_t name;
  weft_status_t *s = weft_device_name_parse(weft_str(value), &name);
  const bool is_task = s == NULL && name.has_job && name.has_task;
  weft_status_free(s);
  return is_task ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give /job:NAME/task:INDEX");
}

/* Is it NAME=REST? */
static bool is_pair(const char *value, bool may_be_empty) {
  weft_str_t name, rest;
  return weft_str_split(weft_str(value), '=', &name, &rest) && name.length > 0 &&
         (may_be_empty || rest.length > 0);
}

weft_status_t *weft_check_feed(const char *value) {
  return is_pair(value, true) ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give NAME=VALUE or NAME=FILE.npy");
}

weft_status_t *weft_check_pair(const char *value) {
  return is_pair(value, true) ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give NAME=VALUE");
}

weft_status_t *weft_check_columns(const char *value) {
  return is_pair(value, false) ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give INPUT=NAME or INPUT=NAME+NAME");
}

weft_status_t *weft_check_array(const char *value) {
  return is_pair(value, false) ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "give NAME=FILE.npy");
}
