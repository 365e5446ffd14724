/* collectives/reduce.tmpl.h - the loops of one dtype.
 *
 * Parameters: REDUCE_SUFFIX; REDUCE_T, how an element is stored; REDUCE_LOAD(x), its
 * value; REDUCE_STORE(v), back; REDUCE_ADD(x, y), REDUCE_MUL(x, y), REDUCE_DIV(x, n) on values;
 * REDUCE_ORDERED if there are min and max. All are undefined below.
 */
#define REDUCE_CAT_(a, b) a##_##b
#define REDUCE_CAT(a, b) REDUCE_CAT_(a, b)
#define REDUCE_NAME(op) REDUCE_CAT(op, REDUCE_SUFFIX)

#define LOOP_OP sum
#define LOOP_EXPR(x, y) REDUCE_ADD(x, y)
#include "collectives/reduce_loop.tmpl.h"
#define LOOP_OP prod
#define LOOP_EXPR(x, y) REDUCE_MUL(x, y)
#include "collectives/reduce_loop.tmpl.h"
#ifdef REDUCE_ORDERED
#define LOOP_OP min
#define LOOP_EXPR(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))
#include "collectives/reduce_loop.tmpl.h"
#define LOOP_OP max
#define LOOP_EXPR(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#include "collectives/reduce_loop.tmpl.h"
#endif

static void REDUCE_NAME(divide)(void *to, int64_t divisor, size_t n) {
  REDUCE_T *x = to;
  for (size_t i = 0; i < n; i++) x[i] = REDUCE_STORE(REDUCE_DIV(REDUCE_LOAD(x[i]), divisor));
}

#undef REDUCE_SUFFIX
#undef REDUCE_T
#undef REDUCE_LOAD
#undef REDUCE_STORE
#undef REDUCE_ADD
#undef REDUCE_MUL
#undef REDUCE_DIV
#undef REDUCE_ORDERED
#undef REDUCE_NAME
#undef REDUCE_CAT
#undef REDUCE_CAT_
