/* kernels/cpu/loops/each_row.c - loops over strings and records. */
#include "kernels/cpu/loops/each_row.h"

#include "base/mutex.h"

typedef struct row_loop {
  weft_each_row_fn *fn;
  void *arg;
  weft_mutex_t mu;
  weft_status_t *first; /* guarded: the failure of row `at` */
  int64_t at;
} row_loop_t;

static void note(row_loop_t *l, int64_t i, weft_status_t *s) {
  weft_status_t *unused = s;
  weft_mutex_lock(&l->mu);
  if (l->first == NULL || i < l->at) {
    unused = l->first;
    l->first = s;
    l->at = i;
  }
  weft_mutex_unlock(&l->mu);
  weft_status_free(unused);
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  row_loop_t *l = arg;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int64_t i = begin; i < end; i++) {
    text.length = 0;
    weft_status_t *s = l->fn(l->arg, i, &text);
    if (s == NULL) continue;
    note(l, i, s);
    break;
  }
  weft_strbuf_deinit(&text);
}

weft_status_t *weft_each_row(const weft_kernel_ctx_t *ctx, int64_t n, int64_t grain, weft_each_row_fn *fn,
                             void *arg) {
  row_loop_t l = {.fn = fn, .arg = arg};
  weft_mutex_init(&l.mu);
  weft_parallel_for(n <= grain ? NULL : ctx->device->pool, n, grain, run_rows, &l);
  weft_mutex_deinit(&l.mu);
  return l.first;
}

weft_status_t *weft_set_text(weft_tensor_t *t, int64_t i, const weft_strbuf_t *text) {
  if (text->failed) return WEFT_NO_MEMORY("building a string");
  return weft_tensor_set_str(t, i, weft_str_of(text->data, text->length));
}
