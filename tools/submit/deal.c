/* tools/submit/deal.c - one batch after the other, by one lane at a time. */
#include "tools/submit/deal.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a batch"); }

void weft_hand_free(weft_hand_t *h) {
  if (h == NULL) return;
  for (int i = 0; i < h->n; i++) {
    if (h->is_owned[i]) TF_DeleteTensor(h->tensors[i]);
  }
  weft_free(h->tensors);
  weft_free(h->is_owned);
  weft_free(h);
}

void weft_dealer_init(weft_dealer_t *d, weft_feeds_t *feeds) {
  d->feeds = feeds;
  weft_mutex_init(&d->mu);
}

void weft_dealer_deinit(weft_dealer_t *d) {
  if (d->feeds == NULL) return; /* never made */
  weft_mutex_deinit(&d->mu);
}

static weft_status_t *cut(weft_feeds_t *f, const weft_batch_t *batch, weft_hand_t **out) {
  weft_hand_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return no_memory();
  h->tensors = weft_calloc((size_t)f->n + 1, sizeof(TF_Tensor *));
  h->is_owned = weft_calloc((size_t)f->n + 1, sizeof *h->is_owned);
  weft_status_t *s = h->tensors == NULL || h->is_owned == NULL ? no_memory() : NULL;
  for (; s == NULL && h->n < f->n; h->n++) {
    h->is_owned[h->n] = weft_feed_is_cut(f, &f->feeds[h->n]);
    s = weft_feed_rows(f, &f->feeds[h->n], batch->begin, batch->rows, &h->tensors[h->n]);
  }
  if (s == NULL) {
    *out = h;
  } else {
    weft_hand_free(h);
  }
  return s;
}

void weft_dealer_where(weft_dealer_t *d, int64_t *out_epoch, int64_t *out_row) {
  weft_mutex_lock(&d->mu);
  *out_epoch = d->feeds->epoch;
  *out_row = d->feeds->next;
  weft_mutex_unlock(&d->mu);
}

weft_status_t *weft_dealer_next(weft_dealer_t *d, weft_hand_t **out) {
  *out = NULL;
  weft_mutex_lock(&d->mu);
  weft_batch_t batch = weft_feeds_advance(d->feeds);
  weft_status_t *s = cut(d->feeds, &batch, out);
  weft_mutex_unlock(&d->mu);
  return s;
}
