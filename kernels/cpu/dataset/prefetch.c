/* kernels/cpu/dataset/prefetch.c - elements made ahead of the step that takes them. */
#include "kernels/cpu/dataset/options.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/sequence.h"

enum { MAX_AHEAD = 1 << 16, FIRST_AHEAD = 2, MAX_TUNED = 64 };

typedef struct prefetch {
  weft_dataset_params_t base;
  int64_t buffer_size; /* WEFT_AUTOTUNE: begins small, and grows while the taker has to wait */
} prefetch_t;

typedef struct prefetching {
  weft_iterator_t base;
  weft_ahead_t *ahead; /* NULL: nothing is made ahead */
} prefetching_t;

static bool make_one(void *arg, weft_ahead_slot_t *slot) {
  const prefetching_t *p = arg;
  bool is_end = false;
  weft_status_t *s = weft_iterator_next(p->base.input, slot->parts, &is_end);
  weft_ahead_end(slot, s, s == NULL && is_end);
  return false;
}

static weft_status_t *begin(weft_iterator_t *it) {
  prefetching_t *p = (prefetching_t *)it;
  const int64_t n = ((const prefetch_t *)it->of->params)->buffer_size;
  weft_ahead_options_t o = {.owner = it, .begin = make_one, .arg = p};
  o.limit = n == WEFT_AUTOTUNE ? FIRST_AHEAD : n > MAX_AHEAD ? MAX_AHEAD : (int)n;
  o.max_limit = n == WEFT_AUTOTUNE ? MAX_TUNED : o.limit;
  if (n != 0) WEFT_RETURN_IF_ERROR(weft_ahead_create(&o, &p->ahead));
  return weft_iterator_open_input(it, 0, &it->input);
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  prefetching_t *p = (prefetching_t *)it;
  return p->ahead != NULL ? weft_ahead_next(p->ahead, out, is_end)
                          : weft_iterator_next(it->input, out, is_end);
}

static void end(weft_iterator_t *it) { weft_ahead_destroy(((prefetching_t *)it)->ahead); }

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  prefetching_t *p = (prefetching_t *)it;
  return p->ahead != NULL ? weft_ahead_save(p->ahead, to) : NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  prefetching_t *p = (prefetching_t *)it;
  return p->ahead != NULL ? weft_ahead_load(p->ahead, from) : NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  prefetch_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "buffer_size", &p->buffer_size));
  return p->buffer_size >= 0 || p->buffer_size == WEFT_AUTOTUNE
             ? NULL
             : WEFT_ERROR(INVALID_ARGUMENT,
                          "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
}

const weft_dataset_class_t weft_prefetch_class = {.name = "Prefetch",
                                                  .keeps_batches = true,
                                                  .shards_by_input = true,
                                                  .iterator_size = sizeof(prefetching_t),
                                                  .begin = begin,
                                                  .next = next,
                                                  .end = end,
                                                  .save = save,
                                                  .load = load};

weft_status_t *weft_prefetch_create(weft_dataset_t *d, int64_t size, weft_dataset_t **out) {
  const prefetch_t like = {.buffer_size = size};
  weft_dataset_t made = {.class = &weft_prefetch_class, .spec = d->spec, .device = d->device};
  WEFT_RETURN_IF_ERROR(weft_dataset_params_new(&like, sizeof like, NULL, &made.params));
  weft_status_t *s = weft_dataset_create(&made, &d, 1, out);
  weft_object_release(&made.params->object);
  return s;
}

static const weft_dataset_op_t op = {
    .class = &weft_prefetch_class, .num_inputs = 1, .params_size = sizeof(prefetch_t), .make = make};

const weft_kernel_t weft_cpu_dataset_prefetch_kernels[] = {
    WEFT_DATASET_ROW("PrefetchDataset", op),
    {0},
};
