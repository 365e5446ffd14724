/* kernels/cpu/nn/depthwise_one.tmpl.h - depthwise convolution over [N,H,W,C] for one element type: filter
 * [KH,KW,C,M], output channel c*M + m from input channel c. Images (or filter cells) [begin, end). What
 * depth_lines.h does not compute. */
/* Rows [begin, end) of the images. */
static void WEFT_CAT(depth_forward, SUFFIX)(const depth_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->h, *w = &j->w;
  const int64_t C = j->c, M = j->m;
  for (int64_t p = begin * w->out; p < end * w->out; p++) {
    int64_t ow = p % w->out, oh = p / w->out % h->out, n = p / w->out / h->out;
    const int64_t ih0 = oh * h->stride - h->before, iw0 = ow * w->stride - w->before;
    const ELEM *image = (const ELEM *)j->x + n * h->in * w->in * C;
    ELEM *y = (ELEM *)j->y + p * C * M;
    memset(y, 0, (size_t)(C * M) * sizeof *y);
    for (int64_t kh = 0; kh < h->k; kh++) {
      int64_t ih = ih0 + kh * h->dilation;
      if (ih < 0 || ih >= h->in) continue;
      for (int64_t kw = 0; kw < w->k; kw++) {
        int64_t iw = iw0 + kw * w->dilation;
        if (iw < 0 || iw >= w->in) continue;
        const ELEM *restrict x = image + (ih * w->in + iw) * C;
        const ELEM *restrict f = (const ELEM *)j->f + (kh * w->k + kw) * C * M;
        for (int64_t c = 0; c < C; c++) {
          for (int64_t m = 0; m < M; m++) y[c * M + m] += x[c] * f[c * M + m];
        }
      }
    }
  }
}

/* dx (zeroed) from dy and the filter. */
static void WEFT_CAT(depth_input, SUFFIX)(const depth_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->h, *w = &j->w;
  const int64_t C = j->c, M = j->m;
  for (int64_t p = begin * h->out * w->out; p < end * h->out * w->out; p++) {
    int64_t ow = p % w->out, oh = p / w->out % h->out, n = p / w->out / h->out;
    const ELEM *dy = (const ELEM *)j->dy + p * C * M;
    for (int64_t kh = 0; kh < h->k; kh++) {
      int64_t ih = oh * h->stride - h->before + kh * h->dilation;
      if (ih < 0 || ih >= h->in) continue;
      for (int64_t kw = 0; kw < w->k; kw++) {
        int64_t iw = ow * w->stride - w->before + kw * w->dilation;
        if (iw < 0 || iw >= w->in) continue;
        ELEM *dx = (ELEM *)j->y + ((n * h->in + ih) * w->in + iw) * C;
        const ELEM *f = (const ELEM *)j->f + (kh * w->k + kw) * C * M;
        for (int64_t c = 0; c < C; c++) {
          for (int64_t m = 0; m < M; m++) dx[c] += dy[c * M + m] * f[c * M + m];
        }
      }
    }
  }
}

/* Filter cells [begin, end) of KH*KW, each a sum over all pixels. */
static void WEFT_CAT(depth_filter, SUFFIX)(const depth_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->h, *w = &j->w;
  const int64_t C = j->c, M = j->m;
  for (int64_t k = begin; k < end; k++) {
    int64_t kh = k / w->k, kw = k % w->k;
    ELEM *df = (ELEM *)j->y + k * C * M;
    memset(df, 0, (size_t)(C * M) * sizeof *df);
    for (int64_t p = 0; p < j->n * h->out * w->out; p++) {
      int64_t ow = p % w->out, oh = p / w->out % h->out, n = p / w->out / h->out;
      int64_t ih = oh * h->stride - h->before + kh * h->dilation,
              iw = ow * w->stride - w->before + kw * w->dilation;
      if (ih < 0 || ih >= h->in || iw < 0 || iw >= w->in) continue;
      const ELEM *x = (const ELEM *)j->x + ((n * h->in + ih) * w->in + iw) * C;
      const ELEM *dy = (const ELEM *)j->dy + p * C * M;
      for (int64_t c = 0; c < C; c++) {
        for (int64_t m = 0; m < M; m++) df[c * M + m] += x[c] * dy[c * M + m];
      }
    }
  }
}
