/* kernels/cpu/nn/pool3d_one.tmpl.h - pooling of volumes [N,D,H,W,C] and its gradients for one element type.
 * [begin, end): lines of the output along W, each computed by itself; of the gradients that add to cells,
 * images. A step of a sum is rounded to the element type. */
#define VOLUME_LOWEST STORE((COMP)lowest(ELEM_ID))

static void WEFT_CAT(volume_max, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  for (int64_t o = begin * width; o < end * width; o++) {
    const ELEM *x = (const ELEM *)j->x + o / outs * ins * C;
    ELEM *y = (ELEM *)j->out + o * C;
    volume_box_t b = box_under(j, o % outs);
    for (int64_t c = 0; c < C; c++) y[c] = b.is_cut ? VOLUME_LOWEST : STORE((COMP)-INFINITY);
    for (int64_t k = 0, n = cells_of(&b); k < n; k++) {
      const ELEM *p = x + cell_at(j, &b, k) * C;
      for (int64_t c = 0; c < C; c++) y[c] = LOAD(p[c]) < LOAD(y[c]) ? y[c] : p[c];
    }
  }
}

static void WEFT_CAT(volume_avg, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  const COMP left_out = LOAD(VOLUME_LOWEST);
  for (int64_t o = begin * width; o < end * width; o++) {
    const ELEM *x = (const ELEM *)j->x + o / outs * ins * C;
    volume_box_t b = box_under(j, o % outs);
    for (int64_t at = 0; at < C; at += VOLUME_CHUNK) {
      ELEM *y = (ELEM *)j->out + o * C + at;
      int64_t chunk = C - at < VOLUME_CHUNK ? C - at : VOLUME_CHUNK;
      ELEM sum[VOLUME_CHUNK];
      COMP count[VOLUME_CHUNK];
      for (int64_t c = 0; c < chunk; c++) {
        sum[c] = 0;
        count[c] = 0;
      }
      for (int64_t k = 0, n = cells_of(&b); k < n; k++) {
        const ELEM *p = x + cell_at(j, &b, k) * C + at;
        for (int64_t c = 0; c < chunk; c++) {
          if (LOAD(p[c]) == left_out) continue;
          sum[c] = STORE(LOAD(sum[c]) + LOAD(p[c]));
          count[c] += 1;
        }
      }
      for (int64_t c = 0; c < chunk; c++) y[c] = STORE(LOAD(sum[c]) / LOAD(STORE(count[c])));
    }
  }
}

/* dx (zeroed): each cell that differs from the maximum by less than 1e-5 gets all of dy. */
static void WEFT_CAT(volume_max_grad, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j);
  const COMP near = LOAD(STORE((COMP)1e-5));
  for (int64_t o = begin * outs; o < end * outs; o++) {
    const int64_t image = o / outs * ins * C;
    const ELEM *y = (const ELEM *)j->y + o * C, *dy = (const ELEM *)j->dy + o * C;
    volume_box_t b = box_reached(j, o % outs);
    for (int64_t k = 0, n = cells_of(&b); k < n; k++) {
      const int64_t at = image + cell_at(j, &b, k) * C;
      const ELEM *x = (const ELEM *)j->x + at;
      ELEM *dx = (ELEM *)j->out + at;
      for (int64_t c = 0; c < C; c++) {
        const COMP off = LOAD(STORE(LOAD(x[c]) - LOAD(y[c])));
        if (off < near && -off < near) dx[c] = STORE(LOAD(dx[c]) + LOAD(dy[c]));
      }
    }
  }
}

/* dx (zeroed): each cell gets its share of dy. */
static void WEFT_CAT(volume_avg_grad, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = j->grad[0] * j->grad[1] * j->grad[2], ins = in_pixels_of(j);
  for (int64_t o = begin * outs; o < end * outs; o++) {
    const ELEM *dy = (const ELEM *)j->dy + o * C;
    volume_box_t b = box_reached(j, o % outs);
    const int64_t n = cells_of(&b);
    const COMP share = LOAD(STORE((COMP)(1.0f / (float)n)));
    for (int64_t k = 0; k < n; k++) {
      ELEM *dx = (ELEM *)j->out + (o / outs * ins + cell_at(j, &b, k)) * C;
      for (int64_t c = 0; c < C; c++) dx[c] = STORE(LOAD(dx[c]) + LOAD(STORE(LOAD(dy[c]) * share)));
    }
  }
}

/* The gradient of volume_max_grad: what lies where the first cell equal to the maximum is. `out` is zeroed.
 */
static void WEFT_CAT(volume_second, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  for (int64_t o = begin * width; o < end * width; o++) {
    const int64_t image = o / outs * ins * C;
    volume_box_t b = box_under(j, o % outs);
    const int64_t n = cells_of(&b);
    for (int64_t c = 0; c < C; c++) {
      for (int64_t k = 0; k < n; k++) {
        const int64_t at = image + cell_at(j, &b, k) * C + c;
        if (LOAD(((const ELEM *)j->x)[at]) != LOAD(((const ELEM *)j->y)[o * C + c])) continue;
        ((ELEM *)j->out)[o * C + c] = ((const ELEM *)j->dy)[at];
        break;
      }
    }
  }
}
#undef VOLUME_LOWEST
