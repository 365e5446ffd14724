/* kernels/cpu/math/bitwise.c - the bits of integers: logic, shifts, how many are set. */
#include "kernels/cpu/loops/map.h"

#define MAP_STEM bitwise_and
#define MAP_EXPR(x, y) ((x) & (y))
#include "kernels/cpu/loops/map2_ints.tmpl.h"
#define MAP_STEM bitwise_or
#define MAP_EXPR(x, y) ((x) | (y))
#include "kernels/cpu/loops/map2_ints.tmpl.h"
#define MAP_STEM bitwise_xor
#define MAP_EXPR(x, y) ((x) ^ (y))
#include "kernels/cpu/loops/map2_ints.tmpl.h"
#define MAP_STEM invert
#define MAP_EXPR(x) (~(x))
#include "kernels/cpu/loops/map1_ints.tmpl.h"

/* A shift by less than 0 is by 0, one by more than there are bits but one is by that, as TensorFlow's. To the
 * right the sign comes in from the left. */
#define BITS ((int)sizeof(ELEM) * 8)
#define AT_MOST_BITS(y) (IS_NEGATIVE(y) ? 0 : (y) >= BITS ? BITS - 1 : (int)(y))
#define MAP_STEM left_shift
#define MAP_EXPR(x, y) ((WRAP)(x) << AT_MOST_BITS(y))
#include "kernels/cpu/loops/map2_ints.tmpl.h"
#define MAP_STEM right_shift
#define MAP_EXPR(x, y) ((x) >> AT_MOST_BITS(y))
#include "kernels/cpu/loops/map2_ints.tmpl.h"

#define MAP_STEM population_count
#define MAP_EXPR(x) __builtin_popcountll((uint64_t)(x) << (64 - BITS)) /* no bits but those of the type */
#define MAP_BOOL                                                       /* a byte */
#include "kernels/cpu/loops/map1_ints.tmpl.h"

const weft_kernel_t weft_cpu_bitwise_kernels[] = {
    WEFT_MAP2("BitwiseAnd", WEFT_SET_INTS, bitwise_and, 0),
    WEFT_MAP2("BitwiseOr", WEFT_SET_INTS, bitwise_or, 0),
    WEFT_MAP2("BitwiseXor", WEFT_SET_INTS, bitwise_xor, 0),
    WEFT_MAP1("Invert", WEFT_SET_INTS, invert, 0),
    WEFT_MAP2("LeftShift", WEFT_SET_INTS, left_shift, 0),
    WEFT_MAP1("PopulationCount", WEFT_SET_INTS, population_count, 0),
    WEFT_MAP2("RightShift", WEFT_SET_INTS, right_shift, 0),
    {0},
};
