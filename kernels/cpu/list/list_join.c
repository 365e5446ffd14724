/* kernels/cpu/list/list_join.c - see the header.
 *
 * On a device with queues the items are brought into its memory first, which only those need that were made
 * elsewhere; then each is copied to its place by the compute queue.
 */
#include "kernels/cpu/list/list_join.h"

#include "base/alloc.h"
#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/cpu/loops/common.h"

weft_status_t *weft_list_join_new(weft_kernel_ctx_t *c, weft_dtype_t dtype, int64_t n,
                                  weft_list_join_t **out) {
  weft_list_join_t *j = weft_calloc(1, sizeof *j);
  weft_tensor_t **items = weft_calloc((size_t)n + 1, sizeof *items);
  int64_t *at = weft_calloc((size_t)n + 1, sizeof *at);
  if (j == NULL || items == NULL || at == NULL) {
    weft_free(j);
    weft_free(items);
    weft_free(at);
    return WEFT_NO_MEMORY("joining %lld elements", (long long)n);
  }
  *j = (weft_list_join_t){.c = c, .dtype = dtype, .n = n, .items = items, .at = at};
  *out = j;
  return NULL;
}

void weft_list_join_free(weft_list_join_t *j) {
  if (j == NULL) return;
  weft_tensor_release(j->zeros);
  weft_tensors_free(j->owned, j->num_owned);
  weft_free(j->items);
  weft_free(j->at);
  weft_free(j);
}

/* ---- in the host's memory ---- */

static weft_status_t *fill_host(const weft_list_join_t *j, weft_tensor_t *const *items, weft_tensor_t *out) {
  bool has_gaps = false;
  for (int64_t i = 0; i < j->n; i++) has_gaps = has_gaps || items[i] == NULL;
  if (has_gaps && weft_dtype_is_plain(j->dtype)) memset(out->data, 0, out->bytes);
  for (int64_t i = 0; i < j->n; i++) {
    weft_tensor_t *t = NULL;
    if (items[i] == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_list_item_here(weft_tensor_retain(items[i]), &t));
    weft_status_t *s = weft_tensor_copy_elements(out, j->at[i], t, 0, t->count);
    weft_tensor_release(t);
    if (s != NULL) return s;
  }
  return NULL;
}

/* ---- in a device's ---- */

/* Elements `begin` on of t under another shape, sharing bytes. */
static weft_status_t *share(weft_tensor_t *t, int64_t begin, const weft_shape_t *shape, weft_tensor_t **out) {
  const weft_shape_t all = weft_shape_vector(t->count);
  weft_tensor_t *flat = NULL, *part = NULL;
  weft_status_t *s = weft_tensor_view(t, t->dtype, &all, &flat);
  if (s == NULL) s = weft_tensor_slice(flat, begin, weft_shape_count(shape), &part);
  if (s == NULL) s = weft_tensor_view(part, t->dtype, shape, out);
  weft_tensor_release(flat);
  weft_tensor_release(part);
  return s;
}

/* Elements `from_at` on of `from` to those of `to`, n of them, on the compute queue. */
static weft_status_t *copy(weft_queue_t *q, weft_tensor_t *from, int64_t from_at, weft_tensor_t *to,
                           int64_t to_at, int64_t n) {
  const weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *x = NULL, *y = NULL;
  weft_status_t *s = share(from, from_at, &shape, &x);
  if (s == NULL) s = share(to, to_at, &shape, &y);
  if (s == NULL) {
    weft_queue_wait(q, from->fence);
    s = q->ops->copy(q, x, y);
  }
  weft_tensor_release(x);
  weft_tensor_release(y);
  return s;
}

static weft_status_t *fill_device(const weft_list_join_t *j, weft_tensor_t *const *items,
                                  weft_tensor_t *out) {
  for (int64_t i = 0; i < j->n; i++) {
    weft_tensor_t *from = items[i] != NULL ? items[i] : items[j->n];
    const int64_t n = j->at[i + 1] - j->at[i];
    if (n > 0) WEFT_RETURN_IF_ERROR(copy(j->c->queue, from, 0, out, j->at[i], n));
  }
  return NULL;
}

/* As many zeros as the longest gap has, for a device: it has no other way to write them. */
static weft_status_t *add_zeros(weft_list_join_t *j) {
  int64_t most = 0;
  for (int64_t i = 0; i < j->n; i++) {
    const int64_t n = j->at[i + 1] - j->at[i];
    if (j->items[i] == NULL && n > most) most = n;
  }
  if (most == 0) return NULL;
  const weft_shape_t shape = weft_shape_vector(most);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(j->dtype, &shape, NULL, &j->zeros));
  memset(j->zeros->data, 0, j->zeros->bytes);
  j->items[j->n] = j->zeros;
  return NULL;
}

