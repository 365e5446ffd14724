/* kernels/cpu/random/random_fill.c - the distributions, and threads to fill with them.
 *
 * The unit of work is a group: what one block of four words gives, that is four elements of up to 32 bits or
 * two of
 * 64. A truncated normal group begins at a block of its own, RESERVED blocks after the group before.
 */
#define _GNU_SOURCE /* sincos, sincosf */
#include "kernels/cpu/random/random_fill.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/simd.h"

/* Blocks that a truncated normal group may use: 256 words per element, four words a block. */
enum { RESERVED_PER_ELEMENT = 256, WORDS = 4 };

static const double pi = 3.14159265358979323846;

void weft_random_normal_pair(uint32_t x0, uint32_t x1, float out[2]) {
  float u = weft_philox_float(x0);
  if (u < 1.0e-7f) u = 1.0e-7f; /* the logarithm of 0 */
  /* The angle in double, rounded once, is what TensorFlow computes. */
  float angle = (float)(2.0 * pi * (double)weft_philox_float(x1)), radius = sqrtf(-2.0f * logf(u));
  sincosf(angle, &out[0], &out[1]);
  out[0] *= radius;
  out[1] *= radius;
}

void weft_random_normal_pair_f64(const uint32_t x[4], double out[2]) {
  double u = weft_philox_double(x[0], x[1]);
  if (u < 1.0e-7) u = 1.0e-7;
  double angle = 2 * pi * weft_philox_double(x[2], x[3]), radius = sqrt(-2.0 * log(u));
  sincos(angle, &out[0], &out[1]);
  out[0] *= radius;
  out[1] *= radius;
}

typedef struct fill {
  weft_philox_t generator;
  weft_distribution_t distribution;
  weft_dtype_t dtype;
  uint64_t low, range;
  char *data;
  size_t size; /* of an element */
  int64_t per_group;
  weft_random_part_t part;
  int64_t length, num_groups; /* of a stretch: elements; groups that it may touch */
} fill_t;

static void store_float(const fill_t *f, char *to, int i, float v) {
  switch (f->dtype) {
    case WEFT_F16: ((uint16_t *)(void *)to)[i] = weft_f32_to_f16(v); break;
    case WEFT_BF16: ((uint16_t *)(void *)to)[i] = weft_f32_to_bf16(v); break;
    default: ((float *)(void *)to)[i] = v; break;
  }
}

/* half and bfloat16 take as many low bits of a word as they have mantissa; v - 1 is exact in all of them. */
static float small_uniform(weft_dtype_t dtype, uint32_t word) {
  if (dtype == WEFT_F16) return (float)(word & 0x3ffu) / 1024.0f;
  if (dtype == WEFT_BF16) return (float)(word & 0x7fu) / 128.0f;
  return weft_philox_float(word);
}

/* One group from the generator where it stands. `to` has room for a whole group, aligned. */
static void plain_group(const fill_t *f, weft_philox_t *generator, char *to) {
  uint32_t x[WORDS];
  weft_philox_next(generator, x);
  if (f->distribution == WEFT_FULL_INT) {
    memcpy(to, x, sizeof x); /* the lower word of 64 bits first */
  } else if (f->distribution == WEFT_UNIFORM_INT) {
    if (f->size == 4) {
      uint32_t range = (uint32_t)f->range, low = (uint32_t)f->low;
      for (int i = 0; i < WORDS; i++) ((uint32_t *)(void *)to)[i] = low + x[i] % range;
    } else {
      for (int i = 0; i < 2; i++) {
        ((uint64_t *)(void *)to)[i] = f->low + ((uint64_t)x[2 * i + 1] << 32 | x[2 * i]) % f->range;
      }
    }
  } else if (f->distribution == WEFT_UNIFORM) {
    if (f->dtype == WEFT_F64) {
      for (int i = 0; i < 2; i++) ((double *)(void *)to)[i] = weft_philox_double(x[2 * i], x[2 * i + 1]);
    } else {
      for (int i = 0; i < WORDS; i++) store_float(f, to, i, small_uniform(f->dtype, x[i]));
    }
  } else if (f->dtype == WEFT_F64) {
    weft_random_normal_pair_f64(x, (double *)(void *)to);
  } else {
    for (int i = 0; i < WORDS; i += 2) {
      float pair[2];
      weft_random_normal_pair(x[i], x[i + 1], pair);
      store_float(f, to, i, pair[0]);
      store_float(f, to, i + 1, pair[1]);
    }
  }
}

/* ---- whole groups side by side: a block of four words for each, in vectors ---- */

/* Two vectors, so that one is multiplied while the other waits for its products. */
enum { PER_VECTOR = WEFT_SIMD / 2, BLOCKS = 2 * PER_VECTOR };

/* The words of the next BLOCKS blocks, as weft_philox_next gives them one after the other. The lowest word of
 * the counter does not wrap meanwhile. Upper halves of the elements collect what no product and no result
 * looks at. */
