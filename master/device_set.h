/* master/device_set.h - the devices that a session may use, found by full or partial name. */
#ifndef WEFT_MASTER_DEVICE_SET_H_
#define WEFT_MASTER_DEVICE_SET_H_

#include "base/hash_map.h"
#include "base/name_list.h"
#include "device/device_name.h"
#include "worker/worker_client.h"

enum { WEFT_HOST_TYPE = 1 }; /* the type bit of the host's devices: theirs is the first driver */

typedef struct weft_session_device {
  weft_device_attributes_t attributes;
  weft_device_name_t name; /* parsed */
  weft_str_t task;         /* "/job:x/replica:0/task:n"; a view into attributes.name */
  uint32_t type_bit;       /* as weft_kernel_support_fn's; 0: no driver knows the type */
  bool is_local;           /* on the master's own task */
} weft_session_device_t;

/* Immutable once filled. Sorted by preference: type (GPU before CPU), local before remote, name. */
typedef struct weft_device_set {
  weft_device_list_t list; /* owns the texts */
  weft_session_device_t *devices;
  int n;
  weft_map_t by_name;
  const weft_session_device_t *client; /* the master's own CPU:0: feeds and fetches live there */
} weft_device_set_t;

/* Adds what a worker reported. Names that are not full are refused. A device that is named after another task
 * than `task`, which reported it, gets the name of `task`: in a session's own cluster a worker has another
 * name than at its start. */
WEFT_MUST_CHECK weft_status_t *weft_device_set_add(weft_device_set_t *s, weft_str_t task,
                                                   const weft_device_list_t *reported);
/* Sorts and indexes. Devices of `master_task` are local. Errors: INTERNAL if the master's task has no CPU. */
WEFT_MUST_CHECK weft_status_t *weft_device_set_finish(weft_device_set_t *s, weft_str_t master_task);
void weft_device_set_deinit(weft_device_set_t *s);
const weft_session_device_t *weft_device_set_find(const weft_device_set_t *s,
                                                  weft_str_t full_name); /* NULL if absent */
/* The most preferred device that matches `pattern` and whose type is in `types`; NULL if there is none. */
const weft_session_device_t *weft_device_set_choose(const weft_device_set_t *s,
                                                    const weft_device_name_t *pattern, uint32_t types);
/* Adds the names, in order, for messages. */
void weft_device_set_list(const weft_device_set_t *s, weft_name_list_t *out);

#endif /* WEFT_MASTER_DEVICE_SET_H_ */
