/* kernels/cpu/random/random_truncated.tmpl.h - a truncated normal distribution with any bounds, in one type.
 *
 * Parameters, undefined below:
 *   TRUNCATED_STEM    functions are STEM_batch ...
 *   TRUNCATED_REAL    the type one computes in
 *   TRUNCATED_STORAGE the type elements have
 *   TRUNCATED_GROUP   numbers that a block of words gives
 *   TRUNCATED_STORE(x)                      from the first to the second
 *   TRUNCATED_ROUND(x)                      the nearest value that the element type has, after every
 *                                           operation
 *   TRUNCATED_UNIFORM(words, out), TRUNCATED_NORMAL(words, out)   a group of numbers from a block
 *   TRUNCATED_F(name)                       the C library's function for REAL
 *
 * Source: Robert, "Simulation of truncated normal variables" (1995): by the bounds one rejects from the
 * normal distribution, from the uniform one, or from an exponential one. Which, and the order of all
 * rounding, is TensorFlow's; so are the numbers.
 */
#define REAL TRUNCATED_REAL
#define R(x) TRUNCATED_ROUND(x)
#define F(name) TRUNCATED_F(name)
#define NAME(x) WEFT_CAT(TRUNCATED_STEM, x)

/* Elements [at, limit) of a batch, and what all three samplers need. */
typedef struct NAME(target) {
  TRUNCATED_STORAGE *out;
  int64_t at, limit, stride;
  REAL mean, deviation, min, max; /* min, max: normalised */
  weft_philox_t *generator;
} NAME(target_t);

static void NAME(accept)(NAME(target_t) * t, REAL x) {
  t->out[t->at++ * t->stride] = TRUNCATED_STORE(R(R(x * t->deviation) + t->mean));
}

static truncated_end_t NAME(by_normal)(NAME(target_t) * t) {
  for (int tries = 0; t->at < t->limit;) {
    REAL x[4];
    uint32_t words[4];
    weft_philox_next(t->generator, words);
    TRUNCATED_NORMAL(words, x);
    for (int i = 0; i < TRUNCATED_GROUP && t->at < t->limit; i++) {
      if (x[i] >= t->min && x[i] <= t->max) {
        NAME(accept)(t, x[i]);
        tries = 0;
      } else if (++tries > TRUNCATED_MAX_TRIES) {
        return TRUNCATED_NORMAL_FAILED;
      }
    }
  }
  return TRUNCATED_OK;
}

static truncated_end_t NAME(by_uniform)(NAME(target_t) * t, REAL width) {
  REAL plus = t->min < 0 ? 0 : R(t->min * t->min);
  for (int tries = 0; t->at < t->limit;) {
    REAL x[4], u[4];
    uint32_t words[4];
    weft_philox_next(t->generator, words);
    TRUNCATED_UNIFORM(words, x);
    weft_philox_next(t->generator, words);
    TRUNCATED_UNIFORM(words, u);
    for (int i = 0; i < TRUNCATED_GROUP && t->at < t->limit; i++) {
      REAL z = R(R(x[i] * width) + t->min), g = R(R(plus - R(z * z)) / 2);
      if (u[i] <= R(F(exp)(g))) {
        NAME(accept)(t, z);
        tries = 0;
      } else if (++tries >= TRUNCATED_MAX_TRIES) {
        return TRUNCATED_UNIFORM_FAILED;
      }
    }
  }
  return TRUNCATED_OK;
}

static truncated_end_t NAME(by_exponential)(NAME(target_t) * t) {
  REAL root = R(F(sqrt)(R(R(t->min * t->min) + 4))), alpha = R(R(t->min + root) / 2);
  for (int tries = 0; t->at < t->limit;) {
    REAL u[4];
    uint32_t words[4];
    weft_philox_next(t->generator, words);
    TRUNCATED_UNIFORM(words, u);
    for (int i = 0; i < TRUNCATED_GROUP && t->at < t->limit; i += 2) {
      REAL z = R(R(-R(F(log)(u[i])) / alpha) + t->min);
      REAL x = t->min < alpha ? R(alpha - z) : R(t->min - alpha);
      REAL g = R(F(exp)(R(R(-x * x) / 2)));
      if (u[i + 1] <= g && z < t->max) {
        NAME(accept)(t, z);
        tries = 0;
      } else if (++tries >= TRUNCATED_MAX_TRIES) {
        return TRUNCATED_EXPONENTIAL_FAILED;
      }
    }
  }
  return TRUNCATED_OK;
}

/* Elements [begin, end) of a batch with these parameters: mean, deviation, minimum, maximum. */
static truncated_end_t NAME(batch)(const double parameters[4], TRUNCATED_STORAGE *out, int64_t begin,
                                   int64_t end, int64_t stride, weft_philox_t *generator) {
  REAL p[4];
  for (int i = 0; i < 4; i++) p[i] = (REAL)parameters[i];
  if (!(p[1] > 0 && p[2] < p[3] && (isfinite(p[2]) || isfinite(p[3])))) return TRUNCATED_BAD_PARAMETERS;
  if ((isinf(p[2]) && p[2] < 0) || p[3] < p[0]) { /* mirrored, so that a single bound is the lower one */
    REAL min = p[2];
    p[2] = p[3];
    p[3] = min;
    p[1] = -p[1];
  }
  REAL low = R(R(p[2] - p[0]) / p[1]), high = R(R(p[3] - p[0]) / p[1]), inside = R((REAL)1.3);
  NAME(target_t)
  t = {.out = out,
       .at = begin,
       .limit = end,
       .stride = stride,
       .mean = p[0],
       .deviation = p[1],
       .min = low,
       .max = high,
       .generator = generator};
  if ((low < -inside && high >= 0) || (high > inside && low <= 0)) return NAME(by_normal)(&t);
  REAL root = R(F(sqrt)(R(R(low * low) + 4))), width = R(high - low);
  REAL power = R((REAL)0.5 + R(R(low * R(low - root)) / 4));
  REAL cutoff = R(R(2 * R(F(exp)(power))) / R(low + root));
  return width < cutoff ? NAME(by_uniform)(&t, width) : NAME(by_exponential)(&t);
}

#undef NAME
#undef F
#undef R
#undef REAL
#undef TRUNCATED_F
#undef TRUNCATED_NORMAL
#undef TRUNCATED_UNIFORM
#undef TRUNCATED_ROUND
#undef TRUNCATED_STORE
#undef TRUNCATED_GROUP
#undef TRUNCATED_STORAGE
#undef TRUNCATED_REAL
#undef TRUNCATED_STEM
