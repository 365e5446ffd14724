/* kernels/cpu/image/crop_grad_one.tmpl.h - CropAndResizeGradImage for one element type. Each term and each
 * sum is rounded to the type; boxes come one after the other, as several may add to one pixel. */
#define CROP_ADD(to, value) ((to) = STORE(LOAD(to) + LOAD(STORE(value))))
static void WEFT_CAT(crop_grad, SUFFIX)(const crop_job_t *j) {
  const float *dy = j->dy;
  const int64_t channels = j->channels, line = j->width * channels;
  for (int64_t i = 0; i < j->num_boxes * j->crop_height; i++) {
    const int64_t b = i / j->crop_height;
    const float *box = j->boxes + b * CORNERS;
    const spot_t row = row_of(j, box, i % j->crop_height);
    ELEM *image = (ELEM *)j->y + j->owners[b] * j->height * line;
    for (int64_t w = 0; w < j->crop_width; w++, dy += channels) {
      const spot_t column = column_of(j, box, w);
      if (!row.is_inside || !column.is_inside) continue;
      if (j->is_nearest) {
        ELEM *to = image + row.nearest * line + column.nearest * channels;
        for (int64_t c = 0; c < channels; c++) CROP_ADD(to[c], dy[c]);
        continue;
      }
      ELEM *top = image + row.lower * line, *bottom = image + row.upper * line;
      const int64_t left = column.lower * channels, right = column.upper * channels;
      for (int64_t c = 0; c < channels; c++) {
        const float up = (1 - row.part) * dy[c], down = row.part * dy[c];
        CROP_ADD(top[left + c], (1 - column.part) * up);
        CROP_ADD(top[right + c], column.part * up);
        CROP_ADD(bottom[left + c], (1 - column.part) * down);
        CROP_ADD(bottom[right + c], column.part * down);
      }
    }
  }
}
#undef CROP_ADD
