/* resources/sparse_map.c - sparse tensors by number. */
#include "resources/sparse_map.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

struct weft_sparse_map {
  weft_object_t object;
  weft_mutex_t mu;
  weft_map_t parts; /* weft_sparse_parts_t by number, owned; guarded by mu, as is next */
  int64_t next;
};

const weft_resource_type_t weft_sparse_map_type = {"N10tensorflow16SparseTensorsMapE", "SparseTensorsMap",
                                                   NULL};

void weft_sparse_parts_release(weft_sparse_parts_t *p) {
  weft_tensor_release(p->indices);
  weft_tensor_release(p->values);
  weft_tensor_release(p->shape);
  *p = (weft_sparse_parts_t){0};
}

static void destroy(weft_object_t *o) {
  weft_sparse_map_t *m = (weft_sparse_map_t *)o;
  weft_map_entry_t entry;
  size_t at = 0;
  weft_mutex_lock(&m->mu);
  while (weft_map_next(&m->parts, &at, &entry)) {
    weft_sparse_parts_release(entry.value);
    weft_free(entry.value);
  }
  weft_map_deinit(&m->parts);
  weft_mutex_unlock(&m->mu);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

weft_status_t *weft_sparse_map_create(weft_object_t **out) {
  weft_sparse_map_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("a map of sparse tensors");
  atomic_init(&m->object.refs, 1);
  m->object.destroy = destroy;
  weft_mutex_init(&m->mu);
  *out = &m->object;
  return NULL;
}

weft_status_t *weft_sparse_map_add(weft_sparse_map_t *m, const weft_sparse_parts_t *parts, int64_t *out) {
  weft_sparse_parts_t *held = weft_calloc(1, sizeof *held);
  if (held == NULL) return WEFT_NO_MEMORY("a sparse tensor in a map");
  weft_mutex_lock(&m->mu);
  weft_status_t *s = weft_map_put_u64(&m->parts, (uint64_t)m->next, held, NULL);
  if (s == NULL) {
    *held = (weft_sparse_parts_t){weft_tensor_retain(parts->indices), weft_tensor_retain(parts->values),
                                  weft_tensor_retain(parts->shape)};
    *out = m->next++;
  }
  weft_mutex_unlock(&m->mu);
  if (s != NULL) weft_free(held);
  return s;
}

weft_status_t *weft_sparse_map_take(weft_sparse_map_t *m, const int64_t *numbers, int64_t n,
                                    weft_sparse_parts_t *out) {
  weft_status_t *s = NULL;
  int64_t taken = 0;
  weft_mutex_lock(&m->mu);
  for (; taken < n && s == NULL; taken++) {
    weft_sparse_parts_t *held = weft_map_remove_u64(&m->parts, (uint64_t)numbers[taken]);
    if (held == NULL) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Unable to find SparseTensor: %" PRId64, numbers[taken]);
      break;
    }
    out[taken] = *held;
    weft_free(held);
  }
  weft_mutex_unlock(&m->mu);
  while (s != NULL && taken > 0) weft_sparse_parts_release(&out[--taken]);
  return s;
}
