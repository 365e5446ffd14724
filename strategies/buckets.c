/* strategies/buckets.c - the rules by which gradients are packed. */
#include "strategies/buckets.h"

#include <stdlib.h>

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("forming buckets"); }

typedef struct forming {
  const weft_bucket_item_t *items;
  int n;
  weft_bucket_limits_t limits;
  weft_buckets_t *out;
} forming_t;

static int open_bucket(forming_t *f) { return f->out->num_buckets++; }

/* What is still open for a key. */
typedef struct open_key {
  int64_t key, bytes, limit;
  int bucket; /* -1: none is open */
} open_key_t;

static open_key_t *find_key(open_key_t *keys, int *num_keys, int64_t key, int64_t first_limit) {
  for (int i = 0; i < *num_keys; i++) {
    if (keys[i].key == key) return &keys[i];
  }
  keys[*num_keys] = (open_key_t){.key = key, .limit = first_limit, .bucket = -1};
  return &keys[(*num_keys)++];
}

/* Adds each item to the open bucket of its key. `closes_at_limit`: DDP's rule, looking after adding; else
 * TensorFlow's, before. */
static void fill(forming_t *f, open_key_t *keys, bool closes_at_limit) {
  int num_keys = 0;
  for (int i = 0; i < f->n; i++) {
    const weft_bucket_item_t *item = &f->items[i];
    if (item->bytes < 0) {
      f->out->bucket_of[i] = open_bucket(f);
      continue;
    }
    open_key_t *k = find_key(keys, &num_keys, item->key, closes_at_limit ? f->limits.first : f->limits.cap);
    if (!closes_at_limit && f->limits.cap > 0 && k->bytes > f->limits.cap) k->bucket = -1;
    if (k->bucket < 0) {
      k->bucket = open_bucket(f);
      k->bytes = 0;
    }
    f->out->bucket_of[i] = k->bucket;
    k->bytes = item->bytes > INT64_MAX - k->bytes ? INT64_MAX : k->bytes + item->bytes;
    if (closes_at_limit && k->bytes >= k->limit) {
      k->bucket = -1;
      k->limit = f->limits.cap;
    }
  }
}

/* Source: Horovod's FuseResponses, reference 3.7: from the front, with look-ahead past what does not match.
 */
static void fill_bounded(forming_t *f) {
  int *bucket_of = f->out->bucket_of;
  for (int i = 0; i < f->n; i++) bucket_of[i] = -1;
  for (int i = 0; i < f->n; i++) {
    if (bucket_of[i] >= 0) continue;
    bucket_of[i] = open_bucket(f);
    int64_t taken = f->items[i].bytes, skipped = 0, limit = f->limits.cap;
    if (taken < 0) continue;
    for (int j = i + 1; j < f->n && taken <= limit && skipped <= limit - taken; j++) {
      const weft_bucket_item_t *next = &f->items[j];
      if (bucket_of[j] >= 0 || next->bytes < 0) continue;
      if (next->key != f->items[i].key) {
        skipped = next->bytes > limit ? limit + 1 : skipped + next->bytes;
      } else if (next->bytes <= limit - taken) {
        taken += next->bytes;
        bucket_of[j] = bucket_of[i];
      } else {
        skipped = next->bytes > limit ? limit + 1 : skipped + next->bytes;
      }
    }
  }
}

static weft_status_t *list_items(forming_t *f, weft_arena_t *arena) {
  weft_buckets_t *out = f->out;
  size_t m = (size_t)out->num_buckets + 1;
  out->items = weft_arena_calloc(arena, m, sizeof(*out->items));
  out->num_items = weft_arena_calloc(arena, m, sizeof *out->num_items);
  if (out->items == NULL || out->num_items == NULL) return no_memory();
  for (int i = 0; i < f->n; i++) out->num_items[out->bucket_of[i]]++;
  for (int b = 0; b < out->num_buckets; b++) {
    out->items[b] = weft_arena_calloc(arena, (size_t)out->num_items[b], sizeof *out->items[b]);
    if (out->items[b] == NULL) return no_memory();
    out->num_items[b] = 0;
  }
  for (int i = 0; i < f->n; i++) {
    int b = out->bucket_of[i];
    out->items[b][out->num_items[b]++] = i;
  }
  return NULL;
}

weft_status_t *weft_buckets_form(weft_bucket_rule_t rule, weft_bucket_limits_t limits,
                                 const weft_bucket_item_t *items, int n, weft_arena_t *arena,
                                 weft_buckets_t *out) {
  *out = (weft_buckets_t){.bucket_of = weft_arena_calloc(arena, (size_t)n + 1, sizeof *out->bucket_of)};
  forming_t f = {items, n, limits, out};
  open_key_t *keys = weft_arena_calloc(arena, (size_t)n + 1, sizeof *keys);
  if (out->bucket_of == NULL || keys == NULL) return no_memory();
  switch (rule) {
    case WEFT_BUCKETS_DDP: fill(&f, keys, true); break;
    case WEFT_BUCKETS_PACK: fill(&f, keys, false); break;
    case WEFT_BUCKETS_HOROVOD: fill_bounded(&f); break;
    case WEFT_BUCKETS_NONE:
      for (int i = 0; i < n; i++) out->bucket_of[i] = open_bucket(&f);
      break;
  }
  return list_items(&f, arena);
}

typedef struct timed {
  double ready;
  int at;
} timed_t;

static int earlier(const void *a, const void *b) {
  const timed_t *x = a, *y = b;
  bool x_seen = x->ready >= 0, y_seen = y->ready >= 0;
  if (x_seen != y_seen) return x_seen ? -1 : 1;
  if (x_seen && x->ready < y->ready) return -1;
  if (x_seen && x->ready > y->ready) return 1;
  return x->at - y->at;
}

weft_status_t *weft_buckets_order_by_time(const double *ready, int n, int *order) {
  timed_t *all = weft_calloc((size_t)n + 1, sizeof *all);
  if (all == NULL) return no_memory();
  for (int i = 0; i < n; i++) all[i] = (timed_t){ready[i], i};
  qsort(all, (size_t)n, sizeof *all, earlier);
  for (int i = 0; i < n; i++) order[i] = all[i].at;
  weft_free(all);
  return NULL;
}
