/* kernels/cpu/array/key_table.h - which numbers are equal: a table of the numbers of a tensor, each with its
 * place among the different ones, in the order in which they come.
 *
 * Numbers compare as C compares them: 0 and -0 are one number, a NaN equals nothing.
 */
#ifndef WEFT_KERNELS_CPU_ARRAY_KEY_TABLE_H_
#define WEFT_KERNELS_CPU_ARRAY_KEY_TABLE_H_

#include "kernels/cpu/loops/common.h"

enum { WEFT_KEY_BLOCK = 256 }; /* elements that one call takes at most */

/* Confined to its caller. */
typedef struct weft_key_table {
  void *slots;  /* owned; NULL: none yet. Open addressing, at most half full */
  int shift;    /* there are 2^(64 - shift) of them */
  bool is_wide; /* keys of 64 bits, or 32 */
  int64_t n;    /* different numbers; each NaN is one */
  int64_t held; /* of these in slots */
} weft_key_table_t;

/* Are elements of this type numbers that a table takes: real ones, and truth values? */
bool weft_has_keys(weft_dtype_t dtype);
/* An empty table for `most` elements of such a type. */
void weft_key_table_init(weft_key_table_t *t, weft_dtype_t dtype, int64_t most);
void weft_key_table_deinit(weft_key_table_t *t);
/* Adds elements [begin, begin + n) of x, n <= WEFT_KEY_BLOCK; places[n] are theirs: t->n - 1 or below, that
 * of an equal one before. False: no memory. */
bool weft_key_table_add(weft_key_table_t *t, const weft_tensor_t *x, int64_t begin, int64_t n,
                        int64_t *places);
/* Which of these elements are in the table. */
void weft_key_table_find(const weft_key_table_t *t, const weft_tensor_t *x, int64_t begin, int64_t n,
                         bool *found);

#endif /* WEFT_KERNELS_CPU_ARRAY_KEY_TABLE_H_ */
