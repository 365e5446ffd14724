/* device/device_name.h - "/job:worker/replica:0/task:1/device:CPU:0", whole or in part. */
#ifndef WEFT_DEVICE_DEVICE_NAME_H_
#define WEFT_DEVICE_DEVICE_NAME_H_

#include "base/str.h"

/* The type of the host's devices, which each task has: where all is placed that asks for no other. */
#define WEFT_HOST_DEVICE_TYPE "CPU"

/* Parts that are not given are absent (has_x false). A plain value; texts are borrowed from what was parsed.
 */
typedef struct weft_device_name {
  bool has_job, has_replica, has_task, has_type, has_id;
  weft_str_t job, type;
  int replica, task, id;
} weft_device_name_t;

typedef struct weft_device_text {
  char text[512];
} weft_device_text_t;

/* All of TensorFlow's forms: parts in any order, later ones win, "*" leaves a part open, old "/cpu:0" and
 * "/gpu:0",
 * "" and "/" mean nothing given. Source: UT/device_name_utils.cc as restated in the reference, 3.2.
 * Errors: INVALID_ARGUMENT "Malformed device specification '...'". */
WEFT_MUST_CHECK weft_status_t *weft_device_name_parse(weft_str_t text, weft_device_name_t *out);
/* Prints the known parts in canonical order. Returns text->text. A job name of over 256 bytes never parses.
 */
const char *weft_device_name_print(const weft_device_name_t *n, weft_device_text_t *text);
/* Is `full` one of those that `pattern` describes? */
bool weft_device_name_matches(const weft_device_name_t *pattern, const weft_device_name_t *full);
bool weft_device_name_same_task(const weft_device_name_t *a, const weft_device_name_t *b);
bool weft_device_name_is_full(const weft_device_name_t *n);
/* *into := both; conflicts in job, replica, task are INVALID_ARGUMENT; in type or id too, unless `soft`,
 * which then drops type and id (or id). */
WEFT_MUST_CHECK weft_status_t *weft_device_name_merge(weft_device_name_t *into,
                                                      const weft_device_name_t *other, bool soft);
/* Does every part that both give agree? (For device filters.) */
bool weft_device_name_intersects(const weft_device_name_t *a, const weft_device_name_t *b);
/* "/job:worker/replica:0/task:1" of a full name; a view into `name`. */
weft_str_t weft_device_task_part(weft_str_t full_name);

#endif /* WEFT_DEVICE_DEVICE_NAME_H_ */
