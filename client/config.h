/* client/config.h - what a client itself honours of ConfigProto and RunOptions. */
#ifndef WEFT_CLIENT_CONFIG_H_
#define WEFT_CLIENT_CONFIG_H_

#include "base/str.h"
#include "device/device_options.h"
#include "master/master_client.h"

typedef struct weft_client_config {
  int num_threads;                         /* 0: as many as processors */
  int num_cpus;                            /* device_count["CPU"]; 1 if that is not given */
  weft_accelerator_options_t accelerators; /* gpu_options; device_count["GPU"] */
  weft_str_t collective_leader;            /* experimental.collective_group_leader; lent by the bytes */
  int64_t timeout_ms;                      /* operation_timeout_in_ms; 0: none */
} weft_client_config_t;

/* Appends to `local` (may be NULL) the config without what means something only to remote masters, or is
 * refused by them but allowed in a process: device filters, cluster, thread pools. Errors: INVALID_ARGUMENT.
 */
WEFT_MUST_CHECK weft_status_t *weft_client_config_read(weft_str_t bytes, weft_client_config_t *out,
                                                       weft_strbuf_t *local);
/* Reads a serialized GPUOptions into `out`, which keeps its other fields. What is wrong
 * with them is said in out->wrong, in TensorFlow's words where it has some: where there is no GPU they do not
 * matter. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_gpu_options_read(weft_str_t bytes, weft_accelerator_options_t *out);
/* How many CPU devices a task in this process has. Errors: NOT_FOUND if it would have none, as TensorFlow
 * says it. */
WEFT_MUST_CHECK weft_status_t *weft_client_config_check(const weft_client_config_t *c);
/* Reads a serialized RunOptions. Errors: INVALID_ARGUMENT "Unparseable RunOptions proto". */
WEFT_MUST_CHECK weft_status_t *weft_client_run_options_read(weft_str_t bytes, weft_step_options_t *out);

#endif /* WEFT_CLIENT_CONFIG_H_ */
