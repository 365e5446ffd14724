/* base/similar.h - "did you mean ...?": the name that is closest to a mistyped one. */
#ifndef WEFT_BASE_SIMILAR_H_
#define WEFT_BASE_SIMILAR_H_

#include "base/str.h"

typedef struct weft_similar { /* Confined. */
  weft_str_t wanted;          /* lent */
  weft_str_t best;            /* lent by the caller that offered it; data NULL while nothing is close */
  int distance;               /* of the best */
} weft_similar_t;

/* Close is: at most a third of the letters inserted, left out, changed or swapped with a neighbour. */
void weft_similar_init(weft_similar_t *s, weft_str_t wanted);
void weft_similar_offer(weft_similar_t *s, weft_str_t candidate);

#endif /* WEFT_BASE_SIMILAR_H_ */
