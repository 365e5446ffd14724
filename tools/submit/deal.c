/* tools/submit/deal.c - cutting a batch, and keeping the shares of lanes that come later. */
#include "tools/submit/deal.h"

#include <inttypes.h>

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

weft_status_t *weft_dealer_init(weft_dealer_t *d, weft_feeds_t *feeds, int num_lanes, bool splits, const bool *is_batch) {
  *d = (weft_dealer_t){.feeds = feeds, .num_lanes = num_lanes, .splits = splits && num_lanes > 1, .is_batch = is_batch};
  weft_mutex_init(&d->mu);
  d->first = weft_calloc((size_t)num_lanes + 1, sizeof *d->first);
  d->last = weft_calloc((size_t)num_lanes + 1, sizeof *d->last);
  return d->first == NULL || d->last == NULL ? no_memory() : NULL;
}

void weft_dealer_deinit(weft_dealer_t *d) {
  if (d->feeds == NULL) return; /* never made */
  for (int i = 0; d->first != NULL && i < d->num_lanes; i++) {
    for (weft_hand_t *h = d->first[i], *next; h != NULL; h = next) {
      next = h->next;
      weft_hand_free(h);
    }
  }
  weft_free(d->first);
  weft_free(d->last);
  weft_mutex_deinit(&d->mu);
}

static bool is_shared(const weft_dealer_t *d, int i) {
  const weft_feed_t *feed = &d->feeds->feeds[i];
  return d->is_batch == NULL ? weft_feed_is_cut(d->feeds, feed) : d->is_batch[i];
}

static const char *name_of(const weft_dealer_t *d, int i) { return TF_OperationName(d->feeds->feeds[i].output.oper); }

/* How many rows lanes share: of the batch, or of whole arrays. */
static weft_status_t *count_rows(const weft_dealer_t *d, const weft_batch_t *batch, int64_t *out) {
  int first = 0;
  *out = batch->rows;
  for (int i = 0; d->splits && batch->rows == 0 && i < d->feeds->n; i++) {
    const weft_shape_t *shape = &d->feeds->feeds[i].data->shape;
    if (!is_shared(d, i) || shape->rank == 0) continue;
    if (*out != 0 && shape->dims[0] != *out) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "--feed %s has %" PRId64 " rows, but %s, of the same batch, has %" PRId64
                        "; if not all feeds are batches, name those that are: --strategy NAME:batch=%s",
                        name_of(d, i), shape->dims[0], name_of(d, first), *out, name_of(d, first));
    }
    if (*out == 0) first = i;
    *out = shape->dims[0];
  }
  return NULL;
}

/* Feed i for the rows [begin, end) of those that lanes share. */
static weft_status_t *cut_feed(weft_dealer_t *d, const weft_batch_t *batch, int i, int64_t begin, int64_t end, weft_hand_t *h) {
  weft_feeds_t *f = d->feeds;
  weft_feed_t *feed = &f->feeds[i];
  bool is_part = d->splits && is_shared(d, i) && feed->data->shape.rank > 0;
  h->is_owned[i] = weft_feed_is_cut(f, feed) || is_part;
  if (!weft_feed_is_cut(f, feed) && is_part) return weft_gather_rows(feed->data, NULL, begin, end - begin, &h->tensors[i]);
  if (!is_part) return weft_feed_rows(f, feed, batch->begin, batch->rows, &h->tensors[i]);
  return weft_feed_rows(f, feed, batch->begin + begin, end - begin, &h->tensors[i]);
}

/* Part `part` of `parts` of the batch that the feeds stand at. */
static weft_status_t *cut(weft_dealer_t *d, const weft_batch_t *batch, int part, int parts, weft_hand_t **out) {
  weft_feeds_t *f = d->feeds;
  int64_t rows;
  WEFT_RETURN_IF_ERROR(count_rows(d, batch, &rows));
  weft_hand_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return no_memory();
  h->tensors = weft_calloc((size_t)f->n + 1, sizeof(TF_Tensor *));
  h->is_owned = weft_calloc((size_t)f->n + 1, sizeof *h->is_owned);
  h->n = f->n;
  h->share = 1;
  int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
  if (rows > 0) h->share = (double)(end - begin) * parts / (double)rows;
  weft_status_t *s = h->tensors == NULL || h->is_owned == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < f->n; i++) s = cut_feed(d, batch, i, begin, end, h);
  if (s == NULL) {
    *out = h;
  } else {
    weft_hand_free(h);
  }
  return s;
}

static weft_status_t *deal_locked(weft_dealer_t *d) WEFT_REQUIRES(d->mu) {
  weft_batch_t batch = weft_feeds_advance(d->feeds);
  for (int i = 0; i < d->num_lanes; i++) {
    weft_hand_t *h;
    WEFT_RETURN_IF_ERROR(cut(d, &batch, i, d->num_lanes, &h));
    if (d->first[i] == NULL) {
      d->first[i] = h;
    } else {
      d->last[i]->next = h;
    }
    d->last[i] = h;
  }
  return NULL;
}

void weft_dealer_where(weft_dealer_t *d, int64_t *out_epoch, int64_t *out_row) {
  weft_mutex_lock(&d->mu);
  *out_epoch = d->feeds->epoch;
  *out_row = d->feeds->next;
  weft_mutex_unlock(&d->mu);
}

weft_status_t *weft_dealer_next(weft_dealer_t *d, int lane, weft_hand_t **out) {
  weft_status_t *s = NULL;
  *out = NULL;
  weft_mutex_lock(&d->mu);
  if (!d->splits) {
    weft_batch_t batch = weft_feeds_advance(d->feeds);
    s = cut(d, &batch, 0, 1, out);
  } else {
    if (d->first[lane] == NULL) s = deal_locked(d);
    if (s == NULL) {
      *out = d->first[lane];
      d->first[lane] = (*out)->next;
      (*out)->next = NULL;
    }
  }
  weft_mutex_unlock(&d->mu);
  return s;
}
