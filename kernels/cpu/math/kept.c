/* kernels/cpu/math/kept.c - see the header.
 *
 * Invariant: `copy` is of `seen`, for `key`. Locking: `mu` is a leaf; references are given back behind it.
 */
#include "kernels/cpu/math/kept.h"

#include "base/alloc.h"
#include "base/mutex.h"

enum { MOST_MISSES = 10 }; /* 2^10 steps at most do not look */

struct weft_kept {
  weft_mutex_t mu;
  weft_tensor_t *seen;    /* retained; guarded by mu, as is the rest */
  weft_kept_copy_t *copy; /* retained; NULL: none yet */
  int64_t key;
  int misses; /* tensors in a row that were replaced before their copy was used */
  int64_t to_skip;
};

bool weft_kept_may_keep(const weft_kernel_setup_t *setup, int i) {
  return (weft_knode_int_or(setup, "_steady_inputs", 0) >> i & 1) != 0;
}

weft_status_t *weft_kept_create(weft_kept_t **out) {
  weft_kept_t *k = weft_calloc(1, sizeof *k);
  if (k == NULL) return WEFT_NO_MEMORY("a kept input");
  weft_mutex_init(&k->mu);
  *out = k;
  return NULL;
}

void weft_kept_copy_release(weft_kept_copy_t *copy) {
  if (copy == NULL || atomic_fetch_sub_explicit(&copy->refs, 1, memory_order_acq_rel) != 1) return;
  weft_free(copy->data);
  weft_free(copy);
}

void weft_kept_destroy(weft_kept_t *k) {
  if (k == NULL) return;
  weft_tensor_release(k->seen);
  weft_kept_copy_release(k->copy);
  weft_mutex_deinit(&k->mu);
  weft_free(k);
}

weft_kept_copy_t *weft_kept_find(weft_kept_t *k, weft_tensor_t *t, int64_t key, bool *out_is_wanted) {
  weft_kept_copy_t *found = NULL, *old_copy = NULL;
  weft_tensor_t *old = NULL;
  *out_is_wanted = false;
  weft_mutex_lock(&k->mu);
  if (k->to_skip > 0) {
    k->to_skip--;
  } else if (k->seen == NULL) {
    k->seen = weft_tensor_retain(t);
    k->key = key;
  } else if (k->seen != t || k->key != key) {
    old = k->seen;
    old_copy = k->copy;
    k->seen = NULL;
    k->copy = NULL;
    if (k->misses < MOST_MISSES) k->misses++;
    k->to_skip = INT64_C(1) << k->misses;
  } else if (k->copy == NULL) {
    *out_is_wanted = true;
  } else {
    found = k->copy;
    atomic_fetch_add_explicit(&found->refs, 1, memory_order_relaxed);
    k->misses = 0;
  }
  weft_mutex_unlock(&k->mu);
  weft_tensor_release(old);
  weft_kept_copy_release(old_copy);
  return found;
}

void weft_kept_offer(weft_kept_t *k, const weft_tensor_t *t, int64_t key, void *data) {
  weft_kept_copy_t *copy = weft_calloc(1, sizeof *copy);
  if (copy == NULL) { /* then the next step makes one again */
    weft_free(data);
    return;
  }
  atomic_init(&copy->refs, 1);
  copy->data = data;
  weft_mutex_lock(&k->mu);
  if (k->seen == t && k->key == key && k->copy == NULL) {
    k->copy = copy;
    copy = NULL;
  }
  weft_mutex_unlock(&k->mu);
  weft_kept_copy_release(copy);
}
