/* jobs/batch_splitter.c - one batch after the other, for one worker loop at a time. */
#include "jobs/batch_splitter.h"

#include "base/alloc.h"

weft_status_t *weft_job_part_init(weft_job_part_t *p, int num_inputs) {
  p->tensors = weft_calloc((size_t)num_inputs + 1, sizeof(TF_Tensor *));
  p->is_owned = weft_calloc((size_t)num_inputs + 1, sizeof *p->is_owned);
  p->n = num_inputs;
  return p->tensors != NULL && p->is_owned != NULL ? NULL : WEFT_NO_MEMORY("a batch");
}

int64_t weft_job_part_rows(const weft_job_part_t *p, const weft_job_inputs_t *inputs) {
  int64_t rows = 0;
  for (int i = 0; i < p->n; i++) {
    const TF_Tensor *t = p->tensors[i];
    if (t == NULL || TF_NumDims(t) == 0 || !weft_job_input_is_batch(inputs, i)) continue;
    if (TF_Dim(t, 0) > rows) rows = TF_Dim(t, 0);
  }
  return rows;
}

void weft_job_part_clear(weft_job_part_t *p) {
  for (int i = 0; p->tensors != NULL && p->is_owned != NULL && i < p->n; i++) {
    if (p->is_owned[i]) TF_DeleteTensor(p->tensors[i]);
    p->tensors[i] = NULL;
  }
}

void weft_job_part_deinit(weft_job_part_t *p) {
  weft_job_part_clear(p);
  weft_free(p->tensors);
  weft_free(p->is_owned);
  *p = (weft_job_part_t){0};
}

void weft_job_splitter_init(weft_job_splitter_t *d, weft_job_inputs_t *inputs) {
  d->inputs = inputs;
  d->rows = 0;
  weft_mutex_init(&d->mu);
}

void weft_job_splitter_deinit(weft_job_splitter_t *d) {
  if (d->inputs == NULL) return; /* never made */
  weft_mutex_deinit(&d->mu);
  d->inputs = NULL;
}

weft_status_t *weft_job_splitter_next(weft_job_splitter_t *d, weft_job_part_t *part, bool *out_has_ended) {
  weft_mutex_lock(&d->mu);
  weft_status_t *s = weft_job_inputs_next(d->inputs, part->tensors, part->is_owned, out_has_ended);
  if (s == NULL && !*out_has_ended) d->rows += weft_job_part_rows(part, d->inputs);
  weft_mutex_unlock(&d->mu);
  return s;
}

int64_t weft_job_splitter_rows(weft_job_splitter_t *d) {
  if (d->inputs == NULL) return d->rows; /* the job is closed */
  weft_mutex_lock(&d->mu);
  const int64_t rows = d->rows;
  weft_mutex_unlock(&d->mu);
  return rows;
}

weft_job_position_t weft_job_splitter_position(weft_job_splitter_t *d, int64_t done) {
  weft_mutex_lock(&d->mu);
  weft_job_position_t now = weft_job_position(d->inputs, done);
  weft_mutex_unlock(&d->mu);
  return now;
}
