/* tools/submit/feed_args.c - texts to tensors. */
#include "tools/submit/feed_args.h"

#include <inttypes.h>
#include <string.h>

#include "io/npy.h"
#include "tools/submit/value.h"

static weft_str_t without_zero(weft_str_t name) {
  if (weft_str_ends_with(name, ":0")) name.length -= 2;
  return name;
}

/* The next name of "x+y:0". */
static bool next_name(weft_str_t *rest, weft_str_t *out) {
  if (rest->length == 0) return false;
  weft_str_t head = *rest, tail = WEFT_STR("");
  weft_str_split(*rest, '+', &head, &tail);
  *rest = tail;
  *out = without_zero(head);
  return true;
}

static bool is_named(const char *names, weft_str_t name) {
  weft_str_t rest = weft_str(names), one;
  while (next_name(&rest, &one)) {
    if (weft_str_eq(one, without_zero(name))) return true;
  }
  return false;
}

static bool is_file(const char *value) { return weft_str_ends_with(weft_str(value), ".npy"); }

static weft_status_t *read_value(WEFT_Job *job, weft_str_t name, const char *value, weft_tensor_t **out) {
  int dtype = 0;
  bool is_array = is_file(value);
  WEFT_RETURN_IF_ERROR(weft_job_input_dtype(job, name, &dtype));
  weft_status_t *s = is_array ? weft_npy_read(value, out) : weft_value_parse(weft_str(value), dtype, out);
  if (s == NULL) return NULL;
  const char *hint = is_array || strchr(value, '/') == NULL ? "" : "; a file's name ends with .npy";
  bool is_told = !is_array || strstr(weft_status_message(s), value) != NULL;
  weft_status_t *told =
      weft_status_new(weft_status_code(s), __FILE__, __LINE__, "--feed %.*s: %s%s%s%s", WEFT_STR_ARGS(name),
                      is_told ? "" : value, is_told ? "" : ": ", weft_status_message(s), hint);
  weft_status_free(s);
  return told;
}

static weft_status_t *add_feed(WEFT_Job *job, const char *spec, int64_t batch, const char *batch_names) {
  weft_str_t name, rest;
  weft_tensor_t *data = NULL;
  if (!weft_str_split(weft_str(spec), '=', &name, &rest) || name.length == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: give NAME=VALUE or NAME=FILE.npy", spec);
  }
  const char *value = rest.data; /* up to the end of the argument */
  WEFT_RETURN_IF_ERROR(read_value(job, name, value, &data));
  bool is_rows = batch > 0 && is_file(value) && (batch_names == NULL || is_named(batch_names, name));
  return weft_job_add_input(job, name, data, is_rows, value);
}

/* All that are named to be batches are arrays that are fed. */
static weft_status_t *check_names(const weft_option_texts_t *feeds, int64_t batch, const char *batch_names) {
  weft_str_t rest = weft_str(batch_names), wanted, name, value;
  while (next_name(&rest, &wanted)) {
    bool is_fed = false;
    for (int i = 0; i < feeds->n; i++) {
      is_fed = is_fed || (weft_str_split(weft_str(feeds->items[i]), '=', &name, &value) &&
                          is_file(value.data) && weft_str_eq(without_zero(name), wanted));
    }
    if (!is_fed) {
      return WEFT_ERROR(INVALID_ARGUMENT, "--batch %" PRId64 ":%s: there is no --feed %.*s=FILE.npy", batch,
                        batch_names, WEFT_STR_ARGS(wanted));
    }
  }
  return NULL;
}

weft_status_t *weft_submit_feeds(WEFT_Job *job, const weft_option_texts_t *feeds, int64_t batch,
                                 const char *batch_names) {
  for (int i = 0; i < feeds->n; i++) WEFT_RETURN_IF_ERROR(add_feed(job, feeds->items[i], batch, batch_names));
  return batch_names == NULL ? NULL : check_names(feeds, batch, batch_names);
}
