/* kernels/cpu/image/resize_nearest_one.tmpl.h - the gradient of ResizeNearestNeighbor for one element type:
 * images [begin, end). Each sum is rounded to the type. */
static void WEFT_CAT(nearest_grad, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const nearest_job_t *j = arg;
  const weft_resize_t *r = &j->r;
  const int64_t channels = r->channels;
  for (int64_t i = begin * r->out_h; i < end * r->out_h; i++) {
    const int64_t row = i / r->out_h * r->in_h + nearest(j, i % r->out_h, r->scale_h, r->in_h);
    const ELEM *dy = (const ELEM *)j->x + i * r->out_w * channels;
    for (int64_t w = 0; w < r->out_w; w++, dy += channels) {
      ELEM *dx = (ELEM *)j->y + (row * r->in_w + j->columns[w]) * channels;
      for (int64_t c = 0; c < channels; c++) dx[c] = STORE((WRAP)LOAD(dx[c]) + (WRAP)LOAD(dy[c]));
    }
  }
}
