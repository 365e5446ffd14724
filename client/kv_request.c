/* client/kv_request.c - splits keys and values by server, and joins the answers. */
#include "client/kv_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "resources/kv_slice.h"

TF_Tensor *weft_kv_scalar_tensor(int64_t value) {
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof value);
  if (t != NULL) memcpy(TF_TensorData(t), &value, sizeof value);
  return t;
}

static int server_of(const WEFT_KvOptions *o, int n, int64_t key) {
  return o->max_key > 0 ? weft_kv_server_by_range(key, o->max_key, n) : weft_kv_server_by_hash(key, n);
}

static bool fail(TF_Status *status, TF_Code code, const char *format, int64_t number) {
  char text[128];
  (void)snprintf(text, sizeof text, format, number);
  TF_SetStatus(status, code, text);
  return false;
}

static bool no_memory(TF_Status *status, int64_t keys) {
  return fail(status, TF_RESOURCE_EXHAUSTED, "out of memory: a request of %" PRId64 " keys", keys);
}

static bool check(const WEFT_KvOptions *o, const weft_kv_ask_t *ask, TF_Status *status) {
  if (ask->num_keys < 0 || ask->num_keys > INT64_MAX / 64) {
    return fail(status, TF_INVALID_ARGUMENT, "a request cannot have %" PRId64 " keys", ask->num_keys);
  }
  for (int64_t i = 0; i < ask->num_keys; i++) {
    if (o->max_key > 0 && (ask->keys[i] < 0 || ask->keys[i] >= o->max_key)) {
      return fail(status, TF_INVALID_ARGUMENT, "key %" PRId64 " is out of range", ask->keys[i]);
    }
    if (ask->lens != NULL && (ask->lens[i] < 0 || ask->lens[i] > INT32_MAX)) {
      return fail(status, TF_INVALID_ARGUMENT, "a key cannot have %" PRId64 " values", ask->lens[i]);
    }
  }
  return true;
}

/* ---- cutting ---- */

static int64_t length_of(const weft_kv_request_t *r, const weft_kv_ask_t *ask, int64_t i) {
  return ask->lens != NULL ? ask->lens[i] : r->width;
}

static bool allocate_piece(const WEFT_KvOptions *o, const weft_kv_request_t *r, const weft_kv_ask_t *ask,
                           weft_kv_piece_t *p, int64_t n, int64_t values) {
  size_t bytes = 0;
  p->positions = weft_calloc((size_t)n + 1, sizeof p->positions[0]);
  p->keys = TF_AllocateTensor(TF_INT64, &n, 1, (size_t)n * sizeof(int64_t));
  bool good = p->positions != NULL && p->keys != NULL && weft_mul_size((size_t)values, r->element, &bytes);
  if (good && ask->values != NULL) {
    int64_t matrix[2] = {n, r->width};
    p->values = r->width > 0 ? TF_AllocateTensor(o->dtype, matrix, 2, bytes)
                             : TF_AllocateTensor(o->dtype, &values, 1, bytes);
    good = p->values != NULL;
  }
  if (good && ask->values != NULL && r->width == 0) {
    p->lens = TF_AllocateTensor(TF_INT64, &n, 1, (size_t)n * sizeof(int64_t));
    good = p->lens != NULL;
  }
  return good;
}

/* Counts per server, then makes the pieces, then fills them in the order of the keys. */
static bool cut(const WEFT_KvOptions *o, int num_servers, const weft_kv_ask_t *ask, weft_kv_request_t *r) {
  int64_t *counts = weft_calloc((size_t)num_servers * 2 + 2, sizeof *counts),
          *values = counts == NULL ? NULL : counts + num_servers;
  weft_kv_piece_t **of = weft_calloc((size_t)num_servers + 1, sizeof(weft_kv_piece_t *));
  size_t *filled = weft_calloc((size_t)num_servers + 1, sizeof *filled);
  bool good = counts != NULL && of != NULL && filled != NULL;
  for (int64_t i = 0; good && i < ask->num_keys; i++) {
    int s = server_of(o, num_servers, ask->keys[i]);
    counts[s]++;
    values[s] += length_of(r, ask, i);
  }
  for (int s = 0; good && s < num_servers; s++) {
    if (counts[s] == 0 && !ask->goes_everywhere) continue;
    weft_kv_piece_t *p = &r->pieces[r->num_pieces++];
    p->request = r;
    p->server = s;
    of[s] = p;
    good = allocate_piece(o, r, ask, p, counts[s], values[s]);
  }
  const char *from = ask->values;
  for (int64_t i = 0; good && i < ask->num_keys; i++) {
    int s = server_of(o, num_servers, ask->keys[i]);
    weft_kv_piece_t *p = of[s];
    int64_t length = length_of(r, ask, i), at = p->num_keys++;
    size_t bytes = (size_t)length * r->element;
    p->positions[at] = i;
    ((int64_t *)TF_TensorData(p->keys))[at] = ask->keys[i];
    if (p->lens != NULL) ((int64_t *)TF_TensorData(p->lens))[at] = length;
    if (ask->values != NULL && bytes > 0) memcpy((char *)TF_TensorData(p->values) + filled[s], from, bytes);
    filled[s] += bytes;
    if (from != NULL) from += bytes;
  }
  weft_free(counts);
  weft_free(of);
  weft_free(filled);
  return good;
}

