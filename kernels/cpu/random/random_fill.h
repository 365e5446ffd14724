/* kernels/cpu/random/random_fill.h - tensors filled from a generator by one distribution.
 *
 * Element i depends on the generator and i alone, so the threads that share the work do not show. The numbers
 * are TensorFlow's, bit for bit, as far as the C library's sine, cosine and logarithm are.
 */
#ifndef WEFT_KERNELS_CPU_RANDOM_RANDOM_FILL_H_
#define WEFT_KERNELS_CPU_RANDOM_RANDOM_FILL_H_

#include "kernels/cpu/random/philox.h"

typedef enum weft_distribution {
  WEFT_UNIFORM,          /* [0, 1) of a float type */
  WEFT_UNIFORM_INT,      /* [low, low + range) of a 32 or 64 bit integer type */
  WEFT_FULL_INT,         /* any value of such a type */
  WEFT_NORMAL,           /* mean 0, deviation 1 */
  WEFT_TRUNCATED_NORMAL, /* the same, redrawn until |x| < 2 */
} weft_distribution_t;
/* The types of WEFT_FULL_INT. */
#define WEFT_SET_FULL_INTS (WEFT_SET_INDEX | WEFT_DTYPE_BIT(WEFT_U32) | WEFT_DTYPE_BIT(WEFT_U64))

typedef enum weft_random_source {
  WEFT_RANDOM_STREAM = 1, /* attributes `seed`, `seed2` */
  WEFT_RANDOM_SEED,       /* input 1 */
  WEFT_RANDOM_KEY,        /* inputs 1 to 3: key, counter, algorithm */
} weft_random_source_t;

/* What an op draws: the param of its row. Bounds of WEFT_UNIFORM_INT are the two inputs behind the source. */
typedef struct weft_drawn {
  weft_random_source_t source;
  weft_distribution_t distribution;
} weft_drawn_t;
#define WEFT_DRAWS(source_, distribution_) \
  .param = &(const weft_drawn_t) { WEFT_RANDOM_##source_, WEFT_##distribution_ }
/* The families whose rows have such a param, or none. */
extern const weft_kernel_t weft_cpu_random_kernels[], weft_cpu_random_stateless_kernels[];

/* Fills `t` (allocated, dtype as above). `low` and `range` are of WEFT_UNIFORM_INT, which takes the remainder
 * of a word (two for 64 bits) by range. A truncated normal uses 256 blocks per element, the others at most
 * one. */
void weft_random_fill(weft_thread_pool_t *pool, weft_philox_t generator, weft_distribution_t distribution,
                      uint64_t low, uint64_t range, weft_tensor_t *t);
/* A part of a longer sequence: `num` stretches of equal length, the first from element `first` on, each
 * `stride` elements behind the one before. */
typedef struct weft_random_part {
  int64_t num, first, stride;
} weft_random_part_t;

/* Fills `t` with a part of the numbers that weft_random_fill would give a longer tensor, without drawing the
 * others. */
void weft_random_fill_part(weft_thread_pool_t *pool, weft_philox_t generator,
                           weft_distribution_t distribution, uint64_t low, uint64_t range,
                           const weft_random_part_t *part, weft_tensor_t *t);
/* Two normally distributed numbers from two words (Box and Muller 1958), or from four. */
void weft_random_normal_pair(uint32_t x0, uint32_t x1, float out[2]);
void weft_random_normal_pair_f64(const uint32_t x[4], double out[2]);

/* Blocks that an op with a stream takes out of it per element, whatever it uses, because TensorFlow does. */
enum { WEFT_RANDOM_BLOCKS_PER_ELEMENT = 256 };
/* A kernel's output 0: dtype from the node, shape from the tensor of sizes. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_random_output(weft_kernel_ctx_t *ctx, const weft_tensor_t *sizes,
                                                  weft_tensor_t **out);
/* `low` and `range` from scalars of the output's type.
 * Errors: INVALID_ARGUMENT "minval must be 0-D, ...", "Need minval < maxval, ...". */
WEFT_MUST_CHECK weft_status_t *weft_random_bounds(const weft_tensor_t *min, const weft_tensor_t *max,
                                                  bool is_empty, uint64_t *out_low, uint64_t *out_range);

/* ---- generators of the stateless ops (random_stateless.c) ---- */

/* What an input `alg` may say. TensorFlow's kernels for CPUs have Philox. */
enum { WEFT_ALG_PHILOX = 1, WEFT_ALG_THREEFRY = 2, WEFT_ALG_AUTO = 3 };

/* From the seed of a first version. Errors: INVALID_ARGUMENT "seed must have shape [2], ...", or a seed of
 * unsigned integers. */
WEFT_MUST_CHECK weft_status_t *weft_random_from_seed(const weft_tensor_t *seed, weft_philox_t *out);
/* From the key and counter of a second version. Errors: INVALID_ARGUMENT "key must have shape [1], ..." and
 * its like. */
WEFT_MUST_CHECK weft_status_t *weft_random_from_key(const weft_tensor_t *key, const weft_tensor_t *counter,
                                                    const weft_tensor_t *alg, int32_t *out_alg,
                                                    weft_philox_t *out);
/* Errors: INVALID_ARGUMENT "Unsupported algorithm id: ...": checked last, as TensorFlow does. */
WEFT_MUST_CHECK weft_status_t *weft_random_check_alg(int32_t alg);
/* Output 0 and the generator of an op with inputs (shape, seed); *out_generator is not set if the output is
 * empty. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_random_seeded_output(weft_kernel_ctx_t *ctx, weft_tensor_t **out,
                                                         weft_philox_t *out_generator);
/* The same of an op with inputs (shape, key, counter, alg); the algorithm is left to weft_random_check_alg.
 */
WEFT_MUST_CHECK weft_status_t *weft_random_keyed_output(weft_kernel_ctx_t *ctx, weft_tensor_t **out,
                                                        int32_t *out_alg, weft_philox_t *out_generator);

#endif /* WEFT_KERNELS_CPU_RANDOM_RANDOM_FILL_H_ */
