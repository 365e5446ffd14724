/* kernels/cpu/quantize/simulate_one.tmpl.h - QuantizeAndDequantize of one element type.
 *
 * A tensor is [outer, channels, inner]; each channel has a range, or all of them have one (channels 1).
 */

/* The scale at which the range fits in the integers, zero staying zero; the side that does not decide is
 * moved to where the integers end. */
static void WEFT_CAT(fit_range, SUFFIX)(const simulation_t *s, COMP *min, COMP *max, COMP *scale,
                                        COMP *inverse) {
  const COMP lowest = (COMP)s->lowest, highest = (COMP)s->highest;
  const COMP by_min = lowest * *min > 0 ? lowest / *min : HUGEST;
  const COMP by_max = highest * *max > 0 ? highest / *max : HUGEST;
  if (by_min < by_max) {
    *scale = by_min;
    *inverse = *min / lowest;
    *max = highest * *inverse;
  } else {
    *scale = by_max;
    *inverse = *max / highest;
    *min = lowest * *inverse;
  }
}

static void WEFT_CAT(find_range, SUFFIX)(const simulation_t *s, int64_t channel, COMP *min, COMP *max) {
  const ELEM *x = s->x;
  *min = HUGEST;
  *max = -HUGEST;
  for (int64_t o = 0; o < s->outer; o++) {
    const ELEM *row = x + (o * s->channels + channel) * s->inner;
    for (int64_t i = 0; i < s->inner; i++) {
      *min = row[i] < *min ? row[i] : *min;
      *max = row[i] > *max ? row[i] : *max;
    }
  }
}

static void WEFT_CAT(simulate_channel, SUFFIX)(const simulation_t *s, int64_t channel) {
  const ELEM *x = s->x;
  ELEM *y = s->y;
  COMP min, max, scale, inverse;
  if (s->is_range_given) {
    min = ((const ELEM *)s->min)[channel];
    max = ((const ELEM *)s->max)[channel];
  } else {
    WEFT_CAT(find_range, SUFFIX)(s, channel, &min, &max);
  }
  WEFT_CAT(fit_range, SUFFIX)(s, &min, &max, &scale, &inverse);
  for (int64_t o = 0; o < s->outer; o++) {
    const int64_t at = (o * s->channels + channel) * s->inner;
    for (int64_t i = at; i < at + s->inner; i++) {
      COMP v = x[i];
      if (s->is_range_given) {
        v = max < v ? max : v;
        v = v < min ? min : v;
      }
      v *= scale;
      y[i] = (s->rounds_up ? FLOOR(v + (COMP)0.5) : RINT(v)) * inverse;
    }
  }
}

/* dx = dy where x lies within its channel's range. */
static void WEFT_CAT(simulate_back_channel, SUFFIX)(const simulation_t *s, int64_t channel) {
  const ELEM *x = s->x, *dy = s->dy;
  ELEM *dx = s->y;
  const COMP min = ((const ELEM *)s->min)[channel], max = ((const ELEM *)s->max)[channel];
  for (int64_t o = 0; o < s->outer; o++) {
    const int64_t at = (o * s->channels + channel) * s->inner;
    for (int64_t i = at; i < at + s->inner; i++) dx[i] = dy[i] * (COMP)(x[i] >= min && x[i] <= max);
  }
}
#undef ELEM
#undef COMP
#undef SUFFIX
#undef HUGEST
#undef FLOOR
#undef RINT