weft_kv_request_t *weft_kv_request_new(const WEFT_KvOptions *o, int num_servers, const weft_kv_ask_t *ask,
                                       TF_Status *status) {
  if (!check(o, ask, status)) return NULL;
  weft_kv_request_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->pieces = weft_calloc((size_t)num_servers + 1, sizeof r->pieces[0]);
  if (r != NULL && r->pieces != NULL) {
    r->call = ask->call;
    r->priority = ask->priority;
    r->element = TF_DataTypeSize(o->dtype);
    r->width = o->width;
    r->num_keys = ask->num_keys;
    if (cut(o, num_servers, ask, r)) {
      r->num_open = r->num_pieces;
      return r;
    }
  }
  weft_kv_request_free(r);
  (void)no_memory(status, ask->num_keys);
  return NULL;
}

static void delete_tensor(TF_Tensor *t) {
  if (t != NULL) TF_DeleteTensor(t);
}

void weft_kv_request_free(weft_kv_request_t *r) {
  if (r == NULL) return;
  for (int i = 0; r->pieces != NULL && i < r->num_pieces; i++) {
    weft_kv_piece_t *p = &r->pieces[i];
    weft_free(p->positions);
    delete_tensor(p->keys);
    delete_tensor(p->values);
    delete_tensor(p->lens);
    delete_tensor(p->pulled);
    delete_tensor(p->pulled_lens);
  }
  weft_free(r->pieces);
  weft_free(r->message);
  weft_free(r);
}

/* ---- putting together ---- */

static void gather_equal(weft_kv_request_t *r) {
  size_t row = (size_t)r->width * r->element;
  for (int i = 0; i < r->num_pieces; i++) {
    const weft_kv_piece_t *p = &r->pieces[i];
    const char *from = TF_TensorData(p->pulled);
    for (int64_t k = 0; k < p->num_keys; k++, from += row)
      memcpy((char *)r->pulled + (size_t)p->positions[k] * row, from, row);
  }
}

/* First the lengths, then where each key's values begin, then the values. */
static bool gather_unequal(weft_kv_request_t *r, TF_Status *status) {
  int64_t *begins = weft_calloc((size_t)r->num_keys + 1, sizeof *begins), total = 0;
  if (begins == NULL) return no_memory(status, r->num_keys);
  for (int i = 0; i < r->num_pieces; i++) {
    const weft_kv_piece_t *p = &r->pieces[i];
    for (int64_t k = 0; k < p->num_keys; k++)
      r->pulled_lens[p->positions[k]] = ((int64_t *)TF_TensorData(p->pulled_lens))[k];
  }
  for (int64_t k = 0; k < r->num_keys; k++) {
    begins[k] = total;
    total += r->pulled_lens[k];
  }
  bool fits = total <= r->max_pulled;
  for (int i = 0; fits && i < r->num_pieces; i++) {
    const weft_kv_piece_t *p = &r->pieces[i];
    const char *from = TF_TensorData(p->pulled);
    for (int64_t k = 0; k < p->num_keys; k++) {
      size_t bytes = (size_t)r->pulled_lens[p->positions[k]] * r->element;
      if (bytes > 0) memcpy((char *)r->pulled + (size_t)begins[p->positions[k]] * r->element, from, bytes);
      from += bytes;
    }
  }
  weft_free(begins);
  return fits ||
         fail(status, TF_OUT_OF_RANGE, "there are %" PRId64 " values: more than there is room for", total);
}

void weft_kv_request_gather(weft_kv_request_t *r, TF_Status *status) {
  bool pulls = r->call == WEFT_KV_CALL_PULL || r->call == WEFT_KV_CALL_PUSH_PULL;
  if (!pulls || r->num_keys == 0) return;
  if (r->width > 0) {
    gather_equal(r);
  } else {
    (void)gather_unequal(r, status);
  }
}
