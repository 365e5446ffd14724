/* base/name_list.h - a list of names in an error text: at most ten of them, then a count.
 *
 * "a, b, c and 990 more". A list from outside (missing ranks, unknown ops, devices) may have any length and
 * its names, too; an error text must not.
 */
#ifndef WEFT_BASE_NAME_LIST_H_
#define WEFT_BASE_NAME_LIST_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
  WEFT_LISTED_NAMES = 10,  /* of one list */
  WEFT_LISTED_BYTES = 200, /* of one name; the rest is "..." */
};

/* Confined. Begins as {0}; owns nothing and never fails. */
typedef struct weft_name_list {
  int64_t n;                                                   /* names that were added, listed or not */
  size_t length;                                               /* of the names in `text` */
  char text[WEFT_LISTED_NAMES * (WEFT_LISTED_BYTES + 5) + 32]; /* ", " and "..." for each, and the count */
} weft_name_list_t;

void weft_name_list_add(weft_name_list_t *l, const char *fmt, ...) WEFT_PRINTF(2, 3);
/* Whether another name would only be counted: then `n` may be raised instead. */
static inline bool weft_name_list_is_full(const weft_name_list_t *l) { return l->n >= WEFT_LISTED_NAMES; }
/* The text, "" for no names; lent until the next call. */
const char *weft_name_list_text(weft_name_list_t *l);

#endif /* WEFT_BASE_NAME_LIST_H_ */
