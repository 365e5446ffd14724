/* kernels/cpu/random/random_index_shuffle.c - RandomIndexShuffle: where an index goes in a permutation that
 * only a seed says.
 *
 * The permutation is a block cipher on as many bits as the greatest index needs, applied until the result is
 * no greater than that. Sources: Black and Rogaway, "Ciphers with arbitrary finite domains" (2002), section
 * 4, cycle walking; Beaulieu et al., "The SIMON and SPECK families of lightweight block ciphers" (2013), with
 * three key words, any word size and few rounds. The permutation is TensorFlow's.
 */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"

enum { MIN_BLOCK_BITS = 16, SEED_WORDS = 3, MIN_ROUNDS = 4, MAX_ROUNDS = 1 << 16 };

typedef struct cipher {
  int bits; /* of a word; a block is two */
  uint64_t mask;
  int rounds;
  uint64_t *keys; /* one a round */
} cipher_t;

static uint64_t rotate(const cipher_t *c, uint64_t x, int left) {
  return (x << left | x >> (c->bits - left)) & c->mask;
}

static void set_keys(cipher_t *c, const weft_tensor_t *seed, int64_t row) {
  uint64_t z = UINT64_C(0x7369f885192c0ef5) & c->mask;
  for (int i = 0; i < SEED_WORDS; i++)
    c->keys[i] = (uint32_t)weft_cpu_int_at(seed, row * SEED_WORDS + i) & c->mask;
  for (int i = SEED_WORDS; i < c->rounds; i++, z >>= 1) {
    uint64_t last = c->keys[i - 1];
    c->keys[i] = (UINT64_C(0xfffffffc) & c->mask) ^ (z & 1) ^ c->keys[i - 3] ^ rotate(c, last, c->bits - 3) ^
                 rotate(c, last, c->bits - 4);
  }
}

static uint64_t mix(const cipher_t *c, uint64_t x) {
  return (rotate(c, x, 1) & rotate(c, x, 8)) ^ rotate(c, x, 2);
}

static uint64_t encrypt(const cipher_t *c, uint64_t block) {
  uint64_t left = block >> c->bits & c->mask, right = block & c->mask;
  for (int i = 0; i < c->rounds; i += 2) {
    left ^= mix(c, right) ^ c->keys[i];
    right ^= mix(c, left) ^ c->keys[i + 1];
  }
  return left << c->bits | right;
}

/* False: `index` lies outside, on a cycle of the cipher without an index of 0 to max. */
static bool place(cipher_t *c, const weft_tensor_t *seed, int64_t row, uint64_t index, uint64_t max,
                  uint64_t *out) {
  *out = 0;
  if (max == 0) return true;
  int block = (int)ceil(log2((double)max));
  block += block % 2;
  c->bits = (block < MIN_BLOCK_BITS ? MIN_BLOCK_BITS : block) / 2;
  c->mask = ((uint64_t)1 << c->bits) - 1;
  set_keys(c, seed, row);
  uint64_t start = (index >> c->bits & c->mask) << c->bits | (index & c->mask);
  *out = start;
  do {
    *out = encrypt(c, *out);
    if (*out <= max) return true;
  } while (*out != start);
  return false;
}

static weft_status_t *check(const weft_tensor_t *index, const weft_tensor_t *seed, const weft_tensor_t *max,
                            int64_t n) {
  if (index->shape.rank > 1 || (index->shape.rank == 1 && index->count != n))
    return WEFT_ERROR(INVALID_ARGUMENT, "Index must be a scalar or vector.");
  bool is_one = seed->shape.rank == 1 && seed->count == SEED_WORDS;
  bool is_many = seed->shape.rank == 2 && seed->shape.dims[0] == n && seed->shape.dims[1] == SEED_WORDS;
  if (!is_one && !is_many) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Seed must be a vector of size [3] or a matrix of size [%" PRId64 ", 3] but got %s.", n,
                      WEFT_SHAPE_TEXT(&seed->shape));
  }
  if (max->shape.rank > 1 || (max->shape.rank == 1 && max->count != n)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Maxval must be a scalar or a vector of the same size as index but got %s",
                      WEFT_SHAPE_TEXT(&max->shape));
  }
  return NULL;
}

static void store(weft_tensor_t *t, int64_t i, uint64_t v) {
  if (weft_dtype_size(t->dtype) == 4) {
    ((uint32_t *)t->data)[i] = (uint32_t)v;
  } else {
    ((uint64_t *)t->data)[i] = v;
  }
}

WEFT_ATTRS(index_shuffle, (INT, rounds))
static weft_status_t *index_shuffle(weft_kernel_ctx_t *ctx, const index_shuffle_attrs_t *attrs) {
  const weft_tensor_t *index = weft_in(ctx, 0), *seed = weft_in(ctx, 1), *max = weft_in(ctx, 2);
  int64_t n = index->count > max->count ? index->count : max->count;
  if (seed->count / SEED_WORDS > n) n = seed->count / SEED_WORDS;
  WEFT_RETURN_IF_ERROR(check(index, seed, max, n));
  if (attrs->rounds < MIN_ROUNDS || attrs->rounds > MAX_ROUNDS || attrs->rounds % 2 != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rounds must be an even number of at least %d, not %" PRId64,
                      MIN_ROUNDS, attrs->rounds);
  }
  bool is_scalar = index->shape.rank == 0 && seed->shape.rank == 1 && max->shape.rank == 0;
  weft_shape_t shape = is_scalar ? WEFT_SCALAR : weft_shape_vector(n);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, index->dtype, &shape, &y));
  cipher_t c = {.rounds = (int)attrs->rounds, .keys = weft_calloc((size_t)attrs->rounds, sizeof *c.keys)};
  if (c.keys == NULL) return WEFT_NO_MEMORY("the keys of %d rounds", c.rounds);
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    uint64_t from = (uint64_t)weft_cpu_int_at(index, index->shape.rank == 0 ? 0 : i), to = 0;
    uint64_t limit = (uint64_t)weft_cpu_int_at(max, max->shape.rank == 0 ? 0 : i);
    if (!place(&c, seed, seed->shape.rank == 1 ? 0 : i, from, limit, &to))
      s = WEFT_ERROR(INVALID_ARGUMENT, "index %" PRIu64 " is greater than max_index %" PRIu64, from, limit);
    store(y, i, to);
  }
  weft_free(c.keys);
  return s;
}

#define INTS (WEFT_SET_INDEX | WEFT_DTYPE_BIT(WEFT_U32) | WEFT_DTYPE_BIT(WEFT_U64))

const weft_kernel_t weft_cpu_random_index_shuffle_kernels[] = {
    WEFT_KERNEL_ATTRS("RandomIndexShuffle", "dtype", INTS, index_shuffle),
    {0},
};
