/* kernels/cpu/image/project_one.tmpl.h - ImageProjectiveTransform for one element type: rows [begin, end) of
 * all images of the result. */
static void WEFT_CAT(project, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const project_job_t *j = arg;
  const ELEM *in = j->x, fill = STORE((COMP)j->fill);
  ELEM *y = (ELEM *)j->y + begin * j->out_w * j->channels;
  for (int64_t r = begin; r < end; r++) {
    const int64_t i = r / j->out_h;
    for (int64_t w = 0; w < j->out_w; w++, y += j->channels) {
      float px = 0, py = 0;
      if (!find_place(j, i, w, r % j->out_h, &px, &py)) {
        for (int64_t c = 0; c < j->channels; c++) y[c] = fill;
        continue;
      }
      if (!j->how.is_bilinear) {
        const int64_t at = pixel_at(j, i, roundf(px), roundf(py));
        for (int64_t c = 0; c < j->channels; c++) y[c] = at < 0 ? fill : in[at + c];
        continue;
      }
      const float left = floorf(px), top = floorf(py), right = left + 1, bottom = top + 1;
      const int64_t at[4] = {pixel_at(j, i, left, top), pixel_at(j, i, right, top),
                             pixel_at(j, i, left, bottom), pixel_at(j, i, right, bottom)};
      for (int64_t c = 0; c < j->channels; c++) {
        float v[4];
        for (int k = 0; k < 4; k++) v[k] = (float)LOAD(at[k] < 0 ? fill : in[at[k] + c]);
        const float upper = (right - px) * v[0] + (px - left) * v[1],
                    lower = (right - px) * v[2] + (px - left) * v[3];
        y[c] = STORE((COMP)((bottom - py) * upper + (py - top) * lower));
      }
    }
  }
}
