/* collectives/rank_set.h - which ranks have arrived, of a group of any size. */
#ifndef WEFT_COLLECTIVES_RANK_SET_H_
#define WEFT_COLLECTIVES_RANK_SET_H_

#include "base/name_list.h"
#include "collectives/transport.h"

typedef struct weft_rank_set {
  uint64_t words[WEFT_MAX_GROUP / 64];
} weft_rank_set_t;

static inline void weft_rank_set_add(weft_rank_set_t *s, int rank) {
  if (rank >= 0 && rank < WEFT_MAX_GROUP) s->words[rank / 64] |= UINT64_C(1) << (rank % 64);
}

/* Lists the ranks below `size` that are not in the set. */
static inline void weft_rank_set_list_missing(const weft_rank_set_t *s, int size, weft_name_list_t *out) {
  for (int rank = 0; rank < size; rank++) {
    if ((s->words[rank / 64] >> (rank % 64) & 1) == 0) weft_name_list_add(out, "%d", rank);
  }
}

#endif /* WEFT_COLLECTIVES_RANK_SET_H_ */
