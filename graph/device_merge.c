/* graph/device_merge.c - a body node's device: its own wishes first, then its caller's.
 *
 * Device names are "/part:value/part:value"; the legacy "/cpu:0" and "/gpu:0" stand
 * for "/device:CPU:0" and "/device:GPU:0". Only as much is understood here as
 * filling in needs; placement checks names.
 */
#include "graph/inline.h"

typedef enum device_part { JOB, REPLICA, TASK, DEVICE, NUM_PARTS } device_part_t;
static const char *const part_names[NUM_PARTS] = {"job", "replica", "task", "device"};

typedef struct device_parts {
  weft_str_t value[NUM_PARTS]; /* data NULL: open */
  const char *legacy_type;     /* "CPU" or "GPU": value[DEVICE] is then only the number */
} device_parts_t;

static bool split_part(weft_str_t text, device_parts_t *out) {
  weft_str_t key, value;
  if (!weft_str_split(text, ':', &key, &value)) return false;
  for (int i = 0; i < NUM_PARTS; i++) {
    if (!weft_str_is(key, part_names[i])) continue;
    if (!weft_str_is(value, "*")) out->value[i] = value;
    if (i == DEVICE) out->legacy_type = NULL;
    return true;
  }
  bool is_cpu = weft_str_is(key, "cpu") || weft_str_is(key, "CPU");
  if (!is_cpu && !weft_str_is(key, "gpu") && !weft_str_is(key, "GPU")) return false;
  out->legacy_type = is_cpu ? "CPU" : "GPU";
  out->value[DEVICE] = value;
  return true;
}

static bool split(weft_str_t name, device_parts_t *out) {
  memset(out, 0, sizeof *out);
  while (name.length > 0) {
    if (name.data[0] != '/') return false;
    weft_str_t rest = weft_str_of(name.data + 1, name.length - 1);
    ptrdiff_t end = weft_str_find(rest, '/');
    weft_str_t part = end < 0 ? rest : weft_str_of(rest.data, (size_t)end);
    if (part.length > 0 && !split_part(part, out)) return false;
    name = weft_str_of(rest.data + part.length, rest.length - part.length);
  }
  return true;
}

/* "GPU" and "GPU:*" leave the number open; it is the caller's only if the caller is of the same type. */
static void append_device(const device_parts_t *p, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "/device:");
  if (p->legacy_type != NULL) weft_strbuf_printf(out, "%s:", p->legacy_type);
  weft_strbuf_append(out, p->value[DEVICE]);
}

weft_str_t weft_device_merge(weft_graph_t *g, weft_str_t own, weft_str_t caller) {
  device_parts_t mine, theirs;
  if (own.length == 0) return weft_graph_intern(g, caller);
  if (caller.length == 0 || !split(own, &mine) || !split(caller, &theirs)) return weft_graph_intern(g, own);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < DEVICE; i++) {
    weft_str_t value = mine.value[i].data != NULL ? mine.value[i] : theirs.value[i];
    if (value.data != NULL) weft_strbuf_printf(&text, "/%s:%.*s", part_names[i], WEFT_STR_ARGS(value));
  }
  const device_parts_t *device = mine.value[DEVICE].data != NULL ? &mine : &theirs;
  if (device->value[DEVICE].data != NULL) append_device(device, &text);
  weft_str_t merged = {NULL, 0};
  if (!text.failed) merged = weft_graph_intern(g, weft_str_of(text.length > 0 ? text.data : "", text.length));
  weft_strbuf_deinit(&text);
  return merged;
}
