/* kernels/cpu/kv/kv_slice.c - keys and values cut by server, and put together again.
 *
 * Each piece's keys ascend and are unique; the values of equal keys are added. By
 * hash, a key goes to a server that its mixed bits say; by range, [0, max_key) is cut
 * into N equal parts, so that small keys do not all go to the first.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/kernel.h"
#include "resources/kv_slice.h"
#include "tensor/update.h"

typedef struct slice_state {
  int n;
  bool by_range;
  int64_t max_key;
} slice_state_t;

static weft_status_t *slice_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  slice_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *st = (slice_state_t){(int)weft_knode_int(setup, "N"), weft_str_is(weft_knode_string(setup, "by"), "range"),
                        weft_knode_int(setup, "max_key")};
  if (st->by_range && st->max_key == 0) {
    weft_free(st);
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s cuts by range and needs max_key",
                      WEFT_STR_ARGS(setup->node.name));
  }
  *out_state = st;
  return NULL;
}

static weft_status_t *check_rows(const weft_tensor_t *keys, const weft_tensor_t *values) {
  if (keys->shape.rank == 1 && values->shape.rank >= 1 && values->shape.dims[0] == keys->count) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "keys of shape %s cannot have values of shape %s",
                    WEFT_SHAPE_TEXT(&keys->shape), WEFT_SHAPE_TEXT(&values->shape));
}

/* A key, whose piece it is, and where it stood. */
typedef struct placed {
  int64_t key, at;
  int server;
} placed_t;

static int by_server_and_key(const void *a, const void *b) {
  const placed_t *x = a, *y = b;
  if (x->server != y->server) return x->server - y->server;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at); /* equal keys are added in the order in which they stood */
}

static weft_status_t *place(const slice_state_t *st, const weft_tensor_t *keys, placed_t **out) {
  placed_t *all = weft_calloc((size_t)keys->count + 1, sizeof *all);
  if (all == NULL) return WEFT_NO_MEMORY("cutting %" PRId64 " keys", keys->count);
  for (int64_t i = 0; i < keys->count; i++) {
    int64_t key = ((const int64_t *)keys->data)[i];
    if (st->by_range && (key < 0 || key >= st->max_key)) {
      weft_free(all);
      return WEFT_ERROR(INVALID_ARGUMENT, "key %" PRId64 " is not in [0, %" PRId64 ")", key, st->max_key);
    }
    all[i] = (placed_t){
        key, i,
        st->by_range ? weft_kv_server_by_range(key, st->max_key, st->n) : weft_kv_server_by_hash(key, st->n)};
  }
  if (keys->count > 0) qsort(all, (size_t)keys->count, sizeof *all, by_server_and_key);
  *out = all;
  return NULL;
}

/* The piece of one server: `all[0..n)`. */
static weft_status_t *cut_piece(weft_kernel_ctx_t *c, int server, int num_servers, const placed_t *all,
                                int64_t n) {
  const weft_tensor_t *values = weft_in(c, 1);
  int64_t unique = 0, rows = values->shape.dims[0], row = rows == 0 ? 0 : values->count / rows;
  size_t bytes = (size_t)row * weft_dtype_size(values->dtype);
  for (int64_t i = 0; i < n; i++) unique += i == 0 || all[i].key != all[i - 1].key;
  weft_shape_t shape = weft_shape_vector(unique);
  weft_tensor_t *keys = NULL, *piece = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, server, WEFT_I64, &shape, &keys));
  shape = values->shape;
  shape.dims[0] = unique;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, num_servers + server, values->dtype, &shape, &piece));
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, values->dtype);
  int64_t to = -1;
  for (int64_t i = 0; i < n; i++) {
    bool is_first = i == 0 || all[i].key != all[i - 1].key;
    const char *from = (const char *)values->data + (size_t)all[i].at * bytes;
    to += is_first;
    char *at = (char *)piece->data + (size_t)to * bytes;
    ((int64_t *)keys->data)[to] = all[i].key;
    if (bytes > 0 && is_first) memcpy(at, from, bytes);
    if (bytes > 0 && !is_first) add(at, from, row, false);
  }
  return NULL;
}

static weft_status_t *slice(weft_kernel_ctx_t *c) {
  const slice_state_t *st = c->state;
  const weft_tensor_t *keys = weft_in(c, 0);
  placed_t *all = NULL;
  WEFT_RETURN_IF_ERROR(check_rows(keys, weft_in(c, 1)));
  weft_status_t *s = place(st, keys, &all);
  int64_t begin = 0;
  for (int i = 0; s == NULL && i < st->n; i++) {
    int64_t end = begin;
    while (end < keys->count && all[end].server == i) end++;
    s = cut_piece(c, i, st->n, all + begin, end - begin);
    begin = end;
  }
  weft_free(all);
  return s;
}

/* ---- and together again ---- */

/* The row of `key` in a piece whose keys ascend, or -1. */
static int64_t find_key(const weft_tensor_t *keys, int64_t key) {
  const int64_t *k = keys->data;
  int64_t low = 0, high = keys->count;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (k[mid] < key) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low < keys->count && k[low] == key ? low : -1;
}

static weft_status_t *merge(weft_kernel_ctx_t *c) {
  const weft_tensor_t *keys = weft_in(c, 0), *first = weft_in(c, 1 + (c->node->num_inputs - 1) / 2);
  int n = (c->node->num_inputs - 1) / 2;
  int64_t row = -1;
  weft_shape_t shape = first->shape;
  if (keys->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "keys must be a vector, but have shape %s",
                      WEFT_SHAPE_TEXT(&keys->shape));
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *v = weft_in(c, 1 + n + i);
    WEFT_RETURN_IF_ERROR(check_rows(weft_in(c, 1 + i), v));
    int64_t each = 1;
    for (int d = 1; d < v->shape.rank; d++) each *= v->shape.dims[d];
    if (row < 0) row = each;
    if (v->shape.rank != shape.rank || each != row) {
      return WEFT_ERROR(INVALID_ARGUMENT, "piece %d has rows of another shape than the first: %s, not as %s",
                        i, WEFT_SHAPE_TEXT(&v->shape), WEFT_SHAPE_TEXT(&shape));
    }
  }
  weft_tensor_t *out = NULL;
  shape.dims[0] = keys->count;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, first->dtype, &shape, &out));
  size_t bytes = (size_t)row * weft_dtype_size(first->dtype);
  for (int64_t k = 0; k < keys->count; k++) {
    int64_t key = ((const int64_t *)keys->data)[k], at = -1;
    int i = -1;
    while (at < 0 && ++i < n) at = find_key(weft_in(c, 1 + i), key);
    if (at < 0) return WEFT_ERROR(INVALID_ARGUMENT, "no piece has key %" PRId64, key);
    if (bytes > 0)
      memcpy((char *)out->data + (size_t)k * bytes,
             (const char *)weft_in(c, 1 + n + i)->data + (size_t)at * bytes, bytes);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_kv_slice_kernels[] = {
    {.op = "WeftKvMerge", .type_attr = "T", .types = WEFT_SET_NUMBERS, .compute = merge},
    {.op = "WeftKvSlice",
     .type_attr = "T",
     .types = WEFT_SET_NUMBERS,
     .prepare = slice_prepare,
     .compute = slice,
     .destroy = weft_free},
    {0},
};