/* ---- both ---- */

static weft_status_t *fill(const weft_list_join_t *j, weft_tensor_t *const *items) {
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(j->c, 0, j->dtype, &j->shape, &out));
  if (out->count == 0) return NULL;
  return j->c->queue == NULL ? fill_host(j, items, out) : fill_device(j, items, out);
}

weft_status_t *weft_list_join_run(weft_list_join_t *j) {
  weft_status_t *s = fill(j, j->items);
  weft_list_join_free(j);
  return s;
}

static void on_all_there(void *arg, weft_status_t *status, weft_tensor_t **items, int64_t n) {
  weft_list_join_t *j = arg;
  weft_kernel_ctx_t *c = j->c;
  if (status == NULL) status = fill(j, items);
  weft_tensors_free(items, n);
  weft_list_join_free(j);
  c->done(c, status);
}

void weft_list_join_run_async(weft_list_join_t *j) {
  weft_kernel_ctx_t *c = j->c;
  weft_status_t *s = c->queue == NULL ? NULL : add_zeros(j);
  if (s != NULL) {
    weft_list_join_free(j);
    c->done(c, s);
    return;
  }
  weft_tensors_at(j->items, j->n + 1, c->device->space, on_all_there, j);
}

/* ---- one element ---- */

weft_status_t *weft_list_item_here(weft_tensor_t *t, weft_tensor_t **out) {
  if (t->space == NULL && t->fence.queue == NULL) {
    *out = t;
    return NULL;
  }
  weft_status_t *s = weft_tensor_at_sync(t, NULL, out);
  weft_tensor_release(t);
  return s;
}

static void on_there(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  weft_kernel_ctx_t *c = arg;
  weft_out_set(c, c->node->num_outputs - 1, tensor);
  c->done(c, status);
}

void weft_list_item_give(weft_kernel_ctx_t *c, weft_tensor_t *t, weft_status_t *s) {
  if (s != NULL) {
    weft_tensor_release(t);
    c->done(c, s);
    return;
  }
  weft_tensor_at(t, c->device->space, on_there, c);
  weft_tensor_release(t);
}

/* ---- parts ---- */

/* Are the bytes those of a block that the device gave for this tensor alone? Those of a recording's output
 * are wrapped, or come from an allocator of the recording. */
static bool has_own_bytes(const weft_kernel_ctx_t *c, const weft_tensor_t *t) {
  const weft_tensor_t *owner = t->owner != NULL ? t->owner : t;
  const weft_allocator_t *a = owner->allocator, *mine = weft_out_allocator(c, false);
  return owner->dealloc == NULL && a != NULL &&
         (a->allocate == mine->allocate || a->allocate == c->device->allocator->allocate);
}

/* Elements `begin` on of t, in a device's memory, copied by its compute queue. */
static weft_status_t *copy_part(weft_kernel_ctx_t *c, weft_tensor_t *t, int64_t begin,
                                const weft_shape_t *shape, weft_tensor_t **out) {
  weft_tensor_t *part = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, shape, weft_out_allocator(c, false), &part));
  weft_queue_wait(c->queue, part->fence); /* the last use of its memory */
  weft_status_t *s = part->count == 0 ? NULL : copy(c->queue, t, begin, part, 0, part->count);
  if (s != NULL) {
    weft_tensor_release(part);
    return s;
  }
  part->fence = weft_queue_mark(c->queue);
  *out = part;
  return NULL;
}

weft_status_t *weft_list_keep(weft_kernel_ctx_t *c, weft_tensor_t *t, weft_tensor_t **out) {
  if (c->queue != NULL && t->bytes > 0 && t->space == c->device->space && !has_own_bytes(c, t))
    return copy_part(c, t, 0, &t->shape, out);
  *out = weft_tensor_retain(t);
  return NULL;
}

weft_status_t *weft_list_part(weft_kernel_ctx_t *c, weft_tensor_t *t, int64_t begin,
                              const weft_shape_t *shape, weft_tensor_t **out) {
  enum { ALIGNMENT = 256 }; /* of device memory, which kernels count on (include/weft/device.h) */
  weft_tensor_t *part = NULL;
  if (t->space != NULL) {
    const bool is_aligned = (size_t)begin * weft_dtype_size(t->dtype) % ALIGNMENT == 0;
    return is_aligned && has_own_bytes(c, t) ? share(t, begin, shape, out)
                                             : copy_part(c, t, begin, shape, out);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, shape, NULL, &part));
  weft_status_t *s = weft_tensor_copy_elements(part, 0, t, begin, part->count);
  if (s != NULL) {
    weft_tensor_release(part);
    return s;
  }
  *out = part;
  return NULL;
}
