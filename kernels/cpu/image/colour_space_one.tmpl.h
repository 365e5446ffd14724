/* kernels/cpu/image/colour_space_one.tmpl.h - between RGB and HSV for one element type: pixels [begin, end)
 * of three channels. Each step is rounded to the type. Source: Smith, "Color gamut transform pairs" (1978).
 */
#define ROUND(v) LOAD(STORE(v))
#define COLOUR_MAX(a, b) ((a) < (b) ? (b) : (a))
#define COLOUR_MIN(a, b) ((b) < (a) ? (b) : (a))

static void WEFT_CAT(to_hsv, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  const COMP sixth = ROUND((COMP)1 / (COMP)6), third = ROUND((COMP)2 / (COMP)6),
             two_thirds = ROUND((COMP)4 / (COMP)6);
  for (int64_t i = begin; i < end; i++) {
    const ELEM *x = (const ELEM *)j->x + 3 * i;
    ELEM *y = (ELEM *)j->y + 3 * i;
    const COMP r = LOAD(x[0]), g = LOAD(x[1]), b = LOAD(x[2]);
    const COMP high = COLOUR_MAX(COLOUR_MAX(r, g), b), low = COLOUR_MIN(COLOUR_MIN(r, g), b);
    const COMP range = ROUND(high - low), norm = ROUND(ROUND((COMP)1 / range) * sixth);
    COMP hue;
    if (r == high) {
      hue = ROUND(norm * ROUND(g - b));
    } else if (g == high) {
      hue = ROUND(ROUND(norm * ROUND(b - r)) + third);
    } else {
      hue = ROUND(ROUND(norm * ROUND(r - g)) + two_thirds);
    }
    if (!(range > 0)) hue = 0;
    y[0] = STORE(hue < 0 ? hue + 1 : hue);
    y[1] = high > 0 ? STORE(range / high) : STORE((COMP)0);
    y[2] = STORE(high);
  }
}

static COMP WEFT_CAT(clipped, SUFFIX)(COMP v) {
  v = v < 0 ? 0 : v;
  return v > 1 ? 1 : v;
}

static void WEFT_CAT(to_rgb, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const colour_job_t *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const ELEM *x = (const ELEM *)j->x + 3 * i;
    ELEM *y = (ELEM *)j->y + 3 * i;
    const COMP s = LOAD(x[1]), v = LOAD(x[2]), six = ROUND(LOAD(x[0]) * 6), rest = ROUND(1 - s);
    const COMP part[3] = {ROUND(COLOUR_ABS(ROUND(six - 3)) - 1), ROUND(2 - COLOUR_ABS(ROUND(six - 2))),
                          ROUND(2 - COLOUR_ABS(ROUND(six - 4)))};
    for (int c = 0; c < 3; c++) y[c] = STORE(ROUND(rest + ROUND(s * WEFT_CAT(clipped, SUFFIX)(part[c]))) * v);
  }
}
#undef ROUND
#undef COLOUR_MAX
#undef COLOUR_MIN
