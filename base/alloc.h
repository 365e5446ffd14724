/* base/alloc.h - the only way to get host memory, so that tests can make it fail. */
#ifndef WEFT_BASE_ALLOC_H_
#define WEFT_BASE_ALLOC_H_

#include <stdbool.h>
#include <stddef.h>

/* All of these return NULL when there is no memory, are thread-safe, and give
 * memory that weft_free() takes back. A size of 0 gives a unique pointer. */
void *weft_calloc(size_t n, size_t size);                /* zeroed; n*size is checked for overflow */
void *weft_malloc(size_t size);                          /* not zeroed */
void *weft_realloc(void *p, size_t n, size_t size);      /* n*size is checked; on failure p stays valid */
void *weft_aligned_alloc(size_t alignment, size_t size); /* alignment: a power of two >= sizeof(void*) */
char *weft_strdup(const char *text);
char *weft_strndup(const char *text, size_t length); /* always ends with '\0' */
void weft_free(void *p);                             /* NULL is fine */

/* *out = a*b or a+b; false on overflow, and *out is then untouched. */
bool weft_mul_size(size_t a, size_t b, size_t *out);
bool weft_add_size(size_t a, size_t b, size_t *out);

/* Test hook: the nth allocation from now (0 is the next) fails, once; a
 * negative n turns the hook off. */
void weft_fault_arm(long nth);
bool weft_fault_fired(void); /* has it failed one since the last arm? */

#endif /* WEFT_BASE_ALLOC_H_ */
