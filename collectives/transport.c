/* collectives/transport.c - groups, and the parts of keys and device names. */
#include "collectives/transport.h"

#include <string.h>

#include "base/alloc.h"

weft_group_t *weft_group_new(int64_t key, int size) {
  weft_group_t *g = weft_calloc(1, sizeof *g);
  if (g == NULL) return NULL;
  atomic_init(&g->refs, 1);
  g->key = key;
  g->size = size;
  g->members = weft_arena_calloc(&g->arena, (size_t)size, sizeof *g->members);
  if (g->members == NULL) {
    weft_group_release(g);
    return NULL;
  }
  return g;
}

weft_group_t *weft_group_retain(weft_group_t *g) {
  if (g != NULL) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
  return g;
}

void weft_group_release(weft_group_t *g) {
  if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
  weft_arena_deinit(&g->arena);
  weft_free(g);
}

int weft_group_rank_of(const weft_group_t *g, weft_str_t device) {
  for (int i = 0; g != NULL && i < g->size; i++) {
    if (weft_str_eq(g->members[i].device, device)) return i;
  }
  return -1;
}

bool weft_group_has_task(const weft_group_t *g, weft_str_t task) {
  for (int i = 0; g != NULL && i < g->size; i++) {
    if (weft_str_eq(g->members[i].task, task)) return true;
  }
  return false;
}

static const char device_mark[] = "/device:";

/* Where "/device:" begins in `device`; its length if it has none. */
static size_t device_at(weft_str_t device) {
  const size_t n = sizeof device_mark - 1;
  for (size_t i = 0; i + n <= device.length; i++) {
    if (memcmp(device.data + i, device_mark, n) == 0) return i;
  }
  return device.length;
}

weft_str_t weft_transport_task_of(weft_str_t device) { return weft_str_of(device.data, device_at(device)); }

weft_str_t weft_transport_type_of(weft_str_t device) {
  const size_t at = device_at(device), from = at + sizeof device_mark - 1;
  if (at == device.length) return WEFT_STR("");
  weft_str_t rest = weft_str_of(device.data + from, device.length - from), type, number;
  return weft_str_split(rest, ':', &type, &number) ? type : rest;
}

weft_status_t *weft_transport_loss(weft_str_t task, const weft_status_t *why) {
  static const char broken[] = "Collective is broken: ";
  const char *reason = weft_status_message(why);
  if (strncmp(reason, broken, sizeof broken - 1) == 0) return weft_status_clone(why);
  return WEFT_ERROR(UNAVAILABLE, "%stask %.*s is lost: %s", broken, WEFT_STR_ARGS(task), reason);
}
