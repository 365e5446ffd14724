/* kernels/cpu/math/sobol.c - SobolSample: points of a low-discrepancy sequence.
 *
 * Antonov and Saleev's Gray code order of Sobol's sequence: point n is the exclusive or of the direction
 * numbers for the bits of n ^ n/2. Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol sequences
 * with better two-dimensional projections" (SIAM J. Sci. Comput. 30, 2008), their file new-joe-kuo-6.21201.
 */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"

enum { MAX_DIM = 21200, DIGITS = 31 };

/* For each dimension from the second on, in bits, the low ones first: of its primitive polynomial of degree s
 * the s - 1 inner coefficients, that of the lowest power first; then of the initial numbers m[1] to m[s - 1],
 * where m[i] is odd and below 2^(i+1), the i upper bits. Dimensions are in the order of their degrees. */
__asm__(
    ".pushsection .rodata\n"
    ".globl weft_joe_kuo\n"
    ".hidden weft_joe_kuo\n"
    "weft_joe_kuo:\n"
    ".incbin \"kernels/cpu/math/joe_kuo.bin\"\n"
    ".popsection\n");
extern const uint8_t weft_joe_kuo[];

/* How many primitive polynomials there are of the degrees 1 to 17; the others are of degree 18. */
static const int polynomials[] = {1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710};
enum { DEGREES = sizeof polynomials / sizeof polynomials[0] };

/* Where the numbers of the next dimension are. */
typedef struct joe_kuo {
  size_t bit;
  int degree, left; /* of the degree, dimensions that follow */
} joe_kuo_t;

static uint32_t take_bits(joe_kuo_t *r, int n) {
  uint32_t bits = 0;
  for (int i = 0; i < n; i++, r->bit++) bits |= (uint32_t)(weft_joe_kuo[r->bit / 8] >> r->bit % 8 & 1) << i;
  return bits;
}

/* The direction numbers of the next dimension, as fractions of 2^DIGITS. */
static void next_dimension(joe_kuo_t *r, uint32_t direction[DIGITS]) {
  uint32_t m[DIGITS] = {1};
  for (; r->left == 0; r->degree++) r->left = r->degree < DEGREES ? polynomials[r->degree] : MAX_DIM;
  int s = r->degree;
  r->left--;
  uint32_t inner = take_bits(r, s - 1);
  for (int i = 1; i < s; i++) m[i] = take_bits(r, i) << 1 | 1;
  for (int k = s; k < DIGITS; k++) {
    m[k] = m[k - s] ^ m[k - s] << s;
    for (int i = 1; i < s; i++) m[k] ^= (inner >> (s - 1 - i) & 1) * (m[k - i] << i);
  }
  for (int k = 0; k < DIGITS; k++) direction[k] = m[k] << (DIGITS - 1 - k);
}

/* Column `dim` of the points behind `skip`. */
static void fill_column(weft_tensor_t *out, int64_t dim, int64_t skip, const uint32_t direction[DIGITS]) {
  const double unit = 1.0 / (UINT32_C(1) << DIGITS);
  uint32_t n = (uint32_t)skip + 1, gray = n ^ n >> 1, x = 0;
  int64_t rows = out->shape.dims[0], width = out->shape.dims[1];
  for (int k = 0; k < DIGITS; k++) x ^= (gray >> k & 1) * direction[k];
  for (int64_t i = 0; i < rows; i++, n++) {
    if (i > 0) x ^= direction[__builtin_ctz(n)];
    if (out->dtype == WEFT_F32) ((float *)out->data)[i * width + dim] = (float)(x * unit);
    if (out->dtype == WEFT_F64) ((double *)out->data)[i * width + dim] = x * unit;
  }
}

static weft_status_t *sobol(weft_kernel_ctx_t *ctx) {
  static const char *const names[] = {"dim", "num_results", "skip"};
  int64_t v[3];
  weft_tensor_t *out = NULL;
  for (int i = 0; i < 3; i++) {
    const weft_tensor_t *t = weft_in(ctx, i);
    if (t->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", names[i]);
    v[i] = weft_cpu_int_at(t, 0);
  }
  int64_t dim = v[0], num_results = v[1], skip = v[2];
  if (dim < 1) return WEFT_ERROR(INVALID_ARGUMENT, "dim must be at least one");
  if (dim > MAX_DIM) return WEFT_ERROR(INVALID_ARGUMENT, "dim must be at most %d", MAX_DIM);
  if (num_results < 1) return WEFT_ERROR(INVALID_ARGUMENT, "num_results must be at least one");
  if (skip < 0) return WEFT_ERROR(INVALID_ARGUMENT, "skip must be non-negative");
  if (num_results >= INT32_MAX - skip) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_results+skip must be less than %" PRId32, INT32_MAX);
  }
  weft_shape_t shape = weft_shape_matrix(num_results, dim);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &out));
  joe_kuo_t r = {0};
  for (int64_t d = 0; d < dim; d++) {
    uint32_t direction[DIGITS];
    for (int k = 0; k < DIGITS; k++) direction[k] = UINT32_C(1) << (DIGITS - 1 - k);
    if (d > 0) next_dimension(&r, direction);
    fill_column(out, d, skip, direction);
  }
  return NULL;
}

#define F32_F64 (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
const weft_kernel_t weft_cpu_sobol_kernels[] = {
    WEFT_KERNEL("SobolSample", "dtype", F32_F64, NULL, sobol, NULL),
    {0},
};