static void next_blocks(weft_philox_t *p, uint32_t out[BLOCKS][WORDS]) {
  const weft_simd_words_t none = {0}, m0 = none + 0xD2511F53u, m1 = none + 0xCD9E8D57u;
  weft_simd_words_t c0[2], c1[2], c2[2], c3[2];
  uint32_t k0 = p->key[0], k1 = p->key[1];
  uint64_t first[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) first[i] = p->counter[0] + (uint32_t)i;
  memcpy(c0, first, sizeof c0);
  for (int v = 0; v < 2; v++) {
    c1[v] = none + p->counter[1];
    c2[v] = none + p->counter[2];
    c3[v] = none + p->counter[3];
  }
  for (int round = 0; round < 10; round++) {
    for (int v = 0; v < 2; v++) {
      const weft_simd_words_t a = weft_simd_mul_words(c0[v], m0), b = weft_simd_mul_words(c2[v], m1);
      c0[v] = (b >> 32) ^ c1[v] ^ k0;
      c1[v] = b;
      c2[v] = (a >> 32) ^ c3[v] ^ k1;
      c3[v] = a;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int v = 0; v < 2; v++) {
    const weft_simd_words_t low = (c0[v] & 0xffffffffu) | c1[v] << 32,
                            high = (c2[v] & 0xffffffffu) | c3[v] << 32;
    for (int i = 0; i < PER_VECTOR; i++) {
      const uint64_t pair[2] = {low[i], high[i]}; /* the first word is the lower one in memory */
      memcpy(out[v * PER_VECTOR + i], pair, sizeof pair);
    }
  }
  weft_philox_skip(p, BLOCKS);
}

static bool has_block_loop(const fill_t *f) {
  return f->distribution != WEFT_TRUNCATED_NORMAL && f->size == 4 &&
         (f->distribution != WEFT_UNIFORM || f->dtype == WEFT_F32) &&
         (f->distribution != WEFT_NORMAL || f->dtype == WEFT_F32);
}

/* Up to n whole groups of four elements of 4 bytes, BLOCKS at a time; returns how many there were. */
static int64_t fill_blocks(const fill_t *f, weft_philox_t *generator, int64_t n, char *to) {
  uint32_t words[BLOCKS][WORDS];
  int64_t done = 0;
  for (; done + BLOCKS <= n && generator->counter[0] <= UINT32_MAX - BLOCKS; done += BLOCKS) {
    const uint32_t *x = words[0];
    char *at = to + (size_t)done * WORDS * sizeof(uint32_t);
    next_blocks(generator, words);
    if (f->distribution == WEFT_UNIFORM) {
      for (int i = 0; i < BLOCKS * WORDS; i++) ((float *)(void *)at)[i] = weft_philox_float(x[i]);
    } else if (f->distribution == WEFT_UNIFORM_INT) {
      const uint32_t range = (uint32_t)f->range, low = (uint32_t)f->low;
      for (int i = 0; i < BLOCKS * WORDS; i++) ((uint32_t *)(void *)at)[i] = low + x[i] % range;
    } else if (f->distribution == WEFT_FULL_INT) {
      memcpy(at, words, sizeof words);
    } else {
      for (int i = 0; i < BLOCKS * WORDS; i += 2)
        weft_random_normal_pair(x[i], x[i + 1], (float *)(void *)at + i);
    }
  }
  return done;
}

static void truncated_group(const fill_t *f, int64_t group, char *to) {
  weft_philox_t generator = f->generator;
  weft_philox_skip(&generator, (uint64_t)group * (uint64_t)f->per_group * RESERVED_PER_ELEMENT / WORDS);
  for (int done = 0; done < f->per_group;) {
    uint32_t x[WORDS];
    weft_philox_next(&generator, x);
    if (f->dtype == WEFT_F64) {
      double pair[2];
      weft_random_normal_pair_f64(x, pair);
      for (int i = 0; i < 2 && done < f->per_group; i++) {
        if (fabs(pair[i]) < 2.0) ((double *)(void *)to)[done++] = pair[i];
      }
      continue;
    }
    for (int w = 0; w < WORDS && done < f->per_group; w += 2) {
      float pair[2];
      weft_random_normal_pair(x[w], x[w + 1], pair);
      for (int i = 0; i < 2 && done < f->per_group; i++) {
        if (fabsf(pair[i]) < 2.0f) store_float(f, to, done++, pair[i]);
      }
    }
  }
}

static void fill_group(const fill_t *f, int64_t g, weft_philox_t *generator, char *to) {
  if (f->distribution == WEFT_TRUNCATED_NORMAL) {
    truncated_group(f, g, to);
  } else {
    plain_group(f, generator, to);
  }
}

/* Group `g`, of which only some lies in elements [begin, end); `at` is where element `begin` goes. */
static void fill_some(const fill_t *f, int64_t g, weft_philox_t *generator, int64_t begin, int64_t end,
                      char *at) {
  union {
    char bytes[2 * sizeof(double)];
    double aligned;
  } all;
  int64_t start = g * f->per_group, from = start < begin ? begin : start,
          to = start + f->per_group > end ? end : start + f->per_group;
  fill_group(f, g, generator, all.bytes);
  memcpy(at + (size_t)(from - begin) * f->size, all.bytes + (size_t)(from - start) * f->size,
         (size_t)(to - from) * f->size);
}

/* Groups are numbered through all stretches, f->num_groups for each. */
static void fill_groups(void *arg, int64_t begin, int64_t end) {
  const fill_t *f = arg;
  while (begin < end) {
    int64_t stretch = begin / f->num_groups, k = begin % f->num_groups, limit = k + (end - begin);
    if (limit > f->num_groups) limit = f->num_groups;
    begin += limit - k;
    int64_t from = f->part.first + stretch * f->part.stride, to = from + f->length;
    char *at = f->data + (size_t)(stretch * f->length) * f->size;
    int64_t g = from / f->per_group + k, last = from / f->per_group + limit;
    weft_philox_t generator = f->generator;
    weft_philox_skip(&generator, (uint64_t)g);
    int64_t first_whole = (from + f->per_group - 1) / f->per_group, end_whole = to / f->per_group;
    for (; g < last && g < first_whole && g * f->per_group < to; g++)
      fill_some(f, g, &generator, from, to, at);
    char *out = at + (g * f->per_group - from) * (int64_t)f->size;
    if (g < last && g < end_whole && has_block_loop(f)) {
      const int64_t done = fill_blocks(f, &generator, (last < end_whole ? last : end_whole) - g, out);
      g += done;
      out += done * f->per_group * (int64_t)f->size;
    }
    for (; g < last && g < end_whole; g++, out += f->per_group * (int64_t)f->size)
      fill_group(f, g, &generator, out);
    for (; g < last && g * f->per_group < to; g++) fill_some(f, g, &generator, from, to, at);
  }
}

void weft_random_fill_part(weft_thread_pool_t *pool, weft_philox_t generator,
                           weft_distribution_t distribution, uint64_t low, uint64_t range,
                           const weft_random_part_t *part, weft_tensor_t *t) {
  fill_t f = {.generator = generator,
              .distribution = distribution,
              .dtype = t->dtype,
              .low = low,
              .range = range,
              .data = t->data,
              .size = weft_dtype_size(t->dtype),
              .part = *part};
  if (t->count == 0) return;
  f.per_group = f.size == 8 ? 2 : 4;
  f.length = t->count / part->num;
  f.num_groups = (f.length + f.per_group - 1) / f.per_group;
  bool is_aligned = part->first % f.per_group == 0 && (part->num == 1 || part->stride % f.per_group == 0);
  if (!is_aligned) f.num_groups++; /* a stretch that begins within a group may touch one more */
  bool is_costly = distribution == WEFT_NORMAL || distribution == WEFT_TRUNCATED_NORMAL;
  weft_parallel_for(pool, part->num * f.num_groups, is_costly ? WEFT_CPU_GRAIN / 64 : WEFT_CPU_GRAIN / 16,
                    fill_groups, &f);
}

void weft_random_fill(weft_thread_pool_t *pool, weft_philox_t generator, weft_distribution_t distribution,
                      uint64_t low, uint64_t range, weft_tensor_t *t) {
  static const weft_random_part_t all = {.num = 1};
  weft_random_fill_part(pool, generator, distribution, low, range, &all, t);
}

weft_status_t *weft_random_output(weft_kernel_ctx_t *ctx, const weft_tensor_t *sizes, weft_tensor_t **out) {
  weft_shape_t shape;
  if (sizes->shape.rank != 1 || (sizes->dtype != WEFT_I32 && sizes->dtype != WEFT_I64)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be a vector of {int32,int64}, got shape %s",
                      WEFT_SHAPE_TEXT(&sizes->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "shape", &shape));
  return weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, out);
}

weft_status_t *weft_random_bounds(const weft_tensor_t *min, const weft_tensor_t *max, bool is_empty,
                                  uint64_t *out_low, uint64_t *out_range) {
  const weft_tensor_t *bounds[2] = {min, max};
  for (int i = 0; i < 2; i++) {
    if (bounds[i]->shape.rank == 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 0-D, got shape %s", i == 0 ? "minval" : "maxval",
                      WEFT_SHAPE_TEXT(&bounds[i]->shape));
  }
  int64_t low = weft_cpu_int_at(min, 0), high = weft_cpu_int_at(max, 0);
  if (!is_empty && low >= high) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Need minval < maxval, got %" PRId64 " >= %" PRId64, low, high);
  }
  *out_low = (uint64_t)low;
  *out_range = (uint64_t)high - (uint64_t)low;
  return NULL;
}
